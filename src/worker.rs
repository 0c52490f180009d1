//! The loops around the journal's due work: payments, each target of events, checkpoints of the audit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::journal::{Checkpoints, Comparing, DueKind, Journal, PLACES, Place};

/// How long deliveries under way may take to end when the process stops.
const GRACE: Duration = Duration::from_secs(2);

/// How often the worker looks for what may move to the archive, and how long it leaves others the database between two
/// batches.
const RETIRE_EVERY: Duration = Duration::from_mins(1);
const RETIRE_PAUSE: Duration = Duration::from_millis(50);

/// Attends to due payments and delivers events until `stop` turns.
///
/// The loops share nothing but the database: no receiver of events can hold up a payment or another
/// receiver. *Crash*: nothing is kept here.
pub async fn run(journal: Arc<Journal>, every: Duration, drain: Duration, stop: CancellationToken) {
    let targets = journal.webhook_targets().iter().cloned();
    let events = targets.map(|target| events(Arc::clone(&journal), target, every, stop.clone()));
    let events = futures::future::join_all(events);
    // Before the first claim: whether this database may be a copy of the past.
    while let Err(refusal) = journal.appear(true).await {
        tracing::warn!(error = %refusal, "the database can't be used yet; nothing is claimed");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
    }
    let restored = restored(Arc::clone(&journal), stop.clone());
    let archive = archive(Arc::clone(&journal), stop.clone());
    tokio::join!(payments(Arc::clone(&journal), every, drain, stop.clone()), events, archive, restored);
}

/// Makes checkpoints of the audit until `stop` turns; the last ones are made by whoever drains the process.
///
/// It shares nothing with the other loops but the database: a sink that is full, slow or gone holds up no
/// payment.
pub async fn checkpoints(checkpoints: Arc<Checkpoints>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        checkpoints.tick(Instant::now()).await;
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(checkpoints.pace()) => {}
        }
    }
}

/// Attends to due payments; looks every `every`, and at once when this process made something due.
///
/// At most as many payments as a batch holds are attended to at once; a place that becomes free is taken
/// by the next. A part of them is kept for signed payments and as many for the others, so a signer service
/// that hangs does not hold up an execution, nor the rail a notification. Of two tenants with work the one
/// with fewer places gets it. Told to stop, what is under way gets `drain` to end; what is cut
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

/// Who has the places: neither a tenant nor one of the two services may have them all while others wait.
#[derive(Debug)]
struct Places {
    most: usize,
    taken: HashMap<Id, (String, DueKind)>,
}

impl Places {
    fn free(&self) -> usize {
        self.most.saturating_sub(self.taken.len())
    }

    /// How many more payments of this kind may be taken. A quarter of all places is kept for either kind.
    fn room(&self, kind: DueKind) -> usize {
        let kept = if self.most > 1 { self.most.div_ceil(4) } else { 0 };
        let taken = self.taken.values().filter(|(_, of)| *of == kind).count();
        self.most.saturating_sub(kept).saturating_sub(taken).min(self.free())
    }

    /// The tenants with a fair share or more, one more tenant reckoned with.
    fn crowded(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (tenant, _) in self.taken.values() {
            let count = counts.entry(tenant).or_default();
            *count = count.saturating_add(1);
        }
        let share = self.most.div_ceil(counts.len().saturating_add(1));
        counts.into_iter().filter(|(_, count)| *count >= share).map(|(tenant, _)| tenant.to_owned()).collect()
    }
}

/// How often a worker looks whether the database is one to be compared, and how long it leaves a rail that has no answer.
const COMPARE_EVERY: Duration = Duration::from_secs(5);

/// Says that a worker is there, and compares a restored database's payments with the rail.
async fn restored(journal: Arc<Journal>, stop: CancellationToken) {
    let mut place = String::new();
    let mut told = tokio::time::Instant::now();
    while !stop.is_cancelled() {
        if told.elapsed() >= journal.word_every() {
            told = tokio::time::Instant::now();
            if let Err(refusal) = journal.appear(false).await {
                tracing::warn!(error = %refusal, "the worker could not leave word in the database");
            }
        }
        let pass = journal.compare(&place).await.unwrap_or_else(|refusal| {
            tracing::warn!(error = %refusal, "payments could not be compared with the rail; it is tried again");
            Comparing::default()
        });
        let goes_on = pass.compared > 0 && pass.in_doubt == 0 && !pass.lifted;
        place = pass.next.unwrap_or_default();
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(if goes_on { Duration::ZERO } else { COMPARE_EVERY }) => {}
        }
    }
}

/// Moves what is all over to the archive, a small batch at a time.
async fn archive(journal: Arc<Journal>, stop: CancellationToken) {
    if journal.retention().is_none() {
        return;
    }
    let mut place = Place::default();
    while !stop.is_cancelled() {
        let next = match journal.retire(&place).await {
            Ok(moved) => moved.next,
            Err(refusal) => {
                tracing::warn!(error = %refusal, "finished payments could not be moved; it is tried again");
                None
            }
        };
        let wait = if next.is_some() { RETIRE_PAUSE } else { RETIRE_EVERY };
        place = next.unwrap_or_default();
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Claims what is due into the free places; whether there may be more.
async fn take(journal: &Arc<Journal>, under_way: &mut JoinSet<bool>, places: &mut Places) -> bool {
    let count = |number: usize| i64::try_from(number).unwrap_or(1);
    let free = places.free();
    let kinds = [DueKind::Signed, DueKind::Unsigned].map(|kind| (kind, count(places.room(kind))));
    match journal.claim_kinds(kinds, count(free), &places.crowded()).await {
        Ok(claimed) => {
            let mut more = claimed.iter().map(Vec::len).sum::<usize>() == free;
            for ((kind, room), leases) in kinds.into_iter().zip(claimed) {
                more |= room > 0 && count(leases.len()) == room;
                for lease in leases {
                    let (journal, tenant) = (Arc::clone(journal), lease.tenant.clone());
                    let task = under_way.spawn(async move { journal.attend(&lease).await });
                    places.taken.insert(task.id(), (tenant, kind));
                }
            }
            more
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
