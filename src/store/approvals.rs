//! Challenges, decisions and the pinned keys that verify them.

use sqlx::FromRow;

use super::engine::{Session, Tx, on};
use super::fault::StoreFault;
use crate::domain::Timestamp;
use crate::proof::{Claim, Proof, ProofFault, RelyingParty, SignerKey};

/// A single-use challenge as stored.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct StoredChallenge {
    /// The person asked.
    pub signer_id: String,
    /// 32 random bytes, base64url.
    pub nonce: String,
    /// Unix microseconds.
    pub issued_at: i64,
    /// Unix microseconds.
    pub expires_at: i64,
}

/// A verified decision as stored.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct StoredDecision {
    /// Our id for it.
    pub decision_id: String,
    /// The person.
    pub signer_id: String,
    /// The key that signed.
    pub key_id: String,
    /// `approve` or `reject`.
    pub choice: String,
    /// The person's words.
    pub reason: String,
    /// The canonical decision document.
    pub document: String,
    /// Its digest.
    pub digest: String,
    /// The form of its proof: `jws` or `webauthn`.
    pub proof_type: String,
    /// The proof itself.
    pub proof: String,
    /// Which of its signer's confirmations it is, from 1.
    pub confirmation: i64,
    /// When it was taken in, Unix microseconds.
    pub decided_at: i64,
    /// The payment's version that it made; 0 for a surplus one, which never counts.
    pub payment_version: i64,
}

/// What a passkey's counter says of a decision by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// It has gone on, or there is none.
    Further,
    /// It had been further: decisions that came out of their order, or a copy of the passkey.
    Back,
    /// It stood just there at another decision: a copy.
    Used,
}

/// A signer's public key as pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq, FromRow)]
pub struct PinnedKey {
    /// Whose.
    pub signer_id: String,
    /// Its name.
    pub key_id: String,
    /// How it signs: `Ed25519` for a detached JWS; else a passkey's algorithm.
    pub alg: String,
    /// The public half, base64url: 32 raw bytes of Ed25519, or a passkey's `SubjectPublicKeyInfo`.
    pub public_key: String,
    /// A passkey's credential; else empty.
    pub credential_id: String,
    /// The site that a passkey was made for; else empty.
    pub rp_id: String,
    /// The origins at which it may be used, with a space between.
    pub origins: String,
    /// What its owner calls it.
    pub label: String,
    /// A passkey's counter as last seen; 0 where it has none.
    pub counter: i64,
    /// The registry's entry that the root signed; empty where there is no root.
    pub entry: String,
    /// The root's signature over it.
    pub entry_signature: String,
    /// Who vouched for it.
    pub enrolled_by: String,
    /// Unix microseconds.
    pub enrolled_at: i64,
    /// Since when it no longer counts, Unix microseconds.
    pub revoked_at: Option<i64>,
}

/// A signer's keys.
const PINNED_OF_SIGNER: &str = "SELECT signer_id, key_id, alg, public_key, credential_id, rp_id, origins, label, counter, entry, \
     entry_signature, enrolled_by, enrolled_at, revoked_at FROM signer_keys WHERE tenant = $1 AND signer_id = $2 ORDER BY key_id";
/// Every key of a tenant's.
pub(super) const PINNED_OF_TENANT: &str = "SELECT signer_id, key_id, alg, public_key, credential_id, rp_id, origins, label, counter, entry, \
     entry_signature, enrolled_by, enrolled_at, revoked_at FROM signer_keys WHERE tenant = $1 ORDER BY signer_id, key_id";
/// The challenges of a round, wherever they are kept.
pub(super) const CHALLENGES: &str = "SELECT signer_id, nonce, issued_at, expires_at FROM challenges WHERE payment_id = $1 AND round = $2 \
     UNION ALL SELECT signer_id, nonce, issued_at, expires_at FROM archived_challenges WHERE payment_id = $1 AND round = $2 \
     ORDER BY signer_id";
/// The decisions of a round, wherever they are kept.
pub(super) const DECISIONS: &str = "SELECT decision_id, signer_id, key_id, choice, reason, document, digest, proof_type, proof, confirmation, decided_at, payment_version \
     FROM decisions WHERE payment_id = $1 AND round = $2 \
     UNION ALL SELECT decision_id, signer_id, key_id, choice, reason, document, digest, proof_type, proof, confirmation, decided_at, payment_version \
     FROM archived_decisions WHERE payment_id = $1 AND round = $2 ORDER BY payment_version, decision_id";

impl Session {
    /// The challenges of a round.
    pub async fn challenges(&mut self, payment_id: &str, round: i64) -> Result<Vec<StoredChallenge>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(CHALLENGES)
            .bind(payment_id).bind(round).fetch_all(conn).await)?)
    }

    /// The decisions of a round, in the order they were counted.
    pub async fn decisions(&mut self, payment_id: &str, round: i64) -> Result<Vec<StoredDecision>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(DECISIONS)
            .bind(payment_id).bind(round).fetch_all(conn).await)?)
    }

    /// A signer's keys.
    pub async fn pinned_keys(&mut self, tenant: &str, signer_id: &str) -> Result<Vec<PinnedKey>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as(PINNED_OF_SIGNER)
            .bind(tenant).bind(signer_id).fetch_all(conn).await)?)
    }

    /// Everyone, of any tenant, who has keys that count, and how many.
    pub async fn keys_of_signers(&mut self) -> Result<Vec<(String, i64)>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT signer_id, CAST(COUNT(*) AS BIGINT) FROM signer_keys \
              WHERE revoked_at IS NULL GROUP BY tenant, signer_id")
            .fetch_all(conn).await)?)
    }
}

impl Tx {
    /// Stores a round's challenge for one signer.
    pub async fn insert_challenge(
        &mut self,
        payment_id: &str,
        round: i64,
        challenge: &StoredChallenge,
    ) -> Result<(), StoreFault> {
        on!(self, conn => sqlx::query("INSERT INTO challenges (payment_id, round, signer_id, nonce, issued_at, expires_at) \
              VALUES ($1,$2,$3,$4,$5,$6)")
            .bind(payment_id).bind(round).bind(&challenge.signer_id).bind(&challenge.nonce)
            .bind(challenge.issued_at).bind(challenge.expires_at)
            .execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Stores a verified decision; `false` when this person's word of that number is there already.
    pub async fn insert_decision(
        &mut self,
        payment_id: &str,
        round: i64,
        via: &str,
        decision: &StoredDecision,
    ) -> Result<bool, StoreFault> {
        let inserted = on!(self, conn => sqlx::query("INSERT INTO decisions (decision_id, payment_id, round, signer_id, key_id, \
                choice, reason, document, digest, proof_type, proof, via, decided_at, payment_version, confirmation) \
              VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15) \
              ON CONFLICT (payment_id, round, signer_id, confirmation) DO NOTHING")
            .bind(&decision.decision_id).bind(payment_id).bind(round).bind(&decision.signer_id).bind(&decision.key_id)
            .bind(&decision.choice).bind(&decision.reason).bind(&decision.document).bind(&decision.digest)
            .bind(&decision.proof_type).bind(&decision.proof).bind(via).bind(decision.decided_at).bind(decision.payment_version)
            .bind(decision.confirmation)
            .execute(conn).await?.rows_affected());
        Ok(inserted == 1)
    }

    /// Pins a signer's public key; `false` when that name or that key is already pinned.
    pub async fn pin_key(&mut self, tenant: &str, key: &PinnedKey) -> Result<bool, StoreFault> {
        let pinned = on!(self, conn => sqlx::query("INSERT INTO signer_keys (tenant, signer_id, key_id, alg, public_key, \
                credential_id, rp_id, origins, label, counter, entry, entry_signature, enrolled_by, enrolled_at) \
              VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14) ON CONFLICT DO NOTHING")
            .bind(tenant).bind(&key.signer_id).bind(&key.key_id).bind(&key.alg).bind(&key.public_key)
            .bind(&key.credential_id).bind(&key.rp_id).bind(&key.origins).bind(&key.label).bind(key.counter)
            .bind(&key.entry).bind(&key.entry_signature).bind(&key.enrolled_by).bind(key.enrolled_at)
            .execute(conn).await?.rows_affected());
        Ok(pinned == 1)
    }

    /// Notes what a passkey's counter stood at when it signed `digest`.
    ///
    /// A passkey that keeps none says 0 for ever (WebAuthn §6.1.1).
    pub async fn take_counter(
        &mut self,
        (tenant, signer_id, key_id): (&str, &str, &str),
        counter: i64,
        digest: &str,
    ) -> Result<Counter, StoreFault> {
        let further = on!(self, conn => sqlx::query("UPDATE signer_keys SET counter = $1 \
              WHERE tenant = $2 AND signer_id = $3 AND key_id = $4 AND (counter < $1 OR (counter = 0 AND $1 = 0))")
            .bind(counter).bind(tenant).bind(signer_id).bind(key_id)
            .execute(conn).await?.rows_affected());
        if further == 1 && counter == 0 {
            return Ok(Counter::Further);
        }
        let fresh = on!(self, conn => sqlx::query("INSERT INTO key_counters (tenant, signer_id, key_id, counter, digest) \
              VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, signer_id, key_id, counter) DO NOTHING")
            .bind(tenant).bind(signer_id).bind(key_id).bind(counter).bind(digest)
            .execute(conn).await?.rows_affected());
        Ok(match (further, fresh) {
            (1, _) => Counter::Further,
            (_, 1) => Counter::Back,
            _ => Counter::Used,
        })
    }

    /// When a signer's key decided last, but for what is in the archive, which has not changed for long.
    pub async fn last_decided(
        &mut self,
        tenant: &str,
        signer_id: &str,
        key_id: &str,
    ) -> Result<Option<Timestamp>, StoreFault> {
        let last: Option<i64> = on!(self, conn => sqlx::query_scalar("SELECT MAX(d.decided_at) FROM decisions d \
              JOIN payments p ON p.payment_id = d.payment_id \
              WHERE p.tenant = $1 AND d.signer_id = $2 AND d.key_id = $3")
            .bind(tenant).bind(signer_id).bind(key_id).fetch_one(conn).await)?;
        Ok(last.map(Timestamp::from_micros))
    }

    /// Revokes a signer's key as of `at`; `false` when there is no such active key.
    pub async fn revoke_key(
        &mut self,
        tenant: &str,
        signer_id: &str,
        key_id: &str,
        at: Timestamp,
    ) -> Result<bool, StoreFault> {
        let revoked = on!(self, conn => sqlx::query("UPDATE signer_keys SET revoked_at = $1 \
              WHERE tenant = $2 AND signer_id = $3 AND key_id = $4 AND revoked_at IS NULL")
            .bind(at.micros()).bind(tenant).bind(signer_id).bind(key_id)
            .execute(conn).await?.rows_affected());
        Ok(revoked == 1)
    }
}

impl StoredDecision {
    /// What proves it; `None` for a form that is not known here.
    pub fn proof(&self) -> Option<Proof> {
        Proof::of(&self.proof_type, self.proof.clone())
    }
}

impl PinnedKey {
    /// The key itself.
    ///
    /// *Errors*: `Key` for what is none: a hand was in the row.
    pub fn key(&self) -> Result<SignerKey, ProofFault> {
        let origins = self.origins.split_whitespace().map(str::to_owned).collect();
        let party = (!self.rp_id.is_empty()).then(|| RelyingParty { id: self.rp_id.clone(), origins });
        SignerKey::parse(&self.alg, &self.public_key, &self.credential_id, party)
    }

    /// Whether a proof says that it is by this key.
    pub fn is_claimed_by(&self, claim: &Claim) -> bool {
        if self.credential_id.is_empty() {
            claim.credential_id.is_empty() && claim.key_id == self.key_id
        } else {
            claim.credential_id == self.credential_id
        }
    }
}
