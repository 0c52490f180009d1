//! Callbacks of the signer service: verified before they get here, seen once, a hint to look.

use super::{Act, Journal, again};
use crate::crash::{self, Point};
use crate::domain::{Code, Event, Refusal};

impl Journal {
    /// Notes that the signer service has news of a payment; the worker then asks it.
    ///
    /// Returns whether the event was new. *Errors*: `PAYMENT_NOT_FOUND`, and nothing is remembered,
    /// so that the sender repeats it; `STORE_UNAVAILABLE` likewise.
    pub async fn hint(&self, event_id: &str, payment_id: &str) -> Result<bool, Refusal> {
        again(|| self.try_hint(event_id, payment_id)).await
    }

    async fn try_hint(&self, event_id: &str, payment_id: &str) -> Result<bool, Refusal> {
        let mut tx = self.store.begin().await?;
        let payment = tx
            .payment_for_work(payment_id)
            .await?
            .ok_or_else(|| Refusal::new(Code::PaymentNotFound, "the callback names no payment of ours"))?;
        if !tx.remember_callback("signer", event_id, payment_id).await? {
            return Ok(false);
        }
        let applied = self
            .change(&mut tx, &payment, Event::Hinted, Act::new("signer-service", "callback.received").because(event_id))
            .await?;
        crash::at(Point::HintBeforeCommit);
        tx.commit().await?;
        crash::at(Point::HintAfterCommit);
        self.announce(&applied);
        Ok(true)
    }
}
