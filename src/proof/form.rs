//! The two forms of a proof behind one check: a detached JWS, and an assertion by a passkey.

use super::decision::decision_digest;
use super::jws::{ProofFault, PublicKey, claimed_key_id, verify_detached};
use super::passkey::{Assertion, PASSKEY, PasskeyAlg, PasskeyKey, RelyingParty, verify_assertion};

/// What proves that a signer decided. The text is kept and shown as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// Ed25519 detached JWS (RFC 7515 appendix F).
    Jws(String),
    /// A WebAuthn assertion whose challenge is the decision's digest, in [`Assertion`]'s canonical text.
    Passkey(String),
}

impl Proof {
    /// Reads a proof by the name of its form.
    pub fn of(form: &str, text: String) -> Option<Self> {
        match form {
            "jws" => Some(Self::Jws(text)),
            "webauthn" => Some(Self::Passkey(text)),
            _ => None,
        }
    }

    /// The name of its form.
    pub const fn form(&self) -> &'static str {
        match self {
            Self::Jws(_) => "jws",
            Self::Passkey(_) => "webauthn",
        }
    }

    /// The proof itself.
    pub fn text(&self) -> &str {
        match self {
            Self::Jws(text) | Self::Passkey(text) => text,
        }
    }

    /// What it says of its key.
    ///
    /// *Errors*: `Malformed`, `Header`.
    pub fn claim(&self) -> Result<Claim, ProofFault> {
        match self {
            Self::Jws(jws) => Ok(Claim { key_id: claimed_key_id(jws)?, credential_id: String::new() }),
            Self::Passkey(text) => {
                let credential_id = Assertion::parse(text)?.credential_id;
                Ok(Claim { key_id: PASSKEY.to_owned(), credential_id })
            }
        }
    }
}

/// The `key_id` in a decision document that is proved in this form by the key of that name: which passkey it was, the
/// assertion itself says.
pub fn named_key<'a>(form: &str, key_id: &'a str) -> &'a str {
    if form == "webauthn" { PASSKEY } else { key_id }
}

/// Which key a proof says it is by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The `key_id` of the document that is signed: the key's own, or [`PASSKEY`].
    pub key_id: String,
    /// The passkey's credential; empty for another key.
    pub credential_id: String,
}

/// A signer's public key, as a registry keeps it: what a proof is checked against, and nothing else is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignerKey {
    /// That of a detached JWS.
    Jws(PublicKey),
    /// A passkey, and the site that it was made for.
    Passkey {
        /// Its public half.
        key: PasskeyKey,
        /// Its credential's id, base64url.
        credential_id: String,
        /// Whom it was made for.
        party: RelyingParty,
    },
}

/// The registry's name for the algorithm of a detached JWS.
pub const JWS_ALG: &str = "Ed25519";

impl SignerKey {
    /// Its algorithm, as the registry keeps it.
    pub const fn alg(&self) -> &'static str {
        match self {
            Self::Jws(_) => JWS_ALG,
            Self::Passkey { key, .. } => key.alg().as_str(),
        }
    }

    /// Its public half, as the registry keeps it: base64url of 32 raw bytes, or of a `SubjectPublicKeyInfo`.
    pub fn public_key(&self) -> String {
        match self {
            Self::Jws(key) => key.to_b64url(),
            Self::Passkey { key, .. } => key.to_b64url(),
        }
    }

    /// Reads what a registry keeps; `party` is `None` for the key of a detached JWS.
    pub fn parse(
        alg: &str,
        public_key: &str,
        credential_id: &str,
        party: Option<RelyingParty>,
    ) -> Result<Self, ProofFault> {
        match (PasskeyAlg::from_name(alg), party) {
            (None, None) if alg == JWS_ALG && credential_id.is_empty() => {
                PublicKey::from_b64url(public_key).map(Self::Jws)
            }
            (Some(_), Some(party)) if !credential_id.is_empty() => {
                let key = PasskeyKey::parse(alg, public_key)?;
                Ok(Self::Passkey { key, credential_id: credential_id.to_owned(), party })
            }
            _ => Err(ProofFault::Key),
        }
    }

    /// Checks `proof` over the canonical decision `document`; returns a passkey's counter.
    ///
    /// `key_id` is the key's own name in the registry.
    ///
    /// *Errors*: each fault by its own name.
    pub fn verify(&self, key_id: &str, document: &str, proof: &Proof) -> Result<Option<u32>, ProofFault> {
        match (self, proof) {
            (Self::Jws(key), Proof::Jws(jws)) => verify_detached(key, key_id, document, jws).map(|()| None),
            (Self::Passkey { key, credential_id, party }, Proof::Passkey(text)) => {
                let assertion = Assertion::parse(text)?;
                if assertion.credential_id != *credential_id {
                    return Err(ProofFault::Key);
                }
                verify_assertion(key, party, &decision_digest(document), &assertion).map(Some)
            }
            (Self::Jws(_), Proof::Passkey(_)) | (Self::Passkey { .. }, Proof::Jws(_)) => Err(ProofFault::Key),
        }
    }
}
