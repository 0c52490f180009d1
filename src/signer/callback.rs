//! Callbacks leave the outbox: signed, repeated with back-off, and given up after three days.
//!
//! An attempt is written down before it is made. Its row comes due again on its own, so a process
//! that dies in the middle repeats the attempt under the same event id and with the same body. The
//! callback is a hint; the gateway reads the status in any case.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Desk;
use super::settings::SignerFault;
use super::store::{Callback, StoreFault};
use crate::domain::Timestamp;

/// How long one attempt may take in all.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long an attempt keeps others from beginning: well past its own time-out.
const LEASE: Duration = Duration::from_secs(15);
/// The first wait, and the longest.
const BASE: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_mins(5);
/// When a callback is given up, counted from the decision.
const GIVE_UP_AFTER: Duration = Duration::from_hours(72);
/// How many attempts one target may have under way.
const PER_TARGET: usize = 16;
/// How often the outbox is looked at when nothing is said to be new.
const EVERY: Duration = Duration::from_millis(500);
/// How often finished rows are forgotten, and how old they are by then.
const TIDY_EVERY: Duration = Duration::from_hours(1);
const KEEP_KEYS: Duration = Duration::from_hours(30 * 24);
const KEEP_ENDED: Duration = Duration::from_hours(7 * 24);

/// The client that makes callbacks: no redirects, no proxy, short time-outs.
pub(super) fn client() -> Result<reqwest::Client, SignerFault> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(TIMEOUT)
        .timeout(TIMEOUT)
        .build()
        .map_err(|error| SignerFault::setting("callbacks", format!("no HTTP client: {error}")))
}

/// Delivers until `stop`; a slow target holds up only its own callbacks.
pub(super) async fn run(desk: &Arc<Desk>, stop: CancellationToken) {
    let mut attempts: JoinSet<String> = JoinSet::new();
    let mut under_way: HashMap<String, usize> = HashMap::new();
    let mut tidied = desk.now();
    loop {
        match begin(desk, &under_way).await {
            Ok(begun) => {
                for callback in begun {
                    let slot = under_way.entry(callback.url.clone()).or_default();
                    *slot = slot.saturating_add(1);
                    let desk = Arc::clone(desk);
                    attempts.spawn(async move {
                        attempt(&desk, &callback).await;
                        callback.url
                    });
                }
            }
            Err(fault) => tracing::error!(error = %fault, "the callback outbox can't be read"),
        }
        if desk.now().since(tidied) >= TIDY_EVERY {
            tidied = desk.now();
            if let Err(fault) = tidy(desk, tidied).await {
                tracing::error!(error = %fault, "finished rows could not be forgotten");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = desk.callback_enqueued.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
            Some(ended) = attempts.join_next() => free(&mut under_way, ended),
        }
        while let Some(ended) = attempts.try_join_next() {
            free(&mut under_way, ended);
        }
        if attempts.is_empty() {
            under_way.clear();
        }
    }
}

/// Gives a target its place back.
fn free(under_way: &mut HashMap<String, usize>, ended: Result<String, tokio::task::JoinError>) {
    // A task that panicked leaves no URL; the counts start anew once nothing is under way.
    if let Some(slot) = ended.ok().and_then(|url| under_way.get_mut(&url)) {
        *slot = slot.saturating_sub(1);
    }
}

/// One attempt at everything that is due.
pub(super) async fn tick(desk: &Desk) -> Result<usize, StoreFault> {
    let begun = begin(desk, &HashMap::new()).await?;
    futures::future::join_all(begun.iter().map(|callback| attempt(desk, callback))).await;
    Ok(begun.len())
}

/// Begins attempts, as many as each target has room for.
async fn begin(desk: &Desk, under_way: &HashMap<String, usize>) -> Result<Vec<Callback>, StoreFault> {
    let now = desk.now();
    let due = desk.store.read().await?.due_callbacks(now, i64::try_from(PER_TARGET).unwrap_or(1)).await?;
    if due.is_empty() {
        return Ok(due);
    }
    let mut room: HashMap<String, usize> = HashMap::new();
    let mut begun = Vec::with_capacity(due.len());
    let mut session = desk.store.write().await?;
    for mut callback in due {
        let busy = under_way.get(&callback.url).copied().unwrap_or(0);
        let left = room.entry(callback.url.clone()).or_insert_with(|| PER_TARGET.saturating_sub(busy));
        if *left > 0 && session.begin_attempt(&mut callback, now.plus(LEASE)).await? {
            *left = left.saturating_sub(1);
            begun.push(callback);
        }
    }
    session.commit().await?;
    Ok(begun)
}

/// Makes one attempt and notes how it ended.
async fn attempt(desk: &Desk, callback: &Callback) {
    let sent = send(desk, callback).await;
    if let Err(fault) = note(desk, callback, sent).await {
        // The row comes due again when the attempt's lease ends.
        tracing::error!(event.id = %callback.event_id, error = %fault, "how a callback ended could not be noted");
    }
}

async fn note(desk: &Desk, callback: &Callback, sent: Result<(), String>) -> Result<(), StoreFault> {
    let now = desk.now();
    let mut session = desk.store.write().await?;
    match sent {
        Ok(()) => session.end_callback(&callback.event_id, "delivered").await?,
        Err(why) if now.since(Timestamp::from_micros(callback.created_at)) >= GIVE_UP_AFTER => {
            session.end_callback(&callback.event_id, "given_up").await?;
            tracing::error!(
                event.id = %callback.event_id, attempt.no = callback.attempts, %why,
                "a callback was given up; the gateway learns of the decision when it reads the status"
            );
        }
        Err(why) => {
            let wait = backoff(callback.attempts, desk.entropy.u64());
            session.repeat_callback(callback, now.plus(wait)).await?;
            tracing::warn!(
                event.id = %callback.event_id, attempt.no = callback.attempts, %why, wait.ms = wait.as_millis(),
                "a callback was not taken; it will be repeated"
            );
        }
    }
    session.commit().await
}

/// Sends it; the failure is told in words that hold nothing of the other side's answer.
async fn send(desk: &Desk, callback: &Callback) -> Result<(), String> {
    // The receiver judges the timestamp by the true time, so a clock that a test moved is moved back.
    let now = desk.now().plus_micros(desk.clock.shift().saturating_neg()).seconds();
    let signature = desk
        .webhook
        .sign(&callback.event_id, now, callback.body.as_bytes())
        .map_err(|_| "it could not be signed".to_owned())?;
    let answer = desk
        .client
        .post(&callback.url)
        .header("content-type", "application/json")
        .header(HEADER_WEBHOOK_ID, &callback.event_id)
        .header(HEADER_WEBHOOK_TIMESTAMP, now)
        .header(HEADER_WEBHOOK_SIGNATURE, signature)
        .body(callback.body.clone())
        .send()
        .await;
    match answer {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(format!("answered {}", answer.status().as_u16())),
        Err(error) if error.is_timeout() => Err("no answer in time".to_owned()),
        Err(error) if error.is_connect() => Err("no connection".to_owned()),
        Err(_) => Err("the request failed".to_owned()),
    }
}

/// The wait after the given attempt: doubling up to the cap, and of that at least half, by chance.
pub(super) fn backoff(attempts: i64, random: u64) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(0).min(16);
    let full = BASE.saturating_mul(1 << doublings).min(CAP);
    let half = u64::try_from(full.as_millis()).unwrap_or(u64::MAX) / 2;
    Duration::from_millis(half.saturating_add(random.checked_rem(half.saturating_add(1)).unwrap_or(0)))
}

async fn tidy(desk: &Desk, now: Timestamp) -> Result<(), StoreFault> {
    let mut session = desk.store.write().await?;
    session.forget_keys(now.minus(KEEP_KEYS)).await?;
    session.forget_messages(now.minus(KEEP_KEYS)).await?;
    session.forget_links(now.minus(KEEP_ENDED)).await?;
    session.forget_callbacks(now.minus(KEEP_ENDED)).await?;
    session.commit().await
}
