//! Rounds and closings.

use super::*;

#[tokio::test]
async fn a_higher_round_voids_what_was_decided() {
    let bench = Bench::new().await;
    let (id, first) = bench.registered(&["ann"]).await;
    let old_link = bench.link(&id).await;
    let (text, jws) = signed(&first, "ann", Choice::Approve);
    assert_eq!(bench.decide(&old_link, &text, &jws).await.status, 200);
    assert_eq!(bench.status(&id).await["decisions"].as_array().unwrap().len(), 1);

    let second = bench.registration(2, &["bob"]);
    let answer = bench.post("/api/v1/payments", "register-2", &second).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"id": id, "reference": REFERENCE, "round": 2})));
    let status = bench.status(&id).await;
    assert_eq!(status["decisions"], json!([]));
    assert_eq!(status["signers"], json!([{"signer_id": "bob", "online": true}]));

    assert_eq!(bench.decide(&old_link, &text, &jws).await.fault(), (409, "round_stale".to_owned()));
    let page = bench.get(&old_link).await;
    assert_eq!(page.status, 410);
    assert!(page.text.contains("This payment was changed") && !page.text.contains("199.00"));
    let stale = bench.post("/api/v1/payments", "register-1b", &first).await;
    assert_eq!(stale.fault(), (409, "round_stale".to_owned()));
    let notify = json!({"round": 1, "notification": 1, "signers": ["ann"]});
    let answer = bench.post(&format!("/api/v1/payments/{id}/notify"), "n", &notify).await;
    assert_eq!(answer.fault(), (409, "round_stale".to_owned()));
}

#[tokio::test]
async fn the_same_round_never_says_something_else() {
    let bench = Bench::new().await;
    let (id, first) = bench.registered(&["ann"]).await;
    let other = bench.registration(1, &["ann"]);
    let answer = bench.post("/api/v1/payments", "other-nonce", &other).await;
    assert_eq!(answer.fault(), (409, "round_conflict".to_owned()));
    let mut moved = first;
    moved["callback_url"] = json!("https://gateway.example/callbacks/signer");
    let answer = bench.post("/api/v1/payments", "moved", &moved).await;
    assert_eq!((answer.status, answer.json()["id"].as_str().unwrap()), (200, id.as_str()));
}

#[tokio::test]
async fn a_closed_payment_opens_only_with_a_higher_round() {
    let bench = Bench::new().await;
    let (id, first) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    let cancel = format!("/api/v1/payments/{id}/cancel");
    for odd in
        [json!({"round": 1, "reason": "bored"}), json!({"round": 0, "reason": "signed"}), json!({"reason": "signed"})]
    {
        assert_eq!(bench.post(&cancel, "c0", &odd).await.fault(), (400, "invalid_request".to_owned()));
    }
    for (key, reason) in [("c1", "signed"), ("c2", "expired"), ("c1", "signed")] {
        let answer = bench.post(&cancel, key, &json!({"round": 1, "reason": reason})).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"id": id, "state": "closed"})));
    }
    assert_eq!(bench.status(&id).await["state"], "closed");
    let (text, jws) = signed(&first, "ann", Choice::Approve);
    assert_eq!(bench.decide(&link, &text, &jws).await.fault(), (409, "closed".to_owned()));
    let notify = json!({"round": 1, "notification": 1, "signers": ["ann"]});
    let notified = bench.post(&format!("/api/v1/payments/{id}/notify"), "n", &notify).await;
    assert_eq!(notified.fault(), (409, "closed".to_owned()));
    // Nobody has approved: paid by hand, it is closed by the same word.
    assert!(bench.get(&link).await.text.contains("This payment is approved, or already paid."));
    assert!(bench.page(&link, "zh").await.text.contains("此付款已获批准，或已付款"));

    assert_eq!(bench.post("/api/v1/payments", "again", &first).await.status, 200);
    assert_eq!(bench.status(&id).await["state"], "closed");
    let second = bench.registration(2, &["ann"]);
    assert_eq!(bench.post("/api/v1/payments", "second", &second).await.status, 200);
    assert_eq!(bench.status(&id).await["state"], "open");
}

#[tokio::test]
async fn an_old_closing_does_not_close_a_newer_round() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    let cancel = format!("/api/v1/payments/{id}/cancel");
    let close = |round: i64| json!({"round": round, "reason": "signed"});
    // A round that is not registered yet can't be closed; once it is, the same request can.
    let early = bench.post(&cancel, "close-2", &close(2)).await;
    assert_eq!(early.fault(), (409, "round_unknown".to_owned()));
    assert_eq!(bench.status(&id).await["state"], "open");
    let second = bench.registration(2, &["ann"]);
    assert_eq!(bench.post("/api/v1/payments", "register-2", &second).await.status, 200);
    for key in ["close-1", "close-1", "close-1b"] {
        let late = bench.post(&cancel, key, &close(1)).await;
        assert_eq!((late.status, late.json()), (200, json!({"id": id, "state": "open"})));
    }
    let link = bench.link(&id).await;
    let (text, jws) = signed(&second, "ann", Choice::Approve);
    assert_eq!(bench.decide(&link, &text, &jws).await.status, 200, "the newer round takes decisions");
    for round in [2, 1] {
        let answer = bench.post(&cancel, &format!("close-{round}"), &close(round)).await;
        let state = if round == 2 { "closed" } else { "open" };
        assert_eq!((answer.status, answer.json()["state"].as_str()), (200, Some(state)), "a key replays its answer");
    }
    let answer = bench.post(&cancel, "close-1c", &close(1)).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"id": id, "state": "closed"})));
}
