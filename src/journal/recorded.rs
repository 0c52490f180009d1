//! The proof that an intent is durable; without it nothing leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ambient::Clock;
use crate::domain::{Timestamp, may_send};
use crate::store::EffectRow;

/// A side effect whose intent is committed and which may be attempted once.
///
/// *Invariant*: only the journal makes one, after the transaction that wrote the intent and
/// this attempt has committed.
#[derive(Debug)]
pub struct Recorded {
    key: String,
    target: String,
    body: String,
    traceparent: String,
    started: Started,
    send_within: Duration,
}

/// When an attempt began, by two clocks: the monotonic one stands still while a machine is suspended,
/// the wall clock may be set back.
#[derive(Debug, Clone)]
pub(super) struct Started {
    monotonic: Instant,
    wall: Timestamp,
    clock: Arc<dyn Clock>,
}

impl Started {
    pub(super) fn now(clock: &Arc<dyn Clock>) -> Self {
        Self { monotonic: Instant::now(), wall: clock.now(), clock: Arc::clone(clock) }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.monotonic.elapsed().max(self.clock.now().since(self.wall))
    }
}

impl Recorded {
    /// `started` is read before the transaction began, so the time to send is never overstated.
    pub(super) fn mint(row: EffectRow, started: Started, send_within: Duration) -> Self {
        let EffectRow { outbound_key, target, body, traceparent, .. } = row;
        Self { key: outbound_key, target, body, traceparent, started, send_within }
    }

    /// The outbound idempotency key: the same at every attempt.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What the request is addressed to at the other side, when it needs an id there.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The exact bytes to send.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// The trace the intent belongs to (W3C `traceparent`), or `""`.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// Whether a first byte may still be written.
    ///
    /// Asked immediately before sending. A process that slept past its lease finds `false` here:
    /// another may have taken over, and the key may be near the end of its life.
    pub fn may_send(&self) -> bool {
        may_send(self.started.elapsed(), self.send_within)
    }
}

/// Mints a [`Recorded`] for adapter tests, which have no journal.
#[cfg(test)]
pub(crate) fn for_test(key: &str, target: &str, body: &str, send_within: Duration) -> Recorded {
    let row = EffectRow {
        outbound_key: key.to_owned(),
        target: target.to_owned(),
        body: body.to_owned(),
        state: String::new(),
        attempts: 1,
        traceparent: String::new(),
    };
    let clock: Arc<dyn Clock> = Arc::new(crate::ambient::SystemClock);
    Recorded::mint(row, Started::now(&clock), send_within)
}
