//! The policy file as it is written: read, checked, and refused with a place and a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

use super::approval::{ApprovalPolicy, Level};
use super::limit::{Bound, Limit, Payees, Window};
use super::rule::{Outcome, Rule};
use super::{AGENT_NEVER, Policy};
use crate::domain::id::{AgentId, SignerId};
use crate::domain::money::{Currency, Money};
use crate::domain::principal::Role;
use crate::domain::refusal::Refusal;
use crate::domain::text::{Account, PartyName};

/// A policy file that can't be used: where and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy: {0}")]
pub struct PolicyFault(String);

fn fault<T>(place: &str, why: impl std::fmt::Display) -> Result<T, PolicyFault> {
    Err(PolicyFault(format!("{place}: {why}")))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyText {
    id: String,
    version: String,
    roles: BTreeMap<String, BTreeSet<String>>,
    groups: BTreeMap<String, BTreeSet<String>>,
    approval: ApprovalText,
    #[serde(default)]
    rule: Vec<RuleText>,
    #[serde(default)]
    limit: Vec<LimitText>,
    #[serde(default)]
    payees: PayeesText,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalText {
    group: String,
    required: u32,
    #[serde(default = "yes")]
    any_reject: bool,
    #[serde(default)]
    principal_may_sign: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelText {
    group: String,
    required: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    id: String,
    #[serde(default)]
    currency: Option<String>,
    #[serde(default)]
    amount_at_least: Option<String>,
    #[serde(default)]
    amount_below: Option<String>,
    #[serde(default)]
    payees: BTreeSet<String>,
    #[serde(default)]
    agents: BTreeSet<String>,
    #[serde(default)]
    deny: bool,
    #[serde(default)]
    levels: Vec<LevelText>,
    #[serde(default = "yes")]
    any_reject: bool,
    #[serde(default)]
    principal_may_sign: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitText {
    id: String,
    binds: String,
    currency: String,
    #[serde(default)]
    per_payment: Option<String>,
    #[serde(default)]
    window_hours: Option<u64>,
    #[serde(default)]
    window_amount: Option<String>,
    #[serde(default)]
    window_count: Option<u32>,
    #[serde(default)]
    open: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PayeesText {
    #[serde(default)]
    only_known: bool,
    #[serde(default)]
    denied: BTreeSet<String>,
    #[serde(default)]
    known: BTreeMap<String, String>,
}

const fn yes() -> bool {
    true
}

/// Reads and checks a policy file; `tools` are the names that a role may be granted.
pub(super) fn parse(text: &str, tools: &[&str]) -> Result<Policy, PolicyFault> {
    let file: PolicyText = toml::from_str(text).map_err(|err| {
        let line = err.span().and_then(|span| text.get(..span.start)).map_or(1, |head| head.matches('\n').count() + 1);
        PolicyFault(format!("line {line}: {}", err.message()))
    })?;
    let granted = roles(file.roles, tools)?;
    for (group, people) in &file.groups {
        if let Some(person) = people.iter().find(|person| person.parse::<SignerId>().is_err()) {
            return fault(&format!("[groups] {group}"), format_args!("{person:?} is not a signer's name"));
        }
    }
    let reader = Reader { id: &file.id, version: &file.version, groups: &file.groups };
    let approval = &file.approval;
    let default = [LevelText { group: approval.group.clone(), required: approval.required }];
    let default =
        reader.approval("[approval]", "default", &default, approval.any_reject, approval.principal_may_sign)?;
    let mut seen = BTreeSet::new();
    let mut rules = Vec::new();
    for rule in &file.rule {
        if !seen.insert(rule.id.clone()) || rule.id == "default" {
            return fault("[[rule]] id", format_args!("{:?} is taken", rule.id));
        }
        rules.push(reader.rule(rule)?);
    }
    let limits = file.limit.iter().map(limit).collect::<Result<Vec<_>, _>>()?;
    let payees = payees(file.payees)?;
    Ok(Policy { roles: granted, default, rules, limits, payees })
}

fn roles(
    written: BTreeMap<String, BTreeSet<String>>,
    tools: &[&str],
) -> Result<BTreeMap<Role, BTreeSet<String>>, PolicyFault> {
    let mut roles = BTreeMap::new();
    for (name, granted) in written {
        let place = format!("[roles] {name}");
        let Some(role) = Role::from_name(&name) else {
            return fault(&place, "is not a role (agent, signer, operator, auditor)");
        };
        if let Some(tool) = granted.iter().find(|tool| !tools.contains(&tool.as_str())) {
            return fault(&place, format_args!("{tool:?} is not a tool"));
        }
        let signs = granted.iter().find(|tool| role == Role::Agent && AGENT_NEVER.contains(&tool.as_str()));
        if let Some(tool) = signs {
            return fault(&place, format_args!("{tool:?} can never be granted to an agent"));
        }
        roles.insert(role, granted);
    }
    Ok(roles)
}

/// What rules and the default share.
struct Reader<'a> {
    id: &'a str,
    version: &'a str,
    groups: &'a BTreeMap<String, BTreeSet<String>>,
}

impl Reader<'_> {
    fn approval(
        &self,
        place: &str,
        rule: &str,
        levels: &[LevelText],
        any_reject: bool,
        principal: bool,
    ) -> Result<ApprovalPolicy, PolicyFault> {
        let mut checked: Vec<Level> = Vec::new();
        for level in levels {
            let Some(signers) = self.groups.get(&level.group) else {
                return fault(place, format_args!("there is no group {:?}", level.group));
            };
            // A person counts once over all levels: whoever earlier levels may use up is not there for this one.
            let used: usize = checked
                .iter()
                .map(|earlier| {
                    let shared = earlier.signers.intersection(signers).count();
                    shared.min(usize::try_from(earlier.required()).unwrap_or(usize::MAX))
                })
                .sum();
            let people = u32::try_from(signers.len().saturating_sub(used)).unwrap_or(u32::MAX);
            if level.required == 0 || level.required > people {
                return fault(
                    place,
                    format_args!(
                        "required: must be 1 to {people}, the people that {:?} has for this level",
                        level.group
                    ),
                );
            }
            checked.push(Level {
                group: level.group.clone(),
                required: level.required.to_string(),
                signers: signers.clone(),
            });
        }
        if checked.is_empty() {
            return fault(place, "levels: name at least one group");
        }
        Ok(ApprovalPolicy {
            id: self.id.to_owned(),
            version: self.version.to_owned(),
            rule: rule.to_owned(),
            levels: checked,
            any_reject: any_reject.into(),
            principal_may_sign: principal.into(),
        })
    }

    fn rule(&self, text: &RuleText) -> Result<Rule, PolicyFault> {
        let place = format!("[[rule]] {}", text.id);
        let currency = text.currency.as_deref().map(|code| currency(&place, code)).transpose()?;
        let bound = |amount: &Option<String>| match (amount, currency) {
            (None, _) => Ok(None),
            (Some(_), None) => fault(&place, "an amount needs a currency beside it"),
            (Some(digits), Some(currency)) => money(&place, digits, currency).map(Some),
        };
        let (at_least, below) = (bound(&text.amount_at_least)?, bound(&text.amount_below)?);
        if let Some(account) = text.payees.iter().find(|account| Account::parse("payee", account).is_err()) {
            return fault(&place, format_args!("payees: {account:?} is not an account"));
        }
        if let Some(agent) = text.agents.iter().find(|agent| agent.parse::<AgentId>().is_err()) {
            return fault(&place, format_args!("agents: {agent:?} is not an agent's name"));
        }
        let outcome = match (text.deny, text.levels.is_empty()) {
            (true, true) => Outcome::Deny,
            (false, false) => Outcome::Require(self.approval(
                &place,
                &text.id,
                &text.levels,
                text.any_reject,
                text.principal_may_sign,
            )?),
            (true, false) | (false, true) => return fault(&place, "give either deny = true or levels"),
        };
        Ok(Rule {
            id: text.id.clone(),
            currency,
            at_least,
            below,
            payees: text.payees.clone(),
            agents: text.agents.clone(),
            outcome,
        })
    }
}

fn limit(text: &LimitText) -> Result<Limit, PolicyFault> {
    let place = format!("[[limit]] {}", text.id);
    let bound = match text.binds.as_str() {
        "tenant" => Bound::Tenant,
        "each_agent" => Bound::EachAgent,
        named => match named.strip_prefix("agent:").and_then(|name| name.parse().ok()) {
            Some(agent) => Bound::Agent(agent),
            None => return fault(&place, "binds: must be \"tenant\", \"each_agent\" or \"agent:NAME\""),
        },
    };
    let currency = currency(&place, &text.currency)?;
    let amount = |digits: &Option<String>| digits.as_deref().map(|digits| money(&place, digits, currency)).transpose();
    let window = match (text.window_hours, amount(&text.window_amount)?, text.window_count) {
        (None, None, None) => None,
        (Some(hours @ 1..=8_784), amount, count) if amount.is_some() || count.is_some() => {
            Some(Window { span: Duration::from_secs(hours.saturating_mul(3_600)), amount, count })
        }
        _ => return fault(&place, "a window needs window_hours (1 to 8784) and window_amount or window_count"),
    };
    let limit = Limit {
        id: text.id.clone(),
        bound,
        currency,
        per_payment: amount(&text.per_payment)?,
        window,
        open: text.open,
    };
    if limit.per_payment.is_none() && limit.window.is_none() && limit.open.is_none() {
        return fault(&place, "limits nothing: give per_payment, a window or open");
    }
    Ok(limit)
}

fn payees(text: PayeesText) -> Result<Payees, PolicyFault> {
    for (account, name) in &text.known {
        let usable =
            Account::parse("payee", account).is_ok() && !name.is_empty() && PartyName::parse("name", name).is_ok();
        if !usable {
            return fault("[payees.known]", format_args!("{account:?} is not an account with a plain name"));
        }
    }
    Ok(Payees { known: text.known.into_iter().collect(), only_known: text.only_known, denied: text.denied })
}

fn currency(place: &str, code: &str) -> Result<Currency, PolicyFault> {
    code.parse().or_else(|refusal: Refusal| fault(place, refusal.message))
}

fn money(place: &str, digits: &str, currency: Currency) -> Result<Money, PolicyFault> {
    Money::parse(digits, currency).or_else(|refusal| fault(place, refusal.message))
}
