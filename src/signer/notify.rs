//! `POST /api/v1/payments/{id}/notify`: the signers are told, or can't be reached.
//!
//! The one channel here is the console: a line in the service's log with a sign link. The link is an
//! address and not a capability, so the line holds nothing that decides anything.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::Desk;
use super::api::Segment;
use super::keyed::{self, Begun};
use super::link;
use super::refused::{Refused, Reply, body_of, json_of};
use super::store::{KeptNotification, Session};

const CHANNEL: &str = "console";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    round: i64,
    notification: i64,
    signers: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    outcome: &'static str,
    notification: i64,
    reason: &'static str,
    receipts: Vec<Receipt<'a>>,
}

#[derive(Debug, Serialize)]
struct Receipt<'a> {
    signer_id: &'a str,
    channel: &'static str,
    outcome: &'static str,
}

/// What the console says once the answer is durable.
struct Line {
    reference: String,
    signers: Vec<String>,
    url: String,
}

/// `POST /api/v1/payments/{id}/notify`.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    Segment(id): Segment,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Reply, Refused> {
    let body = body_of(body)?;
    let path = format!("/api/v1/payments/{id}/notify");
    match keyed::begin(&desk, &headers, &path, &body).await? {
        Begun::Answered(reply) => Ok(reply),
        Begun::New(mut session, request) => {
            let (outcome, line) = match apply(&desk, &mut session, &id, &body).await {
                Ok((reply, line)) => (Ok(reply), line),
                Err(refused) => (Err(refused), None),
            };
            let reply = keyed::settle(&desk, session, &request, outcome).await?;
            // A crash before this line costs a person one message; the gateway reminds.
            if let Some(Line { reference, signers, url }) = line {
                tracing::info!(payment.id = %reference, signer.ids = ?signers, %url, "a payment waits for a signature");
            }
            Ok(reply)
        }
    }
}

async fn apply(desk: &Desk, session: &mut Session, id: &str, body: &[u8]) -> Result<(Reply, Option<Line>), Refused> {
    let asked: Attempt = json_of(body)?;
    if asked.round < 1 || asked.notification < 1 || asked.signers.is_empty() {
        return Err(Refused::invalid("round and notification must be 1 or more, and signers must name someone"));
    }
    let payment = session.payment(id).await?.ok_or_else(Refused::unknown_payment)?;
    if asked.round != payment.round {
        return Err(Refused::conflict("round_stale", "the payment is in another round"));
    }
    if !payment.is_open() {
        return Err(Refused::conflict("closed", "no more decisions are wanted for this payment"));
    }
    let challenges = session.challenges(id).await?;
    if let Some(other) = asked.signers.iter().find(|signer| !challenges.iter().any(|c| c.signer_id == **signer)) {
        return Err(Refused::unacceptable("unknown_signer", format!("this round does not ask {other:?}")));
    }
    let named = Reply::json(200, &asked.signers)?.body;
    if let Some(kept) = session.notification(&payment, asked.notification).await? {
        // The number is the attempt; under a new key it is still the same one.
        return if kept.signers == named {
            Ok((Reply { status: 200, body: kept.answer }, None))
        } else {
            Err(Refused::conflict("notification_reused", "this notification was for other signers; use a new number"))
        };
    }

    let now = desk.now();
    let presence = session.presence().await?;
    let (online, offline): (Vec<&str>, Vec<&str>) =
        asked.signers.iter().map(String::as_str).partition(|signer| presence.get(*signer).copied().unwrap_or(false));
    let receipt = |outcome| move |signer_id| Receipt { signer_id, channel: CHANNEL, outcome };
    let receipts =
        online.iter().copied().map(receipt("delivered")).chain(offline.iter().copied().map(receipt("unreachable")));
    let (outcome, reason) = if online.is_empty() { ("unreachable", "offline") } else { ("notified", "") };
    let answer = Answer { outcome, notification: asked.notification, reason, receipts: receipts.collect() };
    let reply = Reply::json(200, &answer)?;
    let kept = KeptNotification { signers: named, answer: reply.body.clone() };
    session.add_notification(&payment, asked.notification, &kept, now).await?;
    if online.is_empty() {
        return Ok((reply, None));
    }
    let url = link::issue(desk, session, &payment, now).await?.url;
    let signers = online.into_iter().map(str::to_owned).collect();
    Ok((reply, Some(Line { reference: payment.reference, signers, url })))
}
