//! What counts against a limit, read from the payments themselves.

use sqlx::FromRow;

use super::engine::{Tx, on};
use super::fault::StoreFault;
use crate::domain::{Timestamp, Usage};

/// Payments that count: all that have not ended unpaid.
pub(super) const IN_WINDOW: &str = "SELECT CAST(COALESCE(SUM(amount_minor), 0) AS BIGINT) AS amount_minor, CAST(COUNT(*) AS BIGINT) AS payments \
     FROM payments WHERE tenant = $1 AND ($2 = '' OR agent = $2) AND currency = $3 AND created_at > $4 \
     AND status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED','EXECUTED')";
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

/// Whose payments are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// One agent's, or `""` for the whole tenant's.
    pub agent: &'a str,
}

impl Tx {
    /// Takes the turn of whoever proposes next under these limits.
    ///
    /// Turns are taken in the order of their names, so that two transactions can't wait for each other.
    pub async fn take_turn(&mut self, counted: Counted<'_>) -> Result<(), StoreFault> {
        on!(self, conn => sqlx::query(TURN).bind(counted.tenant).bind(counted.agent).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// What counts already: in the window since `since`, and open now.
    pub async fn usage(&mut self, counted: Counted<'_>, currency: &str, since: Timestamp) -> Result<Usage, StoreFault> {
        let window: Window = on!(self, conn => sqlx::query_as(IN_WINDOW)
            .bind(counted.tenant).bind(counted.agent).bind(currency).bind(since.micros()).fetch_one(conn).await)?;
        let open: i64 = on!(self, conn => sqlx::query_scalar(OPEN_NOW)
            .bind(counted.tenant).bind(counted.agent).bind(currency).fetch_one(conn).await)?;
        let count = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(Usage { amount_minor: window.amount_minor, count: count(window.payments), open: count(open) })
    }
}
