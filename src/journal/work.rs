//! Due work: claimed in batches, one payment at a time, recovery included.
//!
//! Recovery is not a mode: a payment whose lease ended with an attempt open is simply due, and what
//! is done for it asks before it repeats.
//!
//! *Invariant*: no payment stands in another's way. One whose work fails, panics or takes the process with
//! it is due again later each time, and parked after `FAILURES`: looked at rarely, and listed for a person.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

use super::reading::is_open;
use super::{Act, Journal, lost_race};
use crate::crash::{self, Point};
use crate::domain::{Code, Event, Payment, Refusal, Stage, broken};
use crate::store::{AuditNote, DueKind, Lease, Tx};
use crate::telemetry::metrics::metrics;

/// After so many claims in a row that ended in failure a payment is parked.
const FAILURES: i64 = 6;
/// After so many claims in a row that never ended, as when the process died each time, it is parked first.
const UNENDED: i64 = 20;
/// How long a parked payment is left alone between two looks.
const PARKED: Duration = Duration::from_hours(1);

/// Why work failed.
struct Fault {
    /// In a stable word.
    word: &'static str,
    /// Whether the payment is to blame, and not the database as a whole.
    counts: bool,
}

impl Fault {
    fn of(refusal: &Refusal) -> Self {
        match refusal.code {
            Code::StoreUnavailable => Self { word: "store_unavailable", counts: false },
            Code::RestoreUnderWay => Self { word: "restore_under_way", counts: false },
            Code::Internal => Self { word: "internal", counts: true },
            _ => Self { word: "refused", counts: true },
        }
    }
}

/// How long failed work is put off: a lease, doubled each time.
fn put_off(claims: i64, lease: Duration) -> Duration {
    let doublings = u32::try_from(claims.saturating_sub(1).clamp(0, 8)).unwrap_or(0);
    lease.saturating_mul(2_u32.saturating_pow(doublings)).min(Duration::from_mins(10))
}

/// What a tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Payments claimed.
    pub claimed: usize,
    /// Payments whose work failed: put off, or due again when their lease ends.
    pub failed: usize,
}

impl Journal {
    /// Does what is due now, once. One query when nothing is.
    ///
    /// *Errors*: `STORE_UNAVAILABLE`; what was claimed is due again when its lease ends.
    pub async fn tick(&self) -> Result<Progress, Refusal> {
        let leases = self.claim_due(self.rules.batch, &[]).await?;
        let claimed = leases.len();
        let work = leases.iter().map(|lease| self.attend(lease));
        let failed = futures::future::join_all(work).await.into_iter().filter(|done| !done).count();
        Ok(Progress { claimed, failed })
    }

    /// Claims up to `most` payments that are due, of any kind; one query when none is.
    ///
    /// Those of the tenants in `crowded` only if others leave room.
    pub async fn claim_due(&self, most: i64, crowded: &[String]) -> Result<Vec<Lease>, Refusal> {
        let [leases] = self.claim_kinds([(DueKind::Any, most)], most, crowded).await?;
        Ok(leases)
    }

    /// Claims up to so many due payments of each kind and `all` together, as [`claim_due`](Self::claim_due) does.
    pub async fn claim_kinds<const N: usize>(
        &self,
        kinds: [(DueKind, i64); N],
        all: i64,
        crowded: &[String],
    ) -> Result<[Vec<Lease>; N], Refusal> {
        let mut claimed = [const { Vec::new() }; N];
        let (due, now) = self.store.next_due().await?;
        metrics().work_overdue(due.map_or(Duration::ZERO, |at| now.since(at)));
        if due.is_none_or(|at| at > now) || kinds.iter().all(|(_, most)| *most <= 0) {
            return Ok(claimed);
        }
        let Some(mut tx) = self.may_work(self.store.begin().await?).await? else { return Ok(claimed) };
        let token = self.mint_token(&tx);
        let until = tx.now().plus(self.rules.timing.lease);
        let node = &self.rules.node;
        let left = |all: i64, taken: usize| all.saturating_sub(i64::try_from(taken).unwrap_or(i64::MAX));
        let mut all = all;
        for (leases, (kind, most)) in claimed.iter_mut().zip(kinds) {
            let most = most.min(all);
            if most > 0 {
                *leases = tx.claim_due_of(kind, node, &token, until, most, crowded).await?;
            }
            let rest = left(most, leases.len());
            if rest > 0 && !crowded.is_empty() {
                leases.extend(tx.claim_due_of(kind, node, &token, until, rest, &[]).await?);
            }
            all = left(all, leases.len());
        }
        crash::at(Point::ClaimBeforeCommit);
        tx.commit().await?;
        crash::at(Point::ClaimAfterCommit);
        Ok(claimed)
    }

    /// Does what one claimed payment needs; whether that went well.
    pub async fn attend(&self, lease: &Lease) -> bool {
        let work = AssertUnwindSafe(Box::pin(self.worked(lease))).catch_unwind().await;
        let fault = match work {
            Ok(Ok(())) => return true,
            Ok(Err(refusal)) if lost_race(&refusal) => return false,
            Ok(Err(refusal)) => {
                tracing::warn!(payment.id = %lease.payment_id, error = %refusal, claims = lease.claims, "due work failed; it is tried again later");
                Fault::of(&refusal)
            }
            Err(_) => {
                tracing::error!(payment.id = %lease.payment_id, claims = lease.claims, "due work panicked; it is tried again later");
                Fault { word: "work_panics", counts: true }
            }
        };
        if let Err(refusal) = self.stumbled(lease, &fault).await {
            tracing::warn!(payment.id = %lease.payment_id, error = %refusal, "failed work could not be put off; it is due again when its lease ends");
        }
        false
    }

    async fn worked(&self, lease: &Lease) -> Result<(), Refusal> {
        if lease.claims > UNENDED {
            // Listed first: this work may have taken its process with it each time.
            let mut tx = self.store.begin().await?;
            self.park(&mut tx, lease, "work_never_ends").await?;
            tx.commit().await?;
        }
        match Box::pin(self.work(lease)).await {
            // Held since it was claimed: nothing is to be done until two people let it go.
            Err(refusal) if refusal.code == Code::PaymentOnManualHold => self.release(lease).await,
            done => done,
        }
    }

    /// Puts failed work off; parks what has failed too often.
    async fn stumbled(&self, lease: &Lease, fault: &Fault) -> Result<(), Refusal> {
        let mut tx = self.store.begin().await?;
        let wait = self.rules.timing.lease;
        let wake = tx.now().plus(if fault.counts { put_off(lease.claims, wait) } else { wait });
        let ours = tx.stumble(lease, wake, fault.counts).await?;
        if ours && fault.counts && lease.claims >= FAILURES {
            self.park(&mut tx, lease, fault.word).await?;
        }
        tx.commit().await?;
        metrics().work_failed(fault.word);
        Ok(())
    }

    /// Lists a payment whose work fails for ever, and puts it off for long.
    async fn park(&self, tx: &mut Tx, lease: &Lease, word: &'static str) -> Result<(), Refusal> {
        let wake = tx.now().plus(PARKED);
        if tx.park(&lease.payment_id, wake, word).await? {
            tx.audit(AuditNote {
                tenant: lease.tenant.clone(),
                payment_id: lease.payment_id.clone(),
                node: self.rules.node.clone(),
                actor: self.worker_actor(),
                event: "work.parked".to_owned(),
                reason: word.to_owned(),
                ..AuditNote::default()
            });
            metrics().work_parked(word);
            tracing::error!(payment.id = %lease.payment_id, reason = word, claims = lease.claims, "work on a payment fails again and again; it is parked and needs a person");
        }
        Ok(())
    }

    #[tracing::instrument(name = "worker.payment.work", skip_all, fields(payment.id = %lease.payment_id))]
    async fn work(&self, lease: &Lease) -> Result<(), Refusal> {
        let Some(payment) = self.store.read().await?.payment_for_work(&lease.payment_id).await? else {
            return self.release(lease).await;
        };
        crate::telemetry::trace_context::add_link(&tracing::Span::current(), &payment.terms.traceparent);
        if let Some(invariant) = broken(&payment) {
            return Err(self.suspect(&payment, invariant));
        }
        let mut payment = self.deadline(payment, lease).await?;
        let now = lease.claimed_at;
        match payment.status.stage() {
            Stage::Open => {
                if payment.notice.check_at.is_some_and(|at| at <= now) {
                    payment = self.check_on_schedule(payment).await?;
                }
                let asks = is_open(&payment) && payment.held_at.is_none();
                if asks && payment.notice.next_at.is_some_and(|at| at <= now) {
                    payment = self.reach(lease, payment, false).await?.payment;
                }
            }
            Stage::Signed => match self.execute(lease, payment).await? {
                Some(still_ours) => payment = still_ours,
                // The outcome gave the lease back. The signer service is told by another claim, in a place of its own kind:
                // one that hangs then has no place of an execution.
                None => return Ok(()),
            },
            Stage::Ended => {}
        }
        if payment.closing.tell_at.is_some_and(|at| at <= now) {
            self.tell_last_verdicts(&payment).await;
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
        crash::at(Point::DeadlineBeforeCommit);
        tx.commit().await?;
        crash::at(Point::DeadlineAfterCommit);
        self.announce(&applied);
        Ok(applied.payment)
    }
}
