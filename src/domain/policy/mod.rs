//! The policy: which role may use which tool, who must approve, how much may be asked for.
//!
//! Data, judged by pure code: a file is checked whole before any of it is in force. DENY beats
//! REQUIRE; of several rules that match, the first that asks for approvals counts; where none
//! matches, the default group is asked. Nothing is approved by itself. What else counts (in windows,
//! to the same payee) is counted by the caller and handed in as [`Counts`].

mod approval;
mod deputy;
mod fault;
mod file;
mod level_file;
mod limit;
mod limit_file;
mod people_file;
mod rule;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use approval::{Answer, ApprovalPolicy, Group, Level};
pub use deputy::Deputy;
pub use fault::PolicyFault;
pub use limit::{Bound, Lack, Limit, Payees, Usage, Window};
pub use rule::{Facts, Proposed};

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

/// What else counts when a payment is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// What was proposed to the same payee, for [`Policy::sums`].
    pub proposed: Proposed,
    /// What counts against each limit, by its id.
    pub used: BTreeMap<String, Usage>,
    /// The rule that a payment was proposed under, when it is judged again. What a sum asked for once is
    /// asked for still, whatever was called off meanwhile.
    pub asked: Option<String>,
}

impl Policy {
    /// Reads and checks a policy file.
    ///
    /// *Errors*: the line and reason of the first fault: syntax, an unknown key, an unknown role or
    /// group, an agent that could sign, a quorum that can't be reached, a deputy of nobody, a rule that is
    /// never asked, a limit that limits nothing.
    pub fn parse(text: &str, tools: &[&str]) -> Result<Self, PolicyFault> {
        file::parse(text, tools)
    }

    /// Whether any of `roles` may use `tool`. Deny by default.
    pub fn grants(&self, roles: &BTreeSet<Role>, tool: &str) -> bool {
        roles.iter().any(|role| self.roles.get(role).is_some_and(|tools| tools.contains(tool)))
    }

    /// Judges a payment whole: its payee and currency, the rules, every limit.
    ///
    /// *Errors*: `PAYEE_NOT_ALLOWED`, `POLICY_DENIED`, `MANDATE_EXCEEDED`; `VELOCITY_EXCEEDED` when
    /// nothing but a window stands in its way.
    pub fn judge(&self, facts: &Facts<'_>, counts: &Counts) -> Result<ApprovalPolicy, Refusal> {
        self.permits(facts)?;
        let approval = self.approval(facts, counts)?;
        let mut passing = Ok(approval);
        for limit in self.limits(facts) {
            let usage = counts.used.get(&limit.id).copied().unwrap_or(Usage::FULL);
            match limit.admits(facts.amount, usage) {
                Err(refusal) if refusal.code == Code::VelocityExceeded => passing = passing.and(Err(refusal)),
                done => done?,
            }
        }
        passing
    }

    /// Whether a payment's payee and currency are ones that the policy and each limit allow.
    ///
    /// *Errors*: `PAYEE_NOT_ALLOWED`, `POLICY_DENIED`.
    pub fn permits(&self, facts: &Facts<'_>) -> Result<(), Refusal> {
        self.payees.name_of(facts.payee.as_str())?;
        self.limits(facts).try_for_each(|limit| limit.permits(facts))
    }

    /// The spans over which rules sum up what is proposed to this payee.
    pub fn sums(&self, facts: &Facts<'_>) -> BTreeSet<Duration> {
        self.rules.iter().filter(|rule| rule.concerns(facts)).filter_map(|rule| rule.sum).collect()
    }

    /// Everyone whom some rule, or the default one, asks; deputies included.
    pub fn signers(&self) -> BTreeSet<&str> {
        self.asking().flat_map(ApprovalPolicy::signers).collect()
    }

    /// How many keys each signer needs: as often as some rule has them confirm.
    pub fn keys_needed(&self) -> BTreeMap<&str, u32> {
        let mut needed = BTreeMap::new();
        for approval in self.asking() {
            for signer in approval.signers() {
                let keys: &mut u32 = needed.entry(signer).or_default();
                *keys = approval.confirmations().max(*keys);
            }
        }
        needed
    }

    /// What the rules, and the default, ask for.
    fn asking(&self) -> impl Iterator<Item = &ApprovalPolicy> {
        let asked = self.rules.iter().filter_map(|rule| match &rule.outcome {
            Outcome::Require(approval) => Some(approval),
            Outcome::Deny => None,
        });
        asked.chain([&self.default])
    }

    /// Who must approve a payment of these facts, and whom its payee's account belongs to.
    ///
    /// *Errors*: `POLICY_DENIED`, naming the rule.
    pub fn approval(&self, facts: &Facts<'_>, counts: &Counts) -> Result<ApprovalPolicy, Refusal> {
        let mut required = None;
        for rule in &self.rules {
            let asked = rule.sum.is_some() && rule.concerns(facts) && counts.asked.as_ref() == Some(&rule.id);
            if !asked && !rule.matches(facts, &counts.proposed) {
                continue;
            }
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
        let beneficiary = self.payees.beneficiary_of(facts.payee.as_str()).to_owned();
        Ok(ApprovalPolicy { beneficiary, ..required.unwrap_or(&self.default).clone() })
    }

    /// The limits that bind a payment of these facts, whatever its currency.
    pub fn limits<'a>(&'a self, facts: &'a Facts<'_>) -> impl Iterator<Item = &'a Limit> {
        self.limits.iter().filter(|limit| limit.binds(facts.agent))
    }

    /// How far back the longest span reaches over which a limit counts or a rule sums up.
    pub fn looks_back(&self) -> Duration {
        let windows = self.limits.iter().filter_map(|limit| limit.window).map(|window| window.span);
        windows.chain(self.rules.iter().filter_map(|rule| rule.sum)).max().unwrap_or_default()
    }

    /// The payees that are known.
    pub const fn payees(&self) -> &Payees {
        &self.payees
    }
}

/// Tools that no policy file can give a role: to an agent those that make or mimic an approval, to a
/// signer those that settle a payment by hand, to an auditor all that change anything.
const NEVER: [(Role, &[&str]); 3] = [
    (
        Role::Agent,
        &[
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
        ],
    ),
    (Role::Signer, &["reassign_signer", "hold_payment", "release_hold", "attest_executed", "attest_not_executed"]),
    (
        Role::Auditor,
        &[
            "reassign_signer",
            "hold_payment",
            "release_hold",
            "attest_executed",
            "attest_not_executed",
            "create_payment",
            "notify_signer",
            "cancel_payment",
            "confirm_signing",
            "reject_signing",
            "resend_notification",
            "simulate_signer_online",
        ],
    ),
];
