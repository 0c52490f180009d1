//! What the gateway tells of decisions, and what the pages say then.

use super::passkeys::{attribute, left_in_english};
use super::*;
use crate::proof::sha256_hex;

impl Bench {
    /// Tells what became of decisions, as the gateway does.
    async fn tell_verdicts(&self, id: &str, body: &Value) -> Answer {
        let request = Self::request("PUT", &format!("/api/v1/payments/{id}/verdicts"));
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    /// Tells of one kept decision.
    async fn judge(&self, id: &str, decision: &Value, verdict: &str, code: &str) {
        let judged = json!([{"decision_id": decision, "verdict": verdict, "code": code}]);
        let told = self.tell_verdicts(id, &json!({"round": 1, "decisions": judged, "elsewhere": []})).await;
        assert_eq!(told.status, 200, "{}", told.text);
    }

    /// Decides as ann or bob with a reason of their own; the service's id for it.
    async fn says(&self, link: &str, body: &Value, signer: &str, choice: Choice, reason: &str) -> Value {
        let (text, jws) = signed_by(&answering(body, signer, choice, reason), signer);
        let answer = self.decide(link, &text, &jws).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["decision_id"].clone()
    }

    async fn listed(&self, id: &str) -> Vec<Value> {
        let status = self.status(id).await;
        status["decisions"].as_array().unwrap().iter().map(|kept| kept["decision_id"].clone()).collect()
    }
}

fn elsewhere(signer: &str, decision: &str, verdict: &str) -> Value {
    json!({"signer_id": signer, "decision": decision, "verdict": verdict, "decided_at": "2026-01-01T00:00:00.000Z"})
}

#[tokio::test]
async fn what_was_told_last_is_named_by_its_digest_and_only_of_the_round_that_is_held() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    assert_eq!(bench.status(&id).await["told"], "");
    let body = json!({"round": 1, "decisions": [], "elsewhere": [elsewhere("ann", "approve", "counted")]});
    for _ in 0..2 {
        assert_eq!(bench.tell_verdicts(&id, &body).await.json(), json!({"id": id, "reference": REFERENCE, "round": 1}));
        assert_eq!(bench.status(&id).await["told"], sha256_hex(body.to_string()).as_str());
    }
    assert_eq!(bench.tell_verdicts("unknown", &body).await.fault(), (404, "unknown_payment".to_owned()));
    let edited = |name: &str, value: Value| {
        let mut body = body.clone();
        body[name] = value;
        body
    };
    assert_eq!(bench.tell_verdicts(&id, &edited("round", json!(2))).await.fault(), (409, "round_unknown".to_owned()));
    let judged = |verdict: &str, code: &str| json!([{"decision_id": "d", "verdict": verdict, "code": code}]);
    let bad = [
        edited("round", json!(0)),
        edited("more", json!(1)),
        edited("decisions", json!(null)),
        edited("decisions", judged("perhaps", "")),
        edited("decisions", judged("", "")),
        edited("decisions", judged("counted", "SIGNATURE_INVALID")),
        edited("decisions", judged("refused", "")),
        edited("decisions", judged("refused", "<b>")),
        edited("decisions", judged("waiting", &"A".repeat(65))),
        edited("elsewhere", json!([elsewhere("a b", "approve", "counted")])),
        edited("elsewhere", json!([elsewhere("ann", "maybe", "counted")])),
        edited("elsewhere", json!([elsewhere("ann", "approve", "refused")])),
        edited(
            "elsewhere",
            json!([{"signer_id": "ann", "decision": "approve", "verdict": "counted", "decided_at": "soon"}]),
        ),
    ];
    for body in &bad {
        assert_eq!(bench.tell_verdicts(&id, body).await.fault(), (400, "invalid_request".to_owned()), "{body}");
    }
    assert_eq!(bench.status(&id).await["told"], sha256_hex(body.to_string()).as_str(), "nothing of these was kept");

    // Another round is asked anew, and nothing was told of it.
    let second = bench.registration(2, &["ann"]);
    assert_eq!(bench.post("/api/v1/payments", "second", &second).await.status, 200);
    assert_eq!(bench.status(&id).await["told"], "");
    assert!(bench.get(&bench.link(&id).await).await.text.contains("No decision yet."));
    assert_eq!(bench.tell_verdicts(&id, &body).await.fault(), (409, "round_stale".to_owned()));
}

#[tokio::test]
async fn what_was_decided_another_way_is_shown_as_decided_and_not_asked_for_again() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let before = bench.get(&link).await.text;
    assert_eq!(before.matches("No decision yet.").count(), 2);
    let told = json!({"round": 1, "decisions": [], "elsewhere": [elsewhere("ann", "reject", "counted")]});
    assert_eq!(bench.tell_verdicts(&id, &told).await.status, 200);
    let page = bench.get(&link).await.text;
    assert_eq!(page.matches("No decision yet.").count(), 1, "bob's");
    assert!(page.contains("<strong>Rejected</strong>, recorded at ") && !page.contains("Sign as ann"));
    assert_ne!(attribute(&before, "data-standing"), attribute(&page, "data-standing"), "an open page follows");
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    assert_eq!(bench.decide(&link, &text, &jws).await.fault(), (409, "already_decided".to_owned()));
    assert_eq!(bench.listed(&id).await, [Value::Null; 0], "it is not this service's to tell");
    // What is told counts, whatever was told before.
    let told = json!({"round": 1, "decisions": [], "elsewhere": []});
    assert_eq!(bench.tell_verdicts(&id, &told).await.status, 200);
    assert_eq!(bench.get(&link).await.text.matches("No decision yet.").count(), 2);
}

#[tokio::test]
async fn who_was_refused_reads_why_and_decides_again() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let first = bench.says(&link, &body, "ann", Choice::Approve, "").await;
    let sent = bench.get(&link).await.text;
    assert!(sent.contains("Sent to the payment desk, not confirmed yet."), "{sent}");
    assert!(!sent.contains("Sign as ann"));
    bench.judge(&id, &first, "refused", "SIGNATURE_INVALID").await;
    let page = bench.get(&link).await.text;
    for said in ["<strong>Approval that did not count</strong>", "does not accept the key", "You can decide again."] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(page.contains("<code>SIGNATURE_INVALID</code>") && page.contains("Sign as ann"));
    assert!(!page.contains("<strong>Approved</strong>") && !page.contains("not confirmed yet"));
    assert_ne!(attribute(&sent, "data-standing"), attribute(&page, "data-standing"));

    // The very same again is answered alike, and the page says what became of it.
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    assert_eq!(bench.decide(&link, &text, &jws).await.json()["decision_id"], first);
    let result = bench.as_script(&format!("{link}/decisions"), &json!({"document": text, "jws": jws})).await;
    assert_eq!(result.status, 200);
    assert!(result.text.contains("Your decision did not count") && !result.text.contains("on its way"));
    assert_eq!(bench.listed(&id).await, std::slice::from_ref(&first), "not kept twice");

    // Another one is, and the first is not judged any more: it must not come to count after all.
    bench.clock.advance(1_000_000);
    let second = bench.says(&link, &body, "ann", Choice::Reject, "no").await;
    assert_eq!(bench.listed(&id).await, std::slice::from_ref(&second));
    let page = bench.get(&link).await.text;
    assert!(page.contains("<strong>Rejected</strong>") && page.contains("not confirmed yet"));
    assert!(!page.contains("did not count") && !page.contains("Sign as ann"));
    let (other, proof) = signed_by(&answering(&body, "ann", Choice::Approve, "oh well"), "ann");
    assert_eq!(bench.decide(&link, &other, &proof).await.fault(), (409, "already_decided".to_owned()));
    bench.judge(&id, &second, "counted", "").await;
    let page = bench.get(&link).await.text;
    assert!(page.contains("<strong>Rejected</strong>") && !page.contains("not confirmed yet"));
}

#[tokio::test]
async fn what_is_refused_again_and_again_is_kept_so_often_and_no_more() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    for number in 0..16 {
        let kept = bench.says(&link, &body, "ann", Choice::Reject, &format!("no {number}")).await;
        bench.clock.advance(1_000);
        bench.judge(&id, &kept, "refused", "SIGNATURE_INVALID").await;
    }
    let (text, jws) = signed_by(&answering(&body, "ann", Choice::Reject, "and no"), "ann");
    assert_eq!(bench.decide(&link, &text, &jws).await.fault(), (409, "too_many_decisions".to_owned()));
    assert_eq!(bench.listed(&id).await.len(), 1);
}

/// Each verdict and code in words of its own, in each language; one nobody knows in those for it.
#[tokio::test]
async fn each_verdict_has_words_and_shows_on_an_open_page() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let kept = bench.says(&link, &body, "ann", Choice::Approve, "").await;
    let verdicts = [
        ("counted", "", ""),
        ("surplus", "", "so it was not needed"),
        ("waiting", "LEVEL_NOT_OPEN", "others must approve first"),
        ("waiting", "PAYMENT_ON_MANUAL_HOLD", "an operator holds this payment"),
        ("waiting", "ANOTHER", "It looks again by itself"),
        ("refused", "SIGNATURE_INVALID", "no operator vouches for it"),
        ("refused", "NONCE_CONSUMED", "The earlier one stands"),
        ("refused", "SIGNER_NOT_ELIGIBLE", "does not ask this person"),
        ("refused", "SELF_APPROVAL_FORBIDDEN", "Whoever asks for a payment"),
        ("refused", "SIGNING_ROUND_STALE", "an earlier form of this payment"),
        ("refused", "PAYMENT_TERMINAL", "after this payment had ended"),
        ("refused", "ANOTHER", "did not accept it."),
    ];
    for (verdict, code, words) in verdicts {
        bench.judge(&id, &kept, verdict, code).await;
        let page = bench.get(&link).await.text;
        let stands = verdict != "refused";
        assert!(page.contains(words), "{verdict} {code}: {page}");
        assert_eq!(page.contains("<strong>Approved</strong>"), stands, "{verdict} {code}");
        assert_eq!(page.contains("Sign as ann"), !stands, "{verdict} {code}");
        assert!(!page.contains("not confirmed yet"), "{verdict} {code}");
        let chinese = bench.page(&link, "zh").await.text;
        assert_eq!(left_in_english(&chinese), [""; 0], "{verdict} {code}");
        let (text, jws) = signed(&body, "ann", Choice::Approve);
        let result = bench.as_script(&format!("{link}/decisions"), &json!({"document": text, "jws": jws})).await;
        assert_eq!(result.text.contains("You approved this payment"), stands, "{verdict} {code}");
        assert!(result.text.contains(if words.is_empty() { "has confirmed this decision" } else { words }));
        assert!(!result.text.contains("on its way"), "{verdict} {code}");
    }
    let mut standings = std::collections::BTreeSet::new();
    for (verdict, code) in [("counted", ""), ("surplus", ""), ("waiting", "ANOTHER"), ("refused", "ANOTHER")] {
        bench.judge(&id, &kept, verdict, code).await;
        assert!(standings.insert(attribute(&bench.get(&link).await.text, "data-standing")), "{verdict}");
    }

    // On a payment that is closed nothing is said to be on its way.
    let other = bench.says(&link, &body, "bob", Choice::Approve, "").await;
    bench.judge(&id, &kept, "waiting", "LEVEL_NOT_OPEN").await;
    bench.post(&format!("/api/v1/payments/{id}/cancel"), "c", &json!({"round": 1, "reason": "cancelled"})).await;
    let page = bench.get(&link).await.text;
    assert_eq!(page.matches("had not confirmed it when this payment was closed").count(), 2, "{page}");
    bench.judge(&id, &other, "counted", "").await;
    assert_eq!(bench.get(&link).await.text.matches("had not confirmed it").count(), 1, "told after the close");
}

#[tokio::test]
async fn a_decision_that_could_not_be_verified_here_is_what_the_gateway_says_of_it() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["cleo"]).await;
    let link = bench.link(&id).await;
    let forged = signed_by(&answering(&body, "cleo", Choice::Reject, ""), "bob");
    let own = signed(&body, "cleo", Choice::Approve);
    let mut kept = Vec::new();
    for (text, jws) in [&forged, &own] {
        let answer = bench.decide(&link, text, jws).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        kept.push(answer.json()["decision_id"].clone());
    }
    let page = bench.get(&link).await.text;
    assert!(page.contains("was received and passed on") && page.contains("Sign as cleo"));
    let judged = json!([{"decision_id": kept[0], "verdict": "refused", "code": "SIGNATURE_INVALID"},
        {"decision_id": kept[1], "verdict": "counted", "code": ""}]);
    assert_eq!(bench.tell_verdicts(&id, &json!({"round": 1, "decisions": judged, "elsewhere": []})).await.status, 200);
    let page = bench.get(&link).await.text;
    assert!(page.contains("<strong>Approved</strong>") && !page.contains("was received and passed on"), "{page}");
    assert!(!page.contains("Sign as cleo") && page.contains("Everyone who was asked has decided"));
    assert_eq!(bench.listed(&id).await.len(), 2, "anybody could have sent the later one: nothing is left out for it");
}

#[tokio::test]
async fn a_key_that_was_used_another_way_is_one_of_the_confirmations() {
    let bench = Bench::new().await;
    let mut body = bench.registration(1, &["ann"]);
    body["confirmations"] = json!(2);
    let id = bench.post("/api/v1/payments", "twice", &body).await.json()["id"].as_str().unwrap().to_owned();
    let link = bench.link(&id).await;
    let told = json!({"round": 1, "decisions": [], "elsewhere": [elsewhere("ann", "approve", "counted")]});
    assert_eq!(bench.tell_verdicts(&id, &told).await.status, 200);
    let page = bench.get(&link).await.text;
    assert!(page.contains("One confirmation is missing") && page.contains("<strong>Approved</strong>"), "{page}");
    let second = bench.says(&link, &body, "ann", Choice::Approve, "").await;
    assert!(bench.get(&link).await.text.contains("Everyone who was asked has decided"));
    // The same key twice is one; a refused one is none.
    bench.judge(&id, &second, "refused", "NONCE_CONSUMED").await;
    assert_eq!(bench.tell_verdicts(&id, &told).await.status, 200);
    let page = bench.get(&link).await.text;
    assert!(page.contains("One confirmation is missing") && page.contains("The earlier one stands"), "{page}");
}
