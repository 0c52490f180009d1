//! The policy in force, seen through the whole desk: who is asked, who is refused, what is kept at execution.

use std::time::Duration;

use countersign::domain::Role;
use countersign::proof::PaymentDocument;
use serde_json::{Value, json};

use crate::harness::app::{App, POLICY, Wishes, each_with, settle};
use crate::harness::rpc::Answer;

/// Three people of finance and two of the board; `rest` is appended.
pub(crate) fn policy(rest: &str) -> String {
    let groups = "finance = [\"finance-1\", \"finance-2\", \"finance-3\"]\nboard = [\"board-1\", \"board-2\"]";
    let text = POLICY.replace("finance = [\"finance-1\", \"finance-2\"]", groups);
    assert_ne!(text, POLICY);
    format!("{text}\n{rest}\n")
}

/// Runs a test on each engine, under the shipped policy.
pub(crate) async fn each(body: impl AsyncFn(&mut App)) {
    each_with(Wishes::default().patient(), body).await;
}

fn ruled(rest: &str) -> Wishes {
    Wishes::default().patient().policy(policy(rest))
}

/// From a thousand dollars on: two of finance, then one of the board.
const LARGE: &str = r#"
[[rule]]
id = "large"
currency = "USD"
amount_at_least = "1000.00"
levels = [{ group = "finance", required = 2 }, { group = "board", required = 1 }]
"#;

async fn propose(app: &App, order: &str, changes: Value) -> Answer {
    let mut arguments = json!({"order_id": order, "amount": "199.00", "notify": true});
    for (key, value) in changes.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    app.call(&app.agent(), "create_payment", arguments).await
}

/// The orders that wait for a person, as they are listed to them.
async fn waiting(app: &App, person: &str) -> Vec<String> {
    let list = app.call(&app.signer_token(person), "list_approvals", json!({})).await;
    let rows = list.body["approvals"].as_array().unwrap();
    rows.iter().map(|row| row["order_id"].as_str().unwrap().to_owned()).collect()
}

fn have(answer: &Answer) -> (u64, u64) {
    let count = |key: &str| answer.body["approvals"][key].as_u64().unwrap();
    (count("have"), count("need"))
}

/// The policy changes on another process: the same database, its own file.
pub(crate) async fn under(app: &mut App, text: String) {
    app.change_policy(text);
    let other = app.another(None).await;
    settle(&other).await;
}

#[tokio::test]
async fn the_amount_chooses_the_rule_and_levels_are_asked_one_after_the_other() {
    each_with(ruled(LARGE), async |app: &mut App| {
        let small = propose(app, "small", json!({"amount": "999.99"})).await;
        assert_eq!(have(&small), (0, 1));
        let large = propose(app, "large", json!({"amount": "1000.00"})).await;
        assert_eq!((large.status().as_str(), have(&large)), ("AWAITING_SIGNER", (0, 3)));
        let id = large.text("payment_id").to_owned();
        assert_eq!(app.asked(&id).await, [["finance-1", "finance-2", "finance-3"]], "the first level, all of it");
        let document = app.payment("large").await.document;
        let signed = PaymentDocument::parse(&document).unwrap();
        assert_eq!((signed.required.as_str(), signed.policy_id.as_str()), ("2 of finance, then 1 of board", "default"));

        // The board is not asked yet: not listed, and refused, whatever it says.
        assert_eq!(waiting(app, "board-1").await, [""; 0]);
        for answer in [app.sign_as("board-1", "large").await, app.reject("board-2", "large", "no").await] {
            assert_eq!(answer.code(), "LEVEL_NOT_OPEN", "{}", answer.body);
            assert_eq!((&answer.body["retryable"], answer.body["retry_after_ms"].is_u64()), (&json!(true), true));
        }
        assert_eq!(have(&app.sign_as("finance-1", "large").await), (1, 3));
        assert_eq!(app.sign_as("board-1", "large").await.code(), "LEVEL_NOT_OPEN", "one of two is not a level");
        app.settle().await;
        assert_eq!(app.asked(&id).await.len(), 1, "nobody is told twice");
        assert_eq!(have(&app.sign_as("finance-3", "large").await), (2, 3));

        // Now it is, and is told.
        assert_eq!(waiting(app, "board-1").await, ["large"]);
        app.settle().await;
        assert_eq!(app.asked(&id).await[1], ["board-1", "board-2"]);
        // Whoever of finance comes too late has nothing to decide: no error, and no effect.
        for decision in [app.sign_as("finance-2", "large").await, app.sign_as("finance-2", "large").await] {
            assert_eq!((decision.status().as_str(), have(&decision)), ("AWAITING_SIGNER", (2, 3)));
        }
        assert_eq!(waiting(app, "finance-2").await, ["small"]);
        assert_eq!(app.requests(&id).await, 0);
        let last = app.sign_as("board-2", "large").await;
        assert_eq!((last.status().as_str(), have(&last)), ("SIGNED", (3, 3)));
        app.settle().await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_level_two_refusal_ends_it_and_too_late_a_refusal_of_level_one_does_not() {
    each_with(ruled(LARGE), async |app: &mut App| {
        for order in ["ended", "goes-on"] {
            propose(app, order, json!({"amount": "5000.00"})).await;
            app.sign_as("finance-1", order).await;
            app.sign_as("finance-2", order).await;
        }
        assert_eq!(app.reject("board-1", "ended", "too much").await.status(), "REJECTED");
        let late = app.reject("finance-3", "goes-on", "I had rather not").await;
        assert_eq!((late.status().as_str(), have(&late)), ("AWAITING_SIGNER", (2, 3)), "{}", late.body);
        assert_eq!(app.sign_as("board-1", "goes-on").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.status("goes-on").await.status(), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn a_level_that_opens_while_its_people_are_away_is_asked_again_and_again_and_then_a_persons_task() {
    each_with(ruled(LARGE), async |app: &mut App| {
        let id = propose(app, "order-1", json!({"amount": "5000.00"})).await.text("payment_id").to_owned();
        for person in ["board-1", "board-2"] {
            app.presence(person, false).await;
        }
        app.sign_as("finance-1", "order-1").await;
        app.sign_as("finance-2", "order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "SIGNER_UNREACHABLE");
        app.until("order-1", "NEED_MANUAL").await;
        let asked = app.asked(&id).await;
        assert!(asked[1..].iter().all(|people| people == &["board-1", "board-2"]), "{asked:?}");
        assert_eq!(app.sign_as("board-1", "order-1").await.status(), "SIGNED", "a late signature still counts");
        app.settle().await;
    })
    .await;
}

#[tokio::test]
async fn a_rule_that_denies_and_a_payee_that_is_not_allowed_write_no_payment() {
    let rules = r#"
[[rule]]
id = "never"
payees = ["acct-of-nobody"]
deny = true
[payees]
only_known = true
denied = ["acct-frozen"]
[payees.known]
acct-1 = "ACME GmbH"
acct-of-nobody = "Nobody"
"#;
    each_with(ruled(rules), async |app: &mut App| {
        for (payee, code) in [
            ("acct-of-nobody", "POLICY_DENIED"),
            ("acct-frozen", "PAYEE_NOT_ALLOWED"),
            ("acct-2", "PAYEE_NOT_ALLOWED"),
            ("ACCT-1", "PAYEE_NOT_ALLOWED"),
        ] {
            let refused = propose(app, "order-1", json!({"payee": payee})).await;
            assert_eq!((refused.code().as_str(), &refused.body["retryable"]), (code, &json!(false)), "{payee}");
            assert!(!refused.body.to_string().contains("ACME"), "{}", refused.body);
        }
        assert_eq!(app.rows("payments").await, 0);
        // The verified name is what people sign and see, and what the rail is told.
        let id = propose(app, "order-1", json!({"payee": "acct-1"})).await.text("payment_id").to_owned();
        let payment = app.payment("order-1").await;
        assert_eq!(PaymentDocument::parse(&payment.document).unwrap().payee_name, "ACME GmbH");
        let link = app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        let page = app.http.get(link.text("sign_url")).send().await.unwrap().text().await.unwrap();
        assert!(page.contains("ACME GmbH") && page.contains("acct-1"), "{page}");
        app.sign("order-1").await;
        app.settle().await;
        let sent = format!("SELECT body FROM effects WHERE kind = 'rail.execute' AND payment_id = '{id}'");
        assert!(app.db.raw().await.texts(&sent).await[0].contains("ACME GmbH"));
    })
    .await;
}

#[tokio::test]
async fn without_any_reject_a_no_ends_it_only_when_the_quorum_is_out_of_reach() {
    let rules = "[[rule]]\nid = \"majority\"\ncurrency = \"USD\"\nlevels = [{ group = \"finance\", required = 2 }]\nany_reject = false\n";
    each_with(ruled(rules), async |app: &mut App| {
        propose(app, "paid", json!({})).await;
        assert_eq!(app.reject("finance-1", "paid", "not mine").await.status(), "AWAITING_SIGNER");
        assert_eq!(waiting(app, "finance-1").await, [""; 0]);
        assert_eq!(app.sign_as("finance-1", "paid").await.code(), "NONCE_CONSUMED", "a no is not talked over");
        app.sign_as("finance-2", "paid").await;
        assert_eq!(app.sign_as("finance-3", "paid").await.status(), "SIGNED");
        propose(app, "dead", json!({})).await;
        app.reject("finance-1", "dead", "no").await;
        let second = app.reject("finance-2", "dead", "nor I").await;
        assert_eq!((second.status().as_str(), second.text("reason")), ("REJECTED", "nor I"));
        app.settle().await;
        assert_eq!(app.status("paid").await.status(), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn who_asks_never_counts_unless_a_rule_lets_the_principal_sign() {
    let rules = r#"
[[rule]]
id = "own"
currency = "EUR"
levels = [{ group = "finance", required = 1 }]
principal_may_sign = true
[[rule]]
id = "all"
currency = "USD"
amount_at_least = "1000.00"
levels = [{ group = "board", required = 2 }]
"#;
    each_with(ruled(rules), async |app: &mut App| {
        let acting = |person: &str| app.token("default", person, "agent-1", &[Role::Agent]);
        let order = |order: &str, rest: Value| {
            let mut arguments = json!({"order_id": order, "amount": "10.00", "notify": true});
            arguments.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            arguments
        };
        // Not a rule that says so: not asked, not listed, refused.
        let created = app.call(&acting("finance-1"), "create_payment", order("usd", json!({}))).await;
        assert_eq!(app.asked(created.text("payment_id")).await, [["finance-2", "finance-3"]]);
        assert_eq!(waiting(app, "finance-1").await, [""; 0]);
        assert_eq!(app.sign_as("finance-1", "usd").await.code(), "SELF_APPROVAL_FORBIDDEN");
        let wished = order("usd-2", json!({"signer_id": "finance-1"}));
        let refused = app.call(&acting("finance-1"), "create_payment", wished).await;
        assert_eq!((refused.code().as_str(), refused.text("field")), ("SIGNER_NOT_ELIGIBLE", "signer_id"));
        let reassigned = json!({"order_id": "usd", "signer_id": "finance-1"});
        assert_eq!(app.call(&app.operator(), "reassign_signer", reassigned).await.code(), "SIGNER_NOT_ELIGIBLE");
        // A rule that does.
        app.call(&acting("finance-1"), "create_payment", order("eur", json!({"currency": "EUR"}))).await;
        assert_eq!(app.sign_as("finance-1", "eur").await.status(), "SIGNED");
        // An agent that bears a signer's name never, whatever the rule.
        let agent = app.token("default", "somebody", "finance-1", &[Role::Agent]);
        app.call(&agent, "create_payment", order("robot", json!({"currency": "EUR"}))).await;
        assert_eq!(app.sign_as("finance-1", "robot").await.code(), "SELF_APPROVAL_FORBIDDEN");
        // Nobody could approve: refused at once, and for that key for good.
        let keyed = order("board", json!({"amount": "1000.00", "idempotency_key": "key-of-nobody-0001"}));
        for _ in 0..2 {
            let refused = app.call(&acting("board-1"), "create_payment", keyed.clone()).await;
            assert_eq!(refused.code(), "POLICY_DENIED", "{}", refused.body);
        }
        assert_eq!((app.rows("payments").await, app.rows("idempotency").await), (3, 1));
        // Without a key for good too, and for that person: who else asks through the same agent is judged anew.
        let bare = order("board-2", json!({"amount": "1000.00"}));
        for person in ["board-1", "board-1"] {
            let refused = app.call(&acting(person), "create_payment", bare.clone()).await;
            assert_eq!(refused.code(), "POLICY_DENIED", "{}", refused.body);
        }
        let created = app.call(&acting("somebody"), "create_payment", bare).await;
        assert_eq!(created.body["success"], true, "{}", created.body);
        assert_eq!((app.rows("payments").await, app.rows("idempotency").await), (4, 2));
    })
    .await;
}

#[tokio::test]
async fn a_wish_chooses_among_those_the_rule_asks_and_never_leaves_the_quorum_unasked() {
    each_with(ruled(LARGE), async |app: &mut App| {
        let one = propose(app, "one", json!({"signer_id": "finance-2"})).await;
        assert_eq!(app.asked(one.text("payment_id")).await, [["finance-2"]]);
        for stranger in ["board-1", "stranger-1", "nobody"] {
            let refused = propose(app, "none", json!({"signer_id": stranger})).await;
            assert_eq!(refused.code(), "SIGNER_NOT_ELIGIBLE", "{stranger}");
        }
        assert_eq!(
            propose(app, "none", json!({"signers": ["finance-1", "board-1"]})).await.code(),
            "SIGNER_NOT_ELIGIBLE"
        );
        // Two are needed: one wish is not enough, two are.
        let alone = propose(app, "alone", json!({"amount": "5000.00", "signer_id": "finance-2"})).await;
        assert_eq!(app.asked(alone.text("payment_id")).await[0].len(), 3);
        let both = json!({"amount": "5000.00", "signers": ["finance-3", "finance-2", "board-2"]});
        let both = propose(app, "both", both).await.text("payment_id").to_owned();
        assert_eq!(app.asked(&both).await, [["finance-3", "finance-2"]]);
        app.sign_as("finance-2", "both").await;
        app.sign_as("finance-3", "both").await;
        app.settle().await;
        assert_eq!(app.asked(&both).await[1], ["board-2"], "the wish holds at the next level too");
    })
    .await;
}

#[tokio::test]
async fn a_policy_made_stricter_is_kept_by_whoever_executes_and_completes_in_a_new_round() {
    each_with(ruled(""), async |app: &mut App| {
        let id = app.signed("order-1").await;
        let old = app.payment("order-1").await;
        let stricter = policy("").replace("required = 1", "required = 2").replace("version = \"1\"", "version = \"2\"");
        under(app, stricter.clone()).await;
        let again = app.status("order-1").await;
        assert_eq!((again.status().as_str(), have(&again)), ("AWAITING_SIGNER", (0, 2)), "{}", again.body);
        assert_eq!(app.requests(&id).await, 0);
        let new = app.payment("order-1").await;
        assert_eq!((new.round, new.terms.policy.version.as_str()), (2, "2"));
        assert_ne!(new.digest, old.digest, "what was signed says nothing of the new round");
        assert_eq!(app.asked(&id).await.last().unwrap().len(), 3, "those who must are asked");
        // The first process still has the old file: the payment's own rule counts for it.
        assert_eq!(app.sign_as("finance-1", "order-1").await.status(), "AWAITING_SIGNER");
        app.settle().await;
        assert_eq!(app.requests(&id).await, 0);
        assert_eq!(app.sign_as("finance-2", "order-1").await.status(), "SIGNED");
        under(app, stricter).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_denies_by_now_calls_a_signed_payment_off() {
    let limit = "[[limit]]\nid = \"each\"\nbinds = \"each_agent\"\ncurrency = \"USD\"\nper_payment = \"100.00\"\n";
    let cases = [
        ("denied", "[[rule]]\nid = \"never\"\ncurrency = \"USD\"\ndeny = true\n".to_owned(), "policy_denied"),
        ("frozen", "[payees]\ndenied = [\"demo-payee-001\"]\n".to_owned(), "payee_not_allowed"),
        ("unknown", "[payees]\nonly_known = true\n".to_owned(), "payee_not_allowed"),
        ("limited", limit.to_owned(), "mandate_exceeded"),
        (
            "currency",
            "[[limit]]\nid = \"euros\"\nbinds = \"tenant\"\ncurrencies = [\"EUR\"]\n".to_owned(),
            "policy_denied",
        ),
        (
            "payee",
            "[[limit]]\nid = \"one\"\nbinds = \"agent:agent-1\"\npayees = [\"acct-9\"]\n".to_owned(),
            "payee_not_allowed",
        ),
    ];
    each_with(ruled(""), async |app: &mut App| {
        for (order, rest, reason) in &cases {
            let id = app.signed(order).await;
            under(app, policy(rest)).await;
            let ended = app.status(order).await;
            assert_eq!((ended.status().as_str(), ended.text("reason")), ("CANCELLED", *reason), "{}", ended.body);
            // The process with the old file does not revive it.
            app.settle().await;
            app.pass(Duration::from_hours(1)).await;
            assert_eq!(app.requests(&id).await, 0, "{order}");
        }
        // A rule that nobody could meet without the one who asks: called off as well, not asked for ever.
        let agent = app.token("default", "finance-2", "agent-1", &[Role::Agent]);
        let order = json!({"order_id": "alone", "amount": "5.00", "notify": true});
        app.call(&agent, "create_payment", order).await;
        assert_eq!(app.sign("alone").await.status(), "SIGNED");
        let all = policy("").replace("required = 1", "required = 3");
        under(app, all).await;
        let ended = app.payment("alone").await;
        assert_eq!((ended.status.as_str(), ended.reason.as_str()), ("CANCELLED", "policy_denied"));
    })
    .await;
}

#[tokio::test]
async fn a_policy_made_looser_does_not_lower_what_was_asked_for() {
    let two = policy("").replace("required = 1", "required = 2");
    each_with(Wishes::default().patient().policy(two), async |app: &mut App| {
        let id = app.awaiting("order-1").await;
        app.sign_as("finance-1", "order-1").await;
        under(app, policy("")).await;
        assert_eq!(have(&app.status("order-1").await), (1, 2));
        assert_eq!(app.requests(&id).await, 0);
        assert_eq!(app.sign_as("finance-2", "order-1").await.status(), "SIGNED");
        // One of the two loses their key. One signature would do by now, yet two were asked for.
        app.revoke_key("finance-2").await;
        under(app, policy("")).await;
        let again = app.status("order-1").await;
        assert_eq!((again.status().as_str(), have(&again)), ("AWAITING_SIGNER", (0, 2)), "{}", again.body);
        app.sign_as("finance-1", "order-1").await;
        under(app, policy("")).await;
        assert_eq!(app.requests(&id).await, 0);
        assert_eq!(app.sign_as("finance-3", "order-1").await.status(), "SIGNED");
        under(app, policy("")).await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}
