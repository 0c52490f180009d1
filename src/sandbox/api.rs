//! The sandbox's pages over HTTP.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use futures::{StreamExt as _, stream};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::book::Reached;
use super::desk::{Desk, Reply};
use super::fault::{FaultsBody, HIDE_LOOKUPS, LOOKUP_DOWN};
use super::wire::TransfersPage;
use crate::proof::sha256_hex;

/// The longest body.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// The routes. All but the health page want the key.
pub(super) fn router(desk: Arc<Desk>, api_key: &SecretString) -> Router {
    let expected: Arc<str> = sha256_hex(format!("Bearer {}", api_key.expose_secret())).into();
    Router::new()
        .route("/api/v1/transfers", post(transfer).get(look_up))
        .route("/sandbox/ledger", get(ledger))
        .route("/sandbox/faults", put(faults))
        .layer(from_fn_with_state(expected, authorize))
        .route("/healthz", get(health))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(desk)
}

const NOT_ONE: &str = "reference is missing or not one text";

#[derive(Deserialize)]
struct ByReference {
    reference: Option<String>,
}

/// Compares digests, so that the time taken says nothing about the key.
async fn authorize(State(expected): State<Arc<str>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    if sha256_hex(given) == *expected {
        next.run(request).await
    } else {
        refusal(401, "unauthorized", "the API key is missing or wrong")
    }
}

async fn health(State(desk): State<Arc<Desk>>) -> Response {
    match desk.book.works().await {
        Ok(()) => Json(serde_json::json!({"status": "ok"})).into_response(),
        Err(err) => failed(&err),
    }
}

async fn transfer(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return unread(&rejection),
    };
    let key = key(&headers).unwrap_or_default();
    // A task of its own: what a rail has begun it finishes, whether or not the caller waits.
    match tokio::spawn(async move { desk.take(&key, &body).await }).await {
        Ok(Ok(reply)) => respond(reply),
        Ok(Err(err)) => failed(&err),
        Err(err) => failed(&err),
    }
}

async fn look_up(State(desk): State<Arc<Desk>>, by: Result<Query<ByReference>, QueryRejection>) -> Response {
    let Some(reference) = by.ok().and_then(|Query(by)| by.reference) else {
        return refusal(400, "invalid_request", NOT_ONE);
    };
    let page = async {
        if desk.book.stands(LOOKUP_DOWN).await? {
            return Ok(None);
        }
        let hidden = desk.book.stands(HIDE_LOOKUPS).await?;
        let transfers = if hidden { Vec::new() } else { desk.book.transfers(&reference).await? };
        Ok::<_, sqlx::Error>(Some(TransfersPage { transfers }))
    };
    match page.await {
        Ok(Some(page)) => Json(page).into_response(),
        Ok(None) => refusal(503, "unavailable", "the sandbox was told to answer no look-up"),
        Err(err) => failed(&err),
    }
}

async fn ledger(State(desk): State<Arc<Desk>>, by: Result<Query<ByReference>, QueryRejection>) -> Response {
    let Ok(Query(by)) = by else {
        return refusal(400, "invalid_request", NOT_ONE);
    };
    match desk.book.ledger(by.reference.as_deref()).await {
        Ok(page) => Json(page).into_response(),
        Err(err) => failed(&err),
    }
}

async fn faults(State(desk): State<Arc<Desk>>, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return unread(&rejection),
    };
    let Some(plan) = serde_json::from_slice::<FaultsBody>(&body).ok().filter(FaultsBody::is_bounded) else {
        return refusal(400, "invalid_request", "these are not faults that the sandbox knows, or not within bounds");
    };
    match desk.book.plan(&plan).await {
        Ok(()) => Json(serde_json::json!({"status": "ok"})).into_response(),
        Err(err) => failed(&err),
    }
}

/// A body that could not be had.
fn unread(rejection: &BytesRejection) -> Response {
    match rejection.status().as_u16() {
        413 => refusal(413, "body_too_large", "the body is larger than 256 KiB"),
        _ => refusal(400, "invalid_request", "the body could not be read"),
    }
}

fn key(headers: &HeaderMap) -> Option<String> {
    let key = headers.get("idempotency-key")?.to_str().ok()?;
    (1..=255).contains(&key.len()).then(|| key.to_owned())
}

fn respond(reply: Reply) -> Response {
    match reply {
        Reply::Whole(reached) => json(reached.status, Body::from(reached.body)),
        Reply::Half(reached) => {
            let length = reached.body.len();
            let mut half = reached.body.into_bytes();
            half.truncate(length / 2);
            // The pause lets the first half leave before the break.
            let broken = stream::once(async { Ok(Bytes::from(half)) }).chain(stream::once(async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(cut())
            }));
            let mut response = json(reached.status, Body::from_stream(broken));
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            response
        }
        Reply::Html => {
            let head = [(header::CONTENT_TYPE, HeaderValue::from_static("text/html"))];
            (head, "<html><body>It works!</body></html>").into_response()
        }
        Reply::Elsewhere => {
            let head = [(header::LOCATION, HeaderValue::from_static("/api/v1/transfers"))];
            (StatusCode::FOUND, head).into_response()
        }
        // hyper asks for the body before it flushes the head; a body that fails ends the connection.
        Reply::Nothing => Body::from_stream(stream::once(async { Err::<Bytes, _>(cut()) })).into_response(),
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the sandbox was told to break off")
}

fn json(status: u16, body: Body) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let head = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, head, body).into_response()
}

fn refusal(status: u16, code: &'static str, message: &str) -> Response {
    json(status, Body::from(Reached::refusal(status, code, message).body))
}

fn failed(err: &(dyn std::error::Error + 'static)) -> Response {
    tracing::error!(error = err, "the sandbox could not answer");
    refusal(500, "internal", "the sandbox could not answer")
}
