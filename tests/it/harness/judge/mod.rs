//! The judge: one checker of what must hold after any history, for every harness.
//!
//! It reads three sets of books that were kept apart from each other — our store by its SQL, the rail's
//! ledger and the signer service's log by their files — and compares them. Nothing of a running process is
//! asked, so it judges the history of an in-process desk and of one whose processes were killed alike.
//!
//! ```text
//! let breaches = judge(&Sources { … }).await;      // every invariant, by name
//! acquitted(&Sources { … }).await;                 // the same, and panics with what was found
//! ```
//!
//! [`LAWS`] is the list of ARCHITECTURE.md, I1 to I13, each one function. To add a law: a function over
//! [`Books`], a row here, and a doctored history in `judge_teeth` that it names.

mod books;
mod changes;
mod money;
mod people;

use std::fmt;

pub(crate) use books::{Books, Did, Sources};

/// One invariant and the function that judges it.
pub(crate) struct Law {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    judge: fn(&Books, &mut Findings<'_>),
}

/// Every invariant that can be seen from outside.
pub(crate) const LAWS: [Law; 13] = [
    Law { name: "I1", says: "at most one execution for each order of a tenant", judge: money::one_execution },
    Law { name: "I2", says: "an execution has a valid quorum at its intent", judge: people::quorum_at_intent },
    Law { name: "I3", says: "ended payments absorb", judge: changes::ends_absorb },
    Law { name: "I4", says: "what did not end EXECUTED was never executed", judge: money::unpaid_ends_are_unpaid },
    Law { name: "I5", says: "EXECUTED means one transfer that equals the request", judge: money::executed_as_asked },
    Law { name: "I6", says: "what is proposed stays within every limit", judge: money::within_limits },
    Law { name: "I7", says: "everything is audited, and the chain is whole", judge: changes::audit_is_whole },
    Law { name: "I8", says: "what has not ended wakes up again", judge: changes::wakes_again },
    Law { name: "I9", says: "only signers' own keys decide", judge: people::only_signers_decide },
    Law { name: "I10", says: "a repetition changes nothing", judge: changes::repetitions_change_nothing },
    Law { name: "I11", says: "a person counts once, the requester never", judge: people::person_counts_once },
    Law { name: "I12", says: "the version rises by exactly one", judge: changes::versions_rise_by_one },
    Law {
        name: "I13",
        says: "a change of status is told, and only one that committed",
        judge: changes::changes_are_told,
    },
];

/// One thing that must not be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Breach {
    pub(crate) law: &'static str,
    /// The payment, order or tenant it is about.
    pub(crate) subject: String,
    pub(crate) why: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, subject, why } = self;
        let says = LAWS.iter().find(|known| known.name == *law).map_or("", |known| known.says);
        write!(f, "{law} ({says}): {subject}: {why}")
    }
}

/// Where a law puts what it finds.
pub(crate) struct Findings<'a> {
    law: &'static str,
    all: &'a mut Vec<Breach>,
}

impl Findings<'_> {
    pub(crate) fn note(&mut self, subject: impl fmt::Display, why: impl Into<String>) {
        self.all.push(Breach { law: self.law, subject: subject.to_string(), why: why.into() });
    }

    pub(crate) fn unless(&mut self, holds: bool, subject: impl fmt::Display, why: impl FnOnce() -> String) {
        if !holds {
            self.note(subject, why());
        }
    }
}

/// Reads the three sets of books and judges them by every law.
pub(crate) async fn judge(sources: &Sources<'_>) -> Vec<Breach> {
    verdict(&Books::read(sources).await)
}

/// Judges books that were read before.
pub(crate) fn verdict(books: &Books) -> Vec<Breach> {
    let mut all = Vec::new();
    for law in &LAWS {
        (law.judge)(books, &mut Findings { law: law.name, all: &mut all });
    }
    all
}

/// Holds that every law is kept.
pub(crate) async fn acquitted(sources: &Sources<'_>) {
    let breaches = judge(sources).await;
    let lines: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    assert!(breaches.is_empty(), "the judge finds, on {}:\n{}", sources.db.engine(), lines.join("\n"));
}
