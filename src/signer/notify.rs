//! `POST /api/v1/payments/{id}/notify`: the signers are told, or can't be reached.
//!
//! *Crash*: the messages are committed before anything is tried. The same request again finds them, tries nothing
//! that was tried, and is answered from what became of them.
//!
//! The answer comes within a bound, whatever a channel does: what is still under way then is `pending`, and what
//! becomes of it is in the payment's status.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Desk;
use super::api::Segment;
use super::keyed::{self, Begun};
use super::reach;
use super::refused::{Refused, Reply, body_of, json_of};
use super::store::{Attempt, KeptPayment, Message, Session, StoreFault};
use crate::domain::Timestamp;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    round: i64,
    notification: i64,
    signers: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    outcome: &'static str,
    notification: i64,
    reason: &'a str,
    receipts: &'a [Receipt],
}

/// What became of a message to one signer on one channel.
#[derive(Debug, Serialize)]
pub(super) struct Receipt {
    signer_id: String,
    notification: i64,
    channel: String,
    outcome: &'static str,
    reason: String,
    at: String,
}

impl Receipt {
    /// Somebody looked, by a link of this signer's.
    pub(super) fn viewed(signer_id: String, notification: i64, at: Timestamp) -> Self {
        let (channel, reason) = ("page".to_owned(), String::new());
        Self { signer_id, notification, channel, outcome: "viewed", reason, at: at.rfc3339() }
    }
}

/// A notification that is written down.
struct Written {
    payment: KeptPayment,
    number: i64,
    signers: Vec<String>,
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
    let until = Instant::now() + desk.reaching.answer_within;
    let written = match keyed::begin(&desk, &headers, &path, &body).await? {
        Begun::Answered(reply) => return Ok(reply),
        Begun::New(mut session, request) => match write_down(&desk, &mut session, &id, &body).await? {
            Taken::Answered(reply) => return keyed::settle(&desk, session, &request, Ok(reply)).await,
            Taken::Written(written) => {
                session.commit().await?;
                written
            }
        },
    };
    // In tasks of their own: a caller that hangs up, or is answered before they end, stops none of them.
    for signer in &written.signers {
        let (desk, signer) = (Arc::clone(&desk), signer.clone());
        tokio::spawn(async move { reach::dispatch(&desk, &signer).await });
    }
    wait(&desk, &written, until).await?;
    match keyed::begin(&desk, &headers, &path, &body).await? {
        Begun::Answered(reply) => Ok(reply),
        Begun::New(mut session, request) => {
            let outcome = answer(&desk, &mut session, &written).await;
            keyed::settle(&desk, session, &request, outcome).await
        }
    }
}

enum Taken {
    /// It was answered before under this number.
    Answered(Reply),
    /// It is written down, now or before.
    Written(Box<Written>),
}

async fn write_down(desk: &Desk, session: &mut Session, id: &str, body: &[u8]) -> Result<Taken, Refused> {
    let asked: Asked = json_of(body)?;
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
    let number = asked.notification;
    if let Some(kept) = session.notification(&payment, number).await? {
        // The number is the attempt; under a new key it is still the same one.
        return if kept.signers != named {
            Err(Refused::conflict("notification_reused", "this notification was for other signers; use a new number"))
        } else if kept.answer.is_empty() {
            Ok(Taken::Written(Box::new(Written { payment, number, signers: asked.signers })))
        } else {
            Ok(Taken::Answered(Reply { status: 200, body: kept.answer }))
        };
    }
    let now = desk.now();
    session.add_notification(&payment, number, &named, now).await?;
    let presence = session.presence().await?;
    let mut signers = asked.signers;
    let mut seen = std::collections::HashSet::new();
    signers.retain(|signer| seen.insert(signer.clone()));
    for signer in &signers {
        let online = presence.get(signer).copied().unwrap_or(false);
        let (state, reason) = if online { ("due", "") } else { ("unreachable", "offline") };
        let message = Message {
            id: desk.mint("ntf_"),
            payment_id: payment.id.clone(),
            round: payment.round,
            number,
            signer_id: signer.clone(),
            state: state.to_owned(),
            place: 0,
            due_at: now.micros(),
            reason: reason.to_owned(),
            created_at: now.micros(),
        };
        session.add_message(&message).await?;
    }
    Ok(Taken::Written(Box::new(Written { payment, number, signers })))
}

/// Waits until every message is settled, or until the time to answer.
async fn wait(desk: &Desk, written: &Written, until: Instant) -> Result<(), StoreFault> {
    let mut settled = desk.settlements();
    loop {
        settled.mark_unchanged();
        let messages = desk.store.read().await?.messages(&written.payment, written.number).await?;
        if messages.iter().all(Message::is_settled) {
            return Ok(());
        }
        match tokio::time::timeout_at(until, settled.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Ok(()),
        }
    }
}

/// Answers from what became of the messages, and keeps the answer under the number.
async fn answer(desk: &Desk, session: &mut Session, written: &Written) -> Result<Reply, Refused> {
    let Written { payment, number, .. } = written;
    if let Some(kept) = session.notification(payment, *number).await?.filter(|kept| !kept.answer.is_empty()) {
        return Ok(Reply { status: 200, body: kept.answer });
    }
    let messages = session.messages(payment, *number).await?;
    let receipts = receipts(desk, session, payment, *number).await?;
    let reached = messages.iter().any(|message| message.state != "unreachable");
    let reason = messages.first().filter(|_| !reached).map(|message| message.reason.as_str()).unwrap_or_default();
    let outcome = if reached { "notified" } else { "unreachable" };
    let reply = Reply::json(200, &Answer { outcome, notification: *number, reason, receipts: &receipts })?;
    session.answer_notification(payment, *number, &reply.body).await?;
    Ok(reply)
}

/// What became of a notification, message by message and attempt by attempt.
pub(super) async fn receipts(
    desk: &Desk,
    session: &mut Session,
    payment: &KeptPayment,
    number: i64,
) -> Result<Vec<Receipt>, StoreFault> {
    let messages = session.messages(payment, number).await?;
    let mut attempts: HashMap<String, Vec<Attempt>> = HashMap::new();
    for attempt in session.attempts(payment, number).await? {
        attempts.entry(attempt.message_id.clone()).or_default().push(attempt);
    }
    let mut all = Vec::with_capacity(messages.len());
    for message in messages {
        let made = attempts.remove(&message.id).unwrap_or_default();
        let receipt = |channel: &str, outcome, reason: &str, at| Receipt {
            signer_id: message.signer_id.clone(),
            notification: number,
            channel: channel.to_owned(),
            outcome,
            reason: reason.to_owned(),
            at: Timestamp::from_micros(at).rfc3339(),
        };
        for attempt in &made {
            let outcome = match attempt.outcome.as_str() {
                "delivered" => "delivered",
                "trying" => "pending",
                _ => "unreachable",
            };
            all.push(receipt(&attempt.channel, outcome, &attempt.reason, attempt.at));
        }
        let first = desk.directory.first_channel(&message.signer_id);
        match message.state.as_str() {
            "held" => all.push(receipt(first, "deferred", &message.reason, message.due_at)),
            "due" if made.is_empty() => all.push(receipt(first, "pending", "", message.created_at)),
            "unreachable" if made.is_empty() => {
                all.push(receipt(first, "unreachable", &message.reason, message.created_at));
            }
            _ => {}
        }
    }
    Ok(all)
}
