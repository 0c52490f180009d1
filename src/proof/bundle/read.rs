//! The documents of a bundle, read: each in its one canonical form.

use super::form::{Bundle, Decided, Registered, number};
use crate::domain::ApprovalPolicy;
use crate::proof::canonical::{b64url, jcs, tagged_digest};
use crate::proof::registry::instant;
use crate::proof::{DecisionDocument, PaymentDocument, Receipt, RegistryEntry, decision_digest, payment_digest};

/// A bundle and its documents.
pub(super) struct Documents<'a> {
    pub(super) bundle: &'a Bundle,
    pub(super) payment: PaymentDocument,
    pub(super) policy: ApprovalPolicy,
    pub(super) decisions: Vec<(&'a Decided, DecisionDocument)>,
    pub(super) entries: Vec<(&'a Registered, RegistryEntry)>,
    pub(super) receipt: Option<Receipt>,
}

impl<'a> Documents<'a> {
    /// Reads them all.
    ///
    /// *Errors*: which one is not a document of its kind in canonical form, or not that of its digest.
    pub(super) fn read(bundle: &'a Bundle) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what} is not a document of its kind in canonical form");
        let payment = PaymentDocument::parse(&bundle.payment.document).ok_or_else(|| wrong("the payment"))?;
        let policy = policy(&bundle.policy.document).ok_or_else(|| wrong("the policy"))?;
        let decision = |decided: &'a Decided| {
            let read = DecisionDocument::parse(&decided.document).filter(|document| document.choice().is_some());
            Ok((decided, read.ok_or_else(|| wrong(&format!("decision {}", decided.decision_id)))?))
        };
        let entry = |(number, kept): (usize, &'a Registered)| {
            let read = RegistryEntry::parse(&kept.entry);
            Ok((kept, read.ok_or_else(|| wrong(&format!("registry entry {number}")))?))
        };
        let receipt = match bundle.execution.receipt.as_str() {
            "" => None,
            text => Some(Receipt::parse(text).ok_or_else(|| wrong("the receipt"))?),
        };
        let documents = Self {
            bundle,
            payment,
            policy,
            decisions: bundle.decisions.iter().map(decision).collect::<Result<_, String>>()?,
            entries: (1..).zip(&bundle.registry).map(entry).collect::<Result<_, String>>()?,
            receipt,
        };
        match documents.digest_fault() {
            None => Ok(documents),
            Some(why) => Err(why),
        }
    }

    /// A digest that is not that of the text beside it.
    fn digest_fault(&self) -> Option<String> {
        let Bundle { payment, policy, .. } = self.bundle;
        let ends = [
            ("the payment".to_owned(), &payment.digest, payment_digest(&payment.document)),
            ("the policy".to_owned(), &policy.digest, b64url(tagged_digest(PaymentDocument::POLICY, &policy.document))),
        ];
        let decided = self.decisions.iter().map(|(decided, _)| {
            (format!("decision {}", decided.decision_id), &decided.digest, decision_digest(&decided.document))
        });
        let wrong = ends.into_iter().chain(decided).find(|(_, told, own)| *told != own);
        wrong.map(|(what, told, own)| format!("{what} has the digest {own}, not {told}"))
    }

    /// The counted decisions of this round, in their order.
    pub(super) fn counted(&self) -> impl Iterator<Item = &(&'a Decided, DecisionDocument)> {
        self.decisions.iter().filter(|(decided, _)| decided.standing == COUNTED)
    }

    /// Whether two people's word stands for the rail's.
    pub(super) fn by_hand(&self) -> bool {
        let execution = &self.bundle.execution;
        let of = |word: &super::Word| word.reference == execution.transfer_id;
        self.receipt.is_none() && execution.attestations.iter().any(of)
    }

    pub(super) fn executed(&self) -> bool {
        self.bundle.payment.status == EXECUTED
    }
}

pub(super) const COUNTED: &str = "counted";
pub(super) const VOID: &str = "void";
pub(super) const EXECUTED: &str = "EXECUTED";

/// Reads a policy's canonical text.
fn policy(text: &str) -> Option<ApprovalPolicy> {
    let policy: ApprovalPolicy = serde_json::from_str(text).ok()?;
    (jcs(&policy).ok()? == text && is_in_form(&policy)).then_some(policy)
}

/// Whether its numbers and times are in their one form, no level is empty, and nothing is said that goes without saying.
fn is_in_form(policy: &ApprovalPolicy) -> bool {
    let groups = || policy.levels.iter().flat_map(|level| &level.groups);
    let confirmed = Some(policy.confirmations.as_str()).filter(|text| !text.is_empty());
    let numbers = groups().map(|group| group.required.as_str()).chain(confirmed);
    let times = policy.deputies.iter().flat_map(|deputy| [&deputy.from, &deputy.until]);
    let full = !policy.levels.is_empty() && policy.levels.iter().all(|level| !level.groups.is_empty());
    full && policy.confirmations != "1"
        && numbers.into_iter().all(|text| number(text).is_some())
        && times.into_iter().all(|at| instant(at).is_some())
}
