//! What people ask for: call off, enrol a key, and what is written down of refused attempts.

use super::ports::Cause;
use super::{Act, Journal, Selector, again};
use crate::crash::{self, Point};
use crate::domain::{Code, Event, KeyId, Payment, Principal, Refusal, SignerId, TenantId};
use crate::proof::PublicKey;
use crate::store::{AuditNote, PinnedKey, Store};

/// Whose key of which name is meant, and on whose word.
#[derive(Debug, Clone)]
pub struct KeyEnrolment {
    /// The tenant.
    pub tenant: TenantId,
    /// Whose key it is.
    pub signer: SignerId,
    /// Its name.
    pub key_id: KeyId,
    /// Who vouches for it, or revokes it.
    pub by: String,
    /// The process that writes.
    pub node: String,
}

impl KeyEnrolment {
    /// Pins `key`, audited.
    ///
    /// *Errors*: `INVALID_ARGUMENT` when the name is taken by another key, or the key by another person.
    /// Pinning the same key again changes nothing.
    pub async fn pin(self, store: &Store, key: &PublicKey) -> Result<bool, Refusal> {
        let mut tx = store.begin().await?;
        let pinned = PinnedKey {
            signer_id: self.signer.to_string(),
            key_id: self.key_id.to_string(),
            public_key: key.to_b64url(),
            revoked_at: None,
        };
        let known = tx.pinned_keys(self.tenant.as_str(), self.signer.as_str()).await?;
        if known.contains(&pinned) {
            return Ok(false);
        }
        if known.iter().any(|key| key.public_key == pinned.public_key && key.revoked_at.is_some()) {
            return Err(Refusal::invalid("key_id", "this key was revoked and never counts again; make a new one"));
        }
        if !tx.pin_key(self.tenant.as_str(), &pinned, &self.by).await? {
            return Err(Refusal::invalid("key_id", "is taken by another key, or the key belongs to another signer"));
        }
        tx.audit(AuditNote {
            tenant: self.tenant.to_string(),
            node: self.node,
            actor: format!("operator:{}", self.by),
            event: "signer_key.enrolled".to_owned(),
            reason: format!("{} {}", pinned.signer_id, pinned.key_id),
            details: pinned.public_key,
            ..AuditNote::default()
        });
        tx.commit().await?;
        Ok(true)
    }

    /// Revokes the key, audited: it counts no more, not even for a payment that is signed and not yet started.
    ///
    /// *Errors*: `INVALID_ARGUMENT` when there is no such active key.
    pub async fn revoke(self, store: &Store) -> Result<(), Refusal> {
        let mut tx = store.begin().await?;
        let at = tx.now();
        if !tx.revoke_key(self.tenant.as_str(), self.signer.as_str(), self.key_id.as_str(), at).await? {
            return Err(Refusal::invalid("key_id", "is not an active key of this signer's"));
        }
        tx.audit(AuditNote {
            tenant: self.tenant.to_string(),
            node: self.node,
            actor: format!("operator:{}", self.by),
            event: "signer_key.revoked".to_owned(),
            reason: format!("{} {}", self.signer, self.key_id),
            ..AuditNote::default()
        });
        Ok(tx.commit().await?)
    }
}

impl Journal {
    /// Audits an attempt to use a tool that the caller's roles do not grant.
    pub async fn audit_forbidden(&self, who: &Principal, tool: &str) -> Result<(), Refusal> {
        let mut tx = self.store.begin().await?;
        tx.audit(AuditNote {
            tenant: who.tenant.to_string(),
            node: self.rules.node.clone(),
            actor: who.actor(),
            event: "tool.forbidden".to_owned(),
            reason: tool.to_owned(),
            ..AuditNote::default()
        });
        Ok(tx.commit().await?)
    }

    /// Calls a payment off, or asks for it when that can no longer be promised.
    ///
    /// *Errors*: `PAYMENT_TERMINAL` when it has ended otherwise; calling off twice is answered alike.
    #[tracing::instrument(name = "journal.payment.cancel", skip_all, fields(payment.id))]
    pub async fn cancel(&self, who: &Principal, selector: &Selector) -> Result<Payment, Refusal> {
        again(|| self.try_cancel(who, selector)).await
    }

    async fn try_cancel(&self, who: &Principal, selector: &Selector) -> Result<Payment, Refusal> {
        let mut tx = self.store.begin().await?;
        let payment = Self::select(&mut tx, who, selector).await?;
        tracing::Span::current().record("payment.id", payment.terms.payment_id.as_str());
        let actor = who.actor();
        let applied = self.change(&mut tx, &payment, Event::Cancel, Act::new(&actor, "payment.cancel")).await?;
        crash::at(Point::CancelBeforeCommit);
        tx.commit().await?;
        crash::at(Point::CancelAfterCommit);
        self.announce(&applied);
        Ok(applied.payment)
    }

    /// Sets whether a signer can be reached, in the dev profile.
    pub async fn set_presence(&self, signer: &SignerId, online: bool) -> Result<(), Refusal> {
        let port = self
            .presence
            .as_ref()
            .ok_or_else(|| Refusal::new(Code::ForbiddenTool, "this tool exists in the dev profile only"))?;
        port.set_online(signer.as_str(), online).await.map_err(|trouble| {
            if trouble.cause == Cause::NotFound {
                return Refusal::invalid("signer_id", "is not in the reference signer service's directory");
            }
            Refusal::new(Code::SignerServiceUnavailable, format!("the reference signer service said: {trouble}"))
        })
    }

    /// Whether the dev profile's presence switch is wired.
    pub fn has_presence_switch(&self) -> bool {
        self.presence.is_some()
    }
}
