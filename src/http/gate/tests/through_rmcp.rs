//! The gate in front of rmcp itself.

use rmcp::ServerHandler;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ServerCapabilities, ServerConfig};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::*;

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
