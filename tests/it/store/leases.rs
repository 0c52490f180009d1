//! Leases: due work is claimed once, held for a while, and fenced.

use std::collections::BTreeSet;

use countersign::domain::{LeaseToken, Payment, Status, Timestamp};
use countersign::store::{Lease, Store};

use super::sample::{at, bare, due, insert, payment, token};
use crate::harness::database::{TestDatabase, engines};

const SECOND: i64 = 1_000_000;
/// How long leases last here.
const LEASE: i64 = 15 * SECOND;

async fn claim(store: &Store, owner: &str, token: &LeaseToken, limit: i64) -> Vec<Lease> {
    let mut tx = store.begin().await.unwrap();
    let until = tx.now().plus_micros(LEASE);
    let leases = tx.claim_due(owner, token, until, limit, &[]).await.unwrap();
    tx.commit().await.unwrap();
    leases
}

async fn claim_one(store: &Store, payment: &Payment, token: &LeaseToken) -> bool {
    let mut tx = store.begin().await.unwrap();
    let until = tx.now().plus_micros(LEASE);
    let claimed = tx.claim(payment.terms.payment_id.as_str(), "node", token, until).await.unwrap();
    tx.commit().await.unwrap();
    claimed
}

async fn renew(store: &Store, lease: &Lease) -> bool {
    let mut tx = store.begin().await.unwrap();
    let until = tx.now().plus_micros(LEASE);
    let renewed = tx.renew(lease, until).await.unwrap();
    tx.commit().await.unwrap();
    renewed
}

async fn release(store: &Store, lease: &Lease) {
    let mut tx = store.begin().await.unwrap();
    tx.release(lease).await.unwrap();
    tx.commit().await.unwrap();
}

fn ids(leases: &[Lease]) -> BTreeSet<String> {
    leases.iter().map(|lease| lease.payment_id.clone()).collect()
}

fn ids_of(payments: &[&Payment]) -> BTreeSet<String> {
    payments.iter().map(|payment| payment.terms.payment_id.to_string()).collect()
}

#[tokio::test]
async fn the_oldest_due_are_claimed_first_and_never_more_than_the_limit() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let young = due(&db, "young", 10).await;
        let old = due(&db, "old", 30).await;
        let middle = due(&db, "middle", 20).await;
        let future = due(&db, "future", -60).await;
        assert!(insert(db.store(), &bare("ended")).await);
        let first = claim(db.store(), "node", &token(1), 2).await;
        assert_eq!(ids(&first), ids_of(&[&old, &middle]), "{engine}");
        assert!(first.iter().all(|lease| lease.token == token(1)), "{engine}");
        let second = claim(db.store(), "node", &token(2), 2).await;
        assert_eq!(ids(&second), ids_of(&[&young]), "{engine}: what is leased is not claimed, what is not due neither");
        assert_eq!(claim(db.store(), "node", &token(3), 2).await, [], "{engine}");
        db.clock().advance(61 * SECOND);
        let third = claim(db.store(), "node", &token(4), 9).await;
        assert_eq!(ids(&third), ids_of(&[&old, &middle, &young, &future]), "{engine}: leases end, time passes");
        assert_eq!(claim(db.store(), "node", &token(5), 0).await, [], "{engine}");
    }
}

/// PostgreSQL may run a sub-select again for each row it joins to, and then lock further rows.
#[tokio::test]
async fn the_limit_holds_whatever_plan_the_planner_chooses() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        let now = tx.now();
        for number in 0..300 {
            let mut sample = payment(&format!("o{number}"));
            sample.notice.next_at = Some(now.plus_micros(number - 1_000));
            assert!(tx.insert_payment(&sample).await.unwrap());
        }
        tx.commit().await.unwrap();
        for (number, limit) in (1..).zip([1_i64, 3, 16]) {
            let claimed = claim(db.store(), "node", &token(number), limit).await;
            assert_eq!(i64::try_from(claimed.len()).unwrap(), limit, "{engine}");
            db.raw().await.execute("ANALYZE").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_payment_is_due_at_its_instant_and_not_before() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        let mut now = payment("now");
        now.notice.next_at = Some(tx.now());
        let mut later = payment("later");
        later.notice.next_at = Some(tx.now().plus_micros(1));
        assert!(tx.insert_payment(&now).await.unwrap() && tx.insert_payment(&later).await.unwrap());
        let until = tx.now().plus_micros(LEASE);
        let leases = tx.claim_due("node", &token(1), until, 9, &[]).await.unwrap();
        assert_eq!(ids(&leases), ids_of(&[&now]), "{engine}");
        assert_eq!(leases[0].claimed_at, tx.now(), "{engine}");
    }
}

#[tokio::test]
async fn a_lease_ends_at_its_instant() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let sample = due(&db, "o", 1).await;
        for (rest, free) in [(1, false), (0, true), (-1, true)] {
            let mut tx = db.store().begin().await.unwrap();
            let until = tx.now().plus_micros(rest);
            assert!(tx.claim(sample.terms.payment_id.as_str(), "a", &token(1), until).await.unwrap(), "{engine}");
            let claimed = tx.claim(sample.terms.payment_id.as_str(), "b", &token(2), until).await.unwrap();
            assert_eq!(claimed, free, "{engine}: {rest}");
            let lease = Lease {
                payment_id: sample.terms.payment_id.to_string(),
                tenant: sample.terms.tenant.to_string(),
                claims: 1,
                token: token(if free { 2 } else { 1 }),
                claimed_at: tx.now(),
            };
            assert_eq!(
                tx.renew(&lease, until).await.unwrap(),
                !free,
                "{engine}: {rest}: an ended lease is not renewed"
            );
            assert_eq!(
                tx.claim_due("c", &token(3), until, 9, &[]).await.unwrap().len(),
                usize::from(free),
                "{engine}: {rest}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claimers_at_the_same_moment_never_share_a_payment() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        for number in 0..60 {
            due(&db, &format!("o{number}"), number).await;
        }
        let other = db.another().await;
        let race = (0..8_u32).map(|number| {
            let store = if number % 2 == 0 { db.store().clone() } else { other.clone() };
            tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let batch = claim(&store, &format!("n{number}"), &token(number), 5).await;
                    if batch.is_empty() {
                        return mine;
                    }
                    assert!(batch.len() <= 5);
                    mine.extend(batch);
                    assert!(mine.len() <= 60, "claimed again and again");
                }
            })
        });
        let claimed: Vec<Lease> = futures::future::join_all(race).await.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(claimed.len(), ids(&claimed).len(), "{engine}: claimed twice");
        // A claimer skips what another is locking, and may so have left early; the rest is still due.
        let rest = claim(db.store(), "rest", &token(99), 60).await;
        assert_eq!(claimed.len() + rest.len(), 60, "{engine}");
        assert!(ids(&claimed).is_disjoint(&ids(&rest)), "{engine}");
    }
}

#[tokio::test]
async fn a_claim_of_one_takes_what_nobody_holds_due_or_not() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let sample = due(&db, "o", -600).await;
        assert!(claim_one(db.store(), &sample, &token(1)).await, "{engine}");
        assert!(!claim_one(db.store(), &sample, &token(2)).await, "{engine}");
        db.clock().advance(LEASE + SECOND);
        assert!(claim_one(db.store(), &sample, &token(3)).await, "{engine}");
        assert!(!claim_one(db.store(), &payment("never-stored"), &token(4)).await, "{engine}");
    }
}

#[tokio::test]
async fn renewing_is_fenced_by_token_and_by_expiry() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        due(&db, "o", 1).await;
        let lease = claim(db.store(), "node", &token(1), 1).await.remove(0);
        let forged = Lease { token: token(2), ..lease.clone() };
        assert!(!renew(db.store(), &forged).await, "{engine}: another token");
        let astray = Lease { payment_id: "pay_0".to_owned(), ..lease.clone() };
        assert!(!renew(db.store(), &astray).await, "{engine}: another payment");
        db.clock().advance(LEASE - SECOND);
        assert!(renew(db.store(), &lease).await, "{engine}");
        db.clock().advance(LEASE - SECOND);
        assert!(renew(db.store(), &lease).await, "{engine}: it was extended");
        db.clock().advance(LEASE + SECOND);
        assert!(!renew(db.store(), &lease).await, "{engine}: it ended, though nobody took it");
        let next = claim(db.store(), "other", &token(3), 1).await.remove(0);
        assert!(!renew(db.store(), &lease).await, "{engine}: another took over");
        assert!(renew(db.store(), &next).await, "{engine}");
    }
}

#[tokio::test]
async fn only_the_holder_releases() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        due(&db, "o", 1).await;
        let lease = claim(db.store(), "node", &token(1), 1).await.remove(0);
        release(db.store(), &Lease { token: token(2), ..lease.clone() }).await;
        assert_eq!(claim(db.store(), "other", &token(3), 1).await, [], "{engine}: a stranger released it");
        release(db.store(), &lease).await;
        assert!(!renew(db.store(), &lease).await, "{engine}: it was given back");
        assert_eq!(claim(db.store(), "other", &token(4), 1).await.len(), 1, "{engine}");
        release(db.store(), &lease).await;
        assert_eq!(claim(db.store(), "third", &token(5), 1).await, [], "{engine}: the late holder released another's");
    }
}

#[tokio::test]
async fn a_change_of_the_payment_leaves_the_lease_alone() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let sample = due(&db, "o", 1).await;
        let lease = claim(db.store(), "node", &token(1), 1).await.remove(0);
        super::sample::change(db.store(), &sample, |payment| payment.status = Status::AwaitingSigner).await;
        assert!(renew(db.store(), &lease).await, "{engine}");
    }
}

#[tokio::test]
async fn a_payment_is_made_due_by_its_state_only_while_that_is_its_state() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let sample = due(&db, "o", 1).await;
        let lease = claim(db.store(), "node", &token(1), 1).await.remove(0);
        let mut tx = db.store().begin().await.unwrap();
        assert!(tx.stumble(&lease, at(900), true).await.unwrap(), "{engine}");
        assert!(!tx.stumble(&lease, at(800), true).await.unwrap(), "{engine}: it was given back");
        tx.commit().await.unwrap();
        let wakes = async |payment: &Payment| {
            let mut tx = db.store().begin().await.unwrap();
            tx.rewake(payment).await.unwrap();
            tx.commit().await.unwrap();
            db.store().next_due().await.unwrap().0
        };
        assert_eq!(wakes(&sample).await, sample.notice.next_at, "{engine}");
        let later = super::sample::change(db.store(), &sample, |payment| payment.notice.next_at = Some(at(700))).await;
        assert_eq!(wakes(&sample).await, Some(at(700)), "{engine}: it has changed since it was read");
        assert_eq!(wakes(&later).await, Some(at(700)), "{engine}");
    }
}

#[tokio::test]
async fn the_next_due_is_the_earliest_wake_of_all_tenants() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let due = async || db.store().next_due().await.unwrap().0;
        assert_eq!(due().await, None, "{engine}: nothing stored");
        assert!(insert(db.store(), &bare("ended")).await);
        assert_eq!(due().await, None, "{engine}: nothing due");
        let wakes: [Timestamp; 3] = [at(500), at(200), at(900)];
        for (number, wake) in wakes.into_iter().enumerate() {
            let mut sample = super::sample::of(&format!("tenant-{number}"), "agent", "o");
            sample.notice.next_at = Some(wake);
            assert!(insert(db.store(), &sample).await);
        }
        assert_eq!(due().await, Some(at(200)), "{engine}");
    }
}
