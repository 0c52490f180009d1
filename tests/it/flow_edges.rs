//! The edge: who may call what in which form, and what a caller sees when something of ours breaks.

use std::sync::Arc;
use std::time::Duration;

use countersign::domain::Role;
use serde_json::{Value, json};

use crate::harness::app::{App, Wishes, each, each_with};
use crate::harness::peer::Weather;
use crate::harness::scripted::PanickingSigner;

const AGENT: [&str; 8] = [
    "explain_payment",
    "create_payment",
    "notify_signer",
    "get_payment_status",
    "get_sign_link",
    "check_sign_status",
    "cancel_payment",
    "list_payments",
];

#[tokio::test]
async fn each_role_is_shown_its_tools_and_no_other() {
    each(async |app: &mut App| {
        let signer = ["list_approvals", "get_approval", "confirm_signing", "reject_signing", "get_payment_status"];
        let auditor =
            ["get_payment_status", "list_payments", "list_attention", "explain_payment", "get_evidence", "list_audit"];
        let operator = [
            "list_attention",
            "explain_payment",
            "reassign_signer",
            "hold_payment",
            "release_hold",
            "attest_executed",
            "attest_not_executed",
            "resend_notification",
            "cancel_payment",
            "get_payment_status",
            "list_payments",
            "simulate_signer_online",
        ];
        let cases: [(String, &[&str]); 4] = [
            (app.agent(), &AGENT),
            (app.signer_token("finance-1"), &signer),
            (app.operator(), &operator),
            (app.auditor(), &auditor),
        ];
        for (token, expected) in cases {
            let mut shown = app.rpc().tools(&token).await;
            let mut expected: Vec<String> = expected.iter().map(|name| (*name).to_owned()).collect();
            shown.sort();
            expected.sort();
            assert_eq!(shown, expected);
        }
        let nobody = app.token("default", "nobody", "nobody", &[]);
        assert_eq!(app.rpc().tools(&nobody).await, Vec::<String>::new());
        assert_eq!(
            app.call(&nobody, "get_payment_status", json!({"order_id": "order-1"})).await.code(),
            "FORBIDDEN_TOOL"
        );
        // What is published of each tool.
        let list = app.rpc().request(&app.agent(), "tools/list", json!({})).await.json();
        for tool in list["result"]["tools"].as_array().unwrap() {
            for part in ["inputSchema", "outputSchema"] {
                assert_eq!(tool[part]["type"], "object", "{}", tool["name"]);
            }
            assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{}", tool["name"]);
            assert!(tool["annotations"]["readOnlyHint"].is_boolean() && tool["description"].is_string());
        }
    })
    .await;
}

#[tokio::test]
async fn b08_a_hidden_tool_is_refused_however_it_is_spelt_or_wrapped() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let arguments = json!({"order_id": "order-1", "signature": app.jws("finance-1", &document)});
        let agent = app.agent();
        assert_eq!(app.call(&agent, "confirm_signing", arguments.clone()).await.code(), "FORBIDDEN_TOOL");
        let unknown = [
            "CONFIRM_SIGNING",
            "Confirm_signing",
            " confirm_signing",
            "confirm_signing ",
            "confirm\u{200b}_signing",
            "ｃonfirm_signing",
            "countersign/confirm_signing",
            "countersign__confirm_signing",
            "confirm_signing\u{0}",
            "",
            "no_such_tool",
        ];
        for name in unknown {
            let raw = app.rpc().call_text(&agent, name, &arguments.to_string()).await;
            assert_eq!(raw.rpc_error(), -32_602, "{name:?}: {} {}", raw.status, raw.text);
            assert!(!raw.text.contains('\u{200b}') || raw.text.contains("Unknown tool"), "{}", raw.text);
        }
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "confirm_signing", "arguments": arguments}});
        let status = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_payment_status", "arguments": {"order_id": "order-1"}}});
        for batch in [json!([call]), json!([status, call]), json!([])] {
            let raw = app.rpc().post(&agent, batch.to_string()).await;
            assert_eq!((raw.status, raw.rpc_error()), (400, -32_600), "{}", raw.text);
        }
        // Headers decide nothing: either they are refused for lying, or passed over.
        for version in ["2025-11-25", "2026-07-28"] {
            let lying = app.rpc().with("mcp-protocol-version", version);
            let lying = lying.with("mcp-method", "tools/call").with("mcp-name", "get_payment_status");
            let raw = lying.post(&agent, call.to_string()).await;
            let refused = raw.rpc_error() != 0 || raw.json()["result"]["structuredContent"]["error_code"] == "FORBIDDEN_TOOL";
            assert!(refused, "{version}: {}", raw.text);
        }
        assert_eq!((app.rows("decisions").await, app.status("order-1").await.status()), (0, "AWAITING_SIGNER".to_owned()));
        let audited = app.audit().await;
        let forbidden = audited.iter().filter(|facts| facts.event == "tool.forbidden");
        assert!(forbidden.clone().count() >= 2);
        for facts in forbidden {
            assert_eq!((facts.reason.as_str(), facts.actor.contains("agent-1")), ("confirm_signing", true), "{facts:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_that_makes_an_agent_more_than_an_agent_is_refused_whole() {
    each(async |app: &mut App| {
        for role in [Role::Signer, Role::Operator, Role::Auditor] {
            let token = app.token("default", "agent-1", "agent-1", &[Role::Agent, role]);
            let raw = app.rpc().request(&token, "tools/list", json!({})).await;
            assert!([401, 403].contains(&raw.status), "{role}: {} {}", raw.status, raw.text);
            assert!(!raw.header("www-authenticate").is_empty());
        }
        assert_eq!(app.rows("payments").await, 0);
    })
    .await;
}

#[tokio::test]
async fn b02_b07_messages_and_tokens_that_do_not_fit_are_told_so() {
    each(async |app: &mut App| {
        let agent = app.agent();
        let good = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
        for (body, status, code) in [
            ("", 400, -32_700),
            ("{", 400, -32_700),
            ("NaN", 400, -32_700),
            (r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#, 400, -32_600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}"#, 400, -32_600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#, 400, -32_600),
            (r#"{"jsonrpc":"2.0","id":true,"method":"tools/list"}"#, 400, -32_600),
            (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32_600),
        ] {
            let raw = app.rpc().post(&agent, body).await;
            assert_eq!((raw.status, raw.rpc_error()), (status, code), "{body}: {}", raw.text);
        }
        let raw = app.rpc().post(&agent, r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#).await;
        assert_eq!(raw.rpc_error(), -32_601, "{} {}", raw.status, raw.text);
        for id in ["1", "\"1\"", "9007199254740993", "-5", "\"é🙏\""] {
            let raw = app.rpc().post(&agent, good.replace("\"id\":1", &format!("\"id\":{id}"))).await;
            assert!(raw.text.contains(&format!("\"id\":{id}")), "{id}: {}", raw.text);
        }
        for (name, value, status) in [
            ("content-type", "text/plain", 415),
            ("content-type", "", 415),
            ("accept", "text/html", 406),
            ("host", "evil.example", 403),
            ("origin", "https://evil.example", 403),
            ("origin", "null", 403),
        ] {
            let raw = app.rpc().with(name, value).post(&agent, good).await;
            assert_eq!(raw.status, status, "{name}: {value}: {}", raw.text);
        }
        let url = format!("{}/mcp", app.config.server.public_url);
        for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
            let answer = app.http.request(method, &url).bearer_auth(&agent).send().await.unwrap();
            assert_eq!(answer.status(), 405);
        }
        let big = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","pad":"{}"}}"#, "x".repeat(300_000));
        assert_eq!(app.rpc().post(&agent, big).await.status, 413);

        // Tokens.
        for (token, invalid) in [("", false), ("junk", true)] {
            let raw = app.rpc().post(token, good).await;
            let challenge = raw.header("www-authenticate").to_owned();
            assert_eq!(raw.status, 401);
            assert!(challenge.starts_with("Bearer ") && challenge.contains("resource_metadata=\""), "{challenge}");
            assert_eq!(challenge.contains("error=\"invalid_token\""), invalid, "{challenge}");
        }
        let foreign = countersign::http::auth::Mint::from_seed(&[8; 32]);
        let claims = json!({"iss": crate::harness::app::ISSUER, "aud": app.config.audience(), "sub": "agent-1", "roles": ["agent"], "exp": 4_000_000_000_u64});
        assert_eq!(app.rpc().post(&foreign.sign(&claims), good).await.status, 401, "another issuer's key");
        assert_eq!(app.rpc().post(&app.mint.sign(&claims), good).await.status, 200);
        let mut elsewhere = claims;
        elsewhere["aud"] = json!("https://other.example/mcp");
        assert_eq!(app.rpc().post(&app.mint.sign(&elsewhere), good).await.status, 401, "another audience");
        app.clock.advance(2 * 3_600 * 1_000_000);
        let late = app.rpc().post(&agent, good).await;
        assert_eq!((late.status, late.header("www-authenticate").contains("invalid_token")), (401, true));
        assert!(!late.text.contains(&agent));
    })
    .await;
}

#[tokio::test]
async fn b03_a_session_that_the_server_never_issued_is_no_obstacle() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        app.restart().await;
        let answer = app
            .rpc()
            .with("mcp-session-id", "stale")
            .call(&app.agent(), "get_payment_status", json!({"order_id": "order-1"}))
            .await;
        assert_eq!(answer.status(), "CREATED");
    })
    .await;
}

async fn get(app: &App, path: &str) -> (u16, Value) {
    let answer = app.http.get(format!("{}{path}", app.config.server.public_url)).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
}

#[tokio::test]
async fn metadata_and_health_are_open_and_say_what_is() {
    each(async |app: &mut App| {
        for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
            let (status, document) = get(app, path).await;
            assert_eq!((status, &document["resource"]), (200, &json!(app.config.resource())));
            assert_eq!(document["authorization_servers"], json!([crate::harness::app::ISSUER]));
        }
        assert_eq!(get(app, "/healthz").await.0, 200);
        let (status, ready) = get(app, "/readyz").await;
        assert_eq!((status, &ready["status"]), (200, &json!("ready")), "{ready}");
        app.signer.down().await;
        let (status, ready) = get(app, "/readyz").await;
        assert_eq!((status, &ready["status"]), (200, &json!("degraded")), "payments are still taken: {ready}");
        assert_eq!(app.create("order-1").await.status(), "CREATED");
        app.signer.up().await;
        app.rail.set(Weather::Status(401));
        let (status, ready) = get(app, "/readyz").await;
        assert_eq!(
            (status, &ready["status"], &ready["rail"].as_str().unwrap()[..12]),
            (200, &json!("degraded"), "unauthorized")
        );
        app.rail.up().await;
        assert_eq!(get(app, "/readyz").await.1["status"], "ready");
        assert_eq!(get(app, "/no-such-page").await.0, 404);
    })
    .await;
}

#[tokio::test]
async fn a_panic_in_a_tool_is_an_error_answer_and_the_process_lives() {
    let wishes = Wishes::default().signer(|real| Arc::new(PanickingSigner(real)));
    each_with(wishes, async |app: &mut App| {
        app.create("order-1").await;
        assert_eq!(app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await.status(), "CREATED");
        for (tool, arguments) in
            [("check_sign_status", json!({"order_id": "order-1"})), ("notify_signer", json!({"order_id": "order-1"}))]
        {
            let answer = app.call(&app.agent(), tool, arguments).await;
            assert_eq!((answer.code().as_str(), &answer.body["retryable"]), ("INTERNAL", &json!(false)), "{tool}");
            assert!(!answer.body.to_string().contains("SECRET"), "{}", answer.body);
            assert_eq!(app.status("order-1").await.status(), "CREATED", "{tool}");
        }
        // The work it left is taken up by a process that does not panic.
        app.behave().await;
        app.pass(Duration::from_secs(16)).await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        app.sign("order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
    })
    .await;
}

/// The protocol lets a call leave its arguments out, and some SDKs do.
#[tokio::test]
async fn a_call_without_arguments_is_one_with_none() {
    each(async |app: &mut App| {
        for params in [json!({"name": "list_payments"}), json!({"name": "list_payments", "arguments": null})] {
            let answer = app.rpc().request(&app.agent(), "tools/call", params).await.answer();
            assert_eq!(answer.body["payments"], json!([]), "{}", answer.body);
        }
    })
    .await;
}

#[tokio::test]
async fn past_its_deadline_a_call_is_answered_and_what_it_began_goes_on() {
    // The answer is due half a second before the gate ends the call.
    let wishes = Wishes::default().patient().config(|config| config.server.call_deadline_ms = 1_500);
    each_with(wishes, async |app: &mut App| {
        app.create("order-1").await;
        app.signer.once("/notify", Weather::Slow(2_500));
        let answer = app.notify("order-1").await;
        assert!(answer.is_error, "{}", answer.body);
        assert_eq!((answer.code().as_str(), &answer.body["retryable"]), ("DEADLINE_EXCEEDED", &json!(true)));
        for _ in 0..200 {
            if app.status("order-1").await.status() == "AWAITING_SIGNER" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER", "nobody waited, and it was recorded");
        assert_eq!(app.signer.count("POST", "/notify"), 1);
    })
    .await;
}
