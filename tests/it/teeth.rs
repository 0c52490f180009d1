//! The table of guards fits the code: each edit has its one place, each test exists, the page has a row for each.
//!
//! That the tests then fail is for `just teeth` to show; it takes hours.

use std::collections::BTreeSet;

use crate::tidy::{read, rows};

const TABLE: &str = "tests/teeth/guards.toml";

/// One edit of a guard.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    file: String,
    find: String,
    replace: String,
}

/// A guard as the table has it; what `run` reads is this and nothing else.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Guard {
    name: String,
    without: String,
    test: String,
    file: Option<String>,
    find: Option<String>,
    replace: Option<String>,
    #[serde(default)]
    edit: Vec<Edit>,
}

#[derive(serde::Deserialize)]
struct Table {
    guard: Vec<Guard>,
}

fn guards() -> Vec<Guard> {
    let Table { mut guard } = toml::from_str(&read(TABLE)).unwrap();
    for guard in &mut guard {
        if let (Some(file), Some(find), Some(replace)) = (guard.file.take(), guard.find.take(), guard.replace.take()) {
            guard.edit.push(Edit { file, find, replace });
        }
        assert!(!guard.edit.is_empty(), "{} has no edit", guard.name);
    }
    guard
}

/// Whether there is a test of this path below `root`: in a file of its own, in a folder's `mod.rs`, or inline.
fn exists(root: &str, path: &str) -> bool {
    let mut parts: Vec<&str> = path.split("::").collect();
    let name = parts.pop().unwrap();
    let holds = |file: &str| {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file).is_file() && {
            let text = read(file);
            let found = text.split(&format!("fn {name}()")).next().filter(|before| before.len() < text.len());
            found.is_some_and(|before| before.lines().rev().take(4).any(|line| line.contains("test")))
        }
    };
    let inline = parts.len().saturating_sub(1);
    [parts.as_slice(), &parts[..inline]].into_iter().filter(|parts| !parts.is_empty()).any(|parts| {
        let file = format!("{root}/{}", parts.join("/"));
        holds(&format!("{file}.rs")) || holds(&format!("{file}/mod.rs"))
    })
}

#[test]
fn each_guard_of_the_table_stands_where_it_says_and_has_its_test() {
    let guards = guards();
    let names: BTreeSet<&str> = guards.iter().map(|guard| guard.name.as_str()).collect();
    assert_eq!(names.len(), guards.len(), "a guard is named once");
    for Guard { name, without, test, edit, .. } in &guards {
        assert!(without.len() > 20, "{name}");
        for Edit { file, find, replace } in edit {
            assert_eq!(read(file).matches(find.as_str()).count(), 1, "{name}: in {file} stands once: {find}");
            assert_ne!(find, replace, "{name}");
        }
        let (kind, path) = test.split_once(' ').unwrap();
        let there = match kind {
            "it" => exists("tests/it", path),
            "lib" => exists("src", path),
            "compiler" => path.starts_with('E') && path.len() == 5,
            _ => false,
        };
        assert!(there, "{name}: there is no test {test}");
    }
}

#[test]
fn the_page_of_guards_has_a_row_for_each() {
    let page = read("docs/teeth.md");
    let told: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).skip(2).collect();
    let guards = guards();
    let known: Vec<&str> = guards.iter().map(|guard| guard.name.as_str()).collect();
    assert_eq!(told, known, "docs/teeth.md is written by `just teeth`");
    assert!(!page.contains("**no**"), "a guard without teeth is no guard");
    assert!(rows(&page).is_empty() || page.contains("| --- |"));
}

#[test]
fn a_test_that_is_not_there_is_noticed() {
    assert!(exists("tests/it", "teeth::a_test_that_is_not_there_is_noticed"));
    assert!(exists("tests/it", "store::payments::an_order_has_one_open_or_executed_payment"));
    assert!(exists("src", "domain::backoff::tests::a_schedule_never_waits_less_than_listed_and_ends"));
    assert!(!exists("tests/it", "teeth::guards"), "a function that is no test");
    assert!(!exists("tests/it", "teeth::a_test_that_is_not_there"));
    assert!(!exists("tests/it", "nowhere::at_all"));
}
