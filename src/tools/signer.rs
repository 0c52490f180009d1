//! The signer's tools: see exactly what is signed, then approve or reject with a signature.

use serde_json::json;

use super::agent::listed;
use super::arguments::Arguments;
use super::reply::Reply;
use crate::domain::{Choice, Principal, Reason, Refusal};
use crate::journal::{Journal, Verdict};

pub(super) async fn list_approvals(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let cursor = arguments.cursor()?;
    arguments.done()?;
    Ok(listed(&journal.approvals(who, cursor.as_ref()).await?, "approvals"))
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
    let message = match (&approval.decided, forms.is_empty()) {
        (Some(choice), _) => format!("You have already decided this payment: {choice}."),
        (None, true) => "You have no registered key; an operator enrols one with `countersign keys enrol`.".to_owned(),
        (None, false) => "Check every field of payment_document, then sign the bytes of decision_document as a detached JWS and call confirm_signing.".to_owned(),
    };
    Ok(Reply::about(&approval.payment)
        .with("message", json!(message))
        .with("next_action", json!(if choice == Choice::Approve { "confirm_signing" } else { "reject_signing" }))
        .with("payment_document", json!(approval.payment.document))
        .with("payment_digest", json!(approval.payment.digest))
        .with("compare_code", json!(approval.compare_code))
        .with("decided", json!(approval.decided))
        .with("to_sign", json!(forms)))
}

pub(super) async fn confirm_signing(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    let jws = arguments.signature()?;
    arguments.done()?;
    let verdict = journal.decide_as(who, &selector, Choice::Approve, Reason::default(), jws).await?;
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
    let verdict = journal.decide_as(who, &selector, Choice::Reject, reason, jws).await?;
    Ok(decided(&verdict))
}

fn decided(verdict: &Verdict) -> Reply {
    let reply = Reply::about(&verdict.payment);
    if verdict.replayed { reply.with("idempotent_replayed", json!(true)) } else { reply }
}
