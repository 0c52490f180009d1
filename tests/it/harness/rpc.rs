//! The MCP endpoint, spoken to by hand, so that a test decides every byte.

use countersign::tools::{TOOLS, ToolSpec};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::json_schema::faults;

/// A tool's answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// The structured content.
    pub(crate) body: Value,
    /// Whether it is an error result.
    pub(crate) is_error: bool,
}

impl Answer {
    /// A text member, or `""`.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.body[key].as_str().unwrap_or_default()
    }

    /// The status of a success; the error's code in brackets otherwise, so that a comparison shows it.
    pub(crate) fn status(&self) -> String {
        if self.is_error { format!("({})", self.text("error_code")) } else { self.text("status").to_owned() }
    }

    /// The code of an error result; a success's status in brackets otherwise.
    pub(crate) fn code(&self) -> String {
        if self.is_error { self.text("error_code").to_owned() } else { format!("({})", self.text("status")) }
    }

    /// The public phase of the execution.
    pub(crate) fn phase(&self) -> &str {
        self.body["execution"]["phase"].as_str().unwrap_or_default()
    }
}

/// A raw HTTP answer.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// The tool that was called, if one was.
    tool: String,
}

impl Raw {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The JSON-RPC error's code, or 0.
    pub(crate) fn rpc_error(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_default()
    }

    /// The tool's answer in it, whose form is checked against the published schema.
    pub(crate) fn answer(&self) -> Answer {
        let message = self.json();
        assert_eq!(self.status, 200, "{}", self.text);
        let result = &message["result"];
        assert!(result.is_object(), "no result: {}", self.text);
        let body = result["structuredContent"].clone();
        let is_error = result["isError"].as_bool().unwrap_or(false);
        conforms(&self.tool, &body, is_error);
        assert_eq!(result["content"][0]["type"], "text", "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(!text.contains('\n'), "one line: {text}");
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), body, "the text says what the structure says");
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        Answer { body, is_error }
    }
}

/// Why no answer of a tool came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Miss {
    /// Nobody listened, so that no byte of the call left.
    Unreached,
    /// The connection stood, and broke or fell silent before the whole answer was there.
    Cut,
    /// An answer of HTTP's own.
    Status(u16),
}

impl Miss {
    fn of(err: &reqwest::Error) -> Self {
        if err.is_connect() { Self::Unreached } else { Self::Cut }
    }
}

/// Holds a result to the output schema that its tool publishes.
fn conforms(tool: &str, body: &Value, is_error: bool) {
    let schema = Value::Object(spec(tool).output_schema());
    let faults = faults(&schema, &schema, body);
    assert!(faults.is_empty(), "{tool}: {faults:?}: {body}");
    assert_eq!(body["success"], !is_error, "{body}");
    assert!(is_error || body["error_code"].is_null(), "{body}");
    assert!(!is_error || body["next_actions"].is_array(), "{body}");
}

/// The tool of that name, as it is published.
pub(crate) fn spec(tool: &str) -> &'static ToolSpec {
    TOOLS.iter().find(|spec| spec.name == tool).unwrap_or_else(|| panic!("there is no tool {tool:?}"))
}

/// The endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Rpc {
    http: reqwest::Client,
    url: String,
    headers: Vec<(String, String)>,
}

impl Rpc {
    pub(crate) fn new(http: reqwest::Client, url: String) -> Self {
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        Self { http, url, headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec() }
    }

    /// The same, with one header set or, by `""`, left out.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Posts these bytes.
    pub(crate) async fn post(&self, token: &str, body: impl Into<String>) -> Raw {
        self.try_post(token, body.into()).await.unwrap()
    }

    /// Posts these bytes to one who may be gone.
    async fn try_post(&self, token: &str, body: String) -> Result<Raw, reqwest::Error> {
        let message: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        let tool = message["params"]["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let mut request = self.http.post(&self.url).headers(headers).body(body);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Ok(Raw { status, headers, text: answer.text().await?, tool })
    }

    /// One JSON-RPC request.
    pub(crate) async fn request(&self, token: &str, method: &str, params: Value) -> Raw {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post(token, message.to_string()).await
    }

    /// Calls a tool with arguments as their source text.
    pub(crate) async fn call_text(&self, token: &str, tool: &str, arguments: &str) -> Raw {
        // Named here: not every text that a test sends can be read back.
        Raw { tool: tool.to_owned(), ..self.post(token, tool_call(tool, arguments)).await }
    }

    /// Calls a tool of one who may be gone.
    pub(crate) async fn try_call(&self, token: &str, tool: &str, arguments: Value) -> Result<Answer, Miss> {
        let raw = self.try_post(token, tool_call(tool, &arguments.to_string())).await.map_err(|err| Miss::of(&err))?;
        if raw.status == 200 { Ok(raw.answer()) } else { Err(Miss::Status(raw.status)) }
    }

    pub(crate) async fn call(&self, token: &str, tool: &str, arguments: Value) -> Answer {
        self.call_text(token, tool, &arguments.to_string()).await.answer()
    }

    /// The names of the tools that a token grants.
    pub(crate) async fn tools(&self, token: &str) -> Vec<String> {
        let list = self.request(token, "tools/list", json!({})).await.json();
        let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools: {list}"));
        for tool in tools {
            let spec = spec(tool["name"].as_str().unwrap());
            assert_eq!(tool["inputSchema"], Value::Object(spec.input_schema()), "{}", spec.name);
            assert_eq!(tool["outputSchema"], Value::Object(spec.output_schema()), "{}", spec.name);
        }
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn tool_call(tool: &str, arguments: &str) -> String {
    let name = json!(tool);
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{name},"arguments":{arguments}}}}}"#)
}
