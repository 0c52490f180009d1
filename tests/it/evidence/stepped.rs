//! The store's clock steps back: what counted and was paid is whole all the same, and what can't be is not counted.

use countersign::proof::{SignerKey, SigningKey};
use serde_json::json;

use crate::desk_policy::policy;
use crate::desk_quorum::{approve, second_key};
use crate::harness::app::{App, Wishes, each, each_with};
use crate::harness::people::registry;
use crate::harness::whole::is_whole;

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// Finance, then the board; of finance two.
const LEVELS: &str = "[[rule]]\nid = \"levels\"\ncurrency = \"USD\"\n\
    levels = [{ group = \"finance\", required = 2 }, { group = \"board\", required = 1 }]\n";

async fn is_paid(app: &App, order: &str) {
    app.settle().await;
    assert_eq!(app.status(order).await.status(), "EXECUTED");
    assert_eq!(app.executions(app.payment(order).await.terms.payment_id.as_str()).await, 1);
    is_whole(app).await;
}

#[tokio::test]
async fn a_key_that_was_enrolled_by_a_clock_ahead_decides_at_once() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        app.clock.advance(5 * SECOND);
        let second = second_key(app, "finance-1").await;
        app.clock.advance(-5 * SECOND);
        assert_eq!(approve(app, "finance-1", "order-1", (&second, "second")).await.status(), "SIGNED");
        is_paid(app, "order-1").await;
    })
    .await;
}

#[tokio::test]
async fn a_key_that_is_revoked_by_a_clock_behind_is_not_revoked_before_it_decided() {
    each(async |app: &mut App| {
        // Paid at once; and after a while, so that the decision is by far older than its intent.
        for (order, person, waits) in [("soon", "finance-1", 0), ("late", "finance-2", 3 * MINUTE)] {
            app.awaiting(order).await;
            assert_eq!(app.sign_as(person, order).await.status(), "SIGNED");
            app.clock.advance(waits);
            is_paid(app, order).await;
            app.clock.advance(-waits - 10 * SECOND);
            let next = format!("{order}-next");
            app.awaiting(&next).await;
            let jws = app.jws(person, &app.document(person, &next, "approve", "").await);
            app.revoke_key(person).await;
            is_whole(app).await;
            let refused = app.confirm(person, &next, &jws).await;
            assert_eq!(refused.code(), "SIGNATURE_INVALID", "it counts no more, whatever the clock says");
        }
    })
    .await;
}

#[tokio::test]
async fn decisions_that_come_when_the_clock_has_stepped_back_are_in_their_order_and_in_time() {
    each_with(Wishes::default().patient().policy(policy(LEVELS)), async |app: &mut App| {
        // At the bottom of each step somebody decides: after it was asked, and after each that decided before.
        app.awaiting("order-1").await;
        app.clock.advance(-20 * SECOND);
        app.sign_as("finance-1", "order-1").await;
        app.clock.advance(40 * SECOND);
        app.sign_as("finance-2", "order-1").await;
        app.clock.advance(-30 * SECOND);
        assert_eq!(app.sign_as("board-1", "order-1").await.status(), "SIGNED");
        is_paid(app, "order-1").await;
        // Surplus, by the other of the board.
        app.clock.advance(-20 * SECOND);
        app.sign_as("board-2", "order-1").await;
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn while_the_clock_is_far_behind_nothing_is_counted_and_what_counted_is_answered_alike() {
    each_with(Wishes::default().patient().policy(policy(LEVELS)), async |app: &mut App| {
        app.awaiting("order-1").await;
        let first = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(
            app.confirm("finance-1", "order-1", &app.jws("finance-1", &first)).await.status(),
            "AWAITING_SIGNER"
        );
        app.clock.advance(-6 * MINUTE);
        let refused = app.sign_as("finance-2", "order-1").await;
        assert_eq!(refused.code(), "STORE_UNAVAILABLE", "{}", refused.body);
        assert!(refused.text("error_message").contains("clock is behind"), "{}", refused.body);
        assert_eq!((app.payment("order-1").await.decisions, app.audited_events("decision.refused").await), (1, 0));
        let again = app.confirm("finance-1", "order-1", &app.jws("finance-1", &first)).await;
        assert_eq!(again.body["idempotent_replayed"], json!(true), "{}", again.body);
        // By the signer service it waits there, and counts once the clock has caught up.
        let text = app.document("finance-2", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &text, &app.jws("finance-2", &text)).await, 200);
        app.settle().await;
        assert_eq!(app.payment("order-1").await.decisions, 1);
        app.clock.advance(2 * MINUTE);
        app.deliver_callbacks().await;
        app.settle().await;
        app.clock.advance(10 * MINUTE);
        app.deliver_callbacks().await;
        app.settle().await;
        assert_eq!(app.payment("order-1").await.decisions, 2);
        assert_eq!(app.sign_as("board-1", "order-1").await.status(), "SIGNED");
        is_paid(app, "order-1").await;
    })
    .await;
}

#[tokio::test]
async fn a_decision_that_would_be_of_a_time_after_the_expiry_is_not_counted() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let (_, now) = app.db.store().next_due().await.unwrap();
        let left = app.payment("order-1").await.terms.expires_at.micros() - now.micros();
        let key = SigningKey::from_seed(&[97; 32]);
        let name = "late".parse().unwrap();
        app.clock.advance(left + 2 * SECOND);
        assert!(registry("finance-1").pin(app.db.store(), &name, &SignerKey::Jws(key.public())).await.unwrap());
        app.clock.advance(-62 * SECOND);
        assert_eq!(approve(app, "finance-1", "order-1", (&key, "late")).await.code(), "STORE_UNAVAILABLE");
        assert_eq!(app.payment("order-1").await.decisions, 0);
        app.clock.advance(62 * SECOND);
        let late = app.confirm("finance-1", "order-1", &app.jws("finance-1", &document)).await;
        assert_eq!(late.code(), "PAYMENT_EXPIRED");
        is_whole(app).await;
    })
    .await;
}
