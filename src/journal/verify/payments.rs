//! Whether the chain tells all of what is stored of each payment, and the store all of what the chain does.

use std::collections::BTreeMap;

use super::super::create::says_its_terms;
use super::approvals::approvals;
use super::{AuditReport, Break, BreakKind, Keys, Progress};
use crate::domain::{Payment, Status};
use crate::proof::{AuditFacts, PublicKey, from_b64url, payment_digest, sha256_hex};
use crate::store::{AttestedPayment, RoundDecision, Session, StoreFault};

/// Payments read at once.
const PAGE: i64 = 200;
/// How often a payment that changes while it is looked at is looked at again.
const LOOKS: usize = 5;

/// A payment as it is stored, with its history as the chain tells it.
pub(super) struct Case<'a> {
    pub(super) id: &'a str,
    pub(super) payment: Option<&'a Payment>,
    pub(super) history: &'a [AuditFacts],
    pub(super) decisions: &'a [RoundDecision],
    pub(super) words: &'a [AttestedPayment],
    pub(super) keys: &'a Keys,
    /// The public keys of the tenant, by `signer key_id`.
    pub(super) pinned: &'a BTreeMap<String, String>,
}

impl Case<'_> {
    /// A break of this payment, at an entry if one is meant.
    pub(super) fn broken(
        &self,
        kind: BreakKind,
        at: Option<&AuditFacts>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Break {
        Break {
            kind,
            seq: at.and_then(|facts| facts.seq.parse().ok()),
            payment_id: self.id.to_owned(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

pub(super) async fn check(
    session: &mut Session,
    keys: &Keys,
    report: &mut AuditReport,
    progress: &mut Progress<'_>,
) -> Result<(), StoreFault> {
    let tenant = report.tenant.clone();
    let mut pinned = BTreeMap::new();
    for key in session.keys_of_tenant(&tenant).await? {
        let name = format!("{} {}", key.signer_id, key.key_id);
        let enrolled = keys.get(&name);
        if enrolled.is_none_or(|history| history.digest != sha256_hex(&key.public_key)) {
            report.push(Break {
                kind: BreakKind::KeyUnaudited,
                seq: enrolled.map(|history| history.enrolled_seq),
                payment_id: String::new(),
                expected: format!("the public key that was enrolled as {name}"),
                found: enrolled.map_or("none was", |_| "another public key").to_owned(),
            });
        }
        pinned.insert(name, key.public_key);
    }
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
                let (found, moved) = look(session, &tenant, id, keys, &pinned).await?;
                for found in found {
                    report.push(found);
                }
                report.payments = report.payments.saturating_add(u64::from(!moved));
                report.moved_out = report.moved_out.saturating_add(u64::from(moved));
            }
            progress("payments", report.payments.saturating_add(report.moved_out));
        }
    }
    Ok(())
}

/// Looks at one payment until what is found stays; whether it is one that is no longer stored.
async fn look(
    session: &mut Session,
    tenant: &str,
    id: &str,
    keys: &Keys,
    pinned: &BTreeMap<String, String>,
) -> Result<(Vec<Break>, bool), StoreFault> {
    let mut earlier = None;
    for _ in 0..LOOKS {
        let now = look_once(session, tenant, id, keys, pinned).await?;
        if now.0.is_empty() || earlier.as_ref() == Some(&now) {
            return Ok(now);
        }
        // It may have changed between two reads.
        earlier = Some(now);
    }
    Ok(earlier.unwrap_or_default())
}

async fn look_once(
    session: &mut Session,
    tenant: &str,
    id: &str,
    keys: &Keys,
    pinned: &BTreeMap<String, String>,
) -> Result<(Vec<Break>, bool), StoreFault> {
    let payment = match session.payment_for_work(id).await {
        Ok(payment) => payment,
        Err(StoreFault::Corrupt(why)) => {
            let unreadable = Break {
                kind: BreakKind::PaymentUnreadable,
                seq: None,
                payment_id: id.to_owned(),
                expected: "a payment".to_owned(),
                found: why,
            };
            return Ok((vec![unreadable], false));
        }
        Err(fault) => return Err(fault),
    };
    let lines = session.audit_of(tenant, id).await?;
    let history: Vec<AuditFacts> = lines.iter().filter_map(|line| serde_json::from_str(&line.canonical).ok()).collect();
    let decisions = session.all_decisions(id).await?;
    let words = session.attested_payment(id).await?;
    let case =
        Case { id, payment: payment.as_ref(), history: &history, decisions: &decisions, words: &words, keys, pinned };
    let mut breaks = versions(&case);
    if payment.is_some() {
        breaks.extend(terms(&case));
        breaks.extend(decided(&case));
    }
    breaks.extend(approvals(&case));
    Ok((breaks, payment.is_none()))
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
    match case.payment {
        Some(payment) if payment.version != version => breaks.push(case.broken(
            BreakKind::VersionsIncomplete,
            last,
            format!("version {version} as audited last"),
            format!("version {} stored", payment.version),
        )),
        Some(payment) if payment.status.as_str() != status => breaks.push(case.broken(
            BreakKind::StatusDisagrees,
            last,
            format!("{status} as audited last"),
            format!("{} stored", payment.status.as_str()),
        )),
        None if !Status::from_name(status).is_some_and(Status::is_terminal) => breaks.push(case.broken(
            BreakKind::PaymentMissing,
            last,
            format!("an open payment in {status:?}"),
            "it is not stored",
        )),
        Some(_) | None => {}
    }
    breaks
}

/// The stored terms make the stored document, and it is the audited one.
fn terms(case: &Case<'_>) -> Vec<Break> {
    let Some(payment) = case.payment else { return Vec::new() };
    let named = |event: &str| case.history.iter().rfind(|facts| facts.event == event);
    let entry = if payment.round > 1 { named("execution.quorum_lost") } else { named("payment.created") };
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
        let own = |facts: &&&AuditFacts| {
            facts.event == event
                && facts.version == version
                && facts.actor == actor
                && facts.digest_of_details == digest
        };
        if let Some(at) = entries.iter().position(|facts| own(&facts)) {
            entries.remove(at);
        } else {
            let expected = format!("an entry {event} by {actor} with version {version:?}");
            let near = case.history.iter().find(|facts| facts.actor == actor);
            breaks.push(case.broken(BreakKind::DecisionUnaudited, near, expected, "no such entry"));
        }
    }
    for facts in entries {
        let expected = format!("the stored decision of {}", facts.actor);
        breaks.push(case.broken(BreakKind::DecisionMissing, Some(facts), expected, "no such decision"));
    }
    breaks
}

/// The pinned key of that name.
pub(super) fn pinned_key(case: &Case<'_>, name: &str) -> Option<PublicKey> {
    case.pinned.get(name).filter(|key| from_b64url(key).is_some()).and_then(|key| PublicKey::from_b64url(key).ok())
}
