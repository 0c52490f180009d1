//! Limits: how much one agent, or a tenant, may have proposed and not had refused.
//!
//! What counts against a limit is derived from the payments themselves: every payment that is open,
//! signed or executed counts from its creation, and stops counting the moment it ends any other way.
//! So a reservation can't be forgotten, posted twice or lost in a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rule::Facts;
use crate::domain::id::AgentId;
use crate::domain::money::{Currency, Money};
use crate::domain::refusal::{Code, Refusal};

/// Whom a limit binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// The whole tenant together.
    Tenant,
    /// Each agent by itself.
    EachAgent,
    /// This agent.
    Agent(AgentId),
}

/// A limit of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Its name, shown to who runs into it.
    pub id: String,
    /// Whom it binds.
    pub bound: Bound,
    /// The only currencies that may be paid in; any when absent.
    pub currencies: Option<Vec<Currency>>,
    /// The only accounts that may be paid; any when absent.
    pub payees: Option<BTreeSet<String>>,
    /// The currency its amounts are in, and the only one it counts.
    pub currency: Option<Currency>,
    /// The most for one payment.
    pub per_payment: Option<Money>,
    /// The rolling window.
    pub window: Option<Window>,
    /// The most payments open at once.
    pub open: Option<u32>,
}

/// A rolling window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How far back it reaches.
    pub span: Duration,
    /// The most in all.
    pub amount: Option<Money>,
    /// The most payments.
    pub count: Option<u32>,
}

/// What counts against a limit already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Minor units in the window.
    pub amount_minor: i64,
    /// Payments in the window.
    pub count: u32,
    /// Payments open now.
    pub open: u32,
}

impl Usage {
    /// Nothing fits beside it: what is taken when nobody counted.
    pub(super) const FULL: Self = Self { amount_minor: i64::MAX, count: u32::MAX, open: u32::MAX };
}

/// What must leave a window before a payment fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    /// Minor units.
    pub amount_minor: i64,
    /// Payments.
    pub count: u32,
}

impl Limit {
    /// Whether it binds payments of `agent`.
    pub fn binds(&self, agent: &AgentId) -> bool {
        match &self.bound {
            Bound::Tenant | Bound::EachAgent => true,
            Bound::Agent(named) => named == agent,
        }
    }

    /// Whether it counts payments in `currency`: what they add up to, or how many are open.
    pub fn counts(&self, currency: Currency) -> bool {
        self.currency == Some(currency) && (self.window.is_some() || self.open.is_some())
    }

    /// Whether it limits anything but currencies and payees.
    pub(super) const fn counts_amounts(&self) -> bool {
        self.per_payment.is_some() || self.window.is_some() || self.open.is_some()
    }

    /// Whether a payment may be in this currency and go to this payee.
    ///
    /// *Errors*: `POLICY_DENIED` for the currency, `PAYEE_NOT_ALLOWED`.
    pub(super) fn permits(&self, facts: &Facts<'_>) -> Result<(), Refusal> {
        let (name, currency) = (&self.id, facts.amount.currency());
        if self.currencies.as_ref().is_some_and(|allowed| !allowed.contains(&currency)) {
            let why = format_args!("{currency} is not one that limit {name:?} allows");
            return Err(Refusal::of_field(Code::PolicyDenied, "currency", why));
        }
        if self.payees.as_ref().is_some_and(|allowed| !allowed.contains(facts.payee.as_str())) {
            let why = format_args!("is not an account that limit {name:?} allows");
            return Err(Refusal::of_field(Code::PayeeNotAllowed, "payee", why));
        }
        Ok(())
    }

    /// Whether a further payment of `amount` fits.
    ///
    /// *Errors*: `MANDATE_EXCEEDED` for what never fits or too many open, `VELOCITY_EXCEEDED` for a window.
    pub fn admits(&self, amount: Money, usage: Usage) -> Result<(), Refusal> {
        if self.currency != Some(amount.currency()) {
            return Ok(());
        }
        let name = &self.id;
        let too_large = |allows: &str| {
            let why = format_args!("is more than limit {name:?} allows {allows}");
            Err(Refusal::of_field(Code::MandateExceeded, "amount", why))
        };
        if self.per_payment.is_some_and(|most| amount.minor() > most.minor()) {
            return too_large("for one payment");
        }
        // No wait helps: it would not fit an empty window either.
        if self.window.and_then(|window| window.amount).is_some_and(|most| amount.minor() > most.minor()) {
            return too_large("for its whole window");
        }
        if self.open.is_some_and(|most| usage.open >= most) {
            return Err(Refusal::new(
                Code::MandateExceeded,
                format!("limit {name:?} allows no more open payments; let some end first"),
            ));
        }
        match (self.window, self.lack(amount, usage)) {
            (Some(window), Some(_)) => Err(Refusal::new(
                Code::VelocityExceeded,
                format!("limit {name:?} is used up for now; it counts the last {} hours", window.span.as_secs() / 3600),
            )),
            (_, None) | (None, _) => Ok(()),
        }
    }

    /// What must leave the window before a payment of `amount` fits; `None` when it does.
    pub fn lack(&self, amount: Money, usage: Usage) -> Option<Lack> {
        let window = self.window?;
        let over = |most: Money| usage.amount_minor.saturating_add(amount.minor()).saturating_sub(most.minor()).max(0);
        let lack = Lack {
            amount_minor: window.amount.map_or(0, over),
            count: window.count.map_or(0, |most| usage.count.saturating_add(1).saturating_sub(most)),
        };
        (lack.amount_minor > 0 || lack.count > 0).then_some(lack)
    }
}

/// The payees the policy knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payees {
    /// Account and verified name.
    pub known: Vec<(String, String)>,
    /// Whether only these may be paid.
    pub only_known: bool,
    /// Accounts that may never be paid.
    pub denied: BTreeSet<String>,
    /// Whom accounts belong to: a signer's account, or a person with several.
    pub beneficiaries: BTreeMap<String, String>,
}

impl Payees {
    /// The verified name of `account`, or `""` when it is not known.
    ///
    /// *Errors*: `PAYEE_NOT_ALLOWED`.
    pub fn name_of(&self, account: &str) -> Result<&str, Refusal> {
        let name = self.known.iter().find(|(known, _)| known == account).map(|(_, name)| name.as_str());
        if self.denied.contains(account) || (self.only_known && name.is_none()) {
            return Err(Refusal::of_field(
                Code::PayeeNotAllowed,
                "payee",
                "is not an account that the policy lets payments go to",
            ));
        }
        Ok(name.unwrap_or_default())
    }

    /// Whom `account` belongs to, or `""` when nobody is known.
    pub fn beneficiary_of(&self, account: &str) -> &str {
        self.beneficiaries.get(account).map_or("", String::as_str)
    }
}
