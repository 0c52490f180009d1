//! The payment's own rules, as pure functions.
//!
//! *Invariant*: no input or output, no clock, no randomness, no async. Time and random numbers
//! arrive as arguments; decisions leave as values.

mod choice;
mod id;
mod money;
mod principal;
mod refusal;
mod text;
mod time;

pub use choice::Choice;
pub use id::{
    AgentId, DecisionId, EffectId, IdempotencyKey, KeyId, LeaseToken, OrderId, PaymentId, SignerId, TenantId,
};
pub use money::{Currency, MAX_MINOR, Money};
pub use principal::{Principal, Role};
pub use refusal::{Code, Entry, PaymentRef, Refusal};
pub use text::{Account, Memo, PartyName, Reason};
pub use time::Timestamp;
