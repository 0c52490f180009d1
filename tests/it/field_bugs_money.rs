//! Field bugs about keys and about what a rail's answer proves: B12, B13, B16, B17.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign::domain::Role;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::app::{App, Wishes, each, each_with};
use crate::harness::database::{TestEngine, engines};
use crate::harness::desk::{Desk, Plan};
use crate::harness::peer::Weather;

fn create(order: &str, amount: &str, key: &str) -> Value {
    json!({"order_id": order, "amount": amount, "signer_id": "finance-1", "idempotency_key": key})
}

/// Two gateways on one PostgreSQL; one on SQLite, which is for one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_one_key_at_the_same_moment_is_one_payment_and_another_body_is_told_so() {
    for engine in engines() {
        let gateways = if engine == TestEngine::Postgres { 2 } else { 1 };
        let plan = Plan::new(engine);
        let desk = Desk::open(if gateways == 2 { plan.processes(2, 1) } else { plan }).await;
        let agent = desk.token("agent-1", Role::Agent);
        for round in 0..50 {
            let (order, key) = (format!("order-{round}"), format!("key-of-round-{round:04}"));
            let same = create(&order, "199.00", &key);
            let calls = (0..20).map(|caller| desk.call(caller % gateways, &agent, "create_payment", same.clone()));
            let other = desk.call(round % gateways, &agent, "create_payment", create(&order, "200.00", &key));
            let (same, other) = tokio::join!(join_all(calls), other);
            let answers: Vec<_> = same.into_iter().map(Option::unwrap).collect();
            let other = other.unwrap();
            let ids: BTreeSet<&str> =
                answers.iter().filter(|answer| !answer.is_error).map(|answer| answer.text("payment_id")).collect();
            assert!(ids.len() <= 1, "{engine}: {ids:?}");
            for answer in answers.iter().chain([&other]).filter(|answer| answer.is_error) {
                // Whichever of the two bodies came first has the key; the other is told so, and never to try again.
                let waits = answer.code() == "IDEMPOTENCY_IN_PROGRESS" && answer.body["retryable"] == true;
                let reused = answer.code() == "IDEMPOTENCY_KEY_REUSED" && answer.body["retryable"] == false;
                assert!(waits || reused, "{engine}: {}", answer.body);
                let text = answer.body.to_string().to_lowercase();
                assert!(!text.contains("constraint") && !text.contains("unique"), "{text}");
            }
            assert_eq!(ids.len(), usize::from(other.is_error), "{engine}: one body has the key: {}", other.body);
            if other.is_error {
                assert_eq!(other.code(), "IDEMPOTENCY_KEY_REUSED", "{}", other.body);
                assert!(!ids.contains(other.text("payment_id")), "it never shows the first result");
            }
        }
        let first = desk.insist(&agent, "create_payment", create("order-x", "199.00", "key-of-one-agent")).await;
        // Another agent's key of the same name is another key; the order is taken in the tenant all the same.
        let stranger = desk.token("agent-2", Role::Agent);
        let theirs = desk.insist(&stranger, "create_payment", create("order-y", "199.00", "key-of-one-agent")).await;
        assert!(!theirs.is_error && theirs.text("payment_id") != first.text("payment_id"), "{}", theirs.body);
        // Reordered members and spaces are the same request.
        let text = r#" { "idempotency_key":"key-of-one-agent", "signer_id":"finance-1",  "amount":"199.00","order_id":"order-x" } "#;
        let again = desk.rpc(0).call_text(&agent, "create_payment", text).await.answer();
        assert_eq!(
            (again.text("payment_id"), &again.body["idempotent_replayed"]),
            (first.text("payment_id"), &json!(true))
        );
        for key in ["key-of-one-agent ", "", &"k".repeat(10_000)] {
            let bad = desk.insist(&agent, "create_payment", create("order-z", "1.00", key)).await;
            assert_eq!(
                (bad.code().as_str(), bad.text("field")),
                ("INVALID_ARGUMENT", "idempotency_key"),
                "{}",
                bad.body
            );
        }
        desk.finish().await;
    }
}

#[tokio::test]
async fn b13_a_key_survives_its_failures_and_its_payment() {
    let wishes = Wishes::default().patient().config(|config| config.retention.finished_after_s = 90 * 24 * 3_600);
    each_with(wishes, async |app: &mut App| {
        let call = async |arguments: Value| app.call(&app.agent(), "create_payment", arguments).await;
        // (a) The signer service is closed; (b) it reads a request, does what it says, and drops the connection.
        let troubles = [
            ("closed", None),
            ("drops-the-first-request", Some("POST /api/v1/payments")),
            ("drops-the-notification", Some("/notify")),
        ];
        for (order, dropped) in troubles {
            for late in [false, true] {
                let order = format!("order-{order}-{late}");
                let mut asked = create(&order, "199.00", &format!("the-key-of-{order}"));
                asked["notify"] = json!(true);
                match dropped {
                    None => app.signer.down().await,
                    Some(request) => app.signer.once(request, Weather::LoseReply),
                }
                let first = call(asked.clone()).await;
                let payment = first.text("payment_id").to_owned();
                let notice = "SIGNER_SERVICE_UNAVAILABLE";
                assert_eq!((first.status().as_str(), first.body["notice"]["code"].as_str()), ("CREATED", Some(notice)));
                app.signer.up().await;
                if late {
                    app.next_due().await;
                }
                // Once more, and once more: that payment, as it is by now, and nothing is made or told twice.
                for _ in 0..2 {
                    let again = call(asked.clone()).await;
                    let (id, replayed) = (again.text("payment_id"), &again.body["idempotent_replayed"]);
                    assert_eq!((id, replayed), (payment.as_str(), &json!(true)), "{}", again.body);
                    assert_eq!(again.status(), if late { "AWAITING_SIGNER" } else { "CREATED" }, "{}", again.body);
                }
                app.until(&order, "AWAITING_SIGNER").await;
                let again = call(asked.clone()).await;
                assert_eq!((again.status().as_str(), again.text("payment_id")), ("AWAITING_SIGNER", payment.as_str()));
                assert_eq!(app.asked(&payment).await, [["finance-1"]], "{order}: told once");
            }
        }
        // (c) What was never begun leaves the key free.
        let mut wrong = create("order-c", "199.00", "the-key-number-three");
        wrong["currency"] = json!("ZZZ");
        assert_eq!(call(wrong).await.code(), "CURRENCY_UNSUPPORTED");
        let right = call(create("order-c", "199.00", "the-key-number-three")).await;
        assert!(!right.is_error && right.body["idempotent_replayed"] != true, "{}", right.body);
        // (d) Paid, and long gone from the hot tables; (e) still waiting when the clean-up runs.
        let paid = call(create("order-d", "199.00", "the-key-number-four")).await.text("payment_id").to_owned();
        app.notify("order-d").await;
        app.sign("order-d").await;
        app.until("order-d", "EXECUTED").await;
        app.pass(Duration::from_hours(91 * 24)).await;
        let waiting = call(create("order-e", "199.00", "the-key-number-five")).await.text("payment_id").to_owned();
        let mut place = countersign::journal::Place::default();
        while let Some(next) = app.journal.retire(&place).await.unwrap().next {
            place = next;
        }
        for (order, key, payment) in
            [("order-d", "the-key-number-four", paid), ("order-e", "the-key-number-five", waiting)]
        {
            let again = call(create(order, "199.00", key)).await;
            assert_eq!(
                (again.text("payment_id"), &again.body["idempotent_replayed"]),
                (payment.as_str(), &json!(true))
            );
            assert_eq!(call(create(order, "200.00", key)).await.code(), "IDEMPOTENCY_KEY_REUSED");
            assert_eq!(
                call(create(order, "200.00", "a-key-of-another-name")).await.code(),
                "ORDER_ALREADY_HAS_PAYMENT"
            );
        }
    })
    .await;
}

/// What the rail answers, having done nothing: status, type and body; whether that proves that nothing was done.
const ANSWERS: [(&str, Weather, bool); 14] = [
    ("400", Weather::Answer(400, JSON, r#"{"error_code":"account_closed","error_message":"SECRET"}"#), true),
    ("403", Weather::Answer(403, JSON, r#"{"error_code":"forbidden","error_message":"SECRET"}"#), true),
    ("409", Weather::Answer(409, JSON, r#"{"error_code":"already_done","error_message":"SECRET"}"#), false),
    ("500", Weather::Answer(500, JSON, r#"{"error_code":"internal","error_message":"SECRET"}"#), false),
    ("502", Weather::Answer(502, HTML, "<html>SECRET</html>"), false),
    ("503", Weather::Answer(503, JSON, r#"{"error_code":"busy","error_message":"SECRET"}"#), false),
    ("200-html", Weather::Answer(200, HTML, "<html>SECRET</html>"), false),
    ("200-empty-object", Weather::Answer(200, JSON, "{}"), false),
    ("200-another", Weather::Answer(200, JSON, OTHERS), false),
    ("202", Weather::Answer(202, JSON, "{}"), false),
    ("204", Weather::Answer(204, JSON, ""), false),
    ("302", Weather::Redirect, false),
    ("302-to-itself", Weather::RedirectToItself, false),
    ("silence", Weather::Hang, false),
];
const TRANSFERS: &str = "/api/v1/transfers";
const JSON: &str = "application/json";
const HTML: &str = "text/html";
const OTHERS: &str = r#"{"transfer_id":"tr-of-another","reference":"pay_01K00000000000000000000000","status":"settled",
    "amount_minor":"19900","currency":"USD","payee_account":"demo-payee-001","failure_code":""}"#;

#[tokio::test]
async fn b16_what_an_answer_does_not_prove_is_unknown_until_a_look_up_settles_it() {
    each(async |app: &mut App| {
        for (name, weather, proves) in ANSWERS {
            let payment = app.signed(name).await;
            // Every request is answered so while the payment is sent: who follows or repeats is counted.
            let asked = app.rail.count("", TRANSFERS);
            app.rail.set(weather);
            app.settle().await;
            app.rail.set(Weather::Fair);
            assert_eq!(app.rail.count("", TRANSFERS), asked + 1, "{name}: one request");
            let told = app.status(name).await;
            let expected = if proves { ("FAILED", "refused") } else { ("SIGNED", "unknown") };
            assert_eq!((told.status().as_str(), told.phase()), expected, "{name}: {}", told.body);
            assert!(!told.body.to_string().contains("SECRET"), "{name}: {}", told.body);
            assert_eq!(app.executions(&payment).await, 0, "{name}");
            if !proves {
                app.until(name, "EXECUTED").await;
            }
            let ledger = app.ledger(&payment).await;
            let keys: BTreeSet<&str> = ledger["seen"]
                .as_array()
                .unwrap()
                .iter()
                .map(|line| line["idempotency_key"].as_str().unwrap())
                .collect();
            assert!(keys.len() <= 1 && ledger["executions"] == u64::from(!proves), "{name}: {ledger}");
        }
        // 429 says that nothing was done, and when to ask again: not a second before, then the same once more.
        let busy = app.signed("429").await;
        app.rail.once("POST /api/v1/transfers", Weather::Busy(90));
        app.settle().await;
        let asked = (app.rail.count("POST", TRANSFERS), app.rail.count("", TRANSFERS));
        for passed in [0, 88] {
            app.pass(Duration::from_secs(passed)).await;
            let told = app.status("429").await;
            assert_eq!((told.status().as_str(), told.phase()), ("SIGNED", "intended"), "{}", told.body);
            assert_eq!(app.rail.count("", TRANSFERS), asked.1, "asked again {passed} s later");
        }
        app.pass(Duration::from_secs(2)).await;
        assert_eq!(app.status("429").await.status(), "EXECUTED");
        assert_eq!((app.executions(&busy).await, app.rail.count("POST", TRANSFERS)), (1, asked.0 + 1));
        let sent = "SELECT CAST(attempts AS TEXT) FROM effects WHERE kind = 'rail.execute' AND payment_id";
        assert_eq!(app.db.raw().await.texts(&format!("{sent} = '{busy}'")).await, ["2"], "one key, the same bytes");
        // One that never ends leaves the payment unpaid, and that is known.
        let never = app.signed("429-for-ever").await;
        app.rail.set(Weather::Busy(3_600));
        app.until("429-for-ever", "FAILED").await;
        app.rail.set(Weather::Fair);
        let told = app.status("429-for-ever").await;
        assert_eq!((told.text("reason"), app.requests(&never).await), ("rail_unavailable", 0), "{}", told.body);
    })
    .await;
}

#[tokio::test]
async fn b17_a_connection_that_died_says_nothing_about_what_was_done() {
    for dedup in ["86400", "none"] {
        let wishes = Wishes::default().hasty().config(move |config| dedup.clone_into(&mut config.rail.dedup));
        each_with(wishes, async |app: &mut App| {
            app.faults(json!({"standing": {"forget_keys": dedup == "none"}})).await;
            for (name, weather) in [("answer-lost", Weather::LoseReply), ("answer-late", Weather::Slow(1_200))] {
                let payment = app.signed(name).await;
                app.rail.once("POST /api/v1/transfers", weather);
                app.settle().await;
                let told = app.status(name).await;
                assert_eq!((told.status().as_str(), told.phase()), ("SIGNED", "unknown"), "{name}: {}", told.body);
                // The person signs once more: the same payment, and nothing new is sent.
                let again = app.sign(name).await;
                assert_eq!((again.status().as_str(), again.text("payment_id")), ("SIGNED", payment.as_str()));
                app.settle().await;
                app.until(name, "EXECUTED").await;
                assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1), "{dedup} {name}");
            }
            // Nobody can say what happened: without keys at the rail it is never sent again.
            let payment = app.signed("lost").await;
            app.next_fault("drop_request").await;
            app.settle().await;
            app.pass(Duration::from_hours(1)).await;
            let expected = if dedup == "none" { ("SIGNED", "unknown", 1) } else { ("EXECUTED", "confirmed", 2) };
            let told = app.status("lost").await;
            assert_eq!((told.status().as_str(), told.phase(), app.requests(&payment).await), expected, "{}", told.body);
        })
        .await;
    }
}
