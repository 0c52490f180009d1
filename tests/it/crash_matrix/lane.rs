//! One desk after the other, and on each one cell after the other.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::ambient::{Entropy as _, SystemEntropy};
use countersign::domain::Role;
use serde_json::json;
use tokio::time::Instant;

use super::Run;
use super::cell::{Cell, Crew, Death, Kind, Script};
use crate::harness::desk::{Callers, Desk, LARGE, LEASE_MS, Link, OrderRow, Plan, SMALL};
use crate::harness::judge::Breach;
use crate::harness::meddler::{Meddler, Trick};

/// Cells on one desk; then its books are closed and another is opened.
const CELLS: usize = 24;
/// How late is past the lease.
const LATE: Duration = Duration::from_millis(LEASE_MS + 500);
/// Within this, everything comes to rest.
const REST: Duration = Duration::from_secs(40);

/// Plays cells of one crew.
pub(super) struct Lane {
    pub(super) crew: Crew,
    pub(super) queue: Arc<Mutex<VecDeque<Cell>>>,
    pub(super) done: Arc<Mutex<Vec<Run>>>,
}

impl Lane {
    pub(super) async fn run(self) {
        while !self.queue.lock().unwrap().is_empty() {
            let mut stage = Stage::open(self.crew).await;
            for number in 0..CELLS {
                let Some(cell) = self.queue.lock().unwrap().pop_front() else { break };
                let run = stage.play(cell, number).await;
                if !run.violations.is_empty() {
                    eprintln!("{}", run.violations.join("\n"));
                }
                self.done.lock().unwrap().push(run);
            }
            stage.desk.finish().await;
        }
    }
}

/// A desk with a meddler before each service.
struct Stage {
    desk: Desk,
    crew: Crew,
    signer: Meddler,
    rail: Meddler,
    plan: PathBuf,
    /// What the judge found already.
    known: BTreeSet<Breach>,
}

impl Stage {
    async fn open(crew: Crew) -> Self {
        let plan = Plan::new(crew.engine());
        let plan = match crew {
            Crew::Sqlite => plan,
            Crew::Postgres => plan.processes(1, 1),
            Crew::PostgresTwo => plan.processes(1, 2),
            Crew::ForgetfulRail => plan.processes(1, 1).set("RAIL__DEDUP", "none"),
        };
        let mut desk = Desk::prepare(plan).await;
        let signer = Meddler::before(&desk.at.signer, LATE).await;
        let rail = Meddler::before(&desk.at.rail, LATE).await;
        desk.through(Link::Signer, signer.address);
        desk.through(Link::Rail, rail.address);
        let plan = desk.crash_plan();
        desk.start_all().await;
        if crew == Crew::ForgetfulRail {
            desk.faults(json!({"standing": {"forget_keys": true}})).await;
        }
        Self { desk, crew, signer, rail, plan, known: BTreeSet::new() }
    }

    async fn play(&mut self, cell: Cell, number: usize) -> Run {
        let order = format!("order-{number}");
        let (before, after) = cell.kept();
        let trick = Trick { path_end: cell.kind().path_end(), fault: cell.fault, before, after };
        let meddler = if cell.kind() == Kind::Execute { &self.rail } else { &self.signer };
        meddler.next(Some(trick));
        let struck = PathBuf::from(format!("{}.struck", self.plan.display()));
        let _ = std::fs::remove_file(&struck);
        let callers = Arc::clone(&self.desk.callers);
        let arm = Arm { file: self.plan.clone(), line: cell.plan() };
        // Every other one is for two people.
        let people: &[&str] = if number.is_multiple_of(2) { &["finance-1"] } else { &["finance-1", "finance-2"] };
        let story = tokio::spawn(story(callers, cell, order.clone(), people, arm));
        let struck = self.keep(cell, &order, story, &struck).await;
        let left = self.rests(&order).await;
        let missed = [self.signer.next(None), self.rail.next(None)].into_iter().flatten().next();
        let _ = std::fs::remove_file(&self.plan);

        let parked = left.iter().any(|left| left.order == order && is_parked(left));
        let mut violations = Vec::new();
        if !struck {
            violations.push("nobody died".to_owned());
        }
        // What is called off never asks the rail; what is parked may have asked, and is not sent again.
        if let Some(missed) = missed.filter(|_| cell.script() != Script::CallOff && !parked) {
            violations.push(format!("no request met the fault: {missed:?}"));
        }
        violations.extend(left.iter().filter(|left| !is_parked(left)).map(|left| format!("not at rest: {left:?}")));
        let moved = self.moved(&order).await;
        let expected = match cell.script() {
            Script::CallOff => moved == 0,
            Script::Pay | Script::Hold => moved == 1 || (parked && self.crew == Crew::ForgetfulRail),
        };
        if !expected {
            violations.push(format!("executed {moved} times"));
        }
        for breach in self.desk.judged().await {
            if self.known.insert(breach.clone()) {
                violations.push(breach.to_string());
            }
        }
        let violations = violations.into_iter().map(|why| format!("{cell:?}: {order}: {why}")).collect();
        Run { cell, executed: moved, parked, violations }
    }

    /// Keeps the desk going while the story is told: who died is started again, who stopped goes on.
    ///
    /// Whether someone died or stopped.
    async fn keep(
        &mut self,
        cell: Cell,
        order: &str,
        story: tokio::task::JoinHandle<()>,
        struck: &std::path::Path,
    ) -> bool {
        let gateways = self.desk.gateways();
        let murder = Duration::from_millis(SystemEntropy.u64() % 600);
        let victim = gateways[usize::try_from(SystemEntropy.u64()).unwrap_or(0) % gateways.len()];
        let (begun, mut murdered, mut died) = (Instant::now(), false, false);
        let patience = begun + REST;
        loop {
            if matches!(cell.death, Death::Anywhere(..)) && !murdered && begun.elapsed() >= murder {
                eprintln!("{order}: {victim:?} is killed after {murder:?}");
                self.desk.kill(victim).await;
                murdered = true;
            }
            if cell.stops() && !died && struck.exists() {
                tokio::time::sleep(LATE).await;
                for part in &gateways {
                    self.desk.thaw(*part);
                }
                died = true;
            }
            for part in &gateways {
                if !self.desk.part(*part).runs() {
                    self.desk.start(*part).await;
                    died = true;
                }
            }
            if (story.is_finished() && died) || Instant::now() > patience {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        story.await.unwrap();
        died && (murdered || struck.exists())
    }

    /// Waits until every order is at rest, or parked for a person; then gives what was late its time.
    async fn rests(&self, order: &str) -> Vec<OrderRow> {
        let deadline = Instant::now() + REST;
        loop {
            let left = self.desk.unfinished().await;
            if left.iter().all(is_parked) || Instant::now() > deadline {
                // Parked in this cell: an answer that is still on its way may yet end it.
                if left.iter().any(|left| left.order == order && is_parked(left)) {
                    tokio::time::sleep(LATE + Duration::from_millis(800)).await;
                    return self.desk.unfinished().await;
                }
                return left;
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    async fn moved(&self, order: &str) -> usize {
        let sql = format!("SELECT transfer_id FROM transfers WHERE order_id = '{order}'");
        self.desk.rail_book().await.texts(&sql).await.len()
    }
}

/// Whether a payment waits for people: its outcome is unknown, and nothing is sent again.
fn is_parked(left: &OrderRow) -> bool {
    left.status == "SIGNED" && left.phase == "unknown" && left.attention.contains("RESEND_WINDOW_CLOSED")
}

/// The plan that is laid out when its time has come.
struct Arm {
    file: PathBuf,
    line: String,
}

impl Arm {
    fn now(&self) {
        if !self.line.is_empty() {
            // Whole or not at all: processes read it at any time.
            let draft = self.file.with_extension("draft");
            std::fs::write(&draft, &self.line).unwrap();
            std::fs::rename(&draft, &self.file).unwrap();
        }
    }
}

/// Waits until the signers are reached, and until the plan has struck where it is laid out already: a decision
/// needs neither registration nor notification, and would leave them undone.
async fn reached(callers: &Callers, order: &str, laid: Option<&Arm>) {
    let agent = callers.token("agent-1", Role::Agent);
    for _ in 0..300 {
        let status = callers.insist(&agent, "get_payment_status", json!({"order_id": order})).await;
        if status.status() == "AWAITING_SIGNER" && laid.is_none_or(|arm| arm.line.is_empty() || !arm.file.exists()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What the callers do, however often they have to ask.
async fn story(callers: Arc<Callers>, cell: Cell, order: String, people: &'static [&'static str], arm: Arm) {
    if cell.early() {
        arm.now();
    }
    let amount = if people.len() == 1 { SMALL } else { LARGE };
    let proposed = callers.propose_of("agent-1", &order, amount).await;
    assert!(!proposed.is_error, "{order}: {}", proposed.body);
    reached(&callers, &order, cell.early().then_some(&arm)).await;
    if !cell.early() {
        arm.now();
    }
    let operator = |name: &str| callers.token(name, Role::Operator);
    match cell.script() {
        Script::Pay => {}
        Script::CallOff => {
            let agent = callers.token("agent-1", Role::Agent);
            callers.insist(&agent, "cancel_payment", json!({"order_id": order})).await;
            return;
        }
        Script::Hold => {
            let hold = json!({"order_id": order, "reason": "by hand"});
            callers.insist(&operator("ops-1"), "hold_payment", hold).await;
            for person in ["ops-1", "ops-2"] {
                let word = json!({"order_id": order, "evidence": "not paid by hand"});
                // A word that was kept before its answer was lost is refused when it comes again.
                callers.insist(&operator(person), "release_hold", word).await;
            }
        }
    }
    for person in people {
        let signed = callers.countersign_as(person, &order).await;
        assert!(!signed.is_error || signed.code() == "PAYMENT_TERMINAL", "{order}: {}", signed.body);
    }
}
