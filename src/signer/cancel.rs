//! `POST /api/v1/payments/{id}/cancel`: no more decisions are wanted in a round.
//!
//! *Invariant*: a closing that arrives late, from a round that was replaced since, closes nothing: the
//! round that is held may be open for good reason.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::Desk;
use super::api::Segment;
use super::keyed::{self, Begun};
use super::refused::{Refused, Reply, body_of, json_of};
use super::store::Session;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Closing {
    round: i64,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Closed<'a> {
    id: &'a str,
    state: &'a str,
}

/// `POST /api/v1/payments/{id}/cancel`.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    Segment(id): Segment,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Reply, Refused> {
    let body = body_of(body)?;
    let path = format!("/api/v1/payments/{id}/cancel");
    match keyed::begin(&desk, &headers, &path, &body).await? {
        Begun::Answered(reply) => Ok(reply),
        Begun::New(mut session, request) => {
            let outcome = apply(&desk, &mut session, &id, &body).await;
            keyed::settle(&desk, session, &request, outcome).await
        }
    }
}

async fn apply(desk: &Desk, session: &mut Session, id: &str, body: &[u8]) -> Result<Reply, Refused> {
    let Closing { round, reason } = json_of(body)?;
    if round < 1 {
        return Err(Refused::invalid("round must be 1 or more"));
    }
    if !matches!(reason.as_str(), "signed" | "rejected" | "cancelled" | "expired" | "failed") {
        return Err(Refused::invalid("reason must be signed, rejected, cancelled, expired or failed"));
    }
    let payment = session.payment(id).await?.ok_or_else(Refused::unknown_payment)?;
    if round < payment.round {
        return Reply::json(200, &Closed { id, state: &payment.state });
    }
    if round > payment.round {
        return Err(Refused::conflict("round_unknown", "no such round of this payment is registered"));
    }
    if payment.is_open() {
        session.close_payment(id, &reason, desk.now()).await?;
    }
    Reply::json(200, &Closed { id, state: "closed" })
}
