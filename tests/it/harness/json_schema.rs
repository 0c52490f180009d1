//! As much of JSON Schema as the published files use, and nothing that is passed over in silence.

use serde_json::Value;

/// The keywords that are known here; any other fails the test that meets it.
const KNOWN: [&str; 19] = [
    "$ref",
    "type",
    "const",
    "enum",
    "allOf",
    "oneOf",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "pattern",
    "description",
    "example",
];

/// What `value` has against `schema`; references are looked up in `root`.
pub(crate) fn faults(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(root, schema, value, "", &mut found);
    found
}

/// What a local reference leads to; anything else stands for itself.
pub(crate) fn resolve<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    match node["$ref"].as_str() {
        Some(reference) => {
            let path = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads elsewhere"));
            let target = root.pointer(path).unwrap_or_else(|| panic!("{reference} leads nowhere"));
            resolve(root, target)
        }
        None => node,
    }
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let schema = resolve(root, schema);
    for keyword in schema.as_object().unwrap().keys() {
        assert!(KNOWN.contains(&keyword.as_str()), "{keyword} is not known here");
    }
    let mut wrong = |why: String| found.push(format!("{at}: {why}"));
    if let Some(kind) = schema.get("type") {
        let kinds: Vec<&str> = match kind {
            Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
            one => vec![one.as_str().unwrap()],
        };
        if !kinds.iter().any(|kind| is(value, kind)) {
            wrong(format!("is not of type {kind}"));
            return;
        }
    }
    if schema.get("const").is_some_and(|expected| expected != value) {
        wrong(format!("is not {}", schema["const"]));
    }
    if schema.get("enum").is_some_and(|all| !all.as_array().unwrap().contains(value)) {
        wrong(format!("{value} is none of {}", schema["enum"]));
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        let within = schema["minLength"].as_u64().is_none_or(|least| length >= least)
            && schema["maxLength"].as_u64().is_none_or(|most| length <= most);
        if !within {
            wrong(format!("has {length} characters"));
        }
        if schema["pattern"].as_str().is_some_and(|pattern| !matches(pattern, text)) {
            wrong(format!("{text:?} does not match {}", schema["pattern"]));
        }
    }
    if let Some(number) = value.as_i64() {
        let within = schema["minimum"].as_i64().is_none_or(|least| number >= least)
            && schema["maximum"].as_i64().is_none_or(|most| number <= most);
        if !within {
            wrong(format!("{number} is out of range"));
        }
    }
    if let Some(items) = value.as_array() {
        let count = items.len() as u64;
        let within = schema["minItems"].as_u64().is_none_or(|least| count >= least)
            && schema["maxItems"].as_u64().is_none_or(|most| count <= most);
        if !within {
            wrong(format!("has {count} items"));
        }
        if let Some(each) = schema.get("items") {
            for (n, item) in items.iter().enumerate() {
                check(root, each, item, &format!("{at}/{n}"), found);
            }
        }
    }
    if let Some(members) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !members.contains_key(name.as_str().unwrap()) {
                found.push(format!("{at}: {name} is missing"));
            }
        }
        for (name, member) in members {
            match schema["properties"].get(name) {
                Some(property) => check(root, property, member, &format!("{at}/{name}"), found),
                None if schema["additionalProperties"] == false => found.push(format!("{at}: {name} is unknown")),
                None => {}
            }
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(root, part, value, at, found);
    }
    if let Some(parts) = schema["oneOf"].as_array() {
        let fitting = parts.iter().filter(|part| faults(root, part, value).is_empty()).count();
        if fitting != 1 {
            found.push(format!("{at}: fits {fitting} of {} forms, not one", parts.len()));
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    }
}

/// One element of a pattern and how often it may stand there.
struct Piece {
    any: bool,
    set: Vec<(char, char)>,
    least: usize,
    most: usize,
}

impl Piece {
    fn takes(&self, c: char) -> bool {
        self.any || self.set.iter().any(|(from, to)| (*from..=*to).contains(&c))
    }
}

/// Whether `text` matches a pattern of literals, classes and counts, anchored at both ends.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let inner = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
    let pieces = pieces(inner.unwrap_or_else(|| panic!("{pattern} is not anchored")));
    let text: Vec<char> = text.chars().collect();
    fits(&pieces, &text)
}

fn fits(pieces: &[Piece], text: &[char]) -> bool {
    let Some((piece, rest)) = pieces.split_first() else {
        return text.is_empty();
    };
    let run = text.iter().take(piece.most).take_while(|c| piece.takes(**c)).count();
    (piece.least..=run).rev().any(|taken| fits(rest, &text[taken..]))
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let mut rest = pattern.chars().peekable();
    let mut pieces = Vec::new();
    while let Some(c) = rest.next() {
        let mut piece = Piece { any: false, set: Vec::new(), least: 1, most: 1 };
        match c {
            '.' => piece.any = true,
            '\\' => {
                let literal = rest.next().unwrap();
                piece.set.push((literal, literal));
            }
            '[' => {
                while let Some(from) = rest.next().filter(|c| *c != ']') {
                    let mut ahead = rest.clone();
                    if ahead.next() == Some('-') && ahead.peek().is_some_and(|to| *to != ']') {
                        rest.next();
                        piece.set.push((from, rest.next().unwrap()));
                    } else {
                        piece.set.push((from, from));
                    }
                }
            }
            '(' | ')' | '|' => panic!("{pattern}: {c} is not known here"),
            literal => piece.set.push((literal, literal)),
        }
        (piece.least, piece.most) = match rest.peek() {
            Some('?') => (0, 1),
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('{') => {
                let counts: String = rest.by_ref().skip(1).take_while(|c| *c != '}').collect();
                let (least, most) = counts.split_once(',').unwrap_or((&counts, &counts));
                pieces.push(Piece { least: least.parse().unwrap(), most: most.parse().unwrap(), ..piece });
                continue;
            }
            _ => {
                pieces.push(piece);
                continue;
            }
        };
        rest.next();
        pieces.push(piece);
    }
    pieces
}

#[test]
fn the_validator_sees_what_is_wrong() {
    use serde_json::json;
    for (pattern, fitting, not) in [
        ("^[A-Za-z0-9_-]{1,4}$", vec!["a", "A-_9"], vec!["", "abcde", "a.b"]),
        ("^https?://.+$", vec!["http://x", "https://x"], vec!["httpss://x", "http://", "xhttp://x"]),
        (r"^[0-9]{2}\.[0-9]{3}Z$", vec!["12.345Z"], vec!["12x345Z", "12.345"]),
        ("^[!-~]{1,255}$", vec!["a-~!"], vec!["a b", "é"]),
    ] {
        for text in fitting {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for text in not {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
    let root = json!({"defs": {"word": {"type": "string", "minLength": 2}}});
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
        "a": {"$ref": "#/defs/word"}, "n": {"type": "integer", "minimum": 1},
        "l": {"type": "array", "minItems": 1, "items": {"enum": ["x"]}}},
        "oneOf": [{"properties": {"a": {"const": "xy"}}}, {"required": ["n"]}]});
    assert_eq!(faults(&root, &schema, &json!({"a": "xy", "l": ["x"]})), Vec::<String>::new());
    assert_eq!(faults(&root, &schema, &json!({"a": "yx", "n": 1})), Vec::<String>::new());
    for bad in [
        json!([]),
        json!({}),
        json!({"a": "x", "n": 1}),
        json!({"a": 1, "n": 1}),
        json!({"a": "xy", "b": 1}),
        json!({"a": "yx", "n": 0}),
        json!({"a": "yx", "n": 1.5}),
        json!({"a": "xy", "l": []}),
        json!({"a": "xy", "l": ["y"]}),
        json!({"a": "xy", "n": 1}),
        json!({"a": "yx"}),
    ] {
        assert_eq!(faults(&root, &schema, &bad).len(), 1, "{bad}");
    }
}
