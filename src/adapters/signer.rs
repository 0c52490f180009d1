//! The signer service: told of payments, asked for decisions, never believed.
//!
//! Writes are safe by their key, so one call may try twice: after a failed connect, or after a
//! 5xx. *Invariant*: what the first try left in doubt stays in doubt unless the second one
//! succeeds; a refusal of the second says nothing about the first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;

use super::breaker::BreakerPlan;
use super::http::{Call, Endpoint, Http, Kind, Raw, Reply, is_shut};
use super::verdict::{answer, cause_of, is_address, is_id, is_name, is_word, parse, trouble};
use super::wire::{
    AskedNotify, AskedRegister, CloseBody, ClosedBody, ItemsBody, LinkBody, NotifiedBody, NotifyBody, ReceiptLine,
    RegisterBody, RegisteredBody, StatusBody,
};
use crate::ambient::{Clock, Entropy};
use crate::config::{Config, ConfigFault, ms};
use crate::domain::{SignerId, Timestamp};
use crate::journal::ports::{
    Answer, Arrival, Cause, KeptDecision, Notified, Outcome, PresencePort, Receipt, Recorded, Registered, Registration,
    SignLink, SignerPort, SignerStatus, Trouble, Verdicts,
};
use crate::proof::Proof;

const PAYMENTS: &str = "/api/v1/payments";
const NOTIFY: &str = "/api/v1/payments/{id}/notify";
const CANCEL: &str = "/api/v1/payments/{id}/cancel";
const STATUS: &str = "/api/v1/payments/{id}/status";
const VERDICTS: &str = "/api/v1/payments/{id}/verdicts";
const SIGN_LINK: &str = "/api/v1/payments/{id}/sign-link";
const PRESENCE: &str = "/api/v1/signers/{signer_id}/presence";

/// How many receipts there may be; of a list that is longer none is read, as its end may say otherwise than its beginning.
const MOST_RECEIPTS: usize = 256;

/// The second try waits for up to this long, by full jitter.
const LONGEST_PAUSE_MS: u64 = 250;

/// The client of a signer service that speaks docs/signer-contract.md.
#[derive(Debug, Clone)]
pub struct SignerClient {
    http: Http,
    callback_url: String,
    entropy: Arc<dyn Entropy>,
}

impl SignerClient {
    /// A client for the service at `endpoint`, which calls back at `callback_url`.
    ///
    /// *Errors*: an endpoint that no call could be sent to. Nothing is sent yet.
    pub fn new(
        endpoint: &Endpoint,
        callback_url: String,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ConfigFault> {
        Ok(Self { http: Http::new(endpoint, clock, Arc::clone(&entropy))?, callback_url, entropy })
    }

    /// The client that `[signer]` describes.
    ///
    /// *Errors*: the setting that can't be used.
    pub fn from_config(config: &Config, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Self, ConfigFault> {
        let signer = &config.signer;
        let endpoint = Endpoint {
            name: "signer",
            url: signer.url.clone(),
            api_key: signer.api_key.clone(),
            connect: ms(signer.connect_timeout_ms),
            read: ms(signer.read_timeout_ms),
            total: ms(signer.total_timeout_ms),
            breaker: BreakerPlan { failures: signer.breaker_failures, wait: ms(signer.breaker_wait_ms) },
        };
        Self::new(&endpoint, config.callback_url(), clock, entropy)
    }

    /// Sends, and once more when that is safe and may help: see [`may_try_again`].
    ///
    /// Returns the last ending, and the first try's trouble when that try may have arrived.
    async fn send(
        &self,
        kind: Kind<'_>,
        template: &'static str,
        path: &[&str],
        query: Option<(&str, &str)>,
    ) -> (Raw, Option<Trouble>) {
        let started = Instant::now();
        let call = |within| Call { kind, template, path, query, within };
        let first = self.http.send(call(self.http.total())).await;
        if !may_try_again(&first) {
            return (first, None);
        }
        let doubt = match &first {
            Raw::Answered(reply) => Some(trouble(cause_of(reply.status), reply)),
            Raw::NotSent(_) | Raw::NoAnswer(_) => None,
        };
        let pause = Duration::from_millis(self.entropy.u64() % (LONGEST_PAUSE_MS + 1));
        let left = self.http.total().saturating_sub(started.elapsed() + pause);
        if left.is_zero() {
            return (first, None);
        }
        tokio::time::sleep(pause).await;
        (self.http.send(call(left)).await, doubt)
    }

    async fn get<T>(
        &self,
        template: &'static str,
        path: &[&str],
        query: Option<(&str, &str)>,
        check: impl FnOnce(&Reply) -> Result<T, Cause>,
    ) -> Answer<T> {
        answer(self.send(Kind::Read, template, path, query).await.0, check)
    }

    async fn write<T>(
        &self,
        recorded: &Recorded,
        template: &'static str,
        path: &[&str],
        check: impl Fn(&Reply) -> Result<T, Cause>,
    ) -> Outcome<T> {
        let (raw, doubt) = self.send(Kind::Effect(recorded), template, path, None).await;
        let outcome = match raw {
            Raw::NotSent(trouble) => Outcome::NotSent(trouble),
            Raw::NoAnswer(trouble) => Outcome::Unknown(trouble),
            Raw::Answered(reply) => judge(&reply, check),
        };
        match (outcome, doubt) {
            (Outcome::NotSent(_), Some(first)) => Outcome::Unknown(first),
            (Outcome::Refused(second), Some(_)) => Outcome::Unknown(second),
            (outcome, _) => outcome,
        }
    }
}

impl SignerPort for SignerClient {
    fn prepare_register(&self, registration: &Registration) -> String {
        let body = RegisterBody {
            reference: &registration.reference,
            round: registration.round,
            payload: &registration.payload,
            payment_digest: &registration.payment_digest,
            signers: &registration.challenges,
            expires_at: registration.expires_at.rfc3339(),
            callback_url: &self.callback_url,
            confirmations: Some(registration.confirmations).filter(|keys| *keys > 1),
        };
        // Structs of strings and numbers always serialize; an empty body would not be sent.
        serde_json::to_string(&body).unwrap_or_default()
    }

    fn prepare_notify(&self, round: i64, number: i64, signers: &[String]) -> String {
        serde_json::to_string(&NotifyBody { round, notification: number, signers }).unwrap_or_default()
    }

    fn asked_in(&self, body: &str) -> Vec<SignerId> {
        let asked = serde_json::from_str::<AskedNotify>(body).map(|asked| asked.signers).unwrap_or_default();
        asked.iter().filter_map(|signer| signer.parse().ok()).collect()
    }

    fn prepare_close(&self, round: i64, reason: &str) -> String {
        serde_json::to_string(&CloseBody { round, reason }).unwrap_or_default()
    }

    fn register<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<Registered>> {
        Box::pin(async move {
            let Ok(asked) = serde_json::from_str::<AskedRegister>(recorded.body()) else {
                return Outcome::NotSent(Trouble::of(Cause::Garbage));
            };
            self.write(recorded, PAYMENTS, &["api", "v1", "payments"], |reply| {
                let told: RegisteredBody = parse(reply)?;
                if told.reference != asked.reference || told.round != asked.round {
                    return Err(Cause::Mismatch);
                }
                registered(told)
            })
            .await
        })
    }

    fn notify<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<Notified>> {
        Box::pin(async move {
            let asked = serde_json::from_str::<AskedNotify>(recorded.body());
            let (Ok(asked), true) = (asked, is_id(recorded.target())) else {
                return Outcome::NotSent(Trouble::of(Cause::Garbage));
            };
            let path = ["api", "v1", "payments", recorded.target(), "notify"];
            self.write(recorded, NOTIFY, &path, |reply| {
                let told: NotifiedBody = parse(reply)?;
                if told.notification != asked.notification {
                    return Err(Cause::Mismatch);
                }
                let unreachable = match told.outcome.as_str() {
                    "notified" => None,
                    // A reason that is no stable word is not passed on: it may hold anything.
                    "unreachable" if is_word(&told.reason) => Some(told.reason),
                    "unreachable" => Some("unreachable".to_owned()),
                    _ => return Err(Cause::Garbage),
                };
                Ok(Notified { unreachable, receipts: receipts(told.receipts) })
            })
            .await
        })
    }

    fn close<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<()>> {
        Box::pin(async move {
            if recorded.body().is_empty() || !is_id(recorded.target()) {
                return Outcome::NotSent(Trouble::of(Cause::Garbage));
            }
            let path = ["api", "v1", "payments", recorded.target(), "cancel"];
            self.write(recorded, CANCEL, &path, |reply| {
                let told: ClosedBody = parse(reply)?;
                match (told.id == recorded.target(), told.state.as_str()) {
                    (false, _) => Err(Cause::Mismatch),
                    // Open means that a newer round stands there; the one that was closed takes nothing.
                    (true, "closed" | "open") => Ok(()),
                    (true, _) => Err(Cause::Garbage),
                }
            })
            .await
        })
    }

    fn find<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Answer<Option<Registered>>> {
        Box::pin(async move {
            let path = ["api", "v1", "payments"];
            self.get(PAYMENTS, &path, Some(("reference", reference)), |reply| {
                let mut items = parse::<ItemsBody>(reply)?.items;
                let Some(item) = items.pop() else {
                    return Ok(None);
                };
                if !items.is_empty() || item.reference != reference {
                    return Err(Cause::Mismatch);
                }
                registered(item).map(Some)
            })
            .await
        })
    }

    fn status<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Answer<SignerStatus>> {
        Box::pin(async move {
            let path = known(id, "status")?;
            self.get(STATUS, &path, None, |reply| status(parse(reply)?, id)).await
        })
    }

    fn prepare_verdicts(&self, verdicts: &Verdicts) -> String {
        serde_json::to_string(verdicts).unwrap_or_default()
    }

    fn tell_verdicts<'a>(&'a self, id: &'a str, body: &'a str) -> BoxFuture<'a, Answer<()>> {
        Box::pin(async move {
            let path = known(id, "verdicts")?;
            answer(self.send(Kind::Put(body), VERDICTS, &path, None).await.0, |_| Ok(()))
        })
    }

    fn sign_link<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Answer<SignLink>> {
        Box::pin(async move {
            let path = known(id, "sign-link")?;
            self.get(SIGN_LINK, &path, None, |reply| link(parse(reply)?)).await
        })
    }

    fn breaker(&self) -> &'static str {
        self.http.breaker()
    }

    fn health(&self) -> BoxFuture<'_, Answer<()>> {
        Box::pin(async move {
            self.get("/healthz", &["healthz"], None, |_| Ok(())).await?;
            // The health page takes no key, so ask about a payment that can't exist.
            self.find("pay_0").await.map(drop)
        })
    }
}

impl PresencePort for SignerClient {
    fn set_online<'a>(&'a self, signer: &'a str, online: bool) -> BoxFuture<'a, Answer<()>> {
        Box::pin(async move {
            if !is_name(signer) || signer.starts_with('.') {
                return Err(Trouble::of(Cause::NotFound));
            }
            let body = if online { r#"{"online":true}"# } else { r#"{"online":false}"# };
            let path = ["api", "v1", "signers", signer, "presence"];
            answer(self.send(Kind::Put(body), PRESENCE, &path, None).await.0, |_| Ok(()))
        })
    }
}

/// Whether the same request may be tried again at once.
///
/// Not after a 4xx, which is an answer; not after silence, which used up the time; not when the
/// service named a time to wait, which is for the schedule to keep.
fn may_try_again(first: &Raw) -> bool {
    match first {
        Raw::NotSent(trouble) => trouble.cause == Cause::Unavailable && !is_shut(trouble),
        Raw::NoAnswer(_) => false,
        Raw::Answered(reply) => reply.status >= 500 && reply.retry_after.is_none(),
    }
}

/// What an answer to a write proves. A refusal counts only with a code, except where the status
/// alone says that nothing was done.
fn judge<T>(reply: &Reply, check: impl FnOnce(&Reply) -> Result<T, Cause>) -> Outcome<T> {
    let cause = cause_of(reply.status);
    match reply.status {
        200 | 201 => match check(reply) {
            Ok(done) => Outcome::Done(done),
            Err(cause) => Outcome::Unknown(trouble(cause, reply)),
        },
        401 | 403 | 404 => Outcome::Refused(trouble(cause, reply)),
        429 => Outcome::NotSent(trouble(cause, reply)),
        400 | 409 | 410 | 413 | 415 | 422 => {
            let told = trouble(cause, reply);
            match (&told.code, cause) {
                (None, _) => Outcome::Unknown(told),
                (Some(_), Cause::Conflict) => Outcome::Refused(told),
                (Some(_), _) => Outcome::Refused(Trouble { cause: Cause::Rejected, ..told }),
            }
        }
        _ => Outcome::Unknown(trouble(cause, reply)),
    }
}

/// Receipts in words that may be shown; what is none is left out.
fn receipts(told: serde_json::Value) -> Vec<Receipt> {
    let lines: Vec<serde_json::Value> = serde_json::from_value(told).unwrap_or_default();
    let receipt = |line| {
        let ReceiptLine { signer_id, notification, channel, outcome, reason, at } =
            serde_json::from_value(line).ok()?;
        let word = |text: String| if is_word(&text) { text } else { String::new() };
        let outcome = Arrival::from_name(&outcome)?;
        let signer = match (signer_id.as_str(), outcome) {
            ("", Arrival::Viewed) => None,
            (signer, _) => Some(signer.parse().ok()?),
        };
        let at = Timestamp::parse_rfc3339(&at);
        Some(Receipt { signer, notification, channel: word(channel), outcome, reason: word(reason), at })
    };
    if lines.len() > MOST_RECEIPTS { Vec::new() } else { lines.into_iter().filter_map(receipt).collect() }
}

fn registered(told: RegisteredBody) -> Result<Registered, Cause> {
    if told.round < 1 || !is_id(&told.id) {
        return Err(Cause::Garbage);
    }
    Ok(Registered { id: told.id, round: told.round })
}

fn known<'a>(id: &'a str, page: &'a str) -> Result<[&'a str; 5], Trouble> {
    if is_id(id) { Ok(["api", "v1", "payments", id, page]) } else { Err(Trouble::of(Cause::NotFound)) }
}

fn status(told: StatusBody, id: &str) -> Result<SignerStatus, Cause> {
    if told.id != id {
        return Err(Cause::Mismatch);
    }
    let open = match told.state.as_str() {
        "open" => true,
        "closed" => false,
        _ => return Err(Cause::Garbage),
    };
    if told.round < 1 || told.reference.is_empty() {
        return Err(Cause::Garbage);
    }
    // Proofs of a kind that is not known here can't be verified, so they are left where they are.
    let decisions = told.decisions.into_iter().filter_map(|line| {
        let proof = Proof::of(&line.proof.kind, line.proof.value)?;
        Some(KeptDecision { decision_id: line.decision_id, document: line.document, proof })
    });
    let online = told.signers.into_iter().filter(|line| line.signer_id.parse::<SignerId>().is_ok());
    Ok(SignerStatus {
        round: told.round,
        open,
        decisions: decisions.collect(),
        receipts: receipts(told.receipts),
        told: told.told.as_str().map(str::to_owned),
        online: online.map(|line| (line.signer_id, line.online)).collect(),
    })
}

fn link(told: LinkBody) -> Result<SignLink, Cause> {
    let expires_at = Timestamp::parse_rfc3339(&told.expires_at).ok_or(Cause::Garbage)?;
    if is_address(&told.url) && (told.qr_url.is_empty() || is_address(&told.qr_url)) {
        Ok(SignLink { url: told.url, expires_at, qr_url: told.qr_url })
    } else {
        Err(Cause::Garbage)
    }
}
