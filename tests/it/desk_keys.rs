//! Idempotency by key, by order and by replacement: what a repeat is answered, whatever happened meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::desk_policy::{each, policy};
use crate::harness::app::{App, Wishes, each_with};
use crate::harness::rpc::Answer;

fn order(order: &str, changes: Value) -> Value {
    let mut arguments = json!({"order_id": order, "amount": "199.00"});
    arguments.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    arguments
}

async fn create(app: &App, name: &str, changes: Value) -> Answer {
    app.call(&app.agent(), "create_payment", order(name, changes)).await
}

fn replayed(answer: &Answer) -> bool {
    answer.body["idempotent_replayed"] == true
}

#[tokio::test]
async fn what_the_policy_refused_under_a_key_stays_refused_under_it() {
    let rules = "[[rule]]\nid = \"never\"\npayees = [\"acct-9\"]\ndeny = true\n[payees]\ndenied = [\"acct-8\"]\n\
        [[limit]]\nid = \"each\"\nbinds = \"each_agent\"\ncurrency = \"USD\"\nper_payment = \"200.00\"\n\
        window_hours = 1\nwindow_count = 1\n\
        [[limit]]\nid = \"money\"\nbinds = \"tenant\"\ncurrencies = [\"USD\", \"EUR\"]\n";
    each_with(Wishes::default().patient().policy(policy(rules)), async |app: &mut App| {
        let cases = [
            ("o-1", json!({"payee": "acct-9", "idempotency_key": "sticky-key-0000001"}), "POLICY_DENIED", None),
            (
                "o-2",
                json!({"payee": "acct-8", "idempotency_key": "sticky-key-0000002"}),
                "PAYEE_NOT_ALLOWED",
                Some("payee"),
            ),
            (
                "o-3",
                json!({"amount": "200.01", "idempotency_key": "sticky-key-0000003"}),
                "MANDATE_EXCEEDED",
                Some("amount"),
            ),
            (
                "o-8",
                json!({"currency": "JPY", "amount": "1", "idempotency_key": "sticky-key-0000008"}),
                "POLICY_DENIED",
                Some("currency"),
            ),
        ];
        let mut words = Vec::new();
        for (name, changes, code, field) in &cases {
            let refused = create(app, name, changes.clone()).await;
            assert_eq!(refused.code(), *code, "{}", refused.body);
            assert_eq!(refused.body["field"], json!(field), "{}", refused.body);
            words.push(refused.body);
        }
        // A window moves on by itself; mistakes in the arguments were never begun.
        create(app, "o-4", json!({})).await;
        let windowed = json!({"idempotency_key": "passing-key-000001"});
        assert_eq!(create(app, "o-5", windowed.clone()).await.code(), "VELOCITY_EXCEEDED");
        let mistaken = |amount: &str| json!({"amount": amount, "idempotency_key": "passing-key-000002"});
        assert_eq!(create(app, "o-6", mistaken("1.005")).await.code(), "AMOUNT_PRECISION");
        assert_eq!((app.rows("idempotency").await, app.rows("payments").await), (4, 1));

        app.change_policy(policy(""));
        app.restart().await;
        for ((name, changes, code, _), words) in cases.iter().zip(&mut words) {
            let mut again = create(app, name, changes.clone()).await;
            for answer in [&mut again.body, &mut *words] {
                answer.as_object_mut().unwrap().remove("request_id");
            }
            assert_eq!(&again.body, words, "after the policy allows it, word for word");
            // The key is that request's; without it, or with another, it is a new intention.
            let mut other = changes.clone();
            other["memo"] = json!("else");
            assert_eq!(create(app, name, other).await.code(), "IDEMPOTENCY_KEY_REUSED");
            let mut fresh = changes.clone();
            fresh["idempotency_key"] = json!(format!("fresh-key-of-{name}-000"));
            assert_eq!(create(app, name, fresh).await.status(), "CREATED");
            assert_eq!(create(app, name, changes.clone()).await.code(), *code, "whatever the order has by now");
        }
        assert_eq!(create(app, "o-5", windowed).await.status(), "CREATED");
        assert_eq!(create(app, "o-6", mistaken("1.00")).await.status(), "CREATED");
        // Another agent's key of that name is another key.
        let foreign = order("o-7", json!({"idempotency_key": "sticky-key-0000001"}));
        assert_eq!(app.call(&app.other_agent(), "create_payment", foreign).await.status(), "CREATED");
    })
    .await;
}

#[tokio::test]
async fn what_the_policy_refused_without_a_key_stays_refused_until_a_key_says_that_it_is_meant_anew() {
    let rules = "[[rule]]\nid = \"never\"\npayees = [\"acct-9\"]\ndeny = true\n[payees]\ndenied = [\"acct-8\"]\n\
        [[limit]]\nid = \"open\"\nbinds = \"each_agent\"\ncurrency = \"USD\"\nper_payment = \"200.00\"\nopen = 1\n";
    each_with(Wishes::default().patient().policy(policy(rules)), async |app: &mut App| {
        create(app, "o-0", json!({})).await;
        let cases = [
            ("o-1", json!({"payee": "acct-9"}), "POLICY_DENIED"),
            ("o-2", json!({"payee": "acct-8"}), "PAYEE_NOT_ALLOWED"),
            ("o-3", json!({"amount": "200.01"}), "MANDATE_EXCEEDED"),
            ("o-4", json!({}), "MANDATE_EXCEEDED"),
        ];
        let words = |mut refused: Answer| {
            refused.body.as_object_mut().unwrap().remove("request_id");
            refused.body
        };
        let mut told = Vec::new();
        for (name, changes, code) in &cases {
            let refused = create(app, name, changes.clone()).await;
            assert_eq!(refused.code(), *code, "{}", refused.body);
            assert!(refused.text("message").contains("a new idempotency_key"), "{}", refused.body);
            told.push(words(refused));
        }
        app.cancel("o-0").await;
        app.change_policy(policy(""));
        app.restart().await;
        for ((name, changes, code), told) in cases.iter().zip(&told) {
            assert_eq!(
                &words(create(app, name, changes.clone()).await),
                told,
                "after the policy allows it, word for word"
            );
            // No caller can say the request's own key, and another agent's request is another one.
            let mut foreign = order(name, changes.clone());
            foreign["order_id"] = json!(format!("{name}-of-another"));
            assert_eq!(app.call(&app.other_agent(), "create_payment", foreign).await.status(), "CREATED");
            let mut meant = changes.clone();
            meant["idempotency_key"] = json!(format!("meant-anew-{name}-00"));
            let meant = create(app, name, meant).await;
            assert_eq!(meant.status(), "CREATED", "{}", meant.body);
            // While that one is open, the request without a key means it.
            let again = create(app, name, changes.clone()).await;
            assert_eq!((again.text("payment_id"), replayed(&again)), (meant.text("payment_id"), true), "{code}");
        }
        // Another request for the same order was never refused.
        assert_eq!(create(app, "o-5", json!({"memo": "as it should be"})).await.status(), "CREATED");
    })
    .await;
}

/// Two of a kind wait for each other; who would lose for ever, as to a row that nothing answers for, is told so.
#[tokio::test]
async fn a_create_that_loses_each_race_for_its_order_says_so_and_leaves_nothing() {
    each(async |app: &mut App| {
        for (name, key) in [("bare", json!({})), ("keyed", json!({"idempotency_key": "key-of-a-lost-race"}))] {
            let mut raw = app.db.raw().await;
            let taken = format!("INSERT INTO taken_orders VALUES ('default', '{name}', 'pay_of_nobody')");
            assert_eq!(raw.execute(&taken).await.unwrap(), 1);
            let (payments, keys) = (app.rows("payments").await, app.rows("idempotency").await);
            let told = create(app, name, key.clone()).await;
            assert_eq!(
                (told.code().as_str(), &told.body["retryable"], &told.body["retry_after_ms"]),
                ("IDEMPOTENCY_IN_PROGRESS", &json!(true), &json!(1_000)),
                "{}",
                told.body
            );
            assert_eq!((app.rows("payments").await, app.rows("idempotency").await), (payments, keys));
            raw.execute("DELETE FROM taken_orders WHERE payment_id = 'pay_of_nobody'").await.unwrap();
            let created = create(app, name, key).await;
            assert_eq!((created.status().as_str(), replayed(&created)), ("CREATED", false), "{}", created.body);
        }
    })
    .await;
}

/// Brings an order to an end.
async fn end(app: &App, name: &str, status: &str) {
    match status {
        "EXECUTED" | "FAILED" => {
            app.sign(name).await;
            if status == "FAILED" {
                app.next_fault("refuse").await;
            }
            app.settle().await;
        }
        "REJECTED" => drop(app.reject("finance-1", name, "no").await),
        "CANCELLED" => drop(app.cancel(name).await),
        "EXPIRED" => app.pass(Duration::from_hours(25)).await,
        _ => {}
    }
    assert_eq!(app.status(name).await.status(), status);
}

#[tokio::test]
async fn after_every_kind_of_end_a_repeat_is_answered_by_what_it_made() {
    each(async |app: &mut App| {
        for status in ["CREATED", "EXECUTED", "FAILED", "REJECTED", "CANCELLED", "EXPIRED"] {
            let (keyed, bare) = (format!("keyed-{status}"), format!("bare-{status}"));
            let key = json!({"idempotency_key": format!("key-of-the-{status}-one")});
            let with_key = create(app, &keyed, key.clone()).await.text("payment_id").to_owned();
            let without = create(app, &bare, json!({})).await.text("payment_id").to_owned();
            end(app, &keyed, status).await;
            if status != "EXPIRED" {
                end(app, &bare, status).await;
            }
            if status == "FAILED" || status == "EXECUTED" {
                app.restart().await;
            }
            let again = create(app, &keyed, key).await;
            assert_eq!((again.status().as_str(), again.text("payment_id")), (status, with_key.as_str()));
            assert!(replayed(&again), "{}", again.body);
            // Without a key: the same one while it is open or executed, else a refusal that names it.
            let again = create(app, &bare, json!({})).await;
            assert_eq!(again.text("payment_id"), without, "{}", again.body);
            if status == "CREATED" || status == "EXECUTED" {
                assert!(again.status() == status && replayed(&again), "{}", again.body);
                let fresh = create(app, &bare, json!({"idempotency_key": "another-key-000001"})).await;
                assert_eq!(fresh.code(), "ORDER_ALREADY_HAS_PAYMENT");
            } else {
                assert_eq!((again.code().as_str(), again.text("status")), ("PAYMENT_TERMINAL", status));
                let fresh = json!({"idempotency_key": format!("new-key-after-{status}")});
                let next = create(app, &bare, fresh.clone()).await;
                assert_eq!((next.status().as_str(), replayed(&next)), ("CREATED", false));
                assert_ne!(next.text("payment_id"), without);
                assert!(replayed(&create(app, &bare, fresh).await));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_has_sixteen_to_255_plain_characters() {
    each(async |app: &mut App| {
        for (length, good) in [(15, false), (16, true), (255, true), (256, false)] {
            let name = format!("order-{length}");
            let answer = create(app, &name, json!({"idempotency_key": "k".repeat(length)})).await;
            assert_eq!(answer.is_error, !good, "{length}: {}", answer.body);
            if !good {
                let told = (answer.code(), answer.text("field").to_owned());
                assert_eq!(told, ("INVALID_ARGUMENT".to_owned(), "idempotency_key".to_owned()));
            }
        }
        assert_eq!((app.rows("idempotency").await, app.rows("payments").await), (2, 2));
    })
    .await;
}

#[tokio::test]
async fn sixty_four_identical_requests_are_one_payment_with_and_without_a_key() {
    each(async |app: &mut App| {
        for (name, changes) in [("bare", json!({})), ("keyed", json!({"idempotency_key": "one-key-for-64-calls"}))] {
            let agent = app.agent();
            let calls = (0..64).map(|_| app.call(&agent, "create_payment", order(name, changes.clone())));
            let answers: Vec<Answer> = futures::future::join_all(calls).await;
            assert!(answers.iter().all(|answer| answer.status() == "CREATED"), "{answers:?}");
            let ids: BTreeSet<&str> = answers.iter().map(|answer| answer.text("payment_id")).collect();
            assert_eq!((ids.len(), answers.iter().filter(|answer| !replayed(answer)).count()), (1, 1));
            let told = |answer: &Answer| {
                let mut body = answer.body.clone();
                body.as_object_mut().unwrap().remove("idempotent_replayed");
                body.to_string()
            };
            assert_eq!(answers.iter().map(told).collect::<BTreeSet<_>>().len(), 1, "{answers:?}");
        }
        assert_eq!(app.rows("payments").await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_replacement_ends_its_original_in_the_same_moment_and_is_replayed_exactly() {
    each(async |app: &mut App| {
        for (name, key) in [("bare", json!({})), ("keyed", json!({"idempotency_key": "key-of-replacement"}))] {
            let original = app.awaiting(name).await;
            let document = app.document("finance-1", name, "approve", "").await;
            let late = app.jws("finance-1", &document);
            let mut changes = json!({"amount": "150.00", "supersedes": original});
            changes.as_object_mut().unwrap().extend(key.as_object().unwrap().clone());
            let new = create(app, name, changes.clone()).await;
            assert_eq!((new.status().as_str(), replayed(&new)), ("CREATED", false), "{}", new.body);
            let by_id = |id: &str| json!({"payment_id": id});
            let old = app.call(&app.agent(), "get_payment_status", by_id(&original)).await;
            assert_eq!((old.status().as_str(), old.text("reason")), ("CANCELLED", "superseded"));
            // The original's late signature.
            let mut confirm = by_id(&original);
            confirm["signature"] = json!(late);
            let refused = app.call(&app.signer_token("finance-1"), "confirm_signing", confirm).await;
            assert_eq!(refused.code(), "PAYMENT_TERMINAL");
            assert_eq!(app.confirm("finance-1", name, &late).await.code(), "SIGNATURE_INVALID");
            // Repeated: the same one, and nothing else ends.
            for _ in 0..2 {
                let again = create(app, name, changes.clone()).await;
                assert_eq!(again.text("payment_id"), new.text("payment_id"));
                assert!(replayed(&again), "{}", again.body);
            }
            let mut other = changes.clone();
            other["memo"] = json!("else");
            let refused = create(app, name, other).await;
            assert!(refused.is_error, "{}", refused.body);
            assert_eq!(app.status(name).await.status(), "CREATED");
            app.sign(name).await;
            app.settle().await;
            assert_eq!(app.status(name).await.status(), "EXECUTED");
            assert_eq!((app.requests(&original).await, app.executions(new.text("payment_id")).await), (0, 1));
            assert_eq!(create(app, name, changes).await.status(), "EXECUTED", "a repeat still means the same");
        }
    })
    .await;
}

#[tokio::test]
async fn nothing_is_replaced_that_is_in_flight_held_ended_anothers_or_of_another_order() {
    each(async |app: &mut App| {
        let replace = |id: &str| json!({"amount": "150.00", "supersedes": id});
        // In flight.
        let flying = app.signed("flying").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": true}})).await;
        app.settle().await;
        assert_eq!(create(app, "flying", replace(&flying)).await.code(), "OUTCOME_UNKNOWN_BLOCKS");
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until("flying", "EXECUTED").await;
        assert_eq!(create(app, "flying", replace(&flying)).await.code(), "ORDER_ALREADY_HAS_PAYMENT");
        // Held.
        let held = app.awaiting("held").await;
        app.call(&app.operator(), "hold_payment", json!({"order_id": "held", "reason": "by hand"})).await;
        assert_eq!(create(app, "held", replace(&held)).await.code(), "PAYMENT_ON_MANUAL_HOLD");
        // Another's.
        let own = app.awaiting("own").await;
        let foreign = app.call(&app.other_agent(), "create_payment", order("own", replace(&own))).await;
        assert!(foreign.is_error && !foreign.body.to_string().contains("AWAITING"), "{}", foreign.body);
        // Of another order: to go on would leave both open.
        let answer = create(app, "new-order", replace(&own)).await;
        assert_eq!((answer.code().as_str(), answer.text("field")), ("INVALID_ARGUMENT", "supersedes"));
        app.awaiting("second").await;
        assert_eq!(create(app, "second", replace(&own)).await.code(), "INVALID_ARGUMENT");
        for id in ["pay_00000000000000000000000000", "nonsense", ""] {
            assert_eq!(create(app, "own", replace(id)).await.code(), "INVALID_ARGUMENT", "{id}");
        }
        assert_eq!(app.status("own").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.rows("payments").await, 4);
        // What has ended unpaid needs no replacing, only a new key.
        app.cancel("own").await;
        assert_eq!(create(app, "own", replace(&own)).await.code(), "PAYMENT_TERMINAL");
        let mut keyed = replace(&own);
        keyed["idempotency_key"] = json!("after-it-was-cancelled");
        assert_eq!(create(app, "own", keyed).await.status(), "CREATED");
        // Signed, and nothing sent: it can still be replaced.
        let signed = app.signed("signed").await;
        assert_eq!(create(app, "signed", replace(&signed)).await.status(), "CREATED");
        app.settle().await;
        assert_eq!(app.requests(&signed).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_replacement_and_a_signature_at_the_same_moment_leave_one_that_can_be_paid() {
    each(async |app: &mut App| {
        for round in 0..12 {
            let name = format!("order-{round}");
            let original = app.awaiting(&name).await;
            let document = app.document("finance-1", &name, "approve", "").await;
            let jws = app.jws("finance-1", &document);
            let changes = json!({"amount": "150.00", "supersedes": original});
            let (new, twin, _, ()) = tokio::join!(
                create(app, &name, changes.clone()),
                create(app, &name, changes.clone()),
                app.confirm("finance-1", &name, &jws),
                app.settle()
            );
            app.settle().await;
            let open =
                format!("SELECT payment_id FROM payments WHERE order_id = '{name}' AND status NOT IN ('CANCELLED')");
            assert_eq!(app.db.raw().await.texts(&open).await.len(), 1, "{} and {}", new.body, twin.body);
            if new.is_error {
                assert_eq!(app.executions(&original).await, 1, "{}", new.body);
            } else {
                assert_eq!(app.requests(&original).await, 0);
                assert_eq!(twin.text("payment_id"), new.text("payment_id"), "{}", twin.body);
            }
        }
    })
    .await;
}
