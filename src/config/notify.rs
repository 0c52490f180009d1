//! `[notify]`: how signers are reached, and how often they are asked again.

use std::time::Duration;

use serde::Deserialize;

use super::{ConfigFault, fault};
use crate::domain::Reminders;

/// `[notify]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Notify {
    pub auto_after_ms: u64,
    pub attempts: u32,
    pub fast_attempts: u32,
    pub base_ms: u64,
    pub cap_ms: u64,
    pub slow_ms: u64,
    pub remind_after_s: Vec<u64>,
    pub widen_at_percent: u8,
    pub last_call_at_percent: u8,
    pub check_every_ms: u64,
}

impl Notify {
    /// When people who were reached are asked again.
    ///
    /// *Errors*: what is no plan.
    pub fn reminders(&self) -> Result<Reminders, ConfigFault> {
        for (name, part) in [
            ("notify.widen_at_percent", self.widen_at_percent),
            ("notify.last_call_at_percent", self.last_call_at_percent),
        ] {
            if part >= 100 {
                return Err(fault(name, "must be less than 100"));
            }
        }
        let after: Vec<Duration> = self.remind_after_s.iter().copied().map(Duration::from_secs).collect();
        Reminders::new(&after, self.widen_at_percent, self.last_call_at_percent)
            .ok_or_else(|| fault("notify.remind_after_s", "must be at most 8 spans, each more than the one before"))
    }
}
