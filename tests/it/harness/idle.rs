//! An outside that costs nothing: for measuring what the journal itself costs.

use std::sync::atomic::{AtomicU64, Ordering};

use countersign::domain::SignerId;
use countersign::journal::Posting;
use countersign::journal::ports::{
    Answer, Cause, Dedup, Delivery, Lookup, Notified, Outcome, RailCaps, RailPort, RailReceipt, Recorded, Registered,
    Registration, SignLink, SignerPort, SignerStatus, Transfer, Trouble, Verdicts, WebhookPort,
};
use futures::future::BoxFuture;

/// A rail that has always paid already.
#[derive(Debug, Default)]
pub(crate) struct InstantRail(AtomicU64);

impl RailPort for InstantRail {
    fn caps(&self) -> RailCaps {
        RailCaps { dedup: Dedup::Forever, read_lag: std::time::Duration::ZERO, in_flight: std::time::Duration::ZERO }
    }

    fn prepare(&self, transfer: &Transfer) -> String {
        format!("{{\"reference\":\"{}\"}}", transfer.reference)
    }

    fn execute<'a>(&'a self, _: &'a Recorded) -> BoxFuture<'a, Outcome<RailReceipt>> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(
            async move { Outcome::Done(RailReceipt { transfer_id: format!("tr-{number}"), document: String::new() }) },
        )
    }

    fn lookup<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Lookup> {
        Box::pin(async { Lookup::NotFound })
    }

    fn health(&self) -> BoxFuture<'_, Answer<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// A signer service that is not there.
#[derive(Debug)]
pub(crate) struct NoSigner;

fn away<T: Send + 'static>() -> BoxFuture<'static, Answer<T>> {
    Box::pin(async { Err(Trouble::of(Cause::Unavailable)) })
}

fn not_sent<T: Send + 'static>() -> BoxFuture<'static, Outcome<T>> {
    Box::pin(async { Outcome::NotSent(Trouble::of(Cause::Unavailable)) })
}

impl SignerPort for NoSigner {
    fn prepare_register(&self, _: &Registration) -> String {
        "{}".to_owned()
    }
    fn prepare_notify(&self, _: i64, _: i64, _: &[String]) -> String {
        "{}".to_owned()
    }
    fn asked_in(&self, _: &str) -> Vec<SignerId> {
        Vec::new()
    }
    fn prepare_close(&self, _: i64, _: &str) -> String {
        "{}".to_owned()
    }
    fn register<'a>(&'a self, _: &'a Recorded) -> BoxFuture<'a, Outcome<Registered>> {
        not_sent()
    }
    fn notify<'a>(&'a self, _: &'a Recorded) -> BoxFuture<'a, Outcome<Notified>> {
        not_sent()
    }
    fn close<'a>(&'a self, _: &'a Recorded) -> BoxFuture<'a, Outcome<()>> {
        not_sent()
    }
    fn find<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Answer<Option<Registered>>> {
        away()
    }
    fn status<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Answer<SignerStatus>> {
        away()
    }
    fn prepare_verdicts(&self, _: &Verdicts) -> String {
        "{}".to_owned()
    }
    fn tell_verdicts<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Answer<()>> {
        away()
    }
    fn sign_link<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Answer<SignLink>> {
        away()
    }
    fn health(&self) -> BoxFuture<'_, Answer<()>> {
        away()
    }
}

/// Nobody is told.
#[derive(Debug)]
pub(crate) struct NoWebhooks;

impl WebhookPort for NoWebhooks {
    fn targets(&self) -> &[String] {
        &[]
    }
    fn post<'a>(&'a self, _: &'a Posting) -> BoxFuture<'a, Delivery> {
        Box::pin(async { Delivery::Taken })
    }
}
