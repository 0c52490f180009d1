//! The payment's own rules, as pure functions.
//!
//! *Invariant*: no input or output, no clock, no randomness, no async. Time and random numbers
//! arrive as arguments; decisions leave as values.

mod attention;
mod backoff;
mod choice;
mod id;
mod invariant;
mod money;
mod payment;
mod policy;
mod principal;
mod quorum;
mod refusal;
mod reminders;
mod text;
mod time;
mod transition;
mod wake;

pub use attention::Attention;
pub use backoff::{Backoff, Schedule};
pub use choice::Choice;
pub use id::{
    AgentId, DecisionId, EffectId, EventId, IdempotencyKey, KeyId, LeaseToken, OrderId, PaymentId, RestoreId, SignerId,
    TenantId,
};
pub use invariant::{Invariant, broken, broken_by};
pub use money::{Currency, MAX_MINOR, Money};
pub use payment::{Closing, Execution, Notice, Payment, Phase, Stage, Status, Terms};
pub use policy::{
    Answer, ApprovalPolicy, Bound, Counts, Deputy, Facts, Group, Lack, Level, Limit, Payees, Policy, PolicyFault,
    Proposed, Usage, Window,
};
pub use principal::{Principal, Role};
pub use quorum::{
    Cast, Progress, Standing, Turn, Vote, cast, enough, evaluate, has_voice, is_barred, is_requester, lost, opened_at,
    progress, wants, wants_own,
};
pub use refusal::{Code, Entry, PaymentRef, Refusal};
pub use reminders::{Asking, Reminders};
pub use text::{Account, KeyLabel, Memo, PartyName, Reason};
pub use time::Timestamp;
pub use transition::{Applied, Asker, Effect, Event, Finding, Moment, Reach, SignerTrouble, Timing, apply};
pub use wake::{ExecutionStep, execution_step, may_resend, may_send, next_wake, sends_again, still_says};
