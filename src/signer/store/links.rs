//! Sign links, by the SHA-256 of their tokens.

use sqlx::FromRow;

use super::{KeptPayment, Session, Stored};
use crate::domain::Timestamp;
use crate::proof::sha256_hex;

/// Where a token leads.
#[derive(Debug, FromRow)]
pub(in crate::signer) struct Link {
    /// The payment.
    pub(in crate::signer) payment_id: String,
    /// Whose it is; empty for one that was issued on request.
    pub(in crate::signer) signer_id: String,
    /// The round it was issued in.
    pub(in crate::signer) round: i64,
    /// When it lapses, in Unix microseconds.
    pub(in crate::signer) expires_at: i64,
}

/// A link about to be issued.
#[derive(Debug, Clone, Copy)]
pub(in crate::signer) struct NewLink<'a> {
    /// Whose it is; empty for one that is issued on request.
    pub(in crate::signer) signer_id: &'a str,
    /// When it is issued.
    pub(in crate::signer) issued_at: Timestamp,
    /// When it lapses.
    pub(in crate::signer) expires_at: Timestamp,
}

impl Session {
    /// Keeps a link to the payment's current round.
    pub(in crate::signer) async fn add_link(
        &mut self,
        token: &str,
        payment: &KeptPayment,
        link: &NewLink<'_>,
    ) -> Stored<()> {
        sqlx::query(
            "INSERT INTO links (token_sha256, payment_id, round, signer_id, issued_at, expires_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .bind(sha256_hex(token))
        .bind(&payment.id)
        .bind(payment.round)
        .bind(link.signer_id)
        .bind(link.issued_at.micros())
        .bind(link.expires_at.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// When the links to a payment were issued on request after `since`, the newest first; at most `most` of them.
    pub(in crate::signer) async fn requested_links(
        &mut self,
        payment_id: &str,
        since: Timestamp,
        most: u32,
    ) -> Stored<Vec<i64>> {
        Ok(sqlx::query_scalar(
            "SELECT issued_at FROM links WHERE payment_id = ?1 AND signer_id = '' AND issued_at > ?2 \
             ORDER BY issued_at DESC LIMIT ?3",
        )
        .bind(payment_id)
        .bind(since.micros())
        .bind(most)
        .fetch_all(self.db())
        .await?)
    }

    /// Where a token leads, lapsed or not.
    pub(in crate::signer) async fn link(&mut self, token: &str) -> Stored<Option<Link>> {
        Ok(sqlx::query_as("SELECT payment_id, signer_id, round, expires_at FROM links WHERE token_sha256 = ?1")
            .bind(sha256_hex(token))
            .fetch_optional(self.db())
            .await?)
    }

    /// Forgets links that lapsed before `before`.
    pub(in crate::signer) async fn forget_links(&mut self, before: Timestamp) -> Stored<()> {
        sqlx::query("DELETE FROM links WHERE expires_at < ?1").bind(before.micros()).execute(self.db()).await?;
        Ok(())
    }
}
