//! Whose keys count: pinned on an operator's word, revoked on one, each audited.

use std::time::Duration;

use super::Journal;
use crate::ambient::Entropy;
use crate::domain::{KeyId, KeyLabel, Refusal, SignerId, TenantId, Timestamp};
use crate::proof::{
    EnrolmentDocument, JWS_ALG, NewPasskey, PASSKEY, PublicKey, Registration, RegistryEntry, RelyingParty, SignerKey,
    SigningKey, b64url, enrolment_digest, read_registration, sign_entry, verify_entry,
};
use crate::store::{AuditNote, PinnedKey, Store, StoredInvitation, Tx};

/// Whose registry is meant, and on whose word it changes.
#[derive(Debug, Clone)]
pub struct Registry {
    /// The tenant.
    pub tenant: TenantId,
    /// The person.
    pub signer: SignerId,
    /// Who vouches for it.
    pub by: String,
    /// The process that writes.
    pub node: String,
}

/// The registry's entry of a key, as it stands in its row.
pub(super) fn entry_of(tenant: &str, key: &PinnedKey) -> RegistryEntry {
    let time = |micros| Timestamp::from_micros(micros).rfc3339();
    let status = if key.revoked_at.is_none() { RegistryEntry::ACTIVE } else { RegistryEntry::REVOKED };
    RegistryEntry {
        typ: RegistryEntry::TYPE.to_owned(),
        tenant: tenant.to_owned(),
        signer_id: key.signer_id.clone(),
        key_id: key.key_id.clone(),
        alg: key.alg.clone(),
        public_key: key.public_key.clone(),
        credential_id: key.credential_id.clone(),
        rp_id: key.rp_id.clone(),
        origins: key.origins.clone(),
        enrolled_by: key.enrolled_by.clone(),
        enrolled_at: time(key.enrolled_at),
        status: status.to_owned(),
        revoked_at: key.revoked_at.map(time).unwrap_or_default(),
    }
}

/// Whether the root stands behind a key: it signed an entry that says just what the row says.
pub fn vouches(root: &PublicKey, tenant: &str, key: &PinnedKey) -> bool {
    let own = entry_of(tenant, key).canonical();
    own.is_ok_and(|own| own == key.entry) && verify_entry(root, &key.entry, &key.entry_signature).is_ok()
}

impl Journal {
    /// Whether a key may count: where there is a root, only one that it signed, just as its row says.
    pub(super) fn is_vouched(&self, tenant: &str, key: &PinnedKey) -> bool {
        let vouched = self.rules.registry_root.as_ref().is_none_or(|root| vouches(root, tenant, key));
        if !vouched {
            let (signer, key_id) = (&key.signer_id, &key.key_id);
            tracing::warn!(
                signer.id = %signer,
                key.id = %key_id,
                "a pinned key does not count: the registry's root has signed no entry that says what its row says"
            );
        }
        vouched
    }
}

/// The answer to an invitation, as the signer service keeps it, and what the operator was told by its owner.
#[derive(Debug, Clone)]
pub struct InvitationAnswer<'a> {
    /// The invitation.
    pub invitation_id: &'a str,
    /// What the browser answered.
    pub registration: &'a Registration,
    /// What its owner calls it.
    pub label: &'a str,
    /// The passkey's code, which its owner reads to the operator.
    pub code: &'a str,
}

impl Registry {
    /// Pins the public key of a detached JWS.
    ///
    /// *Errors*: `INVALID_ARGUMENT` when the name is taken by another key, or the key by another person.
    /// Pinning the same key again changes nothing.
    pub async fn pin(self, store: &Store, key_id: &KeyId, key: &SignerKey) -> Result<bool, Refusal> {
        if key_id.as_str() == PASSKEY {
            return Err(Refusal::invalid("key_id", "is what passkeys are called in a decision; choose another name"));
        }
        let mut tx = store.begin().await?;
        let pinned = PinnedKey {
            signer_id: self.signer.to_string(),
            key_id: key_id.to_string(),
            alg: JWS_ALG.to_owned(),
            public_key: key.public_key(),
            enrolled_by: self.by.clone(),
            enrolled_at: tx.now().micros(),
            ..PinnedKey::default()
        };
        if !self.insert(&mut tx, &pinned).await? {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Puts the root's word on a key as its row stands now: on a new one, and on one that was revoked.
    ///
    /// `expected` is the public key that whoever holds the root knows it to be: a row says what a database was told.
    ///
    /// *Errors*: `INVALID_ARGUMENT` when there is no such key, or it is another.
    pub async fn certify(
        &self,
        store: &Store,
        key_id: &KeyId,
        expected: &str,
        root: &SigningKey,
    ) -> Result<RegistryEntry, Refusal> {
        let mut tx = store.begin().await?;
        let tenant = self.tenant.as_str();
        let known = tx.pinned_keys(tenant, self.signer.as_str()).await?;
        let key = known
            .into_iter()
            .find(|key| key.key_id == key_id.as_str())
            .ok_or_else(|| Refusal::invalid("key_id", "is no key of this signer's"))?;
        if key.public_key != expected {
            return Err(Refusal::invalid(
                "key_id",
                "the database holds another public key under this name: sign nothing, and look who changed it",
            ));
        }
        let entry = entry_of(tenant, &key);
        if vouches(&root.public(), tenant, &key) {
            return Ok(entry);
        }
        let text = entry
            .canonical()
            .map_err(|_| Refusal::new(crate::domain::Code::Internal, "the entry can't be put in canonical form"))?;
        let signature = sign_entry(root, &text);
        if !tx.certify_key(tenant, (&key.signer_id, &key.key_id), &text, &signature).await? {
            return Err(Refusal::invalid("key_id", "is no key of this signer's"));
        }
        tx.audit(self.note("signer_key.certified", key_id.as_str(), text));
        tx.commit().await?;
        Ok(entry)
    }

    /// A key of this signer's as it is pinned.
    pub async fn pinned(&self, store: &Store, key_id: &KeyId) -> Result<PinnedKey, Refusal> {
        let known = store.read().await?.pinned_keys(self.tenant.as_str(), self.signer.as_str()).await?;
        let key = known.into_iter().find(|key| key.key_id == key_id.as_str());
        key.ok_or_else(|| Refusal::invalid("key_id", "is no key of this signer's"))
    }

    /// Revokes the key: it counts no more, not even for a payment that is signed and not yet started.
    ///
    /// Revoking it again changes nothing. *Errors*: `INVALID_ARGUMENT` when there is no such key.
    pub async fn revoke(self, store: &Store, key_id: &KeyId) -> Result<PinnedKey, Refusal> {
        let mut tx = store.begin().await?;
        let known = tx.pinned_keys(self.tenant.as_str(), self.signer.as_str()).await?;
        let names: Vec<&str> = known.iter().map(|key| key.key_id.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let key = known
            .into_iter()
            .find(|key| key.key_id == key_id.as_str())
            .ok_or_else(|| Refusal::invalid("key_id", format!("is no key of this signer's; theirs are: {names}")))?;
        let (tenant, signer) = (self.tenant.as_str(), self.signer.as_str());
        // What it decided before it was revoked counts on, whatever the clock did since: evidence tells by milliseconds.
        if let Some(last) = tx.last_decided(tenant, signer, key_id.as_str()).await? {
            tx.not_before(last.to_millis().plus_micros(1_000));
        }
        let at = tx.at();
        if tx.revoke_key(tenant, signer, key_id.as_str(), at).await? {
            tx.audit(self.note("signer_key.revoked", key_id.as_str(), String::new()));
            tx.commit().await?;
        }
        Ok(key)
    }

    /// Invites the person to make a passkey that counts for `audience`.
    pub async fn invite(
        &self,
        store: &Store,
        audience: &str,
        lasts: Duration,
        entropy: &dyn Entropy,
    ) -> Result<EnrolmentDocument, Refusal> {
        let mut tx = store.begin().await?;
        let mut nonce = [0; 32];
        entropy.fill(&mut nonce);
        let expires_at = tx.now().plus(lasts).to_millis();
        let document = EnrolmentDocument {
            typ: EnrolmentDocument::TYPE.to_owned(),
            aud: audience.to_owned(),
            tenant: self.tenant.to_string(),
            signer_id: self.signer.to_string(),
            invitation_id: format!("inv_{}", b64url(entropy.u128().to_be_bytes())),
            nonce: b64url(nonce),
            expires_at: expires_at.rfc3339(),
        };
        let stored = StoredInvitation {
            invitation_id: document.invitation_id.clone(),
            signer_id: document.signer_id.clone(),
            document: canonical(&document)?,
            created_by: self.by.clone(),
            created_at: tx.now().micros(),
            expires_at: expires_at.micros(),
            used_at: None,
        };
        tx.insert_invitation(self.tenant.as_str(), &stored).await?;
        tx.audit(self.note("signer_key.invited", &stored.invitation_id, stored.document));
        tx.commit().await?;
        Ok(document)
    }

    /// Pins the passkey that answers an invitation, once its code was compared with its owner.
    ///
    /// The answer proves by itself that it was made for this invitation; that it was made by this person, the code
    /// does: what was exchanged after the page was shown is found out.
    ///
    /// *Errors*: `INVALID_ARGUMENT` for an invitation that is unknown, used or expired, an answer that is none,
    /// another code, and a name that is no plain text.
    pub async fn pin_passkey(
        &self,
        store: &Store,
        party: &RelyingParty,
        answer: &InvitationAnswer<'_>,
    ) -> Result<PinnedKey, Refusal> {
        let label = KeyLabel::parse("label", answer.label).map_err(|_| {
            Refusal::invalid(
                "label",
                "the name that the signer service has for the passkey is none that its page takes (one line of at most \
                 64 plain characters): pin nothing, and look at the signer service",
            )
        })?;
        let mut tx = store.begin().await?;
        let invitation = tx
            .invitation(self.tenant.as_str(), answer.invitation_id)
            .await?
            .filter(|invitation| invitation.signer_id == self.signer.as_str())
            .ok_or_else(|| Refusal::invalid("invitation", "there is no such invitation of this signer's"))?;
        let NewPasskey { credential_id, key, counter, .. } =
            read_registration(party, &enrolment_digest(&invitation.document), answer.registration)
                .map_err(|fault| Refusal::invalid("invitation", format!("its answer can't be used: {fault}")))?;
        if letters(&key.code()) != letters(answer.code) {
            return Err(Refusal::invalid(
                "code",
                "is not the code of the passkey that was made; if its owner reads this very code from the page, \
                 somebody has exchanged the passkey: pin nothing, and look at the signer service",
            ));
        }
        if !tx.use_invitation(self.tenant.as_str(), answer.invitation_id).await? {
            // Pinned before; asked again, the signer service may be told again.
            let known = tx.pinned_keys(self.tenant.as_str(), self.signer.as_str()).await?;
            let same = |known: &PinnedKey| known.credential_id == credential_id && known.revoked_at.is_none();
            if let Some(pinned) = known.into_iter().find(same) {
                return Ok(pinned);
            }
            return Err(Refusal::invalid("invitation", "was used or withdrawn, or has expired; invite anew"));
        }
        let pinned = PinnedKey {
            signer_id: self.signer.to_string(),
            key_id: key.key_id(),
            alg: key.alg().as_str().to_owned(),
            public_key: key.to_b64url(),
            credential_id,
            rp_id: party.id.clone(),
            origins: party.origins.iter().cloned().collect::<Vec<_>>().join(" "),
            label: label.to_string(),
            counter: counter.into(),
            enrolled_by: self.by.clone(),
            enrolled_at: tx.now().micros(),
            ..PinnedKey::default()
        };
        self.insert(&mut tx, &pinned).await?;
        tx.commit().await?;
        Ok(pinned)
    }

    /// Withdraws an invitation that was not used: what answers it is not pinned any more.
    ///
    /// *Errors*: `INVALID_ARGUMENT` for one that is unknown, used, withdrawn or expired.
    pub async fn withdraw(&self, store: &Store, invitation: &str) -> Result<(), Refusal> {
        let mut tx = store.begin().await?;
        let known = tx.invitation(self.tenant.as_str(), invitation).await?;
        if known.is_none_or(|known| known.signer_id != self.signer.as_str()) {
            return Err(Refusal::invalid("invitation", "there is no such invitation of this signer's"));
        }
        if !tx.use_invitation(self.tenant.as_str(), invitation).await? {
            return Err(Refusal::invalid(
                "invitation",
                "was used or withdrawn before, or has expired; a passkey that was pinned goes by keys revoke",
            ));
        }
        tx.audit(self.note("signer_key.uninvited", invitation, String::new()));
        tx.commit().await?;
        Ok(())
    }

    /// Inserts and audits; `false` for a key that this person has already.
    async fn insert(&self, tx: &mut Tx, pinned: &PinnedKey) -> Result<bool, Refusal> {
        let known = tx.pinned_keys(self.tenant.as_str(), self.signer.as_str()).await?;
        let same = known.iter().find(|key| key.public_key == pinned.public_key);
        match same {
            Some(key) if key.revoked_at.is_some() => {
                return Err(Refusal::invalid("key_id", "this key was revoked and never counts again; make a new one"));
            }
            Some(key) if key.key_id == pinned.key_id => return Ok(false),
            Some(_) | None => {}
        }
        if !tx.pin_key(self.tenant.as_str(), pinned).await? {
            return Err(Refusal::invalid("key_id", "is taken by another key, or the key belongs to another signer"));
        }
        tx.audit(self.note("signer_key.enrolled", &pinned.key_id, pinned.public_key.clone()));
        Ok(true)
    }

    fn note(&self, event: &str, about: &str, details: String) -> AuditNote {
        AuditNote {
            tenant: self.tenant.to_string(),
            node: self.node.clone(),
            actor: format!("operator:{}", self.by),
            event: event.to_owned(),
            reason: format!("{} {about}", self.signer),
            details,
            ..AuditNote::default()
        }
    }
}

fn canonical(document: &EnrolmentDocument) -> Result<String, Refusal> {
    document
        .canonical()
        .map_err(|_| Refusal::new(crate::domain::Code::Internal, "the invitation can't be put in canonical form"))
}

/// A code as it is compared: people leave the dashes out, and the shift key alone.
fn letters(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_uppercase()).collect()
}
