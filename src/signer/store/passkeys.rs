//! Passkeys that count, and invitations to make one.

use sqlx::FromRow;

use super::{Session, Stored, one_row};
use crate::domain::Timestamp;
use crate::proof::sha256_hex;

/// A passkey as the gateway told of it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub(in crate::signer) struct KeptPasskey {
    /// Whose people its owner is one of.
    pub(in crate::signer) tenant: String,
    /// Whose it is.
    pub(in crate::signer) signer_id: String,
    /// The registry's name for it.
    pub(in crate::signer) key_id: String,
    /// Its credential, base64url.
    pub(in crate::signer) credential_id: String,
    /// Its algorithm.
    pub(in crate::signer) alg: String,
    /// Its public half, base64url.
    pub(in crate::signer) public_key: String,
    /// What its owner calls it.
    pub(in crate::signer) label: String,
    /// `active` or `revoked`.
    pub(in crate::signer) state: String,
}

impl KeptPasskey {
    /// Whether it counts.
    pub(in crate::signer) fn is_active(&self) -> bool {
        self.state == "active"
    }
}

/// An invitation, and its answer once there is one.
#[derive(Debug, Clone, FromRow)]
pub(in crate::signer) struct KeptInvitation {
    /// Its id, the gateway's.
    pub(in crate::signer) invitation_id: String,
    /// Whose people it invites to.
    pub(in crate::signer) tenant: String,
    /// The person.
    pub(in crate::signer) signer_id: String,
    /// The canonical enrolment document.
    pub(in crate::signer) document: String,
    /// When it lapses, in Unix microseconds.
    pub(in crate::signer) expires_at: i64,
    /// What its owner calls the passkey.
    pub(in crate::signer) label: String,
    /// What the browser answered.
    pub(in crate::signer) client_data_json: String,
    /// What the authenticator answered.
    pub(in crate::signer) attestation_object: String,
    /// The passkey's code.
    pub(in crate::signer) code: String,
    /// When it was answered, in Unix microseconds.
    pub(in crate::signer) answered_at: Option<i64>,
}

/// The answer to an invitation.
#[derive(Debug, Clone)]
pub(in crate::signer) struct InvitationAnswer<'a> {
    /// What its owner calls the passkey.
    pub(in crate::signer) label: &'a str,
    /// What the browser answered.
    pub(in crate::signer) client_data_json: &'a str,
    /// What the authenticator answered.
    pub(in crate::signer) attestation_object: &'a str,
    /// The passkey's code.
    pub(in crate::signer) code: &'a str,
}

const INVITATION: &str = "SELECT invitation_id, tenant, signer_id, document, expires_at, label, client_data_json, \
     attestation_object, code, answered_at FROM invitations WHERE invitation_id = ?1";
const INVITATION_OF: &str = "SELECT invitation_id, tenant, signer_id, document, expires_at, label, client_data_json, \
     attestation_object, code, answered_at FROM invitations WHERE token_sha256 = ?1";

impl Session {
    /// A person's passkeys, whatever their state.
    pub(in crate::signer) async fn passkeys(&mut self, tenant: &str, signer_id: &str) -> Stored<Vec<KeptPasskey>> {
        Ok(sqlx::query_as(
            "SELECT tenant, signer_id, key_id, credential_id, alg, public_key, label, state FROM passkeys \
             WHERE tenant = ?1 AND signer_id = ?2 ORDER BY label, key_id",
        )
        .bind(tenant)
        .bind(signer_id)
        .fetch_all(self.db())
        .await?)
    }

    /// Keeps what the gateway told of a passkey.
    pub(in crate::signer) async fn set_passkey(&mut self, passkey: &KeptPasskey, now: Timestamp) -> Stored<()> {
        sqlx::query(
            "INSERT INTO passkeys (tenant, signer_id, key_id, credential_id, alg, public_key, label, state, changed_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (tenant, signer_id, key_id) DO UPDATE SET \
             credential_id = ?4, alg = ?5, public_key = ?6, label = ?7, state = ?8, changed_at = ?9",
        )
        .bind(&passkey.tenant)
        .bind(&passkey.signer_id)
        .bind(&passkey.key_id)
        .bind(&passkey.credential_id)
        .bind(&passkey.alg)
        .bind(&passkey.public_key)
        .bind(&passkey.label)
        .bind(&passkey.state)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// An invitation by its id.
    pub(in crate::signer) async fn invitation(&mut self, id: &str) -> Stored<Option<KeptInvitation>> {
        Ok(sqlx::query_as(INVITATION).bind(id).fetch_optional(self.db()).await?)
    }

    /// An invitation by its link's token.
    pub(in crate::signer) async fn invitation_of(&mut self, token: &str) -> Stored<Option<KeptInvitation>> {
        Ok(sqlx::query_as(INVITATION_OF).bind(sha256_hex(token)).fetch_optional(self.db()).await?)
    }

    /// Keeps an invitation, and a link to it.
    pub(in crate::signer) async fn add_invitation(
        &mut self,
        id: &str,
        signer_id: &str,
        document: &str,
        token: &str,
        expires_at: Timestamp,
    ) -> Stored<()> {
        sqlx::query(
            "INSERT INTO invitations (invitation_id, signer_id, document, token_sha256, expires_at) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )
        .bind(id)
        .bind(signer_id)
        .bind(document)
        .bind(sha256_hex(token))
        .bind(expires_at.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Answers an invitation; an error of the database when it was answered.
    pub(in crate::signer) async fn answer_invitation(
        &mut self,
        id: &str,
        answer: &InvitationAnswer<'_>,
        now: Timestamp,
    ) -> Stored<()> {
        let answered = sqlx::query(
            "UPDATE invitations SET label = ?2, client_data_json = ?3, attestation_object = ?4, code = ?5, \
             answered_at = ?6 WHERE invitation_id = ?1 AND answered_at IS NULL",
        )
        .bind(id)
        .bind(answer.label)
        .bind(answer.client_data_json)
        .bind(answer.attestation_object)
        .bind(answer.code)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        one_row(&answered, "an invitation")
    }
}
