//! Clock and entropy: the two things a pure function must be handed.
//!
//! Nothing else in the crate reads the time of day or the random generator, so a test
//! moves the clock and a run can be repeated.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::Timestamp;

/// Tells the time of day.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Now, in Unix microseconds.
    fn now(&self) -> Timestamp;
    /// How far this clock has been moved from the true time, in microseconds.
    ///
    /// A store whose database keeps the time adds this to the database's own clock.
    fn shift(&self) -> i64 {
        0
    }
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

#[expect(clippy::disallowed_methods, reason = "the one place that asks the machine for the time")]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let true_time = Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
        true_time.plus_micros(crate::crash::clock_error())
    }
}

/// The machine's clock moved by an amount that a test sets.
#[derive(Debug, Default)]
pub struct ShiftedClock {
    shift: AtomicI64,
}

impl ShiftedClock {
    /// Moves the clock forward by `micros` (backward when negative).
    pub fn advance(&self, micros: i64) {
        self.shift.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus_micros(self.shift())
    }
    fn shift(&self) -> i64 {
        self.shift.load(Ordering::SeqCst)
    }
}

/// Yields random bytes.
pub trait Entropy: Send + Sync + std::fmt::Debug {
    /// Fills `bytes` with random data.
    fn fill(&self, bytes: &mut [u8]);

    /// A random 64-bit number.
    fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random 128-bit number.
    fn u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

/// The operating system's generator.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// Ends the process when the operating system has no randomness: nothing safe can follow.
    fn fill(&self, bytes: &mut [u8]) {
        if getrandom::fill(bytes).is_err() {
            std::process::abort();
        }
    }
}
