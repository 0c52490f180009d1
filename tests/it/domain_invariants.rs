//! The invariants that production asks again: each is named when it is broken, and nothing sound is accused.

use countersign::domain::{Attention, Invariant, Payment, Phase, Status, broken, broken_by};

use crate::harness::payments::{NOW, SECOND, payment, quorum_of};

const STATES: [(Status, Phase); 12] = [
    (Status::Created, Phase::None),
    (Status::AwaitingSigner, Phase::None),
    (Status::SignerUnreachable, Phase::None),
    (Status::NeedManual, Phase::None),
    (Status::Signed, Phase::None),
    (Status::Signed, Phase::Intended),
    (Status::Signed, Phase::Unknown),
    (Status::Executed, Phase::Confirmed),
    (Status::Rejected, Phase::None),
    (Status::Expired, Phase::None),
    (Status::Cancelled, Phase::None),
    (Status::Failed, Phase::Refused),
];

#[test]
fn what_can_exist_breaks_nothing() {
    for (status, phase) in STATES {
        let sound = payment(status, phase);
        assert_eq!(broken(&sound), None, "{status:?}/{phase:?}");
        let mut next = sound.clone();
        next.version += 1;
        next.attention.insert(Attention::InvariantBroken);
        assert_eq!(broken_by(&sound, &next), None, "{status:?}/{phase:?}");
        // Nothing is left to be done for what has ended, nor for what a person holds.
        let mut rests = sound;
        rests.closing.tell_at = None;
        if !status.is_terminal() && phase == Phase::None {
            rests.held_at = Some(NOW);
        }
        assert_eq!(broken(&rests), None, "{status:?}/{phase:?}");
    }
    let mut unbegun = payment(Status::Signed, Phase::None);
    unbegun.execution.next_at = None;
    assert_eq!(broken(&unbegun), None, "its deadline wakes it");
}

#[test]
fn each_invariant_has_its_word() {
    let all = [
        (Invariant::OneExecution, "one_execution"),
        (Invariant::Quorum, "quorum"),
        (Invariant::Absorbing, "absorbing"),
        (Invariant::NegativeUnpaid, "negative_unpaid"),
        (Invariant::Confirmed, "confirmed"),
        (Invariant::Woken, "woken"),
        (Invariant::Version, "version"),
        (Invariant::Terms, "terms"),
    ];
    for (invariant, word) in all {
        assert_eq!(invariant.as_str(), word);
    }
}

#[test]
fn a_state_that_can_not_be_is_named() {
    type Doctor = fn(&mut Payment);
    let cases: [(Status, Phase, Doctor, Invariant); 10] = [
        (Status::Signed, Phase::None, |it| it.approvals = 1, Invariant::Quorum),
        (Status::Signed, Phase::Unknown, |it| it.execution.next_at = None, Invariant::Woken),
        (Status::NeedManual, Phase::None, |it| it.execution.phase = Phase::Unknown, Invariant::OneExecution),
        (Status::Signed, Phase::Intended, |it| it.execution.not_sent = 7, Invariant::OneExecution),
        (Status::Executed, Phase::Confirmed, |it| it.execution.phase = Phase::Unknown, Invariant::Confirmed),
        (Status::Executed, Phase::Confirmed, |it| it.execution.transfer_id.clear(), Invariant::Confirmed),
        (Status::Cancelled, Phase::None, |it| it.execution.phase = Phase::Confirmed, Invariant::NegativeUnpaid),
        (Status::Expired, Phase::None, in_doubt, Invariant::NegativeUnpaid),
        (Status::Failed, Phase::Refused, in_doubt, Invariant::NegativeUnpaid),
        (Status::Rejected, Phase::None, |it| it.execution.group = 0, Invariant::OneExecution),
    ];
    for (status, phase, doctor, expected) in cases {
        let mut sick = payment(status, phase);
        doctor(&mut sick);
        assert_eq!(broken(&sick), Some(expected), "{status:?}/{phase:?}");
    }
}

fn in_doubt(it: &mut Payment) {
    it.execution.phase = Phase::Unknown;
    (it.execution.sends, it.execution.not_sent) = (2, 1);
}

#[test]
fn a_step_that_can_not_be_is_named() {
    type Doctor = fn(&mut Payment);
    let cases: [(Status, Phase, Doctor, Invariant); 9] = [
        (Status::Signed, Phase::None, |it| it.version += 1, Invariant::Version),
        (Status::Signed, Phase::None, |it| it.version -= 1, Invariant::Version),
        (Status::Executed, Phase::Confirmed, |it| it.status = Status::Failed, Invariant::Absorbing),
        (Status::Cancelled, Phase::None, |it| it.status = Status::Created, Invariant::Absorbing),
        (Status::Executed, Phase::Confirmed, |it| it.execution.transfer_id.push('x'), Invariant::Absorbing),
        (Status::Created, Phase::None, |it| it.terms.payee_account = other_account(), Invariant::Terms),
        (Status::Created, Phase::None, |it| it.terms.policy = quorum_of(1, &["mallory"]), Invariant::Terms),
        (Status::Created, Phase::None, |it| it.terms.expires_at = NOW.plus_micros(99 * SECOND), Invariant::Terms),
        (Status::Signed, Phase::Unknown, |it| it.execution.sends = 0, Invariant::OneExecution),
    ];
    for (status, phase, doctor, expected) in cases {
        let before = payment(status, phase);
        let mut after = before.clone();
        after.version += 1;
        doctor(&mut after);
        assert_eq!(broken_by(&before, &after), Some(expected), "{status:?}/{phase:?} to {after:?}");
    }
    // A new round may bring another rule; a new group starts its count anew.
    let before = payment(Status::Signed, Phase::Unknown);
    let mut after = before.clone();
    after.version += 1;
    after.execution = countersign::domain::Execution { group: 2, next_at: Some(NOW), ..Default::default() };
    assert_eq!(broken_by(&before, &after), None);
}

fn other_account() -> countersign::domain::Account {
    countersign::domain::Account::parse("payee", "acct-of-mallory").unwrap()
}
