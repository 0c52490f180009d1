//! Callbacks of the signer service: signature over the raw bytes first, then a hint to look.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use secrecy::SecretString;
use serde::Deserialize;
use standardwebhooks::Webhook;

use super::problem::{problem, problem_as};
use crate::config::{ConfigFault, whsecs};
use crate::domain::{Code, PaymentId, Refusal};
use crate::journal::Journal;

/// A callback is a few ids.
const LIMIT: usize = 16 * 1024;
/// More signatures than a rotation needs are not looked at.
const SIGNATURES: usize = 8;

/// Where callbacks come in.
#[derive(Clone)]
struct Inbox {
    journal: Arc<Journal>,
    /// Any of them verifies: two, while one replaces the other.
    secrets: Arc<[Webhook]>,
}

#[derive(Deserialize)]
struct Callback {
    event_id: String,
    payment_id: String,
}

/// `POST /callbacks/signer`, verified with `secret` (`whsec_…`, or two of them).
///
/// *Errors*: a secret that is not base64 of 24 to 64 bytes.
pub fn router(journal: Arc<Journal>, secret: &SecretString) -> Result<Router, ConfigFault> {
    let secrets = webhooks(secret)?;
    Ok(Router::new()
        .route("/callbacks/signer", post(receive))
        .layer(DefaultBodyLimit::max(LIMIT))
        .with_state(Inbox { journal, secrets }))
}

fn webhooks(secret: &SecretString) -> Result<Arc<[Webhook]>, ConfigFault> {
    let setting = "signer.callback_secret";
    let unusable = |_| ConfigFault(format!("{setting}: can't be used"));
    whsecs(setting, secret)?.into_iter().map(|key| Webhook::from_bytes(key).map_err(unusable)).collect()
}

async fn receive(State(inbox): State<Inbox>, headers: HeaderMap, body: Result<Bytes, BytesRejection>) -> Response {
    let answer = |refusal: &Refusal| problem(refusal, "");
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return unread(rejection.status()),
    };
    if !signed(&inbox, &headers, &body) {
        tracing::warn!("a callback without a valid signature was refused");
        return answer(&Refusal::new(Code::Unauthenticated, "the callback's signature or timestamp is not valid"));
    }
    let Ok(callback) = serde_json::from_slice::<Callback>(&body) else {
        return answer(&Refusal::new(Code::InvalidArgument, "the callback must name event_id and payment_id"));
    };
    let id_in_header = headers.get(standardwebhooks::HEADER_WEBHOOK_ID).and_then(|id| id.to_str().ok());
    if id_in_header != Some(callback.event_id.as_str()) || callback.event_id.len() > 128 {
        return answer(&Refusal::invalid("event_id", "must equal webhook-id"));
    }
    let Ok(payment_id) = callback.payment_id.parse::<PaymentId>() else {
        return answer(&Refusal::new(Code::PaymentNotFound, "the callback names no payment of ours"));
    };
    match inbox.journal.hint(&callback.event_id, payment_id.as_str()).await {
        Ok(new) => {
            tracing::info!(event.id = callback.event_id, payment.id = %payment_id, new, "callback received");
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refusal) => answer(&refusal),
    }
}

/// A body that could not be had.
fn unread(status: StatusCode) -> Response {
    let why = match status {
        StatusCode::PAYLOAD_TOO_LARGE => format!("the body is larger than {LIMIT} bytes"),
        _ => "the body ended early".to_owned(),
    };
    problem_as(status, &Refusal::new(Code::InvalidArgument, why), "")
}

/// Whether the raw bytes are signed by a shared secret in force, at a time near ours.
fn signed(inbox: &Inbox, headers: &HeaderMap, body: &[u8]) -> bool {
    let signatures = headers.get(standardwebhooks::HEADER_WEBHOOK_SIGNATURE).and_then(|line| line.to_str().ok());
    let few = signatures.is_some_and(|line| line.split(' ').count() <= SIGNATURES);
    few && inbox.secrets.iter().any(|secret| secret.verify(body, headers).is_ok())
}
