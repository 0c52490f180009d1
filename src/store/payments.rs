//! Payments: insert, read, compare-and-set.

use sqlx::FromRow;

use super::engine::{Session, Tx, on};
use super::fault::StoreFault;
use super::lease::Parking;
use super::row::PaymentRow;
use crate::domain::{Payment, PaymentId, Stage, Status, Terms, Timestamp};

/// What the update itself checks beside the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The version, and that no restore is open.
    Version,
    /// The version alone: what is known of the outside is stored in any case.
    Outcome,
    /// A decision: the round is current, the time has not run out, and nobody holds the payment.
    Decision {
        /// The store's time.
        now: Timestamp,
    },
}

/// A page of payments, newest first.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Only this agent's; empty for all of the tenant's.
    pub agent: String,
    /// Only in this state.
    pub status: Option<Status>,
    /// Only payments with an id below this one; empty for the first page.
    pub before: String,
    /// How many at most.
    pub limit: i64,
}

/// One payment of a tenant.
pub(super) const BY_ID: &str = "SELECT * FROM payments_everywhere WHERE tenant = $1 AND payment_id = $2";
/// An order's latest payment.
pub(super) const BY_ORDER: &str = "SELECT * FROM payments_everywhere WHERE tenant = $1 AND order_id = $2 ORDER BY created_at DESC, payment_id DESC LIMIT 1";
/// A payment of whatever tenant.
pub(super) const FOR_WORK: &str = "SELECT * FROM payments_everywhere WHERE payment_id = $1";
/// A page of an agent's payments.
///
/// Said as a range in the order of its index: with an equality PostgreSQL may walk the primary key instead, which for
/// an agent with few payments among many is the whole table.
pub(super) const LIST_OF_AGENT: &str = "SELECT * FROM payments_everywhere WHERE tenant = $1 \
     AND agent >= $2 AND (agent, payment_id) < ($2, $4) AND ($3 = '' OR status = $3) \
     ORDER BY agent DESC, payment_id DESC LIMIT $5";
/// A page of a tenant's payments.
pub(super) const LIST_OF_TENANT: &str = "SELECT * FROM payments_everywhere WHERE tenant = $1 AND $2 = '' \
     AND ($3 = '' OR status = $3) AND payment_id < $4 ORDER BY payment_id DESC LIMIT $5";
/// Above every id, in the order of bytes and in any language's.
const ABOVE_ALL: &str = "q";
/// Those that accept decisions.
pub(super) const OPEN: &str = "SELECT * FROM payments WHERE tenant = $1 \
     AND status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL') \
     AND payment_id > $2 ORDER BY payment_id LIMIT $3";
/// Those that a person should look at.
pub(super) const ATTENTION: &str = "SELECT * FROM payments WHERE tenant = $1 \
     AND (status = 'NEED_MANUAL' OR attention <> '' OR phase = 'unknown' OR held_at IS NOT NULL OR parked_at IS NOT NULL) \
     AND payment_id > $2 ORDER BY payment_id LIMIT $3";

/// A page of payments, and where the next one starts.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// Those of the page that can be read; the others are logged.
    pub payments: Vec<Payment>,
    /// The last id of the page; `None` on the last page.
    pub next: Option<String>,
}

/// A payment that a person should look at.
#[derive(Debug, Clone)]
pub struct Stuck {
    /// Its id.
    pub payment_id: String,
    /// Its order.
    pub order_id: String,
    /// Its status, as stored.
    pub status: String,
    /// The payment; `None` when its row can't be read.
    pub payment: Option<Payment>,
    /// Set when its work fails for ever.
    pub parked: Option<Parking>,
}

#[derive(FromRow)]
struct StuckRow {
    #[sqlx(flatten)]
    payment: PaymentRow,
    parked_at: Option<i64>,
    parked_reason: String,
}

/// One row that can't be read must not hide the others.
fn readable(row: PaymentRow) -> Option<Payment> {
    let id = row.payment_id.clone();
    Payment::try_from(row)
        .inspect_err(|fault| tracing::error!(payment.id = id, error = %fault, "a stored payment can't be read"))
        .ok()
}

fn listed(rows: Vec<PaymentRow>, limit: i64) -> Listed {
    let full = i64::try_from(rows.len()).is_ok_and(|count| count >= limit);
    let next = rows.last().filter(|_| full).map(|row| row.payment_id.clone());
    Listed { payments: rows.into_iter().filter_map(readable).collect(), next }
}

impl Session {
    /// A tenant's payment.
    pub async fn payment(&mut self, tenant: &str, payment_id: &PaymentId) -> Result<Option<Payment>, StoreFault> {
        let row: Option<PaymentRow> = on!(self, conn => sqlx::query_as(BY_ID)
            .bind(tenant).bind(payment_id.as_str()).fetch_optional(conn).await)?;
        row.map(Payment::try_from).transpose()
    }

    /// The latest payment of a tenant's order.
    pub async fn payment_by_order(&mut self, tenant: &str, order_id: &str) -> Result<Option<Payment>, StoreFault> {
        let row: Option<PaymentRow> = on!(self, conn => sqlx::query_as(BY_ORDER)
            .bind(tenant).bind(order_id).fetch_optional(conn).await)?;
        row.map(Payment::try_from).transpose()
    }

    /// A payment of whatever tenant, for the worker.
    pub async fn payment_for_work(&mut self, payment_id: &str) -> Result<Option<Payment>, StoreFault> {
        let row: Option<PaymentRow> = on!(self, conn => sqlx::query_as(FOR_WORK)
            .bind(payment_id).fetch_optional(conn).await)?;
        row.map(Payment::try_from).transpose()
    }

    /// A page of a tenant's payments, newest first.
    pub async fn payments(&mut self, tenant: &str, listing: &Listing) -> Result<Listed, StoreFault> {
        let status = listing.status.map_or("", Status::as_str);
        let list = if listing.agent.is_empty() { LIST_OF_TENANT } else { LIST_OF_AGENT };
        let before = if listing.before.is_empty() { ABOVE_ALL } else { &listing.before };
        let rows: Vec<PaymentRow> = on!(self, conn => sqlx::query_as(list)
            .bind(tenant).bind(&listing.agent).bind(status).bind(before).bind(listing.limit)
            .fetch_all(conn).await)?;
        Ok(listed(rows, listing.limit))
    }

    /// A page of the payments that accept decisions, oldest first.
    pub async fn open_payments(&mut self, tenant: &str, after: &str, limit: i64) -> Result<Listed, StoreFault> {
        let rows: Vec<PaymentRow> = on!(self, conn => sqlx::query_as(OPEN)
            .bind(tenant).bind(after).bind(limit).fetch_all(conn).await)?;
        Ok(listed(rows, limit))
    }

    /// Up to `limit` payments that a person should look at, oldest first.
    pub async fn attention(&mut self, tenant: &str, after: &str, limit: i64) -> Result<Vec<Stuck>, StoreFault> {
        let rows: Vec<StuckRow> = on!(self, conn => sqlx::query_as(ATTENTION)
            .bind(tenant).bind(after).bind(limit).fetch_all(conn).await)?;
        let stuck = |StuckRow { payment: row, parked_at, parked_reason }| Stuck {
            payment_id: row.payment_id.clone(),
            order_id: row.order_id.clone(),
            status: row.status.clone(),
            payment: readable(row),
            parked: parked_at.map(|since| Parking { since: Timestamp::from_micros(since), reason: parked_reason }),
        };
        Ok(rows.into_iter().map(stuck).collect())
    }
}

const INSERT: &str = "INSERT INTO payments (payment_id, tenant, order_id, version, status, reason, round, amount_minor, \
     currency, payer_account, payee_account, payee_name, memo, agent, principal, wish, policy, fingerprint, document, \
     digest, traceparent, created_at, updated_at, expires_at, execute_by, approvals, signer_ref, registered_round, \
     notify_settled, notify_attempts, notify_last, notify_at, check_at, phase, attempt_group, sends, not_sent, queries, \
     execute_at, last_send_at, resend_until, cancel_requested_at, transfer_id, tell_at, tell_attempts, held_at, attention, \
     next_wake_at, decisions) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25,$26,\
     $27,$28,$29,$30,$31,$32,$33,$34,$35,$36,$37,$38,$39,$40,$41,$42,$43,$44,$45,$46,$47,$48,$49) ON CONFLICT DO NOTHING";

/// What is all over has no work that could fail, and is parked no more.
const UPDATE: &str = "UPDATE payments SET version = $1, status = $2, reason = $3, round = $4, document = $5, digest = $6, \
     updated_at = $7, approvals = $8, signer_ref = $9, registered_round = $10, notify_settled = $11, notify_attempts = $12, \
     notify_last = $13, notify_at = $14, check_at = $15, phase = $16, attempt_group = $17, sends = $18, not_sent = $19, \
     queries = $20, execute_at = $21, last_send_at = $22, resend_until = $23, cancel_requested_at = $24, transfer_id = $25, \
     tell_at = $26, tell_attempts = $27, held_at = $28, attention = $29, next_wake_at = $30, policy = $31, wish = $32, decisions = $33, \
     parked_at = CASE WHEN $30 IS NULL AND $28 IS NULL THEN NULL ELSE parked_at END, \
     parked_reason = CASE WHEN $30 IS NULL AND $28 IS NULL THEN '' ELSE parked_reason END \
     WHERE payment_id = $34 AND version = $35 \
     AND ($36 = 0 OR (round = $37 AND expires_at > $36 AND held_at IS NULL)) \
     AND ($38 = 1 OR NOT EXISTS (SELECT 1 FROM restores WHERE state = 'open'))";

impl Tx {
    /// Inserts a new payment; `false` when the order already has an open or executed one, the archive's included.
    ///
    /// The caller then drops the transaction.
    pub async fn insert_payment(&mut self, payment: &Payment) -> Result<bool, StoreFault> {
        let inserted = self.insert_row(PaymentRow::of(payment)?).await?;
        let Terms { tenant, order_id, payment_id, .. } = &payment.terms;
        Ok(inserted
            && (ended_unpaid(payment.status)
                || self.take_order(tenant.as_str(), order_id.as_str(), payment_id.as_str()).await?))
    }

    /// Inserts a row as it is; `false` when it, or an order's open or executed payment, is there already.
    pub(super) async fn insert_row(&mut self, row: PaymentRow) -> Result<bool, StoreFault> {
        let inserted = on!(self, conn => sqlx::query(INSERT)
            .bind(row.payment_id).bind(row.tenant).bind(row.order_id).bind(row.version).bind(row.status).bind(row.reason)
            .bind(row.round).bind(row.amount_minor).bind(row.currency).bind(row.payer_account).bind(row.payee_account)
            .bind(row.payee_name).bind(row.memo).bind(row.agent).bind(row.principal).bind(row.wish).bind(row.policy)
            .bind(row.fingerprint).bind(row.document).bind(row.digest).bind(row.traceparent).bind(row.created_at)
            .bind(row.updated_at).bind(row.expires_at).bind(row.execute_by).bind(row.approvals).bind(row.signer_ref)
            .bind(row.registered_round).bind(row.notify_settled).bind(row.notify_attempts).bind(row.notify_last)
            .bind(row.notify_at).bind(row.check_at).bind(row.phase).bind(row.attempt_group).bind(row.sends)
            .bind(row.not_sent).bind(row.queries).bind(row.execute_at).bind(row.last_send_at).bind(row.resend_until)
            .bind(row.cancel_requested_at).bind(row.transfer_id).bind(row.tell_at).bind(row.tell_attempts)
            .bind(row.held_at).bind(row.attention).bind(row.next_wake_at).bind(row.decisions)
            .execute(conn).await?.rows_affected());
        Ok(inserted == 1)
    }

    /// Stores `after` if the row still is `before`.
    ///
    /// A payment that is in the archive comes back first. *Errors*: `Conflict` when it is not, or when `guard`
    /// no longer holds: reload and decide again. `Restoring` while only outcomes are stored.
    pub async fn save_payment(&mut self, before: &Payment, after: &Payment, guard: Guard) -> Result<(), StoreFault> {
        let Terms { tenant, order_id, payment_id, .. } = &after.terms;
        let there = self.update_payment(before, after, guard).await?
            || (self.recall(payment_id.as_str(), before.version).await?
                && self.update_payment(before, after, guard).await?);
        if !there {
            let restoring = guard != Guard::Outcome && self.restore_is_open().await?;
            return Err(if restoring { StoreFault::Restoring } else { StoreFault::Conflict });
        }
        if ended_unpaid(after.status) && !ended_unpaid(before.status) {
            self.free_order(tenant.as_str(), order_id.as_str(), payment_id.as_str()).await?;
        }
        Ok(())
    }

    async fn update_payment(&mut self, before: &Payment, after: &Payment, guard: Guard) -> Result<bool, StoreFault> {
        let row = PaymentRow::of(after)?;
        let deadline = match guard {
            Guard::Version | Guard::Outcome => 0,
            Guard::Decision { now } => now.micros(),
        };
        let saved = on!(self, conn => sqlx::query(UPDATE)
            .bind(row.version).bind(row.status).bind(row.reason).bind(row.round).bind(row.document).bind(row.digest)
            .bind(row.updated_at).bind(row.approvals).bind(row.signer_ref).bind(row.registered_round)
            .bind(row.notify_settled).bind(row.notify_attempts).bind(row.notify_last).bind(row.notify_at)
            .bind(row.check_at).bind(row.phase).bind(row.attempt_group).bind(row.sends).bind(row.not_sent)
            .bind(row.queries).bind(row.execute_at).bind(row.last_send_at).bind(row.resend_until)
            .bind(row.cancel_requested_at).bind(row.transfer_id).bind(row.tell_at).bind(row.tell_attempts)
            .bind(row.held_at).bind(row.attention).bind(row.next_wake_at).bind(row.policy).bind(row.wish).bind(row.decisions)
            .bind(row.payment_id).bind(before.version).bind(deadline).bind(before.round).bind(i64::from(guard == Guard::Outcome))
            .execute(conn).await?.rows_affected());
        Ok(saved == 1)
    }
}

/// Whether a payment of this status leaves its order free.
fn ended_unpaid(status: Status) -> bool {
    match status.stage() {
        Stage::Open | Stage::Signed => false,
        Stage::Ended => status != Status::Executed,
    }
}
