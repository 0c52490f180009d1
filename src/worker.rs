//! The loops around the journal's due work: one for payments, one for each target of events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::journal::{Journal, PLACES};

/// How long deliveries under way may take to end when the process stops.
const GRACE: Duration = Duration::from_secs(2);

/// Attends to due payments and delivers events until `stop` turns.
///
/// The loops share nothing but the database: no receiver of events can hold up a payment or another
/// receiver. *Crash*: nothing is kept here.
pub async fn run(journal: Arc<Journal>, every: Duration, drain: Duration, stop: CancellationToken) {
    let targets = journal.webhook_targets().iter().cloned();
    let events = targets.map(|target| events(Arc::clone(&journal), target, every, stop.clone()));
    let events = futures::future::join_all(events);
    tokio::join!(payments(Arc::clone(&journal), every, drain, stop.clone()), events);
}

/// Attends to due payments; looks every `every`, and at once when this process made something due.
///
/// At most as many payments as a batch holds are attended to at once; a place that becomes free is taken
/// by the next, so a slow rail or signer service holds up only what it is asked about. Of two tenants with
/// work the one with fewer places gets it. Told to stop, what is under way gets `drain` to end; what is cut
/// off then is found by whoever takes it over, as after a crash.
async fn payments(journal: Arc<Journal>, every: Duration, drain: Duration, stop: CancellationToken) {
    let most = usize::try_from(journal.rules().batch).unwrap_or(1).max(1);
    let mut places = Places { most, taken: HashMap::new() };
    let mut under_way: JoinSet<bool> = JoinSet::new();
    // Whether something went well since the last look: it may have made more due.
    let mut again = true;
    while !stop.is_cancelled() {
        if again && places.free() > 0 {
            again = take(&journal, &mut under_way, &mut places).await;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            Some(ended) = under_way.join_next_with_id(), if !under_way.is_empty() => {
                let (task, well) = ended.unwrap_or_else(|err| {
                    tracing::error!(panicked = err.is_panic(), "work on a payment ended badly; it is due again when its lease ends");
                    (err.id(), false)
                });
                places.taken.remove(&task);
                again = well;
            }
            () = journal.woken() => again = true,
            () = tokio::time::sleep(every) => again = true,
        }
    }
    let ended = async { while under_way.join_next().await.is_some() {} };
    if tokio::time::timeout(drain, ended).await.is_err() {
        tracing::warn!("work on payments did not end in time and is cut off; it is due again when its leases end");
    }
}

/// Who has the places: a tenant whose work hangs must not have them all while others wait.
#[derive(Debug)]
struct Places {
    most: usize,
    taken: HashMap<Id, String>,
}

impl Places {
    fn free(&self) -> usize {
        self.most.saturating_sub(self.taken.len())
    }

    /// The tenants with a fair share or more, one more tenant reckoned with.
    fn crowded(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for tenant in self.taken.values() {
            let count = counts.entry(tenant).or_default();
            *count = count.saturating_add(1);
        }
        let share = self.most.div_ceil(counts.len().saturating_add(1));
        counts.into_iter().filter(|(_, count)| *count >= share).map(|(tenant, _)| tenant.to_owned()).collect()
    }
}

/// Claims what is due into the free places; whether there may be more.
async fn take(journal: &Arc<Journal>, under_way: &mut JoinSet<bool>, places: &mut Places) -> bool {
    let free = places.free();
    match journal.claim_due(i64::try_from(free).unwrap_or(1), &places.crowded()).await {
        Ok(leases) => {
            let full = leases.len() == free;
            for lease in leases {
                let (journal, tenant) = (Arc::clone(journal), lease.tenant.clone());
                let task = under_way.spawn(async move { journal.attend(&lease).await });
                places.taken.insert(task.id(), tenant);
            }
            full
        }
        Err(refusal) => {
            tracing::warn!(error = %refusal, "the database could not be asked for due work; it is asked again");
            false
        }
    }
}

/// Delivers one target's events, at most [`PLACES`] at once.
///
/// What is under way when `stop` turns gets [`GRACE`]; the rest comes due again when its lease ends.
async fn events(journal: Arc<Journal>, target: String, every: Duration, stop: CancellationToken) {
    let mut news = journal.event_news();
    let mut under_way: JoinSet<bool> = JoinSet::new();
    let mut again = true;
    while !stop.is_cancelled() {
        let free = PLACES.saturating_sub(under_way.len());
        if again && free > 0 {
            again = match journal.claim_events(&target, free).await {
                Ok(claimed) => {
                    let full = claimed.len() == free;
                    for posting in claimed {
                        let journal = Arc::clone(&journal);
                        under_way.spawn(async move { journal.deliver(&posting).await });
                    }
                    full
                }
                Err(refusal) => {
                    tracing::warn!(error = %refusal, "the database could not be asked for events; it is asked again");
                    false
                }
            };
        }
        tokio::select! {
            () = stop.cancelled() => {}
            Some(_) = under_way.join_next(), if !under_way.is_empty() => again = true,
            Ok(()) = news.changed() => again = true,
            () = tokio::time::sleep(every) => again = true,
        }
    }
    let ended = async { while under_way.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, ended).await;
}
