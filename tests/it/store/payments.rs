//! Payments: digit for digit, one per order, compare-and-set.

use countersign::domain::{Payment, Phase, Stage, Status, Timestamp};
use countersign::store::{Guard, StoreFault};

use super::sample::{at, bare, change, full, insert, of, payment, read};
use crate::harness::database::{TestDatabase, engines};

#[tokio::test]
async fn every_column_comes_back_as_it_went_in() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        for sample in [bare("bare"), full("full", 0), full("other", 1), payment("new")] {
            assert!(insert(db.store(), &sample).await, "{engine}");
            assert_eq!(read(db.store(), &sample).await.as_ref(), Some(&sample), "{engine}");
        }
    }
}

#[tokio::test]
async fn an_absent_instant_is_stored_as_null_and_read_as_none() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        assert!(insert(db.store(), &bare("bare")).await, "{engine}");
        let nulls = "SELECT CASE WHEN notify_at IS NULL AND check_at IS NULL AND execute_at IS NULL AND last_send_at IS NULL \
             AND resend_until IS NULL AND cancel_requested_at IS NULL AND tell_at IS NULL AND held_at IS NULL \
             AND next_wake_at IS NULL THEN 'all' ELSE 'some' END FROM payments";
        assert_eq!(db.raw().await.texts(nulls).await, ["all"], "{engine}");
        assert_eq!(db.store().next_due().await.unwrap().0, None, "{engine}: NULL is not the year 1970");
    }
}

/// The optional instants, each set or not by a bit.
fn with_instants(order: &str, bits: u32) -> Payment {
    let mut some = full(order, 0);
    let instants = [
        &mut some.notice.next_at,
        &mut some.notice.check_at,
        &mut some.execution.next_at,
        &mut some.execution.last_send_at,
        &mut some.execution.resend_until,
        &mut some.execution.cancel_requested_at,
        &mut some.closing.tell_at,
        &mut some.held_at,
    ];
    for (bit, instant) in instants.into_iter().enumerate() {
        if bits & (1 << bit) == 0 {
            *instant = None;
        }
    }
    some
}

#[tokio::test]
async fn every_combination_of_absent_instants_comes_back() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        for bits in 0..256 {
            let some = with_instants(&format!("o{bits}"), bits);
            assert!(tx.insert_payment(&some).await.unwrap(), "{engine}: {bits:08b}");
            let stored = tx.payment("acme", &some.terms.payment_id).await.unwrap();
            assert_eq!(stored.as_ref(), Some(&some), "{engine}: {bits:08b}");
            let mut other = with_instants("unused", !bits & 255);
            other.terms = some.terms.clone();
            tx.save_payment(&some, &other, Guard::Version).await.unwrap();
            let stored = tx.payment("acme", &some.terms.payment_id).await.unwrap();
            assert_eq!(stored.as_ref(), Some(&other), "{engine}: {bits:08b} changed");
        }
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn a_change_replaces_everything_but_the_terms() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        for (before, mut after) in [(full("a", 0), full("x", 1)), (bare("b"), full("x", 1)), (full("c", 1), bare("x"))]
        {
            assert!(insert(db.store(), &before).await, "{engine}");
            let asked = std::mem::replace(&mut after.terms, before.terms.clone());
            let mut tx = db.store().begin().await.unwrap();
            let mut forged = after.clone();
            forged.terms = countersign::domain::Terms { payment_id: before.terms.payment_id.clone(), ..asked };
            tx.save_payment(&before, &forged, Guard::Version).await.unwrap();
            tx.commit().await.unwrap();
            let mut stored = read(db.store(), &before).await.unwrap();
            let expected = countersign::domain::Terms {
                wish: forged.terms.wish.clone(),
                policy: forged.terms.policy.clone(),
                ..before.terms.clone()
            };
            assert_eq!(stored.terms, expected, "{engine}: terms never change, but for whom to ask and by which rule");
            stored.terms = after.terms.clone();
            assert_eq!(stored, after, "{engine}");
        }
    }
}

#[tokio::test]
async fn what_this_version_cannot_read_is_corrupt_and_never_a_guess() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let sample = full("o", 0);
        assert!(insert(db.store(), &sample).await, "{engine}");
        for change in [
            "currency = 'ZZZ'",
            "attention = 'NEWER_REASON'",
            "wish = 'a b'",
            "policy = 'null'",
            "approvals = -1",
            "notify_attempts = 4294967296",
            "tenant = 'acme', order_id = ' '",
        ] {
            let mut raw = db.raw().await;
            raw.execute("BEGIN").await.unwrap();
            raw.execute(&format!("UPDATE payments SET {change}")).await.unwrap();
            raw.execute("COMMIT").await.unwrap();
            let id = &sample.terms.payment_id;
            let stored = db.store().read().await.unwrap().payment("acme", id).await;
            assert!(matches!(stored, Err(StoreFault::Corrupt(_))), "{engine}: {change}: {stored:?}");
            raw.execute("DELETE FROM payments; DELETE FROM taken_orders").await.unwrap();
            assert!(insert(db.store(), &sample).await, "{engine}");
        }
    }
}

#[tokio::test]
async fn an_order_has_one_open_or_executed_payment() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        for status in Status::ALL {
            let order = format!("order-{status:?}");
            let mut first = payment(&order);
            first.status = status;
            if status == Status::Executed {
                first.execution.phase = Phase::Confirmed;
            }
            assert!(insert(db.store(), &first).await, "{engine}: {status:?}");
            let second = payment(&order);
            let free = status.stage() == Stage::Ended && status != Status::Executed;
            assert_eq!(insert(db.store(), &second).await, free, "{engine}: an order beside {status:?}");
            assert_eq!(read(db.store(), &second).await.is_some(), free, "{engine}: {status:?}");
            assert!(insert(db.store(), &of("other", "agent-7", &order)).await, "{engine}: another tenant's order");
            assert!(insert(db.store(), &payment(&order.to_lowercase())).await, "{engine}: case matters");
        }
    }
}

#[tokio::test]
async fn an_ended_payment_frees_its_order_and_can_not_take_it_back() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let first = payment("o");
        assert!(insert(db.store(), &first).await, "{engine}");
        let ended = change(db.store(), &first, |payment| payment.status = Status::Cancelled).await;
        let second = payment("o");
        assert!(insert(db.store(), &second).await, "{engine}");
        let mut revived = ended.clone();
        revived.status = Status::Created;
        revived.version += 1;
        let mut tx = db.store().begin().await.unwrap();
        let saved = tx.save_payment(&ended, &revived, Guard::Version).await;
        assert!(matches!(saved, Err(StoreFault::Conflict)), "{engine}: {saved:?}");
        drop(tx);
        assert_eq!(read(db.store(), &first).await, Some(ended), "{engine}");
        let mut session = db.store().read().await.unwrap();
        let latest = session.payment_by_order("acme", "o").await.unwrap();
        assert_eq!(latest, Some(second), "{engine}: an order means its latest payment");
        assert_eq!(session.payment_by_order("acme", "O").await.unwrap(), None, "{engine}");
        assert_eq!(session.payment_by_order("other", "o").await.unwrap(), None, "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_32_tasks_that_create_one_order_exactly_one_does() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let other = db.another().await;
        let race = (0..32).map(|number| {
            let store = if number % 2 == 0 { db.store().clone() } else { other.clone() };
            tokio::spawn(async move {
                let mine = payment("contested");
                insert(&store, &mine).await.then_some(mine)
            })
        });
        let won: Vec<Payment> = futures::future::join_all(race).await.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(won.len(), 1, "{engine}");
        let stored = db.store().read().await.unwrap().payment_by_order("acme", "contested").await.unwrap();
        assert_eq!(stored.as_ref(), won.first(), "{engine}");
    }
}

#[tokio::test]
async fn a_stale_version_is_a_conflict_and_changes_nothing() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let first = payment("o");
        assert!(insert(db.store(), &first).await, "{engine}");
        let second = change(db.store(), &first, |payment| "second".clone_into(&mut payment.reason)).await;
        let mut third = first.clone();
        third.version += 1;
        "third".clone_into(&mut third.reason);
        for guard in [Guard::Version, Guard::Decision { now: at(0) }] {
            let mut tx = db.store().begin().await.unwrap();
            let saved = tx.save_payment(&first, &third, guard).await;
            assert!(matches!(saved, Err(StoreFault::Conflict)), "{engine}: {guard:?}: {saved:?}");
            tx.commit().await.unwrap();
            assert_eq!(read(db.store(), &first).await.as_ref(), Some(&second), "{engine}: {guard:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_32_tasks_that_change_one_version_exactly_one_does() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let first = payment("o");
        assert!(insert(db.store(), &first).await, "{engine}");
        let race = (0..32).map(|number| {
            let (store, first) = (db.store().clone(), first.clone());
            tokio::spawn(async move {
                let mut next = first.clone();
                next.version += 1;
                next.reason = format!("by {number}");
                let mut tx = store.begin().await.unwrap();
                match tx.save_payment(&first, &next, Guard::Version).await {
                    Ok(()) => {
                        tx.commit().await.unwrap();
                        Some(next)
                    }
                    Err(StoreFault::Conflict) => None,
                    Err(fault) => panic!("{fault:?}"),
                }
            })
        });
        let won: Vec<Payment> = futures::future::join_all(race).await.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(won.len(), 1, "{engine}");
        assert_eq!(read(db.store(), &first).await.as_ref(), won.first(), "{engine}");
    }
}

type Change = fn(&mut Payment);

#[tokio::test]
async fn a_decision_is_refused_by_the_update_itself_when_it_no_longer_counts() {
    let deadline = at(86_400_000_000);
    let before_it = deadline.plus_micros(-1);
    let held = |payment: &mut Payment| payment.held_at = Some(at(5));
    let round = |payment: &mut Payment| payment.round += 1;
    let none = |_: &mut Payment| {};
    // What the row says, what the caller believes, by which time, and whether it counts.
    let cases: [(&str, Change, Change, Timestamp, bool); 6] = [
        ("in time", none, none, before_it, true),
        ("at the deadline", none, none, deadline, false),
        ("after the deadline", none, none, deadline.plus_micros(1), false),
        ("another round", round, none, before_it, false),
        ("held", held, none, before_it, false),
        ("held, and known to be", held, held, before_it, false),
    ];
    for engine in engines() {
        for (case, stored, believed, now, counts) in cases {
            let db = TestDatabase::new(engine).await;
            let mut row = payment("o");
            let mut before = row.clone();
            stored(&mut row);
            believed(&mut before);
            assert!(insert(db.store(), &row).await, "{engine}");
            let mut after = before.clone();
            after.version += 1;
            after.approvals = 1;
            after.status = Status::Signed;
            let mut tx = db.store().begin().await.unwrap();
            let saved = tx.save_payment(&before, &after, Guard::Decision { now }).await;
            tx.commit().await.unwrap();
            match saved {
                Ok(()) => assert!(counts, "{engine}: {case}"),
                Err(StoreFault::Conflict) => assert!(!counts, "{engine}: {case}"),
                Err(fault) => panic!("{engine}: {case}: {fault:?}"),
            }
            let left = if counts { after } else { row };
            assert_eq!(read(db.store(), &left).await, Some(left), "{engine}: {case}");
        }
    }
}
