//! The registry entry R: whose key it is, as the registry's root vouches for it.
//!
//! The root is an Ed25519 key of the operators that no gateway has. What it signs is the canonical text behind a
//! type and a zero byte, so that no signature of another kind is one of an entry.

use serde::{Deserialize, Serialize};

use super::canonical::{b64url, from_b64url, jcs};
use super::form::SignerKey;
use super::jws::{ProofFault, PublicKey, SigningKey};
use super::passkey::RelyingParty;
use crate::domain::Timestamp;

/// R. Every value is a string; an absent one is `""`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryEntry {
    /// [`RegistryEntry::TYPE`].
    pub typ: String,
    /// Whose registry.
    pub tenant: String,
    /// The person, as the policy names them.
    pub signer_id: String,
    /// The key's name.
    pub key_id: String,
    /// How it signs: `Ed25519` for a detached JWS; `ES256`, `EdDSA` or `RS256` for a passkey.
    pub alg: String,
    /// Its public half, base64url: 32 raw bytes, or a passkey's `SubjectPublicKeyInfo`.
    pub public_key: String,
    /// A passkey's credential; else empty.
    pub credential_id: String,
    /// The site that a passkey was made for; else empty.
    pub rp_id: String,
    /// The origins at which it may be used, with a space between.
    pub origins: String,
    /// Who vouched for it.
    pub enrolled_by: String,
    /// RFC 3339 UTC, three fraction digits.
    pub enrolled_at: String,
    /// `active` or `revoked`.
    pub status: String,
    /// Since when it does not count; empty while it does.
    pub revoked_at: String,
}

impl RegistryEntry {
    /// The document's type, and what a signature over it begins with.
    pub const TYPE: &'static str = "countersign/registry/v1";
    /// The status of a key that counts.
    pub const ACTIVE: &'static str = "active";
    /// The status of one that does no more.
    pub const REVOKED: &'static str = "revoked";

    /// The canonical text.
    pub fn canonical(&self) -> Result<String, serde_json::Error> {
        jcs(self)
    }

    /// Reads a canonical text; refuses one that is not in canonical form, or whose status and times disagree.
    pub fn parse(text: &str) -> Option<Self> {
        let entry: Self = serde_json::from_str(text).ok()?;
        let ended = match entry.status.as_str() {
            Self::ACTIVE => entry.revoked_at.is_empty(),
            Self::REVOKED => instant(&entry.revoked_at).is_some(),
            _ => false,
        };
        let whole = entry.typ == Self::TYPE && ended && instant(&entry.enrolled_at).is_some();
        (whole && entry.canonical().ok()? == text).then_some(entry)
    }

    /// Whether the key counted at that instant.
    pub fn counts_at(&self, at: &str) -> bool {
        // One form of equal length, so that the order of texts is that of instants.
        self.enrolled_at.as_str() <= at && (self.revoked_at.is_empty() || at < self.revoked_at.as_str())
    }

    /// The key itself.
    ///
    /// *Errors*: `Key` for what is none.
    pub fn key(&self) -> Result<SignerKey, ProofFault> {
        let origins = self.origins.split_whitespace().map(str::to_owned).collect();
        let party = (!self.rp_id.is_empty()).then(|| RelyingParty { id: self.rp_id.clone(), origins });
        SignerKey::parse(&self.alg, &self.public_key, &self.credential_id, party)
    }
}

/// Reads an instant in the one form that is signed.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    Timestamp::parse_rfc3339(text).filter(|at| at.rfc3339() == text && !text.starts_with("0000"))
}

/// What is signed of an entry.
fn signed_bytes(canonical: &str) -> Vec<u8> {
    [RegistryEntry::TYPE.as_bytes(), &[0], canonical.as_bytes()].concat()
}

/// The root's signature over a canonical R, base64url.
pub fn sign_entry(root: &SigningKey, canonical: &str) -> String {
    b64url(root.sign(&signed_bytes(canonical)))
}

/// Checks the root's signature over a canonical R. Strict (RFC 8032 §8.9).
///
/// *Errors*: `Malformed` for what is no signature, `Signature` for what does not verify.
pub fn verify_entry(root: &PublicKey, canonical: &str, signature: &str) -> Result<(), ProofFault> {
    let bytes: [u8; 64] = from_b64url(signature).and_then(|b| b.try_into().ok()).ok_or(ProofFault::Malformed)?;
    root.verify(&signed_bytes(canonical), &bytes)
}
