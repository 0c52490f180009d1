//! The signer service learns what counts at the gateway: its pages and its inbox say that, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign::domain::{Choice, Role};
use countersign::proof::decision_digest;
use serde_json::json;

use crate::desk_policy::policy;
use crate::harness::app::{App, Wishes, each, each_in_turn, each_with};
use crate::harness::passkey::{Odd, SoftPasskey};
use crate::harness::people::registry;
use crate::harness::scripted::{Telling, ToldSigner};
use crate::inbox::{Person, inbox, orders, signs_in};
use crate::passkeys::{decide, document, enrolled};

const TWO: &str = "[[rule]]\nid = \"two\"\ncurrency = \"USD\"\nlevels = [{ group = \"finance\", required = 2 }]\n";
const THEN_THE_BOARD: &str = "[[rule]]\nid = \"levels\"\ncurrency = \"USD\"\n\
    levels = [{ group = \"finance\", required = 1 }, { group = \"board\", required = 1 }]\n";

fn ruled(rest: &str) -> Wishes {
    Wishes::default().patient().policy(policy(rest))
}

/// A payment that waits, and its page's address.
async fn proposed(app: &App, order: &str) -> String {
    app.awaiting(order).await;
    app.call(&app.agent(), "get_sign_link", json!({"order_id": order})).await.text("sign_url").to_owned()
}

/// What the page says of one person.
async fn part(app: &App, page: &str, person: &str) -> String {
    let html = app.http.get(page).send().await.unwrap().text().await.unwrap();
    let parts: Vec<&str> = html.split("<article").collect();
    let name = format!(">{person}</h3>");
    let part = parts.iter().find(|part| part.contains(&name)).unwrap_or_else(|| panic!("no {person} in {html}"));
    part.split("</article>").next().unwrap().to_owned()
}

/// Has a person decide on the page.
async fn says(app: &App, order: &str, person: &str, choice: Choice, passkey: &SoftPasskey) -> (u16, String) {
    let text = document(app, person, order, choice).await;
    decide(app, order, &text, &passkey.sign(&decision_digest(&text), Odd::default())).await
}

/// The callbacks go out, and the gateway looks.
async fn heard(app: &App) {
    app.deliver_callbacks().await;
    app.settle().await;
}

#[tokio::test]
async fn what_was_approved_over_mcp_is_approved_on_the_page_and_gone_from_the_inbox() {
    each_with(ruled(TWO), async |app: &mut App| {
        let person = Person::enrolled(app, "finance-1").await;
        let cookie = signs_in(app, &person.signing_in).await.unwrap();
        let page = proposed(app, "order-1").await;
        assert!(part(app, &page, "finance-1").await.contains("No decision yet."));
        assert_eq!(orders(&inbox(app, &cookie, "").await), ["order-1"]);
        app.sign_as("finance-1", "order-1").await;
        app.settle().await;
        let told = part(app, &page, "finance-1").await;
        assert!(told.contains("<strong>Approved</strong>") && !told.contains("No decision"), "{told}");
        assert!(part(app, &page, "finance-2").await.contains("No decision yet."));
        assert_eq!(orders(&inbox(app, &cookie, "").await), [""; 0]);
        let no = says(app, "order-1", "finance-1", Choice::Reject, &person.approving).await;
        assert_eq!(no, (409, "already_decided".to_owned()));

        // Before it is told: what the page took, and the gateway did not, does not stay there as their word.
        let other = proposed(app, "order-2").await;
        app.sign_as("finance-1", "order-2").await;
        let no = says(app, "order-2", "finance-1", Choice::Reject, &person.approving).await;
        assert_eq!(no, (200, String::new()));
        assert!(part(app, &other, "finance-1").await.contains("not confirmed yet"));
        heard(app).await;
        let told = part(app, &other, "finance-1").await;
        assert!(told.contains("<strong>Approved</strong>") && told.contains("Rejection that did not count"), "{told}");
        assert!(told.contains("The earlier one stands") && !told.contains("Sign as"), "{told}");

        // The last one ends it, and is told with the end.
        app.sign_as("finance-2", "order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        for person in ["finance-1", "finance-2"] {
            let told = part(app, &page, person).await;
            assert!(told.contains("<strong>Approved</strong>") && !told.contains("onfirmed"), "{told}");
        }
        assert!(part(app, &page, "finance-3").await.contains("No decision."));
    })
    .await;
}

#[tokio::test]
async fn who_was_refused_is_told_why_and_the_second_decision_counts() {
    each(async |app: &mut App| {
        let (lost, key_id) = enrolled(app, "finance-1").await;
        let (kept, _) = enrolled(app, "finance-1").await;
        // Revoked at the gateway, and the signer service does not hear of it.
        registry("finance-1").revoke(app.db.store(), &key_id.parse().unwrap()).await.unwrap();
        let page = proposed(app, "order-1").await;
        assert_eq!(says(app, "order-1", "finance-1", Choice::Approve, &lost).await, (200, String::new()));
        assert!(part(app, &page, "finance-1").await.contains("not confirmed yet"));
        heard(app).await;
        let told = part(app, &page, "finance-1").await;
        assert!(told.contains("Approval that did not count") && told.contains("it was revoked"), "{told}");
        assert!(told.contains("Sign as") && !told.contains("<strong>Approved</strong>"), "{told}");
        assert_eq!(says(app, "order-1", "finance-1", Choice::Approve, &kept).await, (200, String::new()));
        heard(app).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        let told = part(app, &page, "finance-1").await;
        assert!(told.contains("<strong>Approved</strong>") && !told.contains("did not count"), "{told}");
        assert!(!told.contains("onfirmed"), "{told}");
        assert_eq!(app.audited("decision.refused", "SIGNATURE_INVALID").await, 1);
    })
    .await;
}

#[tokio::test]
async fn who_speaks_before_their_turn_is_told_that_it_waits_and_then_that_it_counts() {
    each_with(ruled(THEN_THE_BOARD), async |app: &mut App| {
        let page = proposed(app, "order-1").await;
        let text = app.document("board-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &text, &app.jws("board-1", &text)).await, 200);
        heard(app).await;
        let told = part(app, &page, "board-1").await;
        assert!(told.contains("<strong>Approved</strong>") && told.contains("others must approve first"), "{told}");
        app.sign_as("finance-1", "order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        for person in ["finance-1", "board-1"] {
            let told = part(app, &page, person).await;
            assert!(told.contains("<strong>Approved</strong>"), "{told}");
            assert!(!told.contains("onfirmed") && !told.contains("others must"), "{told}");
        }
    })
    .await;
}

fn telling(asks: bool, losing: usize) -> (Wishes, Arc<Telling>) {
    let script = Arc::new(Telling { asks, losing: AtomicUsize::new(losing), told: AtomicUsize::new(0) });
    let shared = Arc::clone(&script);
    (ruled(TWO).signer(move |real| Arc::new(ToldSigner(real, Arc::clone(&shared)))), script)
}

#[tokio::test]
async fn a_telling_that_was_lost_changes_nothing_and_is_made_good_at_the_next_look() {
    let (wishes, script) = telling(true, 0);
    each_in_turn(wishes, async |app: &mut App| {
        script.losing.store(2, Ordering::SeqCst);
        script.told.store(0, Ordering::SeqCst);
        let page = proposed(app, "order-1").await;
        let text = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &text, &app.jws("finance-1", &text)).await, 200);
        heard(app).await;
        assert_eq!(app.status("order-1").await.body["approvals"]["have"], 1);
        assert!(part(app, &page, "finance-1").await.contains("not confirmed yet"));
        assert_eq!(script.told.load(Ordering::SeqCst), 1);
        for _ in 0..2 {
            app.pass(Duration::from_secs(31)).await;
        }
        assert!(!part(app, &page, "finance-1").await.contains("onfirmed"));
        // What was told is not told again, however often it is looked.
        for _ in 0..3 {
            app.pass(Duration::from_secs(31)).await;
        }
        assert_eq!(script.told.load(Ordering::SeqCst), 3);
        app.sign_as("finance-2", "order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(script.told.load(Ordering::SeqCst), 4);
    })
    .await;
}

#[tokio::test]
async fn a_service_that_does_not_ask_is_never_told() {
    let (wishes, script) = telling(false, 0);
    each_in_turn(wishes, async |app: &mut App| {
        proposed(app, "order-1").await;
        let text = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &text, &app.jws("finance-1", &text)).await, 200);
        heard(app).await;
        app.pass(Duration::from_secs(31)).await;
        app.sign_as("finance-2", "order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(script.told.load(Ordering::SeqCst), 0);
    })
    .await;
}

async fn by_two(app: &App, tool: &str, order: &str) {
    for person in ["olga", "piet"] {
        let arguments = json!({"order_id": order, "reference": "bank-1", "evidence": "the bank's statement"});
        let arguments =
            if tool == "release_hold" { json!({"order_id": order, "evidence": "it is ours"}) } else { arguments };
        let answer = app.call(&app.operator_named(person), tool, arguments).await;
        assert!(!answer.is_error, "{}", answer.body);
    }
}

async fn held(app: &App, order: &str) -> String {
    let page = proposed(app, order).await;
    let hold =
        app.call(&app.operator(), "hold_payment", json!({"order_id": order, "reason": "the bank is asked"})).await;
    assert!(!hold.is_error, "{}", hold.body);
    let text = app.document("finance-1", order, "approve", "").await;
    // No link is given out now; the page is open already.
    let body = json!({"document": text, "jws": app.jws("finance-1", &text)});
    let answer = app.http.post(format!("{page}/decisions")).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    page
}

#[tokio::test]
async fn who_decides_on_a_held_payment_is_told_that_it_waits_and_it_counts_once_the_hold_is_released() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        // By the callback; and by the schedule, when the callback is lost.
        for (order, told) in [("called", true), ("scheduled", false)] {
            let page = held(app, order).await;
            assert!(part(app, &page, "finance-1").await.contains("not confirmed yet"), "{order}");
            if told {
                heard(app).await;
            } else {
                app.pass(Duration::from_secs(31)).await;
            }
            let said = part(app, &page, "finance-1").await;
            assert!(said.contains("an operator holds this payment") && !said.contains("onfirmed"), "{order}: {said}");
            let payment = app.payment(order).await;
            assert_eq!((payment.approvals, payment.decisions), (0, 0), "{order}");
            assert_eq!(app.executions(payment.terms.payment_id.as_str()).await, 0, "{order}");
            by_two(app, "release_hold", order).await;
            app.settle().await;
            assert_eq!(app.status(order).await.status(), "EXECUTED", "{order}");
            let said = part(app, &page, "finance-1").await;
            assert!(said.contains("<strong>Approved</strong>") && !said.contains("holds this"), "{order}: {said}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_payment_that_is_paid_by_hand_is_not_said_to_be_approved_by_enough() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        let page = held(app, "order-1").await;
        by_two(app, "attest_executed", "order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        let html = app.http.get(&page).send().await.unwrap().text().await.unwrap();
        assert!(html.contains("This payment is approved, or already paid.") && !html.contains("Enough"), "{html}");
    })
    .await;
}

#[tokio::test]
async fn who_may_not_decide_is_asked_neither_by_the_page_nor_by_the_inbox() {
    let people =
        "[persons]\n\"j.doe\" = [\"finance-2\", \"finance-3\"]\n[payees.beneficiaries]\nacct-1 = \"finance-2\"\n";
    each_with(ruled(people), async |app: &mut App| {
        let person = Person::enrolled(app, "finance-3").await;
        let cookie = signs_in(app, &person.signing_in).await.unwrap();
        let paid = json!({"order_id": "own", "amount": "199.00", "payee": "acct-1", "notify": true});
        let asking = app.token("default", "finance-3", "agent-1", &[Role::Agent]);
        let asked = json!({"order_id": "asked", "amount": "199.00", "payee": "acct-2", "notify": true});
        let orders_and_askers = [("own", app.agent(), paid), ("asked", asking, asked)];
        for (order, agent, arguments) in orders_and_askers {
            let created = app.call(&agent, "create_payment", arguments).await;
            assert!(!created.is_error, "{}", created.body);
            let link = app.call(&agent, "get_sign_link", json!({"order_id": order})).await;
            let html = app.http.get(link.text("sign_url")).send().await.unwrap().text().await.unwrap();
            assert!(html.contains("Sign as finance-1"), "{order}: {html}");
            for barred in ["finance-2", "finance-3"] {
                assert!(!html.contains(&format!("Sign as {barred}")), "{order}: {barred}");
            }
            assert_eq!(orders(&inbox(app, &cookie, "").await), [""; 0], "{order}");
            let text = app.document("finance-2", order, "approve", "").await;
            let no = app.http.post(format!("{}/decisions", link.text("sign_url")));
            let no = no.json(&json!({"document": text, "jws": app.jws("finance-2", &text)})).send().await.unwrap();
            assert_eq!(no.status(), 422, "{order}");
        }
        proposed(app, "other").await;
        assert_eq!(orders(&inbox(app, &cookie, "").await), ["other"], "of another they are asked");
    })
    .await;
}
