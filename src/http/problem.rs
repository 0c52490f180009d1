//! A refusal as an RFC 9457 problem document.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tower_http::catch_panic::CatchPanicLayer;

use crate::domain::{Code, Refusal};

/// The header that carries the request's id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The document.
#[derive(Debug, Serialize)]
struct Problem<'a> {
    r#type: String,
    title: String,
    status: u16,
    detail: &'a str,
    error_code: &'static str,
    category: &'static str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'static str>,
    next_action: &'static str,
    request_id: &'a str,
}

/// The problem response of a refusal, with the status that the catalogue gives its code.
pub fn problem(refusal: &Refusal, request_id: &str) -> Response {
    let status = StatusCode::from_u16(refusal.code.entry().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    problem_as(status, refusal, request_id)
}

/// The problem response of a refusal with another status, where HTTP has a closer one.
pub fn problem_as(status: StatusCode, refusal: &Refusal, request_id: &str) -> Response {
    let entry = refusal.code.entry();
    let after = refusal.retry_after_ms();
    let name = entry.name.to_ascii_lowercase();
    let body = Problem {
        r#type: format!("urn:countersign:error:{name}"),
        title: sentence(&name),
        status: status.as_u16(),
        detail: &refusal.message,
        error_code: entry.name,
        category: entry.category,
        retryable: entry.retryable || after.is_some(),
        retry_after_ms: after,
        field: refusal.field,
        next_action: entry.next_action,
        request_id,
    };
    let text = serde_json::to_string(&body).unwrap_or_else(|_| "{}".to_owned());
    let mut response = (status, text).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(after) = after {
        headers.insert(RETRY_AFTER, HeaderValue::from(after.div_ceil(1_000)));
    }
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// A code's name as a title: `RATE_LIMITED` is "Rate limited".
fn sentence(name: &str) -> String {
    let text = name.replace('_', " ");
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The layer that turns a panic anywhere below it into a problem; the outermost layer of a router.
pub fn panic_layer() -> CatchPanicLayer<fn(Box<dyn std::any::Any + Send + 'static>) -> Response> {
    CatchPanicLayer::custom(panicked)
}

/// The payload is not looked at: it may hold anything.
fn panicked(_payload: Box<dyn std::any::Any + Send + 'static>) -> Response {
    tracing::error!("a request handler panicked");
    problem(&Refusal::new(Code::Internal, "an internal fault; nothing more is known to the caller"), "")
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    async fn json(response: Response) -> serde_json::Value {
        let bytes = axum::body::to_bytes(response.into_body(), 4_096).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn a_refusal_is_a_problem_with_all_a_program_needs() {
        let refusal = Refusal::new(Code::RateLimited, "too many calls").after_ms(1_200);
        let response = problem(&refusal, "req_1");
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert_eq!(response.headers()[&REQUEST_ID], "req_1");
        let body = json(response).await;
        assert_eq!(body["type"], "urn:countersign:error:rate_limited");
        assert_eq!(body["title"], "Rate limited");
        assert_eq!(body["status"], 429);
        assert_eq!(body["error_code"], "RATE_LIMITED");
        assert_eq!(body["category"], "rate_limit");
        assert_eq!(body["retryable"], true);
        assert_eq!(body["retry_after_ms"], 1_200);
        assert_eq!(body["request_id"], "req_1");
        assert_eq!(body["detail"], "too many calls");
    }

    #[tokio::test]
    async fn a_problem_that_repeating_does_not_help_says_so() {
        let response = problem(&Refusal::new(Code::PaymentNotFound, "no such payment"), "req_1");
        assert!(response.headers().get(RETRY_AFTER).is_none());
        let body = json(response).await;
        assert_eq!((&body["retryable"], body.get("retry_after_ms")), (&false.into(), None));
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_and_its_text_stays_inside() {
        async fn bad() -> &'static str {
            panic!("secret")
        }
        let router: Router = Router::new().route("/", get(bad)).layer(panic_layer());
        let request = axum::http::Request::get("/").body(axum::body::Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = json(response).await;
        assert_eq!(body["error_code"], "INTERNAL");
        assert!(!body.to_string().contains("secret"));
    }
}
