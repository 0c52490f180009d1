//! One outbound HTTP call, sent once, told apart by what its ending proves.
//!
//! *Invariant*: a side effect is never re-sent from in here. Three things could do that, and each
//! is shut: reqwest's own retries (`retry::never`), redirects (`Policy::none`), and hyper-util's
//! pool, which sends a request again when a *reused* connection closed before it was started
//! (`retry_canceled_requests`, on by default and out of reach through reqwest). So side effects
//! use a client without a pool: every one gets a fresh connection, which is never "reused".
//! HTTP/1.1 only: with HTTP/2 a refused stream is one more thing that stacks like to repeat.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Request, Response, Url};
use secrecy::{ExposeSecret as _, SecretString};
use tracing::Instrument as _;

use super::breaker::{Breaker, BreakerPlan, Vital};
use crate::ambient::{Clock, Entropy};
use crate::config::{ConfigFault, api_key, base_url};
use crate::crash::{self, Point};
use crate::domain::Timestamp;
use crate::journal::ports::{Cause, Recorded, Trouble};

/// The longest answer that is read; a longer one is garbage.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// The longest `Retry-After` that is passed on.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// Where the other side is and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The word that logs and spans use: `signer` or `rail`.
    pub name: &'static str,
    /// The base URL; the contract's paths go below it.
    pub url: String,
    /// The bearer key.
    pub api_key: SecretString,
    /// Longest wait for DNS, TCP and TLS together.
    pub connect: Duration,
    /// Longest silence once the request is sent.
    pub read: Duration,
    /// Longest whole call, reading the body included.
    pub total: Duration,
    /// When it is left alone, and for how long.
    pub breaker: BreakerPlan,
}

/// What kind of call it is, and with that whether it may leave at all.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'a> {
    /// Changes nothing.
    Read,
    /// A journaled side effect; carries its key, body and trace.
    Effect(&'a Recorded),
    /// Sets a switch of the reference service; not a payment's side effect.
    Put(&'a str),
}

/// One call to make.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// What it does.
    pub(super) kind: Kind<'a>,
    /// The path as the contract spells it: for logs, free of ids.
    pub(super) template: &'static str,
    /// The path's segments.
    pub(super) path: &'a [&'a str],
    /// One query parameter.
    pub(super) query: Option<(&'a str, &'a str)>,
    /// Time left for it.
    pub(super) within: Duration,
}

/// A whole HTTP answer.
#[derive(Debug)]
pub(super) struct Reply {
    /// The status.
    pub(super) status: u16,
    /// The body, at most [`MAX_ANSWER_BYTES`].
    pub(super) body: Vec<u8>,
    /// `Retry-After`, bounded.
    pub(super) retry_after: Option<Duration>,
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum Raw {
    /// Provably no byte of the request left: DNS, connect or TLS failed, or it was too late.
    NotSent(Trouble),
    /// It may have been sent, and no whole answer came back.
    NoAnswer(Trouble),
    /// An answer, whatever it says.
    Answered(Reply),
}

/// The client for one endpoint.
#[derive(Clone)]
pub(super) struct Http {
    name: &'static str,
    base: Url,
    headers: HeaderMap,
    total: Duration,
    /// Without a pool; see the module's invariant.
    effects: Client,
    reads: Client,
    clock: Arc<dyn Clock>,
    /// One for both clients: they speak to the same other side.
    breaker: Arc<Breaker>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Http {
    /// A client for `endpoint`; connects to nothing yet.
    ///
    /// *Errors*: the setting that no call could be sent with.
    pub(super) fn new(
        endpoint: &Endpoint,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ConfigFault> {
        let name = endpoint.name;
        let base = base_url(&endpoint.url).map_err(|why| ConfigFault(format!("{name}.url: {why}")))?;
        let key = format!("{name}.api_key");
        api_key(&key, &endpoint.api_key)?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", endpoint.api_key.expose_secret()))
            .map_err(|_| ConfigFault(format!("{key}: can't be sent in a header")))?;
        bearer.set_sensitive(true);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        let client = |idle| {
            build(endpoint, idle).map_err(|_| ConfigFault(format!("{name}: the HTTP client could not be built")))
        };
        let breaker = Breaker::new(name, endpoint.breaker, Arc::clone(&clock), entropy);
        Ok(Self { name, base, headers, total: endpoint.total, effects: client(0)?, reads: client(4)?, clock, breaker })
    }

    /// The breaker's state, for people.
    pub(super) fn breaker(&self) -> &'static str {
        self.breaker.word()
    }

    /// The longest a whole call may take.
    pub(super) const fn total(&self) -> Duration {
        self.total
    }

    /// Makes the call, once.
    pub(super) async fn send(&self, call: Call<'_>) -> Raw {
        let method = method(call.kind);
        let span = tracing::info_span!(
            "outbound.call",
            otel.kind = "client",
            otel.name = format!("{method} {}", call.template),
            upstream.name = self.name,
            http.request.method = method.as_str(),
            http.response.status_code = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        async {
            let started = Instant::now();
            let raw = self.attempt(&call).await;
            let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let status = raw.status();
            let span = tracing::Span::current();
            span.record("http.response.status_code", status.map(i64::from)).record("outcome", raw.outcome());
            tracing::info!(
                upstream.name = self.name,
                method = method.as_str(),
                path = call.template,
                status,
                millis,
                outcome = raw.outcome(),
                "outbound call ended"
            );
            raw
        }
        .instrument(span)
        .await
    }

    async fn attempt(&self, call: &Call<'_>) -> Raw {
        let Some(request) = self.request(call) else {
            return Raw::NotSent(Trouble::of(Cause::Garbage));
        };
        let permit = match self.breaker.enter() {
            Ok(permit) => permit,
            Err(left) => return Raw::NotSent(shut(left)),
        };
        let client = match call.kind {
            Kind::Read => &self.reads,
            // Nothing may come between this question and the sending.
            Kind::Effect(recorded) if !recorded.may_send() => {
                return Raw::NotSent(Trouble::of(Cause::TooLate));
            }
            Kind::Put(_) | Kind::Effect(_) => &self.effects,
        };
        let raw = match client.execute(request).await {
            Ok(response) => self.read(response).await,
            Err(err) => unanswered(&err),
        };
        if let Kind::Effect(recorded) = call.kind {
            crash::on(recorded.key(), Point::Answered);
        }
        permit.settle(vital(&raw));
        raw
    }

    /// The request, or `None` when a value fits in no header.
    fn request(&self, call: &Call<'_>) -> Option<Request> {
        let mut url = self.base.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(call.path);
        if let Some((name, value)) = call.query {
            url.query_pairs_mut().append_pair(name, value);
        }
        let mut request = Request::new(method(call.kind), url);
        *request.headers_mut() = self.headers.clone();
        *request.timeout_mut() = Some(call.within);
        let body = match call.kind {
            Kind::Read => return Some(request),
            Kind::Put(body) => body,
            Kind::Effect(recorded) => {
                let headers = request.headers_mut();
                headers.insert("idempotency-key", HeaderValue::from_str(recorded.key()).ok()?);
                if !recorded.traceparent().is_empty() {
                    headers.insert("traceparent", HeaderValue::from_str(recorded.traceparent()).ok()?);
                }
                recorded.body()
            }
        };
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.body_mut() = Some(body.to_owned().into());
        Some(request)
    }

    /// Reads the answer to its end; half an answer is none.
    async fn read(&self, mut response: Response) -> Raw {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|v| retry_after(v, self.clock.now()));
        let broken = |cause| Raw::NoAnswer(Trouble { status: Some(status), ..Trouble::of(cause) });
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(None) => return Raw::Answered(Reply { status, body, retry_after }),
                Ok(Some(chunk)) if body.len().saturating_add(chunk.len()) > MAX_ANSWER_BYTES => {
                    return broken(Cause::Garbage);
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Err(err) if err.is_timeout() => return broken(Cause::Timeout),
                Err(_) => return broken(Cause::Garbage),
            }
        }
    }
}

impl Raw {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Answered(reply) => Some(reply.status),
            Self::NotSent(trouble) | Self::NoAnswer(trouble) => trouble.status,
        }
    }

    fn outcome(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::NotSent(Trouble { cause: Cause::TooLate, .. }) => "too_late",
            Self::NotSent(trouble) if is_shut(trouble) => "breaker_open",
            Self::NotSent(_) => "not_sent",
            Self::NoAnswer(trouble) => trouble.cause.as_str(),
        }
    }
}

/// The code of a call that the breaker kept.
const SHUT: &str = "breaker_open";

fn shut(left: Duration) -> Trouble {
    Trouble { code: Some(SHUT.to_owned()), retry_after: Some(left), ..Trouble::of(Cause::Unavailable) }
}

/// Whether the breaker kept the call, so that trying again at once is of no use.
pub(super) fn is_shut(trouble: &Trouble) -> bool {
    trouble.status.is_none() && trouble.code.as_deref() == Some(SHUT)
}

/// What an ending says about the other side: a 4xx is an answer, a 5xx or silence is not.
fn vital(raw: &Raw) -> Vital {
    match raw {
        Raw::Answered(reply) if reply.status < 500 => Vital::Alive,
        // Its head said that it works; what went wrong then is another matter.
        Raw::NoAnswer(Trouble { status: Some(..=499), cause, .. }) if *cause != Cause::Timeout => Vital::Alive,
        Raw::Answered(_) | Raw::NoAnswer(_) => Vital::Down,
        Raw::NotSent(trouble) if trouble.cause == Cause::Unavailable => Vital::Down,
        Raw::NotSent(_) => Vital::Silent,
    }
}

const fn method(kind: Kind<'_>) -> Method {
    match kind {
        Kind::Read => Method::GET,
        Kind::Effect(_) => Method::POST,
        Kind::Put(_) => Method::PUT,
    }
}

fn build(endpoint: &Endpoint, idle_connections: usize) -> Result<Client, reqwest::Error> {
    Client::builder()
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(endpoint.connect)
        .read_timeout(endpoint.read)
        .timeout(endpoint.total)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .no_proxy()
        .http1_only()
        .pool_max_idle_per_host(idle_connections)
        .pool_idle_timeout(Duration::from_secs(20))
        .build()
}

/// What an error without an answer proves.
///
/// `is_connect` is hyper-util's `Connect` kind. It covers name resolution, TCP, TLS and the
/// connect time-out, all before the request is handed to the connection. The total time-out may
/// strike while connecting too; it does not say so, and then counts as sent.
fn unanswered(err: &reqwest::Error) -> Raw {
    if err.is_connect() || err.is_builder() {
        return Raw::NotSent(Trouble::of(Cause::Unavailable));
    }
    let mut source = err.source();
    let mut unreadable = false;
    while let Some(cause) = source {
        unreadable |= cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
        source = cause.source();
    }
    Raw::NoAnswer(Trouble::of(match (err.is_timeout(), unreadable) {
        (true, _) => Cause::Timeout,
        (false, true) => Cause::Garbage,
        (false, false) => Cause::Unavailable,
    }))
}

/// Reads `Retry-After`, at most [`MAX_RETRY_AFTER`].
pub(super) fn retry_after(value: &HeaderValue, now: Timestamp) -> Option<Duration> {
    retry_after_within(value, now, MAX_RETRY_AFTER)
}

/// Reads `Retry-After` (RFC 9110 section 10.2.3): seconds, or an HTTP date; at most `longest`.
pub(super) fn retry_after_within(value: &HeaderValue, now: Timestamp, longest: Duration) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // Digits that fit in no number are a very long time.
        text.parse().map_or(longest, Duration::from_secs)
    } else {
        let at = chrono::DateTime::parse_from_rfc2822(text).ok()?;
        Timestamp::from_micros(at.timestamp_micros()).since(now)
    };
    Some(wait.min(longest))
}
