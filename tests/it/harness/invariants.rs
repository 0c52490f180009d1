//! What must hold after any history, whatever a test did.

use std::collections::BTreeSet;

use countersign::domain::{Payment, Phase, Status, next_wake};
use countersign::proof::{AuditFacts, GENESIS, link};
use serde_json::Value;

use super::app::App;
use super::database::Raw;

/// Checks all of it.
pub(crate) async fn check(app: &App) {
    let mut raw = app.db.raw().await;
    let ids = raw.texts("SELECT payment_id FROM payments_everywhere ORDER BY payment_id").await;
    let mut audit = Vec::new();
    for tenant in raw.texts("SELECT tenant FROM audit_heads ORDER BY tenant").await {
        audit.extend(chain_verifies(app, &tenant).await);
    }
    each_in_one_place(&mut raw).await;
    drop(raw);
    for id in ids {
        let payment = app.db.store().read().await.unwrap().payment_for_work(&id).await.unwrap().unwrap();
        let ledger = app.ledger(&id).await;
        let history: Vec<&AuditFacts> = audit.iter().filter(|facts| facts.payment_id == id).collect();
        money_moved_as_the_payment_says(&payment, &ledger, attested(&history));
        every_open_row_is_woken(&payment);
        history_is_complete(&payment, &history);
    }
}

/// A payment is here or in the archive; an order is taken by its open or executed payment, and by no other.
async fn each_in_one_place(raw: &mut Raw) {
    let both =
        raw.texts("SELECT p.payment_id FROM payments p JOIN archived_payments a ON a.payment_id = p.payment_id").await;
    assert_eq!(both, [""; 0], "in both places");
    let expected = raw
        .texts(
            "SELECT tenant || ' ' || order_id || ' ' || payment_id AS taken FROM payments_everywhere \
             WHERE status NOT IN ('REJECTED','EXPIRED','CANCELLED','FAILED') ORDER BY taken",
        )
        .await;
    let taken = raw
        .texts("SELECT tenant || ' ' || order_id || ' ' || payment_id AS taken FROM taken_orders ORDER BY taken")
        .await;
    assert_eq!(taken, expected, "orders are taken by what is open or executed");
}

/// Whether two people said that the money moved: then their word stands, not the rail's.
fn attested(history: &[&AuditFacts]) -> bool {
    history.iter().any(|facts| facts.event == "attest_executed.second")
}

fn money_moved_as_the_payment_says(payment: &Payment, ledger: &Value, attested: bool) {
    let about = || format!("{:?}/{:?} against {ledger}", payment.status, payment.execution);
    let executions = ledger["executions"].as_u64().unwrap();
    assert!(executions <= 1, "paid more than once: {}", about());
    assert_eq!(ledger["balanced"], true, "{}", about());
    let in_flight = payment.status == Status::Signed
        && (payment.execution.phase == Phase::Intended || payment.execution.phase == Phase::Unknown);
    if !in_flight && !attested {
        assert_eq!(executions == 1, payment.status == Status::Executed, "{}", about());
    }
    if payment.status == Status::Executed && !attested {
        for entry in ledger["entries"].as_array().unwrap() {
            assert_eq!(entry["transfer_id"], payment.execution.transfer_id.as_str(), "{}", about());
            assert_eq!(entry["amount_minor"], payment.terms.amount.minor().to_string(), "{}", about());
            assert_eq!(entry["currency"], payment.terms.amount.currency().code(), "{}", about());
        }
    }
    let seen = ledger["seen"].as_array().unwrap();
    let distinct = |key: &str| seen.iter().map(|line| line[key].as_str().unwrap()).collect::<BTreeSet<_>>().len();
    let groups = usize::try_from(payment.execution.group).unwrap();
    assert!(
        distinct("idempotency_key") <= groups && distinct("body_sha256") <= 1,
        "one key a group, one body: {}",
        about()
    );
}

fn every_open_row_is_woken(payment: &Payment) {
    let rests = payment.status.is_terminal() || payment.held_at.is_some();
    assert!(rests || next_wake(payment).is_some(), "nothing wakes {payment:?}");
}

fn history_is_complete(payment: &Payment, history: &[&AuditFacts]) {
    // Every version was audited once, in order; an entry that changed nothing has none.
    let versions: Vec<i64> =
        history.iter().filter(|facts| !facts.version.is_empty()).map(|facts| facts.version.parse().unwrap()).collect();
    let expected: Vec<i64> = (1..=payment.version).collect();
    assert_eq!(versions, expected, "every change of {} is audited", payment.terms.payment_id);
    if payment.status != Status::Executed || attested(history) {
        return;
    }
    let intended = history.iter().position(|facts| facts.event == "rail.execute.intended");
    let intended = intended.expect("an executed payment was intended");
    let approvers: BTreeSet<&str> = history
        .iter()
        .take(intended)
        .filter(|facts| facts.event == "decision.approve")
        .map(|facts| facts.actor.as_str())
        .collect();
    let required = usize::try_from(payment.terms.policy.required()).unwrap();
    assert!(approvers.len() >= required, "approved by {approvers:?} before it was intended");
}

/// A tenant's chain, from its first entry to its head.
async fn chain_verifies(app: &App, tenant: &str) -> Vec<AuditFacts> {
    let rows = app.db.store().read().await.unwrap().audit_entries(tenant, 0, 100_000).await.unwrap();
    let mut before = GENESIS.to_owned();
    let mut all = Vec::new();
    for (number, row) in (1_i64..).zip(rows) {
        let facts: AuditFacts = serde_json::from_str(&row.canonical).unwrap();
        let expected = link(&before, &facts).unwrap();
        assert_eq!((row.seq, &row.previous, &row.chain), (number, &before, &expected.chain), "{tenant}");
        assert_eq!(row.canonical, expected.canonical);
        before = row.chain;
        all.push(facts);
    }
    let head = app.db.raw().await.texts(&format!("SELECT chain FROM audit_heads WHERE tenant = '{tenant}'")).await;
    assert_eq!(head, [before], "the head of {tenant}");
    all
}
