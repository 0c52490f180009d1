//! The gateway's routes, put together.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::{Router, middleware};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::auth::Verifier;
use super::gate::{Gate, gate};
use super::mcp::McpServer;
use super::problem::{panic_layer, problem_as};
use super::{callbacks, evidence, health, wellknown};
use crate::config::{Config, ConfigFault, ms};
use crate::domain::{Code, Refusal};
use crate::journal::Journal;
use crate::tools::{Desk, names};

/// How long a tool may take: the call's deadline less what the way back needs, so that a tool that is
/// too slow is answered as a tool, and the gate's own deadline is only the last resort.
fn answer_within(config: &Config) -> std::time::Duration {
    ms(config.server.call_deadline_ms.saturating_sub(500).max(1))
}

/// The MCP endpoint behind its gate, callbacks, health and metadata.
///
/// One stateless service for both eras of the protocol: a restart or another replica is invisible
/// to clients. `ended` turns after the drain and ends what is still open.
pub fn router(
    config: &Config,
    journal: Arc<Journal>,
    verifier: Arc<Verifier>,
    judge: Gate,
    ended: CancellationToken,
) -> Result<Router, ConfigFault> {
    let server = McpServer::new(Desk::new(Arc::clone(&journal)), answer_within(config));
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        // Host and Origin were judged by the gate, which knows the public names.
        StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_cancellation_token(ended)
            .with_max_request_body_bytes(config.server.body_limit_bytes)
            .disable_allowed_hosts(),
    );
    let judge = Arc::new(judge.with_tools(names()));
    let pages = evidence::router(Desk::new(Arc::clone(&journal)), Arc::clone(&judge), answer_within(config));
    let mcp = Router::new().route_service("/mcp", service).layer(middleware::from_fn_with_state(judge, gate));
    let servers = if config.auth.authorization_servers.is_empty() {
        vec![config.auth.issuer.clone()]
    } else {
        config.auth.authorization_servers.clone()
    };
    let scopes: Vec<String> =
        Some(config.auth.required_scope.clone()).filter(|scope| !scope.is_empty()).into_iter().collect();
    Ok(mcp
        .merge(pages)
        .merge(callbacks::router(Arc::clone(&journal), &config.signer.callback_secret)?)
        .merge(health::router(journal, verifier))
        .merge(wellknown::router(&config.resource(), &servers, &scopes))
        .fallback(async || {
            let refusal = Refusal::new(Code::InvalidArgument, "no such address; the MCP endpoint is /mcp");
            problem_as(StatusCode::NOT_FOUND, &refusal, "")
        })
        .method_not_allowed_fallback(async || {
            let refusal = Refusal::new(Code::InvalidArgument, "not with this method; the header Allow names those");
            problem_as(StatusCode::METHOD_NOT_ALLOWED, &refusal, "")
        })
        .layer(panic_layer()))
}
