//! Payments in every state they can be in, built by hand: no transition is trusted to make them.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::domain::{
    Account, Answer, Applied, ApprovalPolicy, Attention, Backoff, Closing, Code, Currency, Effect, Event, Group, Level,
    Memo, Moment, Money, PartyName, Payment, PaymentId, Phase, Reminders, Status, Terms, Timestamp, Timing, apply,
};

pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const HOUR: i64 = 3_600 * SECOND;

/// When every payment here was created.
pub(crate) const CREATED_AT: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);
/// An hour later: when things happen unless a test says otherwise.
pub(crate) const NOW: Timestamp = CREATED_AT.plus_micros(HOUR);
pub(crate) const EXPIRES_AT: Timestamp = CREATED_AT.plus_micros(24 * HOUR);
pub(crate) const EXECUTE_BY: Timestamp = CREATED_AT.plus_micros(48 * HOUR);
/// When the one attempt of an executing payment was started.
pub(crate) const SENT_AT: Timestamp = NOW.plus_micros(-60 * SECOND);
pub(crate) const RESEND_UNTIL: Timestamp = SENT_AT.plus_micros(12 * HOUR);

/// Notifications in all before a person must act.
pub(crate) const NOTIFY_ATTEMPTS: u32 = 5;

pub(crate) const TIMING: Timing = Timing {
    notify: Backoff {
        base: Duration::from_secs(2),
        cap: Duration::from_secs(10),
        fast_attempts: 3,
        slow: Duration::from_mins(2),
        attempts: NOTIFY_ATTEMPTS,
    },
    reminders: Reminders::NONE,
    check_every: Duration::from_secs(15),
    query: Backoff {
        base: Duration::from_secs(2),
        cap: Duration::from_mins(5),
        fast_attempts: u32::MAX,
        slow: Duration::from_mins(5),
        attempts: u32::MAX,
    },
    lease: Duration::from_secs(30),
    read_lag: Duration::from_secs(10),
    resend_window: Some(Duration::from_hours(12)),
    settle_after: Duration::from_hours(25),
};

/// The moment `now`, without luck.
pub(crate) fn at(now: Timestamp) -> Moment<'static> {
    Moment { now, roll: 0, timing: &TIMING }
}

pub(crate) fn usd() -> Currency {
    "USD".parse().unwrap()
}

/// One level: `required` of `signers`.
pub(crate) fn level(required: u32, group: &str, signers: &[&str]) -> Level {
    Level { groups: vec![group_of(required, group, signers)] }
}

/// One group of a level.
pub(crate) fn group_of(required: u32, group: &str, signers: &[&str]) -> Group {
    Group {
        group: group.to_owned(),
        required: required.to_string(),
        signers: signers.iter().map(ToString::to_string).collect(),
    }
}

/// `required` of `signers`.
pub(crate) fn quorum_of(required: u32, signers: &[&str]) -> ApprovalPolicy {
    ApprovalPolicy {
        id: "house".to_owned(),
        version: "7".to_owned(),
        rule: "default".to_owned(),
        levels: vec![level(required, "finance", signers)],
        any_reject: Answer::Yes,
        principal_may_sign: Answer::No,
        confirmations: String::new(),
        persons: BTreeMap::new(),
        deputies: Vec::new(),
        beneficiary: String::new(),
    }
}

pub(crate) fn terms() -> Terms {
    Terms {
        tenant: "acme".parse().unwrap(),
        payment_id: PaymentId::mint(CREATED_AT, 7),
        order_id: "order-1".parse().unwrap(),
        amount: Money::from_minor(19_900, usd()).unwrap(),
        payer_account: Account::parse("payer", "acct-operating").unwrap(),
        payee_account: Account::parse("payee", "DE89370400440532013000").unwrap(),
        payee_name: PartyName::parse("payee_name", "Example GmbH").unwrap(),
        memo: Memo::parse("memo", "Invoice 1").unwrap(),
        agent: "agent-1".parse().unwrap(),
        principal: "olivia".to_owned(),
        wish: Vec::new(),
        policy: quorum_of(2, &["ana", "ben", "cem"]),
        fingerprint: "f".to_owned(),
        traceparent: String::new(),
        created_at: CREATED_AT,
        expires_at: EXPIRES_AT,
        execute_by: EXECUTE_BY,
    }
}

/// A payment as `create_payment` leaves it.
pub(crate) fn created() -> Payment {
    let notify_at = CREATED_AT.plus_micros(30 * SECOND);
    Payment::new(terms(), "{\"document\":\"1\"}".to_owned(), "digest-1".to_owned(), notify_at)
}

/// A payment in `status` and `phase` with what such a payment has behind it.
///
/// Executing payments have one attempt out; unknown ones were asked about once since.
pub(crate) fn payment(status: Status, phase: Phase) -> Payment {
    let mut it = created();
    if status == Status::Created {
        return it;
    }
    it.version = 10;
    it.status = status;
    it.execution.phase = phase;
    it.notice.signer_ref = "sgn-1".into();
    it.notice.registered_round = 1;
    it.notice.settled = 1;
    it.notice.next_at = None;
    it.notice.last = "reached".into();
    match status {
        Status::Created | Status::AwaitingSigner => it.notice.check_at = Some(NOW.plus_micros(5 * SECOND)),
        Status::SignerUnreachable => {
            it.reason = "signer_unreachable".into();
            it.notice.attempts = 1;
            it.notice.next_at = Some(NOW.plus_micros(4 * SECOND));
            it.notice.check_at = Some(NOW.plus_micros(5 * SECOND));
        }
        Status::NeedManual => {
            it.reason = "retries_exhausted".into();
            it.notice.attempts = NOTIFY_ATTEMPTS;
            it.notice.check_at = Some(NOW.plus_micros(5 * SECOND));
        }
        Status::Signed | Status::Executed | Status::Failed => it.approvals = 2,
        Status::Rejected | Status::Expired | Status::Cancelled => {}
    }
    match status {
        Status::Created | Status::AwaitingSigner | Status::SignerUnreachable | Status::NeedManual => {}
        Status::Signed | Status::Executed | Status::Rejected | Status::Expired | Status::Cancelled | Status::Failed => {
            it.closing = Closing { tell_at: Some(NOW), attempts: 0 }
        }
    }
    match phase {
        Phase::None => {
            if status == Status::Signed {
                it.execution.next_at = Some(NOW);
            }
        }
        Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => {
            it.execution.sends = 1;
            it.execution.last_send_at = Some(SENT_AT);
            it.execution.resend_until = Some(RESEND_UNTIL);
        }
    }
    match phase {
        Phase::None | Phase::Refused => {}
        Phase::Intended => it.execution.next_at = Some(NOW.plus_micros(-30 * SECOND)),
        Phase::Unknown => {
            it.execution.queries = 1;
            it.execution.next_at = Some(NOW);
        }
        Phase::Confirmed => it.execution.transfer_id = "tr-1".into(),
    }
    it
}

pub(crate) fn intended() -> Payment {
    payment(Status::Signed, Phase::Intended)
}

pub(crate) fn unknown() -> Payment {
    payment(Status::Signed, Phase::Unknown)
}

/// An executing payment whose every attempt provably sent nothing.
pub(crate) fn nothing_sent(attempts: u32) -> Payment {
    let mut it = intended();
    it.execution.sends = attempts;
    it.execution.not_sent = attempts;
    it
}

/// Applies an event at [`NOW`] that must be taken.
pub(crate) fn after(payment: &Payment, event: Event) -> Payment {
    after_at(payment, event, NOW)
}

/// Applies an event at `now` that must be taken.
pub(crate) fn after_at(payment: &Payment, event: Event, now: Timestamp) -> Payment {
    applied(payment, event, now).payment
}

/// Applies an event that must be taken, and holds what every transition promises.
pub(crate) fn applied(before: &Payment, event: Event, now: Timestamp) -> Applied {
    let told = format!("{event:?}");
    let applied = apply(before, event, &at(now)).unwrap_or_else(|refusal| panic!("{told}: {refusal}"));
    check_version(before, &applied, &told);
    applied
}

/// Applies an event that must be refused; the code of the refusal.
pub(crate) fn refused(payment: &Payment, event: Event, now: Timestamp) -> Code {
    let told = format!("{event:?}");
    let refusal = apply(payment, event, &at(now)).expect_err(&told);
    assert_eq!(refusal.payment.map(|named| *named), Some(payment.reference()), "{told}: names the payment");
    refusal.code
}

/// A change raises the version by exactly one and is announced; no change changes nothing at all.
pub(crate) fn check_version(before: &Payment, applied: &Applied, told: &str) {
    let after = &applied.payment;
    if after.version == before.version {
        assert_eq!(after, before, "{told}: the version did not move, so nothing did");
        assert!(applied.effects.is_empty(), "{told}: nothing changed, so nothing follows");
        assert!(!applied.changed(before));
        return;
    }
    assert!(applied.changed(before));
    assert_eq!(after.version, before.version + 1, "{told}: a change raises the version by one");
    let rule = if after.round == before.round { &before.terms.policy } else { &after.terms.policy };
    let expected = Terms { policy: rule.clone(), wish: after.terms.wish.clone(), ..before.terms.clone() };
    assert_eq!(after.terms, expected, "{told}: terms never change, but for whom to ask and the rule of a new round");
    let mut expected: Vec<Effect> = Vec::new();
    if before.status != after.status {
        expected.push(Effect::Announce { from: before.status, to: after.status });
    }
    expected.extend(raised(before, after).into_iter().map(Effect::Raise));
    assert_eq!(applied.effects, expected, "{told}: what follows is what changed");
    let mut kept = before.attention.clone();
    if after.status.is_terminal() {
        kept.remove(&Attention::ContextBudgetSpent);
        assert!(!after.attention.contains(&Attention::ContextBudgetSpent), "{told}: an end leaves nothing to stop");
    }
    assert!(after.attention.is_superset(&kept), "{told}: no other attention is dropped");
}

/// The attention that `after` has and `before` had not.
pub(crate) fn raised(before: &Payment, after: &Payment) -> Vec<Attention> {
    after.attention.difference(&before.attention).copied().collect()
}
