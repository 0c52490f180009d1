//! The agent's context as a cost: what it was told about a payment is counted, and stopped in time.
//!
//! Counting must not make a read a write, so it happens in this process's memory and is added to
//! the payment's row in batches: every [`BATCH_CALLS`] calls, every eighth of the budget's bytes, and
//! when the budget seems used up. So several replicas add up, each up to a batch behind the others.
//! *Crash*: what had not been added yet is forgotten: the budget is a brake, not a bill.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache;

use super::{Act, Journal, again};
use crate::domain::{Applied, Event, Refusal};
use crate::store::ContextUse;

/// Calls that are counted together.
const BATCH_CALLS: i64 = 16;
/// The share of the budget's bytes that is counted together.
const BATCH_SHARE: i64 = 8;
/// Payments counted at once; the least recently asked about is forgotten first.
const PAYMENTS: u64 = 10_000;
/// How long a count is kept that nobody adds to.
const IDLE: Duration = Duration::from_hours(1);
/// How long an answer waits for its batch to be added.
const PATIENCE: Duration = Duration::from_secs(1);

/// What an agent may be told about one payment; 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextBudget {
    /// Calls.
    pub calls: i64,
    /// Bytes of structured content.
    pub bytes: i64,
}

impl ContextBudget {
    const fn is_used_up(self, used: ContextUse) -> bool {
        (self.calls > 0 && used.calls >= self.calls) || (self.bytes > 0 && used.bytes >= self.bytes)
    }
}

/// The counts of this process.
#[derive(Debug)]
pub(super) struct Counts(Cache<String, Arc<Mutex<Count>>>);

#[derive(Debug, Default)]
struct Count {
    /// Not added to the row yet.
    pending: ContextUse,
    /// The row's, when it was last added to.
    stored: ContextUse,
    /// Whether the payment has been told.
    told: bool,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self(Cache::builder().max_capacity(PAYMENTS).time_to_idle(IDLE).build())
    }
}

fn lock(count: &Mutex<Count>) -> MutexGuard<'_, Count> {
    count.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Count {
    fn all(&self) -> ContextUse {
        sum(self.stored, self.pending)
    }
}

const fn sum(a: ContextUse, b: ContextUse) -> ContextUse {
    ContextUse { calls: a.calls.saturating_add(b.calls), bytes: a.bytes.saturating_add(b.bytes) }
}

impl Journal {
    /// Counts an answer of `bytes` about a payment; whether its budget is used up.
    ///
    /// The payment then asks for attention, once. Never fails: a count that can't be added waits.
    pub async fn count_context(&self, payment_id: &str, bytes: usize) -> bool {
        let budget = self.rules.context;
        let counted = self.context.0.get_with(payment_id.to_owned(), Arc::default);
        let batch = {
            let mut count = lock(&counted);
            let one = ContextUse { calls: 1, bytes: i64::try_from(bytes).unwrap_or(i64::MAX) };
            count.pending = sum(count.pending, one);
            let many = count.pending.calls >= BATCH_CALLS
                || (budget.bytes > 0 && count.pending.bytes >= budget.bytes / BATCH_SHARE);
            let tells = budget.is_used_up(count.all()) && !count.told;
            (many || tells).then(|| std::mem::take(&mut count.pending))
        };
        if let Some(batch) = batch {
            let added = tokio::time::timeout(PATIENCE, self.add_context(payment_id, batch)).await;
            let mut count = lock(&counted);
            if let Ok(Ok(stored)) = added {
                count.stored = stored;
                count.told |= budget.is_used_up(stored);
            } else {
                tracing::debug!(payment.id = payment_id, "calls could not be counted yet");
                count.pending = sum(count.pending, batch);
            }
        }
        let used = lock(&counted).all();
        budget.is_used_up(used)
    }

    async fn add_context(&self, payment_id: &str, batch: ContextUse) -> Result<ContextUse, Refusal> {
        again(|| self.try_add_context(payment_id, batch)).await
    }

    async fn try_add_context(&self, payment_id: &str, batch: ContextUse) -> Result<ContextUse, Refusal> {
        let mut tx = self.store.begin().await?;
        let Some(stored) = tx.add_context(payment_id, batch).await? else {
            return Ok(batch);
        };
        let mut applied: Option<Applied> = None;
        if self.rules.context.is_used_up(stored)
            && let Some(payment) = tx.payment_for_work(payment_id).await?
        {
            let actor = self.worker_actor();
            let act =
                Act::new(&actor, "context.spent").because(format!("{} calls, {} bytes", stored.calls, stored.bytes));
            applied = Some(self.change(&mut tx, &payment, Event::ContextSpent, act).await?);
        }
        tx.commit().await?;
        if let Some(applied) = applied {
            self.announce(&applied);
        }
        Ok(stored)
    }
}
