//! The archive: what has ended moves there, and answers from there as it did before.
//!
//! *Invariant*: a payment is in `payments` or in `archived_payments`, never in both and never in neither:
//! it moves in one transaction. Whatever reads a payment by name reads both (`payments_everywhere`);
//! claims and scans read the first alone.

use sqlx::FromRow;

use super::engine::{Engine, Session, Tx, on};
use super::fault::StoreFault;
use super::row::PaymentRow;
use crate::domain::Timestamp;

/// Where the next batch goes on: the last change and the id of the last payment that was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, FromRow)]
pub struct Place {
    /// Unix microseconds.
    pub updated_at: i64,
    /// The payment.
    pub payment_id: String,
}

/// What may be moved, in order, and whether an event of it was not delivered. Who reads this writes nothing.
///
/// `$1` is the latest last change, `$2` and `$3` the place after which to look, `$4` how many rows are looked at,
/// whatever they come to: after a receiver was gone for weeks most have an event left. A sub-select of one value is
/// never made a scan of all events.
pub(super) const FINISHED: &str = "SELECT updated_at, payment_id, \
       CAST(COALESCE((SELECT 1 FROM outbox WHERE outbox.payment_id = payments.payment_id AND outbox.state <> 'delivered' \
         LIMIT 1), 0) AS BIGINT) AS undelivered \
     FROM payments \
     WHERE next_wake_at IS NULL AND held_at IS NULL AND attention = '' AND phase <> 'unknown' \
       AND status IN ('EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED') \
       AND updated_at <= $1 AND (updated_at, payment_id) > ($2, $3) \
     ORDER BY updated_at, payment_id LIMIT $4";

/// Whether one of them may still move: ended, nothing to be done for it, nobody to look at it or at work on it, and all
/// its events delivered. `$2` is the latest last change, `$3` the store's time.
const SQLITE_MAY_MOVE: &str = "SELECT payment_id FROM payments WHERE payment_id = $1 \
       AND next_wake_at IS NULL AND held_at IS NULL AND attention = '' AND phase <> 'unknown' \
       AND status IN ('EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED') AND updated_at <= $2 AND lease_until <= $3 \
       AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.payment_id = payments.payment_id AND outbox.state <> 'delivered')";
/// The row is locked, so that it stays so until the commit; one that another has locked stays where it is this time.
const POSTGRES_MAY_MOVE: &str = "SELECT payment_id FROM payments WHERE payment_id = $1 \
       AND next_wake_at IS NULL AND held_at IS NULL AND attention = '' AND phase <> 'unknown' \
       AND status IN ('EXECUTED','REJECTED','EXPIRED','CANCELLED','FAILED') AND updated_at <= $2 AND lease_until <= $3 \
       AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.payment_id = payments.payment_id AND outbox.state <> 'delivered') \
     FOR UPDATE SKIP LOCKED";

/// The statement that asks whether a payment may still move.
pub(super) const fn may_move_statement(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => SQLITE_MAY_MOVE,
        Engine::Postgres => POSTGRES_MAY_MOVE,
    }
}

/// An executed payment that an older version left without its order, before it moves.
const TAKE: &str = "INSERT INTO taken_orders (tenant, order_id, payment_id) \
     SELECT tenant, order_id, payment_id FROM payments WHERE payment_id = $1 AND status = 'EXECUTED' ON CONFLICT DO NOTHING";
/// An executed payment moves only if its order stays taken by it. The view has the archive's columns, in its order.
const MOVE: &str = "INSERT INTO archived_payments SELECT * FROM payments_everywhere p \
     WHERE payment_id = $1 AND (status <> 'EXECUTED' OR EXISTS (SELECT 1 FROM taken_orders t \
       WHERE t.tenant = p.tenant AND t.order_id = p.order_id AND t.payment_id = p.payment_id))";
/// What goes along: kept as it is. Hints and deliveries are dropped: a hint changes nothing any more, and that a change
/// was told is worth keeping only until it can't be told again.
const ALONG: [&str; 8] = [
    "INSERT INTO archived_effects SELECT * FROM effects WHERE payment_id = $1",
    "DELETE FROM effects WHERE payment_id = $1",
    "INSERT INTO archived_challenges SELECT * FROM challenges WHERE payment_id = $1",
    "DELETE FROM challenges WHERE payment_id = $1",
    "INSERT INTO archived_decisions SELECT * FROM decisions WHERE payment_id = $1",
    "DELETE FROM decisions WHERE payment_id = $1",
    "DELETE FROM callbacks WHERE payment_id = $1",
    "DELETE FROM outbox WHERE payment_id = $1 AND state = 'delivered'",
];

/// What was found that may be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// The payments.
    pub payments: Vec<String>,
    /// Where to look next; `None` when there is nothing more.
    pub next: Option<Place>,
}

/// What a batch came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many payments moved.
    pub payments: u32,
    /// Those that could not: their order is taken by another payment.
    pub kept: Vec<String>,
    /// Where the next batch goes on; `None` when there is nothing more.
    pub next: Option<Place>,
}

#[derive(FromRow)]
struct Candidate {
    #[sqlx(flatten)]
    place: Place,
    undelivered: i64,
}

impl Session {
    /// Up to `most` payments after `after` that last changed at or before `until` and may be moved. Looks at `looked_at`
    /// rows at most, so none may be found and there be more all the same.
    pub async fn finished(
        &mut self,
        until: Timestamp,
        after: &Place,
        most: usize,
        looked_at: i64,
    ) -> Result<Finished, StoreFault> {
        let rows: Vec<Candidate> = on!(self, conn => sqlx::query_as(FINISHED)
            .bind(until.micros()).bind(after.updated_at).bind(&after.payment_id).bind(looked_at)
            .fetch_all(conn).await)?;
        let mut more = i64::try_from(rows.len()).is_ok_and(|count| count >= looked_at);
        let mut found = Finished::default();
        let mut last = None;
        for Candidate { place, undelivered } in rows {
            if found.payments.len() >= most {
                more = true;
                break;
            }
            if undelivered == 0 {
                found.payments.push(place.payment_id.clone());
            }
            last = Some(place);
        }
        found.next = last.filter(|_| more);
        Ok(found)
    }
}

impl Tx {
    /// Moves those of `found` that last changed at or before `until` and are all over, judged afresh.
    ///
    /// *Crash*: before the commit all of them are where they were.
    pub async fn archive_finished(&mut self, until: Timestamp, found: &Finished) -> Result<Moved, StoreFault> {
        let mut moved = Moved { next: found.next.clone(), ..Moved::default() };
        for payment_id in &found.payments {
            if !self.may_move(payment_id, until).await? {
                continue;
            }
            if self.archive(payment_id).await? {
                moved.payments = moved.payments.saturating_add(1);
            } else {
                moved.kept.push(payment_id.clone());
            }
        }
        Ok(moved)
    }

    async fn may_move(&mut self, payment_id: &str, until: Timestamp) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let statement = may_move_statement(self.engine());
        let over: Option<String> = on!(self, conn => sqlx::query_scalar(statement)
            .bind(payment_id).bind(until.micros()).bind(now).fetch_optional(conn).await)?;
        Ok(over.is_some())
    }

    async fn archive(&mut self, payment_id: &str) -> Result<bool, StoreFault> {
        on!(self, conn => sqlx::query(TAKE).bind(payment_id).execute(conn).await.map(drop))?;
        let copied = on!(self, conn => sqlx::query(MOVE).bind(payment_id).execute(conn).await?.rows_affected());
        if copied != 1 {
            return Ok(false);
        }
        let gone = on!(self, conn => sqlx::query("DELETE FROM payments WHERE payment_id = $1")
            .bind(payment_id).execute(conn).await?.rows_affected());
        if gone != 1 {
            return Err(StoreFault::Conflict);
        }
        for statement in ALONG {
            on!(self, conn => sqlx::query(statement).bind(payment_id).execute(conn).await.map(drop))?;
        }
        Ok(true)
    }

    /// Brings a payment back that is in the archive as `version`, for evidence that came after its end; whether it was
    /// there.
    pub(super) async fn recall(&mut self, payment_id: &str, version: i64) -> Result<bool, StoreFault> {
        let row: Option<PaymentRow> = on!(self, conn => sqlx::query_as(
                "DELETE FROM archived_payments WHERE payment_id = $1 AND version = $2 RETURNING *")
            .bind(payment_id).bind(version).fetch_optional(conn).await)?;
        let Some(row) = row else { return Ok(false) };
        if self.insert_row(row).await? { Ok(true) } else { Err(StoreFault::Conflict) }
    }

    /// Takes an order for a payment; `false` when it is taken: by an open payment, or by one that was ever executed.
    pub(super) async fn take_order(&mut self, tenant: &str, order: &str, payment_id: &str) -> Result<bool, StoreFault> {
        let taken = on!(self, conn => sqlx::query("INSERT INTO taken_orders (tenant, order_id, payment_id) VALUES ($1, $2, $3) \
              ON CONFLICT DO NOTHING")
            .bind(tenant).bind(order).bind(payment_id).execute(conn).await?.rows_affected());
        Ok(taken == 1)
    }

    /// Gives the order of a payment back that ended unpaid.
    pub(super) async fn free_order(&mut self, tenant: &str, order: &str, payment_id: &str) -> Result<(), StoreFault> {
        on!(self, conn => sqlx::query("DELETE FROM taken_orders WHERE tenant = $1 AND order_id = $2 AND payment_id = $3")
            .bind(tenant).bind(order).bind(payment_id).execute(conn).await.map(drop))?;
        Ok(())
    }
}
