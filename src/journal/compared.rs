//! What the rail's answer means for a payment of a restored database, and what is lost of it that no rail knows.

use std::time::Duration;

use super::Journal;
use super::create::document;
use crate::domain::{Attention, Event, Finding, Payment, Phase, Refusal, Stage, Status, Timestamp};
use crate::store::Restore;

/// The outcome that a person must see to.
pub(super) const ATTENTION: &str = "attention";
/// Its signers are asked again.
const ASKED_ANEW: &str = "asked_anew";

/// Why a database is taken for a restored one: somebody said so, or it had forgotten what a process knew. Any other
/// cause is a guess.
const TOLD: &str = "told";
pub(super) const WENT_BACK: &str = "went_back";

/// Whether it was restored, and not merely left alone for long.
pub(super) fn is_certain(cause: &str) -> bool {
    matches!(cause, TOLD | WENT_BACK)
}

/// How long what was signed lies unsent before a guess has it asked anew, where nothing else is configured.
const ASLEEP: Duration = Duration::from_mins(15);

/// An event, and its name in the audit.
type Step = (&'static str, Event);

impl Journal {
    /// What follows for a payment that the rail does not know, where people's words since the backup are lost.
    ///
    /// A desk that was merely switched off looks like a forgotten restore. What was signed and not sent that long ago is
    /// asked anew all the same; what is in doubt, and who was asked, goes on.
    pub(super) fn forgotten(&self, restore: &Restore, payment: &Payment) -> Result<Option<Step>, Refusal> {
        let guessed = !is_certain(&restore.cause);
        let asleep = self.rules.asleep.unwrap_or(ASLEEP);
        let old = Timestamp::from_micros(restore.marked_at).since(payment.updated_at) >= asleep;
        Ok(match (payment.status.stage(), payment.execution.phase) {
            (Stage::Open, _) if guessed => None,
            (Stage::Signed, Phase::None) if guessed && !old => None,
            (Stage::Open, _) | (Stage::Signed, Phase::None) => {
                let round = payment.round.saturating_add(1);
                let (document, digest) = document(&payment.terms, round, &self.rules.audience)?;
                Some(("restore.asked_anew", Event::AskedAnew { document, digest }))
            }
            (Stage::Signed, Phase::Intended | Phase::Unknown) if !guessed => {
                Some(("restore.not_again", Event::NotAgain))
            }
            (Stage::Signed | Stage::Ended, _) => None,
        })
    }
}

/// What the rail's answer means for a payment as it stands, each step with its name in the audit.
///
/// `forgotten` is set where what people said of it since the backup is lost, and what follows then if the rail knows nothing.
pub(super) fn events(payment: &Payment, finding: &Finding, forgotten: Option<Step>) -> Vec<Step> {
    const LOOKED: &str = "rail.execute.looked_up";
    let looked_up = (LOOKED, Event::LookedUp(finding.clone()));
    let free = payment.held_at.is_none();
    match payment.status.stage() {
        Stage::Signed if free => match payment.execution.phase {
            // What was never begun here and the rail does not know waits for people, or goes on as it was.
            Phase::None if *finding == Finding::NotFound => forgotten.into_iter().collect(),
            Phase::None => vec![("rail.execute.intended", Event::IntentRecovered), looked_up],
            // An attempt after the backup may have left after all.
            Phase::Intended | Phase::Unknown if payment.nothing_sent() => {
                let recovered = ("rail.execute.intended", Event::IntentRecovered);
                [Some(recovered), forgotten, Some(looked_up)].into_iter().flatten().collect()
            }
            Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => {
                forgotten.into_iter().chain([looked_up]).collect()
            }
        },
        Stage::Open | Stage::Signed => match finding {
            Finding::Found { .. } | Finding::Differs => vec![("rail.compared", Event::PaidUnseen)],
            Finding::FoundRefused { .. } | Finding::NotFound => forgotten.into_iter().collect(),
            Finding::Inconclusive => Vec::new(),
        },
        Stage::Ended => vec![looked_up],
    }
}

/// What followed, in a stable word.
pub(super) fn outcome(before: &Payment, after: &Payment) -> &'static str {
    let raised = after.attention.difference(&before.attention).next().is_some()
        || after.attention.contains(&Attention::TerminalContradiction)
        || after.attention.contains(&Attention::PaidAfterBackup)
        || after.attention.contains(&Attention::SignedBeforeRestore);
    match after.status {
        _ if after.round > before.round && before.status.stage() == Stage::Open => ASKED_ANEW,
        Status::Executed if before.status != Status::Executed => "executed",
        Status::Failed if before.status != Status::Failed => "failed",
        _ if raised => ATTENTION,
        _ => "as_believed",
    }
}
