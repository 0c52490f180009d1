//! The issuer's public keys: read once, held in memory, refreshed when they turn.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use super::fetch;
use crate::ambient::Clock;
use crate::config::{self, ConfigFault};
use crate::domain::Timestamp;

const SECOND: i64 = 1_000_000;
/// The shortest time between two loads: an unknown `kid` costs the issuer no more than this.
const RELOAD_AFTER: i64 = 60 * SECOND;
/// The same while there are no keys at all.
const RETRY_AFTER: i64 = 5 * SECOND;
/// Keys older than this are loaded again in the background, so that a withdrawn key goes.
const STALE_AFTER: i64 = 600 * SECOND;

/// Where the issuer's keys are.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// A JWKS file; one that can't be read is a start-up error.
    File(PathBuf),
    /// A JWKS URL; one that can't be reached is tried again with the first tokens.
    Url(String),
    /// Keys that never change: `dev` and tests.
    Fixed(Arc<KeySet>),
}

impl KeySource {
    /// The source that `[auth]` names; `Config::check` has seen to it that there is one.
    pub fn of(auth: &config::Auth) -> Self {
        if auth.jwks_file.is_empty() {
            Self::Url(auth.jwks_url.clone())
        } else {
            Self::File(PathBuf::from(&auth.jwks_file))
        }
    }
}

/// A public key with the one algorithm it is used with.
#[derive(Debug, Clone)]
pub(super) struct Key {
    kid: Option<String>,
    algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
}

/// The signature keys of a JWK set.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    digest: [u8; 32],
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl RawKey {
    /// The key, if it is one we can verify signatures with: the type alone decides the algorithm.
    fn usable(self) -> Option<Key> {
        let for_signing = self.usage.is_none_or(|usage| usage == "sig")
            && self.key_ops.is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let (algorithm, decoding) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => (Algorithm::RS256, DecodingKey::from_rsa_components(&self.n?, &self.e?)),
            ("EC", Some("P-256")) => (Algorithm::ES256, DecodingKey::from_ec_components(&self.x?, &self.y?)),
            ("OKP", Some("Ed25519")) => (Algorithm::EdDSA, DecodingKey::from_ed_components(&self.x?)),
            _ => return None,
        };
        let fits = self.alg.is_none_or(|alg| alg.parse().is_ok_and(|alg: Algorithm| alg == algorithm));
        (for_signing && fits).then_some(Key { kid: self.kid, algorithm, decoding: decoding.ok()? })
    }
}

impl KeySet {
    /// Reads a JWK set (RFC 7517 §5). Entries that can't be used are passed over.
    ///
    /// *Errors*: the bytes are not a JWK set. A set without a usable key is one.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let set: RawSet = serde_json::from_slice(json).map_err(|_| "not a JWK set".to_owned())?;
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<RawKey>(key).ok()?.usable());
        Ok(Self { keys: keys.take(100).collect(), digest: Sha256::digest(json).into() })
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// What tells this set from another.
    pub(super) fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The keys of that `kid`; without one, the only key.
    pub(super) fn named<'a>(&'a self, kid: Option<&'a str>) -> impl Iterator<Item = &'a Key> {
        let alone = self.keys.len() == 1;
        self.keys.iter().filter(move |key| match kid {
            Some(_) => key.kid.as_deref() == kid,
            None => alone,
        })
    }
}

impl Key {
    /// Whether this key verifies signatures of `algorithm`.
    pub(super) fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm == algorithm
    }
}

/// The keys in force, and how to get newer ones.
#[derive(Debug)]
pub(super) struct Keys {
    current: ArcSwap<KeySet>,
    source: KeySource,
    client: Option<reqwest::Client>,
    clock: Arc<dyn Clock>,
    /// When the last load began; held while one runs, so that there is one at a time.
    last: Mutex<Option<Timestamp>>,
    refreshing: AtomicBool,
}

impl Keys {
    /// Loads the keys for the first time.
    ///
    /// *Errors*: a file that can't be read or is no JWK set. A URL that fails is only logged.
    pub(super) async fn open(source: KeySource, clock: Arc<dyn Clock>) -> Result<Self, ConfigFault> {
        let client = match source {
            KeySource::Url(_) => Some(fetch::client().map_err(|why| ConfigFault(format!("auth.jwks_url: {why}")))?),
            KeySource::File(_) | KeySource::Fixed(_) => None,
        };
        let keys = Self {
            current: ArcSwap::default(),
            source,
            client,
            clock,
            last: Mutex::new(None),
            refreshing: AtomicBool::new(false),
        };
        match (keys.load().await, &keys.source) {
            (Ok(()), _) => {}
            (Err(why), KeySource::Url(_)) => {
                tracing::warn!(reason = %why, "the issuer's keys can't be loaded; no token is accepted until they are");
            }
            (Err(why), KeySource::File(_) | KeySource::Fixed(_)) => {
                return Err(ConfigFault(format!("auth.jwks_file: {why}")));
            }
        }
        *keys.last.lock().await = Some(keys.clock.now());
        Ok(keys)
    }

    /// The keys in force.
    pub(super) fn current(&self) -> Arc<KeySet> {
        self.current.load_full()
    }

    /// Looks for newer keys because a token names one that is not here.
    ///
    /// In a task of its own: a caller that hangs up must not take a load under way with it, or one
    /// such caller a minute would keep new keys out for ever.
    pub(super) async fn reload(self: &Arc<Self>) {
        let keys = Arc::clone(self);
        let _ = tokio::spawn(async move { keys.load_if_due().await }).await;
    }

    async fn load_if_due(&self) {
        let mut last = self.last.lock().await;
        let pause = if self.current.load().is_empty() { RETRY_AFTER } else { RELOAD_AFTER };
        let now = self.clock.now();
        if last.is_some_and(|last| (now.micros() - last.micros()).abs() < pause) {
            return;
        }
        *last = Some(now);
        if let Err(why) = self.load().await {
            tracing::warn!(reason = %why, "the issuer's keys can't be reloaded; the known ones stay in force");
        }
    }

    /// Starts a reload in the background when the keys are old; never waits for it.
    pub(super) fn freshen(self: &Arc<Self>) {
        let Ok(last) = self.last.try_lock() else { return };
        let old = last.is_none_or(|last| (self.clock.now().micros() - last.micros()).abs() > STALE_AFTER);
        drop(last);
        if old && !matches!(self.source, KeySource::Fixed(_)) && !self.refreshing.swap(true, Ordering::AcqRel) {
            let keys = Arc::clone(self);
            tokio::spawn(async move {
                keys.load_if_due().await;
                keys.refreshing.store(false, Ordering::Release);
            });
        }
    }

    async fn load(&self) -> Result<(), String> {
        let fresh = match (&self.source, &self.client) {
            (KeySource::Fixed(keys), _) => Arc::clone(keys),
            (KeySource::File(path), _) => {
                let json = tokio::fs::read(path).await.map_err(|err| format!("can't be read: {}", err.kind()))?;
                Arc::new(KeySet::parse(&json)?)
            }
            (KeySource::Url(url), Some(client)) => Arc::new(KeySet::parse(&fetch::json(client, url).await?)?),
            (KeySource::Url(_), None) => return Err("no client".to_owned()),
        };
        if fresh.is_empty() {
            return Err("the JWK set holds no key of type RSA, EC P-256 or Ed25519".to_owned());
        }
        if fresh.digest != self.current.load().digest {
            tracing::info!(keys = fresh.len(), "the issuer's keys are loaded");
            self.current.store(fresh);
        }
        Ok(())
    }
}
