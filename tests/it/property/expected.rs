//! What a payment desk should answer: a small model of it in memory, of one agent and its orders.
//!
//! It knows nothing of the product's state machine. Where the product may choose (which of the open
//! states), it says only what follows from the promises.

use std::collections::{BTreeMap, BTreeSet};

/// The outcome of a call: fine, or an error's code.
pub(super) type Told = Result<(), &'static str>;

/// A rail that misbehaves once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Refuse,
    RateLimit,
    FailBefore,
    FailAfter,
    DropRequest,
    DropReply,
    Garbage,
    WrongAmount,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    Open,
    /// Signed and sent; `paid` is what really happened, `since` the hour of the attempt.
    InDoubt {
        paid: bool,
        left: bool,
        since: u64,
    },
    /// Signed, and nothing can be sent again.
    Stuck,
    Ended(&'static str),
}

#[derive(Debug, Clone)]
pub(super) struct Payment {
    pub(super) id: String,
    pub(super) stand: Stand,
    pub(super) held: bool,
    pub(super) cancel_pending: bool,
    said: BTreeMap<usize, bool>,
    pub(super) approvals: BTreeSet<usize>,
    request: Request,
    born: u64,
}

/// What makes two requests the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) order: usize,
    pub(super) dear: bool,
    pub(super) supersedes: Option<String>,
}

/// What a create comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Creation {
    New,
    Replay(String),
    Refused(&'static str),
}

/// The agent's orders, the keys it used, the rail's mood, the hour.
#[derive(Debug, Clone, Default)]
pub(super) struct Expected {
    pub(super) payments: Vec<Payment>,
    keys: BTreeMap<usize, (Request, String)>,
    pub(super) fault: Option<Fault>,
    hour: u64,
}

/// A payment is to be decided in a day, and started in the next.
const DAY: u64 = 24;
/// A key is sent again for half the day that the rail keeps it.
const RESEND: u64 = 12;

impl Expected {
    pub(super) fn latest(&self, order: usize) -> Option<&Payment> {
        self.payments.iter().rev().find(|payment| payment.request.order == order)
    }

    fn latest_mut(&mut self, order: usize) -> Option<&mut Payment> {
        self.payments.iter_mut().rev().find(|payment| payment.request.order == order)
    }

    /// What a create would come to now.
    pub(super) fn create(&self, request: &Request, key: Option<usize>) -> Creation {
        if let Some((bound, id)) = key.and_then(|key| self.keys.get(&key)) {
            return if bound == request {
                Creation::Replay(id.clone())
            } else {
                Creation::Refused("IDEMPOTENCY_KEY_REUSED")
            };
        }
        let Some(latest) = self.latest(request.order) else { return Creation::New };
        let ended_unpaid = matches!(latest.stand, Stand::Ended(end) if end != "EXECUTED");
        if request.supersedes.is_some() && !matches!(latest.stand, Stand::Ended(_)) {
            return match latest.stand {
                _ if latest.held => Creation::Refused("PAYMENT_ON_MANUAL_HOLD"),
                Stand::Open => Creation::New,
                _ => Creation::Refused("OUTCOME_UNKNOWN_BLOCKS"),
            };
        }
        match (ended_unpaid, key) {
            (false, None) if latest.request == *request => Creation::Replay(latest.id.clone()),
            (false, _) => Creation::Refused("ORDER_ALREADY_HAS_PAYMENT"),
            (true, Some(_)) => Creation::New,
            (true, None) => Creation::Refused("PAYMENT_TERMINAL"),
        }
    }

    /// A create that came to [`Creation::New`], with the id it was given.
    pub(super) fn created(&mut self, request: Request, key: Option<usize>, id: String) {
        if request.supersedes.is_some()
            && let Some(earlier) = self.latest_mut(request.order).filter(|earlier| earlier.stand == Stand::Open)
        {
            earlier.stand = Stand::Ended("CANCELLED");
        }
        if let Some(key) = key {
            self.keys.insert(key, (request.clone(), id.clone()));
        }
        let (said, approvals, born) = (BTreeMap::new(), BTreeSet::new(), self.hour);
        let (stand, held, cancel_pending) = (Stand::Open, false, false);
        self.payments.push(Payment { id, stand, held, cancel_pending, said, approvals, request, born });
    }

    pub(super) fn notify(&self, order: usize) -> Told {
        let Some(latest) = self.latest(order) else { return Err("PAYMENT_NOT_FOUND") };
        match latest.stand {
            Stand::Ended(_) => Err("PAYMENT_TERMINAL"),
            Stand::Open if latest.held => Err("PAYMENT_ON_MANUAL_HOLD"),
            Stand::Open | Stand::InDoubt { .. } | Stand::Stuck => Ok(()),
        }
    }

    pub(super) fn decide(&mut self, order: usize, who: usize, yes: bool) -> Told {
        let Some(latest) = self.latest_mut(order) else { return Err("PAYMENT_NOT_FOUND") };
        if let Some(before) = latest.said.get(&who) {
            return if *before == yes { Ok(()) } else { Err("NONCE_CONSUMED") };
        }
        match latest.stand {
            Stand::Ended(end) if end != "EXECUTED" => return Err("PAYMENT_TERMINAL"),
            Stand::Open if latest.held => return Err("PAYMENT_ON_MANUAL_HOLD"),
            Stand::Open if yes => drop(latest.approvals.insert(who)),
            Stand::Open => latest.stand = Stand::Ended("REJECTED"),
            Stand::Ended(_) | Stand::InDoubt { .. } | Stand::Stuck => {}
        }
        latest.said.insert(who, yes);
        if latest.stand == Stand::Open && latest.approvals.len() == 2 {
            let (fault, since) = (self.fault.take(), self.hour);
            let doubt = |paid, left| Stand::InDoubt { paid, left, since };
            let stand = match fault {
                None => Stand::Ended("EXECUTED"),
                Some(Fault::Refuse) => Stand::Ended("FAILED"),
                Some(Fault::RateLimit) => doubt(false, false),
                Some(Fault::FailBefore | Fault::DropRequest | Fault::Garbage) => doubt(false, true),
                Some(Fault::FailAfter | Fault::DropReply | Fault::WrongAmount) => doubt(true, true),
            };
            if let Some(latest) = self.latest_mut(order) {
                latest.stand = stand;
            }
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self, order: usize) -> Told {
        let Some(latest) = self.latest_mut(order) else { return Err("PAYMENT_NOT_FOUND") };
        match latest.stand {
            Stand::Ended("CANCELLED") => {}
            Stand::Ended(_) => return Err("PAYMENT_TERMINAL"),
            _ if latest.held => return Err("PAYMENT_ON_MANUAL_HOLD"),
            Stand::Open => latest.stand = Stand::Ended("CANCELLED"),
            Stand::InDoubt { .. } | Stand::Stuck => latest.cancel_pending = true,
        }
        Ok(())
    }

    pub(super) fn hold(&mut self, order: usize) -> Told {
        let Some(latest) = self.latest_mut(order) else { return Err("PAYMENT_NOT_FOUND") };
        match latest.stand {
            Stand::Ended(_) => return Err("PAYMENT_TERMINAL"),
            Stand::InDoubt { .. } | Stand::Stuck => return Err("OUTCOME_UNKNOWN_BLOCKS"),
            Stand::Open => latest.held = true,
        }
        Ok(())
    }

    /// Two people let it go.
    pub(super) fn release(&mut self, order: usize) -> Told {
        let Some(latest) = self.latest_mut(order) else { return Err("PAYMENT_NOT_FOUND") };
        match latest.stand {
            Stand::Ended(_) => return Err("PAYMENT_TERMINAL"),
            _ if !latest.held => return Err("INVALID_ARGUMENT"),
            _ => latest.held = false,
        }
        let hour = self.hour;
        if let Some(latest) = self.latest_mut(order).filter(|latest| hour - latest.born >= DAY) {
            latest.stand = Stand::Ended("EXPIRED");
        }
        Ok(())
    }

    /// Time passes with a rail that works.
    pub(super) fn pass(&mut self, hours: u64) {
        self.hour += hours;
        self.fault = None;
        self.sweep();
    }

    /// What the worker finds now.
    fn sweep(&mut self) {
        let hour = self.hour;
        for payment in &mut self.payments {
            let age = hour - payment.born;
            payment.stand = match payment.stand {
                Stand::Open if age >= DAY && !payment.held => Stand::Ended("EXPIRED"),
                Stand::InDoubt { paid: true, .. } => Stand::Ended("EXECUTED"),
                Stand::InDoubt { left: false, .. } if payment.cancel_pending => Stand::Ended("CANCELLED"),
                Stand::InDoubt { left: false, .. } if age >= 2 * DAY => Stand::Ended("FAILED"),
                Stand::InDoubt { left: false, .. } => Stand::Ended("EXECUTED"),
                Stand::InDoubt { since, .. } if payment.cancel_pending || hour - since >= RESEND => Stand::Stuck,
                Stand::InDoubt { .. } => Stand::Ended("EXECUTED"),
                other @ (Stand::Open | Stand::Stuck | Stand::Ended(_)) => other,
            };
        }
    }
}
