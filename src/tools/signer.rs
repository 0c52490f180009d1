//! The signer's tools: see exactly what is signed, then approve or reject with a signature.

use serde_json::json;

use super::agent::listed;
use super::arguments::Arguments;
use super::reply::Reply;
use crate::domain::{Choice, Code, Principal, Reason, Refusal, Stage};
use crate::journal::{Approval, Journal, Verdict};
use crate::proof::Proof;

pub(super) async fn list_approvals(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let cursor = arguments.cursor()?;
    arguments.done()?;
    let page = journal.approvals(who, cursor.as_ref()).await?;
    let held = page.payments.iter().filter(|payment| payment.held_at.is_some()).count();
    let reply = listed(&page, "approvals");
    if held == 0 {
        return Ok(reply);
    }
    let all = page.payments.len();
    let message = format!("{all} on this page, {held} of them held by an operator: sign nothing that is held");
    Ok(reply.with("message", json!(message)))
}

pub(super) async fn get_approval(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    let choice = arguments
        .text("decision")?
        .map_or(Some(Choice::Approve), |word| Choice::from_name(&word))
        .ok_or_else(|| Refusal::invalid("decision", "must be \"approve\" or \"reject\""))?;
    let reason = Reason::parse("reason", &arguments.text("reason")?.unwrap_or_default())?;
    arguments.done()?;
    let approval = journal.approval(who, &selector, choice, reason.as_str()).await?;
    let forms: Vec<_> = approval
        .forms
        .iter()
        .map(|form| json!({"key_id": form.key_id, "decision_document": form.document, "decision_digest": form.digest}))
        .collect();
    let mut reply = Reply::following(&approval.payment, &approval.progress);
    if let Some((message, next_action)) = advice(&approval, choice) {
        reply = reply.with("message", json!(message)).with("next_action", json!(next_action));
    }
    Ok(reply
        .with("payment_document", json!(approval.payment.document))
        .with("payment_digest", json!(approval.payment.digest))
        .with("compare_code", json!(approval.compare_code))
        .with("decided", json!(approval.decided))
        .with("confirmed_by", json!(approval.confirmed_by))
        .with("to_sign", json!(forms)))
}

/// What a signer is to do whose approval is not confirmed yet.
const CONFIRM: &str = "You have approved with one key. Check every field again on another device, then sign the bytes of decision_document \
    with the key there and call confirm_signing.";

/// What a signer is to do whose keys are passkeys.
const PASSKEY: &str = "Your passkey signs on the payment's own page: open it by the link that you were sent, or from your inbox. What is signed here \
    is signed with an Ed25519 key, and none that you could use is registered.";

/// What nobody but an operator can change.
const ASK: &str = "ask_an_operator";

/// What a signer is to do; `None` where a signature changes nothing any more and the payment's own state says all.
fn advice(approval: &Approval, choice: Choice) -> Option<(String, &'static str)> {
    if let Some(decided) = &approval.decided {
        let next = Code::NonceConsumed.entry().next_action;
        return Some((format!("You have already decided this payment: {decided}."), next));
    }
    let (message, next) = if approval.payment.held_at.is_some() {
        ("An operator holds this payment to settle it by hand. Nothing is to be signed until it is released.", ASK)
    } else if approval.payment.status.stage() != Stage::Open {
        return None;
    } else if approval.forms.is_empty() && approval.by_passkey {
        (PASSKEY, "open_sign_page")
    } else if approval.forms.is_empty() {
        let why = if approval.confirmed_by.is_empty() {
            "You have no registered key that counts; an operator enrols one with `countersign keys enrol`."
        } else {
            "You have approved with the one key you have; the rule asks for another, on another device. An operator enrols it."
        };
        (why, ASK)
    } else {
        match choice {
            Choice::Approve if !approval.confirmed_by.is_empty() => (CONFIRM, "confirm_signing"),
            Choice::Approve => (
                "Check every field of payment_document, then sign the bytes of decision_document as a detached JWS and call confirm_signing.",
                "confirm_signing",
            ),
            Choice::Reject => (
                "Check every field of payment_document, then sign the bytes of decision_document as a detached JWS and call reject_signing with the same reason.",
                "reject_signing",
            ),
        }
    };
    Some((message.to_owned(), next))
}

pub(super) async fn confirm_signing(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    let jws = arguments.signature()?;
    arguments.done()?;
    let proof = Proof::Jws(jws);
    let verdict = journal.decide_as(who, &selector, Choice::Approve, Reason::default(), proof).await?;
    Ok(decided(&verdict))
}

pub(super) async fn reject_signing(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    let jws = arguments.signature()?;
    let reason = Reason::parse("reason", &arguments.required_text("reason")?)?;
    arguments.done()?;
    let verdict = journal.decide_as(who, &selector, Choice::Reject, reason, Proof::Jws(jws)).await?;
    Ok(decided(&verdict))
}

fn decided(verdict: &Verdict) -> Reply {
    let mut reply = Reply::about(&verdict.payment);
    if verdict.again && verdict.payment.status.stage() == Stage::Open {
        let message = "Recorded. It counts once you confirm it with another key of yours, on another device: get_approval shows what to sign.";
        reply = reply.with("message", json!(message)).with("next_action", json!("get_approval"));
    } else if verdict.payment.status.stage() == Stage::Open {
        let message = if verdict.surplus {
            "Recorded. It was not needed where you decide: enough had decided before."
        } else {
            "Recorded. Others are still to decide: approvals says who has, and how many are missing."
        };
        reply = reply.with("message", json!(message));
    }
    if verdict.replayed { reply.with("idempotent_replayed", json!(true)) } else { reply }
}
