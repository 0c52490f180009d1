//! What is all over moves to the archive, and answers from there as it did before.

use std::sync::Arc;
use std::time::Duration;

use countersign::app;
use countersign::config::Config;
use countersign::domain::{Attention, Payment, PaymentId};
use countersign::journal::verify::{AuditReport, BreakKind, verify_audit};
use countersign::journal::{Journal, Place};
use countersign::store::Guard;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::app::{App, Wishes, each_with};
use crate::harness::rpc::Answer;
use crate::harness::sink::{Reply, Sink};
use crate::harness::wishes::ambient;
use crate::store::sample;

pub(crate) const KEPT: Duration = Duration::from_hours(48);

pub(crate) fn wishes() -> Wishes {
    Wishes::default().patient().config(|config| config.retention.finished_after_s = KEPT.as_secs())
}

/// Time passes over what has ended, and all that may move moves; how many payments.
async fn retire(app: &App) -> u32 {
    app.clock.advance(i64::try_from(KEPT.as_micros()).unwrap() + 1_000_000);
    app.settle().await;
    move_all(&app.journal).await
}

async fn move_all(journal: &Journal) -> u32 {
    let (mut place, mut all) = (Place::default(), 0);
    loop {
        let moved = journal.retire(&place).await.unwrap();
        assert_eq!(moved.kept, [""; 0]);
        all += moved.payments;
        match moved.next {
            Some(next) => place = next,
            None => return all,
        }
    }
}

pub(crate) async fn orders(app: &App, table: &str) -> Vec<String> {
    app.db.raw().await.texts(&format!("SELECT order_id FROM {table} ORDER BY order_id")).await
}

fn create(order: &str, rest: &Value) -> Value {
    let mut arguments = json!({"order_id": order, "amount": "199.00", "signer_id": "finance-1"});
    arguments.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    arguments
}

/// Payments that ended in each way there is; their orders are named after it.
async fn ended(app: &App) -> Vec<&'static str> {
    app.signed("EXECUTED").await;
    app.settle().await;
    app.awaiting("REJECTED").await;
    app.reject("finance-1", "REJECTED", "wrong payee").await;
    app.awaiting("CANCELLED").await;
    app.cancel("CANCELLED").await;
    app.signed("FAILED").await;
    app.next_fault("refuse").await;
    app.settle().await;
    app.awaiting("EXPIRED").await;
    app.pass(Duration::from_hours(25)).await;
    let all = vec!["CANCELLED", "EXECUTED", "EXPIRED", "FAILED", "REJECTED"];
    for order in &all {
        assert_eq!(app.status(order).await.status(), *order);
    }
    all
}

/// Everything that is told of an order, by all who may ask.
async fn told(app: &App, order: &str) -> Vec<Value> {
    let this = json!({"order_id": order});
    let mut answers = Vec::new();
    for (token, tool) in [
        (app.agent(), "get_payment_status"),
        (app.operator(), "explain_payment"),
        (app.auditor(), "get_evidence"),
        (app.signer_token("finance-1"), "get_approval"),
    ] {
        let mut answer = app.call(&token, tool, this.clone()).await;
        assert!(!answer.is_error, "{tool}: {}", answer.body);
        if let Some(at) = answer.body.pointer_mut("/evidence/generated_at") {
            *at = Value::Null;
        }
        answers.push(answer.body);
    }
    answers
}

#[tokio::test]
async fn what_has_ended_moves_and_is_told_of_as_before() {
    each_with(wishes(), async |app: &mut App| {
        let all = ended(app).await;
        app.create("open").await;
        let mut before = Vec::new();
        for order in &all {
            before.push(told(app, order).await);
        }
        let listed = async |status: &str| {
            let arguments = if status.is_empty() { json!({}) } else { json!({"status": status}) };
            let page = app.call(&app.agent(), "list_payments", arguments).await;
            let rows = page.body["payments"].as_array().unwrap().clone();
            rows.iter().map(|row| row["order_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let pages = (listed("").await, listed("EXECUTED").await);
        assert_eq!(move_all(&app.journal).await, 0, "none of it is old enough");
        assert_eq!(retire(app).await, 5);
        // `open` has run out of its time meanwhile, and so has only just ended.
        assert_eq!(
            (orders(app, "payments").await, orders(app, "archived_payments").await),
            (vec!["open".to_owned()], orders_of(&all))
        );
        for (table, kept) in [
            ("effects", "archived_effects"),
            ("challenges", "archived_challenges"),
            ("decisions", "archived_decisions"),
        ] {
            let open = app.payment("open").await.terms.payment_id.to_string();
            let others = format!("{table} WHERE payment_id <> '{open}'");
            assert_eq!(app.rows(&others).await, 0, "{table}");
            assert!(app.rows(kept).await > 0, "{kept}");
        }
        for (order, before) in all.iter().zip(before) {
            assert_eq!(told(app, order).await, before, "{order}");
        }
        let reached = app.payment("open").await.status.as_str();
        assert_eq!(reached, "EXPIRED");
        assert_eq!((listed("").await, listed("EXECUTED").await), pages, "the archive is listed in its place");
        assert_eq!(app.rows("audit_entries").await, app.audit().await.len(), "the audit stays");
    })
    .await;
}

fn orders_of(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn an_order_that_was_paid_long_ago_is_never_paid_again() {
    each_with(wishes(), async |app: &mut App| {
        let keyed = create("paid", &json!({"idempotency_key": "key-of-the-paid-one", "notify": true}));
        let first = app.call(&app.agent(), "create_payment", keyed.clone()).await;
        app.sign("paid").await;
        app.settle().await;
        app.awaiting("unpaid").await;
        app.cancel("unpaid").await;
        app.settle().await;
        assert_eq!(retire(app).await, 2);
        let replayed = app.call(&app.agent(), "create_payment", keyed).await;
        assert_eq!((replayed.status().as_str(), &replayed.body["idempotent_replayed"]), ("EXECUTED", &json!(true)));
        assert_eq!(replayed.text("payment_id"), first.text("payment_id"), "the key's binding outlives the move");
        assert_eq!(app.create("paid").await.text("payment_id"), first.text("payment_id"));
        let other = create("paid", &json!({"idempotency_key": "key-of-the-paid-one", "amount": "1.00"}));
        assert_eq!(app.call(&app.agent(), "create_payment", other).await.code(), "IDEMPOTENCY_KEY_REUSED");
        let fresh = |order: &str| create(order, &json!({"idempotency_key": format!("another-key-{order}")}));
        let refused = app.call(&app.agent(), "create_payment", fresh("paid")).await;
        assert_eq!(refused.code(), "ORDER_ALREADY_HAS_PAYMENT");
        let superseding = create(
            "paid",
            &json!({"idempotency_key": "a-third-key-0001", "amount": "5.00", "supersedes": first.text("payment_id")}),
        );
        assert_eq!(app.call(&app.agent(), "create_payment", superseding).await.code(), "ORDER_ALREADY_HAS_PAYMENT");
        // By constraint, not by what was read before: nobody who skips the question gets past the insert.
        let store = app.db.store();
        let mut tx = store.begin().await.unwrap();
        let mut twin = sample::of("default", "agent-1", "paid");
        twin.terms.payment_id = PaymentId::mint(tx.now(), 7);
        assert!(!tx.insert_payment(&twin).await.unwrap());
        drop(tx);
        // What ended unpaid is free: refused without a key, as before it moved, and taken with one.
        assert_eq!(app.create("unpaid").await.code(), "PAYMENT_TERMINAL");
        assert_eq!(app.call(&app.agent(), "create_payment", fresh("unpaid")).await.status(), "CREATED");
        assert_eq!(
            app.call(&app.agent(), "get_payment_status", json!({"order_id": "unpaid"})).await.status(),
            "CREATED"
        );
    })
    .await;
}

#[tokio::test]
async fn a_move_and_a_new_request_at_the_same_moment_never_make_two() {
    each_with(wishes(), async |app: &mut App| {
        let other = app.another(None).await;
        for round in 0..30 {
            let order = format!("order-{round}");
            app.signed(&order).await;
            app.settle().await;
            app.clock.advance(i64::try_from(KEPT.as_micros()).unwrap() + 1);
            let fresh = create(&order, &json!({"idempotency_key": format!("another-key-{round:04}")}));
            let token = app.agent();
            let (moved, twice, refused, same) = tokio::join!(
                move_all(&app.journal),
                move_all(&other),
                app.call(&token, "create_payment", fresh),
                app.create(&order),
            );
            assert!(
                moved + twice <= 1 && (refused.code() == "ORDER_ALREADY_HAS_PAYMENT"),
                "{moved} {twice} {}",
                refused.body
            );
            assert_eq!(same.status(), "EXECUTED", "{}", same.body);
            let places = format!("(SELECT payment_id FROM payments_everywhere WHERE order_id = '{order}') AS places");
            assert_eq!(app.rows(&places).await, 1);
        }
    })
    .await;
}

#[tokio::test]
async fn two_workers_move_each_payment_once() {
    each_with(wishes(), async |app: &mut App| {
        for number in 0..40 {
            let order = format!("order-{number:02}");
            app.create(&order).await;
            app.cancel(&order).await;
        }
        app.clock.advance(i64::try_from(KEPT.as_micros()).unwrap() + 1);
        let until = app.db.store().begin().await.unwrap().now();
        let another = app.db.another().await;
        let batch = async |store: &countersign::store::Store| {
            let mut all = 0;
            for _ in 0..12 {
                let found = store.read().await.unwrap().finished(until, &Place::default(), 5, 5).await.unwrap();
                let mut tx = store.begin().await.unwrap();
                all += tx.archive_finished(until, &found).await.unwrap().payments;
                tx.commit().await.unwrap();
            }
            all
        };
        let (one, two) = tokio::join!(batch(app.db.store()), batch(&another));
        assert_eq!((one + two, app.rows("archived_payments").await, app.rows("payments").await), (40, 40, 0));
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_does_not_commit_moved_nothing() {
    each_with(wishes(), async |app: &mut App| {
        ended(app).await;
        let tables = ["payments", "effects", "challenges", "decisions", "archived_payments", "archived_effects"];
        let count = async || {
            let mut rows = Vec::new();
            for table in tables {
                rows.push(app.rows(table).await);
            }
            rows
        };
        let before = count().await;
        let (_, until) = app.db.store().next_due().await.unwrap();
        let found = app.db.store().read().await.unwrap().finished(until, &Place::default(), 32, 32).await.unwrap();
        let mut tx = app.db.store().begin().await.unwrap();
        assert_eq!(tx.archive_finished(until, &found).await.unwrap().payments, 5);
        drop(tx);
        assert_eq!(count().await, before);
        assert_eq!(retire(app).await, 5);
    })
    .await;
}

#[tokio::test]
async fn what_someone_waits_for_never_moves() {
    each_with(wishes(), async |app: &mut App| {
        let sink = Sink::new().await;
        app.config.webhooks.targets = vec![sink.url()];
        app.config.webhooks.allow_private = vec![sink.place()];
        app.config.webhooks.secrets = vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr".into()];
        app.config.webhooks.schedule_s = vec![0];
        app.restart().await;
        // An event that its receiver refused for good: a dead letter.
        sink.always(Reply::Status(410));
        app.create("undelivered").await;
        app.cancel("undelivered").await;
        app.journal.deliver_due().await.unwrap();
        sink.always(Reply::Status(204));
        app.create("told").await;
        app.cancel("told").await;
        app.journal.deliver_due().await.unwrap();
        // Held; unknown; executed with attention.
        app.create("held").await;
        let hold = json!({"order_id": "held", "reason": "paid by hand"});
        assert!(!app.call(&app.operator(), "hold_payment", hold).await.is_error);
        app.signed("unknown").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": true}})).await;
        app.settle().await;
        app.signed("attention").await;
        app.settle().await;
        let paid = app.payment("attention").await;
        sample::change(app.db.store(), &paid, raise).await;
        audit_of_change(app, "attention").await;
        for _ in 0..4 {
            app.journal.deliver_due().await.unwrap();
        }
        assert_eq!(retire(app).await, 1);
        assert_eq!(orders(app, "archived_payments").await, ["told"]);
        assert_eq!(orders(app, "payments").await, ["attention", "held", "undelivered", "unknown"]);
        let left = app
            .db
            .raw()
            .await
            .texts("SELECT DISTINCT state FROM outbox WHERE payment_id NOT IN (SELECT payment_id FROM payments)")
            .await;
        assert_eq!(left, [""; 0], "deliveries go with what they told of");
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        app.until("unknown", "EXECUTED").await;
    })
    .await;
}

fn raise(it: &mut Payment) {
    it.attention.insert(Attention::TerminalContradiction);
}

/// The history of a change that a test made past the journal.
async fn audit_of_change(app: &App, order: &str) {
    let payment = app.payment(order).await;
    let mut tx = app.db.store().begin().await.unwrap();
    tx.audit(countersign::store::AuditNote {
        tenant: "default".to_owned(),
        payment_id: payment.terms.payment_id.to_string(),
        version: payment.version,
        event: "test.changed".to_owned(),
        from: payment.status.as_str().to_owned(),
        to: payment.status.as_str().to_owned(),
        ..countersign::store::AuditNote::default()
    });
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn evidence_that_comes_after_the_move_brings_the_payment_back() {
    each_with(wishes(), async |app: &mut App| {
        app.signed("order-1").await;
        app.settle().await;
        let evidence = async || {
            let answer = app.call(&app.auditor(), "get_evidence", json!({"order_id": "order-1"})).await;
            let all = answer.body["evidence"].clone();
            (all["decisions"].clone(), all["execution"].clone())
        };
        let before = evidence().await;
        assert_eq!(retire(app).await, 1);
        let archived = app.payment("order-1").await;
        sample::change(app.db.store(), &archived, raise).await;
        audit_of_change(app, "order-1").await;
        assert_eq!((app.rows("payments").await, app.rows("archived_payments").await), (1, 0), "here, and not there");
        let listed = app.call(&app.operator(), "list_attention", json!({})).await;
        assert_eq!(listed.body["payments"][0]["order_id"], "order-1", "{}", listed.body);
        assert_eq!(evidence().await, before, "its decisions and effects are found where they are");
        assert_eq!(retire(app).await, 0, "it stays for who looks at it");
        assert_eq!(verified(app).await.breaks, []);
        // Against an older version nothing comes back and nothing changes.
        let mut tx = app.db.store().begin().await.unwrap();
        let mut after = archived.clone();
        after.version += 1;
        assert!(tx.save_payment(&archived, &after, Guard::Version).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_late_signature_on_what_moved_is_answered_and_adds_nothing() {
    each_with(wishes(), async |app: &mut App| {
        app.awaiting("order-1").await;
        let first = app.document("finance-1", "order-1", "approve", "").await;
        let late = app.document("finance-2", "order-1", "approve", "").await;
        let (first, late) = (app.jws("finance-1", &first), app.jws("finance-2", &late));
        app.confirm("finance-1", "order-1", &first).await;
        app.settle().await;
        let same = |answer: &Answer| (answer.status(), answer.body["idempotent_replayed"].clone());
        let before = same(&app.confirm("finance-1", "order-1", &first).await);
        assert_eq!(retire(app).await, 1);
        let decisions = (app.rows("decisions").await, app.rows("archived_decisions").await);
        assert_eq!(same(&app.confirm("finance-1", "order-1", &first).await), before, "the same signature again");
        assert_eq!(app.confirm("finance-2", "order-1", &late).await.code(), "PAYMENT_TERMINAL");
        assert_eq!(app.cancel("order-1").await.code(), "PAYMENT_TERMINAL");
        assert_eq!((app.rows("decisions").await, app.rows("archived_decisions").await), decisions);
    })
    .await;
}

async fn verified(app: &App) -> AuditReport {
    verify_audit(app.db.store(), "default", None, &mut |_, _| {}).await.unwrap()
}

#[tokio::test]
async fn the_audit_of_what_moved_is_whole_and_what_is_done_to_it_there_is_found() {
    each_with(wishes(), async |app: &mut App| {
        ended(app).await;
        app.create("open").await;
        assert_eq!(retire(app).await, 5);
        let report = verified(app).await;
        assert_eq!((report.breaks, report.payments), (vec![], 6));
        let paid = app.payment("EXECUTED").await.terms.payment_id.to_string();
        for (table, change, kinds) in [
            (
                "archived_payments",
                "UPDATE archived_payments SET memo = 'another' WHERE",
                vec![BreakKind::TermsDisagree],
            ),
            ("archived_payments", "DELETE FROM archived_payments WHERE", vec![BreakKind::PaymentMissing]),
            (
                "archived_decisions",
                "DELETE FROM archived_decisions WHERE",
                vec![BreakKind::DecisionMissing, BreakKind::ExecutionUnapproved],
            ),
        ] {
            let mut raw = app.db.raw().await;
            raw.execute(&format!("CREATE TABLE kept AS SELECT * FROM {table}")).await.unwrap();
            raw.execute(&format!("{change} payment_id = '{paid}'")).await.unwrap();
            let breaks = verified(app).await.breaks;
            let found: Vec<BreakKind> = breaks.iter().map(|found| found.kind).collect();
            assert!(found == kinds && breaks.iter().all(|found| found.payment_id == paid), "{change}: {breaks:#?}");
            let back = format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept");
            raw.execute(&back).await.unwrap();
        }
        assert_eq!(verified(app).await.breaks, []);
    })
    .await;
}

#[tokio::test]
async fn a_callback_about_what_moved_is_taken_and_kept_nowhere() {
    each_with(wishes(), async |app: &mut App| {
        let id = app.signed("order-1").await;
        app.settle().await;
        assert!(app.journal.hint("evt_before", &id).await.unwrap());
        assert_eq!((app.rows("callbacks").await, retire(app).await, app.rows("callbacks").await), (1, 1, 0));
        for event in ["evt_before", "evt_after"] {
            assert!(!app.journal.hint(event, &id).await.unwrap(), "{event}");
        }
        assert_eq!((app.rows("callbacks").await, app.rows("payments").await), (0, 0), "nobody would ever forget it");
    })
    .await;
}

#[tokio::test]
async fn nobody_moves_what_moved() {
    each_with(wishes(), async |app: &mut App| {
        app.signed("order-1").await;
        app.settle().await;
        assert_eq!(retire(app).await, 1);
        let before = app.payment("order-1").await;
        let (agent, operator) = (app.agent(), app.operator());
        for (token, tool, rest) in [
            (&agent, "notify_signer", json!({})),
            (&agent, "get_sign_link", json!({})),
            (&agent, "cancel_payment", json!({})),
            (&operator, "cancel_payment", json!({})),
            (&operator, "resend_notification", json!({})),
            (&operator, "reassign_signer", json!({"signer_id": "finance-2"})),
            (&operator, "hold_payment", json!({"reason": "by hand"})),
            (&operator, "release_hold", json!({"evidence": "seen"})),
            (&operator, "attest_executed", json!({"evidence": "seen", "reference": "bank-1"})),
            (&operator, "attest_not_executed", json!({"evidence": "seen"})),
        ] {
            let mut arguments = json!({"order_id": "order-1"});
            arguments.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            let answer = app.call(token, tool, arguments).await;
            assert_eq!((answer.code().as_str(), answer.text("status")), ("PAYMENT_TERMINAL", "EXECUTED"), "{tool}");
        }
        let asked = app.call(&agent, "check_sign_status", json!({"order_id": "order-1"})).await;
        assert_eq!(asked.status(), "EXECUTED");
        assert_eq!((app.rows("payments").await, app.rows("attestations").await), (0, 0));
        assert_eq!(app.payment("order-1").await, before);
    })
    .await;
}

#[tokio::test]
async fn the_worker_moves_what_is_over_by_itself() {
    each_with(wishes(), async |app: &mut App| {
        for number in 0..70 {
            let order = format!("order-{number:02}");
            app.create(&order).await;
            app.cancel(&order).await;
        }
        app.settle().await;
        app.clock.advance(i64::try_from(KEPT.as_micros()).unwrap() + 1);
        let stop = CancellationToken::new();
        let worker = tokio::spawn(countersign::worker::run(
            Arc::clone(&app.journal),
            Duration::from_millis(20),
            Duration::from_millis(200),
            stop.clone(),
        ));
        for _ in 0..400 {
            if app.rows("payments").await == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        stop.cancel();
        worker.await.unwrap();
        assert_eq!((app.rows("payments").await, app.rows("archived_payments").await), (0, 70), "in three batches");
    })
    .await;
}

#[tokio::test]
async fn a_retention_that_a_limit_or_a_sum_would_forget_by_is_refused() {
    let mut config = Config::load(None).unwrap();
    let day = Duration::from_hours(24);
    // A day, and the two days that a payment may live.
    for (seconds, kept) in [(0, Some(None)), (86_401, None), (259_200, None), (259_201, Some(Some(259_201)))] {
        config.retention.finished_after_s = seconds;
        let verdict = config.finished_after(day);
        assert_eq!(verdict.as_ref().ok().copied(), kept.map(|kept| kept.map(Duration::from_secs)), "{seconds}");
        if let Err(fault) = verdict {
            assert!(fault.to_string().contains("retention.finished_after_s: must be 0 or more than 259200"), "{fault}");
        }
    }
    config.retention.finished_after_s = 1;
    assert_eq!(config.finished_after(Duration::ZERO).unwrap(), Some(Duration::from_secs(1)), "nothing is counted");
    // Where a gateway is put together, with the policy's own spans.
    let limit =
        "\n[[limit]]\nid = \"day\"\nbinds = \"tenant\"\ncurrency = \"USD\"\nwindow_hours = 48\nwindow_count = 100\n";
    let sum = "\n[[rule]]\nid = \"sum\"\ncurrency = \"USD\"\namount_at_least = \"5.00\"\nsum_hours = 48\nlevels = [{ group = \"finance\", required = 2 }]\n";
    each_with(wishes(), async |app: &mut App| {
        for looks_back in [limit, sum] {
            let policy = app::parse_policy(&format!("{}{looks_back}", app.policy())).unwrap();
            assert_eq!(policy.looks_back(), KEPT);
            let ambient = ambient(&app.clock);
            let refused = app::journal(&app.config, policy, app.db.store().clone(), &ambient, false).await.unwrap_err();
            assert!(refused.to_string().contains("longest span"), "{refused}");
        }
    })
    .await;
}
