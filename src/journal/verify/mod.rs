//! Proving a tenant's audit from what is stored, trusting neither the database nor its owner.
//!
//! Three questions, each with an answer of its own: is the chain unbroken (`chain`); is it the one that
//! was signed (`signed`); does it tell all of what the payments, decisions and keys say (`payments`,
//! `approvals`, `holds`, `sent`, `keys`). *Invariant*: nothing is written, and no more is held in memory than a page of entries,
//! a payment's history, the tenant's keys, and [`MOST_BREAKS`] breaks.

mod approvals;
mod chain;
mod holds;
mod keys;
mod payments;
mod sent;
mod signed;

use serde::Serialize;

pub use signed::CheckpointSource;

use crate::store::{Session, Store, StoreFault};

/// Breaks that are told of one by one; more are counted.
pub const MOST_BREAKS: usize = 1_000;

/// Entries read at once.
const PAGE: i64 = 1_000;
/// How often what changes while it is looked at is looked at again.
const LOOKS: usize = 5;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakKind {
    /// Entries are not there.
    EntryMissing,
    /// A position is taken twice.
    EntryExtra,
    /// A text is no entry in canonical form.
    EntryUnreadable,
    /// An entry speaks of another position or tenant.
    EntryMisplaced,
    /// A text does not have its chain value.
    EntryEdited,
    /// An entry does not follow from the one before.
    EntryUnlinked,
    /// An entry is filed under another payment, event or time.
    EntryMisfiled,
    /// The chain ends before the head or a checkpoint says.
    TailCut,
    /// The head is not the chain's end.
    HeadDisagrees,
    /// A checkpoint has another chain value for its entry.
    CheckpointDisagrees,
    /// A part of a file is no checkpoint.
    CheckpointUnreadable,
    /// A checkpoint's signature does not verify.
    CheckpointForged,
    /// A checkpoint is signed by another key.
    CheckpointForeign,
    /// A checkpoint is another tenant's.
    CheckpointMisfiled,
    /// There is no file, or nothing in it, for a tenant that has entries, or no checkpoint of what is older than it may be.
    CheckpointsMissing,
    /// A payment can't be read.
    PaymentUnreadable,
    /// A payment of the chain is not stored, or is stored as another tenant's.
    PaymentMissing,
    /// A payment is stored in the hot tables and in the archive.
    PaymentTwice,
    /// The versions that were audited are not those there are.
    VersionsIncomplete,
    /// The payment is in another state than the chain says.
    StatusDisagrees,
    /// The payment's terms are not those of its document, or the document not the audited one.
    TermsDisagree,
    /// A row says otherwise than the chain whether it is held, which transfer it is, or which attempt group.
    RowDisagrees,
    /// A held payment was moved, or held again, and nobody had let it go.
    HoldBroken,
    /// What was sent to the rail is not what was audited.
    SentDisagrees,
    /// What the chain says was sent to the rail is not stored.
    SentMissing,
    /// What is stored as sent to the rail is not in the chain.
    SentUnaudited,
    /// A decision is not in the chain.
    DecisionUnaudited,
    /// A decision of the chain is not stored.
    DecisionMissing,
    /// A counted decision does not verify, or one is stored otherwise than its signed document says.
    DecisionInvalid,
    /// An execution was begun without its quorum, or confirmed without an intent.
    ExecutionUnapproved,
    /// A pinned key is not the one that was enrolled.
    KeyUnaudited,
    /// A key of the chain is not stored.
    KeyMissing,
    /// A key is revoked, or not, otherwise than the chain says.
    KeyRevocationDisagrees,
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Break {
    /// What.
    pub kind: BreakKind,
    /// The position in the chain, where it has one.
    pub seq: Option<i64>,
    /// The payment, where it is about one; else empty.
    pub payment_id: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl std::fmt::Display for Break {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = serde_json::to_value(self.kind).ok();
        let word = word.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
        let seq = self.seq.map(|seq| format!("entry {seq} ")).unwrap_or_default();
        let payment = if self.payment_id.is_empty() { "" } else { &self.payment_id };
        let gap = if payment.is_empty() { "" } else { " " };
        write!(f, "{seq}{payment}{gap}{word}: expected {}; found {}", self.expected, self.found)
    }
}

/// How far checkpoints vouch for a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// Checkpoints that were read and verified.
    pub checkpoints: u64,
    /// Entries up to this one are as they were when a checkpoint was signed.
    pub up_to: i64,
    /// When that one was signed; empty for none.
    pub signed_at: String,
    /// Entries after it, which only the chain holds together.
    pub uncovered: i64,
    /// Writes that did not finish, each closed by a later one.
    pub cut_off: u64,
}

/// What became of one tenant's audit.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuditReport {
    /// The tenant.
    pub tenant: String,
    /// Entries read.
    pub entries: i64,
    /// The chain value after the last one.
    pub head: String,
    /// Payments whose history is complete or told of as a break.
    pub payments: u64,
    /// How far checkpoints vouch for it; `None` when none were given.
    pub covered: Option<Covered>,
    /// What is wrong, at most [`MOST_BREAKS`].
    pub breaks: Vec<Break>,
    /// How many more.
    pub more: u64,
}

impl AuditReport {
    /// Whether nothing is wrong.
    pub const fn is_whole(&self) -> bool {
        self.breaks.is_empty()
    }

    fn push(&mut self, found: Break) {
        if self.breaks.len() < MOST_BREAKS {
            self.breaks.push(found);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }
}

/// How far it has come: a word for what, and how many.
pub type Progress<'a> = dyn FnMut(&'static str, u64) + Send + 'a;

/// Proves a tenant's audit.
///
/// *Errors*: the database or a file of checkpoints can't be read; what is wrong with the audit is in the
/// report.
pub async fn verify_audit(
    store: &Store,
    tenant: &str,
    checkpoints: Option<&CheckpointSource>,
    progress: &mut Progress<'_>,
) -> Result<AuditReport, VerifyFault> {
    let mut report = AuditReport { tenant: tenant.to_owned(), ..AuditReport::default() };
    let mut session = store.read().await?;
    let mut keys = chain::check(&mut session, &mut report, progress).await?;
    if let Some(source) = checkpoints {
        signed::check(&mut session, source, &mut report, progress).await?;
    }
    let pinned = keys::check(&mut session, &mut keys, &mut report).await?;
    payments::check(&mut session, keys, pinned, &mut report, progress).await?;
    Ok(report)
}

/// The tenants that the database or the checkpoints tell of.
pub async fn audited_tenants(store: &Store, source: Option<&CheckpointSource>) -> Result<Vec<String>, VerifyFault> {
    let mut tenants = store.read().await?.audit_tenants().await?;
    if let Some(source) = source {
        tenants.extend(source.tenants()?);
    }
    tenants.sort_unstable();
    tenants.dedup();
    Ok(tenants)
}

/// Why an audit could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum VerifyFault {
    /// The database.
    #[error("the database can't be read: {0}")]
    Store(#[from] StoreFault),
    /// A file of checkpoints.
    #[error("{0}")]
    Checkpoints(String),
}

/// The payment that an entry is about, for what is wrong with its position.
async fn payment_at(session: &mut Session, tenant: &str, seq: i64) -> Result<String, StoreFault> {
    Ok(session.audit_line(tenant, seq).await?.map(|line| line.payment_id).unwrap_or_default())
}
