//! Carrying a payment out while the rail, the network and processes misbehave: once, or known not at all.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::harness::app::{App, Wishes, each, each_with, settle};
use crate::harness::peer::Weather;
use crate::harness::scripted::{Execution, ScriptedRail};

/// What one fault of the rail leads to.
struct Row {
    fault: &'static str,
    delay_ms: u64,
    /// Status and phase after the first attempt.
    first: (&'static str, &'static str),
    /// Status and reason in the end.
    last: (&'static str, &'static str),
    /// How often the rail was asked to pay in the end.
    requests: u64,
}

const UNKNOWN: (&str, &str) = ("SIGNED", "unknown");
const PAID: (&str, &str) = ("EXECUTED", "");

#[tokio::test]
async fn whatever_the_rail_answers_the_money_moves_once_or_provably_not() {
    let row = |fault, first, last, requests| Row { fault, delay_ms: 0, first, last, requests };
    let rows = [
        row("drop_request", UNKNOWN, PAID, 2),
        row("drop_reply", UNKNOWN, PAID, 1),
        row("fail_before", UNKNOWN, PAID, 2),
        row("fail_after", UNKNOWN, PAID, 1),
        row("wrong_amount", UNKNOWN, PAID, 1),
        row("garbage", UNKNOWN, PAID, 2),
        row("truncate", UNKNOWN, PAID, 1),
        row("redirect", UNKNOWN, PAID, 2),
        row("rate_limit", ("SIGNED", "intended"), PAID, 2),
        row("refuse", ("FAILED", "refused"), ("FAILED", "insufficient_funds"), 1),
        row("unauthorized", ("FAILED", "refused"), ("FAILED", "rail_unauthorized"), 1),
        Row { delay_ms: 700, ..row("delay_after", UNKNOWN, PAID, 1) },
        // Still on its way when it is looked up: sent again under the same key, carried out once.
        Row { delay_ms: 900, ..row("delay_before", UNKNOWN, PAID, 2) },
    ];
    each_with(Wishes::default().hasty(), async |app: &mut App| {
        for row in &rows {
            let order = row.fault;
            eprintln!("{order}");
            let payment = app.signed(order).await;
            app.faults(json!({"next": [{"kind": row.fault, "delay_ms": row.delay_ms}]})).await;
            app.settle().await;
            let first = app.status(order).await;
            assert_eq!((first.status().as_str(), first.phase()), row.first, "{order}: {}", first.body);
            if row.first == UNKNOWN {
                assert!(first.text("message").contains("Never pay this again"), "{}", first.body);
            }
            app.until(order, row.last.0).await;
            let last = app.status(order).await;
            assert_eq!(last.text("reason"), row.last.1, "{order}: {}", last.body);
            assert_eq!(app.requests(&payment).await, row.requests, "{order}");
            assert!(!last.body.to_string().contains("sandbox"), "the rail's own words stay there: {}", last.body);
        }
        let mismatch = app.status("wrong_amount").await;
        assert_eq!(mismatch.body["attention"], json!(["INTEGRITY_MISMATCH"]), "a person is told all the same");
        // The late one has landed meanwhile, or lands now; the ledger is checked when the test ends.
        let late = app.payment("delay_before").await.terms.payment_id.to_string();
        for _ in 0..40 {
            let seen = app.ledger(&late).await["seen"].clone();
            if seen.as_array().unwrap().iter().all(|line| line["answered"] != "") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the delayed request never ended");
    })
    .await;
}

#[tokio::test]
async fn look_ups_that_find_nothing_for_a_while_do_not_pay_twice() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"hide_lookups": true}})).await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.phase(), "unknown");
        app.until("order-1", "EXECUTED").await;
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 2), "the same key, replayed");
        app.faults(json!({"standing": {"hide_lookups": false}})).await;
    })
    .await;
}

#[tokio::test]
async fn not_found_inside_the_rails_read_lag_proves_nothing() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"hide_lookups": true}})).await;
        app.settle().await;
        app.pass(Duration::from_millis(1_500)).await;
        assert_eq!(app.requests(&payment).await, 1, "too early to ask");
        app.faults(json!({"standing": {"hide_lookups": false}})).await;
        app.until("order-1", "EXECUTED").await;
        assert_eq!(app.requests(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn while_nobody_can_say_what_happened_nothing_is_sent_again() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": true}})).await;
        app.settle().await;
        for _ in 0..10 {
            app.next_due().await;
        }
        let stuck = app.status("order-1").await;
        assert_eq!((stuck.status().as_str(), stuck.phase()), UNKNOWN);
        assert_eq!(app.requests(&payment).await, 1);
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until("order-1", "EXECUTED").await;
        assert_eq!(app.requests(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn past_the_resend_deadline_not_found_is_a_persons_question_and_never_a_second_payment() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        let faults = json!({"hide_lookups": false, "lookup_down": true, "forget_keys": true});
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": faults})).await;
        app.settle().await;
        // The rail can't be asked until its memory of the key is no longer to be relied on.
        app.pass(Duration::from_hours(13)).await;
        app.faults(json!({"standing": {"lookup_down": false, "hide_lookups": true}})).await;
        for _ in 0..8 {
            app.next_due().await;
        }
        app.pass(Duration::from_hours(72)).await;
        let stuck = app.status("order-1").await;
        assert_eq!((stuck.status().as_str(), stuck.phase()), UNKNOWN, "never closed on a guess");
        assert_eq!(stuck.body["attention"], json!(["RESEND_WINDOW_CLOSED"]));
        let listed = app.call(&app.operator(), "list_attention", json!({})).await;
        assert_eq!(listed.body["payments"][0]["payment_id"], payment.as_str());
        assert_eq!((app.requests(&payment).await, app.executions(&payment).await), (1, 1));
        // Once the rail finds it, it is told.
        app.faults(json!({"standing": {"hide_lookups": false}})).await;
        app.until("order-1", "EXECUTED").await;
        assert_eq!(app.requests(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_rail_that_refuses_a_second_send_says_nothing_about_the_first() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        let next = json!([{"kind": "drop_reply"}, {"kind": "unauthorized"}]);
        app.faults(json!({"next": next, "standing": {"hide_lookups": true}})).await;
        app.settle().await;
        app.next_due().await;
        let doubt = app.status("order-1").await;
        assert_eq!((doubt.status().as_str(), doubt.phase()), UNKNOWN, "{}", doubt.body);
        assert_eq!(doubt.body["attention"], json!(["REFUSED_WHILE_UNKNOWN"]));
        assert_eq!(app.requests(&payment).await, 2);
        app.faults(json!({"standing": {"hide_lookups": false}})).await;
        app.until("order-1", "EXECUTED").await;
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_rail_that_is_down_is_tried_again_and_pays_when_it_is_back() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        app.rail.down().await;
        app.settle().await;
        for _ in 0..5 {
            app.next_due().await;
        }
        let waiting = app.status("order-1").await;
        assert_eq!((waiting.status().as_str(), waiting.phase()), ("SIGNED", "intended"), "provably nothing was sent");
        assert!(app.payment("order-1").await.nothing_sent());
        app.rail.up().await;
        app.until("order-1", "EXECUTED").await;
        assert_eq!(app.requests(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_rail_that_stays_down_fails_the_payment_at_its_time() {
    let soon = Wishes::default().config(|config| {
        config.payments.expires_after_s = 600;
        config.payments.execute_within_s = 600;
    });
    each_with(soon, async |app: &mut App| {
        let payment = app.signed("order-1").await;
        app.rail.down().await;
        app.settle().await;
        app.until("order-1", "FAILED").await;
        assert_eq!(app.status("order-1").await.text("reason"), "rail_unavailable");
        app.rail.up().await;
        app.pass(Duration::from_hours(1)).await;
        assert_eq!(app.requests(&payment).await, 0, "it is not sent after it failed");
    })
    .await;
}

#[tokio::test]
async fn a_signed_payment_that_was_never_started_in_time_expires() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        // The worker was away for three days.
        app.pass(Duration::from_hours(72)).await;
        let expired = app.status("order-1").await;
        assert_eq!((expired.status().as_str(), expired.text("reason")), ("EXPIRED", "not_executed_in_time"));
        assert_eq!(app.requests(&payment).await, 0);
    })
    .await;
}

#[tokio::test]
async fn calling_off_is_immediate_only_before_anything_was_intended() {
    each(async |app: &mut App| {
        let none = app.signed("order-none").await;
        assert_eq!(app.cancel("order-none").await.status(), "CANCELLED");
        app.settle().await;
        assert_eq!(app.requests(&none).await, 0);

        // In doubt: a request, which evidence overrides.
        let paid = app.signed("order-paid").await;
        app.next_fault("drop_reply").await;
        app.settle().await;
        let answer = app.cancel("order-paid").await;
        assert_eq!((answer.status().as_str(), answer.text("cancel")), ("SIGNED", "CANCEL_PENDING"));
        assert!(answer.text("message").starts_with("CANCEL_PENDING"), "{}", answer.body);
        app.until("order-paid", "EXECUTED").await;
        assert_eq!(app.executions(&paid).await, 1);
        assert!(app.status("order-paid").await.body["cancel"].is_null());

        // In doubt and not found: not sent again, and not closed on a guess either.
        let doubt = app.signed("order-doubt").await;
        app.next_fault("drop_request").await;
        app.settle().await;
        app.cancel("order-doubt").await;
        for _ in 0..6 {
            app.next_due().await;
        }
        let stuck = app.status("order-doubt").await;
        assert_eq!(
            (stuck.status().as_str(), stuck.phase(), stuck.text("cancel")),
            ("SIGNED", "unknown", "CANCEL_PENDING")
        );
        assert_eq!(stuck.body["attention"], json!(["CANCEL_WHILE_UNKNOWN"]));
        assert_eq!(app.requests(&doubt).await, 1);

        // Provably not sent: it can still be promised.
        let unsent = app.signed("order-unsent").await;
        app.rail.down().await;
        app.settle().await;
        assert_eq!(app.cancel("order-unsent").await.text("cancel"), "CANCEL_PENDING");
        app.until("order-unsent", "CANCELLED").await;
        app.rail.up().await;
        app.pass(Duration::from_mins(20)).await;
        assert_eq!(app.requests(&unsent).await, 0);
    })
    .await;
}

#[tokio::test]
async fn cancel_and_execution_at_the_same_moment_have_one_end() {
    each(async |app: &mut App| {
        for round in 0..6 {
            let order = format!("order-{round}");
            let payment = app.signed(&order).await;
            let (cancelled, ()) = tokio::join!(app.cancel(&order), app.settle());
            app.settle().await;
            let end = app.status(&order).await.status();
            let moved = app.executions(&payment).await;
            let told = cancelled.status();
            assert!(
                (told == "CANCELLED" && end == "CANCELLED" && moved == 0)
                    || (told != "CANCELLED" && end == "EXECUTED" && moved == 1),
                "{told} then {end}, moved {moved}"
            );
        }
    })
    .await;
}

/// Another process takes the payment up and dies in it.
async fn dies_in_the_execution(app: &App, script: Execution) {
    let rail = Arc::new(ScriptedRail::new(app.real_rail(), script));
    let other = app.another(Some(Arc::clone(&rail) as _)).await;
    let work = tokio::spawn(async move { other.tick().await });
    rail.reached().await;
    work.abort();
    assert!(work.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_process_that_dies_after_the_rail_paid_is_recovered_by_asking() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        dies_in_the_execution(app, Execution::PaysAndNeverAnswers).await;
        let before = app.status("order-1").await;
        assert_eq!((before.status().as_str(), before.phase()), ("SIGNED", "intended"));
        app.settle().await;
        assert_eq!(app.status("order-1").await.phase(), "intended", "its lease still holds");
        app.pass(Duration::from_secs(16)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1), "asked, not sent again");
    })
    .await;
}

#[tokio::test]
async fn a_process_that_dies_before_it_sent_is_recovered_by_asking_first() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        dies_in_the_execution(app, Execution::NeverSends).await;
        app.pass(Duration::from_secs(16)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1));
        let looked = app.audit().await.iter().filter(|facts| facts.event == "rail.execute.intended").count();
        assert_eq!(looked, 3, "the first intent, then the finding and the second attempt");
    })
    .await;
}

#[tokio::test]
async fn a_process_that_dies_while_it_registers_or_notifies_is_taken_over() {
    each(async |app: &mut App| {
        for (order, path) in [("order-1", "POST /api/v1/payments"), ("order-2", "/notify")] {
            app.create(order).await;
            app.signer.once(path, Weather::Hang);
            app.clock.advance(31_000_000);
            let other = app.another(None).await;
            let work = tokio::spawn(async move { other.tick().await });
            let reached = || app.signer.count("POST", path.trim_start_matches("POST "));
            let before = reached();
            while reached() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            work.abort();
            assert!(work.await.unwrap_err().is_cancelled());
            app.settle().await;
            assert_eq!(app.status(order).await.status(), "CREATED");
            app.pass(Duration::from_secs(16)).await;
            assert_eq!(app.status(order).await.status(), "AWAITING_SIGNER");
        }
    })
    .await;
}

#[tokio::test]
async fn a_zombies_late_answer_changes_nothing() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::AnswersWhenTold));
        let zombie = app.another(Some(Arc::clone(&rail) as _)).await;
        let work = tokio::spawn({
            let zombie = Arc::clone(&zombie);
            async move { zombie.tick().await }
        });
        rail.reached().await;
        app.pass(Duration::from_secs(16)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        let (before, rows) = (app.payment("order-1").await, app.rows("audit_entries").await);
        rail.answer();
        let _ = work.await.unwrap();
        let after = app.payment("order-1").await;
        assert_eq!((before, rows), (after, app.rows("audit_entries").await));
        settle(&zombie).await;
        assert_eq!((rail.executions(), app.requests(&payment).await), (1, 1), "it does not call again");
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_panics_in_an_execution_leaves_work_that_another_finishes() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::Panics));
        let other = app.another(Some(Arc::clone(&rail) as _)).await;
        assert_eq!(other.tick().await.unwrap().failed, 1);
        app.pass(Duration::from_secs(16)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

/// A claim for each of the two services, and none that finds that its lease was given back.
#[tokio::test]
async fn an_outcome_and_the_word_to_the_signer_service_take_a_claim_each() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        let tick = async || {
            let done = app.journal.tick().await.unwrap();
            (done.claimed, done.failed)
        };
        app.signed("order-1").await;
        assert_eq!(tick().await, (1, 0), "carried out");
        assert_eq!(
            (app.status("order-1").await.status().as_str(), app.signer.count("POST", "/cancel")),
            ("EXECUTED", 0)
        );
        assert_eq!(tick().await, (1, 0), "told");
        assert_eq!((tick().await, app.signer.count("POST", "/cancel")), ((0, 0), 1));

        // Both are due when the rail is looked up.
        app.signed("order-2").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}]})).await;
        app.signer.set(Weather::Status(503));
        assert_eq!([tick().await, tick().await, tick().await], [(1, 0), (1, 0), (0, 0)]);
        app.signer.set(Weather::Fair);
        let told = app.signer.count("POST", "/cancel");
        app.clock.advance(3_600 * 1_000_000);
        assert_eq!(app.status("order-2").await.phase(), "unknown");
        assert_eq!(tick().await, (1, 0), "looked up");
        assert_eq!(
            (app.status("order-2").await.status().as_str(), app.signer.count("POST", "/cancel")),
            ("EXECUTED", told)
        );
        assert_eq!((tick().await, tick().await, app.signer.count("POST", "/cancel")), ((1, 0), (0, 0), told + 1));
    })
    .await;
}

#[tokio::test]
async fn two_workers_share_the_work_and_double_none_of_it() {
    each(async |app: &mut App| {
        let mut payments = Vec::new();
        for number in 0..12 {
            payments.push(app.signed(&format!("order-{number}")).await);
        }
        let other = app.another(None).await;
        tokio::join!(settle(&other), app.settle());
        app.pass(Duration::from_secs(16)).await;
        for payment in payments {
            assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1));
        }
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_leaves_in_the_middle_of_a_call_stops_nothing() {
    each_with(Wishes::default().hasty(), async |app: &mut App| {
        app.create("order-1").await;
        app.signer.once("POST /api/v1/payments", Weather::Hang);
        // The client gives up and closes its connection while the gateway still talks to the service.
        let impatient = tokio::time::timeout(Duration::from_millis(100), app.notify("order-1")).await;
        assert!(impatient.is_err());
        let mut settled = 0;
        for _ in 0..100 {
            settled = app.payment("order-1").await.notice.attempts;
            if settled > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(settled, 1, "the outcome was written though nobody waited for it");
        app.until("order-1", "AWAITING_SIGNER").await;
    })
    .await;
}
