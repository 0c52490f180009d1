//! What someone with the database in hand makes the desk itself do, or files where nobody looks.

use countersign::journal::verify::{BreakKind, audited_tenants, verify_audit};
use serde_json::json;

use super::story::{each, verified};
use crate::harness::app::App;

async fn hold(app: &App, order: &str) {
    let held = app.call(&app.operator(), "hold_payment", json!({"order_id": order, "reason": "by hand"})).await;
    assert!(!held.is_error, "{}", held.body);
}

/// Ends a hold as nobody may: in the row.
async fn unhold(app: &App, order: &str) {
    let sql = format!("UPDATE payments SET held_at = NULL, next_wake_at = expires_at WHERE order_id = '{order}'");
    assert_eq!(app.db.raw().await.execute(&sql).await.unwrap(), 1);
}

/// The position of the last entry of this event about a payment.
async fn seq(app: &App, payment: &str, event: &str) -> Option<i64> {
    let audit = app.audit().await;
    let found = audit.iter().rfind(|facts| facts.payment_id == payment && facts.event == event);
    Some(found.unwrap_or_else(|| panic!("{event} of {payment}")).seq.parse().unwrap())
}

#[tokio::test]
async fn what_moves_under_a_hold_that_nobody_released_is_found() {
    each(async |app: &mut App| {
        let released = app.awaiting("released").await;
        hold(app, "released").await;
        for person in ["operator-1", "operator-2"] {
            let word = json!({"order_id": "released", "evidence": "it was not paid by hand"});
            assert!(!app.call(&app.operator_named(person), "release_hold", word).await.is_error);
        }
        app.sign("released").await;
        app.settle().await;
        assert_eq!(app.status("released").await.status(), "EXECUTED");
        let still = app.awaiting("still").await;
        hold(app, "still").await;
        assert_eq!(verified(app, None).await.breaks, [], "{released} {still}");

        let mut expected = Vec::new();
        let paid = app.awaiting("paid").await;
        hold(app, "paid").await;
        let held = seq(app, &paid, "payment.held").await;
        unhold(app, "paid").await;
        let found = verified(app, None).await.breaks;
        let kinds: Vec<_> = found.iter().map(|found| (found.kind, found.seq)).collect();
        assert_eq!(kinds, [(BreakKind::RowDisagrees, held)], "un-held, and nothing happened yet: {found:#?}");
        app.sign("paid").await;
        app.settle().await;
        assert_eq!(app.status("paid").await.status(), "EXECUTED");
        for event in ["decision.approve", "rail.execute.intended"] {
            expected.push((BreakKind::HoldBroken, seq(app, &paid, event).await, paid.clone()));
        }

        let cancelled = app.awaiting("cancelled").await;
        hold(app, "cancelled").await;
        unhold(app, "cancelled").await;
        app.cancel("cancelled").await;
        expected.push((BreakKind::HoldBroken, seq(app, &cancelled, "payment.cancel").await, cancelled));

        // Held once more, so that the row agrees with the last word.
        let twice = app.awaiting("twice").await;
        hold(app, "twice").await;
        unhold(app, "twice").await;
        hold(app, "twice").await;
        expected.push((BreakKind::HoldBroken, seq(app, &twice, "payment.held").await, twice));

        let breaks = verified(app, None).await.breaks;
        for (kind, seq, payment) in expected {
            let found = breaks.iter().any(|it| (it.kind, it.seq, &it.payment_id) == (kind, seq, &payment));
            assert!(found, "{kind:?} at {seq:?} of {payment} in {breaks:#?}");
        }
        let others = breaks.iter().filter(|found| found.payment_id == released || found.payment_id == still);
        assert_eq!(others.count(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_tenant_without_a_chain_is_looked_at_too() {
    each(async |app: &mut App| {
        let id = app.awaiting("order-1").await;
        assert_eq!(audited_tenants(app.db.store(), None).await.unwrap(), ["default"]);
        let last = if id.ends_with('0') { '1' } else { '0' };
        let forged = format!("{}{last}", &id[..id.len() - 1]);
        let sql = format!(
            "CREATE TABLE forged AS SELECT * FROM payments; \
             UPDATE forged SET payment_id = '{forged}', tenant = 'nobody', status = 'SIGNED'; \
             INSERT INTO payments SELECT * FROM forged; DROP TABLE forged; \
             INSERT INTO signer_keys SELECT 'keys-only', signer_id, key_id, alg, public_key, credential_id, rp_id, origins, \
             label, counter, entry, entry_signature, enrolled_by, enrolled_at, revoked_at FROM signer_keys WHERE signer_id = 'finance-1'"
        );
        app.db.raw().await.execute(&sql).await.unwrap();
        assert_eq!(audited_tenants(app.db.store(), None).await.unwrap(), ["default", "keys-only", "nobody"]);
        let payments = verify_audit(app.db.store(), "nobody", None, &mut |_, _| {}).await.unwrap();
        let found = payments.breaks.iter().any(|it| it.kind == BreakKind::VersionsIncomplete && it.payment_id == forged);
        assert!(found && payments.payments == 1, "{:#?}", payments.breaks);
        let keys = verify_audit(app.db.store(), "keys-only", None, &mut |_, _| {}).await.unwrap();
        assert_eq!(keys.breaks.iter().map(|it| it.kind).collect::<Vec<_>>(), [BreakKind::KeyUnaudited]);
        assert_eq!(verified(app, None).await.breaks, []);
        let back = "DELETE FROM payments WHERE tenant = 'nobody'; DELETE FROM signer_keys WHERE tenant = 'keys-only'";
        app.db.raw().await.execute(back).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_words_that_executed_a_payment_are_compared_with_the_chain() {
    each(async |app: &mut App| {
        let id = app.awaiting("by-hand").await;
        hold(app, "by-hand").await;
        let paid = json!({"order_id": "by-hand", "reference": "bank-1", "evidence": "the bank's statement"});
        for person in ["operator-1", "operator-2"] {
            assert!(!app.call(&app.operator_named(person), "attest_executed", paid.clone()).await.is_error);
        }
        assert_eq!(verified(app, None).await.breaks, []);
        for change in [
            "person = 'mallory' WHERE person = 'operator-2'",
            "person = 'agent-1' WHERE person = 'operator-1'",
            "person = person || '-x' WHERE verb = 'attest_executed'",
            "evidence = 'nothing' WHERE person = 'operator-1'",
            "evidence = 'nothing' WHERE person = 'operator-2'",
            "reference = 'bank-2' WHERE verb = 'attest_executed'",
        ] {
            let raw = async |sql: &str| app.db.raw().await.execute(sql).await.unwrap();
            raw("CREATE TABLE kept AS SELECT * FROM attestations").await;
            raw(&format!("UPDATE attestations SET {change}")).await;
            let found = verified(app, None).await.breaks;
            let kinds: Vec<_> = found.iter().map(|found| (found.kind, found.payment_id.as_str())).collect();
            assert_eq!(kinds, [(BreakKind::ExecutionUnapproved, id.as_str())], "{change}: {found:#?}");
            raw("DELETE FROM attestations; INSERT INTO attestations SELECT * FROM kept; DROP TABLE kept").await;
        }
        assert_eq!(verified(app, None).await.breaks, []);
    })
    .await;
}
