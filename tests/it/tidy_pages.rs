//! What the pages say, held against what there is: tools, commands, log lines, metrics, paths, codes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use countersign::app::parse_policy;
use countersign::domain::{Attention, Code, Role};
use countersign::tools::TOOLS;

use crate::harness::app::POLICY;
use crate::tidy::{files, is_test, read, rows, rust, shipped};

/// All code that ships.
fn source() -> String {
    rust(&["src/"]).iter().filter(|path| !is_test(path)).fold(String::new(), |mut all, path| {
        for line in shipped(&read(path)) {
            all.push_str(line);
            all.push('\n');
        }
        all
    })
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn each_code_is_given_somewhere_or_said_to_be_reserved() {
    let outside: String = rust(&["src/"])
        .iter()
        .filter(|path| !is_test(path) && *path != "src/domain/refusal.rs")
        .map(|path| shipped(&read(path)).collect::<Vec<_>>().join("\n"))
        .collect();
    let words: BTreeSet<&str> = outside.split(|c: char| !c.is_alphanumeric() && c != ':').collect();
    for (_, cells) in rows(&read("docs/errors.md")) {
        let code = Code::ALL.into_iter().find(|code| code.as_str() == cells[0]).unwrap();
        let given = words.contains(format!("Code::{code:?}").as_str());
        assert_eq!(given, !cells[5].starts_with("Reserved: "), "{code} in src, and in docs/errors.md");
    }
}

#[test]
fn the_table_of_tools_is_the_policy_file() {
    let policy = parse_policy(POLICY).unwrap();
    let page = read("README.md");
    let (_, table) = page.split_once("| tool | agent | signer | operator | auditor |").unwrap();
    let mut said = Vec::new();
    for line in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        said.push((cells[1].trim_matches('`').to_owned(), cells[2..6].iter().map(|cell| *cell == "●").collect()));
    }
    let roles = [Role::Agent, Role::Signer, Role::Operator, Role::Auditor];
    let granted = |tool: &str| roles.map(|role| policy.grants(&[role].into(), tool)).to_vec();
    let mut expected: Vec<(String, Vec<bool>)> =
        TOOLS.iter().map(|tool| (tool.name.to_owned(), granted(tool.name))).collect();
    said.sort();
    expected.sort();
    assert_eq!(said, expected, "README.md against config/policy.toml");
}

#[test]
fn log_lines_and_metrics_on_the_page_are_those_of_the_code() {
    let page = read("docs/telemetry.md");
    // Long texts are broken with a backslash at the line's end.
    let source = source().split("\\\n").map(str::trim_start).collect::<Vec<_>>().join("");
    let lines = page.split_once("| message | level | fields |").unwrap().1;
    for line in lines.lines().filter(|line| line.starts_with("| `")) {
        for message in quoted(line.trim_matches('|').split(" | ").next().unwrap()) {
            assert!(source.contains(&format!("\"{message}\"")), "no code says {message:?}");
        }
    }
    let (_, metrics) = page.split_once("## Metrics").unwrap();
    let (metrics, _) = metrics.split_once("## Log lines").unwrap();
    let said: BTreeSet<&str> =
        metrics.lines().filter(|line| line.starts_with("| `")).map(|line| quoted(line).next().unwrap()).collect();
    let telemetry = read("src/telemetry/metrics.rs");
    let code = telemetry.split("#[cfg(test)]").next().unwrap();
    let kinds = ["_counter(\"", "_histogram(\"", "_gauge(\""];
    let made = |kind: &&str| code.split(*kind).skip(1).map(|rest| rest.split('"').next().unwrap()).collect::<Vec<_>>();
    let made: BTreeSet<&str> = kinds.iter().flat_map(made).collect();
    assert!(made.len() > 5, "{made:?}");
    assert_eq!(said, made, "docs/telemetry.md against src/telemetry/metrics.rs");
}

/// The last text in quotes of a call, whose arguments begin here.
fn quoted_last(call: &str) -> String {
    let (mut depth, mut last, mut rest) = (1, "", call);
    while depth > 0 {
        let at = rest.find(['(', ')', '"']).unwrap();
        match rest.as_bytes()[at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {
                (last, rest) = rest[at + 1..].split_once('"').unwrap();
                continue;
            }
        }
        rest = &rest[at + 1..];
    }
    last.split("\\\n").map(str::trim_start).collect()
}

/// What an operator may have to act on is on the page; the reference service, the sandbox and commands aside.
#[test]
fn every_warning_and_error_of_the_gateway_is_on_the_page() {
    let page = read("docs/telemetry.md");
    let aside = ["src/signer/", "src/sandbox/", "src/cli/"];
    let mut seen = 0;
    for path in rust(&["src/"]).iter().filter(|path| !is_test(path) && !aside.iter().any(|room| path.starts_with(room)))
    {
        let text = shipped(&read(path)).collect::<Vec<_>>().join("\n");
        for call in ["tracing::warn!(", "tracing::error!("].iter().flat_map(|level| text.split(level).skip(1)) {
            let message = quoted_last(call);
            assert!(page.contains(&format!("`{message}`")), "{path}: docs/telemetry.md does not say {message:?}");
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen} lines");
    for reason in Attention::ALL {
        assert!(page.contains(&format!("`{}`", reason.as_str())), "docs/telemetry.md does not say {reason:?}");
    }
}

#[test]
fn paths_that_the_pages_name_exist() {
    let tracked = files();
    let known = |path: &str| {
        let path = path.trim_end_matches('/');
        let is = |tracked: &String, whole: &str| *tracked == whole || tracked.starts_with(&format!("{whole}/"));
        ["", "src/", "src/http/"].iter().any(|room| tracked.iter().any(|file| is(file, &format!("{room}{path}"))))
    };
    let tops = ["src", "tests", "config", "docs", "deploy", "migrations", "fuzz", ".ci"];
    let rooms: BTreeSet<String> = tracked
        .iter()
        .filter_map(|path| path.strip_prefix("src/")?.split_once('/'))
        .map(|(room, _)| room.to_owned())
        .collect();
    let mut seen = 0;
    for page in tracked.iter().filter(|path| Path::new(path).extension().is_some_and(|ending| ending == "md")) {
        for text in read(page)
            .lines()
            .filter(|line| !line.starts_with("```"))
            .flat_map(|line| quoted(line).map(str::to_owned).collect::<Vec<_>>())
        {
            let first = text.split('/').next().unwrap();
            let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let is_path = plain
                && !["tools/list", "tools/call"].contains(&text.as_str())
                && text.contains('/')
                && (tops.contains(&first) || rooms.contains(first));
            if is_path {
                seen += 1;
                assert!(known(&text), "{page} names {text}");
            }
        }
    }
    assert!(seen > 40, "{seen} paths");
}

/// The help of `countersign PATH`.
fn help(path: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_countersign")).args(path).arg("--help").output().unwrap();
    assert!(output.status.success(), "{path:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_help_of_every_command_has_examples_and_exit_codes() {
    let mut paths: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(path) = paths.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let said = help(&words);
        assert!(said.contains("Exit codes: 0 ") && said.contains(", 1 ") && said.contains(", 2 "), "{path:?}: {said}");
        let empty = ["[default: ]", "[default: \"\"]"].iter().any(|text| said.contains(text));
        assert!(!empty, "{path:?}: nothing is no default to show: {said}");
        assert_eq!(said.to_lowercase().matches("exit ").count(), 1, "{path:?} speaks of exit codes once: {said}");
        let below = said.split_once("Commands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
        let names: Vec<&str> = below.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty() && *name != "help").collect();
        // One that only holds others together shows its examples in them.
        let holds_others = !names.is_empty() && !words.is_empty() && words != ["check"];
        assert!(holds_others || said.contains("Example") || said.contains("Start here"), "{path:?}: {said}");
        for name in names {
            paths.push(path.iter().cloned().chain([name.to_owned()]).collect());
        }
        seen += 1;
    }
    assert!(seen > 20, "{seen} commands");
}

/// Pictures are looked at where the page is read, so each is there, is named, and loads at once.
#[test]
fn pictures_that_the_pages_show_exist_and_are_small() {
    let tracked = files();
    let png = |path: &&String| Path::new(path).extension().is_some_and(|ending| ending == "png");
    let pictures: Vec<&String> = tracked.iter().filter(png).collect();
    let pages = tracked.iter().filter(|path| Path::new(path).extension().is_some_and(|ending| ending == "md"));
    let pages: Vec<(String, String)> = pages.map(|path| (path.clone(), read(path))).collect();
    for (page, text) in &pages {
        for shown in text.split("![").skip(1).filter_map(|rest| rest.split_once("](")?.1.split(')').next()) {
            assert!(pictures.iter().any(|path| *path == shown), "{page} shows {shown}");
        }
    }
    assert!(pictures.len() >= 2, "{pictures:?}");
    for path in pictures {
        let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() < 200 * 1024, "{path}: {} bytes", bytes.len());
        assert!(pages.iter().any(|(_, text)| text.contains(path.as_str())), "no page shows {path}");
    }
}
