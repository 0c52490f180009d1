//! The main job: an agent proposes, a person countersigns, the money moves once.

use std::time::Duration;

use countersign::cli::McpClient;
use serde_json::json;

use crate::harness::app::{App, each};
use crate::harness::peer::Weather;

#[tokio::test]
async fn a_payment_with_three_arguments_is_proposed_countersigned_and_executed_once() {
    each(async |app: &mut App| {
        let created = app.create("order-1").await;
        assert_eq!(created.status(), "CREATED", "{}", created.body);
        assert_eq!(created.text("next_action"), "notify_signer");
        assert_eq!((created.text("amount"), created.text("currency")), ("199.00", "USD"));
        assert_eq!(created.body["amount_minor"], 19_900);
        assert!(created.text("payment_id").starts_with("pay_"));
        let payment = created.text("payment_id").to_owned();

        let notified = app.notify("order-1").await;
        assert_eq!((notified.status().as_str(), notified.text("payment_id")), ("AWAITING_SIGNER", payment.as_str()));

        let signed = app.sign("order-1").await;
        assert_eq!((signed.status().as_str(), signed.phase()), ("SIGNED", "none"));
        assert_eq!(app.executions(&payment).await, 0, "a decision alone moves nothing");

        app.settle().await;
        let done = app.status("order-1").await;
        assert_eq!((done.status().as_str(), done.phase(), done.text("next_action")), ("EXECUTED", "confirmed", "done"));
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1));

        // Whatever anyone asks for afterwards, and however much time passes.
        assert_eq!(app.create("order-1").await.body["idempotent_replayed"], true);
        assert_eq!(app.notify("order-1").await.code(), "PAYMENT_TERMINAL");
        assert_eq!(app.cancel("order-1").await.code(), "PAYMENT_TERMINAL");
        app.pass(Duration::from_hours(72)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.requests(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_decision_on_the_sign_page_reaches_the_gateway_by_its_callback() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");

        assert_eq!(app.deliver_callbacks().await, 1);
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER", "a callback alone decides nothing");
        assert_eq!(app.rows("decisions").await, 0);
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
        assert_eq!(app.deliver_callbacks().await, 0, "it was taken");
    })
    .await;
}

#[tokio::test]
async fn a_lost_callback_costs_time_and_nothing_else() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        // No callback is ever delivered; the worker asks on its own schedule.
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        app.pass(Duration::from_secs(31)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn an_agent_may_ask_the_signer_service_at_once() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        let checked = app.call(&app.agent(), "check_sign_status", json!({"order_id": "order-1"})).await;
        assert_eq!(checked.status(), "SIGNED");
        assert_eq!(checked.body["signers"][0]["online"], true, "{}", checked.body);
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn a_sign_link_needs_no_earlier_notification_and_looking_at_it_decides_nothing() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        let link = app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        assert_eq!((link.status().as_str(), link.text("next_action")), ("CREATED", "pass_link_to_signer"));
        let page = app.http.get(link.text("sign_url")).send().await.unwrap();
        assert_eq!(page.status(), 200);
        let page = page.text().await.unwrap();
        assert!(page.contains("199.00") && page.contains("demo-payee-001"));
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "CREATED");
        // The link works on its own: no notification was ever sent.
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        app.deliver_callbacks().await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        let late = app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        assert_eq!(late.code(), "PAYMENT_TERMINAL");
    })
    .await;
}

#[tokio::test]
async fn a_restart_at_every_step_loses_nothing() {
    each(async |app: &mut App| {
        let payment = app.create("order-1").await.text("payment_id").to_owned();
        app.restart().await;
        assert_eq!(app.notify("order-1").await.status(), "AWAITING_SIGNER");
        app.restart().await;
        assert_eq!(app.sign("order-1").await.status(), "SIGNED");
        app.restart().await;
        app.settle().await;
        app.restart().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn the_signer_service_is_told_of_the_end_even_when_it_was_down_then() {
    each(async |app: &mut App| {
        app.signed("order-1").await;
        app.signer.set(Weather::Status(503));
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED", "the money does not wait for that");
        let asked = app.signer.count("POST", "/cancel");
        assert!(asked >= 1);
        app.signer.up().await;
        app.pass(Duration::from_secs(10)).await;
        assert!(app.signer.count("POST", "/cancel") > asked);
        assert!(app.payment("order-1").await.closing.tell_at.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_service_that_never_learns_of_the_end_is_left_alone_at_last() {
    each(async |app: &mut App| {
        app.signed("order-1").await;
        app.signer.down().await;
        for _ in 0..12 {
            app.pass(Duration::from_mins(10)).await;
        }
        let payment = app.payment("order-1").await;
        assert_eq!((payment.status.as_str(), payment.closing.tell_at), ("EXECUTED", None));
    })
    .await;
}

#[tokio::test]
async fn a_client_of_the_sdk_plays_the_whole_story() {
    each(async |app: &mut App| {
        let url = format!("{}/mcp", app.config.server.public_url);
        let agent = McpClient::connect(&url, &app.agent()).await.unwrap();
        let signer = McpClient::connect(&url, &app.signer_token("finance-1")).await.unwrap();
        assert!(agent.tools().await.unwrap().contains(&"create_payment".to_owned()));
        let order = json!({"order_id": "order-1", "amount": "199.00", "signer_id": "finance-1", "notify": true});
        let created = agent.call("create_payment", order).await.unwrap();
        assert_eq!((created.text("status"), created.is_error), ("AWAITING_SIGNER", false));
        let approval = signer.call("get_approval", json!({"order_id": "order-1"})).await.unwrap();
        let document = approval.body["to_sign"][0]["decision_document"].as_str().unwrap();
        let confirm = json!({"order_id": "order-1", "signature": app.jws("finance-1", document)});
        assert_eq!(signer.call("confirm_signing", confirm).await.unwrap().text("status"), "SIGNED");
        app.settle().await;
        let status = agent.call("get_payment_status", json!({"order_id": "order-1"})).await.unwrap();
        assert_eq!(status.text("status"), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn both_lifecycles_of_the_protocol_are_served_by_one_endpoint() {
    each(async |app: &mut App| {
        let agent = app.agent();
        // Up to 2025-11-25: initialize, initialized, then calls; no session is issued.
        for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
            let rpc = app.rpc().with("mcp-protocol-version", version);
            let hello =
                json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            let shaken = rpc.request(&agent, "initialize", hello).await;
            assert_eq!(shaken.json()["result"]["protocolVersion"], version, "{}", shaken.text);
            assert_eq!(shaken.header("mcp-session-id"), "");
            let noted = rpc.post(&agent, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
            assert_eq!((noted.status, noted.text.as_str()), (202, ""));
            let order = json!({"order_id": format!("order-{version}"), "amount": "1.00", "signer_id": "finance-1"});
            assert_eq!(rpc.call(&agent, "create_payment", order).await.status(), "CREATED");
        }
        // 2026-07-28: no handshake; each request says who speaks.
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let modern = app.rpc().with("mcp-protocol-version", "2026-07-28");
        let discovered = modern
            .clone()
            .with("mcp-method", "server/discover")
            .request(&agent, "server/discover", json!({"_meta": meta}))
            .await;
        let versions = &discovered.json()["result"]["supportedVersions"];
        assert!(versions.as_array().is_some_and(|all| all.contains(&json!("2026-07-28"))), "{}", discovered.text);
        let call = json!({"name": "get_payment_status", "arguments": {"order_id": "order-2025-11-25"}, "_meta": meta});
        let rpc = modern.with("mcp-method", "tools/call").with("mcp-name", "get_payment_status");
        let answer = rpc.request(&agent, "tools/call", call).await.answer();
        assert_eq!(answer.status(), "CREATED");
    })
    .await;
}
