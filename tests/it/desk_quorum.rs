//! Quorum for real, through the whole desk: groups at once, people's accounts, deputies, second confirmations.

use std::time::Duration;

use countersign::ambient::{Clock as _, SystemClock};
use countersign::domain::{Choice, Role, Timestamp};
use countersign::proof::{DecisionDocument, SignerKey, SigningKey, decision_digest, sign_detached};
use serde_json::{Value, json};

use crate::desk_policy::{policy, under};
use crate::harness::app::{App, Wishes, each_with};
use crate::harness::passkey::Odd;
use crate::harness::people::registry;
use crate::harness::rpc::Answer;
use crate::passkeys::{decide, document, enrolled, smuggle};

fn ruled(rest: &str) -> Wishes {
    Wishes::default().patient().policy(written(rest))
}

/// Beside finance and the board there is legal, and finance-1 is of it.
fn written(rest: &str) -> String {
    let groups = "board = [\"board-1\", \"board-2\"]";
    let text = policy(rest).replace(groups, &format!("{groups}\nlegal = [\"finance-1\", \"board-1\"]"));
    assert!(text.contains("legal = "));
    text
}

const AT_ONCE: &str = r#"
[[rule]]
id = "both"
currency = "USD"
levels = [{ groups = [{ group = "finance", required = 1 }, { group = "legal", required = 1 }] }]
"#;

const TWO: &str = "[[rule]]\nid = \"two\"\ncurrency = \"USD\"\nlevels = [{ group = \"finance\", required = 2 }]\n";

async fn propose(app: &App, order: &str, changes: Value) -> Answer {
    let mut arguments = json!({"order_id": order, "amount": "199.00", "notify": true});
    arguments.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    app.call(&app.agent(), "create_payment", arguments).await
}

fn have(answer: &Answer) -> (u64, u64) {
    let count = |key: &str| answer.body["approvals"][key].as_u64().unwrap();
    (count("have"), count("need"))
}

async fn waiting(app: &App, person: &str) -> usize {
    let list = app.call(&app.signer_token(person), "list_approvals", json!({})).await;
    list.body["approvals"].as_array().unwrap().len()
}

#[tokio::test]
async fn groups_at_once_are_complete_in_whatever_order_and_a_person_counts_for_one() {
    each_with(ruled(AT_ONCE), async |app: &mut App| {
        // Finance-1 is of both: what they count for moves when another comes.
        for (order, people) in [("first", ["finance-1", "finance-2"]), ("last", ["finance-2", "finance-1"])] {
            let created = propose(app, order, json!({})).await;
            assert_eq!(
                app.asked(created.text("payment_id")).await,
                [["board-1", "finance-1", "finance-2", "finance-3"]]
            );
            assert_eq!(app.status(order).await.body["approvals"]["missing"], json!({"finance": 1, "legal": 1}));
            assert_eq!(have(&app.sign_as(people[0], order).await), (1, 2));
            let told = app.status(order).await.body["approvals"].clone();
            assert_eq!(told["by"], json!([people[0]]), "{told}");
            assert_eq!(told["missing"], json!({"legal": 1}), "{told}");
            let shown = app.call(&app.signer_token("board-1"), "get_approval", json!({"order_id": order})).await;
            assert_eq!(shown.body["approvals"], told, "the signers see the same");
            let last = app.sign_as(people[1], order).await;
            assert_eq!((last.status().as_str(), have(&last)), ("SIGNED", (2, 2)));
            app.settle().await;
            assert_eq!(app.status(order).await.status(), "EXECUTED");
        }
        // Finance has given its one: the others of it are asked no more, and may still say no.
        for order in ["surplus", "refused"] {
            propose(app, order, json!({})).await;
            app.sign_as("finance-2", order).await;
        }
        assert_eq!((waiting(app, "finance-3").await, waiting(app, "board-1").await), (0, 2));
        let surplus = app.sign_as("finance-3", "surplus").await;
        assert_eq!((surplus.status().as_str(), have(&surplus)), ("AWAITING_SIGNER", (1, 2)));
        assert_eq!(app.audited_events("decision.surplus").await, 1);
        assert_eq!(app.reject("finance-3", "refused", "no").await.status(), "REJECTED");
        assert_eq!(app.sign_as("board-1", "surplus").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.status("surplus").await.status(), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn accounts_of_one_person_are_one_and_who_asks_approves_by_none_of_them() {
    let people = "[persons]\n\"j.doe\" = [\"finance-1\", \"finance-2\", \"sub:jd@example.org\"]\n";
    each_with(ruled(&format!("{TWO}{people}")), async |app: &mut App| {
        let id = propose(app, "two", json!({})).await.text("payment_id").to_owned();
        assert_eq!(have(&app.sign_as("finance-1", "two").await), (1, 2));
        assert_eq!(waiting(app, "finance-2").await, 0);
        assert_eq!(have(&app.sign_as("finance-2", "two").await), (1, 2), "the same person again");
        app.settle().await;
        assert_eq!(app.requests(&id).await, 0);
        assert_eq!(app.sign_as("finance-3", "two").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.executions(&id).await, 1);
        // Whoever asks through an agent, by whatever name their token has.
        for (number, subject) in ["jd@example.org", "finance-1", "finance-2", "j.doe"].into_iter().enumerate() {
            let (agent, order) = (app.token("default", subject, "agent-1", &[Role::Agent]), format!("own-{number}"));
            let euros = json!({"order_id": order, "amount": "10.00", "currency": "EUR", "notify": true});
            let created = app.call(&agent, "create_payment", euros).await;
            assert_eq!(app.asked(created.text("payment_id")).await, [["finance-3"]], "{subject}");
            for account in ["finance-1", "finance-2"] {
                assert_eq!(app.sign_as(account, &order).await.code(), "SELF_APPROVAL_FORBIDDEN", "{subject}: {account}");
            }
            let wished = json!({"order_id": "wish", "amount": "1.00", "currency": "EUR", "signer_id": "finance-2"});
            assert_eq!(app.call(&agent, "create_payment", wished).await.code(), "SIGNER_NOT_ELIGIBLE", "{subject}");
            let dollars = json!({"order_id": "none", "amount": "10.00", "idempotency_key": format!("key-of-one-person-{number}")});
            assert_eq!(app.call(&agent, "create_payment", dollars).await.code(), "POLICY_DENIED", "two are needed");
        }
    })
    .await;
}

#[tokio::test]
async fn whom_the_payee_belongs_to_does_not_approve_it_by_any_account() {
    let people =
        "[persons]\n\"j.doe\" = [\"finance-2\", \"finance-3\"]\n[payees.beneficiaries]\nacct-1 = \"finance-2\"\n";
    each_with(ruled(people), async |app: &mut App| {
        let created = propose(app, "own", json!({"payee": "acct-1"})).await;
        assert_eq!(app.asked(created.text("payment_id")).await, [["finance-1"]]);
        for account in ["finance-2", "finance-3"] {
            assert_eq!(app.sign_as(account, "own").await.code(), "SELF_APPROVAL_FORBIDDEN", "{account}");
            let no = app.reject(account, "own", "no").await;
            assert_eq!(no.code(), "SELF_APPROVAL_FORBIDDEN", "{account}");
            assert_eq!(waiting(app, account).await, 0);
        }
        let reassigned = json!({"order_id": "own", "signer_id": "finance-3"});
        assert_eq!(app.call(&app.operator(), "reassign_signer", reassigned).await.code(), "SIGNER_NOT_ELIGIBLE");
        assert_eq!(app.sign_as("finance-1", "own").await.status(), "SIGNED");
        propose(app, "other", json!({"payee": "acct-2"})).await;
        assert_eq!(app.sign_as("finance-2", "other").await.status(), "SIGNED", "another payee's account is not theirs");
        app.settle().await;
        assert_eq!(app.status("own").await.status(), "EXECUTED");
        // It is found out between signature and execution.
        let id = propose(app, "late", json!({"payee": "acct-3"})).await.text("payment_id").to_owned();
        app.sign("late").await;
        under(app, written(&format!("{people}acct-3 = \"finance-1\"\n"))).await;
        let again = app.status("late").await;
        assert_eq!((again.status().as_str(), have(&again)), ("AWAITING_SIGNER", (0, 1)));
        assert_eq!(app.sign("late").await.code(), "SELF_APPROVAL_FORBIDDEN");
        assert_eq!(app.sign_as("finance-2", "late").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}

/// `signer` stands in for `of`, from an hour ago to an hour from now.
fn deputy(of: &str, signer: &str) -> String {
    let now: Timestamp = SystemClock.now();
    let bound = |hours: i64| now.plus_micros(hours * 3_600_000_000).rfc3339();
    format!("[[deputy]]\nof = \"{of}\"\nsigner = \"{signer}\"\nfrom = \"{}\"\nuntil = \"{}\"\n", bound(-1), bound(1))
}

#[tokio::test]
async fn a_deputy_decides_in_their_time_in_place_of_whom_they_stand_in_for() {
    each_with(ruled(&format!("{TWO}{}", deputy("finance-1", "stranger-1"))), async |app: &mut App| {
        let id = propose(app, "paid", json!({})).await.text("payment_id").to_owned();
        assert_eq!(app.asked(&id).await, [["finance-1", "finance-2", "finance-3"]], "a deputy is not asked first");
        assert_eq!(waiting(app, "stranger-1").await, 1);
        assert_eq!(have(&app.sign_as("stranger-1", "paid").await), (1, 2));
        assert_eq!(app.status("paid").await.body["approvals"]["by"], json!(["stranger-1"]));
        assert_eq!(waiting(app, "finance-1").await, 0, "they have decided, by their deputy");
        assert_eq!(have(&app.sign_as("finance-1", "paid").await), (1, 2), "never beside");
        for order in ["late", "page", "refused"] {
            propose(app, order, json!({})).await;
        }
        assert_eq!(app.reject("stranger-1", "refused", "no").await.status(), "REJECTED");
        // Kept by the signer service in time, and not told to us before that time was over.
        let text = app.document("stranger-1", "page", "approve", "").await;
        assert_eq!(app.decide_on_page("page", &text, &app.jws("stranger-1", &text)).await, 200);
        let signed = app.document("stranger-1", "paid", "approve", "").await;
        app.pass(Duration::from_hours(2)).await;
        assert_eq!(app.sign_as("stranger-1", "late").await.code(), "SIGNER_NOT_ELIGIBLE");
        assert_eq!(waiting(app, "stranger-1").await, 0);
        let checked = app.call(&app.agent(), "check_sign_status", json!({"order_id": "page"})).await;
        assert_eq!(have(&checked), (0, 2));
        assert_eq!(app.audited("decision.refused", "SIGNER_NOT_ELIGIBLE").await, 2);
        let resent = app.resend("late").await;
        assert_eq!(
            app.asked(resent.text("payment_id")).await.last().unwrap(),
            &["finance-1", "finance-2", "finance-3"]
        );
        // What counted in time counts on: answered alike, and carried out.
        let again = app.confirm("stranger-1", "paid", &app.jws("stranger-1", &signed)).await;
        assert_eq!((&again.body["idempotent_replayed"], have(&again)), (&json!(true), (1, 2)));
        assert_eq!(app.sign_as("finance-3", "paid").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_deputy_who_was_withdrawn_before_the_execution_counts_no_more() {
    let stood_in = format!("{TWO}{}", deputy("finance-1", "stranger-1"));
    each_with(ruled(&stood_in), async |app: &mut App| {
        let id = propose(app, "order-1", json!({})).await.text("payment_id").to_owned();
        app.sign_as("stranger-1", "order-1").await;
        assert_eq!(app.sign_as("finance-2", "order-1").await.status(), "SIGNED");
        under(app, written(TWO)).await;
        let again = app.status("order-1").await;
        assert_eq!((again.status().as_str(), have(&again)), ("AWAITING_SIGNER", (0, 2)));
        assert_eq!(app.requests(&id).await, 0);
        let stranger = json!({"order_id": "order-1", "decision": "approve"});
        let refused = app.call(&app.signer_token("stranger-1"), "get_approval", stranger).await;
        assert_eq!(refused.code(), "PAYMENT_NOT_FOUND", "{}", refused.body);
        app.sign_as("finance-1", "order-1").await;
        assert_eq!(app.sign_as("finance-2", "order-1").await.status(), "SIGNED");
        // Two who signed turn out to be one.
        let one = format!("{TWO}[persons]\n\"j.doe\" = [\"finance-1\", \"finance-2\"]\n");
        under(app, written(&one)).await;
        assert_eq!(have(&app.status("order-1").await), (0, 2));
        app.sign_as("finance-1", "order-1").await;
        assert_eq!(app.sign_as("finance-3", "order-1").await.status(), "SIGNED");
        under(app, written(&one)).await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}

/// A second key of a person's, pinned under `second`.
pub(crate) async fn second_key(app: &App, person: &str) -> SigningKey {
    let key = SigningKey::from_seed(&[99; 32]);
    let name = "second".parse().unwrap();
    assert!(registry(person).pin(app.db.store(), &name, &SignerKey::Jws(key.public())).await.unwrap());
    key
}

/// What `person` is to sign, by key.
async fn to_sign(app: &App, person: &str, order: &str) -> Vec<(String, String)> {
    let shown = app.call(&app.signer_token(person), "get_approval", json!({"order_id": order})).await;
    let forms = shown.body["to_sign"].as_array().unwrap();
    let text = |form: &Value, key: &str| form[key].as_str().unwrap().to_owned();
    forms.iter().map(|form| (text(form, "key_id"), text(form, "decision_document"))).collect()
}

/// Approves with that key of theirs.
pub(crate) async fn approve(app: &App, person: &str, order: &str, (key, key_id): (&SigningKey, &str)) -> Answer {
    let text = app.document(person, order, "approve", "").await;
    let mut document = DecisionDocument::parse(&text).unwrap();
    key_id.clone_into(&mut document.key_id);
    let text = document.canonical().unwrap();
    app.confirm(person, order, &sign_detached(key, key_id, &text).unwrap()).await
}

fn confirmed(any_reject: bool) -> String {
    format!(
        "[[rule]]\nid = \"twice\"\ncurrency = \"USD\"\nlevels = [{{ group = \"finance\", required = 1 }}]\nconfirmations = 2\nany_reject = {any_reject}\n"
    )
}

#[tokio::test]
async fn a_second_confirmation_takes_a_second_key_of_the_same_person() {
    each_with(ruled(&confirmed(true)), async |app: &mut App| {
        let second = second_key(app, "finance-1").await;
        let first = (app.key_id("finance-1"), SigningKey::from_seed(&[1; 32]));
        let id = propose(app, "order-1", json!({})).await.text("payment_id").to_owned();
        assert_eq!(to_sign(app, "finance-1", "order-1").await.len(), 2);
        let half = approve(app, "finance-1", "order-1", (&first.1, &first.0)).await;
        assert_eq!(
            (half.status().as_str(), have(&half), half.text("next_action")),
            ("AWAITING_SIGNER", (0, 1), "get_approval")
        );
        let told = app.status("order-1").await.body["approvals"].clone();
        assert_eq!((&told["confirming"], &told["missing"]), (&json!(["finance-1"]), &json!({"finance": 1})), "{told}");
        // The same key again is a repetition, however often.
        let said = format!("SELECT document FROM decisions WHERE payment_id = '{id}'");
        let said = app.db.raw().await.texts(&said).await;
        for _ in 0..2 {
            let jws = sign_detached(&first.1, &first.0, &said[0]).unwrap();
            let again = app.confirm("finance-1", "order-1", &jws).await;
            assert_eq!((&again.body["idempotent_replayed"], have(&again)), (&json!(true), (0, 1)), "{}", again.body);
        }
        // Another person's first word is not its confirmation.
        assert_eq!(have(&app.sign_as("finance-2", "order-1").await), (0, 1));
        let left = to_sign(app, "finance-1", "order-1").await;
        assert_eq!(
            left.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["second"],
            "the key that is not used yet"
        );
        assert_eq!(waiting(app, "finance-1").await, 1);
        let whole = app.confirm("finance-1", "order-1", &sign_detached(&second, "second", &left[0].1).unwrap()).await;
        assert_eq!((whole.status().as_str(), have(&whole)), ("SIGNED", (1, 1)), "{}", whole.body);
        let kept = format!(
            "SELECT signer_id || ' ' || CAST(confirmation AS TEXT) FROM decisions WHERE payment_id = '{id}' ORDER BY 1"
        );
        assert_eq!(app.db.raw().await.texts(&kept).await, ["finance-1 1", "finance-1 2", "finance-2 1"]);
        app.settle().await;
        assert_eq!(app.executions(&id).await, 1);
        // One of the two keys is revoked between signature and execution.
        let id = propose(app, "order-2", json!({})).await.text("payment_id").to_owned();
        approve(app, "finance-1", "order-2", (&first.1, &first.0)).await;
        assert_eq!(approve(app, "finance-1", "order-2", (&second, "second")).await.status(), "SIGNED");
        assert!(registry("finance-1").revoke(app.db.store(), &"second".parse().unwrap()).await.is_ok());
        app.settle().await;
        assert_eq!((app.status("order-2").await.status().as_str(), app.requests(&id).await), ("AWAITING_SIGNER", 0));
        approve(app, "finance-1", "order-2", (&first.1, &first.0)).await;
        let shown = app.call(&app.signer_token("finance-1"), "get_approval", json!({"order_id": "order-2"})).await;
        assert_eq!((shown.text("next_action"), &shown.body["to_sign"]), ("ask_an_operator", &json!([])));
    })
    .await;
}

#[tokio::test]
async fn a_no_after_the_first_confirmation_follows_the_rule() {
    each_with(ruled(&confirmed(true)), async |app: &mut App| {
        propose(app, "order-1", json!({})).await;
        assert_eq!(have(&app.sign_as("finance-1", "order-1").await), (0, 1));
        assert_eq!(app.reject("finance-1", "order-1", "on second thoughts").await.status(), "REJECTED");
    })
    .await;
    each_with(ruled(&confirmed(false)), async |app: &mut App| {
        let (second, third) = (second_key(app, "finance-1").await, SigningKey::from_seed(&[98; 32]));
        let name = "third".parse().unwrap();
        registry("finance-2").pin(app.db.store(), &name, &SignerKey::Jws(third.public())).await.unwrap();
        let id = propose(app, "order-1", json!({})).await.text("payment_id").to_owned();
        let first =
            approve(app, "finance-1", "order-1", (&SigningKey::from_seed(&[1; 32]), &app.key_id("finance-1"))).await;
        assert_eq!(have(&first), (0, 1));
        let no = app.reject("finance-1", "order-1", "on second thoughts").await;
        assert_eq!(no.status(), "AWAITING_SIGNER", "{}", no.body);
        let over = approve(app, "finance-1", "order-1", (&second, "second")).await;
        assert_eq!(over.code(), "NONCE_CONSUMED", "a no is not talked over");
        approve(app, "finance-2", "order-1", (&SigningKey::from_seed(&[2; 32]), &app.key_id("finance-2"))).await;
        assert_eq!(approve(app, "finance-2", "order-1", (&third, "third")).await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}

#[tokio::test]
async fn two_passkeys_of_a_person_confirm_the_same_words_and_one_does_not_twice() {
    each_with(ruled(&confirmed(true)), async |app: &mut App| {
        let (phone, _) = enrolled(app, "finance-1").await;
        let (laptop, _) = enrolled(app, "finance-1").await;
        let id = propose(app, "order-1", json!({})).await.text("payment_id").to_owned();
        let text = document(app, "finance-1", "order-1", Choice::Approve).await;
        for _ in 0..2 {
            // Signed anew each time, over the very same words.
            let assertion = phone.sign(&decision_digest(&text), Odd::default());
            assert_eq!(decide(app, "order-1", &text, &assertion).await, (200, String::new()));
            app.deliver_callbacks().await;
            app.settle().await;
            assert_eq!(have(&app.status("order-1").await), (0, 1));
        }
        let assertion = laptop.sign(&decision_digest(&text), Odd::default());
        assert_eq!(decide(app, "order-1", &text, &assertion).await, (200, String::new()));
        app.deliver_callbacks().await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&id).await, 1);
        // A signer service in someone else's hands: other words by the same key are nothing, and use nothing up.
        propose(app, "order-2", json!({})).await;
        let text = document(app, "finance-1", "order-2", Choice::Approve).await;
        let parsed = DecisionDocument::parse(&text).unwrap();
        let other = DecisionDocument { reason: "and again".to_owned(), ..parsed }.canonical().unwrap();
        for (number, (passkey, words)) in [(&phone, &text), (&phone, &other)].into_iter().enumerate() {
            let assertion = passkey.sign(&decision_digest(words), Odd::default());
            let at = i64::try_from(number).unwrap();
            assert_eq!(have(&smuggle(app, "order-2", "finance-1", words, &assertion, at).await), (0, 1));
        }
        assert_eq!(app.audited("decision.refused", "NONCE_CONSUMED").await, 1);
        let assertion = laptop.sign(&decision_digest(&text), Odd::default());
        assert_eq!(smuggle(app, "order-2", "finance-1", &text, &assertion, 9).await.status(), "SIGNED");
    })
    .await;
}
