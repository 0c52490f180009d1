//! What people do by hand: hold, let go, attest, ask another signer.
//!
//! That two people stand behind a release or an attestation is the journal's business; here is only
//! what then follows, and when it may.

use super::Moment;
use super::signing::{call_off, held, terminal, unended};
use crate::domain::attention::Attention;
use crate::domain::id::SignerId;
use crate::domain::payment::{Execution, Payment, Phase, Stage, Status};
use crate::domain::refusal::{Code, Refusal};

/// A verb that can't be carried out while money may be on its way.
fn blocked(payment: &Payment, why: &str) -> Refusal {
    Refusal::new(Code::OutcomeUnknownBlocks, why).about(payment.reference())
}

/// A person takes the payment over to pay it another way; nothing moves it until they let go.
pub(super) fn hold(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    unended(next)?;
    match next.execution.phase {
        Phase::None => {}
        Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => {
            return Err(blocked(
                next,
                "the payment may be on its way already; it can't be held, follow it until its outcome is known",
            ));
        }
    }
    if next.held_at.is_none() {
        next.held_at = Some(moment.now);
    }
    Ok(())
}

/// The person lets go: the payment goes on where it was; one that is signed goes to the rail at once.
pub(super) fn release(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    unended(next)?;
    if next.held_at.take().is_none() {
        return Err(Refusal::new(Code::InvalidArgument, "the payment is not held; there is nothing to release")
            .about(next.reference()));
    }
    match next.status.stage() {
        // What was decided meanwhile is taken now.
        Stage::Open => next.notice.check_at = next.notice.check_at.map(|_| moment.now),
        Stage::Signed => next.execution.next_at = Some(moment.now),
        Stage::Ended => {}
    }
    Ok(())
}

/// People attest that the money moved: by hand under a hold, or on the rail when it can't say so itself.
pub(super) fn attest_executed(next: &mut Payment, reference: String) -> Result<(), Refusal> {
    unended(next)?;
    let in_doubt = next.execution.phase == Phase::Unknown;
    if next.held_at.is_none() && !in_doubt {
        return Err(Refusal::new(
            Code::InvalidArgument,
            "hold the payment first; only a held payment, or one whose outcome is unknown, is attested",
        )
        .about(next.reference()));
    }
    next.status = Status::Executed;
    next.reason.clear();
    next.execution.phase = Phase::Confirmed;
    next.execution.transfer_id = reference;
    Ok(())
}

/// People attest that the money did not move: a new attempt group, under a key the rail has never seen.
///
/// Not before the last attempt can no longer arrive: until then two keys would pay twice. And people err:
/// the payment stays in doubt, and nothing is sent or called off, until the rail has been asked once more.
pub(super) fn attest_not_executed(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    unended(next)?;
    if next.held_at.is_some() {
        return Err(held(next));
    }
    match next.execution.phase {
        Phase::Unknown => {}
        Phase::None | Phase::Intended | Phase::Confirmed | Phase::Refused => {
            return Err(Refusal::new(
                Code::InvalidArgument,
                "only a payment whose outcome is unknown is attested as not executed",
            )
            .about(next.reference()));
        }
    }
    if next.unasked() {
        return Err(blocked(
            next,
            "that is attested already; the rail is being asked once more before anything is sent",
        ));
    }
    let safe_at = next.execution.last_send_at.map(|sent| sent.plus(moment.timing.settle_after));
    if let Some(wait) = safe_at.filter(|at| *at > moment.now) {
        let millis = u64::try_from(wait.since(moment.now).as_millis()).unwrap_or(u64::MAX);
        return Err(blocked(next, "the last attempt may still arrive at the rail; attest when that can no longer be")
            .after_ms(millis));
    }
    next.execution = Execution {
        group: next.execution.group.saturating_add(1),
        phase: Phase::Unknown,
        next_at: Some(moment.now),
        cancel_requested_at: next.execution.cancel_requested_at,
        ..Execution::default()
    };
    // The others spoke of the group before.
    next.attention.retain(|reason| {
        matches!(
            reason,
            Attention::TerminalContradiction
                | Attention::ContextBudgetSpent
                | Attention::InvariantBroken
                | Attention::PaidAfterBackup
                | Attention::SignedBeforeRestore
                | Attention::PasskeyCounterBack
        )
    });
    Ok(())
}

/// Another signer is asked first: a new campaign.
pub(super) fn reassign(next: &mut Payment, signer: SignerId, moment: &Moment<'_>) -> Result<(), Refusal> {
    match next.status.stage() {
        Stage::Ended => return Err(terminal(next)),
        Stage::Signed => return Ok(()),
        Stage::Open => {}
    }
    if next.held_at.is_some() {
        return Err(held(next));
    }
    next.terms.wish = vec![signer];
    next.notice.attempts = 0;
    next.notice.next_at = Some(moment.now);
    Ok(())
}

/// Another payment of the same order takes its place: only while nothing may be on its way.
pub(super) fn supersede(next: &mut Payment) -> Result<(), Refusal> {
    unended(next)?;
    if next.held_at.is_some() {
        return Err(held(next));
    }
    match next.execution.phase {
        Phase::None => {
            call_off(next);
            "superseded".clone_into(&mut next.reason);
            Ok(())
        }
        Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => {
            Err(blocked(next, "the payment may be on its way already; it can't be replaced"))
        }
    }
}
