//! The audit chain, written in the transaction of the change it speaks of.

use sqlx::FromRow;

use super::engine::{Session, Tx, on};
use super::fault::StoreFault;
use crate::domain::Timestamp;
use crate::proof::{AuditFacts, GENESIS, link};

/// One fact to be audited.
#[derive(Debug, Clone, Default)]
pub struct AuditNote {
    /// The tenant.
    pub tenant: String,
    /// The payment, if it is about one.
    pub payment_id: String,
    /// The payment's version after the change; 0 when it changed nothing.
    pub version: i64,
    /// The process that writes.
    pub node: String,
    /// Who caused it.
    pub actor: String,
    /// What happened.
    pub event: String,
    /// The public state before.
    pub from: String,
    /// The public state after.
    pub to: String,
    /// Why.
    pub reason: String,
    /// What is not repeated in the chain, only its digest.
    pub details: String,
}

/// An audit entry as stored.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct AuditRow {
    /// Position in the tenant's chain.
    pub seq: i64,
    /// The canonical facts.
    pub canonical: String,
    /// The chain value before.
    pub previous: String,
    /// The chain value after.
    pub chain: String,
}

/// The entries about one payment. The tenant's name is no column here: there are as many entries of a tenant as there
/// are, and SQLite would rather walk all of them in order than sort the few of a payment.
pub(super) const OF_PAYMENT: &str = "SELECT seq, canonical, previous, chain FROM audit_entries \
     WHERE tenant || '' = $1 AND payment_id = $2 ORDER BY seq";

#[derive(FromRow)]
struct Head {
    seq: i64,
    chain: String,
}

impl Session {
    /// The entries about one payment, in order.
    pub async fn audit_of(&mut self, tenant: &str, payment_id: &str) -> Result<Vec<AuditRow>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(OF_PAYMENT).bind(tenant).bind(payment_id).fetch_all(conn).await)?)
    }

    /// A tenant's chain after position `after`, in order.
    pub async fn audit_entries(&mut self, tenant: &str, after: i64, limit: i64) -> Result<Vec<AuditRow>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT seq, canonical, previous, chain FROM audit_entries \
              WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT $3")
            .bind(tenant).bind(after).bind(limit).fetch_all(conn).await)?)
    }
}

impl Tx {
    /// Has what this transaction tells be no earlier than `at`, which it follows: the clock may have stepped back.
    pub fn not_before(&mut self, at: Timestamp) {
        self.floor = self.floor.max(at);
    }

    /// When what this transaction tells happened: now, but no earlier than what it follows.
    pub fn at(&self) -> Timestamp {
        self.now().max(self.floor)
    }

    /// Adds a fact; it is chained when the transaction commits.
    pub fn audit(&mut self, note: AuditNote) {
        self.notes.push(note);
    }

    /// Chains the facts of this transaction.
    ///
    /// Last in the transaction: the tenant's head row is the only lock taken after it, so two
    /// transactions can't wait for each other.
    pub(super) async fn write_audit(&mut self) -> Result<(), StoreFault> {
        let (ts, now) = (self.at().rfc3339(), self.at().micros());
        let notes = std::mem::take(&mut self.notes);
        let mut tenants: Vec<String> = notes.iter().map(|note| note.tenant.clone()).collect();
        tenants.sort_unstable();
        tenants.dedup();
        for tenant in tenants {
            let mut head = self.lock_head(&tenant).await?;
            for note in notes.iter().filter(|note| note.tenant == tenant) {
                head.seq = head.seq.saturating_add(1);
                let facts = facts(note, head.seq, &ts);
                let link = link(&head.chain, &facts).map_err(|err| StoreFault::Corrupt(err.to_string()))?;
                on!(self, conn => sqlx::query("INSERT INTO audit_entries (tenant, seq, payment_id, event, canonical, previous, \
                        chain, written_at) VALUES ($1,$2,$3,$4,$5,$6,$7,$8)")
                    .bind(&tenant).bind(head.seq).bind(&note.payment_id).bind(&note.event).bind(&link.canonical)
                    .bind(&head.chain).bind(&link.chain).bind(now)
                    .execute(conn).await.map(drop))?;
                head.chain = link.chain;
            }
            on!(self, conn => sqlx::query("UPDATE audit_heads SET seq = $1, chain = $2 WHERE tenant = $3")
                .bind(head.seq).bind(&head.chain).bind(&tenant)
                .execute(conn).await.map(drop))?;
        }
        Ok(())
    }

    /// Takes the tenant's head row, making it first if need be.
    async fn lock_head(&mut self, tenant: &str) -> Result<Head, StoreFault> {
        const LOCK: &str = "UPDATE audit_heads SET seq = seq WHERE tenant = $1 RETURNING seq, chain";
        let head: Option<Head> = on!(self, conn => sqlx::query_as(LOCK).bind(tenant).fetch_optional(conn).await)?;
        if let Some(head) = head {
            return Ok(head);
        }
        on!(self, conn => sqlx::query("INSERT INTO audit_heads (tenant, seq, chain) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING")
            .bind(tenant).bind(GENESIS).execute(conn).await.map(drop))?;
        Ok(on!(self, conn => sqlx::query_as(LOCK).bind(tenant).fetch_one(conn).await)?)
    }
}

fn facts(note: &AuditNote, seq: i64, ts: &str) -> AuditFacts {
    AuditFacts {
        seq: seq.to_string(),
        ts: ts.to_owned(),
        tenant: note.tenant.clone(),
        payment_id: note.payment_id.clone(),
        version: if note.version == 0 { String::new() } else { note.version.to_string() },
        node: note.node.clone(),
        actor: note.actor.clone(),
        event: note.event.clone(),
        from: note.from.clone(),
        to: note.to.clone(),
        reason: note.reason.clone(),
        digest_of_details: if note.details.is_empty() {
            String::new()
        } else {
            crate::proof::sha256_hex(&note.details)
        },
    }
}
