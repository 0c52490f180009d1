//! Every commit of the gateway: where a test can die, or why none needs to.

use std::collections::BTreeMap;

use crate::tidy::{is_test, read, rust, shipped};

/// Commits without a crash point: file, function, how many, and why none is needed.
const WITHOUT: [(&str, &str, usize, &str); 25] = [
    ("src/cli/webhooks.rs", "run", 1, "a command by hand: events are due again, which can be repeated"),
    ("src/cli/webhooks.rs", "forget", 1, "a command by hand: events are taken away, which can be repeated"),
    ("src/journal/check.rs", "registered_now", 1, "takes a lease and nothing else; the lease ends by itself"),
    ("src/journal/check.rs", "check_on_schedule", 1, "says when to ask next; lost, it is asked again"),
    ("src/journal/check.rs", "refused_decision", 1, "audits what was refused, once; lost, it is audited next time"),
    ("src/journal/check.rs", "missed_after_all", 1, "says that nobody was reached; lost, the next look finds it again"),
    ("src/journal/checkpoints.rs", "copy", 1, "a copy for evidence; without it a bundle is longer and says the same"),
    ("src/journal/context.rs", "try_add_context", 1, "counts calls; what was not added is forgotten, by contract"),
    ("src/journal/decide.rs", "decide_as", 1, "audits a refusal after the fact; no payment changes"),
    ("src/journal/mod.rs", "raise", 1, "raises attention; whoever meets the row next raises it again"),
    ("src/journal/person.rs", "audit_forbidden", 1, "audits a call that was refused; no payment changes"),
    (
        "src/journal/registry.rs",
        "certify",
        1,
        "a command by hand, one row and its audit; the same again changes nothing",
    ),
    ("src/journal/registry.rs", "invite", 1, "a command by hand; an invitation whose link nobody was told expires"),
    ("src/journal/registry.rs", "pin", 1, "a command by hand, one row and its audit; the same again changes nothing"),
    (
        "src/journal/registry.rs",
        "pin_passkey",
        1,
        "a command by hand; the same again finds the key and tells the service",
    ),
    ("src/journal/registry.rs", "revoke", 1, "a command by hand, one row and its audit; it can be repeated"),
    ("src/journal/registry.rs", "withdraw", 1, "a command by hand, one row and its audit; it can be repeated"),
    ("src/journal/forgotten.rs", "try_forget", 1, "asks for a registration anew; lost, the next look finds it again"),
    (
        "src/journal/restore.rs",
        "mark_restored",
        1,
        "a mark alone: without it the caller has no answer and does it again",
    ),
    ("src/journal/restore.rs", "appear", 1, "a worker's word, or a mark; nothing is claimed before it is stored"),
    ("src/journal/restore.rs", "may_work", 2, "a mark, or nothing; nothing is claimed with it"),
    ("src/journal/restore.rs", "compare", 1, "moves a time to an earlier one; the next pass does it again"),
    ("src/journal/restore.rs", "lift", 1, "ends the mode; lost, the next pass finds nothing left and ends it"),
    ("src/journal/work.rs", "worked", 1, "parks before the work; lost, the next claim does it"),
    ("src/journal/work.rs", "stumbled", 1, "puts failed work off; lost, it is due when its lease ends"),
];

/// The one that every other calls.
const ITSELF: (&str, &str) = ("src/store/engine.rs", "commit");

/// The name of the function that a line is in.
fn function(before: &[&str]) -> String {
    let named = before.iter().rev().find_map(|line| line.split_once("fn ")?.1.split(['(', '<']).next());
    named.unwrap_or_default().to_owned()
}

/// The point that one of these lines passes, by its name up to `ending`.
fn passes<'a>(lines: &[&'a str], ending: &str) -> Option<&'a str> {
    let point = |line: &&'a str| line.split_once("Point::").filter(|_| line.contains("crash::")).map(|(_, rest)| rest);
    lines.iter().filter_map(point).find_map(|rest| rest.strip_suffix(");")?.strip_suffix(ending))
}

#[test]
fn each_commit_has_a_crash_point_on_both_its_sides_or_a_reason_to_have_none() {
    let mut without: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut with = 0;
    let theirs = |path: &String| path.starts_with("src/signer/") || path.starts_with("src/sandbox/");
    for path in rust(&["src/"]).into_iter().filter(|path| !is_test(path) && !theirs(path)) {
        let text = read(&path);
        let lines: Vec<&str> = shipped(&text).collect();
        for (number, _) in lines.iter().enumerate().filter(|(_, line)| line.contains(".commit()")) {
            let before = passes(&lines[number.saturating_sub(2)..number], "BeforeCommit");
            let after = passes(&lines[number + 1..lines.len().min(number + 5)], "AfterCommit");
            let function = function(&lines[..number]);
            if before.is_some() && before == after {
                with += 1;
            } else if (path.as_str(), function.as_str()) != ITSELF {
                *without.entry((path.clone(), function)).or_default() += 1;
            }
        }
    }
    let told = WITHOUT.map(|(path, function, count, _)| ((path.to_owned(), function.to_owned()), count));
    assert_eq!(without, BTreeMap::from(told), "a commit needs points on both its sides, or a reason here");
    assert!(with >= 20, "{with}: the commits of the journal");
    assert!(WITHOUT.iter().all(|(.., why)| why.len() > 20));
}
