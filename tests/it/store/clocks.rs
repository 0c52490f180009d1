//! The database's time decides about leases, whatever a machine believes.

use std::sync::Arc;
use std::time::Duration;

use countersign::ambient::{Clock, SystemClock};
use countersign::domain::Timestamp;
use countersign::store::{Lease, Store};

use super::sample::{due, token};
use crate::harness::database::{TestDatabase, TestEngine, engines};

const SECOND: i64 = 1_000_000;
/// By how much the clocks of two machines are wrong: by far more than a lease.
const ERROR: i64 = 120 * SECOND;
const LEASE: i64 = 15 * SECOND;

/// The clock of a machine that is wrong, and does not know.
#[derive(Debug)]
struct Wrong(i64);

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus_micros(self.0)
    }
}

async fn machine(db: &TestDatabase, error: i64) -> Store {
    Store::open(db.url(), 2, Duration::from_secs(20), Arc::new(Wrong(error))).await.unwrap()
}

/// Claims what is due for `lasts`; what it got.
async fn claim(store: &Store, number: u32, lasts: i64) -> Option<Lease> {
    let mut tx = store.begin().await.unwrap();
    let until = tx.now().plus_micros(lasts);
    let leases = tx.claim_due("node", &token(number), until, 9, &[]).await.unwrap();
    tx.commit().await.unwrap();
    leases.into_iter().next()
}

async fn renew(store: &Store, lease: &Lease, lasts: i64) -> bool {
    let mut tx = store.begin().await.unwrap();
    let until = tx.now().plus_micros(lasts);
    let renewed = tx.renew(lease, until).await.unwrap();
    tx.commit().await.unwrap();
    renewed
}

#[tokio::test]
async fn two_machines_whose_clocks_are_minutes_apart_keep_each_others_leases_and_take_over_ended_ones() {
    // On SQLite there is one machine, and its clock is the store's.
    if !engines().contains(&TestEngine::Postgres) {
        return;
    }
    let db = TestDatabase::new(TestEngine::Postgres).await;
    due(&db, "o", 1).await;
    let (fast, slow) = (machine(&db, ERROR).await, machine(&db, -ERROR).await);
    for (turn, (holder, other)) in (0..).zip([(&fast, &slow), (&slow, &fast)]) {
        let lease = claim(holder, 10 * turn, LEASE).await.expect("it is due by the database's time");
        assert_eq!(claim(other, 10 * turn + 1, LEASE).await, None, "a live lease was stolen");
        assert!(renew(holder, &lease, LEASE).await, "its holder has it still");
        // Over, by the database's time, when the next transaction begins.
        assert!(renew(holder, &lease, 1).await);
        let next = claim(other, 10 * turn + 2, LEASE).await.expect("an ended lease is anybody's");
        assert!(!renew(holder, &lease, LEASE).await, "another has taken over");
        assert!(renew(other, &next, 1).await);
    }
    for store in [&fast, &slow] {
        let (wakes, now) = store.next_due().await.unwrap();
        let tx = store.begin().await.unwrap();
        for decides in [now, tx.now()] {
            let apart = decides.micros() - SystemClock.now().micros();
            assert!(apart.abs() < ERROR / 2, "{apart} µs off");
        }
        assert!(wakes.is_some_and(|wakes| wakes <= now));
    }
}
