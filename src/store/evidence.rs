//! What evidence is put together from: the rail's word, copies of checkpoints, entries, decisions with their times.

use sqlx::FromRow;

use super::approvals::StoredDecision;
use super::engine::{Session, Tx, on};
use super::fault::StoreFault;

/// A decision with the round it was given in and the moment it was taken in.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct TimedDecision {
    /// The signing round.
    pub round: i64,
    /// Unix microseconds.
    pub decided_at: i64,
    /// The decision.
    #[sqlx(flatten)]
    pub decision: StoredDecision,
}

/// A copy of a signed checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct StoredCheckpoint {
    /// How many entries it covers.
    pub size: i64,
    /// The note.
    pub note: String,
}

/// Every decision on a payment, wherever they are kept, in the order they were counted, the surplus ones last: a clock that steps back orders nothing.
const DECISIONS: &str = "SELECT round, decided_at, decision_id, signer_id, key_id, choice, reason, document, digest, \
       proof_type, proof, confirmation, payment_version, \
       CASE payment_version WHEN 0 THEN 1 ELSE 0 END AS surplus FROM decisions WHERE payment_id = $1 \
     UNION ALL SELECT round, decided_at, decision_id, signer_id, key_id, choice, reason, document, digest, \
       proof_type, proof, confirmation, payment_version, \
       CASE payment_version WHEN 0 THEN 1 ELSE 0 END AS surplus FROM archived_decisions WHERE payment_id = $1 \
     ORDER BY round, surplus, payment_version, decided_at, decision_id";

impl Session {
    /// Every decision on a payment, in the order they were counted.
    pub async fn timed_decisions(&mut self, payment_id: &str) -> Result<Vec<TimedDecision>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(DECISIONS).bind(payment_id).fetch_all(conn).await)?)
    }

    /// What the rail said of a payment's transfer; of several the last.
    pub async fn receipt(&mut self, payment_id: &str) -> Result<Option<String>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_scalar("SELECT document FROM receipts WHERE payment_id = $1 \
              ORDER BY received_at DESC, outbound_key DESC LIMIT 1")
            .bind(payment_id).fetch_optional(conn).await)?)
    }

    /// The first checkpoint that covers the entry at `seq`.
    pub async fn checkpoint_of(&mut self, tenant: &str, seq: i64) -> Result<Option<StoredCheckpoint>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT size, note FROM checkpoints WHERE tenant = $1 AND size >= $2 \
              ORDER BY size LIMIT 1")
            .bind(tenant).bind(seq).fetch_optional(conn).await)?)
    }

    /// The texts of a tenant's entries after position `after` up to `until`, in order, at most `limit`.
    pub async fn audit_texts(
        &mut self,
        tenant: &str,
        after: i64,
        until: i64,
        limit: i64,
    ) -> Result<Vec<(i64, String)>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT seq, canonical FROM audit_entries \
              WHERE tenant = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4")
            .bind(tenant).bind(after).bind(until).bind(limit).fetch_all(conn).await)?)
    }
}

impl Tx {
    /// Keeps what the rail said of a transfer; what was kept first stays.
    pub async fn keep_receipt(&mut self, key: &str, payment_id: &str, document: &str) -> Result<(), StoreFault> {
        let now = self.now().micros();
        on!(self, conn => sqlx::query("INSERT INTO receipts (outbound_key, payment_id, document, received_at) \
              VALUES ($1,$2,$3,$4) ON CONFLICT DO NOTHING")
            .bind(key).bind(payment_id).bind(document).bind(now).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Keeps a copy of a checkpoint that its sink has.
    pub async fn keep_checkpoint(&mut self, tenant: &str, size: i64, note: &str) -> Result<(), StoreFault> {
        on!(self, conn => sqlx::query("INSERT INTO checkpoints (tenant, size, note) VALUES ($1,$2,$3) ON CONFLICT DO NOTHING")
            .bind(tenant).bind(size).bind(note).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Puts the root's word on a key in the place of an earlier one; `false` when there is no such key.
    pub async fn certify_key(
        &mut self,
        tenant: &str,
        (signer_id, key_id): (&str, &str),
        entry: &str,
        signature: &str,
    ) -> Result<bool, StoreFault> {
        let certified = on!(self, conn => sqlx::query("UPDATE signer_keys SET entry = $1, entry_signature = $2 \
              WHERE tenant = $3 AND signer_id = $4 AND key_id = $5")
            .bind(entry).bind(signature).bind(tenant).bind(signer_id).bind(key_id)
            .execute(conn).await?.rows_affected());
        Ok(certified == 1)
    }
}
