//! Webhooks: one signed POST to a configured target, and what its answer means.
//!
//! *Invariant*: an event goes to the target's own URL and nowhere else: redirects are answers,
//! proxies are not asked, and an address that is not public is not connected to unless the target is
//! listed in `webhooks.allow_private`. *Invariant*: the receiver decides nothing but whether it is
//! tried again; at most [`MAX_ANSWER_BYTES`] of its answer are read, and thrown away.

use std::error::Error as _;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Request, Response, Url};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};
use tokio::net::TcpStream;
use url::Host;

use super::address::{Guard, Lookup, NotPublic, is_public, system_lookup};
use super::http::retry_after_within;
use crate::ambient::Clock;
use crate::config::{Config, ConfigFault, ms, whsec};
use crate::journal::ports::{Delivery, Miss, Posting, WebhookPort};

/// More of an answer is not waited for.
const MAX_ANSWER_BYTES: usize = 16 * 1024;
/// How long an answer may take to end once its status is known.
const LET_END: Duration = Duration::from_millis(500);
/// The longest `Retry-After` that is kept to.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);
/// How long the start waits for the names of all targets.
const NAMES: Duration = Duration::from_secs(2);
/// How long a target may take to be connected to when only that is asked.
const PROBE: Duration = Duration::from_secs(5);

/// The client of every configured target.
pub struct WebhookClient {
    targets: Vec<String>,
    doors: Vec<Door>,
    secrets: Vec<Webhook>,
    clock: Arc<dyn Clock>,
}

/// The way to one target.
struct Door {
    url: Url,
    guard: Guard,
    client: Client,
}

impl Door {
    async fn probe(&self) -> Result<(), String> {
        let (Some(host), Some(port)) = (self.url.host(), self.url.port_or_known_default()) else {
            return Err("names no host".to_owned());
        };
        let found: Vec<IpAddr> = match host {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => (self.guard.lookup)(name.to_owned()).await.unwrap_or_default(),
        };
        if found.is_empty() {
            return Err("its name can't be looked up".to_owned());
        }
        if !self.guard.anywhere && !found.iter().copied().all(is_public) {
            return Err("it is not on a public address and not in webhooks.allow_private".to_owned());
        }
        let all: Vec<SocketAddr> = found.into_iter().map(|address| SocketAddr::new(address, port)).collect();
        TcpStream::connect(all.as_slice()).await.map(drop).map_err(|err| format!("no connection: {}", err.kind()))
    }
}

impl fmt::Debug for WebhookClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookClient").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}

impl WebhookClient {
    /// The client that `[webhooks]` describes. Nothing is sent or looked up yet.
    ///
    /// *Errors*: the setting that can't be used.
    pub fn from_config(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, ConfigFault> {
        Self::with_lookup(config, clock, &system_lookup())
    }

    pub(super) fn with_lookup(config: &Config, clock: Arc<dyn Clock>, lookup: &Lookup) -> Result<Self, ConfigFault> {
        let settings = &config.webhooks;
        let allowed = settings.allowed()?;
        let mut doors = Vec::new();
        for (url, number) in settings.urls()?.into_iter().zip(1..) {
            let anywhere = url.port_or_known_default().is_some_and(|port| {
                allowed.iter().any(|(host, open)| url.host_str() == Some(host.as_str()) && *open == port)
            });
            if !anywhere && names_private(&url) {
                return Err(private(number));
            }
            let guard = Guard { anywhere, lookup: Arc::clone(lookup) };
            let client = build(guard.clone(), ms(settings.timeout_ms))
                .map_err(|_| ConfigFault("webhooks: the HTTP client could not be built".to_owned()))?;
            doors.push(Door { url, guard, client });
        }
        let secret = |secret| {
            Webhook::from_bytes(whsec("webhooks.secrets", secret)?)
                .map_err(|_| ConfigFault("webhooks.secrets: can't be used".to_owned()))
        };
        let secrets = settings.secrets.iter().map(secret).collect::<Result<_, _>>()?;
        Ok(Self { targets: doors.iter().map(|door| door.url.to_string()).collect(), doors, secrets, clock })
    }

    /// Looks the targets' names up once, to refuse at the start what every delivery would refuse.
    ///
    /// *Errors*: a name that leads to an address that is not public. One that can't be looked up now is
    /// judged at its deliveries.
    pub async fn look_up(&self) -> Result<(), ConfigFault> {
        let names = self.doors.iter().zip(1..).filter_map(|(door, number)| match door.url.host() {
            Some(Host::Domain(name)) if !door.guard.anywhere => Some((number, (door.guard.lookup)(name.to_owned()))),
            _ => None,
        });
        let asked = names.map(|(number, found)| async move {
            let found = tokio::time::timeout(NAMES, found).await;
            let private_one = found.is_ok_and(|found| found.is_ok_and(|all| !all.into_iter().all(is_public)));
            if private_one { Err(private(number)) } else { Ok(()) }
        });
        futures::future::join_all(asked).await.into_iter().collect()
    }

    /// Whether each target's name leads where it may, and something listens there. Nothing is sent.
    pub async fn probe(&self) -> Vec<(String, Result<(), String>)> {
        let asked = self.doors.iter().map(|door| async {
            let seen = tokio::time::timeout(PROBE, door.probe()).await;
            (door.url.to_string(), seen.unwrap_or_else(|_| Err("no answer in time".to_owned())))
        });
        futures::future::join_all(asked).await
    }

    async fn attempt(&self, posting: &Posting) -> Delivery {
        let Some(door) = self.doors.iter().find(|door| door.url.as_str() == posting.target()) else {
            return missed("not_a_target");
        };
        let Some(request) = self.request(door, posting) else {
            return missed("not_sendable");
        };
        // Nothing may come between this question and the sending.
        if !posting.may_send() {
            return missed("too_late");
        }
        match door.client.execute(request).await {
            Ok(response) => self.judge(response).await,
            Err(err) => missed(unanswered(&err)),
        }
    }

    fn request(&self, door: &Door, posting: &Posting) -> Option<Request> {
        let (id, now) = (posting.event_id(), self.clock.now().seconds());
        let signatures: Result<Vec<String>, _> =
            self.secrets.iter().map(|secret| secret.sign(id, now, posting.body().as_bytes())).collect();
        let mut request = Request::new(Method::POST, door.url.clone());
        *request.headers_mut() = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let signed = [
            (HEADER_WEBHOOK_ID, id.to_owned()),
            (HEADER_WEBHOOK_TIMESTAMP, now.to_string()),
            (HEADER_WEBHOOK_SIGNATURE, signatures.ok()?.join(" ")),
        ];
        for (name, value) in signed {
            request.headers_mut().insert(name, HeaderValue::try_from(value).ok()?);
        }
        *request.body_mut() = Some(posting.body().to_owned().into());
        Some(request)
    }

    /// The status says it all; the body is not believed, only let end.
    async fn judge(&self, response: Response) -> Delivery {
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| retry_after_within(value, self.clock.now(), MAX_RETRY_AFTER));
        let_end(response).await;
        let why = match status {
            200..=299 => return Delivery::Taken,
            410 => return Delivery::Gone,
            300..=399 => "redirect",
            429 => "rate_limited",
            500..=599 => "unavailable",
            _ => "refused",
        };
        Delivery::Missed(Miss { why, status: Some(status), retry_after })
    }
}

impl WebhookPort for WebhookClient {
    fn targets(&self) -> &[String] {
        &self.targets
    }

    fn post<'a>(&'a self, posting: &'a Posting) -> BoxFuture<'a, Delivery> {
        Box::pin(self.attempt(posting))
    }
}

fn private(number: usize) -> ConfigFault {
    ConfigFault(format!(
        "webhooks.targets: number {number} is not on a public address; if that is meant, list its host:port in webhooks.allow_private"
    ))
}

const fn missed(why: &'static str) -> Delivery {
    Delivery::Missed(Miss { why, status: None, retry_after: None })
}

/// Whether a URL says by itself that it leads to no public address; the parser has normalised its host.
fn names_private(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        None => true,
    }
}

fn build(guard: Guard, total: Duration) -> Result<Client, reqwest::Error> {
    Client::builder()
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .timeout(total)
        .dns_resolver(guard)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .no_proxy()
        .http1_only()
        // A kept connection would outlive the judgement of its address.
        .pool_max_idle_per_host(0)
        .build()
}

fn unanswered(err: &reqwest::Error) -> &'static str {
    let mut source = err.source();
    while let Some(cause) = source {
        if cause.is::<NotPublic>() {
            return "address_refused";
        }
        source = cause.source();
    }
    match (err.is_timeout(), err.is_connect()) {
        (true, _) => "timeout",
        (false, true) => "no_connection",
        (false, false) => "no_answer",
    }
}

/// Reads a short answer to its end, so that its sender sees no broken connection.
async fn let_end(mut response: Response) {
    let read = async {
        let mut left = MAX_ANSWER_BYTES;
        while let Ok(Some(chunk)) = response.chunk().await {
            match left.checked_sub(chunk.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Whether it ended in time changes nothing.
    let _ = tokio::time::timeout(LET_END, read).await;
}
