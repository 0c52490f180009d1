//! Running an admitted call: within its span and its deadline, and never without an answer.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use futures::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use tracing::Instrument as _;

use super::trace::CallTrace;
use super::{Admitted, Gate, RequestId, Traceparent, json_response};
use crate::domain::{Code, Refusal};
use crate::http::envelope::error_body;
use crate::http::problem::problem;

/// Answers larger than this are passed on without a look inside.
const MAX_LOOK: u64 = 1024 * 1024;

impl Gate {
    pub(super) async fn call(&self, admitted: Admitted, id: &str, next: Next) -> Response {
        let Admitted { mut parts, mut envelope, principal } = admitted;
        let trace = CallTrace::open(&envelope, &parts.headers, id, &self.tools);
        parts.extensions.insert(Traceparent(trace.traceparent()));
        parts.extensions.insert(RequestId(id.to_owned()));
        parts.extensions.insert(principal);
        if let Some(arguments) = envelope.arguments.take() {
            parts.extensions.insert(arguments);
        }
        let request = Request::from_parts(parts, Body::from(envelope.forwarded));
        let rpc_id = envelope.id.as_deref();
        let begun = Instant::now();
        let run = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(trace.span.clone());
        let (response, error) = match tokio::time::timeout(self.deadline, run).await {
            Ok(Ok(response)) => seen(response, rpc_id).await,
            Ok(Err(_)) => {
                tracing::error!(request_id = id, "a call panicked");
                (refused(Code::Internal, "an internal fault ended the call", rpc_id, id), Some("-32603".to_owned()))
            }
            Err(_) => {
                let why = "the answer was not ready in time; what was begun goes on, ask for its status";
                (refused(Code::DeadlineExceeded, why, rpc_id, id), Some("-32603".to_owned()))
            }
        };
        trace.close(error.as_deref(), begun.elapsed());
        response
    }
}

/// A JSON-RPC error in the place of an answer that did not come.
fn refused(code: Code, message: &str, rpc_id: Option<&str>, request_id: &str) -> Response {
    let refusal = Refusal::new(code, message);
    if rpc_id.is_none() {
        return problem(&refusal, request_id);
    }
    let entry = code.entry();
    let data = json!({
        "success": false,
        "error_code": entry.name,
        "category": entry.category,
        "error_message": message,
        "retryable": entry.retryable,
        "retry_after_ms": refusal.retry_after_ms(),
        "next_action": entry.next_action,
        "request_id": request_id,
    });
    json_response(StatusCode::OK, error_body(rpc_id, -32_603, message, Some(data)))
}

#[derive(Deserialize)]
struct Answer {
    error: Option<RpcError>,
    result: Option<ToolResult>,
}

#[derive(Deserialize)]
struct RpcError {
    code: i64,
}

#[derive(Deserialize)]
struct ToolResult {
    #[serde(rename = "isError", default)]
    is_error: bool,
}

/// The response and, where it is an error, its `error.type`.
///
/// Media types were settled before, so a 415 from rmcp means a message whose shape it can't read;
/// that is told as JSON-RPC does.
async fn seen(response: Response, rpc_id: Option<&str>) -> (Response, Option<String>) {
    let status = response.status();
    if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        let body = error_body(rpc_id, -32_602, "the params do not fit the method", None);
        return (json_response(StatusCode::BAD_REQUEST, body), Some("-32602".to_owned()));
    }
    let by_status = (status.is_client_error() || status.is_server_error()).then(|| status.as_u16().to_string());
    let small = response.body().size_hint().upper().is_some_and(|size| size <= MAX_LOOK);
    if !(small && is_json(response.headers())) {
        return (response, by_status);
    }
    let (parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        let body = error_body(rpc_id, -32_603, "the answer broke off", None);
        return (json_response(StatusCode::OK, body), Some("-32603".to_owned()));
    };
    let error = match serde_json::from_slice::<Answer>(&bytes) {
        Ok(Answer { error: Some(error), .. }) => Some(error.code.to_string()),
        Ok(Answer { result: Some(ToolResult { is_error: true }), .. }) => Some("tool_error".to_owned()),
        _ => by_status,
    };
    (Response::from_parts(parts, Body::from(bytes)), error)
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|line| line.as_bytes().starts_with(b"application/json"))
}
