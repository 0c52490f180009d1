//! What this process knows of the database it works at: one that knows less of it is an older one.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwapOption;

use crate::domain::Timestamp;
use crate::store::EffectRow;

/// The last intent to move money that this process committed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its outbound key.
    pub(super) key: String,
    /// Attempts started by then.
    pub(super) attempts: i64,
    at: Timestamp,
}

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Known {
    word: AtomicI64,
    sent: ArcSwapOption<Sent>,
}

/// What was known at one moment: read before the database is asked, since what this process commits meanwhile
/// its answer need not show.
#[derive(Debug)]
pub(super) struct Then {
    /// The last word of a worker that was left or read here, in Unix microseconds; 0 before the first.
    pub(super) word: i64,
    pub(super) sent: Option<Arc<Sent>>,
}

impl Known {
    pub(super) fn then(&self) -> Then {
        Then { word: self.word.load(Ordering::SeqCst), sent: self.sent.load_full() }
    }

    /// A worker's word is `seen` in the database.
    pub(super) fn saw(&self, seen: i64) {
        self.word.fetch_max(seen, Ordering::SeqCst);
    }

    /// This process committed an intent at `at`, by the store's time.
    pub(super) fn committed(&self, effect: &EffectRow, at: Timestamp) {
        let new = Arc::new(Sent { key: effect.outbound_key.clone(), attempts: effect.attempts, at });
        self.sent.rcu(|last| match last {
            Some(last) if last.at > at => Some(Arc::clone(last)),
            _ => Some(Arc::clone(&new)),
        });
    }

    /// The database that has forgotten what was known `then` is from now on the one that is worked at.
    pub(super) fn forget(&self, then: &Then, seen: i64) {
        // Another task may have been first; what it put there since is of the new one.
        let _ = self.word.compare_exchange(then.word, seen, Ordering::SeqCst, Ordering::SeqCst);
        self.sent.compare_and_swap(&then.sent, None);
    }
}
