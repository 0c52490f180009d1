//! Each step of the gate, in front of a stand-in.

use super::*;

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
