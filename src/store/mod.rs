//! The database: SQLite embedded, PostgreSQL for more than one replica; one SQL text for both.
//!
//! To add a query: write one method on [`Session`] (reads) or [`Tx`] (writes) with a body inside
//! `on!`, which type-checks it once per engine. Parameters are `$1…$n`; columns are text or
//! 64-bit integers; a column that can be NULL is read as `Option`, because the SQLite driver reads
//! NULL into an `i64` as 0. Everything that differs between the engines is in `engine`.
//!
//! *Invariant*: a write is a compare-and-set, or an insert that a unique index judges.

mod approvals;
mod archive;
mod attestations;
mod audit;
mod context;
mod effects;
mod engine;
mod evidence;
mod fault;
mod file;
mod hot;
mod inbox;
mod invitations;
mod lease;
mod outbox;
mod payments;
mod proving;
mod restores;
mod row;
mod schema;
mod usage;
mod writes;

pub use approvals::{Counter, PinnedKey, StoredChallenge, StoredDecision};
pub use archive::{Finished, Moved, Place};
pub use attestations::{Attestation, Matter};
pub use audit::{AuditNote, AuditRow};
pub use context::ContextUse;
pub use effects::{EffectKind, EffectRow, EffectState, EffectTrail, NewEffect};
pub use engine::{Engine, Session, Store, Tx};
pub use evidence::{StoredCheckpoint, TimedDecision};
pub use fault::StoreFault;
pub use hot::hot_statements;
pub use inbox::{KeyBinding, KeyScope};
pub use invitations::StoredInvitation;
pub use lease::{DueKind, Lease, Parking};
pub use outbox::{ClaimedEvent, EventEnding, ListedEvent, NewEvent};
pub use payments::{Guard, Listed, Listing, Stuck};
pub use proving::{AttestedPayment, AuditHead, RoundDecision, SentBody};
pub use restores::{Restore, Surprise, Tally, Words};
pub use usage::Counted;
