//! After the quorum: the intent, each attempt, each outcome, each look-up.
//!
//! *Invariant*: a payment fails only when every earlier attempt provably sent nothing, or by the
//! rail's own definitive word under our reference.

use std::time::Duration;

use super::Moment;
use super::signing::{call_off, held, new_round};
use crate::domain::attention::Attention;
use crate::domain::payment::{Payment, Phase, Stage, Status};
use crate::domain::refusal::{Code, Refusal};
use crate::domain::wake::may_resend;

/// The guard of everything that touches the rail: signed, in one of `phases`, and not held.
pub(super) fn executing(payment: &Payment, phases: &[Phase]) -> Result<(), Refusal> {
    if payment.status == Status::Signed && phases.contains(&payment.execution.phase) {
        return if payment.held_at.is_some() { Err(held(payment)) } else { Ok(()) };
    }
    Err(Refusal::new(Code::VersionConflict, "the payment is not where this step expects it").about(payment.reference()))
}

/// The policy in force now denies it: it is called off, since a new round could only be denied again.
pub(super) fn policy_denied(next: &mut Payment, reason: String) -> Result<(), Refusal> {
    executing(next, &[Phase::None])?;
    next.status = Status::Cancelled;
    next.reason = reason;
    Ok(())
}

pub(super) fn quorum_lost(
    next: &mut Payment,
    reason: String,
    document: String,
    digest: String,
    moment: &Moment<'_>,
) -> Result<(), Refusal> {
    executing(next, &[Phase::None])?;
    next.status = Status::AwaitingSigner;
    next.reason = reason;
    new_round(next, document, digest, moment);
    Ok(())
}

pub(super) fn execution_intended(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    executing(next, &[Phase::None])?;
    if moment.now >= next.terms.execute_by {
        return Err(
            Refusal::new(Code::PaymentExpired, "the payment's time to be executed has run out").about(next.reference())
        );
    }
    next.execution.phase = Phase::Intended;
    start_send(next, moment);
    Ok(())
}

pub(super) fn send_started(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    executing(next, &[Phase::Intended, Phase::Unknown])?;
    if next.execution.cancel_requested_at.is_some() || (next.nothing_sent() && moment.now >= next.terms.execute_by) {
        return Err(Refusal::new(Code::VersionConflict, "the payment was called off or its time has run out")
            .about(next.reference()));
    }
    // An attempt in doubt is asked about first, and sent again only while the rail remembers its key.
    let asked = next.execution.phase == Phase::Unknown && next.execution.queries > 0;
    let safe = next.nothing_sent() || (asked && may_resend(next, moment.now, moment.timing));
    if !safe {
        return Err(Refusal::new(Code::VersionConflict, "an attempt is in doubt; the rail must be asked first")
            .about(next.reference()));
    }
    start_send(next, moment);
    Ok(())
}

pub(super) fn start_send(next: &mut Payment, moment: &Moment<'_>) {
    if next.nothing_sent() {
        // The rail has never seen the key, so its life there starts with this attempt.
        next.execution.resend_until = moment.timing.resend_window.map(|window| moment.now.plus(window));
    }
    next.execution.sends = next.execution.sends.saturating_add(1);
    next.execution.queries = 0;
    next.execution.last_send_at = Some(moment.now);
    next.execution.next_at = Some(moment.now.plus(moment.timing.lease));
}

/// The rail's word that the money moved, for an attempt of `group` or, by a look-up, of any.
pub(super) fn confirmed(next: &mut Payment, transfer_id: String, group: Option<i64>) {
    let earlier = group.is_some_and(|group| group < next.execution.group)
        || (group.is_none() && next.execution.group > 1 && next.execution.sends == 0);
    match next.status {
        Status::Signed => match next.execution.phase {
            Phase::Intended | Phase::Unknown => carried_out(next, transfer_id, earlier),
            Phase::None if earlier => carried_out(next, transfer_id, earlier),
            Phase::None | Phase::Confirmed | Phase::Refused => contradict(next),
        },
        Status::Executed => {
            if next.execution.transfer_id != transfer_id {
                contradict(next);
            }
        }
        // A new round is being signed under a new key, but the old one has paid.
        Status::Created | Status::AwaitingSigner | Status::SignerUnreachable | Status::NeedManual if earlier => {
            carried_out(next, transfer_id, earlier);
        }
        Status::Created
        | Status::AwaitingSigner
        | Status::SignerUnreachable
        | Status::NeedManual
        | Status::Rejected
        | Status::Expired
        | Status::Cancelled
        | Status::Failed => contradict(next),
    }
}

/// `earlier`: by an attempt that two people attested never to have been carried out.
fn carried_out(next: &mut Payment, transfer_id: String, earlier: bool) {
    next.status = Status::Executed;
    next.reason.clear();
    next.execution.phase = Phase::Confirmed;
    next.execution.transfer_id = transfer_id;
    if earlier {
        next.attention.insert(Attention::AttestationContradicted);
    }
}

pub(super) fn contradict(next: &mut Payment) {
    next.attention.insert(Attention::TerminalContradiction);
}

/// The rail holds something else under our reference: a mismatch, or against an end a contradiction.
pub(super) fn differs(next: &mut Payment) {
    if in_flight(next) {
        next.attention.insert(Attention::IntegrityMismatch);
    } else if next.status.is_terminal() {
        contradict(next);
    }
}

/// Whether an outcome may still move the payment.
pub(super) fn in_flight(payment: &Payment) -> bool {
    match payment.status.stage() {
        Stage::Signed => match payment.execution.phase {
            Phase::Intended | Phase::Unknown => true,
            Phase::None | Phase::Confirmed | Phase::Refused => false,
        },
        Stage::Open | Stage::Ended => false,
    }
}

pub(super) fn refused(next: &mut Payment, code: String, moment: &Moment<'_>) {
    let only_attempt = next.execution.not_sent.saturating_add(1) == next.execution.sends;
    if !in_flight(next) {
        if next.status == Status::Executed && only_attempt {
            contradict(next);
        }
        return;
    }
    if only_attempt {
        fail(next, code);
    } else {
        // It says nothing about an earlier attempt that may still be on its way.
        in_doubt(next, Some(Attention::RefusedWhileUnknown), moment);
    }
}

pub(super) fn found_refused(next: &mut Payment, code: String, moment: &Moment<'_>) {
    if in_flight(next) && next.execution.group > 1 && !next.unasked() {
        // A look-up goes by our reference: it may be an earlier group's that is shown.
        looked_up(next, Some(Attention::RefusedWhileUnknown), moment);
    } else if in_flight(next) {
        fail(next, code);
    } else if next.status == Status::Executed {
        contradict(next);
    }
}

pub(super) fn fail(next: &mut Payment, code: String) {
    next.status = Status::Failed;
    next.reason = code;
    next.execution.phase = Phase::Refused;
}

pub(super) fn not_sent(next: &mut Payment, retry_after: Option<Duration>, moment: &Moment<'_>) {
    if !in_flight(next) {
        return;
    }
    next.execution.not_sent = next.execution.not_sent.saturating_add(1).min(next.execution.sends);
    if !next.nothing_sent() {
        in_doubt(next, None, moment);
    } else if next.execution.cancel_requested_at.is_some() {
        call_off(next);
    } else if moment.now >= next.terms.execute_by {
        fail(next, "rail_unavailable".to_owned());
    } else {
        let asked = moment.now.plus(retry_after.unwrap_or_default());
        next.execution.next_at = Some(moment.query_at(next.execution.sends).max(asked));
    }
}

pub(super) fn in_doubt(next: &mut Payment, attention: Option<Attention>, moment: &Moment<'_>) {
    if !in_flight(next) {
        return;
    }
    next.execution.phase = Phase::Unknown;
    next.attention.extend(attention);
    next.execution.next_at = Some(moment.query_at(next.execution.queries).max(moment.now.plus(moment.timing.read_lag)));
}

/// The rail, asked once more before the first attempt under a new key, has nothing.
pub(super) fn not_there(next: &mut Payment, moment: &Moment<'_>) {
    if next.execution.cancel_requested_at.is_some() {
        call_off(next);
        return;
    }
    next.execution.phase = Phase::None;
    next.execution.queries = 0;
    next.execution.next_at = Some(moment.now);
}

pub(super) fn looked_up(next: &mut Payment, attention: Option<Attention>, moment: &Moment<'_>) {
    if !in_flight(next) {
        return;
    }
    next.execution.queries = next.execution.queries.saturating_add(1);
    in_doubt(next, attention, moment);
}
