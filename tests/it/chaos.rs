//! Many replicas on one PostgreSQL under load, while everything that can die does.
//!
//! `serve` three times and `worker` twice, with clocks up to two seconds apart. Agents propose, repeat, ask and call
//! off; people approve, reject, approve twice, or come late; meanwhile processes are killed, frozen past their leases
//! and stopped in order, signer service and rail too, the rail misbehaves, and PostgreSQL itself is restarted. Then the
//! faults end, and everything must come to rest; the judge reads all three sets of books.
//!
//! `just chaos MINUTES` prints the counts. Among the tests it runs for a few seconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use countersign::ambient::{Entropy as _, SystemEntropy};
use countersign::domain::Role;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::harness::database::TestDatabase;
use crate::harness::database::TestEngine;
use crate::harness::desk::{Callers, Desk, LEASE_MS, Part, Plan, Unfinished};
use crate::harness::postgres::Cluster;

/// How long faults go on.
fn span() -> Duration {
    let minutes = std::env::var("COUNTERSIGN_CHAOS").ok();
    let minutes = minutes.map_or(0.15, |minutes| minutes.parse::<f64>().expect("COUNTERSIGN_CHAOS is minutes"));
    Duration::from_secs_f64(minutes * 60.0)
}

/// Clients at once.
const CLIENTS: usize = 6;
/// The replicas' clocks are wrong by so many milliseconds; the database's time decides.
const CLOCKS: [i64; 5] = [0, 2_000, -2_000, 1_500, -1_500];

fn roll(below: u64) -> u64 {
    SystemEntropy.u64() % below
}

async fn pause(from: u64, to: u64) {
    sleep(Duration::from_millis(from + roll(to - from))).await;
}

/// What the load did.
#[derive(Default)]
struct Load {
    proposed: AtomicU64,
    approved: AtomicU64,
    rejected: AtomicU64,
    called_off: AtomicU64,
    over: AtomicBool,
}

impl Load {
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// One client: an agent that proposes, and the people it then meets.
    async fn client(&self, callers: &Callers, client: usize) {
        let agent = callers.token("agent-1", Role::Agent);
        let mut number = 0;
        while !self.over.load(Ordering::Relaxed) {
            number += 1;
            let order = format!("order-{client}-{number}");
            let payment = callers.propose(&order).await;
            Self::count(&self.proposed);
            if roll(4) == 0 {
                assert_eq!(callers.propose(&order).await, payment, "the same call is the same payment");
            }
            match roll(10) {
                0 => {
                    callers.insist(&agent, "cancel_payment", json!({"order_id": order})).await;
                    Self::count(&self.called_off);
                }
                1 => {
                    callers.reject(&order).await;
                    Self::count(&self.rejected);
                }
                // Nobody comes before the end.
                2 => {}
                _ => {
                    let answer = callers.countersign(&order).await;
                    assert!(!answer.is_error, "{order}: {}", answer.body);
                    Self::count(&self.approved);
                    if roll(3) == 0 {
                        callers.countersign(&order).await;
                    }
                    if roll(5) == 0 {
                        callers.insist(&agent, "cancel_payment", json!({"order_id": order})).await;
                    }
                }
            }
            let status = callers.insist(&agent, "get_payment_status", json!({"order_id": order})).await;
            assert_eq!(status.text("payment_id"), payment);
        }
    }
}

/// One thing that goes wrong, and its end.
async fn harm(desk: &mut Desk, cluster: &mut Cluster, done: &mut BTreeMap<&'static str, u64>) {
    let parts = desk.gateways();
    let part = parts[usize::try_from(roll(u64::try_from(parts.len()).unwrap())).unwrap()];
    let name = match roll(20) {
        0..=6 => {
            desk.kill(part).await;
            pause(0, 400).await;
            begin(desk, part);
            "killed"
        }
        7..=9 => {
            desk.freeze(part);
            pause(LEASE_MS, 2 * LEASE_MS).await;
            desk.thaw(part);
            "frozen past a lease"
        }
        10..=11 => {
            // Before it is up, a signal ends it as any other program.
            assert!(desk.ready(part, Duration::from_secs(30)).await, "{part:?} is not ready: {}", desk.said(part));
            desk.stop(part).await;
            begin(desk, part);
            "stopped in order"
        }
        12..=13 => {
            let kinds = ["drop_request", "drop_reply", "delay_before", "fail_after", "wrong_amount", "fail_before"];
            let kind = kinds[usize::try_from(roll(6)).unwrap()];
            desk.try_faults(json!({"next": [{"kind": kind, "times": 3, "delay_ms": 900}]})).await;
            "rail misbehaved"
        }
        14 => {
            let service = if roll(2) == 0 { Part::Rail } else { Part::Signer };
            desk.kill(service).await;
            pause(100, 900).await;
            desk.start(service).await;
            "service killed"
        }
        15 => {
            desk.try_presence("finance-1", false).await;
            pause(300, 1_200).await;
            desk.try_presence("finance-1", true).await;
            "signer out of reach"
        }
        16 => {
            let mode = if roll(2) == 0 { "fast" } else { "immediate" };
            tokio::task::block_in_place(|| cluster.restart(mode));
            "database restarted"
        }
        _ => {
            let all = desk.gateways();
            for part in &all {
                desk.kill(*part).await;
            }
            for part in all {
                begin(desk, part);
            }
            "all replicas killed"
        }
    };
    *done.entry(name).or_default() += 1;
}

/// Starts a replica with its own wrong clock.
fn begin(desk: &mut Desk, part: Part) {
    let number = match part {
        Part::Serve(number) => number,
        Part::Worker(number) => 3 + number,
        Part::Rail | Part::Signer => 0,
    };
    desk.launch(part, &[("COUNTERSIGN_CLOCK_ERROR_MS", CLOCKS[number].to_string())]);
}

/// Called off while its request was lost: it is not sent again, not closed on a guess, and listed for a person.
fn waits_for_a_person(order: &Unfinished) -> bool {
    order.status == "SIGNED" && order.phase == "unknown" && order.attention.contains("CANCEL_WHILE_UNKNOWN")
}

async fn in_flight(desk: &Desk) -> Vec<Unfinished> {
    let signed = |order: &Unfinished| order.status == "SIGNED" && !waits_for_a_person(order);
    desk.unfinished().await.into_iter().filter(signed).collect()
}

async fn all_ready(desk: &mut Desk) {
    for part in desk.gateways() {
        assert!(desk.ready(part, Duration::from_secs(30)).await, "{part:?} is not ready: {}", desk.said(part));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn whatever_dies_under_load_nothing_is_lost_stuck_or_paid_twice() {
    let Some(mut cluster) = Cluster::own() else {
        assert!(std::env::var_os("CI").is_none(), "no PostgreSQL server binaries: replicas can't be tested");
        eprintln!("no PostgreSQL server binaries: replicas were not tested");
        return;
    };
    let db = TestDatabase::on(&cluster).await;
    let plan = Plan::new(TestEngine::Postgres).processes(3, 2);
    let mut desk = Desk::prepare_on(plan, db).await;
    desk.start(Part::Rail).await;
    desk.start(Part::Signer).await;
    for part in desk.gateways() {
        begin(&mut desk, part);
    }
    all_ready(&mut desk).await;

    let load = Arc::new(Load::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (callers, load) = (Arc::clone(&desk.callers), Arc::clone(&load));
            tokio::spawn(async move { load.client(&callers, client).await })
        })
        .collect();
    let mut faults = BTreeMap::new();
    let until = Instant::now() + span();
    while Instant::now() < until {
        pause(50, 600).await;
        harm(&mut desk, &mut cluster, &mut faults).await;
    }
    let last_fault = Instant::now();
    load.over.store(true, Ordering::Relaxed);
    all_ready(&mut desk).await;
    desk.faults(json!({"next": []})).await;
    desk.presence("finance-1", true).await;
    for client in clients {
        client.await.unwrap();
    }
    // What is signed comes to its end by itself; the people who did not come, come now.
    let mut left = in_flight(&desk).await;
    while !left.is_empty() && last_fault.elapsed() < Duration::from_mins(1) {
        sleep(Duration::from_millis(50)).await;
        left = in_flight(&desk).await;
    }
    let recovered = last_fault.elapsed();
    assert!(left.is_empty(), "stuck a minute after the last fault: {left:?}");
    for order in desk.unfinished().await {
        if order.status != "SIGNED" {
            desk.countersign(&order.order).await;
        }
    }
    let until = Instant::now() + Duration::from_mins(1);
    let mut left = desk.unfinished().await;
    while left.iter().any(|order| !waits_for_a_person(order)) && Instant::now() < until {
        sleep(Duration::from_millis(50)).await;
        left = desk.unfinished().await;
    }
    assert!(left.iter().all(waits_for_a_person), "stuck: {left:?}");

    let count = async |table: String| -> u64 {
        desk.db.raw().await.texts(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}")).await[0].parse().unwrap()
    };
    let payments = count("payments".to_owned()).await;
    let executed = count("payments WHERE status = 'EXECUTED'".to_owned()).await;
    let attempts: u64 = desk.db.raw().await.texts("SELECT CAST(COALESCE(SUM(sends), 0) AS TEXT) FROM payments").await
        [0]
    .parse()
    .unwrap();
    println!(
        "{payments} payments, {executed} executed in {attempts} attempts; {} approved, {} rejected, {} called off",
        load.approved.load(Ordering::Relaxed),
        load.rejected.load(Ordering::Relaxed),
        load.called_off.load(Ordering::Relaxed)
    );
    println!("called off while their request was lost, and left to a person: {}", left.len());
    println!("faults: {faults:?}");
    println!("calls repeated: {}", desk.repeated());
    println!("at rest {recovered:?} after the last fault; lease {LEASE_MS} ms");
    assert_eq!(payments, load.proposed.load(Ordering::Relaxed), "every acknowledged payment is there, and no other");
    desk.finish().await;
    println!("violations: 0");
}

/// A rolling restart: each replica is stopped in order and started again while clients call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_rolling_restart_clients_see_nothing_worse_than_a_call_to_repeat() {
    if crate::harness::postgres::server().is_none() {
        assert!(std::env::var_os("CI").is_none(), "no PostgreSQL server binaries: replicas can't be tested");
        return;
    }
    let mut desk = Desk::open(Plan::new(TestEngine::Postgres).processes(3, 2)).await;
    let load = Arc::new(Load::default());
    let clients: Vec<_> = (0..3)
        .map(|client| {
            let (callers, load) = (Arc::clone(&desk.callers), Arc::clone(&load));
            tokio::spawn(async move { load.client(&callers, client).await })
        })
        .collect();
    for part in desk.gateways() {
        desk.stop(part).await;
        desk.start(part).await;
    }
    load.over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    for order in desk.unfinished().await {
        if order.status != "SIGNED" {
            desk.countersign(&order.order).await;
        }
    }
    let left = desk.comes_to_rest(Duration::from_secs(40)).await;
    assert!(left.is_empty(), "stuck: {left:?}");
    desk.finish().await;
}
