//! What must hold in every state, and what must be possible at all.

use countersign::domain::{Attention, Phase, Status, next_wake};
use stateright::Property;

use super::bounds::{Bounds, Desk};
use super::world::{Answer, Broken, Given, Place, Says, World};

pub(super) const ONCE: &str = "I1 an order is paid at most once";
pub(super) const QUORUM: &str = "I2 an intent has a valid quorum";
pub(super) const ABSORB: &str = "I3 an end absorbs";
pub(super) const UNPAID: &str = "I4 what ended unpaid was not and is not paid";
pub(super) const MATCH: &str = "I5 executed means one transfer, the one that is named";
pub(super) const WAKES: &str = "I8 what has not ended wakes up, unless it is held";
pub(super) const PERSONS: &str = "I11 a person counts once, the requester never";
pub(super) const VERSION: &str = "I12 the version rises by one";
pub(super) const HOLD: &str = "a hold holds";
pub(super) const ALONE: &str = "one attempt at a time may still be sent";
pub(super) const ASKED: &str = "in doubt, a key is sent again only after a look-up that could show the attempt";

pub(super) fn always() -> Vec<Property<Desk>> {
    vec![
        Property::always(ONCE, |_, world: &World| world.paid() <= 1),
        Property::always(QUORUM, |_, world: &World| !world.broken.contains(&Broken::Quorum)),
        Property::always(ABSORB, |_, world: &World| !world.broken.contains(&Broken::Absorb)),
        Property::always(UNPAID, |_, world: &World| !ended_unpaid(world.status()) || world.paid() == 0),
        Property::always(MATCH, executed_matches),
        Property::always(WAKES, |_, world: &World| {
            let payment = world.payment();
            payment.status.is_terminal() || payment.held_at.is_some() || next_wake(payment).is_some()
        }),
        Property::always(PERSONS, |_, world: &World| !world.broken.contains(&Broken::Persons)),
        Property::always(VERSION, |_, world: &World| !world.broken.contains(&Broken::Version)),
        Property::always(HOLD, |_, world: &World| !world.broken.contains(&Broken::Hold)),
        Property::always(ALONE, |desk: &Desk, world: &World| {
            let sendable = |place: &&Place| matches!(place, Place::Recorded { age, .. } if desk.may_send(*age));
            world.workers.iter().filter(sendable).count() <= 1
        }),
        Property::always(ASKED, |_, world: &World| !world.broken.contains(&Broken::Asked)),
    ]
}

fn ended_unpaid(status: Status) -> bool {
    match status {
        Status::Rejected | Status::Expired | Status::Cancelled | Status::Failed => true,
        Status::Created
        | Status::AwaitingSigner
        | Status::SignerUnreachable
        | Status::NeedManual
        | Status::Signed
        | Status::Executed => false,
    }
}

fn executed_matches(_: &Desk, world: &World) -> bool {
    if world.status() != Status::Executed {
        return true;
    }
    let named = &world.payment().execution.transfer_id;
    let line = world.rail.ledger.iter().position(|line| line.paid);
    world.paid() == 1 && line.map_or("by hand".to_owned(), super::glue::name) == *named
}

fn executed(world: &World) -> bool {
    world.status() == Status::Executed
}

fn because(world: &World, status: Status, reason: &str) -> bool {
    world.status() == status && world.payment().reason == reason
}

fn intended(world: &World) -> bool {
    world.payment().execution.phase == Phase::Intended
}

/// Whether a hold was taken and given up again; what ended under one was paid by hand.
fn let_go(desk: &Desk, world: &World) -> bool {
    world.left.holds < desk.bounds.left.holds && world.payment().held_at.is_none() && !world.by_hand
}

fn taken_over(world: &World) -> bool {
    let at_work = |place: &Place| !matches!(place, Place::Idle | Place::Chosen(_));
    world.lease.is_some_and(|(holder, _)| at_work(&world.workers[1 - holder]))
}

/// What must be possible, so that the promises are not kept by nothing ever happening.
fn sometimes(bounds: &Bounds) -> Vec<Property<Desk>> {
    let mut all = Vec::new();
    if !bounds.until_intent {
        all.push(Property::sometimes("executed", |_, world: &World| executed(world)));
    }
    if bounds.left.crashes > 0 {
        all.push(Property::sometimes("executed after a crash", |desk: &Desk, world: &World| {
            executed(world) && world.left.crashes < desk.bounds.left.crashes
        }));
    }
    if bounds.left.crashes > 0 && bounds.workers > 1 {
        all.push(Property::sometimes("a lease is taken over", |_, world: &World| taken_over(world)));
    }
    if bounds.left.cancels > 0 {
        all.push(Property::sometimes("cancelled", |_, world: &World| {
            because(world, Status::Cancelled, "cancelled_by_request")
        }));
    }
    if bounds.left.cancels > 0 && bounds.signed {
        all.push(Property::sometimes("a cancel is pending, then executed", |_, world: &World| {
            executed(world) && world.payment().execution.cancel_requested_at.is_some()
        }));
    }
    if bounds.doubts > 1 {
        all.push(Property::sometimes("the same key is sent again", |_, world: &World| {
            let execution = &world.payment().execution;
            execution.sends - execution.not_sent > 1
        }));
        all.push(Property::sometimes("a repeated request is answered as before", |_, world: &World| {
            let again =
                |place: &Place| matches!(place, Place::Calling { answer: Some(Answer::Paid { again: true, .. }), .. });
            world.workers.iter().any(again)
        }));
        all.push(Property::sometimes("the resend window is closed", |_, world: &World| {
            world.payment().attention.contains(&Attention::ResendWindowClosed)
        }));
    }
    if bounds.left.duplicates > 0 {
        all.push(Property::sometimes("a request that came twice is paid once", |_, world: &World| {
            executed(world) && world.left.duplicates == 0 && world.wire.is_empty()
        }));
    }
    if bounds.left.refusals > 0 {
        all.push(Property::sometimes("failed by refusal", |_, world: &World| {
            because(world, Status::Failed, "declined")
        }));
    }
    if bounds.left.not_sent > 0 {
        all.push(Property::sometimes("failed with nothing sent", |_, world: &World| {
            because(world, Status::Failed, "rail_unavailable")
        }));
    }
    all.push(Property::sometimes("expired", |_, world: &World| world.status() == Status::Expired));
    if bounds.until_intent {
        all.push(Property::sometimes("an intent that two approved", |_, world: &World| {
            let counts = |given: &&Given| {
                !given.surplus && given.choice == Says::Approve && given.round == world.payment().round
            };
            intended(world) && world.votes.iter().filter(counts).count() == 2
        }));
        all.push(Property::sometimes("rejected", |_, world: &World| world.status() == Status::Rejected));
        all.push(Property::sometimes("a surplus signature is kept", |_, world: &World| {
            world.votes.iter().any(|given| given.surplus)
        }));
    } else if !bounds.signed {
        all.push(Property::sometimes("executed after a signature that came in NEED_MANUAL", |_, world: &World| {
            let late = world.votes.iter().any(|given| given.late && given.choice == Says::Approve);
            executed(world) && late
        }));
    }
    all.extend(by_hand(bounds));
    if bounds.left.policy_changes > 0 {
        all.push(Property::sometimes("executed after a new round", |_, world: &World| {
            executed(world) && world.payment().round > 1
        }));
    }
    all
}

/// What must be possible where people act by hand.
fn by_hand(bounds: &Bounds) -> Vec<Property<Desk>> {
    let mut all = Vec::new();
    if bounds.left.holds > 0 {
        all.push(Property::sometimes("held, released, then intended", |desk: &Desk, world: &World| {
            intended(world) && let_go(desk, world)
        }));
    }
    if bounds.left.holds > 0 && bounds.left.cancels > 0 {
        all.push(Property::sometimes("held, released, then cancelled", |desk: &Desk, world: &World| {
            because(world, Status::Cancelled, "cancelled_by_request") && let_go(desk, world)
        }));
    }
    if bounds.left.holds > 0 && bounds.signed {
        all.push(Property::sometimes("held, paid by hand and attested", |_, world: &World| {
            executed(world) && world.by_hand
        }));
    }
    if bounds.left.attestations > 0 {
        all.push(Property::sometimes("attested as not executed, then executed", |_, world: &World| {
            executed(world) && world.payment().execution.group > 1
        }));
    }
    if bounds.errs {
        all.push(Property::sometimes("attested as not executed though it was, and found", |_, world: &World| {
            executed(world) && world.payment().attention.contains(&Attention::AttestationContradicted)
        }));
    }
    if bounds.left.supersedes > 0 {
        all.push(Property::sometimes("superseded", |_, world: &World| because(world, Status::Cancelled, "superseded")));
    }
    all
}

pub(super) fn all(bounds: &Bounds) -> Vec<Property<Desk>> {
    let mut all = always();
    all.extend(sometimes(bounds));
    all
}
