//! The stories behind the table: retries that run out, attempts in doubt, late answers, ends.

use std::time::Duration;

use countersign::domain::{
    Asker, Asking, Attention, Choice, Code, Event, ExecutionStep, Finding, Payment, Phase, Reach, SignerTrouble,
    Standing, Status, Timing, Vote, apply, execution_step, may_resend, next_wake,
};

use crate::harness::payments::{
    CREATED_AT, EXECUTE_BY, EXPIRES_AT, HOUR, NOTIFY_ATTEMPTS, NOW, RESEND_UNTIL, SECOND, SENT_AT, TIMING, after,
    after_at, applied, at, created, intended, nothing_sent, payment, quorum_of, raised, refused, unknown,
};

fn notified(number: i64, reach: Reach) -> Event {
    Event::Notified { number, since: CREATED_AT, reach }
}

fn said(standing: Standing, why: &str) -> Event {
    Event::Decided { round: 1, standing, advanced: false, reason: why.to_owned(), counter_back: false }
}

fn approved(approvals: u32) -> Event {
    said(Standing::Complete { approvals }, "")
}

fn rejected(why: &str) -> Event {
    said(Standing::Rejected, why)
}

fn confirmed() -> Event {
    Event::RailConfirmed { group: 1, transfer_id: "tr-1".to_owned() }
}

fn declined() -> Event {
    Event::RailRefused { group: 1, code: "declined".to_owned() }
}

fn not_sent() -> Event {
    Event::RailNotSent { group: 1, retry_after: None }
}

fn not_found() -> Event {
    Event::LookedUp(Finding::NotFound)
}

const OPEN: [Status; 4] = [Status::Created, Status::AwaitingSigner, Status::SignerUnreachable, Status::NeedManual];

#[test]
fn retries_that_run_out_end_in_a_persons_hands_with_their_own_reason() {
    let cases = [
        (Reach::Unreachable, "signer_unreachable", Status::SignerUnreachable, "retries_exhausted"),
        (
            Reach::Troubled(SignerTrouble::ServiceUnavailable),
            "signer_service_unavailable",
            Status::Created,
            "signer_service_unavailable",
        ),
        (Reach::Troubled(SignerTrouble::Unauthorized), "signer_unauthorized", Status::Created, "signer_unauthorized"),
        (Reach::Troubled(SignerTrouble::Timeout), "signer_timeout", Status::Created, "signer_timeout"),
        (Reach::Troubled(SignerTrouble::Refused), "signer_service_refused", Status::Created, "signer_service_refused"),
    ];
    for (reach, while_trying, waits_in, reason) in cases {
        let mut it = created();
        for attempt in 1..NOTIFY_ATTEMPTS {
            it = after(&it, notified(i64::from(attempt), reach.clone()));
            assert_eq!((it.status, it.reason.as_str()), (waits_in, while_trying), "attempt {attempt}");
            assert_eq!(it.notice.attempts, attempt);
            assert!(it.notice.next_at.is_some_and(|next| next > NOW), "attempt {attempt}: the worker goes on");
        }
        it = after(&it, notified(i64::from(NOTIFY_ATTEMPTS), reach));
        assert_eq!((it.status, it.reason.as_str()), (Status::NeedManual, reason));
        assert_eq!(it.notice.next_at, None, "nobody goes on by themselves");
        assert_eq!(next_wake(&it), Some(EXPIRES_AT), "only the clock is left");
    }
}

#[test]
fn registering_that_fails_uses_attempts_up_as_well() {
    let mut it = created();
    for _ in 0..NOTIFY_ATTEMPTS {
        it = after(&it, Event::RegisterTroubled(SignerTrouble::Unauthorized));
    }
    assert_eq!((it.status, it.reason.as_str()), (Status::NeedManual, "signer_unauthorized"));
}

#[test]
fn trouble_with_the_service_leaves_the_payment_where_it_was() {
    for status in OPEN.into_iter().filter(|status| *status != Status::NeedManual) {
        let before = payment(status, Phase::None);
        let it = after(&before, notified(2, Reach::Troubled(SignerTrouble::ServiceUnavailable)));
        assert_eq!(it.status, status);
    }
}

#[test]
fn waits_between_attempts_grow_to_the_cap_and_then_turn_slow() {
    let mut it = created();
    let mut waits = Vec::new();
    for number in 1..NOTIFY_ATTEMPTS {
        it = after(&it, notified(i64::from(number), Reach::Unreachable));
        waits.push(it.notice.next_at.unwrap().since(NOW).as_secs());
    }
    // Half of 2, 4, 8 and 120: the least that the jitter leaves.
    assert_eq!(waits, [1, 2, 4, 60]);
}

#[test]
fn an_agent_that_asks_again_and_again_uses_no_attempt_up() {
    for status in OPEN {
        let mut it = payment(status, Phase::None);
        let (attempts, state) = (it.notice.attempts, it.status);
        for _ in 0..100 {
            it = after(&it, Event::NotifyRequested(Asker::Agent));
        }
        assert_eq!((it.notice.attempts, it.status), (attempts, state));
    }
    let trying = payment(Status::SignerUnreachable, Phase::None);
    let again = after(&trying, Event::NotifyRequested(Asker::Agent));
    assert_eq!(again.notice.next_at, trying.notice.next_at, "the wait is kept");
}

#[test]
fn an_agents_first_request_notifies_now() {
    let it = after(&created(), Event::NotifyRequested(Asker::Agent));
    assert_eq!(it.notice.next_at, Some(NOW));
}

#[test]
fn an_operators_resend_starts_a_new_campaign_whose_outcome_decides() {
    let manual = payment(Status::NeedManual, Phase::None);
    let again = after(&manual, Event::NotifyRequested(Asker::Operator));
    assert_eq!((again.status, again.notice.attempts), (Status::NeedManual, 0));
    assert_eq!(again.notice.next_at, Some(NOW));

    assert_eq!(after(&again, notified(2, Reach::Reached)).status, Status::AwaitingSigner);
    let unreachable = after(&again, notified(2, Reach::Unreachable));
    assert_eq!((unreachable.status, unreachable.notice.attempts), (Status::SignerUnreachable, 1));
    assert!(unreachable.notice.next_at.is_some());
}

#[test]
fn the_notification_number_rises_only_once_the_last_one_is_settled() {
    let it = payment(Status::AwaitingSigner, Phase::None);
    let doubtful = [SignerTrouble::ServiceUnavailable, SignerTrouble::Unauthorized, SignerTrouble::Timeout];
    for trouble in doubtful {
        assert_eq!(after(&it, notified(2, Reach::Troubled(trouble))).notice.settled, 1, "{trouble:?}");
    }
    for reach in [Reach::Reached, Reach::Unreachable, Reach::Troubled(SignerTrouble::Refused)] {
        assert_eq!(after(&it, notified(2, reach.clone())).notice.settled, 2, "{reach:?}");
        assert_eq!(
            after(&it, notified(1, reach.clone())).notice.settled,
            1,
            "{reach:?}: a late one does not count back"
        );
    }
}

#[test]
fn reaching_the_signers_ends_the_campaign() {
    let it = after(&payment(Status::SignerUnreachable, Phase::None), notified(2, Reach::Reached));
    assert_eq!((it.reason.as_str(), it.notice.attempts, it.notice.next_at), ("", 0, None));
    assert_eq!(it.notice.check_at, Some(NOW.plus(TIMING.check_every)));
}

#[test]
fn a_process_that_dies_in_an_attempt_leaves_the_next_to_the_lease_end() {
    let it = after(&created(), Event::NotifyStarted);
    assert_eq!(it.notice.next_at, Some(NOW.plus(TIMING.lease)));
    let it = after(&payment(Status::Signed, Phase::None), Event::ExecutionIntended);
    assert_eq!(it.execution.next_at, Some(NOW.plus(TIMING.lease)));
}

#[test]
fn an_older_round_registered_late_does_not_count_back() {
    let mut it = payment(Status::AwaitingSigner, Phase::None);
    it.notice.registered_round = 3;
    assert_eq!(after(&it, Event::Registered { signer_ref: "sgn-1".to_owned(), round: 2 }).notice.registered_round, 3);
}

#[test]
fn a_late_signer_still_counts_in_all_four_open_states() {
    for status in OPEN {
        let it = after(&payment(status, Phase::None), approved(2));
        assert_eq!((it.status, it.execution.phase, it.approvals), (Status::Signed, Phase::None, 2));
        assert_eq!(it.execution.next_at, Some(NOW), "it is carried out at once");
        assert_eq!((it.notice.next_at, it.notice.check_at), (None, None), "nobody is asked any more");
        assert_eq!(it.reason, "");
    }
}

#[test]
fn an_approval_that_does_not_complete_the_quorum_is_counted_and_waits() {
    let first = said(Standing::Pending { approvals: 1, level: 0 }, "");
    let it = after(&payment(Status::NeedManual, Phase::None), first.clone());
    assert_eq!((it.status, it.approvals), (Status::NeedManual, 1));
    let again = applied(&it, first, NOW);
    assert!(
        again.changed(&it),
        "each counted decision is a change, so that two at once can't both think they were alone"
    );
    assert_eq!((again.payment.approvals, again.payment.decisions), (1, 2));
}

#[test]
fn a_rejection_keeps_the_signers_words() {
    let it = after(&payment(Status::NeedManual, Phase::None), rejected("wrong payee"));
    assert_eq!((it.status, it.reason.as_str()), (Status::Rejected, "wrong payee"));
}

#[test]
fn a_payment_that_ended_while_it_was_registered_is_told_of_once() {
    let registered = || Event::Registered { signer_ref: "sgn-1".to_owned(), round: 1 };
    let mut unknown = payment(Status::Cancelled, Phase::None);
    unknown.notice.signer_ref.clear();
    unknown.closing.tell_at = None;
    assert_eq!(after(&unknown, registered()).closing.tell_at, Some(NOW), "nobody else will");
    let mut told = payment(Status::Cancelled, Phase::None);
    told.notice.registered_round = 0;
    told.closing.tell_at = None;
    assert_eq!(after(&told, registered()).closing.tell_at, None, "it was told when it ended");
    let open = after(&created(), registered());
    assert_eq!((open.status, open.closing.tell_at), (Status::Created, None), "it has not ended");
}

#[test]
fn the_end_is_told_to_a_signer_service_that_knows_the_payment_and_to_no_other() {
    for end in [Event::Cancel, rejected("no"), approved(2)] {
        let known = after(&payment(Status::AwaitingSigner, Phase::None), end.clone());
        assert_eq!(known.closing.tell_at, Some(NOW), "{end:?}");
        let never_registered = after(&created(), end.clone());
        assert_eq!(never_registered.closing.tell_at, None, "{end:?}");
    }
}

#[test]
fn telling_the_signer_service_stops_once_it_is_told() {
    let told = after(&payment(Status::Cancelled, Phase::None), Event::CloseTold { done: true });
    assert_eq!((told.closing.tell_at, next_wake(&told)), (None, None));
}

#[test]
fn a_lost_quorum_voids_every_signature_and_starts_a_new_round() {
    let lost = Event::QuorumLost {
        reason: "revoked".to_owned(),
        policy: Box::new(quorum_of(1, &["ana"])),
        document: "{}".to_owned(),
        digest: "d2".to_owned(),
    };
    let it = after(&payment(Status::Signed, Phase::None), lost);
    assert_eq!((it.status, it.round, it.approvals), (Status::AwaitingSigner, 2, 0));
    assert_eq!((it.document.as_str(), it.digest.as_str(), it.reason.as_str()), ("{}", "d2", "revoked"));
    assert_eq!(it.notice.next_at, Some(NOW), "the signers are asked again");
    assert_eq!((it.execution.next_at, it.closing.tell_at), (None, None));
    assert_eq!(refused(&it, approved(2), NOW), Code::SigningRoundStale);
}

#[test]
fn what_runs_out_of_time_says_which_time() {
    let open = after_at(&payment(Status::NeedManual, Phase::None), Event::Deadline, EXPIRES_AT);
    assert_eq!((open.status, open.reason.as_str()), (Status::Expired, "not_decided_in_time"));
    let signed = after_at(&payment(Status::Signed, Phase::None), Event::Deadline, EXECUTE_BY);
    assert_eq!((signed.status, signed.reason.as_str()), (Status::Expired, "not_executed_in_time"));
}

#[test]
fn an_intent_starts_the_keys_life_at_the_rail() {
    let it = after(&payment(Status::Signed, Phase::None), Event::ExecutionIntended);
    assert_eq!((it.execution.phase, it.execution.sends, it.execution.not_sent), (Phase::Intended, 1, 0));
    assert_eq!(it.execution.last_send_at, Some(NOW));
    assert_eq!(it.execution.resend_until, Some(NOW.plus(Duration::from_hours(12))));
}

#[test]
fn a_key_that_never_reached_the_rail_starts_its_life_with_the_next_attempt() {
    let later = NOW.plus_micros(HOUR);
    let fresh = after_at(&nothing_sent(1), Event::SendStarted, later);
    assert_eq!(fresh.execution.resend_until, Some(later.plus(Duration::from_hours(12))));
    let in_doubt = after_at(&unknown(), Event::SendStarted, later);
    assert_eq!(in_doubt.execution.resend_until, Some(RESEND_UNTIL), "a key in doubt keeps its first deadline");
}

#[test]
fn a_rail_that_promises_nothing_about_a_key_is_never_sent_it_twice() {
    let timing = Timing { resend_window: None, ..TIMING };
    let moment = countersign::domain::Moment { now: NOW, roll: 0, timing: &timing };
    let signed = payment(Status::Signed, Phase::None);
    let it = apply(&signed, Event::ExecutionIntended, &moment).unwrap().payment;
    assert_eq!(it.execution.resend_until, None);
    let it = after_at(&it, not_found(), NOW.plus_micros(HOUR));
    assert!(it.attention.contains(&Attention::ResendWindowClosed));
    assert!(!may_resend(&it, NOW.plus_micros(HOUR), &timing));
    assert_eq!(refused(&it, Event::SendStarted, NOW.plus_micros(HOUR)), Code::VersionConflict);
}

#[test]
fn what_was_not_sent_is_sent_again_after_a_wait() {
    let it = after(&intended(), not_sent());
    assert_eq!((it.status, it.execution.phase), (Status::Signed, Phase::Intended));
    assert_eq!((it.execution.sends, it.execution.not_sent), (1, 1));
    let next = it.execution.next_at.unwrap();
    assert!(next > NOW);
    assert_eq!(execution_step(&it, next), ExecutionStep::SendAgain);
    assert_eq!(execution_step(&it, next.plus_micros(-1)), ExecutionStep::Wait);
}

#[test]
fn a_rail_that_asks_for_time_is_given_it() {
    let it = after(&intended(), Event::RailNotSent { group: 1, retry_after: Some(Duration::from_mins(10)) });
    assert_eq!(it.execution.next_at, Some(NOW.plus(Duration::from_mins(10))));
}

#[test]
fn not_sent_fails_a_payment_past_its_time_only_if_every_attempt_was_not_sent() {
    let it = after_at(&intended(), not_sent(), EXECUTE_BY);
    assert_eq!(
        (it.status, it.execution.phase, it.reason.as_str()),
        (Status::Failed, Phase::Refused, "rail_unavailable")
    );

    let mut second = unknown();
    second.execution.sends = 2;
    let it = after_at(&second, not_sent(), EXECUTE_BY);
    assert_eq!((it.status, it.execution.phase), (Status::Signed, Phase::Unknown), "the first may still arrive");
    assert_eq!(execution_step(&it, it.execution.next_at.unwrap()), ExecutionStep::LookUp);
}

#[test]
fn a_refused_attempt_fails_a_payment_only_if_every_earlier_one_was_not_sent() {
    let only = after(&intended(), declined());
    assert_eq!((only.status, only.execution.phase, only.reason.as_str()), (Status::Failed, Phase::Refused, "declined"));

    let mut third = nothing_sent(2);
    third.execution.sends = 3;
    assert_eq!(after(&third, declined()).status, Status::Failed, "two were not sent");

    let mut second = unknown();
    second.execution.sends = 2;
    let before = second.clone();
    let it = after(&second, declined());
    assert_eq!((it.status, it.execution.phase), (Status::Signed, Phase::Unknown), "the first may still arrive");
    assert_eq!(raised(&before, &it), [Attention::RefusedWhileUnknown]);
    assert!(it.execution.next_at.is_some());
}

#[test]
fn a_refusal_that_the_rail_holds_under_our_reference_settles_every_attempt() {
    let mut second = unknown();
    second.execution.sends = 2;
    let it = after(&second, Event::LookedUp(Finding::FoundRefused { code: "closed".to_owned() }));
    assert_eq!((it.status, it.execution.phase, it.reason.as_str()), (Status::Failed, Phase::Refused, "closed"));
    assert_eq!(next_wake(&it), it.closing.tell_at, "nothing more is done at the rail");
}

#[test]
fn a_confirmation_ends_it_with_the_rails_id_whoever_learns_it() {
    for mut it in [intended(), unknown(), nothing_sent(1)] {
        it.execution.cancel_requested_at = Some(NOW);
        it.held_at = Some(NOW);
        let it = after_at(&it, confirmed(), EXECUTE_BY.plus_micros(HOUR));
        assert_eq!((it.status, it.execution.phase), (Status::Executed, Phase::Confirmed));
        assert_eq!((it.execution.transfer_id.as_str(), it.execution.next_at), ("tr-1", None));
    }
}

#[test]
fn an_unknown_outcome_is_asked_about_not_before_the_read_lag_and_ever_more_slowly() {
    let mut it = after(&intended(), Event::RailUnknown { group: 1, mismatch: false });
    assert_eq!(it.execution.phase, Phase::Unknown);
    let mut last = Duration::ZERO;
    for _ in 0..40 {
        let wait = it.execution.next_at.unwrap().since(NOW);
        assert!(wait >= TIMING.read_lag && wait >= last && wait <= TIMING.query.cap, "{wait:?}");
        last = wait;
        it = after(&it, Event::LookedUp(Finding::Inconclusive));
    }
    // Half of the cap: the least that the jitter leaves.
    assert_eq!(last, TIMING.query.cap / 2);
    assert_eq!((it.status, it.attention.len()), (Status::Signed, 0));
}

#[test]
fn nothing_found_is_never_not_paid() {
    let mut it = intended();
    for hour in 0..100 {
        it = after_at(&it, not_found(), NOW.plus_micros(hour * HOUR));
        assert_eq!((it.status, it.execution.phase), (Status::Signed, Phase::Unknown));
        assert!(it.execution.next_at.is_some(), "it is asked about for ever");
    }
    assert_eq!(it.attention.into_iter().collect::<Vec<_>>(), [Attention::ResendWindowClosed]);
}

#[test]
fn a_cancel_is_at_once_while_there_is_no_intent_and_a_request_after() {
    let none = after(&payment(Status::Signed, Phase::None), Event::Cancel);
    assert_eq!((none.status, none.execution.next_at), (Status::Cancelled, None));
    for before in [intended(), unknown(), nothing_sent(1)] {
        let it = after(&before, Event::Cancel);
        assert_eq!((it.status, it.execution.phase), (Status::Signed, before.execution.phase));
        assert_eq!(it.execution.cancel_requested_at, Some(NOW));
        let again = applied(&it, Event::Cancel, NOW.plus_micros(HOUR));
        assert!(!again.changed(&it), "asking twice is asking once");
    }
}

#[test]
fn a_requested_cancel_is_kept_once_it_is_certain_that_nothing_was_sent() {
    let asked = |before: &Payment| after(before, Event::Cancel);
    let cases = [
        ("known already", after(&asked(&nothing_sent(1)), Event::Deadline)),
        ("learnt now", after(&asked(&intended()), not_sent())),
        ("learnt late", after(&asked(&unknown()), not_sent())),
    ];
    for (when, it) in cases {
        assert_eq!((it.status, it.execution.phase), (Status::Cancelled, Phase::None), "{when}");
        assert_eq!((it.reason.as_str(), it.execution.next_at), ("cancelled_by_request", None), "{when}");
    }
    let mut second = unknown();
    second.execution.sends = 2;
    assert_eq!(after(&asked(&second), not_sent()).status, Status::Signed, "the first may still arrive");
}

#[test]
fn a_cancelled_unknown_payment_is_never_sent_again_and_asks_for_a_person() {
    let asked = after(&unknown(), Event::Cancel);
    let it = after(&asked, not_found());
    assert_eq!(raised(&asked, &it), [Attention::CancelWhileUnknown]);
    assert!(!may_resend(&it, NOW, &TIMING));
    assert_eq!(refused(&it, Event::SendStarted, NOW), Code::VersionConflict);
    let never = after(&nothing_sent(1), Event::Cancel);
    assert_eq!(refused(&never, Event::SendStarted, NOW), Code::VersionConflict);
}

#[test]
fn what_provably_was_never_sent_comes_to_an_end_even_after_a_look_up() {
    // A look-up that raced with the proof leaves the phase unknown with nothing sent.
    let mut it = nothing_sent(1);
    it.execution.phase = Phase::Unknown;
    it.execution.queries = 1;
    assert_eq!(execution_step(&it, NOW), ExecutionStep::SendAgain);
    assert_eq!(refused(&it, Event::SendStarted, EXECUTE_BY), Code::VersionConflict);
    let late = after_at(&it, Event::Deadline, EXECUTE_BY);
    assert_eq!((late.status, late.reason.as_str()), (Status::Failed, "rail_unavailable"));
    let off = after(&after(&it, Event::Cancel), Event::Deadline);
    assert_eq!(off.status, Status::Cancelled);
}

#[test]
fn an_attempt_in_doubt_is_not_repeated_before_it_was_asked_about() {
    assert_eq!(execution_step(&intended(), NOW), ExecutionStep::LookUp);
    assert_eq!(refused(&intended(), Event::SendStarted, NOW), Code::VersionConflict);
    let told = after(&intended(), Event::RailUnknown { group: 1, mismatch: false });
    assert_eq!(refused(&told, Event::SendStarted, NOW), Code::VersionConflict);
    let asked = after(&told, not_found());
    assert_eq!(after(&asked, Event::SendStarted).execution.sends, 2);
}

#[test]
fn a_resend_waits_for_the_read_lag_and_stops_at_the_deadline() {
    let it = unknown();
    let visible = SENT_AT.plus(TIMING.read_lag);
    let cases = [
        (visible.plus_micros(-1), false),
        (visible, true),
        (RESEND_UNTIL.plus_micros(-1), true),
        (RESEND_UNTIL, false),
        (RESEND_UNTIL.plus_micros(HOUR), false),
    ];
    for (now, may) in cases {
        assert_eq!(may_resend(&it, now, &TIMING), may, "{now:?}");
        assert_eq!(apply(&it, Event::SendStarted, &at(now)).is_ok(), may, "{now:?}");
    }
}

#[test]
fn evidence_against_an_end_asks_for_a_person_once_and_changes_nothing_else() {
    let unpaid = [
        payment(Status::Rejected, Phase::None),
        payment(Status::Expired, Phase::None),
        payment(Status::Cancelled, Phase::None),
        payment(Status::Failed, Phase::Refused),
    ];
    let found = Event::LookedUp(Finding::Found { transfer_id: "tr-9".to_owned() });
    for evidence in
        [confirmed(), found, Event::LookedUp(Finding::Differs), Event::RailUnknown { group: 1, mismatch: true }]
    {
        for before in &unpaid {
            contradicted(before, evidence.clone());
        }
    }
    let executed = payment(Status::Executed, Phase::Confirmed);
    let refusal = Event::LookedUp(Finding::FoundRefused { code: "closed".to_owned() });
    let another = Event::RailConfirmed { group: 1, transfer_id: "tr-2".to_owned() };
    for evidence in [refusal, another, Event::LookedUp(Finding::Differs), declined()] {
        contradicted(&executed, evidence);
    }
}

fn contradicted(before: &Payment, evidence: Event) {
    let it = after(before, evidence.clone());
    let expected = Payment {
        attention: [Attention::TerminalContradiction].into(),
        version: before.version + 1,
        updated_at: NOW,
        ..before.clone()
    };
    assert_eq!(it, expected, "{evidence:?}");
    assert!(!applied(&it, evidence, NOW).changed(&it), "the same evidence again says nothing new");
}

#[test]
fn the_refusal_of_a_second_attempt_does_not_contradict_the_first_ones_success() {
    let mut executed = payment(Status::Executed, Phase::Confirmed);
    executed.execution.sends = 2;
    assert!(!applied(&executed, declined(), NOW).changed(&executed));
}

#[test]
fn a_late_registration_of_an_ended_payment_does_not_bring_it_back() {
    let mut ended = payment(Status::Cancelled, Phase::None);
    ended.notice.signer_ref.clear();
    let it = after(&ended, Event::Registered { signer_ref: "sgn-1".to_owned(), round: 1 });
    assert_eq!((it.status, it.execution), (Status::Cancelled, ended.execution));
}

#[test]
fn the_outbound_key_names_payment_effect_and_group_and_never_an_attempt() {
    let mut it = unknown();
    let key = it.execution_key();
    assert_eq!(key, format!("{}:rail.execute:g1", it.terms.payment_id));
    it.execution.sends = 9;
    it.execution.not_sent = 3;
    it.version += 1;
    assert_eq!(it.execution_key(), key);
}

#[test]
fn a_held_payment_rests_until_a_person_acts() {
    for status in OPEN {
        let mut held = payment(status, Phase::None);
        held.held_at = Some(NOW);
        held.notice.next_at = None;
        held.notice.check_at = None;
        assert_eq!(next_wake(&held), None, "{status:?}");
        held.notice.check_at = Some(NOW);
        assert_eq!(next_wake(&held), Some(NOW), "{status:?}: who decides meanwhile is told");
        held.notice.check_at = Some(EXPIRES_AT);
        assert_eq!(next_wake(&held), None, "{status:?}");
    }
}

#[test]
fn the_agents_wish_is_followed_only_where_the_policy_allows_it() {
    let mut it = created();
    assert_eq!(it.asked(&[], NOW, Asking::default()), ["ana", "ben", "cem"]);
    it.terms.wish = vec!["ben".parse().unwrap(), "mallory".parse().unwrap()];
    assert_eq!(
        it.asked(&[], NOW, Asking::default()),
        ["ana", "ben", "cem"],
        "two are needed, and one of those wished for may decide"
    );
    let one = [Vote { signer: "cem".parse().unwrap(), choice: Choice::Approve, key: "k1".to_owned(), at: NOW }];
    assert_eq!(it.asked(&one, NOW, Asking::default()), ["ben"], "one more is enough");
    it.terms.principal = "ben".to_owned();
    assert_eq!(it.asked(&one, NOW, Asking::default()), ["ana"], "nor the one it acts for");
    assert_eq!(it.asked(&[], NOW, Asking::default()), ["ana", "cem"]);
    it.terms.principal = "olivia".to_owned();
    it.terms.wish = vec!["mallory".parse().unwrap()];
    assert_eq!(it.asked(&[], NOW, Asking::default()), ["ana", "ben", "cem"], "an agent can't pick its accomplice");
}

#[test]
fn a_busy_wait_is_impossible_every_step_at_the_rail_puts_the_next_one_later() {
    let events =
        [not_sent(), Event::RailUnknown { group: 1, mismatch: false }, not_found(), Event::LookedUp(Finding::Differs)];
    for before in [intended(), unknown()] {
        for event in events.clone() {
            let it = after(&before, event.clone());
            assert!(it.execution.next_at.unwrap() >= NOW.plus_micros(SECOND), "{event:?}");
        }
    }
}

#[test]
fn a_payment_wakes_for_the_first_of_what_is_due() {
    let mut signed = payment(Status::Signed, Phase::None);
    signed.closing.tell_at = None;
    assert_eq!(next_wake(&signed), Some(NOW), "the rail");
    signed.execution.next_at = None;
    assert_eq!(next_wake(&signed), Some(EXECUTE_BY), "its time");
    signed.closing.tell_at = Some(SENT_AT);
    assert_eq!(next_wake(&signed), Some(SENT_AT), "the signer service");

    let mut open = payment(Status::SignerUnreachable, Phase::None);
    assert_eq!(next_wake(&open), open.notice.next_at);
    open.notice.next_at = None;
    assert_eq!(next_wake(&open), open.notice.check_at);
    open.notice.check_at = None;
    assert_eq!(next_wake(&open), Some(EXPIRES_AT));
}
