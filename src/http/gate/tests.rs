//! The gate, step by step, in front of a stand-in and of rmcp itself.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use rmcp::ServerHandler;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ServerCapabilities, ServerConfig};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
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

#[tokio::test]
async fn a_good_call_arrives_with_all_a_tool_needs_and_without_the_token() {
    let bench = bench().await;
    let (status, headers, body) = bench.send(bench.request(&tool_call("pay"))).await;
    assert_eq!(status, 200);
    let seen = &body["result"];
    assert_eq!(seen["client"], "app-1");
    assert_eq!(seen["arguments"], r#"{"n":1.0}"#);
    assert_eq!(seen["forwarded"]["params"], json!({ "name": "pay", "arguments": {} }));
    assert_eq!(seen["authorization"], false);
    assert_eq!(seen["accept"], "application/json, text/event-stream");
    let id = headers["x-request-id"].to_str().unwrap();
    assert!(id.starts_with("req_") && id.len() == 30 && seen["request"] == id, "{id}");
    assert_eq!(headers["cache-control"], "no-store");
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_turned_away_before_the_token_is_looked_at() {
    let bench = bench().await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "null")] {
        let mut request = bench.request(&tool_call("pay"));
        request.headers_mut().insert(name, value.parse().unwrap());
        request.headers_mut().remove("authorization");
        let (status, headers, _) = bench.send(request).await;
        assert_eq!(status, 403, "{value}");
        assert!(headers.get("www-authenticate").is_none());
    }
    assert_eq!(bench.with("origin", Some("https://app.example")).await.0, 200);
}

#[tokio::test]
async fn b07_every_method_without_a_good_token_is_a_401_with_a_challenge() {
    let bench = bench().await;
    let expired = bench.token("");
    bench.clock.advance(400_000_000);
    for (value, error) in
        [(None, false), (Some("Bearer junk".to_owned()), true), (Some(format!("Bearer {expired}")), true)]
    {
        for method in ["POST", "GET", "DELETE", "PUT"] {
            let mut request = bench.request(&tool_call("pay"));
            *request.method_mut() = method.parse().unwrap();
            request.headers_mut().remove("authorization");
            if let Some(value) = &value {
                request.headers_mut().insert("authorization", value.parse().unwrap());
            }
            let (status, headers, body) = bench.send(request).await;
            assert_eq!(status, 401, "{method} {value:?}");
            let challenge = headers["www-authenticate"].to_str().unwrap();
            assert!(
                challenge
                    .contains("resource_metadata=\"https://pay.example/.well-known/oauth-protected-resource/mcp\"")
            );
            assert_eq!(challenge.contains("error=\"invalid_token\""), error, "{challenge}");
            assert!(!body.to_string().contains("junk") && !body.to_string().contains(&expired));
            assert!(headers.contains_key("x-request-id"));
        }
    }
    let mut request = bench.request(&tool_call("pay"));
    *request.uri_mut() = format!("/mcp?access_token={}", bench.token("")).parse().unwrap();
    request.headers_mut().remove("authorization");
    assert_eq!(bench.send(request).await.0, 401, "a token in the query is none");
}

#[tokio::test]
async fn only_post_is_taken() {
    let bench = bench().await;
    for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
        let mut request = bench.request("");
        *request.method_mut() = method.parse().unwrap();
        let (status, headers, _) = bench.send(request).await;
        assert_eq!((status.as_u16(), headers["allow"].to_str().unwrap()), (405, "POST"), "{method}");
    }
}

#[tokio::test]
async fn form_and_size_are_judged() {
    let bench = bench().await;
    assert_eq!(bench.with("accept", Some("text/html")).await.0, 406);
    assert_eq!(bench.with("accept", None).await.0, 200);
    assert_eq!(bench.with("content-type", Some("text/plain")).await.0, 415);
    assert_eq!(bench.with("content-type", None).await.0, 415);
    assert_eq!(bench.with("content-length", Some("5000")).await.0, 413, "by announcement");
    let (status, _, body) = bench.send(bench.request(&" ".repeat(5_000))).await;
    assert_eq!((status.as_u16(), &body["error_code"]), (413, &json!("INVALID_ARGUMENT")));
}

#[tokio::test]
async fn a_body_that_trickles_is_cut_off() {
    let bench = bench().await;
    let mut request = bench.request("");
    *request.body_mut() = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    assert_eq!(bench.send(request).await.0, 408);
}

#[tokio::test]
async fn a_bad_envelope_is_a_json_rpc_error_with_status_400() {
    let bench = bench().await;
    for (body, code, error_code) in [
        ("{", -32_700, Value::Null),
        ("[]", -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, -32_600, json!("DUPLICATE_JSON_KEY")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32_602, Value::Null),
    ] {
        let (status, _, answer) = bench.send(bench.request(body)).await;
        assert_eq!((status.as_u16(), &answer["error"]["code"]), (400, &json!(code)), "{body}");
        assert_eq!(answer["error"]["data"]["error_code"], error_code, "{body}");
    }
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"a":1,"a":2}}}"#;
    let (status, _, answer) = bench.send(bench.request(twice)).await;
    assert_eq!((status.as_u16(), &answer["result"]["fault"]), (200, &json!("DUPLICATE_JSON_KEY")));
}

#[tokio::test]
async fn a_missing_scope_is_403_and_the_scope_opens() {
    let bench = bench_with(server(), "pay", Router::new().route("/mcp", any(stand_in))).await;
    let (status, headers, _) = bench.send(bench.request(&tool_call("pay"))).await;
    assert_eq!(status, 403);
    assert!(headers["www-authenticate"].to_str().unwrap().contains("error=\"insufficient_scope\""));
    let mut request = bench.request(&tool_call("pay"));
    let token = format!("Bearer {}", bench.token("x pay"));
    request.headers_mut().insert("authorization", token.parse().unwrap());
    assert_eq!(bench.send(request).await.0, 200);
}

#[tokio::test]
async fn too_many_calls_are_429_with_a_time() {
    let bench =
        bench_with(config::Server { calls_burst: 1, ..server() }, "", Router::new().route("/mcp", any(stand_in))).await;
    assert_eq!(bench.send(bench.request(&tool_call("pay"))).await.0, 200);
    let (status, headers, body) = bench.send(bench.request(&tool_call("pay"))).await;
    assert_eq!((status.as_u16(), &body["error_code"]), (429, &json!("RATE_LIMITED")));
    assert!(headers.contains_key("retry-after") && body["retry_after_ms"].is_u64());
}

#[tokio::test]
async fn a_call_that_does_not_end_or_panics_is_answered() {
    let bench = bench().await;
    for (tool, code) in [("slow", "DEADLINE_EXCEEDED"), ("broken", "INTERNAL")] {
        let (status, headers, body) = bench.send(bench.request(&tool_call(tool))).await;
        assert_eq!((status.as_u16(), &body["id"]), (200, &json!("a1")), "{tool}");
        assert_eq!(body["error"]["code"], -32_603);
        assert_eq!(body["error"]["data"]["error_code"], code);
        assert_eq!(body["error"]["data"]["request_id"], headers["x-request-id"].to_str().unwrap());
        assert!(!body.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn a_shape_that_rmcp_cannot_read_is_invalid_params() {
    let bench = bench().await;
    let (status, _, body) = bench.send(bench.request(&tool_call("unread"))).await;
    assert_eq!((status.as_u16(), &body["error"]["code"], &body["id"]), (400, &json!(-32_602), &json!("a1")));
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

#[tokio::test]
async fn the_span_follows_the_conventions() {
    let bench = bench().await;
    let mut request = bench.request(&tool_call("pay"));
    request.headers_mut().insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
    request.headers_mut().insert("traceparent", PARENT.parse().unwrap());
    let (body, span) = traced(&bench, request).await;
    assert_eq!(span.name, "tools/call pay");
    for (name, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "pay"),
        ("gen_ai.operation.name", "execute_tool"),
        ("jsonrpc.request.id", "a1"),
        ("mcp.protocol.version", "2025-11-25"),
        ("network.transport", "tcp"),
        ("countersign.request_id", body["result"]["request"].as_str().unwrap()),
    ] {
        assert_eq!(attribute(&span, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(attribute(&span, "error.type"), None);
    assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
    let own = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", span.span_context.span_id());
    assert_eq!((&body["result"]["traceparent"], &body["result"]["span"]), (&json!(own), &json!(own)));
}

#[tokio::test]
async fn the_context_in_meta_is_the_parent_and_that_of_http_a_link() {
    let bench = bench().await;
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"nobody's","_meta":{{"traceparent":"{PARENT}"}}}}}}"#
    );
    let mut request = bench.request(&call);
    request.headers_mut().insert("traceparent", OTHER.parse().unwrap());
    let (_, span) = traced(&bench, request).await;
    assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
    assert_eq!(span.links.links[0].span_context.span_id().to_string(), "c7ad6b7169203331");
    assert_eq!(span.name, "tools/call", "a tool that does not exist names no span");
}

#[tokio::test]
async fn errors_have_their_type_on_the_span() {
    let bench = bench().await;
    for (tool, error) in [
        ("refused", "tool_error"),
        ("faulty", "-32601"),
        ("slow", "-32603"),
        ("broken", "-32603"),
        ("unread", "-32602"),
    ] {
        let (_, span) = traced(&bench, bench.request(&tool_call(tool))).await;
        assert_eq!(attribute(&span, "error.type").as_deref(), Some(error), "{tool}");
        assert!(matches!(span.status, opentelemetry::trace::Status::Error { .. }), "{tool}");
    }
}

#[tokio::test]
async fn without_an_exporter_the_callers_context_is_handed_on() {
    let bench = bench().await;
    let (_, _, body) = bench.with("traceparent", Some(PARENT)).await;
    assert_eq!(body["result"]["traceparent"], PARENT);
    let (_, _, body) = bench.with("traceparent", Some("junk")).await;
    assert_eq!(body["result"]["traceparent"], Value::Null);
}

/// A tool behind rmcp that answers with what reached it.
#[derive(Clone)]
struct Desk;

impl ServerHandler for Desk {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        let parts = context.extensions.get::<Parts>().unwrap();
        let answer = json!({
            "given": request.arguments,
            "text": parts.extensions.get::<Arguments>().unwrap().text,
            "client": parts.extensions.get::<Principal>().unwrap().client.as_str(),
            "span": current_traceparent(),
            "inner": tracing::info_span!("tool.pay").in_scope(current_traceparent),
        });
        Ok(CallToolResult::structured(answer).into())
    }
}

async fn rmcp_bench() -> Bench {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts();
    let service = StreamableHttpService::new(|| Ok(Desk), Arc::new(NeverSessionManager::default()), config);
    bench_with(config::Server { call_deadline_ms: 5_000, ..server() }, "", Router::new().route_service("/mcp", service))
        .await
}

#[tokio::test]
async fn through_rmcp_the_tool_sees_the_exact_arguments_the_caller_and_the_span() {
    let bench = rmcp_bench().await;
    let modern = r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"pay","arguments":{"amount":0.1000000000000000055511151231257827,"big":1e400},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let legacy = r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"pay","arguments":{"amount":0.1000000000000000055511151231257827,"big":1e400}}}"#;
    for (body, version) in [(legacy, "2025-11-25"), (modern, "2026-07-28")] {
        let mut request = bench.request(body);
        request.headers_mut().insert("mcp-protocol-version", version.parse().unwrap());
        request.headers_mut().insert("mcp-method", "tools/call".parse().unwrap());
        request.headers_mut().insert("mcp-name", "pay".parse().unwrap());
        let (answer, span) = traced(&bench, request).await;
        let seen = &answer["result"]["structuredContent"];
        assert_eq!(seen["given"], json!({}), "{answer}");
        assert_eq!(seen["text"], r#"{"amount":0.1000000000000000055511151231257827,"big":1e400}"#);
        assert_eq!(seen["client"], "app-1");
        assert_eq!(answer["id"].to_string(), "9007199254740993");
        let context = span.span_context;
        assert!(seen["inner"].as_str().unwrap().contains(&context.trace_id().to_string()), "one trace");
        assert_eq!(seen["span"], format!("00-{}-{}-01", context.trace_id(), context.span_id()), "{version}");
    }
}

#[tokio::test]
async fn through_rmcp_ids_come_back_and_odd_shapes_are_json_rpc_errors() {
    let bench = rmcp_bench().await;
    for id in ["1", "\"1\"", "-5", "\"\u{e9}\u{1f64f}\""] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":null}}"#);
        let (status, _, answer) = bench.send(bench.request(&body)).await;
        assert_eq!((status.as_u16(), answer["id"].to_string()), (200, id.to_owned()), "{answer}");
    }
    let odd = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}"#;
    let (status, _, answer) = bench.send(bench.request(odd)).await;
    assert!(answer["error"]["code"].is_i64(), "{status} {answer}");
    let (status, _, _) = bench.send(bench.request(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await;
    assert_eq!(status, 202);
}
