//! What a verifier found: a verdict for each step, and why.

use serde::Serialize;

/// A step, in the order they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The file is a bundle.
    Format,
    /// Every document is in its one form, and its digest is its own.
    Documents,
    /// Every decision is its signer's answer to this payment.
    Signatures,
    /// The keys were those people's when they signed, by the root's word.
    Registry,
    /// Enough of the right people, each once, by the policy that they signed.
    Quorum,
    /// What was sent and what the rail confirmed is what was signed.
    Execution,
    /// The audit's entries follow from each other, and tell the same.
    Audit,
    /// The audit is the one that was signed elsewhere.
    Checkpoint,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 8] = [
        Self::Format,
        Self::Documents,
        Self::Signatures,
        Self::Registry,
        Self::Quorum,
        Self::Execution,
        Self::Audit,
        Self::Checkpoint,
    ];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Documents => "documents",
            Self::Signatures => "signatures",
            Self::Registry => "registry",
            Self::Quorum => "quorum",
            Self::Execution => "execution",
            Self::Audit => "audit",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It holds.
    Ok,
    /// It does not.
    Failed,
    /// It could not be told; the reason says what is missing.
    NotChecked,
}

impl Verdict {
    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::NotChecked => "not_checked",
        }
    }
}

/// One step's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Which.
    pub step: Step,
    /// What it came to.
    pub verdict: Verdict,
    /// What is wrong, or missing.
    pub why: Vec<String>,
}

/// Faults, and what could not be told.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) faults: Vec<String>,
    pub(super) open: Vec<String>,
}

/// Every step's verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In order.
    pub steps: Vec<Checked>,
}

impl Report {
    /// The one word for all of it: failed if a step is, ok if all are.
    pub fn verdict(&self) -> Verdict {
        let any = |verdict| self.steps.iter().any(|checked| checked.verdict == verdict);
        if any(Verdict::Failed) {
            Verdict::Failed
        } else if any(Verdict::NotChecked) || self.steps.len() < Step::ALL.len() {
            Verdict::NotChecked
        } else {
            Verdict::Ok
        }
    }

    pub(super) fn push(&mut self, step: Step, faults: Vec<String>) {
        self.checked(step, Outcome { faults, open: Vec::new() });
    }

    pub(super) fn checked(&mut self, step: Step, outcome: Outcome) {
        let Outcome { faults, open } = outcome;
        let (verdict, why) = match (faults.is_empty(), open.is_empty()) {
            (false, _) => (Verdict::Failed, faults),
            (true, false) => (Verdict::NotChecked, open),
            (true, true) => (Verdict::Ok, Vec::new()),
        };
        self.steps.push(Checked { step, verdict, why });
    }

    /// A report that ends at `step`: what comes after it can't be told.
    pub(super) fn stopped(mut self, step: Step, why: String) -> Self {
        self.push(step, vec![why]);
        let told = self.steps.len();
        for rest in Step::ALL.into_iter().skip(told) {
            let open = vec![format!("{} failed, so that there is nothing to check", step.as_str())];
            self.checked(rest, Outcome { faults: Vec::new(), open });
        }
        self
    }

    pub(super) fn unread(step: Step, why: String) -> Self {
        Self::default().stopped(step, why)
    }
}
