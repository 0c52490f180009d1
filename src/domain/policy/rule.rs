//! Approval rules: which payments they speak of, and what they ask.

use std::collections::BTreeSet;

use super::approval::ApprovalPolicy;
use crate::domain::id::AgentId;
use crate::domain::money::{Currency, Money};
use crate::domain::text::Account;

/// What rules are judged by.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// How much.
    pub amount: Money,
    /// To whom.
    pub payee: &'a Account,
    /// Who asks.
    pub agent: &'a AgentId,
}

/// What a rule asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Deny,
    Require(ApprovalPolicy),
}

/// One rule; an absent condition is met by every payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) currency: Option<Currency>,
    pub(super) at_least: Option<Money>,
    pub(super) below: Option<Money>,
    pub(super) payees: BTreeSet<String>,
    pub(super) agents: BTreeSet<String>,
    pub(super) outcome: Outcome,
}

impl Rule {
    /// Whether the rule speaks of this payment.
    pub(super) fn matches(&self, facts: &Facts<'_>) -> bool {
        let minor = facts.amount.minor();
        self.currency.is_none_or(|currency| currency == facts.amount.currency())
            && self.at_least.is_none_or(|least| minor >= least.minor())
            && self.below.is_none_or(|limit| minor < limit.minor())
            && (self.payees.is_empty() || self.payees.contains(facts.payee.as_str()))
            && (self.agents.is_empty() || self.agents.contains(facts.agent.as_str()))
    }
}
