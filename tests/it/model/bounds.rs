//! How large the model's world is, and what can be made wrong in it.

use std::time::Duration;

use countersign::domain::{ApprovalPolicy, Backoff, Payment, Reminders, Status, Timing};

use super::world::{Left, Place, Rail, Row, Says, Spans, Tick, World, at};
use crate::harness::payments::{quorum_of, terms};

/// Who may decide; the last is the one the agent asks for, whom the rule names in vain.
pub(super) const PEOPLE: [&str; 4] = ["ana", "ben", "cem", "olivia"];

/// A guard taken away, or a rail or network that breaks its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weak {
    // Of the unknown-outcome protocol.
    NoIntent,
    ResendsForEver,
    NotFoundIsNotPaid,
    AttemptInKey,
    SilenceIsRefusal,
    SilenceIsNotSent,
    RefusalSettlesAll,
    SendsAnyTime,
    CancelWhileIntended,
    ExpiresWhileIntended,
    NoReadLag,
    OldAnswers,
    // Of the store.
    NoCompareAndSet,
    DecisionsBlind,
    Unfenced,
    SpeaksTwice,
    // Of people.
    QuorumOnce,
    RequesterUnderAnotherName,
    HoldIsDeaf,
    HoldWhileIntended,
    PaysByHandUnheld,
    CancelWhileHeld,
    ExpiresWhileHeld,
    AttestsTooSoon,
    AttestationIsBelieved,
    GroupsAlike,
    // Of waking up.
    NoWake,
    // Of the other side.
    RailForgetsAtOnce,
    RequestOutlivesKey,
}

/// How large the world is.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) name: &'static str,
    pub(super) expires_at: Tick,
    pub(super) execute_by: Tick,
    pub(super) lease: Tick,
    pub(super) send_within: Tick,
    pub(super) read_lag: Tick,
    /// How long the rail remembers a key.
    pub(super) key_life: Tick,
    /// The rail promises something about keys; one that does not is sent one request, under way for a key's life.
    pub(super) keeps_keys: bool,
    /// How long a request may be on its way.
    pub(super) way: Tick,
    /// Attempts in doubt at most.
    pub(super) doubts: u32,
    /// The quorum is complete at the start.
    pub(super) signed: bool,
    /// What follows the intent is left out.
    pub(super) until_intent: bool,
    /// A look-up may miss what it should show, however old.
    pub(super) misses: bool,
    /// The rail keeps a refusal under its key and shows it.
    pub(super) keeps_refusals: bool,
    /// People attest that nothing was executed when something was.
    pub(super) errs: bool,
    /// Workers: two at most.
    pub(super) workers: usize,
    /// Reading and writing of a second transaction are two steps.
    pub(super) splits: bool,
    /// The words people give, each once a round; `olivia`'s must not count.
    pub(super) words: &'static [(usize, Says)],
    /// Transactions of people that may be under way at once.
    pub(super) callers: usize,
    pub(super) left: Left,
}

const NOTHING: Left = Left {
    crashes: 0,
    duplicates: 0,
    refusals: 0,
    not_sent: 0,
    cancels: 0,
    holds: 0,
    supersedes: 0,
    attestations: 0,
    policy_changes: 0,
};

/// Two of three must say yes, one may say no, and the one it is for tries.
const WORDS: [(usize, Says); 5] =
    [(0, Says::Approve), (1, Says::Approve), (2, Says::Approve), (2, Says::Reject), (3, Says::Approve)];

/// The rail that lies low: look-ups may miss, keys are forgotten.
pub(super) const RAIL: Bounds = Bounds {
    name: "rail",
    expires_at: 1,
    execute_by: 2,
    lease: 1,
    send_within: 1,
    read_lag: 1,
    key_life: 4,
    keeps_keys: true,
    way: 2,
    doubts: 2,
    signed: true,
    until_intent: false,
    misses: true,
    keeps_refusals: false,
    errs: false,
    workers: 2,
    splits: false,
    words: &[],
    callers: 1,
    left: Left { crashes: 1, refusals: 1, not_sent: 1, cancels: 1, ..NOTHING },
};

/// A network that hands a request to the rail twice.
pub(super) const TWICE: Bounds = Bounds {
    name: "twice",
    misses: false,
    keeps_refusals: true,
    left: Left { crashes: 1, duplicates: 1, refusals: 1, ..NOTHING },
    ..RAIL
};

/// Up to the intent: everybody has a say, two at the same moment.
pub(super) const PEOPLE_DECIDE: Bounds = Bounds {
    name: "people",
    expires_at: 1,
    execute_by: 2,
    signed: false,
    until_intent: true,
    misses: false,
    workers: 1,
    words: &WORDS,
    splits: true,
    callers: 2,
    doubts: 1,
    left: Left { holds: 1, ..NOTHING },
    ..RAIL
};

/// From the first notification to the end: the signers answer late.
pub(super) const LATE: Bounds = Bounds {
    name: "late",
    expires_at: 2,
    execute_by: 3,
    until_intent: false,
    words: WORDS.split_at(3).0,
    callers: 1,
    left: Left { crashes: 1, cancels: 1, ..NOTHING },
    ..PEOPLE_DECIDE
};

/// What operators do by hand, against the worker.
pub(super) const BY_HAND: Bounds = Bounds {
    name: "by hand",
    execute_by: 8,
    misses: false,
    keeps_refusals: true,
    left: Left { crashes: 1, refusals: 1, holds: 1, supersedes: 1, attestations: 1, ..NOTHING },
    ..RAIL
};

/// What changes between the quorum and the intent.
pub(super) const POLICY: Bounds = Bounds {
    name: "policy",
    expires_at: 2,
    execute_by: 3,
    misses: false,
    words: WORDS.split_at(3).0,
    callers: 1,
    doubts: 1,
    left: Left { policy_changes: 2, ..NOTHING },
    ..RAIL
};

/// A hold and a cancel, from the quorum to the end.
pub(super) const HELD: Bounds = Bounds {
    name: "held",
    misses: false,
    doubts: 1,
    left: Left { crashes: 1, not_sent: 1, cancels: 1, holds: 1, ..NOTHING },
    ..RAIL
};

/// An attempt may still be sent when a look-up could show it: workers that sleep and wake meet.
pub(super) const SLOW: Bounds = Bounds {
    name: "slow",
    lease: 2,
    send_within: 2,
    key_life: 10,
    misses: false,
    keeps_refusals: true,
    doubts: 3,
    left: NOTHING,
    ..RAIL
};

/// What the rail carried out shows later than others take over.
pub(super) const LAG: Bounds =
    Bounds { name: "lag", read_lag: 3, doubts: 2, left: Left { crashes: 1, ..NOTHING }, ..SLOW };

/// A rail that promises nothing about keys, and people who attest what is not so.
pub(super) const KEYLESS: Bounds = Bounds {
    name: "keyless",
    execute_by: 9,
    lease: 2,
    read_lag: 2,
    keeps_keys: false,
    way: 4,
    misses: false,
    keeps_refusals: true,
    errs: true,
    doubts: 1,
    left: Left { refusals: 1, attestations: 1, ..NOTHING },
    ..RAIL
};

/// The model: bounds, the real functions' spans, and perhaps one weakness.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) bounds: Bounds,
    pub(super) weak: Option<Weak>,
    pub(super) timing: Timing,
    pub(super) policy: ApprovalPolicy,
}

impl Bounds {
    /// More of everything, for the deep check; but not of two worlds that would not end in ten
    /// minutes: where people decide only a cancel comes, and what is done by hand meets one more crash and refusal.
    pub(super) fn deeper(mut self) -> Self {
        let more = |count: &mut u8| *count += u8::from(*count > 0);
        let by_hand = self.left.supersedes > 0;
        let Left { crashes, cancels, not_sent, refusals, .. } = &mut self.left;
        [crashes, not_sent, refusals].into_iter().for_each(more);
        *cancels = (*cancels).max(u8::from(self.signed && !by_hand || self.until_intent));
        if self.keeps_refusals && self.keeps_keys && !by_hand {
            self.left.duplicates = 1;
        }
        if self.doubts > 1 && !by_hand {
            self.doubts += 1;
        }
        self
    }
}

fn ticks(count: Tick) -> Duration {
    at(count).since(at(0))
}

impl Desk {
    pub(super) fn new(bounds: Bounds, weak: Option<Weak>) -> Self {
        let mut bounds = bounds;
        let every_tick =
            |attempts| Backoff { base: ticks(1), cap: ticks(1), fast_attempts: u32::MAX, slow: ticks(1), attempts };
        let mut timing = Timing {
            notify: every_tick(2),
            reminders: Reminders::NONE,
            check_every: ticks(1_000),
            query: every_tick(u32::MAX),
            lease: ticks(bounds.lease),
            read_lag: ticks(bounds.read_lag),
            resend_window: bounds.keeps_keys.then(|| ticks(bounds.key_life) / 2),
            settle_after: ticks(bounds.key_life + bounds.read_lag),
        };
        match weak {
            Some(Weak::ResendsForEver) => timing.resend_window = Some(ticks(1_000)),
            Some(Weak::NoReadLag) => {
                timing.read_lag = Duration::ZERO;
                timing.settle_after = ticks(bounds.key_life);
            }
            Some(Weak::AttestsTooSoon) => timing.settle_after = Duration::ZERO,
            Some(Weak::RailForgetsAtOnce) => bounds.key_life = 0,
            Some(Weak::RequestOutlivesKey) => bounds.way = bounds.key_life + 1,
            _ => {}
        }
        Self { bounds, weak, timing, policy: quorum_of(2, &PEOPLE) }
    }

    /// The one state that everything begins with.
    pub(super) fn first(&self) -> World {
        let mut terms = terms();
        terms.policy = self.policy.clone();
        terms.expires_at = at(self.bounds.expires_at);
        terms.execute_by = at(self.bounds.execute_by);
        let mut payment = Payment::new(terms, String::new(), String::new(), at(0));
        if self.bounds.signed {
            payment.status = Status::Signed;
            payment.notice.next_at = None;
            payment.execution.next_at = Some(at(0));
        }
        let votes = if self.bounds.signed { super::world::two_approved() } else { Vec::new() };
        World {
            now: 0,
            row: Row(payment.into()),
            votes,
            lease: None,
            workers: [Place::Idle, Place::Idle],
            desk: Vec::new(),
            wire: Vec::new(),
            rail: Rail::default(),
            by_hand: false,
            revoked: None,
            tightened: false,
            left: self.bounds.left,
            broken: Vec::new(),
            attempts: 0,
            spans: Spans {
                over: self.bounds.execute_by.max(self.bounds.expires_at),
                seen: self.bounds.read_lag,
                settled: if self.bounds.left.attestations > 0 { self.bounds.key_life } else { 0 }
                    + self.bounds.read_lag,
            },
        }
    }
}
