//! Limits, through the whole desk: what counts, until when, and for whom; also at the same moment.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::domain::Role;
use serde_json::{Value, json};

use crate::desk_policy::{policy, under};
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
        let wait = over.body["retry_after_ms"].as_u64().unwrap();
        assert!((86_000_000..=86_400_000).contains(&wait), "until the first leaves the window: {}", over.body);
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
        let refused = propose(app, "too-many", "1.00").await;
        assert_eq!(refused.code(), "MANDATE_EXCEEDED");
        assert!(refused.text("message").contains("open"), "{}", refused.body);
        // Signed is not ended.
        app.sign("a").await;
        assert_eq!(propose(app, "still-too-many", "1.00").await.code(), "MANDATE_EXCEEDED");
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

#[tokio::test]
async fn an_agent_pays_only_in_its_currencies_and_to_its_payees() {
    // What the limit of an amount leaves open, `currencies` closes.
    let limits = format!(
        "{DAILY}currencies = [\"USD\"]\n[[limit]]\nid = \"supplier\"\nbinds = \"agent:agent-2\"\npayees = [\"acct-2\"]\n"
    );
    each_with(limited(&limits), async |app: &mut App| {
        let pay = async |token: String, name: &str, currency: &str, payee: &str| {
            let arguments = json!({"order_id": name, "amount": "100", "currency": currency, "payee": payee});
            app.call(&token, "create_payment", arguments).await
        };
        for (token, currency, payee, code, field) in [
            (app.agent(), "EUR", "acct-1", "POLICY_DENIED", "currency"),
            (app.agent(), "JPY", "acct-1", "POLICY_DENIED", "currency"),
            (app.other_agent(), "EUR", "acct-2", "POLICY_DENIED", "currency"),
            (app.other_agent(), "USD", "acct-1", "PAYEE_NOT_ALLOWED", "payee"),
            (app.other_agent(), "USD", "ACCT-2", "PAYEE_NOT_ALLOWED", "payee"),
        ] {
            let refused = pay(token, "refused", currency, payee).await;
            assert_eq!((refused.code().as_str(), refused.text("field")), (code, field), "{}", refused.body);
            assert_eq!(refused.body["retryable"], false);
            assert!(!refused.body.to_string().contains("acct-"), "no account is given away: {}", refused.body);
        }
        let unnamed = app.call(&app.other_agent(), "create_payment", order("unnamed", "1.00")).await;
        assert_eq!(unnamed.code(), "PAYEE_NOT_ALLOWED", "the configured payee is judged as well");
        assert_eq!((app.rows("payments").await, app.rows("budget_turns").await), (0, 0));
        assert_eq!(pay(app.agent(), "one", "USD", "acct-1").await.status(), "CREATED");
        assert_eq!(pay(app.other_agent(), "two", "USD", "acct-2").await.status(), "CREATED");
    })
    .await;
}

/// What a refusal says of when to come again.
fn wait_of(answer: &Answer) -> Duration {
    assert_eq!(answer.code(), "VELOCITY_EXCEEDED", "{}", answer.body);
    Duration::from_millis(answer.body["retry_after_ms"].as_u64().unwrap())
}

#[tokio::test]
async fn a_full_window_says_when_it_has_room_and_then_it_has() {
    let limits = format!(
        "{}[[limit]]\nid = \"count\"\nbinds = \"tenant\"\ncurrency = \"USD\"\nwindow_hours = 2\nwindow_count = 3\n",
        DAILY.replace("per_payment = \"500.00\"\n", "")
    );
    // Orders that nobody signs stay open here, so that they count on.
    let wishes = limited(&limits).config(|config| config.payments.expires_after_s = 400_000);
    each_with(wishes, async |app: &mut App| {
        assert_eq!(propose(app, "one", "300.00").await.status(), "CREATED");
        app.clock.advance(3_600_000_000);
        assert_eq!(propose(app, "two", "200.00").await.status(), "CREATED");
        assert_eq!(propose(app, "three", "400.00").await.status(), "CREATED");
        let hours = |wait: Duration| wait.as_secs().div_ceil(3_600);
        assert_eq!(hours(wait_of(&propose(app, "four", "100.00").await)), 1);
        assert_eq!(hours(wait_of(&propose(app, "four", "100.01").await)), 23, "until the oldest has gone");
        assert_eq!(hours(wait_of(&propose(app, "four", "400.01").await)), 24, "one more must go");
        app.clock.advance(3_600_000_000);
        for (name, amount) in [("five", "400.00"), ("six", "400.01")] {
            let wait = wait_of(&propose(app, name, amount).await);
            app.clock.advance(i64::try_from(wait.as_micros()).unwrap() - 60_000_000);
            let soon = wait_of(&propose(app, name, amount).await);
            assert!(soon <= Duration::from_mins(1), "{soon:?}");
            app.clock.advance(i64::try_from(soon.as_micros()).unwrap());
            assert_eq!(propose(app, name, amount).await.status(), "CREATED", "{name}");
            app.cancel(name).await;
        }
        assert_eq!(propose(app, "never", "1000.01").await.code(), "MANDATE_EXCEEDED");
    })
    .await;
}

#[tokio::test]
async fn a_window_made_narrower_calls_off_what_came_last_and_no_reservation_counts_against_itself() {
    each_with(limited(DAILY), async |app: &mut App| {
        for name in ["first", "second"] {
            propose(app, name, "500.00").await;
            app.sign(name).await;
        }
        // Full to the cent: what was signed is carried out all the same.
        under(app, policy(DAILY)).await;
        for name in ["first", "second"] {
            assert_eq!(app.status(name).await.status(), "EXECUTED", "{name}");
        }
        app.pass(Duration::from_hours(25)).await;
        for name in ["third", "called-off", "fourth", "fifth"] {
            propose(app, name, "250.00").await;
            if name != "called-off" {
                app.sign(name).await;
            }
        }
        app.cancel("called-off").await;
        under(app, policy(&DAILY.replace("\"1000.00\"", "\"500.00\""))).await;
        for (name, status, reason) in
            [("third", "EXECUTED", ""), ("fourth", "EXECUTED", ""), ("fifth", "CANCELLED", "velocity_exceeded")]
        {
            let now = app.payment(name).await;
            assert_eq!((now.status.as_str(), now.reason.as_str()), (status, reason), "{name}");
        }
        let id = app.payment("fifth").await.terms.payment_id.to_string();
        app.settle().await;
        assert_eq!(app.requests(&id).await, 0, "the process with the old file does not revive it");
        // Payments are counted as well, each agent's by itself.
        app.pass(Duration::from_hours(25)).await;
        propose(app, "sixth", "1.00").await;
        propose(app, "seventh", "1.00").await;
        app.call(&app.other_agent(), "create_payment", order("eighth", "1.00")).await;
        for name in ["sixth", "seventh", "eighth"] {
            app.sign(name).await;
        }
        under(app, policy(&DAILY.replace("window_amount = \"1000.00\"", "window_count = 1"))).await;
        for (name, status) in [("sixth", "EXECUTED"), ("seventh", "CANCELLED"), ("eighth", "EXECUTED")] {
            assert_eq!(app.payment(name).await.status.as_str(), status, "{name}");
        }
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
