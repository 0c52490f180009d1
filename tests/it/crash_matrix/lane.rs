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
use crate::harness::desk::{Callers, Desk, LARGE, LEASE_MS, Link, NOBODY, OrderRow, Plan, SMALL, key_of, some_key_of};
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
            Crew::SqliteTwo | Crew::PostgresTwo => plan.processes(1, 2),
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
        // What is called off or paid by hand never asks the rail; what is parked may have asked, and is not sent again.
        if let Some(missed) = missed.filter(|_| cell.script().pays() && !parked) {
            violations.push(format!("no request met the fault: {missed:?}"));
        }
        violations.extend(left.iter().filter(|left| !is_parked(left)).map(|left| format!("not at rest: {left:?}")));
        let moved = self.moved(&order).await;
        let expected =
            if cell.script().pays() { moved == 1 || (parked && self.crew == Crew::ForgetfulRail) } else { moved == 0 };
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
pub(super) struct Arm {
    pub(super) file: PathBuf,
    pub(super) line: String,
}

impl Arm {
    pub(super) fn now(&self) {
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
    let key = if cell.proposes() { Some(some_key_of(&order)) } else { key_of(&order) };
    if cell.script() == Script::Refuse {
        refused(&callers, &order).await;
    }
    let propose = async || {
        let answer = callers.propose_under(key.as_deref(), "agent-1", &order, amount).await;
        assert!(!answer.is_error, "{order}: {}", answer.body);
        answer
    };
    let payment = propose().await.text("payment_id").to_owned();
    reached(&callers, &order, cell.early().then_some(&arm)).await;
    if !cell.early() {
        arm.now();
    }
    go_on(&callers, cell, (&order, &payment, amount), people).await;
    if key.is_some() {
        let again = propose().await;
        let same = again.text("payment_id") == payment && again.body["idempotent_replayed"] == true;
        assert!(same, "{order} is {payment}; the same request under its key is answered {}", again.body);
    }
}

/// The story after the signers were reached.
async fn go_on(callers: &Callers, cell: Cell, (order, payment, amount): (&str, &str, &str), people: &[&str]) {
    let operator = |name: &str| callers.token(name, Role::Operator);
    let agent = callers.token("agent-1", Role::Agent);
    let hold = json!({"order_id": order, "reason": "by hand"});
    match cell.script() {
        Script::Pay | Script::Refuse | Script::Page => {}
        Script::CallOff => {
            callers.insist(&agent, "cancel_payment", json!({"order_id": order})).await;
            return;
        }
        Script::Hold => {
            callers.insist(&operator("ops-1"), "hold_payment", hold).await;
            for person in ["ops-1", "ops-2"] {
                let word = json!({"order_id": order, "evidence": "not paid by hand"});
                // A word that was kept before its answer was lost is refused when it comes again.
                callers.insist(&operator(person), "release_hold", word).await;
            }
        }
        Script::ByHand => {
            callers.insist(&operator("ops-1"), "hold_payment", hold).await;
            for person in ["ops-1", "ops-2"] {
                let word = json!({"order_id": order, "evidence": "paid by hand", "reference": "bank-1"});
                callers.insist(&operator(person), "attest_executed", word).await;
            }
            let status = callers.insist(&agent, "get_payment_status", json!({"order_id": order})).await;
            assert_eq!(status.status(), "EXECUTED", "{order}: two said so: {}", status.body);
            return;
        }
        Script::Reassign => {
            let other = json!({"order_id": order, "signer_id": "finance-2"});
            let told = callers.insist(&operator("ops-1"), "reassign_signer", other).await;
            assert!(!told.is_error, "{order}: {}", told.body);
        }
        Script::Replace => {
            let new =
                json!({"order_id": order, "amount": amount, "memo": "instead", "supersedes": payment, "notify": true});
            let told = callers.insist(&agent, "create_payment", new).await;
            assert!(!told.is_error && told.text("payment_id") != payment, "{order}: {}", told.body);
        }
    }
    for person in people {
        let signed = if cell.script() == Script::Page {
            callers.countersign_on_page(person, order).await
        } else {
            callers.countersign_as(person, order).await
        };
        assert!(!signed.is_error || signed.code() == "PAYMENT_TERMINAL", "{order}: {}", signed.body);
    }
}

/// What the policy refuses is refused under its key for ever, whoever died meanwhile.
async fn refused(callers: &Callers, order: &str) {
    let agent = callers.token("agent-1", Role::Agent);
    let order = format!("{order}-refused");
    let wish = json!({"order_id": order, "amount": SMALL, "payee": NOBODY, "idempotency_key": some_key_of(&order)});
    for _ in 0..2 {
        let told = callers.insist(&agent, "create_payment", wish.clone()).await;
        assert_eq!(told.code(), "POLICY_DENIED", "{}", told.body);
    }
    let bound = format!("SELECT agent FROM idempotency WHERE idempotency_key = '{}'", some_key_of(&order));
    assert_eq!(callers.db.raw().await.texts(&bound).await.len(), 1, "{order}");
}
