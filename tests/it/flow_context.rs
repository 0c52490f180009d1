//! The agent's context is part of the cost: answers are small, counted, and say stop in time.

use std::collections::BTreeSet;

use countersign::domain::{Attention, Money, OrderId, Payment, Phase, Principal, Progress, Role, Status, Timestamp};
use countersign::tools::{Reply, STATUS_BYTES};
use serde_json::{Value, json};

use crate::harness::app::{App, Wishes, each, each_with};
use crate::harness::payments::payment;
use crate::harness::peer::Weather;
use crate::harness::rpc::Answer;

fn budget(calls: u32, bytes: u32) -> Wishes {
    Wishes::default().config(move |config| (config.context.calls, config.context.bytes) = (calls, bytes))
}

fn says_stop(answer: &Answer) -> bool {
    let stop = answer.text("next_action") == "stop_polling";
    assert_eq!(stop, answer.text("message").contains("Stop calling"), "{}", answer.body);
    assert!(!stop || answer.body["retry_after_ms"].is_null(), "{}", answer.body);
    stop
}

async fn counted(app: &App) -> (i64, i64) {
    let row = "SELECT CAST(context_calls AS TEXT), CAST(context_bytes AS TEXT) FROM payments";
    let mut raw = app.db.raw().await;
    (raw.column(row, 0).await[0].parse().unwrap(), raw.column(row, 1).await[0].parse().unwrap())
}

async fn attention(app: &App) -> Vec<Value> {
    let listed = app.call(&app.operator(), "list_attention", json!({})).await;
    listed.body["payments"].as_array().unwrap().iter().map(|row| row["attention"].clone()).collect()
}

#[tokio::test]
async fn a_used_up_budget_says_stop_and_asks_for_attention_once() {
    each_with(budget(5, 0), async |app: &mut App| {
        app.create("order-1").await;
        for _ in 0..3 {
            assert!(!says_stop(&app.status("order-1").await));
        }
        assert_eq!((attention(app).await, app.audited_events("context.spent").await), (vec![], 0));
        let fifth = app.status("order-1").await;
        assert!(says_stop(&fifth), "{}", fifth.body);
        assert_eq!(fifth.status(), "CREATED", "it still tells where the payment stands");
        for _ in 0..20 {
            let told = app.status("order-1").await;
            assert!(says_stop(&told) && told.body["attention"] == json!(["CONTEXT_BUDGET_SPENT"]), "{}", told.body);
        }
        assert_eq!(app.audited_events("context.spent").await, 1);
        assert_eq!(attention(app).await, [json!(["CONTEXT_BUDGET_SPENT"])]);
        let explained = app.call(&app.operator(), "explain_payment", json!({"order_id": "order-1"})).await;
        assert!(explained.body.to_string().contains("ends its loop") && !says_stop(&explained));
        // Another process, which has counted nothing, says the same.
        app.restart().await;
        assert!(says_stop(&app.status("order-1").await));
        // Acting is not forbidden, and the payment goes on.
        assert!(says_stop(&app.notify("order-1").await));
        app.sign("order-1").await;
        app.settle().await;
        let ended = app.status("order-1").await;
        assert_eq!((ended.status().as_str(), ended.text("next_action")), ("EXECUTED", "done"), "an end still answers");
        assert_eq!(app.audited_events("context.spent").await, 1);
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_payment_ends_the_attention_for_its_agents_polling() {
    let wishes = Wishes::default().patient().config(|config| {
        (config.context.calls, config.context.bytes) = (3, 0);
        config.retention.finished_after_s = 48 * 3_600;
    });
    each_with(wishes, async |app: &mut App| {
        app.signed("order-1").await;
        for _ in 0..5 {
            app.status("order-1").await;
        }
        assert_eq!(attention(app).await, [json!(["CONTEXT_BUDGET_SPENT"])]);
        app.settle().await;
        assert_eq!(attention(app).await, Vec::<Value>::new(), "nothing is left to stop");
        // Nor is it raised again, however long the agent goes on.
        let polls = async || {
            for _ in 0..40 {
                let told = app.status("order-1").await;
                assert_eq!(
                    (told.text("next_action"), &told.body["attention"]),
                    ("done", &Value::Null),
                    "{}",
                    told.body
                );
            }
        };
        polls().await;
        assert_eq!((attention(app).await, app.audited_events("context.spent").await), (vec![], 1));
        assert!(app.payment("order-1").await.attention.is_empty());
        app.clock.advance(49 * 3_600 * 1_000_000);
        app.settle().await;
        assert_eq!(app.journal.retire(&countersign::journal::Place::default()).await.unwrap().payments, 1);
        assert_eq!((app.rows("payments").await, app.rows("archived_payments").await), (0, 1));
        polls().await;
    })
    .await;
}

#[tokio::test]
async fn bytes_count_too_and_an_error_says_stop_beside_its_code() {
    each_with(budget(0, 3_000), async |app: &mut App| {
        app.create("order-1").await;
        app.signer.set(Weather::Status(503));
        let mut bytes = 0;
        let mut calls = 0;
        let stopped = loop {
            let answer = app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
            calls += 1;
            assert_eq!(answer.code(), "SIGNER_SERVICE_UNAVAILABLE");
            if says_stop(&answer) {
                assert_eq!(answer.body["next_actions"], json!(["stop_polling"]));
                break answer;
            }
            bytes += answer.body.to_string().len();
        };
        assert!((2_000..3_000).contains(&bytes) && calls > 3, "{bytes} in {calls}: {}", stopped.body);
        let (calls_stored, bytes_stored) = counted(app).await;
        assert!(bytes_stored >= 3_000 && calls_stored > calls, "{calls_stored} calls, {bytes_stored} bytes");
    })
    .await;
}

#[tokio::test]
async fn below_the_budget_a_read_writes_nothing_and_only_the_agent_is_counted() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        let before = (app.payment("order-1").await, app.rows("audit_entries").await);
        for _ in 0..14 {
            app.status("order-1").await;
        }
        assert_eq!(counted(app).await, (0, 0), "fifteen calls are still in memory");
        for token in [app.operator(), app.auditor(), app.signer_token("finance-1")] {
            for _ in 0..20 {
                app.call(&token, "get_payment_status", json!({"order_id": "order-1"})).await;
            }
        }
        assert_eq!(counted(app).await, (0, 0), "an auditor's reading costs the agent nothing");
        app.status("order-1").await;
        let (calls, bytes) = counted(app).await;
        assert!(calls == 16 && bytes > 16 * 300, "{calls} calls, {bytes} bytes: added together");
        assert_eq!((app.payment("order-1").await, app.rows("audit_entries").await), before, "a count is no change");
    })
    .await;
}

#[tokio::test]
async fn replicas_add_up_and_a_count_that_cannot_be_written_fails_no_call() {
    each_with(budget(32, 0), async |app: &mut App| {
        app.create("order-1").await;
        for _ in 0..15 {
            app.status("order-1").await;
        }
        app.restart().await;
        for _ in 0..15 {
            assert!(!says_stop(&app.status("order-1").await));
        }
        // The batch of this call makes 32, though this process has seen only 16.
        assert!(says_stop(&app.status("order-1").await));
        assert_eq!(counted(app).await.0, 32);
    })
    .await;
}

#[tokio::test]
async fn a_locked_database_fails_no_count() {
    let patient = budget(3, 0);
    each_with(patient, async |app: &mut App| {
        if app.db.engine() == crate::harness::database::TestEngine::Postgres {
            return;
        }
        app.create("order-1").await;
        let mut lock = app.db.raw().await;
        lock.execute("BEGIN IMMEDIATE").await.unwrap();
        for stop in [false, true, true] {
            assert_eq!(says_stop(&app.status("order-1").await), stop);
        }
        lock.execute("ROLLBACK").await.unwrap();
        assert_eq!(attention(app).await, Vec::<Value>::new());
        assert!(says_stop(&app.status("order-1").await));
        assert_eq!((counted(app).await.0, attention(app).await.len()), (5, 1), "nothing was lost");
    })
    .await;
}

/// The longest that a payment's parts can be, whatever its state.
fn longest(status: Status, phase: Phase, reason: &str) -> Payment {
    let mut it = payment(status, phase);
    it.terms.order_id = "O".repeat(64).parse::<OrderId>().unwrap();
    it.terms.amount = Money::from_minor(countersign::domain::MAX_MINOR, it.terms.amount.currency()).unwrap();
    it.terms.expires_at = Timestamp::parse_rfc3339("9999-12-31T23:59:59.999Z").unwrap();
    it.terms.policy.levels[0].groups[0].required = u32::MAX.to_string();
    it.approvals = u32::MAX;
    it.version = i64::MAX;
    it.reason = reason.to_owned();
    it.attention = BTreeSet::from(Attention::ALL);
    it.execution.transfer_id = "\"".repeat(128);
    it.execution.cancel_requested_at = Some(it.terms.created_at);
    it
}

#[test]
fn a_status_answer_is_at_most_1_kib_in_every_state() {
    assert_eq!(STATUS_BYTES, 1_024);
    for status in Status::ALL {
        for phase in Phase::ALL {
            for reason in ["", "retries_exhausted", &"\"".repeat(512), &"\u{10348}".repeat(512), &"word ".repeat(100)] {
                let reply = Reply::about(&longest(status, phase, reason));
                let text = Value::Object(reply.body.clone()).to_string();
                assert!(text.len() <= STATUS_BYTES, "{status:?} {phase:?}: {} bytes: {text}", text.len());
                for key in ["status", "payment_id", "order_id", "message", "next_action", "attention", "transfer_id"] {
                    assert!(reply.body.contains_key(key), "{key}: {text}");
                }
            }
            // However many have approved, of groups with whatever names: the counts stay.
            let name = |number: u32| format!("\"{number}{}", "g".repeat(120));
            let progress = Progress {
                approved: (0..40).map(name).collect(),
                half: (0..40).map(name).collect(),
                missing: (0..8).map(|number| (name(number), u32::MAX)).collect(),
            };
            for payment in [payment(status, phase), longest(status, phase, &"word ".repeat(100))] {
                let reply = Reply::following(&payment, &progress);
                let text = Value::Object(reply.body.clone()).to_string();
                assert!(text.len() <= STATUS_BYTES, "{status:?} {phase:?}: {} bytes: {text}", text.len());
                assert_eq!(reply.body["approvals"]["need"], json!(payment.terms.policy.required()), "{text}");
            }
            let few = Progress {
                approved: vec!["ana".to_owned()],
                half: vec!["ben".to_owned()],
                missing: vec![("finance".to_owned(), 1), ("board".to_owned(), 2)],
            };
            let told = Reply::following(&payment(status, phase), &few).body["approvals"].clone();
            assert_eq!((&told["by"], &told["confirming"]), (&json!(["ana"]), &json!(["ben"])));
            assert_eq!(told["missing"], json!({"finance": 1, "board": 2}));
            // A reason of usual length beside usual ids stays whole.
            let mut usual = payment(status, phase);
            usual.reason = "the invoice names another supplier, ask them first".to_owned();
            assert_eq!(Reply::about(&usual).body["reason"], json!(usual.reason));
        }
    }
}

#[tokio::test]
async fn a_spent_budget_keeps_the_answer_small_in_every_state() {
    each_with(budget(1, 0), async |app: &mut App| {
        let desk = countersign::tools::Desk::new(std::sync::Arc::clone(&app.journal));
        let who = Principal {
            tenant: "default".parse().unwrap(),
            subject: "agent-1".to_owned(),
            client: "agent-1".parse().unwrap(),
            roles: [Role::Agent].into(),
            scopes: BTreeSet::new(),
        };
        for status in Status::ALL {
            for phase in Phase::ALL {
                let mut body = Reply::about(&longest(status, phase, &"\u{10348}".repeat(512))).body;
                desk.charge(&who, &mut body).await;
                let stop = body["next_action"] == "stop_polling";
                assert_eq!(stop, !status.is_terminal(), "{status:?}");
                let bytes = Value::Object(body).to_string().len();
                assert!(bytes <= STATUS_BYTES, "{status:?} {phase:?}: {bytes}");
            }
        }
    })
    .await;
}
