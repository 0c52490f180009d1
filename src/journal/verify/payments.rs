//! Whether the chain tells all of what is stored of each payment, and the store all of what the chain does.

use std::collections::BTreeMap;

use super::super::create::says_its_terms;
use super::approvals::approvals;
use super::holds::holds;
use super::keys::{Keys, since};
use super::sent::{outcome, sent};
use super::{AuditReport, Break, BreakKind, LOOKS, Progress};
use crate::domain::{Payment, Timestamp};
use crate::proof::{AuditFacts, DecisionDocument, NEW_ROUND, decision_digest, named_key, payment_digest, sha256_hex};
use crate::store::{AttestedPayment, PinnedKey, RoundDecision, SentBody, Session, StoreFault, StoredDecision};

/// Payments read at once.
const PAGE: i64 = 200;

/// A tenant and its keys.
pub(super) struct Known<'a> {
    tenant: &'a str,
    /// As the chain tells of them.
    pub(super) keys: Keys,
    /// The public keys that are stored, by `signer key_id`.
    pinned: BTreeMap<String, PinnedKey>,
}

/// A payment as it is stored, with its history as the chain tells it.
pub(super) struct Case<'a> {
    pub(super) payment: &'a Payment,
    pub(super) history: &'a [AuditFacts],
    pub(super) decisions: &'a [RoundDecision],
    pub(super) words: &'a [AttestedPayment],
    pub(super) sent: &'a [SentBody],
    pub(super) known: &'a Known<'a>,
}

impl<'a> Case<'a> {
    /// The entries that changed it, in order.
    pub(super) fn changes(&self) -> impl DoubleEndedIterator<Item = &'a AuditFacts> + use<'a> {
        self.history.iter().filter(|facts| !facts.version.is_empty())
    }

    /// A break of this payment, at an entry if one is meant.
    pub(super) fn broken(
        &self,
        kind: BreakKind,
        at: Option<&AuditFacts>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Break {
        broken(self.payment.terms.payment_id.as_str(), kind, at, expected, found)
    }
}

fn broken(
    payment_id: &str,
    kind: BreakKind,
    at: Option<&AuditFacts>,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> Break {
    Break {
        kind,
        seq: at.and_then(|facts| facts.seq.parse().ok()),
        payment_id: payment_id.to_owned(),
        expected: expected.into(),
        found: found.into(),
    }
}

pub(super) async fn check(
    session: &mut Session,
    keys: Keys,
    pinned: BTreeMap<String, PinnedKey>,
    report: &mut AuditReport,
    progress: &mut Progress<'_>,
) -> Result<(), StoreFault> {
    let tenant = report.tenant.clone();
    let mut known = Known { tenant: &tenant, keys, pinned };
    for stored in [true, false] {
        let mut after = String::new();
        loop {
            let page = if stored {
                session.payment_ids(&tenant, &after, PAGE).await?
            } else {
                session.payments_only_audited(&tenant, &after, PAGE).await?
            };
            let Some(last) = page.last() else { break };
            last.clone_into(&mut after);
            for id in &page {
                let mut breaks = look(session, &known, id).await?;
                // By a key that came since the keys were looked at?
                if breaks.iter().any(|found| found.kind == BreakKind::DecisionInvalid)
                    && let Some(pinned) = since(session, &mut known.keys, report).await?
                {
                    known.pinned = pinned;
                    breaks = look(session, &known, id).await?;
                }
                for found in breaks {
                    report.push(found);
                }
                report.payments = report.payments.saturating_add(1);
            }
            progress("payments", report.payments);
        }
    }
    Ok(())
}

/// Looks at one payment until what is found stays.
async fn look(session: &mut Session, known: &Known<'_>, id: &str) -> Result<Vec<Break>, StoreFault> {
    let mut earlier = None;
    for _ in 0..LOOKS {
        let now = look_once(session, known, id).await?;
        if now.is_empty() || earlier.as_ref() == Some(&now) {
            return Ok(now);
        }
        // It may have changed between two reads.
        earlier = Some(now);
    }
    Ok(earlier.unwrap_or_default())
}

async fn look_once(session: &mut Session, known: &Known<'_>, id: &str) -> Result<Vec<Break>, StoreFault> {
    let kept = match session.kept_payments(id).await {
        Err(StoreFault::Corrupt(why)) => {
            return Ok(vec![broken(id, BreakKind::PaymentUnreadable, None, "a payment", why)]);
        }
        read => read?,
    };
    let lines = session.audit_of(known.tenant, id).await?;
    let history: Vec<AuditFacts> = lines.iter().filter_map(|line| serde_json::from_str(&line.canonical).ok()).collect();
    if kept.len() > 1 {
        let found = "it is in the hot tables and in the archive";
        return Ok(vec![broken(id, BreakKind::PaymentTwice, None, "a payment in one place", found)]);
    }
    let Some(payment) = kept.first().filter(|payment| payment.terms.tenant.as_str() == known.tenant) else {
        // Nothing is ever deleted: what is over is in the archive.
        let last = history.iter().rfind(|facts| !facts.version.is_empty());
        let expected = format!("a payment of {} in {:?}", known.tenant, last.map_or("", |facts| facts.to.as_str()));
        let found = kept.first().map(|payment| format!("it is stored as one of {}", payment.terms.tenant));
        let found = found.unwrap_or_else(|| "it is not stored".to_owned());
        return Ok(vec![broken(id, BreakKind::PaymentMissing, last, expected, found)]);
    };
    let decisions = session.all_decisions(id).await?;
    let words = session.attested_payment(id).await?;
    let sent_bodies = session.sent_bodies(id).await?;
    let case = Case { payment, history: &history, decisions: &decisions, words: &words, sent: &sent_bodies, known };
    let mut breaks = versions(&case);
    breaks.extend(terms(&case));
    breaks.extend(decided(&case));
    breaks.extend(approvals(&case));
    breaks.extend(holds(&case));
    breaks.extend(sent(&case));
    breaks.extend(outcome(&case));
    Ok(breaks)
}

/// Every version once, in order, each from where the one before ended; and the last is what is stored.
fn versions(case: &Case<'_>) -> Vec<Break> {
    let mut breaks = Vec::new();
    let (mut version, mut status) = (0_i64, "");
    for facts in case.history.iter().filter(|facts| !facts.version.is_empty()) {
        let next = version.saturating_add(1);
        if facts.version != next.to_string()
            || facts.from != status
            || (next == 1) != (facts.event == "payment.created")
        {
            let expected = format!("version {next}, from {status:?}");
            let found = format!("version {} from {:?} by {}", facts.version, facts.from, facts.event);
            breaks.push(case.broken(BreakKind::VersionsIncomplete, Some(facts), expected, found));
        }
        version = facts.version.parse().unwrap_or(next);
        status = &facts.to;
    }
    let last = case.history.iter().rfind(|facts| !facts.version.is_empty());
    let Payment { version: stored, status: stands, .. } = case.payment;
    if *stored != version {
        let expected = format!("version {version} as audited last");
        breaks.push(case.broken(BreakKind::VersionsIncomplete, last, expected, format!("version {stored} stored")));
    } else if stands.as_str() != status {
        let expected = format!("{status} as audited last");
        breaks.push(case.broken(BreakKind::StatusDisagrees, last, expected, format!("{} stored", stands.as_str())));
    }
    breaks
}

/// The stored terms make the stored document, and it is the audited one.
fn terms(case: &Case<'_>) -> Vec<Break> {
    let payment = case.payment;
    let began: &[&str] = if payment.round > 1 { &NEW_ROUND } else { &["payment.created"] };
    let entry = case.history.iter().rfind(|facts| began.contains(&facts.event.as_str()));
    let mut breaks = Vec::new();
    if !says_its_terms(payment) {
        let expected = format!("the terms of the document with digest {}", payment_digest(&payment.document));
        breaks.push(case.broken(BreakKind::TermsDisagree, entry, expected, "other terms or another digest"));
    }
    // An older version of the program did not audit the document of a later round.
    if let Some(entry) = entry.filter(|entry| !entry.digest_of_details.is_empty()) {
        let found = sha256_hex(&payment.document);
        if entry.digest_of_details != found {
            let expected = format!("the document with SHA-256 {}", entry.digest_of_details);
            breaks.push(case.broken(BreakKind::TermsDisagree, Some(entry), expected, format!("one with {found}")));
        }
    }
    breaks
}

/// Each stored decision has its entry, and each entry its decision.
fn decided(case: &Case<'_>) -> Vec<Break> {
    let mut breaks = Vec::new();
    let mut entries: Vec<&AuditFacts> = case
        .history
        .iter()
        .filter(|facts| matches!(facts.event.as_str(), "decision.approve" | "decision.reject" | "decision.surplus"))
        .collect();
    for RoundDecision { decision, .. } in case.decisions {
        let counted = decision.payment_version > 0;
        let event = if counted { format!("decision.{}", decision.choice) } else { "decision.surplus".to_owned() };
        let version = if counted { decision.payment_version.to_string() } else { String::new() };
        let actor = format!("signer:{}", decision.signer_id);
        let digest = sha256_hex(&decision.digest);
        // When it was taken in says whether a deputy could speak then.
        let at = Timestamp::from_micros(decision.decided_at).rfc3339();
        let own = |facts: &&&AuditFacts| {
            facts.event == event
                && facts.ts == at
                && facts.version == version
                && facts.actor == actor
                && facts.digest_of_details == digest
        };
        let Some(entry) = entries.iter().position(|facts| own(&facts)).map(|at| entries.remove(at)) else {
            let expected = format!("an entry {event} by {actor} at {at} with version {version:?}");
            let near = case.history.iter().find(|facts| facts.actor == actor);
            breaks.push(case.broken(BreakKind::DecisionUnaudited, near, expected, "no such entry"));
            continue;
        };
        if let Some(found) = misquoted(decision) {
            let expected = format!("the decision that {} signed", decision.signer_id);
            breaks.push(case.broken(BreakKind::DecisionInvalid, Some(entry), expected, found));
        }
    }
    for facts in entries {
        let expected = format!("the stored decision of {}", facts.actor);
        breaks.push(case.broken(BreakKind::DecisionMissing, Some(facts), expected, "no such decision"));
    }
    breaks
}

/// Where a stored decision says otherwise than the document whose digest was audited, if it does.
fn misquoted(decision: &StoredDecision) -> Option<&'static str> {
    if decision_digest(&decision.document) != decision.digest {
        return Some("a document with another digest");
    }
    let Some(document) = DecisionDocument::parse(&decision.document) else { return Some("an unreadable document") };
    let named = named_key(&decision.proof_type, &decision.key_id);
    let differences = [
        ("another signer than in its document", document.signer_id != decision.signer_id),
        ("another key than in its document", document.key_id != named),
        ("another choice than in its document", document.decision != decision.choice),
        ("another reason than in its document", document.reason != decision.reason),
    ];
    differences.into_iter().find_map(|(what, differs)| differs.then_some(what))
}

/// The pinned key of that name.
pub(super) fn pinned_key<'a>(case: &Case<'a>, name: &str) -> Option<&'a PinnedKey> {
    case.known.pinned.get(name)
}
