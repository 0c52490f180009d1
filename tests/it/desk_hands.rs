//! Settling by hand: one person holds, two let go or attest; what nobody moves meanwhile. Its races: `hold_races`.

use std::sync::Arc;
use std::time::Duration;

use countersign::app::parse_policy;
use countersign::domain::Role;
use serde_json::{Value, json};

use crate::desk_attest::in_doubt;
use crate::desk_policy::each;
use crate::harness::app::{App, POLICY, settle};
use crate::harness::rpc::Answer;
use crate::harness::scripted::{Execution, ScriptedRail};
use crate::harness::whole::is_whole;

pub(crate) async fn by(app: &App, person: &str, tool: &str, order: &str, rest: Value) -> Answer {
    let mut arguments = json!({"order_id": order});
    arguments.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    app.call(&app.operator_named(person), tool, arguments).await
}

pub(crate) async fn hold(app: &App, order: &str) -> Answer {
    by(app, "olga", "hold_payment", order, json!({"reason": "paid by hand"})).await
}

async fn release(app: &App, person: &str, order: &str) -> Answer {
    by(app, person, "release_hold", order, json!({"evidence": "the bank refused it"})).await
}

pub(crate) async fn executed(app: &App, person: &str, order: &str, reference: &str) -> Answer {
    let rest = json!({"evidence": "seen on the account", "reference": reference});
    by(app, person, "attest_executed", order, rest).await
}

pub(crate) fn waits(answer: &Answer) -> bool {
    answer.text("attestation") == "SECOND_PERSON_NEEDED"
}

/// Lets a held payment go, by two people.
async fn let_go(app: &App, order: &str) {
    assert!(waits(&release(app, "olga", order).await));
    let second = release(app, "piet", order).await;
    assert!(!second.is_error && !waits(&second) && second.body["held"].is_null(), "{}", second.body);
}

/// A payment of its own in `state`, which is the order's name too.
async fn brought_to(app: &App, state: &str) -> String {
    let id = app.create(state).await.text("payment_id").to_owned();
    match state {
        "CREATED" => {}
        "SIGNER_UNREACHABLE" | "NEED_MANUAL" => {
            app.signer_online(false).await;
            app.notify(state).await;
            app.until(state, state).await;
            app.signer_online(true).await;
        }
        _ => drop(app.notify(state).await),
    }
    if state == "SIGNED" {
        app.sign(state).await;
    }
    assert_eq!(app.status(state).await.status(), state);
    id
}

const STATES: [&str; 5] = ["NEED_MANUAL", "SIGNER_UNREACHABLE", "CREATED", "AWAITING_SIGNER", "SIGNED"];

#[tokio::test]
async fn nothing_moves_a_held_payment_whatever_state_it_is_in() {
    each(async |app: &mut App| {
        for state in STATES {
            let id = brought_to(app, state).await;
            let (token, op) = (app.agent(), app.operator());
            let document = app.document("finance-1", state, "approve", "").await;
            let jws = app.jws("finance-1", &document);
            let held = hold(app, state).await;
            assert_eq!((held.status().as_str(), &held.body["held"]), (state, &json!(true)), "{}", held.body);
            let version = app.payment(state).await.version;
            assert_eq!(by(app, "piet", "hold_payment", state, json!({"reason": "me too"})).await.status(), state);
            let asked = app.asked(&id).await;
            for (token, tool, rest) in [
                (&token, "cancel_payment", json!({})),
                (&op, "cancel_payment", json!({})),
                (&token, "notify_signer", json!({})),
                (&op, "resend_notification", json!({})),
                (&op, "reassign_signer", json!({"signer_id": "finance-2"})),
                (&token, "get_sign_link", json!({})),
            ] {
                let mut arguments = json!({"order_id": state});
                arguments.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
                let answer = app.call(token, tool, arguments).await;
                if state != "SIGNED" || tool == "cancel_payment" {
                    assert_eq!(answer.code(), "PAYMENT_ON_MANUAL_HOLD", "{state}: {tool}: {}", answer.body);
                }
            }
            if state != "SIGNED" {
                assert_eq!(app.confirm("finance-1", state, &jws).await.code(), "PAYMENT_ON_MANUAL_HOLD");
                assert_eq!(app.reject("finance-2", state, "no").await.code(), "PAYMENT_ON_MANUAL_HOLD");
            }
            assert_eq!(app.payment(state).await.version, version, "{state}: nothing of that left a trace in it");
            app.settle().await;
            assert_eq!(app.asked(&id).await, asked, "{state}: nobody is notified");
            assert_eq!(app.call(&token, "check_sign_status", json!({"order_id": state})).await.status(), state);
            let told = app.status(state).await;
            assert_eq!((told.status().as_str(), told.text("next_action")), (state, "inform_user"));
            assert!(told.text("message").contains("operator"), "{}", told.body);
            for decision in ["approve", "reject"] {
                let words = json!({"order_id": state, "decision": decision, "reason": "no"});
                let shown = app.call(&app.signer_token("finance-2"), "get_approval", words).await;
                assert_eq!((&shown.body["held"], shown.text("next_action")), (&json!(true), "ask_an_operator"));
                let message = shown.text("message");
                assert!(message.contains("Nothing is to be signed until it is released"), "{}", shown.body);
            }
        }
        let waiting = app.call(&app.signer_token("finance-2"), "list_approvals", json!({})).await;
        let rows = waiting.body["approvals"].as_array().unwrap();
        assert!(rows.len() == STATES.len() - 1 && rows.iter().all(|row| row["held"] == true), "{}", waiting.body);
        assert!(waiting.text("message").ends_with("4 of them held by an operator: sign nothing that is held"));
        let listed = app.call(&app.operator(), "list_attention", json!({})).await;
        let rows = listed.body["payments"].as_array().unwrap();
        assert!(rows.len() == STATES.len() && rows.iter().all(|row| row["held"] == true), "{}", listed.body);
        // Time passes over them, days past every deadline; the order stays taken.
        app.pass(Duration::from_hours(100)).await;
        for state in STATES {
            assert_eq!(app.status(state).await.status(), state);
            let fresh = json!({"order_id": state, "amount": "199.00", "idempotency_key": "another-key-000001"});
            let taken = app.call(&app.agent(), "create_payment", fresh).await;
            assert_eq!(taken.code(), "ORDER_ALREADY_HAS_PAYMENT");
            assert_eq!(app.requests(app.payment(state).await.terms.payment_id.as_str()).await, 0);
        }
        // Let go, each has run out of its time.
        for state in STATES {
            let_go(app, state).await;
            app.settle().await;
            assert_eq!(app.status(state).await.status(), "EXPIRED", "{state}");
        }
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn a_payment_that_is_let_go_in_time_goes_on_where_it_was() {
    each(async |app: &mut App| {
        for state in STATES {
            let id = brought_to(app, state).await;
            hold(app, state).await;
            app.settle().await;
            let_go(app, state).await;
            app.pass(Duration::from_mins(3)).await;
            if state == "CREATED" {
                assert_eq!(app.status(state).await.status(), "AWAITING_SIGNER", "the worker notifies after all");
            }
            if state != "SIGNED" {
                assert_eq!(app.sign(state).await.status(), "SIGNED");
                app.settle().await;
            }
            assert_eq!(app.status(state).await.status(), "EXECUTED", "{state}");
            assert_eq!(app.executions(&id).await, 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_decision_on_the_sign_page_during_a_hold_counts_once_it_is_let_go() {
    each(async |app: &mut App| {
        let id = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let link = app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        hold(app, "order-1").await;
        let decision = json!({"document": document, "jws": app.jws("finance-1", &document)});
        let url = format!("{}/decisions", link.text("sign_url"));
        assert_eq!(app.http.post(url).json(&decision).send().await.unwrap().status(), 200);
        app.deliver_callbacks().await;
        app.pass(Duration::from_mins(5)).await;
        assert_eq!(
            (app.status("order-1").await.status().as_str(), app.rows("decisions").await),
            ("AWAITING_SIGNER", 0)
        );
        let_go(app, "order-1").await;
        app.settle().await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_hold_is_released_by_two_people_who_speak_of_that_very_hold() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        assert_eq!(release(app, "olga", "order-1").await.code(), "INVALID_ARGUMENT", "nothing is held");
        hold(app, "order-1").await;
        for _ in 0..3 {
            let first = release(app, "olga", "order-1").await;
            assert!(waits(&first) && first.body["held"] == true, "one person, however often: {}", first.body);
            assert_eq!(first.text("next_action"), "another_operator_repeats");
        }
        assert_eq!(app.audit().await.iter().filter(|facts| facts.event == "release_hold.first").count(), 1);
        assert!(!waits(&release(app, "piet", "order-1").await));
        assert_eq!(release(app, "piet", "order-1").await.code(), "INVALID_ARGUMENT");
        // Held again: neither of those words counts for this one.
        hold(app, "order-1").await;
        for _ in 0..2 {
            assert!(waits(&release(app, "piet", "order-1").await));
        }
        assert!(app.payment("order-1").await.held_at.is_some());
        assert!(!waits(&release(app, "olga", "order-1").await));
        // Nor does anybody say nothing, or speak for themselves.
        hold(app, "order-1").await;
        assert_eq!(by(app, "olga", "release_hold", "order-1", json!({"evidence": ""})).await.text("field"), "evidence");
        let own = app.token("default", "agent-1", "console", &[Role::Operator]);
        let mine = json!({"order_id": "order-1", "evidence": "please"});
        assert_eq!(app.call(&own, "release_hold", mine).await.code(), "SELF_APPROVAL_FORBIDDEN");
        assert_eq!(app.rows("attestations").await, 4);
        let_go(app, "order-1").await;
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn nobody_gives_a_word_or_a_signature_too_many_while_a_restored_backup_is_compared() {
    each(async |app: &mut App| {
        app.did.rewind = true;
        app.signed("signed").await;
        app.awaiting("held").await;
        hold(app, "held").await;
        app.journal.mark_restored("told").await.unwrap();
        for _ in 0..2 {
            assert_eq!(release(app, "olga", "held").await.code(), "RESTORE_UNDER_WAY");
            assert_eq!(app.sign_as("finance-2", "signed").await.code(), "RESTORE_UNDER_WAY");
        }
        assert_eq!((app.rows("attestations").await, app.rows("decisions").await), (0, 1));
        app.clock.advance(60_000_000);
        assert!(app.journal.compare("").await.unwrap().lifted);
        assert!(waits(&release(app, "olga", "held").await));
        assert_eq!(app.sign_as("finance-2", "signed").await.status(), "SIGNED");
        assert_eq!((app.rows("attestations").await, app.rows("decisions").await), (1, 2));
    })
    .await;
}

#[tokio::test]
async fn two_people_who_speak_at_the_same_moment_are_two() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        for _ in 0..15 {
            hold(app, "order-1").await;
            let (one, two) = tokio::join!(release(app, "olga", "order-1"), release(app, "piet", "order-1"));
            assert!(!one.is_error && !two.is_error, "{} {}", one.body, two.body);
            assert_eq!((waits(&one), waits(&two)), (!waits(&two), !waits(&one)), "one was first, one made it so");
            assert!(app.payment("order-1").await.held_at.is_none());
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_paid_by_hand_is_attested_by_two_with_one_reference_and_the_rail_is_never_asked() {
    each(async |app: &mut App| {
        let id = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(executed(app, "olga", "order-1", "bank-7").await.code(), "INVALID_ARGUMENT", "hold it first");
        hold(app, "order-1").await;
        assert!(waits(&executed(app, "olga", "order-1", "bank-8").await));
        assert!(waits(&executed(app, "olga", "order-1", "bank-7").await), "a slip, put right");
        assert!(waits(&executed(app, "piet", "order-1", "bank-8").await), "that is not what the other says any more");
        let done = executed(app, "rosa", "order-1", "bank-7").await;
        assert_eq!((done.status().as_str(), done.text("transfer_id")), ("EXECUTED", "bank-7"), "{}", done.body);
        assert_eq!(executed(app, "piet", "order-1", "bank-8").await.code(), "PAYMENT_TERMINAL");
        // A late signature changes nothing, and nobody pays it again.
        let late = app.confirm("finance-1", "order-1", &app.jws("finance-1", &document)).await;
        assert_eq!(late.status(), "EXECUTED");
        app.pass(Duration::from_hours(50)).await;
        assert_eq!((app.requests(&id).await, app.status("order-1").await.text("transfer_id")), (0, "bank-7"));
        let fresh = json!({"order_id": "order-1", "amount": "199.00", "idempotency_key": "another-key-000001"});
        assert_eq!(app.call(&app.agent(), "create_payment", fresh).await.code(), "ORDER_ALREADY_HAS_PAYMENT");
    })
    .await;
}

#[tokio::test]
async fn a_payment_that_may_be_on_its_way_is_not_held() {
    each(async |app: &mut App| {
        app.signed("order-1").await;
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::AnswersWhenTold));
        let other = app.another(Some(Arc::clone(&rail) as _)).await;
        let work = tokio::spawn(async move { settle(&other).await });
        rail.reached().await;
        let refused = hold(app, "order-1").await;
        assert_eq!((refused.code().as_str(), refused.text("status")), ("OUTCOME_UNKNOWN_BLOCKS", "SIGNED"));
        rail.answer();
        work.await.unwrap();
        assert_eq!(hold(app, "order-1").await.code(), "PAYMENT_TERMINAL");
        in_doubt(app, "order-2", "drop_reply").await;
        assert_eq!(hold(app, "order-2").await.code(), "OUTCOME_UNKNOWN_BLOCKS");
        app.faults(json!({"standing": {"lookup_down": false}})).await;
    })
    .await;
}

#[tokio::test]
async fn agents_and_signers_never_reach_the_hands_whatever_the_policy_says() {
    let tools = ["hold_payment", "release_hold", "attest_executed", "attest_not_executed", "reassign_signer"];
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        for tool in tools {
            let arguments = json!({"order_id": "order-1", "reason": "x", "evidence": "x", "signer_id": "finance-2"});
            for token in [app.agent(), app.signer_token("finance-1"), app.auditor()] {
                assert_eq!(app.call(&token, tool, arguments.clone()).await.code(), "FORBIDDEN_TOOL", "{tool}");
            }
            assert_eq!(app.audited("tool.forbidden", tool).await, 3);
        }
        assert_eq!(app.rows("attestations").await, 0);
    })
    .await;
    for tool in tools.iter().chain(&["list_audit"]) {
        let text = POLICY.replace("\"create_payment\", ", &format!("\"create_payment\", \"{tool}\", "));
        assert!(parse_policy(&text).is_err(), "{tool} is granted to an agent");
    }
    for tool in tools {
        for role in ["signer", "auditor"] {
            let text = POLICY.replace(&format!("\n{role} = ["), &format!("\n{role} = [\"{tool}\", "));
            assert_ne!(text, POLICY);
            let fault = parse_policy(&text).unwrap_err().to_string();
            assert!(fault.contains(tool) && fault.contains("never"), "{tool} is granted to a {role}: {fault}");
        }
    }
    for tool in ["create_payment", "cancel_payment", "resend_notification", "confirm_signing"] {
        let text = POLICY.replace("\nauditor = [", &format!("\nauditor = [\"{tool}\", "));
        assert!(parse_policy(&text).is_err(), "{tool} is granted to an auditor");
    }
}

#[tokio::test]
async fn a_reassignment_asks_the_new_one_from_every_open_state() {
    each(async |app: &mut App| {
        for state in ["NEED_MANUAL", "SIGNER_UNREACHABLE", "CREATED", "AWAITING_SIGNER"] {
            let id = brought_to(app, state).await;
            let stranger = json!({"signer_id": "stranger-1"});
            assert_eq!(by(app, "olga", "reassign_signer", state, stranger).await.code(), "SIGNER_NOT_ELIGIBLE");
            let answer = by(app, "olga", "reassign_signer", state, json!({"signer_id": "finance-2"})).await;
            assert!(!answer.is_error, "{}", answer.body);
            app.settle().await;
            assert_eq!(app.asked(&id).await.last().unwrap(), &["finance-2"], "{state}");
            let after = app.status(state).await;
            assert_eq!((after.status().as_str(), after.text("reason")), ("AWAITING_SIGNER", ""), "{state}");
            assert_eq!(app.sign_as("finance-2", state).await.status(), "SIGNED");
            app.settle().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_round_that_was_closed_at_the_signer_service_is_opened_anew() {
    each(async |app: &mut App| {
        let id = app.signed("order-1").await;
        hold(app, "order-1").await;
        app.settle().await;
        assert_eq!(app.signer.count("POST", "/cancel"), 1, "it was told that no more decisions are wanted");
        let_go(app, "order-1").await;
        app.change_policy(POLICY.replace("required = 1", "required = 2"));
        let other = app.another(None).await;
        settle(&other).await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.asked(&id).await.len(), 2);
        app.sign_as("finance-1", "order-1").await;
        let document = app.document("finance-2", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-2", &document)).await, 200);
        app.deliver_callbacks().await;
        settle(&other).await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}
