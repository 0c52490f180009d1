//! What really goes over the wire, against the file: the gateway's adapter, and every answer by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use countersign::ambient::{Clock as _, Entropy as _, SystemEntropy};
use countersign::proof::{PaymentDocument, b64url, payment_digest};
use serde_json::{Value, json};

use super::{Contract, Fault, OWN_TROUBLE};
use crate::harness::app::{App, SIGNER_API_KEY, Wishes, each_in_turn};
use crate::harness::json_schema::{faults, matches};
use crate::harness::recorder::{Recorder, media};

/// What is asked of the service by hand, through the recorder.
struct Hand<'a> {
    app: &'a App,
    url: String,
    count: Mutex<u32>,
}

impl Hand<'_> {
    fn key(&self) -> String {
        let mut count = self.count.lock().unwrap();
        *count += 1;
        format!("key-{count}")
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<String>,
        token: &str,
    ) -> (u16, Value) {
        let method: reqwest::Method = method.parse().unwrap();
        let mut request = self.app.http.request(method, format!("{}{path}", self.url));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, None, None, SIGNER_API_KEY).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("POST", path, Some(&self.key()), Some(body.to_string()), SIGNER_API_KEY).await
    }

    fn registration(&self, reference: &str, round: i64, signers: &[&str]) -> Value {
        let now = self.app.clock.now();
        let until = now.plus_micros(3_600_000_000).rfc3339();
        let payload = document(reference, round).canonical().unwrap();
        let challenges: Vec<Value> = signers
            .iter()
            .map(|signer| {
                let mut nonce = [0; 32];
                SystemEntropy.fill(&mut nonce);
                json!({"signer_id": signer, "nonce": b64url(nonce), "issued_at": now.rfc3339(), "challenge_expires_at": until})
            })
            .collect();
        json!({"reference": reference, "round": round, "payload": payload, "payment_digest": payment_digest(&payload),
            "signers": challenges, "expires_at": until, "callback_url": "http://127.0.0.1:9/callbacks/signer"})
    }
}

fn document(reference: &str, round: i64) -> PaymentDocument {
    let mut document: Value = json!({"typ": PaymentDocument::TYPE, "payment_id": reference, "round": round.to_string(),
        "amount_minor": "100", "currency": "USD", "currency_exponent": "2"});
    for name in [
        "aud",
        "tenant",
        "order_id",
        "payer_account",
        "payee_account",
        "payee_name",
        "purpose",
        "requester_agent",
        "requester_principal",
        "mandate_id",
        "policy_id",
        "policy_version",
        "policy_digest",
        "required",
        "created_at",
        "expires_at",
        "execute_by",
    ] {
        document[name] = json!("");
    }
    serde_json::from_value(document).unwrap()
}

/// Every answer that the contract has, asked for once at least.
async fn ask_for_everything(hand: &Hand<'_>) {
    const PAYMENTS: &str = "/api/v1/payments";
    let two = ["finance-1", "finance-2"];
    let asked = hand.registration("pay_a", 1, &two);
    assert_eq!(hand.post(PAYMENTS, &asked).await.0, 201);
    let (status, told) = hand.post(PAYMENTS, &asked).await;
    assert_eq!(status, 200);
    let id = told["id"].as_str().unwrap().to_owned();
    let at = |page: &str| format!("{PAYMENTS}/{id}/{page}");
    let notice = json!({"round": 2, "notification": 1, "signers": two});
    let closing = json!({"round": 2, "reason": "signed"});

    // Registering.
    hand.post(PAYMENTS, &hand.registration("pay_a", 1, &two)).await;
    hand.post(PAYMENTS, &hand.registration("pay_a", 2, &two)).await;
    hand.post(PAYMENTS, &asked).await;
    hand.post(PAYMENTS, &hand.registration("pay_b", 1, &["nobody"])).await;
    hand.post(PAYMENTS, &edited(&asked, "payment_digest", json!(b64url([0; 32])))).await;
    hand.post(PAYMENTS, &edited(&asked, "payload", json!("{}"))).await;
    hand.post(PAYMENTS, &edited(&hand.registration("pay_a", 2, &two), "round", json!(3))).await;

    // Notifying.
    hand.post(&at("notify"), &notice).await;
    hand.post(&at("notify"), &edited(&notice, "signers", json!(["finance-1"]))).await;
    hand.post(&at("notify"), &edited(&notice, "round", json!(1))).await;
    hand.post(&at("notify"), &edited(&edited(&notice, "signers", json!(["nobody"])), "notification", json!(2))).await;

    // Reading.
    for path in
        [at("status"), at("sign-link"), format!("{PAYMENTS}?reference=pay_a"), format!("{PAYMENTS}?reference=pay_0")]
    {
        assert_eq!(hand.get(&path).await.0, 200, "{path}");
        hand.send("GET", &path, None, None, "not-the-key").await;
        hand.send("GET", &path, None, None, "").await;
    }
    hand.get(PAYMENTS).await;
    hand.get("/healthz").await;
    hand.send("GET", "/healthz", None, None, "").await;
    hand.get("/no/such/page").await;
    hand.send("DELETE", &at("status"), None, None, SIGNER_API_KEY).await;
    for page in ["status", "sign-link"] {
        hand.get(&format!("{PAYMENTS}/unknown/{page}")).await;
        hand.get(&format!("{PAYMENTS}/%FF/{page}")).await;
    }

    // Closing.
    hand.post(&at("cancel"), &edited(&closing, "round", json!(1))).await;
    hand.post(&at("cancel"), &edited(&closing, "round", json!(3))).await;
    let done = hand.post(&at("cancel"), &closing).await;
    assert_eq!(done, (200, json!({"id": id, "state": "closed"})));
    hand.post(&at("notify"), &edited(&notice, "notification", json!(3))).await;
    assert_eq!(hand.get(&at("status")).await.1["state"], "closed");

    // What every write has in common.
    let big = format!("{{\"pad\":\"{}\"}}", "x".repeat(300_000));
    for (path, body) in [(PAYMENTS.to_owned(), &asked), (at("notify"), &notice), (at("cancel"), &closing)] {
        hand.send("POST", &path, None, Some(body.to_string()), SIGNER_API_KEY).await;
        hand.send("POST", &path, Some("k"), Some(body.to_string()), "not-the-key").await;
        hand.send("POST", &path, Some("k"), Some("{".to_owned()), SIGNER_API_KEY).await;
        hand.send("POST", &path, Some("k"), Some(big.clone()), SIGNER_API_KEY).await;
        if path != PAYMENTS {
            hand.post(&path.replace(&id, "unknown"), body).await;
        }
        let reused = if path == PAYMENTS {
            "key-1".to_owned()
        } else {
            let key = hand.key();
            let good = edited(&closing, "round", json!(1));
            hand.send("POST", &at("cancel"), Some(&key), Some(good.to_string()), SIGNER_API_KEY).await;
            key
        };
        hand.send(
            "POST",
            &path,
            Some(&reused),
            Some(edited(body, "round", json!(1)).to_string() + " "),
            SIGNER_API_KEY,
        )
        .await;
    }

    // The switch, and the pages behind a link.
    for body in ["{\"online\":true}", "{}"] {
        hand.send("PUT", "/api/v1/signers/finance-1/presence", None, Some(body.to_owned()), SIGNER_API_KEY).await;
    }
    hand.send("PUT", "/api/v1/signers/nobody/presence", None, Some("{\"online\":true}".to_owned()), SIGNER_API_KEY)
        .await;
    hand.send("GET", "/assets/page.css", None, None, "").await;
    hand.send("GET", "/sign/nothing", None, None, "").await;
    hand.send("GET", "/sign/%FF", None, None, "").await;
    hand.send("POST", "/sign/nothing/decisions", None, Some("{\"document\":\"{}\",\"jws\":\"x\"}".to_owned()), "")
        .await;
    hand.send("POST", "/sign/nothing/decisions", None, Some("{}".to_owned()), "").await;
}

fn edited(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[name] = value;
    body
}

/// What the file does not allow, the service does not take either.
async fn what_the_file_forbids_is_refused(contract: &Contract, hand: &Hand<'_>) {
    let (_, told) = hand.post("/api/v1/payments", &hand.registration("pay_f", 1, &["finance-1"])).await;
    let id = told["id"].as_str().unwrap().to_owned();
    let bodies = [
        ("/api/v1/payments".to_owned(), "Registration", hand.registration("pay_g", 1, &["finance-1"])),
        (
            format!("/api/v1/payments/{id}/notify"),
            "Notification",
            json!({"round": 1, "notification": 1, "signers": ["finance-1"]}),
        ),
        (format!("/api/v1/payments/{id}/cancel"), "Closing", json!({"round": 1, "reason": "signed"})),
    ];
    for (path, schema, good) in bodies {
        let schema = &contract.0["components"]["schemas"][schema];
        assert_eq!(faults(&contract.0, schema, &good), Vec::<String>::new());
        let mut bad = vec![edited(&good, "no_such_member", json!(1)), json!([good]), json!(null)];
        for name in good.as_object().unwrap().keys() {
            let mut without = good.clone();
            without.as_object_mut().unwrap().remove(name);
            bad.push(without);
            for value in [
                json!(null),
                json!(0),
                json!(-1),
                json!(1.5),
                json!(""),
                json!(true),
                json!([]),
                json!({}),
                json!([""]),
            ] {
                bad.push(edited(&good, name, value));
            }
        }
        for member in ["signer_id", "nonce", "issued_at", "challenge_expires_at", "no_such_member"] {
            if good["signers"][0].is_object() {
                for value in [json!(""), json!("a b"), json!(7)] {
                    let mut body = good.clone();
                    body["signers"][0][member] = value;
                    bad.push(body);
                }
            }
        }
        for body in bad {
            assert!(!faults(&contract.0, schema, &body).is_empty(), "the file allows {body}");
            let (status, told) = hand.post(&path, &body).await;
            assert!([400, 422].contains(&status), "{path} takes {body}: {status} {told}");
        }
    }
}

/// What the gateway itself asks of the service.
async fn a_payments_life(app: &App) {
    app.signer_online(false).await;
    app.create("order-1").await;
    assert_eq!(app.notify("order-1").await.status(), "SIGNER_UNREACHABLE");
    app.signer_online(true).await;
    app.until("order-1", "AWAITING_SIGNER").await;
    app.call(&app.agent(), "check_sign_status", json!({"order_id": "order-1"})).await;
    let document = app.document("finance-1", "order-1", "approve", "").await;
    assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
    assert_eq!(app.deliver_callbacks().await, 1);
    app.settle().await;
    app.until("order-1", "EXECUTED").await;
    app.awaiting("order-2").await;
    app.cancel("order-2").await;
    app.awaiting("order-3").await;
    assert_eq!(app.reject("finance-1", "order-3", "too dear").await.status(), "REJECTED");
    app.pass(std::time::Duration::from_mins(1)).await;
    app.journal.ping_signer().await.unwrap();
}

#[tokio::test]
async fn what_goes_over_the_wire_is_what_the_file_says() {
    let recorders: Arc<Mutex<Vec<(Recorder, Recorder)>>> = Arc::default();
    let kept = Arc::clone(&recorders);
    let wishes = Wishes::default().config(move |config| {
        let (service, inbox) = (Recorder::before(&config.signer.url), Recorder::before(&config.server.public_url));
        config.signer.url = service.url.clone();
        config.signer.callback_url = format!("{}/callbacks/signer", inbox.url);
        kept.lock().unwrap().push((service, inbox));
    });
    each_in_turn(wishes, async |app: &mut App| {
        app.did.others_at_the_peers = true;
        let (service, inbox) = recorders.lock().unwrap().last().unwrap().clone();
        let contract = Contract::load();
        a_payments_life(app).await;
        let of_the_adapter = service.seen();
        let hand = Hand { app, url: service.url.clone(), count: Mutex::new(0) };
        ask_for_everything(&hand).await;
        what_the_file_forbids_is_refused(&contract, &hand).await;

        let mut wrong = Vec::new();
        let mut refusals: BTreeMap<String, BTreeSet<Fault>> = BTreeMap::new();
        let mut answered = BTreeSet::new();
        for exchange in service.seen() {
            match contract.judge(&exchange) {
                Ok((operation, refusal)) => {
                    answered.insert((operation.clone(), exchange.status));
                    refusals.entry(operation).or_default().extend(refusal);
                }
                Err(why) => wrong.push(format!(
                    "{} {} {}: {why}\n    {}",
                    exchange.method,
                    exchange.path,
                    exchange.status,
                    String::from_utf8_lossy(&exchange.answer).chars().take(200).collect::<String>()
                )),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        // Nothing in the file is there for show: each answer of the contract was seen.
        for (_, _, operation) in contract.operations().iter().filter(|(_, _, it)| it.node["x-reference-only"] != true) {
            let mut expected = contract.refusals(operation);
            expected.retain(|(status, _)| !OWN_TROUBLE.contains(status));
            assert_eq!(refusals[operation.id], expected, "{}", operation.id);
            for status in operation.node["responses"].as_object().unwrap().keys() {
                let status: u16 = status.parse().unwrap();
                let seen = answered.contains(&(operation.id.to_owned(), status));
                assert!(seen || OWN_TROUBLE.contains(&status), "{} {status}", operation.id);
            }
        }
        let by_adapter: BTreeSet<String> =
            of_the_adapter.iter().map(|exchange| contract.judge(exchange).unwrap().0).collect();
        let expected = ["cancel", "find", "health", "notify", "register", "signLink", "status", "tellVerdicts"];
        assert_eq!(by_adapter.into_iter().collect::<Vec<_>>(), expected, "the adapter uses all of it");

        // The callback, which goes the other way.
        let hook = &contract.0["webhooks"]["decisionRecorded"]["post"];
        let callbacks = inbox.seen();
        assert!(!callbacks.is_empty());
        for callback in &callbacks {
            assert_eq!((callback.method.as_str(), callback.path.as_str()), ("POST", "/callbacks/signer"));
            assert_eq!((callback.status, media(&callback.headers).as_str()), (204, "application/json"));
            let body: Value = serde_json::from_slice(&callback.body).unwrap();
            let schema = &hook["requestBody"]["content"]["application/json"]["schema"];
            assert_eq!(faults(&contract.0, schema, &body), Vec::<String>::new());
            for parameter in hook["parameters"].as_array().unwrap() {
                let value = callback.headers[parameter["name"].as_str().unwrap()].to_str().unwrap();
                assert!(matches(parameter["schema"]["pattern"].as_str().unwrap(), value), "{value}");
            }
            assert_eq!(callback.headers["webhook-id"], body["event_id"].as_str().unwrap());
        }
    })
    .await;
}
