//! Arbitrary bodies at the ingress, by the fuzz target's own function; `just fuzz` tries many more.

#[path = "../../fuzz/ingress.rs"]
mod checked;

use proptest::prelude::*;

use checked::check;

/// Bodies that were found to matter, or look as if they could.
const SEEDS: [&str; 22] = [
    "",
    "{",
    "null",
    "[]",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":"\u0000","method":"ping","params":null}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":null}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"amount":0.1e1}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"amount":"199.00","order_id":"a"}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1,"a":2}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arg\u0075ments":{"amount":1}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"x","arguments":{"amount":1}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"tools/call","params":{"name":"\ud83d\ude4f","arguments":{"amount":1}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"memo":"\ud800"}}}"#,
    r#"{"jsonrpc":"2.0","id":-0,"method":"tools/call","params":{"name":"x","arguments":[]}}"#,
    r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"ping","params":{"n":1e999}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":1e400}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"ping","":{"":""}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"traceparent":7},"arguments":{}}}"#,
    "\u{feff}{}",
];

/// Pieces that bodies are glued together from: near enough to a message to get far in.
fn piece() -> impl Strategy<Value = String> {
    let known = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u0000",
        "\\ud800",
        "null",
        "true",
        "1",
        "-0",
        "1e400",
        "0.10",
        "\"jsonrpc\":\"2.0\"",
        "\"id\":1",
        "\"id\":\"a\"",
        "\"method\":\"tools/call\"",
        "\"method\":\"ping\"",
        "\"params\":{",
        "\"name\":\"create_payment\"",
        "\"arguments\":{",
        "\"amount\":\"1.00\"",
        "\"amount\":0.1",
        "\"order_id\":\"order-1\"",
        "\"a\":1",
        "\"_meta\":{}",
        " ",
        "\n",
        "\u{202e}",
        "é",
    ];
    prop_oneof![
        8 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => ".{0,8}",
    ]
}

/// A message whose arguments are any JSON at all.
fn message() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("JSON has none", |n| n.is_finite()).prop_map(|n| n.to_string()),
        "[0-9]{1,20}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        ".{0,20}".prop_map(|text| serde_json::json!(text).to_string()),
    ];
    let name = prop_oneof!["amount|order_id|payment_id|signers|notify|wait_ms|memo|signature|cursor", ".{0,6}"];
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        let members = prop::collection::vec((name.clone(), inner.clone()), 0..5).prop_map(|members| {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{}:{value}", serde_json::json!(name))).collect();
            format!("{{{}}}", members.join(","))
        });
        prop_oneof![members, prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(",")))]
    });
    value.prop_map(|arguments| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{arguments}}}}}"#)
    })
}

#[test]
fn known_bodies_are_read_without_a_panic_and_in_one_way() {
    for seed in SEEDS {
        check(seed.as_bytes());
        // Cut off, and with one byte turned, everywhere.
        for at in 0..seed.len() {
            check(&seed.as_bytes()[..at]);
            let mut turned = seed.as_bytes().to_vec();
            for bit in [1, 0x20, 0x80] {
                turned[at] ^= bit;
                check(&turned);
                turned[at] ^= bit;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&body);
    }

    #[test]
    fn anything_near_a_message_is_read_without_a_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        check(pieces.concat().as_bytes());
    }

    #[test]
    fn any_arguments_are_read_without_a_panic(body in message()) {
        check(body.as_bytes());
    }
}
