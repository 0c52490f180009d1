//! What is read and never changed: why a payment stands where it stands, and what proves it.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::reply::Reply;
use crate::domain::{Principal, Refusal, Timestamp};
use crate::journal::{AuditRow, Evidence, Journal};

pub(super) async fn explain_payment(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    arguments.done()?;
    let diagnosis = journal.explain(who, &selector).await?;
    let checks: Vec<Value> = diagnosis
        .findings
        .iter()
        .map(
            |finding| json!({"check": finding.check, "ok": finding.good, "found": finding.found, "next": finding.next}),
        )
        .collect();
    let reply = Reply::about(&diagnosis.payment).with("checks", json!(checks));
    Ok(match diagnosis.obstacle() {
        Some(finding) => reply
            .with("obstacle", json!(finding.check))
            .with("message", json!(format!("{}: {}. Next: {}.", finding.check, finding.found, finding.next))),
        None => reply,
    })
}

pub(super) async fn get_evidence(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    arguments.done()?;
    let evidence = journal.evidence(who, &selector).await?;
    let reply = Reply::about(&evidence.payment).with("evidence", bundle(&evidence));
    Ok(reply.with(
        "message",
        json!("Everything that stands behind this payment; check the signatures and the chain yourself."),
    ))
}

/// The first form of the evidence: every document in its exact bytes, every proof beside it.
fn bundle(evidence: &Evidence) -> Value {
    let time = |micros: i64| Timestamp::from_micros(micros).rfc3339();
    let decisions: Vec<Value> = evidence
        .decisions
        .iter()
        .map(|decision| {
            json!({
            "decision_id": decision.decision_id, "signer_id": decision.signer_id, "key_id": decision.key_id,
            "decision": decision.choice, "counted": decision.payment_version > 0, "document": decision.document, "digest": decision.digest,
            "confirmation": decision.confirmation,
            "proof": {"type": decision.proof_type, "value": decision.proof}})
        })
        .collect();
    let keys: Vec<Value> = evidence
        .keys
        .iter()
        .map(|key| {
            json!({"signer_id": key.signer_id, "key_id": key.key_id, "alg": key.alg, "public_key": key.public_key,
            "credential_id": key.credential_id, "rp_id": key.rp_id, "origins": key.origins,
            "revoked_at": key.revoked_at.map(time)})
        })
        .collect();
    let effects: Vec<Value> = evidence
        .effects
        .iter()
        .map(|effect| {
            json!({"kind": effect.kind, "key": effect.outbound_key, "body_sha256": effect.body_sha256,
            "state": effect.state, "attempts": effect.attempts, "outcome": effect.outcome,
            "created_at": time(effect.created_at), "settled_at": effect.settled_at.map(time)})
        })
        .collect();
    json!({
        "format": "countersign/evidence/v0",
        "payment_document": evidence.payment.document,
        "payment_digest": evidence.payment.digest,
        "policy": evidence.payment.terms.policy,
        "decisions": decisions,
        "keys": keys,
        "effects": effects,
        "receipt": {"transfer_id": evidence.payment.execution.transfer_id},
        "audit": evidence.audit.iter().map(entry).collect::<Vec<_>>(),
    })
}

fn entry(row: &AuditRow) -> Value {
    json!({"seq": row.seq, "entry": row.canonical, "previous": row.previous, "chain": row.chain})
}

pub(super) async fn list_audit(journal: &Journal, who: &Principal, mut arguments: Arguments) -> Result<Reply, Refusal> {
    let after = arguments
        .text("cursor")?
        .map(|text| {
            text.parse::<i64>()
                .ok()
                .filter(|_| text.bytes().all(|digit| digit.is_ascii_digit()))
                .ok_or_else(|| Refusal::invalid("cursor", "is not a next_cursor of an earlier page"))
        })
        .transpose()?
        .unwrap_or(0);
    arguments.done()?;
    let (entries, next) = journal.audit_page(who, after).await?;
    let reply = Reply::list(format!("{} entries on this page", entries.len()))
        .with("entries", json!(entries.iter().map(entry).collect::<Vec<_>>()));
    Ok(match next {
        Some(seq) => reply.with("next_cursor", json!(seq.to_string())),
        None => reply,
    })
}
