//! The span of one MCP call, by the MCP semantic conventions.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::HeaderMap;
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::http::envelope::Envelope;
use crate::http::mcp::SUPPORTED;
use crate::telemetry::metrics::{Operation, metrics};
use crate::telemetry::trace_context::{add_link, is_traceparent, set_parent, traceparent_of};

/// Methods that get a name of their own; a caller's invention does not.
const METHODS: [&str; 14] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "notifications/initialized",
];

/// The span and what its metric needs.
pub(super) struct CallTrace {
    pub(super) span: Span,
    incoming: Option<String>,
    method: &'static str,
    tool: Option<String>,
    protocol_version: Option<&'static str>,
}

impl CallTrace {
    /// Opens the span: its parent is the context in `_meta`, else the HTTP header's; with both, the
    /// header's is a link.
    pub(super) fn open(envelope: &Envelope, headers: &HeaderMap, request_id: &str, tools: &BTreeSet<String>) -> Self {
        let method = known(&METHODS, &envelope.method).unwrap_or("_OTHER");
        let tool = envelope.tool.clone().filter(|tool| tools.contains(tool));
        let name = tool.as_ref().map_or_else(|| method.to_owned(), |tool| format!("{method} {tool}"));
        let header = |name: &str| headers.get(name).and_then(|line| line.to_str().ok());
        let version = header("mcp-protocol-version").or(envelope.meta_protocol_version.as_deref());
        let protocol_version = version.and_then(|version| known(&SUPPORTED, version));
        let span = info_span!(
            "mcp.call",
            otel.name = name,
            otel.kind = "server",
            otel.status_code = Empty,
            mcp.method.name = method,
            mcp.protocol.version = protocol_version,
            gen_ai.tool.name = tool,
            gen_ai.operation.name = tool.as_ref().map(|_| "execute_tool"),
            jsonrpc.request.id = envelope.id.as_deref().map(|id| short(id.trim_matches('"'))),
            network.transport = "tcp",
            network.protocol.name = "http",
            countersign.request_id = request_id,
            countersign.payment.id = Empty,
            "error.type" = Empty,
        );
        let meta = envelope.meta_traceparent.as_deref().filter(|text| is_traceparent(text));
        let http = header("traceparent").filter(|text| is_traceparent(text));
        if let Some(parent) = meta.or(http) {
            set_parent(&span, parent);
        }
        if let (Some(_), Some(http)) = (meta, http) {
            add_link(&span, http);
        }
        Self { span, incoming: meta.or(http).map(str::to_owned), method, tool, protocol_version }
    }

    /// The context that work of this call continues.
    pub(super) fn traceparent(&self) -> Option<String> {
        Some(traceparent_of(&self.span)).filter(|own| !own.is_empty()).or_else(|| self.incoming.clone())
    }

    /// Notes how the call ended, and counts it.
    pub(super) fn close(self, error: Option<&str>, took: Duration) {
        if let Some(error) = error {
            self.span.record("error.type", error);
            self.span.record("otel.status_code", "ERROR");
        }
        let operation = Operation {
            method: self.method,
            tool: self.tool.as_deref(),
            error,
            protocol_version: self.protocol_version,
        };
        metrics().operation(operation, took);
    }
}

fn known(all: &[&'static str], name: &str) -> Option<&'static str> {
    all.iter().find(|one| **one == name).copied()
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
