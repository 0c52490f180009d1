//! Signed checkpoints of the audit chains, written to a place that the database's owner does not own.
//!
//! The head is read in a statement of its own, so it has been committed. A checkpoint is made only
//! of a chain that still holds the entry of the last one; a chain that does not is told of, and not
//! signed. *Crash*: nothing is kept here; what was written last is asked of the sink.
//! Replicas need not agree: a checkpoint of the same head says the same thing twice, and each
//! stands by itself, whatever its place in the file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ports::{CheckpointPort, SinkTrouble};
use crate::ambient::Clock;
use crate::proof::{Checkpoint, NoteSigner};
use crate::store::{AuditHead, Store, StoreFault};
use crate::telemetry::metrics::metrics;

/// The wait after a checkpoint that could not be written.
const RETRY: Duration = Duration::from_secs(10);

/// How long the end of a process waits for them.
const FINISH: Duration = Duration::from_secs(3);

/// When a checkpoint is due.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointPlan {
    /// So long after the last one, once the chain has moved.
    pub every: Duration,
    /// So many entries after the last one.
    pub entries: i64,
}

/// Why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointFault {
    /// The sink did not take it.
    #[error("{0}")]
    Sink(#[from] SinkTrouble),
    /// The database can't be read.
    #[error("the database can't be read: {0}")]
    Store(#[from] StoreFault),
    /// The chain does not hold what was signed earlier, or its end is not its last entry.
    #[error("the chain is not the one that was signed: {0}")]
    Forked(String),
    /// The head is not one that can be signed.
    #[error("the head can't be signed: {0}")]
    Unsignable(#[from] crate::proof::NoteFault),
}

/// What became of one tenant.
#[derive(Debug)]
pub struct Checkpointed {
    /// The tenant.
    pub tenant: String,
    /// How many entries its chain has.
    pub size: i64,
    /// Whether a checkpoint was written; `false` when the last one says it already.
    pub outcome: Result<bool, CheckpointFault>,
}

/// What is known of a tenant's checkpoints.
#[derive(Debug, Clone)]
struct Known {
    size: i64,
    head: String,
    /// When it was written by this process, or first seen.
    at: Instant,
    /// Since when there is something that it does not cover.
    behind_since: Option<Instant>,
    /// Not before.
    retry_at: Option<Instant>,
}

/// Writes checkpoints of every tenant's chain.
#[derive(Debug)]
pub struct Checkpoints {
    store: Store,
    signer: NoteSigner,
    sink: Arc<dyn CheckpointPort>,
    clock: Arc<dyn Clock>,
    plan: CheckpointPlan,
    known: Mutex<BTreeMap<String, Known>>,
    begun: Instant,
}

impl Checkpoints {
    /// Checkpoints of the chains in `store`, signed by `signer`, kept by `sink`.
    pub fn new(
        store: Store,
        signer: NoteSigner,
        sink: Arc<dyn CheckpointPort>,
        clock: Arc<dyn Clock>,
        plan: CheckpointPlan,
    ) -> Self {
        Self { store, signer, sink, clock, plan, known: Mutex::default(), begun: Instant::now() }
    }

    /// How often it is worth looking.
    pub fn pace(&self) -> Duration {
        self.plan.every.min(Duration::from_secs(1))
    }

    /// Writes what is due at `now`; how many checkpoints it wrote.
    ///
    /// Nothing here fails a payment: what could not be written is logged, counted and tried again.
    pub async fn tick(&self, now: Instant) -> u32 {
        let done = self.write(now, false).await;
        self.tell(now);
        done.unwrap_or_else(|fault| {
            tracing::warn!(error = %fault, "the database could not be asked for the audit's heads; it is asked again");
            Vec::new()
        })
        .iter()
        .fold(0, |written, done| written + u32::from(matches!(done.outcome, Ok(true))))
    }

    /// Writes a checkpoint of every chain that has moved since its last one.
    pub async fn write_all(&self) -> Result<Vec<Checkpointed>, StoreFault> {
        self.write(Instant::now(), true).await
    }

    /// As [`Checkpoints::write_all`], for the end of a process: what can't be written in time is not.
    pub async fn finish(&self) {
        match tokio::time::timeout(FINISH, self.write_all()).await {
            Ok(Ok(_)) => {}
            Ok(Err(fault)) => tracing::warn!(error = %fault, "no audit checkpoint was made at the end"),
            Err(_) => tracing::warn!("audit checkpoints did not end in time"),
        }
    }

    async fn write(&self, now: Instant, all: bool) -> Result<Vec<Checkpointed>, StoreFault> {
        let heads = self.store.read().await?.audit_heads().await?;
        let mut done = Vec::new();
        for head in heads {
            if !all && !self.is_due(&head, now) {
                continue;
            }
            let outcome = self.checkpoint(&head).await;
            self.note(&head, &outcome, now);
            done.push(Checkpointed { tenant: head.tenant, size: head.seq, outcome });
        }
        Ok(done)
    }

    /// Whether a tenant's chain has moved, and far or long enough.
    fn is_due(&self, head: &AuditHead, now: Instant) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.get_mut(&head.tenant) else { return true };
        if known.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        if known.size == head.seq && known.head == head.chain {
            known.behind_since = None;
            return false;
        }
        known.behind_since.get_or_insert(now);
        let moved = head.seq.saturating_sub(known.size);
        known.retry_at.is_some()
            || now.saturating_duration_since(known.at) >= self.plan.every
            || moved >= self.plan.entries
            || moved <= 0
    }

    async fn checkpoint(&self, head: &AuditHead) -> Result<bool, CheckpointFault> {
        if head.entry != head.chain {
            return Err(CheckpointFault::Forked(format!("its end is not that of entry {}", head.seq)));
        }
        if let Some((size, chain)) = self.last(&head.tenant).await? {
            if (size, &chain) == (head.seq, &head.chain) {
                return Ok(false);
            }
            let there = self.store.read().await?.audit_line(&head.tenant, size).await?;
            if there.is_none_or(|line| line.chain != chain) {
                return Err(CheckpointFault::Forked(format!("entry {size} is not the one of the last checkpoint")));
            }
            // Another replica's, of a later head than the one read here.
            if size >= head.seq {
                return Ok(false);
            }
        }
        let note = self.signer.sign(&head.tenant, head.seq, &head.chain, self.clock.now())?;
        self.sink.store(&head.tenant, &note).await?;
        self.copy(&head.tenant, head.seq, &note).await;
        Ok(true)
    }

    /// Keeps a copy beside the chain, for evidence. It is the sink's that counts, so that one which is missing costs an
    /// auditor a longer bundle and nothing else.
    async fn copy(&self, tenant: &str, size: i64, note: &str) {
        let kept = async {
            let mut tx = self.store.begin().await?;
            tx.keep_checkpoint(tenant, size, note).await?;
            tx.commit().await
        };
        if let Err(fault) = kept.await {
            tracing::warn!(tenant, error = %fault, "a checkpoint was written, and its copy for evidence was not");
        }
    }

    /// The last checkpoint there is: the sink's, as others may have written it, else our own.
    async fn last(&self, tenant: &str) -> Result<Option<(i64, String)>, CheckpointFault> {
        if let Some(note) = self.sink.last(tenant).await? {
            match Checkpoint::open(&note, std::slice::from_ref(self.signer.verifier())) {
                Ok(last) if last.tenant == tenant => return Ok(Some((last.size, last.head))),
                Ok(_) => tracing::warn!(tenant, "the last checkpoint is another tenant's"),
                Err(fault) => tracing::warn!(tenant, error = %fault, "the last checkpoint can't be trusted"),
            }
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known.get(tenant).filter(|known| known.size > 0).map(|known| (known.size, known.head.clone())))
    }

    fn note(&self, head: &AuditHead, outcome: &Result<bool, CheckpointFault>, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = head.tenant.as_str();
        match outcome {
            Ok(written) => {
                let fresh =
                    Known { size: head.seq, head: head.chain.clone(), at: now, behind_since: None, retry_at: None };
                known.insert(head.tenant.clone(), fresh);
                if *written {
                    metrics().checkpoint("written");
                    tracing::debug!(tenant, entries = head.seq, "audit checkpoint written");
                }
            }
            Err(fault) => {
                let nothing = Known { size: 0, head: String::new(), at: now, behind_since: None, retry_at: None };
                let known = known.entry(head.tenant.clone()).or_insert(nothing);
                known.behind_since.get_or_insert(now);
                known.retry_at = now.checked_add(RETRY.min(self.plan.every));
                if let CheckpointFault::Forked(_) = fault {
                    metrics().checkpoint("forked");
                    tracing::error!(tenant, error = %fault, "no audit checkpoint is made; run countersign verify audit");
                } else {
                    metrics().checkpoint("failed");
                    tracing::warn!(tenant, error = %fault, "an audit checkpoint could not be written; it is tried again");
                }
            }
        }
    }

    /// Shows how old the newest checkpoint is, and how long the longest has been waited for.
    fn tell(&self, now: Instant) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = known.values().filter(|known| known.size > 0).map(|known| known.at).max().unwrap_or(self.begun);
        let behind = known.values().filter_map(|known| known.behind_since).min();
        let since = |at: Instant| now.saturating_duration_since(at);
        metrics().checkpoint_age(since(newest), behind.map_or(Duration::ZERO, since));
    }
}
