//! Guards that stand before or behind another one, each seen where the other would not do.

use std::sync::Arc;
use std::time::Duration;

use countersign::domain::{Phase, Status};
use countersign::proof::{PaymentDocument, payment_digest};
use countersign::store::{AuditNote, Guard};
use serde_json::json;

use crate::harness::app::{App, Wishes, each, each_with};
use crate::harness::peer::Weather;
use crate::harness::rpc::Answer;
use crate::restore::{back_up, restore};

async fn hold(app: &App, order: &str) -> Answer {
    app.call(&app.operator(), "hold_payment", json!({"order_id": order, "reason": "paid by hand"})).await
}

async fn doctor(app: &App, sql: &str) {
    app.db.raw().await.execute(sql).await.unwrap();
}

/// Lets what is read of payments say something else in a column than their rows do, as if it had been read before.
async fn read_as(app: &App, column: &str, said: &str) {
    const KEEPING: &str = include_str!("../../migrations/sqlite/0008_keeping.sql");
    let view = KEEPING.split("\n\n").find(|part| part.starts_with("CREATE VIEW payments_everywhere")).unwrap();
    let other = view.replace(&format!(" {column},"), &format!(" {said} AS {column},"));
    assert!(said == column || other != view);
    doctor(app, &format!("DROP VIEW payments_everywhere; {other}")).await;
}

/// The version alone would do, if each change of a payment raised it; the update does not rely on that.
#[tokio::test]
async fn a_decision_that_was_read_long_ago_is_refused_by_its_update() {
    each(async |app: &mut App| {
        let rows = [("held", "held_at", "CAST(NULL AS BIGINT)"), ("late", "expires_at", "expires_at + 864000000000")];
        for (order, column, said) in rows {
            app.awaiting(order).await;
            let document = app.document("finance-1", order, "approve", "").await;
            if order == "held" {
                hold(app, order).await;
            } else {
                let (_, now) = app.db.store().next_due().await.unwrap();
                let left = app.payment(order).await.terms.expires_at.since(now);
                app.clock.advance(i64::try_from(left.as_micros()).unwrap() + 1);
            }
            read_as(app, column, said).await;
            let answer = app.confirm("finance-1", order, &app.jws("finance-1", &document)).await;
            read_as(app, column, column).await;
            assert_eq!(answer.code(), "VERSION_CONFLICT", "{order}: {}", answer.body);
            assert_eq!(app.payment(order).await.status, Status::AwaitingSigner, "{order}");
            assert_eq!(app.rows("decisions").await, 0, "{order}");
        }
    })
    .await;
}

/// Waits until a person is asked to look at the order's payment.
pub(crate) async fn raised(app: &App, order: &str) {
    for _ in 0..200 {
        if !app.payment(order).await.attention.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(app.status(order).await.body["attention"], json!(["INVARIANT_BROKEN"]));
}

#[tokio::test]
async fn what_was_signed_is_what_is_paid() {
    each(async |app: &mut App| {
        // Another amount in the row than in the document that was signed.
        let id = app.signed("row").await;
        doctor(app, "UPDATE payments SET amount_minor = 19800").await;
        app.settle().await;
        assert_eq!((app.requests(&id).await, app.payment("row").await.execution.phase), (0, Phase::None));
        raised(app, "row").await;
        doctor(app, "UPDATE payments SET amount_minor = 19900").await;
        app.until("row", "EXECUTED").await;

        // Another document with the row: then the signatures are about another payment.
        let id = app.signed("all").await;
        let mut document = PaymentDocument::parse(&app.payment("all").await.document).unwrap();
        "19800".clone_into(&mut document.amount_minor);
        let text = document.canonical().unwrap();
        let digest = payment_digest(&text);
        let all = format!("amount_minor = 19800, document = '{text}', digest = '{digest}'");
        doctor(app, &format!("UPDATE payments SET {all} WHERE payment_id = '{id}'")).await;
        app.settle().await;
        let asked = app.payment("all").await;
        assert_eq!((asked.status.as_str(), asked.round, asked.approvals), ("AWAITING_SIGNER", 2, 0));
        assert_eq!(app.requests(&id).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_step_that_breaks_what_must_hold_is_not_written() {
    each(async |app: &mut App| {
        app.signed("order-1").await;
        doctor(app, "UPDATE payments SET approvals = 0").await;
        let version = app.payment("order-1").await.version;
        let answer = hold(app, "order-1").await;
        assert_eq!(answer.code(), "INTERNAL", "{}", answer.body);
        raised(app, "order-1").await;
        let kept = app.payment("order-1").await;
        assert_eq!((kept.held_at, kept.version), (None, version + 1), "but for the attention it asks for");
        doctor(app, "UPDATE payments SET approvals = 1").await;
        app.until("order-1", "EXECUTED").await;
    })
    .await;
}

/// Under another group the key is another one too: neither the rail nor the effects know that it was paid.
#[tokio::test]
async fn a_payment_that_was_carried_out_is_not_sent_again_whatever_its_row_says() {
    const OPEN_AGAIN: &str =
        "UPDATE payments SET status = 'SIGNED', transfer_id = '', next_wake_at = 1, execute_at = 1";
    let ways = [
        ("another-group", "phase = 'none', attempt_group = 2", ""),
        ("the-same-group", "phase = 'none'", ""),
        ("nothing-sent", "phase = 'none', sends = 0, not_sent = 0", "DELETE FROM effects WHERE kind = 'rail.execute'"),
        ("never-left", "phase = 'intended', not_sent = sends", ""),
    ];
    each(async |app: &mut App| {
        for (order, ..) in ways {
            app.signed(order).await;
            app.until(order, "EXECUTED").await;
        }
        back_up(app).await;
        for (order, how, also) in ways {
            let id = app.payment(order).await.terms.payment_id.to_string();
            doctor(app, &format!("{OPEN_AGAIN}, {how} WHERE payment_id = '{id}'")).await;
            if !also.is_empty() {
                doctor(app, &format!("{also} AND payment_id = '{id}'")).await;
            }
            app.settle().await;
            raised(app, order).await;
            app.pass(Duration::from_mins(2)).await;
            assert_eq!((app.requests(&id).await, app.payment(order).await.status), (1, Status::Signed), "{order}");
        }
        // The judge would find what was done here by hand.
        restore(app).await;
    })
    .await;
}

/// What a stranger did to the rows of payments: each was paid again, or for the first time when it had been called off.
#[tokio::test]
async fn a_row_that_a_hand_has_changed_sends_nothing() {
    const SIGNED: &str = "UPDATE payments SET status = 'SIGNED', next_wake_at = 1, execute_at = 1";
    each(async |app: &mut App| {
        let replaced = app.signed("replaced").await;
        let instead = json!({"order_id": "replaced", "amount": "5.00", "supersedes": replaced,
            "idempotency_key": "a-key-of-16-chars"});
        assert!(!app.call(&app.agent(), "create_payment", instead).await.is_error);
        app.cancel("replaced").await;
        let cancelled = app.signed("cancelled").await;
        app.cancel("cancelled").await;
        let refused = app.signed("refused").await;
        app.faults(json!({"next": [{"kind": "refuse"}]})).await;
        app.until("refused", "FAILED").await;
        let mut doubtful = Vec::new();
        for order in ["begun", "raised", "both"] {
            doubtful.push(app.signed(order).await);
            app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": true}})).await;
            app.settle().await;
        }
        let fresh = app.signed("fresh").await;
        back_up(app).await;
        let changes = [
            (&fresh, format!("{SIGNED}, attempt_group = 2"), 0),
            (&replaced, SIGNED.to_owned(), 0),
            (&cancelled, SIGNED.to_owned(), 0),
            (&refused, format!("{SIGNED}, phase = 'none', attempt_group = 2, sends = 0, not_sent = 0"), 1),
            (&doubtful[0], format!("{SIGNED}, phase = 'none'"), 1),
            (&doubtful[1], format!("{SIGNED}, phase = 'intended', sends = 1, not_sent = 1, attempt_group = 2"), 1),
            (&doubtful[2], format!("{SIGNED}, phase = 'none', attempt_group = 2"), 1),
        ];
        for (id, change, requests) in changes {
            assert_eq!(app.requests(id).await, requests, "{id}: before");
            doctor(app, &format!("{change} WHERE payment_id = '{id}'")).await;
            app.settle().await;
            app.pass(Duration::from_mins(2)).await;
            assert_eq!(app.requests(id).await, requests, "{id}: {change}");
        }
        // The judge would find what was done here by hand.
        restore(app).await;
    })
    .await;
}

/// What the worker does first for these is no step, or one that leads out of what is broken: no check of steps sees it.
#[tokio::test]
async fn a_row_that_breaks_an_invariant_is_refused_before_anything_is_done_for_it() {
    each(async |app: &mut App| {
        let asked = app.signed("asked").await;
        app.rail.once("POST /api/v1/transfers", Weather::LoseReply);
        app.settle().await;
        let late = app.signed("late").await;
        app.awaiting("told").await;
        assert_eq!(app.cancel("told").await.status(), "CANCELLED");
        let stand = async || {
            let payments = [app.payment("asked").await, app.payment("late").await, app.payment("told").await];
            payments.map(|payment| (payment.status, payment.execution.phase))
        };
        doctor(app, "UPDATE payments SET approvals = 0 WHERE status = 'SIGNED'").await;
        doctor(app, "UPDATE payments SET phase = 'unknown', sends = 1 WHERE status = 'CANCELLED'").await;
        let broken =
            [(Status::Signed, Phase::Unknown), (Status::Signed, Phase::None), (Status::Cancelled, Phase::Unknown)];
        assert_eq!(stand().await, broken);
        let calls = || {
            (
                app.rail.count("GET", "/transfers"),
                app.rail.count("POST", "/transfers"),
                app.signer.count("POST", "/cancel"),
            )
        };
        let before = calls();
        let (_, now) = app.db.store().next_due().await.unwrap();
        let deadline = app.payment("late").await.terms.execute_by.since(now);
        // Due: to be sent, to be looked up at the rail, to be told to the signer service; at last to expire.
        for wait in [Duration::from_mins(1), deadline] {
            app.pass(wait).await;
            for order in ["asked", "late", "told"] {
                raised(app, order).await;
            }
            app.settle().await;
            assert_eq!((calls(), stand().await), (before, broken), "after {wait:?}");
        }
        let audited =
            [app.audited("invariant.broken", "quorum").await, app.audited("invariant.broken", "negative_unpaid").await];
        assert_eq!(audited, [2, 1], "each once");

        // Mended, each goes where it would have gone.
        doctor(app, "UPDATE payments SET approvals = 1 WHERE status = 'SIGNED'").await;
        doctor(app, "UPDATE payments SET phase = 'none', sends = 0 WHERE status = 'CANCELLED'").await;
        app.until("asked", "EXECUTED").await;
        app.until("late", "EXPIRED").await;
        app.pass(Duration::from_hours(1)).await;
        assert_eq!((app.requests(&asked).await, app.requests(&late).await), (1, 0));
        assert_eq!(calls().2, before.2 + 2, "told of the one that was called off and of the one that ran out");
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_writes_no_intent() {
    each(async |app: &mut App| {
        let id = app.signed("order-1").await;
        let asleep = app.another(None).await;
        let lease = asleep.claim_due(1, &[]).await.unwrap().remove(0);
        // It slept, and nobody has taken the payment over yet: only the lease itself says that it may not go on.
        app.clock.advance(i64::try_from(app.config.worker.lease_ms).unwrap() * 1_000 + 1);
        assert!(!asleep.attend(&lease).await);
        assert_eq!((app.requests(&id).await, app.payment("order-1").await.execution.phase), (0, Phase::None));
        app.settle().await;
        assert_eq!((app.requests(&id).await, app.payment("order-1").await.status), (1, Status::Executed));
    })
    .await;
}

#[tokio::test]
async fn a_hold_after_the_claim_stops_the_intent_and_keeps_the_order() {
    each(async |app: &mut App| {
        let id = app.signed("order-1").await;
        let other = app.another(None).await;
        let lease = other.claim_due(1, &[]).await.unwrap().remove(0);
        hold(app, "order-1").await;
        assert!(other.attend(&lease).await);
        let held = app.payment("order-1").await;
        assert_eq!((held.status, held.execution.phase), (Status::Signed, Phase::None));
        assert_eq!(app.requests(&id).await, 0);
    })
    .await;
}

/// A hold that commits between the claim's read and the first transaction.
#[tokio::test]
async fn a_hold_that_the_first_transaction_meets_leaves_no_lease_behind() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        let id = app.signed("order-1").await;
        let worker = app.another(None).await;
        let lease = worker.claim_due(1, &[]).await.unwrap().remove(0);
        let before = app.payment("order-1").await;
        let mut tx = app.db.store().begin().await.unwrap();
        let mut held = before.clone();
        (held.held_at, held.version, held.updated_at) = (Some(tx.now()), before.version + 1, tx.now());
        tx.save_payment(&before, &held, Guard::Version).await.unwrap();
        tx.audit(AuditNote {
            tenant: "default".to_owned(),
            payment_id: id.clone(),
            version: held.version,
            actor: "operator-1".to_owned(),
            event: "payment.held".to_owned(),
            from: "SIGNED".to_owned(),
            to: "SIGNED".to_owned(),
            reason: "paid by hand".to_owned(),
            ..AuditNote::default()
        });
        // Who would write the intent waits for this one: for the writer, or for the row.
        let attends = tokio::spawn(async move { worker.attend(&lease).await });
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(!attends.is_finished());
        tx.commit().await.unwrap();
        assert!(attends.await.unwrap());
        assert_eq!(app.requests(&id).await, 0);
        for person in ["olga", "piet"] {
            let word = json!({"order_id": "order-1", "evidence": "the bank refused it"});
            let answer = app.call(&app.operator_named(person), "release_hold", word).await;
            assert!(!answer.is_error, "{}", answer.body);
        }
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED", "at once, and not when a lease is over");
    })
    .await;
}

/// An intent whose event changes nothing of the payment, so that no update of it asks for the restore.
#[tokio::test]
async fn a_restore_stops_an_effect_that_goes_with_no_change_of_its_payment() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        app.create("order-1").await;
        app.signer.set(Weather::Status(500));
        app.notify("order-1").await;
        app.signer.set(Weather::Fair);
        let states = "SELECT state FROM effects WHERE kind = 'signer.register'";
        assert_eq!(app.db.raw().await.texts(states).await, ["unknown"]);
        app.clock.advance(600 * 1_000_000);
        let lease = app.journal.claim_due(1, &[]).await.unwrap().remove(0);
        app.signer.once("GET /api/v1/payments", Weather::Slow(2_000));
        let worker = Arc::clone(&app.journal);
        let attends = tokio::spawn(async move { worker.attend(&lease).await });
        while app.signer.count("GET", "/api/v1/payments") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // It ends while the signer service is asked: that an attempt starts is nothing to it any more.
        assert_eq!(app.cancel("order-1").await.status(), "CANCELLED");
        app.journal.mark_restored("told").await.unwrap();
        let (sent, audited) = (app.signer.count("POST", ""), app.rows("audit_entries").await);
        assert!(!attends.is_finished());
        assert!(!attends.await.unwrap());
        assert_eq!((app.signer.count("POST", ""), app.rows("audit_entries").await), (sent, audited), "nothing left");
        let attempts = "SELECT CAST(attempts AS TEXT) FROM effects WHERE kind = 'signer.register'";
        assert_eq!(app.db.raw().await.texts(attempts).await, ["1"]);
        assert!(crate::restore::compare_all(app, &app.journal).await.lifted);
        app.pass(Duration::from_hours(1)).await;
        assert_eq!(app.signer.count("POST", ""), sent, "nor later: it has ended");
    })
    .await;
}
