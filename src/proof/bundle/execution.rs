//! Whether what was sent, and what the rail confirmed, is what was signed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::form::Word;
use super::read::Documents;
use super::report::Outcome;

/// Whether every request is the payment's, and so is what became of it.
pub(super) fn execution(documents: &Documents<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let payment = &documents.payment;
    let execution = &documents.bundle.execution;
    for sent in &execution.requests {
        if let Some(what) = differs(documents, &sent.body) {
            outcome.faults.push(format!("request {}: {what} is not the payment's", sent.key));
        }
        if !sent.key.starts_with(&format!("{}:rail.execute:g", payment.payment_id)) {
            outcome.faults.push(format!("request {}: is another payment's", sent.key));
        }
    }
    match (&documents.receipt, documents.executed()) {
        (None, false) if execution.transfer_id.is_empty() => {}
        (_, false) => {
            outcome.faults.push(format!("it is {}, and there is a transfer", documents.bundle.payment.status));
        }
        (Some(receipt), true) => {
            let told = [&receipt.reference, &receipt.amount_minor, &receipt.currency, &receipt.payee_account];
            if told != [&payment.payment_id, &payment.amount_minor, &payment.currency, &payment.payee_account] {
                outcome.faults.push("the receipt's reference, amount or payee is not the payment's".to_owned());
            }
            if receipt.transfer_id != execution.transfer_id {
                outcome.faults.push("the receipt is of another transfer".to_owned());
            }
            if execution.requests.is_empty() {
                outcome.faults.push("there is a receipt for what was never sent".to_owned());
            }
        }
        (None, true) if documents.by_hand() => {
            if !two_people(documents) {
                outcome.faults.push(
                    "no two people, neither of whom asked for it, say with one reference that it was paid".to_owned(),
                );
            }
        }
        (None, true) => outcome.open.push("it is EXECUTED, and there is neither receipt nor attestation".to_owned()),
    }
    outcome
}

/// A request's body (docs/rail-contract.md). A member that stands there twice is refused: two readers might read two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    reference: String,
    order_id: String,
    amount_minor: String,
    currency: String,
    payer_account: String,
    payee_account: String,
    payee_name: String,
    purpose: String,
}

/// What of a request is not the payment's.
fn differs(documents: &Documents<'_>, body: &str) -> Option<&'static str> {
    let payment = &documents.payment;
    let Ok(sent) = serde_json::from_str::<Body>(body) else { return Some("its form") };
    let pairs = [
        ("its reference", &sent.reference, &payment.payment_id),
        ("its order", &sent.order_id, &payment.order_id),
        ("its amount", &sent.amount_minor, &payment.amount_minor),
        ("its currency", &sent.currency, &payment.currency),
        ("its payer", &sent.payer_account, &payment.payer_account),
        ("its payee", &sent.payee_account, &payment.payee_account),
        ("its payee's name", &sent.payee_name, &payment.payee_name),
        ("its purpose", &sent.purpose, &payment.purpose),
    ];
    // A derived reader takes a list of the values as well.
    let object = body.trim_start().starts_with('{');
    pairs.iter().find(|(_, sent, own)| sent != own).map(|(what, ..)| *what).or((!object).then_some("its form"))
}

/// Whether two people say it in one episode, neither of whom the payment was asked for.
fn two_people(documents: &Documents<'_>) -> bool {
    let execution = &documents.bundle.execution;
    let good =
        |word: &&Word| word.reference == execution.transfer_id && word.person != documents.payment.requester_principal;
    let mut people: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for word in execution.attestations.iter().filter(good) {
        people.entry(&word.episode).or_default().insert(&word.person);
    }
    people.values().any(|people| people.len() > 1)
}
