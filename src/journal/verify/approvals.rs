//! Whether an execution had its quorum when its intent was written, or the word of two people.

use super::super::decide::{is_decision_about, is_proved_by};
use super::super::votes::votes;
use super::payments::{Case, pinned_key};
use super::{Break, BreakKind};
use crate::domain::{Standing, Timestamp, evaluate};
use crate::proof::{AuditFacts, NEW_ROUND, sha256_hex};
use crate::store::{AttestedPayment, StoredDecision};

/// How much older than the intent a revocation must be to void a decision: one that was under way while
/// the intent was written may stand before it in the chain.
const UNDER_WAY_MICROS: i64 = 60_000_000;

const INTENDED: &str = "rail.execute.intended";

/// What an execution rests on.
pub(super) fn approvals(case: &Case<'_>) -> Vec<Break> {
    let mut breaks: Vec<Break> = begun(case).into_iter().flat_map(|intended| quorum(case, intended)).collect();
    let intended = case.history.iter().find(|facts| facts.event == INTENDED);
    let ended = |facts: &&AuditFacts| !facts.version.is_empty() && facts.to == "EXECUTED" && facts.from != "EXECUTED";
    let Some(executed) = case.history.iter().find(ended) else { return breaks };
    if executed.event == "attest_executed.second" {
        breaks.extend(two_people(case, executed));
    } else if intended.is_none_or(|intended| position(intended) > position(executed)) {
        let expected = "an intent before it was executed";
        breaks.push(case.broken(BreakKind::ExecutionUnapproved, Some(executed), expected, "none"));
    }
    breaks
}

/// The first intent under each key since this round began: each had to have its quorum. What an earlier round rested on is
/// void, and its rule is not kept.
fn begun<'a>(case: &Case<'a>) -> Vec<&'a AuditFacts> {
    let (mut begun, mut fresh) = (Vec::new(), true);
    for facts in case.changes() {
        match facts.event.as_str() {
            word if NEW_ROUND.contains(&word) => (begun, fresh) = (Vec::new(), true),
            "attest_not_executed.second" => fresh = true,
            INTENDED if fresh => {
                fresh = false;
                begun.push(facts);
            }
            _ => {}
        }
    }
    begun
}

/// The decisions counted before the intent complete the payment's own rule, each verified anew.
fn quorum(case: &Case<'_>, intended: &AuditFacts) -> Vec<Break> {
    let payment = case.payment;
    let at: i64 = intended.version.parse().unwrap_or(0);
    let mut breaks = Vec::new();
    let mut standing = Vec::new();
    for decision in case.decisions.iter().filter(|decision| decision.round == payment.round) {
        let decision = &decision.decision;
        if decision.payment_version == 0 || decision.payment_version >= at {
            continue;
        }
        match doubt(case, intended, decision) {
            None => standing.push(decision.clone()),
            Some(why) => {
                let version = decision.payment_version.to_string();
                let entry = case.history.iter().find(|facts| facts.version == version);
                let expected = format!("a decision of {} that verifies", decision.signer_id);
                breaks.push(case.broken(BreakKind::DecisionInvalid, entry, expected, why));
            }
        }
    }
    let rule = &payment.terms.policy;
    if !matches!(evaluate(rule, &payment.terms, &votes(&standing)), Standing::Complete { .. }) {
        let people: Vec<&str> = standing.iter().map(|decision| decision.signer_id.as_str()).collect();
        let expected = format!("approvals of {} before its intent", rule.required_text());
        let found = format!("valid decisions of {people:?}");
        breaks.push(case.broken(BreakKind::ExecutionUnapproved, Some(intended), expected, found));
    }
    breaks
}

/// Why a decision does not count, if it does not.
fn doubt(case: &Case<'_>, intended: &AuditFacts, decision: &StoredDecision) -> Option<&'static str> {
    let name = format!("{} {}", decision.signer_id, decision.key_id);
    let Some(key) = pinned_key(case, &name) else { return Some("no pinned key of that name") };
    if !is_decision_about(decision, &case.payment.digest) {
        return Some("a document about something else");
    }
    if !is_proved_by(decision, key) {
        return Some("a signature that does not verify");
    }
    let when = |text: &str| Timestamp::parse_rfc3339(text).map(Timestamp::micros);
    // One that the chain tells of later revoked nothing yet, whatever the clock said.
    let revoked = case.known.keys.get(&name).and_then(|history| history.revoked.as_ref());
    let revoked = revoked.filter(|revoked| revoked.seq < position(intended)).and_then(|revoked| when(&revoked.at));
    let begun = when(&intended.ts).unwrap_or(i64::MAX).saturating_sub(UNDER_WAY_MICROS);
    revoked.is_some_and(|revoked| revoked < begun).then_some("a key that had been revoked")
}

/// Two different people said that the money moved, with one reference.
fn two_people(case: &Case<'_>, executed: &AuditFacts) -> Vec<Break> {
    let mut earlier = case.history.iter().filter(|facts| {
        facts.event == "attest_executed.first"
            && facts.actor != executed.actor
            && facts.digest_of_details == executed.digest_of_details
            && position(facts) < position(executed)
    });
    // Each stored word is one that the chain tells of, in the same words.
    let told = |word: &AttestedPayment, facts: &AuditFacts| {
        facts.actor.split_once(':').is_some_and(|(_, person)| person == word.person)
            && facts.reason == word.evidence
            && facts.digest_of_details == sha256_hex(&word.reference)
    };
    let stored = |first: &AuditFacts| {
        let mut seconds = case.words.iter().filter(|word| told(word, executed));
        seconds.any(|second| case.words.iter().any(|word| word.episode == second.episode && told(word, first)))
    };
    if earlier.any(stored) {
        return Vec::new();
    }
    let expected = "the words of two people that agree";
    vec![case.broken(BreakKind::ExecutionUnapproved, Some(executed), expected, "fewer")]
}

fn position(facts: &AuditFacts) -> i64 {
    facts.seq.parse().unwrap_or(i64::MAX)
}
