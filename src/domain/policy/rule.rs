//! Approval rules: which payments they speak of, and what they ask.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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

/// What else was proposed to the same payee, in minor units: in each span that rules look back over.
pub type Proposed = BTreeMap<Duration, i64>;

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
    /// The band is about all that was proposed to the payee in this span, not about one payment alone.
    pub(super) sum: Option<Duration>,
    pub(super) payees: BTreeSet<String>,
    pub(super) agents: BTreeSet<String>,
    pub(super) outcome: Outcome,
}

impl Rule {
    /// Whether the rule speaks of such payments, whatever their amount.
    pub(super) fn concerns(&self, facts: &Facts<'_>) -> bool {
        self.currency.is_none_or(|currency| currency == facts.amount.currency())
            && (self.payees.is_empty() || self.payees.contains(facts.payee.as_str()))
            && (self.agents.is_empty() || self.agents.contains(facts.agent.as_str()))
    }

    /// Whether the rule speaks of this payment. A sum that nobody counted is the largest there is.
    pub(super) fn matches(&self, facts: &Facts<'_>, proposed: &Proposed) -> bool {
        let own = facts.amount.minor();
        let minor = match self.sum {
            None => own,
            Some(span) => proposed.get(&span).map_or(i64::MAX, |others| others.saturating_add(own)),
        };
        self.concerns(facts)
            && self.at_least.is_none_or(|least| minor >= least.minor())
            && self.below.is_none_or(|limit| minor < limit.minor())
    }

    /// Whether `later` is never reached, or misses sums that it should see, when this one comes first.
    pub(super) fn takes_from(&self, later: &Self) -> bool {
        self.covers(later) || (later.sum.is_some() && self.sum.is_none() && self.below.is_some() && self.hides(later))
    }

    /// Whether every payment that `later` matches is matched by this one, and both ask for approvals.
    pub(super) fn covers(&self, later: &Self) -> bool {
        let minor = |money: Option<Money>| money.map(Money::minor);
        let wider = minor(self.at_least).is_none_or(|least| minor(later.at_least).is_some_and(|other| least <= other))
            && minor(self.below).is_none_or(|limit| minor(later.below).is_some_and(|other| other <= limit));
        let unbounded = self.at_least.is_none() && self.below.is_none();
        // The sum over a longer span is never the smaller one.
        let longer = self.below.is_none() && self.sum >= later.sum;
        self.hides(later) && (unbounded || (wider && (self.sum == later.sum || longer)))
    }

    /// Whether this one concerns all that `later` concerns, and both ask for approvals.
    fn hides(&self, later: &Self) -> bool {
        let holds = |own: &BTreeSet<String>, other: &BTreeSet<String>| {
            own.is_empty() || (!other.is_empty() && other.is_subset(own))
        };
        matches!((&self.outcome, &later.outcome), (Outcome::Require(_), Outcome::Require(_)))
            && (self.currency.is_none() || self.currency == later.currency)
            && holds(&self.payees, &later.payees)
            && holds(&self.agents, &later.agents)
    }
}
