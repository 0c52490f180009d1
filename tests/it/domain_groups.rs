//! Attempt groups: a new key after people's word, and what is told of an old one.

use countersign::domain::{Attention, Event, ExecutionStep, Finding, Payment, Phase, Status, execution_step};

use crate::harness::payments::{HOUR, NOW, after, after_at, payment, refused, unknown};

/// A payment in its second attempt group, one attempt out, asked about since.
fn second_group() -> Payment {
    let mut it = unknown();
    it.execution.group = 2;
    it
}

#[test]
fn an_outcome_under_another_key_moves_nothing_but_the_rails_word_that_it_paid() {
    let before = second_group();
    let stale = [
        Event::RailNotSent { group: 1, retry_after: None },
        Event::RailRefused { group: 1, code: "declined".to_owned() },
        Event::RailUnknown { group: 1, mismatch: false },
        Event::RailUnknown { group: 1, mismatch: true },
    ];
    for event in stale {
        assert_eq!(after(&before, event.clone()), before, "{event:?}");
    }
    let paid = after(&before, Event::RailConfirmed { group: 1, transfer_id: "tr-1".to_owned() });
    assert_eq!(paid.status, Status::Executed);
    assert!(paid.attention.contains(&Attention::AttestationContradicted), "both keys may have paid");
    let paid = after(&before, Event::RailConfirmed { group: 2, transfer_id: "tr-2".to_owned() });
    assert_eq!((paid.status, paid.attention.len()), (Status::Executed, 0));
}

#[test]
fn an_attested_payment_does_nothing_until_the_rail_was_asked() {
    let late = NOW.plus_micros(100 * HOUR);
    let mut attested = after_at(&unknown(), Event::AttestedNotExecuted, late);
    assert!(attested.unasked() && !attested.nothing_sent());
    assert_eq!((attested.execution.group, attested.execution.phase), (2, Phase::Unknown));
    assert_eq!(attested.doubtful_key(), attested.execution_key().replace(":g2", ":g1"));
    assert_eq!(execution_step(&attested, late), ExecutionStep::LookUp);
    assert_eq!(after_at(&attested, Event::Deadline, late), attested, "its time may have run out, but not its doubt");
    for event in
        [Event::ExecutionIntended, Event::SendStarted, Event::Superseded, Event::Held, Event::AttestedNotExecuted]
    {
        refused(&attested, event, late);
    }
    let found = after_at(&attested, Event::LookedUp(Finding::Found { transfer_id: "tr-1".to_owned() }), late);
    assert_eq!((found.status, found.attention.contains(&Attention::AttestationContradicted)), (Status::Executed, true));
    for finding in [Finding::Inconclusive, Finding::Differs] {
        let still = after_at(&attested, Event::LookedUp(finding.clone()), late);
        assert!(still.unasked() && still.execution.next_at > Some(late), "{finding:?}");
    }
    let nothing = after_at(&attested, Event::LookedUp(Finding::NotFound), late);
    assert_eq!((nothing.status, nothing.execution.phase), (Status::Signed, Phase::None));
    assert_eq!(execution_step(&nothing, late), ExecutionStep::Start, "the quorum is verified again first");
    attested.execution.cancel_requested_at = Some(late);
    assert_eq!(after_at(&attested, Event::LookedUp(Finding::NotFound), late).status, Status::Cancelled);
}

#[test]
fn an_earlier_key_that_paid_ends_a_payment_wherever_its_new_key_is() {
    for status in
        [Status::Created, Status::AwaitingSigner, Status::SignerUnreachable, Status::NeedManual, Status::Signed]
    {
        let mut before = payment(status, Phase::None);
        before.execution.group = 2;
        before.held_at = Some(NOW);
        let paid = after(&before, Event::RailConfirmed { group: 1, transfer_id: "tr-1".to_owned() });
        assert_eq!((paid.status, paid.execution.phase), (Status::Executed, Phase::Confirmed), "{status:?}");
        assert_eq!(paid.held_at, None, "{status:?}: nobody could let go of it");
        before.execution.group = 1;
        let odd = after(&before, Event::RailConfirmed { group: 1, transfer_id: "tr-1".to_owned() });
        assert_eq!(odd.status, status, "nothing was sent");
        assert!(odd.attention.contains(&Attention::TerminalContradiction));
    }
}
