//! After a restore from backup: what the rail knows and this database does not.

use super::Moment;
use super::rail::executing;
use super::signing::new_round;
use crate::domain::attention::Attention;
use crate::domain::payment::{Payment, Phase, Stage, Status};
use crate::domain::refusal::Refusal;

/// An attempt that the backup does not know may have left: from here on the payment is in doubt, and only the
/// rail's word moves it.
///
/// Its key may be sent again no longer than the attempts that are known allow; without one, never.
pub(super) fn intent_recovered(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    executing(next, &[Phase::None, Phase::Intended, Phase::Unknown])?;
    next.execution.phase = Phase::Unknown;
    next.execution.sends = next.execution.sends.saturating_add(1);
    next.execution.queries = 0;
    next.execution.last_send_at = Some(moment.now);
    next.execution.next_at = Some(moment.now);
    Ok(())
}

/// Money moved for a payment that is not signed here, or that someone holds: it is held, its order stays taken, and
/// two people say how it ended.
pub(super) fn paid_unseen(next: &mut Payment, moment: &Moment<'_>) {
    match (next.status.stage(), next.execution.phase) {
        (Stage::Open | Stage::Signed, Phase::None) => {
            next.held_at = next.held_at.or(Some(moment.now));
            next.attention.insert(Attention::PaidAfterBackup);
        }
        // Its own look-ups settle what is on its way; what has ended is contradicted, not held.
        (Stage::Open | Stage::Signed, Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused)
        | (Stage::Ended, _) => {}
    }
}

/// Nothing that was signed counts: it may have been called off, replaced or paid by hand since, and nobody here would know.
///
/// Whoever is asked anew may.
pub(super) fn asked_anew(next: &mut Payment, document: String, digest: String, moment: &Moment<'_>) {
    match (next.status.stage(), next.execution.phase) {
        (Stage::Signed, Phase::None) => {
            next.status = Status::AwaitingSigner;
            "signed_before_restore".clone_into(&mut next.reason);
            next.attention.insert(Attention::SignedBeforeRestore);
        }
        (Stage::Open, _) => {}
        (Stage::Signed, Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused) | (Stage::Ended, _) => {
            return;
        }
    }
    new_round(next, document, digest, moment);
}

/// It may have been called off or paid by hand since: what is in doubt is not sent again under its key.
pub(super) fn not_again(next: &mut Payment, moment: &Moment<'_>) {
    match (next.status.stage(), next.execution.phase) {
        (Stage::Signed, Phase::Intended | Phase::Unknown) => {
            next.execution.resend_until = next.execution.resend_until.map(|until| until.min(moment.now));
        }
        (Stage::Signed, Phase::None | Phase::Confirmed | Phase::Refused) | (Stage::Open | Stage::Ended, _) => {}
    }
}
