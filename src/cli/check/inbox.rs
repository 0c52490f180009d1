//! The callback, seen from the other end: somebody decides, and the service must tell us, twice.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::acts::{self, PAYMENTS, Play};
use super::report::{Verdict, Why, failed};
use crate::cli::output::warn;

const CALLBACK: &str = "The callback";
/// The path that callbacks are taken at.
pub(super) const PATH: &str = "/callbacks/signer";
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a first repetition may take to come.
const REPEATED_WITHIN: Duration = Duration::from_secs(30);

/// A callback that came.
#[derive(Debug, Clone)]
struct Delivery {
    headers: HeaderMap,
    body: Bytes,
}

/// Where callbacks are taken, for as long as it lives.
pub(super) struct Inbox {
    seen: Arc<Mutex<Vec<Delivery>>>,
    secret: Option<Webhook>,
    wait: Duration,
    serving: AbortHandle,
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Inbox {
    /// Takes callbacks at `listener`. The first is answered 503, so that it has to be repeated.
    pub(super) fn open(listener: TcpListener, secret: Option<Webhook>, wait: Duration) -> Self {
        let seen: Arc<Mutex<Vec<Delivery>>> = Arc::default();
        let router = Router::new().route(PATH, post(take)).with_state(Arc::clone(&seen));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await }).abort_handle();
        Self { seen, secret, wait, serving }
    }

    /// The deliveries for a payment, once there are so many, or when the time is up.
    async fn deliveries(&self, reference: &str, count: usize, within: Duration) -> Vec<Delivery> {
        let begun = Instant::now();
        loop {
            let seen = self.seen.lock().map(|seen| seen.clone()).unwrap_or_default();
            let ours: Vec<Delivery> =
                seen.into_iter().filter(|one| member(&one.body, "payment_id") == reference).collect();
            if ours.len() >= count || begun.elapsed() > within {
                return ours;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn check(&self, delivery: &Delivery) -> Verdict {
        let header = |name: &str| delivery.headers.get(name).and_then(|line| line.to_str().ok()).unwrap_or_default();
        let event = member(&delivery.body, "event_id");
        if event.is_empty() || header(HEADER_WEBHOOK_ID) != event {
            return Err(failed("webhook-id is not event_id"));
        }
        if member(&delivery.body, "type") != "decision.recorded" || member(&delivery.body, "decision_id").is_empty() {
            return Err(failed("type is not decision.recorded, or there is no decision_id"));
        }
        let seconds = header(HEADER_WEBHOOK_TIMESTAMP);
        if seconds.is_empty() || !seconds.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(failed("webhook-timestamp is not Unix seconds"));
        }
        if !header(HEADER_WEBHOOK_SIGNATURE).split(' ').any(|one| one.starts_with("v1,")) {
            return Err(failed("webhook-signature has no v1 signature"));
        }
        match &self.secret {
            Some(secret) if secret.verify(&delivery.body, &delivery.headers).is_err() => {
                Err(failed("the signature does not verify with --callback-secret-file"))
            }
            _ => Ok(()),
        }
    }
}

async fn take(State(seen): State<Arc<Mutex<Vec<Delivery>>>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Ok(mut seen) = seen.lock() else {
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    let event = member(&body, "event_id");
    let known = seen.iter().any(|one| member(&one.body, "event_id") == event);
    if seen.len() < 1_000 {
        seen.push(Delivery { headers, body });
    }
    if known { StatusCode::NO_CONTENT } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn member(body: &Bytes, name: &str) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Waits for a person to decide, and for the service to tell of it.
pub(super) async fn callback(play: &mut Play<'_>, inbox: Option<&Inbox>) {
    const TOLD: &str = "a decision is told by a signed callback";
    const REPEATED: &str = "a callback that was not taken is repeated with the same id and body";
    const KEPT: &str = "the status then has the decision with its proof";
    let Some(inbox) = inbox else {
        let why = || Err(Why::Skipped("give --callback-listen ADDR, and decide when asked".to_owned()));
        for check in [TOLD, REPEATED, KEPT] {
            play.report.should(CALLBACK, check, why());
        }
        return;
    };
    let mut id = String::new();
    let told = first(play, inbox, &mut id).await;
    let skipped = Err(Why::Skipped("no callback came".to_owned()));
    let (repeated, kept) = match &told {
        Ok(reference) => (again(inbox, reference).await, status(play, inbox, &id, reference).await),
        Err(_) => (skipped.clone(), skipped),
    };
    if !id.is_empty() {
        acts::close(play, &id, 1).await;
    }
    play.report.must(CALLBACK, TOLD, told.map(drop));
    play.report.must(CALLBACK, REPEATED, repeated);
    play.report.must(CALLBACK, KEPT, kept);
}

/// Registers a payment, asks for a decision, and waits for the first callback; its reference.
async fn first(play: &Play<'_>, inbox: &Inbox, id: &mut String) -> Result<String, Why> {
    let (wire, paper) = (play.wire, play.paper);
    let reference = paper.reference();
    let taken = wire.post(PAYMENTS, &paper.key(), &paper.registration(&reference, 1)?).await?;
    taken.is(201)?;
    taken.text("id").clone_into(id);
    let link = wire.get(&format!("{PAYMENTS}/{id}/sign-link")).await?;
    link.is(200)?;
    warn(format_args!("decide within {} s, either way: {}", inbox.wait.as_secs(), link.text("url")));
    let deliveries = inbox.deliveries(&reference, 1, inbox.wait).await;
    let delivery = deliveries.first().ok_or_else(|| failed("none came in time"))?;
    inbox.check(delivery)?;
    Ok(reference)
}

async fn again(inbox: &Inbox, reference: &str) -> Verdict {
    let deliveries = inbox.deliveries(reference, 2, REPEATED_WITHIN).await;
    match deliveries.as_slice() {
        [first, second, ..] if first.body == second.body => inbox.check(second),
        [_, _, ..] => Err(failed("it came again with another body")),
        _ => Err(failed("it did not come again within 30 s of a 503")),
    }
}

async fn status(play: &Play<'_>, inbox: &Inbox, id: &str, reference: &str) -> Verdict {
    let deliveries = inbox.deliveries(reference, 1, Duration::ZERO).await;
    let decision = deliveries.first().map(|one| member(&one.body, "decision_id")).unwrap_or_default();
    let status = play.wire.get(&format!("{PAYMENTS}/{id}/status")).await?;
    status.is(200)?;
    let decisions = status.member("decisions").as_array().map(Vec::as_slice).unwrap_or_default();
    let kept = decisions.iter().find(|line| line.get("decision_id") == Some(&json!(decision)));
    let text = |path: &str| kept.and_then(|line| line.pointer(path)).and_then(Value::as_str).unwrap_or_default();
    let whole = crate::proof::DecisionDocument::parse(text("/document")).is_some()
        && !text("/proof/type").is_empty()
        && !text("/proof/value").is_empty();
    if whole { Ok(()) } else { Err(failed("decisions has no such decision_id with document and proof")) }
}
