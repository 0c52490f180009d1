//! Minting tokens for `dev`, `token` and tests. A deployment's tokens come from its own issuer.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::pkcs8::DecodePrivateKey as _;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::domain::{Role, Timestamp};

/// Why no token could be minted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MintFault {
    /// Not a PKCS#8 PEM of an Ed25519 private key.
    #[error("the key is not an Ed25519 private key in PKCS#8 PEM; `countersign keys issuer` makes one")]
    Key,
}

/// What a minted token says.
#[derive(Debug, Clone)]
pub struct Grant<'a> {
    /// `iss`.
    pub issuer: &'a str,
    /// `aud`.
    pub audience: &'a str,
    /// `sub`.
    pub subject: &'a str,
    /// `tenant`.
    pub tenant: &'a str,
    /// `client_id`.
    pub client: &'a str,
    /// `roles`.
    pub roles: &'a [Role],
    /// `scope`, left out when empty.
    pub scope: &'a str,
    /// `iat`.
    pub issued_at: Timestamp,
    /// From `iat` to `exp`.
    pub valid_for: Duration,
}

/// An issuer in small: one Ed25519 key.
#[derive(Clone)]
pub struct Mint {
    key: SigningKey,
    kid: String,
}

impl std::fmt::Debug for Mint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mint").field("kid", &self.kid).finish_non_exhaustive()
    }
}

impl Mint {
    /// An issuer whose key is in a PKCS#8 PEM.
    pub fn from_pem(pem: &str) -> Result<Self, MintFault> {
        SigningKey::from_pkcs8_pem(pem.trim()).map(Self::of).map_err(|_| MintFault::Key)
    }

    /// An issuer whose key is made from 32 random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self::of(SigningKey::from_bytes(seed))
    }

    fn of(key: SigningKey) -> Self {
        let kid = thumbprint(&key.verifying_key());
        Self { key, kid }
    }

    /// The key's id: its RFC 7638 thumbprint.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The JWK set that verifies this issuer's tokens.
    pub fn jwks(&self) -> String {
        jwks_of(&self.key.verifying_key())
    }

    /// A token for `grant`.
    pub fn token(&self, grant: &Grant<'_>) -> String {
        let roles: Vec<&str> = grant.roles.iter().map(|role| role.as_str()).collect();
        let mut claims = json!({
            "iss": grant.issuer,
            "aud": grant.audience,
            "sub": grant.subject,
            "tenant": grant.tenant,
            "client_id": grant.client,
            "roles": roles,
            "iat": grant.issued_at.seconds(),
            "exp": grant.issued_at.plus(grant.valid_for).seconds(),
        });
        if let (false, Some(fields)) = (grant.scope.is_empty(), claims.as_object_mut()) {
            fields.insert("scope".to_owned(), Value::from(grant.scope));
        }
        self.sign(&claims)
    }

    /// A token with exactly these claims.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({ "alg": "EdDSA", "typ": "at+jwt", "kid": self.kid }), claims)
    }

    /// A token with exactly this header and these claims.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(message.as_bytes()).to_bytes());
        format!("{message}.{signature}")
    }
}

/// The JWK set of one Ed25519 public key (RFC 8037 §2).
pub fn jwks_of(key: &VerifyingKey) -> String {
    let x = URL_SAFE_NO_PAD.encode(key.as_bytes());
    json!({ "keys": [{
        "kty": "OKP", "crv": "Ed25519", "x": x, "kid": thumbprint(key), "alg": "EdDSA", "use": "sig",
    }] })
    .to_string()
}

fn thumbprint(key: &VerifyingKey) -> String {
    let x = URL_SAFE_NO_PAD.encode(key.as_bytes());
    URL_SAFE_NO_PAD.encode(Sha256::digest(format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#)))
}
