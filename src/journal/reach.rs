//! Reaching the signers: register once a round, notify by number, give up into a person's hands.

use super::asking::{Whom, notify_key};
use super::attempt::{Intent, Settlement, signer_refusal, signer_trouble, verdict};
use super::forgotten::says_unknown;
use super::ports::{Cause, Notified, Outcome, Receipt, Registered, Registration};
use super::reading::{challenge_of, is_open};
use super::recorded::Started;
use super::{Act, Journal, Selector, again, lost_race};
use crate::crash::{self, Point};
use crate::domain::{Asker, Code, Event, Payment, Principal, Reach, Refusal, SignerTrouble, Terms, is_barred};
use crate::store::{EffectKind, EffectState, Lease};

/// What a request to reach the signers came to.
#[derive(Debug, Clone)]
pub struct Reaching {
    /// The payment now.
    pub payment: Payment,
    /// Trouble with the signer service itself, if that is why nobody was reached.
    pub trouble: Option<Refusal>,
}

impl Journal {
    /// Reaches the signers now, on a caller's request.
    ///
    /// Does nothing beyond what is already under way: an agent's repeated call uses no attempt up.
    ///
    /// *Errors*: `PAYMENT_ON_MANUAL_HOLD`, `PAYMENT_TERMINAL`.
    pub async fn notify(&self, who: &Principal, selector: &Selector, asker: Asker) -> Result<Reaching, Refusal> {
        again(|| Box::pin(self.try_notify(who, selector, asker))).await
    }

    async fn try_notify(&self, who: &Principal, selector: &Selector, asker: Asker) -> Result<Reaching, Refusal> {
        let mut tx = self.store.begin().await?;
        let payment = Self::select(&mut tx, who, selector).await?;
        let actor = who.actor();
        let applied =
            self.change(&mut tx, &payment, Event::NotifyRequested(asker), Act::new(&actor, "notify.requested")).await?;
        let due = is_open(&applied.payment) && applied.payment.notice.next_at.is_some_and(|at| at <= tx.now());
        let token = self.mint_token(&tx);
        let until = tx.now().plus(self.rules.timing.lease);
        let payment_id = payment.terms.payment_id.to_string();
        let tenant = payment.terms.tenant.to_string();
        let lease = Lease { payment_id: payment_id.clone(), tenant, token, claimed_at: tx.now(), claims: 0 };
        let claimed = due && tx.claim(&payment_id, &self.rules.node, &lease.token, until).await?;
        crash::at(Point::NotifyBeforeCommit);
        tx.commit().await?;
        crash::at(Point::NotifyAfterCommit);
        if !claimed {
            // Not due, or the worker is at it this moment.
            return Ok(Reaching { payment: applied.payment, trouble: None });
        }
        let done = self.reach(&lease, applied.payment, true).await;
        if done.as_ref().is_err_and(|refusal| lost_race(refusal) || refusal.code == Code::PaymentOnManualHold) {
            // Held, decided or called off since it was claimed.
            self.release(&lease).await?;
        }
        done
    }

    /// Registers the round if need be, then notifies. The caller holds the lease; `last` gives it back.
    #[tracing::instrument(name = "journal.signers.reach", skip_all, fields(payment.id = %payment.terms.payment_id))]
    pub(super) async fn reach(&self, lease: &Lease, payment: Payment, last: bool) -> Result<Reaching, Refusal> {
        let (reaching, forgotten) = Box::pin(self.attempt(lease, payment, last, true)).await?;
        if !forgotten {
            return Ok(reaching);
        }
        if !is_open(&reaching.payment) {
            if last {
                self.release(lease).await?;
            }
            return Ok(reaching);
        }
        // Once: a service that forgets it again at once has this attempt used up.
        Ok(Box::pin(self.attempt(lease, reaching.payment, last, false)).await?.0)
    }

    /// One attempt; and whether the signer service has forgotten the payment, which only counts where `anew`: the lease is
    /// kept then.
    async fn attempt(
        &self,
        lease: &Lease,
        payment: Payment,
        last: bool,
        anew: bool,
    ) -> Result<(Reaching, bool), Refusal> {
        let registered = match self.ensure_registered(lease, payment).await? {
            Ok(payment) => payment,
            Err((payment, trouble)) => {
                if last {
                    self.release(lease).await?;
                }
                let trouble = signer_refusal(trouble, &payment);
                return Ok((Reaching { payment, trouble: Some(trouble) }, false));
            }
        };
        if !is_open(&registered) {
            if last {
                self.release(lease).await?;
            }
            return Ok((Reaching { payment: registered, trouble: None }, false));
        }
        self.send_notification(lease, last, anew).await
    }

    async fn send_notification(&self, lease: &Lease, last: bool, anew: bool) -> Result<(Reaching, bool), Refusal> {
        let started = Started::now(&self.clock);
        let mut tx = self.store.begin().await?;
        let payment = self.under_lease(&mut tx, lease).await?;
        let number = payment.notice.settled.saturating_add(1);
        let Whom { signers, since } = self.whom(&mut tx, &payment).await?;
        let intent = Intent {
            kind: EffectKind::SignerNotify,
            key: notify_key(&payment, number),
            target: payment.notice.signer_ref.clone(),
            body: self.signer.prepare_notify(payment.round, number, &signers),
        };
        let (payment, recorded) = self.record(tx, started, &payment, vec![Event::NotifyStarted], intent).await?;
        let outcome = self.signer.notify(&recorded).await;
        let (state, words) = verdict(&outcome);
        let forgotten =
            anew && outcome.refusal().is_some_and(says_unknown) && self.may_register_again(&payment).await?;
        if forgotten {
            let settlement = Settlement {
                kind: EffectKind::SignerNotify,
                key: recorded.key(),
                state,
                outcome: words,
                event: Event::Forgotten { signer_ref: recorded.target().to_owned(), number },
                release: None,
            };
            let payment = self.settle(payment.terms.payment_id.as_str(), settlement).await?;
            return Ok((Reaching { payment, trouble: None }, true));
        }
        let (reach, outcome) = match outcome {
            Outcome::Done(Notified { unreachable: None, receipts }) => {
                // Whom an earlier attempt at it asked, it asks again.
                let asked = self.signer.asked_in(recorded.body());
                let reach = self.reach_of(&payment, number, &asked, &receipts).await?;
                let levels = &payment.terms.policy.levels;
                let deputies = asked.iter().any(|signer| !levels.iter().any(|level| level.has(signer.as_str())));
                let words = if reach == Reach::Unreachable { "not enough reached".to_owned() } else { words };
                let words = if deputies { format!("{words}; deputies asked") } else { words };
                (reach, and_receipts(words, &receipts))
            }
            Outcome::Done(Notified { unreachable: Some(reason), receipts }) => {
                (Reach::Unreachable, and_receipts(format!("unreachable: {reason}"), &receipts))
            }
            Outcome::Refused(trouble) | Outcome::NotSent(trouble) | Outcome::Unknown(trouble) => {
                (Reach::Troubled(signer_trouble(&trouble)), words)
            }
        };
        let trouble = match &reach {
            Reach::Troubled(trouble) => Some(*trouble),
            Reach::Reached | Reach::UnderWay | Reach::Unreachable => None,
        };
        let settlement = Settlement {
            kind: EffectKind::SignerNotify,
            key: recorded.key(),
            state,
            outcome,
            event: Event::Notified { number, since, reach },
            release: last.then_some(lease),
        };
        let payment = self.settle(payment.terms.payment_id.as_str(), settlement).await?;
        let trouble = trouble.map(|trouble| signer_refusal(trouble, &payment));
        Ok((Reaching { payment, trouble }, false))
    }

    /// Makes the payment's round known to the signer service, once; and again where that has forgotten it.
    ///
    /// The inner error is the signer service's trouble with the payment as it stands then.
    pub(super) async fn ensure_registered(
        &self,
        lease: &Lease,
        payment: Payment,
    ) -> Result<Result<Payment, (Payment, SignerTrouble)>, Refusal> {
        if payment.notice.registered_round >= payment.round {
            return Ok(Ok(payment));
        }
        let kind = EffectKind::SignerRegister;
        let payment_id = payment.terms.payment_id.to_string();
        let key = self.key_to_register(&payment).await?;
        if let Some(known) = self.registered_before(&key, &payment).await? {
            let settlement = Settlement {
                kind,
                key: &key,
                state: EffectState::Done,
                outcome: "found by look-up".to_owned(),
                event: Event::Registered { signer_ref: known.id, round: known.round },
                release: None,
            };
            return Ok(Ok(self.settle(&payment_id, settlement).await?));
        }
        let started = Started::now(&self.clock);
        let mut tx = self.store.begin().await?;
        let payment = self.under_lease(&mut tx, lease).await?;
        let challenges = tx.challenges(&payment_id, payment.round).await?;
        let registration = Registration {
            reference: payment_id.clone(),
            round: payment.round,
            payload: payment.document.clone(),
            payment_digest: payment.digest.clone(),
            // Who asks, or is paid, may not decide: the pages and inboxes there are not to ask them.
            challenges: challenges.iter().filter(|asked| !bars(&payment, &asked.signer_id)).map(challenge_of).collect(),
            expires_at: payment.terms.expires_at,
            confirmations: payment.terms.policy.confirmations(),
        };
        let intent = Intent { kind, key, target: String::new(), body: self.signer.prepare_register(&registration) };
        let (payment, recorded) = self.record(tx, started, &payment, vec![Event::NotifyStarted], intent).await?;
        let outcome = self.signer.register(&recorded).await;
        let (state, words) = verdict(&outcome);
        let (event, trouble) = match outcome {
            Outcome::Done(Registered { id, round }) => (Event::Registered { signer_ref: id, round }, None),
            Outcome::Refused(trouble) | Outcome::NotSent(trouble) | Outcome::Unknown(trouble) => {
                let trouble = signer_trouble(&trouble);
                (Event::RegisterTroubled(trouble), Some(trouble))
            }
        };
        let settlement = Settlement { kind, key: recorded.key(), state, outcome: words, event, release: None };
        let payment = self.settle(payment.terms.payment_id.as_str(), settlement).await?;
        Ok(match trouble {
            None => Ok(payment),
            Some(trouble) => Err((payment, trouble)),
        })
    }

    /// Asks first when an earlier attempt to register is in doubt.
    async fn registered_before(&self, key: &str, payment: &Payment) -> Result<Option<Registered>, Refusal> {
        let earlier = self.store.read().await?.effect(key).await?;
        let in_doubt = earlier.is_some_and(|row| {
            row.state == EffectState::Intended.as_str() || row.state == EffectState::Unknown.as_str()
        });
        if !in_doubt {
            return Ok(None);
        }
        let found = self.signer.find(payment.terms.payment_id.as_str()).await;
        Ok(found.ok().flatten().filter(|known| known.round == payment.round))
    }

    /// Tells the signer service that no more decisions are wanted. The caller holds the lease.
    pub(super) async fn tell_closed(&self, lease: &Lease) -> Result<Payment, Refusal> {
        let started = Started::now(&self.clock);
        let kind = EffectKind::SignerCancel;
        let mut tx = self.store.begin().await?;
        let payment = self.under_lease(&mut tx, lease).await?;
        let payment_id = payment.terms.payment_id.to_string();
        let intent = Intent {
            kind,
            key: format!("{payment_id}:{}:r{}", kind.as_str(), payment.round),
            target: payment.notice.signer_ref.clone(),
            body: self.signer.prepare_close(payment.round, closing_word(&payment)),
        };
        let (_, recorded) = self.record(tx, started, &payment, Vec::new(), intent).await?;
        let outcome = self.signer.close(&recorded).await;
        let (state, words) = verdict(&outcome);
        // Its refusal is the last word, unless it is our key that it refuses: that gets mended.
        let done = match &outcome {
            Outcome::Done(()) => true,
            Outcome::Refused(trouble) => trouble.cause != Cause::Unauthorized,
            Outcome::NotSent(_) | Outcome::Unknown(_) => false,
        };
        let settlement = Settlement {
            kind,
            key: recorded.key(),
            state,
            outcome: words,
            event: Event::CloseTold { done },
            release: None,
        };
        self.settle(&payment_id, settlement).await
    }
}

/// What a notification came to, and for whom.
fn and_receipts(words: String, receipts: &[Receipt]) -> String {
    if receipts.is_empty() { words } else { format!("{words}; {}", with_receipts(receipts)) }
}

/// What became of each message.
pub(super) fn with_receipts(receipts: &[Receipt]) -> String {
    receipts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Whether the payment is one that this account may not decide.
fn bars(payment: &Payment, account: &str) -> bool {
    let Terms { policy, .. } = &payment.terms;
    account.parse().is_ok_and(|signer| is_barred(policy, &payment.terms, &signer))
}

/// Why no more decisions are wanted, in the signer contract's words.
fn closing_word(payment: &Payment) -> &'static str {
    use crate::domain::Status;
    match payment.status {
        Status::Created
        | Status::AwaitingSigner
        | Status::SignerUnreachable
        | Status::NeedManual
        | Status::Cancelled => "cancelled",
        Status::Signed | Status::Executed => "signed",
        Status::Rejected => "rejected",
        Status::Expired => "expired",
        Status::Failed => "failed",
    }
}
