//! Events leave the house: written in the transaction of the change, delivered later, at least once.
//!
//! ```text
//! (change and event: one transaction) … (claim: attempt counted) → POST, no transaction open →
//! (settle, fenced by the claim's token)
//! ```
//!
//! A target's events are claimed and delivered apart from every other's and from payments, so that
//! a receiver that hangs holds up only itself. *Invariant*: no payment depends on a receiver.
//! *Crash*: an event of a change that committed is there; one whose attempt was under way comes due
//! again when its lease ends, under the same id and with the same bytes.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::watch;

use super::Journal;
use super::ports::{Delivery, Miss};
use super::recorded::Started;
use crate::crash::{self, Point};
use crate::domain::{EventId, LeaseToken, Payment, Refusal};
use crate::store::{ClaimedEvent, EventEnding, NewEvent, StoreFault, Tx};
use crate::telemetry::metrics::metrics;

/// Attempts that one target may have under way in one process.
pub const PLACES: usize = 8;

/// What a receiver is sent: enough to ask, nothing to trust.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    event_id: &'a str,
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    tenant: &'a str,
    payment_id: &'a str,
    order_id: &'a str,
    version: i64,
    status: &'a str,
}

/// A claimed event that may be sent once.
///
/// *Invariant*: only the journal makes one, after the transaction that counted the attempt committed.
pub struct Posting {
    event: ClaimedEvent,
    token: LeaseToken,
    started: Started,
    send_within: Duration,
}

impl fmt::Debug for Posting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Posting").field("event_id", &self.event.event_id).finish_non_exhaustive()
    }
}

impl Posting {
    /// The event's id: the same at every attempt.
    pub fn event_id(&self) -> &str {
        &self.event.event_id
    }

    /// Where it goes.
    pub fn target(&self) -> &str {
        &self.event.target
    }

    /// The exact bytes to send: the same at every attempt.
    pub fn body(&self) -> &str {
        &self.event.body
    }

    /// Whether a first byte may still be written; asked immediately before sending.
    pub fn may_send(&self) -> bool {
        self.started.elapsed() < self.send_within
    }
}

/// What one pass over the outbox did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deliveries {
    /// Attempts made.
    pub attempted: usize,
    /// Events that their receivers took.
    pub delivered: usize,
}

impl Journal {
    /// Writes what became of `payment` for every target, in the transaction of the change.
    pub(super) async fn enqueue(&self, tx: &mut Tx, payment: &Payment) -> Result<(), Refusal> {
        let targets = self.webhooks.targets();
        if targets.is_empty() {
            return Ok(());
        }
        let id = EventId::mint(tx.now(), self.entropy.u128());
        let status = payment.status.as_str();
        let kind = format!("payment.{}", status.to_ascii_lowercase());
        let terms = &payment.terms;
        let data = Data {
            tenant: terms.tenant.as_str(),
            payment_id: terms.payment_id.as_str(),
            order_id: terms.order_id.as_str(),
            version: payment.version,
            status,
        };
        let body = Body { kind: &kind, event_id: id.as_str(), timestamp: tx.now().rfc3339(), data };
        let body = serde_json::to_string(&body).map_err(|err| StoreFault::Corrupt(err.to_string()))?;
        let first = self.rules.events.schedule.after(0, self.entropy.u64()).unwrap_or_default();
        let event = NewEvent {
            event_id: id.as_str(),
            tenant: terms.tenant.as_str(),
            payment_id: terms.payment_id.as_str(),
            version: payment.version,
            kind: &kind,
            body: &body,
            due: tx.now().plus(first),
        };
        for target in targets {
            tx.enqueue_event(&event, target).await?;
        }
        Ok(())
    }

    /// Where events go.
    pub fn webhook_targets(&self) -> &[String] {
        self.webhooks.targets()
    }

    /// Turns when this process wrote an event.
    pub fn event_news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Delivers what is due now, once, to all targets side by side.
    ///
    /// *Errors*: `STORE_UNAVAILABLE`; what was claimed is due again when its lease ends.
    pub async fn deliver_due(&self) -> Result<Deliveries, Refusal> {
        let mut claimed = Vec::new();
        for target in self.webhook_targets() {
            claimed.extend(self.claim_events(target, PLACES).await?);
        }
        let taken = futures::future::join_all(claimed.iter().map(|posting| self.deliver(posting))).await;
        Ok(Deliveries { attempted: claimed.len(), delivered: taken.into_iter().filter(|taken| *taken).count() })
    }

    /// Claims up to `most` events for `target` that are due; one query when none is.
    pub async fn claim_events(&self, target: &str, most: usize) -> Result<Vec<Posting>, Refusal> {
        if most == 0 || !self.store.event_is_due(target).await? {
            return Ok(Vec::new());
        }
        // Before the transaction: the time to send is never overstated.
        let started = Started::now(&self.clock);
        let mut tx = self.store.begin().await?;
        let token = self.mint_token(&tx);
        let until = tx.now().plus(self.rules.events.lease);
        let events = tx.claim_events(target, &token, until, i64::try_from(most).unwrap_or(1)).await?;
        crash::at(Point::EventClaimBeforeCommit);
        tx.commit().await?;
        crash::at(Point::EventClaimAfterCommit);
        let posting = |event| Posting {
            event,
            token: token.clone(),
            started: started.clone(),
            send_within: self.rules.events.send_within,
        };
        Ok(events.into_iter().map(posting).collect())
    }

    /// Makes one attempt and stores how it ended; whether the receiver took the event.
    pub async fn deliver(&self, posting: &Posting) -> bool {
        let started = Instant::now();
        let delivery = self.webhooks.post(posting).await;
        crash::at(Point::EventAnswered);
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (outcome, reason) = match self.settle_event(posting, &delivery).await {
            Ok(settled) => settled,
            Err(fault) => {
                let _: Refusal = fault.into();
                ("unsettled", String::new())
            }
        };
        metrics().webhook(outcome);
        let event = &posting.event;
        tracing::info!(
            event.id = event.event_id,
            event.kind = event.kind,
            payment.id = event.payment_id,
            target = origin(&event.target),
            attempt.no = event.attempts,
            outcome,
            reason,
            millis,
            "webhook attempt ended"
        );
        delivery == Delivery::Taken
    }

    /// The outcome's word for log and metric, and why.
    async fn settle_event(&self, posting: &Posting, delivery: &Delivery) -> Result<(&'static str, String), StoreFault> {
        let mut tx = self.store.begin().await?;
        let (outcome, reason) = match delivery {
            Delivery::Taken => ("delivered", String::new()),
            Delivery::Gone => ("gone", "gone (HTTP 410)".to_owned()),
            Delivery::Missed(miss) => ("retry", miss.to_string()),
        };
        let next = match delivery {
            Delivery::Missed(miss) => self.next_attempt(posting, miss),
            Delivery::Taken | Delivery::Gone => None,
        };
        let (outcome, ending) = match (delivery, next) {
            (Delivery::Taken, _) => (outcome, EventEnding::Delivered),
            (Delivery::Missed(_), Some(wait)) => (outcome, EventEnding::Again(tx.now().plus(wait), &reason)),
            (Delivery::Missed(_), None) => ("exhausted", EventEnding::Dead(&reason)),
            (Delivery::Gone, _) => (outcome, EventEnding::Dead(&reason)),
        };
        let ours = tx.settle_event(&posting.event, &posting.token, ending).await?;
        crash::at(Point::EventSettleBeforeCommit);
        tx.commit().await?;
        crash::at(Point::EventSettleAfterCommit);
        Ok((if ours { outcome } else { "superseded" }, reason))
    }

    /// The wait before the next attempt, or `None` when they are used up.
    fn next_attempt(&self, posting: &Posting, miss: &Miss) -> Option<Duration> {
        let done = usize::try_from(posting.event.attempts).unwrap_or(usize::MAX);
        let wait = self.rules.events.schedule.after(done, self.entropy.u64())?;
        Some(wait.max(miss.retry_after.unwrap_or_default()))
    }
}

/// Scheme, host and port of a target: a path may be a secret between us and the receiver.
fn origin(target: &str) -> &str {
    target.match_indices('/').nth(2).and_then(|(at, _)| target.get(..at)).unwrap_or(target)
}

/// Mints a [`Posting`] for adapter tests, which have no journal.
#[cfg(test)]
pub(crate) fn posting_for_test(target: &str, body: &str, send_within: Duration) -> Posting {
    use crate::domain::Timestamp;
    let event = ClaimedEvent {
        event_id: EventId::mint(Timestamp::from_micros(1), 1).to_string(),
        target: target.to_owned(),
        payment_id: String::new(),
        kind: "payment.executed".to_owned(),
        body: body.to_owned(),
        attempts: 1,
    };
    let clock: std::sync::Arc<dyn crate::ambient::Clock> = std::sync::Arc::new(crate::ambient::SystemClock);
    let token = LeaseToken::mint(Timestamp::from_micros(1), 1);
    Posting { event, token, started: Started::now(&clock), send_within }
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn an_origin_has_no_path() {
        for (target, shown) in [
            ("https://a.example/secret/path?k=v", "https://a.example"),
            ("http://127.0.0.1:9000/", "http://127.0.0.1:9000"),
            ("http://[::1]:9000/x", "http://[::1]:9000"),
        ] {
            assert_eq!(origin(target), shown);
        }
    }
}
