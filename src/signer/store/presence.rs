//! Who can be reached now.

use std::collections::HashMap;

use super::{Session, Stored};
use crate::domain::Timestamp;

impl Session {
    /// Everyone's presence.
    pub(in crate::signer) async fn presence(&mut self) -> Stored<HashMap<String, bool>> {
        let rows: Vec<(String, bool)> =
            sqlx::query_as("SELECT signer_id, online FROM signers").fetch_all(self.db()).await?;
        Ok(rows.into_iter().collect())
    }

    /// Sets a signer's presence.
    pub(in crate::signer) async fn set_presence(&mut self, signer: &str, online: bool, now: Timestamp) -> Stored<()> {
        sqlx::query(
            "INSERT INTO signers (signer_id, online, changed_at) VALUES (?1, ?2, ?3) \
             ON CONFLICT (signer_id) DO UPDATE SET online = excluded.online, changed_at = excluded.changed_at",
        )
        .bind(signer)
        .bind(i64::from(online))
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Forgets a signer who left the directory.
    pub(in crate::signer) async fn forget_signer(&mut self, signer: &str) -> Stored<()> {
        sqlx::query("DELETE FROM signers WHERE signer_id = ?1").bind(signer).execute(self.db()).await?;
        Ok(())
    }
}
