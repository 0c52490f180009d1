//! Idempotency keys: what each first succeeded at, and what it was answered.

use super::{Session, Stored};
use crate::domain::Timestamp;
use crate::proof::sha256_hex;

/// What makes two requests the same request.
#[derive(Debug)]
pub(in crate::signer) struct KeyedRequest {
    /// The caller's key.
    pub(in crate::signer) key: String,
    /// The path that was written to.
    pub(in crate::signer) path: String,
    /// The body's SHA-256.
    pub(in crate::signer) body_sha256: String,
}

impl KeyedRequest {
    /// The request of `key` to `path` with `body`.
    pub(in crate::signer) fn of(key: &str, path: &str, body: &[u8]) -> Self {
        Self { key: key.to_owned(), path: path.to_owned(), body_sha256: sha256_hex(body) }
    }
}

/// The answer a key was given the first time.
#[derive(Debug)]
pub(in crate::signer) struct KeptAnswer {
    /// Whether this request is the one that was answered.
    pub(in crate::signer) same_request: bool,
    /// HTTP status.
    pub(in crate::signer) status: u16,
    /// The JSON body.
    pub(in crate::signer) body: String,
}

impl Session {
    /// What the request's key was answered, if it was used before.
    pub(in crate::signer) async fn kept_answer(&mut self, request: &KeyedRequest) -> Stored<Option<KeptAnswer>> {
        let row: Option<(String, String, u16, String)> =
            sqlx::query_as("SELECT path, body_sha256, status, response FROM idempotency WHERE key = ?1")
                .bind(&request.key)
                .fetch_optional(self.db())
                .await?;
        Ok(row.map(|(path, sha, status, body)| KeptAnswer {
            same_request: path == request.path && sha == request.body_sha256,
            status,
            body,
        }))
    }

    /// Keeps the answer for the request's key.
    pub(in crate::signer) async fn keep_answer(
        &mut self,
        request: &KeyedRequest,
        status: u16,
        body: &str,
        now: Timestamp,
    ) -> Stored<()> {
        sqlx::query(
            "INSERT INTO idempotency (key, path, body_sha256, status, response, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .bind(&request.key)
        .bind(&request.path)
        .bind(&request.body_sha256)
        .bind(status)
        .bind(body)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Forgets keys that succeeded before `before`.
    pub(in crate::signer) async fn forget_keys(&mut self, before: Timestamp) -> Stored<()> {
        sqlx::query("DELETE FROM idempotency WHERE created_at < ?1").bind(before.micros()).execute(self.db()).await?;
        Ok(())
    }
}
