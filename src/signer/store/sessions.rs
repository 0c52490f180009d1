//! Who may sign in, who has, and what waits for them.

use sqlx::FromRow;

use super::{KeptPayment, Session, Stored, one_row};
use crate::domain::Timestamp;
use crate::proof::sha256_hex;

/// A passkey by which a person signs in.
#[derive(Debug, Clone, FromRow)]
pub(in crate::signer) struct SignInKey {
    /// Its credential, base64url.
    pub(in crate::signer) credential_id: String,
    /// The invitation with which it was made.
    pub(in crate::signer) invitation_id: String,
    /// Whose people its owner is one of: the invitation's word.
    pub(in crate::signer) tenant: String,
    /// Whose it is.
    pub(in crate::signer) signer_id: String,
    /// Its algorithm.
    pub(in crate::signer) alg: String,
    /// Its public half, base64url.
    pub(in crate::signer) public_key: String,
    /// The authenticator's counter when it was last used.
    pub(in crate::signer) counter: i64,
}

const BY_CREDENTIAL: &str = "SELECT k.credential_id, k.invitation_id, i.tenant, k.signer_id, k.alg, k.public_key, k.counter \
     FROM sign_in_keys k JOIN invitations i ON i.invitation_id = k.invitation_id WHERE k.credential_id = ?1";
const BY_SESSION: &str = "SELECT k.credential_id, k.invitation_id, i.tenant, k.signer_id, k.alg, k.public_key, k.counter \
     FROM sessions s JOIN sign_in_keys k ON k.credential_id = s.credential_id \
     JOIN invitations i ON i.invitation_id = k.invitation_id \
     WHERE s.token_sha256 = ?1 AND s.expires_at > ?2";

/// No inbox shows more.
const MOST_WAITING: i64 = 200;

impl Session {
    /// The key of that credential.
    pub(in crate::signer) async fn sign_in_key(&mut self, credential_id: &str) -> Stored<Option<SignInKey>> {
        Ok(sqlx::query_as(BY_CREDENTIAL).bind(credential_id).fetch_optional(self.db()).await?)
    }

    /// Whether one was made with that invitation.
    pub(in crate::signer) async fn has_sign_in_key(&mut self, invitation_id: &str) -> Stored<bool> {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sign_in_keys WHERE invitation_id = ?1")
            .bind(invitation_id)
            .fetch_one(self.db())
            .await?;
        Ok(count > 0)
    }

    /// Whether a credential is one that approves.
    pub(in crate::signer) async fn is_approving(&mut self, credential_id: &str) -> Stored<bool> {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM passkeys WHERE credential_id = ?1")
            .bind(credential_id)
            .fetch_one(self.db())
            .await?;
        Ok(count > 0)
    }

    /// Keeps a key; a second one of its invitation is an error of the database.
    pub(in crate::signer) async fn add_sign_in_key(&mut self, key: &SignInKey, now: Timestamp) -> Stored<()> {
        sqlx::query(
            "INSERT INTO sign_in_keys (credential_id, invitation_id, signer_id, alg, public_key, counter, made_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(&key.credential_id)
        .bind(&key.invitation_id)
        .bind(&key.signer_id)
        .bind(&key.alg)
        .bind(&key.public_key)
        .bind(key.counter)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Uses a challenge up; whether it was unused. What lapsed before `now` is forgotten.
    pub(in crate::signer) async fn use_challenge(
        &mut self,
        challenge: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Stored<bool> {
        sqlx::query("DELETE FROM used_challenges WHERE expires_at < ?1").bind(now.micros()).execute(self.db()).await?;
        let used = sqlx::query(
            "INSERT INTO used_challenges (challenge_sha256, expires_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )
        .bind(sha256_hex(challenge))
        .bind(expires_at.micros())
        .execute(self.db())
        .await?;
        Ok(used.rows_affected() == 1)
    }

    /// Begins a session by `key`, whose counter has moved on. Sessions that lapsed before `now` are forgotten.
    pub(in crate::signer) async fn begin_session(
        &mut self,
        token: &str,
        key: &SignInKey,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Stored<()> {
        sqlx::query("DELETE FROM sessions WHERE expires_at < ?1").bind(now.micros()).execute(self.db()).await?;
        let moved = sqlx::query("UPDATE sign_in_keys SET counter = ?2 WHERE credential_id = ?1")
            .bind(&key.credential_id)
            .bind(key.counter)
            .execute(self.db())
            .await?;
        one_row(&moved, "a sign-in passkey")?;
        sqlx::query("INSERT INTO sessions (token_sha256, credential_id, expires_at) VALUES (?1, ?2, ?3)")
            .bind(sha256_hex(token))
            .bind(&key.credential_id)
            .bind(expires_at.micros())
            .execute(self.db())
            .await?;
        Ok(())
    }

    /// Whose session a cookie's value is, unless it has ended.
    pub(in crate::signer) async fn signed_in(&mut self, token: &str, now: Timestamp) -> Stored<Option<SignInKey>> {
        Ok(sqlx::query_as(BY_SESSION).bind(sha256_hex(token)).bind(now.micros()).fetch_optional(self.db()).await?)
    }

    /// Ends a session.
    pub(in crate::signer) async fn end_session(&mut self, token: &str) -> Stored<()> {
        sqlx::query("DELETE FROM sessions WHERE token_sha256 = ?1").bind(sha256_hex(token)).execute(self.db()).await?;
        Ok(())
    }

    /// The open payments that ask a person who has not decided, or not with as many keys as the rule asks for; oldest first.
    pub(in crate::signer) async fn waiting(&mut self, key: &SignInKey, now: Timestamp) -> Stored<Vec<KeptPayment>> {
        Ok(sqlx::query_as(
            "SELECT p.id, p.reference, p.tenant, p.round, p.payload, p.payment_digest, p.expires_at, p.callback_url, \
             p.confirmations, p.state, p.close_reason FROM payments p JOIN challenges c ON c.payment_id = p.id \
             WHERE c.signer_id = ?1 AND p.tenant = ?4 AND p.state = 'open' AND p.expires_at > ?2 AND \
             (SELECT count(DISTINCT CASE w.decision WHEN 'approve' THEN w.signed_by END) \
             + p.confirmations * count(CASE w.decision WHEN 'reject' THEN 1 END) FROM words w \
             WHERE w.payment_id = p.id AND w.round = p.round AND w.signer_id = ?1) < p.confirmations \
             ORDER BY p.registered_at, p.id LIMIT ?3",
        )
        .bind(&key.signer_id)
        .bind(now.micros())
        .bind(MOST_WAITING)
        .bind(&key.tenant)
        .fetch_all(self.db())
        .await?)
    }
}
