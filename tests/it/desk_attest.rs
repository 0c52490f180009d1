//! An outcome that nobody can look up is attested by two; what that makes possible, and what it never does.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::desk_hands::{by, executed, hold, waits};
use crate::desk_policy::each;
use crate::harness::app::{App, Wishes, each_with};
use crate::harness::rpc::Answer;
use crate::harness::scripted::{Execution, ScriptedRail};
use crate::harness::whole::is_whole;

pub(crate) async fn not_executed(app: &App, person: &str, order: &str) -> Answer {
    by(app, person, "attest_not_executed", order, json!({"evidence": "the rail's desk says so"})).await
}

#[tokio::test]
async fn what_an_attempt_of_an_earlier_group_came_to_says_nothing_about_this_one() {
    each(async |app: &mut App| {
        let id = app.signed("order-1").await;
        // The rail says that it did not process the request; the process that asked is frozen before it can tell.
        app.next_fault("rate_limit").await;
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::AnswersWhenTold));
        let frozen = app.another(Some(Arc::clone(&rail) as _)).await;
        let work = tokio::spawn(async move { frozen.tick().await });
        rail.reached().await;
        app.pass(Duration::from_hours(26)).await;
        assert!(waits(&not_executed(app, "olga", "order-1").await));
        assert!(!not_executed(app, "piet", "order-1").await.is_error);
        // Another group pays, once the rail was asked, and its answer is lost.
        app.next_fault("drop_reply").await;
        app.settle().await;
        assert_eq!((app.payment("order-1").await.execution.group, app.requests(&id).await), (2, 2));
        assert_eq!(app.cancel("order-1").await.text("cancel"), "CANCEL_PENDING");
        rail.answer();
        work.await.unwrap().unwrap();
        assert_eq!(app.status("order-1").await.status(), "SIGNED", "this group's attempt is still in doubt");
        app.pass(Duration::from_mins(1)).await;
        assert_eq!((app.status("order-1").await.status().as_str(), app.executions(&id).await), ("EXECUTED", 1));
    })
    .await;
}

/// A signed payment whose request got lost, and of which the rail can't be asked.
pub(crate) async fn in_doubt(app: &App, order: &str, fault: &str) -> String {
    let id = app.signed(order).await;
    app.faults(json!({"next": [{"kind": fault}], "standing": {"lookup_down": true}})).await;
    app.settle().await;
    assert_eq!(app.status(order).await.phase(), "unknown");
    id
}

#[tokio::test]
async fn an_unknown_outcome_that_people_saw_happen_is_attested_and_not_sent_again() {
    each(async |app: &mut App| {
        let id = in_doubt(app, "order-1", "drop_reply").await;
        assert!(waits(&executed(app, "olga", "order-1", "tr-1").await));
        assert!(waits(&executed(app, "piet", "order-1", "tr-2").await));
        let done = executed(app, "piet", "order-1", "tr-1").await;
        assert_eq!((done.status().as_str(), done.phase()), ("EXECUTED", "confirmed"));
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.pass(Duration::from_hours(30)).await;
        assert_eq!((app.requests(&id).await, app.executions(&id).await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn what_did_not_happen_is_attested_after_the_old_key_is_dead_and_the_rail_is_asked_before_the_new_one() {
    each(async |app: &mut App| {
        let id = in_doubt(app, "order-1", "drop_request").await;
        for person in ["olga", "piet"] {
            let early = not_executed(app, person, "order-1").await;
            assert_eq!(early.code(), "OUTCOME_UNKNOWN_BLOCKS");
            let wait = early.body["retry_after_ms"].as_u64().unwrap();
            assert!((86_000_000..=86_402_000).contains(&wait), "the key's life and the read lag: {wait}");
        }
        assert_eq!(app.rows("attestations").await, 0, "a word given too early is not kept");
        // The rail forgets the key; it can be asked again, and finds nothing.
        app.pass(Duration::from_hours(13)).await;
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        for _ in 0..4 {
            app.next_due().await;
        }
        assert_eq!(app.status("order-1").await.body["attention"], json!(["RESEND_WINDOW_CLOSED"]));
        assert_eq!(not_executed(app, "olga", "order-1").await.code(), "OUTCOME_UNKNOWN_BLOCKS");
        app.pass(Duration::from_mins(661)).await;
        assert!(waits(&not_executed(app, "olga", "order-1").await));
        assert!(waits(&not_executed(app, "olga", "order-1").await));
        assert_eq!(app.requests(&id).await, 1);
        let second = not_executed(app, "piet", "order-1").await;
        assert_eq!((second.status().as_str(), second.phase()), ("SIGNED", "unknown"), "{}", second.body);
        // People err: the rail is asked once more before the new key is used.
        app.faults(json!({"standing": {"lookup_down": true}})).await;
        for _ in 0..4 {
            app.next_due().await;
        }
        assert_eq!(app.requests(&id).await, 1, "nothing is sent while it can't be asked");
        assert_eq!(not_executed(app, "olga", "order-1").await.code(), "OUTCOME_UNKNOWN_BLOCKS", "that is attested");
        assert_eq!(app.cancel("order-1").await.text("cancel"), "CANCEL_PENDING");
    })
    .await;
}

/// Attested by two not to have been executed, after the key's life; the rail can't be asked meanwhile.
async fn attested_not_executed(app: &App, order: &str, fault: &str) -> String {
    let id = in_doubt(app, order, fault).await;
    app.pass(Duration::from_mins(24 * 60 + 1)).await;
    assert!(waits(&not_executed(app, "olga", order).await));
    let second = not_executed(app, "piet", order).await;
    assert_eq!((second.status().as_str(), second.phase()), ("SIGNED", "unknown"), "{}", second.body);
    app.settle().await;
    assert_eq!(app.requests(&id).await, 1);
    id
}

#[tokio::test]
async fn what_the_rail_does_not_have_is_sent_under_the_new_key_and_doubted_anew() {
    each(async |app: &mut App| {
        let id = attested_not_executed(app, "order-1", "drop_request").await;
        // Once more in doubt: a word about the first key is none about the second.
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": false}})).await;
        for _ in 0..40 {
            if app.requests(&id).await == 2 {
                break;
            }
            app.next_due().await;
        }
        app.faults(json!({"standing": {"lookup_down": true}})).await;
        assert_eq!(app.status("order-1").await.phase(), "unknown");
        assert_eq!(not_executed(app, "piet", "order-1").await.code(), "OUTCOME_UNKNOWN_BLOCKS");
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until("order-1", "EXECUTED").await;
        assert!(app.status("order-1").await.body["attention"].is_null());
        let ledger = app.ledger(&id).await;
        let keys: Vec<&str> =
            ledger["seen"].as_array().unwrap().iter().map(|line| line["idempotency_key"].as_str().unwrap()).collect();
        assert_eq!(keys, [format!("{id}:rail.execute:g1"), format!("{id}:rail.execute:g2")]);
        assert_eq!(ledger["executions"], 1);
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_to_be_called_off_and_did_not_happen_ends_and_is_not_sent_again() {
    each(async |app: &mut App| {
        let id = in_doubt(app, "order-1", "drop_request").await;
        assert_eq!(app.cancel("order-1").await.text("cancel"), "CANCEL_PENDING");
        app.pass(Duration::from_mins(24 * 60 + 1)).await;
        not_executed(app, "olga", "order-1").await;
        let asked = not_executed(app, "piet", "order-1").await;
        assert_eq!((asked.status().as_str(), asked.text("cancel")), ("SIGNED", "CANCEL_PENDING"), "{}", asked.body);
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until("order-1", "CANCELLED").await;
        app.pass(Duration::from_hours(2)).await;
        assert_eq!(app.requests(&id).await, 1);
        // Only an unknown outcome is attested so.
        app.awaiting("order-2").await;
        assert_eq!(not_executed(app, "olga", "order-2").await.code(), "INVALID_ARGUMENT");
        hold(app, "order-2").await;
        assert_eq!(not_executed(app, "olga", "order-2").await.code(), "PAYMENT_ON_MANUAL_HOLD");
    })
    .await;
}

#[tokio::test]
async fn two_people_who_err_pay_nothing_twice_and_call_nothing_off_that_was_paid() {
    each(async |app: &mut App| {
        let paid = attested_not_executed(app, "order-1", "drop_reply").await;
        let called_off = in_doubt(app, "order-2", "drop_reply").await;
        app.cancel("order-2").await;
        app.pass(Duration::from_mins(24 * 60 + 1)).await;
        not_executed(app, "olga", "order-2").await;
        not_executed(app, "piet", "order-2").await;
        app.pass(Duration::from_hours(80)).await;
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        for (order, id) in [("order-1", paid), ("order-2", called_off)] {
            app.until(order, "EXECUTED").await;
            let told = app.status(order).await;
            assert_eq!(told.body["attention"], json!(["ATTESTATION_CONTRADICTED"]), "{}", told.body);
            assert_eq!((app.requests(&id).await, app.executions(&id).await), (1, 1));
        }
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn a_look_up_that_was_asked_before_the_attestation_says_nothing_after_it() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        let id = in_doubt(app, "order-1", "drop_request").await;
        app.pass(Duration::from_mins(24 * 60 + 1)).await;
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::FindsWhenTold));
        let slow = app.another(Some(Arc::clone(&rail) as _)).await;
        app.clock.advance(i64::try_from(Duration::from_mins(6).as_micros()).unwrap());
        let work = tokio::spawn(async move { slow.tick().await });
        rail.reached().await;
        assert!(waits(&not_executed(app, "olga", "order-1").await));
        assert!(!not_executed(app, "piet", "order-1").await.is_error);
        rail.answer();
        work.await.unwrap().unwrap();
        let told = app.payment("order-1").await;
        assert!(told.unasked() && told.execution.group == 2, "nobody has asked since: {:?}", told.execution);
        assert_eq!(app.requests(&id).await, 1);
        app.until("order-1", "EXECUTED").await;
        assert_eq!((app.requests(&id).await, app.executions(&id).await), (2, 1));
    })
    .await;
}

#[tokio::test]
async fn a_rail_that_remembers_no_key_is_given_the_longest_time_before_anybody_attests() {
    let wishes = Wishes::default().config(|config| {
        "none".clone_into(&mut config.rail.dedup);
        config.rail.in_flight_s = 3_600;
    });
    each_with(wishes, async |app: &mut App| {
        in_doubt(app, "order-1", "drop_request").await;
        app.pass(Duration::from_mins(59)).await;
        assert_eq!(not_executed(app, "olga", "order-1").await.code(), "OUTCOME_UNKNOWN_BLOCKS");
        app.pass(Duration::from_mins(2)).await;
        assert!(waits(&not_executed(app, "olga", "order-1").await));
        app.faults(json!({"standing": {"lookup_down": false}})).await;
    })
    .await;
}

/// A zombie's outcome speaks of its own key, not of the one that people had made since.
#[tokio::test]
async fn an_outcome_of_an_earlier_key_moves_nothing_of_a_later_one() {
    let wishes = Wishes::default().config(|config| {
        "none".clone_into(&mut config.rail.dedup);
        config.rail.in_flight_s = 60;
    });
    each_with(wishes, async |app: &mut App| {
        let id = app.signed("order-1").await;
        // It has written its intent, and sleeps past its time to send.
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::SendsTooLate));
        let zombie = app.another(Some(Arc::clone(&rail) as _)).await;
        let work = tokio::spawn(async move { zombie.tick().await });
        rail.reached().await;
        app.faults(json!({"standing": {"lookup_down": true}})).await;
        app.pass(Duration::from_secs(16)).await;
        app.pass(Duration::from_secs(70)).await;
        not_executed(app, "olga", "order-1").await;
        not_executed(app, "piet", "order-1").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": false}})).await;
        for _ in 0..40 {
            if app.requests(&id).await == 1 {
                break;
            }
            app.next_due().await;
        }
        app.faults(json!({"standing": {"lookup_down": true}})).await;
        let before = app.payment("order-1").await;
        assert_eq!((before.execution.group, before.execution.sends, before.execution.not_sent), (2, 1, 0));
        rail.answer();
        work.await.unwrap().unwrap();
        assert_eq!(app.payment("order-1").await.execution, before.execution);
        app.pass(Duration::from_mins(5)).await;
        assert_eq!((app.requests(&id).await, app.executions(&id).await), (1, 1), "paid once, and in doubt");
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until("order-1", "EXECUTED").await;
        is_whole(app).await;
    })
    .await;
}
