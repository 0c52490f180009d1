//! Callbacks of the signer service: believed only when signed, counted once, and only a hint.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::harness::app::{App, CALLBACK_SECRET, Wishes, each, each_with};
use crate::harness::peer::Weather;

/// The true time, by which receivers judge timestamps.
#[expect(clippy::disallowed_methods, reason = "a callback's timestamp is judged by the machine's own clock")]
fn true_time() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

fn signature(secret: &str, id: &str, at: i64, body: &str) -> String {
    Webhook::new(secret).unwrap().sign(id, at, body.as_bytes()).unwrap()
}

fn body(event: &str, payment: &str) -> String {
    json!({"event_id": event, "type": "decision.recorded", "payment_id": payment, "decision_id": "d"}).to_string()
}

async fn post(app: &App, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let url = format!("{}/callbacks/signer", app.config.server.public_url);
    let mut request = app.http.post(url).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or(Value::Null))
}

/// Posts a callback signed as it should be, at `at`.
async fn send(app: &App, event: &str, payment: &str, at: i64) -> (u16, Value) {
    let body = body(event, payment);
    let signed = signature(CALLBACK_SECRET, event, at, &body);
    let at = at.to_string();
    post(app, &[("webhook-id", event), ("webhook-timestamp", &at), ("webhook-signature", &signed)], &body).await
}

#[tokio::test]
async fn b18_a_callback_is_taken_only_with_a_valid_signature_near_the_true_time() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let now = true_time();
        for (ahead, status) in [(0, 204), (-299, 204), (299, 204), (-301, 401), (301, 401), (315_360_000, 401)] {
            // Asked until it is answered within the second it was sent in.
            loop {
                let now = true_time();
                let (told, _) = send(app, &format!("evt_{ahead}"), &payment, now + ahead).await;
                if true_time() == now {
                    assert_eq!(told, status, "{ahead} s");
                    break;
                }
            }
        }
        let before = app.rows("callbacks").await;
        assert_eq!(before, 3);

        let event = "evt_1";
        let text = body(event, &payment);
        let at = now.to_string();
        let good = signature(CALLBACK_SECRET, event, now, &text);
        let millis = (now * 1_000).to_string();
        for odd in ["0", "-1", "abc", "", " ", millis.as_str()] {
            // The timestamp was changed after the signing, or never was one.
            let (status, _) =
                post(app, &[("webhook-id", event), ("webhook-timestamp", odd), ("webhook-signature", &good)], &text)
                    .await;
            assert_eq!(status, 401, "timestamp {odd:?}");
        }
        let dead = format!("whsec_{}", STANDARD.encode([9; 32]));
        let wrong = signature(&dead, event, now, &text);
        let flipped = if good.ends_with("A=") { good.replace("A=", "B=") } else { good.replacen("v1,", "v1,A", 1) };
        let many = format!("{}{good}", "v1,AAAA ".repeat(500));
        let v2 = good.replace("v1,", "v2,");
        let cut = &good[..13];
        for bad in [wrong.as_str(), &flipped, &many, &v2, cut, "v1,", "v1", "", " ", "x"] {
            let headers = [("webhook-id", event), ("webhook-timestamp", at.as_str()), ("webhook-signature", bad)];
            let (status, told) = post(app, &headers, &text).await;
            assert_eq!(status, 401, "signature {bad:.60}");
            assert!(!told.to_string().contains(&good[3..]), "it does not show what it expected");
        }
        // Each header missing, the body changed, the id changed.
        let headers = [("webhook-id", event), ("webhook-timestamp", at.as_str()), ("webhook-signature", good.as_str())];
        for left_out in 0..3 {
            let fewer: Vec<_> = headers.iter().enumerate().filter(|(n, _)| *n != left_out).map(|(_, h)| *h).collect();
            assert_eq!(post(app, &fewer, &text).await.0, 401, "without {}", headers[left_out].0);
        }
        assert_eq!(post(app, &headers, &format!("{text} ")).await.0, 401);
        assert_eq!(post(app, &[("webhook-id", "evt_2"), headers[1], headers[2]], &text).await.0, 401);
        // Signed with an empty key, as whoever knows the public format could.
        let empty = Webhook::from_bytes(Vec::new()).unwrap().sign(event, now, text.as_bytes()).unwrap();
        assert_eq!(post(app, &[headers[0], headers[1], ("webhook-signature", &empty)], &text).await.0, 401);
        assert_eq!(app.rows("callbacks").await, before, "nothing was remembered");

        // One good signature among bad ones is enough: that is how secrets are rotated.
        for mixed in [format!("v1,BAD {good} v2,BAD"), format!("{good} v1,BAD")] {
            let headers = [headers[0], headers[1], ("webhook-signature", mixed.as_str())];
            assert_eq!(post(app, &headers, &text).await.0, 204, "{mixed}");
        }
    })
    .await;
}

#[tokio::test]
async fn b18_while_one_secret_replaces_the_other_both_are_believed_and_a_dead_one_is_not() {
    let [old, dead] = [8, 9].map(|n| format!("whsec_{}", STANDARD.encode([n; 32])));
    let both = format!("{CALLBACK_SECRET},{old}");
    let wishes = Wishes::default().config(move |config| config.signer.callback_secret = both.clone().into());
    each_with(wishes, async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let rows = [("new", CALLBACK_SECRET, 204), ("old", &old, 204), ("dead", &dead, 401)];
        for (event, secret, status) in rows {
            let (text, now) = (body(event, &payment), true_time());
            let (signed, at) = (signature(secret, event, now, &text), now.to_string());
            let headers = [("webhook-id", event), ("webhook-timestamp", at.as_str()), ("webhook-signature", &signed)];
            assert_eq!(post(app, &headers, &text).await.0, status, "{event}");
        }
        assert_eq!(app.rows("callbacks").await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_repeated_callback_has_no_effect() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        assert_eq!(send(app, "evt_1", &payment, true_time()).await.0, 204);
        app.settle().await;
        let (before, asked) = (app.payment("order-1").await, app.signer.count("GET", "/status"));
        for _ in 0..10 {
            assert_eq!(send(app, "evt_1", &payment, true_time()).await.0, 204);
            app.settle().await;
        }
        assert_eq!((app.payment("order-1").await, app.signer.count("GET", "/status")), (before, asked));
        assert_eq!(app.rows("callbacks").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_callback_proves_nothing_and_never_reopens_an_end() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        // Validly signed, and there is no decision: it is asked for, and that is all.
        send(app, "evt_1", &payment, true_time()).await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        app.cancel("order-1").await;
        app.settle().await;
        let ended = app.payment("order-1").await;
        assert_eq!(send(app, "evt_2", &payment, true_time()).await.0, 204);
        app.settle().await;
        assert_eq!(app.payment("order-1").await, ended);
        assert_eq!(app.requests(&payment).await, 0);
    })
    .await;
}

#[tokio::test]
async fn b15_a_callback_about_a_payment_that_is_not_there_is_told_so_and_remembered_nowhere() {
    each(async |app: &mut App| {
        let (status, told) = send(app, "evt_1", "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", true_time()).await;
        assert_eq!((status, &told["error_code"]), (404, &json!("PAYMENT_NOT_FOUND")));
        assert_eq!(send(app, "evt_2", "pay_nonsense", true_time()).await.0, 404);
        assert_eq!((app.rows("callbacks").await, app.rows("payments").await), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn garbage_that_is_well_signed_is_still_garbage() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let now = true_time();
        let long = "x".repeat(200);
        for (text, event) in [
            (String::new(), "evt_1"),
            ("{".to_owned(), "evt_1"),
            ("[]".to_owned(), "evt_1"),
            ("<html>".to_owned(), "evt_1"),
            (r#"{"event_id":"evt_1"}"#.to_owned(), "evt_1"),
            (r#"{"event_id":7,"payment_id":8}"#.to_owned(), "evt_1"),
            (body("evt_other", &payment), "evt_1"),
            (body(&long, &payment), long.as_str()),
        ] {
            let signed = signature(CALLBACK_SECRET, event, now, &text);
            let at = now.to_string();
            let headers = [("webhook-id", event), ("webhook-timestamp", at.as_str()), ("webhook-signature", &signed)];
            let (status, told) = post(app, &headers, &text).await;
            assert_eq!((status, &told["error_code"]), (400, &json!("INVALID_ARGUMENT")), "{text:.80}");
        }
        let huge = format!(r#"{{"event_id":"evt_1","pad":"{}"}}"#, "x".repeat(20_000));
        let signed = signature(CALLBACK_SECRET, "evt_1", now, &huge);
        let at = now.to_string();
        let headers = [("webhook-id", "evt_1"), ("webhook-timestamp", at.as_str()), ("webhook-signature", &signed)];
        let (status, told) = post(app, &headers, &huge).await;
        assert_eq!((status, &told["error_code"], &told["status"]), (413, &json!("INVALID_ARGUMENT"), &json!(413)));
        assert!(told["detail"].as_str().unwrap().contains("16384 bytes"), "{told}");
        assert_eq!(app.rows("callbacks").await, 0);
    })
    .await;
}

#[tokio::test]
async fn callbacks_in_the_thick_of_it_lose_no_decision() {
    each(async |app: &mut App| {
        // Decisions for many payments arrive by page and callback while others are notified and executed.
        let mut orders = Vec::new();
        for number in 0..8 {
            let order = format!("order-{number}");
            app.awaiting(&order).await;
            let document = app.document("finance-1", &order, "approve", "").await;
            assert_eq!(app.decide_on_page(&order, &document, &app.jws("finance-1", &document)).await, 200);
            orders.push(order);
        }
        let (sent, (), other) = tokio::join!(app.deliver_callbacks(), app.settle(), app.awaiting("order-last"));
        assert_eq!(sent, 8);
        app.settle().await;
        app.pass(Duration::from_secs(16)).await;
        for order in orders {
            let payment = app.payment(&order).await;
            assert_eq!(payment.status.as_str(), "EXECUTED", "{order}");
            assert_eq!(app.executions(payment.terms.payment_id.as_str()).await, 1);
        }
        assert_eq!(app.requests(&other).await, 0);
    })
    .await;
}

#[tokio::test]
async fn invented_decisions_are_audited_up_to_a_bound_and_hide_no_true_one() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let id = app.payment("order-1").await.notice.signer_ref;
        let shown = |from: usize| {
            let invented = |n: usize| {
                let proof = json!({"type": "jws", "value": format!("a..{n}")});
                json!({"decision_id": format!("d{n}"), "document": format!("invented {n}"), "proof": proof})
            };
            let decisions: Vec<Value> = (from..from + 40).map(invented).collect();
            let body = json!({"id": id, "reference": payment, "round": 1, "state": "open", "signers": [],
                "decisions": decisions});
            // Test answers live as long as the test.
            Weather::Answer(200, "application/json", Box::leak(body.to_string().into_boxed_str()))
        };
        // The second shows what the first has shown: nothing is added.
        for (from, audited, too_many) in [(0, 40, 0), (0, 40, 0), (40, 65, 1), (80, 65, 1), (0, 65, 1), (120, 65, 1)] {
            app.signer.once("/status", shown(from));
            app.call(&app.agent(), "check_sign_status", json!({"order_id": "order-1"})).await;
            assert_eq!(app.audited_events("decision.refused").await, audited, "from {from}");
            assert_eq!(app.audited("decision.refused", "too_many").await, too_many, "from {from}");
        }
        assert_eq!(app.rows("callbacks").await, 65, "nor is anything remembered of the rest");
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        app.pass(Duration::from_mins(1)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}
