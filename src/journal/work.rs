//! Due work: claimed in batches, one payment at a time, recovery included.
//!
//! Recovery is not a mode: a payment whose lease ended with an attempt open is simply due, and what
//! is done for it asks before it repeats.

use super::reading::is_open;
use super::{Act, Journal, lost_race};
use crate::domain::{Code, Event, Payment, Refusal, Stage};
use crate::store::Lease;

/// What a tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Payments claimed.
    pub claimed: usize,
    /// Payments whose work failed; they are due again when their lease ends.
    pub failed: usize,
}

impl Journal {
    /// Does what is due now, once. One query when nothing is.
    ///
    /// *Errors*: `STORE_UNAVAILABLE`; what was claimed is due again when its lease ends.
    pub async fn tick(&self) -> Result<Progress, Refusal> {
        let leases = self.claim_due(self.rules.batch).await?;
        let claimed = leases.len();
        let work = leases.iter().map(|lease| self.attend(lease));
        let failed = futures::future::join_all(work).await.into_iter().filter(|done| !done).count();
        Ok(Progress { claimed, failed })
    }

    /// Claims up to `most` payments that are due; one query when none is.
    pub async fn claim_due(&self, most: i64) -> Result<Vec<Lease>, Refusal> {
        let (due, now) = self.store.next_due().await?;
        if due.is_none_or(|at| at > now) || most <= 0 {
            return Ok(Vec::new());
        }
        let mut tx = self.store.begin().await?;
        if !self.may_work(&mut tx).await? {
            // A restore that was found out just now is stored.
            tx.commit().await?;
            return Ok(Vec::new());
        }
        let token = self.mint_token(&tx);
        let until = tx.now().plus(self.rules.timing.lease);
        let leases = tx.claim_due(&self.rules.node, &token, until, most).await?;
        tx.commit().await?;
        Ok(leases)
    }

    /// Does what one claimed payment needs; whether that went well.
    pub async fn attend(&self, lease: &Lease) -> bool {
        let done = match Box::pin(self.work(lease)).await {
            // Held since it was claimed: nothing is to be done until two people let it go.
            Err(refusal) if refusal.code == Code::PaymentOnManualHold => self.release(lease).await,
            done => done,
        };
        if let Err(refusal) = &done
            && !lost_race(refusal)
        {
            tracing::warn!(payment.id = %lease.payment_id, error = %refusal, "due work failed; it is tried again when its lease ends");
        }
        done.is_ok()
    }

    #[tracing::instrument(name = "worker.payment.work", skip_all, fields(payment.id = %lease.payment_id))]
    async fn work(&self, lease: &Lease) -> Result<(), Refusal> {
        let Some(payment) = self.store.read().await?.payment_for_work(&lease.payment_id).await? else {
            return self.release(lease).await;
        };
        crate::telemetry::trace_context::add_link(&tracing::Span::current(), &payment.terms.traceparent);
        let mut payment = self.deadline(payment, lease).await?;
        let now = lease.claimed_at;
        match payment.status.stage() {
            Stage::Open => {
                if payment.notice.check_at.is_some_and(|at| at <= now) {
                    payment = self.check_on_schedule(payment).await?;
                }
                if is_open(&payment) && payment.notice.next_at.is_some_and(|at| at <= now) {
                    payment = self.reach(lease, payment, false).await?.payment;
                }
            }
            Stage::Signed => payment = self.execute(lease, payment).await?,
            Stage::Ended => {}
        }
        if payment.closing.tell_at.is_some_and(|at| at <= now) {
            self.tell_closed(lease).await?;
        }
        self.release(lease).await
    }

    /// Ends what has run out of time.
    async fn deadline(&self, payment: Payment, lease: &Lease) -> Result<Payment, Refusal> {
        let moment = crate::domain::Moment { now: lease.claimed_at, roll: 0, timing: &self.rules.timing };
        if !crate::domain::apply(&payment, Event::Deadline, &moment)?.changed(&payment) {
            return Ok(payment);
        }
        let mut tx = self.store.begin().await?;
        let current = self.under_lease(&mut tx, lease).await?;
        let actor = self.worker_actor();
        let applied = self.change(&mut tx, &current, Event::Deadline, Act::new(&actor, "payment.deadline")).await?;
        tx.commit().await?;
        self.announce(&applied);
        Ok(applied.payment)
    }
}
