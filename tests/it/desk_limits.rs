//! Limits, through the whole desk: what counts, until when, and for whom; also at the same moment.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::domain::Role;
use serde_json::{Value, json};

use crate::desk_policy::policy;
use crate::harness::app::{App, Wishes, each_with};
use crate::harness::rpc::Answer;

const DAILY: &str = r#"
[[limit]]
id = "daily"
binds = "each_agent"
currency = "USD"
per_payment = "500.00"
window_hours = 24
window_amount = "1000.00"
"#;

fn limited(limits: &str) -> Wishes {
    Wishes::default().patient().policy(policy(limits)).config(|config| {
        config.payments.expires_after_s = 3_600;
        config.payments.execute_within_s = 3_600;
    })
}

fn order(order: &str, amount: &str) -> Value {
    json!({"order_id": order, "amount": amount})
}

async fn propose(app: &App, name: &str, amount: &str) -> Answer {
    app.call(&app.agent(), "create_payment", order(name, amount)).await
}

/// Whether 400.00 more fit, without leaving a trace.
async fn fits(app: &App, probe: &str) -> bool {
    let answer = propose(app, probe, "400.00").await;
    if answer.is_error {
        assert_eq!(answer.code(), "VELOCITY_EXCEEDED", "{}", answer.body);
        return false;
    }
    assert_eq!(app.cancel(probe).await.status(), "CANCELLED");
    true
}

#[tokio::test]
async fn one_payment_and_a_window_are_limited_to_the_cent() {
    each_with(limited(DAILY), async |app: &mut App| {
        let large = propose(app, "large", "500.01").await;
        assert_eq!((large.code().as_str(), large.text("field")), ("MANDATE_EXCEEDED", "amount"));
        assert!(large.text("message").contains("daily"), "it is named: {}", large.body);
        assert_eq!(propose(app, "one", "500.00").await.status(), "CREATED");
        let over = propose(app, "two", "500.01").await;
        assert_eq!(over.code(), "MANDATE_EXCEEDED", "the limit of one payment comes first");
        assert_eq!(propose(app, "two", "499.99").await.status(), "CREATED");
        let over = propose(app, "three", "0.02").await;
        assert_eq!((over.code().as_str(), &over.body["retryable"]), ("VELOCITY_EXCEEDED", &json!(true)));
        assert!(over.body["retry_after_ms"].is_u64(), "{}", over.body);
        assert_eq!(propose(app, "three", "0.01").await.status(), "CREATED");
        assert_eq!(propose(app, "four", "0.01").await.code(), "VELOCITY_EXCEEDED");
        // A repeat of what was taken in is no new proposal.
        assert_eq!(propose(app, "one", "500.00").await.body["idempotent_replayed"], true);
        assert_eq!(app.rows("payments").await, 3);
    })
    .await;
}

#[tokio::test]
async fn a_reservation_is_released_at_every_unpaid_end_and_at_no_other_time() {
    each_with(limited(DAILY), async |app: &mut App| {
        let filled = async |name: &str| {
            assert_eq!(propose(app, name, "400.00").await.status(), "CREATED");
            assert_eq!(propose(app, &format!("{name}-2"), "300.00").await.status(), "CREATED");
            assert!(!fits(app, &format!("{name}-probe-1")).await, "{name} is reserved at creation");
        };
        filled("cancelled").await;
        app.cancel("cancelled").await;
        assert!(fits(app, "probe-cancelled").await);
        app.cancel("cancelled-2").await;

        filled("rejected").await;
        app.notify("rejected").await;
        app.reject("finance-1", "rejected", "no").await;
        assert!(fits(app, "probe-rejected").await);
        app.cancel("rejected-2").await;

        filled("failed").await;
        app.sign("failed").await;
        app.next_fault("refuse").await;
        app.settle().await;
        assert_eq!(app.status("failed").await.status(), "FAILED");
        assert!(fits(app, "probe-failed").await);
        app.cancel("failed-2").await;

        filled("expired").await;
        app.cancel("expired-2").await;
        app.pass(Duration::from_mins(61)).await;
        assert_eq!(app.status("expired").await.status(), "EXPIRED");
        filled("unknown").await;

        // Unknown keeps its own; so does what was called off meanwhile and may have been paid.
        app.sign("unknown").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": true}})).await;
        app.settle().await;
        assert_eq!(app.status("unknown").await.phase(), "unknown");
        assert!(!fits(app, "probe-unknown-1").await);
        assert_eq!(app.cancel("unknown").await.text("cancel"), "CANCEL_PENDING");
        assert!(!fits(app, "probe-unknown-2").await);
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until("unknown", "EXECUTED").await;
        assert!(!fits(app, "probe-executed-1").await, "posted: what was paid counts on");
        app.cancel("unknown-2").await;
        assert!(fits(app, "probe-executed-2").await);
        assert_eq!(propose(app, "more", "500.00").await.status(), "CREATED");
        assert!(!fits(app, "probe-executed-3").await);
        app.cancel("more").await;
        // The window moves on, from the creation.
        let (_, now) = app.db.store().next_due().await.unwrap();
        let left = Duration::from_hours(24).saturating_sub(now.since(app.payment("unknown").await.terms.created_at));
        app.pass(left.saturating_sub(Duration::from_secs(20))).await;
        assert_eq!(propose(app, "late-1", "500.00").await.status(), "CREATED");
        assert!(!fits(app, "probe-late-1").await);
        app.pass(Duration::from_secs(30)).await;
        assert!(fits(app, "probe-late-2").await);
    })
    .await;
}

#[tokio::test]
async fn a_window_counts_payments_too_and_open_ones_are_limited_by_themselves() {
    let limits = r#"
[[limit]]
id = "count"
binds = "agent:agent-1"
currency = "USD"
window_hours = 1
window_count = 3
[[limit]]
id = "open"
binds = "each_agent"
currency = "USD"
open = 2
"#;
    let wishes = Wishes::default().patient().policy(policy(limits));
    each_with(wishes, async |app: &mut App| {
        for name in ["a", "b"] {
            assert_eq!(propose(app, name, "1.00").await.status(), "CREATED");
        }
        let refused = propose(app, "c", "1.00").await;
        assert_eq!(refused.code(), "MANDATE_EXCEEDED");
        assert!(refused.text("message").contains("open"), "{}", refused.body);
        // Signed is not ended.
        app.sign("a").await;
        assert_eq!(propose(app, "c", "1.00").await.code(), "MANDATE_EXCEEDED");
        app.settle().await;
        assert_eq!(app.status("a").await.status(), "EXECUTED");
        assert_eq!(propose(app, "c", "1.00").await.status(), "CREATED");
        app.cancel("b").await;
        assert_eq!(propose(app, "d", "1.00").await.status(), "CREATED", "what was called off counts no more");
        app.cancel("d").await;
        assert_eq!(propose(app, "e", "1.00").await.status(), "CREATED");
        app.cancel("c").await;
        assert_eq!(propose(app, "f", "1.00").await.status(), "CREATED");
        app.cancel("f").await;
        app.sign("e").await;
        app.settle().await;
        assert_eq!(propose(app, "g", "1.00").await.status(), "CREATED");
        app.cancel("g").await;
        app.pass(Duration::from_mins(10)).await;
        propose(app, "h", "1.00").await;
        app.sign("h").await;
        app.settle().await;
        assert_eq!(propose(app, "i", "1.00").await.code(), "VELOCITY_EXCEEDED", "three were carried out in an hour");
        // The limit is that agent's own.
        assert_eq!(app.call(&app.other_agent(), "create_payment", order("j", "1.00")).await.status(), "CREATED");
        app.pass(Duration::from_mins(55)).await;
        assert_eq!(propose(app, "i", "1.00").await.status(), "CREATED");
    })
    .await;
}

#[tokio::test]
async fn another_currency_agent_or_tenant_is_not_counted() {
    each_with(limited(DAILY), async |app: &mut App| {
        propose(app, "one", "500.00").await;
        propose(app, "two", "500.00").await;
        assert_eq!(propose(app, "three", "0.01").await.code(), "VELOCITY_EXCEEDED");
        let euros = json!({"order_id": "four", "amount": "9000.00", "currency": "EUR"});
        assert_eq!(app.call(&app.agent(), "create_payment", euros).await.status(), "CREATED");
        assert_eq!(app.call(&app.other_agent(), "create_payment", order("five", "500.00")).await.status(), "CREATED");
        let elsewhere = app.token("other-tenant", "agent-1", "agent-1", &[Role::Agent]);
        assert_eq!(app.call(&elsewhere, "create_payment", order("six", "500.00")).await.status(), "CREATED");
    })
    .await;
}

/// How often each code was answered.
fn tally(answers: &[Answer]) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for answer in answers {
        *tally.entry(answer.status()).or_default() += 1;
    }
    tally
}

#[tokio::test]
async fn sixty_four_proposals_at_once_fill_an_agents_limit_exactly() {
    each_with(limited(DAILY), async |app: &mut App| {
        let agent = app.agent();
        let calls = (0..64).map(|n| app.call(&agent, "create_payment", order(&format!("order-{n}"), "199.00")));
        let answers = futures::future::join_all(calls).await;
        let expected = BTreeMap::from([("CREATED".to_owned(), 5), ("(VELOCITY_EXCEEDED)".to_owned(), 59)]);
        assert_eq!(tally(&answers), expected);
        assert_eq!(app.rows("payments").await, 5);
    })
    .await;
}

#[tokio::test]
async fn sixty_four_proposals_of_eight_agents_fill_a_tenants_limit_exactly() {
    let limits = r#"
[[limit]]
id = "each"
binds = "each_agent"
currency = "USD"
open = 4
[[limit]]
id = "house"
binds = "tenant"
currency = "USD"
window_hours = 24
window_amount = "2500.00"
"#;
    each_with(limited(limits), async |app: &mut App| {
        let agents: Vec<String> =
            (0..8).map(|n| app.token("default", &format!("bot-{n}"), &format!("bot-{n}"), &[Role::Agent])).collect();
        // Different orders, and some of the same: neither wait for each other for ever.
        let calls = (0..64)
            .map(|n: usize| app.call(&agents[n % 8], "create_payment", order(&format!("order-{}", n % 48), "199.00")));
        let answers = futures::future::join_all(calls).await;
        let tally = tally(&answers);
        assert_eq!(app.rows("payments").await, 12, "{tally:?}");
        let known = ["CREATED", "(VELOCITY_EXCEEDED)", "(MANDATE_EXCEEDED)", "(ORDER_ALREADY_HAS_PAYMENT)"];
        assert!(tally.keys().all(|code| known.contains(&code.as_str())), "{tally:?}");
    })
    .await;
}

#[tokio::test]
async fn a_replacement_takes_its_originals_place_in_a_full_limit() {
    each_with(limited(DAILY), async |app: &mut App| {
        let first = propose(app, "one", "500.00").await.text("payment_id").to_owned();
        propose(app, "two", "500.00").await;
        let mut replacement = order("one", "450.00");
        replacement["supersedes"] = json!(first);
        assert_eq!(app.call(&app.agent(), "create_payment", replacement).await.status(), "CREATED");
        assert_eq!(propose(app, "three", "50.00").await.status(), "CREATED");
        // One that does not fit ends nothing.
        let second = app.payment("two").await.terms.payment_id.to_string();
        let mut too_large = order("two", "500.01");
        too_large["supersedes"] = json!(second);
        too_large["idempotency_key"] = json!("a-key-of-16-chars");
        for _ in 0..2 {
            let refused = app.call(&app.agent(), "create_payment", too_large.clone()).await;
            assert_eq!(refused.code(), "MANDATE_EXCEEDED", "{}", refused.body);
            assert_eq!(app.status("two").await.text("payment_id"), second);
        }
        assert_eq!(app.status("two").await.status(), "CREATED");
    })
    .await;
}
