//! Bytes that go missing: each way a wire can be bad, before signer service, rail and receiver of events.
//!
//! For each: is the attempt `not_sent` exactly where provably no byte of the request left, else `unknown`; does
//! the payment end right; is it executed once; does nothing last longer than the configured time-outs allow.
//! And for what is only asked: is nothing learnt from less than a whole answer.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::app::{App, Wishes, each_with};
use crate::harness::sink::{Seen, Sink};
use crate::harness::wire::{Line, Wire};

/// What an attempt over such a wire is known to have come to.
const NOT_SENT: &str = "not_sent";
const UNKNOWN: &str = "unknown";
const DONE: &str = "done";

/// Each line, and what an attempt over it proves.
const LINES: [(Line, &str); 13] = [
    (Line::Refuse, NOT_SENT),
    // The connection was there: a byte may have left before the reset came.
    (Line::ResetInRequest(0), UNKNOWN),
    (Line::ResetInRequest(1), UNKNOWN),
    (Line::ResetInRequest(60), UNKNOWN),
    (Line::HalfOpen, UNKNOWN),
    (Line::Blackhole, UNKNOWN),
    (Line::ResetInAnswer(0), UNKNOWN),
    (Line::ResetInAnswer(20), UNKNOWN),
    (Line::Truncate(0), UNKNOWN),
    (Line::Truncate(20), UNKNOWN),
    // In the body.
    (Line::Truncate(180), UNKNOWN),
    (Line::Drip(Duration::from_millis(100)), UNKNOWN),
    (Line::Delay(Duration::from_millis(30)), DONE),
];

/// Lines that let no whole answer to a question through: the shortest, "no transfer", has 124 bytes.
const MUTE: [Line; 13] = [
    Line::Refuse,
    Line::ResetInRequest(0),
    Line::ResetInRequest(1),
    Line::ResetInRequest(60),
    Line::HalfOpen,
    Line::Blackhole,
    Line::ResetInAnswer(0),
    Line::ResetInAnswer(20),
    // In the body.
    Line::ResetInAnswer(118),
    Line::Truncate(0),
    Line::Truncate(20),
    Line::Truncate(118),
    Line::Drip(Duration::from_millis(100)),
];

async fn wire_to_the_rail(app: &mut App) -> Wire {
    let wire = Wire::to(app.rail.url().replace("http://", "")).await;
    app.config.rail.url = format!("http://{}", wire.address);
    app.restart().await;
    wire
}

async fn wire_to_the_signer_service(app: &mut App) -> Wire {
    let wire = Wire::to(app.signer.url().replace("http://", "")).await;
    app.config.signer.url = format!("http://{}", wire.address);
    app.restart().await;
    wire
}

/// Long enough for a busy machine, short enough to wait out what hangs.
fn spans() -> Wishes {
    Wishes::default().config(|config| {
        for (read, total) in [
            (&mut config.signer.read_timeout_ms, &mut config.signer.total_timeout_ms),
            (&mut config.rail.read_timeout_ms, &mut config.rail.total_timeout_ms),
        ] {
            (*read, *total) = (1_000, 1_400);
        }
    })
}

/// A call takes 1.4 s at most; far beyond a few of them, something hangs.
const CEILING: Duration = Duration::from_secs(20);

/// What an effect of a payment came to.
async fn effect(app: &App, payment: &str, kind: &str) -> String {
    let sql =
        format!("SELECT state FROM effects WHERE payment_id = '{payment}' AND kind = '{kind}' ORDER BY created_at");
    app.db.raw().await.texts(&sql).await.pop().unwrap_or_default()
}

fn in_time(begun: Instant, line: Line) {
    assert!(begun.elapsed() < CEILING, "{line:?} lasted {:?}", begun.elapsed());
}

#[tokio::test]
async fn over_every_bad_wire_to_the_rail_the_attempt_is_classified_and_the_money_moves_once() {
    each_with(spans(), async |app: &mut App| {
        let mut wire = wire_to_the_rail(app).await;
        for (number, (line, proves)) in LINES.into_iter().enumerate() {
            let order = format!("order-{number}");
            let payment = app.signed(&order).await;
            wire.set(line).await;
            let begun = Instant::now();
            app.settle().await;
            in_time(begun, line);
            assert_eq!(effect(app, &payment, "rail.execute").await, proves, "{line:?}");
            let phase = app.payment(&order).await.execution.phase;
            let expected = match proves {
                NOT_SENT => "intended",
                UNKNOWN => "unknown",
                _ => "confirmed",
            };
            assert_eq!(phase.as_str(), expected, "{line:?}");
            let arrived = !matches!(line, Line::Refuse | Line::ResetInRequest(_) | Line::HalfOpen);
            assert_eq!(app.executions(&payment).await, u64::from(arrived), "{line:?}");
            wire.set(Line::Good).await;
            app.until(&order, "EXECUTED").await;
            let requests = app.requests(&payment).await;
            assert_eq!((app.executions(&payment).await, requests), (1, 1), "{line:?}: asked about, not sent again");
        }
    })
    .await;
}

/// What look-ups of a payment came to, in order.
async fn looked_up(app: &App, payment: &str) -> Vec<String> {
    let all = app.audit().await.into_iter();
    all.filter(|facts| facts.payment_id == payment && facts.event == "rail.execute.looked_up")
        .map(|facts| facts.reason)
        .collect()
}

#[tokio::test]
async fn over_every_bad_wire_a_look_up_proves_nothing_and_the_transfer_is_asked_for_once() {
    each_with(spans(), async |app: &mut App| {
        let mut wire = wire_to_the_rail(app).await;
        for (number, line) in MUTE.into_iter().enumerate() {
            // Paid and not answered, or not even asked: a look-up that is cut short says neither.
            for (paid, lost) in [(1, Line::ResetInAnswer(0)), (0, Line::ResetInRequest(60))] {
                let order = format!("order-{number}-{paid}");
                let payment = app.signed(&order).await;
                wire.set(lost).await;
                app.settle().await;
                assert_eq!(app.payment(&order).await.execution.phase.as_str(), "unknown", "{lost:?}");
                wire.set(line).await;
                let begun = Instant::now();
                while looked_up(app, &payment).await.is_empty() {
                    app.next_due().await;
                    in_time(begun, line);
                }
                let words = looked_up(app, &payment).await;
                assert!(words.iter().all(|word| word.starts_with("inconclusive")), "{line:?}: {words:?}");
                assert_eq!(app.payment(&order).await.execution.phase.as_str(), "unknown", "{line:?}");
                assert_eq!(app.requests(&payment).await, paid, "{line:?}: nothing is sent for want of an answer");
                wire.set(Line::Good).await;
                app.until(&order, "EXECUTED").await;
                assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1), "{line:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn over_every_bad_wire_no_decision_and_no_link_is_read_and_then_each_decision_once() {
    each_with(spans(), async |app: &mut App| {
        let mut wire = wire_to_the_signer_service(app).await;
        for (number, line) in MUTE.into_iter().enumerate() {
            let order = format!("order-{number}");
            let payment = app.awaiting(&order).await;
            let document = app.document("finance-1", &order, "approve", "").await;
            let jws = app.jws("finance-1", &document);
            assert!(app.decide_on_page(&order, &document, &jws).await < 300);
            wire.set(line).await;
            for question in ["check_sign_status", "get_sign_link"] {
                let begun = Instant::now();
                let told = app.call(&app.agent(), question, json!({"order_id": order})).await;
                in_time(begun, line);
                let trouble = matches!(told.code().as_str(), "SIGNER_TIMEOUT" | "SIGNER_SERVICE_UNAVAILABLE");
                assert!(trouble && told.body["retryable"] == true, "{line:?}: {question}: {}", told.body);
            }
            let begun = Instant::now();
            let checked = async || {
                let all = app.audit().await;
                all.iter().any(|facts| facts.payment_id == payment && facts.event == "signer.checked")
            };
            while !checked().await {
                app.next_due().await;
                in_time(begun, line);
            }
            assert_eq!(app.payment(&order).await.status.as_str(), "AWAITING_SIGNER", "{line:?}");
            assert_eq!(app.rows("decisions").await, number, "{line:?}: no decision was read");
            wire.set(Line::Good).await;
            let asked = app.call(&app.agent(), "check_sign_status", json!({"order_id": order})).await;
            assert_eq!(asked.status(), "SIGNED", "{line:?}: {}", asked.body);
            app.until(&order, "EXECUTED").await;
            assert_eq!((app.rows("decisions").await, app.executions(&payment).await), (number + 1, 1), "{line:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn over_every_bad_wire_to_the_signer_service_each_kind_is_classified_and_done_once() {
    each_with(spans(), async |app: &mut App| {
        let mut wire = wire_to_the_signer_service(app).await;
        for (number, (line, proves)) in LINES.into_iter().enumerate() {
            // Registering.
            let order = format!("register-{number}");
            let payment = app.create(&order).await.text("payment_id").to_owned();
            wire.set(line).await;
            let begun = Instant::now();
            let told = app.notify(&order).await;
            in_time(begun, line);
            assert_eq!(effect(app, &payment, "signer.register").await, proves, "{line:?}: {}", told.body);
            assert_eq!(told.is_error, proves != DONE, "{line:?}: {}", told.body);
            wire.set(Line::Good).await;
            app.until(&order, "AWAITING_SIGNER").await;
            assert_eq!(app.asked(&payment).await.len(), 1, "{line:?}: notified once");

            // Notifying.
            let order = format!("notify-{number}");
            let payment = app.create(&order).await.text("payment_id").to_owned();
            app.call(&app.agent(), "get_sign_link", json!({"order_id": order})).await;
            assert_eq!(effect(app, &payment, "signer.register").await, DONE);
            wire.set(line).await;
            let begun = Instant::now();
            let told = app.notify(&order).await;
            in_time(begun, line);
            assert_eq!(effect(app, &payment, "signer.notify").await, proves, "{line:?}: {}", told.body);
            wire.set(Line::Good).await;
            app.until(&order, "AWAITING_SIGNER").await;
            assert_eq!(app.asked(&payment).await.len(), 1, "{line:?}: notified once");

            // Saying that it is over.
            assert_eq!(app.cancel(&order).await.status(), "CANCELLED");
            wire.set(line).await;
            let begun = Instant::now();
            app.settle().await;
            in_time(begun, line);
            assert_eq!(effect(app, &payment, "signer.cancel").await, proves, "{line:?}");
            wire.set(Line::Good).await;
            for _ in 0..20 {
                if app.payment(&order).await.closing.tell_at.is_none() {
                    break;
                }
                app.next_due().await;
            }
            assert_eq!(effect(app, &payment, "signer.cancel").await, DONE, "{line:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn over_every_bad_wire_to_a_receiver_the_event_is_tried_again_until_it_is_taken() {
    each_with(spans(), async |app: &mut App| {
        let sink = Sink::new().await;
        let mut wire = Wire::to(sink.place()).await;
        let hooks = &mut app.config.webhooks;
        hooks.targets = vec![format!("http://{}/hooks", wire.address)];
        hooks.allow_private = vec![wire.address.to_string()];
        hooks.secrets = vec![crate::harness::app::CALLBACK_SECRET.into()];
        hooks.schedule_s = vec![0, 5, 5, 5];
        hooks.timeout_ms = 1_000;
        app.restart().await;
        for (number, (line, proves)) in LINES.into_iter().enumerate() {
            app.create(&format!("order-{number}")).await;
            wire.set(line).await;
            let begun = Instant::now();
            let done = app.journal.deliver_due().await.unwrap();
            in_time(begun, line);
            // A status that arrived is an answer, whatever came after it.
            let taken = proves == DONE || line == Line::Truncate(180);
            assert_eq!((done.attempted, done.delivered), (1, usize::from(taken)), "{line:?}");
            wire.set(Line::Good).await;
            app.clock.advance(6_000_000);
            let again = app.journal.deliver_due().await.unwrap();
            assert_eq!((again.attempted, again.delivered), (usize::from(!taken), usize::from(!taken)), "{line:?}");
            let id = app.db.raw().await.texts("SELECT event_id FROM outbox ORDER BY event_id DESC LIMIT 1").await;
            let got = sink.seen().iter().filter(|seen| Seen::id(seen) == id[0]).count();
            // What may have been taken is told again, under the same id.
            let first = !matches!(line, Line::Refuse | Line::ResetInRequest(_) | Line::HalfOpen);
            assert_eq!(got, usize::from(first) + usize::from(!taken), "{line:?}");
        }
    })
    .await;
}
