//! Whether the keys that are pinned are those that the chain tells of, and revoked as it says.

use std::collections::BTreeMap;

use super::{AuditReport, Break, BreakKind, LOOKS, PAGE};
use crate::domain::Timestamp;
use crate::proof::{AuditFacts, sha256_hex};
use crate::store::{PinnedKey, Session, StoreFault};

/// A key as the chain tells of it.
#[derive(Debug, Clone)]
pub(super) struct KeyHistory {
    /// SHA-256 of the public key, as enrolled.
    digest: String,
    enrolled_seq: i64,
    /// The first revocation: what comes after it changes nothing.
    pub(super) revoked: Option<Revocation>,
}

/// A key's end as the chain tells of it.
#[derive(Debug, Clone)]
pub(super) struct Revocation {
    pub(super) seq: i64,
    /// When, as the entry says.
    pub(super) at: String,
}

/// What the chain tells of a tenant's keys, by `signer key_id`.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    known: BTreeMap<String, KeyHistory>,
    /// How many entries told of a key.
    told: usize,
    /// The last entry that was looked at.
    pub(super) seen: i64,
}

impl Keys {
    pub(super) fn get(&self, name: &str) -> Option<&KeyHistory> {
        self.known.get(name)
    }

    /// Takes what an entry tells of a key.
    pub(super) fn remember(&mut self, facts: &AuditFacts) {
        let seq = facts.seq.parse().unwrap_or(i64::MAX);
        match facts.event.as_str() {
            "signer_key.enrolled" => {
                self.told = self.told.saturating_add(1);
                let digest = facts.digest_of_details.clone();
                let history = KeyHistory { digest, enrolled_seq: seq, revoked: None };
                self.known.entry(facts.reason.clone()).or_insert(history);
            }
            "signer_key.revoked" => {
                self.told = self.told.saturating_add(1);
                if let Some(history) = self.known.get_mut(&facts.reason) {
                    history.revoked.get_or_insert_with(|| Revocation { seq, at: facts.ts.clone() });
                }
            }
            _ => {}
        }
    }

    /// Takes what was written since.
    async fn catch_up(&mut self, session: &mut Session, tenant: &str) -> Result<(), StoreFault> {
        loop {
            let page = session.audit_lines(tenant, self.seen, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            self.seen = last.seq;
            for line in &page {
                if let Ok(facts) = serde_json::from_str(&line.canonical) {
                    self.remember(&facts);
                }
            }
        }
    }
}

/// Compares until what is found stays; the keys that are stored, by name.
pub(super) async fn check(
    session: &mut Session,
    keys: &mut Keys,
    report: &mut AuditReport,
) -> Result<BTreeMap<String, PinnedKey>, StoreFault> {
    let mut earlier: Option<Vec<Break>> = None;
    let mut looks = 0_usize;
    loop {
        let stored = session.keys_of_tenant(&report.tenant).await?;
        let now = compare(&stored, keys);
        looks = looks.saturating_add(1);
        if now.is_empty() || earlier.as_ref() == Some(&now) || looks >= LOOKS {
            for found in now {
                if !report.breaks.contains(&found) {
                    report.push(found);
                }
            }
            return Ok(stored.into_iter().map(|key| (name_of(&key), key)).collect());
        }
        // One may have been enrolled or revoked since the chain was walked.
        earlier = Some(now);
        keys.catch_up(session, &report.tenant).await?;
    }
}

/// The keys that are stored, compared anew, if the chain tells of more since they were looked at.
pub(super) async fn since(
    session: &mut Session,
    keys: &mut Keys,
    report: &mut AuditReport,
) -> Result<Option<BTreeMap<String, PinnedKey>>, StoreFault> {
    let told = keys.told;
    keys.catch_up(session, &report.tenant).await?;
    if keys.told == told { Ok(None) } else { check(session, keys, report).await.map(Some) }
}

fn name_of(key: &PinnedKey) -> String {
    format!("{} {}", key.signer_id, key.key_id)
}

/// Each stored key as the chain tells of it, and each key of the chain stored.
fn compare(stored: &[PinnedKey], keys: &Keys) -> Vec<Break> {
    let mut breaks = Vec::new();
    let mut broken = |kind, seq, expected: String, found: String| {
        breaks.push(Break { kind, seq, payment_id: String::new(), expected, found });
    };
    let mut unseen = keys.known.clone();
    for key in stored {
        let name = name_of(key);
        let Some(history) = unseen.remove(&name) else {
            let expected = format!("the public key that was enrolled as {name}");
            broken(BreakKind::KeyUnaudited, None, expected, "none was".to_owned());
            continue;
        };
        if history.digest != sha256_hex(&key.public_key) {
            let expected = format!("the public key that was enrolled as {name}");
            broken(BreakKind::KeyUnaudited, Some(history.enrolled_seq), expected, "another public key".to_owned());
        }
        let at = key.revoked_at.map(|at| Timestamp::from_micros(at).rfc3339());
        if at.as_ref() != history.revoked.as_ref().map(|revoked| &revoked.at) {
            let words = |at: Option<&String>| at.map_or("not revoked".to_owned(), |at| format!("revoked at {at}"));
            let seq = history.revoked.as_ref().map_or(history.enrolled_seq, |revoked| revoked.seq);
            let expected = format!("{name} {}", words(history.revoked.as_ref().map(|revoked| &revoked.at)));
            broken(BreakKind::KeyRevocationDisagrees, Some(seq), expected, words(at.as_ref()));
        }
    }
    for (name, history) in unseen {
        let expected = format!("the key that was enrolled as {name}");
        broken(BreakKind::KeyMissing, Some(history.enrolled_seq), expected, "it is not stored".to_owned());
    }
    breaks
}
