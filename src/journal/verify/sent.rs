//! Whether what was sent to the rail, and the transfer it became, are those of the chain.

use std::collections::BTreeMap;

use super::payments::Case;
use super::{Break, BreakKind};
use crate::proof::{AuditFacts, sha256_hex};

/// Each attempt group's body is the one that was audited with its first attempt, and nothing else was sent.
pub(super) fn sent(case: &Case<'_>) -> Vec<Break> {
    let mut breaks = Vec::new();
    let (mut group, mut raised) = (1_i64, None);
    let mut audited: BTreeMap<String, &AuditFacts> = BTreeMap::new();
    for facts in case.changes() {
        match facts.event.as_str() {
            "attest_not_executed.second" => (group, raised) = (group.saturating_add(1), Some(facts)),
            "rail.execute.intended" => {
                audited.entry(case.payment.key_of_group(group)).or_insert(facts);
            }
            _ => {}
        }
    }
    let stored = case.payment.execution.group;
    if stored != group {
        let at = raised.or_else(|| case.changes().next_back());
        let (expected, found) = (format!("attempt group {group}"), format!("attempt group {stored}"));
        breaks.push(case.broken(BreakKind::RowDisagrees, at, expected, found));
    }
    for sent in case.sent {
        let key = &sent.outbound_key;
        let Some(facts) = audited.remove(key) else {
            let expected = format!("an entry rail.execute.intended for {key}");
            breaks.push(case.broken(BreakKind::SentUnaudited, None, expected, "no such entry"));
            continue;
        };
        let (said, found) = (&facts.digest_of_details, sha256_hex(&sent.body));
        // An older version of the program did not audit the body of what was found out after a restore.
        if (!said.is_empty() && *said != found) || sent.body_sha256 != found {
            let said = if said.is_empty() { &sent.body_sha256 } else { said };
            let expected = format!("{key} with a body of SHA-256 {said}");
            let found = format!("one of {found}, filed as {}", sent.body_sha256);
            breaks.push(case.broken(BreakKind::SentDisagrees, Some(facts), expected, found));
        }
    }
    for (key, facts) in audited {
        let expected = format!("the stored body of {key}");
        breaks.push(case.broken(BreakKind::SentMissing, Some(facts), expected, "it is not stored"));
    }
    breaks
}

/// The stored transfer is the one that the execution was audited with; there is none before.
pub(super) fn outcome(case: &Case<'_>) -> Vec<Break> {
    let stored = &case.payment.execution.transfer_id;
    let executed = case.changes().find(|facts| facts.to == "EXECUTED" && facts.from != "EXECUTED");
    let (at, expected) = match executed {
        None if stored.is_empty() => return Vec::new(),
        None => (case.changes().next_back(), "no transfer, as it was not executed".to_owned()),
        // An older version of the program did not audit the transfer.
        Some(facts) if facts.digest_of_details.is_empty() || facts.digest_of_details == sha256_hex(stored) => {
            return Vec::new();
        }
        Some(facts) => (Some(facts), format!("the transfer with SHA-256 {}", facts.digest_of_details)),
    };
    vec![case.broken(BreakKind::RowDisagrees, at, expected, format!("{stored:?}"))]
}
