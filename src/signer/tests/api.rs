//! The contract, endpoint by endpoint.

use std::future::Future as _;
use std::task::{Context, Waker};

use super::*;

#[tokio::test]
async fn without_the_key_nothing_is_answered() {
    let bench = Bench::new().await;
    for shown in [None, Some("Bearer wrong-key"), Some(KEY), Some("Basic test-key-of-the-gateway"), Some("Bearer ")] {
        let mut request = Request::get("/api/v1/payments?reference=pay_0");
        if let Some(shown) = shown {
            request = request.header("authorization", shown);
        }
        let answer = bench.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.fault(), (401, "unauthorized".to_owned()), "{shown:?}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    let answer = bench.get("/api/v1/payments?reference=pay_0").await;
    assert_eq!((answer.status, answer.text.as_str()), (200, r#"{"items":[]}"#));
    let health = bench.send(Request::get("/healthz").body(Body::empty()).unwrap()).await;
    assert_eq!(health.status, 200);
}

#[tokio::test]
async fn a_registration_is_found_by_its_reference() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "dan"]).await;
    let found = bench.get(&format!("/api/v1/payments?reference={REFERENCE}")).await.json();
    assert_eq!(found, json!({"items": [{"id": id, "reference": REFERENCE, "round": 1}]}));
    let status = bench.status(&id).await;
    assert_eq!(
        status,
        json!({
            "id": id, "reference": REFERENCE, "round": 1, "state": "open", "decisions": [], "receipts": [],
            "told": "",
            "signers": [{"signer_id": "ann", "online": true}, {"signer_id": "dan", "online": false}],
        })
    );
    let again = bench.post("/api/v1/payments", "another-key", &body).await;
    assert_eq!((again.status, again.json()["id"].as_str().unwrap()), (200, id.as_str()));
}

#[tokio::test]
async fn a_key_replays_its_answer_and_takes_no_other_request() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann"]).await;
    let again = bench.post("/api/v1/payments", "register-1", &body).await;
    assert_eq!((again.status, again.json()["id"].as_str().unwrap()), (201, id.as_str()));
    let mut other = body.clone();
    other["callback_url"] = json!("https://elsewhere.example/");
    let reused = bench.post("/api/v1/payments", "register-1", &other).await;
    assert_eq!(reused.fault(), (422, "idempotency_key_reused".to_owned()));
    let elsewhere = bench.post(&format!("/api/v1/payments/{id}/cancel"), "register-1", &body).await;
    assert_eq!(elsewhere.fault(), (422, "idempotency_key_reused".to_owned()));
    let request = Bench::request("POST", "/api/v1/payments").body(body.to_string().into()).unwrap();
    assert_eq!(bench.send(request).await.fault(), (400, "idempotency_key_missing".to_owned()));
}

#[tokio::test]
async fn of_concurrent_duplicates_one_does_the_work() {
    let place = tempfile::tempdir().unwrap();
    let bench = Bench::on(settings(&place.path().join("signer.db"), true)).await;
    let body = bench.registration(1, &["ann"]);
    let answers = futures::future::join_all((0..12).map(|_| bench.post("/api/v1/payments", "one-key", &body))).await;
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.text == answers[0].text));
}

#[tokio::test]
async fn a_refused_request_succeeds_under_its_key_once_the_cause_is_mended() {
    let place = tempfile::tempdir().unwrap();
    let mut short = settings(&place.path().join("signer.db"), true);
    short.directory.retain(|entry| entry.signer_id != "bob");
    let bench = Bench::on(short).await;
    let body = bench.registration(1, &["ann", "bob"]);
    for _ in 0..2 {
        let answer = bench.post("/api/v1/payments", "k", &body).await;
        assert_eq!(answer.fault(), (422, "unknown_signer".to_owned()));
    }
    assert_eq!(bench.get(&format!("/api/v1/payments?reference={REFERENCE}")).await.text, r#"{"items":[]}"#);
    drop(bench);
    let bench = Bench::on(settings(&place.path().join("signer.db"), true)).await;
    let answer = bench.post("/api/v1/payments", "k", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let again = bench.post("/api/v1/payments", "k", &body).await;
    assert_eq!((again.status, &again.text), (201, &answer.text));
    // Now the key has succeeded, and takes no other body.
    let other = bench.registration(1, &["ann"]);
    let reused = bench.post("/api/v1/payments", "k", &other).await;
    assert_eq!(reused.fault(), (422, "idempotency_key_reused".to_owned()));
}

#[tokio::test]
async fn a_refused_request_leaves_its_key_to_another_body() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    let notify = format!("/api/v1/payments/{id}/notify");
    let early = json!({"round": 2, "notification": 1, "signers": ["ann"]});
    assert_eq!(bench.post(&notify, "n", &early).await.fault(), (409, "round_stale".to_owned()));
    let right = json!({"round": 1, "notification": 1, "signers": ["ann"]});
    assert_eq!(bench.post(&notify, "n", &right).await.status, 200);
    assert_eq!(bench.post(&notify, "n", &early).await.fault(), (422, "idempotency_key_reused".to_owned()));
}

#[tokio::test]
async fn what_is_wrong_with_a_registration_is_named() {
    let bench = Bench::new().await;
    let good = bench.registration(1, &["ann"]);
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    let payload_of = |change: fn(&mut PaymentDocument)| {
        let mut changed = document(1);
        change(&mut changed);
        bench.registration_of(&changed.canonical().unwrap(), 1, &["ann"])
    };
    let twice = vec![good["signers"][0].clone(), good["signers"][0].clone()];
    let mut short = good["signers"][0].clone();
    short["nonce"] = json!("AAAA");
    let spaced = good["payload"].as_str().unwrap().replacen(':', ": ", 1);
    let cases = [
        (with("payment_digest", json!("AAAA")), 422, "digest_mismatch"),
        (bench.registration_of(&spaced, 1, &["ann"]), 422, "payload_invalid"),
        (with("payload", json!("{}")), 422, "payload_invalid"),
        (with("round", json!(2)), 422, "payload_mismatch"),
        (with("reference", json!("pay_other")), 422, "payload_mismatch"),
        (payload_of(|p| p.currency_exponent = "3".to_owned()), 422, "payload_invalid"),
        (payload_of(|p| p.round = "01".to_owned()), 422, "payload_mismatch"),
        (bench.registration(1, &["ann", "nobody"]), 422, "unknown_signer"),
        (with("signers", json!([])), 400, "invalid_request"),
        (with("signers", json!(twice)), 400, "invalid_request"),
        (with("signers", json!([short])), 400, "invalid_request"),
        (with("callback_url", json!("ftp://x/")), 400, "invalid_request"),
        (with("expires_at", json!("2026-01-01T00:00:00Z")), 400, "invalid_request"),
        (with("more", json!(1)), 400, "invalid_request"),
        (json!([]), 400, "invalid_request"),
    ];
    for (place, (body, status, code)) in cases.iter().enumerate() {
        let answer = bench.post("/api/v1/payments", &format!("case-{place}"), body).await;
        assert_eq!(answer.fault(), (*status, (*code).to_owned()), "case {place}: {}", answer.text);
        assert!(!answer.json()["error_message"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused() {
    let bench = Bench::new().await;
    let request = Bench::request("POST", "/api/v1/payments").header("idempotency-key", "k");
    let answer = bench.send(request.body("x".repeat(256 * 1024 + 1).into()).unwrap()).await;
    assert_eq!(answer.fault(), (413, "body_too_large".to_owned()));
}

#[tokio::test]
async fn what_is_not_there_says_so() {
    let bench = Bench::new().await;
    for path in ["status", "sign-link"] {
        let answer = bench.get(&format!("/api/v1/payments/nothing/{path}")).await;
        assert_eq!(answer.fault(), (404, "unknown_payment".to_owned()));
    }
    let notify = json!({"round": 1, "notification": 1, "signers": ["ann"]});
    let answer = bench.post("/api/v1/payments/nothing/notify", "n", &notify).await;
    assert_eq!(answer.fault(), (404, "unknown_payment".to_owned()));
    let answer = bench.post("/api/v1/payments/nothing/cancel", "c", &json!({"round": 1, "reason": "signed"})).await;
    assert_eq!(answer.fault(), (404, "unknown_payment".to_owned()));
    assert_eq!(bench.get("/api/v1/other").await.fault(), (404, "not_found".to_owned()));
    assert_eq!(bench.get("/api/v1/payments/x/notify").await.fault(), (405, "method_not_allowed".to_owned()));
    assert_eq!(bench.presence("nobody", true).await.fault(), (404, "unknown_signer".to_owned()));
}

#[tokio::test]
async fn whoever_is_online_is_notified() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann", "bob"]).await;
    let path = format!("/api/v1/payments/{id}/notify");
    let ask = |number: i64| json!({"round": 1, "notification": number, "signers": ["ann", "bob"]});
    bench.presence("bob", false).await;
    let answer = bench.post(&path, "notify-1", &ask(1)).await.json();
    let at = |place: usize| answer["receipts"][place]["at"].clone();
    assert_eq!(
        answer,
        json!({"outcome": "notified", "notification": 1, "reason": "", "receipts": [
            {"signer_id": "ann", "notification": 1, "channel": "console", "outcome": "delivered", "reason": "", "at": at(0)},
            {"signer_id": "bob", "notification": 1, "channel": "console", "outcome": "unreachable", "reason": "offline",
             "at": at(1)},
        ]})
    );
    assert_eq!(bench.presence("ann", false).await.json(), json!({"signer_id": "ann", "online": false}));
    let none = bench.post(&path, "notify-2", &ask(2)).await;
    assert_eq!(
        (none.status, &none.json()["outcome"], &none.json()["reason"]),
        (200, &json!("unreachable"), &json!("offline"))
    );
    bench.presence("ann", true).await;
    // The old key keeps its old answer, and so does the old number under a new key.
    assert_eq!(bench.post(&path, "notify-2", &ask(2)).await.json()["outcome"], "unreachable");
    assert_eq!(bench.post(&path, "notify-2b", &ask(2)).await.json()["outcome"], "unreachable");
    assert_eq!(bench.post(&path, "notify-3", &ask(3)).await.json()["outcome"], "notified");
    let other = json!({"round": 1, "notification": 3, "signers": ["bob"]});
    assert_eq!(bench.post(&path, "notify-4", &other).await.fault(), (409, "notification_reused".to_owned()));
    let stranger = json!({"round": 1, "notification": 4, "signers": ["cleo"]});
    assert_eq!(bench.post(&path, "notify-5", &stranger).await.fault(), (422, "unknown_signer".to_owned()));
}

#[tokio::test]
async fn presence_outlives_the_process_where_it_can_be_switched() {
    let place = tempfile::tempdir().unwrap();
    let first = Bench::on(settings(&place.path().join("signer.db"), true)).await;
    assert_eq!(first.presence("ann", false).await.status, 200);
    drop(first);
    let second = Bench::on(settings(&place.path().join("signer.db"), true)).await;
    let (id, body) = second.registered(&["ann"]).await;
    assert_eq!(second.status(&id).await["signers"][0]["online"], false);
    drop(second);
    let fixed = Bench::on(settings(&place.path().join("signer.db"), false)).await;
    assert_eq!(fixed.presence("ann", false).await.fault(), (404, "not_found".to_owned()));
    assert_eq!(fixed.status(&id).await["signers"][0]["online"], true);
    let again = fixed.post("/api/v1/payments", "register-1", &body).await;
    assert_eq!((again.status, again.json()["id"].as_str().unwrap()), (201, id.as_str()));
}

#[tokio::test]
async fn a_request_that_dies_anywhere_leaves_all_of_itself_or_nothing() {
    for polls in 0..60_u32 {
        let bench = Bench::new().await;
        let body = bench.registration(1, &["ann"]);
        let mut request = Box::pin(bench.post("/api/v1/payments", "the-key", &body));
        for _ in 0..polls {
            if request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        drop(request);
        let found = bench.get(&format!("/api/v1/payments?reference={REFERENCE}")).await.json();
        let again = bench.post("/api/v1/payments", "the-key", &body).await;
        assert_eq!(again.status, 201, "after {polls}: what was registered without its key would answer 200");
        if let Some(item) = found["items"].get(0) {
            assert_eq!(item["id"], again.json()["id"]);
        }
    }
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_named_and_not_shown() {
    type Change = fn(&mut SignerSettings);
    let cases: [(Change, &str); 8] = [
        (|s| s.api_key = "short".into(), "api_key"),
        (|s| s.callback_secret = "whsec_zzz".into(), "callback_secret"),
        (|s| s.callback_secret = "whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!".into(), "callback_secret"),
        // The gateway would not take it either.
        (|s| s.callback_secret = format!("whsec_{}", "A".repeat(88)).into(), "callback_secret"),
        (|s| s.api_key = "a key in two pieces, long".into(), "api_key"),
        (|s| s.public_url = "sign.example".to_owned(), "public_url"),
        (|s| s.directory[0].key_pem = Some("no".to_owned()), "directory"),
        (|s| s.directory[1].signer_id = "ann".to_owned(), "directory"),
    ];
    for (change, name) in cases {
        let mut settings = settings(Path::new(":memory:"), true);
        change(&mut settings);
        let fault = SignerService::open(settings, Arc::new(ShiftedClock::default()), Arc::new(SystemEntropy)).await;
        let text = fault.unwrap_err().to_string();
        assert!(text.contains(name) && !text.contains("zzz") && !text.contains("short"), "{text}");
    }
}
