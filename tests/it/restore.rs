//! A database restored from a backup: nothing is sent until what it believes unpaid was compared with the rail.

use std::sync::Arc;
use std::time::Duration;

use countersign::domain::Attention;
use countersign::journal::ports::{Answer, Lookup, Outcome, RailCaps, RailPort, RailReceipt, Recorded, Transfer};
use countersign::journal::{Comparing, Journal, Place};
use countersign::proof::{Trust, Verdict, verify};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::app::{App, RAIL_API_KEY, SIGNER_API_KEY, Wishes, each_with, settle};
use crate::harness::desk::program;
use crate::harness::whole::is_whole;

/// Every table of the gateway's.
pub(crate) const TABLES: [&str; 21] = [
    "payments",
    "archived_payments",
    "taken_orders",
    "idempotency",
    "effects",
    "archived_effects",
    "challenges",
    "archived_challenges",
    "decisions",
    "archived_decisions",
    "signer_keys",
    "callbacks",
    "audit_heads",
    "audit_entries",
    "outbox",
    "attestations",
    "budget_turns",
    "restores",
    "comparisons",
    "receipts",
    "checkpoints",
];

pub(crate) fn patient() -> Wishes {
    Wishes::default().patient()
}

pub(crate) async fn back_up(app: &App) {
    let copies: Vec<String> = TABLES
        .iter()
        .chain(&["worked"])
        .map(|table| format!("CREATE TABLE backup_{table} AS SELECT * FROM {table}"))
        .collect();
    app.db.raw().await.execute(&copies.join("; ")).await.unwrap();
}

/// Puts the backup in the place of what is there.
pub(crate) async fn restore(app: &App) {
    let mut steps = vec!["BEGIN".to_owned()];
    for table in TABLES.iter().chain(&["worked"]) {
        steps.push(format!("DELETE FROM {table}"));
        steps.push(format!("INSERT INTO {table} SELECT * FROM backup_{table}"));
    }
    steps.push("COMMIT".to_owned());
    app.db.raw().await.execute(&steps.join("; ")).await.unwrap();
}

/// Compares everything, and lets the time pass before which the rail is not asked.
pub(crate) async fn compare_all(app: &App, journal: &Journal) -> Comparing {
    let mut place = String::new();
    for _ in 0..50 {
        let pass = journal.compare(&place).await.unwrap();
        if let Some(until) = pass.waits_until {
            let (_, now) = app.db.store().next_due().await.unwrap();
            app.clock.advance(i64::try_from(until.since(now).as_micros()).unwrap() + 1);
        }
        if !pass.open || pass.lifted || pass.in_doubt > 0 {
            return pass;
        }
        place = pass.next.unwrap_or_default();
    }
    panic!("comparing does not end");
}

/// Takes the database for a restored one, and compares it to the end.
pub(crate) async fn marked_and_compared(app: &App, cause: &str) {
    app.journal.mark_restored(cause).await.unwrap();
    assert!(compare_all(app, &app.journal).await.lifted);
}

pub(crate) async fn found(app: &App, order: &str) -> String {
    let id = app.payment(order).await.terms.payment_id;
    let sql = format!("SELECT finding || ' ' || outcome FROM comparisons WHERE payment_id = '{id}'");
    app.db.raw().await.texts(&sql).await.join(", ")
}

async fn attest(app: &App, order: &str, reference: &str) {
    for person in ["olga", "piet"] {
        let word = json!({"order_id": order, "evidence": "seen on the account", "reference": reference});
        let answer = app.call(&app.operator_named(person), "attest_executed", word).await;
        assert!(!answer.is_error, "{}", answer.body);
    }
}

#[tokio::test]
async fn what_was_paid_after_the_backup_is_found_and_never_paid_again() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        // As the backup has them: sent and in doubt; tried in vain; signed.
        app.signed("doubt").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": true}})).await;
        app.settle().await;
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.signed("in-vain").await;
        app.rail.down().await;
        app.settle().await;
        app.rail.up().await;
        assert!(app.payment("in-vain").await.nothing_sent() && app.payment("in-vain").await.execution.sends > 0);
        app.signed("signed").await;
        back_up(app).await;
        // What then happened, and is forgotten.
        for order in ["doubt", "in-vain", "signed"] {
            app.until(order, "EXECUTED").await;
        }
        let ids: Vec<String> = app.db.raw().await.texts("SELECT payment_id FROM payments ORDER BY order_id").await;
        restore(app).await;
        assert!(app.journal.mark_restored("told").await.unwrap());
        assert!(!app.journal.mark_restored("told").await.unwrap(), "once");
        let mut requests = Vec::new();
        for id in &ids {
            requests.push(app.requests(id).await);
        }
        app.settle().await;
        let early = app.journal.compare("").await.unwrap();
        assert!(early.open && early.waits_until.is_some() && early.compared == 0, "not before what was sent shows");
        let pass = compare_all(app, &app.journal).await;
        assert!(pass.lifted, "{pass:?}");
        for order in ["doubt", "in-vain", "signed"] {
            assert_eq!(app.status(order).await.status(), "EXECUTED", "{order}");
            assert_eq!(found(app, order).await, "found executed", "{order}");
        }
        app.pass(Duration::from_hours(1)).await;
        for (id, before) in ids.iter().zip(requests) {
            assert_eq!((app.executions(id).await, app.requests(id).await), (1, before), "nothing was sent again");
        }
        let id = app.payment("signed").await.terms.payment_id.to_string();
        let effects = app.db.store().read().await.unwrap().effects_of(&id).await.unwrap();
        let paid = effects.iter().find(|effect| effect.kind == "rail.execute").expect("the lost effect is there");
        assert_eq!((paid.state.as_str(), paid.outcome.as_str()), ("done", "after a restore: found"));
        let evidence = app.call(&app.auditor(), "get_evidence", json!({"order_id": "signed"})).await;
        let report = verify(evidence.body["evidence"].to_string().as_bytes(), &Trust::default());
        assert!(report.steps.iter().all(|checked| checked.verdict != Verdict::Failed), "{report:?}");
        assert_eq!(report.steps[5].verdict, Verdict::Ok, "the rail's word is kept too: {report:?}");
        assert_eq!(app.audited_events("database.restored").await, 1);
        assert_eq!(app.audited_events("database.compared").await, 1);
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_signed_and_paid_after_the_backup_is_held_for_two_people() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.create("created").await;
        app.awaiting("awaiting").await;
        let document = app.document("finance-2", "created", "approve", "").await;
        let late = app.jws("finance-2", &document);
        back_up(app).await;
        app.notify("created").await;
        for order in ["created", "awaiting"] {
            app.sign(order).await;
        }
        app.settle().await;
        restore(app).await;
        marked_and_compared(app, "told").await;
        for order in ["created", "awaiting"] {
            let payment = app.payment(order).await;
            assert!(payment.held_at.is_some() && payment.attention.contains(&Attention::PaidAfterBackup), "{order}");
            assert_eq!(found(app, order).await, "found attention");
            assert_eq!(app.cancel(order).await.code(), "PAYMENT_ON_MANUAL_HOLD");
        }
        assert_eq!(app.confirm("finance-2", "created", &late).await.code(), "PAYMENT_ON_MANUAL_HOLD");
        // The signer service still keeps the decisions: they don't move it, nor does time.
        app.pass(Duration::from_hours(100)).await;
        // So long without a worker is taken for another restore, and compared.
        compare_all(app, &app.journal).await;
        let fresh = json!({"order_id": "created", "amount": "199.00", "idempotency_key": "another-key-000001"});
        assert_eq!(app.call(&app.agent(), "create_payment", fresh).await.code(), "ORDER_ALREADY_HAS_PAYMENT");
        let listed = app.call(&app.operator(), "list_attention", json!({})).await;
        assert_eq!(listed.body["payments"].as_array().unwrap().len(), 2, "{}", listed.body);
        for order in ["created", "awaiting"] {
            let id = app.payment(order).await.terms.payment_id.to_string();
            let transfer = app.ledger(&id).await["entries"][0]["transfer_id"].as_str().unwrap().to_owned();
            attest(app, order, &transfer).await;
            assert_eq!(app.status(order).await.status(), "EXECUTED");
            assert_eq!(app.executions(&id).await, 1);
        }
        is_whole(app).await;
    })
    .await;
}

#[tokio::test]
async fn nothing_is_sent_and_nothing_changes_while_it_is_compared() {
    let keeps_a_day = patient().config(|config| config.retention.finished_after_s = 86_400);
    each_with(keeps_a_day, async |app: &mut App| {
        app.did.rewind = true;
        app.create("over").await;
        app.cancel("over").await;
        app.signed("signed").await;
        app.awaiting("awaiting").await;
        app.create("created").await;
        let document = app.document("finance-1", "awaiting", "approve", "").await;
        let jws = app.jws("finance-1", &document);
        let another = app.another(None).await;
        app.journal.mark_restored("told").await.unwrap();
        app.faults(json!({"standing": {"lookup_down": true}})).await;
        let versions =
            async || app.db.raw().await.texts("SELECT order_id || version FROM payments ORDER BY order_id").await;
        let before = versions().await;
        let (effects, notified) =
            (app.rows("effects").await, app.asked(&app.payment("created").await.terms.payment_id.to_string()).await);
        let (agent, operator) = (app.agent(), app.operator());
        for (token, tool, order) in [
            (&agent, "notify_signer", "created"),
            (&agent, "cancel_payment", "created"),
            (&agent, "cancel_payment", "signed"),
            (&operator, "resend_notification", "awaiting"),
            (&operator, "cancel_payment", "awaiting"),
        ] {
            let answer = app.call(token, tool, json!({"order_id": order})).await;
            assert_eq!(
                (answer.code().as_str(), &answer.body["retryable"]),
                ("RESTORE_UNDER_WAY", &json!(true)),
                "{tool}"
            );
        }
        let hold = json!({"order_id": "awaiting", "reason": "by hand"});
        assert_eq!(app.call(&operator, "hold_payment", hold).await.code(), "RESTORE_UNDER_WAY");
        assert_eq!(app.confirm("finance-1", "awaiting", &jws).await.code(), "RESTORE_UNDER_WAY");
        assert_eq!(app.reject("finance-1", "awaiting", "no").await.code(), "RESTORE_UNDER_WAY");
        let id = app.payment("created").await.terms.payment_id.to_string();
        let instead =
            json!({"order_id": "created", "amount": "5.00", "supersedes": id, "idempotency_key": "a-key-of-16-chars"});
        assert_eq!(app.call(&agent, "create_payment", instead).await.code(), "RESTORE_UNDER_WAY");
        // New ones are taken, and wait; reads answer.
        assert_eq!(app.create("new").await.status(), "CREATED");
        // Days pass over it, for every process: nothing runs out, nothing is claimed, nothing moves.
        app.clock.advance(100 * 3_600 * 1_000_000);
        app.settle().await;
        settle(&another).await;
        assert_eq!(app.journal.retire(&Place::default()).await.unwrap().payments, 0);
        let pass = compare_all(app, &app.journal).await;
        assert!(pass.open && !pass.lifted && pass.in_doubt == 4, "a rail without an answer lifts nothing: {pass:?}");
        let past_all = app.journal.compare("q").await.unwrap();
        assert!(past_all.compared == 0 && !past_all.lifted, "nor does a pass that begins after what is in doubt");
        assert_eq!(versions().await.into_iter().filter(|row| !row.starts_with("new")).collect::<Vec<_>>(), before);
        assert_eq!(app.rows("effects").await, effects, "no intent was written");
        assert_eq!(app.asked(&app.payment("created").await.terms.payment_id.to_string()).await, notified);
        assert_eq!(app.requests(app.payment("signed").await.terms.payment_id.as_str()).await, 0);
        // The rail answers again: it is lifted, by whoever goes on, and everything takes its course.
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        assert!(compare_all(app, &another).await.lifted);
        app.settle().await;
        assert_eq!(app.status("awaiting").await.status(), "EXPIRED");
        assert_eq!(app.status("signed").await.status(), "EXPIRED");
    })
    .await;
}

#[tokio::test]
async fn nobody_is_told_of_an_end_while_it_is_compared() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.awaiting("order-1").await;
        app.cancel("order-1").await;
        // Claimed a moment before the mark.
        let lease = app.journal.claim_due(9, &[]).await.unwrap().remove(0);
        app.journal.mark_restored("told").await.unwrap();
        assert!(!app.journal.attend(&lease).await);
        assert_eq!(app.signer.count("POST", "/cancel"), 0);
        assert_eq!(app.rows("effects WHERE kind = 'signer.cancel'").await, 0, "no intent was written");
        assert!(compare_all(app, &app.journal).await.lifted);
        app.pass(Duration::from_mins(1)).await;
        assert_eq!(app.signer.count("POST", "/cancel"), 1);
    })
    .await;
}

#[tokio::test]
async fn rows_that_can_not_be_read_keep_the_mode_on_and_stop_no_other() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        // More than are compared at once.
        for number in 0..20 {
            app.create(&format!("order-{number:02}")).await;
        }
        let kept = app.db.raw().await.texts("SELECT policy FROM payments WHERE order_id = 'order-00'").await;
        let doctor = async |policy: &str| {
            let policy = policy.replace('\'', "''");
            let sql = format!("UPDATE payments SET policy = '{policy}' WHERE order_id < 'order-17'");
            app.db.raw().await.execute(&sql).await.unwrap();
        };
        doctor("not a policy").await;
        app.journal.mark_restored("told").await.unwrap();
        app.clock.advance(60_000_000);
        let first = app.journal.compare("").await.unwrap();
        assert_eq!((first.compared, first.in_doubt, first.lifted), (0, 16, false));
        let second = app.journal.compare(&first.next.unwrap()).await.unwrap();
        assert_eq!((second.compared, second.in_doubt, second.lifted), (3, 1, false));
        doctor(&kept[0]).await;
        assert!(compare_all(app, &app.journal).await.lifted);
    })
    .await;
}

#[tokio::test]
async fn what_two_people_attested_not_to_have_been_paid_and_was_is_settled_under_its_own_key() {
    let wishes = patient().config(|config| {
        "none".clone_into(&mut config.rail.dedup);
        config.rail.in_flight_s = 60;
    });
    each_with(wishes, async |app: &mut App| {
        app.did.rewind = true;
        app.signed("order-1").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": true}})).await;
        app.settle().await;
        app.pass(Duration::from_mins(2)).await;
        for person in ["olga", "piet"] {
            let word = json!({"order_id": "order-1", "evidence": "not on the account"});
            let answer = app.call(&app.operator_named(person), "attest_not_executed", word).await;
            assert!(!answer.is_error, "{}", answer.body);
        }
        assert!(app.payment("order-1").await.unasked());
        app.journal.mark_restored("told").await.unwrap();
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        assert!(compare_all(app, &app.journal).await.lifted);
        assert_eq!(found(app, "order-1").await, "found executed");
        let done = "SELECT outbound_key FROM effects WHERE kind = 'rail.execute' AND state = 'done'";
        let done = app.db.raw().await.texts(done).await;
        assert!(matches!(done.as_slice(), [key] if key.ends_with(":g1")), "{done:?}");
        is_whole(app).await;
    })
    .await;
}

/// A rail that says of everything that it was paid.
#[derive(Debug)]
struct PaidAlready(Arc<dyn RailPort>);

impl RailPort for PaidAlready {
    fn caps(&self) -> RailCaps {
        self.0.caps()
    }
    fn prepare(&self, transfer: &Transfer) -> String {
        self.0.prepare(transfer)
    }
    fn execute<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<RailReceipt>> {
        self.0.execute(recorded)
    }
    fn lookup<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Lookup> {
        Box::pin(async { Lookup::Found(RailReceipt { transfer_id: "tr_other".to_owned(), document: String::new() }) })
    }
    fn health(&self) -> BoxFuture<'_, Answer<()>> {
        self.0.health()
    }
}

#[tokio::test]
async fn an_end_that_the_rail_contradicts_asks_for_attention() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        for order in ["cancelled", "rejected"] {
            app.awaiting(order).await;
        }
        app.cancel("cancelled").await;
        app.reject("finance-1", "rejected", "no").await;
        app.settle().await;
        app.journal.mark_restored("told").await.unwrap();
        let journal = app.another(Some(Arc::new(PaidAlready(app.real_rail())))).await;
        assert!(compare_all(app, &journal).await.lifted);
        for (order, status) in [("cancelled", "CANCELLED"), ("rejected", "REJECTED")] {
            let payment = app.payment(order).await;
            assert_eq!(payment.status.as_str(), status, "what has ended stays ended");
            assert!(payment.attention.contains(&Attention::TerminalContradiction), "{order}");
            assert_eq!(found(app, order).await, "found attention");
        }
    })
    .await;
}

#[tokio::test]
async fn comparing_goes_on_where_a_dead_process_left_off() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        for number in 0..20 {
            app.create(&format!("order-{number:02}")).await;
        }
        app.journal.mark_restored("told").await.unwrap();
        app.clock.advance(60_000_000);
        let first = app.journal.compare("").await.unwrap();
        assert_eq!((first.compared, first.lifted), (16, false));
        app.restart().await;
        assert!(app.create("new").await.status() == "CREATED" && app.journal.tick().await.unwrap().claimed == 0);
        let report = app.journal.restore_report().await.unwrap().unwrap();
        assert_eq!((report.total(), report.left(), report.restore.state.as_str()), (20, 4, "open"));
        let second = app.journal.compare("").await.unwrap();
        assert_eq!((second.compared, second.lifted), (4, true));
        let report = app.journal.restore_report().await.unwrap().unwrap();
        assert_eq!((report.left(), report.restore.state.as_str(), report.surprises.len()), (0, "lifted", 0));
    })
    .await;
}

#[tokio::test]
async fn the_update_that_lifts_asks_for_the_time_too() {
    each_with(patient(), async |app: &mut App| {
        app.journal.mark_restored("told").await.unwrap();
        let open = app.db.store().read().await.unwrap().open_restore().await.unwrap().unwrap();
        let mut lifted = Vec::new();
        for wait in [0, 60_000_000, 0] {
            app.clock.advance(wait);
            let mut tx = app.db.store().begin().await.unwrap();
            lifted.push(tx.lift_restore(&open.restore_id).await.unwrap());
            tx.commit().await.unwrap();
        }
        assert_eq!(lifted, [false, true, false]);
    })
    .await;
}

#[tokio::test]
async fn the_worker_compares_and_lifts_by_itself() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        app.signed("signed").await;
        app.journal.mark_restored("reconcile_only").await.unwrap();
        app.clock.advance(60_000_000);
        let stop = CancellationToken::new();
        let (every, drain) = (Duration::from_millis(20), Duration::from_millis(200));
        let worker = tokio::spawn(countersign::worker::run(Arc::clone(&app.journal), every, drain, stop.clone()));
        for _ in 0..400 {
            if app.status("signed").await.status() == "EXECUTED" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        stop.cancel();
        worker.await.unwrap();
        assert_eq!(app.status("signed").await.status(), "EXECUTED", "compared, lifted, and then carried out");
        assert_eq!(found(app, "signed").await, "not found as_believed");
    })
    .await;
}

/// Runs `countersign restored` on the test's database; its exit code, report and progress.
async fn command(app: &App, arguments: &[&str]) -> (i32, Value, String) {
    let mut command = program();
    let jwks = app.config.auth.jwks_file.clone();
    command
        .arg("restored")
        .args(arguments)
        .env("COUNTERSIGN__DATABASE__URL", app.db.url())
        .env("COUNTERSIGN__AUTH__ISSUER", "https://issuer.test.invalid")
        .env("COUNTERSIGN__AUTH__JWKS_FILE", jwks)
        .env("COUNTERSIGN__POLICY__FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/config/policy.toml"))
        .env("COUNTERSIGN__SIGNER__URL", app.signer.url())
        .env("COUNTERSIGN__SIGNER__API_KEY", SIGNER_API_KEY)
        .env("COUNTERSIGN__SIGNER__CALLBACK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr")
        .env("COUNTERSIGN__SIGNER__TOTAL_TIMEOUT_MS", "900")
        .env("COUNTERSIGN__RAIL__URL", app.rail.url())
        .env("COUNTERSIGN__RAIL__API_KEY", RAIL_API_KEY)
        .env("COUNTERSIGN__RAIL__TOTAL_TIMEOUT_MS", "900")
        .env("COUNTERSIGN__RAIL__READ_LAG_MS", "1")
        .env("COUNTERSIGN__WORKER__LEASE_MS", "1000");
    let done = tokio::time::timeout(Duration::from_mins(1), command.output()).await.unwrap().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    (
        done.status.code().unwrap(),
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
        String::from_utf8(done.stderr).unwrap(),
    )
}

#[tokio::test]
async fn the_command_marks_compares_shows_progress_and_reports() {
    each_with(patient(), async |app: &mut App| {
        app.did.rewind = true;
        assert_eq!(command(app, &["--report", "--json"]).await.1, json!({"restored": false}));
        app.signed("signed").await;
        app.awaiting("awaiting").await;
        back_up(app).await;
        app.settle().await;
        app.sign("awaiting").await;
        app.settle().await;
        restore(app).await;
        // With the rail away it gives up in time, and the mode stays.
        app.faults(json!({"standing": {"lookup_down": true}})).await;
        let (code, report, told) = command(app, &["--json", "--patience", "4"]).await;
        assert_eq!((code, &report["state"], &report["left"]), (1, &json!("open"), &json!(2)), "{report} {told}");
        assert!(
            told.contains("0 of 2 compared; the rail has no answer")
                && told.contains("2 payments are not compared yet"),
            "{told}"
        );
        assert_eq!(app.journal.tick().await.unwrap().claimed, 0);
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        let (code, report, told) = command(app, &["--json"]).await;
        assert_eq!((code, &report["state"], &report["left"]), (1, &json!("lifted"), &json!(0)), "{report} {told}");
        assert!(told.contains("was marked before") && told.contains("1 payments need a person"), "{told}");
        let outcomes: Vec<&str> =
            report["surprises"].as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap()).collect();
        assert!(outcomes.contains(&"executed") && outcomes.contains(&"attention") && outcomes.len() == 2, "{report}");
        let (_, text, _) = command(app, &["--report"]).await;
        assert!(text.as_str().unwrap().contains("believed SIGNED, the rail says found: executed"), "{text}");
        let id = app.payment("awaiting").await.terms.payment_id.to_string();
        let transfer = app.ledger(&id).await["entries"][0]["transfer_id"].as_str().unwrap().to_owned();
        attest(app, "awaiting", &transfer).await;
    })
    .await;
}

/// The report names a thousand payments; what it counts, and its exit code, are of all.
#[tokio::test]
async fn a_payment_that_needs_a_person_is_told_however_many_were_settled() {
    each_with(patient(), async |app: &mut App| {
        let (first, second) = (app.awaiting("first").await, app.awaiting("second").await);
        let mut raw = app.db.raw().await;
        let rows = format!(
            "INSERT INTO restores VALUES ('rst_1', 'lifted', 'told', 1, 1, 1); \
             INSERT INTO comparisons VALUES ('rst_1', '{first}', 'SIGNED', 'found', 'executed', 1), \
               ('rst_1', '{second}', 'CREATED', 'found', 'attention', 1)"
        );
        raw.execute(&rows).await.unwrap();
        let (code, text, told) = command(app, &["--report"]).await;
        assert!(code == 1 && told.contains("1 payments need a person"), "{told}");
        let text = text.as_str().unwrap();
        assert!(text.find(&second) < text.find(&first), "what needs a person comes first: {text}");
        // Beyond those that are named.
        raw.execute("UPDATE comparisons SET payment_id = 'pay_x' WHERE outcome = 'attention'").await.unwrap();
        let (code, _, told) = command(app, &["--report"]).await;
        assert!(code == 1 && told.contains("1 payments need a person"), "{told}");
        raw.execute("DELETE FROM comparisons; DELETE FROM restores").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn one_connection_is_enough_to_compare() {
    each_with(patient().config(|config| config.database.pool_size = 1), async |app: &mut App| {
        let id = app.signed("order-1").await;
        marked_and_compared(app, "reconcile_only").await;
        app.settle().await;
        assert_eq!((app.status("order-1").await.status().as_str(), app.executions(&id).await), ("EXECUTED", 1));
    })
    .await;
}
