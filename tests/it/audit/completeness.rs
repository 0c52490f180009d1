//! A history that is complete is found whole: at work, after a second round, and whatever became of keys.

use std::time::Duration;

use countersign::journal::verify::BreakKind;
use countersign::proof::{SigningKey, sha256_hex};
use serde_json::json;

use super::story::each;
use super::story::verified;
use crate::desk_attest::in_doubt;
use crate::harness::app::{App, Wishes, each_with, two_must_approve};
use crate::harness::people::enrolment;
use crate::harness::whole::is_whole;

#[tokio::test]
async fn a_desk_at_work_is_whole_at_every_moment() {
    each(async |app: &mut App| {
        let orders: Vec<String> = (0..10).map(|n| format!("order-{n}")).collect();
        let app = &*app;
        let work = futures::future::join_all(orders.iter().map(|order| async move {
            app.signed(order).await;
            app.sign_as("finance-2", order).await;
            app.settle().await;
        }));
        // Keys come and go meanwhile.
        let keys = async {
            for seed in 100..130 {
                let key = SigningKey::from_seed(&[seed; 32]);
                assert!(enrolment("board-1", &key).pin(app.db.store(), &key.public()).await.unwrap());
                tokio::task::yield_now().await;
                enrolment("board-1", &key).revoke(app.db.store()).await.unwrap();
            }
        };
        let work = futures::future::join(work, keys);
        let mut looks = 0_u32;
        let look = async {
            loop {
                assert_eq!(verified(app, None).await.breaks, []);
                looks += 1;
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = work => {}
            () = look => {}
        }
        assert!(looks > 3, "{looks}");
        assert_eq!(verified(app, None).await.breaks, []);
    })
    .await;
}

#[tokio::test]
async fn a_second_round_is_audited_with_its_document_and_judged_by_its_own_approvals() {
    each(async |app: &mut App| {
        let id = app.signed("order-1").await;
        app.revoke_key("finance-1").await;
        app.settle().await;
        assert_eq!(app.payment("order-1").await.round, 2);
        app.until("order-1", "AWAITING_SIGNER").await;
        app.sign_as("finance-2", "order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(verified(app, None).await.breaks, []);
        let asked = app.audit().await.iter().find(|facts| facts.event == "execution.quorum_lost").unwrap().seq.parse().ok();
        // Terms and document changed alike: the chain knows the document.
        let change = |from: &str, to: &str| {
            format!("UPDATE payments SET memo = '{to}', document = REPLACE(document, '\"purpose\":\"{from}\"', '\"purpose\":\"{to}\"') \
                 WHERE payment_id = '{id}'")
        };
        app.db.raw().await.execute(&change("", "another")).await.unwrap();
        let report = verified(app, None).await;
        assert!(report.breaks.iter().any(|found| found.kind == BreakKind::TermsDisagree && found.seq == asked
            && found.expected.contains("SHA-256")), "{:#?}", report.breaks);
        app.db.raw().await.execute(&change("another", "")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_key_revoked_after_the_execution_voids_nothing() {
    each_with(two_must_approve().patient(), async |app: &mut App| {
        app.awaiting("order-1").await;
        for person in ["finance-1", "finance-2"] {
            app.sign_as(person, "order-1").await;
        }
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        app.revoke_key("finance-1").await;
        app.clock.advance(120 * 1_000_000);
        app.create("order-2").await;
        assert_eq!(verified(app, None).await.breaks, []);
        // One approval of two is none.
        let one = "DELETE FROM decisions WHERE signer_id = 'finance-2'";
        app.db.raw().await.execute("CREATE TABLE kept AS SELECT * FROM decisions").await.unwrap();
        app.db.raw().await.execute(one).await.unwrap();
        let report = verified(app, None).await;
        let unapproved = report.breaks.iter().find(|found| found.kind == BreakKind::ExecutionUnapproved);
        assert!(unapproved.is_some_and(|found| found.found.contains("finance-1")), "{:#?}", report.breaks);
        // Nor does the one person count twice.
        let twice = "INSERT INTO decisions SELECT 'dec_x', payment_id, round, 'finance-2', 1, key_id, choice, reason, document, digest, \
             proof_type, proof, via, decided_at, payment_version + 1 FROM decisions";
        let columns = "decision_id, payment_id, round, signer_id, confirmation, key_id, choice, reason, document, digest, \
             proof_type, proof, via, decided_at, payment_version";
        let twice = twice.replacen("decisions SELECT", &format!("decisions ({columns}) SELECT"), 1);
        app.db.raw().await.execute(&twice).await.unwrap();
        let report = verified(app, None).await;
        assert!(report.breaks.iter().any(|found| found.kind == BreakKind::ExecutionUnapproved), "{:#?}", report.breaks);
        let back = "DELETE FROM decisions; INSERT INTO decisions SELECT * FROM kept; DROP TABLE kept";
        app.db.raw().await.execute(back).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn two_people_who_say_that_it_was_not_paid_leave_a_whole_history() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        app.call(&app.operator(), "hold_payment", json!({"order_id": "order-1", "reason": "by hand"})).await;
        for person in ["operator-1", "operator-2"] {
            let word = json!({"order_id": "order-1", "evidence": "nothing left the bank"});
            app.call(&app.operator_named(person), "attest_not_executed", word).await;
        }
        let report = verified(app, None).await;
        assert_eq!((report.breaks, report.payments), (vec![], 1));
    })
    .await;
}

/// The first attempt sent nothing, as two people said; before the second key is used a signature is void.
#[tokio::test]
async fn each_round_with_an_intent_is_judged_by_its_own_approvals() {
    let wishes = Wishes::default().patient().config(|config| {
        "none".clone_into(&mut config.rail.dedup);
        config.rail.in_flight_s = 60;
    });
    each_with(wishes, async |app: &mut App| {
        let id = in_doubt(app, "order-1", "drop_request").await;
        app.pass(Duration::from_mins(2)).await;
        for person in ["operator-1", "operator-2"] {
            let word = json!({"order_id": "order-1", "evidence": "nothing left the bank"});
            app.call(&app.operator_named(person), "attest_not_executed", word).await;
        }
        app.revoke_key("finance-1").await;
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until("order-1", "AWAITING_SIGNER").await;
        app.sign_as("finance-2", "order-1").await;
        app.until("order-1", "EXECUTED").await;
        let payment = app.payment("order-1").await;
        assert_eq!((payment.execution.group, payment.round, app.requests(&id).await), (2, 2, 2));
        is_whole(app).await;
        // The second intent has no approvals without those of its round.
        let audit = app.audit().await;
        let intended = audit.iter().rfind(|facts| facts.event == "rail.execute.intended").unwrap().seq.parse().ok();
        let mut raw = app.db.raw().await;
        raw.execute("CREATE TABLE kept AS SELECT * FROM decisions WHERE round = 2").await.unwrap();
        raw.execute("DELETE FROM decisions WHERE round = 2").await.unwrap();
        let report = verified(app, None).await;
        let unapproved: Vec<_> =
            report.breaks.iter().filter(|found| found.kind == BreakKind::ExecutionUnapproved).collect();
        assert!(unapproved.len() == 1 && unapproved[0].seq == intended, "{:#?}", report.breaks);
        raw.execute("INSERT INTO decisions SELECT * FROM kept; DROP TABLE kept").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_transfer_that_a_look_up_found_is_audited_as_one_that_the_rail_answered() {
    each(async |app: &mut App| {
        for (order, fault, event) in
            [("order-1", "", "rail.execute.done"), ("order-2", "drop_reply", "rail.execute.looked_up")]
        {
            let id = app.signed(order).await;
            if !fault.is_empty() {
                app.next_fault(fault).await;
            }
            app.until(order, "EXECUTED").await;
            let transfer = sha256_hex(&app.payment(order).await.execution.transfer_id);
            let audit = app.audit().await;
            let told = audit.iter().find(|facts| facts.payment_id == id && facts.to == "EXECUTED").unwrap();
            assert_eq!((told.event.as_str(), &told.digest_of_details), (event, &transfer));
        }
        assert_eq!(verified(app, None).await.breaks, []);
    })
    .await;
}
