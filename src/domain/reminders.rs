//! When people who were reached are asked again, and when more of them are.
//!
//! A function of the payment's own times: nothing is counted and nothing kept, so a process that was away for hours
//! sends one reminder and not all that it missed.

use std::time::Duration;

use super::payment::Terms;
use super::time::Timestamp;

/// The most reminders after the first message, those at parts of the payment's life apart.
const MOST: usize = 8;
/// What a reminder may be late by, so that those of many payments spread out: a tenth of its wait, at most this.
const MOST_JITTER: Duration = Duration::from_mins(5);

/// How far those who are asked reach beyond whom the agent or an operator named, and beyond people's own places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asking {
    /// Everybody who may decide, and not only those named.
    pub widened: bool,
    /// Deputies, too.
    pub deputies: bool,
}

/// The plan of reminders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reminders {
    /// After the people asked now were first asked, in rising order; then zeros.
    after: [Duration; MOST],
    /// After so many hundredths of the payment's life everybody who may decide is asked, and not only those
    /// whom the agent or an operator named. 0: never.
    widen_at: u8,
    /// After so many hundredths of it everybody asked is told once more. 0: never.
    last_call_at: u8,
}

impl Reminders {
    /// None at all.
    pub const NONE: Self = Self { after: [Duration::ZERO; MOST], widen_at: 0, last_call_at: 0 };

    /// A plan; `None` when it is not one: too many, not rising, or past the end of life.
    pub fn new(after: &[Duration], widen_at: u8, last_call_at: u8) -> Option<Self> {
        let mut plan = Self { widen_at, last_call_at, ..Self::NONE };
        let rising = after.first().is_none_or(|first| !first.is_zero()) && after.is_sorted_by(|a, b| a < b);
        if !rising || after.len() > MOST || widen_at >= 100 || last_call_at >= 100 {
            return None;
        }
        for (place, wait) in plan.after.iter_mut().zip(after) {
            *place = *wait;
        }
        Some(plan)
    }

    /// Whether everybody who may decide is asked by now.
    pub fn widened(&self, terms: &Terms, now: Timestamp) -> bool {
        at_part(terms, self.widen_at).is_some_and(|at| at <= now)
    }

    /// Whether people who were first asked at `since` have been left alone until the first reminder.
    pub fn had_their_time(&self, terms: &Terms, since: Timestamp, now: Timestamp) -> bool {
        self.next(terms, since, since, 0).is_some_and(|first| first <= now)
    }

    /// When the next reminder is due after `now`, for people who were first asked at `since`; never after the
    /// payment's time is over. `roll` is any random number.
    pub fn next(&self, terms: &Terms, since: Timestamp, now: Timestamp, roll: u64) -> Option<Timestamp> {
        let waits = self.after.iter().filter(|wait| !wait.is_zero()).map(|wait| since.plus(*wait));
        // Without a wish everybody is asked from the beginning.
        let widening = at_part(terms, self.widen_at).filter(|_| !terms.wish.is_empty());
        let parts = [widening, at_part(terms, self.last_call_at)].into_iter().flatten();
        let at = waits.chain(parts).filter(|at| *at > now && *at < terms.expires_at).min()?;
        let tenth = (at.since(now) / 10).min(MOST_JITTER);
        let spread = u64::try_from(tenth.as_micros()).unwrap_or(0).saturating_add(1);
        let late = at.plus(Duration::from_micros(roll.checked_rem(spread).unwrap_or(0)));
        Some(if late < terms.expires_at { late } else { at })
    }
}

/// When so many hundredths of the payment's life are over.
fn at_part(terms: &Terms, hundredths: u8) -> Option<Timestamp> {
    let life = terms.expires_at.since(terms.created_at);
    (hundredths > 0).then(|| terms.created_at.plus((life / 100).saturating_mul(u32::from(hundredths))))
}
