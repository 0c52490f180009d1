//! The gate in front of the MCP endpoint: nothing reaches rmcp that was not judged here.
//!
//! In this order, each step ending the request: Host and Origin, token, method, rate, form, size,
//! envelope, scope. Then rmcp gets the message without the arguments' numbers and without the
//! token, inside a span and a deadline. What tools need is in the request's extensions:
//! [`Principal`], [`Arguments`](super::envelope::Arguments) of a `tools/call`, [`RequestId`],
//! [`Traceparent`].

mod call;
mod trace;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use ulid::Ulid;

use super::auth::{Verifier, bearer};
use super::challenge::Challenge;
use super::envelope::{self, Envelope};
use super::limit::Limits;
use super::mcp::SUPPORTED;
use super::negotiate::{FormFault, negotiate};
use super::origin::Origins;
use super::problem::{REQUEST_ID, problem, problem_as};
use crate::ambient::{Clock, Entropy};
use crate::config::{self, ms};
use crate::domain::{Code, Principal, Refusal};
use crate::telemetry::metrics::metrics;

/// The id of one HTTP request: in its answer's `x-request-id`, in logs, in errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub String);

/// The trace context that work of this request continues: our span's, else the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traceparent(pub Option<String>);

/// Everything the gate judges by.
#[derive(Debug)]
pub struct Gate {
    origins: Origins,
    verifier: Arc<Verifier>,
    limits: Limits,
    challenge: Challenge,
    required_scope: String,
    body_limit: usize,
    deadline: Duration,
    tools: BTreeSet<String>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

/// A request that passed.
struct Admitted {
    parts: Parts,
    envelope: Envelope,
    principal: Principal,
}

impl Gate {
    /// A gate for `resource`, the MCP endpoint's own URL; an empty `required_scope` asks for none.
    pub fn new(
        server: &config::Server,
        resource: &str,
        required_scope: &str,
        verifier: Arc<Verifier>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            origins: Origins::new(&server.public_url, &server.allowed_hosts, &server.allowed_origins),
            verifier,
            limits: Limits::new(server.calls_per_minute, server.calls_burst),
            challenge: Challenge::new(resource, required_scope),
            required_scope: required_scope.to_owned(),
            body_limit: server.body_limit_bytes,
            deadline: ms(server.call_deadline_ms),
            tools: BTreeSet::new(),
            clock,
            entropy,
        }
    }

    /// Names the tools that exist; only these become metric attributes and span names.
    #[must_use]
    pub fn with_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = names.into_iter().map(Into::into).collect();
        self
    }

    fn mint_id(&self) -> String {
        let millis = u64::try_from(self.clock.now().micros().div_euclid(1_000)).unwrap_or(0);
        format!("req_{}", Ulid::from_parts(millis, self.entropy.u128()))
    }

    async fn admit(&self, request: Request, id: &str) -> Result<Admitted, Box<Response>> {
        let (mut parts, body) = request.into_parts();
        let principal = self.enter(&parts, id).await?;
        let invalid = |status, why: &dyn std::fmt::Display| {
            Box::new(problem_as(status, &Refusal::new(Code::InvalidArgument, why.to_string()), id))
        };
        // The token has done its work: nothing behind the gate could log or forward it.
        parts.headers.remove(AUTHORIZATION);
        if parts.method != Method::POST {
            let mut refused = invalid(StatusCode::METHOD_NOT_ALLOWED, &"this endpoint takes POST only");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return Err(refused);
        }
        self.limits.take(&principal).map_err(|refusal| Box::new(problem(&refusal, id)))?;
        negotiate(&mut parts.headers).map_err(|fault| {
            let status = match fault {
                FormFault::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
                FormFault::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            };
            invalid(status, &fault)
        })?;
        let body = self.read(&parts, body).await.map_err(|(status, why)| invalid(status, &why))?;
        parts.headers.remove(CONTENT_LENGTH);
        let envelope = envelope::parse(&body)
            .map_err(|rejected| Box::new(json_response(StatusCode::BAD_REQUEST, rejected.body())))?;
        versioned(&parts, &envelope)?;
        self.scoped(&principal, id)?;
        Ok(Admitted { parts, envelope, principal })
    }

    /// Judges a request that only reads and is no message of the protocol, by the same steps as far as they concern it.
    pub(super) async fn admit_read(&self, parts: &Parts) -> (String, Result<Principal, Box<Response>>) {
        let id = self.mint_id();
        let judged = async {
            let principal = self.enter(parts, &id).await?;
            self.limits.take(&principal).map_err(|refusal| Box::new(problem(&refusal, &id)))?;
            self.scoped(&principal, &id)?;
            Ok(principal)
        };
        let judged = judged.await;
        (id, judged)
    }

    /// Host and Origin, then the token.
    async fn enter(&self, parts: &Parts, id: &str) -> Result<Principal, Box<Response>> {
        self.origins.check(&parts.uri, &parts.headers).map_err(|fault| {
            tracing::info!(request_id = id, reason = %fault, "a request was turned away");
            let refusal = Refusal::new(Code::InvalidArgument, fault.to_string());
            Box::new(problem_as(StatusCode::FORBIDDEN, &refusal, id))
        })?;
        self.authenticate(parts, id).await
    }

    fn scoped(&self, principal: &Principal, id: &str) -> Result<(), Box<Response>> {
        if self.required_scope.is_empty() || principal.scopes.contains(&self.required_scope) {
            return Ok(());
        }
        Err(Box::new(self.challenge.insufficient_scope(id)))
    }

    async fn authenticate(&self, parts: &Parts, id: &str) -> Result<Principal, Box<Response>> {
        let verdict = match bearer(&parts.headers) {
            Ok(token) => self.verifier.verify(token).await,
            Err(fault) => Err(fault),
        };
        verdict.map_err(|fault| {
            tracing::info!(request_id = id, reason = fault.reason(), "a request without a valid token was refused");
            metrics().auth_refusal(fault.reason());
            Box::new(self.challenge.unauthenticated(fault, id))
        })
    }

    async fn read(&self, parts: &Parts, body: Body) -> Result<Bytes, (StatusCode, String)> {
        let too_large =
            || (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {} bytes", self.body_limit));
        let announced = parts.headers.get(CONTENT_LENGTH).and_then(|line| line.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > self.body_limit) {
            return Err(too_large());
        }
        // A body that trickles in holds a connection no longer than a call may.
        match tokio::time::timeout(self.deadline, Limited::new(body, self.body_limit).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(err)) if err.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the body ended early".to_owned())),
            Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".to_owned())),
        }
    }
}

/// The middleware: `axum::middleware::from_fn_with_state(Arc::new(gate), gate::gate)`.
pub async fn gate(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let id = gate.mint_id();
    let mut response = match gate.admit(request, &id).await {
        Ok(admitted) => gate.call(admitted, &id, next).await,
        Err(refused) => *refused,
    };
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A version that there is not is answered as one (-32022), where rmcp answers an older one's in plain text.
fn versioned(parts: &Parts, envelope: &Envelope) -> Result<(), Box<Response>> {
    let asked = parts.headers.get("mcp-protocol-version").map(|line| line.to_str().unwrap_or_default());
    match asked {
        // `initialize` is where the two agree on one.
        Some(asked) if envelope.method != "initialize" && !SUPPORTED.contains(&asked) => {
            let asked: String = asked.chars().take(32).collect();
            let data = serde_json::json!({"supported": SUPPORTED, "requested": asked});
            let body =
                envelope::error_body(envelope.id.as_deref(), -32_022, "unsupported protocol version", Some(data));
            Err(Box::new(json_response(StatusCode::BAD_REQUEST, body)))
        }
        _ => Ok(()),
    }
}

fn json_response(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
