//! Whether the process lives, and whether it can take payments.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::auth::Verifier;
use crate::journal::Journal;

const PATIENCE: Duration = Duration::from_secs(3);

/// What readiness is judged by.
#[derive(Clone)]
struct Health {
    journal: Arc<Journal>,
    verifier: Arc<Verifier>,
}

/// `GET /healthz` and `GET /readyz`.
pub fn router(journal: Arc<Journal>, verifier: Arc<Verifier>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .with_state(Health { journal, verifier })
}

/// `GET /healthz` of a process that serves no calls: it lives, and the database answers.
pub fn alive(journal: Arc<Journal>) -> Router {
    let page =
        async |State(journal): State<Arc<Journal>>| match tokio::time::timeout(PATIENCE, journal.ping_store()).await {
            Ok(Ok(())) => (StatusCode::OK, Json(json!({"status": "ok"}))),
            _ => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "down"}))),
        };
    Router::new().route("/healthz", get(page)).with_state(journal)
}

/// Ready when payments can be taken: the database answers and tokens can be verified.
///
/// A signer service or rail that is down is "degraded", never unready: payments are still taken.
async fn ready(State(health): State<Health>) -> Response {
    let (store, signer, rail) = tokio::join!(
        tokio::time::timeout(PATIENCE, health.journal.ping_store()),
        tokio::time::timeout(PATIENCE, health.journal.ping_signer()),
        tokio::time::timeout(PATIENCE, health.journal.ping_rail()),
    );
    let store = matches!(store, Ok(Ok(())));
    let keys = health.verifier.has_keys();
    let peers = matches!(signer, Ok(Ok(()))) && matches!(rail, Ok(Ok(())));
    let word = |good: bool| if good { "ok" } else { "down" };
    let (status, verdict) = match (store && keys, peers) {
        (true, true) => (StatusCode::OK, "ready"),
        (true, false) => (StatusCode::OK, "degraded"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "unready"),
    };
    let peer = |answer: &Result<Result<(), _>, _>| match answer {
        Ok(Ok(())) => "ok".to_owned(),
        Ok(Err(trouble)) => crate::journal::ports::Trouble::to_string(trouble),
        Err(_) => "timeout".to_owned(),
    };
    let [signer_breaker, rail_breaker] = health.journal.breakers();
    let body = json!({
        "status": verdict,
        "database": word(store),
        "token_keys": word(keys),
        "signer_service": peer(&signer),
        "rail": peer(&rail),
        // Each process has its own: with a worker apart, what it sees is in its metrics and its log.
        "breakers_of_this_process": {"signer_service": signer_breaker, "rail": rail_breaker},
    });
    (status, Json(body)).into_response()
}
