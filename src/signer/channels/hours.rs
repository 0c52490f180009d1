//! Hours in which a person is left alone, by the clock on their wall.

use chrono::{DateTime, Days, NaiveTime, TimeDelta, TimeZone as _};
use chrono_tz::Tz;

use crate::domain::Timestamp;

/// A person's time zone and, if they have any, the hours in which nothing is sent.
#[derive(Debug, Clone, Copy)]
pub(in crate::signer) struct Hours {
    zone: Tz,
    quiet: Option<(NaiveTime, NaiveTime)>,
}

impl Hours {
    /// Reads an IANA zone (empty: UTC) and hours such as `22:00-07:00` (empty: none).
    pub(in crate::signer) fn parse(zone: &str, quiet: &str) -> Result<Self, String> {
        let zone = if zone.is_empty() {
            Tz::UTC
        } else {
            zone.parse().map_err(|_| format!("zone: {zone:?} is no IANA time zone, such as Europe/Berlin"))?
        };
        if quiet.is_empty() {
            return Ok(Self { zone, quiet: None });
        }
        let clock = |text: &str| NaiveTime::parse_from_str(text.trim(), "%H:%M").ok();
        let read = quiet.split_once('-').and_then(|(from, to)| Some((clock(from)?, clock(to)?)));
        match read {
            Some((from, to)) if from != to => Ok(Self { zone, quiet: Some((from, to)) }),
            _ => Err(format!("quiet_hours: {quiet:?} is not like 22:00-07:00")),
        }
    }

    /// When the quiet hours end that `now` is in; `None` outside them.
    pub(in crate::signer) fn quiet_until(&self, now: Timestamp) -> Option<Timestamp> {
        let (from, to) = self.quiet?;
        let here = self.local(now)?;
        let time = here.time();
        let over_midnight = from > to;
        let inside = if over_midnight { time >= from || time < to } else { time >= from && time < to };
        if !inside {
            return None;
        }
        let day = here.date_naive();
        let day = if over_midnight && time >= from { day.checked_add_days(Days::new(1))? } else { day };
        // A time that the clocks skip that day is the first one after the gap; one they show twice, the first.
        let end = (0..=4).find_map(|half_hours| {
            let at = day.and_time(to).checked_add_signed(TimeDelta::minutes(30 * half_hours))?;
            self.zone.from_local_datetime(&at).earliest()
        })?;
        Some(Timestamp::from_micros(end.timestamp_micros()))
    }

    /// An instant as the person's clock and calendar show it, with the zone's abbreviation.
    pub(in crate::signer) fn shown(&self, at: Timestamp) -> String {
        self.local(at).map_or_else(|| at.rfc3339(), |at| at.format("%Y-%m-%d %H:%M %Z").to_string())
    }

    fn local(&self, at: Timestamp) -> Option<DateTime<Tz>> {
        DateTime::from_timestamp_micros(at.micros()).map(|at| at.with_timezone(&self.zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn quiet_hours_follow_the_clock_on_the_persons_wall() {
        let night = Hours::parse("Europe/Berlin", "22:00-07:00").unwrap();
        let noon = Hours::parse("Asia/Shanghai", "12:00-13:30").unwrap();
        let utc = Hours::parse("", "00:00-06:00").unwrap();
        for (hours, now, until) in [
            // Winter: an hour ahead of UTC.
            (night, "2026-01-10T20:59:59Z", None),
            (night, "2026-01-10T21:00:00Z", Some("2026-01-11T06:00:00Z")),
            (night, "2026-01-11T05:59:59Z", Some("2026-01-11T06:00:00Z")),
            (night, "2026-01-11T06:00:00Z", None),
            // Summer: two; and the night in which the clocks go back has one hour more.
            (night, "2026-07-10T20:00:00Z", Some("2026-07-11T05:00:00Z")),
            (night, "2026-10-24T20:00:00Z", Some("2026-10-25T06:00:00Z")),
            (noon, "2026-01-10T04:00:00Z", Some("2026-01-10T05:30:00Z")),
            (noon, "2026-01-10T05:30:00Z", None),
            (utc, "2026-01-10T00:00:00Z", Some("2026-01-10T06:00:00Z")),
            (utc, "2026-01-10T23:59:59Z", None),
        ] {
            assert_eq!(hours.quiet_until(at(now)), until.map(at), "{now}");
        }
    }

    #[test]
    fn quiet_hours_that_end_in_a_skipped_hour_end_after_it() {
        // On 29 March 2026 Berlin's clocks go from 02:00 to 03:00.
        let hours = Hours::parse("Europe/Berlin", "22:00-02:30").unwrap();
        assert_eq!(hours.quiet_until(at("2026-03-28T23:00:00Z")), Some(at("2026-03-29T01:00:00Z")));
    }

    #[test]
    fn what_is_no_zone_and_what_are_no_hours_is_named() {
        assert!(Hours::parse("Mars/Base", "").unwrap_err().contains("zone"));
        for hours in ["22:00", "22:00-22:00", "25:00-07:00", "late-early", "22:00/07:00"] {
            assert!(Hours::parse("UTC", hours).unwrap_err().contains("quiet_hours"), "{hours}");
        }
        assert!(Hours::parse("UTC", "").unwrap().quiet_until(at("2026-01-10T03:00:00Z")).is_none());
    }

    #[test]
    fn times_are_shown_as_the_person_reads_them() {
        let hours = Hours::parse("Asia/Shanghai", "").unwrap();
        assert_eq!(hours.shown(at("2026-01-10T20:00:00Z")), "2026-01-11 04:00 CST");
    }
}
