//! The decision document D: one person's yes or no to one payment document.

use serde::{Deserialize, Serialize};

use super::canonical::{b64url, jcs, tagged_digest};
use crate::domain::Choice;

/// D. Every value is a string; an absent one is `""`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are the document's own; DESIGN's decision document defines them")]
pub struct DecisionDocument {
    pub typ: String,
    pub payment_digest: String,
    pub decision: String,
    pub reason: String,
    pub signer_id: String,
    pub key_id: String,
    pub nonce: String,
    pub issued_at: String,
    pub challenge_expires_at: String,
}

/// What one eligible signer is asked in one round: single use, made by the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// The person asked.
    pub signer_id: String,
    /// 32 random bytes, base64url.
    pub nonce: String,
    /// RFC 3339 UTC, three fraction digits.
    pub issued_at: String,
    /// RFC 3339 UTC, three fraction digits.
    pub challenge_expires_at: String,
}

impl DecisionDocument {
    /// The document's type, and the tag of its digest.
    pub const TYPE: &'static str = "countersign/approval/v1";

    /// The one document by which `challenge` is answered with `choice` under `key_id`.
    ///
    /// Gateway, signer service and signer each build it from the same values, so a detached
    /// signature needs no copy of it.
    pub fn answering(challenge: &Challenge, payment_digest: &str, key_id: &str, choice: Choice, reason: &str) -> Self {
        Self {
            typ: Self::TYPE.to_owned(),
            payment_digest: payment_digest.to_owned(),
            decision: choice.as_str().to_owned(),
            reason: reason.to_owned(),
            signer_id: challenge.signer_id.clone(),
            key_id: key_id.to_owned(),
            nonce: challenge.nonce.clone(),
            issued_at: challenge.issued_at.clone(),
            challenge_expires_at: challenge.challenge_expires_at.clone(),
        }
    }

    /// The canonical text.
    pub fn canonical(&self) -> Result<String, serde_json::Error> {
        jcs(self)
    }

    /// Reads a canonical text; refuses one that is not in canonical form.
    pub fn parse(text: &str) -> Option<Self> {
        let document: Self = serde_json::from_str(text).ok()?;
        (document.typ == Self::TYPE && document.canonical().ok()? == text).then_some(document)
    }

    /// What the person decided; `None` for a word that is neither.
    pub fn choice(&self) -> Option<Choice> {
        Choice::from_name(&self.decision)
    }
}

/// The digest of a canonical D, base64url: the challenge of a passkey, and the audit's name for it.
pub fn decision_digest(canonical: &str) -> String {
    b64url(tagged_digest(DecisionDocument::TYPE, canonical))
}
