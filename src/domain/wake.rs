//! When a payment next needs work, and what work on the rail that is.

use std::time::Duration;

use super::payment::{Payment, Phase, Stage};
use super::time::Timestamp;
use super::transition::{Finding, Timing};

/// When the worker must look at the payment again; `None` when it never must.
///
/// *Invariant*: `Some` for every payment that has not ended, unless it is held.
pub fn next_wake(payment: &Payment) -> Option<Timestamp> {
    if payment.held_at.is_some() {
        // Who decides meanwhile is told that it waits; nobody can once the time to decide has run out.
        let check_at = payment.notice.check_at.filter(|at| *at < payment.terms.expires_at);
        return earliest([check_at, payment.closing.tell_at, None]);
    }
    let own = match payment.status.stage() {
        Stage::Open => earliest([payment.notice.next_at, payment.notice.check_at, Some(payment.terms.expires_at)]),
        Stage::Signed => match payment.execution.phase {
            Phase::None => earliest([payment.execution.next_at, Some(payment.terms.execute_by), None]),
            // Provably not under way: its time may run out before the next attempt.
            Phase::Intended | Phase::Unknown if payment.nothing_sent() => {
                earliest([payment.execution.next_at, Some(payment.terms.execute_by), None])
            }
            Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => payment.execution.next_at,
        },
        Stage::Ended => None,
    };
    earliest([own, payment.closing.tell_at, None])
}

fn earliest(times: [Option<Timestamp>; 3]) -> Option<Timestamp> {
    times.into_iter().flatten().min()
}

/// What a signed payment needs at the rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionStep {
    /// Write the intent and send for the first time.
    Start,
    /// Send again: every attempt so far provably sent nothing.
    SendAgain,
    /// Ask first: an attempt may have been carried out.
    LookUp,
    /// Nothing now.
    Wait,
}

/// The next step at the rail.
pub fn execution_step(payment: &Payment, now: Timestamp) -> ExecutionStep {
    if payment.held_at.is_some() {
        return ExecutionStep::Wait;
    }
    let due = payment.execution.next_at.is_none_or(|at| at <= now);
    match payment.status.stage() {
        Stage::Open | Stage::Ended => ExecutionStep::Wait,
        Stage::Signed => match payment.execution.phase {
            Phase::None => ExecutionStep::Start,
            Phase::Intended | Phase::Unknown if !due => ExecutionStep::Wait,
            Phase::Intended | Phase::Unknown => {
                if payment.nothing_sent() {
                    ExecutionStep::SendAgain
                } else {
                    ExecutionStep::LookUp
                }
            }
            Phase::Confirmed | Phase::Refused => ExecutionStep::Wait,
        },
    }
}

/// Whether the same key may be sent again after a look-up found nothing.
///
/// "Not found" is never "not paid": this holds only while the rail still remembers the key, after
/// the look-up could have seen the last attempt, and while nobody has called the payment off.
pub fn may_resend(payment: &Payment, now: Timestamp, timing: &Timing) -> bool {
    let visible = payment.execution.last_send_at.is_some_and(|sent| now >= sent.plus(timing.read_lag));
    let remembered = payment.execution.resend_until.is_some_and(|until| now < until);
    visible && remembered && payment.execution.cancel_requested_at.is_none()
}

/// What a look-up's finding says of `payment` as it stands now, that the rail was `asked` about as it stood then.
///
/// "Not found" speaks of what had been sent by then, and was asked before any attestation that came meanwhile.
pub fn still_says(finding: Finding, asked: &Payment, payment: &Payment) -> Finding {
    let attempt = |of: &Payment| (of.execution.group, of.execution.sends);
    match finding {
        Finding::NotFound if attempt(asked) != attempt(payment) => Finding::Inconclusive,
        Finding::Found { .. }
        | Finding::FoundRefused { .. }
        | Finding::Differs
        | Finding::NotFound
        | Finding::Inconclusive => finding,
    }
}

/// Whether a look-up's finding is answered by sending the same key again; the rail was asked at `asked_at` or later.
pub fn sends_again(finding: &Finding, payment: &Payment, asked_at: Timestamp, now: Timestamp, timing: &Timing) -> bool {
    match finding {
        // An answer that took long shows no more than it did when it was asked for.
        Finding::NotFound => may_resend(payment, asked_at, timing) && may_resend(payment, now, timing),
        Finding::Found { .. } | Finding::FoundRefused { .. } | Finding::Differs | Finding::Inconclusive => false,
    }
}

/// Whether the first byte of an attempt may still be written, `elapsed` after its intent was begun.
///
/// Past that, another may have taken over, and the key may be near the end of its life.
pub fn may_send(elapsed: Duration, within: Duration) -> bool {
    elapsed < within
}
