//! Many replicas on one PostgreSQL under load, while everything that can die does.
//!
//! `serve` three times and `worker` twice, with clocks up to two seconds wrong, the workers by as much in both directions. Agents propose, repeat, ask, call
//! off, and propose more than they may; people approve, alone or by twos, reject, approve twice, or come late
//! (`load`). Meanwhile processes are killed, frozen past their leases and stopped in order, signer service and rail
//! too, the rail misbehaves, and PostgreSQL itself is restarted (`faults`): one of each kind first, then whatever
//! comes. Every 20 seconds all stand still and the judge reads all three sets of books. Then the faults end, what
//! they left in flight comes to its end within a lease (`recovery`), everything comes to rest, every answer that a
//! caller got is held against what has come of it, and the judge reads the books once more.
//!
//! `just chaos MINUTES` prints the counts. Among the tests it runs for a few seconds.

mod clocks;
mod faults;
mod load;
mod recovery;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use countersign::ambient::{Entropy as _, SystemEntropy};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::harness::database::TestDatabase;
use crate::harness::database::TestEngine;
use crate::harness::desk::{Desk, LEASE_MS, Obstacle, OrderRow, Part, Plan};
use crate::harness::postgres::Cluster;
use crate::harness::rpc::Miss;
use faults::Harm;
use load::{Kind, Load, Promise};
use recovery::Left;

/// How long faults go on, at least.
fn span() -> Duration {
    let minutes = std::env::var("COUNTERSIGN_CHAOS").ok();
    let minutes = minutes.map_or(0.15, |minutes| minutes.parse::<f64>().expect("COUNTERSIGN_CHAOS is minutes"));
    Duration::from_secs_f64(minutes * 60.0)
}

/// From this long on, a run sees every kind of fault.
const LONG: Duration = Duration::from_mins(1);
/// Clients at once.
const CLIENTS: usize = 6;
/// How often the judge reads the books while it goes on.
const JUDGED_EVERY: Duration = Duration::from_secs(20);
/// Within this, everything comes to rest.
const REST: Duration = Duration::from_mins(1);
/// The replicas' clocks are wrong by so many milliseconds; the database's time decides.
const CLOCKS: [i64; 5] = [0, 2_000, -2_000, 2_000, -2_000];

fn roll(below: u64) -> u64 {
    SystemEntropy.u64() % below
}

fn pick<T: Copy>(of: &[T]) -> T {
    of[usize::try_from(roll(u64::try_from(of.len()).unwrap())).unwrap()]
}

async fn pause(from: u64, to: u64) {
    sleep(Duration::from_millis(from + roll(to - from))).await;
}

/// Starts a replica with its own wrong clock.
fn begin(desk: &mut Desk, part: Part) {
    let number = match part {
        Part::Serve(number) => number,
        Part::Worker(number) => 3 + number,
        Part::Rail | Part::Signer => 0,
    };
    desk.launch(part, &[(clocks::ERROR, CLOCKS[number].to_string())]);
}

/// Called off while its request was lost: it is not sent again, not closed on a guess, and listed for a person.
fn waits_for_a_person(order: &OrderRow) -> bool {
    order.status == "SIGNED" && order.phase == "unknown" && order.attention.contains("CANCEL_WHILE_UNKNOWN")
}

/// Waits until a replica is ready. One that found no database when it started has ended, and is started again, as by
/// any supervisor.
async fn up(desk: &mut Desk, part: Part) {
    while !desk.ready(part, Duration::from_secs(30)).await {
        let ended = !desk.part(part).runs();
        let why = desk.said(part);
        assert!(ended && why.contains("countersign: database:"), "{part:?} is not ready: {why}");
        begin(desk, part);
    }
}

async fn all_ready(desk: &mut Desk) {
    for part in desk.gateways() {
        up(desk, part).await;
    }
}

fn clients(desk: &Desk, load: &Arc<Load>, number: usize) -> Vec<JoinHandle<()>> {
    let client = |client| {
        let (callers, load) = (Arc::clone(&desk.callers), Arc::clone(load));
        tokio::spawn(async move { load.client(&callers, client).await })
    };
    (0..number).map(client).collect()
}

/// Holds every law, with everybody standing still.
///
/// Of work that has failed and is put off, I8 is held only at the end: until it is done, its wake time is not its
/// state's. It is put off by no more than a lease.
async fn hold_to_the_laws(desk: &mut Desk) {
    let (found, put_off) = desk.judged_and(recovery::awake_within_a_lease).await;
    let breaches = found.iter().filter(|breach| !(breach.law == "I8" && put_off.contains(&breach.subject)));
    let breaches: Vec<String> = breaches.map(ToString::to_string).collect();
    assert!(breaches.is_empty(), "while it goes on:\n{}", breaches.join("\n"));
}

/// Holds that callers met nothing but what can be repeated; `cut`: a connection may have ended with its process.
fn met_nothing_worse(desk: &Desk, cut: bool) {
    let met = desk.obstacles();
    let bears = |obstacle: &Obstacle| match obstacle {
        // A tool's own error that says it can be repeated; all others are answers, and were looked at.
        Obstacle::Told(_) | Obstacle::Missed(Miss::Unreached | Miss::Status(503)) => true,
        Obstacle::Missed(Miss::Cut) => cut,
        Obstacle::Missed(Miss::Status(_)) => false,
    };
    assert!(met.keys().all(bears), "clients met {met:?}");
    println!("repeated after {met:?}");
}

/// Waits until nothing is left to do but what waits for a person; how many do.
async fn rests(desk: &Desk) -> usize {
    let until = Instant::now() + REST;
    let mut left = desk.unfinished().await;
    while !left.iter().all(waits_for_a_person) && Instant::now() < until {
        sleep(Duration::from_millis(50)).await;
        left = desk.unfinished().await;
    }
    assert!(left.iter().all(waits_for_a_person), "stuck: {left:?}");
    left.len()
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
    let clients = clients(&desk, &load, CLIENTS);
    let required = if span() >= LONG { Harm::ALL.to_vec() } else { Harm::MAIN.to_vec() };
    let mut first = VecDeque::from(required.clone());
    let (mut harms, mut judged) = (BTreeMap::<Harm, u64>::new(), 0);
    let (until, mut judged_at) = (Instant::now() + span(), Instant::now());
    while let Some(harm) = first.pop_front().or_else(|| (Instant::now() < until).then(Harm::any)) {
        pause(50, 600).await;
        harm.happen(&mut desk, &mut cluster).await;
        *harms.entry(harm).or_default() += 1;
        if judged_at.elapsed() >= JUDGED_EVERY || (first.is_empty() && judged == 0) {
            hold_to_the_laws(&mut desk).await;
            (judged, judged_at) = (judged + 1, Instant::now());
        }
    }
    faults::last(&mut desk).await;
    let in_flight = Left::by_the_last_fault(&desk).await;
    assert!(in_flight.held > 0, "the last fault left nothing that has to be taken over");
    load.end();
    for part in desk.gateways() {
        begin(&mut desk, part);
    }
    all_ready(&mut desk).await;
    let recovered = in_flight.recovers(&desk, &load).await;
    for client in clients {
        client.await.unwrap();
    }
    load.late(&desk).await;
    let waiting = rests(&desk).await;

    println!("faults: {harms:?}, and both workers at once; judged {judged} times meanwhile");
    println!("answered: {:?}", load.counts());
    println!("called off while their request was lost, and left to a person: {waiting}");
    println!(
        "{} orders in flight at the last fault, {} of them held by the dead; the last ended {recovered:?} after the \
         lease ({LEASE_MS} ms) was over and all were up again",
        in_flight.orders(),
        in_flight.held
    );
    met_nothing_worse(&desk, true);
    let payments = load.was_kept(&desk).await;
    let sends = desk.db.raw().await.texts("SELECT CAST(COALESCE(SUM(sends), 0) AS TEXT) FROM payments").await;
    let moved = desk.rail_book().await.texts("SELECT CAST(COUNT(*) AS TEXT) FROM transfers").await;
    println!("{payments} payments, {} executions in the rail's ledger, {} attempts", moved[0], sends[0]);
    assert!(required.iter().all(|harm| harms.contains_key(harm)), "{harms:?}");
    let counts = load.counts();
    for seen in [(Kind::Small, Promise::Approved), (Kind::Large, Promise::Approved), (Kind::Few, Promise::Refused)] {
        assert!(counts.contains_key(&seen), "{seen:?} never happened: {counts:?}");
    }
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
    let clients = clients(&desk, &load, 3);
    for part in desk.gateways() {
        desk.stop(part).await;
        desk.start(part).await;
    }
    load.end();
    for client in clients {
        client.await.unwrap();
    }
    met_nothing_worse(&desk, false);
    load.late(&desk).await;
    rests(&desk).await;
    assert!(load.was_kept(&desk).await > 0);
    desk.finish().await;
}
