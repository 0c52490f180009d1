//! A small MCP client, for the commands that are a caller's side.

use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Map, Value};

use crate::config::shown_url;

/// A call that got no result.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CallFault(String);

/// A connection to an MCP endpoint with one token.
#[derive(Debug)]
pub struct McpClient {
    service: RunningService<RoleClient, ()>,
}

/// A tool's result.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// The structured content.
    pub body: Value,
    /// Whether it is an error result.
    pub is_error: bool,
}

impl ToolAnswer {
    /// A text member of the result.
    pub fn text(&self, key: &str) -> &str {
        self.body.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

impl McpClient {
    /// Connects and shakes hands.
    pub async fn connect(url: &str, token: &str) -> Result<Self, CallFault> {
        let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned()).auth_header(token);
        let transport = StreamableHttpClientTransport::from_config(config);
        let connected = tokio::time::timeout(PATIENCE, ().serve(transport)).await;
        match connected {
            Ok(Ok(service)) => Ok(Self { service }),
            Ok(Err(err)) => {
                tracing::debug!(error = %err, "the handshake failed");
                Err(CallFault(why_not(url, token).await))
            }
            Err(_) => Err(CallFault(format!("{} did not answer in time", shown_url(url)))),
        }
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<ToolAnswer, CallFault> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answer = tokio::time::timeout(PATIENCE, self.service.call_tool_once(params))
            .await
            .map_err(|_| CallFault(format!("{tool} was not answered in time")))?
            .map_err(|err| CallFault(format!("{tool}: {err}")))?;
        let CallToolResponse::Complete(result) = answer else {
            return Err(CallFault(format!("{tool} gave something other than a complete result")));
        };
        let body = result.structured_content.ok_or_else(|| CallFault(format!("{tool} gave no structured result")))?;
        Ok(ToolAnswer { body, is_error: result.is_error.unwrap_or(false) })
    }

    /// The names of the tools that the token grants.
    pub async fn tools(&self) -> Result<Vec<String>, CallFault> {
        let tools = self.service.list_all_tools().await.map_err(|err| CallFault(err.to_string()))?;
        Ok(tools.into_iter().map(|tool| tool.name.into_owned()).collect())
    }
}

/// Why a handshake failed, by one more request that changes nothing.
async fn why_not(url: &str, token: &str) -> String {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build();
    let asked = match client {
        Ok(client) => {
            let request = client.post(url).bearer_auth(token).header("content-type", "application/json").body(ping);
            request.send().await
        }
        Err(err) => Err(err),
    };
    let url = shown_url(url);
    match asked.map(|answer| answer.status().as_u16()) {
        Err(err) if err.is_connect() => format!("{url} can't be reached; is the gateway running there?"),
        Err(_) => format!("{url} can't be asked; is the address right?"),
        Ok(401 | 403) => format!("{url} refuses the token; it may have expired, or be meant for another audience"),
        Ok(404 | 405) => format!("{url} is no MCP endpoint; the path is /mcp"),
        Ok(status) => format!("{url} does not answer as an MCP endpoint (status {status})"),
    }
}
