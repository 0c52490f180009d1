//! The proof that an intent is durable; without it nothing leaves.

use std::time::{Duration, Instant};

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
    minted: Instant,
    send_within: Duration,
}

impl Recorded {
    pub(super) fn mint(key: String, target: String, body: String, traceparent: String, send_within: Duration) -> Self {
        Self { key, target, body, traceparent, minted: Instant::now(), send_within }
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
        self.minted.elapsed() < self.send_within
    }
}

/// Mints a [`Recorded`] for adapter tests, which have no journal.
#[cfg(test)]
pub(crate) fn for_test(key: &str, target: &str, body: &str, send_within: Duration) -> Recorded {
    Recorded::mint(key.to_owned(), target.to_owned(), body.to_owned(), String::new(), send_within)
}
