//! A signer service that has lost its database, or says so: what waits is registered anew, and never without end.

use std::time::Duration;

use serde_json::json;

use crate::harness::app::{App, each};
use crate::harness::peer::Weather;

/// What a service says of a payment that it does not know.
const UNKNOWN: Weather =
    Weather::Answer(404, "application/json", r#"{"error_code":"unknown_payment","error_message":"no such payment"}"#);

/// The signer service's database is another one from now on: it holds whom the directory names, and nothing else.
async fn lose_the_database(app: &App) {
    let mut db = app.signer_db().await;
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
        AND name NOT LIKE '%migrations%' AND name <> 'signers'";
    let tables = db.texts(sql).await;
    assert!(tables.iter().any(|table| table == "payments"), "{tables:?}");
    db.execute("PRAGMA foreign_keys = OFF").await.unwrap();
    for table in tables {
        db.execute(&format!("DELETE FROM {table}")).await.unwrap();
    }
    db.close().await.unwrap();
}

/// The keys under which the order's round was registered, and what came of each.
async fn registrations(app: &App, order: &str) -> Vec<(String, String)> {
    let id = app.payment(order).await.terms.payment_id.to_string();
    let rows = app.db.store().read().await.unwrap().effects_of(&id).await.unwrap();
    let of_kind = rows.into_iter().filter(|row| row.kind == "signer.register");
    of_kind.map(|row| (row.outbound_key.replace(&id, ""), row.state)).collect()
}

fn done(keys: &[&str]) -> Vec<(String, String)> {
    keys.iter().map(|key| (format!(":signer.register:{key}"), "done".to_owned())).collect()
}

/// A person decides on the page, and the payment is executed once.
async fn decided_on_the_page(app: &App, order: &str, payment: &str) {
    let document = app.document("finance-1", order, "approve", "").await;
    assert_eq!(app.decide_on_page(order, &document, &app.jws("finance-1", &document)).await, 200);
    app.pass(Duration::from_mins(1)).await;
    assert_eq!(app.status(order).await.status(), "EXECUTED");
    assert_eq!(app.executions(payment).await, 1);
}

#[tokio::test]
async fn a_payment_that_waits_when_the_signer_service_loses_its_database_is_registered_and_told_anew() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let before = app.payment("order-1").await;
        lose_the_database(app).await;
        app.pass(Duration::from_mins(1)).await;

        assert_eq!(app.audited_events("signer.forgotten").await, 1);
        assert_eq!(registrations(app, "order-1").await, done(&["r1", "r1:again1"]));
        let after = app.payment("order-1").await;
        assert_eq!((after.round, &after.document, &after.digest), (before.round, &before.document, &before.digest));
        assert_eq!((after.status.as_str(), after.notice.attempts, after.approvals), ("AWAITING_SIGNER", 0, 0));
        assert_ne!(after.notice.signer_ref, before.notice.signer_ref);
        assert_eq!(app.asked(&payment).await.len(), 1, "the service that knew of nothing was told");
        decided_on_the_page(app, "order-1", &payment).await;
    })
    .await;
}

#[tokio::test]
async fn whoever_asks_first_after_the_loss_has_it_registered_anew() {
    each(async |app: &mut App| {
        for order in ["by-link", "by-check"] {
            let payment = app.awaiting(order).await;
            lose_the_database(app).await;
            let tool = if order == "by-link" { "get_sign_link" } else { "check_sign_status" };
            let answer = app.call(&app.agent(), tool, json!({"order_id": order})).await;
            assert!(!answer.is_error, "{}", answer.body);
            assert_eq!(registrations(app, order).await, done(&["r1", "r1:again1"]));
            app.pass(Duration::from_mins(1)).await;
            assert_eq!(app.asked(&payment).await.len(), 1, "it is told by the worker");
            decided_on_the_page(app, order, &payment).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_notification_that_finds_the_payment_lost_registers_it_and_goes_on_within_the_attempt() {
    each(async |app: &mut App| {
        app.signer_online(false).await;
        let payment = app.create("order-1").await.text("payment_id").to_owned();
        assert_eq!(app.notify("order-1").await.status(), "SIGNER_UNREACHABLE");
        app.until("order-1", "NEED_MANUAL").await;
        lose_the_database(app).await;
        app.signer_online(true).await;
        // Its answer is lost on the way, as a crash would lose it: it is in doubt, and found by its reference.
        app.signer.once("POST /api/v1/payments", Weather::LoseReply);
        app.resend("order-1").await;
        app.until("order-1", "AWAITING_SIGNER").await;
        assert_eq!(registrations(app, "order-1").await, done(&["r1", "r1:again1"]));
        assert_eq!(app.audited("signer.register.done", "found by look-up").await, 1);
        decided_on_the_page(app, "order-1", &payment).await;
    })
    .await;
}

#[tokio::test]
async fn a_service_that_never_knows_what_it_took_is_registered_at_few_times_and_then_a_person_is_asked() {
    each(async |app: &mut App| {
        let payment = app.create("order-1").await.text("payment_id").to_owned();
        for _ in 0..2_000 {
            app.signer.once("/notify", UNKNOWN);
            app.signer.once("/status", UNKNOWN);
            app.signer.once("/sign-link", UNKNOWN);
        }
        app.notify("order-1").await;
        app.until("order-1", "NEED_MANUAL").await;
        for _ in 0..20 {
            app.pass(Duration::from_mins(2)).await;
            app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
            app.call(&app.agent(), "check_sign_status", json!({"order_id": "order-1"})).await;
        }
        assert_eq!(app.status("order-1").await.status(), "NEED_MANUAL");
        assert_eq!(registrations(app, "order-1").await.len(), 8, "bounded");
        assert_eq!(app.signer.count("POST", "/payments"), 8, "bounded");
        let notified = app.signer.count("POST", "/notify");
        app.pass(Duration::from_hours(1)).await;
        assert_eq!(app.signer.count("POST", "/notify"), notified, "nobody goes on by themselves");
        assert_eq!(app.requests(&payment).await, 0);
        assert_eq!(app.payment("order-1").await.approvals, 0);
    })
    .await;
}
