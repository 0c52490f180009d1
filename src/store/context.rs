//! What an agent has been told about a payment, in calls and bytes.

use sqlx::FromRow;

use super::engine::{Tx, on};
use super::fault::StoreFault;

/// Calls and the bytes of their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromRow)]
pub struct ContextUse {
    /// Calls.
    #[sqlx(rename = "context_calls")]
    pub calls: i64,
    /// Bytes of structured content.
    #[sqlx(rename = "context_bytes")]
    pub bytes: i64,
}

/// It adds, and names no version: replicas add up, and no transition is lost to a count.
const ADD: &str = "UPDATE payments SET context_calls = context_calls + $1, context_bytes = context_bytes + $2 \
     WHERE payment_id = $3 RETURNING context_calls, context_bytes";

impl Tx {
    /// Adds to what a payment has used; all of it so far, or `None` for a payment that is not there.
    pub async fn add_context(&mut self, payment_id: &str, more: ContextUse) -> Result<Option<ContextUse>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(ADD)
            .bind(more.calls).bind(more.bytes).bind(payment_id).fetch_optional(conn).await)?)
    }
}
