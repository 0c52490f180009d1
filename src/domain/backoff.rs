//! Waits between attempts: exponential with full jitter, then slow, bounded in number.

use std::time::Duration;

/// How attempts are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait, doubled at each attempt.
    pub base: Duration,
    /// The longest of the fast waits.
    pub cap: Duration,
    /// After this many attempts every wait is `slow`.
    pub fast_attempts: u32,
    /// The wait after the fast attempts.
    pub slow: Duration,
    /// Attempts in all, the first included.
    pub attempts: u32,
}

impl Backoff {
    /// The wait after `done` attempts, or `None` when they are used up.
    ///
    /// Full jitter over the upper half: between half the wait and the whole of it, so that
    /// replicas spread out and nothing is retried at once. `roll` is any random number.
    pub fn after(&self, done: u32, roll: u64) -> Option<Duration> {
        if done >= self.attempts {
            return None;
        }
        let whole = if done > self.fast_attempts {
            self.slow
        } else {
            let doubled = 1_u32.checked_shl(done.saturating_sub(1)).unwrap_or(u32::MAX);
            self.base.saturating_mul(doubled).min(self.cap)
        };
        let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
        let half = micros / 2;
        let spread = micros.saturating_sub(half).saturating_add(1);
        Some(Duration::from_micros(half.saturating_add(roll.checked_rem(spread).unwrap_or(0))))
    }
}

/// Waits listed one by one, the first before the first attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Vec<Duration>);

impl Schedule {
    /// A schedule with one attempt for each wait.
    pub const fn new(waits: Vec<Duration>) -> Self {
        Self(waits)
    }

    /// The wait after `done` attempts, or `None` when they are used up.
    ///
    /// Never shorter than listed, and up to a fifth longer by `roll`, any random number.
    pub fn after(&self, done: usize, roll: u64) -> Option<Duration> {
        let wait = *self.0.get(done)?;
        let fifth = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX) / 5;
        Some(wait.saturating_add(Duration::from_micros(roll.checked_rem(fifth.saturating_add(1)).unwrap_or(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Backoff = Backoff {
        base: Duration::from_secs(2),
        cap: Duration::from_secs(10),
        fast_attempts: 4,
        slow: Duration::from_mins(2),
        attempts: 6,
    };

    #[test]
    fn waits_double_up_to_the_cap_then_turn_slow_then_end() {
        let longest = |done| PLAN.after(done, u64::MAX / 7).map(|wait| wait.as_secs_f64());
        for (done, whole) in [(1, 2.0), (2, 4.0), (3, 8.0), (4, 10.0), (5, 120.0)] {
            for roll in [0, 1, 12_345, u64::MAX] {
                let wait = PLAN.after(done, roll).unwrap().as_secs_f64();
                assert!(wait >= whole / 2.0 && wait <= whole, "attempt {done}: {wait}");
            }
        }
        assert_eq!(longest(6), None);
        assert_eq!(longest(7), None);
    }

    #[test]
    fn a_schedule_never_waits_less_than_listed_and_ends() {
        let schedule = Schedule::new([0, 5, 300].map(Duration::from_secs).to_vec());
        for (done, wait) in [(0, 0), (1, 5), (2, 300)] {
            for roll in [0, 1, 12_345, u64::MAX] {
                let after = schedule.after(done, roll).unwrap();
                let least = Duration::from_secs(wait);
                assert!(after >= least && after <= least + least / 5, "attempt {done}: {after:?}");
            }
        }
        assert_eq!(schedule.after(3, 0), None);
    }
}
