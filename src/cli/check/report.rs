//! What was checked and how it went, a line each, for people and for programs.

use crate::cli::output::say;
use serde_json::{Value, json};

/// Why a check did not hold.
#[derive(Debug, Clone)]
pub(super) enum Why {
    /// It was seen not to.
    Failed(String),
    /// It could not be looked at.
    Skipped(String),
}

/// A check that was seen not to hold.
pub(super) fn failed(why: impl std::fmt::Display) -> Why {
    Why::Failed(why.to_string())
}

/// How a check went.
pub(super) type Verdict = Result<(), Why>;

/// One check.
#[derive(Debug)]
struct Line {
    check: &'static str,
    section: &'static str,
    mandatory: bool,
    verdict: Verdict,
}

/// All checks so far.
#[derive(Debug)]
pub(super) struct Report {
    aloud: bool,
    lines: Vec<Line>,
}

impl Report {
    /// An empty report; `aloud` prints each line as it comes.
    pub(super) const fn new(aloud: bool) -> Self {
        Self { aloud, lines: Vec::new() }
    }

    /// Notes a check that a service must pass; whether it held.
    pub(super) fn must(&mut self, section: &'static str, check: &'static str, verdict: Verdict) -> bool {
        self.put(Line { check, section, mandatory: true, verdict })
    }

    /// Notes a check that the gateway does not depend on.
    pub(super) fn should(&mut self, section: &'static str, check: &'static str, verdict: Verdict) -> bool {
        self.put(Line { check, section, mandatory: false, verdict })
    }

    fn put(&mut self, line: Line) -> bool {
        let Line { check, section, mandatory, .. } = line;
        if self.aloud {
            match &line.verdict {
                Ok(()) => say(format_args!("ok       {check}")),
                Err(Why::Skipped(why)) => say(format_args!("skipped  {check}: {why}  [{section}]")),
                Err(Why::Failed(why)) if mandatory => say(format_args!("failed   {check}: {why}  [{section}]")),
                Err(Why::Failed(why)) => say(format_args!("advised  {check}: {why}  [{section}]")),
            }
        }
        let held = line.verdict.is_ok();
        self.lines.push(line);
        held
    }

    /// Whether every mandatory check was seen to hold.
    pub(super) fn held(&self) -> bool {
        self.lines.iter().all(|line| !line.mandatory || line.verdict.is_ok())
    }

    /// How many checks held, and how many there were.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.lines.iter().filter(|line| line.verdict.is_ok()).count(), self.lines.len())
    }

    /// The report for a program.
    pub(super) fn json(&self) -> Value {
        let line = |line: &Line| {
            let (result, why) = match &line.verdict {
                Ok(()) => ("ok", None),
                Err(Why::Failed(why)) => ("failed", Some(why)),
                Err(Why::Skipped(why)) => ("skipped", Some(why)),
            };
            json!({"check": line.check, "section": line.section, "mandatory": line.mandatory, "result": result, "why": why})
        };
        json!(self.lines.iter().map(line).collect::<Vec<_>>())
    }
}
