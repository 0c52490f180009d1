//! The MCP side of the edge: rmcp's handler over the desk's tools.
//!
//! rmcp speaks the protocol; the gate has judged the caller and kept the arguments' source text.
//! A tool runs in a task of its own: a client that leaves never stops an outcome from being
//! written, and a panic is an error answer (rust-sdk#106: rmcp would leave the request hanging).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, DiscoverResult, Implementation,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tracing::Instrument as _;

use super::envelope::Arguments as SourceArguments;
use super::gate::RequestId;
use crate::domain::{Code, Principal, Refusal};
use crate::tools::{Arguments, Desk, Impact, Reply, ToolSpec, error_object};

/// What a model is told before it calls anything.
const INSTRUCTIONS: &str = "Countersign is a payment desk. You propose a payment (create_payment), a person countersigns it, \
     and it is executed exactly once. You can never sign. Waiting for a person is normal: follow next_action and retry_after_ms, \
     and never create a second payment because the first one is slow.";

/// How long clients may keep lists and discovery, in milliseconds.
const FRESH_MS: u64 = 300_000;

/// rmcp's handler.
#[derive(Debug, Clone)]
pub struct McpServer {
    desk: Desk,
    deadline: Duration,
}

impl McpServer {
    /// A handler over `desk` that answers each call within `deadline`.
    pub const fn new(desk: Desk, deadline: Duration) -> Self {
        Self { desk, deadline }
    }
}

/// The versions of the protocol that are spoken.
const VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];
/// The same, as clients name them.
pub(super) const SUPPORTED: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("countersign", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(VERSIONS.to_vec())
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info())
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.and_then(|params| params.cursor).is_some() {
            return Err(ErrorData::invalid_params("the tool list has one page; leave cursor out", None));
        }
        let caller = Caller::of(&context)?;
        let tools = self.desk.granted(&caller.principal).into_iter().map(published).collect();
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.desk.tool(name).map(published)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = Caller::of(&context)?;
        let Some(tool) = self.desk.tool(&request.name) else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {}", shown(&request.name)), None));
        };
        let desk = self.desk.clone();
        let request_id = caller.request_id.clone();
        let span = tracing::Span::current();
        let work = tokio::spawn(async move { answered(&desk, &caller, tool).await }.instrument(span));
        // Past the deadline only the waiting ends; the work goes on in its task.
        let (body, is_error) = match tokio::time::timeout(self.deadline, work).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(err)) => {
                tracing::error!(
                    request_id,
                    tool.name = tool.name,
                    panicked = err.is_panic(),
                    "a tool call ended without an answer"
                );
                (error_object(&broken(), &request_id), true)
            }
            Err(_) => (error_object(&too_late(), &request_id), true),
        };
        Ok(CallToolResponse::Complete(rendered(body, is_error)))
    }
}

/// Who calls, and with what: put beside the request by the gate.
struct Caller {
    principal: Principal,
    request_id: String,
    arguments: SourceArguments,
}

impl Caller {
    /// *Errors*: the request did not come through the gate; never answered as if it had.
    fn of(context: &RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        let principal = parts.and_then(|parts| parts.extensions.get::<Principal>());
        let request_id = parts.and_then(|parts| parts.extensions.get::<RequestId>());
        let arguments = parts.and_then(|parts| parts.extensions.get::<SourceArguments>());
        match (principal, request_id) {
            (Some(principal), Some(RequestId(request_id))) => Ok(Self {
                principal: principal.clone(),
                request_id: request_id.clone(),
                arguments: arguments.cloned().unwrap_or_else(|| SourceArguments { text: "{}".to_owned(), fault: None }),
            }),
            _ => Err(ErrorData::internal_error("the request did not pass the gate", None)),
        }
    }
}

/// The call's structured content, counted against its payment's budget, and whether it is an error.
async fn answered(desk: &Desk, caller: &Caller, tool: &ToolSpec) -> (Map<String, Value>, bool) {
    let (mut body, is_error) = match logged(desk, caller, tool).await {
        Ok(reply) => (reply.body, false),
        Err(refusal) => (error_object(&refusal, &caller.request_id), true),
    };
    desk.charge(&caller.principal, &mut body).await;
    (body, is_error)
}

/// One log line before the call and one after it: ids, outcome, duration; never a secret.
async fn logged(desk: &Desk, caller: &Caller, tool: &ToolSpec) -> Result<Reply, Refusal> {
    let begun = Instant::now();
    let arguments = match &caller.arguments.fault {
        Some(fault) => Err(fault.clone()),
        None => Arguments::parse(&caller.arguments.text),
    };
    let redacted = arguments.as_ref().map(Arguments::redacted).unwrap_or_default();
    let who = caller.principal.actor();
    let tenant = caller.principal.tenant.as_str();
    tracing::info!(
        request_id = caller.request_id,
        tool.name = tool.name,
        principal.id = who,
        tenant,
        arguments = redacted,
        "tool call begins"
    );
    let result = Box::pin(desk.call(&caller.principal, tool, arguments)).await;
    let (outcome, payment_id) = match &result {
        Ok(reply) => (text_of(&reply.body, "status"), text_of(&reply.body, "payment_id")),
        Err(refusal) => (
            refusal.code.as_str().to_owned(),
            refusal.payment.as_ref().map(|payment| payment.payment_id.clone()).unwrap_or_default(),
        ),
    };
    tracing::Span::current().record("countersign.payment.id", &payment_id);
    tracing::info!(
        request_id = caller.request_id,
        tool.name = tool.name,
        principal.id = who,
        tenant,
        payment.id = payment_id,
        outcome,
        error = result.is_err(),
        millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        "tool call ends"
    );
    result
}

fn text_of(body: &Map<String, Value>, key: &str) -> String {
    body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn broken() -> Refusal {
    Refusal::new(
        Code::Internal,
        "an internal fault ended the call; what was committed stands, ask for the payment's status",
    )
}

fn too_late() -> Refusal {
    Refusal::new(Code::DeadlineExceeded, "the answer was not ready in time; what was begun goes on, ask for its status")
}

/// A name as it may be shown: what can be read of it, and not too long.
fn shown(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(64).collect()
}

fn rendered(body: Map<String, Value>, is_error: bool) -> CallToolResult {
    let body = Value::Object(body);
    let text = vec![ContentBlock::text(body.to_string())];
    let mut result = if is_error { CallToolResult::error(text) } else { CallToolResult::success(text) };
    result.structured_content = Some(body);
    result
}

fn published(spec: &ToolSpec) -> Tool {
    let mut annotations = ToolAnnotations::default();
    annotations.title = Some(spec.title.to_owned());
    annotations.read_only_hint = Some(spec.impact == Impact::Reads);
    annotations.destructive_hint = Some(spec.impact == Impact::Commits);
    annotations.idempotent_hint = Some(spec.idempotent);
    annotations.open_world_hint = Some(spec.impact != Impact::Reads);
    let mut tool = Tool::new(spec.name, spec.description, Arc::new(spec.input_schema()));
    tool.title = Some(spec.title.to_owned());
    tool.output_schema = Some(Arc::new(spec.output_schema()));
    tool.annotations = Some(annotations);
    tool
}
