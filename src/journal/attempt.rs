//! One attempt at a side effect: the two transactions around it.

use super::history::contradicted;
use super::ports::{Cause, Outcome, Trouble};
use super::recorded::{Recorded, Started};
use super::{Act, Journal, again, unless_restoring};
use crate::crash::{self, Point};
use crate::domain::{Code, EffectId, Event, Payment, Refusal};
use crate::store::{EffectKind, EffectState, Lease, NewEffect, Tx};
use crate::telemetry::metrics::metrics;

/// A side effect about to be recorded.
pub(super) struct Intent {
    pub(super) kind: EffectKind,
    /// Subject, effect and attempt group; never an attempt number.
    pub(super) key: String,
    pub(super) target: String,
    pub(super) body: String,
}

/// What an attempt came to, for the second transaction.
pub(super) struct Settlement<'a> {
    pub(super) kind: EffectKind,
    pub(super) key: &'a str,
    pub(super) state: EffectState,
    /// A stable word or the trouble, for the effect's row and the audit.
    pub(super) outcome: String,
    pub(super) event: Event,
    /// Given back in the same transaction.
    pub(super) release: Option<&'a Lease>,
}

impl Journal {
    /// Renews the lease inside `tx` and reads the payment afresh.
    ///
    /// *Errors*: `VERSION_CONFLICT` when another has taken over: stop, and touch nothing.
    pub(super) async fn under_lease(&self, tx: &mut Tx, lease: &Lease) -> Result<Payment, Refusal> {
        let until = tx.now().plus(self.rules.timing.lease);
        if !tx.renew(lease, until).await? {
            return Err(Refusal::new(Code::VersionConflict, "another process has taken this payment over"));
        }
        tx.payment_for_work(&lease.payment_id)
            .await?
            .ok_or_else(|| Refusal::new(Code::Internal, "a leased payment is missing"))
    }

    /// Writes the intent and its attempt, and commits: the first transaction.
    ///
    /// `events` are applied in order before the intent. The returned [`Recorded`] may be sent once.
    /// *Crash*: before the commit nothing happened; after it the row says an attempt may be out.
    pub(super) async fn record(
        &self,
        mut tx: Tx,
        started: Started,
        payment: &Payment,
        events: Vec<Event>,
        intent: Intent,
    ) -> Result<(Payment, Recorded), Refusal> {
        if intent.kind == EffectKind::RailExecute {
            let terms = &payment.terms;
            let audited = tx.audit_of(terms.tenant.as_str(), terms.payment_id.as_str()).await?;
            if let Some(invariant) = contradicted(payment, &audited) {
                // A hand in the database has changed the row.
                return Err(self.suspect(payment, invariant));
            }
        }
        let actor = self.worker_actor();
        let mut current = payment.clone();
        let mut steps = Vec::new();
        for event in events {
            let word = format!("{}.intended", intent.kind.as_str());
            let act = Act::new(&actor, &word).with(intent.body.clone());
            let applied = self.change(&mut tx, &current, event, act).await?;
            current = applied.payment.clone();
            steps.push(applied);
        }
        if current.version == payment.version {
            // No update of the payment has asked.
            unless_restoring(&mut tx).await?;
        }
        let row = tx
            .intend(&NewEffect {
                effect_id: EffectId::mint(tx.now(), self.entropy.u128()).to_string(),
                key: &intent.key,
                tenant: payment.terms.tenant.as_str(),
                payment_id: payment.terms.payment_id.as_str(),
                kind: intent.kind,
                target: &intent.target,
                body: &intent.body,
                traceparent: &crate::telemetry::trace_context::current_traceparent(),
            })
            .await?;
        crash::on(intent.kind.as_str(), Point::IntentBeforeCommit);
        let at = tx.now();
        tx.commit().await?;
        if intent.kind == EffectKind::RailExecute {
            self.known.committed(&row, at);
        }
        crash::on(intent.kind.as_str(), Point::IntentAfterCommit);
        for applied in &steps {
            self.announce(applied);
        }
        Ok((current, Recorded::mint(row, started, self.rules.send_within)))
    }

    /// Stores what the attempt came to: the second transaction.
    ///
    /// Fenced by version, not by lease: a confirmed result is recordable by whoever learns it, and
    /// the state machine makes every late or repeated outcome harmless.
    pub(super) async fn settle(&self, payment_id: &str, settlement: Settlement<'_>) -> Result<Payment, Refusal> {
        self.settle_with(payment_id, settlement, "").await
    }

    /// The same, with the rail's word beside it: the canonical receipt, empty where there is none.
    pub(super) async fn settle_with(
        &self,
        payment_id: &str,
        settlement: Settlement<'_>,
        receipt: &str,
    ) -> Result<Payment, Refusal> {
        metrics().effect(settlement.kind.as_str(), settlement.state.as_str());
        again(|| self.try_settle(payment_id, &settlement, receipt)).await
    }

    async fn try_settle(
        &self,
        payment_id: &str,
        settlement: &Settlement<'_>,
        receipt: &str,
    ) -> Result<Payment, Refusal> {
        let mut tx = self.store.begin().await?;
        let payment = tx
            .payment_for_work(payment_id)
            .await?
            .ok_or_else(|| Refusal::new(Code::Internal, "the payment of an effect is missing"))?;
        tx.settle(settlement.key, settlement.state, &settlement.outcome).await?;
        keep(&mut tx, settlement.key, payment_id, receipt).await?;
        let actor = self.worker_actor();
        let word = format!("{}.{}", settlement.kind.as_str(), settlement.state.as_str());
        let act = Act::new(&actor, &word).because(settlement.outcome.clone());
        let applied = self.change(&mut tx, &payment, settlement.event.clone(), act).await?;
        if let Some(lease) = settlement.release {
            tx.release(lease).await?;
        }
        crash::on(settlement.kind.as_str(), Point::OutcomeBeforeCommit);
        tx.commit().await?;
        crash::on(settlement.kind.as_str(), Point::OutcomeAfterCommit);
        self.announce(&applied);
        Ok(applied.payment)
    }

    /// Gives a lease back when no second transaction did.
    ///
    /// The worker's work changed nothing then, or not last: when the payment is due is said anew, as a time that
    /// failed work was put off to would be due for ever.
    pub(super) async fn release(&self, lease: &Lease) -> Result<(), Refusal> {
        let mut tx = self.store.begin().await?;
        let ours = tx.release(lease).await?;
        if ours
            && lease.claims > 0
            && let Some(payment) = tx.payment_for_work(&lease.payment_id).await?
        {
            tx.rewake(&payment).await?;
        }
        crash::at(Point::ReleaseBeforeCommit);
        tx.commit().await?;
        crash::at(Point::ReleaseAfterCommit);
        Ok(())
    }
}

/// Keeps the rail's word beside the outcome it led to; there is none of anything else.
pub(super) async fn keep(tx: &mut Tx, key: &str, payment_id: &str, receipt: &str) -> Result<(), Refusal> {
    if !receipt.is_empty() {
        tx.keep_receipt(key, payment_id, receipt).await?;
    }
    Ok(())
}

/// The effect's state after an outcome, and the words for it.
pub(super) fn verdict<T>(outcome: &Outcome<T>) -> (EffectState, String) {
    match outcome {
        Outcome::Done(_) => (EffectState::Done, "done".to_owned()),
        Outcome::Refused(trouble) => (EffectState::Refused, trouble.to_string()),
        Outcome::NotSent(trouble) => (EffectState::NotSent, trouble.to_string()),
        Outcome::Unknown(trouble) => (EffectState::Unknown, trouble.to_string()),
    }
}

/// The signer service's trouble in the domain's words.
pub(super) fn signer_trouble(trouble: &Trouble) -> crate::domain::SignerTrouble {
    use crate::domain::SignerTrouble;
    match trouble.cause {
        Cause::Unauthorized => SignerTrouble::Unauthorized,
        Cause::Timeout => SignerTrouble::Timeout,
        Cause::NotFound | Cause::Conflict | Cause::Rejected => SignerTrouble::Refused,
        Cause::Unavailable
        | Cause::RateLimited
        | Cause::Redirect
        | Cause::Garbage
        | Cause::Mismatch
        | Cause::TooLate => SignerTrouble::ServiceUnavailable,
    }
}

/// The signer service's trouble as the caller of a tool sees it.
pub(super) fn signer_refusal(trouble: crate::domain::SignerTrouble, payment: &Payment) -> Refusal {
    use crate::domain::SignerTrouble;
    let (code, message) = match trouble {
        SignerTrouble::Unauthorized => (
            Code::SignerUnauthorized,
            "the signer service refuses our key; an operator must mend that. The payment is kept",
        ),
        SignerTrouble::Timeout => (
            Code::SignerTimeout,
            "the signer service did not answer in time; the payment is kept and the worker goes on trying",
        ),
        SignerTrouble::ServiceUnavailable => (
            Code::SignerServiceUnavailable,
            "the signer service can't be reached now; the payment is kept and the worker goes on trying",
        ),
        SignerTrouble::Refused => (
            Code::SignerServiceUnavailable,
            "the signer service does not take this payment; it is kept and shown to an operator when attempts run out",
        ),
    };
    Refusal::new(code, message).about(payment.reference())
}
