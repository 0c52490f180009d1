//! Limits: how much one agent, or a tenant, may have proposed and not had refused.
//!
//! What counts against a limit is derived from the payments themselves: every payment that is open,
//! signed or executed counts from its creation, and stops counting the moment it ends any other way.
//! So a reservation can't be forgotten, posted twice or lost in a crash.

use std::collections::BTreeSet;
use std::time::Duration;

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
    /// The currency its amounts are in, and the only one it counts.
    pub currency: Currency,
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

impl Limit {
    /// Whether it binds a payment of `agent` in `currency`.
    pub fn binds(&self, agent: &AgentId, currency: Currency) -> bool {
        let who = match &self.bound {
            Bound::Tenant | Bound::EachAgent => true,
            Bound::Agent(named) => named == agent,
        };
        who && self.currency == currency
    }

    /// Whether a further payment of `amount` fits.
    ///
    /// *Errors*: `MANDATE_EXCEEDED` for one payment or too many open, `VELOCITY_EXCEEDED` for a window.
    pub fn admits(&self, amount: Money, usage: Usage) -> Result<(), Refusal> {
        let name = &self.id;
        if self.per_payment.is_some_and(|most| amount.minor() > most.minor()) {
            return Err(Refusal::of_field(
                Code::MandateExceeded,
                "amount",
                format_args!("is more than limit {name:?} allows for one payment"),
            ));
        }
        if self.open.is_some_and(|most| usage.open >= most) {
            return Err(Refusal::new(
                Code::MandateExceeded,
                format!("limit {name:?} allows no more open payments; let some end first"),
            ));
        }
        let Some(window) = self.window else { return Ok(()) };
        let over = || {
            Err(Refusal::new(
                Code::VelocityExceeded,
                format!("limit {name:?} is used up for now; it counts the last {} hours", window.span.as_secs() / 3600),
            ))
        };
        if window.count.is_some_and(|most| usage.count >= most) {
            return over();
        }
        let total = usage.amount_minor.checked_add(amount.minor());
        if window.amount.is_some_and(|most| total.is_none_or(|total| total > most.minor())) {
            return over();
        }
        Ok(())
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
}
