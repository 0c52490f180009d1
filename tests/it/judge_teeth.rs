//! The judge has teeth: books that were doctored are found out, by the name of what they break.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign::domain::Role;
use futures::future::join_all;
use serde_json::json;

use crate::harness::app::POLICY;
use crate::harness::database::{Raw, engines};
use crate::harness::desk::{Desk, Part, Plan};
use crate::harness::judge::{Breach, LAWS};

/// Three payments of 199.00 fit, a fourth does not.
const LIMIT: &str = "\n[[limit]]\nid = \"daily\"\nbinds = \"tenant\"\ncurrency = \"USD\"\nwindow_hours = 24\nwindow_amount = \"700.00\"\n";

/// Whose books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    Rail,
    Signer,
}

/// What is done to the books, and the laws that must be named for it.
struct Doctored {
    what: &'static str,
    side: Side,
    sql: &'static str,
    laws: &'static [&'static str],
}

const fn row(what: &'static str, side: Side, sql: &'static str, laws: &'static [&'static str]) -> Doctored {
    Doctored { what, side, sql, laws }
}

/// `PAID`, `OPEN` and `CALLED_OFF` stand for the payments' ids.
const ROWS: [Doctored; 37] = [
    row(
        "a second transfer",
        Side::Rail,
        "INSERT INTO transfers SELECT 'trf_2', reference, order_id, amount_minor, \
        currency, payee_account, at FROM transfers; INSERT INTO entries SELECT 'ent_2' || direction, 'trf_2', reference, \
        account, direction, amount_minor, currency, at FROM entries",
        &["I1", "I5"],
    ),
    row(
        "a transfer for nobody",
        Side::Rail,
        "INSERT INTO transfers SELECT 'trf_2', 'pay_nobody', order_id, \
        amount_minor, currency, payee_account, at FROM transfers",
        &["I1"],
    ),
    row(
        "a transfer for what was called off",
        Side::Rail,
        "INSERT INTO transfers SELECT 'trf_2', 'CALLED_OFF', \
        order_id, amount_minor, currency, payee_account, at FROM transfers",
        &["I2", "I4"],
    ),
    row(
        "a transfer of another amount",
        Side::Rail,
        "UPDATE transfers SET amount_minor = 19901; \
        UPDATE entries SET amount_minor = 19901",
        &["I5"],
    ),
    row("a transfer to another", Side::Rail, "UPDATE transfers SET payee_account = 'someone'", &["I5"]),
    row("a transfer that is gone", Side::Rail, "DELETE FROM entries; DELETE FROM transfers", &["I5"]),
    row("a credit that is gone", Side::Rail, "DELETE FROM entries WHERE direction = 'credit'", &["I5"]),
    row(
        "a request under a key of its own",
        Side::Rail,
        "INSERT INTO requests (idempotency_key, body_sha256, reference, at) \
        SELECT idempotency_key || '2', body_sha256, reference, at FROM requests LIMIT 1",
        &["I1", "I7"],
    ),
    row(
        "another body under the same key",
        Side::Rail,
        "INSERT INTO requests (idempotency_key, body_sha256, reference, at) \
        SELECT idempotency_key, 'other', reference, at FROM requests LIMIT 1",
        &["I7", "I10"],
    ),
    row(
        "an execution made a failure",
        Side::Ours,
        "UPDATE payments SET status = 'FAILED', phase = 'refused' \
        WHERE payment_id = 'PAID'",
        &["I3", "I4"],
    ),
    row(
        "what was called off is open again",
        Side::Ours,
        "UPDATE payments SET status = 'CREATED', next_wake_at = 1 \
        WHERE payment_id = 'CALLED_OFF'",
        &["I3", "I8"],
    ),
    row(
        "a payment that cannot be read",
        Side::Ours,
        "UPDATE payments SET attention = 'NONSENSE' \
        WHERE payment_id = 'OPEN'",
        &["I7"],
    ),
    row(
        "an amount changed after it was signed",
        Side::Ours,
        "UPDATE payments SET amount_minor = 19901 \
        WHERE payment_id = 'PAID'",
        &["I2", "I5"],
    ),
    row(
        "an amount beyond the limit",
        Side::Ours,
        "UPDATE payments SET amount_minor = 60000 \
        WHERE payment_id = 'OPEN'",
        &["I6"],
    ),
    row(
        "a wake that is not the state's",
        Side::Ours,
        "UPDATE payments SET next_wake_at = next_wake_at + 60000000 \
        WHERE payment_id = 'OPEN'",
        &["I8"],
    ),
    row(
        "an end that is never told",
        Side::Ours,
        "UPDATE payments SET next_wake_at = NULL \
        WHERE payment_id = 'CALLED_OFF'",
        &["I8"],
    ),
    row(
        "a version without a change",
        Side::Ours,
        "UPDATE payments SET version = version + 1 \
        WHERE payment_id = 'OPEN'",
        &["I12"],
    ),
    row(
        "an audit entry that is gone",
        Side::Ours,
        "DELETE FROM audit_entries WHERE payment_id = 'PAID' \
        AND event = 'decision.approve'",
        &["I2", "I3", "I7", "I9", "I10", "I12"],
    ),
    row(
        "the audit's tail cut, and its head mended",
        Side::Ours,
        "UPDATE audit_heads SET seq = seq - 1, chain = \
        (SELECT previous FROM audit_entries e WHERE e.tenant = audit_heads.tenant AND e.seq = audit_heads.seq); \
        DELETE FROM audit_entries WHERE seq > (SELECT seq FROM audit_heads)",
        &["I12"],
    ),
    row(
        "an audit entry that was edited",
        Side::Ours,
        "UPDATE audit_entries SET canonical = \
        REPLACE(canonical, 'agent:agent-1', 'agent:agent-2') WHERE event = 'payment.created'",
        &["I7"],
    ),
    row(
        "an audit entry said to be about another",
        Side::Ours,
        "UPDATE audit_entries SET payment_id = 'OPEN' \
        WHERE payment_id = 'PAID' AND event = 'payment.created'",
        &["I7"],
    ),
    row(
        "a decision by a stranger",
        Side::Ours,
        "INSERT INTO decisions (decision_id, payment_id, round, signer_id, \
        confirmation, key_id, choice, reason, document, digest, proof_type, proof, via, decided_at, payment_version) \
        SELECT 'dec_2', payment_id, round, 'stranger-1', 1, key_id, choice, reason, document, digest, proof_type, proof, \
        via, decided_at, 0 FROM decisions",
        &["I9"],
    ),
    row("a decision by the agent", Side::Ours, "UPDATE decisions SET signer_id = 'agent-1'", &["I2", "I9", "I11"]),
    row("a decision by a way that is none", Side::Ours, "UPDATE decisions SET via = 'agent'", &["I9"]),
    row("a decision that is gone", Side::Ours, "DELETE FROM decisions", &["I2", "I10", "I11"]),
    row(
        "a signature of something else",
        Side::Ours,
        "UPDATE decisions SET document = REPLACE(document, \
        '\"reason\":\"\"', '\"reason\":\"no\"')",
        &["I2", "I9"],
    ),
    row("a key that was revoked before", Side::Ours, "UPDATE signer_keys SET revoked_at = 1", &["I2"]),
    row(
        "a rule that asked for two",
        Side::Ours,
        "UPDATE payments SET policy = REPLACE(policy, '\"required\":\"1\"', \
        '\"required\":\"2\"') WHERE payment_id = 'PAID'",
        &["I2"],
    ),
    row(
        "a requester who approved",
        Side::Ours,
        "UPDATE payments SET principal = 'finance-1' \
        WHERE payment_id = 'PAID'",
        &["I2", "I11"],
    ),
    row(
        "an approval counted and never given",
        Side::Ours,
        "UPDATE payments SET approvals = 1 \
        WHERE payment_id = 'OPEN'",
        &["I11"],
    ),
    row(
        "a payment that is here and in the archive",
        Side::Ours,
        "UPDATE payments SET tell_at = NULL, next_wake_at = NULL WHERE payment_id = 'CALLED_OFF'; \
        INSERT INTO archived_payments SELECT * FROM payments_everywhere WHERE payment_id = 'CALLED_OFF'",
        &["I1"],
    ),
    row(
        "an order that is open and not taken",
        Side::Ours,
        "DELETE FROM taken_orders WHERE payment_id = 'OPEN'",
        &["I1"],
    ),
    row(
        "an order taken by what was called off",
        Side::Ours,
        "INSERT INTO taken_orders SELECT tenant, order_id, payment_id FROM payments WHERE payment_id = 'CALLED_OFF'",
        &["I1"],
    ),
    row(
        "a registration that nobody recorded",
        Side::Ours,
        "DELETE FROM effects WHERE payment_id = 'OPEN' \
        AND kind = 'signer.register'",
        &["I7"],
    ),
    row("an intent that is gone", Side::Ours, "DELETE FROM effects", &["I2", "I5", "I7"]),
    row(
        "a key bound to another payment",
        Side::Ours,
        "INSERT INTO idempotency (tenant, agent, operation, \
        idempotency_key, fingerprint, payment_id, created_at) SELECT tenant, 'agent-2', 'create_payment', \
        'key-of-another-agent', fingerprint, payment_id, created_at FROM payments WHERE payment_id = 'PAID'",
        &["I10"],
    ),
    row(
        "a notification that nobody recorded",
        Side::Signer,
        "INSERT INTO notifications SELECT payment_id, round, 99, \
        signers, answer, sent_at FROM notifications LIMIT 1",
        &["I7"],
    ),
];

/// Doctoring of the events, whose law needs a receiver too.
const EVENTS: [Doctored; 3] = [
    row(
        "an event that is gone",
        Side::Ours,
        "DELETE FROM outbox WHERE payment_id = 'PAID' \
        AND type = 'payment.executed'",
        &["I13"],
    ),
    row(
        "an event that no change made",
        Side::Ours,
        "UPDATE outbox SET type = 'payment.failed' \
        WHERE type = 'payment.executed'",
        &["I13"],
    ),
    row(
        "an event marked delivered that nobody got",
        Side::Ours,
        "UPDATE outbox SET event_id = 'evt_2' \
        WHERE payment_id = 'PAID' AND type = 'payment.signed'",
        &["I13"],
    ),
];

/// A table's rows as they were, to be put back.
struct Kept {
    raw: Raw,
    tables: &'static [&'static str],
}

impl Kept {
    async fn of(mut raw: Raw, tables: &'static [&'static str]) -> Self {
        for table in tables {
            raw.execute(&format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await.unwrap();
        }
        Self { raw, tables }
    }

    async fn back(&mut self) {
        for table in self.tables.iter().rev() {
            self.raw.execute(&format!("DELETE FROM {table}")).await.unwrap();
        }
        for table in self.tables {
            self.raw.execute(&format!("INSERT INTO {table} SELECT * FROM kept_{table}")).await.unwrap();
        }
    }
}

/// One paid, one open, one called off whose end the signer service was not told of.
async fn history(desk: &mut Desk) -> [String; 3] {
    let paid = desk.propose("paid").await;
    desk.countersign("paid").await;
    let agent = desk.token("agent-1", Role::Agent);
    for _ in 0..200 {
        let status = desk.insist(&agent, "get_payment_status", json!({"order_id": "paid", "wait_ms": 1000})).await;
        let told = desk.db.raw().await.texts("SELECT event_id FROM outbox WHERE state = 'pending'").await;
        if status.text("status") == "EXECUTED" && told.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let open = desk.propose("open").await;
    let called_off = desk.propose("called-off").await;
    desk.kill(Part::Signer).await;
    let cancelled = desk.insist(&agent, "cancel_payment", json!({"order_id": "called-off"})).await;
    assert_eq!(cancelled.status(), "CANCELLED");
    desk.stop(Part::Serve(0)).await;
    desk.kill(Part::Rail).await;
    [paid, open, called_off]
}

fn named(breaches: &[Breach]) -> BTreeSet<&'static str> {
    breaches.iter().map(|breach| breach.law).collect()
}

#[tokio::test]
async fn doctored_books_are_found_out_by_the_name_of_what_they_break() {
    join_all(engines().into_iter().map(async |engine| {
        let mut desk = Desk::open(Plan::new(engine).policy(format!("{POLICY}{LIMIT}"))).await;
        let [paid, open, called_off] = history(&mut desk).await;
        assert_eq!(desk.judged().await, [], "{engine}");
        let ours = &[
            "payments",
            "archived_payments",
            "taken_orders",
            "decisions",
            "signer_keys",
            "effects",
            "idempotency",
            "outbox",
            "audit_entries",
            "audit_heads",
        ];
        let mut sides = [
            (Side::Ours, Kept::of(desk.db.raw().await, ours).await),
            (Side::Rail, Kept::of(desk.rail_book().await, &["transfers", "entries", "requests"]).await),
            (Side::Signer, Kept::of(desk.signer_book().await, &["notifications"]).await),
        ];
        let (mut seen, mut missed) = (BTreeSet::new(), Vec::new());
        for Doctored { what, side, sql, laws } in ROWS.iter().chain(&EVENTS) {
            let (_, kept) = sides.iter_mut().find(|(known, _)| known == side).unwrap();
            let sql = sql.replace("PAID", &paid).replace("OPEN", &open).replace("CALLED_OFF", &called_off);
            assert!(kept.raw.execute(&sql).await.unwrap() > 0, "{engine}: {what} touches something");
            let breaches = desk.judged().await;
            let all = named(&breaches);
            for law in laws.iter().filter(|law| !all.contains(**law)) {
                missed.push(format!("{engine}: {what}: {law} is not named: {breaches:#?}"));
            }
            assert!(breaches.iter().all(|breach| !breach.to_string().is_empty()), "{engine}: {what}");
            seen.extend(laws.iter().copied());
            kept.back().await;
            assert_eq!(desk.judged().await, [], "{engine}: {what} was put back");
        }
        assert!(missed.is_empty(), "{}", missed.join("\n"));
        let known: BTreeSet<&str> = LAWS.iter().map(|law| law.name).collect();
        assert_eq!(seen, known, "every law was broken once");
    }))
    .await;
}
