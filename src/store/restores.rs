//! A database that may be a restored backup: what is to be compared with the rail before anything is sent again.
//!
//! *Invariant*: while a restore is open, no update of a payment goes through but for an outcome (`Guard::Outcome`),
//! in whatever process; it is lifted only by the update that finds nothing left to compare.

use sqlx::FromRow;

use super::engine::{Session, Tx, on};
use super::fault::StoreFault;
use crate::domain::Timestamp;

/// A restore.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Restore {
    /// Its id.
    pub restore_id: String,
    /// `open` or `lifted`.
    pub state: String,
    /// Why the database is taken for a restored one.
    pub cause: String,
    /// Unix microseconds.
    pub marked_at: i64,
    /// When the rail may be asked: what was under way by then shows. Unix microseconds.
    pub compare_at: i64,
    /// Unix microseconds.
    pub lifted_at: Option<i64>,
}

/// How many payments were believed in a state, and what the rail said of them.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Tally {
    /// The status in the backup.
    pub believed: String,
    /// What the rail said; `""` when it is not known yet.
    pub finding: String,
    /// What followed.
    pub outcome: String,
    /// How many.
    pub payments: i64,
}

/// A payment of which the rail knows more than the backup.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Surprise {
    /// The payment.
    pub payment_id: String,
    /// Its tenant.
    pub tenant: String,
    /// Its order.
    pub order_id: String,
    /// Its status in the backup.
    pub believed: String,
    /// What the rail said.
    pub finding: String,
    /// What followed.
    pub outcome: String,
}

/// Whether a restore is open, the words of workers, and whether an intent is known: asked before each claim.
pub(super) const MAY_WORK: &str = "SELECT CAST((SELECT COUNT(*) FROM restores WHERE state = 'open') AS BIGINT), \
     CAST(COALESCE((SELECT words FROM worked WHERE worker = 'any'), 0) AS BIGINT), \
     CAST(COALESCE((SELECT seen_at FROM worked WHERE worker = 'any'), 0) AS BIGINT), \
     CAST((SELECT COUNT(*) FROM effects WHERE outbound_key = $1 AND attempts >= $2) \
        + (SELECT COUNT(*) FROM archived_effects WHERE outbound_key = $1 AND attempts >= $2) AS BIGINT)";
/// Those that the rail has not been asked about.
pub(super) const PENDING: &str = "SELECT payment_id FROM comparisons \
     WHERE restore_id = $1 AND compared_at IS NULL AND payment_id > $2 ORDER BY payment_id LIMIT $3";

/// The words that workers left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// How many. They only grow, whatever clocks do: who knows of more has worked at a later database.
    pub count: i64,
    /// When the last one was left, in Unix microseconds; 0 for never.
    pub last_at: i64,
}

impl Session {
    /// Whether no restore is open; the words of workers; and whether the intent under `key` is there, with so many
    /// attempts.
    pub async fn may_work(&mut self, sent: Option<(&str, i64)>) -> Result<(bool, Words, bool), StoreFault> {
        let (key, attempts) = sent.unwrap_or_default();
        let (open, count, last_at, kept): (i64, i64, i64, i64) = on!(self, conn => sqlx::query_as(MAY_WORK)
            .bind(key).bind(attempts).fetch_one(conn).await)?;
        Ok((open == 0, Words { count, last_at }, kept != 0))
    }

    /// Whether the database is one that is being compared.
    pub async fn restore_is_open(&mut self) -> Result<bool, StoreFault> {
        Ok(!self.may_work(None).await?.0)
    }

    /// The last restore, if there ever was one.
    pub async fn last_restore(&mut self) -> Result<Option<Restore>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT * FROM restores ORDER BY marked_at DESC, restore_id DESC LIMIT 1")
            .fetch_optional(conn).await)?)
    }

    /// The restore that is open, if one is.
    pub async fn open_restore(&mut self) -> Result<Option<Restore>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT * FROM restores WHERE state = 'open'").fetch_optional(conn).await)?)
    }

    /// Up to `limit` payments after `after` that are still to be compared.
    pub async fn to_compare(&mut self, restore: &str, after: &str, limit: i64) -> Result<Vec<String>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_scalar(PENDING).bind(restore).bind(after).bind(limit).fetch_all(conn).await)?)
    }

    /// What was found so far, counted.
    pub async fn tallies(&mut self, restore: &str) -> Result<Vec<Tally>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_as("SELECT believed, finding, outcome, CAST(COUNT(*) AS BIGINT) AS payments FROM comparisons \
              WHERE restore_id = $1 GROUP BY believed, finding, outcome ORDER BY believed, finding, outcome")
            .bind(restore).fetch_all(conn).await)?,
        )
    }

    /// The payments of which the rail knew more, at most `limit`; those that need a person first.
    pub async fn surprises(&mut self, restore: &str, limit: i64) -> Result<Vec<Surprise>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_as("SELECT c.payment_id, p.tenant, p.order_id, c.believed, c.finding, c.outcome \
              FROM comparisons c JOIN payments_everywhere p ON p.payment_id = c.payment_id \
              WHERE c.restore_id = $1 AND c.outcome NOT IN ('', 'as_believed', 'asked_anew') \
              ORDER BY CASE c.outcome WHEN 'attention' THEN 0 ELSE 1 END, c.payment_id LIMIT $2")
            .bind(restore).bind(limit).fetch_all(conn).await)?,
        )
    }

    /// The tenants that have a history.
    pub async fn tenants(&mut self) -> Result<Vec<String>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_scalar("SELECT tenant FROM audit_heads ORDER BY tenant").fetch_all(conn).await)?,
        )
    }
}

impl Tx {
    /// Opens a restore: every payment that is not known to be paid, the archive's left out, is to be compared. `false` when
    /// one is open.
    pub async fn open_new_restore(
        &mut self,
        restore: &str,
        cause: &str,
        compare_at: Timestamp,
    ) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let opened = on!(self, conn => sqlx::query("INSERT INTO restores (restore_id, state, cause, marked_at, compare_at, lifted_at) \
              VALUES ($1, 'open', $2, $3, $4, NULL) ON CONFLICT DO NOTHING")
            .bind(restore).bind(cause).bind(now).bind(compare_at.micros()).execute(conn).await?.rows_affected());
        if opened != 1 {
            return Ok(false);
        }
        on!(self, conn => sqlx::query("INSERT INTO comparisons (restore_id, payment_id, believed, finding, outcome, compared_at) \
              SELECT $1, payment_id, status, '', '', NULL FROM payments WHERE status <> 'EXECUTED'")
            .bind(restore).execute(conn).await.map(drop))?;
        // A report is of the last one; of those before only what they found is worth keeping.
        on!(self, conn => sqlx::query("DELETE FROM comparisons WHERE restore_id <> $1 AND outcome IN ('as_believed','asked_anew')")
            .bind(restore).execute(conn).await.map(drop))?;
        Ok(true)
    }

    /// Says of an open restore that its cause is another, and has everything compared anew; `false` when it is not as it was.
    pub async fn restored_because(&mut self, restore: &Restore, cause: &str) -> Result<bool, StoreFault> {
        let changed = on!(self, conn => sqlx::query("UPDATE restores SET cause = $1 WHERE restore_id = $2 AND cause = $3 AND state = 'open'")
            .bind(cause).bind(&restore.restore_id).bind(&restore.cause).execute(conn).await?.rows_affected());
        if changed != 1 {
            return Ok(false);
        }
        on!(self, conn => sqlx::query("UPDATE comparisons SET finding = '', outcome = '', compared_at = NULL WHERE restore_id = $1")
            .bind(&restore.restore_id).execute(conn).await.map(drop))?;
        Ok(true)
    }

    /// Lets a restore be compared from `at` on, if it was to be later.
    pub async fn compare_sooner(&mut self, restore: &str, at: Timestamp) -> Result<(), StoreFault> {
        on!(self, conn => sqlx::query("UPDATE restores SET compare_at = $1 WHERE restore_id = $2 AND state = 'open' AND compare_at > $1")
            .bind(at.micros()).bind(restore).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Stores what the rail said of a payment and what followed; `false` when that was stored before, or the restore has
    /// another cause by now.
    pub async fn compared(
        &mut self,
        restore: &Restore,
        payment_id: &str,
        finding: &str,
        outcome: &str,
    ) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let stored = on!(self, conn => sqlx::query("UPDATE comparisons SET finding = $1, outcome = $2, compared_at = $3 \
              WHERE restore_id = $4 AND payment_id = $5 AND compared_at IS NULL \
                AND EXISTS (SELECT 1 FROM restores r WHERE r.restore_id = $4 AND r.cause = $6)")
            .bind(finding).bind(outcome).bind(now).bind(&restore.restore_id).bind(payment_id).bind(&restore.cause)
            .execute(conn).await?.rows_affected());
        Ok(stored == 1)
    }

    /// Lifts a restore if everything was compared and the time to ask has come; whether this did it.
    pub async fn lift_restore(&mut self, restore: &str) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let lifted = on!(self, conn => sqlx::query("UPDATE restores SET state = 'lifted', lifted_at = $1 \
              WHERE restore_id = $2 AND state = 'open' AND compare_at <= $1 AND NOT EXISTS \
                (SELECT 1 FROM comparisons c WHERE c.restore_id = restores.restore_id AND c.compared_at IS NULL)")
            .bind(now).bind(restore).execute(conn).await?.rows_affected());
        Ok(lifted == 1)
    }

    /// Leaves word that a worker was here; how many words there are now.
    pub async fn leave_word(&mut self) -> Result<i64, StoreFault> {
        let now = self.now().micros();
        Ok(on!(self, conn => sqlx::query_scalar("INSERT INTO worked (worker, seen_at, words) VALUES ('any', $1, 1) \
              ON CONFLICT (worker) DO UPDATE SET seen_at = $1, words = worked.words + 1 RETURNING words")
            .bind(now).fetch_one(conn).await)?)
    }
}
