//! Walking an audit chain entry by entry: what is wrong with it, and where.
//!
//! A walk goes on after a flaw, from what is stored, so that one change is one or two flaws and
//! the next change is found too.

use super::canonical::jcs;
use super::chain::{AuditFacts, GENESIS, chained};
use crate::domain::Timestamp;

/// An entry as a store keeps it: the chained text, and the columns by which it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// Position in the tenant's chain.
    pub seq: i64,
    /// The payment it is filed under.
    pub payment_id: String,
    /// The event it is filed under.
    pub event: String,
    /// The canonical facts.
    pub canonical: String,
    /// The chain value before.
    pub previous: String,
    /// The chain value after.
    pub chain: String,
    /// When, Unix microseconds.
    pub written_at: i64,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlawKind {
    /// Entries between the last one and this are not there.
    Missing,
    /// Its position is taken already.
    Extra,
    /// Its text is not canonical, or not an entry.
    Unreadable,
    /// Its text speaks of another position or tenant.
    Misplaced,
    /// Its chain value is not that of its text.
    Edited,
    /// It does not follow from the entry before.
    Unlinked,
    /// It is filed under another payment, event or time than its text says.
    Misfiled,
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// What.
    pub kind: FlawKind,
    /// The position; the first one, of several that are missing.
    pub seq: i64,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// A walk along one tenant's chain.
#[derive(Debug, Clone)]
pub struct Walk {
    tenant: String,
    seq: i64,
    chain: String,
}

impl Walk {
    /// A walk from the beginning.
    pub fn new(tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), seq: 0, chain: GENESIS.to_owned() }
    }

    /// The position reached.
    pub const fn seq(&self) -> i64 {
        self.seq
    }

    /// The chain value there, as it is stored.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// Takes the next entry; its facts if they can be read, and what is wrong with it.
    pub fn step(&mut self, entry: &AuditLine) -> (Option<AuditFacts>, Vec<Flaw>) {
        let mut flaws = Vec::new();
        let mut flaw = |kind, seq, expected: String, found: String| flaws.push(Flaw { kind, seq, expected, found });
        let next = self.seq.saturating_add(1);
        let gap = entry.seq > next;
        if gap {
            let last = entry.seq.saturating_sub(1);
            let which = if last == next { format!("entry {next}") } else { format!("entries {next} to {last}") };
            flaw(FlawKind::Missing, next, which, "nothing".to_owned());
        } else if entry.seq < next {
            flaw(FlawKind::Extra, entry.seq, format!("entry {next}"), format!("another entry {}", entry.seq));
        }
        let facts: Option<AuditFacts> = serde_json::from_str(&entry.canonical).ok();
        let facts = facts.filter(|facts| jcs(facts).is_ok_and(|text| text == entry.canonical));
        if let Some(facts) = &facts {
            if facts.seq != entry.seq.to_string() || facts.tenant != self.tenant {
                let found = format!("an entry that says it is {} of {}", facts.seq, facts.tenant);
                flaw(FlawKind::Misplaced, entry.seq, format!("entry {} of {}", entry.seq, self.tenant), found);
            }
            let filed = (&entry.payment_id, &entry.event, Timestamp::from_micros(entry.written_at).rfc3339());
            let said = (&facts.payment_id, &facts.event, facts.ts.clone());
            if filed != said {
                let words =
                    |(payment, event, at): (&String, &String, String)| format!("{event} of {payment:?} at {at}");
                flaw(FlawKind::Misfiled, entry.seq, words(said), words(filed));
            }
        } else {
            flaw(FlawKind::Unreadable, entry.seq, "an entry in canonical form".to_owned(), "another text".to_owned());
        }
        let chain = chained(&entry.previous, &entry.canonical);
        if chain != entry.chain {
            flaw(FlawKind::Edited, entry.seq, format!("a text with chain value {}", entry.chain), chain);
        }
        if !gap && entry.previous != self.chain {
            let expected = format!("to follow {}", shown(&self.chain));
            flaw(FlawKind::Unlinked, entry.seq, expected, format!("follows {}", shown(&entry.previous)));
        }
        self.seq = self.seq.max(entry.seq);
        self.chain.clone_from(&entry.chain);
        (facts, flaws)
    }
}

/// A chain value for people; the one before the first entry has no characters.
pub fn shown(chain: &str) -> &str {
    if chain.is_empty() { "-" } else { chain }
}
