//! `PUT /api/v1/payments/{id}/verdicts`: the gateway tells what became of a round's decisions.
//!
//! Repeatable by nature: what is told last is what the pages say. A decision that is not named keeps what was told of it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use serde::Deserialize;

use super::Desk;
use super::api::Segment;
use super::refused::{Refused, Reply, body_of, json_of};
use super::register::Registered;
use super::store::DecidedElsewhere;
use crate::domain::{Choice, SignerId, Timestamp};
use crate::proof::sha256_hex;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdicts {
    round: i64,
    decisions: Vec<Judged>,
    elsewhere: Vec<Elsewhere>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    decision_id: String,
    verdict: String,
    code: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Elsewhere {
    signer_id: String,
    decision: String,
    verdict: String,
    decided_at: String,
}

/// `PUT /api/v1/payments/{id}/verdicts`.
pub(super) async fn put(
    State(desk): State<Arc<Desk>>,
    Segment(id): Segment,
    body: Result<Bytes, BytesRejection>,
) -> Result<Reply, Refused> {
    let body = body_of(body)?;
    let told: Verdicts = json_of(&body)?;
    let elsewhere = check(&told)?;
    let mut session = desk.store.write().await?;
    let payment = session.payment(&id).await?.ok_or_else(Refused::unknown_payment)?;
    if told.round < payment.round {
        return Err(Refused::conflict("round_stale", "a higher round of this payment is registered"));
    }
    if told.round > payment.round {
        return Err(Refused::conflict("round_unknown", "no such round of this payment is registered"));
    }
    for Judged { decision_id, verdict, code } in &told.decisions {
        session.set_verdict(&payment, decision_id, verdict, code).await?;
    }
    session.set_told(&payment, &sha256_hex(&body), &elsewhere).await?;
    session.commit().await?;
    Reply::json(200, &Registered::from(&payment))
}

/// Checks everything that was told; returns what was decided elsewhere.
fn check(told: &Verdicts) -> Result<Vec<DecidedElsewhere<'_>>, Refused> {
    if told.round < 1 {
        return Err(Refused::invalid("round must be 1 or more"));
    }
    let is_code = |code: &str| code.len() <= 64 && code.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let is_said = |judged: &Judged| match judged.verdict.as_str() {
        "counted" | "surplus" => judged.code.is_empty(),
        "waiting" | "refused" => !judged.code.is_empty() && is_code(&judged.code),
        _ => false,
    };
    if !told.decisions.iter().all(is_said) {
        return Err(Refused::invalid(
            "verdict must be counted or surplus, without a code, or waiting or refused, with one of A-Z and _",
        ));
    }
    let read = |said: &Elsewhere| {
        let decided_at = Timestamp::parse_rfc3339(&said.decided_at).filter(|at| at.rfc3339() == said.decided_at)?;
        let known = said.signer_id.parse::<SignerId>().is_ok()
            && Choice::from_name(&said.decision).is_some()
            && matches!(said.verdict.as_str(), "counted" | "surplus");
        known.then_some(decided_at)
    };
    let elsewhere = told.elsewhere.iter().map(|said| {
        let Elsewhere { signer_id, decision, verdict, .. } = said;
        read(said).map(|decided_at| DecidedElsewhere { signer_id, decision, verdict, decided_at })
    });
    elsewhere.collect::<Option<_>>().ok_or_else(|| {
        Refused::invalid("elsewhere must name a signer, approve or reject, counted or surplus, and a time in UTC")
    })
}
