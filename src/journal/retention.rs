//! Retention: what is all over moves out of the hot tables, in small batches.
//!
//! *Invariant*: what moves answers as before: to a status, a replay, a late signature. An order that was paid stays
//! taken for ever. Evidence that comes later brings the payment back, with attention.

use std::time::Duration;

use super::Journal;
use crate::crash::{self, Point};
use crate::domain::{Refusal, Timestamp};
use crate::store::{Moved, Place};
use crate::telemetry::metrics::metrics;

/// Payments that one transaction moves: few, because SQLite has one writer.
const AT_ONCE: usize = 32;
/// Payments that are looked at for one batch, before any transaction: those whose events were not delivered are passed by.
const LOOKED_AT: i64 = 256;

impl Journal {
    /// Moves the next payments after `after` that ended long enough ago; nothing when none is to be moved ever.
    ///
    /// *Errors*: `STORE_UNAVAILABLE`; nothing moved then.
    pub async fn retire(&self, after: &Place) -> Result<Moved, Refusal> {
        let Some(kept) = self.rules.finished_after else { return Ok(Moved::default()) };
        let back = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
        let ended = |now: Timestamp| now.plus_micros(0_i64.saturating_sub(back));
        let (_, now) = self.store.next_due().await?;
        let found = self.store.read().await?.finished(ended(now), after, AT_ONCE, LOOKED_AT).await?;
        if found.payments.is_empty() {
            return Ok(Moved { next: found.next, ..Moved::default() });
        }
        let mut tx = self.store.begin().await?;
        if tx.restore_is_open().await? {
            return Ok(Moved::default());
        }
        let until = ended(tx.now());
        let moved = tx.archive_finished(until, &found).await?;
        crash::at(Point::ArchiveBeforeCommit);
        tx.commit().await?;
        crash::at(Point::ArchiveAfterCommit);
        metrics().retired(moved.payments.into());
        if moved.payments > 0 {
            tracing::info!(payments = moved.payments, ended_before = %until.rfc3339(), "finished payments moved to the archive");
        }
        for payment_id in &moved.kept {
            tracing::error!(
                payment.id = payment_id,
                "an executed payment's order is taken by another payment; it is not moved"
            );
        }
        Ok(moved)
    }

    /// How long what has ended stays where it is; `None` for ever.
    pub const fn retention(&self) -> Option<Duration> {
        self.rules.finished_after
    }
}
