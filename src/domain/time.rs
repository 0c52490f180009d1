//! Instants as Unix microseconds.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat};

/// An instant: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant `micros` microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// This instant moved by `micros`; stops at the ends of the range.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// This instant moved forward by `span`; stops at the end of the range.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This instant moved back by `span`; stops at the end of the range.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` to this instant; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// RFC 3339 in UTC with exactly three fraction digits: the form that is signed.
    pub fn rfc3339(self) -> String {
        DateTime::from_timestamp_micros(self.0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    /// This instant cut to whole milliseconds, so that its RFC 3339 text says all of it.
    #[must_use]
    pub const fn to_millis(self) -> Self {
        Self(self.0 - self.0.rem_euclid(1_000))
    }

    /// Reads an RFC 3339 text; `None` when it is not one.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().map(|at| Self(at.timestamp_micros()))
    }
}
