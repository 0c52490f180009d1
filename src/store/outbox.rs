//! The outbox: events written with the change they tell of, claimed by lease, settled by its token.

use sqlx::FromRow;

use super::engine::{Session, Store, Tx, claim_events_statement, on};
use super::fault::StoreFault;
use crate::domain::{LeaseToken, Timestamp};

/// Makes rows due again, from the first attempt on, that nobody is delivering: an event's, or for `""` all dead ones.
const REVIVE: &str = "UPDATE outbox SET state = 'pending', next_at = $1, attempts = 0, last_error = '', delivered_at = NULL, \
     lease_token = '', lease_until = 0 WHERE lease_until <= $1 AND (event_id = $2 OR ($2 = '' AND state = 'dead'))";

/// Takes up to `$3` events away that a target never took and nobody is delivering.
const FORGET: &str = "DELETE FROM outbox WHERE target = $1 AND state <> 'delivered' AND lease_until <= $2 AND event_id IN \
     (SELECT event_id FROM outbox WHERE target = $1 AND state <> 'delivered' AND lease_until <= $2 LIMIT $3)";

/// An event to write.
#[derive(Debug, Clone, Copy)]
pub struct NewEvent<'a> {
    /// Its id, the same for every target and attempt.
    pub event_id: &'a str,
    /// Whose.
    pub tenant: &'a str,
    /// Of which payment.
    pub payment_id: &'a str,
    /// The payment's version that it tells of.
    pub version: i64,
    /// What happened, such as `payment.executed`.
    pub kind: &'a str,
    /// The exact bytes to send.
    pub body: &'a str,
    /// When the first attempt is due.
    pub due: Timestamp,
}

/// A claimed event: what one attempt needs.
#[derive(Debug, Clone, FromRow)]
pub struct ClaimedEvent {
    /// Its id.
    pub event_id: String,
    /// Where it goes.
    pub target: String,
    /// Of which payment.
    pub payment_id: String,
    /// What happened.
    #[sqlx(rename = "type")]
    pub kind: String,
    /// The exact bytes to send.
    pub body: String,
    /// Attempts begun, this one included.
    pub attempts: i64,
}

/// How an attempt left its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventEnding<'a> {
    /// The receiver took it.
    Delivered,
    /// To be tried again at that time.
    Again(Timestamp, &'a str),
    /// Not tried again by itself.
    Dead(&'a str),
}

/// An event as it is listed; without the bytes.
#[derive(Debug, Clone, FromRow, serde::Serialize)]
pub struct ListedEvent {
    /// Its id.
    pub event_id: String,
    /// Where it goes.
    pub target: String,
    /// Whose.
    pub tenant: String,
    /// Of which payment.
    pub payment_id: String,
    /// The payment's version that it tells of.
    pub version: i64,
    /// What happened.
    #[sqlx(rename = "type")]
    #[serde(rename = "type")]
    pub kind: String,
    /// `pending`, `delivered` or `dead`.
    pub state: String,
    /// Attempts begun since it was written or made due again.
    pub attempts: i64,
    /// When it is tried next, in Unix microseconds.
    pub next_at: Option<i64>,
    /// Why the last attempt failed, or `""`.
    pub last_error: String,
    /// Unix microseconds.
    pub created_at: i64,
    /// Unix microseconds.
    pub delivered_at: Option<i64>,
}

impl Session {
    /// Events, the latest first; of one state, or of any for `""`.
    pub async fn events(&mut self, state: &str, most: i64) -> Result<Vec<ListedEvent>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_as("SELECT event_id, target, tenant, payment_id, version, type, state, attempts, next_at, \
                last_error, created_at, delivered_at \
              FROM outbox WHERE ($1 = '' OR state = $1) ORDER BY event_id DESC, target LIMIT $2")
            .bind(state).bind(most).fetch_all(conn).await)?,
        )
    }

    /// Every target that did not take each of its events.
    pub async fn owed_targets(&mut self) -> Result<Vec<String>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_scalar("SELECT DISTINCT target FROM outbox WHERE state <> 'delivered'")
            .fetch_all(conn).await)?)
    }
}

impl Tx {
    /// Writes an event for one target.
    pub async fn enqueue_event(&mut self, event: &NewEvent<'_>, target: &str) -> Result<(), StoreFault> {
        let now = self.now().micros();
        on!(self, conn => sqlx::query("INSERT INTO outbox (event_id, target, tenant, payment_id, version, type, body, created_at, \
                state, attempts, next_at, last_error, delivered_at) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,'pending',0,$9,'',NULL)")
            .bind(event.event_id).bind(target).bind(event.tenant).bind(event.payment_id).bind(event.version)
            .bind(event.kind).bind(event.body).bind(now).bind(event.due.micros())
            .execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Claims up to `limit` events for `target` that are due and that nobody delivers; counts the attempts.
    pub async fn claim_events(
        &mut self,
        target: &str,
        token: &LeaseToken,
        until: Timestamp,
        limit: i64,
    ) -> Result<Vec<ClaimedEvent>, StoreFault> {
        let now = self.now().micros();
        let statement = claim_events_statement(self.engine());
        Ok(on!(self, conn => sqlx::query_as(statement)
            .bind(token.as_str()).bind(until.micros()).bind(target).bind(now).bind(limit)
            .fetch_all(conn).await)?)
    }

    /// Stores how an attempt ended; `false` when its lease is not ours any more, and nothing is written.
    pub async fn settle_event(
        &mut self,
        event: &ClaimedEvent,
        token: &LeaseToken,
        ending: EventEnding<'_>,
    ) -> Result<bool, StoreFault> {
        let (state, next_at, error, delivered_at) = match ending {
            EventEnding::Delivered => ("delivered", None, "", Some(self.now().micros())),
            EventEnding::Again(at, why) => ("pending", Some(at.micros()), why, None),
            EventEnding::Dead(why) => ("dead", None, why, None),
        };
        let settled = on!(self, conn => sqlx::query("UPDATE outbox SET state = $1, next_at = $2, last_error = $3, delivered_at = $4, \
                lease_token = '', lease_until = 0 \
              WHERE event_id = $5 AND target = $6 AND lease_token = $7 AND state = 'pending'")
            .bind(state).bind(next_at).bind(error).bind(delivered_at)
            .bind(&event.event_id).bind(&event.target).bind(token.as_str())
            .execute(conn).await?.rows_affected());
        Ok(settled == 1)
    }

    /// Makes an event due again at every target, whatever became of it; how many rows.
    pub async fn redeliver(&mut self, event_id: &str) -> Result<u64, StoreFault> {
        let now = self.now().micros();
        Ok(on!(self, conn => sqlx::query(REVIVE).bind(now).bind(event_id).execute(conn).await?.rows_affected()))
    }

    /// Takes up to `most` events away that `target` never took: nobody will be told of them there; how many rows.
    pub async fn forget_events(&mut self, target: &str, most: i64) -> Result<u64, StoreFault> {
        let now = self.now().micros();
        Ok(
            on!(self, conn => sqlx::query(FORGET).bind(target).bind(now).bind(most).execute(conn).await?.rows_affected()),
        )
    }

    /// Makes every dead event due again; how many rows.
    pub async fn redeliver_dead(&mut self) -> Result<u64, StoreFault> {
        self.redeliver("").await
    }
}

impl Store {
    /// Whether an event for `target` is due now: one query.
    pub async fn event_is_due(&self, target: &str) -> Result<bool, StoreFault> {
        let (due, now) = self.next_event(target).await?;
        Ok(due.is_some_and(|at| at <= now))
    }
}
