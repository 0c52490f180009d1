//! The signer client against a scripted service.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::SignerClient;
use super::script::{Script, Step, endpoint, http, refused, says};
use crate::ambient::{SystemClock, SystemEntropy};
use crate::domain::Timestamp;
use crate::journal::for_test;
use crate::journal::ports::{
    Arrival, Cause, Notified, Outcome, PresencePort as _, Receipt, Recorded, Registered, Registration, SignerPort as _,
};
use crate::proof::Challenge;

fn signer(url: &str) -> SignerClient {
    let callback = "https://gateway.example/callbacks/signer".to_owned();
    SignerClient::new(&endpoint(url), callback, Arc::new(SystemClock), Arc::new(SystemEntropy)).unwrap()
}

fn recorded(target: &str, body: &str) -> Recorded {
    for_test("key-0001", target, body, Duration::from_secs(30))
}

const REGISTER: &str = r#"{"reference":"pay_1","round":2}"#;
const KNOWN: &str = r#"{"id":"s1","reference":"pay_1","round":2}"#;

fn coded(code: &str) -> String {
    format!(r#"{{"error_code":"{code}","error_message":"secret text"}}"#)
}

fn word<T: Debug>(outcome: &Outcome<T>) -> String {
    match outcome {
        Outcome::Done(_) => "done".to_owned(),
        Outcome::Refused(trouble) => format!("refused {trouble}"),
        Outcome::NotSent(trouble) => format!("not sent {trouble}"),
        Outcome::Unknown(trouble) => format!("unknown {trouble}"),
    }
}

async fn register(steps: Vec<Step>) -> (Outcome<Registered>, usize) {
    let server = Script::play(steps).await;
    let outcome = signer(&server.url).register(&recorded("", REGISTER)).await;
    let sent = server.requests.lock().unwrap().clone();
    assert!(sent.iter().all(|request| Some(request) == sent.first()), "every try sends the same bytes");
    (outcome, sent.len())
}

#[test]
fn the_bodies_are_the_contract_s() {
    let challenge = Challenge {
        signer_id: "finance-1".to_owned(),
        nonce: "bm9uY2U".to_owned(),
        issued_at: "2026-01-02T03:04:05.000Z".to_owned(),
        challenge_expires_at: "2026-01-02T04:04:05.000Z".to_owned(),
    };
    let registration = Registration {
        reference: "pay_1".to_owned(),
        round: 1,
        payload: r#"{"a":"b"}"#.to_owned(),
        payment_digest: "ZGln".to_owned(),
        challenges: vec![challenge],
        expires_at: Timestamp::parse_rfc3339("2026-01-02T04:04:05Z").unwrap(),
        confirmations: 1,
    };
    let signer = signer("http://x");
    assert_eq!(
        signer.prepare_register(&registration),
        concat!(
            r#"{"reference":"pay_1","round":1,"payload":"{\"a\":\"b\"}","payment_digest":"ZGln","#,
            r#""signers":[{"signer_id":"finance-1","nonce":"bm9uY2U","issued_at":"2026-01-02T03:04:05.000Z","#,
            r#""challenge_expires_at":"2026-01-02T04:04:05.000Z"}],"expires_at":"2026-01-02T04:04:05.000Z","#,
            r#""callback_url":"https://gateway.example/callbacks/signer"}"#
        )
    );
    let twice = Registration { confirmations: 2, ..registration };
    assert!(signer.prepare_register(&twice).ends_with(r#"/callbacks/signer","confirmations":2}"#));
    let notify = signer.prepare_notify(1, 3, &["finance-1".to_owned()]);
    assert_eq!(notify, r#"{"round":1,"notification":3,"signers":["finance-1"]}"#);
    assert_eq!(signer.prepare_close(2, "signed"), r#"{"round":2,"reason":"signed"}"#);
}

#[tokio::test]
async fn each_answer_to_a_write_proves_what_the_contract_says() {
    let rows = [
        (201, KNOWN.to_owned(), "done", 1),
        (200, KNOWN.to_owned(), "done", 1),
        (201, KNOWN.replace("pay_1", "pay_2"), "unknown mismatch (HTTP 201)", 1),
        (201, KNOWN.replace('2', "1"), "unknown mismatch (HTTP 201)", 1),
        (201, KNOWN.replace("s1", "../x"), "unknown garbage (HTTP 201)", 1),
        (200, "{}".to_owned(), "unknown garbage (HTTP 200)", 1),
        (200, "<html>".to_owned(), "unknown garbage (HTTP 200)", 1),
        (202, KNOWN.to_owned(), "unknown garbage (HTTP 202)", 1),
        (204, String::new(), "unknown garbage (HTTP 204)", 1),
        (302, String::new(), "unknown redirect (HTTP 302)", 1),
        (400, coded("bad"), "refused rejected (HTTP 400) [bad]", 1),
        (400, "<html>".to_owned(), "unknown garbage (HTTP 400)", 1),
        (401, "<html>".to_owned(), "refused unauthorized (HTTP 401)", 1),
        (403, coded("no"), "refused unauthorized (HTTP 403) [no]", 1),
        (404, coded("unknown"), "refused not_found (HTTP 404) [unknown]", 1),
        (409, coded("round_stale"), "refused conflict (HTTP 409) [round_stale]", 1),
        (409, String::new(), "unknown conflict (HTTP 409)", 1),
        (410, coded("gone"), "refused rejected (HTTP 410) [gone]", 1),
        (422, coded("digest_mismatch"), "refused rejected (HTTP 422) [digest_mismatch]", 1),
        (422, coded("Not A Word"), "unknown garbage (HTTP 422)", 1),
        (429, String::new(), "not sent rate_limited (HTTP 429)", 1),
        (500, coded("oops"), "unknown unavailable (HTTP 500) [oops]", 2),
        (502, "<html>".to_owned(), "unknown unavailable (HTTP 502)", 2),
    ];
    for (status, body, expected, sent) in rows {
        let (outcome, count) = register(vec![says(status, &body)]).await;
        assert_eq!((word(&outcome).as_str(), count), (expected, sent), "{status} {body}");
        assert!(!format!("{outcome:?}").contains("secret text"));
    }
}

#[tokio::test]
async fn a_second_try_never_hides_what_the_first_left_in_doubt() {
    let down = says(503, "");
    let rows = [
        (says(201, KNOWN), "done"),
        (says(401, ""), "unknown unauthorized (HTTP 401)"),
        (says(409, &coded("closed")), "unknown conflict (HTTP 409) [closed]"),
        (says(429, ""), "unknown unavailable (HTTP 503)"),
        (Step::Hang, "unknown timeout"),
    ];
    for (second, expected) in rows {
        let (outcome, count) = register(vec![down.clone(), second.clone()]).await;
        assert_eq!((word(&outcome).as_str(), count), (expected, 2), "{second:?}");
    }
}

#[tokio::test]
async fn silence_and_named_waits_are_not_tried_again() {
    let wait = "HTTP/1.1 503 X\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n".to_owned();
    let half = "HTTP/1.1 201 X\r\ncontent-length: 99\r\n\r\n{".to_owned();
    let rows = [
        (Step::Hang, "unknown timeout"),
        (Step::SayClose(String::new()), "unknown unavailable"),
        (Step::SayReset("HTTP/1.1 200 OK\r\n".to_owned()), "unknown unavailable"),
        (Step::SayClose(half), "unknown garbage (HTTP 201)"),
        (Step::Say(wait), "unknown unavailable (HTTP 503)"),
    ];
    for (step, expected) in rows {
        let (outcome, count) = register(vec![step.clone()]).await;
        assert_eq!((word(&outcome).as_str(), count), (expected, 1), "{step:?}");
    }
    let outcome = signer(&refused().await).register(&recorded("", REGISTER)).await;
    assert_eq!(word(&outcome), "not sent unavailable");
}

#[tokio::test]
async fn a_notification_is_compared_with_the_one_asked_for() {
    let answer = |outcome: &str, number: i64, reason: &str| {
        format!(r#"{{"outcome":"{outcome}","notification":{number},"reason":"{reason}","receipts":[]}}"#)
    };
    let body = r#"{"round":1,"notification":3,"signers":["finance-1"]}"#;
    let notify = async |answer: String| {
        let server = Script::play([says(200, &answer)]).await;
        let outcome = signer(&server.url).notify(&recorded("s1", body)).await;
        let sent = server.requests.lock().unwrap().first().unwrap().clone();
        assert!(sent.starts_with("POST /api/v1/payments/s1/notify "), "{sent}");
        outcome
    };
    let reached = |receipts| Outcome::Done(Notified { unreachable: None, receipts });
    assert_eq!(notify(answer("notified", 3, "")).await, reached(Vec::new()));
    let unreachable =
        |reason: &str| Outcome::Done(Notified { unreachable: Some(reason.to_owned()), receipts: Vec::new() });
    assert_eq!(notify(answer("unreachable", 3, "offline")).await, unreachable("offline"));
    assert_eq!(notify(answer("unreachable", 3, "Call +1 555")).await, unreachable("unreachable"));
    assert_eq!(word(&notify(answer("notified", 2, "")).await), "unknown mismatch (HTTP 200)");
    assert_eq!(word(&notify(answer("maybe", 3, "")).await), "unknown garbage (HTTP 200)");
    // Receipts are words for people: what is none is left out, and decides nothing.
    let told =
        |receipts: &str| answer("notified", 3, "").replace("\"receipts\":[]", &format!("\"receipts\":{receipts}"));
    let told_of = r#"[{"signer_id":"ann","channel":"console","outcome":"delivered"},
        {"signer_id":"bob","channel":"+1 555 SECRET","outcome":"unreachable"},
        {"signer_id":"a\nb","channel":"mail","outcome":"delivered"},{"signer_id":"","channel":"mail","outcome":"delivered"},
        {"signer_id":"cleo","notification":3,"channel":"push","outcome":"deferred","reason":"quiet_hours",
         "at":"2026-01-01T07:00:00.000Z"},{"signer_id":"","channel":"page","outcome":"viewed","reason":"SECRET WORDS"},
        {"signer_id":"eve","channel":"mail","outcome":"perhaps"},{"signer_id":7},null]"#;
    let receipt = |signer: &str, channel: &str, outcome| Receipt {
        signer: signer.parse().ok(),
        notification: 0,
        channel: channel.to_owned(),
        outcome,
        reason: String::new(),
        at: None,
    };
    let put_off = Receipt {
        notification: 3,
        reason: "quiet_hours".to_owned(),
        at: Timestamp::parse_rfc3339("2026-01-01T07:00:00.000Z"),
        ..receipt("cleo", "push", Arrival::Deferred)
    };
    let all = [
        receipt("ann", "console", Arrival::Delivered),
        receipt("bob", "", Arrival::Unreachable),
        put_off,
        receipt("", "page", Arrival::Viewed),
    ];
    assert_eq!(notify(told(told_of)).await, reached(all.to_vec()));
    let words = [
        "ann by console: delivered",
        "bob: unreachable",
        "cleo by push: deferred (quiet_hours)",
        "somebody by page: viewed",
    ];
    assert_eq!(all.map(|receipt| receipt.to_string()), words);
    for none in ["null", "7", "{}", "\"x\"", "[[]]"] {
        assert_eq!(notify(told(none)).await, reached(Vec::new()), "{none}");
    }
    // An id that would change the path never leaves.
    for id in ["", "..", "a/b", "a?b"] {
        let outcome = signer("http://127.0.0.1:9").notify(&recorded(id, body)).await;
        assert_eq!(word(&outcome), "not sent garbage");
    }
}

#[tokio::test]
async fn a_closing_names_the_payment() {
    let close = async |answer: &str| {
        let server = Script::play([says(200, answer)]).await;
        word(&signer(&server.url).close(&recorded("s1", r#"{"round":1,"reason":"signed"}"#)).await)
    };
    assert_eq!(close(r#"{"id":"s1","state":"closed"}"#).await, "done");
    assert_eq!(close(r#"{"id":"s2","state":"closed"}"#).await, "unknown mismatch (HTTP 200)");
    // A newer round is open; the one that was to be closed takes no decision any more.
    assert_eq!(close(r#"{"id":"s1","state":"open"}"#).await, "done");
    assert_eq!(close(r#"{"id":"s1","state":"ajar"}"#).await, "unknown garbage (HTTP 200)");
}

#[tokio::test]
async fn reads_are_checked() {
    let status = r#"{"id":"s1","reference":"pay_1","round":1,"state":"open","signers":[{"signer_id":"f","online":true}],
        "decisions":[{"decision_id":"d1","document":"{}","proof":{"type":"jws","value":"a..b"}},
                     {"decision_id":"d2","document":"{}","proof":{"type":"later","value":"?"}}]}"#;
    let server = Script::play([says(200, status)]).await;
    let told = signer(&server.url).status("s1").await.unwrap();
    assert_eq!((told.round, told.open, told.online), (1, true, vec![("f".to_owned(), true)]));
    assert_eq!(told.decisions.iter().map(|kept| kept.proof.text()).collect::<Vec<_>>(), ["a..b"]);
    assert_eq!(signer(&server.url).status("s2").await.unwrap_err().cause, Cause::Mismatch);
    assert_eq!(signer(&server.url).status("a/b").await.unwrap_err().cause, Cause::NotFound);

    let find = async |status: u16, body: &str| {
        let server = Script::play([says(status, body)]).await;
        signer(&server.url).find("pay_1").await.map_err(|trouble| trouble.cause)
    };
    let list = |items: &str| format!(r#"{{"items":[{items}]}}"#);
    assert_eq!(find(200, &list("")).await, Ok(None));
    assert_eq!(find(200, &list(KNOWN)).await, Ok(Some(Registered { id: "s1".to_owned(), round: 2 })));
    assert_eq!(find(200, &list(&KNOWN.replace("pay_1", "pay_2"))).await, Err(Cause::Mismatch));
    assert_eq!(find(200, &list(&format!("{KNOWN},{KNOWN}"))).await, Err(Cause::Mismatch));
    let causes = [
        (401, Cause::Unauthorized),
        (404, Cause::NotFound),
        (429, Cause::RateLimited),
        (302, Cause::Redirect),
        (204, Cause::Garbage),
        (503, Cause::Unavailable),
    ];
    for (status, cause) in causes {
        assert_eq!(find(status, "").await, Err(cause), "{status}");
    }

    let link = async |url: &str| {
        let body = format!(r#"{{"url":"{url}","expires_at":"2026-01-02T03:04:05.000Z"}}"#);
        let server = Script::play([says(200, &body)]).await;
        signer(&server.url).sign_link("s1").await.map(|link| link.url).map_err(|trouble| trouble.cause)
    };
    assert_eq!(link("https://signer.example/sign/x").await.as_deref(), Ok("https://signer.example/sign/x"));
    assert_eq!(link("javascript:alert(1)").await, Err(Cause::Garbage));
}

#[tokio::test]
async fn text_of_the_service_s_that_is_no_address_and_no_name_is_not_passed_on() {
    let link = async |url: &str, qr_url: &str| {
        let body =
            serde_json::json!({"url": url, "qr_url": qr_url, "expires_at": "2026-01-02T03:04:05.000Z"}).to_string();
        let server = Script::play([says(200, &body)]).await;
        signer(&server.url).sign_link("s1").await.map(|link| link.url).map_err(|trouble| trouble.cause)
    };
    let good = "https://signer.example/sign/x?y=%20z";
    assert_eq!(link(good, "").await.as_deref(), Ok(good));
    assert_eq!(link(good, good).await.as_deref(), Ok(good));
    let longest = format!("https://signer.example/{}", "x".repeat(2_048 - 23));
    assert_eq!(link(&longest, "").await.as_deref(), Ok(longest.as_str()));
    for bad in [
        "https://evil.example/ IGNORE PREVIOUS\n<b>",
        "https://evil.example/a b",
        "https://evil.example/a\nb",
        "https://evil.example/\tb",
        " https://evil.example/",
        "https://evil.example/<b>",
        "https://evil.example/?q=\"now\"",
        "https://evil.example/#do this",
        "https://evil.example/\u{202e}txt",
        "https:evil.example/",
        "HTTPS://evil.example/",
        &format!("{longest}x"),
    ] {
        assert_eq!(link(bad, "").await, Err(Cause::Garbage), "{bad:?}");
        assert_eq!(link(good, bad).await, Err(Cause::Garbage), "{bad:?}");
    }

    let status = r#"{"id":"s1","reference":"pay_1","round":1,"state":"open","decisions":[],"signers":[
        {"signer_id":"IGNORE PREVIOUS\n<b>","online":true},{"signer_id":"finance-1","online":false}]}"#;
    let server = Script::play([says(200, status)]).await;
    assert_eq!(signer(&server.url).status("s1").await.unwrap().online, vec![("finance-1".to_owned(), false)]);
}

#[tokio::test]
async fn health_asks_with_the_key_and_presence_is_a_put() {
    let server = Script::play([Step::Say(http(200, "ok")), says(200, r#"{"items":[]}"#)]).await;
    signer(&server.url).health().await.unwrap();
    let locked = Script::play([Step::Say(http(200, "ok")), says(401, "")]).await;
    assert_eq!(signer(&locked.url).health().await.unwrap_err().cause, Cause::Unauthorized);

    let server = Script::play([says(200, "{}")]).await;
    signer(&server.url).set_online("finance-1@acme", false).await.unwrap();
    let sent = server.requests.lock().unwrap().first().unwrap().clone();
    assert!(sent.starts_with("PUT /api/v1/signers/finance-1@acme/presence "), "{sent}");
    assert!(sent.ends_with(r#"{"online":false}"#));
}
