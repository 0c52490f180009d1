//! What is read and never changed: why a payment stands where it stands, and what proves it.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::reply::Reply;
use crate::domain::{Code, Principal, Refusal};
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
    let Evidence { payment, bundle } = journal.evidence(who, &selector).await?;
    let reply = Reply::about(&payment);
    let path = format!("/payments/{}/evidence", payment.terms.payment_id);
    let text = serde_json::to_string(&bundle).map_err(|_| unwritable())?;
    if text.len() > MOST_BYTES {
        let message = format!(
            "The evidence has {} bytes, too many for a tool's answer: GET {path} with this token gives it.",
            text.len()
        );
        return Ok(reply.with("evidence_path", json!(path)).with("message", json!(message)));
    }
    let evidence = serde_json::to_value(&bundle).map_err(|_| unwritable())?;
    let message =
        "Everything that stands behind this payment. Save evidence as a file; countersign verify evidence checks it.";
    Ok(reply.with("evidence", evidence).with("evidence_path", json!(path)).with("message", json!(message)))
}

/// The most that a tool's answer gives: a model reads it. A payment of a quiet desk has some ten thousand bytes.
const MOST_BYTES: usize = 256 * 1024;

fn unwritable() -> Refusal {
    Refusal::new(Code::Internal, "the evidence can't be written down")
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
