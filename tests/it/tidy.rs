//! The house rules that a reader relies on, held by the tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use countersign::config::DEFAULTS;
use countersign::domain::Code;

/// Longest file of `src`, its own tests included, and of `tests`.
const LINES: [usize; 2] = [400, 600];

/// What anyone but `domain` and `proof` may import.
const LEAVES: [&str; 5] = ["ambient", "config", "crash", "lifecycle", "telemetry"];

/// The dependency rule of `src/lib.rs`: what each part may import beside itself and the leaves.
const MAY_IMPORT: [(&str, &[&str]); 17] = [
    ("domain", &[]),
    ("proof", &["domain"]),
    ("ambient", &["domain"]),
    ("config", &["domain"]),
    ("crash", &[]),
    ("lifecycle", &["domain"]),
    ("telemetry", &["domain"]),
    ("store", &["domain", "proof"]),
    ("journal", &["domain", "proof", "store"]),
    ("adapters", &["domain", "proof", "journal::ports"]),
    ("tools", &["domain", "proof", "journal"]),
    ("worker", &["domain", "proof", "journal"]),
    ("http", &["domain", "proof", "journal", "tools"]),
    ("signer", &["domain", "proof"]),
    ("sandbox", &["domain", "proof"]),
    ("app", EVERYTHING),
    ("cli", EVERYTHING),
];

const EVERYTHING: &[&str] =
    &["domain", "proof", "store", "journal", "adapters", "tools", "worker", "http", "signer", "sandbox", "app", "cli"];

/// Where SQL is spoken.
const SPEAKS_SQL: [&str; 3] = ["src/store/", "src/signer/store/", "src/sandbox/"];

/// The tracked files, by path from the root; every file where there is no git.
pub(crate) fn files() -> Vec<String> {
    let root = env!("CARGO_MANIFEST_DIR");
    let mut files = match Command::new("git").arg("ls-files").current_dir(root).output() {
        Ok(said) if said.status.success() => {
            String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect()
        }
        _ => {
            let mut found = Vec::new();
            walk(Path::new(root), "", &mut found);
            found
        }
    };
    files.retain(|path| Path::new(root).join(path).is_file());
    assert!(files.iter().any(|path| path == "src/lib.rs"), "{files:?}");
    files
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_file() {
            found.push(format!("{prefix}{name}"));
        } else if !name.starts_with('.') && !["target", "__pycache__"].contains(&name.as_str()) {
            walk(&entry.path(), &format!("{prefix}{name}/"), found);
        }
    }
}

pub(crate) fn read(path: &str) -> String {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn rust(below: &[&str]) -> Vec<String> {
    let ours = |path: &String| ends_in(path, "rs") && below.iter().any(|folder| path.starts_with(folder));
    files().into_iter().filter(ours).collect()
}

fn ends_in(path: &str, ending: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == ending)
}

/// The files of Python, whose first lines and lengths are judged as Rust's are.
fn python() -> Vec<String> {
    files().into_iter().filter(|path| ends_in(path, "py")).collect()
}

/// Whether a file of `src` is compiled for tests only.
pub(crate) fn is_test(path: &str) -> bool {
    path.ends_with("_tests.rs")
        || path.ends_with("/tests.rs")
        || path.ends_with("/script.rs")
        || path.contains("/tests/")
        || path.starts_with("tests/")
}

/// The lines of code that ship: no comments, no test module.
pub(crate) fn shipped(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    code.lines().filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn every_file_says_first_what_it_is() {
    for path in rust(&["src/", "tests/"]) {
        let text = read(&path);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//! ") && first.len() <= 120, "{path}: {first}");
    }
    for path in python() {
        let text = read(&path);
        let first = text.lines().find(|line| !line.starts_with("#!")).unwrap_or_default();
        let words = first.strip_prefix("\"\"\"").unwrap_or_default();
        assert!(words.len() > 20 && first.len() <= 120, "{path}: {first}");
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for path in rust(&["src/", "tests/"]) {
        let lines = read(&path).lines().count();
        let most = LINES[usize::from(path.starts_with("tests/"))];
        assert!(lines <= most, "{path} has {lines} lines; at most {most}");
    }
    for path in python() {
        let lines = read(&path).lines().count();
        assert!(lines <= LINES[0], "{path} has {lines} lines; at most {}", LINES[0]);
    }
}

#[test]
fn no_test_is_left_out() {
    for path in rust(&["src/", "tests/"]) {
        let left_out = read(&path).lines().any(|line| line.trim_start().starts_with("#[ignore"));
        assert!(!left_out, "{path}: what takes long runs small among the tests, and whole by a recipe of the justfile");
    }
}

#[test]
fn no_name_is_a_drawer_for_leftovers() {
    for path in files() {
        for part in path.split('/') {
            let drawer = ["util", "helper", "common", "misc"].iter().find(|drawer| part.starts_with(**drawer));
            assert_eq!(drawer, None, "{path}");
        }
    }
}

/// The parts that a line of code names: `crate::part` with `journal::ports` told apart.
fn parts_named(line: &str) -> Vec<String> {
    let mut named = Vec::new();
    for (at, root) in line.match_indices("crate::") {
        let rest = &line[at + root.len()..];
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        if let Some(list) = rest.strip_prefix('{') {
            let list = list.split('}').next().unwrap_or(list);
            named.extend(list.split(',').map(|part| word(part.trim())));
        } else if rest.starts_with("journal::ports") {
            named.push("journal::ports".to_owned());
        } else {
            named.push(word(rest));
        }
    }
    named
}

#[test]
fn imports_follow_the_dependency_rule() {
    let rule: BTreeMap<&str, &[&str]> = MAY_IMPORT.into();
    let mut seen = std::collections::BTreeSet::new();
    for path in rust(&["src/"]).into_iter().filter(|path| !is_test(path)) {
        let part = path["src/".len()..].split(['/', '.']).next().unwrap().to_owned();
        if matches!(part.as_str(), "lib" | "main") {
            continue;
        }
        let may = rule.get(part.as_str()).unwrap_or_else(|| panic!("{path}: the rule does not know {part}"));
        let leaves: &[&str] = if matches!(part.as_str(), "domain" | "proof") { &[] } else { &LEAVES };
        for named in shipped(&read(&path)).flat_map(parts_named) {
            let whole = named.split("::").next().unwrap();
            let allowed = whole == part
                || may.iter().any(|allowed| *allowed == named || *allowed == whole)
                || leaves.contains(&whole);
            assert!(allowed, "{path} imports {named}; {part} may not");
        }
        seen.insert(part);
    }
    for (part, _) in MAY_IMPORT {
        assert!(seen.contains(part), "src/{part} is gone; the rule still names it");
    }
}

#[test]
fn only_stores_speak_sql() {
    for path in rust(&["src/"]).into_iter().filter(|path| !is_test(path)) {
        let stores = SPEAKS_SQL.iter().any(|folder| path.starts_with(folder));
        let named = shipped(&read(&path)).any(|line| line.contains("sqlx::"));
        assert!(stores || !named, "{path} names sqlx");
        let composed = shipped(&read(&path)).any(|line| line.contains("AssertSqlSafe"));
        assert!(!composed, "{path}: a statement is a text, never put together");
    }
}

#[test]
fn nothing_but_the_journal_can_say_that_an_intent_is_recorded() {
    let code = read("src/journal/recorded.rs");
    let (before, proof) = code.split_once("pub struct Recorded {\n").unwrap();
    assert!(before.ends_with("#[derive(Debug)]\n"), "a copy, a default or something read would be a proof too");
    let (fields, _) = proof.split_once("\n}").unwrap();
    assert!(!fields.contains("pub"), "{fields}");
    let (_, methods) = code.split_once("impl Recorded {\n").unwrap();
    let (methods, _) = methods.split_once("\n}\n").unwrap();
    let makers: Vec<&str> = methods.lines().filter(|line| line.contains("-> Self")).map(str::trim).collect();
    assert!(matches!(makers.as_slice(), [one] if one.starts_with("pub(super) fn mint(")), "{makers:?}");
    for path in rust(&["src/"]) {
        assert!(!read(&path).contains("for Recorded {"), "{path}: no trait makes one");
    }
}

#[test]
fn the_rule_would_be_noticed_when_broken() {
    assert_eq!(parts_named("use crate::store::{Store, Tx};"), ["store"]);
    assert_eq!(parts_named("use crate::{http, worker};"), ["http", "worker"]);
    assert_eq!(parts_named("use crate::journal::ports::{A, B}; crate::domain::X"), ["journal::ports", "domain"]);
    assert_eq!(parts_named("let x = crate::journal::Journal;"), ["journal"]);
    let text = "//! crate::store\nuse a;\n#[cfg(test)]\nmod tests {\n    use crate::store;\n}\n";
    assert_eq!(shipped(text).collect::<Vec<_>>(), ["use a;"]);
    assert!(is_test("src/http/auth/tests.rs") && is_test("src/signer/tests/api.rs") && !is_test("src/store/mod.rs"));
}

/// The cells of a page's table rows whose first cell is code, under their last heading.
pub(crate) fn rows(page: &str) -> Vec<(String, Vec<String>)> {
    let mut heading = String::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("## ") {
            text.trim_matches(['`', '[', ']']).clone_into(&mut heading);
        } else if line.starts_with("| `") {
            let cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`').to_owned());
            rows.push((heading.clone(), cells.collect()));
        }
    }
    rows
}

#[test]
fn the_page_of_errors_is_the_catalogue() {
    let rows = rows(&read("docs/errors.md"));
    let codes: Vec<&str> = rows.iter().map(|(_, cells)| cells[0].as_str()).collect();
    assert_eq!(codes, Code::ALL.map(Code::as_str), "docs/errors.md has a row for each code, in order");
    for ((_, cells), code) in rows.iter().zip(Code::ALL) {
        let entry = code.entry();
        let retry = match (entry.retryable, entry.retry_after_ms) {
            (false, None) => "no".to_owned(),
            (true, Some(millis)) => format!("{millis} ms"),
            other => panic!("{code}: {other:?}"),
        };
        let said: Vec<&str> = cells[1..5].iter().map(String::as_str).collect();
        assert_eq!(said, [entry.category, &entry.status.to_string(), &retry, entry.next_action], "{code}");
        assert!(cells.len() == 7 && cells[5..].iter().all(|cell| cell.len() > 10), "{code}: {cells:?}");
    }
}

#[test]
fn the_page_of_settings_is_the_default_file() {
    let defaults: toml::Table = DEFAULTS.parse().unwrap();
    let mut expected = Vec::new();
    for (section, keys) in &defaults {
        for (key, value) in keys.as_table().unwrap() {
            expected.push(format!("{section}.{key} = {value}"));
        }
    }
    expected.sort();
    let mut said = Vec::new();
    for (section, cells) in rows(&read("docs/configuration.md")) {
        assert!(cells.len() == 3 && cells[2].len() > 5, "{section}: {cells:?}");
        said.push(format!("{section}.{} = {}", cells[0], cells[1]));
    }
    said.sort();
    assert_eq!(said, expected, "docs/configuration.md against config/countersign.toml");
}

#[test]
fn the_page_of_metrics_is_what_the_code_counts() {
    let code = read("src/telemetry/metrics.rs");
    let code = shipped(&code).collect::<Vec<_>>().join(" ");
    let instruments = ["_counter(", "_gauge(", "_histogram("];
    let mut counted: Vec<&str> = instruments
        .iter()
        .flat_map(|kind| code.split(kind).skip(1))
        .filter_map(|rest| rest.strip_prefix('"')?.split('"').next())
        .collect();
    counted.sort_unstable();
    let page = read("docs/telemetry.md");
    let rows = rows(&page);
    let mut told: Vec<&str> =
        rows.iter().filter(|(heading, _)| heading == "Metrics").map(|(_, cells)| cells[0].as_str()).collect();
    told.sort_unstable();
    assert!(told.len() > 5, "{told:?}");
    assert_eq!(told, counted, "docs/telemetry.md against src/telemetry/metrics.rs");
}

#[test]
fn nothing_tracked_names_the_machine_it_was_made_on() {
    const CRATES: &str = "registry+https://github.com/rust-lang/crates.io-index";
    for path in files().into_iter().filter(|path| path != "tests/it/tidy.rs") {
        let text = read(&path);
        for machine in ["/root/", "/home/", "/work/", "/Users/", "/mnt/", "replace-with", "index-url"] {
            assert!(!text.contains(machine), "{path} names {machine}");
        }
        let chooses_registry = [".cargo/", ".npmrc", "pip.conf"].iter().any(|name| path.contains(name));
        assert!(!chooses_registry, "{path} chooses a registry");
        if path == "Cargo.lock" {
            for source in text.lines().filter_map(|line| line.strip_prefix("source = ")) {
                assert_eq!(source.trim_matches('"'), CRATES);
            }
        }
    }
}
