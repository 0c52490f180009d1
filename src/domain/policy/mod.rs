//! The policy: which role may use which tool, who must approve, how much may be asked for.
//!
//! Data, judged by pure code: a file is checked whole before any of it is in force. DENY beats
//! REQUIRE; of several rules that match, the first that asks for approvals counts; where none
//! matches, the default group is asked. Nothing is approved by itself.

mod approval;
mod file;
mod limit;
mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use approval::{Answer, ApprovalPolicy, Level};
pub use file::PolicyFault;
pub use limit::{Bound, Limit, Payees, Usage, Window};
pub use rule::Facts;

use super::principal::Role;
use super::refusal::{Code, Refusal};
use rule::{Outcome, Rule};

/// A checked policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    roles: BTreeMap<Role, BTreeSet<String>>,
    default: ApprovalPolicy,
    rules: Vec<Rule>,
    limits: Vec<Limit>,
    payees: Payees,
}

impl Policy {
    /// Reads and checks a policy file.
    ///
    /// *Errors*: the place and reason of the first fault: syntax, an unknown key, an unknown role or
    /// group, an agent that could sign, a quorum that can't be reached, a limit that limits nothing.
    pub fn parse(text: &str, tools: &[&str]) -> Result<Self, PolicyFault> {
        file::parse(text, tools)
    }

    /// Whether any of `roles` may use `tool`. Deny by default.
    pub fn grants(&self, roles: &BTreeSet<Role>, tool: &str) -> bool {
        roles.iter().any(|role| self.roles.get(role).is_some_and(|tools| tools.contains(tool)))
    }

    /// Who must approve a payment of these facts.
    ///
    /// *Errors*: `POLICY_DENIED`, naming the rule.
    pub fn approval(&self, facts: &Facts<'_>) -> Result<&ApprovalPolicy, Refusal> {
        let mut required = None;
        for rule in self.rules.iter().filter(|rule| rule.matches(facts)) {
            match &rule.outcome {
                Outcome::Deny => {
                    return Err(Refusal::new(
                        Code::PolicyDenied,
                        format!("rule {:?} of the policy denies this payment", rule.id),
                    ));
                }
                Outcome::Require(approval) => required = required.or(Some(approval)),
            }
        }
        Ok(required.unwrap_or(&self.default))
    }

    /// The limits that bind a payment of these facts.
    pub fn limits<'a>(&'a self, facts: &'a Facts<'_>) -> impl Iterator<Item = &'a Limit> {
        self.limits.iter().filter(|limit| limit.binds(facts.agent, facts.amount.currency()))
    }

    /// How far back the longest window of a limit reaches.
    pub fn longest_window(&self) -> Duration {
        self.limits.iter().filter_map(|limit| limit.window).map(|window| window.span).max().unwrap_or_default()
    }

    /// The payees that are known.
    pub const fn payees(&self) -> &Payees {
        &self.payees
    }
}

/// Tools that no policy file can give an agent: those that make or mimic an approval.
const AGENT_NEVER: [&str; 12] = [
    "reassign_signer",
    "hold_payment",
    "release_hold",
    "attest_executed",
    "attest_not_executed",
    "list_audit",
    "list_approvals",
    "get_approval",
    "confirm_signing",
    "reject_signing",
    "simulate_signer_online",
    "resend_notification",
];
