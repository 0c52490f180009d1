//! Whether a held payment was left alone until people let it go, and is held as the chain says last.

use super::payments::Case;
use super::{Break, BreakKind};
use crate::domain::{Status, Timestamp};
use crate::proof::AuditFacts;

/// What a hold refuses, by the entry that it would write. Outcomes are stored in any case.
const REFUSED: [&str; 13] = [
    "attest_not_executed.second",
    "decision.approve",
    "decision.reject",
    "execution.denied",
    "execution.quorum_lost",
    "notify.requested",
    "payment.cancel",
    "payment.deadline",
    "payment.reassigned",
    "payment.superseded",
    "rail.execute.intended",
    "signer.notify.intended",
    "signer.register.intended",
];

/// Follows holds and releases to the row.
pub(super) fn holds(case: &Case<'_>) -> Vec<Break> {
    let mut breaks = Vec::new();
    let mut hold: Option<&AuditFacts> = None;
    for facts in case.changes() {
        match (facts.event.as_str(), hold) {
            ("payment.held" | "rail.compared", None) => hold = Some(facts),
            ("release_hold.second", Some(_)) => hold = None,
            ("release_hold.second", None) => {
                let expected = "a hold that is released";
                breaks.push(case.broken(BreakKind::HoldBroken, Some(facts), expected, "it was not held"));
            }
            (word, Some(since)) if word == "payment.held" || REFUSED.contains(&word) => {
                let expected = format!("a release after entry {}, which holds it", since.seq);
                let found = format!("{word}, and nobody had let it go");
                breaks.push(case.broken(BreakKind::HoldBroken, Some(facts), expected, found));
            }
            _ => {}
        }
        // The rail's word that it had paid ends a held payment too, and with it the hold.
        if facts.to == Status::Executed.as_str() {
            hold = None;
        }
    }
    let said = hold.map(|facts| facts.ts.clone());
    let stored = case.payment.held_at.map(Timestamp::rfc3339);
    if said != stored {
        let words = |at: Option<String>| at.map_or("not held".to_owned(), |at| format!("held since {at}"));
        let at = hold.or_else(|| case.changes().next_back());
        breaks.push(case.broken(BreakKind::RowDisagrees, at, words(said), words(stored)));
    }
    breaks
}
