//! Bad input, as one table through real HTTP: every tool with arguments, every kind of fault.
//!
//! The cases come from the published schemas, so a new tool or argument is covered when it is
//! published. Each case has one fault. It must be answered with a stable code that names the
//! argument, within a second, and nothing may be written.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use countersign::tools::{TOOLS, ToolSpec};
use serde_json::{Map, Value, json};

use crate::harness::app::{App, CALLBACK_SECRET, RAIL_API_KEY, SIGNER_API_KEY, Wishes, each_in_turn, each_with};
use crate::harness::database::TestEngine;

/// The longest that any of these answers may take.
const AT_MOST: Duration = Duration::from_secs(1);

/// One call that must be refused.
struct Case {
    tool: &'static str,
    what: String,
    /// The arguments' source text.
    arguments: String,
    code: &'static str,
    /// The argument that must be named.
    names: String,
}

/// Arguments of each tool that have no fault in their form.
fn good(tool: &ToolSpec) -> Map<String, Value> {
    let value = match tool.name {
        "create_payment" => json!({"order_id": "order-new", "amount": "199.00", "signer_id": "finance-1"}),
        "list_payments" | "list_approvals" | "list_attention" | "list_audit" => json!({}),
        "confirm_signing" => json!({"order_id": "order-1", "signature": "e30..AAAA"}),
        "reject_signing" => json!({"order_id": "order-1", "signature": "e30..AAAA", "reason": "too dear"}),
        "reassign_signer" => json!({"order_id": "order-1", "signer_id": "finance-2"}),
        "hold_payment" => json!({"order_id": "order-1", "reason": "paid by hand"}),
        "release_hold" | "attest_not_executed" => json!({"order_id": "order-1", "evidence": "statement of today"}),
        "attest_executed" => json!({"order_id": "order-1", "evidence": "statement of today", "reference": "bank-1"}),
        "simulate_signer_online" => json!({"signer_id": "finance-1", "online": true}),
        _ => json!({"order_id": "order-1"}),
    };
    value.as_object().unwrap().clone()
}

fn with(tool: &ToolSpec, name: &str, value: Value) -> String {
    let mut arguments = good(tool);
    if name == "payment_id" {
        arguments.remove("order_id");
    }
    arguments.insert(name.to_owned(), value);
    Value::Object(arguments).to_string()
}

/// Texts that are no text to sign or show, and no id either.
const UNCLEAN: [(&str, &str); 9] = [
    ("not NFC", "e\u{301}tude"),
    ("a control character", "a\u{7}b"),
    ("a zero byte", "a\u{0}b"),
    ("a line end", "a\nb"),
    ("right to left", "a\u{202e}b"),
    ("a bidi isolate", "a\u{2066}b\u{2069}"),
    ("a zero-width space", "a\u{200b}b"),
    ("a blank at its end", "abc "),
    ("a blank at its start", "\u{a0}abc"),
];

/// Arguments that are texts for people: everything printable is fine in them.
const PROSE: [&str; 3] = ["memo", "reason", "evidence"];

/// Every case of every tool, from its schema.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for tool in &TOOLS {
        let schema = tool.input_schema();
        let required: BTreeSet<&str> =
            schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let mut add = |what: String, arguments: String, code: &'static str, names: &str| {
            cases.push(Case { tool: tool.name, what, arguments, code, names: names.to_owned() });
        };
        for (name, property) in schema["properties"].as_object().unwrap() {
            of_argument(tool, name, property, required.contains(name.as_str()), &mut add);
        }
        of_the_whole(tool, &schema, &mut add);
    }
    cases.extend(amounts());
    cases
}

/// What the code of a fault in this argument's form is.
fn code_of(name: &str) -> &'static str {
    if name == "amount" { "AMOUNT_INVALID" } else { "INVALID_ARGUMENT" }
}

/// What the code of a fault in this argument's text is.
fn code_of_text(name: &str) -> &'static str {
    if name == "currency" { "CURRENCY_UNSUPPORTED" } else { code_of(name) }
}

type Add<'a> = dyn FnMut(String, String, &'static str, &str) + 'a;

fn of_argument(tool: &ToolSpec, name: &str, property: &Value, required: bool, add: &mut Add<'_>) {
    let code = code_of(name);
    let types: Vec<&str> = match &property["type"] {
        Value::Array(types) => types.iter().map(|kind| kind.as_str().unwrap()).collect(),
        one => vec![one.as_str().unwrap()],
    };
    if required {
        let mut without = good(tool);
        without.remove(name);
        add(format!("{name} is missing"), Value::Object(without).to_string(), code, name);
        add(format!("{name} is null"), with(tool, name, Value::Null), code, name);
    }
    for (kind, value) in [
        ("string", json!("text")),
        ("number", json!(7)),
        ("boolean", json!(true)),
        ("array", json!([])),
        ("array", json!([[]])),
        ("object", json!({})),
        ("object", json!({"a": 1})),
    ] {
        let fits = types.iter().any(|known| *known == kind || (*known == "integer" && kind == "number"));
        if !fits {
            add(format!("{name} is of type {kind}"), with(tool, name, value), code, name);
        }
    }
    if types.contains(&"integer") {
        for number in ["-1", "1.5", "1e3", "25001", "9007199254740993", "99999999999999999999", "-0", "1.0"] {
            let text = with(tool, name, json!("@")).replace("\"@\"", number);
            add(format!("{name} is {number}"), text, code, name);
        }
    }
    if types.contains(&"array") {
        for value in [json!([7]), json!([null]), json!([["finance-1"]]), json!([""]), json!(["a\u{202e}b"])] {
            add(format!("{name} is {value}"), with(tool, name, value), "INVALID_ARGUMENT", "signer");
        }
        let many: Vec<String> = (0..20_000).map(|n| format!("s{n}")).collect();
        add(format!("{name} has 20000 entries"), with(tool, name, json!(many)), "INVALID_ARGUMENT", name);
    }
    if !types.contains(&"string") {
        return;
    }
    let code = code_of_text(name);
    let most = property["maxLength"].as_u64().unwrap_or(5_000);
    let long = "a".repeat(usize::try_from(most).unwrap() + 1);
    add(format!("{name} is too long"), with(tool, name, json!(long)), code, name);
    for (what, text) in UNCLEAN {
        let code = if PROSE.contains(&name) { "TEXT_NOT_CANONICAL" } else { code };
        add(format!("{name} holds {what}"), with(tool, name, json!(text)), code, name);
    }
    // A surrogate that stands alone is no character at all.
    let alone = with(tool, name, json!("@")).replace("\"@\"", r#""a\ud800""#);
    add(format!("{name} holds half a surrogate pair"), alone, "TEXT_NOT_CANONICAL", "arguments");
    if !PROSE.contains(&name) || required && name == "evidence" {
        add(format!("{name} is empty"), with(tool, name, json!("")), code, name);
    }
    if property["enum"].is_array() {
        for word in ["none of these", "Approve", "created", "APPROVE "] {
            add(format!("{name} is {word:?}"), with(tool, name, json!(word)), code, name);
        }
    }
    if ["payment_id", "supersedes", "cursor"].contains(&name) && tool.name != "list_audit" {
        for id in [
            "pay_01j00000000000000000000000",
            "PAY_01J00000000000000000000000",
            "eff_01J00000000000000000000000",
            "dec_01J00000000000000000000000",
            "01J00000000000000000000000",
            "pay_01J0000000000000000000000",
            "pay_01J000000000000000000000000",
            "pay_81J00000000000000000000000",
            "pay_01J0000000000000000000000I",
            "pay_01J00000000000000000000000/../x",
            "order-1",
        ] {
            add(format!("{name} is {id}"), with(tool, name, json!(id)), code, name);
        }
    }
    if name == "cursor" && tool.name == "list_audit" {
        for text in ["-1", "1.5", "0x1", "9223372036854775808", "+1", " 1", "pay_01J00000000000000000000000"] {
            add(format!("{name} is {text:?}"), with(tool, name, json!(text)), code, name);
        }
    }
    if name == "order_id" && tool.name != "create_payment" {
        // Case matters, so another case is another order, of which nothing is said.
        for order in ["ORDER-1", "Order-1"] {
            add(format!("order_id is {order}"), with(tool, name, json!(order)), "PAYMENT_NOT_FOUND", "");
        }
    }
    if name == "signer_id" {
        // A presence switch knows no policy.
        let code = if tool.name == "simulate_signer_online" { "INVALID_ARGUMENT" } else { "SIGNER_NOT_ELIGIBLE" };
        for person in ["FINANCE-1", "Finance-1", "nobody-of-that-name"] {
            add(format!("signer_id is {person}"), with(tool, name, json!(person)), code, name);
        }
    }
}

/// Faults of the arguments as a whole.
fn of_the_whole(tool: &ToolSpec, schema: &Map<String, Value>, add: &mut Add<'_>) {
    let text = Value::Object(good(tool)).to_string();
    let members = text.trim_start_matches('{').trim_end_matches('}');
    let lead = if members.is_empty() { String::new() } else { format!("{members},") };
    let properties = schema["properties"].as_object().unwrap();
    for name in ["no_such_argument", "Order_id", "order_id ", "amount_minor", "tenant", "approved", "__proto__"] {
        add(format!("an unknown {name:?}"), format!(r#"{{{lead}"{name}":1}}"#), "INVALID_ARGUMENT", name);
    }
    add("an unknown empty name".to_owned(), format!(r#"{{{lead}"":1}}"#), "INVALID_ARGUMENT", "");
    // A name that hides something is shown in escapes.
    let hidden = "a\u{202e}b\u{200b}";
    add("an unknown hidden name".to_owned(), format!(r#"{{{lead}"{hidden}":1}}"#), "INVALID_ARGUMENT", "\"a\\u{202e}");
    for (name, value) in good(tool) {
        for again in [format!(r#""{name}":{value}"#), format!(r#""{name}":null"#)] {
            let twice = format!("{{{members},{again}}}");
            add(format!("{name} twice"), twice, "DUPLICATE_JSON_KEY", &name);
        }
        let (first, rest) = name.split_at(1);
        let spelt = format!(r#"{{{members},"\u{:04x}{rest}":{value}}}"#, u32::from(first.chars().next().unwrap()));
        add(format!("{name} twice, once in escapes"), spelt, "DUPLICATE_JSON_KEY", &name);
    }
    let nested = format!(r#"{{{lead}"x":[{{"deep":{{"a":1,"a":2}}}}]}}"#);
    add("a key twice, far inside".to_owned(), nested, "DUPLICATE_JSON_KEY", "\"a\"");
    let deep = format!(r#"{{{lead}"x":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    add("nested too deep".to_owned(), deep, "INVALID_ARGUMENT", "arguments");
    for text in ["[]", "\"order-1\"", "7", "true", "[{}]"] {
        add(format!("the arguments are {text}"), text.to_owned(), "INVALID_ARGUMENT", "arguments");
    }
    if properties.contains_key("payment_id") {
        let mut neither = good(tool);
        neither.remove("order_id");
        let neither = Value::Object(neither).to_string();
        add("neither order_id nor payment_id".to_owned(), neither, "INVALID_ARGUMENT", "order_id");
        let both = format!(r#"{{{lead}"payment_id":"pay_01J00000000000000000000000"}}"#);
        add("order_id and payment_id".to_owned(), both, "INVALID_ARGUMENT", "order_id");
        let mut other = good(tool);
        other.remove("order_id");
        other.insert("payment_id".to_owned(), json!("pay_01J00000000000000000000000"));
        let other = Value::Object(other).to_string();
        add("a payment_id that nobody has".to_owned(), other, "PAYMENT_NOT_FOUND", "");
    }
}

/// Amounts and currencies, by their source text in JSON.
fn amounts() -> Vec<Case> {
    const INVALID: &str = "AMOUNT_INVALID";
    const PRECISION: &str = "AMOUNT_PRECISION";
    const CURRENCY: &str = "CURRENCY_UNSUPPORTED";
    let rows: Vec<(&str, &str, &str)> = vec![
        ("USD", "0.30000000000000004", PRECISION),
        ("USD", r#""0.30000000000000004""#, PRECISION),
        ("USD", "1.005", PRECISION),
        ("USD", r#""1.000""#, PRECISION),
        ("USD", "199.990", PRECISION),
        ("JPY", r#""100.0""#, PRECISION),
        ("JPY", "100.5", PRECISION),
        ("JPY", r#""100.00""#, PRECISION),
        ("KWD", r#""1.2345""#, PRECISION),
        ("USD", "-1", INVALID),
        ("USD", r#""-0.01""#, INVALID),
        ("USD", "-0", INVALID),
        ("USD", "0", INVALID),
        ("USD", "0.00", INVALID),
        ("USD", r#""0""#, INVALID),
        ("JPY", r#""0""#, INVALID),
        ("USD", "1e3", INVALID),
        ("USD", "1E3", INVALID),
        ("USD", "1.5e1", INVALID),
        ("USD", r#""1e3""#, INVALID),
        ("USD", "1e400", INVALID),
        // The largest amount is 10^15 minor units.
        ("USD", "10000000000000.01", INVALID),
        ("USD", r#""10000000000000.01""#, INVALID),
        ("JPY", "1000000000000001", INVALID),
        ("KWD", r#""1000000000000.001""#, INVALID),
        ("JPY", "9007199254740991", INVALID),
        ("JPY", "9007199254740992", INVALID),
        ("JPY", "9007199254740993", INVALID),
        ("USD", "9223372036854775807", INVALID),
        ("USD", "99999999999999999999999999", INVALID),
        ("USD", r#"" 1""#, INVALID),
        ("USD", r#""1 ""#, INVALID),
        ("USD", r#""1 000""#, INVALID),
        ("USD", r#""+1""#, INVALID),
        ("USD", r#""0x10""#, INVALID),
        ("USD", r#""１２""#, INVALID),
        ("USD", r#""٣""#, INVALID),
        ("USD", r#""1,00""#, INVALID),
        ("USD", r#""1,000.00""#, INVALID),
        ("USD", r#""1.""#, INVALID),
        ("USD", r#"".5""#, INVALID),
        ("USD", r#""01""#, INVALID),
        ("USD", r#""1.2.3""#, INVALID),
        ("USD", r#""$1""#, INVALID),
        ("USD", r#""1\u0000""#, INVALID),
        ("USD", r#""NaN""#, INVALID),
        ("USD", r#""Infinity""#, INVALID),
        ("HRK", r#""1.00""#, CURRENCY),
        ("BGN", r#""1.00""#, CURRENCY),
        ("DEM", r#""1.00""#, CURRENCY),
        ("ZWL", r#""1.00""#, CURRENCY),
        ("XXX", r#""1.00""#, CURRENCY),
        ("XAU", r#""1.00""#, CURRENCY),
        ("QQQ", r#""1.00""#, CURRENCY),
        ("usd", r#""1.00""#, CURRENCY),
        ("Usd", r#""1.00""#, CURRENCY),
        ("USD ", r#""1.00""#, CURRENCY),
        ("US", r#""1.00""#, CURRENCY),
        ("USDC", r#""1.00""#, CURRENCY),
        ("ＵＳＤ", r#""1.00""#, CURRENCY),
        ("840", r#""1.00""#, CURRENCY),
        ("$", r#""1.00""#, CURRENCY),
        // A current one, which is not accepted here.
        ("SEK", r#""1.00""#, CURRENCY),
    ];
    let case = |(currency, amount, code): (&str, &str, &'static str)| Case {
        tool: "create_payment",
        what: format!("{amount} {currency}"),
        arguments: format!(
            r#"{{"order_id":"order-new","amount":{amount},"currency":{},"signer_id":"finance-1"}}"#,
            json!(currency)
        ),
        code,
        names: if code == CURRENCY { "currency" } else { "amount" }.to_owned(),
    };
    rows.into_iter().map(case).collect()
}

/// Every table of ours, as the engine's own catalogue lists them.
async fn tables(app: &App) -> Vec<String> {
    let sql = match app.db.engine() {
        TestEngine::Sqlite => {
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\'"
        }
        TestEngine::Postgres => {
            "SELECT table_name::text FROM information_schema.tables \
             WHERE table_schema = current_schema() AND table_name NOT LIKE '\\_sqlx%'"
        }
    };
    let mut tables = app.db.raw().await.texts(sql).await;
    tables.sort();
    assert!(tables.len() > 9 && tables.contains(&"audit_entries".to_owned()), "{tables:?}");
    tables
}

/// How many rows each table has, and how often payments changed.
async fn written(app: &App) -> Vec<String> {
    let tables = tables(app).await;
    let mut raw = app.db.raw().await;
    let mut all = raw.texts("SELECT CAST(COALESCE(SUM(version), 0) AS TEXT) FROM payments").await;
    for table in tables {
        all.push(format!("{table}: {}", raw.texts(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}")).await[0]));
    }
    all
}

/// A token of a role that has the tool.
fn token(app: &App, tool: &str) -> String {
    match tool {
        "list_approvals" | "get_approval" | "confirm_signing" | "reject_signing" => app.signer_token("finance-1"),
        "get_evidence" | "list_audit" => app.auditor(),
        "list_attention"
        | "resend_notification"
        | "reassign_signer"
        | "hold_payment"
        | "release_hold"
        | "attest_executed"
        | "attest_not_executed"
        | "simulate_signer_online" => app.operator(),
        _ => app.agent(),
    }
}

/// What must never be told: what we are made of, and secrets.
fn gives_nothing_away(text: &str) -> Result<(), String> {
    let lower = text.to_lowercase();
    for word in [
        "select ",
        "insert ",
        "sqlite",
        "sqlx",
        "postgres",
        "constraint",
        "src/",
        ".rs:",
        ".rs\"",
        "panicked",
        "backtrace",
        "/tmp",
        "serde",
        "column",
        "raw value",
        SIGNER_API_KEY,
        RAIL_API_KEY,
        &CALLBACK_SECRET[6..].to_lowercase(),
    ] {
        if lower.contains(word) {
            return Err(format!("it tells {word:?}"));
        }
    }
    let hidden = |c: &char| c.is_control() || "\u{200b}\u{202e}\u{2066}\u{2069}".contains(*c);
    text.chars().find(hidden).map_or(Ok(()), |c| Err(format!("it holds {:?}", c.escape_unicode().to_string())))
}

/// What is wrong with how a case was answered.
async fn verdict(app: &App, case: &Case) -> Result<(), String> {
    let token = token(app, case.tool);
    let begun = Instant::now();
    let raw = app.rpc().call_text(&token, case.tool, &case.arguments).await;
    let took = begun.elapsed();
    gives_nothing_away(&raw.text)?;
    if took > AT_MOST {
        return Err(format!("it took {took:?}"));
    }
    if raw.status != 200 || !raw.json()["result"].is_object() {
        return Err("it is no tool result".to_owned());
    }
    let answer = raw.answer();
    if !answer.is_error || case.code != answer.text("error_code") {
        return Err(format!("{} instead of {}", answer.code(), case.code));
    }
    if !answer.text("error_message").contains(&case.names) {
        return Err(format!("{:?} is not named in {:?}", case.names, answer.text("error_message")));
    }
    // A program reads the name where it is one of the tool's arguments, and the fault is in its value.
    let schema = TOOLS.iter().find(|tool| tool.name == case.tool).unwrap().input_schema();
    let ours = schema["properties"].get(&case.names).is_some() && case.code != "DUPLICATE_JSON_KEY";
    if ours && answer.text("field") != case.names {
        return Err(format!("field is {:?} instead of {:?}", answer.text("field"), case.names));
    }
    if answer.body["retryable"] != false || answer.body["next_action"].as_str().is_none_or(str::is_empty) {
        return Err("it says to repeat, or not what to do".to_owned());
    }
    Ok(())
}

#[tokio::test]
async fn every_fault_of_every_tools_arguments_is_named_and_nothing_is_written() {
    let wishes = Wishes::default().config(|config| config.payments.currencies.push("KWD".to_owned()));
    let cases = cases();
    each_in_turn(wishes, async |app: &mut App| {
        app.awaiting("order-1").await;
        let before = written(app).await;
        let mut faults = Vec::new();
        assert!(cases.len() > 800, "{} cases", cases.len());
        for case in &cases {
            if let Err(why) = verdict(app, case).await {
                let shown: String = case.arguments.chars().take(160).collect();
                faults.push(format!("{}: {}: {why}\n    {shown}", case.tool, case.what));
            }
        }
        let engine = app.db.engine();
        assert!(faults.is_empty(), "{} of {} on {engine}:\n{}", faults.len(), cases.len(), faults.join("\n"));
        assert_eq!(written(app).await, before, "nothing is written, not even an audit entry");

        // Who may not use the tool at all is told that first, and this alone is audited.
        for arguments in ["{}", "[]", r#"{"x":1,"x":2}"#, r#"{"order_id":7}"#] {
            let raw = app.rpc().call_text(&app.agent(), "confirm_signing", arguments).await;
            assert_eq!(raw.answer().code(), "FORBIDDEN_TOOL", "{arguments}");
        }
        let beside_audit =
            |rows: Vec<String>| rows.into_iter().filter(|row| !row.starts_with("audit_")).collect::<Vec<_>>();
        assert_eq!(beside_audit(written(app).await), beside_audit(before));
        assert_eq!(app.audited("tool.forbidden", "confirm_signing").await, 4);

        // The same arguments without a fault are no bad input, so each case had one fault only.
        for tool in &TOOLS {
            let answer = app.call(&token(app, tool.name), tool.name, Value::Object(good(tool))).await;
            assert_ne!(answer.text("category"), "validation", "{}: {}", tool.name, answer.body);
        }
    })
    .await;
}

#[tokio::test]
async fn amounts_at_the_edge_of_what_is_allowed_are_taken_to_the_last_digit() {
    let wishes = Wishes::default().config(|config| config.payments.currencies.push("KWD".to_owned()));
    each_with(wishes, async |app: &mut App| {
        for (n, (amount, currency, decimal, minor)) in (1..).zip([
            ("0.01", "USD", "0.01", 1_u64),
            ("\"0.1\"", "USD", "0.10", 10),
            ("10000000000000.00", "USD", "10000000000000.00", 1_000_000_000_000_000),
            ("\"10000000000000\"", "USD", "10000000000000.00", 1_000_000_000_000_000),
            ("9999999999999.99", "USD", "9999999999999.99", 999_999_999_999_999),
            ("90071992547409.93", "USD", "", 0),
            ("1000000000000000", "JPY", "1000000000000000", 1_000_000_000_000_000),
            ("1", "JPY", "1", 1),
            ("1.234", "KWD", "1.234", 1_234),
            ("\"999999999999.999\"", "KWD", "999999999999.999", 999_999_999_999_999),
        ]) {
            let text = format!(r#"{{"order_id":"order-{n}","amount":{amount},"currency":"{currency}"}}"#);
            let answer = app.rpc().call_text(&app.agent(), "create_payment", &text).await.answer();
            if minor == 0 {
                assert_eq!(answer.code(), "AMOUNT_INVALID", "{text}");
                continue;
            }
            assert_eq!((answer.text("amount"), &answer.body["amount_minor"]), (decimal, &json!(minor)), "{text}");
        }
    })
    .await;
}
