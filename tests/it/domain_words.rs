//! Words that are stored, signed or shown: each is what it is, and is read back as what it was.

use std::time::Duration;

use countersign::domain::{Asking, Attention, Choice, Code, Phase, Refusal, Schedule, Status, Vote};

use crate::harness::payments::{NOW, created};

#[test]
fn each_reason_for_attention_has_its_word() {
    let words = Attention::ALL.map(Attention::as_str);
    let expected = [
        "INTEGRITY_MISMATCH",
        "TERMINAL_CONTRADICTION",
        "RESEND_WINDOW_CLOSED",
        "REFUSED_WHILE_UNKNOWN",
        "CANCEL_WHILE_UNKNOWN",
        "CONTEXT_BUDGET_SPENT",
        "INVARIANT_BROKEN",
        "ATTESTATION_CONTRADICTED",
        "PAID_AFTER_BACKUP",
        "SIGNED_BEFORE_RESTORE",
        "PASSKEY_COUNTER_BACK",
    ];
    assert_eq!(words, expected);
    for reason in Attention::ALL {
        assert_eq!(Attention::from_name(reason.as_str()), Some(reason));
    }
    for other in ["", "integrity_mismatch", "INTEGRITY_MISMATCH "] {
        assert_eq!(Attention::from_name(other), None, "{other:?}");
    }
}

#[test]
fn what_a_signer_says_has_its_word() {
    assert_eq!([Choice::Approve, Choice::Reject].map(Choice::as_str), ["approve", "reject"]);
    assert_eq!(["approve", "reject"].map(Choice::from_name), [Some(Choice::Approve), Some(Choice::Reject)]);
    for other in ["", "Approve", "approve ", "yes"] {
        assert_eq!(Choice::from_name(other), None, "{other:?}");
    }
}

#[test]
fn a_schedule_waits_as_listed_and_at_most_a_fifth_longer() {
    let schedule = Schedule::new([0, 5, 300].map(Duration::from_secs).to_vec());
    let waits: Vec<_> = (0..4).map(|done| schedule.after(done, 0)).collect();
    assert_eq!(waits, [Some(0), Some(5), Some(300), None].map(|wait| wait.map(Duration::from_secs)));
    let longest = |done| (0..=9).filter_map(|roll| schedule.after(done, u64::MAX / 10 * roll)).max().unwrap();
    assert!(longest(1) > Duration::from_secs(5) && longest(1) <= Duration::from_secs(6), "{:?}", longest(1));
    assert!(longest(2) > Duration::from_secs(320) && longest(2) <= Duration::from_mins(6), "{:?}", longest(2));
}

#[test]
fn each_state_and_phase_has_its_word() {
    let states =
        "CREATED AWAITING_SIGNER SIGNER_UNREACHABLE NEED_MANUAL SIGNED EXECUTED REJECTED EXPIRED CANCELLED FAILED";
    assert_eq!(Status::ALL.map(Status::as_str).join(" "), states);
    assert_eq!(Phase::ALL.map(Phase::as_str).join(" "), "none intended unknown confirmed refused");
    for status in Status::ALL {
        assert_eq!(Status::from_name(status.as_str()), Some(status));
    }
    for phase in Phase::ALL {
        assert_eq!(Phase::from_name(phase.as_str()), Some(phase));
    }
    assert_eq!((Status::from_name("signed"), Status::from_name("")), (None, None));
    assert_eq!((Phase::from_name("NONE"), Phase::from_name("")), (None, None));
}

#[test]
fn a_refusal_says_its_code_and_how_long_to_wait() {
    assert_eq!(Code::PaymentTerminal.as_str(), "PAYMENT_TERMINAL");
    assert_eq!(Code::VersionConflict.as_str(), "VERSION_CONFLICT");
    let busy = Refusal::new(Code::OutcomeUnknownBlocks, "later").after_ms(2_500);
    assert_eq!(busy.retry_after_ms(), Some(2_500));
}

#[test]
fn who_has_decided_is_not_asked_again() {
    let voted =
        |name: &str| Vote { signer: name.parse().unwrap(), choice: Choice::Approve, key: "k1".to_owned(), at: NOW };
    assert_eq!(created().asked(&[voted("cem")], NOW, Asking::default()), ["ana", "ben"]);
    assert_eq!(created().asked(&[voted("ana")], NOW, Asking::default()), ["ben", "cem"]);
}
