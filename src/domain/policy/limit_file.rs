//! Reading one limit of a policy file.

use std::collections::BTreeSet;
use std::time::Duration;

use toml::Spanned;

use super::fault::{Lines, PolicyFault};
use super::file::{currency, is_account, money, named, plain};
use super::limit::{Bound, Limit, Payees, Window};
use super::text::{LimitText, Number, Word};
use crate::domain::money::{Currency, Money};

/// The longest span that is looked back over: a year.
const LONGEST_HOURS: u32 = 8_784;

pub(super) fn limit(at: Lines<'_>, text: &LimitText, known: &Payees) -> Result<Limit, PolicyFault> {
    plain(at, "[[limit]] id", &text.id)?;
    let place = format!("[[limit]] {}", text.id.get_ref());
    let whom = match text.binds.get_ref().as_str() {
        "tenant" => Some(Bound::Tenant),
        "each_agent" => Some(Bound::EachAgent),
        one => one.strip_prefix("agent:").and_then(|name| name.parse().ok()).map(Bound::Agent),
    };
    let Some(bound) = whom else {
        let why = "binds: must be \"tenant\", \"each_agent\" or \"agent:NAME\"";
        return at.fault(&text.binds, format_args!("{place}: {why}"));
    };
    let currency = text.currency.as_ref().map(|code| currency(at, &place, code)).transpose()?;
    let limit = Limit {
        id: text.id.get_ref().clone(),
        bound,
        currencies: currencies(at, &place, text, currency)?,
        payees: payees(at, &place, text, known)?,
        currency,
        per_payment: amount(at, &place, text.per_payment.as_ref(), currency)?,
        window: window(at, &place, text, currency)?,
        open: count(at, &place, "open", text.open.as_ref(), currency)?,
    };
    if !limit.counts_amounts() {
        if let Some(code) = &text.currency {
            return at.fault(code, format_args!("{place}: a currency needs per_payment, a window or open beside it"));
        }
        if limit.currencies.is_none() && limit.payees.is_none() {
            let why = "limits nothing: give per_payment, a window, open, currencies or payees";
            return at.fault(&text.id, format_args!("{place}: {why}"));
        }
    }
    Ok(limit)
}

fn currencies(
    at: Lines<'_>,
    place: &str,
    text: &LimitText,
    counted: Option<Currency>,
) -> Result<Option<Vec<Currency>>, PolicyFault> {
    let Some(words) = &text.currencies else { return Ok(None) };
    let list = format!("{place}: currencies");
    named(at, &list, words, |_| true, "")?;
    let allowed = words.get_ref().iter().map(|code| currency(at, &list, code)).collect::<Result<Vec<_>, _>>()?;
    if counted.is_some_and(|counted| !allowed.contains(&counted)) {
        return at.fault(words, format_args!("{list}: leaves out the currency that its amounts are in"));
    }
    Ok(Some(allowed))
}

fn payees(
    at: Lines<'_>,
    place: &str,
    text: &LimitText,
    known: &Payees,
) -> Result<Option<BTreeSet<String>>, PolicyFault> {
    let Some(words) = &text.payees else { return Ok(None) };
    let list = format!("{place}: payees");
    let allowed = named(at, &list, words, is_account, "is not an account")?;
    match words.get_ref().iter().find(|account| known.name_of(account.get_ref()).is_err()) {
        Some(account) => at.fault(account, format_args!("{list}: {:?} is refused by [payees]", account.get_ref())),
        None => Ok(Some(allowed)),
    }
}

fn window(
    at: Lines<'_>,
    place: &str,
    text: &LimitText,
    currency: Option<Currency>,
) -> Result<Option<Window>, PolicyFault> {
    let most = amount(at, place, text.window_amount.as_ref(), currency)?;
    let times = count(at, place, "window_count", text.window_count.as_ref(), currency)?;
    let offset = |number: &Option<Number>| number.as_ref().map(Spanned::span);
    if let Some(word) = text.window_hours.as_ref().filter(|_| most.is_some() || times.is_some()) {
        let span = hours(at, &format!("{place}: window_hours"), word)?;
        return Ok(Some(Window { span, amount: most, count: times }));
    }
    let given = offset(&text.window_hours)
        .or_else(|| text.window_amount.as_ref().map(Spanned::span))
        .or_else(|| offset(&text.window_count));
    match given {
        None => Ok(None),
        Some(span) => {
            let why = "a window needs window_hours, and window_amount or window_count";
            at.fault(&Spanned::new(span, ()), format_args!("{place}: {why}"))
        }
    }
}

fn amount(
    at: Lines<'_>,
    place: &str,
    digits: Option<&Word>,
    currency: Option<Currency>,
) -> Result<Option<Money>, PolicyFault> {
    match (digits, currency) {
        (None, _) => Ok(None),
        (Some(digits), Some(currency)) => money(at, place, digits, currency).map(Some),
        (Some(digits), None) => at.fault(digits, format_args!("{place}: an amount needs a currency beside it")),
    }
}

/// How many payments: of one currency, and at least one, since a limit of none is a rule that denies.
fn count(
    at: Lines<'_>,
    place: &str,
    key: &str,
    number: Option<&Number>,
    currency: Option<Currency>,
) -> Result<Option<u32>, PolicyFault> {
    let Some(number) = number else { return Ok(None) };
    if currency.is_none() {
        return at.fault(number, format_args!("{place}: {key} needs a currency beside it"));
    }
    if *number.get_ref() == 0 {
        return at
            .fault(number, format_args!("{place}: {key}: must be at least 1; a rule with deny = true allows none"));
    }
    Ok(Some(*number.get_ref()))
}

/// A span to look back over, in whole hours.
pub(super) fn hours(at: Lines<'_>, place: &str, number: &Number) -> Result<Duration, PolicyFault> {
    match *number.get_ref() {
        hours @ 1..=LONGEST_HOURS => Ok(Duration::from_secs(u64::from(hours).saturating_mul(3_600))),
        _ => at.fault(number, format_args!("{place}: must be 1 to {LONGEST_HOURS}")),
    }
}
