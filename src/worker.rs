//! The loops around the journal's due work: payments, each target of events, checkpoints of the audit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::journal::{Checkpoints, Journal, PLACES};

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
/// by the next, so a slow rail or signer service holds up only what it is asked about. Told to stop, what
/// is under way gets `drain` to end; what is cut off then is found by whoever takes it over, as after a
/// crash.
async fn payments(journal: Arc<Journal>, every: Duration, drain: Duration, stop: CancellationToken) {
    let most = usize::try_from(journal.rules().batch).unwrap_or(1).max(1);
    let mut under_way: JoinSet<bool> = JoinSet::new();
    // Whether something went well since the last look: it may have made more due.
    let mut again = true;
    while !stop.is_cancelled() {
        if again && under_way.len() < most {
            again = take(&journal, &mut under_way, most).await;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            Some(ended) = under_way.join_next(), if !under_way.is_empty() => {
                again = ended.unwrap_or_else(|err| {
                    tracing::error!(panicked = err.is_panic(), "work on a payment ended badly; it is due again when its lease ends");
                    false
                });
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

/// Claims what is due into the free places; whether there may be more.
async fn take(journal: &Arc<Journal>, under_way: &mut JoinSet<bool>, most: usize) -> bool {
    let free = most.saturating_sub(under_way.len());
    match journal.claim_due(i64::try_from(free).unwrap_or(1)).await {
        Ok(leases) => {
            let full = leases.len() == free;
            for lease in leases {
                let journal = Arc::clone(journal);
                under_way.spawn(async move { journal.attend(&lease).await });
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
