//! Commits that few payments pass: a worker dies before and after each, on a desk of its own.
//!
//! They are no cells, since each wants other settings, or that nobody works for a while; all of them run in CI.

use std::path::PathBuf;
use std::time::Duration;

use countersign::crash::Point;
use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use super::lane::Arm;
use crate::harness::app::POLICY;
use crate::harness::database::{TestEngine, engines};
use crate::harness::desk::{Desk, Part, Plan};

const REST: Duration = Duration::from_secs(40);
const WORKER: Part = Part::Worker(0);
/// Desks at once.
const AT_ONCE: usize = 3;

/// What leads to the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Story {
    /// Nobody signs until it is too late.
    Late,
    /// The policy asks for more when it is to be carried out.
    MoreAsked,
    /// The policy denies it when it is to be carried out.
    Denied,
    /// The database is taken for a restored one.
    Restored,
    /// It is over and moves to the archive.
    Over,
}

/// The points, before and after the commit, and what leads to them.
pub(super) const RARE: [([Point; 2], Story); 5] = [
    ([Point::DeadlineBeforeCommit, Point::DeadlineAfterCommit], Story::Late),
    ([Point::RoundBeforeCommit, Point::RoundAfterCommit], Story::MoreAsked),
    ([Point::DenialBeforeCommit, Point::DenialAfterCommit], Story::Denied),
    ([Point::CompareBeforeCommit, Point::CompareAfterCommit], Story::Restored),
    ([Point::ArchiveBeforeCommit, Point::ArchiveAfterCommit], Story::Over),
];

impl Story {
    fn plan(self, engine: TestEngine) -> Plan {
        let plan = Plan::new(engine).processes(1, 1);
        match self {
            Self::Late => plan.set("PAYMENTS__EXPIRES_AFTER_S", 2),
            // Without windows, over which nothing may be forgotten.
            Self::Over => plan.policy(POLICY).set("RETENTION__FINISHED_AFTER_S", 1),
            Self::MoreAsked | Self::Denied | Self::Restored => plan,
        }
    }

    /// The policy of the worker, where it is another than that under which payments are proposed.
    fn stricter(self) -> Option<String> {
        let policy = POLICY.replace("version = \"1\"", "version = \"2\"");
        match self {
            Self::MoreAsked => Some(policy.replace("required = 1", "required = 2")),
            Self::Denied => Some(policy + "\n[[rule]]\nid = \"stop\"\ndeny = true\n"),
            Self::Late | Self::Restored | Self::Over => None,
        }
    }

    /// How each payment ends, and how often it is carried out.
    const fn end(self) -> (&'static str, usize) {
        match self {
            Self::Late => ("EXPIRED", 0),
            Self::Denied => ("CANCELLED", 0),
            Self::MoreAsked | Self::Restored | Self::Over => ("EXECUTED", 1),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_at_a_commit_that_few_payments_pass_loses_and_doubles_nothing() {
    let all =
        engines().into_iter().flat_map(|engine| RARE.map(|(points, story)| Box::pin(play(engine, points, story))));
    stream::iter(all).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

async fn play(engine: TestEngine, points: [Point; 2], story: Story) {
    let mut desk = Desk::prepare(story.plan(engine)).await;
    for part in [Part::Rail, Part::Signer, Part::Serve(0)] {
        desk.start(part).await;
    }
    if let Some(policy) = story.stricter() {
        desk.change_policy(policy);
    }
    let restored = ("COUNTERSIGN__WORKER__RECONCILE_ONLY", "true".to_owned());
    let orders = ["order-1", "order-2"];
    if story == Story::Restored {
        for order in orders {
            signed(&desk, order).await;
        }
    }
    for (order, point) in orders.into_iter().zip(points) {
        let more: &[_] = if point == Point::CompareBeforeCommit { std::slice::from_ref(&restored) } else { &[] };
        match story {
            Story::Restored => {}
            Story::Late => drop(desk.propose(order).await),
            Story::MoreAsked | Story::Denied => signed(&desk, order).await,
            Story::Over => {
                signed(&desk, order).await;
                desk.start(WORKER).await;
                assert_eq!(desk.comes_to_rest(REST).await, [], "{engine}: {point:?}");
                desk.stop(WORKER).await;
                tokio::time::sleep(Duration::from_millis(1_200)).await;
            }
        }
        dies(&mut desk, point, more).await;
        if point == Point::CompareBeforeCommit {
            // The next one to start is the next one to die.
            continue;
        }
        desk.start(WORKER).await;
        if story == Story::MoreAsked {
            // Its second round, for the two who are asked now.
            left(&desk, order, "SIGNED").await;
            for person in ["finance-1", "finance-2"] {
                let answer = desk.countersign_as(person, order).await;
                assert!(!answer.is_error, "{engine}: {point:?}: {}", answer.body);
            }
        }
        if story != Story::Restored {
            assert_eq!(desk.comes_to_rest(REST).await, [], "{engine}: {point:?}");
            ended(&desk, story, &[order]).await;
            desk.stop(WORKER).await;
        }
    }
    if story == Story::Restored {
        assert_eq!(desk.comes_to_rest(REST).await, [], "{engine}");
        ended(&desk, story, &orders).await;
        assert_eq!(texts(&desk, "SELECT state FROM restores").await, ["lifted"], "{engine}");
    }
    if story == Story::Over {
        assert_eq!(texts(&desk, "SELECT order_id FROM archived_payments ORDER BY order_id").await, orders, "{engine}");
    }
    desk.finish().await;
}

/// Proposed and signed; nobody works meanwhile.
async fn signed(desk: &Desk, order: &str) {
    desk.propose(order).await;
    let answer = desk.countersign(order).await;
    assert!(!answer.is_error, "{order}: {}", answer.body);
}

/// The worker starts and dies at the point.
async fn dies(desk: &mut Desk, point: Point, more: &[(&str, String)]) {
    let file = desk.crash_plan();
    let struck = PathBuf::from(format!("{}.struck", file.display()));
    let _ = std::fs::remove_file(&struck);
    Arm { file, line: format!("{} 1 abort", point.as_str()) }.now();
    desk.launch(WORKER, more);
    let deadline = Instant::now() + REST;
    while desk.part(WORKER).runs() {
        assert!(Instant::now() < deadline, "{}: nobody passed {point:?}", desk.db.engine());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(struck.exists(), "{}: it died elsewhere than at {point:?}: {}", desk.db.engine(), desk.said(WORKER));
}

/// Waits until an order is no longer in `status`.
async fn left(desk: &Desk, order: &str, status: &str) {
    let deadline = Instant::now() + REST;
    while !desk.orders(&format!("order_id = '{order}' AND status = '{status}'")).await.is_empty() {
        assert!(Instant::now() < deadline, "{}: {order} stays {status}", desk.db.engine());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Holds that orders ended as they should, and were carried out so often.
async fn ended(desk: &Desk, story: Story, orders: &[&str]) {
    let (status, times) = story.end();
    for order in orders {
        let sql = format!("SELECT status FROM payments_everywhere WHERE order_id = '{order}'");
        assert_eq!(texts(desk, &sql).await, [status], "{}: {story:?}: {order}", desk.db.engine());
        let sql = format!("SELECT transfer_id FROM transfers WHERE order_id = '{order}'");
        let moved = desk.rail_book().await.texts(&sql).await.len();
        assert_eq!(moved, times, "{}: {story:?}: {order}", desk.db.engine());
    }
}

async fn texts(desk: &Desk, sql: &str) -> Vec<String> {
    desk.db.raw().await.texts(sql).await
}
