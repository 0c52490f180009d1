//! What may not move is passed by without the writer, and what changed since it was found stays where it is.

use countersign::domain::{PaymentId, Status};
use countersign::journal::Place;

use crate::harness::app::{App, each_with};
use crate::retention::{KEPT, orders, wishes};
use crate::store::sample;

/// Payments that have ended, each with an event that no receiver took, ahead of `others` without one.
async fn behind_dead_letters(app: &App, dead: usize, others: usize) {
    let mut raw = app.db.raw().await;
    let mut tx = app.db.store().begin().await.unwrap();
    for number in 0..dead + others {
        let mut over = sample::of("default", "agent-1", &format!("order-{number:04}"));
        over.terms.payment_id = PaymentId::mint(tx.now(), number as u128);
        (over.status, over.notice.next_at) = (Status::Cancelled, None);
        over.updated_at = tx.now().plus_micros(i64::try_from(number).unwrap() - 1_000_000_000);
        assert!(tx.insert_payment(&over).await.unwrap());
    }
    tx.commit().await.unwrap();
    let events = format!(
        "INSERT INTO outbox SELECT 'evt_' || order_id, 'https://gone.example/', tenant, payment_id, 1, 'payment.cancelled', 'b', 1, \
           'dead', 1, NULL, 'answered 410', NULL, '', 0 FROM payments WHERE order_id < 'order-{dead:04}'"
    );
    assert_eq!(raw.execute(&events).await.unwrap(), dead as u64);
    app.clock.advance(i64::try_from(KEPT.as_micros()).unwrap());
}

/// What never had a history is not shown to the judge.
async fn forget(app: &App) {
    let mut raw = app.db.raw().await;
    for table in ["outbox", "payments", "archived_payments", "taken_orders"] {
        raw.execute(&format!("DELETE FROM {table}")).await.unwrap();
    }
}

#[tokio::test]
async fn dead_letters_at_the_head_are_passed_by_without_the_writer_and_a_part_at_a_time() {
    each_with(wishes(), async |app: &mut App| {
        behind_dead_letters(app, 300, 40).await;
        // On SQLite nobody else can write meanwhile.
        let writer = app.db.store().begin().await.unwrap();
        let first = app.journal.retire(&Place::default()).await.unwrap();
        assert_eq!((first.payments, first.next.is_some()), (0, true), "so many were looked at and no more");
        drop(writer);
        assert_eq!(app.rows("archived_payments").await, 0);
        let second = app.journal.retire(&first.next.unwrap()).await.unwrap();
        assert_eq!((second.payments, second.next.is_some()), (32, true), "it goes on where it was");
        let third = app.journal.retire(&second.next.unwrap()).await.unwrap();
        assert_eq!((third.payments, third.next), (8, None));
        assert_eq!((app.rows("payments").await, app.rows("archived_payments").await), (300, 40));
        forget(app).await;
    })
    .await;
}

#[tokio::test]
async fn what_changed_since_it_was_found_does_not_move() {
    each_with(wishes(), async |app: &mut App| {
        behind_dead_letters(app, 0, 9).await;
        let store = app.db.store();
        let (_, until) = store.next_due().await.unwrap();
        let found = store.read().await.unwrap().finished(until, &Place::default(), 32, 32).await.unwrap();
        assert_eq!((found.payments.len(), found.next.clone()), (9, None));
        let mut raw = app.db.raw().await;
        for (order, change) in [
            ("order-0000", "held_at = 1"),
            ("order-0001", "attention = 'TERMINAL_CONTRADICTION'"),
            ("order-0002", "next_wake_at = 1"),
            ("order-0003", "lease_until = 9000000000000000, lease_token = 'lse_1', lease_owner = 'node'"),
            ("order-0004", "updated_at = 9000000000000000"),
            ("order-0005", "phase = 'unknown'"),
            ("order-0006", "status = 'AWAITING_SIGNER', next_wake_at = 1"),
        ] {
            raw.execute(&format!("UPDATE payments SET {change} WHERE order_id = '{order}'")).await.unwrap();
        }
        let event = "INSERT INTO outbox SELECT 'evt_1', 'https://a.example/', tenant, payment_id, 1, 'payment.cancelled', 'b', 1, \
             'pending', 1, 1, '', NULL, '', 0 FROM payments WHERE order_id = 'order-0007'";
        raw.execute(event).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let moved = tx.archive_finished(until, &found).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!((moved.payments, moved.kept), (1, vec![]));
        assert_eq!(orders(app, "archived_payments").await, ["order-0008"]);
        forget(app).await;
    })
    .await;
}
