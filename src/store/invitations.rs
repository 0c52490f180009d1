//! Invitations to make a passkey.

use sqlx::FromRow;

use super::engine::{Session, Tx, on};
use super::fault::StoreFault;

/// An invitation as stored.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct StoredInvitation {
    /// Its id.
    pub invitation_id: String,
    /// The person.
    pub signer_id: String,
    /// The canonical enrolment document.
    pub document: String,
    /// Who invited.
    pub created_by: String,
    /// Unix microseconds.
    pub created_at: i64,
    /// Unix microseconds.
    pub expires_at: i64,
    /// When its passkey was pinned, or it was withdrawn, Unix microseconds.
    pub used_at: Option<i64>,
}

impl Session {
    /// An invitation of a tenant's.
    pub async fn invitation(&mut self, tenant: &str, id: &str) -> Result<Option<StoredInvitation>, StoreFault> {
        Ok(
            on!(self, conn => sqlx::query_as("SELECT invitation_id, signer_id, document, created_by, created_at, expires_at, used_at \
              FROM invitations WHERE tenant = $1 AND invitation_id = $2")
            .bind(tenant).bind(id).fetch_optional(conn).await)?,
        )
    }
}

impl Tx {
    /// Stores an invitation.
    pub async fn insert_invitation(&mut self, tenant: &str, invitation: &StoredInvitation) -> Result<(), StoreFault> {
        on!(self, conn => sqlx::query("INSERT INTO invitations (invitation_id, tenant, signer_id, document, created_by, \
                created_at, expires_at) VALUES ($1,$2,$3,$4,$5,$6,$7)")
            .bind(&invitation.invitation_id).bind(tenant).bind(&invitation.signer_id).bind(&invitation.document)
            .bind(&invitation.created_by).bind(invitation.created_at).bind(invitation.expires_at)
            .execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Uses an invitation up; `false` when it was before, or has expired.
    pub async fn use_invitation(&mut self, tenant: &str, id: &str) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let used = on!(self, conn => sqlx::query("UPDATE invitations SET used_at = $1 \
              WHERE tenant = $2 AND invitation_id = $3 AND used_at IS NULL AND expires_at > $1")
            .bind(now).bind(tenant).bind(id)
            .execute(conn).await?.rows_affected());
        Ok(used == 1)
    }
}
