//! A signer service that has lost what it was told: its database is gone, or older than the payment.
//!
//! It says so with 404 `unknown_payment` about an id of its own. The same round is then registered anew, with the same
//! document and challenges under another key, as the old key was answered. *Invariant*: a round is registered at most
//! [`MOST_REGISTRATIONS`] times; after that the answer is trouble like any other, and attempts run out.

use super::ports::{Cause, Trouble};
use super::{Act, Journal, again};
use crate::domain::{Event, Payment, Refusal};
use crate::store::{EffectKind, EffectState};

/// How often a round is registered; a database is not lost more often than that.
const MOST_REGISTRATIONS: usize = 8;

/// Whether the signer service says that it does not know a payment.
pub(super) fn says_unknown(trouble: &Trouble) -> bool {
    trouble.cause == Cause::NotFound && trouble.code.as_deref() == Some("unknown_payment")
}

/// The outbound key of a round's registration, `answered` of which came to their end before.
fn register_key(payment: &Payment, answered: usize) -> String {
    let first = format!("{}:{}:r{}", payment.terms.payment_id, EffectKind::SignerRegister.as_str(), payment.round);
    if answered == 0 { first } else { format!("{first}:again{answered}") }
}

impl Journal {
    /// The outbound key that the payment's round is registered with now: one that is in doubt is kept.
    pub(super) async fn key_to_register(&self, payment: &Payment) -> Result<String, Refusal> {
        Ok(register_key(payment, self.registrations(payment).await?))
    }

    /// How many registrations of the payment's round came to their end.
    async fn registrations(&self, payment: &Payment) -> Result<usize, Refusal> {
        let sent = self.store.read().await?.effects_of(payment.terms.payment_id.as_str()).await?;
        let first = register_key(payment, 0);
        let more = format!("{first}:again");
        let of_round = |key: &str| key == first || key.starts_with(&more);
        let done = sent.iter().filter(|row| row.state == EffectState::Done.as_str() && of_round(&row.outbound_key));
        Ok(done.count())
    }

    /// Whether a round that the signer service does not know any more may be registered once more.
    pub(super) async fn may_register_again(&self, payment: &Payment) -> Result<bool, Refusal> {
        let may = self.registrations(payment).await? < MOST_REGISTRATIONS;
        if !may {
            let id = payment.terms.payment_id.as_str();
            tracing::error!(
                payment.id = id,
                "the signer service loses a payment again and again; it is registered no more"
            );
        }
        Ok(may)
    }

    /// Takes in that the signer service does not know the payment any more; `None` where that moves nothing more.
    pub(super) async fn forget(&self, payment: &Payment) -> Result<Option<Payment>, Refusal> {
        if !self.may_register_again(payment).await? {
            return Ok(None);
        }
        again(|| self.try_forget(payment)).await.map(Some)
    }

    async fn try_forget(&self, payment: &Payment) -> Result<Payment, Refusal> {
        let mut tx = self.store.begin().await?;
        let Some(current) = tx.payment_for_work(payment.terms.payment_id.as_str()).await? else {
            return Ok(payment.clone());
        };
        let actor = self.worker_actor();
        let event = Event::Forgotten { signer_ref: payment.notice.signer_ref.clone(), number: 0 };
        let applied = self.change(&mut tx, &current, event, Act::new(&actor, "signer.forgotten")).await?;
        tx.commit().await?;
        self.announce(&applied);
        Ok(applied.payment)
    }
}
