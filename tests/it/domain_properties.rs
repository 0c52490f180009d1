//! What no sequence of events may break: random ones, and a small world with a rail that can pay twice.

use std::cell::RefCell;
use std::collections::BTreeMap;

use countersign::domain::{
    Asker, Event, ExecutionStep, Finding, Payment, Phase, Reach, SignerTrouble, Stage, Standing, Status, Timestamp,
    apply, broken_by, execution_step, may_resend, next_wake,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::harness::payments::{CREATED_AT, EXECUTE_BY, HOUR, SECOND, TIMING, at, check_version, created, quorum_of};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_260_102),
        ..ProptestConfig::default()
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let trouble = || {
        select(vec![
            SignerTrouble::ServiceUnavailable,
            SignerTrouble::Unauthorized,
            SignerTrouble::Timeout,
            SignerTrouble::Refused,
        ])
    };
    let reach = prop_oneof![
        Just(Reach::Reached),
        Just(Reach::UnderWay),
        Just(Reach::Unreachable),
        trouble().prop_map(Reach::Troubled)
    ];
    let standing = prop_oneof![
        2 => Just(Standing::Pending { approvals: 1, level: 0 }),
        4 => Just(Standing::Complete { approvals: 2 }),
        1 => Just(Standing::Rejected),
    ];
    let transfer = || select(vec!["tr-1".to_owned(), "tr-2".to_owned()]);
    let finding = prop_oneof![
        1 => transfer().prop_map(|transfer_id| Finding::Found { transfer_id }),
        1 => Just(Finding::FoundRefused { code: "closed".to_owned() }),
        1 => Just(Finding::Differs),
        4 => Just(Finding::NotFound),
        2 => Just(Finding::Inconclusive),
    ];
    prop_oneof![
        1 => select(vec![Asker::Agent, Asker::Operator]).prop_map(Event::NotifyRequested),
        1 => Just(Event::NotifyStarted),
        1 => (0_i64..4).prop_map(|round| Event::Registered { signer_ref: "sgn-1".to_owned(), round }),
        1 => (0_i64..9).prop_map(|number| Event::Forgotten { signer_ref: "sgn-1".to_owned(), number }),
        1 => (1_i64..9).prop_map(|number| Event::Unreached { number }),
        3 => (1_i64..9, reach).prop_map(|(number, reach)| Event::Notified { number, since: CREATED_AT, reach }),
        1 => trouble().prop_map(Event::RegisterTroubled),
        1 => Just(Event::Hinted),
        1 => Just(Event::Checked),
        3 => (1_i64..3, standing).prop_map(|(round, standing)| Event::Decided {
            round, standing, advanced: false, reason: String::new(), counter_back: false
        }),
        2 => Just(Event::Deadline),
        1 => Just(Event::Cancel),
        1 => Just(Event::QuorumLost { reason: "lost".to_owned(), policy: Box::new(quorum_of(1, &["ana"])), document: "{}".to_owned(), digest: "d".to_owned() }),
        6 => Just(Event::ExecutionIntended),
        6 => Just(Event::SendStarted),
        1 => transfer().prop_map(|transfer_id| Event::RailConfirmed { group: 1, transfer_id }),
        1 => Just(Event::RailRefused { group: 1, code: "declined".to_owned() }),
        3 => Just(Event::RailNotSent { group: 1, retry_after: None }),
        3 => any::<bool>().prop_map(|mismatch| Event::RailUnknown { group: 1, mismatch }),
        6 => finding.prop_map(Event::LookedUp),
        1 => any::<bool>().prop_map(|done| Event::CloseTold { done }),
    ]
}

/// Events, each with the seconds since the one before: mostly short, sometimes hours.
fn history() -> impl Strategy<Value = Vec<(i64, Event)>> {
    let pause = prop_oneof![8 => 0_i64..60, 1 => 3_600_i64..60_000];
    prop::collection::vec((pause, any_event()), 1..60)
}

/// Whether an attempt may have been carried out although nobody has said so.
fn in_doubt(payment: &Payment) -> bool {
    payment.execution.sends > payment.execution.not_sent
}

/// What happened to what.
#[derive(Debug)]
#[expect(dead_code, reason = "read by its Debug form")]
struct Told<'a>(&'a Event, &'a Payment);

fn check_step(before: &Payment, event: &Event, after: &Payment, now: Timestamp) {
    // Rendered only where something is broken.
    let told = Told(event, before);
    let changed = after.version != before.version;
    // Here people decide nothing and the quorum is what the event says.
    let broken = if changed { broken_by(before, after) } else { None };
    assert!(broken.is_none(), "{broken:?}: {told:?} → {after:?}");
    let ended = before.status.is_terminal();
    assert!(!ended || after.status == before.status, "an end absorbs: {told:?}");
    assert!(!ended || after.execution.phase == before.execution.phase, "an end absorbs: {told:?}");
    assert!(after.execution.not_sent <= after.execution.sends, "{told:?}");
    assert!(after.held_at.is_some() || ended_or_due(after), "something must wake it: {told:?}");

    let became = |status| after.status == status && before.status != status;
    let confirmed = matches!(event, Event::RailConfirmed { .. } | Event::LookedUp(Finding::Found { .. }));
    assert!(!became(Status::Executed) || confirmed, "money moved by the rail's word only: {told:?}");
    assert!(!became(Status::Executed) || before.status == Status::Signed, "only what was signed is executed: {told:?}");
    assert_eq!(after.status == Status::Executed, after.execution.phase == Phase::Confirmed, "{told:?}");

    let unpaid = [Status::Rejected, Status::Expired, Status::Cancelled, Status::Failed];
    if unpaid.into_iter().any(became) {
        let settled = match event {
            Event::LookedUp(Finding::FoundRefused { .. }) => true,
            Event::RailRefused { .. } => before.execution.not_sent + 1 == before.execution.sends,
            _ => !in_doubt(after),
        };
        assert!(settled, "an end without payment while an attempt is in doubt: {told:?}");
    }
    if before.execution.phase != Phase::None && after.execution.phase == Phase::None {
        assert!(after.status == Status::Cancelled && !in_doubt(after), "a phase goes back: {told:?}");
    }
    if after.execution.sends > before.execution.sends {
        assert_eq!(after.execution.sends, before.execution.sends + 1, "{told:?}");
        let safe = !in_doubt(before) || may_resend(before, now, &TIMING);
        assert!(safe, "a second send while the first is in doubt: {told:?}");
    }

    for wait in [0, 30 * SECOND, 100 * HOUR] {
        let now = now.plus_micros(wait);
        match execution_step(after, now) {
            ExecutionStep::Start => assert_eq!((after.status, after.execution.phase), (Status::Signed, Phase::None)),
            ExecutionStep::SendAgain => assert!(!in_doubt(after) && after.execution.sends > 0, "{told:?}"),
            ExecutionStep::LookUp => assert!(in_doubt(after), "{told:?}"),
            ExecutionStep::Wait => {}
        }
        if may_resend(after, now, &TIMING) {
            assert!(after.execution.resend_until.is_some_and(|until| now < until), "{told:?}");
            assert!(after.execution.last_send_at.is_some_and(|sent| now >= sent.plus(TIMING.read_lag)), "{told:?}");
            assert_eq!(after.execution.cancel_requested_at, None, "{told:?}");
        }
    }
}

fn ended_or_due(payment: &Payment) -> bool {
    payment.status.is_terminal() || next_wake(payment).is_some()
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn no_sequence_of_events_breaks_a_promise(history in history(), held_from in prop::option::weighted(0.1, 0_usize..40)) {
        let mut payment = created();
        let mut now = CREATED_AT;
        for (step, (pause, event)) in history.into_iter().enumerate() {
            now = now.plus_micros(pause * SECOND);
            if held_from.is_some_and(|from| step >= from) && !payment.status.is_terminal() {
                payment.held_at = Some(now);
            }
            if let Ok(applied) = apply(&payment, event.clone(), &at(now)) {
                check_version(&payment, &applied, "step");
                check_step(&payment, &event, &applied.payment, now);
                payment = applied.payment;
            }
        }
    }

    #[test]
    fn a_refusal_leaves_no_trace_and_an_event_told_twice_moves_nothing_further(history in history()) {
        let mut payment = created();
        let mut now = CREATED_AT;
        for (pause, event) in history {
            now = now.plus_micros(pause * SECOND);
            let Ok(once) = apply(&payment, event.clone(), &at(now)) else { continue };
            if let Ok(twice) = apply(&once.payment, event.clone(), &at(now)) {
                let counts_sends = matches!(event, Event::SendStarted | Event::RailNotSent { .. });
                let exhausts = matches!(event, Event::Notified { .. } | Event::Unreached { .. } | Event::RegisterTroubled(_));
                if !counts_sends && !exhausts {
                    prop_assert_eq!(twice.payment.status, once.payment.status, "{:?}", event);
                    prop_assert_eq!(twice.payment.execution.phase, once.payment.execution.phase);
                    prop_assert_eq!(twice.payment.approvals, once.payment.approvals);
                }
            }
            payment = once.payment;
        }
    }
}

/// How an attempt goes at the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    /// On its way: it may still be carried out.
    InFlight,
    /// It will never arrive.
    Gone,
    /// It arrived and was answered so.
    Answered(Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Paid,
    Refused,
}

/// One thing that happens in the small world; `usize` picks one of the attempts.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Pause(i64),
    Work,
    Arrives(usize, bool),
    Lost(usize),
    NeverLeft(usize),
    Reported(usize),
    InDoubt(usize),
    Sees,
    Tells,
    Cancel,
    Deadline,
}

/// The gateway, one rail and the messages between them. Two workers may act on stale answers.
struct World {
    payment: Payment,
    now: Timestamp,
    letters: Vec<(Timestamp, Letter, bool)>,
    /// Whether the rail keeps a refusal under the key, or judges every request anew.
    keeps_refusals: bool,
    refused: bool,
    /// Until when the rail knows the key.
    key_until: Option<Timestamp>,
    paid: u32,
    /// What a look-up saw, told some time later.
    seen: Option<Finding>,
}

/// The rail keeps keys for a day; a request that is not there after half of that is not coming.
const KEY_LIFE: i64 = 24 * HOUR;
const LONGEST_WAY: i64 = 12 * HOUR;

impl World {
    fn new(keeps_refusals: bool, now: Timestamp) -> Self {
        let mut payment = created();
        payment.status = Status::Signed;
        payment.approvals = 2;
        payment.execution.next_at = Some(now);
        let (letters, seen) = (Vec::new(), None);
        Self { payment, now, letters, keeps_refusals, refused: false, key_until: None, paid: 0, seen }
    }

    fn take(&mut self, event: &Event) -> bool {
        let Ok(applied) = apply(&self.payment, event.clone(), &at(self.now)) else { return false };
        check_version(&self.payment, &applied, "world");
        check_step(&self.payment, event, &applied.payment, self.now);
        self.payment = applied.payment;
        true
    }

    fn send(&mut self, event: &Event) {
        if self.take(event) {
            self.letters.push((self.now, Letter::InFlight, false));
        }
    }

    fn work(&mut self) {
        match execution_step(&self.payment, self.now) {
            ExecutionStep::Start => self.send(&Event::ExecutionIntended),
            ExecutionStep::SendAgain => self.send(&Event::SendStarted),
            ExecutionStep::LookUp => self.told(self.look()),
            ExecutionStep::Wait => {}
        }
    }

    fn told(&mut self, finding: Finding) {
        let again = finding == Finding::NotFound && may_resend(&self.payment, self.now, &TIMING);
        self.take(&Event::LookedUp(finding));
        if again {
            self.send(&Event::SendStarted);
        }
    }

    fn look(&self) -> Finding {
        if self.paid > 0 {
            Finding::Found { transfer_id: "tr-1".to_owned() }
        } else if self.refused && self.keeps_refusals {
            Finding::FoundRefused { code: "declined".to_owned() }
        } else {
            Finding::NotFound
        }
    }

    fn arrives(&mut self, which: usize, declines: bool) {
        let Some((sent, letter, _)) = self.letters.get_mut(which) else { return };
        if *letter != Letter::InFlight {
            return;
        }
        if self.now > sent.plus_micros(LONGEST_WAY) {
            *letter = Letter::Gone;
            return;
        }
        let known = self.key_until.is_some_and(|until| self.now < until);
        let answer = if known && self.paid > 0 {
            Answer::Paid
        } else if (known && self.refused && self.keeps_refusals) || declines {
            self.refused = true;
            self.key_until.get_or_insert(self.now.plus_micros(KEY_LIFE));
            Answer::Refused
        } else {
            self.paid += 1;
            self.key_until = Some(self.now.plus_micros(KEY_LIFE));
            Answer::Paid
        };
        *letter = Letter::Answered(answer);
    }

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Pause(seconds) => self.now = self.now.plus_micros(seconds * SECOND),
            Happening::Work => self.work(),
            Happening::Arrives(which, declines) => self.arrives(which, declines),
            Happening::Lost(which) => {
                if let Some((_, letter @ Letter::InFlight, _)) = self.letters.get_mut(which) {
                    *letter = Letter::Gone;
                }
            }
            Happening::NeverLeft(which) => {
                // Told only by the attempt itself, once, and only where it is true.
                if let Some((_, letter @ Letter::InFlight, told @ false)) = self.letters.get_mut(which) {
                    (*letter, *told) = (Letter::Gone, true);
                    self.take(&Event::RailNotSent { group: 1, retry_after: None });
                }
            }
            Happening::Reported(which) => {
                if let Some((_, Letter::Answered(answer), told @ false)) = self.letters.get_mut(which) {
                    *told = true;
                    let answer = *answer;
                    self.take(&match answer {
                        Answer::Paid => Event::RailConfirmed { group: 1, transfer_id: "tr-1".to_owned() },
                        Answer::Refused => Event::RailRefused { group: 1, code: "declined".to_owned() },
                    });
                }
            }
            Happening::InDoubt(which) => {
                if let Some((.., told @ false)) = self.letters.get_mut(which) {
                    *told = true;
                    self.take(&Event::RailUnknown { group: 1, mismatch: false });
                }
            }
            Happening::Sees => self.seen = (!self.letters.is_empty()).then(|| self.look()),
            Happening::Tells => {
                // However long ago it was seen: no lease is believed in here.
                if let Some(finding) = self.seen.take() {
                    self.told(finding);
                }
            }
            Happening::Cancel => {
                self.take(&Event::Cancel);
            }
            Happening::Deadline => {
                self.take(&Event::Deadline);
            }
        }
        self.check(happening);
    }

    fn check(&self, last: Happening) {
        assert!(self.paid <= 1, "paid {} times, after {last:?}: {:?}", self.paid, self.payment);
        let unpaid = match self.payment.status {
            Status::Rejected | Status::Expired | Status::Cancelled | Status::Failed => true,
            Status::Executed => {
                assert_eq!(self.paid, 1, "executed and not paid, after {last:?}");
                false
            }
            _ => false,
        };
        assert!(!unpaid || self.paid == 0, "ended unpaid and paid, after {last:?}: {:?}", self.payment);
    }

    /// Lets everything arrive and the worker go on for days: it must come to its true end.
    fn settles(&mut self) {
        for _ in 0..400 {
            for which in 0..self.letters.len() {
                self.happens(Happening::Arrives(which, false));
            }
            if self.payment.status.is_terminal() {
                return;
            }
            let wake = next_wake(&self.payment).expect("something must wake it");
            self.now = self.now.max(wake);
            self.happens(Happening::Deadline);
            self.happens(Happening::Work);
        }
        let asks = !self.payment.attention.is_empty();
        assert!(asks || self.payment.status.stage() == Stage::Ended, "neither ends nor asks: {:?}", self.payment);
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0_i64..90).prop_map(Happening::Pause),
        1 => (3_600_i64..50_000).prop_map(Happening::Pause),
        8 => Just(Happening::Work),
        4 => (0_usize..4, prop::bool::weighted(0.3)).prop_map(|(which, declines)| Happening::Arrives(which, declines)),
        2 => (0_usize..4).prop_map(Happening::Lost),
        3 => (0_usize..4).prop_map(Happening::NeverLeft),
        3 => (0_usize..4).prop_map(Happening::Reported),
        2 => (0_usize..4).prop_map(Happening::InDoubt),
        2 => Just(Happening::Sees),
        2 => Just(Happening::Tells),
        1 => Just(Happening::Cancel),
        1 => Just(Happening::Deadline),
    ]
}

#[test]
fn whatever_is_lost_late_or_refused_the_rail_pays_at_most_once_and_the_end_is_true() {
    let ends = RefCell::new(BTreeMap::<&str, u32>::new());
    let note = |what| *ends.borrow_mut().entry(what).or_default() += 1;
    let starts = select(vec![CREATED_AT, EXECUTE_BY.plus_micros(-60 * SECOND)]);
    let worlds = (any::<bool>(), starts, prop::collection::vec(happening(), 1..50));
    TestRunner::new(config(1_500))
        .run(&worlds, |(keeps_refusals, start, happenings)| {
            let mut world = World::new(keeps_refusals, start);
            for happening in happenings {
                world.happens(happening);
            }
            world.settles();
            note(world.payment.status.as_str());
            if world.payment.execution.sends - world.payment.execution.not_sent > 1 {
                note("more than one attempt that may have paid");
            }
            if world.payment.status == Status::Signed {
                note("left to a person");
            }
            Ok(())
        })
        .unwrap();
    // The world is worth its name only if it goes everywhere.
    let ends = ends.into_inner();
    let places =
        ["EXECUTED", "FAILED", "CANCELLED", "EXPIRED", "more than one attempt that may have paid", "left to a person"];
    for place in places {
        assert!(ends.get(place).is_some_and(|times| *times >= 10), "{place}: {ends:?}");
    }
}
