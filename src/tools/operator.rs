//! The operator's tools: see what is stuck, set it going again, settle it by hand.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::reply::{Reply, summary};
use crate::domain::{Account, Asker, Payment, Principal, Reason, Refusal, SignerId};
use crate::journal::{Journal, Stuck, Verb};

pub(super) async fn list_attention(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let cursor = arguments.cursor()?;
    arguments.done()?;
    let (stuck, next) = journal.attention(who, cursor.as_ref()).await?;
    let rows: Vec<_> = stuck.iter().map(row).collect();
    let reply = Reply::list(format!("{} on this page need a person", rows.len())).with("payments", json!(rows));
    Ok(match next {
        Some(cursor) => reply.with("next_cursor", json!(cursor)),
        None => reply,
    })
}

fn row(stuck: &Stuck) -> Value {
    let mut row = match &stuck.payment {
        Some(payment) => about(payment),
        None => json!({
            "payment_id": stuck.payment_id,
            "order_id": stuck.order_id,
            "status": stuck.status,
            "reason": "row_unreadable",
            "attention": [],
        }),
    };
    if let (Some(parked), Some(row)) = (&stuck.parked, row.as_object_mut()) {
        row.insert("parked".to_owned(), json!({"since": parked.since.rfc3339(), "reason": parked.reason}));
    }
    row
}

fn about(payment: &Payment) -> Value {
    let mut row = summary(payment);
    if let Some(row) = row.as_object_mut() {
        row.insert("reason".to_owned(), json!(payment.reason));
        row.insert(
            "attention".to_owned(),
            json!(payment.attention.iter().map(|reason| reason.as_str()).collect::<Vec<_>>()),
        );
        row.insert("held".to_owned(), json!(payment.held_at.is_some()));
        row.insert("phase".to_owned(), json!(payment.execution.phase.as_str()));
        row.insert("attempts".to_owned(), json!(payment.notice.attempts));
    }
    row
}

pub(super) async fn resend_notification(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    arguments.done()?;
    let reaching = journal.notify(who, &selector, Asker::Operator).await?;
    match reaching.trouble {
        Some(refusal) => Err(refusal),
        None => Ok(Reply::about(&reaching.payment)),
    }
}

pub(super) async fn reassign_signer(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    let signer: SignerId = arguments.required_text("signer_id")?.parse()?;
    arguments.done()?;
    Ok(Reply::about(&journal.reassign(who, &selector, signer).await?))
}

pub(super) async fn hold_payment(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    let reason = written(&mut arguments, "reason")?;
    arguments.done()?;
    Ok(Reply::about(&journal.hold(who, &selector, &reason).await?))
}

pub(super) async fn release_hold(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    attest(journal, who, Verb::Release, &mut arguments).await
}

pub(super) async fn attest_executed(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let reference = Account::parse("reference", &arguments.required_text("reference")?)?;
    attest(journal, who, Verb::Executed { reference }, &mut arguments).await
}

pub(super) async fn attest_not_executed(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    attest(journal, who, Verb::NotExecuted, &mut arguments).await
}

async fn attest(journal: &Journal, who: &Principal, verb: Verb, arguments: &mut Arguments) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    let evidence = written(arguments, "evidence")?;
    arguments.finish()?;
    let attested = journal.attest(who, &selector, &verb, &evidence).await?;
    let reply = Reply::about(&attested.payment);
    if !attested.waits {
        return Ok(reply);
    }
    Ok(reply
        .with("attestation", json!("SECOND_PERSON_NEEDED"))
        .with("next_action", json!("another_operator_repeats"))
        .with(
            "message",
            json!(format!(
                "Your word is recorded; another operator must call {} too. Nothing has changed yet.",
                verb.as_str()
            )),
        ))
}

/// A text that must say something.
fn written(arguments: &mut Arguments, name: &'static str) -> Result<Reason, Refusal> {
    let text = Reason::parse(name, &arguments.required_text(name)?)?;
    if text.as_str().is_empty() { Err(Refusal::invalid(name, "must say something")) } else { Ok(text) }
}

pub(super) async fn simulate_signer_online(journal: &Journal, mut arguments: Arguments) -> Result<Reply, Refusal> {
    let signer: SignerId = arguments.required_text("signer_id")?.parse()?;
    let online = arguments.flag("online")?.ok_or_else(|| Refusal::invalid("online", "is required"))?;
    arguments.done()?;
    journal.set_presence(&signer, online).await?;
    Ok(Reply::list(format!("{signer} is now {}", if online { "online" } else { "offline" }))
        .with("signer_id", json!(signer.as_str()))
        .with("online", json!(online)))
}
