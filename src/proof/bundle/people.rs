//! Who approved: signatures, whose keys they are by, and whether they are enough.

use std::collections::{BTreeMap, BTreeSet};

use super::form::Decided;
use super::read::{COUNTED, Documents, VOID};
use super::report::Outcome;
use crate::domain::{
    Account, Choice, Currency, Memo, Money, PartyName, Standing, Terms, Timestamp, Vote, evaluate, is_barred,
};
use crate::proof::jws::PublicKey;
use crate::proof::{DecisionDocument, PaymentDocument, Proof, RegistryEntry, named_key, verify_entry};

/// Whether every decision is its signer's answer to what they were asked about this payment.
pub(super) fn signatures(documents: &Documents<'_>) -> Vec<String> {
    let fault = |(decided, document): &(&Decided, DecisionDocument)| {
        signature(documents, decided, document).err().map(|why| format!("decision {}: {why}", decided.decision_id))
    };
    documents.decisions.iter().filter_map(fault).collect()
}

fn signature(documents: &Documents<'_>, decided: &Decided, document: &DecisionDocument) -> Result<(), String> {
    let said = |why: &str| Err(why.to_owned());
    let payment = &documents.bundle.payment;
    let round = &documents.payment.round;
    let about = (decided.round == *round, document.payment_digest == payment.digest);
    let belongs = if decided.standing == VOID { (false, false) } else { (true, true) };
    if about != belongs {
        return said("is about another payment or round than its standing says");
    }
    let challenge = |asked: &&super::Asked| {
        asked.round == decided.round
            && asked.signer_id == document.signer_id
            && asked.nonce == document.nonce
            && asked.issued_at == document.issued_at
            && asked.challenge_expires_at == document.challenge_expires_at
    };
    if documents.bundle.challenges.iter().filter(challenge).count() != 1 {
        return said("answers no challenge of its round");
    }
    let in_time = document.issued_at <= decided.decided_at && decided.decided_at < document.challenge_expires_at;
    if decided.standing == COUNTED && !in_time {
        return said("was not given while its challenge held");
    }
    let Some(entry) = entry_of(documents, decided, document) else {
        return said("has no registry entry of its signer and key, or more than one");
    };
    let named = named_key(&decided.proof.form, &entry.key_id);
    if document.key_id != named {
        return said("names another key than the one it is filed under");
    }
    let proof = Proof::of(&decided.proof.form, decided.proof.value.clone());
    let proof = proof.ok_or_else(|| "has a proof of no known kind".to_owned())?;
    let key = entry.key().map_err(|fault| fault.to_string())?;
    key.verify(&entry.key_id, &decided.document, &proof).map(drop).map_err(|fault| fault.to_string())
}

/// The one registry entry of a decision's signer and key.
fn entry_of<'a>(
    documents: &'a Documents<'_>,
    decided: &Decided,
    document: &DecisionDocument,
) -> Option<&'a RegistryEntry> {
    let mut found = documents
        .entries
        .iter()
        .map(|(_, entry)| entry)
        .filter(|entry| entry.signer_id == document.signer_id && entry.key_id == decided.key_id);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Whether the keys were those people's when they signed, by the root's word.
pub(super) fn registry(documents: &Documents<'_>, root: Option<&PublicKey>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (kept, entry) in &documents.entries {
        let name = format!("key {} of {}", entry.key_id, entry.signer_id);
        if entry.tenant != documents.payment.tenant {
            outcome.faults.push(format!("{name}: is another tenant's"));
        }
        if *owners.entry(&entry.public_key).or_insert(&entry.signer_id) != entry.signer_id {
            outcome.faults.push(format!("{name}: is another person's as well"));
        }
        match root {
            None if kept.signature.is_empty() => {
                outcome.open.push(format!("{name}: no root signed it; whose it is, only the gateway says"));
            }
            None => outcome.open.push(format!("{name}: is signed by a root, and no root's key was given")),
            Some(_) if kept.signature.is_empty() => outcome.faults.push(format!("{name}: no root signed it")),
            Some(root) => {
                if let Err(fault) = verify_entry(root, &kept.entry, &kept.signature) {
                    outcome.faults.push(format!("{name}: is not signed by this root: {fault}"));
                }
            }
        }
    }
    for (decided, document) in &documents.decisions {
        let entry = entry_of(documents, decided, document);
        if !entry.is_some_and(|entry| entry.counts_at(&decided.decided_at)) {
            let (id, at) = (&decided.decision_id, &decided.decided_at);
            outcome.faults.push(format!("decision {id}: there is no key of its signer's that counted at {at}"));
        }
    }
    outcome
}

/// Whether enough of the right people approved, each once, by the policy that they signed.
pub(super) fn quorum(documents: &Documents<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let Documents { payment, policy, bundle, .. } = documents;
    let named = (&payment.policy_id, &payment.policy_version, &payment.required);
    if payment.policy_digest != bundle.policy.digest || named != (&policy.id, &policy.version, &policy.required_text())
    {
        outcome.faults.push("the policy is not the one that the payment names".to_owned());
    }
    let Some(terms) = terms(documents) else {
        outcome.faults.push("the payment's terms can't be read".to_owned());
        return outcome;
    };
    let mut people = BTreeSet::new();
    let mut votes = Vec::new();
    for (decided, document) in documents.counted() {
        let (Ok(signer), Some(choice)) = (document.signer_id.parse(), document.choice()) else {
            outcome.faults.push(format!("decision {}: is nobody's", decided.decision_id));
            continue;
        };
        if is_barred(policy, &terms, &signer) {
            let id = &decided.decision_id;
            outcome.faults.push(format!("decision {id}: {signer} asked for the payment, or is paid by it"));
        }
        if !people.insert((document.signer_id.as_str(), decided.confirmation.as_str())) {
            outcome.faults.push(format!("decision {}: {signer} is counted twice", decided.decision_id));
        }
        let Some(at) = Timestamp::parse_rfc3339(&decided.decided_at) else {
            outcome.faults.push(format!("decision {}: was taken in at no time", decided.decision_id));
            continue;
        };
        votes.push(Vote { signer, choice, key: decided.key_id.clone(), at });
    }
    let standing = evaluate(policy, &terms, &votes);
    let said = votes.iter().filter(|vote| vote.choice == Choice::Approve).count();
    let found = format!("{said} approvals counted where {} must approve", policy.required_text());
    match (bundle.payment.status.as_str(), standing) {
        ("SIGNED" | "EXECUTED", Standing::Complete { .. }) | ("REJECTED", Standing::Rejected) => {}
        ("EXECUTED", _) if documents.by_hand() => {
            outcome.open.push(format!("paid by hand, on the word of two people: {found}"));
        }
        ("SIGNED" | "EXECUTED" | "REJECTED", _) => outcome.faults.push(found),
        _ => {}
    }
    outcome
}

/// What the rule is judged by, from P alone.
fn terms(documents: &Documents<'_>) -> Option<Terms> {
    let PaymentDocument { currency, amount_minor, payer_account, payee_account, payee_name, purpose, .. } =
        &documents.payment;
    let payment = &documents.payment;
    let currency: Currency = currency.parse().ok()?;
    let at = |text: &str| Timestamp::parse_rfc3339(text);
    Some(Terms {
        tenant: payment.tenant.parse().ok()?,
        payment_id: payment.payment_id.parse().ok()?,
        order_id: payment.order_id.parse().ok()?,
        amount: Money::from_minor(amount_minor.parse().ok()?, currency).ok()?,
        payer_account: Account::parse("payer_account", payer_account).ok()?,
        payee_account: Account::parse("payee_account", payee_account).ok()?,
        payee_name: PartyName::parse("payee_name", payee_name).ok()?,
        memo: Memo::parse("purpose", purpose).ok()?,
        agent: payment.requester_agent.parse().ok()?,
        principal: payment.requester_principal.clone(),
        wish: Vec::new(),
        policy: documents.policy.clone(),
        fingerprint: String::new(),
        traceparent: String::new(),
        created_at: at(&payment.created_at)?,
        expires_at: at(&payment.expires_at)?,
        execute_by: at(&payment.execute_by)?,
    })
}
