//! After a restore: what people said since the backup is forgotten, and nothing is paid on what they said before.

use std::time::Duration;

use countersign::domain::Attention;
use serde_json::json;

use crate::harness::app::{App, each_with};
use crate::harness::whole::is_whole;
use crate::restore::{back_up, compare_all, found, marked_and_compared, patient, restore};

#[tokio::test]
async fn what_was_signed_before_a_restore_is_signed_anew_and_paid_once() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.signed("in-vain").await;
        app.rail.down().await;
        app.settle().await;
        app.rail.up().await;
        app.signed("signed").await;
        app.awaiting("awaiting").await;
        let before = app.document("finance-1", "awaiting", "approve", "").await;
        marked_and_compared(app, "told").await;
        assert_eq!(found(app, "signed").await, "not found attention");
        assert_eq!(found(app, "awaiting").await, "not found asked_anew");
        app.pass(Duration::from_hours(1)).await;
        // A later attempt may have left, or been called off: its key is not sent again without two people.
        let in_vain = app.payment("in-vain").await;
        assert!(!in_vain.nothing_sent() && in_vain.execution.phase.as_str() == "unknown");
        assert!(in_vain.attention.contains(&Attention::ResendWindowClosed), "{:?}", in_vain.attention);
        let signed = app.payment("signed").await;
        assert_eq!((signed.status.as_str(), signed.round), ("AWAITING_SIGNER", 2));
        assert!(signed.attention.contains(&Attention::SignedBeforeRestore));
        for payment in [&in_vain, &signed] {
            assert_eq!(app.executions(payment.terms.payment_id.as_str()).await, 0);
        }
        // A signature of before says nothing; a new one does.
        let stale = app.confirm("finance-1", "awaiting", &app.jws("finance-1", &before)).await;
        assert_eq!(stale.code(), "SIGNING_ROUND_STALE", "{}", stale.body);
        for order in ["signed", "awaiting"] {
            app.sign(order).await;
            app.until(order, "EXECUTED").await;
            assert_eq!(app.executions(app.payment(order).await.terms.payment_id.as_str()).await, 1);
        }
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn what_people_did_after_the_backup_is_not_undone_by_a_payment() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        for order in ["cancelled", "replaced", "by-hand"] {
            app.signed(order).await;
        }
        app.awaiting("late").await;
        let late = app.jws("finance-1", &app.document("finance-1", "late", "approve", "").await);
        let old: Vec<String> = app.db.raw().await.texts("SELECT payment_id FROM payments").await;
        back_up(app).await;
        // Called off, replaced, paid by hand; signed on the page and called off.
        app.cancel("cancelled").await;
        let hold = json!({"order_id": "by-hand", "reason": "the bank is asked"});
        assert!(!app.call(&app.operator(), "hold_payment", hold).await.is_error);
        let paid = json!({"order_id": "by-hand", "reference": "bank-1", "evidence": "the bank's statement"});
        for person in ["olga", "piet"] {
            assert!(!app.call(&app.operator_named(person), "attest_executed", paid.clone()).await.is_error);
        }
        let replaced = app.payment("replaced").await.terms.payment_id.to_string();
        let instead = json!({"order_id": "replaced", "amount": "5.00", "supersedes": replaced, "idempotency_key": "a-key-of-16-chars"});
        assert!(!app.call(&app.agent(), "create_payment", instead).await.is_error);
        let document = app.document("finance-1", "late", "approve", "").await;
        assert_eq!(app.decide_on_page("late", &document, &late).await, 200);
        app.cancel("late").await;
        restore(app).await;
        marked_and_compared(app, "told").await;
        app.pass(Duration::from_hours(2)).await;
        for id in &old {
            assert_eq!(app.executions(id).await, 0, "{id}");
        }
        is_whole(app).await;
    })
    .await;
}

/// A desk that was switched off looks like a forgotten restore; it goes on, but for what was signed and lay unsent.
#[tokio::test]
async fn a_desk_that_was_switched_off_goes_on_with_what_was_signed_since() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.signed("old").await;
        app.clock.advance(16 * 60 * 1_000_000);
        app.signed("new").await;
        app.awaiting("awaiting").await;
        marked_and_compared(app, "no_worker_for_long").await;
        for (order, said) in [("old", "attention"), ("new", "as_believed"), ("awaiting", "as_believed")] {
            assert_eq!(found(app, order).await, format!("not found {said}"), "{order}");
        }
        app.sign("awaiting").await;
        app.sign("old").await;
        for order in ["old", "new", "awaiting"] {
            app.until(order, "EXECUTED").await;
            assert_eq!(app.executions(app.payment(order).await.terms.payment_id.as_str()).await, 1);
        }
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn a_guess_that_somebody_confirms_is_compared_anew() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.signed("signed").await;
        app.awaiting("awaiting").await;
        app.journal.mark_restored("no_worker_for_long").await.unwrap();
        app.faults(json!({"standing": {"lookup_down": true}})).await;
        app.clock.advance(60_000_000);
        assert_eq!(app.journal.compare("").await.unwrap().in_doubt, 2);
        // One is compared as the guess has it, before somebody says what is so.
        app.db
            .raw()
            .await
            .execute(
                "UPDATE comparisons SET finding = 'not found', outcome = 'as_believed', compared_at = 1 \
            WHERE believed = 'SIGNED'",
            )
            .await
            .unwrap();
        let guessed = app.db.store().read().await.unwrap().open_restore().await.unwrap().unwrap();
        assert!(!app.journal.mark_restored("told").await.unwrap(), "it is open already");
        assert!(!app.journal.mark_restored("no_worker_for_long").await.unwrap(), "what is certain stays so");
        assert_eq!(app.db.raw().await.texts("SELECT cause FROM restores").await, ["told"]);
        assert_eq!(app.audited("database.restored", "told").await, 1);
        let mut tx = app.db.store().begin().await.unwrap();
        let id = app.payment("awaiting").await.terms.payment_id.to_string();
        assert!(!tx.compared(&guessed, &id, "not found", "as_believed").await.unwrap(), "by who still guesses");
        drop(tx);
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        assert!(compare_all(app, &app.journal).await.lifted);
        assert_eq!(found(app, "signed").await, "not found attention");
        assert_eq!(found(app, "awaiting").await, "not found asked_anew");
        app.pass(Duration::from_hours(1)).await;
        assert_eq!(app.executions(app.payment("signed").await.terms.payment_id.as_str()).await, 0);
        is_whole(app).await;
    })
    .await;
}
