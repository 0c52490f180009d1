//! What goes wrong in chaos, one thing at a time, each with its end and with a proof that it took place.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{all_ready, begin, pause, pick, roll, up};
use crate::harness::desk::{Desk, LEASE_MS, Part};
use crate::harness::postgres::Cluster;

/// How long what must happen under load may take to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the rail misbehaves, once each.
const ODDITIES: [&str; 6] = ["drop_request", "drop_reply", "delay_before", "fail_after", "wrong_amount", "fail_before"];

/// Where a worker dies by itself: its intent is stored and nothing sent; the rail has answered; the outcome is
/// written and not committed.
const CALLS: [&str; 3] =
    ["rail.execute/intent.after_commit", "rail.execute/answered", "rail.execute/outcome.before_commit"];

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Harm {
    GatewayKilled,
    WorkerKilled,
    /// It stands still between its intent and its call, until its lease is over; then it goes on.
    WorkerFrozenInACall,
    DatabaseCrashed,
    RailKilled,
    SignerServiceKilled,
    WorkerDiedInACall,
    DatabaseRestarted,
    GatewayFrozen,
    AllReplicasKilled,
    StoppedInOrder,
    RailMisbehaved,
    SignerOutOfReach,
}

impl Harm {
    /// What a long run does first.
    pub(super) const ALL: [Self; 13] = [
        Self::GatewayKilled,
        Self::WorkerKilled,
        Self::WorkerFrozenInACall,
        Self::DatabaseCrashed,
        Self::RailKilled,
        Self::SignerServiceKilled,
        Self::WorkerDiedInACall,
        Self::DatabaseRestarted,
        Self::GatewayFrozen,
        Self::AllReplicasKilled,
        Self::StoppedInOrder,
        Self::RailMisbehaved,
        Self::SignerOutOfReach,
    ];

    /// What each run does first.
    pub(super) const MAIN: &[Self] = Self::ALL.split_at(6).0;

    /// Any: replicas die the most.
    pub(super) fn any() -> Self {
        match roll(5) {
            0 => Self::GatewayKilled,
            1 => Self::WorkerKilled,
            _ => pick(&Self::ALL),
        }
    }

    /// Does it, and ends it.
    pub(super) async fn happen(self, desk: &mut Desk, cluster: &mut Cluster) {
        match self {
            Self::GatewayKilled => killed(desk, pick(&serves(desk))).await,
            Self::WorkerKilled => killed(desk, pick(&workers(desk))).await,
            Self::WorkerFrozenInACall => {
                all_ready(desk).await;
                strike(desk, CALLS[0], "stop").await;
                pause(LEASE_MS, 2 * LEASE_MS).await;
                for worker in workers(desk) {
                    desk.thaw(worker);
                }
            }
            Self::WorkerDiedInACall => {
                all_ready(desk).await;
                let dead = died_in_a_call(desk, pick(&CALLS)).await;
                pause(0, 400).await;
                begin(desk, dead);
            }
            Self::DatabaseCrashed => tokio::task::block_in_place(|| cluster.restart("immediate")),
            Self::DatabaseRestarted => tokio::task::block_in_place(|| cluster.restart("fast")),
            Self::RailKilled => killed_service(desk, Part::Rail).await,
            Self::SignerServiceKilled => killed_service(desk, Part::Signer).await,
            Self::GatewayFrozen => {
                let part = pick(&serves(desk));
                up(desk, part).await;
                desk.freeze(part);
                pause(LEASE_MS, 2 * LEASE_MS).await;
                desk.thaw(part);
            }
            Self::AllReplicasKilled => {
                kill_all(desk).await;
                for part in desk.gateways() {
                    begin(desk, part);
                }
            }
            Self::StoppedInOrder => {
                let part = pick(&desk.gateways());
                // Before it is up, a signal ends it as any other program.
                up(desk, part).await;
                desk.stop(part).await;
                begin(desk, part);
            }
            Self::RailMisbehaved => {
                all_ready(desk).await;
                let next: Vec<Value> =
                    ODDITIES.iter().map(|kind| json!({"kind": kind, "times": 1, "delay_ms": 900})).collect();
                desk.faults(json!({"next": next})).await;
                until("the rail misbehaves", async || {
                    let left = desk.rail_book().await.texts("SELECT kind FROM faults").await;
                    left.is_empty()
                })
                .await;
            }
            Self::SignerOutOfReach => {
                desk.presence("finance-1", false).await;
                pause(300, 1_200).await;
                desk.presence("finance-1", true).await;
            }
        }
    }
}

fn serves(desk: &Desk) -> Vec<Part> {
    desk.gateways().into_iter().filter(|part| matches!(part, Part::Serve(_))).collect()
}

fn workers(desk: &Desk) -> Vec<Part> {
    desk.gateways().into_iter().filter(|part| matches!(part, Part::Worker(_))).collect()
}

/// A replica is killed at whatever it is at, its start too.
async fn kill(desk: &mut Desk, part: Part) {
    if !desk.part(part).runs() {
        up(desk, part).await;
    }
    desk.kill(part).await;
}

/// Every replica, at once.
pub(super) async fn kill_all(desk: &mut Desk) {
    for part in desk.gateways() {
        kill(desk, part).await;
    }
}

async fn killed(desk: &mut Desk, part: Part) {
    kill(desk, part).await;
    pause(0, 400).await;
    begin(desk, part);
}

async fn killed_service(desk: &mut Desk, part: Part) {
    kill(desk, part).await;
    pause(100, 900).await;
    desk.start(part).await;
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Lays out a plan of `countersign::crash`, and waits until it has struck.
async fn strike(desk: &Desk, point: &str, action: &str) {
    let file = desk.crash_plan();
    let struck = PathBuf::from(format!("{}.struck", file.display()));
    let _ = std::fs::remove_file(&struck);
    // Whole or not at all: processes read it at any time.
    let draft = file.with_extension("draft");
    std::fs::write(&draft, format!("{point} 1 {action}")).unwrap();
    std::fs::rename(&draft, &file).unwrap();
    until(&format!("{action} at {point}"), async || struck.exists()).await;
}

/// Waits until a worker has died at this point of an execution; which.
async fn died_in_a_call(desk: &mut Desk, point: &str) -> Part {
    strike(desk, point, "abort").await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        for worker in workers(desk) {
            if !desk.part(worker).runs() {
                return worker;
            }
        }
        assert!(Instant::now() < deadline, "no worker died at {point}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The last fault of a run: both workers die in a call, one before it and one after it, and all gateways with them.
pub(super) async fn last(desk: &mut Desk) {
    all_ready(desk).await;
    let first = died_in_a_call(desk, CALLS[0]).await;
    // It is taken up by nobody: only the other is left to die.
    strike(desk, CALLS[1], "abort").await;
    for worker in workers(desk).into_iter().filter(|worker| *worker != first) {
        assert!(desk.part(worker).ended(PATIENCE).await.is_some(), "{worker:?} did not die at {}", CALLS[1]);
    }
    for serve in serves(desk) {
        kill(desk, serve).await;
    }
}
