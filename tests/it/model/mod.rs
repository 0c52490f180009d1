//! The model check: every order of crashes, losses, delays, repeats and people, within small bounds.
//!
//! A checker visits every state that can be reached, breadth first. What decides is the product's own code:
//! `apply`, `execution_step`, `sends_again`, `may_send`, `next_wake`, the counting of votes. `glue` is what
//! the journal does around it, `steps` what may happen next, `promises` what must hold and what must be
//! possible. Time does not end: what has passed is equal to what has just passed.
//!
//! `just model-deep` visits larger worlds.

#![allow(
    clippy::unused_self,
    clippy::struct_excessive_bools,
    clippy::single_match_else,
    clippy::collapsible_match,
    reason = "steps are methods of the desk, switches are independent, and both ends of a choice are named"
)]

mod bounds;
mod glue;
mod promises;
mod steps;
mod world;

use std::time::Instant;

use bounds::{BY_HAND, Bounds, Desk, HELD, KEYLESS, LAG, LATE, PEOPLE_DECIDE, POLICY, RAIL, SLOW, TWICE, Weak};
use stateright::{Checker, HasDiscoveries, Model as _};

/// Visits all of a world, and says how large it was.
fn holds(bounds: Bounds) {
    let deep = std::env::var("COUNTERSIGN_MODEL").is_ok_and(|size| size == "deep");
    let bounds = if deep { bounds.deeper() } else { bounds };
    let (begun, name) = (Instant::now(), bounds.name);
    let checker = Desk::new(bounds, None).checker().threads(if deep { 2 } else { 1 }).spawn_bfs().join();
    println!(
        "model of {name}: {} states by {} steps, {} deep, in {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    checker.assert_properties();
}

#[test]
fn a_rail_that_answers_late_twice_or_never_pays_once_and_every_end_is_true() {
    holds(RAIL);
}

#[test]
fn a_request_that_the_network_repeats_is_paid_once() {
    holds(TWICE);
}

#[test]
fn whoever_decides_at_the_same_moment_the_quorum_is_what_was_said() {
    holds(PEOPLE_DECIDE);
}

#[test]
fn a_late_signer_is_heard_until_the_end_and_never_after_it() {
    holds(LATE);
}

#[test]
fn what_people_do_by_hand_never_meets_what_the_worker_does() {
    holds(BY_HAND);
}

#[test]
fn a_quorum_that_no_longer_holds_is_asked_anew() {
    holds(POLICY);
}

#[test]
fn a_hold_and_a_cancel_never_meet_and_neither_loses_a_payment() {
    holds(HELD);
}

#[test]
fn of_two_that_may_still_send_one_has_lost_its_lease() {
    holds(SLOW);
}

#[test]
fn nothing_is_sent_again_before_a_look_up_could_show_it() {
    holds(LAG);
}

#[test]
fn a_rail_without_keys_pays_once_even_when_people_attest_what_is_not_so() {
    holds(KEYLESS);
}

/// A promise that so many steps do not break is not broken: without a guard a world need not have an end.
const MOST: usize = 1_000_000;

/// How many steps the shortest way to break `promise` takes; `None` when there is none.
fn broken(bounds: &Bounds, weak: Weak, promise: &'static str) -> Option<usize> {
    let desk = Desk::new(bounds.clone(), Some(weak));
    let found = HasDiscoveries::AnyOf([promise].into());
    let checker = desk.checker().finish_when(found).target_state_count(MOST).spawn_bfs().join();
    let steps = checker.discovery(promise).map(|path| path.into_actions().len());
    println!("without {weak:?}: {promise:?} {steps:?}, {} states", checker.unique_state_count());
    steps
}

/// Each weakness with a promise that it breaks: none of the guards is there for nothing.
#[test]
fn every_guard_that_is_taken_away_breaks_a_promise() {
    use promises::{ABSORB, ALONE, ASKED, HOLD, MATCH, ONCE, PERSONS, QUORUM, UNPAID, VERSION, WAKES};
    let teeth = [
        (Weak::NoIntent, &RAIL, UNPAID),
        (Weak::ResendsForEver, &RAIL, ONCE),
        (Weak::NotFoundIsNotPaid, &RAIL, UNPAID),
        (Weak::AttemptInKey, &RAIL, ONCE),
        (Weak::SilenceIsRefusal, &RAIL, UNPAID),
        (Weak::SilenceIsNotSent, &RAIL, UNPAID),
        (Weak::RefusalSettlesAll, &RAIL, UNPAID),
        (Weak::SendsAnyTime, &RAIL, ONCE),
        (Weak::SendsAnyTime, &RAIL, ALONE),
        (Weak::CancelWhileIntended, &RAIL, UNPAID),
        (Weak::ExpiresWhileIntended, &RAIL, UNPAID),
        (Weak::NoWake, &RAIL, WAKES),
        (Weak::RailForgetsAtOnce, &RAIL, MATCH),
        (Weak::RequestOutlivesKey, &RAIL, ONCE),
        (Weak::Unfenced, &SLOW, ALONE),
        (Weak::NoReadLag, &LAG, ASKED),
        (Weak::NoReadLag, &KEYLESS, ONCE),
        (Weak::OldAnswers, &LAG, ASKED),
        (Weak::OldAnswers, &KEYLESS, ONCE),
        (Weak::SpeaksTwice, &PEOPLE_DECIDE, PERSONS),
        (Weak::NoCompareAndSet, &HELD, HOLD),
        (Weak::NoCompareAndSet, &PEOPLE_DECIDE, ABSORB),
        (Weak::NoCompareAndSet, &PEOPLE_DECIDE, VERSION),
        (Weak::DecisionsBlind, &PEOPLE_DECIDE, HOLD),
        (Weak::RequesterUnderAnotherName, &PEOPLE_DECIDE, PERSONS),
        (Weak::QuorumOnce, &POLICY, QUORUM),
        (Weak::HoldIsDeaf, &BY_HAND, ONCE),
        (Weak::HoldWhileIntended, &BY_HAND, ONCE),
        (Weak::PaysByHandUnheld, &BY_HAND, ONCE),
        (Weak::AttestsTooSoon, &BY_HAND, ONCE),
        (Weak::GroupsAlike, &KEYLESS, UNPAID),
        (Weak::AttestationIsBelieved, &KEYLESS, ONCE),
        (Weak::CancelWhileHeld, &HELD, UNPAID),
        (Weak::ExpiresWhileHeld, &HELD, UNPAID),
    ];
    for promise in promises::always() {
        assert!(teeth.iter().any(|tooth| tooth.2 == promise.name), "nothing is said to break {:?}", promise.name);
    }
    let toothless: Vec<_> =
        teeth.into_iter().filter(|(weak, bounds, promise)| broken(bounds, *weak, promise).is_none()).collect();
    assert!(toothless.is_empty(), "nothing breaks: {:?}", toothless.iter().map(|it| (it.0, it.2)).collect::<Vec<_>>());
}
