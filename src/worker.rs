//! The loop around the journal's tick.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::journal::{Journal, Progress};

/// Ticks until `stop` turns: every `every`, and at once when this process made something due.
///
/// A tick under way ends before this returns. *Crash*: nothing is kept here.
pub async fn run(journal: Arc<Journal>, every: Duration, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let progress = journal.tick().await.unwrap_or_else(|refusal| {
            tracing::warn!(error = %refusal, "a worker tick failed; it is repeated");
            Progress::default()
        });
        // Work that was done may have made more due; a failing row waits for its lease.
        if progress.claimed > progress.failed {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = journal.woken() => {}
            () = tokio::time::sleep(every) => {}
        }
    }
}
