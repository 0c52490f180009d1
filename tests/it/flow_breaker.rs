//! A dependency that is down is left alone, and the journal's rules go on as before.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::app::{App, Wishes, each_with};
use crate::harness::peer::Weather;

fn careful() -> Wishes {
    Wishes::default().config(|config| {
        (config.signer.breaker_failures, config.rail.breaker_failures) = (3, 3);
        (config.signer.breaker_wait_ms, config.rail.breaker_wait_ms) = (600_000, 600_000);
    })
}

async fn ready(app: &App) -> Value {
    let url = format!("{}/readyz", app.config.server.public_url);
    app.http.get(url).send().await.unwrap().json().await.unwrap()
}

async fn explained(app: &App, check: &str) -> String {
    let told = app.call(&app.operator(), "explain_payment", json!({"order_id": "order-1"})).await;
    let checks = told.body["checks"].as_array().unwrap().clone();
    let row = checks.iter().find(|row| row["check"] == check).unwrap_or_else(|| panic!("no {check}: {checks:?}"));
    row["found"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn attempts_are_used_up_while_the_signer_service_is_left_alone() {
    each_with(careful(), async |app: &mut App| {
        app.create("order-1").await;
        app.signer.set(Weather::Status(503));
        for _ in 0..2 {
            assert_eq!(app.notify("order-1").await.code(), "SIGNER_SERVICE_UNAVAILABLE");
            app.clock.advance(3_000_000);
        }
        assert_eq!(ready(app).await["breakers_of_this_process"], json!({"signer_service": "open", "rail": "closed"}));
        assert!(explained(app, "signer_service").await.ends_with("breaker of this process open"));
        let asked = app.signer.count("", "");
        app.until("order-1", "NEED_MANUAL").await;
        let payment = app.payment("order-1").await;
        assert_eq!((payment.reason.as_str(), payment.notice.attempts), ("signer_service_unavailable", 6));
        assert_eq!(app.signer.count("", ""), asked, "it was left alone");
        assert_eq!(app.resend("order-1").await.code(), "SIGNER_SERVICE_UNAVAILABLE");
        let effects = app.db.raw().await.texts("SELECT outcome FROM effects").await;
        assert_eq!(effects, ["unavailable [breaker_open]"]);

        // Back again: when the wait is over the first call finds out.
        app.signer.up().await;
        app.clock.advance(601_000_000);
        assert_eq!(ready(app).await["breakers_of_this_process"]["signer_service"], "closed", "by its own question");
        assert_eq!(app.resend("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(ready(app).await["breakers_of_this_process"]["signer_service"], "closed");
        assert!(explained(app, "signer_service").await.ends_with("breaker of this process closed"));
    })
    .await;
}

#[tokio::test]
async fn an_open_breaker_alone_never_fails_a_payment_before_its_time() {
    each_with(careful(), async |app: &mut App| {
        let payment = app.signed("order-1").await;
        app.rail.down().await;
        for _ in 0..12 {
            app.next_due().await;
        }
        let stored = app.payment("order-1").await;
        assert!(stored.nothing_sent() && stored.execution.sends > 5, "{:?}", stored.execution);
        assert_eq!((app.status("order-1").await.status(), stored.attention.len()), ("SIGNED".to_owned(), 0));
        assert!(
            ["open", "half_open"].contains(&ready(app).await["breakers_of_this_process"]["rail"].as_str().unwrap())
        );
        app.rail.up().await;
        app.until("order-1", "EXECUTED").await;
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_payment_in_doubt_stays_in_doubt_while_the_rail_is_left_alone() {
    each_with(careful(), async |app: &mut App| {
        let payment = app.signed("order-1").await;
        app.rail.once("/transfers", Weather::LoseReply);
        app.settle().await;
        app.rail.set(Weather::Status(500));
        for _ in 0..6 {
            app.next_due().await;
        }
        assert_eq!(ready(app).await["breakers_of_this_process"]["rail"], "open");
        assert!(explained(app, "rail").await.contains("breaker_open"));
        let told = app.status("order-1").await;
        assert_eq!((told.status().as_str(), told.phase()), ("SIGNED", "unknown"));
        app.rail.up().await;
        app.pass(Duration::from_secs(601)).await;
        app.until("order-1", "EXECUTED").await;
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1));
    })
    .await;
}
