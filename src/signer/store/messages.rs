//! Messages to people: written down before they are tried, with every attempt at each.
//!
//! *Invariant*: a message has at most one attempt on each of its person's channels; an attempt is a row before it is made.

use sqlx::FromRow;

use super::{KeptPayment, Session, Stored};
use crate::domain::Timestamp;

/// A message to one person about one payment.
#[derive(Debug, Clone, FromRow)]
pub(in crate::signer) struct Message {
    /// Its id.
    #[sqlx(rename = "message_id")]
    pub(in crate::signer) id: String,
    /// The payment.
    pub(in crate::signer) payment_id: String,
    /// The round that it speaks of.
    pub(in crate::signer) round: i64,
    /// The notification that it belongs to.
    pub(in crate::signer) number: i64,
    /// Whom it is for.
    pub(in crate::signer) signer_id: String,
    /// `due`, `held`, `trying`, `delivered`, `unreachable` or `dropped`.
    pub(in crate::signer) state: String,
    /// Which of the person's channels is next, or being tried, from 0.
    pub(in crate::signer) place: i64,
    /// When it may be tried; while it is, when another may take over. Unix microseconds.
    pub(in crate::signer) due_at: i64,
    /// Why it is held, or why it ended unreachable.
    pub(in crate::signer) reason: String,
    /// When it was written down, in Unix microseconds.
    pub(in crate::signer) created_at: i64,
}

impl Message {
    /// Whether nothing more will be tried.
    pub(in crate::signer) fn is_settled(&self) -> bool {
        !matches!(self.state.as_str(), "due" | "trying")
    }
}

/// One attempt at a message, as its receipt tells of it.
#[derive(Debug, Clone, FromRow)]
pub(in crate::signer) struct Attempt {
    /// The message.
    pub(in crate::signer) message_id: String,
    /// The channel.
    pub(in crate::signer) channel: String,
    /// `trying`, `delivered` or `unreachable`.
    pub(in crate::signer) outcome: String,
    /// Why it is unreachable.
    pub(in crate::signer) reason: String,
    /// When it ended; while it is under way, when it began. Unix microseconds.
    pub(in crate::signer) at: i64,
}

/// An attempt about to be made.
#[derive(Debug, Clone, Copy)]
pub(in crate::signer) struct Trying<'a> {
    /// Which of the person's channels.
    pub(in crate::signer) place: i64,
    /// Its name.
    pub(in crate::signer) channel: &'a str,
    /// The letter that carries the message.
    pub(in crate::signer) letter: &'a str,
    /// When another may take over.
    pub(in crate::signer) until: Timestamp,
}

/// Who looked at a payment's page.
#[derive(Debug, Clone, FromRow)]
pub(in crate::signer) struct Viewing {
    /// Whose link it was; empty for one that was issued on request.
    pub(in crate::signer) signer_id: String,
    /// When, first. Unix microseconds.
    pub(in crate::signer) first_at: i64,
}

impl Session {
    /// Writes a message down.
    pub(in crate::signer) async fn add_message(&mut self, message: &Message) -> Stored<()> {
        sqlx::query(
            "INSERT INTO messages (message_id, payment_id, round, number, signer_id, state, place, due_at, reason, \
             created_at, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)",
        )
        .bind(&message.id)
        .bind(&message.payment_id)
        .bind(message.round)
        .bind(message.number)
        .bind(&message.signer_id)
        .bind(&message.state)
        .bind(message.place)
        .bind(message.due_at)
        .bind(&message.reason)
        .bind(message.created_at)
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// The messages of a notification in the payment's current round, in the order they were written.
    pub(in crate::signer) async fn messages(&mut self, payment: &KeptPayment, number: i64) -> Stored<Vec<Message>> {
        Ok(sqlx::query_as(
            "SELECT message_id, payment_id, round, number, signer_id, state, place, due_at, reason, created_at \
             FROM messages WHERE payment_id = ?1 AND round = ?2 AND number = ?3 ORDER BY rowid",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .bind(number)
        .fetch_all(self.db())
        .await?)
    }

    /// The attempts at the messages of a notification, in the order they were made.
    pub(in crate::signer) async fn attempts(&mut self, payment: &KeptPayment, number: i64) -> Stored<Vec<Attempt>> {
        Ok(sqlx::query_as(
            "SELECT a.message_id, a.channel, a.outcome, a.reason, COALESCE(a.ended_at, a.began_at) AS at \
             FROM attempts a JOIN messages m ON m.message_id = a.message_id \
             WHERE m.payment_id = ?1 AND m.round = ?2 AND m.number = ?3 ORDER BY m.rowid, a.place",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .bind(number)
        .fetch_all(self.db())
        .await?)
    }

    /// The number of the last notification in the payment's current round; 0 before the first.
    pub(in crate::signer) async fn last_number(&mut self, payment: &KeptPayment) -> Stored<i64> {
        Ok(sqlx::query_scalar(
            "SELECT COALESCE(MAX(number), 0) FROM notifications WHERE payment_id = ?1 AND round = ?2",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .fetch_one(self.db())
        .await?)
    }

    /// People for whom something is due at `now`.
    pub(in crate::signer) async fn due_people(&mut self, now: Timestamp) -> Stored<Vec<String>> {
        Ok(sqlx::query_scalar(
            "SELECT DISTINCT signer_id FROM messages WHERE state IN ('due', 'held', 'trying') AND due_at <= ?1 \
             ORDER BY due_at LIMIT 64",
        )
        .bind(now.micros())
        .fetch_all(self.db())
        .await?)
    }

    /// What is due for a person at `now`, the oldest first.
    pub(in crate::signer) async fn due_messages(&mut self, signer: &str, now: Timestamp) -> Stored<Vec<Message>> {
        Ok(sqlx::query_as(
            "SELECT message_id, payment_id, round, number, signer_id, state, place, due_at, reason, created_at \
             FROM messages WHERE signer_id = ?1 AND state IN ('due', 'held', 'trying') AND due_at <= ?2 \
             ORDER BY rowid LIMIT 1000",
        )
        .bind(signer)
        .bind(now.micros())
        .fetch_all(self.db())
        .await?)
    }

    /// When each letter to a person was begun that was begun after `since` and has arrived or may have, the oldest first.
    pub(in crate::signer) async fn letters_since(&mut self, signer: &str, since: Timestamp) -> Stored<Vec<i64>> {
        Ok(sqlx::query_scalar(
            "SELECT MIN(began_at) FROM attempts WHERE signer_id = ?1 AND began_at > ?2 \
             AND (outcome <> 'unreachable' OR reason IN ('timeout', 'in_doubt')) GROUP BY letter_id ORDER BY 1",
        )
        .bind(signer)
        .bind(since.micros())
        .fetch_all(self.db())
        .await?)
    }

    /// Begins an attempt; whether the message still stood where `message` says.
    pub(in crate::signer) async fn try_message(
        &mut self,
        message: &Message,
        trying: &Trying<'_>,
        now: Timestamp,
    ) -> Stored<bool> {
        let claimed = sqlx::query(
            "UPDATE messages SET state = 'trying', place = ?4, due_at = ?5, reason = '', changed_at = ?6 \
             WHERE message_id = ?1 AND state = ?2 AND place = ?3",
        )
        .bind(&message.id)
        .bind(&message.state)
        .bind(message.place)
        .bind(trying.place)
        .bind(trying.until.micros())
        .bind(now.micros())
        .execute(self.db())
        .await?;
        if claimed.rows_affected() != 1 {
            return Ok(false);
        }
        sqlx::query(
            "INSERT INTO attempts (message_id, place, letter_id, signer_id, channel, outcome, reason, began_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, 'trying', '', ?6)",
        )
        .bind(&message.id)
        .bind(trying.place)
        .bind(trying.letter)
        .bind(&message.signer_id)
        .bind(trying.channel)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(true)
    }

    /// Ends the attempt that is under way at `place`; whether it still was.
    pub(in crate::signer) async fn end_attempt_at(
        &mut self,
        message_id: &str,
        place: i64,
        missed: Option<&str>,
        now: Timestamp,
    ) -> Stored<bool> {
        let ended = sqlx::query(
            "UPDATE attempts SET outcome = ?3, reason = ?4, ended_at = ?5 \
             WHERE message_id = ?1 AND place = ?2 AND outcome = 'trying'",
        )
        .bind(message_id)
        .bind(place)
        .bind(if missed.is_none() { "delivered" } else { "unreachable" })
        .bind(missed.unwrap_or_default())
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(ended.rows_affected() == 1)
    }

    /// Puts a message that stood as `message` says into another state.
    pub(in crate::signer) async fn put_message(
        &mut self,
        message: &Message,
        state: &'static str,
        reason: &str,
        due_at: Timestamp,
        now: Timestamp,
    ) -> Stored<()> {
        sqlx::query(
            "UPDATE messages SET state = ?4, reason = ?5, due_at = ?6, changed_at = ?7 \
             WHERE message_id = ?1 AND state = ?2 AND place = ?3",
        )
        .bind(&message.id)
        .bind(&message.state)
        .bind(message.place)
        .bind(state)
        .bind(reason)
        .bind(due_at.micros())
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Lets a message whose attempt did not end be tried on the next channel.
    pub(in crate::signer) async fn next_place(&mut self, message: &Message, now: Timestamp) -> Stored<()> {
        sqlx::query(
            "UPDATE messages SET state = 'due', place = place + 1, due_at = ?3, changed_at = ?3 \
             WHERE message_id = ?1 AND state = 'trying' AND place = ?2",
        )
        .bind(&message.id)
        .bind(message.place)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// The message of that id.
    pub(in crate::signer) async fn message(&mut self, message_id: &str) -> Stored<Option<Message>> {
        Ok(sqlx::query_as(
            "SELECT message_id, payment_id, round, number, signer_id, state, place, due_at, reason, created_at \
             FROM messages WHERE message_id = ?1",
        )
        .bind(message_id)
        .fetch_optional(self.db())
        .await?)
    }

    /// Forgets messages that ended before `before`, and their attempts.
    pub(in crate::signer) async fn forget_messages(&mut self, before: Timestamp) -> Stored<()> {
        sqlx::query("DELETE FROM messages WHERE changed_at < ?1 AND state IN ('delivered', 'unreachable', 'dropped')")
            .bind(before.micros())
            .execute(self.db())
            .await?;
        Ok(())
    }

    /// Notes that somebody looked at the page behind a link of `signer_id`.
    pub(in crate::signer) async fn add_view(
        &mut self,
        payment: &KeptPayment,
        signer_id: &str,
        now: Timestamp,
    ) -> Stored<()> {
        sqlx::query(
            "INSERT INTO views (payment_id, round, signer_id, first_at, last_at) VALUES (?1, ?2, ?3, ?4, ?4) \
             ON CONFLICT (payment_id, round, signer_id) DO UPDATE SET last_at = excluded.last_at",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .bind(signer_id)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Who looked at the payment's page in its current round, in the order of their first looks.
    pub(in crate::signer) async fn views(&mut self, payment: &KeptPayment) -> Stored<Vec<Viewing>> {
        Ok(sqlx::query_as(
            "SELECT signer_id, first_at FROM views WHERE payment_id = ?1 AND round = ?2 ORDER BY first_at, signer_id",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .fetch_all(self.db())
        .await?)
    }
}
