//! What may happen next, and what it does: the order of everything is up to the checker.

use countersign::domain::{Event, Phase, Stage, Status};
use stateright::{Model, Property};

use super::bounds::{Desk, Weak};
use super::glue::name;
use super::promises;
use super::world::{Answer, Ask, Listed, Place, Request, Seen, Step, Word, World};

/// One thing that happens; a number is a worker, a request or a person's call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    TimePasses,
    Claims(usize),
    /// The first transaction.
    Begins(usize),
    LooksUp(usize, Seen),
    Sends(usize),
    SendsNothing(usize),
    Arrives(usize),
    IsRefused(usize),
    ComesTwice(usize),
    HearsAnswer(usize),
    HearsNothing(usize),
    Notified(usize, Word),
    /// The second transaction.
    Settles(usize),
    Learns(usize),
    Dies(usize),
    Asks(Ask),
    IsDone(usize),
    Hold,
    Release,
    Supersede,
    PayByHand,
    AttestExecuted,
    AttestNotExecuted,
    RevokeKey,
    TightenPolicy,
}

impl Desk {
    fn of_worker(&self, world: &World, who: usize, acts: &mut Vec<Act>) {
        match &world.workers[who] {
            Place::Idle => {
                // Of two that are idle the one is as good as the other.
                let second = who > 0 && world.workers[0] == Place::Idle;
                if !second && self.claimable(world) && self.step(world) != Step::Nothing {
                    acts.push(Act::Claims(who));
                }
                return;
            }
            Place::Chosen(Step::LookUp) => {
                acts.extend(self.sights(world).into_iter().map(|seen| Act::LooksUp(who, seen)));
            }
            Place::Chosen(_) => acts.push(Act::Begins(who)),
            Place::Recorded { age, .. } => {
                let in_time = self.may_send(*age);
                if in_time {
                    acts.push(Act::Sends(who));
                }
                if !in_time || world.left.not_sent > 0 {
                    acts.push(Act::SendsNothing(who));
                }
            }
            Place::Calling { answer, .. } => {
                if answer.is_some() {
                    acts.push(Act::HearsAnswer(who));
                }
                acts.push(Act::HearsNothing(who));
            }
            Place::Notifying => {
                acts.extend([Word::Reached, Word::Unreachable].map(|told| Act::Notified(who, told)));
            }
            Place::Answered { .. } => acts.push(Act::Settles(who)),
            Place::Learned { .. } => acts.push(Act::Learns(who)),
        }
        if world.left.crashes > 0 {
            acts.push(Act::Dies(who));
        }
    }

    fn of_people(&self, world: &World, acts: &mut Vec<Act>) {
        let payment = world.payment();
        for which in 0..world.desk.len() {
            acts.push(Act::IsDone(which));
        }
        if world.desk.len() < self.bounds.callers && payment.status.stage() != Stage::Ended {
            for (signer, choice) in self.bounds.words.iter().copied() {
                // The first two are alike, so the first is the first of them.
                let first = world.desk.iter().any(|(ask, _)| matches!(ask, Ask::Decide { signer: 0, .. }))
                    || world.votes.iter().any(|given| given.signer == 0);
                if signer == 1 && !first && world.left.policy_changes == 0 && world.revoked.is_none() {
                    continue;
                }
                acts.push(Act::Asks(Ask::Decide { signer, choice, earlier: world.votes.clone() }));
            }
            if world.left.cancels > 0 {
                acts.push(Act::Asks(Ask::Cancel));
            }
        }
        let in_doubt = payment.execution.phase == Phase::Unknown;
        if world.left.holds > 0 {
            acts.push(Act::Hold);
        }
        if payment.held_at.is_some() && !world.by_hand {
            acts.push(Act::Release);
        }
        let unheld =
            self.weak == Some(Weak::PaysByHandUnheld) && payment.status == Status::Signed && world.left.holds > 0;
        if (payment.held_at.is_some() || unheld) && world.paid() == 0 {
            acts.push(Act::PayByHand);
        }
        if payment.held_at.is_some() && world.by_hand || in_doubt && world.left.attestations > 0 && world.paid() > 0 {
            acts.push(Act::AttestExecuted);
        }
        if in_doubt && world.left.attestations > 0 && (world.paid() == 0 || self.bounds.errs) {
            acts.push(Act::AttestNotExecuted);
        }
        if world.left.supersedes > 0 {
            acts.push(Act::Supersede);
        }
        if world.left.policy_changes > 0 {
            acts.extend([Act::RevokeKey, Act::TightenPolicy]);
        }
    }

    /// What a look-up may see now: at least what is older than the read lag, unless look-ups miss.
    fn sights(&self, world: &World) -> Vec<Seen> {
        let lines: Vec<(usize, Listed)> = world.rail.ledger.iter().copied().enumerate().collect();
        let old: Vec<_> =
            lines.iter().copied().filter(|(_, line)| line.at + self.bounds.read_lag <= world.now).collect();
        let mut sights = vec![sight(&lines), sight(&old), Seen::NoAnswer];
        if self.bounds.misses {
            sights.push(Seen::Nothing);
        }
        sights.sort();
        sights.dedup();
        sights
    }

    /// A request is carried out, or answered as its key was before.
    fn arrives(&self, world: &World, which: usize, refuses: bool) -> World {
        let mut next = world.clone();
        let Request { key, from, .. } = next.wire.remove(which);
        let known = next.rail.keys.iter().find(|(known, _, until)| *known == key && *until > world.now);
        let answer = match known {
            Some((_, Answer::Paid { transfer, .. }, _)) => Answer::Paid { transfer: *transfer, again: true },
            Some((_, Answer::Refused, _)) => Answer::Refused,
            None => {
                let at = world.now;
                let (answer, kept) = if refuses {
                    next.left.refusals -= 1;
                    (Answer::Refused, self.bounds.keeps_refusals)
                } else {
                    (Answer::Paid { transfer: next.rail.ledger.len(), again: false }, true)
                };
                if kept {
                    next.rail.ledger.push(Listed { key, at, paid: !refuses });
                }
                if kept && self.bounds.keeps_keys {
                    next.rail.keys.push((key, answer, at + self.bounds.key_life));
                }
                answer
            }
        };
        if let Some(who) = from {
            next.workers[who] = Place::Calling { key, answer: Some(answer) };
        }
        next
    }

    /// No transaction is left open for more than a tick.
    fn time_may_pass(&self, world: &World) -> bool {
        let in_worker = |place: &Place| match place {
            Place::Answered { read, .. } => read.as_ref().map(|read| read.now),
            _ => None,
        };
        let calls = world.desk.iter().map(|(_, read)| read.now);
        calls.chain(world.workers.iter().filter_map(in_worker)).all(|read| read == world.now)
    }

    /// A worker that has lost its lease before its transaction will find so, and do nothing.
    fn forget(&self, world: &mut World) {
        if self.weak == Some(Weak::Unfenced) {
            return;
        }
        let (lease, now) = (world.lease, world.now);
        for (who, place) in world.workers.iter_mut().enumerate() {
            let fenced = matches!(place, Place::Chosen(_) | Place::Learned { .. });
            if fenced && !lease.is_some_and(|(holder, until)| holder == who && until > now) {
                *place = Place::Idle;
            }
        }
    }

    fn time_passes(&self, world: &World) -> World {
        let mut next = world.clone();
        next.now += 1;
        let now = next.now;
        for place in &mut next.workers {
            if let Place::Recorded { age, .. } = place {
                *age = self.bounds.send_within.min(*age + 1);
            }
        }
        next.wire.retain(|request| request.sent + self.bounds.way >= now);
        next.rail.keys.retain(|(_, _, until)| *until > now);
        next
    }
}

fn sight(lines: &[(usize, Listed)]) -> Seen {
    match *lines {
        [] => Seen::Nothing,
        [(transfer, Listed { paid: true, .. })] => Seen::Found(transfer),
        [_] => Seen::Refused,
        _ => Seen::Differs,
    }
}

impl Model for Desk {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![self.first()]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        let idle = world.workers.iter().all(|place| *place == Place::Idle);
        let ended = world.status().is_terminal();
        let over = ended && idle && world.wire.is_empty() && world.desk.is_empty();
        if over || self.bounds.until_intent && world.payment().execution.sends > 0 {
            return;
        }
        if self.time_may_pass(world) {
            acts.push(Act::TimePasses);
        }
        for (which, request) in world.wire.iter().enumerate() {
            acts.push(Act::Arrives(which));
            let known = world.rail.keys.iter().any(|(key, ..)| *key == request.key);
            if world.left.refusals > 0 && !known {
                acts.push(Act::IsRefused(which));
            }
            if world.left.duplicates > 0 {
                acts.push(Act::ComesTwice(which));
            }
        }
        for who in 0..self.bounds.workers {
            self.of_worker(world, who, acts);
        }
        self.of_people(world, acts);
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        let mut next = self.after(world, act)?;
        self.forget(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all(&self.bounds)
    }

    fn within_boundary(&self, world: &World) -> bool {
        let execution = &world.payment().execution;
        execution.sends - execution.not_sent <= self.bounds.doubts
    }
}

impl Desk {
    fn after(&self, world: &World, act: Act) -> Option<World> {
        let mut next = world.clone();
        Some(match act {
            Act::TimePasses => self.time_passes(world),
            Act::Claims(who) => {
                next.lease = Some((who, world.now + self.bounds.lease));
                next.workers[who] = Place::Chosen(self.step(world));
                next
            }
            Act::Begins(who) => {
                let Place::Chosen(step) = world.workers[who] else { return None };
                self.begin(world, who, step)
            }
            Act::LooksUp(who, seen) => {
                next.workers[who] = Place::Learned { seen, asked: world.read() };
                next
            }
            Act::Sends(who) => {
                let Place::Recorded { key, .. } = world.workers[who] else { return None };
                self.send(world, who, key)
            }
            Act::SendsNothing(who) => {
                next = self.ended(world, who, Word::NotSent);
                next.left.not_sent = next.left.not_sent.saturating_sub(1);
                next
            }
            Act::Arrives(which) => self.arrives(world, which, false),
            Act::IsRefused(which) => self.arrives(world, which, true),
            Act::ComesTwice(which) => {
                next.wire.push(Request { from: None, ..world.wire[which] });
                next.wire.sort();
                next.left.duplicates -= 1;
                next
            }
            Act::HearsAnswer(who) => {
                let Place::Calling { answer: Some(answer), .. } = world.workers[who] else { return None };
                let told = match answer {
                    Answer::Paid { transfer, .. } => Word::Confirmed(transfer),
                    Answer::Refused => Word::Refused,
                };
                self.ended(world, who, told)
            }
            Act::HearsNothing(who) => self.ended(world, who, Word::Unknown),
            Act::Notified(who, told) => self.ended(world, who, told),
            Act::Settles(who) => {
                let Place::Answered { group, told, read } = &world.workers[who] else { return None };
                self.settle(world, who, *group, *told, read.as_ref().unwrap_or(&world.read()))
            }
            Act::Learns(who) => {
                let Place::Learned { seen, asked } = &world.workers[who] else { return None };
                self.learn(world, who, *seen, asked)
            }
            Act::Dies(who) => self.crash(world, who),
            Act::Asks(ask) => return self.ask(world, ask),
            Act::IsDone(which) => self.write(world, which),
            Act::Hold => {
                next = self.at_once(world, Event::Held)?;
                next.left.holds -= 1;
                next
            }
            Act::Release => self.at_once(world, Event::Released)?,
            Act::Supersede => {
                next = self.at_once(world, Event::Superseded)?;
                next.left.supersedes -= 1;
                next
            }
            Act::PayByHand => {
                next.by_hand = true;
                next.left.holds = 0;
                next
            }
            Act::AttestExecuted => {
                let line = world.rail.ledger.iter().position(|line| line.paid);
                let reference = line.map_or_else(|| "by hand".to_owned(), name);
                self.at_once(world, Event::AttestedExecuted { reference })?
            }
            Act::AttestNotExecuted => {
                next = self.at_once(world, Event::AttestedNotExecuted)?;
                next.left.attestations -= 1;
                next
            }
            Act::RevokeKey => {
                next.revoked = Some(0);
                next.left.policy_changes -= 1;
                next
            }
            Act::TightenPolicy => {
                next.tightened = true;
                next.left.policy_changes -= 1;
                next
            }
        })
    }
}
