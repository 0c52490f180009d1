//! The span of each request, and whose trace it joins.

use super::*;

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
