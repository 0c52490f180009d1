//! The signer service's published contract, held against code and traffic.
//!
//! `docs/signer-api.openapi.json` and `docs/signer-contract.md` must say the same as the reference
//! service's source, and what really goes over the wire between the gateway's adapter and the
//! reference service must be as the file says.

mod traffic;

use std::collections::BTreeSet;
use std::path::Path;

use countersign::proof::{PaymentDocument, payment_digest};
use serde_json::{Value, json};

use crate::harness::app::SIGNER_API_KEY;
use crate::harness::json_schema::{faults, resolve};
use crate::harness::recorder::{Exchange, media};

/// Status and error code.
type Fault = (u16, String);

/// Answers that the reference service gives only when something of its own breaks, or never.
const OWN_TROUBLE: [u16; 3] = [429, 500, 503];

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The file.
struct Contract(Value);

/// One operation.
struct Operation<'a> {
    id: &'a str,
    shared: &'a Value,
    node: &'a Value,
}

impl Contract {
    fn load() -> Self {
        Self(serde_json::from_str(&read("docs/signer-api.openapi.json")).unwrap())
    }

    fn operations(&self) -> Vec<(&str, &str, Operation<'_>)> {
        let mut all = Vec::new();
        for (path, item) in self.0["paths"].as_object().unwrap() {
            for (method, node) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
                let id = node["operationId"].as_str().unwrap();
                all.push((path.as_str(), method.as_str(), Operation { id, shared: &item["parameters"], node }));
            }
        }
        all
    }

    /// The refusals that an operation may answer.
    fn refusals(&self, operation: &Operation<'_>) -> BTreeSet<Fault> {
        let mut all = BTreeSet::new();
        for (status, response) in operation.node["responses"].as_object().unwrap() {
            let schema = &resolve(&self.0, response)["content"]["application/json"]["schema"];
            for code in schema["allOf"][1]["properties"]["error_code"]["enum"].as_array().into_iter().flatten() {
                all.insert((status.parse().unwrap(), code.as_str().unwrap().to_owned()));
            }
        }
        all
    }

    /// Holds one exchange against the file; the operation and the refusal, if it was one.
    fn judge(&self, exchange: &Exchange) -> Result<(String, Option<Fault>), String> {
        let body = exchange.json();
        let code = body["error_code"].as_str().map(|code| (exchange.status, code.to_owned()));
        let fits = |path: &str| {
            let (wanted, given): (Vec<&str>, Vec<&str>) =
                (path.split('/').collect(), exchange.path.split('/').collect());
            wanted.len() == given.len()
                && wanted
                    .iter()
                    .zip(given)
                    .all(|(want, give)| *want == give || (want.starts_with('{') && !give.is_empty()))
        };
        let here: Vec<_> = self.operations().into_iter().filter(|(path, ..)| fits(path)).collect();
        let method = exchange.method.to_lowercase();
        let Some((_, _, operation)) = here.iter().find(|(_, known, _)| *known == method) else {
            let name = if here.is_empty() { "NotFound" } else { "MethodNotAllowed" };
            let schema = &self.0["components"]["responses"][name]["content"]["application/json"]["schema"];
            return none(faults(&self.0, schema, &body)).map(|()| (name.to_owned(), code));
        };
        let responses = &operation.node["responses"];
        let response = resolve(&self.0, &responses[exchange.status.to_string()]);
        if !response.is_object() {
            return Err(format!("{} is not an answer of {}", exchange.status, operation.id));
        }
        if let Some(content) = response["content"].as_object() {
            let kind = content.get(&exchange.media()).ok_or_else(|| format!("it comes as {:?}", exchange.media()))?;
            if exchange.media() == "application/json" {
                none(faults(&self.0, &kind["schema"], &body))?;
            }
        }
        if (200..300).contains(&exchange.status) {
            self.request(operation, exchange)?;
        }
        Ok((operation.id.to_owned(), code))
    }

    /// A request that was accepted is one that the file allows.
    fn request(&self, operation: &Operation<'_>, exchange: &Exchange) -> Result<(), String> {
        let both = [operation.shared, &operation.node["parameters"]];
        for parameter in both.iter().filter_map(|list| list.as_array()).flatten() {
            let parameter = resolve(&self.0, parameter);
            let name = parameter["name"].as_str().unwrap();
            let value = match parameter["in"].as_str().unwrap() {
                "header" => exchange.headers.get(name).and_then(|line| line.to_str().ok()).map(str::to_owned),
                "query" => url::form_urlencoded::parse(exchange.query.as_bytes())
                    .find(|(key, _)| key == name)
                    .map(|(_, value)| value.into_owned()),
                _ => exchange
                    .path
                    .split('/')
                    .nth(if exchange.path.starts_with("/sign") { 2 } else { 4 })
                    .map(str::to_owned),
            };
            match value {
                Some(value) => none(faults(&self.0, &parameter["schema"], &json!(value)))?,
                None if parameter["required"] == true => return Err(format!("{name} is not there")),
                None => {}
            }
        }
        if operation.node["security"].is_null() {
            let shown = exchange.headers.get("authorization").and_then(|line| line.to_str().ok()).unwrap_or_default();
            if shown != format!("Bearer {SIGNER_API_KEY}") {
                return Err("it was let in without the key".to_owned());
            }
        }
        match operation.node.get("requestBody") {
            None if exchange.body.is_empty() => Ok(()),
            None => Err("it has a body".to_owned()),
            Some(body) => {
                let kind = &body["content"][media(&exchange.headers)]["schema"];
                let value: Value = serde_json::from_slice(&exchange.body).map_err(|err| err.to_string())?;
                none(faults(
                    &self.0,
                    if kind.is_null() { return Err("a body of no known kind".to_owned()) } else { kind },
                    &value,
                ))
            }
        }
    }
}

fn none(faults: Vec<String>) -> Result<(), String> {
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

#[test]
fn the_file_is_whole_and_its_examples_are_what_it_describes() {
    let contract = Contract::load();
    assert!(contract.0["openapi"].as_str().unwrap().starts_with("3.1."));
    let mut ids = BTreeSet::new();
    let mut seen = 0;
    for (path, method, operation) in contract.operations() {
        assert!(ids.insert(operation.id), "{} twice", operation.id);
        let mut contents = vec![&operation.node["requestBody"]["content"]];
        contents.extend(
            operation.node["responses"].as_object().unwrap().values().map(|one| &resolve(&contract.0, one)["content"]),
        );
        for media in contents.into_iter().filter_map(Value::as_object).flat_map(|kinds| kinds.values()) {
            if let Some(example) = media.get("example") {
                assert_eq!(faults(&contract.0, &media["schema"], example), Vec::<String>::new(), "{method} {path}");
                seen += 1;
            }
        }
        // Every POST of the API is keyed, as the page says; the pages' own are not.
        let keyed = operation.node["parameters"].to_string().contains("IdempotencyKey");
        assert_eq!(keyed, method == "post" && path.starts_with("/api/"), "{method} {path}");
        for parameter in path.split('/').filter(|part| part.starts_with('{')) {
            let name = parameter.trim_matches(['{', '}']);
            let shared = operation.shared.as_array().unwrap();
            assert!(shared.iter().any(|one| resolve(&contract.0, one)["name"] == name), "{path}");
        }
    }
    assert!(seen > 10, "{seen} examples");
    // The example's digest is the digest of the example's document.
    let example =
        &contract.0["paths"]["/api/v1/payments"]["post"]["requestBody"]["content"]["application/json"]["example"];
    let payload = example["payload"].as_str().unwrap();
    assert!(PaymentDocument::parse(payload).is_some());
    assert_eq!(example["payment_digest"], payment_digest(payload).as_str());
}

/// The code of the reference service: its files that ship.
fn source() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/signer");
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_file() {
            text.push_str(&std::fs::read_to_string(entry).unwrap());
        }
    }
    text
}

/// The first text between quotes.
fn quoted(text: &str) -> &str {
    text.split('"').nth(1).unwrap()
}

#[test]
fn every_route_of_the_reference_service_is_in_the_file_and_no_other() {
    let api = read("src/signer/api.rs");
    let named = |constant: &str| {
        let (file, name) = constant.split_once("::").unwrap();
        let text = read(&format!("src/signer/{file}.rs"));
        let at = text.find(&format!("const {name}: &str = ")).unwrap_or_else(|| panic!("{constant}"));
        quoted(&text[at..]).to_owned()
    };
    let mut routes = BTreeSet::new();
    for call in api.split(".route(").skip(1) {
        let (path, methods) = call.split_once(", ").unwrap();
        let path = if path.starts_with('"') { quoted(path).to_owned() } else { named(path) };
        let line = methods.lines().next().unwrap();
        for method in ["get", "post", "put", "delete", "patch"] {
            if line.contains(&format!("{method}(")) {
                routes.insert((path.clone(), method.to_owned()));
            }
        }
    }
    assert!(routes.len() >= 11, "{routes:?}");
    let contract = Contract::load();
    let file: BTreeSet<(String, String)> =
        contract.operations().iter().map(|(path, method, _)| ((*path).to_owned(), (*method).to_owned())).collect();
    assert_eq!(file, routes);
    // And the page has a heading or a line for each path of the contract.
    let page = read("docs/signer-contract.md");
    for (path, _) in file.iter().filter(|(path, _)| !path.starts_with("/assets")) {
        assert!(page.contains(path.as_str()), "docs/signer-contract.md does not name {path}");
    }
}

/// The refusals that the code can make.
fn refusals_of_the_code() -> BTreeSet<Fault> {
    let source = source();
    let mut all = BTreeSet::from([(500, "internal".to_owned()), (503, "internal".to_owned())]);
    for (call, status) in
        [("Refused::new(", 0), ("Self::new(", 0), ("not_found(", 404), ("conflict(", 409), ("unacceptable(", 422)]
    {
        for rest in source.split(call).skip(1) {
            let (first, rest) = if status == 0 { rest.split_once(',').unwrap() } else { ("", rest) };
            let status = if status == 0 { first.trim().parse().unwrap_or(0) } else { status };
            let code = rest.trim_start();
            // Where the helpers themselves are defined, no code is named.
            if status != 0 && code.starts_with('"') {
                all.insert((status, quoted(code).to_owned()));
            }
        }
    }
    assert!(source.contains("Self::new(400, \"invalid_request\""), "the scan still reads the code");
    all
}

#[test]
fn every_error_code_of_the_service_is_in_the_file_and_on_the_page() {
    let code = refusals_of_the_code();
    let contract = Contract::load();
    let mut file: BTreeSet<Fault> =
        contract.operations().iter().flat_map(|(_, _, operation)| contract.refusals(operation)).collect();
    file.extend([(404, "not_found".to_owned()), (405, "method_not_allowed".to_owned())]);
    assert_eq!(file, code, "docs/signer-api.openapi.json against src/signer");
    let mut page = BTreeSet::new();
    for line in read("docs/signer-contract.md").lines().filter(|line| line.starts_with("| ")) {
        let mut cells = line.trim_matches('|').split('|');
        let (statuses, codes) = (cells.next().unwrap(), cells.next().unwrap());
        for status in statuses.split(',').filter_map(|status| status.trim().parse::<u16>().ok()) {
            page.extend(codes.split('`').skip(1).step_by(2).map(|code| (status, code.to_owned())));
        }
    }
    assert_eq!(page, code, "docs/signer-contract.md against src/signer");
}
