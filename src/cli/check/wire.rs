//! The client that plays the gateway: one request at a time, each answer looked at as a whole.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::report::{Verdict, Why, failed};

/// What the gateway's own client waits for a connection, and for a whole answer.
const CONNECT: Duration = Duration::from_secs(2);
pub(super) const PATIENCE: Duration = Duration::from_secs(8);
/// The longest answer that the gateway reads.
const LONGEST: usize = 256 * 1024;

/// Which key a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// The one that is right.
    Right,
    /// Another one.
    Wrong,
    /// None.
    None,
}

/// A request to make.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) key: Key,
    pub(super) idempotency_key: Option<&'a str>,
    pub(super) body: Option<Vec<u8>>,
}

/// An answer that came.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The body, where it is JSON.
    pub(super) body: Value,
}

/// What all answers have in common, gathered.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) redirects: Vec<String>,
    pub(super) not_json: Vec<String>,
    pub(super) not_an_error_object: Vec<String>,
    pub(super) own_trouble: Vec<String>,
    pub(super) too_long: Vec<String>,
    pub(super) millis: Vec<u64>,
}

/// The service under test.
#[derive(Debug)]
pub(super) struct Wire {
    base: String,
    api_key: SecretString,
    client: Client,
    tally: Mutex<Tally>,
}

impl Wire {
    /// A client of the service at `base`.
    pub(super) fn new(base: &str, api_key: SecretString) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .http1_only()
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT)
            .timeout(PATIENCE)
            .build()?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), api_key, client, tally: Mutex::default() })
    }

    /// Whether anybody is there: against nobody, no check means anything.
    pub(super) async fn reach(&self) -> Result<(), &'static str> {
        match self.client.get(format!("{}/healthz", self.base)).send().await {
            Err(err) if err.is_connect() => Err("can't be reached; nothing was checked"),
            _ => Ok(()),
        }
    }

    /// `GET` with the key.
    pub(super) async fn get(&self, path: &str) -> Result<Answer, Why> {
        self.send(Ask { method: Method::GET, path, key: Key::Right, idempotency_key: None, body: None }).await
    }

    /// `POST` with the key.
    pub(super) async fn post(&self, path: &str, key: &str, body: &Value) -> Result<Answer, Why> {
        self.post_bytes(path, key, body.to_string().into_bytes()).await
    }

    /// `POST` of bytes that may be no JSON.
    pub(super) async fn post_bytes(&self, path: &str, key: &str, body: Vec<u8>) -> Result<Answer, Why> {
        let ask = Ask { method: Method::POST, path, key: Key::Right, idempotency_key: Some(key), body: Some(body) };
        self.send(ask).await
    }

    /// One request, sent once.
    ///
    /// *Errors*: no answer came, or not a whole one in time.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Answer, Why> {
        let told = format!("{} {}", ask.method, ask.path);
        let mut request = self.client.request(ask.method, format!("{}{}", self.base, ask.path));
        request = match ask.key {
            Key::Right => request.bearer_auth(self.api_key.expose_secret()),
            Key::Wrong => request.bearer_auth("not-the-key-of-this-service"),
            Key::None => request,
        };
        if let Some(key) = ask.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = ask.body {
            request = request.header("content-type", "application/json").body(body);
        }
        let begun = Instant::now();
        let no_answer = |err: &reqwest::Error| {
            failed(format_args!(
                "{told}: {}",
                match (err.is_timeout(), err.is_connect()) {
                    (true, _) => "no whole answer within 8 s",
                    (_, true) => "no connection",
                    _ => "the answer broke off",
                }
            ))
        };
        let response = request.send().await.map_err(|err| no_answer(&err))?;
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type").and_then(|line| line.to_str().ok()).unwrap_or_default();
        let is_json = kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json");
        let bytes = response.bytes().await.map_err(|err| no_answer(&err))?;
        let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let body: Option<Value> = serde_json::from_slice(&bytes).ok().filter(Value::is_object);
        self.count(&told, status, is_json && body.is_some(), body.as_ref(), bytes.len(), millis);
        Ok(Answer { status, body: body.unwrap_or(Value::Null) })
    }

    fn count(&self, told: &str, status: u16, is_json: bool, body: Option<&Value>, length: usize, millis: u64) {
        let Ok(mut tally) = self.tally.lock() else {
            return;
        };
        tally.millis.push(millis);
        let line = format!("{told} was answered {status}");
        if (300..400).contains(&status) {
            tally.redirects.push(line.clone());
        }
        if status >= 500 {
            tally.own_trouble.push(line.clone());
        }
        // A look at the health page needs a status only.
        if !is_json && !told.ends_with("/healthz") {
            tally.not_json.push(line.clone());
        }
        if length > LONGEST {
            tally.too_long.push(line.clone());
        }
        if status >= 400 && is_json {
            let text = |name: &str| body.and_then(|body| body.get(name)).and_then(Value::as_str).unwrap_or_default();
            let code = text("error_code");
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let good = (1..=64).contains(&code.len()) && code.chars().all(word) && !text("error_message").is_empty();
            if !good {
                tally.not_an_error_object.push(line);
            }
        }
    }

    /// What was seen of all answers.
    pub(super) fn tally(&self) -> Tally {
        self.tally.lock().map(|mut tally| std::mem::take(&mut *tally)).unwrap_or_default()
    }
}

impl Answer {
    /// A text member.
    pub(super) fn text(&self, name: &str) -> &str {
        self.body.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// *Errors*: another status.
    pub(super) fn is(&self, status: u16) -> Result<&Self, Why> {
        if self.status == status { Ok(self) } else { Err(failed(format_args!("{} instead of {status}", self.told()))) }
    }

    /// *Errors*: anything but this refusal.
    pub(super) fn refuses(&self, status: u16, code: &str) -> Verdict {
        if self.status == status && self.text("error_code") == code {
            Ok(())
        } else {
            Err(failed(format_args!("{} instead of {status} {code}", self.told())))
        }
    }

    /// Status and code, as they may be shown.
    fn told(&self) -> String {
        let code: String = self.text("error_code").chars().filter(char::is_ascii_graphic).take(64).collect();
        format!("it was answered {} {code}", self.status).trim_end().to_owned()
    }

    /// A member as it is.
    pub(super) fn member(&self, name: &str) -> &Value {
        self.body.get(name).unwrap_or(&Value::Null)
    }

    /// *Errors*: a member that is not this.
    pub(super) fn says(&self, name: &str, expected: &Value) -> Verdict {
        if self.member(name) == expected {
            Ok(())
        } else {
            let told: String = self.member(name).to_string().chars().filter(|c| !c.is_control()).take(80).collect();
            Err(failed(format_args!("{name} is {told} instead of {expected}")))
        }
    }
}
