//! The model's state: a real payment in a store, a rail, two workers, people, and what is between them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use countersign::domain::{Choice, Payment, Status, Timestamp};

use crate::harness::payments::CREATED_AT;

/// A moment of the model's clock.
pub(super) type Tick = i64;

/// What one tick is worth to the real functions, in microseconds.
pub(super) const TICK: i64 = 1_000_000;

/// The real instant of a tick.
pub(super) const fn at(tick: Tick) -> Timestamp {
    CREATED_AT.plus_micros(tick * TICK)
}

/// A row of `payments`: the real thing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row(pub(super) Arc<Payment>);

impl Row {
    /// Hashes what can still make a difference at `now`: counters by what they are compared with, instants
    /// by how far off they are, and those that have passed as passed. So time need not end.
    fn hash_at<H: Hasher>(&self, now: Tick, spans: Spans, state: &mut H) {
        let payment = &*self.0;
        let due = |instant: Option<Timestamp>| instant.map(|it| it.max(at(now)).since(at(now)));
        let execution = &payment.execution;
        (payment.status, payment.round, payment.held_at.is_some(), &payment.attention).hash(state);
        (payment.notice.attempts, due(payment.notice.next_at), payment.notice.check_at.is_some()).hash(state);
        (execution.phase, execution.group, execution.sends - execution.not_sent).hash(state);
        (execution.sends > 0, execution.queries > 0, due(execution.next_at)).hash(state);
        (due(execution.resend_until), execution.cancel_requested_at.is_some(), &execution.transfer_id).hash(state);
        execution.last_send_at.map(|sent| at(now).since(sent).min(at(spans.settled).since(at(0)))).hash(state);
        payment.terms.policy.required().hash(state);
    }
}

/// An outbound key. The real one is the payment's and its group's; `attempt` is 0 but for a weakness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) group: i64,
    pub(super) attempt: u32,
}

/// What the rail answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Answer {
    /// Money moved: the transfer of this number. `again`: a repeated key was answered as before.
    Paid {
        transfer: usize,
        again: bool,
    },
    Refused,
}

/// A request under way to the rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Request {
    pub(super) key: Key,
    pub(super) sent: Tick,
    /// The worker that still waits for its answer.
    pub(super) from: Option<usize>,
}

/// What the rail shows of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Listed {
    pub(super) key: Key,
    pub(super) at: Tick,
    pub(super) paid: bool,
}

/// The rail: a ledger, and the keys that it remembers for a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rail {
    pub(super) ledger: Vec<Listed>,
    pub(super) keys: Vec<(Key, Answer, Tick)>,
}

impl Rail {
    /// How often money moved.
    pub(super) fn paid(&self) -> usize {
        self.ledger.iter().filter(|line| line.paid).count()
    }
}

/// What a look-up saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Seen {
    Found(usize),
    Refused,
    Differs,
    Nothing,
    NoAnswer,
}

/// What an attempt came to, before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Word {
    Confirmed(usize),
    Refused,
    NotSent,
    Unknown,
    Reached,
    Unreachable,
}

/// What a worker does next for the payment it claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Step {
    Deadline,
    Notify,
    Start,
    SendAgain,
    LookUp,
    Nothing,
}

/// Where a worker is; it may die at any of these.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    Idle,
    /// Claimed, the step chosen; before the first transaction (CP1, CP2).
    Chosen(Step),
    /// The intent is durable, since `age` ticks; before the first byte (CP3).
    Recorded {
        key: Key,
        age: Tick,
    },
    /// The request has left (CP4, CP5).
    Calling {
        key: Key,
        answer: Option<Answer>,
    },
    /// The notification has left.
    Notifying,
    /// The answer is there; before the second transaction, or in it: read, not yet written (CP6, CP7).
    Answered {
        group: i64,
        told: Word,
        read: Option<Read>,
    },
    /// A look-up's answer is read; before it is stored. `asked`: the row when the rail was asked.
    Learned {
        seen: Seen,
        asked: Read,
    },
}

/// What a transaction read: how far behind the row is now is in the hash, the payment itself is not.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) row: Arc<Payment>,
    pub(super) now: Tick,
}

impl PartialEq for Read {
    fn eq(&self, other: &Self) -> bool {
        (self.row.version, self.now) == (other.row.version, other.now)
    }
}
impl Eq for Read {}
impl PartialOrd for Read {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Read {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.row.version, self.now).cmp(&(other.row.version, other.now))
    }
}
impl Hash for Read {
    /// Version and time are hashed by [`World`], relative to its own.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.row.status, self.row.execution.phase).hash(state);
    }
}

/// A person's word in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Given {
    pub(super) signer: usize,
    pub(super) choice: Says,
    pub(super) round: i64,
    /// Kept after the quorum was complete: it has no effect.
    pub(super) surplus: bool,
    /// The attempts to reach the signers had run out.
    pub(super) late: bool,
}

/// [`Choice`] with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Says {
    Approve,
    Reject,
}

impl From<Says> for Choice {
    fn from(choice: Says) -> Self {
        match choice {
            Says::Approve => Self::Approve,
            Says::Reject => Self::Reject,
        }
    }
}

/// What a person asks, between the read and the write of its transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Ask {
    Decide { signer: usize, choice: Says, earlier: Vec<Given> },
    Cancel,
}

/// How much may still go wrong, and how much may still be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) crashes: u8,
    pub(super) duplicates: u8,
    pub(super) refusals: u8,
    pub(super) not_sent: u8,
    pub(super) cancels: u8,
    pub(super) holds: u8,
    pub(super) supersedes: u8,
    pub(super) attestations: u8,
    pub(super) policy_changes: u8,
}

/// A promise that a step broke, where the state alone does not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Broken {
    /// I2.
    Quorum,
    /// I3.
    Absorb,
    /// I11.
    Persons,
    /// I12.
    Version,
    /// A hold did not hold.
    Hold,
    /// Sent again without a look-up that could have shown the attempt before.
    Asked,
}

/// How far back anything matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spans {
    /// After this the clock says nothing new to terms.
    pub(super) over: Tick,
    /// After this a transfer is seen.
    pub(super) seen: Tick,
    /// After this an attempt may be attested.
    pub(super) settled: Tick,
}

/// The whole of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct World {
    pub(super) now: Tick,
    pub(super) row: Row,
    pub(super) votes: Vec<Given>,
    /// Who holds the lease, until when.
    pub(super) lease: Option<(usize, Tick)>,
    pub(super) workers: [Place; 2],
    pub(super) desk: Vec<(Ask, Read)>,
    pub(super) wire: Vec<Request>,
    pub(super) rail: Rail,
    /// Somebody paid by hand, outside the rail.
    pub(super) by_hand: bool,
    /// Whose key was revoked.
    pub(super) revoked: Option<usize>,
    /// The policy in force asks for one more.
    pub(super) tightened: bool,
    pub(super) left: Left,
    pub(super) broken: Vec<Broken>,
    /// Attempts so far, where a weakness puts them into the key.
    pub(super) attempts: u32,
    pub(super) spans: Spans,
}

impl World {
    pub(super) fn payment(&self) -> &Payment {
        &self.row.0
    }

    pub(super) fn status(&self) -> Status {
        self.row.0.status
    }

    /// How often the order was paid.
    pub(super) fn paid(&self) -> usize {
        self.rail.paid() + usize::from(self.by_hand)
    }

    pub(super) fn read(&self) -> Read {
        Read { row: Arc::clone(&self.row.0), now: self.now }
    }

    /// How far a transaction's read lies behind, in versions and in time.
    fn behind(&self, read: &Read) -> (i64, Tick) {
        (self.row.0.version - read.row.version, self.now - read.now)
    }

    /// Whether another attempt was begun or another key came since the rail was asked; if not, how long ago that was.
    fn since(&self, asked: &Read) -> (i64, Tick) {
        if self.same_attempt(asked) { (0, self.now - asked.now) } else { (1, 0) }
    }

    /// Whether the last attempt is the one that a look-up asked about.
    pub(super) fn same_attempt(&self, asked: &Read) -> bool {
        let [then, now] = [&asked.row, &self.row.0].map(|row| (row.execution.group, row.execution.sends));
        then == now
    }

    /// All there is to a worker; the two are alike, so their order is not part of the state.
    fn worker(&self, which: usize) -> Worker<'_> {
        let place = &self.workers[which];
        let behind = match place {
            Place::Answered { read: Some(read), .. } => Some(self.behind(read)),
            Place::Learned { asked, .. } => Some(self.since(asked)),
            _ => None,
        };
        let lease = self.lease.filter(|(holder, _)| *holder == which).map(|(_, until)| (until - self.now).max(0));
        let request = self.wire.iter().find(|request| request.from == Some(which));
        (place, behind, lease, request.map(|request| (request.key, self.now - request.sent)))
    }
}

type Worker<'a> = (&'a Place, Option<(i64, Tick)>, Option<Tick>, Option<(Key, Tick)>);

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Spans { over, seen, .. } = self.spans;
        (self.now.min(over), self.by_hand, self.revoked, self.tightened).hash(state);
        self.row.hash_at(self.now, self.spans, state);
        self.votes.iter().filter(|given| given.round == self.row.0.round).for_each(|given| given.hash(state));
        let (one, two) = (self.worker(0), self.worker(1));
        if one <= two {
            (one, two).hash(state);
        } else {
            (two, one).hash(state);
        }
        for (ask, read) in &self.desk {
            (ask, read, self.behind(read)).hash(state);
        }
        for request in &self.wire {
            (request.key, self.now - request.sent, request.from.is_some()).hash(state);
        }
        for Listed { key, at, paid } in &self.rail.ledger {
            (key, (self.now - at).min(seen), paid).hash(state);
        }
        for (key, answer, until) in &self.rail.keys {
            (key, answer, until - self.now).hash(state);
        }
        (self.left, &self.broken, self.attempts).hash(state);
    }
}

/// A quorum as it was given before the model begins.
pub(super) fn two_approved() -> Vec<Given> {
    [0, 1].map(|signer| Given { signer, choice: Says::Approve, round: 1, surplus: false, late: false }).to_vec()
}
