//! The audit of a payment: its entries in the chain, what they tell, and whether the chain is the one that was signed.

use super::form::{Decided, Stretch, number};
use super::read::{COUNTED, Documents, EXECUTED, VOID};
use super::report::Outcome;
use crate::proof::DecisionDocument;
use crate::proof::canonical::{b64url, from_b64url, jcs, sha256_hex};
use crate::proof::chain::{AuditFacts, GENESIS, chained, chained_leaf};
use crate::proof::note::{Checkpoint, NoteVerifier};

/// The chain as far as a bundle shows it.
pub(super) struct Walked {
    /// The payment's entries, by position.
    entries: Vec<(i64, AuditFacts)>,
    /// Where each stretch ends, and the chain value there; `None` where it can't be computed.
    ends: Vec<Option<(i64, String)>>,
    faults: Vec<String>,
}

impl Walked {
    /// Recomputes the chain along each stretch.
    pub(super) fn along(documents: &Documents<'_>) -> Self {
        let mut walked = Self { entries: Vec::new(), ends: Vec::new(), faults: Vec::new() };
        let mut reached = 0;
        for stretch in &documents.bundle.audit {
            let end = walked.stretch(documents, stretch, reached);
            if let Some((at, _)) = &end {
                reached = *at;
            }
            walked.ends.push(end);
        }
        walked
    }

    fn stretch(&mut self, documents: &Documents<'_>, stretch: &Stretch, reached: i64) -> Option<(i64, String)> {
        let after = number(&stretch.after).unwrap_or(0);
        let begins = if after == 0 { stretch.chain == GENESIS } else { hash(&stretch.chain).is_some() };
        if !begins || after < reached || stretch.items.is_empty() {
            self.faults.push(format!("the stretch after entry {after} does not begin where one may"));
            return None;
        }
        let (mut at, mut chain) = (after, stretch.chain.clone());
        for item in &stretch.items {
            at = at.saturating_add(1);
            chain = if item.starts_with('{') {
                self.take(documents, at, item);
                chained(&chain, item)
            } else if let Some(leaf) = hash(item) {
                chained_leaf(&chain, &leaf)
            } else {
                self.faults.push(format!("entry {at} is neither an entry nor a hash"));
                return None;
            };
        }
        Some((at, chain))
    }

    fn take(&mut self, documents: &Documents<'_>, at: i64, text: &str) {
        let facts: Option<AuditFacts> = serde_json::from_str(text).ok();
        let Some(facts) = facts.filter(|facts| jcs(facts).is_ok_and(|own| own == *text)) else {
            self.faults.push(format!("entry {at} is not an entry in canonical form"));
            return;
        };
        let whose = (facts.seq.as_str(), &facts.tenant, &facts.payment_id);
        if whose != (&at.to_string(), &documents.payment.tenant, &documents.payment.payment_id) {
            self.faults.push(format!("entry {at} says that it is another, or another payment's"));
        }
        self.entries.push((at, facts));
    }
}

/// 32 bytes in the one spelling of base64url.
fn hash(text: &str) -> Option<[u8; 32]> {
    from_b64url(text).filter(|bytes| b64url(bytes) == text)?.try_into().ok()
}

const INTENDED: &str = "rail.execute.intended";

/// What begins a round after the first, its document in the details: at execution, or after a restore.
pub const NEW_ROUND: [&str; 2] = ["execution.quorum_lost", "restore.asked_anew"];

fn begins_round(facts: &AuditFacts) -> bool {
    NEW_ROUND.contains(&facts.event.as_str())
}

/// Whether the entries follow from each other, and tell what the bundle says.
pub(super) fn audit(documents: &Documents<'_>, walked: &Walked) -> Vec<String> {
    let mut faults = walked.faults.clone();
    life(documents, walked, &mut faults);
    let round = walked.entries.iter().rfind(|(_, facts)| begins_round(facts)).map_or(0, |(at, _)| *at);
    let last = decisions(documents, walked, round, &mut faults);
    sending(documents, walked, (round, last), &mut faults);
    faults
}

/// Every change from the first to where the payment stands, none left out.
fn life(documents: &Documents<'_>, walked: &Walked, faults: &mut Vec<String>) {
    let (mut version, mut status) = (0_i64, "");
    for (at, facts) in walked.entries.iter().filter(|(_, facts)| !facts.version.is_empty()) {
        version = version.saturating_add(1);
        if facts.version != version.to_string() || facts.from != status {
            faults.push(format!("entry {at} is not the change after the one before it"));
        }
        status = &facts.to;
    }
    if status != documents.bundle.payment.status {
        faults.push(format!("the last change leads to {status:?}"));
    }
    let made = walked.entries.iter().rfind(|(_, facts)| begins_round(facts));
    let made = made.or_else(|| walked.entries.first().filter(|(_, facts)| facts.event == "payment.created"));
    if made.is_none_or(|(_, facts)| facts.digest_of_details != sha256_hex(&documents.bundle.payment.document)) {
        faults.push("no entry tells of this payment document".to_owned());
    }
}

/// Each decision has its entry, in their order, and each such entry its decision; where the last counted one is.
fn decisions(documents: &Documents<'_>, walked: &Walked, round: i64, faults: &mut Vec<String>) -> i64 {
    let told = |facts: &AuditFacts| {
        matches!(facts.event.as_str(), "decision.approve" | "decision.reject" | "decision.surplus")
    };
    let mut free: Vec<&(i64, AuditFacts)> = walked.entries.iter().filter(|(_, facts)| told(facts)).collect();
    let mut last = round;
    for (decided, document) in &documents.decisions {
        let own = free.iter().position(|(_, facts)| tells(facts, decided, document));
        let Some(at) = own.map(|own| free.remove(own).0) else {
            faults.push(format!("no entry tells of decision {}", decided.decision_id));
            continue;
        };
        if decided.standing == COUNTED {
            if at <= last {
                faults.push(format!("decision {} was taken in before what it should follow", decided.decision_id));
            }
            last = at;
        }
    }
    for (at, _) in free {
        faults.push(format!("entry {at} tells of a decision that is not in the bundle"));
    }
    last
}

/// Whether an entry tells of this decision.
fn tells(facts: &AuditFacts, decided: &Decided, document: &DecisionDocument) -> bool {
    let counted = facts.event == format!("decision.{}", document.decision) && !facts.version.is_empty();
    let surplus = facts.event == "decision.surplus" && facts.version.is_empty();
    let standing = match decided.standing.as_str() {
        COUNTED => counted,
        VOID => counted || surplus,
        _ => surplus,
    };
    standing
        && facts.actor == format!("signer:{}", document.signer_id)
        && facts.ts == decided.decided_at
        && facts.digest_of_details == sha256_hex(&decided.digest)
}

/// What was sent was written down first, after the approvals; what was executed, after that.
fn sending(documents: &Documents<'_>, walked: &Walked, (round, last): (i64, i64), faults: &mut Vec<String>) {
    let execution = &documents.bundle.execution;
    let intended: Vec<&(i64, AuditFacts)> =
        walked.entries.iter().filter(|(_, facts)| facts.event == INTENDED).collect();
    let bodies: Vec<String> = execution.requests.iter().map(|sent| sha256_hex(&sent.body)).collect();
    for (at, facts) in &intended {
        if *at > round && *at <= last {
            faults.push(format!("entry {at} is an intent before the last approval"));
        }
        if !bodies.contains(&facts.digest_of_details) {
            faults.push(format!("the request of entry {at} is not in the bundle"));
        }
    }
    for (sent, body) in execution.requests.iter().zip(&bodies) {
        if !intended.iter().any(|(_, facts)| facts.digest_of_details == *body) {
            faults.push(format!("no entry tells of request {}", sent.key));
        }
    }
    let done: Vec<&(i64, AuditFacts)> =
        walked.entries.iter().filter(|(_, facts)| facts.to == EXECUTED && facts.from != EXECUTED).collect();
    let (at, facts) = match done.as_slice() {
        [] if !documents.executed() => return,
        [(at, facts)] if documents.executed() => (*at, facts),
        _ => {
            faults.push("the entries do not tell of exactly the execution that there is".to_owned());
            return;
        }
    };
    if facts.digest_of_details != sha256_hex(&execution.transfer_id) {
        faults.push(format!("entry {at} tells of another transfer"));
    }
    if documents.by_hand() {
        let earlier = |(earlier, first): &&(i64, AuditFacts)| {
            *earlier < at
                && first.event == "attest_executed.first"
                && first.actor != facts.actor
                && first.digest_of_details == facts.digest_of_details
        };
        if facts.event != "attest_executed.second" || !walked.entries.iter().any(|entry| earlier(&entry)) {
            faults.push(format!("entry {at} is not the second of two people's words"));
        }
    } else if !intended.iter().any(|(intent, _)| round < *intent && *intent < at) {
        faults.push(format!("entry {at} is an execution without an intent before it"));
    }
}

/// Whether each stretch ends at a checkpoint by one of `keys`, with the chain value that was signed.
pub(super) fn checkpoint(documents: &Documents<'_>, walked: &Walked, keys: &[NoteVerifier]) -> Outcome {
    let mut outcome = Outcome { faults: walked.faults.clone(), open: Vec::new() };
    if documents.bundle.audit.is_empty() {
        outcome.faults.push("there is no audit".to_owned());
    }
    for (stretch, end) in documents.bundle.audit.iter().zip(&walked.ends) {
        let after = &stretch.after;
        if stretch.checkpoint.is_empty() {
            outcome.open.push(format!("what follows entry {after} is not covered by a signed checkpoint yet"));
        } else if keys.is_empty() {
            outcome.open.push("no key was given that signs checkpoints".to_owned());
        } else {
            match Checkpoint::open(&stretch.checkpoint, keys) {
                Err(fault) => outcome.faults.push(format!("the checkpoint of what follows entry {after}: {fault}")),
                Ok(signed) => {
                    let said = (signed.tenant.as_str(), Some((signed.size, signed.head)));
                    if said != (documents.payment.tenant.as_str(), end.clone()) {
                        outcome.faults.push(format!("what follows entry {after} is not what was signed"));
                    }
                }
            }
        }
    }
    outcome
}
