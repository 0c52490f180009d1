//! How the sandbox is told to misbehave.

use serde::{Deserialize, Serialize};

/// The longest delay, in milliseconds.
const MAX_DELAY_MS: u32 = 60_000;
/// How often one queued fault may strike.
const MAX_TIMES: u32 = 10_000;
/// How many faults may be queued in one go.
const MAX_QUEUED: usize = 1_000;

/// One kind of misbehaviour; docs/rail-contract.md says what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FaultKind {
    DelayBefore,
    DelayAfter,
    DropRequest,
    DropReply,
    FailBefore,
    FailAfter,
    WrongAmount,
    Garbage,
    Truncate,
    Refuse,
    RateLimit,
    Unauthorized,
    Redirect,
}

impl FaultKind {
    const ALL: [Self; 13] = [
        Self::DelayBefore,
        Self::DelayAfter,
        Self::DropRequest,
        Self::DropReply,
        Self::FailBefore,
        Self::FailAfter,
        Self::WrongAmount,
        Self::Garbage,
        Self::Truncate,
        Self::Refuse,
        Self::RateLimit,
        Self::Unauthorized,
        Self::Redirect,
    ];

    /// The contract's word.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::DelayBefore => "delay_before",
            Self::DelayAfter => "delay_after",
            Self::DropRequest => "drop_request",
            Self::DropReply => "drop_reply",
            Self::FailBefore => "fail_before",
            Self::FailAfter => "fail_after",
            Self::WrongAmount => "wrong_amount",
            Self::Garbage => "garbage",
            Self::Truncate => "truncate",
            Self::Refuse => "refuse",
            Self::RateLimit => "rate_limit",
            Self::Unauthorized => "unauthorized",
            Self::Redirect => "redirect",
        }
    }

    /// Reads the word back from the file.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One fault that strikes `times` coming transfers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueuedFault {
    pub(super) kind: FaultKind,
    /// Before acting for `delay_before`, before answering for every other kind.
    #[serde(default)]
    pub(super) delay_ms: u32,
    #[serde(default = "once")]
    pub(super) times: u32,
}

const fn once() -> u32 {
    1
}

/// Lasting faults to switch; one that is not named stays as it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StandingFaults {
    forget_keys: Option<bool>,
    hide_lookups: Option<bool>,
    lookup_down: Option<bool>,
}

impl StandingFaults {
    /// Each fault that is to be switched, and how.
    pub(super) fn switches(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let all = [(FORGET_KEYS, self.forget_keys), (HIDE_LOOKUPS, self.hide_lookups), (LOOKUP_DOWN, self.lookup_down)];
        all.into_iter().filter_map(|(name, on)| on.map(|on| (name, on)))
    }
}

/// Repeated keys are executed again.
pub(super) const FORGET_KEYS: &str = "forget_keys";
/// Look-ups find nothing.
pub(super) const HIDE_LOOKUPS: &str = "hide_lookups";
/// Look-ups are answered 503.
pub(super) const LOOKUP_DOWN: &str = "lookup_down";

/// `PUT /sandbox/faults`. A `next` that is given replaces what is still queued.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultsBody {
    pub(super) next: Option<Vec<QueuedFault>>,
    pub(super) standing: Option<StandingFaults>,
}

impl FaultsBody {
    /// Whether every number is within its bounds.
    pub(super) fn is_bounded(&self) -> bool {
        let next = self.next.as_deref().unwrap_or_default();
        next.len() <= MAX_QUEUED
            && next.iter().all(|fault| fault.delay_ms <= MAX_DELAY_MS && (1..=MAX_TIMES).contains(&fault.times))
    }
}
