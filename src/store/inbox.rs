//! What came in before: idempotency keys of callers, ids of callbacks.

use sqlx::FromRow;

use super::engine::{Session, Tx, on};
use super::fault::StoreFault;

/// Whose key, for which operation.
#[derive(Debug, Clone, Copy)]
pub struct KeyScope<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The agent.
    pub agent: &'a str,
    /// The tool.
    pub operation: &'a str,
}

/// What a caller's key stands for.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct KeyBinding {
    /// SHA-256 of the request.
    pub fingerprint: String,
    /// The payment it made; `""` when it was refused.
    pub payment_id: String,
    /// The code and words it was refused with; `""` when it made a payment.
    pub refusal: String,
}

impl Session {
    /// What a caller's key stands for, if it was used.
    pub async fn key_binding(&mut self, scope: KeyScope<'_>, key: &str) -> Result<Option<KeyBinding>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT fingerprint, payment_id, refusal FROM idempotency \
              WHERE tenant = $1 AND agent = $2 AND operation = $3 AND idempotency_key = $4")
            .bind(scope.tenant).bind(scope.agent).bind(scope.operation).bind(key)
            .fetch_optional(conn).await)?)
    }
}

impl Tx {
    /// Binds a caller's key to what it made; `false` when another request was first.
    pub async fn bind_key(&mut self, scope: KeyScope<'_>, key: &str, binding: &KeyBinding) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let bound = on!(self, conn => sqlx::query("INSERT INTO idempotency (tenant, agent, operation, idempotency_key, \
                fingerprint, payment_id, refusal, created_at) VALUES ($1,$2,$3,$4,$5,$6,$7,$8) ON CONFLICT DO NOTHING")
            .bind(scope.tenant).bind(scope.agent).bind(scope.operation).bind(key).bind(&binding.fingerprint)
            .bind(&binding.payment_id).bind(&binding.refusal).bind(now)
            .execute(conn).await?.rows_affected());
        Ok(bound == 1)
    }

    /// Remembers a callback's id; `false` when it was seen before, or when its payment is in the archive: nothing comes of
    /// it there, and nobody would ever forget it.
    pub async fn remember_callback(
        &mut self,
        source: &str,
        event_id: &str,
        payment_id: &str,
    ) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let new = on!(self, conn => sqlx::query("INSERT INTO callbacks (source, event_id, payment_id, received_at) \
              SELECT $1,$2,$3,$4 WHERE EXISTS (SELECT 1 FROM payments WHERE payment_id = $3) ON CONFLICT DO NOTHING")
            .bind(source).bind(event_id).bind(payment_id).bind(now)
            .execute(conn).await?.rows_affected());
        Ok(new == 1)
    }

    /// The ids of the callbacks that are remembered of `source`.
    pub async fn callbacks_of(&mut self, source: &str) -> Result<Vec<String>, StoreFault> {
        let sql = "SELECT event_id FROM callbacks WHERE source = $1";
        Ok(on!(self, conn => sqlx::query_scalar(sql).bind(source).fetch_all(conn).await)?)
    }
}
