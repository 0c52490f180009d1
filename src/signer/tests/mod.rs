//! The service, driven as its callers drive it.

mod api;
mod callbacks;
mod decisions;
mod enrolment;
mod guessing;
mod hostile;
mod pages;
mod passkeys;
mod reaching;
mod rounds;
mod verdicts;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{DirectoryEntry, Reaching, SignerService, SignerSettings};
use crate::ambient::{Clock as _, Entropy, ShiftedClock, SystemEntropy};
use crate::domain::Choice;
use crate::proof::{
    Challenge, DecisionDocument, PaymentDocument, SigningKey, b64url, key_id_of, payment_digest, sign_detached,
};

const KEY: &str = "test-key-of-the-gateway";
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDaaaa";
const ORIGIN: &str = "https://sign.example";
const REFERENCE: &str = "pay_01J00000000000000000000000";
const MINUTE: i64 = 60_000_000;

/// What came back.
struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Self { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// Status and error code.
    fn fault(&self) -> (u16, String) {
        (self.status, self.json()["error_code"].as_str().unwrap_or("").to_owned())
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A service with four people: ann and bob with keys, cleo without one, dan offline.
struct Bench {
    service: SignerService,
    router: Router,
    clock: Arc<ShiftedClock>,
    callback_url: String,
}

fn key(of: &str) -> SigningKey {
    SigningKey::from_seed(&[of.as_bytes()[0]; 32])
}

fn settings(database: &Path, presence_switch: bool) -> SignerSettings {
    let entry = |id: &str, known: bool, online| DirectoryEntry {
        signer_id: id.to_owned(),
        name: format!("{id} of Finance"),
        key_pem: known.then(|| key(id).public().to_pem().unwrap()),
        online,
        ..DirectoryEntry::default()
    };
    SignerSettings {
        database: database.to_owned(),
        api_key: KEY.into(),
        callback_secret: SECRET.into(),
        public_url: format!("{ORIGIN}/"),
        directory: vec![
            entry("ann", true, true),
            entry("bob", true, true),
            entry("cleo", false, true),
            entry("dan", true, false),
        ],
        reaching: Reaching::default(),
        link_ttl: Duration::from_mins(15),
        presence_switch,
    }
}

impl Bench {
    async fn new() -> Self {
        Self::on(settings(Path::new(":memory:"), true)).await
    }

    async fn on(settings: SignerSettings) -> Self {
        Self::by_chance(settings, Arc::new(SystemEntropy)).await
    }

    async fn by_chance(settings: SignerSettings, entropy: Arc<dyn Entropy>) -> Self {
        let clock = Arc::new(ShiftedClock::default());
        let service = SignerService::open(settings, Arc::clone(&clock) as Arc<_>, entropy).await.unwrap();
        let callback_url = "http://127.0.0.1:9/callbacks/signer".to_owned();
        Self { router: service.router(), service, clock, callback_url }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        Answer::of(self.router.clone().oneshot(request).await.unwrap()).await
    }

    fn request(method: &str, path: &str) -> axum::http::request::Builder {
        Request::builder().method(method).uri(path).header("authorization", format!("Bearer {KEY}"))
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Self::request("GET", path).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, path: &str, key: &str, body: &Value) -> Answer {
        let request = Self::request("POST", path).header("idempotency-key", key);
        self.send(request.header("content-type", "application/json").body(body.to_string().into()).unwrap()).await
    }

    async fn presence(&self, signer: &str, online: bool) -> Answer {
        let request = Self::request("PUT", &format!("/api/v1/signers/{signer}/presence"));
        self.send(request.body(json!({"online": online}).to_string().into()).unwrap()).await
    }

    /// The body of a registration; times are relative to the bench's clock.
    fn registration(&self, round: i64, signers: &[&str]) -> Value {
        let payload = document(round).canonical().unwrap();
        self.registration_of(&payload, round, signers)
    }

    fn registration_of(&self, payload: &str, round: i64, signers: &[&str]) -> Value {
        let (now, until) = (self.clock.now().rfc3339(), self.clock.now().plus_micros(60 * MINUTE).rfc3339());
        let signers: Vec<Value> = signers
            .iter()
            .map(|id| {
                let mut nonce = [0; 32];
                SystemEntropy.fill(&mut nonce);
                json!({"signer_id": id, "nonce": b64url(nonce), "issued_at": now, "challenge_expires_at": until})
            })
            .collect();
        json!({
            "reference": REFERENCE, "round": round, "payload": payload, "payment_digest": payment_digest(payload),
            "signers": signers, "expires_at": until, "callback_url": self.callback_url,
        })
    }

    /// Registers round 1 for `signers`; the service's id and the registration.
    async fn registered(&self, signers: &[&str]) -> (String, Value) {
        let body = self.registration(1, signers);
        let answer = self.post("/api/v1/payments", "register-1", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        (answer.json()["id"].as_str().unwrap().to_owned(), body)
    }

    /// A fresh link's path.
    async fn link(&self, id: &str) -> String {
        let answer = self.get(&format!("/api/v1/payments/{id}/sign-link")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["url"].as_str().unwrap().strip_prefix(ORIGIN).unwrap().to_owned()
    }

    async fn decide(&self, link: &str, document: &str, jws: &str) -> Answer {
        let request = Request::post(format!("{link}/decisions")).header("content-type", "application/json");
        self.send(request.body(json!({"document": document, "jws": jws}).to_string().into()).unwrap()).await
    }

    async fn status(&self, id: &str) -> Value {
        let answer = self.get(&format!("/api/v1/payments/{id}/status")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }
}

fn document(round: i64) -> PaymentDocument {
    PaymentDocument {
        typ: PaymentDocument::TYPE.to_owned(),
        aud: "https://gateway.example".to_owned(),
        tenant: "acme".to_owned(),
        payment_id: REFERENCE.to_owned(),
        order_id: "PO-2026-117".to_owned(),
        round: round.to_string(),
        amount_minor: "19900".to_owned(),
        currency: "USD".to_owned(),
        currency_exponent: "2".to_owned(),
        payer_account: "acme-operating".to_owned(),
        payee_account: "DE89370400440532013000".to_owned(),
        payee_name: "Widgets GmbH".to_owned(),
        purpose: "Invoice 4711 <script>alert('x')</script> & more".to_owned(),
        requester_agent: "agent-7".to_owned(),
        requester_principal: "mia".to_owned(),
        mandate_id: String::new(),
        policy_id: "default".to_owned(),
        policy_version: "1".to_owned(),
        policy_digest: "digest-of-the-policy".to_owned(),
        required: "finance:1".to_owned(),
        created_at: "2026-01-01T00:00:00.000Z".to_owned(),
        expires_at: "2026-01-02T00:00:00.000Z".to_owned(),
        execute_by: "2026-01-03T00:00:00.000Z".to_owned(),
    }
}

fn challenge(registration: &Value, signer: &str) -> Challenge {
    let all = registration["signers"].as_array().unwrap();
    serde_json::from_value(all.iter().find(|c| c["signer_id"] == signer).unwrap().clone()).unwrap()
}

fn answering(registration: &Value, signer: &str, choice: Choice, reason: &str) -> DecisionDocument {
    let digest = registration["payment_digest"].as_str().unwrap();
    let key_id = key_id_of(&key(signer).public());
    DecisionDocument::answering(&challenge(registration, signer), digest, &key_id, choice, reason)
}

/// The document and its signature by the signer's own key.
fn signed(registration: &Value, signer: &str, choice: Choice) -> (String, String) {
    signed_by(&answering(registration, signer, choice, ""), signer)
}

fn signed_by(document: &DecisionDocument, signer: &str) -> (String, String) {
    let text = document.canonical().unwrap();
    let jws = sign_detached(&key(signer), &document.key_id, &text).unwrap();
    (text, jws)
}
