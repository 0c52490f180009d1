//! Creating and reading payments: exact or refused, once per order, visible to whom it belongs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use countersign::domain::Role;
use serde_json::{Value, json};

use crate::harness::app::{App, Wishes, each, each_with, two_must_approve};
use crate::harness::json_schema::faults;
use crate::harness::peer::Weather;
use crate::harness::rpc::{Answer, spec};

const CREATE: &str = "create_payment";

fn minimal(order: &str) -> Value {
    json!({"order_id": order, "amount": "199.00", "signer_id": "finance-1"})
}

/// `minimal` with members set; `null` leaves one out.
fn with(order: &str, changes: &Value) -> Value {
    let mut arguments = minimal(order);
    for (key, value) in changes.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    arguments
}

#[tokio::test]
async fn the_same_request_is_the_same_payment() {
    each(async |app: &mut App| {
        let first = app.create("order-1").await;
        assert!(first.body["idempotent_replayed"].is_null());
        // Spelt otherwise, it still means the same.
        for same in [
            minimal("order-1"),
            json!({"amount": "199.00", "signer_id": "finance-1", "order_id": "order-1"}),
            with("order-1", &json!({"amount": "199"})),
            with("order-1", &json!({"currency": "USD", "payee": "demo-payee-001", "memo": ""})),
            with("order-1", &json!({"signer_id": null, "signers": ["finance-1"]})),
            with("order-1", &json!({"notify": false})),
        ] {
            let again = app.call(&app.agent(), CREATE, same.clone()).await;
            assert_eq!(again.text("payment_id"), first.text("payment_id"), "{same}");
            assert_eq!(again.body["idempotent_replayed"], true, "{same}");
        }
        assert_eq!(app.rows("payments").await, 1);
        // Anything else under the order is refused, and says which payment there is.
        for other in [
            json!({"amount": "199.01"}),
            json!({"currency": "EUR"}),
            json!({"payee": "someone-else"}),
            json!({"memo": "x"}),
            json!({"signer_id": "finance-2"}),
            json!({"idempotency_key": "a-key-of-16-chars"}),
        ] {
            let refused = app.call(&app.agent(), CREATE, with("order-1", &other)).await;
            assert_eq!(refused.code(), "ORDER_ALREADY_HAS_PAYMENT", "{other}");
            assert_eq!(refused.text("payment_id"), first.text("payment_id"), "{other}");
        }
        assert_eq!(app.rows("payments").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_key_is_one_request_for_ever() {
    each(async |app: &mut App| {
        let keyed = json!({"idempotency_key": "key-of-this-payment-1"});
        let first = app.call(&app.agent(), CREATE, with("order-1", &keyed)).await;
        let again = app.call(&app.agent(), CREATE, with("order-1", &keyed)).await;
        assert_eq!(again.text("payment_id"), first.text("payment_id"));
        assert_eq!(again.body["idempotent_replayed"], true);
        for other in [
            with("order-1", &json!({"idempotency_key": "key-of-this-payment-1", "amount": "200.00"})),
            with("order-2", &keyed),
        ] {
            let refused = app.call(&app.agent(), CREATE, other).await;
            assert_eq!(
                (refused.code().as_str(), &refused.body["retryable"]),
                ("IDEMPOTENCY_KEY_REUSED", &json!(false))
            );
            assert!(!refused.body.to_string().contains(first.text("payment_id")), "{}", refused.body);
        }
        // Another agent's key of that name is another key.
        let foreign = app.call(&app.other_agent(), CREATE, with("order-2", &keyed)).await;
        assert_eq!(foreign.status(), "CREATED");
        // The answer is the payment as it stands now, also a day later and after its end.
        assert_eq!(app.cancel("order-1").await.status(), "CANCELLED");
        app.pass(Duration::from_hours(24)).await;
        let later = app.call(&app.agent(), CREATE, with("order-1", &keyed)).await;
        assert_eq!((later.text("payment_id"), later.status().as_str()), (first.text("payment_id"), "CANCELLED"));
        for bad in ["short", "key-of-this-payment-1 ", "", "key of this payment 1", &"k".repeat(10_000)] {
            let refused = app.call(&app.agent(), CREATE, with("order-3", &json!({"idempotency_key": bad}))).await;
            assert_eq!(
                (refused.code().as_str(), refused.text("field")),
                ("INVALID_ARGUMENT", "idempotency_key"),
                "{bad}"
            );
        }
        assert_eq!(app.rows("payments").await, 2);
    })
    .await;
}

#[tokio::test]
async fn an_order_that_ended_unpaid_is_paid_anew_only_under_a_new_key() {
    each(async |app: &mut App| {
        let keyed = |key: &str| with("order-1", &json!({"idempotency_key": key}));
        let first = app.call(&app.agent(), CREATE, keyed("first-key-0000001")).await;
        app.cancel("order-1").await;
        let without = app.create("order-1").await;
        assert_eq!((without.code().as_str(), without.text("status")), ("PAYMENT_TERMINAL", "CANCELLED"));
        assert_eq!(without.text("payment_id"), first.text("payment_id"), "it names the one that ended");
        let second = app.call(&app.agent(), CREATE, keyed("second-key-000001")).await;
        assert_eq!(second.status(), "CREATED");
        assert_ne!(second.text("payment_id"), first.text("payment_id"));
        assert_eq!(
            app.status("order-1").await.text("payment_id"),
            second.text("payment_id"),
            "an order means its latest"
        );
        let old = app.call(&app.agent(), "get_payment_status", json!({"payment_id": first.text("payment_id")})).await;
        assert_eq!(old.status(), "CANCELLED");
        // A third key while the second is open: no.
        assert_eq!(
            app.call(&app.agent(), CREATE, keyed("third-key-0000001")).await.code(),
            "ORDER_ALREADY_HAS_PAYMENT"
        );
        // Executed: never again, under any key.
        app.notify("order-1").await;
        app.sign("order-1").await;
        app.settle().await;
        for key in ["third-key-0000001", "fourth-key-000001"] {
            assert_eq!(app.call(&app.agent(), CREATE, keyed(key)).await.code(), "ORDER_ALREADY_HAS_PAYMENT");
        }
        assert_eq!(app.call(&app.agent(), CREATE, keyed("first-key-0000001")).await.status(), "CANCELLED");
    })
    .await;
}

#[tokio::test]
async fn thirty_two_identical_creates_at_once_are_one_payment() {
    each(async |app: &mut App| {
        for (order, changes) in
            [("order-1", json!({})), ("order-2", json!({"idempotency_key": "one-key-for-all-of-them"}))]
        {
            let agent = app.agent();
            let calls = (0..32).map(|_| app.call(&agent, CREATE, with(order, &changes)));
            let answers: Vec<Answer> = futures::future::join_all(calls).await;
            let ids: BTreeSet<&str> = answers.iter().map(|answer| answer.text("payment_id")).collect();
            assert!(answers.iter().all(|answer| answer.status() == "CREATED"), "{answers:?}");
            assert_eq!(ids.len(), 1);
            let fresh = answers.iter().filter(|answer| answer.body["idempotent_replayed"].is_null()).count();
            assert_eq!(fresh, 1);
        }
        assert_eq!((app.rows("payments").await, app.rows("idempotency").await), (2, 1));
    })
    .await;
}

#[tokio::test]
async fn one_key_for_two_requests_at_once_serves_one_and_refuses_the_other() {
    each(async |app: &mut App| {
        for round in 0..5 {
            let agent = app.agent();
            let key = format!("raced-key-number-{round}");
            let call = |n: u32| {
                let changes = json!({"idempotency_key": key, "amount": format!("{}.00", 1 + n % 2)});
                app.call(&agent, CREATE, with(&format!("order-{round}"), &changes))
            };
            let answers = futures::future::join_all((0..16).map(call)).await;
            let ids: BTreeSet<&str> = answers.iter().filter(|a| !a.is_error).map(|a| a.text("payment_id")).collect();
            assert_eq!(ids.len(), 1, "{answers:?}");
            let refused: BTreeSet<String> = answers.iter().filter(|a| a.is_error).map(Answer::code).collect();
            assert_eq!(refused, BTreeSet::from(["IDEMPOTENCY_KEY_REUSED".to_owned()]));
            let amounts: BTreeSet<&str> = answers.iter().filter(|a| !a.is_error).map(|a| a.text("amount")).collect();
            assert_eq!(amounts.len(), 1, "nobody is shown the other's result");
        }
    })
    .await;
}

#[tokio::test]
async fn nobody_sees_or_touches_what_is_not_theirs() {
    each(async |app: &mut App| {
        let id = app.create("order-1").await.text("payment_id").to_owned();
        let stranger = app.token("other-tenant", "agent-1", "agent-1", &[Role::Agent]);
        let operator = app.token("other-tenant", "operator-1", "operator-1", &[Role::Operator]);
        let auditor = app.token("other-tenant", "auditor-1", "auditor-1", &[Role::Auditor]);
        let signer = app.token("other-tenant", "finance-1", "finance-1", &[Role::Signer]);
        let other = app.other_agent();
        for selector in [json!({"order_id": "order-1"}), json!({"payment_id": id})] {
            for (token, tools) in [
                (&other, &["get_payment_status", "notify_signer", "get_sign_link", "check_sign_status", "cancel_payment"][..]),
                (&stranger, &["get_payment_status", "notify_signer", "get_sign_link", "check_sign_status", "cancel_payment"]),
                (&operator, &["get_payment_status", "resend_notification", "cancel_payment"]),
                (&auditor, &["get_payment_status"]),
                (&signer, &["get_payment_status", "get_approval"]),
            ] {
                for tool in tools {
                    let answer = app.call(token, tool, selector.clone()).await;
                    assert_eq!(answer.code(), "PAYMENT_NOT_FOUND", "{tool}");
                    // As if it were not there at all.
                    let nothing = app.call(token, tool, json!({"order_id": "order-0"})).await;
                    assert_eq!(nothing.code(), "PAYMENT_NOT_FOUND");
                    assert!(answer.body["status"].is_null() && !answer.body.to_string().contains("199.00"), "{}", answer.body);
                }
            }
        }
        for token in [&other, &stranger, &operator, &auditor] {
            assert_eq!(app.call(token, "list_payments", json!({})).await.body["payments"], json!([]));
        }
        assert_eq!(app.call(&signer, "list_approvals", json!({})).await.body["approvals"], json!([]));
        // Another agent can't take the order, nor learn whose it is; another tenant's order is its own.
        let taken = app.call(&other, CREATE, minimal("order-1")).await;
        assert_eq!(taken.code(), "ORDER_ALREADY_HAS_PAYMENT");
        assert!(!taken.body.to_string().contains(&id), "{}", taken.body);
        assert_eq!(app.call(&stranger, CREATE, minimal("order-1")).await.status(), "CREATED");
        // Those who may, do.
        for token in [&app.operator(), &app.auditor()] {
            assert_eq!(app.call(token, "list_payments", json!({})).await.body["payments"][0]["payment_id"], id.as_str());
        }
        assert_eq!(app.status("order-1").await.status(), "CREATED");
    })
    .await;
}

/// Holds that the person sees this amount in dollars, and that the rail is asked for it.
async fn seen_and_sent(app: &App, order: &str, payment: &str, decimal: &str, minor: i64) {
    let status = app.status(order).await;
    assert_eq!((status.text("amount"), &status.body["amount_minor"]), (decimal, &json!(minor)));
    let link = app.call(&app.agent(), "get_sign_link", json!({"order_id": order})).await;
    let page = app.http.get(link.text("sign_url")).send().await.unwrap().text().await.unwrap();
    let shown: String = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    assert!(shown.contains(&format!("{decimal} USD")), "{decimal}: {shown}");
    assert_eq!(app.sign(order).await.status(), "SIGNED");
    app.settle().await;
    let sql = format!("SELECT body FROM effects WHERE kind = 'rail.execute' AND payment_id = '{payment}'");
    let sent: Value = serde_json::from_str(&app.db.raw().await.texts(&sql).await[0]).unwrap();
    assert_eq!((&sent["amount_minor"], &sent["currency"]), (&json!(minor.to_string()), &json!("USD")), "{sent}");
    assert_eq!(app.executions(payment).await, 1);
}

#[tokio::test]
async fn b10_the_amount_is_exact_or_refused() {
    let exact = [
        (r#""0.01""#, "0.01", 1_i64),
        (r#""19.99""#, "19.99", 1_999),
        ("19.99", "19.99", 1_999),
        ("8.29", "8.29", 829),
        ("1.10", "1.10", 110),
        ("1.1", "1.10", 110),
        ("199", "199.00", 19_900),
        ("199.0", "199.00", 19_900),
        (r#""10000000000000.00""#, "10000000000000.00", 1_000_000_000_000_000),
        ("9999999999999.99", "9999999999999.99", 999_999_999_999_999),
    ];
    let refused = [
        "0",
        "-1",
        "-0",
        "0.00",
        "0.30000000000000004",
        "1.005",
        r#""1.005""#,
        r#""10000000000000.01""#,
        "90071992547409.93",
        "9223372036854775808",
        "18446744073709551616",
        "1e400",
        "1e-400",
        "1e2",
        "1E2",
        "1e999999999",
        r#""1e999999999""#,
        r#""1e2""#,
        r#""NaN""#,
        r#""Infinity""#,
        r#""12,50""#,
        r#"" 5""#,
        r#""5 ""#,
        r#""+5""#,
        r#""-5""#,
        r#""0x10""#,
        r#""٥""#,
        r#""５""#,
        r#""""#,
        r#"".5""#,
        r#""5.""#,
        r#""05""#,
        r#""1_000""#,
        r#""1 000""#,
        "true",
        "null",
        "[5]",
        r#"{"v":5}"#,
        r#"["5"]"#,
    ];
    each(async |app: &mut App| {
        let agent = app.agent();
        for (number, (text, decimal, minor)) in exact.iter().enumerate() {
            let order = format!("exact-{number}");
            let arguments = format!(r#"{{"order_id":"{order}","amount":{text},"signer_id":"finance-1"}}"#);
            let created = app.rpc().call_text(&agent, CREATE, &arguments).await.answer();
            assert_eq!((created.text("amount"), &created.body["amount_minor"]), (*decimal, &json!(minor)), "{text}");
            let document = app.payment(&order).await.document;
            assert!(document.contains(&format!(r#""amount_minor":"{minor}""#)), "what is signed: {document}");
            seen_and_sent(app, &order, created.text("payment_id"), decimal, *minor).await;
        }
        let before = app.rows("payments").await;
        for text in refused {
            let arguments = format!(r#"{{"order_id":"refused","amount":{text},"signer_id":"finance-1"}}"#);
            let began = Instant::now();
            let answer = app.rpc().call_text(&agent, CREATE, &arguments).await.answer();
            assert!(began.elapsed() < Duration::from_secs(1), "{text}");
            assert!(
                ["AMOUNT_INVALID", "AMOUNT_PRECISION"].contains(&answer.code().as_str()),
                "{text}: {}",
                answer.body
            );
            assert_eq!((answer.text("field"), &answer.body["retryable"]), ("amount", &json!(false)), "{text}");
        }
        for text in ["NaN", "Infinity", "01", "+5", "5,0", ".5", "0x10"] {
            let arguments = format!(r#"{{"order_id":"refused","amount":{text}}}"#);
            let raw = app.rpc().call_text(&agent, CREATE, &arguments).await;
            assert_eq!((raw.status, raw.rpc_error()), (400, -32_700), "{text} is not JSON: {}", raw.text);
        }
        // Exponents of currencies.
        for (amount, currency, code) in [
            ("100.0", "JPY", "AMOUNT_PRECISION"),
            ("100.00", "JPY", "AMOUNT_PRECISION"),
            ("1", "XXX", "CURRENCY_UNSUPPORTED"),
            ("1", "ZZZ", "CURRENCY_UNSUPPORTED"),
            ("1", "usd", "CURRENCY_UNSUPPORTED"),
            ("1", "KWD", "CURRENCY_UNSUPPORTED"),
            ("1", "", "CURRENCY_UNSUPPORTED"),
        ] {
            let changes = json!({"amount": amount, "currency": currency});
            assert_eq!(app.call(&agent, CREATE, with("refused", &changes)).await.code(), code, "{amount} {currency}");
        }
        assert_eq!(app.rows("payments").await, before, "nothing was written");
        let yen = app.call(&agent, CREATE, with("yen", &json!({"amount": "100", "currency": "JPY"}))).await;
        assert_eq!((yen.text("amount"), &yen.body["amount_minor"]), ("100", &json!(100)));
    })
    .await;
}

#[tokio::test]
async fn b11_what_is_misspelt_or_of_the_wrong_type_is_named_and_refused() {
    let ok = r#""order_id":"order-1","amount":"1.00""#;
    let rows = [
        ("{}".to_owned(), "INVALID_ARGUMENT", "order_id"),
        (format!(r#"{{{ok},"currrency":"EUR"}}"#), "INVALID_ARGUMENT", "currrency"),
        (format!(r#"{{{ok},"dry_run":true}}"#), "INVALID_ARGUMENT", "dry_run"),
        (r#"{"order_id":"order-1","Amount":"1.00"}"#.to_owned(), "AMOUNT_INVALID", "amount"),
        (format!(r#"{{{ok},"_meta":{{}}}}"#), "INVALID_ARGUMENT", "_meta"),
        (format!(r#"{{{ok},"memo":7}}"#), "INVALID_ARGUMENT", "memo"),
        (format!(r#"{{{ok},"notify":"true"}}"#), "INVALID_ARGUMENT", "notify"),
        (format!(r#"{{{ok},"notify":1}}"#), "INVALID_ARGUMENT", "notify"),
        (format!(r#"{{{ok},"signers":"finance-1"}}"#), "INVALID_ARGUMENT", "signers"),
        (format!(r#"{{{ok},"signers":[1]}}"#), "INVALID_ARGUMENT", "signers"),
        (r#"{"order_id":7,"amount":"1.00"}"#.to_owned(), "INVALID_ARGUMENT", "order_id"),
        (r#"{"order_id":"","amount":"1.00"}"#.to_owned(), "INVALID_ARGUMENT", "order_id"),
        (r#"{"order_id":"a b","amount":"1.00"}"#.to_owned(), "INVALID_ARGUMENT", "order_id"),
        (format!(r#"{{"order_id":"{}","amount":"1.00"}}"#, "x".repeat(65)), "INVALID_ARGUMENT", "order_id"),
        (format!(r#"{{{ok},"payee":"no spaces please"}}"#), "INVALID_ARGUMENT", "payee"),
        (format!(r#"{{{ok},"memo":"{}"}}"#, "x".repeat(1_000)), "INVALID_ARGUMENT", "memo"),
        (format!(r#"{{{ok},"memo":"a\u202eb"}}"#), "TEXT_NOT_CANONICAL", "memo"),
        (format!(r#"{{{ok},"memo":"a\u0000b"}}"#), "TEXT_NOT_CANONICAL", "memo"),
        (format!(r#"{{{ok},"amount":"2.00"}}"#), "DUPLICATE_JSON_KEY", ""),
        (format!(r#"{{{ok},"\u0061mount":"2.00"}}"#), "DUPLICATE_JSON_KEY", ""),
    ];
    each(async |app: &mut App| {
        let agent = app.agent();
        for (arguments, code, named) in &rows {
            let answer = app.rpc().call_text(&agent, CREATE, arguments).await.answer();
            assert_eq!(answer.code(), *code, "{arguments}: {}", answer.body);
            assert!(answer.text("error_message").contains(named), "{arguments}: {}", answer.body);
            // What a schema can say, the published one says too; which text is clean and which key is twice, it can't.
            let schema = Value::Object(spec(CREATE).input_schema());
            let parsed: Value = serde_json::from_str(arguments).unwrap();
            let beyond = ["TEXT_NOT_CANONICAL", "DUPLICATE_JSON_KEY"].contains(code);
            assert_eq!(faults(&schema, &schema, &parsed).is_empty(), beyond, "{arguments}");
        }
        // Not an object at all: told as an error result or as JSON-RPC's invalid params, never a crash.
        for arguments in ["[]", "\"text\"", "7", "true", &json!(format!("{{{ok}}}")).to_string()] {
            let raw = app.rpc().call_text(&agent, CREATE, arguments).await;
            let told = raw.rpc_error() == -32_602 || raw.json()["result"]["isError"] == true;
            assert!(told, "{arguments}: {} {}", raw.status, raw.text);
        }
        for params in [json!({"name": CREATE}), json!({"name": CREATE, "arguments": null})] {
            let raw = app.rpc().request(&agent, "tools/call", params.clone()).await;
            let told = raw.rpc_error() == -32_602 || raw.json()["result"]["isError"] == true;
            assert!(told, "{params}: {} {}", raw.status, raw.text);
        }
        assert_eq!(app.rows("payments").await, 0);
        // A null is an absent member, and _meta belongs beside the arguments.
        let nulls = with("order-2", &json!({"memo": null, "payee": null, "currency": null, "signers": null, "notify": null, "idempotency_key": null}));
        let schema = Value::Object(spec(CREATE).input_schema());
        assert_eq!(faults(&schema, &schema, &nulls), Vec::<String>::new());
        assert_eq!(app.call(&agent, CREATE, nulls).await.status(), "CREATED");
        let beside = json!({"name": CREATE, "arguments": minimal("order-3"), "_meta": {"progressToken": 1}});
        assert_eq!(app.rpc().request(&agent, "tools/call", beside).await.answer().status(), "CREATED");
    })
    .await;
}

#[tokio::test]
async fn what_another_call_is_doing_right_now_is_told_and_can_be_repeated() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        app.create("order-1").await;
        app.signer.once("POST /api/v1/payments", Weather::Slow(700));
        let asked = app.signer.count("POST", "/payments");
        let link = async || app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        let second = async {
            while app.signer.count("POST", "/payments") == asked {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            link().await
        };
        let (notified, told) = tokio::join!(app.notify("order-1"), second);
        assert_eq!(notified.status(), "AWAITING_SIGNER");
        assert_eq!((told.code().as_str(), &told.body["retryable"]), ("IDEMPOTENCY_IN_PROGRESS", &json!(true)));
        assert_eq!(told.body["retry_after_ms"], 1_000);
        assert!(!link().await.is_error);
    })
    .await;
}

#[tokio::test]
async fn lists_are_pages_newest_first_and_by_status() {
    each(async |app: &mut App| {
        let agent = app.agent();
        for number in 0..45 {
            app.call(&agent, CREATE, minimal(&format!("order-{number:02}"))).await;
        }
        for number in 0..3 {
            app.cancel(&format!("order-{number:02}")).await;
        }
        app.call(&app.other_agent(), CREATE, minimal("not-ours")).await;
        for (arguments, expected) in
            [(json!({}), 45), (json!({"status": "CREATED"}), 42), (json!({"status": "CANCELLED"}), 3)]
        {
            let (mut seen, mut cursor) = (Vec::new(), Value::Null);
            loop {
                let mut page = arguments.clone();
                page["cursor"] = cursor;
                let answer = app.call(&agent, "list_payments", page).await;
                let rows = answer.body["payments"].as_array().unwrap();
                assert!(rows.len() <= 20);
                seen.extend(rows.iter().map(|row| row["order_id"].as_str().unwrap().to_owned()));
                cursor = answer.body["next_cursor"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            assert_eq!(seen.len(), expected, "{arguments}");
            assert!(seen.is_sorted_by(|newer, older| newer > older), "{seen:?}");
        }
        for bad in [json!({"status": "PAID"}), json!({"cursor": "x"}), json!({"limit": 5})] {
            assert_eq!(app.call(&agent, "list_payments", bad).await.code(), "INVALID_ARGUMENT");
        }
        let mut approvals = 0;
        let mut cursor = Value::Null;
        loop {
            let page = app.call(&app.signer_token("finance-2"), "list_approvals", json!({"cursor": cursor})).await;
            approvals += page.body["approvals"].as_array().unwrap().len();
            cursor = page.body["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(approvals, 43);
    })
    .await;
}

#[tokio::test]
async fn a_waiting_status_call_ends_with_the_change_or_with_its_time() {
    each_with(two_must_approve(), async |app: &mut App| {
        app.awaiting("order-1").await;
        let agent = app.agent();
        let began = Instant::now();
        let wait =
            |wait_ms: u64| app.call(&agent, "get_payment_status", json!({"order_id": "order-1", "wait_ms": wait_ms}));
        let version = app.payment("order-1").await.version;
        let same = wait(300).await;
        assert!(began.elapsed() >= Duration::from_millis(300));
        assert_eq!((same.status().as_str(), app.payment("order-1").await.version), ("AWAITING_SIGNER", version));
        let began = Instant::now();
        let (changed, signed) = tokio::join!(wait(20_000), app.sign("order-1"));
        assert_eq!(signed.status(), "AWAITING_SIGNER", "one of two");
        assert!(began.elapsed() < Duration::from_secs(5), "it did not sit its time out");
        let told = json!({"have": 1, "need": 2, "by": ["finance-1"], "missing": {"finance": 1}});
        assert_eq!(changed.body["approvals"], told);
        app.cancel("order-1").await;
        let began = Instant::now();
        assert_eq!(wait(20_000).await.status(), "CANCELLED");
        assert!(began.elapsed() < Duration::from_secs(2), "nothing changes again: no wait");
        for bad in [json!(25_001), json!(-1), json!("5"), json!(1.5), json!(true)] {
            let arguments = json!({"order_id": "order-1", "wait_ms": bad});
            let answer = app.call(&agent, "get_payment_status", arguments).await;
            assert_eq!((answer.code().as_str(), answer.text("field")), ("INVALID_ARGUMENT", "wait_ms"), "{bad}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_waiting_status_call_ends_before_a_short_deadline_of_calls() {
    let short = Wishes::default().config(|config| config.server.call_deadline_ms = 2_000);
    each_with(short, async |app: &mut App| {
        app.create("order-1").await;
        let began = Instant::now();
        let arguments = json!({"order_id": "order-1", "wait_ms": 20_000});
        let answer = app.call(&app.agent(), "get_payment_status", arguments).await;
        assert_eq!(answer.status(), "CREATED", "{}", answer.body);
        assert!(began.elapsed() >= Duration::from_millis(400), "it waited");
    })
    .await;
}

#[tokio::test]
async fn a_status_answer_stays_small_in_every_state() {
    each(async |app: &mut App| {
        // The longest of everything that a caller chooses; App::status holds each answer to one KiB.
        let create = async |state: &str| {
            let order = format!("{state}-{}", "o".repeat(63 - state.len()));
            let arguments = json!({"order_id": order, "amount": "9999999999999.99", "memo": "m".repeat(140), "payee": "p".repeat(64)});
            let created = app.call(&app.agent(), CREATE, arguments).await;
            assert_eq!(created.status(), "CREATED", "{}", created.body);
            order
        };
        let is = async |order: &str| assert!(order.starts_with(&app.status(order).await.status()), "{order}");
        is(&create("CREATED").await).await;
        let order = create("AWAITING_SIGNER").await;
        app.notify(&order).await;
        is(&order).await;
        let order = create("REJECTED").await;
        app.reject("finance-1", &order, &"r".repeat(200)).await;
        is(&order).await;
        let order = create("CANCELLED").await;
        app.cancel(&order).await;
        is(&order).await;
        let order = create("EXECUTED").await;
        app.sign(&order).await;
        app.settle().await;
        is(&order).await;
        let order = create("FAILED").await;
        app.sign(&order).await;
        app.next_fault("refuse").await;
        app.settle().await;
        is(&order).await;
        let doubt = create("SIGNED").await;
        app.sign(&doubt).await;
        app.faults(json!({"next": [{"kind": "wrong_amount"}], "standing": {"lookup_down": true}})).await;
        app.settle().await;
        app.cancel(&doubt).await;
        let told = app.status(&doubt).await;
        assert_eq!((told.text("cancel"), &told.body["attention"]), ("CANCEL_PENDING", &json!(["INTEGRITY_MISMATCH"])));
        is(&doubt).await;
        app.signer_online(false).await;
        let order = create("SIGNER_UNREACHABLE").await;
        app.notify(&order).await;
        is(&order).await;
        let order = create("NEED_MANUAL").await;
        app.until(&order, "NEED_MANUAL").await;
        is(&order).await;
        let order = create("EXPIRED").await;
        app.pass(Duration::from_hours(25)).await;
        is(&order).await;
        app.faults(json!({"standing": {"lookup_down": false}})).await;
    })
    .await;
}
