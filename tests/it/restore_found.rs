//! How a desk finds out that its database is a restored backup, when nobody says so.

use std::time::Duration;

use crate::harness::app::{App, each_with};
use crate::harness::database::engines;
use crate::harness::desk::{Desk, Plan};
use crate::restore::{TABLES, back_up, compare_all, marked_and_compared, patient, restore};

#[tokio::test]
async fn a_forgotten_mark_is_made_by_the_first_worker_that_comes() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.signed("signed").await;
        let open = async || app.db.store().read().await.unwrap().restore_is_open().await.unwrap();
        // A fresh database, and one that was worked at a moment ago.
        for _ in 0..2 {
            app.journal.appear(true).await.unwrap();
            assert!(!open().await);
        }
        back_up(app).await;
        app.until("signed", "EXECUTED").await;
        app.clock.advance(20 * 60 * 1_000_000);
        app.journal.appear(false).await.unwrap();
        assert!(!open().await, "a worker that was there all along knows the database");
        // The backup is twenty minutes old, and nobody says so. A process that comes new finds it asleep.
        restore(app).await;
        let fresh = app.another(None).await;
        fresh.appear(true).await.unwrap();
        assert!(open().await);
        assert!(compare_all(app, &fresh).await.lifted);
        assert_eq!(app.status("signed").await.status(), "EXECUTED");
        // Under the feet of a process that goes on: it does not find its own word again.
        app.signed("another").await;
        for table in TABLES.iter().chain(&["worked"]) {
            app.db.raw().await.execute(&format!("DROP TABLE backup_{table}")).await.unwrap();
        }
        fresh.appear(false).await.unwrap();
        back_up(app).await;
        app.clock.advance(1_000_000);
        fresh.appear(false).await.unwrap();
        app.until("another", "EXECUTED").await;
        restore(app).await;
        assert!(fresh.claim_due(16, &[]).await.unwrap().is_empty(), "it is asked before each claim");
        assert!(open().await);
        assert!(compare_all(app, &app.journal).await.lifted);
        assert_eq!(app.status("another").await.status(), "EXECUTED");
        assert_eq!(app.executions(app.payment("another").await.terms.payment_id.as_str()).await, 1);
        let causes = app.db.raw().await.texts("SELECT cause FROM restores ORDER BY marked_at").await;
        assert_eq!(causes, ["no_worker_for_long", "went_back"]);
    })
    .await;
}

#[tokio::test]
async fn a_mark_that_could_not_be_stored_is_made_the_next_time() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.signed("signed").await;
        let raw = async |sql: &str| app.db.raw().await.execute(sql).await.unwrap();
        app.journal.appear(true).await.unwrap();
        raw("UPDATE worked SET words = 0").await;
        // The database fails just when the mark is to be made.
        raw("ALTER TABLE audit_entries RENAME TO away").await;
        assert!(app.journal.claim_due(9, &[]).await.is_err());
        raw("ALTER TABLE away RENAME TO audit_entries").await;
        assert_eq!(app.rows("restores").await, 0);
        for _ in 0..2 {
            assert!(app.journal.claim_due(9, &[]).await.unwrap().is_empty(), "it still knows its own word");
            assert_eq!(app.rows("restores").await, 1);
        }
        assert!(compare_all(app, &app.journal).await.lifted);
        app.settle().await;
        assert_eq!(app.status("signed").await.status(), "AWAITING_SIGNER", "it was signed before");
    })
    .await;
}

#[tokio::test]
async fn a_database_swapped_within_seconds_is_found_by_the_intent_that_it_has_forgotten() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        let orders = ["one", "two", "three"];
        for order in orders {
            app.signed(order).await;
        }
        app.journal.appear(true).await.unwrap();
        back_up(app).await;
        for order in orders {
            app.until(order, "EXECUTED").await;
        }
        // No worker has left a word since.
        restore(app).await;
        assert!(app.journal.claim_due(16, &[]).await.unwrap().is_empty());
        assert_eq!(app.db.raw().await.texts("SELECT cause FROM restores").await, ["went_back"]);
        assert!(compare_all(app, &app.journal).await.lifted);
        assert!(app.journal.claim_due(16, &[]).await.is_ok(), "once is enough");
        assert_eq!(app.rows("restores").await, 1);
        for order in orders {
            app.until(order, "EXECUTED").await;
            let payment = app.payment(order).await.terms.payment_id.to_string();
            assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1), "{order}");
        }
    })
    .await;
}

/// In microseconds.
const HOUR: i64 = 3_600_000_000;

#[tokio::test]
async fn a_clock_that_was_ahead_when_it_was_marked_keeps_no_desk_waiting() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.signed("signed").await;
        app.clock.advance(HOUR);
        app.journal.mark_restored("reconcile_only").await.unwrap();
        app.clock.advance(-HOUR);
        let until = app.journal.compare("").await.unwrap().waits_until.unwrap();
        let (_, now) = app.db.store().next_due().await.unwrap();
        assert!(until.since(now) < Duration::from_mins(2), "{:?}", until.since(now));
        assert!(compare_all(app, &app.journal).await.lifted);
        // By that clock it was signed long before.
        assert_eq!(app.status("signed").await.status(), "AWAITING_SIGNER");
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_was_ahead_hides_no_backup() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.signed("one").await;
        // A word of the future, and then words by the clock that was set right.
        app.clock.advance(HOUR);
        app.journal.appear(true).await.unwrap();
        app.clock.advance(-HOUR);
        app.journal.appear(false).await.unwrap();
        back_up(app).await;
        app.until("one", "EXECUTED").await;
        app.journal.appear(false).await.unwrap();
        // Twenty minutes later a process that comes new finds it asleep.
        app.clock.advance(HOUR / 3);
        restore(app).await;
        let fresh = app.another(None).await;
        fresh.appear(true).await.unwrap();
        let causes = async || app.db.raw().await.texts("SELECT cause FROM restores ORDER BY marked_at").await;
        assert_eq!(causes().await, ["no_worker_for_long"]);
        assert!(compare_all(app, &fresh).await.lifted);
        app.until("one", "EXECUTED").await;

        // The last word itself was left by a clock that was ahead: its age is unknown, and so is what came after it.
        app.clock.advance(HOUR);
        fresh.appear(false).await.unwrap();
        app.clock.advance(-HOUR);
        app.another(None).await.appear(true).await.unwrap();
        assert_eq!(causes().await.len(), 2);
        assert!(compare_all(app, &fresh).await.lifted);
        let payment = app.payment("one").await.terms.payment_id.to_string();
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_swap_is_found_whatever_the_clock_said_when_the_words_were_left() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.clock.advance(HOUR);
        app.journal.appear(true).await.unwrap();
        app.clock.advance(-HOUR);
        // This one sends nothing: it knows of words alone.
        let idle = app.another(None).await;
        idle.appear(false).await.unwrap();
        app.signed("one").await;
        back_up(app).await;
        app.until("one", "EXECUTED").await;
        idle.appear(false).await.unwrap();
        restore(app).await;
        let marked = app.rows("restores").await;
        assert!(idle.claim_due(16, &[]).await.unwrap().is_empty());
        assert_eq!(app.rows("restores").await, marked + 1);
        assert!(compare_all(app, &idle).await.lifted);
        app.until("one", "EXECUTED").await;
        let payment = app.payment("one").await.terms.payment_id.to_string();
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_desk_that_is_told_to_reconcile_compares_at_each_start_and_then_works() {
    for engine in engines() {
        let plan = Plan::new(engine).set("WORKER__RECONCILE_ONLY", true).set("RAIL__READ_LAG_MS", 100);
        let mut desk = Desk::open(plan).await;
        desk.propose("order-1").await;
        desk.countersign("order-1").await;
        assert_eq!(desk.comes_to_rest(Duration::from_secs(40)).await, [], "{engine}");
        let serve = desk.gateways()[0];
        desk.kill(serve).await;
        desk.start(serve).await;
        desk.propose("order-2").await;
        assert_eq!(desk.comes_to_rest(Duration::from_secs(40)).await.len(), 1, "{engine}: one waits for its signer");
        desk.countersign("order-2").await;
        assert_eq!(desk.comes_to_rest(Duration::from_secs(40)).await, [], "{engine}");
        let causes = desk.db.raw().await.texts("SELECT cause FROM restores WHERE state = 'lifted'").await;
        assert!(causes.len() >= 2 && causes.iter().all(|cause| cause == "reconcile_only"), "{engine}: {causes:?}");
        assert_eq!(desk.rail_book().await.texts("SELECT reference FROM transfers").await.len(), 2, "{engine}");
        desk.finish().await;
    }
}

/// A desk that is switched off every night compares every morning.
#[tokio::test]
async fn of_an_earlier_comparison_only_what_it_found_is_kept() {
    each_with(patient(), async |app: &mut App| {
        let (plain, found) = (app.awaiting("plain").await, app.awaiting("found").await);
        marked_and_compared(app, "told").await;
        let mut raw = app.db.raw().await;
        let set = format!("UPDATE comparisons SET outcome = 'attention' WHERE payment_id = '{found}'");
        raw.execute(&set).await.unwrap();
        app.clock.advance(1_000_000);
        app.journal.mark_restored("told").await.unwrap();
        let kept = raw
            .texts("SELECT payment_id || ' ' || outcome FROM comparisons ORDER BY compared_at IS NULL, payment_id")
            .await;
        assert_eq!(kept, [format!("{found} attention"), format!("{plain} "), format!("{found} ")]);
        assert!(compare_all(app, &app.journal).await.lifted);
        let report = app.journal.restore_report().await.unwrap().unwrap();
        assert_eq!((report.total(), report.waits()), (2, 0), "the last one's alone");
    })
    .await;
}
