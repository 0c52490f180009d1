//! When people who were reached are asked again: from the payment's own times, bounded, and never after its end.

use std::time::Duration;

use countersign::domain::{Event, Moment, Phase, Timing, apply};
use countersign::domain::{Payment, Reach, Reminders, Standing, Status, Terms, Timestamp};
use proptest::prelude::*;

use crate::harness::payments::{CREATED_AT, EXPIRES_AT, HOUR, SECOND, TIMING, payment, terms};

const MINUTE: i64 = 60 * SECOND;

fn plan() -> Reminders {
    Reminders::new(&[10, 60, 360].map(Duration::from_mins), 50, 75).unwrap()
}

fn wished() -> Terms {
    Terms { wish: vec!["ana".parse().unwrap()], ..terms() }
}

fn at(micros: i64) -> Timestamp {
    CREATED_AT.plus_micros(micros)
}

/// Every reminder there is, when each is sent the moment it is due.
fn all(terms: &Terms, since: Timestamp, roll: u64) -> Vec<i64> {
    let (mut now, mut times) = (since, Vec::new());
    while let Some(next) = plan().next(terms, since, now, roll) {
        assert!(next > now && next < terms.expires_at, "{next:?} after {now:?}");
        times.push(next.micros() - CREATED_AT.micros());
        now = next;
        assert!(times.len() < 20, "{times:?}");
    }
    times
}

#[test]
fn reminders_come_at_ten_minutes_an_hour_and_six_then_at_half_and_at_three_quarters() {
    let every = [10 * MINUTE, HOUR, 6 * HOUR, 12 * HOUR, 18 * HOUR];
    assert_eq!(all(&wished(), CREATED_AT, 0), every);
    let nobody_named = Terms { wish: Vec::new(), ..terms() };
    assert_eq!(all(&nobody_named, CREATED_AT, 0), [10 * MINUTE, HOUR, 6 * HOUR, 18 * HOUR], "nobody is left to ask");
    // People of a later level: from when they are asked.
    let later = at(11 * HOUR);
    assert_eq!(all(&wished(), later, 0), [11 * HOUR + 10 * MINUTE, 12 * HOUR, 17 * HOUR, 18 * HOUR]);
    assert_eq!(all(&wished(), at(23 * HOUR), 0), [23 * HOUR + 10 * MINUTE], "an hour before the end");
}

#[test]
fn who_was_away_sends_one_and_not_all_that_were_missed() {
    let next = |hours: i64| plan().next(&wished(), CREATED_AT, at(hours * HOUR), 0);
    assert_eq!(next(2), Some(at(6 * HOUR)));
    assert_eq!(next(13), Some(at(18 * HOUR)));
    assert_eq!(next(19), None);
    assert_eq!(next(30), None);
    assert!(!plan().widened(&wished(), at(12 * HOUR - 1)) && plan().widened(&wished(), at(12 * HOUR)));
    let had = |minutes: i64| plan().had_their_time(&wished(), CREATED_AT, at(minutes * MINUTE));
    assert!(!had(9) && had(10) && had(70) && had(24 * 60 + 1));
    let later = |now| plan().had_their_time(&wished(), at(13 * HOUR), at(now));
    assert!(!later(13 * HOUR + 9 * MINUTE) && later(13 * HOUR + 10 * MINUTE), "what was before is none of theirs");
    let last = Reminders::new(&[], 0, 75).unwrap();
    let had = |now| last.had_their_time(&wished(), CREATED_AT, at(now));
    assert!(!had(18 * HOUR - 1) && had(18 * HOUR), "the last call is the first reminder there");
    assert!(!Reminders::NONE.had_their_time(&wished(), CREATED_AT, EXPIRES_AT));
    assert_eq!(Reminders::NONE.next(&wished(), CREATED_AT, CREATED_AT, 7), None);
    assert!(!Reminders::NONE.widened(&wished(), EXPIRES_AT));
}

#[test]
fn what_is_no_plan_is_refused() {
    let spans = |all: &[u64]| all.iter().copied().map(Duration::from_secs).collect::<Vec<_>>();
    for (after, widen, last) in [
        (spans(&[0]), 50, 75),
        (spans(&[600, 600]), 50, 75),
        (spans(&[600, 60]), 50, 75),
        (spans(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 50, 75),
        (spans(&[600]), 100, 75),
        (spans(&[600]), 50, 100),
    ] {
        assert_eq!(Reminders::new(&after, widen, last), None, "{after:?} {widen} {last}");
    }
    assert_eq!(Reminders::new(&[], 0, 0), Some(Reminders::NONE));
}

/// What `reached` leads to at `now`, with reminders on.
fn after(before: &Payment, reach: Reach, now: Timestamp) -> Payment {
    let timing = Timing { reminders: plan(), ..TIMING };
    let moment = Moment { now, roll: 0, timing: &timing };
    let told = Event::Notified { number: before.notice.settled + 1, since: CREATED_AT, reach };
    let begun = apply(before, Event::NotifyStarted, &moment).unwrap().payment;
    apply(&begun, told, &moment).unwrap().payment
}

#[test]
fn what_is_under_way_uses_no_attempt_up_and_gives_none_back() {
    let mut before = payment(Status::SignerUnreachable, Phase::None);
    before.notice.attempts = 3;
    let it = after(&before, Reach::UnderWay, at(HOUR / 2));
    assert_eq!((it.status, it.notice.attempts), (Status::AwaitingSigner, 3), "else it could fail without end");
    assert_eq!((it.notice.last.as_str(), it.notice.next_at), ("under_way", Some(at(HOUR))));
    let it = after(&it, Reach::Reached, at(HOUR));
    assert_eq!((it.notice.attempts, it.notice.next_at), (0, Some(at(6 * HOUR))));
}

#[test]
fn reminders_are_bounded_late_by_a_tenth_at_most_and_end_with_the_payment() {
    proptest!(|(since in 0..24 * HOUR, roll: u64)| {
        let (exact, late) = (all(&wished(), at(since), 0), all(&wished(), at(since), roll));
        prop_assert!(exact.len() <= 5 && late.len() <= exact.len());
        let next = plan().next(&wished(), at(since), at(since), roll);
        if let (Some(first), Some(next)) = (exact.first(), next) {
            let wait = first - since;
            let over = next.micros() - CREATED_AT.micros() - first;
            prop_assert!((0..=(wait / 10).min(5 * MINUTE)).contains(&over), "{over} of {wait}");
        }
    });
}

#[test]
fn what_became_due_while_a_notification_was_on_its_way_is_not_put_off_by_it() {
    let timing = Timing { reminders: plan(), ..TIMING };
    let after = |it: &Payment, event, minutes: i64| {
        let moment = Moment { now: at(minutes * MINUTE), timing: &timing, roll: 0 };
        apply(it, event, &moment).unwrap().payment
    };
    let told = Event::Notified { number: 1, since: CREATED_AT, reach: Reach::Reached };
    let began = after(&payment(Status::Created, Phase::None), Event::NotifyStarted, 0);
    let plain = after(&began, told.clone(), 0);
    assert_eq!(plain.notice.next_at, Some(at(10 * MINUTE)), "the first reminder");
    let opens = Event::Decided {
        round: 1,
        standing: Standing::Pending { approvals: 1, level: 1 },
        advanced: true,
        reason: String::new(),
        counter_back: false,
    };
    let opened = after(&after(&began, opens, 0), told.clone(), 0);
    assert_eq!(opened.notice.next_at, Some(at(0)), "those of the next level are asked now");
    let hinted = after(&after(&began, Event::Hinted, 0), told, 0);
    assert_eq!(hinted.notice.check_at, Some(at(0)), "and the service's news is fetched now");
}
