//! When a payment needs work, what may be sent, and what an event says of the world outside.

use std::time::Duration;

use countersign::domain::{
    Event, Finding, Payment, Phase, Status, Timestamp, may_send, next_wake, sends_again, still_says,
};

use crate::harness::payments::{
    EXECUTE_BY, HOUR, NOW, RESEND_UNTIL, SECOND, SENT_AT, TIMING, after, after_at, created, intended, nothing_sent,
    payment, unknown,
};

/// The next look at `payment`, if its next step at the rail is not before its time has run out.
fn wake_of_a_late_step(mut payment: Payment) -> Option<Timestamp> {
    payment.closing.tell_at = None;
    payment.execution.next_at = Some(EXECUTE_BY.plus_micros(HOUR));
    next_wake(&payment)
}

#[test]
fn the_time_of_a_payment_can_run_out_only_while_nothing_was_sent() {
    assert_eq!(wake_of_a_late_step(payment(Status::Signed, Phase::None)), Some(EXECUTE_BY));
    assert_eq!(wake_of_a_late_step(nothing_sent(2)), Some(EXECUTE_BY));
    let in_doubt = Some(EXECUTE_BY.plus_micros(HOUR));
    assert_eq!(wake_of_a_late_step(intended()), in_doubt);
    assert_eq!(wake_of_a_late_step(unknown()), in_doubt);
}

#[test]
fn only_a_look_up_that_found_nothing_sends_again_and_only_in_the_keys_life() {
    let found = |transfer_id: &str| Finding::Found { transfer_id: transfer_id.to_owned() };
    let others =
        [found("tr-1"), Finding::FoundRefused { code: "closed".to_owned() }, Finding::Differs, Finding::Inconclusive];
    for finding in others {
        assert!(!sends_again(&finding, &unknown(), NOW, NOW, &TIMING), "{finding:?}");
    }
    let answered = |asked_at, now| sends_again(&Finding::NotFound, &unknown(), asked_at, now, &TIMING);
    let nothing = |now: Timestamp| answered(now, now);
    let visible = SENT_AT.plus(TIMING.read_lag);
    assert!(!nothing(visible.plus_micros(-1)) && nothing(visible));
    assert!(nothing(RESEND_UNTIL.plus_micros(-1)) && !nothing(RESEND_UNTIL));
    assert!(!answered(visible.plus_micros(-1), NOW) && answered(visible, NOW), "asked when it could show the attempt");
    assert!(!answered(visible, RESEND_UNTIL), "answered while the key is remembered");
}

#[test]
fn nothing_found_speaks_of_what_had_been_sent_when_it_was_asked() {
    let found = || Finding::Found { transfer_id: "tr-1".to_owned() };
    let refused = || Finding::FoundRefused { code: "closed".to_owned() };
    let (asked, mut again, mut attested) = (unknown(), unknown(), unknown());
    again.execution.sends += 1;
    attested.execution.group += 1;
    assert_eq!(still_says(Finding::NotFound, &asked, &asked), Finding::NotFound);
    for since in [&again, &attested] {
        assert_eq!(still_says(Finding::NotFound, &asked, since), Finding::Inconclusive);
        for finding in [found(), refused(), Finding::Differs, Finding::Inconclusive] {
            assert_eq!(still_says(finding.clone(), &asked, since), finding);
        }
    }
}

#[test]
fn the_first_byte_is_written_within_its_time_or_never() {
    let within = Duration::from_secs(5);
    assert!(may_send(Duration::ZERO, within) && may_send(within.saturating_sub(Duration::from_nanos(1)), within));
    assert!(!may_send(within, within) && !may_send(within + Duration::from_nanos(1), within));
    assert!(!may_send(Duration::ZERO, Duration::ZERO));
}

#[test]
fn an_event_names_the_transfer_that_it_tells_of() {
    let transfer_id = "tr-9".to_owned();
    let telling = [
        Event::RailConfirmed { group: 1, transfer_id: transfer_id.clone() },
        Event::LookedUp(Finding::Found { transfer_id }),
    ];
    for event in telling {
        assert_eq!(event.transfer_id(), "tr-9", "{event:?}");
    }
    for event in [Event::LookedUp(Finding::Differs), Event::AttestedExecuted { reference: "tr-9".to_owned() }] {
        assert_eq!(event.transfer_id(), "", "{event:?}");
    }
}

#[test]
fn the_signer_service_is_told_eight_times_ever_more_slowly() {
    let mut it = payment(Status::Cancelled, Phase::None);
    let mut waits = Vec::new();
    while let Some(now) = it.closing.tell_at {
        it = after_at(&it, Event::CloseTold { done: false }, now);
        assert_ne!(it.closing.tell_at, Some(now), "it goes on");
        waits.extend(it.closing.tell_at.map(|next| next.since(now)));
        assert!(waits.len() <= 8, "{waits:?}");
    }
    assert_eq!((it.closing.attempts, waits.len()), (8, 7));
    assert!(waits.is_sorted() && waits.first() < waits.last(), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait >= Duration::from_secs(1)), "{waits:?}");
}

#[test]
fn what_is_released_goes_to_the_rail_at_once_if_it_was_on_its_way_there() {
    for (status, phase) in
        [(Status::Signed, Phase::None), (Status::Signed, Phase::Intended), (Status::Signed, Phase::Unknown)]
    {
        let mut held = payment(status, phase);
        held.held_at = Some(SENT_AT);
        held.execution.next_at = Some(NOW.plus_micros(HOUR));
        assert_eq!(after(&held, Event::Released).execution.next_at, Some(NOW), "{phase:?}");
    }
    let mut open = payment(Status::AwaitingSigner, Phase::None);
    open.held_at = Some(SENT_AT);
    let free = after(&open, Event::Released);
    open.notice.check_at = Some(NOW);
    assert_eq!((free.execution.next_at, free.notice), (None, open.notice), "what was decided meanwhile is taken now");
}

#[test]
fn a_new_attempt_group_asks_the_rail_now_and_remembers_that_it_was_called_off() {
    let late = SENT_AT.plus(TIMING.settle_after);
    let mut doubtful = unknown();
    doubtful.execution.next_at = Some(late.plus_micros(HOUR));
    let attested = after_at(&doubtful, Event::AttestedNotExecuted, late);
    assert_eq!((attested.execution.next_at, attested.execution.cancel_requested_at), (Some(late), None));
    doubtful.execution.cancel_requested_at = Some(NOW.plus_micros(SECOND));
    let attested = after_at(&doubtful, Event::AttestedNotExecuted, late);
    assert_eq!(attested.execution.cancel_requested_at, doubtful.execution.cancel_requested_at);
}

#[test]
fn what_the_signer_service_has_lost_is_registered_and_told_anew_and_uses_no_attempt_up() {
    let lost = |signer_ref: &str, number| Event::Forgotten { signer_ref: signer_ref.to_owned(), number };
    for status in [Status::AwaitingSigner, Status::SignerUnreachable, Status::NeedManual] {
        let mut it = payment(status, Phase::None);
        (it.notice.attempts, it.notice.next_at) = (3, None);
        let after_it = after(&it, lost("sgn-1", 2)).notice;
        assert_eq!((after_it.registered_round, after_it.next_at), (0, Some(NOW)), "{status:?}");
        assert_eq!((after_it.attempts, after_it.settled, after_it.signer_ref.as_str()), (3, 2, "sgn-1"), "{status:?}");
        assert_eq!(after(&it, lost("sgn-0", 0)), it, "it has been registered under another id since");
    }
    // Whoever was not to be told yet is not told by this.
    let mut quiet = created();
    "sgn-1".clone_into(&mut quiet.notice.signer_ref);
    quiet.notice.registered_round = 1;
    let after_it = after(&quiet, lost("sgn-1", 0)).notice;
    assert_eq!((after_it.registered_round, after_it.next_at), (0, quiet.notice.next_at));
    // It ended while it was registered anew, under another id: the service has it again and must hear so.
    let mut ended = payment(Status::Cancelled, Phase::None);
    ended.closing.tell_at = None;
    let anew = Event::Registered { signer_ref: "sgn-2".to_owned(), round: 1 };
    assert_eq!(after(&ended, anew).closing.tell_at, Some(NOW));
}
