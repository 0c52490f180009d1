//! How many calls one caller may make.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::domain::{Code, Principal, Refusal};

/// Calls between two sweeps of callers that are back at rest.
const SWEEP_EVERY: u32 = 1_024;

/// A token bucket for each caller: tenant, client and subject together.
///
/// In memory, so each replica counts for itself: a caller gets the rate once per replica.
#[derive(Debug)]
pub struct Limits {
    buckets: DefaultKeyedRateLimiter<String>,
    clock: DefaultClock,
    calls: AtomicU32,
}

impl Limits {
    /// Buckets of `burst` calls that refill at `per_minute`; zero counts as one.
    pub fn new(per_minute: u32, burst: u32) -> Self {
        let at_least_one = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_minute(at_least_one(per_minute)).allow_burst(at_least_one(burst));
        Self { buckets: RateLimiter::keyed(quota), clock: DefaultClock::default(), calls: AtomicU32::new(0) }
    }

    /// Takes one call from the caller's bucket.
    ///
    /// *Errors*: `RATE_LIMITED`, with the time until the next call fits.
    pub fn take(&self, principal: &Principal) -> Result<(), Refusal> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            self.buckets.retain_recent();
            self.buckets.shrink_to_fit();
        }
        self.buckets.check_key(&key(principal)).map_err(|full| {
            let wait = full.wait_time_from(self.clock.now());
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
            Refusal::new(Code::RateLimited, "too many calls; wait, then send the same call again").after_ms(millis)
        })
    }
}

/// Tenant and client names hold no line end, so the parts can't run into each other.
fn key(principal: &Principal) -> String {
    format!("{}\n{}\n{}", principal.tenant, principal.client, principal.subject)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn caller(client: &str, subject: &str) -> Principal {
        Principal {
            tenant: "acme".parse().unwrap(),
            client: client.parse().unwrap(),
            subject: subject.to_owned(),
            roles: BTreeSet::new(),
            scopes: BTreeSet::new(),
        }
    }

    #[test]
    fn a_burst_is_followed_by_a_wait_that_is_told() {
        let limits = Limits::new(6, 2);
        let one = caller("a", "s");
        assert!(limits.take(&one).is_ok() && limits.take(&one).is_ok());
        let refusal = limits.take(&one).unwrap_err();
        assert_eq!(refusal.code, Code::RateLimited);
        let wait = refusal.retry_after_ms().unwrap();
        assert!((9_000..=10_001).contains(&wait), "{wait}");
    }

    #[test]
    fn callers_do_not_share_a_bucket() {
        let limits = Limits::new(1, 1);
        for other in [caller("a", "s"), caller("a", "t"), caller("b", "s")] {
            assert!(limits.take(&other).is_ok());
            assert!(limits.take(&other).is_err());
        }
    }

    #[test]
    fn callers_at_rest_are_forgotten() {
        let limits = Limits::new(u32::MAX, 1);
        for n in 0..SWEEP_EVERY * 2 {
            let _ = limits.take(&caller("a", &n.to_string()));
        }
        assert!(limits.buckets.len() <= 1_100, "{}", limits.buckets.len());
    }
}
