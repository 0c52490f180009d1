//! What is taken as a decision, and what is not.

use super::*;

#[tokio::test]
async fn a_decision_is_kept_with_its_proof_and_answered_the_same_again() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    let answer = bench.decide(&link, &text, &jws).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let decision_id = answer.json()["decision_id"].clone();
    assert_eq!(
        bench.status(&id).await["decisions"],
        json!([{"decision_id": decision_id, "document": text, "proof": {"type": "jws", "value": jws}}])
    );
    let again = bench.decide(&bench.link(&id).await, &text, &jws).await;
    assert_eq!((again.status, &again.text), (200, &answer.text));

    let (other, proof) = signed(&body, "ann", Choice::Reject);
    assert_eq!(bench.decide(&link, &other, &proof).await.fault(), (409, "already_decided".to_owned()));
    let (second, proof) = signed(&body, "bob", Choice::Reject);
    assert_eq!(bench.decide(&link, &second, &proof).await.status, 200);
    assert_eq!(bench.status(&id).await["decisions"].as_array().unwrap().len(), 2);

    // A lost answer may be asked for again even after the close.
    bench.post(&format!("/api/v1/payments/{id}/cancel"), "c", &json!({"round": 1, "reason": "rejected"})).await;
    assert_eq!(bench.decide(&link, &text, &jws).await.text, answer.text);
}

#[tokio::test]
async fn a_document_that_was_not_asked_for_is_refused() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "cleo"]).await;
    let link = bench.link(&id).await;
    let good = answering(&body, "ann", Choice::Approve, "");
    let changed = |change: fn(&mut DecisionDocument)| {
        let mut document = good.clone();
        change(&mut document);
        signed_by(&document, "ann")
    };
    let (text, jws) = signed_by(&good, "ann");
    let (_, forged) = signed_by(&good, "bob");
    let cases = [
        (changed(|d| d.nonce = b64url([7; 32])), "nonce_mismatch"),
        (changed(|d| d.payment_digest = b64url([7; 32])), "digest_mismatch"),
        (changed(|d| d.signer_id = "bob".to_owned()), "unknown_signer"),
        (changed(|d| d.signer_id = "cleo".to_owned()), "nonce_mismatch"),
        (changed(|d| d.issued_at = "2026-01-01T00:00:00.000Z".to_owned()), "document_mismatch"),
        (changed(|d| d.challenge_expires_at = "2099-01-01T00:00:00.000Z".to_owned()), "document_mismatch"),
        (changed(|d| d.decision = "maybe".to_owned()), "decision_invalid"),
        (changed(|d| d.reason = "two\nlines".to_owned()), "reason_invalid"),
        (changed(|d| d.key_id = "no spaces".to_owned()), "key_id_invalid"),
        (changed(|d| d.typ = "countersign/other/v1".to_owned()), "document_invalid"),
        ((format!(" {text}"), jws.clone()), "document_invalid"),
        ((text.clone(), forged), "signature_invalid"),
        ((text.clone(), "a.b.c".to_owned()), "signature_invalid"),
        ((text.clone(), changed(|d| d.key_id = "other".to_owned()).1), "signature_invalid"),
    ];
    for (place, ((document, jws), code)) in cases.iter().enumerate() {
        let answer = bench.decide(&link, document, jws).await;
        assert_eq!(answer.fault(), (422, (*code).to_owned()), "case {place}: {}", answer.text);
    }
    assert_eq!(bench.status(&id).await["decisions"], json!([]));
    assert_eq!(bench.decide(&link, &text, &jws).await.status, 200);
}

#[tokio::test]
async fn without_a_known_key_the_signature_is_left_to_the_gateway() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["cleo"]).await;
    let link = bench.link(&id).await;
    let (text, jws) = signed(&body, "cleo", Choice::Reject);
    assert_eq!(bench.decide(&link, &text, "garbage").await.fault(), (422, "signature_invalid".to_owned()));
    let mut other = answering(&body, "cleo", Choice::Reject, "");
    other.key_id = "another".to_owned();
    let (_, by_another) = signed_by(&other, "cleo");
    assert_eq!(bench.decide(&link, &text, &by_another).await.fault(), (422, "signature_invalid".to_owned()));
    // Somebody else was first, with the right text and a signature that nobody here can judge.
    let (_, forged) = signed_by(&answering(&body, "cleo", Choice::Reject, ""), "dan");
    assert_eq!(bench.decide(&link, &text, &forged).await.status, 200);
    let honest = bench.decide(&link, &text, &jws).await;
    assert_eq!(honest.status, 200);
    assert_eq!(bench.decide(&link, &text, &jws).await.text, honest.text);
    let kept = bench.status(&id).await["decisions"].clone();
    assert_eq!((kept[0]["proof"]["value"].as_str(), kept[1]["proof"]["value"].as_str()), (Some(&*forged), Some(&*jws)));
    let page = bench.get(&link).await.text;
    assert!(page.contains("This service has no key to check it") && page.contains("waits for signatures"));
    for reason in 0..14 {
        let (text, jws) = signed_by(&answering(&body, "cleo", Choice::Approve, &reason.to_string()), "cleo");
        assert_eq!(bench.decide(&link, &text, &jws).await.status, 200);
    }
    let (text, jws) = signed(&body, "cleo", Choice::Approve);
    assert_eq!(bench.decide(&link, &text, &jws).await.fault(), (409, "too_many_decisions".to_owned()));
}

#[tokio::test]
async fn what_came_before_the_key_was_known_gives_way_to_what_verifies() {
    let place = tempfile::tempdir().unwrap();
    let mut keyless = settings(&place.path().join("signer.db"), true);
    keyless.directory[0].key_pem = None;
    let bench = Bench::on(keyless).await;
    let (id, body) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    let (_, forged) = signed_by(&answering(&body, "ann", Choice::Approve, ""), "bob");
    for jws in [&forged, &jws] {
        assert_eq!(bench.decide(&link, &text, jws).await.status, 200);
    }
    drop(bench);
    let bench = Bench::on(settings(&place.path().join("signer.db"), true)).await;
    let link = bench.link(&id).await;
    assert_eq!(bench.decide(&link, &text, &jws).await.status, 200);
    assert_eq!(bench.status(&id).await["decisions"][0]["proof"]["value"], jws, "what was verified comes first");
    assert!(bench.get(&link).await.text.contains("Everyone who was asked has decided"));
    let (other, proof) = signed(&body, "ann", Choice::Reject);
    assert_eq!(bench.decide(&link, &other, &proof).await.fault(), (409, "already_decided".to_owned()));
}

#[tokio::test]
async fn links_and_challenges_lapse() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    let nowhere = format!("/sign/{}", b64url([1; 32]));
    assert_eq!(bench.decide(&nowhere, &text, &jws).await.fault(), (404, "unknown_link".to_owned()));
    bench.clock.advance(16 * MINUTE);
    assert_eq!(bench.decide(&link, &text, &jws).await.fault(), (410, "link_expired".to_owned()));
    let page = bench.get(&link).await;
    assert_eq!(page.status, 410);
    assert!(page.text.contains("For a fresh link"));
    bench.clock.advance(45 * MINUTE);
    let fresh = bench.link(&id).await;
    assert_eq!(bench.decide(&fresh, &text, &jws).await.fault(), (409, "payment_expired".to_owned()));
    assert!(bench.get(&fresh).await.text.contains("The time to decide has passed"));

    let mut brief = bench.registration(2, &["ann"]);
    brief["signers"][0]["challenge_expires_at"] = json!(bench.clock.now().plus_micros(MINUTE).rfc3339());
    assert_eq!(bench.post("/api/v1/payments", "brief", &brief).await.status, 200);
    bench.clock.advance(2 * MINUTE);
    let (text, jws) = signed(&brief, "ann", Choice::Approve);
    let answer = bench.decide(&bench.link(&id).await, &text, &jws).await;
    assert_eq!(answer.fault(), (409, "challenge_expired".to_owned()));
}

#[tokio::test]
async fn of_two_decisions_at_once_one_counts() {
    let place = tempfile::tempdir().unwrap();
    let bench = Bench::on(settings(&place.path().join("signer.db"), true)).await;
    let (id, body) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    let (yes, yes_jws) = signed(&body, "ann", Choice::Approve);
    let (no, no_jws) = signed(&body, "ann", Choice::Reject);
    let both = futures::join!(bench.decide(&link, &yes, &yes_jws), bench.decide(&link, &no, &no_jws));
    let mut statuses = [both.0.status, both.1.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(bench.status(&id).await["decisions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_second_confirmation_is_by_another_key() {
    let bench = Bench::new().await;
    let mut body = bench.registration(1, &["ann", "bob"]);
    body["confirmations"] = json!(2);
    let answer = bench.post("/api/v1/payments", "register-1", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let link = bench.link(&id).await;
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    let first = bench.decide(&link, &text, &jws).await.json();
    assert_eq!(bench.decide(&link, &text, &jws).await.json(), first, "the same again is answered alike");
    assert!(bench.get(&link).await.text.contains("One confirmation is missing"));
    let (other, proof) = signed_by(&answering(&body, "ann", Choice::Approve, "once more"), "ann");
    assert_eq!(bench.decide(&link, &other, &proof).await.fault(), (409, "key_used".to_owned()));
    // What is not confirmed yet may still be refused, by any key of theirs.
    let (no, proof) = signed_by(&answering(&body, "ann", Choice::Reject, "not after all"), "ann");
    assert_eq!(bench.decide(&link, &no, &proof).await.json()["decision"], "reject");
    assert_eq!(bench.decide(&link, &other, &proof).await.fault().0, 422);
    let (other, proof) = signed_by(&answering(&body, "ann", Choice::Approve, "and yet"), "ann");
    assert_eq!(bench.decide(&link, &other, &proof).await.fault(), (409, "already_decided".to_owned()));
    let none = |confirmations: i64| {
        let mut body = bench.registration(2, &["ann"]);
        body["confirmations"] = json!(confirmations);
        body
    };
    for (number, odd) in [0, -1, 9].into_iter().enumerate() {
        let answer = bench.post("/api/v1/payments", &format!("odd-{number}"), &none(odd)).await;
        assert_eq!(answer.fault(), (400, "invalid_request".to_owned()), "{odd}");
    }
}
