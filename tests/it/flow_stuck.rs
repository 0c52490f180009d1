//! Nothing stands in another's way: rows that can't be read, work that fails, panics or never ends, and a
//! tenant whose work hangs.

use std::sync::Arc;
use std::time::Duration;

use countersign::domain::Role;
use countersign::worker;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::app::{App, Wishes, each, each_with, only, settle};
use crate::harness::database::TestEngine;
use crate::harness::peer::Weather;
use crate::harness::scripted::{Execution, PanickingSigner, ScriptedRail};

async fn doctor(app: &App, sql: &str) {
    app.db.raw().await.execute(sql).await.unwrap();
}

async fn attention(app: &App) -> Vec<Value> {
    let listed = app.call(&app.operator(), "list_attention", json!({})).await;
    assert!(!listed.is_error, "{}", listed.body);
    listed.body["payments"].as_array().unwrap().clone()
}

/// Half a day, from one due moment to the next.
async fn long(app: &App) {
    for _ in 0..24 {
        app.pass(Duration::from_mins(30)).await;
    }
}

#[tokio::test]
async fn rows_that_can_not_be_read_are_parked_and_hold_up_nobody() {
    each(async |app: &mut App| {
        let mut poisoned = Vec::new();
        for number in 0..40 {
            let order = format!("poisoned-{number}");
            app.create(&order).await;
            poisoned.push(order);
        }
        doctor(app, "UPDATE payments SET policy = 'not a policy'").await;
        // They are the oldest by far, and more than a batch.
        app.clock.advance(60_000_000);
        app.signed("good").await;
        app.pass(Duration::from_secs(1)).await;
        assert_eq!(app.status("good").await.status(), "EXECUTED", "in spite of {} before it", poisoned.len());

        let listed = app.call(&app.agent(), "list_payments", json!({})).await;
        assert_eq!(listed.body["payments"][0]["order_id"], "good", "{}", listed.body);
        for _ in 0..7 {
            app.pass(Duration::from_mins(11)).await;
        }
        let stuck = attention(app).await;
        assert_eq!(stuck.len(), 20, "a page of them");
        for row in &stuck {
            assert_eq!(
                (&row["reason"], &row["parked"]["reason"]),
                (&json!("row_unreadable"), &json!("internal")),
                "{row}"
            );
        }
        assert_eq!(app.audited("work.parked", "internal").await, 40, "each is audited once");
        let quiet = app.rows("audit_entries").await;
        app.pass(Duration::from_mins(30)).await;
        assert_eq!(app.rows("audit_entries").await, quiet, "and then left alone for an hour");

        // Mended, they go on by themselves and are listed no more.
        let good = app.db.raw().await.texts("SELECT policy FROM payments WHERE order_id = 'good'").await;
        doctor(app, &format!("UPDATE payments SET policy = '{}'", good[0].replace('\'', "''"))).await;
        app.pass(Duration::from_mins(61)).await;
        assert_eq!(app.status("poisoned-0").await.status(), "AWAITING_SIGNER");
        assert_eq!(attention(app).await, Vec::<Value>::new());
    })
    .await;
}

/// Moves the clock to the next due moment and ticks once, which fails; how long that put the payment off, to compare
/// with `wait` by the store's own time.
async fn put_off_by(app: &App, wait: Duration) {
    let (due, now) = app.db.store().next_due().await.unwrap();
    app.clock.advance(i64::try_from(due.unwrap().since(now).as_micros()).unwrap());
    let (_, before) = app.db.store().next_due().await.unwrap();
    let done = app.journal.tick().await.unwrap();
    assert_eq!((done.claimed, done.failed), (1, 1), "due, before it is put off by {wait:?}");
    let (due, after) = app.db.store().next_due().await.unwrap();
    let due = due.unwrap();
    assert!(
        before.plus(wait) <= due && due <= after.plus(wait),
        "put off by {:?} to {:?}, not by {wait:?}",
        due.since(after),
        due.since(before)
    );
}

#[tokio::test]
async fn work_that_fails_waits_twice_as_long_each_time_up_to_ten_minutes() {
    let wishes = Wishes::default().config(|config| config.worker.lease_ms = 60_000);
    each_with(wishes, async |app: &mut App| {
        app.create("order-1").await;
        let policy = app.db.raw().await.texts("SELECT policy FROM payments").await.remove(0).replace('\'', "''");
        let mended = format!("UPDATE payments SET policy = '{policy}'");
        doctor(app, "UPDATE payments SET policy = 'not a policy'").await;
        for minutes in [1, 2, 4, 8] {
            put_off_by(app, Duration::from_mins(minutes)).await;
        }
        doctor(app, &mended).await;
        app.until("order-1", "AWAITING_SIGNER").await;
        // It went well once: what fails after that waits as if it were the first time.
        doctor(app, "UPDATE payments SET policy = 'not a policy'").await;
        for minutes in [1, 2, 4, 8, 10, 60] {
            put_off_by(app, Duration::from_mins(minutes)).await;
        }
        doctor(app, &mended).await;
        app.pass(Duration::from_mins(61)).await;
    })
    .await;
}

#[tokio::test]
async fn work_that_panics_each_time_is_parked_and_explained() {
    let wishes = Wishes::default().signer(|real| Arc::new(PanickingSigner(real)));
    each_with(wishes, async |app: &mut App| {
        app.create("order-1").await;
        for _ in 0..12 {
            app.pass(Duration::from_mins(11)).await;
        }
        let stuck = attention(app).await;
        assert_eq!(stuck[0]["parked"]["reason"], "work_panics", "{stuck:?}");
        app.clock.advance(30 * 60 * 1_000_000);
        let explained = app.call(&app.operator(), "explain_payment", json!({"order_id": "order-1"})).await;
        let explained = explained.body.to_string();
        assert!(explained.contains("its work fails (work_panics)"), "{explained}");
        assert!(!explained.contains("nobody has done"), "somebody tries: {explained}");
        app.behave().await;
        app.pass(Duration::from_mins(61)).await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(attention(app).await, Vec::<Value>::new());
    })
    .await;
}

#[tokio::test]
async fn work_that_takes_its_process_with_it_each_time_is_parked_before_it_is_begun_again() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        for _ in 0..20 {
            // A process claims it and is gone.
            assert_eq!(app.journal.claim_due(9, &[]).await.unwrap().len(), 1);
            app.clock.advance(16_000_000);
        }
        let lease = app.journal.claim_due(9, &[]).await.unwrap().remove(0);
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::NeverSends));
        let other = app.another(Some(Arc::clone(&rail) as _)).await;
        let work = tokio::spawn(async move { other.attend(&lease).await });
        rail.reached().await;
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
        assert_eq!(
            attention(app).await[0]["parked"]["reason"],
            "work_never_ends",
            "listed although nothing was settled"
        );
        app.pass(Duration::from_mins(61)).await;
        app.until("order-1", "EXECUTED").await;
        assert_eq!(app.executions(&payment).await, 1);
        assert_eq!(attention(app).await, Vec::<Value>::new());
    })
    .await;
}

#[tokio::test]
async fn a_person_who_acts_on_a_parked_payment_does_not_unlist_it() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        doctor(app, "UPDATE payments SET parked_at = 1, parked_reason = 'internal', claims = 7").await;
        assert_eq!(app.notify("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(attention(app).await[0]["parked"]["reason"], "internal");
        long(app).await;
        assert_eq!(attention(app).await, Vec::<Value>::new(), "the worker's own success does");
    })
    .await;
}

#[tokio::test]
async fn what_is_all_over_is_parked_no_more() {
    each(async |app: &mut App| {
        app.create("created").await;
        app.awaiting("registered").await;
        doctor(app, "UPDATE payments SET parked_at = 1, parked_reason = 'internal', claims = 7").await;
        let listed = async || {
            let rows = attention(app).await;
            rows.into_iter().map(|row| row["order_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(listed().await, ["created", "registered"]);
        for order in ["created", "registered"] {
            assert_eq!(app.cancel(order).await.status(), "CANCELLED");
        }
        assert_eq!(listed().await, ["registered"], "its signer service is still to be told");
        app.settle().await;
        assert_eq!(listed().await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn what_was_put_off_and_ended_meanwhile_is_not_due_for_ever() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        app.clock.advance(60_000_000);
        let lease = app.journal.claim_due(9, &[]).await.unwrap().remove(0);
        assert_eq!(app.cancel("order-1").await.status(), "CANCELLED");
        // The worker fails for want of the database, which is no fault of the payment's.
        let mut tx = app.db.store().begin().await.unwrap();
        let wake = tx.now().plus(Duration::from_secs(1));
        assert!(tx.stumble(&lease, wake, false).await.unwrap());
        tx.commit().await.unwrap();
        app.pass(Duration::from_secs(2)).await;
        assert_eq!(app.rows("payments WHERE next_wake_at IS NULL AND lease_until = 0").await, 1);
    })
    .await;
}

#[tokio::test]
async fn others_come_first_where_one_tenant_has_its_share() {
    each(async |app: &mut App| {
        for number in 0..6 {
            app.create(&format!("order-{number}")).await;
        }
        let other = app.token("other", "agent-9", "agent-9", &[Role::Agent]);
        let arguments = json!({"order_id": "order-1", "amount": "1.00", "signer_id": "finance-1"});
        assert_eq!(app.call(&other, "create_payment", arguments).await.status(), "CREATED");
        app.clock.advance(60_000_000);
        let crowded = ["default".to_owned()];
        let tenants = async |most| {
            let leases = app.journal.claim_due(most, &crowded).await.unwrap();
            leases.into_iter().map(|lease| lease.tenant).collect::<Vec<_>>()
        };
        assert_eq!(tenants(1).await, ["other"]);
        assert_eq!(tenants(2).await, ["default", "default"], "what others leave is taken all the same");
        app.clock.advance(16_000_000);
        settle(&app.journal).await;
    })
    .await;
}

/// Whether a payment gets here while forty hang where they are, and by then how many of these had their turn.
async fn passes(app: &App, order: &str, status: &str, hung: impl Fn() -> usize) -> Option<usize> {
    let stop = CancellationToken::new();
    let tick = Duration::from_millis(20);
    let work = tokio::spawn(worker::run(Arc::clone(&app.journal), tick, Duration::ZERO, stop.clone()));
    let begun = std::time::Instant::now();
    let mut there = false;
    while !there && begun.elapsed() < Duration::from_secs(4) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        there = app.payment(order).await.status.as_str() == status;
    }
    let hung = hung();
    stop.cancel();
    work.await.unwrap();
    there.then_some(hung)
}

fn eight_places() -> Wishes {
    Wishes::default().patient().config(|config| config.worker.batch = 8)
}

#[tokio::test]
async fn a_signer_service_that_hangs_holds_up_no_execution() {
    each_with(eight_places(), async |app: &mut App| {
        app.signed("order-1").await;
        for number in 0..40 {
            app.create(&format!("hung-{number}")).await;
        }
        app.clock.advance(60_000_000);
        // Signed last, so that all the others have been due for longer.
        doctor(
            app,
            "UPDATE payments SET next_wake_at = (SELECT MAX(next_wake_at) FROM payments) WHERE status = 'SIGNED'",
        )
        .await;
        app.signer.set(Weather::Hang);
        let before = app.signer.count("POST", "/payments");
        let hung = passes(app, "order-1", "EXECUTED", || app.signer.count("POST", "/payments") - before).await;
        assert!(hung.is_some_and(|hung| hung <= 6), "of eight places two are kept: {hung:?}");
    })
    .await;
}

#[tokio::test]
async fn a_rail_that_hangs_holds_up_no_notification() {
    each_with(eight_places(), async |app: &mut App| {
        for number in 0..10 {
            app.signed(&format!("hung-{number}")).await;
        }
        app.create("order-1").await;
        app.clock.advance(60_000_000);
        app.rail.set(Weather::Hang);
        let before = app.rail.count("POST", "/transfers");
        let hung = passes(app, "order-1", "AWAITING_SIGNER", || app.rail.count("POST", "/transfers") - before).await;
        assert!(hung.is_some_and(|hung| hung <= 6), "{hung:?}");
    })
    .await;
}

/// Only PostgreSQL has locks that stop one tenant alone; SQLite has one writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_whose_work_hangs_does_not_stop_the_others() {
    let wishes = Wishes::default().patient().config(|config| {
        config.database.busy_timeout_ms = 1_500;
        config.database.pool_size = 24;
        config.worker.batch = 8;
    });
    only(TestEngine::Postgres, wishes, async |app: &mut App| {
        for number in 0..40 {
            app.create(&format!("order-{number}")).await;
        }
        let other = app.token("other", "agent-9", "agent-9", &[Role::Agent]);
        let arguments = json!({"order_id": "order-1", "amount": "1.00", "signer_id": "finance-1"});
        app.call(&other, "create_payment", arguments).await;
        app.clock.advance(60_000_000);
        let mut lock = app.db.raw().await;
        lock.execute("BEGIN; SELECT seq FROM audit_heads WHERE tenant = 'default' FOR UPDATE").await.unwrap();
        let stop = CancellationToken::new();
        let tick = Duration::from_millis(20);
        let work = tokio::spawn(worker::run(Arc::clone(&app.journal), tick, Duration::from_secs(3), stop.clone()));
        let done = async || {
            let sql = "SELECT status FROM payments WHERE tenant = 'other'";
            app.db.raw().await.texts(sql).await == ["AWAITING_SIGNER"]
        };
        // Forty hang for 1.5 s each in eight places: seven seconds and more if they came first.
        let begun = std::time::Instant::now();
        while !done().await && begun.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let waited = begun.elapsed();
        let untouched =
            "SELECT CAST(COUNT(*) AS TEXT) FROM payments WHERE tenant = 'default' AND claims = 0 AND lease_token = ''";
        let untouched: usize = app.db.raw().await.texts(untouched).await[0].parse().unwrap();
        assert!(done().await, "the other tenant waited {waited:?}");
        assert!(untouched >= 16, "its turn came while {untouched} of the stuck tenant still waited for theirs");
        lock.execute("ROLLBACK").await.unwrap();
        for _ in 0..400 {
            if app.rows("payments WHERE status = 'AWAITING_SIGNER'").await == 41 {
                break;
            }
            // What had just failed is put off by a lease, counted from then.
            app.clock.advance(500_000);
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert_eq!(app.rows("payments WHERE status = 'AWAITING_SIGNER'").await, 41, "and the stuck one goes on");
        stop.cancel();
        work.await.unwrap();
    })
    .await;
}
