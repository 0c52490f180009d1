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
    words: AtomicI64,
    sent: ArcSwapOption<Sent>,
}

/// What was known at one moment: read before the database is asked, since what this process commits meanwhile
/// its answer need not show.
#[derive(Debug)]
pub(super) struct Then {
    /// How many words of workers there were when one was last left or read here; 0 before the first.
    pub(super) words: i64,
    pub(super) sent: Option<Arc<Sent>>,
}

impl Known {
    pub(super) fn then(&self) -> Then {
        Then { words: self.words.load(Ordering::SeqCst), sent: self.sent.load_full() }
    }

    /// There are `words` of workers in the database.
    pub(super) fn saw(&self, words: i64) {
        self.words.fetch_max(words, Ordering::SeqCst);
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
    pub(super) fn forget(&self, then: &Then, words: i64) {
        // Another task may have been first; what it put there since is of the new one.
        let _ = self.words.compare_exchange(then.words, words, Ordering::SeqCst, Ordering::SeqCst);
        self.sent.compare_and_swap(&then.sent, None);
    }
}
