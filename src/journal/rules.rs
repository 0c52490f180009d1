//! Spans and defaults that the journal goes by; from configuration.

use std::collections::BTreeSet;
use std::time::Duration;

use super::context::ContextBudget;
use super::ports::{Dedup, RailCaps};
use crate::domain::{Account, Currency, Schedule, Timing};
use crate::proof::PublicKey;

/// Spans and defaults.
#[derive(Debug, Clone)]
pub struct Rules {
    /// This process, as leases and audit name it.
    pub node: String,
    /// Where it runs, as telemetry names it.
    pub environment: String,
    /// What payment documents are made for: the protected resource.
    pub audience: String,
    /// The spans of the state machine.
    pub timing: Timing,
    /// How long after its intent an attempt may still be sent: the lease less the longest call, so that
    /// a call has ended before others may take over.
    pub send_within: Duration,
    /// When the worker notifies by itself.
    pub auto_notify_after: Duration,
    /// How long decisions are accepted.
    pub expires_after: Duration,
    /// How long after that a signed payment may be started.
    pub execute_within: Duration,
    /// How long a caller may be kept waiting for news, so that a call's deadline never cuts it off.
    pub longest_wait: Duration,
    /// The currency of a request that names none.
    pub currency: Currency,
    /// Currencies accepted.
    pub currencies: BTreeSet<&'static str>,
    /// The payee of a request that names none.
    pub payee: Option<Account>,
    /// Who pays.
    pub payer: Account,
    /// How many due payments one tick takes.
    pub batch: i64,
    /// How long what has ended stays in the hot tables; `None` for ever.
    pub finished_after: Option<Duration>,
    /// After how long without a worker a database is taken for a restored backup; `None` for never.
    pub asleep: Option<Duration>,
    /// How events are delivered.
    pub events: EventRules,
    /// What an agent may be told about one payment.
    pub context: ContextBudget,
    /// Whose signature a signer's key must have to count; `None` where pinning is enough.
    pub registry_root: Option<PublicKey>,
}

/// How events are delivered.
#[derive(Debug, Clone)]
pub struct EventRules {
    /// The waits before attempts.
    pub schedule: Schedule,
    /// How long after its claim an attempt may still be sent.
    pub send_within: Duration,
    /// How long a claim holds: as long as the latest attempt may take.
    pub lease: Duration,
}

/// How long after an attempt it can no longer arrive: the longest it may be under way, or the key's life at
/// the rail where that is longer; and the read lag.
pub fn settle_after(caps: RailCaps) -> Duration {
    let life = match caps.dedup {
        // No key is remembered, so nothing but time says that a request is dead.
        Dedup::None => caps.in_flight,
        Dedup::Ttl(life) => life.max(caps.in_flight),
        Dedup::Forever => FOREVER,
    };
    life.saturating_add(caps.read_lag)
}

/// What "for ever" is worth before a person should look.
const FOREVER: Duration = Duration::from_hours(720);

/// How long the same key may be sent again: well inside the rail's memory of it.
///
/// Half the key's life, at most twelve hours: a request that is still on its way when the rail
/// forgets the key would otherwise be carried out beside the one sent again.
pub fn resend_window(caps: RailCaps) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_hours(12);
    match caps.dedup {
        Dedup::None => None,
        Dedup::Ttl(life) => Some((life / 2).min(LONGEST)),
        // Still bounded: after half a day of doubt a person should look.
        Dedup::Forever => Some(FOREVER),
    }
}
