//! People who can't be reached, and a signer service that does not work: two different troubles.

use std::time::Duration;

use serde_json::json;

use crate::harness::app::{App, Wishes, each, each_with};
use crate::harness::peer::Weather;

#[tokio::test]
async fn an_offline_signer_is_a_business_state_then_a_persons_task_and_a_late_signature_still_counts() {
    each(async |app: &mut App| {
        app.signer_online(false).await;
        let payment = app.create("order-1").await.text("payment_id").to_owned();
        let answer = app.notify("order-1").await;
        assert_eq!(answer.status(), "SIGNER_UNREACHABLE");
        assert_eq!((answer.is_error, answer.text("next_action")), (false, "wait"));
        assert!(answer.body["retry_after_ms"].as_u64().is_some_and(|wait| wait >= 1_000), "{}", answer.body);

        app.until("order-1", "NEED_MANUAL").await;
        let attempts = usize::try_from(app.config.notify.attempts).unwrap();
        assert_eq!(app.signer.count("POST", "/notify"), attempts, "bounded");
        let stuck = app.call(&app.operator(), "list_attention", json!({})).await;
        let row = &stuck.body["payments"][0];
        assert_eq!(row["payment_id"], payment.as_str());
        assert_eq!((&row["status"], &row["reason"]), (&json!("NEED_MANUAL"), &json!("retries_exhausted")));
        assert_eq!(app.status("order-1").await.text("next_action"), "inform_user");

        // Nobody is asked again by a machine, and nothing is paid.
        app.pass(Duration::from_hours(2)).await;
        assert_eq!(app.signer.count("POST", "/notify"), attempts);
        assert_eq!(app.requests(&payment).await, 0);

        assert_eq!(app.sign("order-1").await.status(), "SIGNED", "a late signature counts");
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
        assert_eq!(app.call(&app.operator(), "list_attention", json!({})).await.body["payments"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn a_late_decision_on_the_sign_page_counts_after_the_retries_ran_out() {
    each(async |app: &mut App| {
        app.signer_online(false).await;
        let payment = app.create("order-1").await.text("payment_id").to_owned();
        app.notify("order-1").await;
        app.until("order-1", "NEED_MANUAL").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        // Its callback is lost too: NEED_MANUAL goes on asking.
        app.pass(Duration::from_mins(1)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_decision_needs_no_notification_at_all() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        assert_eq!(app.sign("order-1").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.signer.count("POST", ""), 0, "the signer service was never needed");
    })
    .await;
}

#[tokio::test]
async fn an_unreachable_signer_who_comes_back_is_reached_by_the_workers_own_retry() {
    each(async |app: &mut App| {
        app.signer_online(false).await;
        app.create("order-1").await;
        assert_eq!(app.notify("order-1").await.status(), "SIGNER_UNREACHABLE");
        app.signer_online(true).await;
        assert_eq!(app.status("order-1").await.status(), "SIGNER_UNREACHABLE");
        app.next_due().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
    })
    .await;
}

#[tokio::test]
async fn an_operator_who_resends_begins_a_new_campaign() {
    each(async |app: &mut App| {
        app.signer_online(false).await;
        app.create("order-1").await;
        app.notify("order-1").await;
        app.until("order-1", "NEED_MANUAL").await;

        let offline = app.resend("order-1").await;
        assert_eq!(offline.status(), "SIGNER_UNREACHABLE");
        assert_eq!(app.payment("order-1").await.notice.attempts, 1);
        app.until("order-1", "NEED_MANUAL").await;

        app.signer_online(true).await;
        let online = app.resend("order-1").await;
        assert_eq!(online.status(), "AWAITING_SIGNER");
        assert!(online.body["reason"].is_null(), "the old reason is gone: {}", online.body);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_asks_twenty_times_uses_no_attempt_up() {
    each(async |app: &mut App| {
        app.signer_online(false).await;
        app.create("order-1").await;
        for _ in 0..20 {
            assert_eq!(app.notify("order-1").await.status(), "SIGNER_UNREACHABLE");
        }
        assert_eq!(app.signer.count("POST", "/notify"), 1);
        let payment = app.payment("order-1").await;
        assert_eq!((payment.notice.attempts, payment.notice.settled), (1, 1));
        // Nor does it disturb a person who was reached.
        app.signer_online(true).await;
        app.next_due().await;
        for _ in 0..20 {
            assert_eq!(app.notify("order-1").await.status(), "AWAITING_SIGNER");
        }
        assert_eq!(app.signer.count("POST", "/notify"), 2);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_never_notifies_is_stood_in_for_by_the_worker() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        app.settle().await;
        app.pass(Duration::from_secs(25)).await;
        assert_eq!(app.status("order-1").await.status(), "CREATED");
        app.pass(Duration::from_secs(6)).await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
    })
    .await;
}

#[tokio::test]
async fn a_payment_that_nobody_decides_expires_unpaid_and_stays_so() {
    each(async |app: &mut App| {
        app.signer_online(false).await;
        let payment = app.create("order-1").await.text("payment_id").to_owned();
        app.notify("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        app.until("order-1", "NEED_MANUAL").await;
        app.pass(Duration::from_hours(25)).await;
        let expired = app.status("order-1").await;
        assert_eq!((expired.status().as_str(), expired.text("reason")), ("EXPIRED", "not_decided_in_time"));
        let late = app.confirm("finance-1", "order-1", &app.jws("finance-1", &document)).await;
        assert_eq!(late.code(), "PAYMENT_TERMINAL");
        assert_eq!(app.audited("decision.refused", "PAYMENT_TERMINAL").await, 1);
        assert_eq!(app.resend("order-1").await.code(), "PAYMENT_TERMINAL");
        app.settle().await;
        assert_eq!(app.requests(&payment).await, 0);
    })
    .await;
}

/// Few attempts, so that the slow ones do not take long.
fn three_attempts() -> Wishes {
    Wishes::default().config(|config| {
        config.notify.attempts = 3;
        config.notify.fast_attempts = 3;
    })
}

/// The signer service in trouble from the first request on: told apart, survived, and recovered from.
async fn the_service_is_in_trouble(weather: Option<Weather>, code: &str, reason: &str) {
    each_with(three_attempts(), async |app: &mut App| {
        match weather {
            Some(weather) => app.signer.set(weather),
            None => app.signer.down().await,
        }
        // Create with notify succeeds and says what is wrong beside it.
        let order = json!({"order_id": "order-1", "amount": "199.00", "signer_id": "finance-1", "notify": true});
        let created = app.call(&app.agent(), "create_payment", order).await;
        assert_eq!((created.status().as_str(), created.is_error), ("CREATED", false), "{}", created.body);
        assert_eq!(created.body["notice"]["code"], code, "{}", created.body);

        // Asked for by itself, it is an error with a code of its own.
        app.create("order-2").await;
        let notified = app.notify("order-2").await;
        assert_eq!(notified.code(), code);
        assert_eq!(notified.body["retryable"], code != "SIGNER_UNAUTHORIZED");
        assert_eq!((notified.text("order_id"), notified.text("status")), ("order-2", "CREATED"));
        assert!(!format!("{}{}", created.body, notified.body).contains("SECRET"), "{}", notified.body);
        assert_eq!(app.status("order-2").await.status(), "CREATED", "the payment stays where it was");
        let again = app.notify("order-2").await;
        assert_eq!((again.status().as_str(), again.text("next_action")), ("CREATED", "wait"));

        app.until("order-1", "NEED_MANUAL").await;
        app.until("order-2", "NEED_MANUAL").await;
        let stuck = app.status("order-1").await;
        assert_eq!(stuck.text("reason"), reason);
        assert_eq!(app.payment("order-1").await.notice.attempts, 3);

        // It is back: an operator sends anew, and the story ends well.
        app.signer.up().await;
        assert_eq!(app.resend("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.sign("order-1").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn a_signer_service_that_refuses_connections_is_unavailable() {
    the_service_is_in_trouble(None, "SIGNER_SERVICE_UNAVAILABLE", "signer_service_unavailable").await;
}

#[tokio::test]
async fn a_signer_service_that_refuses_our_key_pages_an_operator() {
    the_service_is_in_trouble(Some(Weather::Status(401)), "SIGNER_UNAUTHORIZED", "signer_unauthorized").await;
}

#[tokio::test]
async fn a_signer_service_that_forbids_us_pages_an_operator() {
    the_service_is_in_trouble(Some(Weather::Status(403)), "SIGNER_UNAUTHORIZED", "signer_unauthorized").await;
}

#[tokio::test]
async fn a_signer_service_that_hangs_is_a_timeout() {
    the_service_is_in_trouble(Some(Weather::Hang), "SIGNER_TIMEOUT", "signer_timeout").await;
}

#[tokio::test]
async fn a_signer_service_that_answers_a_web_page_is_unavailable() {
    the_service_is_in_trouble(Some(Weather::Garbage), "SIGNER_SERVICE_UNAVAILABLE", "signer_service_unavailable").await;
}

#[tokio::test]
async fn a_signer_service_that_redirects_is_not_followed() {
    the_service_is_in_trouble(Some(Weather::Redirect), "SIGNER_SERVICE_UNAVAILABLE", "signer_service_unavailable")
        .await;
}

#[tokio::test]
async fn a_signer_service_that_fails_is_unavailable() {
    the_service_is_in_trouble(Some(Weather::Status(503)), "SIGNER_SERVICE_UNAVAILABLE", "signer_service_unavailable")
        .await;
}

#[tokio::test]
async fn a_signer_service_that_breaks_off_is_unavailable() {
    the_service_is_in_trouble(Some(Weather::Truncated), "SIGNER_SERVICE_UNAVAILABLE", "signer_service_unavailable")
        .await;
}

#[tokio::test]
async fn a_signer_service_that_takes_no_such_payment_hands_it_to_a_person() {
    the_service_is_in_trouble(Some(Weather::Status(422)), "SIGNER_SERVICE_UNAVAILABLE", "signer_service_refused").await;
}

#[tokio::test]
async fn trouble_after_the_registration_keeps_the_state_it_found() {
    each_with(three_attempts(), async |app: &mut App| {
        app.signer_online(false).await;
        app.create("order-1").await;
        assert_eq!(app.notify("order-1").await.status(), "SIGNER_UNREACHABLE");
        app.signer.set(Weather::Status(401));
        app.next_due().await;
        let stuck = app.status("order-1").await;
        assert_eq!((stuck.status().as_str(), stuck.text("reason")), ("SIGNER_UNREACHABLE", "signer_unauthorized"));
        let asked = app.call(&app.agent(), "check_sign_status", json!({"order_id": "order-1"})).await;
        assert_eq!(asked.code(), "SIGNER_UNAUTHORIZED");
        app.until("order-1", "NEED_MANUAL").await;
        assert_eq!(app.status("order-1").await.text("reason"), "signer_unauthorized");
    })
    .await;
}

#[tokio::test]
async fn a_registration_whose_answer_was_lost_is_looked_up_and_not_doubled() {
    each(async |app: &mut App| {
        app.signer.once("POST /api/v1/payments", Weather::LoseReply);
        app.create("order-1").await;
        let notified = app.notify("order-1").await;
        assert!(notified.is_error, "{}", notified.body);
        app.next_due().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.signer.count("POST", "/api/v1/payments"), 1, "asked for, not sent again");
        assert_eq!(app.signer.count("POST", "/notify"), 1);
        assert_eq!(app.audited("signer.register.done", "found by look-up").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_notification_whose_answer_was_lost_is_repeated_under_its_own_number() {
    each(async |app: &mut App| {
        app.signer.once("/notify", Weather::LoseReply);
        app.create("order-1").await;
        assert!(app.notify("order-1").await.is_error);
        app.next_due().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        let effects = app.db.raw().await.texts("SELECT outbound_key FROM effects WHERE kind = 'signer.notify'").await;
        assert_eq!(effects.len(), 1, "one notification: {effects:?}");
        assert!(effects[0].ends_with(":signer.notify:r1:n1"), "{effects:?}");
        assert_eq!(app.signer.count("POST", "/notify"), 2);
    })
    .await;
}

#[tokio::test]
async fn money_is_not_held_up_by_a_signer_service_that_is_gone() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        app.signer.down().await;
        // The signer brings the decision straight to the gateway.
        assert_eq!(app.sign("order-1").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}
