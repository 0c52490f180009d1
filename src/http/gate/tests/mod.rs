//! The gate, step by step, in front of a stand-in and of rmcp itself.

mod spans;
mod steps;
mod through_rmcp;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use super::*;
use crate::ambient::{ShiftedClock, SystemEntropy};
use crate::domain::Role;
use crate::http::auth::{Grant, KeySet, KeySource, Mint};
use crate::http::envelope::Arguments;
use crate::telemetry::no_foreign_spans;
use crate::telemetry::trace_context::current_traceparent;

const ISS: &str = "https://idp.example";
const AUD: &str = "https://pay.example/mcp";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01";

struct Bench {
    router: Router,
    mint: Mint,
    clock: Arc<ShiftedClock>,
}

fn server() -> config::Server {
    config::Server {
        listen: String::new(),
        public_url: "https://pay.example".into(),
        allowed_hosts: Vec::new(),
        allowed_origins: vec!["https://app.example".into()],
        body_limit_bytes: 4_096,
        header_timeout_ms: 1_000,
        max_connections: 10,
        call_deadline_ms: 300,
        drain_ms: 100,
        calls_per_minute: 60,
        calls_burst: 50,
    }
}

fn auth() -> config::Auth {
    config::Auth {
        issuer: ISS.into(),
        audience: String::new(),
        jwks_url: String::new(),
        jwks_file: String::new(),
        algorithms: vec!["EdDSA".into()],
        leeway_s: 30,
        tenant_claim: "tenant".into(),
        default_tenant: "default".into(),
        roles_claim: "roles".into(),
        client_claim: "client_id".into(),
        required_scope: String::new(),
        authorization_servers: Vec::new(),
    }
}

/// Answers with what it was handed, or misbehaves as the tool's name says.
async fn stand_in(request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let arguments = parts.extensions.get::<Arguments>().cloned();
    let body: Value = serde_json::from_slice(&to_bytes(body, 10_000).await.unwrap()).unwrap();
    match body["params"]["name"].as_str() {
        Some("slow") => tokio::time::sleep(Duration::from_mins(1)).await,
        Some("broken") => panic!("secret"),
        Some("unread") => return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response(),
        Some("refused") => return axum::Json(json!({ "result": { "isError": true } })).into_response(),
        Some("faulty") => return axum::Json(json!({ "error": { "code": -32_601 } })).into_response(),
        _ => {}
    }
    axum::Json(json!({ "result": {
        "forwarded": body,
        "client": parts.extensions.get::<Principal>().unwrap().client.as_str(),
        "request": parts.extensions.get::<RequestId>().unwrap().0,
        "traceparent": parts.extensions.get::<Traceparent>().unwrap().0,
        "span": current_traceparent(),
        "arguments": arguments.as_ref().map(|arguments| arguments.text.clone()),
        "fault": arguments.and_then(|arguments| arguments.fault).map(|fault| fault.code.as_str()),
        "authorization": parts.headers.contains_key("authorization"),
        "accept": parts.headers["accept"].to_str().unwrap(),
    } }))
    .into_response()
}

async fn bench_with(server: config::Server, scope: &str, inner: Router) -> Bench {
    let mint = Mint::from_seed(&[7; 32]);
    let clock = Arc::new(ShiftedClock::default());
    let keys = KeySource::Fixed(Arc::new(KeySet::parse(mint.jwks().as_bytes()).unwrap()));
    let verifier = Arc::new(Verifier::new(&auth(), AUD.into(), clock.clone(), keys).await.unwrap());
    let gate = Gate::new(&server, AUD, scope, verifier, clock.clone(), Arc::new(SystemEntropy));
    let gate = Arc::new(gate.with_tools(["pay", "slow", "broken", "refused", "faulty"]));
    let router = inner.layer(axum::middleware::from_fn_with_state(gate, super::gate));
    Bench { router, mint, clock }
}

async fn bench() -> Bench {
    bench_with(server(), "", Router::new().route("/mcp", any(stand_in))).await
}

fn tool_call(name: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"a1","method":"tools/call","params":{{"name":"{name}","arguments":{{"n":1.0}}}}}}"#
    )
}

impl Bench {
    fn token(&self, scope: &str) -> String {
        self.mint.token(&Grant {
            issuer: ISS,
            audience: AUD,
            subject: "ann",
            tenant: "acme",
            client: "app-1",
            roles: &[Role::Agent],
            scope,
            issued_at: self.clock.now(),
            valid_for: Duration::from_mins(5),
        })
    }

    fn request(&self, body: &str) -> Request<Body> {
        Request::post("/mcp")
            .header("host", "pay.example")
            .header("authorization", format!("Bearer {}", self.token("")))
            .header("accept", "*/*")
            .header("content-type", "application/json; charset=utf-8")
            .body(Body::from(body.to_owned()))
            .unwrap()
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, HeaderMap, Value) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 100_000).await.unwrap();
        assert!(body.len() <= 4_096, "no answer is larger than 4 KB");
        (parts.status, parts.headers, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Sends a good request with one header set, or taken out.
    async fn with(&self, name: &'static str, value: Option<&str>) -> (StatusCode, HeaderMap, Value) {
        let mut request = self.request(&tool_call("pay"));
        request.headers_mut().remove(name);
        if let Some(value) = value {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        self.send(request).await
    }
}

/// Runs one request with an in-memory exporter and returns the answer and the gate's span.
async fn traced(bench: &Bench, request: Request<Body>) -> (Value, SpanData) {
    let memory = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(memory.clone()).build();
    // Everything is logged, as `init` would at the finest level.
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_filter(no_foreign_spans());
    let subscriber = Registry::default().with(log).with(crate::telemetry::trace_layer(&provider));
    // The runtime of a test has one thread, so this also holds for the tasks that rmcp spawns.
    let _default = tracing::subscriber::set_default(subscriber);
    let (_, _, body) = bench.send(request).await;
    for _ in 0..200 {
        let spans = memory.get_finished_spans().unwrap();
        if let Some(span) = spans.into_iter().find(|span| span.span_kind == opentelemetry::trace::SpanKind::Server) {
            return (body, span);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no span was exported")
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    span.attributes.iter().find(|one| one.key.as_str() == name).map(|one| one.value.as_str().into_owned())
}
