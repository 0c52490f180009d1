//! What is read to prove the audit: heads, whole entries, and what they must agree with.

use sqlx::FromRow;

use super::approvals::{PINNED_OF_TENANT, PinnedKey, StoredDecision};
use super::effects::EffectKind;
use super::engine::{Session, on};
use super::fault::StoreFault;
use super::row::PaymentRow;
use crate::domain::Payment;
use crate::proof::AuditLine;

/// A page of the ids of a tenant's payments: each place gives a page in the order of its index, so that none is read to
/// its end for every page.
pub(super) const IDS: &str = "SELECT payment_id FROM (SELECT payment_id FROM payments WHERE tenant = $1 AND payment_id > $2 \
       ORDER BY payment_id LIMIT $3) AS hot \
     UNION SELECT payment_id FROM (SELECT payment_id FROM archived_payments WHERE tenant = $1 AND payment_id > $2 \
       ORDER BY payment_id LIMIT $3) AS archived \
     ORDER BY payment_id LIMIT $3";

/// The end of a tenant's chain.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct AuditHead {
    /// The tenant.
    pub tenant: String,
    /// The last entry's position.
    pub seq: i64,
    /// The chain value after it.
    pub chain: String,
    /// The chain value that the entry itself has; empty when there is no such entry.
    pub entry: String,
}

/// A decision and the round it was given in.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct RoundDecision {
    /// The signing round.
    pub round: i64,
    /// The decision.
    #[sqlx(flatten)]
    pub decision: StoredDecision,
}

/// One person's word that a payment was made.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct AttestedPayment {
    /// Which hold or attempt group it speaks of.
    pub episode: String,
    /// Who.
    pub person: String,
    /// What they refer to.
    pub reference: String,
    /// Why they say so.
    pub evidence: String,
}

/// What was sent to the rail, or was to be, under one key.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct SentBody {
    /// Our key for it.
    pub outbound_key: String,
    /// The exact bytes.
    pub body: String,
    /// Their SHA-256 as it was stored with them, hexadecimal.
    pub body_sha256: String,
}

#[derive(FromRow)]
struct Line {
    seq: i64,
    payment_id: String,
    event: String,
    canonical: String,
    previous: String,
    chain: String,
    written_at: i64,
}

impl From<Line> for AuditLine {
    fn from(line: Line) -> Self {
        let Line { seq, payment_id, event, canonical, previous, chain, written_at } = line;
        Self { seq, payment_id, event, canonical, previous, chain, written_at }
    }
}

impl Session {
    /// The end of each chain that has an entry, in one statement: what it sees has been committed.
    pub async fn audit_heads(&mut self) -> Result<Vec<AuditHead>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_as("SELECT h.tenant, h.seq, h.chain, COALESCE(e.chain, '') AS entry FROM audit_heads h \
              LEFT JOIN audit_entries e ON e.tenant = h.tenant AND e.seq = h.seq WHERE h.seq > 0 ORDER BY h.tenant")
            .fetch_all(conn).await)?,
        )
    }

    /// The end of a tenant's chain.
    pub async fn audit_head(&mut self, tenant: &str) -> Result<Option<AuditHead>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_as("SELECT h.tenant, h.seq, h.chain, COALESCE(e.chain, '') AS entry FROM audit_heads h \
              LEFT JOIN audit_entries e ON e.tenant = h.tenant AND e.seq = h.seq WHERE h.tenant = $1")
            .bind(tenant).fetch_optional(conn).await)?,
        )
    }

    /// The tenants that have a chain, entries without one, payments or keys.
    pub async fn audit_tenants(&mut self) -> Result<Vec<String>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_scalar("SELECT tenant FROM audit_heads UNION SELECT tenant FROM audit_entries \
              UNION SELECT tenant FROM payments_everywhere UNION SELECT tenant FROM signer_keys ORDER BY tenant")
            .fetch_all(conn).await)?,
        )
    }

    /// A tenant's entries with all their columns, after position `after`, in order.
    pub async fn audit_lines(&mut self, tenant: &str, after: i64, limit: i64) -> Result<Vec<AuditLine>, StoreFault> {
        let lines: Vec<Line> = on!(self, conn => sqlx::query_as("SELECT seq, payment_id, event, canonical, previous, chain, written_at \
              FROM audit_entries WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT $3")
            .bind(tenant).bind(after).bind(limit).fetch_all(conn).await)?;
        Ok(lines.into_iter().map(AuditLine::from).collect())
    }

    /// The entry at a position.
    pub async fn audit_line(&mut self, tenant: &str, seq: i64) -> Result<Option<AuditLine>, StoreFault> {
        Ok(self.audit_lines(tenant, seq.saturating_sub(1), 1).await?.into_iter().find(|line| line.seq == seq))
    }

    /// A page of the ids of a tenant's payments, wherever they are kept, in order.
    pub async fn payment_ids(&mut self, tenant: &str, after: &str, limit: i64) -> Result<Vec<String>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_scalar(IDS).bind(tenant).bind(after).bind(limit).fetch_all(conn).await)?)
    }

    /// A page of the payments that a tenant's chain speaks of and that are kept nowhere as that tenant's, in order.
    pub async fn payments_only_audited(
        &mut self,
        tenant: &str,
        after: &str,
        limit: i64,
    ) -> Result<Vec<String>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_scalar("SELECT DISTINCT e.payment_id FROM audit_entries e WHERE e.tenant = $1 AND e.payment_id > $2 \
              AND NOT EXISTS (SELECT 1 FROM payments_everywhere p WHERE p.payment_id = e.payment_id \
                AND p.tenant = e.tenant) ORDER BY e.payment_id LIMIT $3")
            .bind(tenant).bind(after).bind(limit).fetch_all(conn).await)?,
        )
    }

    /// A payment, whatever its tenant, as often as it is kept.
    pub async fn kept_payments(&mut self, payment_id: &str) -> Result<Vec<Payment>, StoreFault> {
        let rows: Vec<PaymentRow> = on!(self, conn => sqlx::query_as("SELECT * FROM payments_everywhere WHERE payment_id = $1")
            .bind(payment_id).fetch_all(conn).await)?;
        rows.into_iter().map(Payment::try_from).collect()
    }

    /// What was sent to the rail for a payment, wherever it is kept.
    pub async fn sent_bodies(&mut self, payment_id: &str) -> Result<Vec<SentBody>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_as("SELECT outbound_key, body, body_sha256 FROM effects WHERE payment_id = $1 AND kind = $2 \
              UNION ALL SELECT outbound_key, body, body_sha256 FROM archived_effects WHERE payment_id = $1 AND kind = $2 \
              ORDER BY outbound_key")
            .bind(payment_id).bind(EffectKind::RailExecute.as_str()).fetch_all(conn).await)?,
        )
    }

    /// Every decision on a payment, wherever they are kept, in the order they were counted.
    pub async fn all_decisions(&mut self, payment_id: &str) -> Result<Vec<RoundDecision>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_as("SELECT round, decision_id, signer_id, key_id, choice, reason, document, digest, \
              proof_type, proof, confirmation, decided_at, payment_version FROM decisions WHERE payment_id = $1 \
              UNION ALL SELECT round, decision_id, signer_id, key_id, choice, reason, document, digest, proof_type, proof, \
              confirmation, decided_at, payment_version FROM archived_decisions WHERE payment_id = $1 ORDER BY round, payment_version, decision_id")
            .bind(payment_id).fetch_all(conn).await)?,
        )
    }

    /// Every word that a payment was made.
    pub async fn attested_payment(&mut self, payment_id: &str) -> Result<Vec<AttestedPayment>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT episode, person, reference, evidence FROM attestations \
              WHERE payment_id = $1 AND verb = 'attest_executed' ORDER BY episode, person")
            .bind(payment_id).fetch_all(conn).await)?)
    }

    /// Every key that was ever pinned for a tenant.
    pub async fn keys_of_tenant(&mut self, tenant: &str) -> Result<Vec<PinnedKey>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(PINNED_OF_TENANT)
            .bind(tenant).fetch_all(conn).await)?)
    }
}
