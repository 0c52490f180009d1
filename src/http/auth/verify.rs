//! Verifying a token: signature, issuer, audience, times; then who it names.
//!
//! *Invariant*: the header of a token chooses among what the configuration allows and nothing
//! else. `jwk`, `jku` and `x5u` are not read; the algorithm must be on the list *and* be the one
//! that the key's type stands for, so a public key is never taken for a shared secret.

use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use moka::sync::Cache;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::claims::Rules;
use super::fault::AuthFault;
use super::keys::{KeySet, KeySource, Keys};
use crate::ambient::Clock;
use crate::config::{self, ConfigFault};
use crate::domain::{Principal, Timestamp};

/// How many verified tokens are remembered, and for how long at most.
const CACHED: u64 = 10_000;
const CACHED_FOR: Duration = Duration::from_mins(1);

/// The fields of a JOSE header that matter here; all others are passed over.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

/// A token that verified, under which keys, and until when that may be remembered.
#[derive(Debug)]
struct Verified {
    principal: Principal,
    keys: [u8; 32],
    from: Timestamp,
    until: Timestamp,
}

/// Verifies access tokens.
#[derive(Debug)]
pub struct Verifier {
    rules: Rules,
    algorithms: Vec<Algorithm>,
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    cache: Cache<[u8; 32], Arc<Verified>>,
    #[cfg(test)]
    pub(super) checked: AtomicU64,
}

impl Verifier {
    /// A verifier for tokens of `auth.issuer` that name `audience`.
    ///
    /// *Errors*: an algorithm that is not accepted here; a JWKS file that can't be used.
    pub async fn new(
        auth: &config::Auth,
        audience: String,
        clock: Arc<dyn Clock>,
        source: KeySource,
    ) -> Result<Self, ConfigFault> {
        let algorithms = auth.algorithms.iter().map(|name| asymmetric(name)).collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() {
            return Err(ConfigFault("auth.algorithms: name at least one of RS256, ES256, EdDSA".to_owned()));
        }
        if auth.issuer.is_empty() || audience.is_empty() {
            return Err(ConfigFault("auth.issuer: issuer and audience are required".to_owned()));
        }
        Ok(Self {
            rules: Rules::new(auth, audience),
            algorithms,
            keys: Arc::new(Keys::open(source, Arc::clone(&clock)).await?),
            clock,
            cache: Cache::builder().max_capacity(CACHED).time_to_live(CACHED_FOR).build(),
            #[cfg(test)]
            checked: AtomicU64::new(0),
        })
    }

    /// The principal of `token`.
    ///
    /// *Errors*: the first check that fails, signature before claims.
    pub async fn verify(&self, token: &str) -> Result<Principal, AuthFault> {
        self.keys.freshen();
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let keys = self.keys.current();
        if let Some(known) = self.remembered(&digest, &keys) {
            return Ok(known.principal.clone());
        }
        let (keys, claims) = match self.signed_claims(token, &keys) {
            Ok(claims) => (keys, claims),
            Err(AuthFault::UnknownKey | AuthFault::KeysUnavailable) => {
                self.keys.reload().await;
                let keys = self.keys.current();
                let claims = self.signed_claims(token, &keys)?;
                (keys, claims)
            }
            Err(fault) => return Err(fault),
        };
        let now = self.clock.now();
        let expiry = self.rules.check(&claims, now)?;
        let principal = self.rules.principal(&claims)?;
        let until = expiry.min(now.plus(CACHED_FOR));
        let known = Verified { principal: principal.clone(), keys: keys.digest(), from: now, until };
        self.cache.insert(digest, Arc::new(known));
        Ok(principal)
    }

    /// Whether any key is loaded: what `check` and `readyz` ask.
    pub fn has_keys(&self) -> bool {
        !self.keys.current().is_empty()
    }

    fn remembered(&self, digest: &[u8; 32], keys: &KeySet) -> Option<Arc<Verified>> {
        let now = self.clock.now();
        self.cache.get(digest).filter(|known| known.keys == keys.digest() && (known.from..known.until).contains(&now))
    }

    /// The claims of `token`, once its signature verifies.
    fn signed_claims(&self, token: &str, keys: &KeySet) -> Result<Value, AuthFault> {
        #[cfg(test)]
        self.checked.fetch_add(1, Ordering::Relaxed);
        let mut parts = token.split('.');
        let (Some(head), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AuthFault::Malformed);
        };
        let header: Header = decoded(head)?;
        let algorithm = self.allowed(&header.alg)?;
        if header.crit.is_some() {
            return Err(AuthFault::Critical);
        }
        if !header.typ.as_deref().is_none_or(access_token_type) {
            return Err(AuthFault::Type);
        }
        if keys.is_empty() {
            return Err(AuthFault::KeysUnavailable);
        }
        if header.kid.is_none() && keys.len() > 1 {
            return Err(AuthFault::NoKeyId);
        }
        let mut named = keys.named(header.kid.as_deref()).peekable();
        if named.peek().is_none() {
            return Err(AuthFault::UnknownKey);
        }
        let mut fitting = named.filter(|key| key.fits(algorithm)).peekable();
        if fitting.peek().is_none() {
            return Err(AuthFault::Algorithm);
        }
        let message = token.rsplit_once('.').map_or(token, |(message, _)| message).as_bytes();
        let verifies = |key: &super::keys::Key| {
            jsonwebtoken::crypto::verify(signature, message, &key.decoding, algorithm).unwrap_or(false)
        };
        if !fitting.any(verifies) {
            return Err(AuthFault::Signature);
        }
        let claims: Value = decoded(payload)?;
        if claims.is_object() { Ok(claims) } else { Err(AuthFault::Malformed) }
    }

    fn allowed(&self, name: &str) -> Result<Algorithm, AuthFault> {
        let algorithm: Algorithm = name.parse().map_err(|_| AuthFault::Algorithm)?;
        if self.algorithms.contains(&algorithm) { Ok(algorithm) } else { Err(AuthFault::Algorithm) }
    }
}

/// An algorithm of the configuration: one whose verifying key forges nothing.
fn asymmetric(name: &str) -> Result<Algorithm, ConfigFault> {
    match name {
        "RS256" => Ok(Algorithm::RS256),
        "ES256" => Ok(Algorithm::ES256),
        "EdDSA" => Ok(Algorithm::EdDSA),
        _ => Err(ConfigFault(format!("auth.algorithms: {name:?} is not one of RS256, ES256, EdDSA"))),
    }
}

/// Types of access tokens (RFC 9068 §2.1); a logout or proof token of the same issuer is none.
fn access_token_type(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}

fn decoded<T: serde::de::DeserializeOwned>(part: &str) -> Result<T, AuthFault> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| AuthFault::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| AuthFault::Malformed)
}
