//! The state machine: one pure function from a payment and an event to the next payment.
//!
//! `event` names what can happen; `signing` handles it up to the quorum and `rail` after it. Each arm
//! names every [`Stage`] it can meet; there is no wildcard. Ended payments absorb: evidence that
//! contradicts one raises attention, never a transition.

mod event;
mod person;
mod rail;
mod restored;
mod signing;

use std::time::Duration;

pub use event::{Asker, Effect, Event, Finding, Reach, SignerTrouble};

use super::attention::Attention;
use super::backoff::Backoff;
use super::payment::{Closing, Payment, Stage};
use super::refusal::Refusal;
use super::reminders::Reminders;
use super::time::Timestamp;
use person::{attest_executed, attest_not_executed, hold, reassign, release, supersede};
use rail::{
    confirmed, differs, execution_intended, found_refused, in_doubt, looked_up, not_sent, not_there, policy_denied,
    quorum_lost, refused, send_started,
};
use restored::{asked_anew, intent_recovered, not_again, paid_unseen};
use signing::{
    Decided, cancel, deadline, decided, forgotten, notified, notify_requested, notify_started, registered, troubled,
    unreached,
};

/// The spans that transitions go by; configuration, never the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Waits between attempts to reach the signers.
    pub notify: Backoff,
    /// When people who were reached are asked again.
    pub reminders: Reminders,
    /// Between questions to the signer service for decisions.
    pub check_every: Duration,
    /// Waits between look-ups and between sends of what was provably not sent. Never used up.
    pub query: Backoff,
    /// How long an attempt may run before others may take over.
    pub lease: Duration,
    /// How long "not found" may still mean "not yet visible".
    pub read_lag: Duration,
    /// How long the same key may be sent again after the first send; `None` for never.
    pub resend_window: Option<Duration>,
    /// How long after the last attempt it can no longer arrive: the rail's key lifetime and read lag.
    pub settle_after: Duration,
}

/// When, and with which spans and chance, an event is applied.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The store's time.
    pub now: Timestamp,
    /// A random number for jitter.
    pub roll: u64,
    /// The spans.
    pub timing: &'a Timing,
}

impl Moment<'_> {
    fn query_at(&self, done: u32) -> Timestamp {
        let wait = self.timing.query.after(done.max(1), self.roll).unwrap_or(self.timing.query.cap);
        self.now.plus(wait)
    }
}

/// A transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The payment after the event; its version is one higher if anything changed.
    pub payment: Payment,
    /// What follows.
    pub effects: Vec<Effect>,
}

impl Applied {
    /// Whether anything is to be stored.
    pub fn changed(&self, before: &Payment) -> bool {
        self.payment.version != before.version
    }
}

/// Applies `event` to `payment`.
///
/// *Errors*: the refusal that the caller sees; the payment is then unchanged.
pub fn apply(payment: &Payment, event: Event, moment: &Moment<'_>) -> Result<Applied, Refusal> {
    let mut next = payment.clone();
    match event {
        Event::NotifyRequested(asker) => notify_requested(&mut next, asker, moment)?,
        Event::NotifyStarted => notify_started(&mut next, moment)?,
        Event::Registered { signer_ref, round } => registered(&mut next, signer_ref, round, moment),
        Event::Notified { number, since, reach } => notified(&mut next, number, since, &reach, moment),
        Event::Unreached { number } => unreached(&mut next, number, moment),
        Event::Forgotten { signer_ref, number } => forgotten(&mut next, &signer_ref, number, moment),
        Event::RegisterTroubled(trouble) => troubled(&mut next, trouble, moment),
        Event::Hinted => match next.status.stage() {
            Stage::Open => next.notice.check_at = Some(moment.now),
            Stage::Signed | Stage::Ended => {}
        },
        Event::Checked => match next.status.stage() {
            Stage::Open => next.notice.check_at = Some(moment.now.plus(moment.timing.check_every)),
            Stage::Signed | Stage::Ended => next.notice.check_at = None,
        },
        Event::Decided { round, standing, advanced, reason, counter_back } => {
            decided(&mut next, Decided { round, standing, advanced, reason, counter_back }, moment)?;
        }
        Event::Deadline => deadline(&mut next, moment),
        Event::Cancel => cancel(&mut next, moment)?,
        Event::PolicyDenied { reason } => policy_denied(&mut next, reason)?,
        Event::QuorumLost { reason, policy, document, digest } => {
            next.terms.policy = *policy;
            quorum_lost(&mut next, reason, document, digest, moment)?;
        }
        Event::ExecutionIntended => execution_intended(&mut next, moment)?,
        Event::SendStarted => send_started(&mut next, moment)?,
        Event::RailConfirmed { transfer_id, group } => confirmed(&mut next, transfer_id, Some(group)),
        Event::LookedUp(Finding::Found { transfer_id }) => confirmed(&mut next, transfer_id, None),
        // An outcome speaks of its own key: it says nothing about attempts under another.
        Event::RailRefused { group, .. } | Event::RailNotSent { group, .. } | Event::RailUnknown { group, .. }
            if group != next.execution.group => {}
        Event::RailRefused { code, .. } => refused(&mut next, code, moment),
        Event::RailNotSent { retry_after, .. } => not_sent(&mut next, retry_after, moment),
        Event::RailUnknown { mismatch: true, .. } => {
            differs(&mut next);
            in_doubt(&mut next, None, moment);
        }
        Event::RailUnknown { mismatch: false, .. } => in_doubt(&mut next, None, moment),
        Event::LookedUp(Finding::FoundRefused { code }) => found_refused(&mut next, code, moment),
        Event::LookedUp(Finding::Differs) => {
            differs(&mut next);
            looked_up(&mut next, None, moment);
        }
        Event::LookedUp(Finding::NotFound) if next.unasked() => not_there(&mut next, moment),
        Event::LookedUp(Finding::NotFound) => {
            let attention = if next.execution.cancel_requested_at.is_some() {
                Some(Attention::CancelWhileUnknown)
            } else if next.execution.resend_until.is_none_or(|until| moment.now >= until) {
                Some(Attention::ResendWindowClosed)
            } else {
                None
            };
            looked_up(&mut next, attention, moment);
        }
        Event::LookedUp(Finding::Inconclusive) => looked_up(&mut next, None, moment),
        Event::CloseTold { done } => close_told(&mut next, done, moment),
        Event::ContextSpent => match next.status.stage() {
            Stage::Open | Stage::Signed => drop(next.attention.insert(Attention::ContextBudgetSpent)),
            Stage::Ended => {}
        },
        Event::InvariantBroken => drop(next.attention.insert(Attention::InvariantBroken)),
        Event::IntentRecovered => intent_recovered(&mut next, moment)?,
        Event::PaidUnseen => paid_unseen(&mut next, moment),
        Event::AskedAnew { document, digest } => asked_anew(&mut next, document, digest, moment),
        Event::NotAgain => not_again(&mut next, moment),
        Event::Superseded => supersede(&mut next)?,
        Event::Held => hold(&mut next, moment)?,
        Event::Released => release(&mut next, moment)?,
        Event::AttestedExecuted { reference } => attest_executed(&mut next, reference)?,
        Event::AttestedNotExecuted => attest_not_executed(&mut next, moment)?,
        Event::Reassigned { signer } => reassign(&mut next, signer, moment)?,
    }
    Ok(finish(payment, next, moment))
}

/// Counts the version and derives what follows; an event that changed nothing changes nothing.
fn finish(before: &Payment, mut next: Payment, moment: &Moment<'_>) -> Applied {
    let mut effects = Vec::new();
    if next == *before {
        return Applied { payment: next, effects };
    }
    let (from, to) = (before.status, next.status);
    if from.stage() == Stage::Open && to.stage() != Stage::Open {
        next.notice.next_at = None;
        next.notice.check_at = None;
        if !next.notice.signer_ref.is_empty() {
            next.closing = Closing { tell_at: Some(moment.now), attempts: 0 };
        }
    }
    if to.stage() == Stage::Ended {
        next.execution.next_at = None;
        // Nobody can let go of what has ended.
        next.held_at = None;
        // It asked that an agent be stopped, and about what has ended there is nothing left to ask.
        next.attention.remove(&Attention::ContextBudgetSpent);
    }
    if from != to {
        effects.push(Effect::Announce { from, to });
    }
    effects.extend(next.attention.difference(&before.attention).copied().map(Effect::Raise));
    next.version = next.version.saturating_add(1);
    next.updated_at = moment.now;
    Applied { payment: next, effects }
}

/// How often the signer service is told of the end before it is left to find out by itself.
const TELL_ATTEMPTS: u32 = 8;

fn close_told(next: &mut Payment, done: bool, moment: &Moment<'_>) {
    if next.closing.tell_at.is_none() {
        return;
    }
    next.closing.attempts = next.closing.attempts.saturating_add(1);
    next.closing.tell_at =
        (!done && next.closing.attempts < TELL_ATTEMPTS).then(|| moment.query_at(next.closing.attempts));
}
