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
    /// The round it was issued in.
    pub(in crate::signer) round: i64,
    /// When it lapses, in Unix microseconds.
    pub(in crate::signer) expires_at: i64,
}

impl Session {
    /// Keeps a link to the payment's current round.
    pub(in crate::signer) async fn add_link(
        &mut self,
        token: &str,
        payment: &KeptPayment,
        expires_at: Timestamp,
    ) -> Stored<()> {
        sqlx::query("INSERT INTO links (token_sha256, payment_id, round, expires_at) VALUES (?1, ?2, ?3, ?4)")
            .bind(sha256_hex(token))
            .bind(&payment.id)
            .bind(payment.round)
            .bind(expires_at.micros())
            .execute(self.db())
            .await?;
        Ok(())
    }

    /// Where a token leads, lapsed or not.
    pub(in crate::signer) async fn link(&mut self, token: &str) -> Stored<Option<Link>> {
        Ok(sqlx::query_as("SELECT payment_id, round, expires_at FROM links WHERE token_sha256 = ?1")
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
