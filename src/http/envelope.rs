//! The body of a POST: exactly one JSON-RPC message, read strictly before rmcp sees it.
//!
//! rmcp reads bodies leniently: the last of two equal keys wins and numbers become floats. For
//! money neither will do, so the arguments of a tool call are cut out as source text and rmcp gets
//! the message without them.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::json::{JsonFault, Members, check, distinct};
use crate::domain::{Code, Refusal};

/// The arguments of a tool call, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// The source text; `null` when there are none. Syntactically JSON, otherwise unjudged.
    pub text: String,
    /// Why it must not be read further: a key twice, nested too deep, text that is no Unicode.
    pub fault: Option<Refusal>,
}

/// One JSON-RPC request or notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The id as it was written, a string or an integer; `None` for a notification.
    pub id: Option<String>,
    /// The method.
    pub method: String,
    /// The tool of a `tools/call`.
    pub tool: Option<String>,
    /// Its arguments.
    pub arguments: Option<Arguments>,
    /// `params._meta.traceparent`.
    pub meta_traceparent: Option<String>,
    /// The protocol version that `params._meta` names.
    pub meta_protocol_version: Option<String>,
    /// The message for rmcp: as it came, the arguments of a tool call replaced by `{}`.
    pub forwarded: Vec<u8>,
}

/// A body that is not carried out; HTTP 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The id to answer with, where one could be read.
    pub id: Option<String>,
    /// The JSON-RPC code.
    pub code: i64,
    /// One sentence for the caller.
    pub message: String,
    /// The entry of the catalogue, where there is a closer one.
    pub error_code: Option<Code>,
}

const PARSE: i64 = -32_700;
const REQUEST: i64 = -32_600;
const PARAMS: i64 = -32_602;
/// Longer ids serve nothing but to be echoed.
const MAX_ID: usize = 1_024;

impl Rejected {
    fn new(code: i64, message: &str) -> Self {
        Self { id: None, code, message: message.to_owned(), error_code: None }
    }

    fn of_json(fault: &JsonFault) -> Self {
        match fault {
            JsonFault::Text => Self::new(PARSE, "a string in the body is not Unicode text"),
            JsonFault::Deep => Self::new(REQUEST, "the body is nested deeper than 32 levels"),
            JsonFault::Duplicate(key) => Self {
                error_code: Some(Code::DuplicateJsonKey),
                ..Self::new(REQUEST, &format!("the key {key:?} is there twice in one object"))
            },
        }
    }

    fn answering(self, id: Option<&String>) -> Self {
        Self { id: id.cloned(), ..self }
    }

    /// The JSON-RPC error to answer with.
    pub fn body(&self) -> String {
        let data = self.error_code.map(|code| json!({ "error_code": code.as_str() }));
        error_body(self.id.as_deref(), self.code, &self.message, data)
    }
}

/// A JSON-RPC error; `id` is the raw text of the request's id.
pub fn error_body(id: Option<&str>, code: i64, message: &str, data: Option<Value>) -> String {
    let mut error = json!({ "code": code, "message": message });
    if let (Some(data), Some(fields)) = (data, error.as_object_mut()) {
        fields.insert("data".to_owned(), data);
    }
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.unwrap_or("null"))
}

/// Reads a body.
///
/// A byte order mark is no JSON (RFC 8259 §8.1 lets a reader refuse it).
///
/// *Errors*: what JSON-RPC calls a parse error, an invalid request or invalid parameters.
pub fn parse(body: &[u8]) -> Result<Envelope, Rejected> {
    let text = std::str::from_utf8(body).map_err(|_| Rejected::new(PARSE, "the body is not UTF-8"))?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|_| Rejected::new(PARSE, "the body is not JSON"))?;
    match raw.get().as_bytes().first() {
        Some(b'{') => {}
        Some(b'[') => return Err(Rejected::new(REQUEST, "batches are not accepted; send one message")),
        _ => return Err(Rejected::new(REQUEST, "the body is not a JSON object")),
    }
    let top = Members::of(raw).ok_or_else(|| Rejected::of_json(&JsonFault::Text))?;
    distinct(&top).map_err(|fault| Rejected::of_json(&fault))?;
    let id = top.get("id").map(read_id).transpose()?;
    message(&top, id.as_ref()).map_err(|rejected| rejected.answering(id.as_ref()))
}

fn message(top: &Members<'_>, id: Option<&String>) -> Result<Envelope, Rejected> {
    if top.text("jsonrpc").as_deref() != Some("2.0") {
        return Err(Rejected::new(REQUEST, "jsonrpc must be \"2.0\""));
    }
    let Some(method) = top.text("method") else {
        return Err(Rejected::new(REQUEST, "method must be a string"));
    };
    for (_, value) in top.0.iter().filter(|(name, _)| name != "params") {
        check(value, 2).map_err(|fault| Rejected::of_json(&fault))?;
    }
    let params = match top.get("params") {
        None => None,
        Some(raw) if raw.get() == "null" => None,
        Some(raw) if raw.get().starts_with('{') => {
            let members = Members::of(raw).ok_or_else(|| Rejected::of_json(&JsonFault::Text))?;
            distinct(&members).map_err(|fault| Rejected::of_json(&fault))?;
            Some(members)
        }
        Some(_) => return Err(Rejected::new(PARAMS, "params must be an object")),
    };
    let calls = method == "tools/call";
    let members = params.as_ref().map_or(&[][..], |params| params.0.as_slice());
    for (name, value) in members {
        if !(calls && name == "arguments") {
            check(value, 3).map_err(|fault| Rejected::of_json(&fault))?;
        }
    }
    let (tool, arguments) = if calls {
        let params = params.as_ref().ok_or_else(|| Rejected::new(PARAMS, "params are missing: name and arguments"))?;
        let Some(tool) = params.text("name") else {
            return Err(Rejected::new(PARAMS, "params.name must be a string"));
        };
        (Some(tool), Some(arguments(params.get("arguments"))))
    } else {
        (None, None)
    };
    let forwarded = forwarded(top, params.as_ref(), calls);
    // rmcp reads numbers as floats; one that is none would be told as a fault of something else.
    if serde_json::from_slice::<Value>(&forwarded).is_err() {
        return Err(Rejected::new(REQUEST, "a number in the body is out of range"));
    }
    let meta = params.as_ref().and_then(|params| params.get("_meta")).and_then(Members::of);
    let meta_text = |key: &str| meta.as_ref().and_then(|meta| meta.text(key));
    Ok(Envelope {
        id: id.cloned(),
        meta_traceparent: meta_text("traceparent"),
        meta_protocol_version: meta_text("io.modelcontextprotocol/protocolVersion"),
        forwarded,
        method,
        tool,
        arguments,
    })
}

fn arguments(raw: Option<&RawValue>) -> Arguments {
    let fault = raw.and_then(|raw| check(raw, 3).err()).map(|fault| match fault {
        JsonFault::Duplicate(key) => {
            Refusal::new(Code::DuplicateJsonKey, format!("the arguments name {key:?} twice in one object"))
        }
        JsonFault::Deep => Refusal::new(Code::InvalidArgument, "the arguments are nested too deep"),
        JsonFault::Text => Refusal::new(Code::TextNotCanonical, "a string in the arguments is not Unicode text"),
    });
    Arguments { text: raw.map_or("null", RawValue::get).to_owned(), fault }
}

/// An id is a string or an integer; anything else would not come back digit by digit.
fn read_id(raw: &RawValue) -> Result<String, Rejected> {
    let text = raw.get();
    let string = text.starts_with('"');
    if string && check(raw, 1).is_err() {
        return Err(Rejected::of_json(&JsonFault::Text));
    }
    let integer = text != "-0" && text.parse::<i64>().is_ok();
    if (string || integer) && text.len() <= MAX_ID {
        Ok(text.to_owned())
    } else {
        Err(Rejected::new(REQUEST, "id must be a string or a whole number"))
    }
}

/// Renders the message again from its own source text, `null` params left out.
fn forwarded(top: &Members<'_>, params: Option<&Members<'_>>, calls: bool) -> Vec<u8> {
    let params = params.map(|params| {
        object(params.0.iter().map(|(name, value)| {
            (name.as_str(), if calls && name == "arguments" { "{}".to_owned() } else { value.get().to_owned() })
        }))
    });
    let members = top.0.iter().filter_map(|(name, value)| {
        let text = if name == "params" { params.clone()? } else { value.get().to_owned() };
        Some((name.as_str(), text))
    });
    object(members).into_bytes()
}

fn object<'a>(members: impl Iterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> = members.map(|(name, value)| format!("{}:{value}", Value::from(name))).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(body: impl AsRef<[u8]>) -> Rejected {
        let body = body.as_ref();
        match parse(body) {
            Err(rejected) => rejected,
            Ok(envelope) => panic!("{} is taken: {envelope:?}", String::from_utf8_lossy(body)),
        }
    }

    fn call(arguments: &str) -> Envelope {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"pay","arguments":{arguments},"_meta":{{"traceparent":"00-x","n":1.50}}}}}}"#
        );
        parse(body.as_bytes()).unwrap()
    }

    #[test]
    fn a_tool_call_is_cut_into_what_rmcp_sees_and_what_the_tool_sees() {
        let envelope = call(r#"{"amount": 0.10000000000000000001, "x":1e400}"#);
        assert_eq!((envelope.id.as_deref(), envelope.method.as_str()), (Some("1"), "tools/call"));
        assert_eq!((envelope.tool.as_deref(), envelope.meta_traceparent.as_deref()), (Some("pay"), Some("00-x")));
        let arguments = envelope.arguments.unwrap();
        assert_eq!(arguments.text, r#"{"amount": 0.10000000000000000001, "x":1e400}"#);
        assert_eq!(arguments.fault, None);
        assert_eq!(
            String::from_utf8(envelope.forwarded).unwrap(),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{},"_meta":{"traceparent":"00-x","n":1.50}}}"#
        );
    }

    #[test]
    fn arguments_that_are_no_object_are_the_tools_to_judge() {
        for text in ["null", "7", "[1]", "\"x\""] {
            assert_eq!(call(text).arguments.unwrap().text, text);
        }
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}"#;
        assert_eq!(parse(body).unwrap().arguments.unwrap().text, "null");
    }

    #[test]
    fn faults_inside_arguments_are_reported_to_the_tool() {
        for (text, code) in [
            (r#"{"amount":1,"amount":2}"#.to_owned(), Code::DuplicateJsonKey),
            (r#"{"a":[{"b":1,"\u0062":2}]}"#.to_owned(), Code::DuplicateJsonKey),
            (format!("{}1{}", "[".repeat(31), "]".repeat(31)), Code::InvalidArgument),
            (r#"{"a":"\ud800"}"#.to_owned(), Code::TextNotCanonical),
        ] {
            assert_eq!(call(&text).arguments.unwrap().fault.unwrap().code, code, "{text}");
        }
        assert_eq!(call(&format!("{}1{}", "[".repeat(30), "]".repeat(30))).arguments.unwrap().fault, None);
    }

    #[test]
    fn what_is_not_json_is_a_parse_error() {
        let bad: [&[u8]; 10] = [
            b"",
            b"{",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}",
            b"{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"ping\"}",
            b"{'jsonrpc':'2.0'}",
            b"{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"ping\"}",
            b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"x\":\"\\ud800\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",}",
        ];
        for body in bad {
            assert_eq!(rejected(body).code, PARSE, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn a_batch_is_refused_whole() {
        for body in ["[]", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "7", "null", "\"x\""] {
            assert_eq!(rejected(body).code, REQUEST, "{body}");
        }
    }

    #[test]
    fn ids_keep_type_and_digits_or_are_refused() {
        for id in ["1", "\"1\"", "9007199254740993", "-5", "\"\u{e9}\u{1f64f}\"", "\"\\u00e9\"", "0", "\"\""] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(parse(body.as_bytes()).unwrap().id.as_deref(), Some(id));
        }
        let long = format!("\"{}\"", "x".repeat(MAX_ID));
        for id in ["1.5", "{}", "true", "null", "[1]", "1e2", "9223372036854775808", "-0", &long] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(rejected(body).code, REQUEST, "{id}");
        }
        let note = parse(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).unwrap();
        assert_eq!(note.id, None);
    }

    #[test]
    fn a_key_twice_anywhere_is_refused() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"arguments":{}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"x":{"y":1,"y":2}}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":{"y":1,"y":2}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","extra":[{"y":1,"y":2}]}"#,
        ] {
            let rejected = rejected(body);
            assert_eq!((rejected.code, rejected.error_code), (REQUEST, Some(Code::DuplicateJsonKey)), "{body}");
        }
    }

    #[test]
    fn nesting_ends_at_32_also_for_a_body_made_of_brackets() {
        let body = |depth: usize| {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{open}{close}}}}}"#)
        };
        assert!(parse(body(30).as_bytes()).is_ok());
        assert_eq!(rejected(body(31)).code, REQUEST);
        assert_eq!(rejected(body(100_000)).code, REQUEST);
        assert_eq!(rejected("[".repeat(200_000)).code, PARSE);
    }

    #[test]
    fn a_request_that_is_not_one_is_refused_with_its_id() {
        for (body, code) in [
            (r#"{"id":1,"method":"ping"}"#, REQUEST),
            (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, REQUEST),
            (r#"{"jsonrpc":"2.0","id":1}"#, REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":1e999}}"#, REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#, PARAMS),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, PARAMS),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}"#, PARAMS),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, PARAMS),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}"#, PARAMS),
        ] {
            let rejected = rejected(body);
            assert_eq!((rejected.code, rejected.id.as_deref()), (code, Some("1")), "{body}");
            let answer: Value = serde_json::from_str(&rejected.body()).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(code)));
        }
    }

    #[test]
    fn null_params_are_left_out_and_keys_stay_escaped() {
        let envelope = parse(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null,"a\"b":1e9}"#).unwrap();
        let text = String::from_utf8(envelope.forwarded).unwrap();
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","a\"b":1e9}"#);
    }
}
