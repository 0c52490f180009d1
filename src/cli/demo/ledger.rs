//! The rail's own ledger: the judge of the demo.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// What the ledger says of one reference.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Account {
    /// How often money moved.
    pub(super) executions: u64,
    /// How many requests the rail saw.
    pub(super) requests: u64,
    /// Whether debits equal credits.
    pub(super) balanced: bool,
}

/// The sandbox's side door.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Ledger {
    /// The ledger of the sandbox rail at `url`.
    pub(super) fn new(url: &str, key: &str) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(10)).no_proxy().build()?;
        Ok(Self { http, url: url.trim_end_matches('/').to_owned(), key: key.to_owned() })
    }

    /// What the ledger says of `reference`.
    pub(super) async fn account(&self, reference: &str) -> Result<Account, reqwest::Error> {
        let url = format!("{}/sandbox/ledger?reference={reference}", self.url);
        self.http.get(url).bearer_auth(&self.key).send().await?.error_for_status()?.json().await
    }

    /// Makes the next transfer be carried out and answered late.
    pub(super) async fn delay_next_reply(&self, delay: Duration) -> Result<(), reqwest::Error> {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(0);
        let faults: Value = json!({"next": [{"kind": "delay_after", "delay_ms": delay_ms, "times": 1}]});
        let url = format!("{}/sandbox/faults", self.url);
        self.http.put(url).bearer_auth(&self.key).json(&faults).send().await?.error_for_status().map(drop)
    }
}
