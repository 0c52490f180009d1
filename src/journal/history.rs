//! Whether a payment's row says what was audited of it, asked before money may move.
//!
//! A row is one update by anybody who can write; the audit is a chain. They are written in one transaction, so where they
//! differ a hand was in the row, and nothing is sent.

use crate::domain::{Invariant, Payment, Phase};
use crate::proof::AuditFacts;
use crate::store::AuditRow;

/// What an intent is called in the audit.
const INTENDED: &str = "rail.execute.intended";
/// What an answer of the rail's to a question is called.
const LOOKED_UP: &str = "rail.execute.looked_up";
/// What raises the attempt group.
const NOT_EXECUTED: &str = "attest_not_executed.second";

/// The invariant that sending `payment` would break, by what was audited of it.
pub(super) fn contradicted(payment: &Payment, audited: &[AuditRow]) -> Option<Invariant> {
    let history: Vec<AuditFacts> = audited.iter().filter_map(|row| serde_json::from_str(&row.canonical).ok()).collect();
    // What came since the last group began: a new one is asked about before anything is sent.
    let raised = history.iter().rposition(|facts| facts.event == NOT_EXECUTED);
    let since = raised.map_or(history.as_slice(), |at| history.split_at(at).1);
    let intended = since.iter().any(|facts| facts.event == INTENDED);
    let asked = raised.is_none() || since.iter().any(|facts| facts.event == LOOKED_UP);
    // Each change began where the one before it had ended, and the row is where the last one ended.
    let changes: Vec<&AuditFacts> = history.iter().filter(|facts| !facts.version.is_empty()).collect();
    let on_end = changes.windows(2).all(|pair| matches!(pair, [before, after] if before.to == after.from));
    let as_audited = changes
        .last()
        .is_some_and(|last| last.version == payment.version.to_string() && last.to == payment.status.as_str());
    let times = history.iter().filter(|facts| facts.event == NOT_EXECUTED).count();
    let group = i64::try_from(times).unwrap_or(i64::MAX).saturating_add(1);
    let checks = [
        (Invariant::Absorbing, on_end && as_audited),
        (Invariant::OneExecution, payment.execution.group == group),
        (Invariant::OneExecution, payment.execution.phase != Phase::None || (asked && !intended)),
    ];
    checks.into_iter().find(|(_, holds)| !holds).map(|(invariant, _)| invariant)
}
