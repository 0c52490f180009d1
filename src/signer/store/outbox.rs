//! Callbacks waiting to be delivered.

use sqlx::FromRow;

use super::{Session, Stored};
use crate::domain::Timestamp;

/// A callback with the exact bytes that every attempt sends.
#[derive(Debug, Clone, FromRow)]
pub(in crate::signer) struct Callback {
    /// The event's id, the same at every attempt.
    pub(in crate::signer) event_id: String,
    /// Where it goes.
    pub(in crate::signer) url: String,
    /// The JSON body.
    pub(in crate::signer) body: String,
    /// Attempts begun so far; also the fence of the attempt that is under way.
    pub(in crate::signer) attempts: i64,
    /// When it was enqueued, in Unix microseconds.
    pub(in crate::signer) created_at: i64,
}

impl Session {
    /// Enqueues a callback, due at once.
    pub(in crate::signer) async fn add_callback(&mut self, callback: &Callback) -> Stored<()> {
        sqlx::query(
            "INSERT INTO callbacks (event_id, url, body, attempts, state, created_at, next_at) \
             VALUES (?1, ?2, ?3, ?4, 'due', ?5, ?5)",
        )
        .bind(&callback.event_id)
        .bind(&callback.url)
        .bind(&callback.body)
        .bind(callback.attempts)
        .bind(callback.created_at)
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Callbacks that are due: at most `each` a target, so that no target crowds out another.
    pub(in crate::signer) async fn due_callbacks(&mut self, now: Timestamp, each: i64) -> Stored<Vec<Callback>> {
        Ok(sqlx::query_as(
            "SELECT event_id, url, body, attempts, created_at FROM (\
               SELECT *, ROW_NUMBER() OVER (PARTITION BY url ORDER BY next_at, event_id) AS place \
               FROM callbacks WHERE state = 'due' AND next_at <= ?1) \
             WHERE place <= ?2 ORDER BY place LIMIT 256",
        )
        .bind(now.micros())
        .bind(each)
        .fetch_all(self.db())
        .await?)
    }

    /// Begins an attempt: counts it, and lets nobody else begin one before `until`.
    pub(in crate::signer) async fn begin_attempt(&mut self, callback: &mut Callback, until: Timestamp) -> Stored<bool> {
        let begun = sqlx::query(
            "UPDATE callbacks SET attempts = attempts + 1, next_at = ?3 \
             WHERE event_id = ?1 AND state = 'due' AND attempts = ?2",
        )
        .bind(&callback.event_id)
        .bind(callback.attempts)
        .bind(until.micros())
        .execute(self.db())
        .await?;
        callback.attempts = callback.attempts.saturating_add(1);
        Ok(begun.rows_affected() == 1)
    }

    /// Ends an attempt that failed: the next is due at `next_at`.
    pub(in crate::signer) async fn repeat_callback(&mut self, callback: &Callback, next_at: Timestamp) -> Stored<()> {
        sqlx::query("UPDATE callbacks SET next_at = ?3 WHERE event_id = ?1 AND state = 'due' AND attempts = ?2")
            .bind(&callback.event_id)
            .bind(callback.attempts)
            .bind(next_at.micros())
            .execute(self.db())
            .await?;
        Ok(())
    }

    /// Ends a callback for good, as `delivered` or `given_up`.
    pub(in crate::signer) async fn end_callback(&mut self, event_id: &str, state: &'static str) -> Stored<()> {
        sqlx::query("UPDATE callbacks SET state = ?2 WHERE event_id = ?1 AND state = 'due'")
            .bind(event_id)
            .bind(state)
            .execute(self.db())
            .await?;
        Ok(())
    }

    /// Forgets callbacks that have ended and were enqueued before `before`.
    pub(in crate::signer) async fn forget_callbacks(&mut self, before: Timestamp) -> Stored<()> {
        sqlx::query("DELETE FROM callbacks WHERE created_at < ?1 AND state <> 'due'")
            .bind(before.micros())
            .execute(self.db())
            .await?;
        Ok(())
    }
}
