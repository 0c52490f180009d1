//! Splitting: what is proposed to one payee in parts is approved as the whole would be.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::domain::Role;
use serde_json::{Value, json};

use crate::desk_policy::{policy, under};
use crate::harness::app::{App, Wishes, each_with};
use crate::harness::rpc::Answer;

/// From ten thousand dollars to one payee in a day on: one of finance, then one of the board.
const DAY: &str = r#"
[[rule]]
id = "large"
currency = "USD"
amount_at_least = "10000.00"
sum_hours = 24
levels = [{ group = "finance", required = 1 }, { group = "board", required = 1 }]
"#;

fn summed(rules: &str) -> Wishes {
    Wishes::default().patient().policy(policy(rules)).config(|config| config.payments.expires_after_s = 400_000)
}

fn to(payee: &str, order: &str, amount: &str) -> Value {
    json!({"order_id": order, "amount": amount, "payee": payee, "notify": true})
}

async fn pay(app: &App, order: &str, amount: &str) -> Answer {
    app.call(&app.agent(), "create_payment", to("acct-1", order, amount)).await
}

/// How many approvals a payment needs.
async fn needs(app: &App, order: &str) -> u32 {
    app.payment(order).await.terms.policy.required()
}

#[tokio::test]
async fn three_payments_of_four_thousand_to_one_payee_need_what_ten_thousand_need() {
    each_with(summed(DAY), async |app: &mut App| {
        for (order, expected) in [("one", 1), ("two", 1), ("three", 2), ("four", 2)] {
            let created = pay(app, order, "4000.00").await;
            assert_eq!((created.is_error, needs(app, order).await), (false, expected), "{order}");
        }
        // Another payee, currency or tenant is another sum; another agent of the house is not.
        let other = app.call(&app.agent(), "create_payment", to("acct-2", "five", "9999.99")).await;
        assert_eq!((other.is_error, needs(app, "five").await), (false, 1));
        let mut euros = to("acct-1", "six", "9999.99");
        euros["currency"] = json!("EUR");
        app.call(&app.agent(), "create_payment", euros).await;
        assert_eq!(needs(app, "six").await, 1);
        let elsewhere = app.token("other-tenant", "agent-1", "agent-1", &[Role::Agent]);
        let foreign = app.call(&elsewhere, "create_payment", to("acct-1", "seven", "4000.00")).await;
        assert_eq!(foreign.body["approvals"]["need"], 1, "{}", foreign.body);
        app.call(&app.other_agent(), "create_payment", to("acct-1", "eight", "1.00")).await;
        assert_eq!(needs(app, "eight").await, 2);
        // What ended unpaid is no part of it; what was paid is.
        for order in ["three", "four"] {
            app.cancel(order).await;
        }
        let own = json!({"order_id": "eight"});
        assert_eq!(app.call(&app.other_agent(), "cancel_payment", own).await.status(), "CANCELLED");
        pay(app, "nine", "1999.99").await;
        assert_eq!(needs(app, "nine").await, 1);
        for order in ["one", "two", "nine"] {
            assert_eq!(app.sign(order).await.status(), "SIGNED");
        }
        app.settle().await;
        assert_eq!(app.status("one").await.status(), "EXECUTED");
        pay(app, "ten", "0.01").await;
        assert_eq!(needs(app, "ten").await, 2);
        // And the span passes, from each one's creation.
        app.clock.advance(Duration::from_hours(23).as_micros().try_into().unwrap());
        pay(app, "eleven", "0.01").await;
        assert_eq!(needs(app, "eleven").await, 2);
        app.clock.advance(Duration::from_mins(61).as_micros().try_into().unwrap());
        pay(app, "twelve", "4000.00").await;
        assert_eq!(needs(app, "twelve").await, 1);
    })
    .await;
}

#[tokio::test]
async fn sixty_four_parts_proposed_at_once_pass_no_band() {
    each_with(summed(DAY), async |app: &mut App| {
        let agents: Vec<String> =
            (0..8).map(|n| app.token("default", &format!("bot-{n}"), &format!("bot-{n}"), &[Role::Agent])).collect();
        let calls = (0..64_usize).map(|n| {
            let mut order = to("acct-1", &format!("order-{n}"), "1500.00");
            order["notify"] = json!(false);
            app.call(&agents[n % 8], "create_payment", order)
        });
        let answers = futures::future::join_all(calls).await;
        assert!(answers.iter().all(|answer| !answer.is_error), "{:?}", answers.iter().map(Answer::status).next());
        let mut needed: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for n in 0..64 {
            let order = format!("order-{n}");
            needed.entry(needs(app, &order).await).or_default().push(order);
        }
        assert_eq!((needed[&1].len(), needed[&2].len()), (6, 58), "nine thousand dollars may go as small ones");
        // Each of those keeps its place: what others proposed at the same moment asks no more of it.
        for order in &needed[&1] {
            assert_eq!(app.sign(order).await.status(), "SIGNED", "{order}");
        }
        app.settle().await;
        for order in &needed[&1] {
            assert_eq!(app.payment(order).await.status.as_str(), "EXECUTED", "{order}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_sum_is_judged_again_at_execution_and_neither_grows_nor_shrinks_by_what_came_after() {
    each_with(summed(""), async |app: &mut App| {
        for order in ["one", "two", "three"] {
            pay(app, order, "4000.00").await;
            assert_eq!((app.sign(order).await.status(), needs(app, order).await), ("SIGNED".to_owned(), 1));
        }
        // By a rule that came meanwhile only the last is too much, and needs the board as well.
        under(app, policy(DAY)).await;
        for (order, status) in [("one", "EXECUTED"), ("two", "EXECUTED"), ("three", "AWAITING_SIGNER")] {
            assert_eq!(app.status(order).await.status(), status, "{order}");
        }
        assert_eq!((needs(app, "three").await, app.payment("three").await.round), (2, 2));
        app.sign("three").await;
        assert_eq!(app.sign_as("board-1", "three").await.status(), "SIGNED");
        under(app, policy(DAY)).await;
        assert_eq!(app.status("three").await.status(), "EXECUTED");
    })
    .await;
    // A sum that is smaller by then asks for no other signatures than those it has.
    let board = DAY.replace("{ group = \"finance\", required = 1 }, ", "");
    each_with(summed(&board), async |app: &mut App| {
        pay(app, "one", "9000.00").await;
        pay(app, "two", "9000.00").await;
        app.cancel("one").await;
        assert_eq!(app.sign_as("board-1", "two").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!((app.status("two").await.status(), app.payment("two").await.round), ("EXECUTED".to_owned(), 1));
    })
    .await;
}
