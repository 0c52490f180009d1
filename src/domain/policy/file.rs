//! Reading a policy file: checked whole, and refused with a line and a reason.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;

use super::fault::{Lines, PolicyFault};
use super::level_file::{Reader, Wanted, quotas};
use super::limit::Payees;
use super::limit_file::{hours, limit};
use super::people_file::{People, beneficiaries, people};
use super::rule::{Outcome, Rule};
use super::text::{PayeesText, PolicyText, RuleText, Word};
use super::{NEVER, Policy};
use crate::domain::id::{AgentId, SignerId};
use crate::domain::money::{Currency, Money};
use crate::domain::principal::Role;
use crate::domain::refusal::Refusal;
use crate::domain::text::{Account, PartyName};

/// Reads and checks a policy file; `tools` are the names that a role may be granted.
pub(super) fn parse(text: &str, tools: &[&str]) -> Result<Policy, PolicyFault> {
    let at = Lines(text);
    let file: PolicyText = toml::from_str(text).map_err(|err| at.unread(&err))?;
    for (key, word) in [("id", &file.id), ("version", &file.version)] {
        plain(at, key, word)?;
    }
    let granted = roles(at, &file.roles, tools)?;
    let mut groups = BTreeMap::new();
    for (group, people) in &file.groups {
        let place = format!("[groups] {}", group.get_ref());
        plain(at, "[groups]", group)?;
        let is_signer = |name: &str| name.parse::<SignerId>().is_ok();
        let people = named(at, &place, people, is_signer, "is not a signer's name")?;
        groups.insert(group.get_ref().as_str(), people);
    }
    let people = people(at, &file, &groups)?;
    let (id, version) = (file.id.get_ref(), file.version.get_ref());
    let reader = Reader { at, id, version, groups: &groups, people: &people };
    let text = &file.approval;
    let default = Wanted {
        rule: "default",
        levels: vec![vec![(&text.group, &text.required)]],
        confirmations: text.confirmations.as_ref(),
        any_reject: text.any_reject,
        principal_may_sign: text.principal_may_sign,
    };
    let default = reader.approval("[approval]", &default)?;
    let mut rules: Vec<Rule> = Vec::new();
    for text in &file.rule {
        let rule = reader.rule(text)?;
        if rule.id == "default" || rules.iter().any(|earlier| earlier.id == rule.id) {
            return at.fault(&text.id, format_args!("[[rule]] id: {:?} is taken", rule.id));
        }
        reached(at, text, &rule, &rules)?;
        rules.push(rule);
    }
    let payees = payees(at, &file.payees, &people)?;
    let mut limits: Vec<super::Limit> = Vec::new();
    for text in &file.limit {
        let limit = limit(at, text, &payees)?;
        if limits.iter().any(|earlier| earlier.id == limit.id) {
            return at.fault(&text.id, format_args!("[[limit]] id: {:?} is taken", limit.id));
        }
        limits.push(limit);
    }
    Ok(Policy { roles: granted, default, rules, limits, payees })
}

fn roles(
    at: Lines<'_>,
    written: &Spanned<BTreeMap<Word, Vec<Word>>>,
    tools: &[&str],
) -> Result<BTreeMap<Role, BTreeSet<String>>, PolicyFault> {
    if written.get_ref().is_empty() {
        return at.fault(written, "[roles]: grants nothing to anybody; name the tools of each role");
    }
    let mut roles = BTreeMap::new();
    for (name, granted) in written.get_ref() {
        let place = format!("[roles] {}", name.get_ref());
        let Some(role) = Role::from_name(name.get_ref()) else {
            return at.fault(name, format_args!("{place}: is not a role (agent, signer, operator, auditor)"));
        };
        let granted = each(at, &place, granted, |tool| tools.contains(&tool), "is not a tool")?;
        let never =
            |tool: &&String| NEVER.iter().any(|(named, tools)| *named == role && tools.contains(&tool.as_str()));
        if let Some(tool) = granted.iter().find(never) {
            return at.fault(name, format_args!("{place}: {tool:?} can never be granted to this role"));
        }
        roles.insert(role, granted);
    }
    Ok(roles)
}

impl Reader<'_> {
    fn rule(&self, text: &RuleText) -> Result<Rule, PolicyFault> {
        let (at, id) = (self.at, text.id.get_ref());
        plain(at, "[[rule]] id", &text.id)?;
        let place = format!("[[rule]] {id}");
        let currency = text.currency.as_ref().map(|code| currency(at, &place, code)).transpose()?;
        let bound = |amount: &Option<Word>| match (amount, currency) {
            (None, _) => Ok(None),
            (Some(digits), None) => at.fault(digits, format_args!("{place}: an amount needs a currency beside it")),
            (Some(digits), Some(currency)) => money(at, &place, digits, currency).map(Some),
        };
        let (at_least, below) = (bound(&text.amount_at_least)?, bound(&text.amount_below)?);
        if let (Some(word), Some(least), Some(limit)) = (&text.amount_below, at_least, below)
            && least.minor() >= limit.minor()
        {
            return at.fault(word, format_args!("{place}: no amount is at least {least} and below {limit}"));
        }
        let sum = match &text.sum_hours {
            Some(word) if at_least.is_none() && below.is_none() => {
                return at
                    .fault(word, format_args!("{place}: sum_hours needs amount_at_least or amount_below beside it"));
            }
            Some(word) => Some(hours(at, &format!("{place}: sum_hours"), word)?),
            None => None,
        };
        let list = |words: &Option<super::text::Words>, what: &str, fits: fn(&str) -> bool, why: &str| {
            let place = format!("{place}: {what}");
            words.as_ref().map(|words| named(at, &place, words, fits, why)).transpose().map(Option::unwrap_or_default)
        };
        let payees = list(&text.payees, "payees", is_account, "is not an account")?;
        let agents = list(&text.agents, "agents", |name| name.parse::<AgentId>().is_ok(), "is not an agent's name")?;
        let outcome = self.outcome(&place, text)?;
        Ok(Rule { id: id.clone(), currency, at_least, below, sum, payees, agents, outcome })
    }

    fn outcome(&self, place: &str, text: &RuleText) -> Result<Outcome, PolicyFault> {
        if text.deny != text.levels.is_empty() {
            return self.at.fault(&text.id, format_args!("{place}: give either deny = true or levels"));
        }
        let answers = [&text.any_reject, &text.principal_may_sign];
        if let Some(answer) = answers.into_iter().flatten().next().filter(|_| text.deny) {
            return self.at.fault(answer, format_args!("{place}: says who signs what it denies"));
        }
        if let Some(number) = text.confirmations.as_ref().filter(|_| text.deny) {
            return self.at.fault(number, format_args!("{place}: says who signs what it denies"));
        }
        if text.deny {
            return Ok(Outcome::Deny);
        }
        let wanted = Wanted {
            rule: text.id.get_ref(),
            levels: text.levels.iter().map(|level| quotas(self.at, place, level)).collect::<Result<_, _>>()?,
            confirmations: text.confirmations.as_ref(),
            any_reject: text.any_reject.as_ref().is_none_or(|answer| *answer.get_ref()),
            principal_may_sign: text.principal_may_sign.as_ref().is_some_and(|answer| *answer.get_ref()),
        };
        self.approval(place, &wanted).map(Outcome::Require)
    }
}

/// Refuses a rule that asks for approvals and never gets to: an earlier one takes what it speaks of.
///
/// One that a rule with `deny` covers is let be, so that a line at the top can stop everything for a while.
fn reached(at: Lines<'_>, text: &RuleText, rule: &Rule, earlier: &[Rule]) -> Result<(), PolicyFault> {
    let Some(before) = earlier.iter().find(|before| before.takes_from(rule)) else { return Ok(()) };
    let why = if before.covers(rule) { "is never asked" } else { "does not see the sum of what is small enough" };
    at.fault(&text.id, format_args!("[[rule]] {}: {why}: rule {:?} comes before it", rule.id, before.id))
}

fn payees(at: Lines<'_>, text: &PayeesText, people: &People<'_>) -> Result<Payees, PolicyFault> {
    let denied = each(at, "[payees] denied", &text.denied, is_account, "is not an account")?;
    let mut known = Vec::new();
    for (account, name) in &text.known {
        let account_text = account.get_ref();
        let plain_name = !name.get_ref().is_empty() && PartyName::parse("name", name.get_ref()).is_ok();
        if !is_account(account_text) || !plain_name {
            return at
                .fault(account, format_args!("[payees.known]: {account_text:?} is not an account with a plain name"));
        }
        if denied.contains(account_text) {
            return at.fault(account, format_args!("[payees.known]: {account_text:?} is denied as well"));
        }
        known.push((account_text.clone(), name.get_ref().clone()));
    }
    let beneficiaries = beneficiaries(at, text, people)?;
    Ok(Payees { known, only_known: text.only_known, denied, beneficiaries })
}

pub(super) fn is_account(text: &str) -> bool {
    Account::parse("payee", text).is_ok()
}

/// A name that is shown and signed: not empty, plain text.
pub(super) fn plain(at: Lines<'_>, place: &str, word: &Word) -> Result<(), PolicyFault> {
    match PartyName::parse("name", word.get_ref()) {
        Ok(_) if !word.get_ref().is_empty() => Ok(()),
        _ => at.fault(word, format_args!("{place}: must be plain text of 1 to 128 characters")),
    }
}

/// The entries of a list: each fits, none stands there twice.
fn each(
    at: Lines<'_>,
    place: &str,
    words: &[Word],
    fits: impl Fn(&str) -> bool,
    why: &str,
) -> Result<BTreeSet<String>, PolicyFault> {
    let mut entries = BTreeSet::new();
    for word in words {
        if !fits(word.get_ref()) {
            return at.fault(word, format_args!("{place}: {:?} {why}", word.get_ref()));
        }
        if !entries.insert(word.get_ref().clone()) {
            return at.fault(word, format_args!("{place}: {:?} is there twice", word.get_ref()));
        }
    }
    Ok(entries)
}

/// The same of a list that must not be empty: it would be taken for nobody by one reader, for everybody by another.
pub(super) fn named(
    at: Lines<'_>,
    place: &str,
    words: &Spanned<Vec<Word>>,
    fits: impl Fn(&str) -> bool,
    why: &str,
) -> Result<BTreeSet<String>, PolicyFault> {
    if words.get_ref().is_empty() {
        return at.fault(words, format_args!("{place}: name at least one"));
    }
    each(at, place, words.get_ref(), fits, why)
}

pub(super) fn currency(at: Lines<'_>, place: &str, code: &Word) -> Result<Currency, PolicyFault> {
    code.get_ref().parse().or_else(|refusal: Refusal| at.fault(code, format_args!("{place}: {}", refusal.message)))
}

pub(super) fn money(at: Lines<'_>, place: &str, digits: &Word, currency: Currency) -> Result<Money, PolicyFault> {
    Money::parse(digits.get_ref(), currency)
        .or_else(|refusal| at.fault(digits, format_args!("{place}: {}", refusal.message)))
}
