//! Recorded side effects: the intent, its attempts, its outcome.

use sqlx::FromRow;

use super::engine::{Session, Tx, on};
use super::fault::StoreFault;

/// What kind of side effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectKind {
    /// Making a payment's round known to the signer service.
    SignerRegister,
    /// Reaching the signers.
    SignerNotify,
    /// Saying that no more decisions are wanted.
    SignerCancel,
    /// Moving the money.
    RailExecute,
}

impl EffectKind {
    /// The stable spelling, part of the outbound key.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SignerRegister => "signer.register",
            Self::SignerNotify => "signer.notify",
            Self::SignerCancel => "signer.cancel",
            Self::RailExecute => "rail.execute",
        }
    }
}

/// What is known of a side effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectState {
    /// Written down; an attempt may be on its way.
    Intended,
    /// It happened.
    Done,
    /// The other side refused it.
    Refused,
    /// Provably nothing left at the last attempt.
    NotSent,
    /// It may have happened.
    Unknown,
}

impl EffectState {
    /// The stable spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intended => "intended",
            Self::Done => "done",
            Self::Refused => "refused",
            Self::NotSent => "not_sent",
            Self::Unknown => "unknown",
        }
    }
}

/// An intent to write.
#[derive(Debug)]
pub struct NewEffect<'a> {
    /// Our id for it.
    pub effect_id: String,
    /// The outbound idempotency key.
    pub key: &'a str,
    /// Whose.
    pub tenant: &'a str,
    /// For which payment.
    pub payment_id: &'a str,
    /// What kind.
    pub kind: EffectKind,
    /// The id at the other side it is addressed to, or `""`.
    pub target: &'a str,
    /// The exact bytes to send.
    pub body: &'a str,
    /// The trace it belongs to.
    pub traceparent: &'a str,
}

/// A side effect as stored.
#[derive(Debug, Clone, FromRow)]
pub struct EffectRow {
    /// The outbound idempotency key.
    pub outbound_key: String,
    /// The id at the other side it is addressed to, or `""`.
    pub target: String,
    /// The exact bytes to send.
    pub body: String,
    /// What is known of it.
    pub state: String,
    /// Attempts started.
    pub attempts: i64,
    /// The trace it belongs to.
    pub traceparent: String,
}

/// What was sent for a payment, and what came of it; without the bytes.
#[derive(Debug, Clone, FromRow)]
pub struct EffectTrail {
    /// What kind.
    pub kind: String,
    /// The outbound idempotency key.
    pub outbound_key: String,
    /// SHA-256 of the bytes, hexadecimal.
    pub body_sha256: String,
    /// What is known of it.
    pub state: String,
    /// Attempts started.
    pub attempts: i64,
    /// In words.
    pub outcome: String,
    /// Unix microseconds.
    pub created_at: i64,
    /// Unix microseconds.
    pub settled_at: Option<i64>,
}

/// What was sent for a payment, wherever it is kept.
pub(super) const TRAIL: &str = "SELECT kind, outbound_key, body_sha256, state, attempts, outcome, created_at, settled_at \
     FROM effects WHERE payment_id = $1 \
     UNION ALL SELECT kind, outbound_key, body_sha256, state, attempts, outcome, created_at, settled_at \
     FROM archived_effects WHERE payment_id = $1 ORDER BY created_at, outbound_key";
/// A side effect by its key, wherever it is kept.
pub(super) const BY_KEY: &str = "SELECT outbound_key, target, body, state, attempts, traceparent FROM effects WHERE outbound_key = $1 \
     UNION ALL SELECT outbound_key, target, body, state, attempts, traceparent FROM archived_effects WHERE outbound_key = $1";

impl Session {
    /// What was sent for a payment, in order.
    pub async fn effects_of(&mut self, payment_id: &str) -> Result<Vec<EffectTrail>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(TRAIL)
            .bind(payment_id).fetch_all(conn).await)?)
    }

    /// The side effect with this outbound key.
    pub async fn effect(&mut self, key: &str) -> Result<Option<EffectRow>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(BY_KEY)
            .bind(key).fetch_optional(conn).await)?)
    }
}

impl Tx {
    /// Writes the intent of a side effect and its next attempt.
    ///
    /// The first call stores target, body and trace; a later one counts the attempt and leaves them
    /// as they are, so that every attempt sends the same bytes. Returns the row to send.
    ///
    /// *Errors*: `Conflict` when it is done: reload and decide again.
    pub async fn intend(&mut self, effect: &NewEffect<'_>) -> Result<EffectRow, StoreFault> {
        let now = self.now().micros();
        let sha = crate::proof::sha256_hex(effect.body);
        let row: Option<EffectRow> = on!(self, conn => sqlx::query_as("INSERT INTO effects (effect_id, outbound_key, tenant, payment_id, \
                kind, target, body, body_sha256, state, attempts, outcome, traceparent, created_at, attempted_at, settled_at) \
              VALUES ($1,$2,$3,$4,$5,$6,$7,$8,'intended',1,'',$9,$10,$10,NULL) \
              ON CONFLICT (outbound_key) DO UPDATE SET state = 'intended', attempts = effects.attempts + 1, attempted_at = $10, settled_at = NULL \
                WHERE effects.state <> 'done' \
              RETURNING outbound_key, target, body, state, attempts, traceparent")
            .bind(&effect.effect_id).bind(effect.key).bind(effect.tenant).bind(effect.payment_id).bind(effect.kind.as_str())
            .bind(effect.target).bind(effect.body).bind(sha).bind(effect.traceparent).bind(now)
            .fetch_optional(conn).await)?;
        row.ok_or(StoreFault::Conflict)
    }

    /// Stores what is now known of a side effect. What is done stays done.
    pub async fn settle(&mut self, key: &str, state: EffectState, outcome: &str) -> Result<(), StoreFault> {
        let now = self.now().micros();
        let settled = matches!(state, EffectState::Done | EffectState::Refused).then_some(now);
        on!(self, conn => sqlx::query("UPDATE effects SET state = $1, outcome = $2, settled_at = $3 \
              WHERE outbound_key = $4 AND state <> 'done'")
            .bind(state.as_str()).bind(outcome).bind(settled).bind(key)
            .execute(conn).await.map(drop))?;
        Ok(())
    }
}
