//! The outside, as the journal sees it: signer service, rail, and what each answer proves.
//!
//! A method that changes anything outside takes a [`Recorded`], which only the journal mints,
//! after the intent's COMMIT has returned. Methods that only read take none.
//! `prepare_*` are pure: they build the exact bytes that the intent row keeps and that every
//! attempt sends unchanged.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;

pub use super::outbox::Posting;
pub use super::receipt::{Arrival, Receipt};
pub use super::recorded::Recorded;
pub use super::told::{Elsewhere, Judged, Verdicts};
use crate::domain::{Money, SignerId, Timestamp};
use crate::proof::{Challenge, Proof};

/// Why the other side did not do what was asked, or why we can't tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// 401 or 403: our key is refused.
    Unauthorized,
    /// Connect refused, name not resolved, TLS failed; or 5xx; or the breaker is open.
    Unavailable,
    /// No answer within the time-out.
    Timeout,
    /// 404.
    NotFound,
    /// 409.
    Conflict,
    /// 429.
    RateLimited,
    /// 3xx: redirects are never followed.
    Redirect,
    /// Truncated, too large, not JSON, not the contract's shape, or a success status without one.
    Garbage,
    /// A well-formed answer that speaks of another payment, amount, currency or payee.
    Mismatch,
    /// An explicit refusal on the adapter's allow-list.
    Rejected,
    /// The attempt's time to send had passed before a byte was written.
    TooLate,
}

impl Cause {
    /// A stable word for logs, audit and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::RateLimited => "rate_limited",
            Self::Redirect => "redirect",
            Self::Garbage => "garbage",
            Self::Mismatch => "mismatch",
            Self::Rejected => "rejected",
            Self::TooLate => "too_late",
        }
    }
}

/// A failed call, in words that may be shown: no body, no header, no secret of the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of trouble.
    pub cause: Cause,
    /// HTTP status, when one arrived.
    pub status: Option<u16>,
    /// The other side's stable code, when it sent a well-formed one (`[a-z0-9_]{1,64}`); `breaker_open`
    /// without a status when the call was kept from it.
    pub code: Option<String>,
    /// `Retry-After`, when it was sent; or until the breaker lets a call through.
    pub retry_after: Option<Duration>,
}

impl Trouble {
    /// Trouble with no more to say.
    pub const fn of(cause: Cause) -> Self {
        Self { cause, status: None, code: None, retry_after: None }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause.as_str())?;
        if let Some(status) = self.status {
            write!(f, " (HTTP {status})")?;
        }
        if let Some(code) = &self.code {
            write!(f, " [{code}]")?;
        }
        Ok(())
    }
}

/// What one attempt at a side effect proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It happened, and the answer matches what was asked.
    Done(T),
    /// The other side says it will not do it, and did not.
    Refused(Trouble),
    /// Provably no byte of the request left.
    NotSent(Trouble),
    /// Anything else: it may have happened.
    Unknown(Trouble),
}

impl<T> Outcome<T> {
    /// The trouble that the other side refuses it with.
    pub const fn refusal(&self) -> Option<&Trouble> {
        match self {
            Self::Refused(trouble) => Some(trouble),
            Self::Done(_) | Self::NotSent(_) | Self::Unknown(_) => None,
        }
    }
}

/// What a read yielded.
pub type Answer<T> = Result<T, Trouble>;

/// What the signer service is told of a payment.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The payment, as the signer service refers to it in callbacks.
    pub reference: String,
    /// The signing round; a new one replaces the old.
    pub round: i64,
    /// The canonical payment document.
    pub payload: String,
    /// Its digest, base64url.
    pub payment_digest: String,
    /// One single-use challenge per eligible signer.
    pub challenges: Vec<Challenge>,
    /// With how many of their keys each of them approves.
    pub confirmations: u32,
    /// Until when decisions count.
    pub expires_at: Timestamp,
}

/// The signer service knows the payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The signer service's own id for it.
    pub id: String,
    /// The round it holds.
    pub round: i64,
}

/// How an attempt to reach the signers ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notified {
    /// `None` when a channel accepted the message for somebody, or may still; else why the people can't be reached, by a
    /// stable word of the service's, such as `offline`.
    pub unreachable: Option<String>,
    /// What became of it for each signer, as the service tells it; proves nothing.
    pub receipts: Vec<Receipt>,
}

/// One decision as the signer service keeps it. Proves nothing until verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDecision {
    /// The signer service's id for it.
    pub decision_id: String,
    /// The canonical decision document.
    pub document: String,
    /// What proves it.
    pub proof: Proof,
}

/// What the signer service knows of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignerStatus {
    /// The round it holds.
    pub round: i64,
    /// `open` or `closed`.
    pub open: bool,
    /// Which of the asked signers are reachable now.
    pub online: Vec<(String, bool)>,
    /// The decisions it keeps.
    pub decisions: Vec<KeptDecision>,
    /// What became of the last notification, and who looked; empty where the service does not say.
    pub receipts: Vec<Receipt>,
    /// SHA-256, in hex, of what it was told last of this round's decisions; empty before the first time, `None` where it
    /// does not want to be told.
    pub told: Option<String>,
}

/// An address where a signer can look and decide; not a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignLink {
    /// The page's address.
    pub url: String,
    /// When the link lapses; the payment does not.
    pub expires_at: Timestamp,
    /// Where the page's address is an image that a phone reads off a screen; empty where the service has none.
    pub qr_url: String,
}

/// The signer service.
pub trait SignerPort: Send + Sync + fmt::Debug {
    /// The exact body of a registration.
    fn prepare_register(&self, registration: &Registration) -> String;
    /// The exact body of a notification: its number and whom to reach.
    fn prepare_notify(&self, round: i64, number: i64, signers: &[String]) -> String;
    /// Whom a notification of that body asks.
    fn asked_in(&self, body: &str) -> Vec<SignerId>;
    /// The exact body of a closing: in which round no more decisions are wanted, and why.
    fn prepare_close(&self, round: i64, reason: &str) -> String;

    /// Makes the payment known (`signer.register`).
    fn register<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<Registered>>;
    /// Tries to reach the signers (`signer.notify`); the target is the service's id.
    fn notify<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<Notified>>;
    /// Says that no more decisions are wanted (`signer.cancel`); the target is the service's id.
    fn close<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<()>>;

    /// Looks a payment up by our reference.
    fn find<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Answer<Option<Registered>>>;
    /// Reads status and decisions by the service's id.
    fn status<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Answer<SignerStatus>>;
    /// The exact body that says what has become of a round's decisions.
    fn prepare_verdicts(&self, verdicts: &Verdicts) -> String;
    /// Says so, by the service's id. Moves nothing, may be repeated, and is not journaled.
    fn tell_verdicts<'a>(&'a self, id: &'a str, body: &'a str) -> BoxFuture<'a, Answer<()>>;
    /// Asks for a fresh link by the service's id.
    fn sign_link<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Answer<SignLink>>;
    /// The circuit breaker's state: `closed`, `open` or `half_open`.
    fn breaker(&self) -> &'static str {
        "closed"
    }
    /// Whether the service answers and accepts our key.
    fn health(&self) -> BoxFuture<'_, Answer<()>>;
}

/// The reference signer service's presence switch; wired in the dev profile only.
///
/// Not a payment's side effect: it moves nothing and is never journaled.
pub trait PresencePort: Send + Sync + fmt::Debug {
    /// Sets whether a signer can be reached.
    fn set_online<'a>(&'a self, signer: &'a str, online: bool) -> BoxFuture<'a, Answer<()>>;
}

/// How the rail treats a key it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dedup {
    /// It does not: a repeated request may pay again.
    None,
    /// The same key answers the same for this long.
    Ttl(Duration),
    /// The same key answers the same for ever.
    Forever,
}

/// What a rail promises; declared in configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RailCaps {
    /// How repeated keys are treated.
    pub dedup: Dedup,
    /// How long after a request "not found" may still mean "not yet visible".
    pub read_lag: Duration,
    /// How long a request whose answer is missing may be under way before the rail carries it out.
    pub in_flight: Duration,
}

/// What is to be moved.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Our reference; look-ups go by it.
    pub reference: String,
    /// The order, for the statement.
    pub order_id: String,
    /// How much.
    pub amount: Money,
    /// From.
    pub payer_account: String,
    /// To.
    pub payee_account: String,
    /// To whom.
    pub payee_name: String,
    /// What for.
    pub purpose: String,
}

/// The rail's word that money moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailReceipt {
    /// The rail's id for the transfer.
    pub transfer_id: String,
    /// The canonical receipt, for evidence.
    pub document: String,
}

/// What the rail knows under our reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// It moved the money, exactly as asked.
    Found(RailReceipt),
    /// It holds a definitive refusal under our reference.
    FoundRefused(Trouble),
    /// It has something under our reference that is not what we asked.
    Differs,
    /// It has nothing under our reference; not the same as "not paid".
    NotFound,
    /// It could not say.
    Inconclusive(Trouble),
}

/// What moves the money.
pub trait RailPort: Send + Sync + fmt::Debug {
    /// What this rail promises.
    fn caps(&self) -> RailCaps;
    /// The exact body of a transfer.
    fn prepare(&self, transfer: &Transfer) -> String;
    /// Moves the money (`rail.execute`): one attempt, one request.
    fn execute<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<RailReceipt>>;
    /// Asks what became of a transfer; `body` is the recorded request it must match.
    fn lookup<'a>(&'a self, reference: &'a str, body: &'a str) -> BoxFuture<'a, Lookup>;
    /// The circuit breaker's state: `closed`, `open` or `half_open`.
    fn breaker(&self) -> &'static str {
        "closed"
    }
    /// Whether the rail answers and accepts our key.
    fn health(&self) -> BoxFuture<'_, Answer<()>>;
}

/// What became of one attempt at telling a receiver of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// 2xx: it has it.
    Taken,
    /// 410: it wants this no more.
    Gone,
    /// Anything else: to be tried again.
    Missed(Miss),
}

/// Why an event was not taken, in words that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    /// A stable word.
    pub why: &'static str,
    /// HTTP status, when one arrived.
    pub status: Option<u16>,
    /// `Retry-After`, when it was sent.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)?;
        self.status.map_or(Ok(()), |status| write!(f, " (HTTP {status})"))
    }
}

/// Those who are told of payments.
pub trait WebhookPort: Send + Sync + fmt::Debug {
    /// Where events go; empty when nobody wants any.
    fn targets(&self) -> &[String];
    /// Sends an event to its target: one attempt, one request.
    fn post<'a>(&'a self, posting: &'a Posting) -> BoxFuture<'a, Delivery>;
}

/// Why a sink did not take a checkpoint, in words that may be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkTrouble(pub String);

/// Where checkpoints of the audit go: a place that the database's owner does not own.
pub trait CheckpointPort: Send + Sync + fmt::Debug {
    /// The last note kept for a tenant; `None` where there is none, or the sink can't be asked.
    fn last<'a>(&'a self, tenant: &'a str) -> BoxFuture<'a, Result<Option<String>, SinkTrouble>>;

    /// Keeps a note: when this returns, it is there to stay. The same note twice is harmless.
    fn store<'a>(&'a self, tenant: &'a str, note: &'a str) -> BoxFuture<'a, Result<(), SinkTrouble>>;
}
