//! What the journal does around the real functions, step by step; every decision is theirs.
//!
//! A worker's transaction under its lease is one step: renewing the lease locks the row. The second
//! transaction of an attempt and a person's call read first and write later, by compare-and-set, and
//! others come between.

use std::sync::Arc;

use countersign::domain::{
    Applied, Code, Event, ExecutionStep, Finding, Moment, Payment, Phase, Reach, Refusal, Stage, Status, Turn, Vote,
    apply, cast, execution_step, is_requester, lost, may_send, next_wake, sends_again, still_says,
};

use super::bounds::{Desk, PEOPLE, Weak};
use super::world::{Ask, Broken, Given, Key, Place, Read, Request, Row, Says, Seen, Step, TICK, Tick, Word, World, at};

/// What the update names beside the version, as `store::Guard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    Version,
    Decision,
}

/// Why a transaction was rolled back.
enum Stop {
    /// `VERSION_CONFLICT`, or another refusal that leaves the lease to run out.
    Refused,
    /// `PAYMENT_ON_MANUAL_HOLD`: the lease is given back.
    Held,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        if refusal.code == Code::PaymentOnManualHold { Self::Held } else { Self::Refused }
    }
}

impl Desk {
    fn moment(&self, now: Tick) -> Moment<'_> {
        // Half a tick of luck: every wait is a whole number of ticks.
        Moment { now: at(now), roll: TICK.unsigned_abs() / 2, timing: &self.timing }
    }

    /// `apply`, or what a weakness makes of it.
    fn apply(&self, before: &Payment, event: Event, now: Tick) -> Result<Applied, Refusal> {
        let mut seen = before.clone();
        match (self.weak, &event) {
            (Some(Weak::CancelWhileIntended), Event::Cancel)
            | (Some(Weak::ExpiresWhileIntended), Event::Deadline)
            | (Some(Weak::HoldWhileIntended), Event::Held) => {
                if seen.execution.phase != Phase::Confirmed {
                    seen.execution.phase = Phase::None;
                }
            }
            (Some(Weak::CancelWhileHeld), Event::Cancel) | (Some(Weak::ExpiresWhileHeld), Event::Deadline) => {
                seen.held_at = None;
            }
            (Some(Weak::RefusalSettlesAll), Event::RailRefused { .. }) => {
                seen.execution.not_sent = seen.execution.sends.saturating_sub(1);
            }
            (Some(Weak::HoldIsDeaf), Event::ExecutionIntended) => seen.held_at = None,
            _ => {}
        }
        let deaf = self.weak == Some(Weak::HoldIsDeaf) && event == Event::ExecutionIntended;
        let believed = self.weak == Some(Weak::AttestationIsBelieved) && event == Event::AttestedNotExecuted;
        let mut applied = apply(&seen, event, &self.moment(now))?;
        if deaf {
            applied.payment.held_at = before.held_at;
        }
        if believed {
            applied.payment.execution.phase = Phase::None;
        }
        if self.weak == Some(Weak::NoWake) && applied.payment.execution.phase == Phase::Unknown {
            applied.payment.execution.next_at = None;
        }
        Ok(applied)
    }

    /// As `Journal::change`: applied to what was read, stored if the row still is that.
    fn change(&self, world: &mut World, read: &Read, event: Event, guard: Guard) -> Result<(), Stop> {
        let by_hand = matches!(
            event,
            Event::Held | Event::Released | Event::AttestedExecuted { .. } | Event::AttestedNotExecuted
        );
        let applied = self.apply(&read.row, event, read.now)?;
        if !applied.changed(&read.row) {
            return Ok(());
        }
        let row = Arc::clone(&world.row.0);
        let blind = match self.weak {
            Some(Weak::NoCompareAndSet) => true,
            Some(Weak::DecisionsBlind) => guard == Guard::Decision,
            _ => false,
        };
        if row.version != read.row.version && !blind {
            return Err(Stop::Refused);
        }
        let guarded = guard == Guard::Decision && self.weak != Some(Weak::DecisionsBlind);
        let holds = row.round == read.row.round && row.terms.expires_at > at(read.now) && row.held_at.is_none();
        if guarded && !holds {
            return Err(Stop::Refused);
        }
        let after = applied.payment;
        let mut breaks = |what, broken: bool| {
            if broken && !world.broken.contains(&what) {
                world.broken.push(what);
            }
        };
        breaks(Broken::Version, after.version != row.version + 1);
        breaks(Broken::Absorb, row.status.is_terminal() && after.status != row.status);
        // A notification's outcome is still noted.
        let moved = (after.status.stage(), after.execution.phase) != (row.status.stage(), row.execution.phase);
        breaks(Broken::Hold, row.held_at.is_some() && moved && !by_hand);
        world.row = Row(Arc::new(after));
        Ok(())
    }

    /// One event by itself, in a transaction that has taken the row.
    pub(super) fn at_once(&self, world: &World, event: Event) -> Option<World> {
        let mut next = world.clone();
        let read = next.read();
        self.change(&mut next, &read, event, Guard::Version).ok()?;
        (next.row.0.version != world.row.0.version).then_some(next)
    }

    // Workers.

    /// Whether the row is due and free, as the claim's statement asks.
    pub(super) fn claimable(&self, world: &World) -> bool {
        let due = next_wake(world.payment()).is_some_and(|wake| wake <= at(world.now));
        due && world.lease.is_none_or(|(_, until)| until <= world.now)
    }

    /// What `work` finds to do for a payment that was claimed now.
    pub(super) fn step(&self, world: &World) -> Step {
        let (payment, now) = (world.payment(), at(world.now));
        let out_of_time = self.apply(payment, Event::Deadline, world.now).is_ok_and(|it| it.changed(payment));
        match payment.status.stage() {
            _ if out_of_time => Step::Deadline,
            Stage::Open if payment.notice.next_at.is_some_and(|due| due <= now) => Step::Notify,
            Stage::Open | Stage::Ended => Step::Nothing,
            Stage::Signed => match execution_step(payment, now) {
                ExecutionStep::Start => Step::Start,
                ExecutionStep::SendAgain => Step::SendAgain,
                ExecutionStep::LookUp => Step::LookUp,
                ExecutionStep::Wait => Step::Nothing,
            },
        }
    }

    /// The fence: renews the lease, or says that another has taken over.
    fn under_lease(&self, world: &mut World, who: usize) -> bool {
        let ours = world.lease.is_some_and(|(holder, until)| holder == who && until > world.now);
        if ours {
            world.lease = Some((who, world.now + self.bounds.lease));
        }
        ours || self.weak == Some(Weak::Unfenced)
    }

    fn release(world: &mut World, who: usize) {
        if world.lease.is_some_and(|(holder, _)| holder == who) {
            world.lease = None;
        }
    }

    /// A transaction under the lease: all of `events` or none, then the worker goes on to `to`.
    fn recorded(&self, world: &World, who: usize, events: Vec<Event>, to: Place) -> World {
        let mut next = world.clone();
        let done = if self.under_lease(&mut next, who) {
            events.into_iter().try_for_each(|event| {
                let read = next.read();
                self.change(&mut next, &read, event, Guard::Version)
            })
        } else {
            Err(Stop::Refused)
        };
        match done {
            Ok(()) => next.workers[who] = to,
            Err(stop) => {
                next = world.clone();
                next.workers[who] = Place::Idle;
                if let Stop::Held = stop {
                    Self::release(&mut next, who);
                }
            }
        }
        next
    }

    fn key(&self, world: &World) -> Key {
        let numbered = self.weak == Some(Weak::AttemptInKey);
        Key { group: world.payment().execution.group, attempt: if numbered { world.attempts + 1 } else { 0 } }
    }

    /// The intent and its attempt, by these events.
    fn intend(&self, world: &World, who: usize, events: Vec<Event>) -> World {
        let key = self.key(world);
        let mut next = self.recorded(world, who, events, Place::Recorded { key, age: 0 });
        if key.attempt > 0 && matches!(next.workers[who], Place::Recorded { .. }) {
            next.attempts += 1;
        }
        next
    }

    /// What `Chosen` leads to: the first transaction, or the question to the rail, which is [`Self::look`].
    pub(super) fn begin(&self, world: &World, who: usize, step: Step) -> World {
        match step {
            Step::Deadline => {
                let mut next = self.recorded(world, who, vec![Event::Deadline], Place::Idle);
                if next.status().is_terminal() {
                    Self::release(&mut next, who);
                }
                next
            }
            Step::Notify => self.recorded(world, who, vec![Event::NotifyStarted], Place::Notifying),
            Step::Start => self.start(world, who),
            Step::SendAgain => self.intend(world, who, vec![Event::SendStarted]),
            Step::LookUp | Step::Nothing => {
                let mut next = world.clone();
                next.workers[who] = Place::Idle;
                Self::release(&mut next, who);
                next
            }
        }
    }

    fn start(&self, world: &World, who: usize) -> World {
        if self.weak == Some(Weak::NoIntent) {
            let mut next = world.clone();
            next.workers[who] = Place::Recorded { key: self.key(world), age: 0 };
            return next;
        }
        let payment = world.payment();
        let current = self.rule_in_force(world);
        let votes: Vec<Vote> = self.valid(world).map(|given| vote(given.signer, given.choice)).collect();
        let lost = lost(&payment.terms, &current, &votes).cloned();
        match lost.filter(|_| self.weak != Some(Weak::QuorumOnce)) {
            Some(policy) => {
                let (document, digest) = ("document".to_owned(), "digest".to_owned());
                let reason = "quorum_no_longer_holds".to_owned();
                let event = Event::QuorumLost { reason, policy: Box::new(policy), document, digest };
                let mut next = self.recorded(world, who, vec![event], Place::Idle);
                Self::release(&mut next, who);
                next
            }
            None => {
                let mut next = self.intend(world, who, vec![Event::ExecutionIntended]);
                let written = matches!(next.workers[who], Place::Recorded { .. });
                if written && !self.quorum_is_there(world) {
                    next.broken.push(Broken::Quorum);
                }
                next
            }
        }
    }

    /// Whether a first byte may still leave when an intent is `elapsed` old.
    pub(super) fn may_send(&self, elapsed: Tick) -> bool {
        let span = |ticks| at(ticks).since(at(0));
        may_send(span(elapsed), span(self.bounds.send_within)) || self.weak == Some(Weak::SendsAnyTime)
    }

    pub(super) fn send(&self, world: &World, who: usize, key: Key) -> World {
        let mut next = world.clone();
        next.wire.push(Request { key, sent: world.now, from: Some(who) });
        next.wire.sort();
        next.workers[who] = Place::Calling { key, answer: None };
        next
    }

    /// The attempt is over for the worker; an answer that comes later is nobody's.
    ///
    /// What changes between an answer and the read of the second transaction makes its write fail and be
    /// decided again, so the read may as well be at once.
    pub(super) fn ended(&self, world: &World, who: usize, told: Word) -> World {
        let mut next = world.clone();
        let group = match world.workers[who] {
            Place::Recorded { key, .. } | Place::Calling { key, .. } => key.group,
            _ => 0,
        };
        for request in next.wire.iter_mut().filter(|request| request.from == Some(who)) {
            request.from = None;
        }
        next.wire.sort();
        next.workers[who] = Place::Answered { group, told, read: self.bounds.splits.then(|| world.read()) };
        next
    }

    fn event(&self, told: Word, payment: &Payment, group: i64) -> Event {
        let code = || "declined".to_owned();
        match told {
            Word::Confirmed(transfer) => Event::RailConfirmed { group, transfer_id: name(transfer) },
            Word::Refused => Event::RailRefused { group, code: code() },
            Word::NotSent => Event::RailNotSent { group, retry_after: None },
            Word::Unknown => match self.weak {
                Some(Weak::SilenceIsRefusal) => Event::RailRefused { group, code: code() },
                Some(Weak::SilenceIsNotSent) => Event::RailNotSent { group, retry_after: None },
                _ => Event::RailUnknown { group, mismatch: false },
            },
            Word::Reached => {
                Event::Notified { number: payment.notice.settled + 1, since: at(0), reach: Reach::Reached }
            }
            Word::Unreachable => {
                Event::Notified { number: payment.notice.settled + 1, since: at(0), reach: Reach::Unreachable }
            }
        }
    }

    /// The write of the second transaction: by version, not by lease.
    pub(super) fn settle(&self, world: &World, who: usize, group: i64, told: Word, read: &Read) -> World {
        let mut next = world.clone();
        let spoken_of = if self.weak == Some(Weak::GroupsAlike) { read.row.execution.group } else { group };
        let event = self.event(told, &read.row, spoken_of);
        match self.change(&mut next, read, event, Guard::Version) {
            Ok(()) => {
                next.workers[who] = Place::Idle;
                Self::release(&mut next, who);
                next
            }
            // Decided again on a fresh read.
            Err(_) => {
                let mut next = world.clone();
                next.workers[who] = Place::Answered { group, told, read: Some(world.read()) };
                next
            }
        }
    }

    /// What a look-up came to: settled, sent again, or asked later.
    pub(super) fn learn(&self, world: &World, who: usize, seen: Seen, asked: &Read) -> World {
        let finding = match seen {
            Seen::Found(transfer) => Finding::Found { transfer_id: name(transfer) },
            Seen::Refused => Finding::FoundRefused { code: "declined".to_owned() },
            Seen::Differs => Finding::Differs,
            Seen::Nothing if self.weak == Some(Weak::NotFoundIsNotPaid) => {
                Finding::FoundRefused { code: "not_found".to_owned() }
            }
            Seen::Nothing => Finding::NotFound,
            Seen::NoAnswer => Finding::Inconclusive,
        };
        let taken_for = if self.weak == Some(Weak::OldAnswers) { world.read() } else { asked.clone() };
        let finding = still_says(finding, &taken_for.row, world.payment());
        if sends_again(&finding, world.payment(), at(taken_for.now), at(world.now), &self.timing) {
            let mut next = self.intend(world, who, vec![Event::LookedUp(finding), Event::SendStarted]);
            let written = matches!(next.workers[who], Place::Recorded { .. });
            if written && !self.could_show(world, asked) {
                next.broken.push(Broken::Asked);
            }
            return next;
        }
        let mut next = self.recorded(world, who, vec![Event::LookedUp(finding)], Place::Idle);
        Self::release(&mut next, who);
        next
    }

    /// Whether a look-up that was asked then would have shown the last attempt, had it been carried out at once.
    fn could_show(&self, world: &World, asked: &Read) -> bool {
        let lag = at(self.bounds.read_lag).since(at(0));
        let last = world.payment().execution.last_send_at;
        world.same_attempt(asked) && last.is_some_and(|sent| sent.plus(lag) <= at(asked.now))
    }

    pub(super) fn crash(&self, world: &World, who: usize) -> World {
        let mut next = self.ended(world, who, Word::Unknown);
        next.workers[who] = Place::Idle;
        next.left.crashes -= 1;
        next
    }

    // People.

    fn rule_in_force(&self, world: &World) -> countersign::domain::ApprovalPolicy {
        let mut rule = self.policy.clone();
        if world.tightened {
            rule.levels[0].groups[0].required = (rule.required() + 1).to_string();
        }
        rule
    }

    /// The counted words of this round by keys that are active.
    fn valid<'a>(&self, world: &'a World) -> impl Iterator<Item = &'a Given> {
        let round = world.payment().round;
        let counts =
            move |given: &&Given| given.round == round && !given.surplus && world.revoked != Some(given.signer);
        world.votes.iter().filter(counts)
    }

    /// Counted here and not by `evaluate`: enough people other than the requester said yes, nobody no.
    fn quorum_is_there(&self, world: &World) -> bool {
        let needed = world.payment().terms.policy.required().max(self.rule_in_force(world).required());
        let mut people: Vec<usize> =
            self.valid(world).filter(|given| given.choice == Says::Approve).map(|given| given.signer).collect();
        people.sort_unstable();
        people.dedup();
        people.retain(|person| *person < 3);
        let refused = self.valid(world).any(|given| given.choice == Says::Reject);
        !refused && people.len() >= usize::try_from(needed).unwrap()
    }

    /// A person's call reads.
    pub(super) fn ask(&self, world: &World, ask: Ask) -> Option<World> {
        let payment = world.payment();
        if let Ask::Decide { signer, .. } = &ask {
            let who = PEOPLE[*signer].parse().unwrap();
            let again = self.has_spoken(world, *signer, payment.round);
            let entitled =
                payment.terms.policy.is_eligible(&who) && !is_requester(&payment.terms.policy, &payment.terms, &who);
            // The same word again is answered as before, another word refused: nothing changes.
            let entitled = entitled || self.weak == Some(Weak::RequesterUnderAnotherName);
            if again || !entitled || world.revoked == Some(*signer) {
                return None;
            }
        }
        let mut next = world.clone();
        next.desk.push((ask, world.read()));
        next.desk.sort();
        Some(next)
    }

    /// A person's call writes, or finds that another was faster and is asked again later.
    pub(super) fn write(&self, world: &World, which: usize) -> World {
        let mut next = world.clone();
        let (ask, read) = next.desk.remove(which);
        let back = next.clone();
        let done = match &ask {
            Ask::Cancel => self.change(&mut next, &read, Event::Cancel, Guard::Version),
            Ask::Decide { signer, choice, earlier } => self.decide(&mut next, *signer, *choice, earlier, &read),
        };
        match done {
            Ok(()) => {
                if ask == Ask::Cancel {
                    next.left.cancels -= 1;
                }
                next
            }
            Err(_) => back,
        }
    }

    fn decide(
        &self,
        world: &mut World,
        signer: usize,
        choice: Says,
        earlier: &[Given],
        read: &Read,
    ) -> Result<(), Stop> {
        let payment = &read.row;
        let terms = &payment.terms;
        let counted = earlier.iter().filter(|given| given.round == payment.round && !given.surplus);
        let votes: Vec<Vote> = counted.map(|given| vote(given.signer, given.choice)).collect();
        let alias = self.weak == Some(Weak::RequesterUnderAnotherName) && signer == 3;
        let cast = cast(&terms.policy, terms, &votes, vote(if alias { 2 } else { signer }, choice));
        let (round, reason) = (payment.round, "no".to_owned());
        let countersign::domain::Cast { standing, advanced, .. } = cast;
        let event = Event::Decided { round, standing, advanced, reason, counter_back: false };
        let before = world.row.0.version;
        match cast.turn {
            Turn::Later => return Err(Stop::Refused),
            Turn::Past => drop(apply(payment, event, &self.moment(read.now))?),
            Turn::Now => self.change(world, read, event, Guard::Decision)?,
        }
        let surplus = world.row.0.version == before;
        if self.has_spoken(world, signer, payment.round) {
            return Err(Stop::Refused);
        }
        let late = payment.status == Status::NeedManual;
        world.votes.push(Given { signer, choice, round: payment.round, surplus, late });
        world.votes.sort();
        let counted: Vec<_> =
            world.votes.iter().filter(|given| given.round == payment.round && !given.surplus).collect();
        // Sorted by person.
        let twice = counted.windows(2).any(|pair| pair[0].signer == pair[1].signer);
        let approvals = counted.iter().filter(|given| given.choice == Says::Approve && given.signer < 3).count();
        let complete = world.status() == Status::Signed && !surplus;
        let too_few = complete && approvals < usize::try_from(terms.policy.required()).unwrap();
        if (twice || too_few) && !world.broken.contains(&Broken::Persons) {
            world.broken.push(Broken::Persons);
        }
        Ok(())
    }

    /// One word a person and round, by primary key.
    fn has_spoken(&self, world: &World, signer: usize, round: i64) -> bool {
        let again = world.votes.iter().any(|given| (given.signer, given.round) == (signer, round));
        again && self.weak != Some(Weak::SpeaksTwice)
    }
}

fn vote(signer: usize, choice: Says) -> Vote {
    Vote { signer: PEOPLE[signer].parse().unwrap(), choice: choice.into(), key: "k1".to_owned(), at: at(0) }
}

/// The rail's id of a transfer.
pub(super) fn name(transfer: usize) -> String {
    format!("tr-{transfer}")
}
