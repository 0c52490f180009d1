//! `GET /payments/{payment_id}/evidence`: the bundle of docs/evidence.md as a file.
//!
//! Judged as a call of `get_evidence` is: Host and Origin, token, rate, scope, grant; and refused with the same codes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::gate::Gate;
use super::problem::{REQUEST_ID, problem};
use crate::domain::{Code, PaymentId, Principal, Refusal};
use crate::tools::Desk;

#[derive(Clone)]
struct Files {
    desk: Desk,
    gate: Arc<Gate>,
    deadline: Duration,
}

/// The one route, behind `gate`; each answer within `deadline`.
pub(super) fn router(desk: Desk, gate: Arc<Gate>, deadline: Duration) -> Router {
    Router::new().route("/payments/{payment_id}/evidence", get(evidence)).with_state(Files { desk, gate, deadline })
}

async fn evidence(State(files): State<Files>, Path(payment_id): Path<String>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let (id, judged) = files.gate.admit_read(&parts).await;
    let who = match judged {
        Ok(who) => who,
        Err(refused) => return *refused,
    };
    let begun = Instant::now();
    let told = match payment_id.parse::<PaymentId>() {
        Ok(payment) => tokio::time::timeout(files.deadline, written(&files.desk, &who, payment.as_str())).await,
        Err(_) => Ok(Err(Refusal::new(Code::PaymentNotFound, "there is no payment of yours with this id"))),
    };
    let told = told.unwrap_or_else(|_| Err(Refusal::new(Code::DeadlineExceeded, "the answer was not ready in time")));
    tracing::info!(
        request_id = id,
        principal.id = who.actor(),
        tenant = who.tenant.as_str(),
        outcome = told.as_ref().err().map_or("OK", |refusal| refusal.code.as_str()),
        millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        "evidence was asked for"
    );
    match told {
        Ok(text) => file(text, &payment_id, &id),
        Err(refusal) => problem(&refusal, &id),
    }
}

async fn written(desk: &Desk, who: &Principal, payment_id: &str) -> Result<String, Refusal> {
    let bundle = desk.evidence(who, payment_id).await?;
    serde_json::to_string(&bundle).map_err(|_| Refusal::new(Code::Internal, "the evidence can't be written down"))
}

fn file(text: String, payment_id: &str, id: &str) -> Response {
    let mut response = (StatusCode::OK, text).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let named = format!("attachment; filename=\"{payment_id}.evidence.json\"");
    let more: [(HeaderName, String); 2] = [(CONTENT_DISPOSITION, named), (REQUEST_ID, id.to_owned())];
    for (name, value) in more {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}
