//! What counts against limits and sums, read from the payments themselves.

use std::collections::BTreeSet;

use sqlx::FromRow;

use super::engine::{Tx, on};
use super::fault::StoreFault;
use crate::domain::{Lack, Timestamp, Usage};

/// Payments that count: all that have not ended unpaid.
macro_rules! counting {
    ($head:literal, $whose:literal, $tail:literal) => {
        concat!(
            $head,
            " FROM payments WHERE tenant = $1 AND ",
            $whose,
            " AND currency = $3 AND created_at > $4 AND created_at <= $5 AND payment_id <> $6 \
             AND status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED','EXECUTED')",
            $tail
        )
    };
}

pub(super) const IN_WINDOW: &str = counting!(
    "SELECT CAST(COALESCE(SUM(amount_minor), 0) AS BIGINT) AS amount_minor, CAST(COUNT(*) AS BIGINT) AS payments",
    "($2 = '' OR agent = $2)",
    ""
);
/// What was proposed to one payee.
const TO_PAYEE: &str = counting!("SELECT CAST(COALESCE(SUM(amount_minor), 0) AS BIGINT)", "payee_account = $2", "");
/// The creation of the last payment that must leave the window, oldest first, before so much has left it.
const LEAVES: &str = counting!(
    "SELECT MIN(created_at) FROM (SELECT created_at, SUM(amount_minor) OVER (ORDER BY created_at) AS gone_minor, \
     COUNT(*) OVER (ORDER BY created_at) AS gone",
    "($2 = '' OR agent = $2)",
    ") AS leaving WHERE gone_minor >= CAST($7 AS BIGINT) AND gone >= CAST($8 AS BIGINT)"
);
/// Those that are open, by an index that holds no others.
pub(super) const OPEN_NOW: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM payments \
     WHERE tenant = $1 AND ($2 = '' OR agent = $2) AND currency = $3 \
     AND status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED')";
/// Held until the transaction ends: the next one under the same limit sees what this one adds.
const TURN: &str = "INSERT INTO budget_turns (tenant, subject, turns) VALUES ($1, $2, 1) \
     ON CONFLICT (tenant, subject) DO UPDATE SET turns = budget_turns.turns + 1";

#[derive(FromRow)]
struct Window {
    amount_minor: i64,
    payments: i64,
}

/// Whose payments are counted, and from when: a half-open span of creation times.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// One agent's, or `""` for the whole tenant's.
    pub agent: &'a str,
    /// The currency's code.
    pub currency: &'a str,
    /// Created after this.
    pub since: Timestamp,
    /// And not after this.
    pub until: Timestamp,
    /// Without this payment; `""` leaves none out.
    pub except: &'a str,
}

impl Tx {
    /// Takes the turns of whoever proposes next, one for each of `subjects`, and reads the time anew.
    ///
    /// *Invariant*: in ascending order, so that two transactions can't wait for each other; and the time is
    /// read after the wait, so that who comes later is created later.
    pub async fn take_turns(&mut self, tenant: &str, subjects: &BTreeSet<String>) -> Result<(), StoreFault> {
        for subject in subjects {
            on!(self, conn => sqlx::query(TURN).bind(tenant).bind(subject).execute(conn).await.map(drop))?;
        }
        if subjects.is_empty() { Ok(()) } else { self.read_time().await }
    }

    /// What counts in the span.
    pub async fn usage(&mut self, counted: Counted<'_>) -> Result<Usage, StoreFault> {
        let window: Window = on!(self, conn => sqlx::query_as(IN_WINDOW)
            .bind(counted.tenant).bind(counted.agent).bind(counted.currency).bind(counted.since.micros())
            .bind(counted.until.micros()).bind(counted.except).fetch_one(conn).await)?;
        Ok(Usage { amount_minor: window.amount_minor, count: number(window.payments), open: 0 })
    }

    /// How many are open now, whenever they were created.
    pub async fn open_now(&mut self, counted: Counted<'_>) -> Result<u32, StoreFault> {
        let open: i64 = on!(self, conn => sqlx::query_scalar(OPEN_NOW)
            .bind(counted.tenant).bind(counted.agent).bind(counted.currency).fetch_one(conn).await)?;
        Ok(number(open))
    }

    /// What was proposed to `payee` in the span, by whichever agent; in minor units.
    pub async fn proposed_to(&mut self, payee: &str, counted: Counted<'_>) -> Result<i64, StoreFault> {
        Ok(on!(self, conn => sqlx::query_scalar(TO_PAYEE)
            .bind(counted.tenant).bind(payee).bind(counted.currency).bind(counted.since.micros())
            .bind(counted.until.micros()).bind(counted.except).fetch_one(conn).await)?)
    }

    /// When the last payment was created that must leave the span, oldest first, before `lack` has left it.
    pub async fn leaves(&mut self, counted: Counted<'_>, lack: Lack) -> Result<Option<Timestamp>, StoreFault> {
        let last: Option<i64> = on!(self, conn => sqlx::query_scalar(LEAVES)
            .bind(counted.tenant).bind(counted.agent).bind(counted.currency).bind(counted.since.micros())
            .bind(counted.until.micros()).bind(counted.except).bind(lack.amount_minor).bind(i64::from(lack.count))
            .fetch_one(conn).await)?;
        Ok(last.map(Timestamp::from_micros))
    }
}

fn number(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
