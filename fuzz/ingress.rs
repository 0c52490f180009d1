//! What must hold for any body at the ingress; run by the fuzzer and, on fewer bodies, by `cargo test`.

use countersign::http::envelope;
use countersign::tools::Arguments;
use serde_json::Value;

/// Reads `body` as the gate does and its arguments as a tool does.
///
/// Nothing panics. A refusal renders as JSON. What is taken goes on as one JSON message with the
/// same method and id, without a tool's arguments; and those are read from their own source text.
pub(crate) fn check(body: &[u8]) {
    let envelope = match envelope::parse(body) {
        Ok(envelope) => envelope,
        Err(rejected) => {
            let told: Value = serde_json::from_str(&rejected.body()).expect("a refusal is JSON");
            assert!(told["error"]["code"].is_i64() && told["error"]["message"].is_string());
            return;
        }
    };
    let forwarded: Value = serde_json::from_slice(&envelope.forwarded).expect("what goes on is JSON");
    assert_eq!(forwarded["jsonrpc"], "2.0");
    assert_eq!(forwarded["method"], envelope.method.as_str());
    match &envelope.id {
        Some(id) => assert_eq!(&serde_json::from_str::<Value>(id).expect("an id is JSON"), &forwarded["id"]),
        None => assert!(forwarded.get("id").is_none()),
    }
    // Read again, it is the same message: nothing in it can be read in two ways.
    let again = envelope::parse(&envelope.forwarded).expect("what goes on would be taken");
    assert_eq!((&again.method, &again.id, &again.tool), (&envelope.method, &envelope.id, &envelope.tool));
    if envelope.method != "tools/call" {
        assert!(envelope.tool.is_none() && envelope.arguments.is_none());
        return;
    }
    assert_eq!(forwarded["params"]["name"], envelope.tool.as_deref().expect("a call names a tool"));
    let empty = serde_json::json!({});
    assert!(forwarded["params"].get("arguments").is_none_or(|arguments| *arguments == empty), "no argument goes on");
    let source = envelope.arguments.expect("a call has arguments, if only null");
    if source.fault.is_none() {
        arguments(&source.text);
    }
}

/// Reads arguments as tools do; every reader on every text.
fn arguments(text: &str) {
    let fresh = || Arguments::parse(text);
    let Ok(first) = fresh() else {
        return;
    };
    let shown = first.redacted();
    assert!(shown.chars().all(|c| !c.is_control()), "what is logged is one line");
    let again = |read: &dyn Fn(&mut Arguments)| {
        if let Ok(mut arguments) = fresh() {
            read(&mut arguments);
            let _ = arguments.done();
        }
    };
    again(&|it| drop(it.selector()));
    again(&|it| drop(it.cursor()));
    again(&|it| drop(it.texts("signers", 64)));
    again(&|it| drop(it.flag("notify")));
    again(&|it| drop(it.signature()));
    again(&|it| drop(it.text("memo")));
    again(&|it| assert!(it.number("wait_ms", 25_000).ok().flatten().is_none_or(|ms| ms <= 25_000)));
    again(&|it| {
        if let Ok(digits) = it.amount() {
            for code in ["USD", "JPY", "KWD"] {
                let currency = code.parse().expect("a currency");
                // What is taken is exact: written out and read again it is the same.
                if let Ok(money) = countersign::domain::Money::parse(&digits, currency) {
                    let same = countersign::domain::Money::parse(&money.decimal(), currency);
                    assert!(money.minor() >= 1 && same == Ok(money), "{digits} {code}");
                }
            }
        }
    });
}
