//! Up to the quorum: reaching the signers, decisions, running out of time, calling off.

use super::Moment;
use super::event::{Asker, Reach, SignerTrouble};
use super::rail::fail;
use crate::domain::attention::Attention;
use crate::domain::payment::{Closing, Payment, Phase, Stage, Status};
use crate::domain::quorum::Standing;
use crate::domain::refusal::{Code, Refusal};
use crate::domain::time::Timestamp;

pub(super) fn terminal(payment: &Payment) -> Refusal {
    let message = format!("the payment has ended as {} and does not change again", payment.status.as_str());
    Refusal::new(Code::PaymentTerminal, message).about(payment.reference())
}

/// *Errors*: the payment has ended.
pub(super) fn unended(payment: &Payment) -> Result<(), Refusal> {
    match payment.status.stage() {
        Stage::Ended => Err(terminal(payment)),
        Stage::Open | Stage::Signed => Ok(()),
    }
}

pub(super) fn held(payment: &Payment) -> Refusal {
    Refusal::new(Code::PaymentOnManualHold, "an operator holds this payment to settle it by hand")
        .about(payment.reference())
}

pub(super) fn notify_requested(next: &mut Payment, asker: Asker, moment: &Moment<'_>) -> Result<(), Refusal> {
    match (next.status.stage(), asker) {
        (Stage::Ended, _) => Err(terminal(next)),
        (Stage::Signed, _) => Ok(()),
        (Stage::Open, _) if next.held_at.is_some() => Err(held(next)),
        // The worker goes on by itself: an agent that asks again must not use attempts up.
        (Stage::Open, Asker::Agent) => {
            if next.notice.attempts == 0 && next.notice.settled == 0 && next.notice.next_at.is_some() {
                next.notice.next_at = Some(moment.now);
            }
            Ok(())
        }
        (Stage::Open, Asker::Operator) => {
            next.notice.attempts = 0;
            next.notice.next_at = Some(moment.now);
            Ok(())
        }
    }
}

/// Before the call: should this process die in it, the next attempt waits for the lease to end.
pub(super) fn notify_started(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    match next.status.stage() {
        // Held since this was claimed.
        Stage::Open if next.held_at.is_some() => return Err(held(next)),
        Stage::Open => next.notice.next_at = Some(moment.now.plus(moment.timing.lease)),
        Stage::Signed | Stage::Ended => {}
    }
    Ok(())
}

pub(super) fn registered(next: &mut Payment, signer_ref: String, round: i64, moment: &Moment<'_>) {
    let unknown = next.notice.signer_ref != signer_ref;
    next.notice.signer_ref = signer_ref;
    next.notice.registered_round = next.notice.registered_round.max(round);
    if unknown && next.status.stage() != Stage::Open {
        // It ended while the registration was on its way: the signer service has it and must hear so.
        next.closing.tell_at = Some(moment.now);
    }
}

/// What was registered is to be registered anew, and whoever had been told is told again; no attempt is used up by it.
///
/// The old id stays until there is another: what is sent to it meanwhile is answered as this was.
pub(super) fn forgotten(next: &mut Payment, signer_ref: &str, number: i64, moment: &Moment<'_>) {
    next.notice.settled = next.notice.settled.max(number);
    match next.status.stage() {
        Stage::Open => {}
        Stage::Signed | Stage::Ended => return,
    }
    // Of another id it was known before: it has been registered since.
    if next.notice.signer_ref != signer_ref || next.notice.registered_round == 0 {
        return;
    }
    next.notice.registered_round = 0;
    if next.status != Status::Created {
        next.notice.next_at = Some(moment.now);
    }
}

pub(super) fn notified(next: &mut Payment, number: i64, since: Timestamp, reach: &Reach, moment: &Moment<'_>) {
    match reach {
        Reach::Reached | Reach::UnderWay | Reach::Unreachable | Reach::Troubled(SignerTrouble::Refused) => {
            next.notice.settled = next.notice.settled.max(number);
        }
        // In doubt: the same number and key are tried again.
        Reach::Troubled(SignerTrouble::ServiceUnavailable | SignerTrouble::Unauthorized | SignerTrouble::Timeout) => {}
    }
    match reach {
        Reach::Reached => reached(next, REACHED, since, moment),
        Reach::UnderWay => reached(next, UNDER_WAY, since, moment),
        Reach::Unreachable => missed(next, "signer_unreachable", "retries_exhausted", moment),
        Reach::Troubled(trouble) => troubled(next, *trouble, moment),
    }
}

const REACHED: &str = "reached";
const UNDER_WAY: &str = "under_way";

/// Enough people were told, or will have been: from here it is a person's time that passes.
fn reached(next: &mut Payment, word: &str, since: Timestamp, moment: &Moment<'_>) {
    match next.status.stage() {
        Stage::Open => {}
        Stage::Signed | Stage::Ended => return,
    }
    next.status = Status::AwaitingSigner;
    next.reason.clear();
    // What is under way may still fail, again and again: that must end somewhere.
    if word == REACHED {
        next.notice.attempts = 0;
    }
    word.clone_into(&mut next.notice.last);
    let reminder = moment.timing.reminders.next(&next.terms, since, moment.now, moment.roll);
    next.notice.next_at = wanted_meanwhile(next.notice.next_at, moment).or(reminder);
    let look = moment.now.plus(moment.timing.check_every);
    next.notice.check_at = wanted_meanwhile(next.notice.check_at, moment).or(Some(look));
}

/// What became due while a notification was on its way: a vote opened the next level, say. The attempt itself has put
/// its own further off.
fn wanted_meanwhile(at: Option<Timestamp>, moment: &Moment<'_>) -> Option<Timestamp> {
    at.filter(|at| *at <= moment.now)
}

/// A notification that was taken has not reached enough people: as if that had been the answer.
pub(super) fn unreached(next: &mut Payment, number: i64, moment: &Moment<'_>) {
    let last = next.notice.last == REACHED || next.notice.last == UNDER_WAY;
    if next.held_at.is_none() && next.status == Status::AwaitingSigner && last && number == next.notice.settled {
        missed(next, "signer_unreachable", "retries_exhausted", moment);
    }
}

pub(super) fn troubled(next: &mut Payment, trouble: SignerTrouble, moment: &Moment<'_>) {
    missed(next, trouble.as_str(), trouble.as_str(), moment);
}

/// An attempt did not reach enough people: there is another, or a person must act.
fn missed(next: &mut Payment, word: &'static str, exhausted: &'static str, moment: &Moment<'_>) {
    match next.status.stage() {
        Stage::Open => {}
        Stage::Signed | Stage::Ended => return,
    }
    word.clone_into(&mut next.notice.last);
    next.notice.attempts = next.notice.attempts.saturating_add(1);
    if next.notice.check_at.is_none() && !next.notice.signer_ref.is_empty() {
        next.notice.check_at = Some(moment.now.plus(moment.timing.check_every));
    }
    if let Some(wait) = moment.timing.notify.after(next.notice.attempts, moment.roll) {
        if word == "signer_unreachable" {
            next.status = Status::SignerUnreachable;
        }
        word.clone_into(&mut next.reason);
        next.notice.next_at = Some(moment.now.plus(wait));
    } else {
        next.status = Status::NeedManual;
        exhausted.clone_into(&mut next.reason);
        next.notice.next_at = None;
    }
}

/// A verified decision and what it amounts to.
pub(super) struct Decided {
    pub(super) round: i64,
    pub(super) standing: Standing,
    pub(super) advanced: bool,
    pub(super) reason: String,
    pub(super) counter_back: bool,
}

pub(super) fn decided(next: &mut Payment, decision: Decided, moment: &Moment<'_>) -> Result<(), Refusal> {
    let Decided { round, standing, advanced, reason, counter_back } = decision;
    let surplus = match next.status {
        Status::Created | Status::AwaitingSigner | Status::SignerUnreachable | Status::NeedManual => false,
        Status::Signed | Status::Executed => true,
        Status::Rejected | Status::Expired | Status::Cancelled | Status::Failed => return Err(terminal(next)),
    };
    if !surplus && next.held_at.is_some() {
        return Err(held(next));
    }
    if !surplus && moment.now >= next.terms.expires_at {
        return Err(
            Refusal::new(Code::PaymentExpired, "the payment's time to be decided has run out").about(next.reference())
        );
    }
    if round != next.round {
        return Err(Refusal::new(
            Code::SigningRoundStale,
            "the payment has a newer signing round; get_approval shows it",
        )
        .about(next.reference()));
    }
    if surplus {
        // Recorded by the caller, no effect here.
        return Ok(());
    }
    // Every counted decision is a change, so that two at the same moment can't both think they were alone.
    next.decisions = next.decisions.saturating_add(1);
    if counter_back {
        next.attention.insert(Attention::PasskeyCounterBack);
    }
    match standing {
        Standing::Pending { approvals, .. } => {
            next.approvals = approvals;
            if next.notice.check_at.is_some() {
                // Whom the signer service still shows as undecided: it is told at the next look, so that is soon.
                next.notice.check_at = Some(moment.now);
            }
            if advanced {
                // The next level's people have not been asked yet: a new campaign.
                next.notice.attempts = 0;
                next.notice.next_at = Some(moment.now);
            }
        }
        Standing::Complete { approvals } => {
            next.approvals = approvals;
            next.status = Status::Signed;
            next.reason.clear();
            next.execution.next_at = Some(moment.now);
        }
        Standing::Rejected => {
            next.status = Status::Rejected;
            next.reason = reason;
        }
    }
    Ok(())
}

pub(super) fn deadline(next: &mut Payment, moment: &Moment<'_>) {
    if next.held_at.is_some() {
        return;
    }
    match next.status.stage() {
        Stage::Open => {
            if moment.now >= next.terms.expires_at {
                next.status = Status::Expired;
                "not_decided_in_time".clone_into(&mut next.reason);
            }
        }
        Stage::Signed => match next.execution.phase {
            Phase::None => {
                if moment.now >= next.terms.execute_by {
                    next.status = Status::Expired;
                    "not_executed_in_time".clone_into(&mut next.reason);
                }
            }
            // Every attempt provably sent nothing, so nothing can arrive late.
            Phase::Intended | Phase::Unknown if next.nothing_sent() => {
                if next.execution.cancel_requested_at.is_some() {
                    call_off(next);
                } else if moment.now >= next.terms.execute_by {
                    fail(next, "rail_unavailable".to_owned());
                }
            }
            Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => {}
        },
        Stage::Ended => {}
    }
}

/// Begins a round: nothing that was signed counts, and whoever had been told is told again.
pub(super) fn new_round(next: &mut Payment, document: String, digest: String, moment: &Moment<'_>) {
    next.round = next.round.saturating_add(1);
    next.document = document;
    next.digest = digest;
    next.approvals = 0;
    next.decisions = 0;
    next.execution.next_at = None;
    next.closing = Closing::default();
    next.notice.attempts = 0;
    if next.status != Status::Created {
        next.notice.next_at = Some(moment.now);
    }
}

pub(super) fn call_off(next: &mut Payment) {
    next.status = Status::Cancelled;
    "cancelled_by_request".clone_into(&mut next.reason);
    next.execution.phase = Phase::None;
}

pub(super) fn cancel(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    if next.status == Status::Cancelled {
        return Ok(());
    }
    unended(next)?;
    if next.held_at.is_some() {
        return Err(held(next));
    }
    match next.execution.phase {
        Phase::None => call_off(next),
        Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => {
            if next.execution.cancel_requested_at.is_none() {
                next.execution.cancel_requested_at = Some(moment.now);
            }
        }
    }
    Ok(())
}
