//! Payments and the challenges of their current round.

use sqlx::FromRow;

use super::{Session, Stored, one_row};
use crate::domain::Timestamp;
use crate::proof::Challenge;

/// A payment as it stands in its current round.
#[derive(Debug, Clone, FromRow)]
pub(in crate::signer) struct KeptPayment {
    /// The service's own id.
    pub(in crate::signer) id: String,
    /// The gateway's id for it.
    pub(in crate::signer) reference: String,
    /// Whose payment it is: the document's word, which the database reads off it.
    pub(in crate::signer) tenant: String,
    /// The signing round.
    pub(in crate::signer) round: i64,
    /// The canonical payment document.
    pub(in crate::signer) payload: String,
    /// Its digest, base64url.
    pub(in crate::signer) payment_digest: String,
    /// Until when decisions count, in Unix microseconds.
    pub(in crate::signer) expires_at: i64,
    /// Where callbacks go.
    pub(in crate::signer) callback_url: String,
    /// With how many of their keys each person approves.
    pub(in crate::signer) confirmations: i64,
    /// `open` or `closed`.
    pub(in crate::signer) state: String,
    /// Why it was closed; empty while it is open.
    pub(in crate::signer) close_reason: String,
}

impl KeptPayment {
    /// Whether the gateway still wants decisions.
    pub(in crate::signer) fn is_open(&self) -> bool {
        self.state == "open"
    }

    /// Until when decisions count.
    pub(in crate::signer) fn expires_at(&self) -> Timestamp {
        Timestamp::from_micros(self.expires_at)
    }
}

const BY_ID: &str = "SELECT id, reference, tenant, round, payload, payment_digest, expires_at, callback_url, confirmations, \
                     state, close_reason FROM payments WHERE id = ?1";
const BY_REFERENCE: &str = "SELECT id, reference, tenant, round, payload, payment_digest, expires_at, callback_url, confirmations, \
                            state, close_reason FROM payments WHERE reference = ?1";

impl Session {
    /// The payment of that id.
    pub(in crate::signer) async fn payment(&mut self, id: &str) -> Stored<Option<KeptPayment>> {
        Ok(sqlx::query_as(BY_ID).bind(id).fetch_optional(self.db()).await?)
    }

    /// The payment of that reference.
    pub(in crate::signer) async fn payment_of(&mut self, reference: &str) -> Stored<Option<KeptPayment>> {
        Ok(sqlx::query_as(BY_REFERENCE).bind(reference).fetch_optional(self.db()).await?)
    }

    /// Adds a payment.
    pub(in crate::signer) async fn add_payment(&mut self, payment: &KeptPayment, now: Timestamp) -> Stored<()> {
        sqlx::query(
            "INSERT INTO payments (id, reference, round, payload, payment_digest, expires_at, callback_url, \
             confirmations, state, close_reason, registered_at, changed_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)",
        )
        .bind(&payment.id)
        .bind(&payment.reference)
        .bind(payment.round)
        .bind(&payment.payload)
        .bind(&payment.payment_digest)
        .bind(payment.expires_at)
        .bind(&payment.callback_url)
        .bind(payment.confirmations)
        .bind(&payment.state)
        .bind(&payment.close_reason)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Puts a payment into a higher round, open, with nothing decided.
    pub(in crate::signer) async fn replace_round(&mut self, payment: &KeptPayment, now: Timestamp) -> Stored<()> {
        let changed = sqlx::query(
            "UPDATE payments SET round = ?2, payload = ?3, payment_digest = ?4, expires_at = ?5, callback_url = ?6, \
             confirmations = ?7, state = 'open', close_reason = '', told = '', changed_at = ?8 WHERE id = ?1 AND round < ?2",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .bind(&payment.payload)
        .bind(&payment.payment_digest)
        .bind(payment.expires_at)
        .bind(&payment.callback_url)
        .bind(payment.confirmations)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        one_row(&changed, "the payment's round")?;
        sqlx::query("DELETE FROM challenges WHERE payment_id = ?1").bind(&payment.id).execute(self.db()).await?;
        sqlx::query("DELETE FROM decided_elsewhere WHERE payment_id = ?1").bind(&payment.id).execute(self.db()).await?;
        sqlx::query("DELETE FROM decisions WHERE payment_id = ?1").bind(&payment.id).execute(self.db()).await?;
        Ok(())
    }

    /// Sends the callbacks of decisions still to come elsewhere.
    pub(in crate::signer) async fn set_callback_url(&mut self, id: &str, url: &str, now: Timestamp) -> Stored<()> {
        let changed = sqlx::query("UPDATE payments SET callback_url = ?2, changed_at = ?3 WHERE id = ?1")
            .bind(id)
            .bind(url)
            .bind(now.micros())
            .execute(self.db())
            .await?;
        one_row(&changed, "the payment")
    }

    /// Closes an open payment.
    pub(in crate::signer) async fn close_payment(&mut self, id: &str, reason: &str, now: Timestamp) -> Stored<()> {
        let changed = sqlx::query(
            "UPDATE payments SET state = 'closed', close_reason = ?2, changed_at = ?3 WHERE id = ?1 AND state = 'open'",
        )
        .bind(id)
        .bind(reason)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        one_row(&changed, "the payment's state")
    }

    /// Who is asked in the current round, in the order they were named.
    pub(in crate::signer) async fn challenges(&mut self, payment_id: &str) -> Stored<Vec<Challenge>> {
        let rows: Vec<(String, String, String, String)> = sqlx::query_as(
            "SELECT signer_id, nonce, issued_at, challenge_expires_at FROM challenges WHERE payment_id = ?1 \
             ORDER BY position",
        )
        .bind(payment_id)
        .fetch_all(self.db())
        .await?;
        Ok(rows
            .into_iter()
            .map(|(signer_id, nonce, issued_at, challenge_expires_at)| Challenge {
                signer_id,
                nonce,
                issued_at,
                challenge_expires_at,
            })
            .collect())
    }

    /// Asks these signers.
    pub(in crate::signer) async fn add_challenges(&mut self, payment_id: &str, asked: &[Challenge]) -> Stored<()> {
        for (position, challenge) in (1_i64..).zip(asked) {
            sqlx::query(
                "INSERT INTO challenges (payment_id, signer_id, position, nonce, issued_at, challenge_expires_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )
            .bind(payment_id)
            .bind(&challenge.signer_id)
            .bind(position)
            .bind(&challenge.nonce)
            .bind(&challenge.issued_at)
            .bind(&challenge.challenge_expires_at)
            .execute(self.db())
            .await?;
        }
        Ok(())
    }
}
