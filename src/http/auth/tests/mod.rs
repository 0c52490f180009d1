//! The verifier against the field-bug rows B04 to B07, and its own promises.

mod claims;
mod keys;
mod tokens;

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use super::*;
use crate::ambient::{Clock, ShiftedClock};
use crate::config::Auth;
use crate::domain::{Code, Principal, Refusal, Role};

const ISS: &str = "https://idp.example";
const AUD: &str = "https://pay.example/mcp";
const RSA_N: &str = "tmQBXSFxAV7SU9-T6DMpH2G6v9GWBz0gGfo47XTItbU0BjB0XJmvbxlQ7Ylpl1fE3NidgtScQu1JIzsT6rKvc-Nb2gv-sC7KCy0J-wji0MAqwpOurBoN-FzMNuvT1AzWLtOb-4HpOwcZWqmq2EyjCp_hj7Vo8V1lTSR-ibFoRLNTiLKITeKkIBoTpObtvgGaIErLTr2mhS53DcOYZxI5EbdFjT-hqZjWuaUI5OXqeiLE8qsPtS-8UtP1YZBIKzdbHPWuFJks8dh4LiMBj4pTpYTzV-xuxFEsSo7rI7K-3aonnM3xZjtvBShXxPXVfMZGTGnyG_Ltuc7ukcB5hfGQQQ";
const EC_X: &str = "HhVUPaqW6dvKMb6ribPqezjwQkFPGktgQ3Ym6I-Nxds";
const EC_Y: &str = "qcOhTNUoigySWh33JNCXKcWuX85dHzUFNw6b18b-JR8";

fn auth() -> Auth {
    Auth {
        issuer: ISS.into(),
        audience: String::new(),
        jwks_url: String::new(),
        jwks_file: String::new(),
        algorithms: vec!["RS256".into(), "ES256".into(), "EdDSA".into()],
        leeway_s: 30,
        tenant_claim: "tenant".into(),
        default_tenant: "default".into(),
        roles_claim: "roles".into(),
        client_claim: "client_id".into(),
        required_scope: String::new(),
        authorization_servers: Vec::new(),
    }
}

fn jwk_rsa() -> Value {
    json!({ "kty": "RSA", "kid": "k1", "alg": "RS256", "use": "sig", "n": RSA_N, "e": "AQAB" })
}

fn jwk_ec() -> Value {
    json!({ "kty": "EC", "kid": "k2", "crv": "P-256", "x": EC_X, "y": EC_Y })
}

fn mint() -> Mint {
    Mint::from_seed(&[7; 32])
}

fn jwk_ed(mint: &Mint) -> Value {
    serde_json::from_str::<Value>(&mint.jwks()).unwrap()["keys"][0].clone()
}

/// All three keys, among entries that can't be used.
fn all_keys() -> String {
    json!({ "keys": [
        { "kty": "AKP", "kid": "pq", "pub": "x" },
        { "kty": 7 },
        { "kty": "oct", "kid": "hm", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0" },
        { "kty": "EC", "crv": "secp256k1", "kid": "k9", "x": EC_X, "y": EC_Y },
        jwk_rsa(), jwk_ec(), jwk_ed(&mint()),
    ] })
    .to_string()
}

fn fixed(jwks: &str) -> KeySource {
    KeySource::Fixed(Arc::new(KeySet::parse(jwks.as_bytes()).unwrap()))
}

struct Bench {
    clock: Arc<ShiftedClock>,
    verifier: Verifier,
}

async fn bench_of(auth: Auth, source: KeySource) -> Bench {
    let clock = Arc::new(ShiftedClock::default());
    let verifier = Verifier::new(&auth, AUD.into(), clock.clone(), source).await.unwrap();
    Bench { clock, verifier }
}

async fn bench() -> Bench {
    bench_of(auth(), fixed(&all_keys())).await
}

impl Bench {
    fn claims(&self) -> Value {
        let now = self.clock.now().seconds();
        json!({ "iss": ISS, "aud": AUD, "sub": "agent-a", "exp": now + 300, "roles": ["agent"] })
    }

    /// The base claims with some replaced; null takes one out.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
    fn with(&self, changes: Value) -> Value {
        let mut claims = self.claims();
        for (name, value) in changes.as_object().unwrap() {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        claims
    }

    async fn verify(&self, claims: &Value) -> Result<Principal, AuthFault> {
        self.verifier.verify(&mint().sign(claims)).await
    }
}

fn encoded(part: &Value) -> String {
    URL_SAFE_NO_PAD.encode(part.to_string())
}

fn signed(header: &Value, claims: &Value, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", encoded(header), encoded(claims));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

fn rsa() -> EncodingKey {
    EncodingKey::from_rsa_pem(include_bytes!("../testdata/rsa.pem")).unwrap()
}

fn ec() -> EncodingKey {
    EncodingKey::from_ec_pem(include_bytes!("../testdata/ec.pem")).unwrap()
}
