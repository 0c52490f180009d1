//! A hold against everything that moves a payment, at the same moment: one legal order shows, never a mixture.
//!
//! Each race is run many times on both engines, the two sides let go at varied distances: two calls to one gateway, or
//! one and a worker with a store of its own. The history says which came first.

use std::sync::Arc;
use std::time::Duration;

use countersign::journal::{Journal, ports::RailPort};
use serde_json::{Value, json};

use crate::desk_attest::{in_doubt, not_executed};
use crate::desk_hands::{by, executed, waits};
use crate::harness::app::{App, POLICY, Wishes, each_with, settle};
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

/// Who came first in a round: the hold, or what stands in its place, or the other side.
enum First {
    Hold,
    Other,
}

/// Plays a race in many rounds on each engine, each with an order of its own, beside a worker with a store of its own;
/// both ways to end are seen.
async fn rounds(what: &str, play: impl AsyncFn(&App, &Arc<Journal>, u64, &str) -> First) {
    rounds_under(POLICY, what, play).await;
}

/// The same, with a policy of the worker's own: the one in force when it carries payments out.
async fn rounds_under(policy: &str, what: &str, play: impl AsyncFn(&App, &Arc<Journal>, u64, &str) -> First) {
    each_with(wishes(), async |app: &mut App| {
        let worker = app.another_under(policy, None).await;
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
        println!("{what}: the one side was first {} times, the other {} times", seen[0], seen[1]);
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

/// A worker's look, as its loop would make it; a lost race is its ordinary lot.
async fn ticks(worker: &Journal) {
    worker.tick().await.unwrap();
}

/// The answer to a hold that meets a worker's look, once whatever was claimed before it is settled.
async fn held_against_a_look(app: &App, worker: &Journal, round: u64, order: &str) -> Answer {
    let operator = app.operator();
    let (held, ()) = Box::pin(race(round, hold(app, &operator, order), ticks(worker))).await;
    // Past every lease that was claimed before the hold.
    app.clock.advance(40 * 1_000_000);
    settle(worker).await;
    held
}

/// A hold of a payment in `status` against the end that its clock, or the policy, brings it to in the worker's hands.
async fn hold_against_an_end(
    app: &App,
    order: &str,
    held: &Answer,
    (status, end): (&str, &str),
    events: &[&str],
) -> First {
    let payment = app.payment(order).await;
    if held.code() == format!("({status})") {
        assert_eq!(payment.status.as_str(), status);
        nothing_after_the_hold(app, order, events).await;
        First::Hold
    } else {
        assert_eq!((held.code().as_str(), payment.status.as_str()), ("PAYMENT_TERMINAL", end), "{}", held.body);
        assert!(payment.held_at.is_none());
        assert_eq!(app.requests(payment.terms.payment_id.as_str()).await, 0);
        First::Other
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_running_out_of_time() {
    rounds("expiry", async |app, worker, round, order| {
        app.create(order).await;
        app.clock.advance(25 * 3_600 * 1_000_000);
        let held = held_against_a_look(app, worker, round, order).await;
        hold_against_an_end(app, order, &held, ("CREATED", "EXPIRED"), &["payment.deadline", "signer.notify"]).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_running_out_of_time_once_it_is_signed() {
    rounds("expiry once signed", async |app, worker, round, order| {
        app.signed(order).await;
        // Past `expires_at` too, which no longer counts, and past `execute_by`.
        app.clock.advance(49 * 3_600 * 1_000_000);
        let held = held_against_a_look(app, worker, round, order).await;
        hold_against_an_end(app, order, &held, ("SIGNED", "EXPIRED"), &["payment.deadline", "rail."]).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_asking_another_signer() {
    rounds("reassignment", async |app, worker, round, order| {
        let id = app.awaiting(order).await;
        let operator = app.operator();
        let arguments = json!({"order_id": order, "signer_id": "finance-2"});
        let asks = app.call(&operator, "reassign_signer", arguments);
        let (held, reassigned) = race(round, hold(app, &operator, order), asks).await;
        assert!(!held.is_error, "a payment that is not on its way is held: {}", held.body);
        settle(worker).await;
        assert_eq!(app.asked(&id).await.len(), 1, "nobody is asked any more");
        nothing_after_the_hold(app, order, &["payment.reassigned", "signer.notify.intended"]).await;
        let wish = app.payment(order).await.terms.wish[0].to_string();
        match reassigned.code().as_str() {
            "PAYMENT_ON_MANUAL_HOLD" => {
                assert_eq!(wish, "finance-1", "what was refused left nothing");
                First::Hold
            }
            "(AWAITING_SIGNER)" => {
                assert_eq!(wish, "finance-2");
                First::Other
            }
            other => panic!("{other}: {}", reassigned.body),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_a_new_round_of_signatures() {
    let two = POLICY.replace("required = 1", "required = 2");
    assert_ne!(two, POLICY);
    rounds_under(&two, "new round", async |app, worker, round, order| {
        app.signed(order).await;
        let held = held_against_a_look(app, worker, round, order).await;
        assert!(!held.is_error, "a payment that is not on its way is held: {}", held.body);
        let new = ["execution.quorum_lost", "signer.register.intended", "signer.notify.intended", "rail."];
        nothing_after_the_hold(app, order, &new).await;
        let payment = app.payment(order).await;
        match (payment.status.as_str(), payment.round, payment.approvals) {
            ("SIGNED", 1, 1) => First::Hold,
            ("AWAITING_SIGNER", 2, 0) => First::Other,
            other => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_against_a_policy_that_denies_it_by_now() {
    let denies = format!("{POLICY}\n[[rule]]\nid = \"never\"\npayees = [\"demo-payee-001\"]\ndeny = true\n");
    rounds_under(&denies, "denial", async |app, worker, round, order| {
        app.signed(order).await;
        let held = held_against_a_look(app, worker, round, order).await;
        hold_against_an_end(app, order, &held, ("SIGNED", "CANCELLED"), &["execution.denied", "rail."]).await
    })
    .await;
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

async fn let_go(app: &App, person: &str, order: &str) -> Answer {
    by(app, person, "release_hold", order, json!({"evidence": "the bank refused it"})).await
}

/// A signed payment on hold, and one person's word that it may go on.
async fn half_let_go(app: &App, order: &str) -> String {
    let id = app.signed(order).await;
    assert!(!hold(app, &app.operator(), order).await.is_error);
    assert!(waits(&let_go(app, "olga", order).await));
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn letting_go_of_a_hold_against_the_claim() {
    rounds("release and claim", async |app, worker, round, order| {
        let id = half_let_go(app, order).await;
        // A look takes no time, a word does: every other round the look comes while it is being taken in.
        let look = async {
            if round > 1 && round.is_multiple_of(2) {
                tokio::time::sleep(Duration::from_millis(2 * (round % 24))).await;
            }
            tokio::join!(ticks(worker), ticks(&app.journal));
        };
        let ((), released) = Box::pin(race(round, look, let_go(app, "piet", order))).await;
        assert!(!released.is_error && !waits(&released), "{}", released.body);
        let claimed = app.payment(order).await.execution.phase.as_str() != "none";
        settle(worker).await;
        app.until(order, "EXECUTED").await;
        assert_eq!((app.executions(&id).await, app.requests(&id).await), (1, 1));
        let history = history(app, order).await;
        assert!(place(&history, "rail.execute.intended") > place(&history, "release_hold.second"), "{history:?}");
        if claimed { First::Other } else { First::Hold }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn letting_go_of_a_hold_against_attesting_that_it_was_paid() {
    rounds("attestation and release", async |app, worker, round, order| {
        let id = half_let_go(app, order).await;
        assert!(waits(&executed(app, "olga", order, "bank-1").await));
        let goes_on = async {
            let released = let_go(app, "piet", order).await;
            ticks(worker).await;
            released
        };
        let (attested, released) = Box::pin(race(round, executed(app, "quinn", order, "bank-1"), goes_on)).await;
        // A look that lost a race to a word is made again when its lease is over.
        app.until(order, "EXECUTED").await;
        let sent = (app.executions(&id).await, app.requests(&id).await);
        let history = history(app, order).await;
        let seconds = ["attest_executed.second", "release_hold.second"].map(|word| place(&history, word).is_some());
        match seconds {
            [true, false] => {
                assert_eq!((released.code().as_str(), sent), ("PAYMENT_TERMINAL", (0, 0)), "{}", released.body);
                First::Hold
            }
            [false, true] => {
                assert!(attested.is_error && sent == (1, 1), "{sent:?}: {}", attested.body);
                First::Other
            }
            other => panic!("{other:?}: {} {}", attested.body, released.body),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_attestation_against_its_opposite() {
    rounds("executed and not executed", async |app, worker, round, order| {
        let id = in_doubt(app, order, "drop_reply").await;
        // Only when the attempt can no longer arrive may two say that it never did.
        app.clock.advance(26 * 3_600 * 1_000_000);
        settle(worker).await;
        assert!(waits(&executed(app, "olga", order, "tr-1").await) && waits(&not_executed(app, "olga", order).await));
        let opposite = async {
            let answer = not_executed(app, "quinn", order).await;
            ticks(worker).await;
            answer
        };
        let (attested, answer) = Box::pin(race(round, executed(app, "piet", order, "tr-1"), opposite)).await;
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until(order, "EXECUTED").await;
        assert_eq!((app.executions(&id).await, app.requests(&id).await), (1, 1), "it was paid before, and not again");
        let history = history(app, order).await;
        let seconds = ["attest_executed.second", "attest_not_executed.second"];
        match seconds.map(|word| place(&history, word).is_some()) {
            [true, false] => {
                assert_eq!(answer.code(), "PAYMENT_TERMINAL", "{}", answer.body);
                First::Hold
            }
            // Their words were of the attempt before: one alone says nothing of the next.
            [false, true] => {
                assert!(attested.is_error || waits(&attested), "{}", attested.body);
                First::Other
            }
            other => panic!("{other:?}: {} {}", attested.body, answer.body),
        }
    })
    .await;
}
