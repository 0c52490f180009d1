//! The payment's own rules, as pure functions.
//!
//! *Invariant*: no input or output, no clock, no randomness, no async. Time and random numbers
//! arrive as arguments; decisions leave as values.

mod backoff;
mod id;
mod money;
mod payment;
mod policy;
mod principal;
mod quorum;
mod refusal;
mod text;
mod time;
mod transition;
mod wake;

pub use backoff::{Backoff, Delay};
pub use id::{
    AgentId, DecisionId, EffectId, IdempotencyKey, KeyId, LeaseToken, OrderId, PaymentId, SignerId,
    TenantId,
};
pub use money::{Currency, MAX_MINOR, Money};
pub use payment::{
    Attention, Closing, Execution, Notice, Payment, Phase, Receipt, Status, Terms, Timing,
};
pub use policy::{ApprovalPolicy, ApprovalRule, Group, Policy, PolicyFault, RoleGrant};
pub use principal::{Principal, Role};
pub use quorum::{Choice, Standing, Vote, evaluate};
pub use refusal::{Code, PaymentRef, Refusal};
pub use text::{Account, Memo, PartyName, Reason};
pub use time::Timestamp;
pub use transition::{
    Applied, Announcement, Event, LookupFinding, Moment, Reach, SignerTrouble, apply,
};
pub use wake::next_wake;
