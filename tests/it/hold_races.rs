//! A hold against everything that moves a payment, at the same moment: one legal order shows, never a mixture.
//!
//! Each race is run many times on both engines, the two sides let go at varied distances: two calls to one gateway, or
//! one and a worker with a store of its own. The history says which came first.

use std::sync::Arc;
use std::time::Duration;

use countersign::journal::{Journal, ports::RailPort};
use serde_json::{Value, json};

use crate::harness::app::{App, Wishes, each_with, settle};
use crate::harness::rpc::Answer;
use crate::harness::scripted::{Execution, ScriptedRail};

const ROUNDS: u64 = 50;

async fn hold(app: &App, token: &str, order: &str) -> Answer {
    app.call(token, "hold_payment", json!({"order_id": order, "reason": "paid by hand"})).await
}

/// Waits so long that this round's two sides meet elsewhere than the last one's.
async fn stagger(round: u64) {
    tokio::time::sleep(Duration::from_micros(700 * (round % 9))).await;
}

/// Both sides of a race, either of them first by some moments.
async fn race<A, B>(round: u64, one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    // Twice without a race: each order is seen, and shows what it should.
    if round == 0 {
        return (one.await, other.await);
    }
    if round == 1 {
        let second = other.await;
        return (one.await, second);
    }
    let (early, late) = if round.is_multiple_of(2) { (round / 2, 0) } else { (0, round / 2) };
    tokio::join!(
        async {
            stagger(early).await;
            one.await
        },
        async {
            stagger(late).await;
            other.await
        }
    )
}

/// The events of an order's payment, in the order they were committed.
async fn history(app: &App, order: &str) -> Vec<String> {
    let id = app.payment(order).await.terms.payment_id.to_string();
    app.audit().await.into_iter().filter(|facts| facts.payment_id == id).map(|facts| facts.event).collect()
}

fn place(history: &[String], event: &str) -> Option<usize> {
    history.iter().position(|known| known == event)
}

/// Holds that nothing of `events` was committed after the hold, that it still holds, and that no money moves.
async fn nothing_after_the_hold(app: &App, order: &str, events: &[&str]) {
    let history = history(app, order).await;
    let held = place(&history, "payment.held").expect("the hold is in the history");
    for event in events {
        let late = history.iter().skip(held).any(|known| known.starts_with(event));
        assert!(!late, "{order}: {event} after the hold: {history:?}");
    }
    let payment = app.payment(order).await;
    assert!(payment.held_at.is_some() && payment.execution.phase.as_str() == "none", "{order}: {history:?}");
    assert_eq!(app.requests(payment.terms.payment_id.as_str()).await, 0, "{order}");
}

fn wishes() -> Wishes {
    Wishes::default().patient()
}

/// Who came first in a round.
enum First {
    Hold,
    Other,
}

/// Plays a race in many rounds on each engine, each with an order of its own, beside a worker with a store of its own;
/// both ways to end are seen.
async fn rounds(what: &str, play: impl AsyncFn(&App, &Arc<Journal>, u64, &str) -> First) {
    each_with(wishes(), async |app: &mut App| {
        let worker = app.another(None).await;
        let mut seen = [0; 2];
        for round in 0..ROUNDS {
            match (round, play(app, &worker, round, &format!("order-{round}")).await) {
                // Without a race, as `race` has it.
                (0, First::Hold) | (1, First::Other) => {}
                (0 | 1, _) => panic!("{what}: who was first was not first"),
                (_, First::Hold) => seen[0] += 1,
                (_, First::Other) => seen[1] += 1,
            }
        }
        println!("{what}: the hold was first {} times, last {} times", seen[0], seen[1]);
        assert!(seen[0] > 0 && seen[1] > 0, "{what}: {seen:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_a_signature() {
    rounds("signature", async |app, worker, round, order| {
        app.awaiting(order).await;
        let document = app.document("finance-1", order, "approve", "").await;
        let (jws, operator) = (app.jws("finance-1", &document), app.operator());
        let (held, signed) = race(round, hold(app, &operator, order), app.confirm("finance-1", order, &jws)).await;
        assert!(!held.is_error, "a payment that is not on its way is held: {}", held.body);
        let first = match signed.code().as_str() {
            "PAYMENT_ON_MANUAL_HOLD" => {
                assert_eq!(app.payment(order).await.approvals, 0);
                assert_eq!(app.status(order).await.status(), "AWAITING_SIGNER");
                First::Hold
            }
            "(SIGNED)" => {
                assert_eq!(app.status(order).await.status(), "SIGNED");
                First::Other
            }
            other => panic!("{other}: {}", signed.body),
        };
        settle(worker).await;
        nothing_after_the_hold(app, order, &["decision.approve", "rail."]).await;
        first
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_a_rejection() {
    rounds("rejection", async |app, worker, round, order| {
        app.awaiting(order).await;
        let document = app.document("finance-1", order, "reject", "not ours").await;
        let word = json!({"order_id": order, "signature": app.jws("finance-1", &document), "reason": "not ours"});
        let (operator, signer) = (app.operator(), app.signer_token("finance-1"));
        let (held, rejected) =
            race(round, hold(app, &operator, order), app.call(&signer, "reject_signing", word)).await;
        match (held.code().as_str(), rejected.code().as_str()) {
            ("(AWAITING_SIGNER)", "PAYMENT_ON_MANUAL_HOLD") => {
                settle(worker).await;
                nothing_after_the_hold(app, order, &["decision.reject", "payment.rejected"]).await;
                First::Hold
            }
            ("PAYMENT_TERMINAL", "(REJECTED)") => {
                assert!(app.payment(order).await.held_at.is_none());
                First::Other
            }
            other => panic!("{other:?}: {} {}", held.body, rejected.body),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_a_decision_that_the_signer_service_tells_of() {
    rounds("the service's word", async |app, worker, round, order| {
        app.awaiting(order).await;
        let document = app.document("finance-1", order, "approve", "").await;
        let page = app.decide_on_page(order, &document, &app.jws("finance-1", &document)).await;
        assert!((200..300).contains(&page), "{page}");
        let (operator, agent) = (app.operator(), app.agent());
        let asks = app.call(&agent, "check_sign_status", json!({"order_id": order}));
        // The service is asked first: the hold meets what is made of its answer.
        let held = async {
            if round > 1 {
                tokio::time::sleep(Duration::from_millis(2 * (round % 24))).await;
            }
            hold(app, &operator, order).await
        };
        let (held, asked) = race(round, held, asks).await;
        assert!(!held.is_error, "a payment that is not on its way is held: {}", held.body);
        let signed = app.status(order).await.status() == "SIGNED";
        assert!(signed || app.payment(order).await.approvals == 0, "{}", asked.body);
        app.clock.advance(3_600 * 1_000_000);
        app.deliver_callbacks().await;
        settle(worker).await;
        assert_eq!(app.status(order).await.status() == "SIGNED", signed, "it is not heard later either");
        nothing_after_the_hold(app, order, &["decision.approve", "rail."]).await;
        if signed { First::Other } else { First::Hold }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_running_out_of_time() {
    rounds("expiry", async |app, worker, round, order| {
        app.create(order).await;
        app.clock.advance(25 * 3_600 * 1_000_000);
        let operator = app.operator();
        let (held, ()) = Box::pin(race(round, hold(app, &operator, order), ticks(worker))).await;
        match held.code().as_str() {
            "(CREATED)" => {
                settle(worker).await;
                assert_eq!(app.status(order).await.status(), "CREATED");
                nothing_after_the_hold(app, order, &["payment.deadline", "signer.notify"]).await;
                First::Hold
            }
            "PAYMENT_TERMINAL" => {
                assert_eq!(app.status(order).await.status(), "EXPIRED");
                assert!(app.payment(order).await.held_at.is_none());
                First::Other
            }
            other => panic!("{other}: {}", held.body),
        }
    })
    .await;
}

/// A worker's look, as its loop would make it; a lost race is its ordinary lot.
async fn ticks(worker: &Journal) {
    worker.tick().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_a_cancel() {
    rounds("cancel", async |app, _, round, order| {
        app.create(order).await;
        if round % 3 == 0 {
            app.notify(order).await;
            app.sign(order).await;
        }
        let operator = app.operator();
        let (held, cancelled) = race(round, hold(app, &operator, order), app.cancel(order)).await;
        match (held.is_error, cancelled.code().as_str()) {
            (false, "PAYMENT_ON_MANUAL_HOLD") => {
                nothing_after_the_hold(app, order, &["payment.cancel"]).await;
                First::Hold
            }
            (true, "(CANCELLED)") => {
                assert_eq!(held.code(), "PAYMENT_TERMINAL");
                let payment = app.payment(order).await;
                assert!(payment.status.as_str() == "CANCELLED" && payment.held_at.is_none());
                First::Other
            }
            other => panic!("{other:?}: {} {}", held.body, cancelled.body),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_the_claim_and_the_intent() {
    rounds("claim and intent", async |app, worker, round, order| {
        let id = app.signed(order).await;
        let operator = app.operator();
        let workers = async { tokio::join!(ticks(worker), ticks(&app.journal)) };
        let (held, _) = Box::pin(race(round, hold(app, &operator, order), workers)).await;
        if held.is_error {
            let code = held.code();
            assert!(code == "OUTCOME_UNKNOWN_BLOCKS" || code == "PAYMENT_TERMINAL", "{}", held.body);
            app.until(order, "EXECUTED").await;
            assert_eq!(app.executions(&id).await, 1);
            assert!(app.payment(order).await.held_at.is_none());
            First::Other
        } else {
            // Past every lease that was claimed before the hold.
            app.pass(Duration::from_secs(40)).await;
            settle(worker).await;
            nothing_after_the_hold(app, order, &["rail."]).await;
            First::Hold
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_the_outcome_of_an_attempt_under_way() {
    each_with(wishes(), async |app: &mut App| {
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::AnswersWhenTold));
        let worker = app.another(Some(Arc::clone(&rail) as Arc<dyn RailPort>)).await;
        for round in 0..ROUNDS {
            let order = format!("order-{round}");
            let id = app.signed(&order).await;
            let (operator, attempt) = (app.operator(), Arc::clone(&worker));
            let under_way = tokio::spawn(async move { attempt.tick().await.unwrap() });
            rail.reached().await;
            let settles = async {
                rail.answer();
                under_way.await.unwrap()
            };
            let (held, _) = race(round, hold(app, &operator, &order), settles).await;
            let code = held.code();
            assert!(code == "OUTCOME_UNKNOWN_BLOCKS" || code == "PAYMENT_TERMINAL", "{}", held.body);
            let payment = app.payment(&order).await;
            assert!(payment.status.as_str() == "EXECUTED" && payment.held_at.is_none(), "{:?}", payment.status);
            assert_eq!(app.executions(&id).await, 1);
            assert_eq!(place(&history(app, &order).await, "payment.held"), None);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_notifying_the_signers_again() {
    each_with(wishes(), async |app: &mut App| {
        let worker = app.another(None).await;
        for round in 0..ROUNDS {
            let order = format!("order-{round}");
            let id = app.create(&order).await.text("payment_id").to_owned();
            app.signer_online(round % 2 == 0).await;
            let (operator, token) = (app.operator(), app.operator());
            let by_agent = round % 3 == 2;
            let asks = async {
                if by_agent {
                    app.notify(&order).await
                } else {
                    app.call(&token, "resend_notification", json!({"order_id": order})).await
                }
            };
            let (held, asked_again) = race(round, hold(app, &operator, &order), asks).await;
            assert!(!held.is_error, "{}", held.body);
            assert!(!asked_again.is_error || asked_again.code() == "PAYMENT_ON_MANUAL_HOLD", "{}", asked_again.body);
            let asked = app.asked(&id).await;
            assert!(!(asked_again.is_error && by_agent) || asked.is_empty(), "it was refused: {asked:?}");
            app.clock.advance(3_600 * 1_000_000);
            settle(&worker).await;
            app.settle().await;
            assert_eq!(app.asked(&id).await, asked, "nobody is asked any more");
            nothing_after_the_hold(app, &order, &["signer.notify.intended", "signer.register.intended"]).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_a_replacement() {
    rounds("replacement", async |app, _, round, order| {
        let id = app.create(order).await.text("payment_id").to_owned();
        let (operator, agent) = (app.operator(), app.agent());
        let instead: Value = json!({"order_id": order, "amount": "5.00", "supersedes": id,
            "idempotency_key": format!("replacement-{round:04}")});
        let this = json!({"payment_id": id, "reason": "paid by hand"});
        let (held, replaced) =
            race(round, app.call(&operator, "hold_payment", this), app.call(&agent, "create_payment", instead)).await;
        let status = app.call(&agent, "get_payment_status", json!({"payment_id": id})).await;
        if held.is_error {
            assert_eq!((held.code().as_str(), replaced.status().as_str()), ("PAYMENT_TERMINAL", "CREATED"));
            assert_eq!(status.status(), "CANCELLED");
            First::Other
        } else {
            assert_eq!(replaced.code(), "PAYMENT_ON_MANUAL_HOLD", "{}", replaced.body);
            nothing_after_the_hold(app, order, &["payment.superseded"]).await;
            First::Hold
        }
    })
    .await;
}
