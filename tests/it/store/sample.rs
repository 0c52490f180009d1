//! Payments to store, far from anything a default could produce by accident.

use std::sync::atomic::{AtomicU64, Ordering};

use countersign::domain::{
    Account, ApprovalPolicy, Attention, Closing, Execution, LeaseToken, Memo, Money, Notice, PartyName, Payment,
    PaymentId, Phase, Status, Terms, Timestamp,
};
use countersign::store::{Guard, Store};

use crate::harness::database::TestDatabase;
use crate::harness::payments::{level, quorum_of};

/// An instant in 2027; sample payments are created then, and expire after every test's now.
pub(crate) const CREATED: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// The tenant of most samples.
pub(crate) const TENANT: &str = "acme";

/// An instant some microseconds after [`CREATED`].
pub(crate) const fn at(micros: i64) -> Timestamp {
    CREATED.plus_micros(micros)
}

/// An id, above every earlier one.
pub(crate) fn payment_id() -> PaymentId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    PaymentId::mint(CREATED, NEXT.fetch_add(1, Ordering::Relaxed).into())
}

/// A lease token.
pub(crate) fn token(number: u32) -> LeaseToken {
    LeaseToken::mint(CREATED, number.into())
}

/// A payment as it is created, its first wake at its creation.
pub(crate) fn payment(order: &str) -> Payment {
    of(TENANT, "agent-7", order)
}

/// The same of some tenant and agent.
pub(crate) fn of(tenant: &str, agent: &str, order: &str) -> Payment {
    let terms = Terms {
        tenant: tenant.parse().unwrap(),
        payment_id: payment_id(),
        order_id: order.parse().unwrap(),
        amount: Money::from_minor(19_900, "EUR".parse().unwrap()).unwrap(),
        payer_account: Account::parse("payer_account", "main").unwrap(),
        payee_account: Account::parse("payee_account", "DE89370400440532013000").unwrap(),
        payee_name: PartyName::parse("payee_name", "").unwrap(),
        memo: Memo::parse("memo", "").unwrap(),
        agent: agent.parse().unwrap(),
        principal: String::new(),
        wish: Vec::new(),
        policy: ApprovalPolicy {
            id: "p".to_owned(),
            version: "1".to_owned(),
            levels: vec![level(1, "treasury", &["alice", "bob"])],
            ..quorum_of(1, &["alice"])
        },
        fingerprint: "0".repeat(64),
        traceparent: String::new(),
        created_at: CREATED,
        expires_at: at(86_400_000_000),
        execute_by: at(172_800_000_000),
    };
    Payment::new(terms, "{}".to_owned(), "A".repeat(43), CREATED)
}

/// A payment with nothing optional: every nullable column is NULL, every list and text empty.
pub(crate) fn bare(order: &str) -> Payment {
    let mut bare = payment(order);
    bare.status = Status::Executed;
    bare.execution.phase = Phase::Confirmed;
    bare.notice.next_at = None;
    bare
}

/// A payment with everything, no two columns of one type alike, numbers at the end of their range.
///
/// `salt` (under 1000) makes all that can change differ from another salt's.
pub(crate) fn full(order: &str, salt: i64) -> Payment {
    let mut full = payment(order);
    let terms = &mut full.terms;
    terms.amount = Money::from_minor(countersign::domain::MAX_MINOR, "JPY".parse().unwrap()).unwrap();
    terms.payer_account = Account::parse("payer_account", "GB33BUKB20201555555555").unwrap();
    terms.payee_name = PartyName::parse("payee_name", "Søren & Ünal “Æ” GmbH 株式会社 😀").unwrap();
    terms.memo = Memo::parse("memo", "it's 100 % \"quoted\" \\ $1 ?1 :x; DROP TABLE payments; --").unwrap();
    terms.principal = "auth0|5f7c8ec7c33c6c004bbafe82, Zoë".to_owned();
    terms.wish = ["bob", "alice", "Alice"].map(|name| name.parse().unwrap()).to_vec();
    terms.fingerprint = "9f".repeat(32);
    terms.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
    terms.created_at = at(1);
    terms.expires_at = at(2);
    terms.execute_by = at(i64::MAX / 4);
    full.version = i64::MAX - 2_000 + salt;
    full.status = if salt == 0 { Status::SignerUnreachable } else { Status::NeedManual };
    full.reason = format!("reason\n\twith lines, number {salt}");
    full.round = i64::from(u32::MAX) + salt;
    full.document = format!(r#"{{"v":"{salt}","ü":"\u0001"}}"#);
    full.digest = format!("{salt:B>43}");
    full.approvals = u32::MAX - 2;
    let mut later = (3..).map(|micros| at(micros + 1_000 * salt));
    let mut instant = || later.next();
    full.updated_at = instant().unwrap();
    full.notice = Notice {
        signer_ref: format!("sgn_{salt}"),
        registered_round: i64::from(u32::MAX) + 10 + salt,
        settled: i64::from(u32::MAX) + 20_000 + salt,
        attempts: u32::MAX - 3,
        last: format!("timeout-{salt}"),
        next_at: instant(),
        check_at: instant(),
    };
    full.execution = Execution {
        phase: if salt == 0 { Phase::Unknown } else { Phase::Intended },
        group: i64::from(u32::MAX) + 300_000 + salt,
        sends: u32::MAX,
        not_sent: u32::MAX - 1,
        queries: u32::MAX - 4,
        next_at: instant(),
        last_send_at: instant(),
        resend_until: instant(),
        cancel_requested_at: instant(),
        transfer_id: format!("tr_{salt}"),
    };
    full.closing = Closing { tell_at: instant(), attempts: u32::MAX - 5 };
    full.held_at = instant();
    full.attention = Attention::ALL.into_iter().skip(usize::from(salt != 0)).collect();
    full
}

/// Stores a new payment.
pub(crate) async fn insert(store: &Store, payment: &Payment) -> bool {
    let mut tx = store.begin().await.unwrap();
    let inserted = tx.insert_payment(payment).await.unwrap();
    tx.commit().await.unwrap();
    inserted
}

/// What is stored of a payment.
pub(crate) async fn read(store: &Store, payment: &Payment) -> Option<Payment> {
    let tenant = payment.terms.tenant.as_str();
    store.read().await.unwrap().payment(tenant, &payment.terms.payment_id).await.unwrap()
}

/// Stores a change that nobody contests, and returns it with its new version.
pub(crate) async fn change(store: &Store, before: &Payment, with: impl FnOnce(&mut Payment)) -> Payment {
    let mut after = before.clone();
    with(&mut after);
    after.version += 1;
    let mut tx = store.begin().await.unwrap();
    tx.save_payment(before, &after, Guard::Version).await.unwrap();
    tx.commit().await.unwrap();
    after
}

/// A payment that fell due `seconds` ago by the store's time, stored.
pub(crate) async fn due(db: &TestDatabase, order: &str, seconds: i64) -> Payment {
    let mut payment = payment(order);
    let now = db.store().begin().await.unwrap().now();
    payment.notice.next_at = Some(now.plus_micros(-seconds * 1_000_000));
    assert!(insert(db.store(), &payment).await);
    payment
}
