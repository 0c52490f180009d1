//! The verifier against the field-bug rows B04 to B07, and its own promises.

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
    EncodingKey::from_rsa_pem(include_bytes!("testdata/rsa.pem")).unwrap()
}

fn ec() -> EncodingKey {
    EncodingKey::from_ec_pem(include_bytes!("testdata/ec.pem")).unwrap()
}

#[tokio::test]
async fn each_kind_of_key_verifies_its_own_algorithm() {
    let bench = bench().await;
    let claims = bench.claims();
    let tokens = [
        signed(&json!({ "alg": "RS256", "kid": "k1" }), &claims, &rsa(), Algorithm::RS256),
        signed(&json!({ "alg": "ES256", "kid": "k2", "typ": "JWT" }), &claims, &ec(), Algorithm::ES256),
        mint().sign(&claims),
    ];
    for token in tokens {
        assert_eq!(bench.verifier.verify(&token).await.unwrap().client.as_str(), "agent-a");
    }
}

#[tokio::test]
async fn b04_audience_and_issuer_are_exact_and_required() {
    let bench = bench().await;
    for aud in [json!(AUD), json!(["other", AUD])] {
        assert!(bench.verify(&bench.with(json!({ "aud": aud }))).await.is_ok(), "{aud}");
    }
    let foreign = [
        Value::Null,
        json!("other"),
        json!([]),
        json!(""),
        json!(format!("{AUD}/")),
        json!(format!("{AUD}.evil.example")),
        json!(AUD.to_uppercase()),
        json!([AUD, 7]),
        json!({ AUD: true }),
    ];
    for aud in foreign {
        assert_eq!(bench.verify(&bench.with(json!({ "aud": aud }))).await, Err(AuthFault::Audience), "{aud}");
    }
    for iss in [Value::Null, json!("https://evil.example"), json!(format!("{ISS}/")), json!([ISS])] {
        assert_eq!(bench.verify(&bench.with(json!({ "iss": iss }))).await, Err(AuthFault::Issuer), "{iss}");
    }
}

#[tokio::test]
async fn b05_a_public_key_is_never_taken_for_a_secret() {
    let bench = bench().await;
    let claims = bench.claims();
    let der = STANDARD.decode(include_str!("testdata/rsa.pem").lines().nth(1).unwrap()).unwrap();
    let jwk = jwk_rsa().to_string();
    let secrets: [&[u8]; 4] = [include_bytes!("testdata/rsa.pem"), &der, jwk.as_bytes(), RSA_N.as_bytes()];
    for secret in secrets {
        for (name, algorithm) in [("HS256", Algorithm::HS256), ("HS384", Algorithm::HS384), ("HS512", Algorithm::HS512)]
        {
            let key = EncodingKey::from_secret(secret).unwrap();
            for kid in ["k1", "hm"] {
                let token = signed(&json!({ "alg": name, "kid": kid }), &claims, &key, algorithm);
                assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::Algorithm));
            }
        }
    }
}

#[tokio::test]
async fn b05_no_algorithm_is_no_algorithm() {
    let bench = bench().await;
    let claims = encoded(&bench.claims());
    for header in [json!({ "alg": "none" }), json!({ "alg": "nOnE" }), json!({ "alg": "" })] {
        let token = format!("{}.{claims}.", encoded(&header));
        assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::Algorithm), "{header}");
    }
    let token = format!("{}.{claims}.", encoded(&json!({ "kid": "k1" })));
    assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::Malformed));
}

#[tokio::test]
async fn b05_a_tampered_token_is_refused() {
    let bench = bench().await;
    let token = mint().sign(&bench.claims());
    let (message, _) = token.rsplit_once('.').unwrap();
    assert_eq!(bench.verifier.verify(&format!("{message}.")).await, Err(AuthFault::Signature));
    assert_eq!(bench.verifier.verify(message).await, Err(AuthFault::Malformed));
    assert_eq!(bench.verifier.verify(&format!("{token}.x")).await, Err(AuthFault::Malformed));
    assert_eq!(bench.verifier.verify("junk").await, Err(AuthFault::Malformed));
    let other = mint().sign(&bench.with(json!({ "sub": "agent-b" })));
    let parts: Vec<&str> = token.split('.').collect();
    let swapped = format!("{}.{}.{}", parts[0], other.split('.').nth(1).unwrap(), parts[2]);
    assert_eq!(bench.verifier.verify(&swapped).await, Err(AuthFault::Signature));
}

#[tokio::test]
async fn b05_the_header_brings_no_key_and_no_extension() {
    let bench = bench().await;
    let claims = bench.claims();
    let evil = Mint::from_seed(&[9; 32]);
    let kid = mint().kid().to_owned();
    let own = jwk_ed(&evil);
    for (header, fault) in [
        (json!({ "alg": "EdDSA", "kid": kid, "jwk": own }), AuthFault::Signature),
        (
            json!({ "alg": "EdDSA", "kid": kid, "jku": "http://127.0.0.1:1/evil", "x5u": "http://127.0.0.1:1/evil" }),
            AuthFault::Signature,
        ),
        (json!({ "alg": "EdDSA", "kid": evil.kid(), "jwk": own }), AuthFault::UnknownKey),
        (json!({ "alg": "EdDSA", "kid": "../../dev/null" }), AuthFault::UnknownKey),
        (json!({ "alg": "EdDSA", "kid": "k1' OR 1=1" }), AuthFault::UnknownKey),
        (json!({ "alg": "EdDSA", "kid": 7 }), AuthFault::Malformed),
        (json!({ "alg": "EdDSA" }), AuthFault::NoKeyId),
        (json!({ "alg": "EdDSA", "kid": "k1" }), AuthFault::Algorithm),
    ] {
        assert_eq!(bench.verifier.verify(&evil.sign_with(&header, &claims)).await, Err(fault), "{header}");
    }
    for (header, fault) in [
        (json!({ "alg": "EdDSA", "kid": kid, "crit": ["exp"] }), AuthFault::Critical),
        (json!({ "alg": "EdDSA", "kid": kid, "crit": ["b64"], "b64": true }), AuthFault::Critical),
        (json!({ "alg": "EdDSA", "kid": kid, "typ": "logout+jwt" }), AuthFault::Type),
    ] {
        assert_eq!(bench.verifier.verify(&mint().sign_with(&header, &claims)).await, Err(fault), "{header}");
    }
    let good = json!({ "alg": "EdDSA", "kid": kid, "typ": "application/at+JWT", "jwk": own });
    assert!(bench.verifier.verify(&mint().sign_with(&good, &claims)).await.is_ok());
}

#[tokio::test]
async fn an_algorithm_off_the_list_is_refused_though_the_key_is_there() {
    let mut auth = auth();
    auth.algorithms = vec!["ES256".into()];
    let bench = bench_of(auth, fixed(&all_keys())).await;
    assert_eq!(bench.verify(&bench.claims()).await, Err(AuthFault::Algorithm));
}

#[tokio::test]
async fn a_shared_secret_algorithm_is_a_start_up_error() {
    for bad in ["HS256", "none", "RS512"] {
        let mut auth = auth();
        auth.algorithms = vec![bad.into()];
        let made = Verifier::new(&auth, AUD.into(), Arc::new(ShiftedClock::default()), fixed(&all_keys())).await;
        assert!(made.unwrap_err().to_string().contains("auth.algorithms"), "{bad}");
    }
}

#[tokio::test]
async fn a_single_key_needs_no_kid() {
    let bench = bench_of(auth(), fixed(&mint().jwks())).await;
    let claims = bench.claims();
    assert!(bench.verifier.verify(&mint().sign_with(&json!({ "alg": "EdDSA" }), &claims)).await.is_ok());
    let other = json!({ "alg": "EdDSA", "kid": "other" });
    assert_eq!(bench.verifier.verify(&mint().sign_with(&other, &claims)).await, Err(AuthFault::UnknownKey));
}

#[tokio::test]
async fn times_are_judged_by_the_given_clock_with_30_seconds_of_leeway() {
    let bench = bench().await;
    let now = bench.clock.now().seconds();
    for (claims, verdict) in [
        (json!({ "exp": now - 25 }), Ok(())),
        (json!({ "exp": now - 31 }), Err(AuthFault::Expired)),
        (json!({ "exp": null }), Err(AuthFault::NoExpiry)),
        (json!({ "exp": "soon" }), Err(AuthFault::Malformed)),
        (json!({ "exp": 1e300 }), Err(AuthFault::Malformed)),
        (json!({ "exp": format!("{}.5", now + 60).parse::<f64>().unwrap() }), Ok(())),
        (json!({ "nbf": now + 25 }), Ok(())),
        (json!({ "nbf": now + 40 }), Err(AuthFault::NotYetValid)),
        (json!({ "nbf": "later" }), Err(AuthFault::Malformed)),
    ] {
        let seen = bench.verify(&bench.with(claims.clone())).await.map(|_| ());
        assert_eq!(seen, verdict, "{claims}");
    }
    let token = mint().sign(&bench.claims());
    assert!(bench.verifier.verify(&token).await.is_ok());
    bench.clock.advance(331_000_000);
    assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::Expired));
    let refusal = Refusal::from(AuthFault::Expired);
    assert_eq!(refusal.code, Code::TokenExpired);
}

#[tokio::test]
async fn b06_roles_are_exact_words_in_every_usual_encoding() {
    let bench = bench().await;
    let grants = [json!("agent"), json!("x agent y"), json!("x  agent\ty"), json!(["agent"]), json!(["x", "agent"])];
    for roles in grants {
        let seen = bench.verify(&bench.with(json!({ "roles": roles }))).await.unwrap();
        assert!(seen.is(Role::Agent) && seen.roles.len() == 1, "{roles}");
    }
    let nothing = [
        Value::Null,
        json!(""),
        json!([]),
        json!("agentx"),
        json!("xagent"),
        json!("Agent"),
        json!({ "agent": true }),
        json!(7),
        json!(["agent", 7]),
        json!(["agent operator"]),
    ];
    for roles in nothing {
        let seen = bench.verify(&bench.with(json!({ "roles": roles }))).await.unwrap();
        assert!(seen.roles.is_empty(), "{roles}");
    }
}

#[tokio::test]
async fn scopes_come_from_scope_and_scp() {
    let bench = bench().await;
    for changes in [json!({ "scope": "a b" }), json!({ "scp": ["a", "b"] }), json!({ "scope": "a", "scp": "b" })] {
        let seen = bench.verify(&bench.with(changes)).await.unwrap();
        assert_eq!(seen.scopes.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}

#[tokio::test]
async fn an_agent_with_a_second_role_is_refused_whole() {
    let bench = bench().await;
    for roles in [json!(["agent", "signer"]), json!("operator agent"), json!(["auditor", "x", "agent"])] {
        assert_eq!(bench.verify(&bench.with(json!({ "roles": roles }))).await, Err(AuthFault::AgentCombined));
    }
    assert!(bench.verify(&bench.with(json!({ "roles": ["signer", "operator"] }))).await.is_ok());
    assert_eq!(Refusal::from(AuthFault::AgentCombined).code, Code::Unauthenticated);
}

#[tokio::test]
async fn tenant_client_and_subject_are_names() {
    let mut auth = auth();
    auth.tenant_claim = "org.id".into();
    auth.roles_claim = "https://x.example/roles".into();
    let bench = bench_of(auth.clone(), fixed(&all_keys())).await;
    let claims = bench.with(json!({ "org": { "id": "acme" }, "https://x.example/roles": "signer", "azp": "app-1" }));
    let seen = bench.verify(&claims).await.unwrap();
    assert_eq!((seen.tenant.as_str(), seen.client.as_str(), seen.subject.as_str()), ("acme", "app-1", "agent-a"));
    assert!(seen.is(Role::Signer) && !seen.is(Role::Agent));
    let client = bench.verify(&bench.with(json!({ "client_id": "c", "azp": "app-1" }))).await.unwrap();
    assert_eq!((client.client.as_str(), client.tenant.as_str()), ("c", "default"));
    for (changes, fault) in [
        (json!({ "org": { "id": "a b" } }), AuthFault::Tenant),
        (json!({ "org": { "id": "" } }), AuthFault::Tenant),
        (json!({ "org": { "id": 7 } }), AuthFault::Tenant),
        (json!({ "client_id": 7 }), AuthFault::Client),
        (json!({ "client_id": "a b" }), AuthFault::Client),
        (json!({ "sub": null }), AuthFault::Subject),
        (json!({ "sub": "" }), AuthFault::Subject),
        (json!({ "sub": 7 }), AuthFault::Subject),
        (json!({ "sub": "a\u{0}b" }), AuthFault::Subject),
    ] {
        assert_eq!(bench.verify(&bench.with(changes.clone())).await, Err(fault), "{changes}");
    }
    auth.default_tenant = String::new();
    let strict = bench_of(auth, fixed(&all_keys())).await;
    assert_eq!(strict.verify(&strict.claims()).await, Err(AuthFault::Tenant));
}

#[tokio::test]
async fn a_verified_token_is_remembered_for_a_minute_and_never_past_its_expiry() {
    let bench = bench().await;
    let checks = || bench.verifier.checked.load(Ordering::Relaxed);
    let token = mint().sign(&bench.claims());
    for _ in 0..3 {
        bench.verifier.verify(&token).await.unwrap();
    }
    assert_eq!(checks(), 1);
    bench.clock.advance(61_000_000);
    bench.verifier.verify(&token).await.unwrap();
    assert_eq!(checks(), 2);
    bench.verifier.forget();
    bench.verifier.verify(&token).await.unwrap();
    assert_eq!(checks(), 3);
    let short = mint().sign(&bench.with(json!({ "exp": bench.clock.now().seconds() + 5 })));
    bench.verifier.verify(&short).await.unwrap();
    bench.clock.advance(36_000_000);
    assert_eq!(bench.verifier.verify(&short).await, Err(AuthFault::Expired));
}

/// A JWKS server that answers with what `body` holds and counts its requests.
fn jwks_server(body: Arc<std::sync::Mutex<String>>) -> (String, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            counted.fetch_add(1, Ordering::SeqCst);
            // Long enough for a caller to hang up meanwhile.
            std::thread::sleep(Duration::from_millis(50));
            let text = body.lock().unwrap().clone();
            let status = if text.is_empty() { "503 Service Unavailable" } else { "200 OK" };
            let length = text.len();
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}");
        }
    });
    (url, hits)
}

#[tokio::test]
async fn keys_turn_at_most_once_a_minute_and_old_tokens_fall_with_them() {
    let body = Arc::new(std::sync::Mutex::new(mint().jwks()));
    let (url, hits) = jwks_server(Arc::clone(&body));
    let bench = bench_of(auth(), KeySource::Url(url)).await;
    let old = mint().sign(&bench.claims());
    assert!(bench.verifier.verify(&old).await.is_ok());
    let next = Mint::from_seed(&[8; 32]);
    *body.lock().unwrap() = next.jwks();
    let new = next.sign(&bench.claims());
    for _ in 0..5 {
        assert_eq!(bench.verifier.verify(&new).await, Err(AuthFault::UnknownKey));
    }
    assert_eq!(hits.load(Ordering::SeqCst), 1, "within the minute nothing is fetched");
    bench.clock.advance(30_000_000);
    assert!(bench.verifier.verify(&old).await.is_ok());
    bench.clock.advance(31_000_000);
    assert!(bench.verifier.verify(&new).await.is_ok());
    assert_eq!(hits.load(Ordering::SeqCst), 2);
    assert_eq!(bench.verifier.verify(&old).await, Err(AuthFault::UnknownKey), "the cache fell with the key");
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_take_the_reload_with_it() {
    let body = Arc::new(std::sync::Mutex::new(mint().jwks()));
    let (url, _) = jwks_server(Arc::clone(&body));
    let bench = bench_of(auth(), KeySource::Url(url)).await;
    let next = Mint::from_seed(&[8; 32]);
    *body.lock().unwrap() = next.jwks();
    bench.clock.advance(61_000_000);
    let token = next.sign(&bench.claims());
    let hung_up = tokio::time::timeout(Duration::from_millis(10), bench.verifier.verify(&token)).await;
    assert!(hung_up.is_err());
    assert!(bench.verifier.verify(&token).await.is_ok());
}

#[tokio::test]
async fn an_issuer_that_is_down_stops_no_start_and_heals() {
    let body = Arc::new(std::sync::Mutex::new(String::new()));
    let (url, _) = jwks_server(Arc::clone(&body));
    let bench = bench_of(auth(), KeySource::Url(url)).await;
    assert!(!bench.verifier.has_keys());
    let token = mint().sign(&bench.claims());
    assert_eq!(bench.verifier.verify(&token).await, Err(AuthFault::KeysUnavailable));
    *body.lock().unwrap() = mint().jwks();
    bench.clock.advance(6_000_000);
    assert!(bench.verifier.verify(&token).await.is_ok());
    // Losing the issuer later changes nothing for known keys.
    *body.lock().unwrap() = String::new();
    bench.clock.advance(120_000_000);
    assert!(bench.verifier.verify(&mint().sign(&bench.claims())).await.is_ok());
}

#[tokio::test]
async fn a_withdrawn_key_goes_though_no_token_names_a_new_one() {
    let body = Arc::new(std::sync::Mutex::new(all_keys()));
    let (url, hits) = jwks_server(Arc::clone(&body));
    let bench = bench_of(auth(), KeySource::Url(url)).await;
    *body.lock().unwrap() = json!({ "keys": [jwk_rsa(), jwk_ec()] }).to_string();
    bench.clock.advance(601_000_000);
    let token = mint().sign(&bench.claims());
    let _ = bench.verifier.verify(&token).await;
    for _ in 0..200 {
        if bench.verifier.verify(&token).await == Err(AuthFault::UnknownKey) {
            assert_eq!(hits.load(Ordering::SeqCst), 2);
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the withdrawn key is still accepted");
}

#[tokio::test]
async fn a_key_file_that_cannot_be_used_is_a_start_up_error() {
    let path = std::env::temp_dir().join(format!("countersign-jwks-{}", std::process::id()));
    for (content, why) in [(None, "can't be read"), (Some("{}"), "not a JWK set"), (Some(r#"{"keys":[]}"#), "no key")] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let source = KeySource::File(path.clone());
        let made = Verifier::new(&auth(), AUD.into(), Arc::new(ShiftedClock::default()), source).await;
        let fault = made.unwrap_err().to_string();
        assert!(fault.contains("auth.jwks_file") && fault.contains(why), "{fault}");
    }
    std::fs::write(&path, mint().jwks()).unwrap();
    let bench = bench_of(auth(), KeySource::File(path.clone())).await;
    std::fs::remove_file(&path).unwrap();
    assert!(bench.verify(&bench.claims()).await.is_ok());
}

#[tokio::test]
async fn a_minted_token_says_what_was_granted() {
    let bench = bench_of(auth(), fixed(&mint().jwks())).await;
    let grant = Grant {
        issuer: ISS,
        audience: AUD,
        subject: "ann",
        tenant: "acme",
        client: "app-1",
        roles: &[Role::Signer, Role::Operator],
        scope: "pay",
        issued_at: bench.clock.now(),
        valid_for: Duration::from_mins(1),
    };
    let seen = bench.verifier.verify(&mint().token(&grant)).await.unwrap();
    assert_eq!((seen.tenant.as_str(), seen.client.as_str(), seen.subject.as_str()), ("acme", "app-1", "ann"));
    assert!(seen.is(Role::Signer) && seen.is(Role::Operator) && seen.scopes.contains("pay"));
    assert_eq!(Mint::from_pem("junk").unwrap_err(), MintFault::Key);
}
