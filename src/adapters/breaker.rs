//! A circuit breaker: what is down is left alone for a while, then asked by one call.
//!
//! Closed, calls go out. After so many failures in a row that mean "down", it opens: calls end as
//! not sent, without touching the network. When its wait is over it is half open: one call goes
//! out, and its ending closes the breaker or opens it anew.
//!
//! *Invariant*: it only ever keeps a call from being sent, which the journal hears as `NotSent`.
//! Each process judges for itself; nothing is stored.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::{Clock, Entropy};
use crate::domain::Timestamp;
use crate::telemetry::metrics::metrics;

/// When a breaker opens and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPlan {
    /// Failures in a row that open it; 0 for never.
    pub failures: u32,
    /// How long it stays open, at most; between half of that and the whole, by chance.
    pub wait: Duration,
}

/// What an ended call says about the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vital {
    /// It answered, whatever it said.
    Alive,
    /// It can't be reached, fails, or is silent.
    Down,
    /// Nothing: it was not asked.
    Silent,
}

/// The breaker of one dependency.
#[derive(Debug)]
pub(super) struct Breaker {
    name: &'static str,
    plan: BreakerPlan,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Calls go out; so many failed in a row.
    Closed { failed: u32 },
    /// No call goes out before `wait` has passed.
    Open { since: Timestamp, wait: Duration },
    /// One call is out to see.
    Probing,
}

/// Leave to make one call. Dropped without [`Permit::settle`], the call said nothing.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

/// What others wait at least while one call is out to see.
const PROBE_TAKES: Duration = Duration::from_secs(1);

impl Breaker {
    pub(super) fn new(
        name: &'static str,
        plan: BreakerPlan,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Arc<Self> {
        // A series from the start: an alarm on one that is not there yet never rings.
        metrics().breaker_stands(name, "closed");
        Arc::new(Self { name, plan, clock, entropy, state: Mutex::new(State::Closed { failed: 0 }) })
    }

    /// `closed`, `open` or `half_open`, for people.
    pub(super) fn word(&self) -> &'static str {
        match *self.state() {
            State::Closed { .. } => "closed",
            State::Open { since, wait } if self.left(since, wait).is_some() => "open",
            State::Open { .. } | State::Probing => "half_open",
        }
    }

    /// Leave to make a call.
    ///
    /// *Errors*: how long to wait before asking again.
    pub(super) fn enter(&self) -> Result<Permit<'_>, Duration> {
        let mut state = self.state();
        let probe = match *state {
            State::Closed { .. } => false,
            State::Probing => return Err(PROBE_TAKES),
            State::Open { since, wait } => match self.left(since, wait) {
                Some(left) => return Err(left),
                None => true,
            },
        };
        if probe {
            *state = State::Probing;
            self.told("half_open");
        }
        Ok(Permit { breaker: self, probe })
    }

    /// What is left of a wait; a clock that was set back ends it.
    fn left(&self, since: Timestamp, wait: Duration) -> Option<Duration> {
        let now = self.clock.now();
        if now < since { None } else { wait.checked_sub(now.since(since)).filter(|left| !left.is_zero()) }
    }

    fn ended(&self, probe: bool, vital: Vital) {
        let mut state = self.state();
        match (*state, probe, vital) {
            (State::Probing, true, Vital::Alive) => {
                *state = State::Closed { failed: 0 };
                self.told("closed");
            }
            (State::Probing, true, Vital::Down) => *state = self.opened(),
            // Whoever comes next looks instead.
            (State::Probing, true, Vital::Silent) => {
                *state = State::Open { since: self.clock.now(), wait: Duration::ZERO };
            }
            (State::Closed { .. }, false, Vital::Alive) => *state = State::Closed { failed: 0 },
            (State::Closed { failed }, false, Vital::Down) => {
                let failed = failed.saturating_add(1);
                let opens = self.plan.failures > 0 && failed >= self.plan.failures;
                *state = if opens { self.opened() } else { State::Closed { failed } };
            }
            // Calls that were out when it opened; they were made before it did.
            (State::Closed { .. } | State::Open { .. } | State::Probing, _, _) => {}
        }
    }

    fn opened(&self) -> State {
        let half = self.plan.wait / 2;
        let spread = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).saturating_add(1);
        let extra = self.entropy.u64().checked_rem(spread).unwrap_or(0);
        self.told("open");
        State::Open { since: self.clock.now(), wait: half.saturating_add(Duration::from_micros(extra)) }
    }

    fn told(&self, state: &'static str) {
        metrics().breaker(self.name, state);
        if state == "open" {
            tracing::warn!(upstream.name = self.name, state, "the circuit breaker changed");
        } else {
            tracing::info!(upstream.name = self.name, state, "the circuit breaker changed");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Tells how the call ended.
    pub(super) fn settle(mut self, vital: Vital) {
        self.breaker.ended(self.probe, vital);
        // Nothing is left to be told on drop.
        self.probe = false;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.breaker.ended(true, Vital::Silent);
        }
    }
}
