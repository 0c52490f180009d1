//! The audit chain: each entry's hash covers the one before it.
//!
//! Leaves are hashed as in RFC 6962 (`0x00` before a leaf, `0x01` before a node), so a Merkle
//! root can join later without touching an entry.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::canonical::{b64url, from_b64url, jcs};

/// The chain value before a tenant's first entry.
pub const GENESIS: &str = "";

/// One audited fact. Every value is a string; an absent one is `""`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditFacts {
    /// Position in the tenant's chain, from 1.
    pub seq: String,
    /// RFC 3339 UTC, three fraction digits.
    pub ts: String,
    /// The tenant.
    pub tenant: String,
    /// The payment, if it is about one.
    pub payment_id: String,
    /// The payment's version after the change; empty when it changed nothing.
    pub version: String,
    /// The process that wrote it.
    pub node: String,
    /// Who caused it.
    pub actor: String,
    /// What happened.
    pub event: String,
    /// The public state before.
    pub from: String,
    /// The public state after.
    pub to: String,
    /// Why, in a stable word or a person's words.
    pub reason: String,
    /// SHA-256 of what is not repeated here (arguments, document, receipt), hexadecimal.
    pub digest_of_details: String,
}

/// A chained entry: its canonical bytes and the chain value after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The canonical text of the facts.
    pub canonical: String,
    /// The chain value after this entry, base64url.
    pub chain: String,
}

/// Chains `facts` behind `previous`.
pub fn link(previous: &str, facts: &AuditFacts) -> Result<Link, serde_json::Error> {
    let canonical = jcs(facts)?;
    let chain = chained(previous, &canonical);
    Ok(Link { canonical, chain })
}

/// The chain value after an entry whose canonical text is `canonical`.
pub fn chained(previous: &str, canonical: &str) -> String {
    chained_leaf(previous, &leaf_bytes(canonical))
}

/// The hash by which the chain knows an entry, base64url: it tells nothing of the text.
pub fn leaf(canonical: &str) -> String {
    b64url(leaf_bytes(canonical))
}

fn leaf_bytes(canonical: &str) -> [u8; 32] {
    let mut leaf = Sha256::new();
    leaf.update([0]);
    leaf.update(canonical.as_bytes());
    leaf.finalize().into()
}

/// The chain value after an entry of which only the hash is known.
pub(super) fn chained_leaf(previous: &str, leaf: &[u8; 32]) -> String {
    let mut node = Sha256::new();
    node.update([1]);
    // A previous value that is not base64url is nobody's chain value; hashed as text it matches nothing.
    node.update(from_b64url(previous).unwrap_or_else(|| previous.as_bytes().to_vec()));
    node.update(leaf);
    b64url(node.finalize())
}
