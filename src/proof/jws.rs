//! Ed25519 detached JWS: the signature form of signers that are programs or use a key file.

use ed25519_dalek::pkcs8::spki::DecodePublicKey as _;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _, KeypairBytes};
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::canonical::{b64url, from_b64url};

/// Why a proof is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofFault {
    /// Not three dot-separated parts with an empty middle, or not base64url.
    #[error("not a detached JWS")]
    Malformed,
    /// The protected header is not exactly the one that is accepted.
    #[error("the JWS header must be alg EdDSA, typ countersign-approval+jws, and the key's kid")]
    Header,
    /// The key is not a usable one of its kind.
    #[error("the key is not usable")]
    Key,
    /// The browser was asked for something else than this kind of answer.
    #[error("the browser's answer is of another kind")]
    Ceremony,
    /// The challenge is not the digest of what is signed.
    #[error("the answer is to another challenge than the digest of this decision")]
    Challenge,
    /// The page that asked is none of this service's.
    #[error("a page of another origin asked for it")]
    Origin,
    /// The passkey was made for somebody else.
    #[error("the passkey belongs to another site")]
    RelyingParty,
    /// The device did not check that it is its owner.
    #[error("the device did not verify its user; user verification is required")]
    UserVerification,
    /// The signature does not verify.
    #[error("the signature does not verify over these bytes with this key")]
    Signature,
}

/// The protected header: nothing in it is a choice of the signer's but `kid`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    kid: String,
    typ: String,
}

const ALG: &str = "EdDSA";
const TYP: &str = "countersign-approval+jws";

/// A signer's public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads a PEM (`SubjectPublicKeyInfo`, RFC 8410).
    pub fn from_pem(pem: &str) -> Result<Self, ProofFault> {
        VerifyingKey::from_public_key_pem(pem.trim()).map(Self).map_err(|_| ProofFault::Key)
    }

    /// Reads the raw 32 bytes in base64url, the form the key registry keeps.
    pub fn from_b64url(text: &str) -> Result<Self, ProofFault> {
        let bytes: [u8; 32] = from_b64url(text).and_then(|b| b.try_into().ok()).ok_or(ProofFault::Key)?;
        Self::from_bytes(&bytes)
    }

    /// The raw 32 bytes.
    pub(super) fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8; 32]) -> Result<Self, ProofFault> {
        VerifyingKey::from_bytes(bytes).map(Self).map_err(|_| ProofFault::Key)
    }

    /// Checks a bare signature over `bytes`. Strict (RFC 8032 §8.9).
    pub(super) fn verify(&self, bytes: &[u8], signature: &[u8; 64]) -> Result<(), ProofFault> {
        self.0.verify_strict(bytes, &Signature::from_bytes(signature)).map_err(|_| ProofFault::Signature)
    }

    /// The raw 32 bytes in base64url.
    pub fn to_b64url(&self) -> String {
        b64url(self.0.as_bytes())
    }

    /// PEM (`SubjectPublicKeyInfo`).
    pub fn to_pem(&self) -> Result<String, ProofFault> {
        self.0.to_public_key_pem(LineEnding::LF).map_err(|_| ProofFault::Key)
    }
}

/// A private key. No signer's is ever in the gateway.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// Makes a key from 32 random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Reads a PKCS#8 PEM.
    pub fn from_pem(pem: &str) -> Result<Self, ProofFault> {
        ed25519_dalek::SigningKey::from_pkcs8_pem(pem.trim()).map(Self).map_err(|_| ProofFault::Key)
    }

    /// PKCS#8 PEM.
    pub fn to_pem(&self) -> Result<String, ProofFault> {
        // Version 1, without the public half: the form that every tool reads.
        let plain = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        let pem = plain.to_pkcs8_pem(LineEnding::LF).map_err(|_| ProofFault::Key)?;
        Ok(pem.as_str().to_owned())
    }

    pub(super) fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// A bare signature over `bytes`.
    pub(super) fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(secret)")
    }
}

/// A name for a public key, from the key itself: `ed25519-` and 16 base64url characters.
pub fn key_id_of(key: &PublicKey) -> String {
    let digest = b64url(Sha256::digest(key.0.as_bytes()));
    format!("ed25519-{}", digest.chars().filter(char::is_ascii_alphanumeric).take(16).collect::<String>())
}

/// Signs `payload`; the result holds header and signature, not the payload.
pub fn sign_detached(key: &SigningKey, key_id: &str, payload: &str) -> Result<String, ProofFault> {
    let header = Header { alg: ALG.to_owned(), kid: key_id.to_owned(), typ: TYP.to_owned() };
    let header = b64url(serde_json::to_vec(&header).map_err(|_| ProofFault::Header)?);
    let signature = key.0.sign(format!("{header}.{}", b64url(payload)).as_bytes());
    Ok(format!("{header}..{}", b64url(signature.to_bytes())))
}

/// The key id that a detached JWS names, once its header is one that is accepted.
///
/// *Errors*: `Malformed`, `Header`.
pub fn claimed_key_id(jws: &str) -> Result<String, ProofFault> {
    parts(jws).map(|parts| parts.kid)
}

/// Checks a detached JWS over `payload` by `key`, whose id is `key_id`. Strict (RFC 8032 §8.9).
///
/// *Errors*: each fault by its own name; none of them tells anything of the key.
pub fn verify_detached(key: &PublicKey, key_id: &str, payload: &str, jws: &str) -> Result<(), ProofFault> {
    let parts = parts(jws)?;
    if parts.kid != key_id {
        return Err(ProofFault::Header);
    }
    let signed = format!("{}.{}", parts.header, b64url(payload));
    key.0.verify_strict(signed.as_bytes(), &parts.signature).map_err(|_| ProofFault::Signature)
}

struct Parts<'a> {
    header: &'a str,
    kid: String,
    signature: Signature,
}

fn parts(jws: &str) -> Result<Parts<'_>, ProofFault> {
    let (header, rest) = jws.split_once('.').ok_or(ProofFault::Malformed)?;
    let signature = rest.strip_prefix('.').ok_or(ProofFault::Malformed)?;
    let decoded = from_b64url(header).ok_or(ProofFault::Malformed)?;
    // A derived reader takes a list of the values as well; a JOSE header is an object.
    if decoded.first() != Some(&b'{') {
        return Err(ProofFault::Header);
    }
    let fields: Header = serde_json::from_slice(&decoded).map_err(|_| ProofFault::Header)?;
    if fields.alg != ALG || fields.typ != TYP {
        return Err(ProofFault::Header);
    }
    let bytes: [u8; 64] = from_b64url(signature).and_then(|b| b.try_into().ok()).ok_or(ProofFault::Malformed)?;
    Ok(Parts { header, kid: fields.kid, signature: Signature::from_bytes(&bytes) })
}
