//! Whether writes go well: a database may answer reads and take no writes, as on a full disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::fault::StoreFault;
use crate::ambient::Clock;
use crate::domain::Timestamp;

/// How long a failed write is remembered when no other follows.
const REMEMBERED: Duration = Duration::from_secs(10);

/// How the last write of this process ended.
#[derive(Debug, Clone)]
pub(super) struct Writes {
    /// When it failed for want of the database, in microseconds; 0 when it went well.
    failed_at: Arc<AtomicI64>,
    clock: Arc<dyn Clock>,
}

impl Writes {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { failed_at: Arc::default(), clock }
    }

    /// Remembers an ending, and hands it on.
    pub(super) fn note<T>(&self, ended: Result<T, StoreFault>) -> Result<T, StoreFault> {
        if matches!(ended, Err(StoreFault::Unavailable(_))) {
            self.failed_at.store(self.clock.now().micros(), Ordering::Relaxed);
        }
        ended
    }

    /// Remembers that a commit went well.
    pub(super) fn went_well(&self) {
        self.failed_at.store(0, Ordering::Relaxed);
    }

    /// *Errors*: the last write failed, not long ago.
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        let failed_at = Timestamp::from_micros(self.failed_at.load(Ordering::Relaxed));
        let lately = failed_at.micros() != 0 && self.clock.now().since(failed_at) < REMEMBERED;
        if lately { Err(StoreFault::Unavailable(sqlx::Error::Protocol("writes fail".to_owned()))) } else { Ok(()) }
    }
}
