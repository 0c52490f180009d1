//! Configuration: one commented file that is the default, a file over it, the environment over both.

mod layers;
mod webhooks;

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

pub use webhooks::{Webhooks, whsec};

use crate::domain::{Account, Currency};

/// The default, with a comment on every key.
pub const DEFAULTS: &str = include_str!("../../config/countersign.toml");

/// A configuration that can't be used, in one line that names the setting and what to do.
#[derive(Debug, thiserror::Error)]
#[error("configuration: {0}")]
pub struct ConfigFault(pub String);

fn fault(setting: &str, why: impl std::fmt::Display) -> ConfigFault {
    ConfigFault(format!("{setting}: {why}"))
}

/// Everything a gateway, worker or command reads. Field by field: `config/countersign.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Config {
    pub server: Server,
    pub database: Database,
    pub auth: Auth,
    pub policy: PolicyFile,
    pub payments: Payments,
    pub notify: Notify,
    pub worker: Worker,
    pub signer: Signer,
    pub rail: Rail,
    pub webhooks: Webhooks,
    pub context: Context,
    pub retention: Retention,
    pub restore: Restore,
    pub telemetry: Telemetry,
}

/// `[server]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Server {
    pub listen: String,
    pub public_url: String,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub body_limit_bytes: usize,
    pub header_timeout_ms: u64,
    pub max_connections: usize,
    pub call_deadline_ms: u64,
    pub drain_ms: u64,
    pub calls_per_minute: u32,
    pub calls_burst: u32,
}

/// `[database]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Database {
    pub url: SecretString,
    pub url_file: String,
    pub pool_size: u32,
    pub busy_timeout_ms: u64,
}

/// `[auth]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Auth {
    pub issuer: String,
    pub audience: String,
    pub jwks_url: String,
    pub jwks_file: String,
    pub algorithms: Vec<String>,
    pub leeway_s: u64,
    pub tenant_claim: String,
    pub default_tenant: String,
    pub roles_claim: String,
    pub client_claim: String,
    pub required_scope: String,
    pub authorization_servers: Vec<String>,
}

/// `[policy]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct PolicyFile {
    pub file: PathBuf,
}

/// `[payments]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Payments {
    pub currency: String,
    pub payee_account: String,
    pub payer_account: String,
    pub currencies: Vec<String>,
    pub expires_after_s: u64,
    pub execute_within_s: u64,
}

/// `[notify]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Notify {
    pub auto_after_ms: u64,
    pub attempts: u32,
    pub fast_attempts: u32,
    pub base_ms: u64,
    pub cap_ms: u64,
    pub slow_ms: u64,
    pub check_every_ms: u64,
}

/// `[worker]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Worker {
    pub enabled: bool,
    pub tick_ms: u64,
    pub batch: u32,
    pub lease_ms: u64,
    pub reconcile_only: bool,
}

/// `[signer]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Signer {
    pub url: String,
    pub api_key: SecretString,
    pub api_key_file: String,
    pub callback_secret: SecretString,
    pub callback_secret_file: String,
    pub callback_url: String,
    pub connect_timeout_ms: u64,
    pub read_timeout_ms: u64,
    pub total_timeout_ms: u64,
    pub breaker_failures: u32,
    pub breaker_wait_ms: u64,
}

/// `[rail]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Rail {
    pub url: String,
    pub api_key: SecretString,
    pub api_key_file: String,
    pub connect_timeout_ms: u64,
    pub read_timeout_ms: u64,
    pub total_timeout_ms: u64,
    pub breaker_failures: u32,
    pub breaker_wait_ms: u64,
    pub dedup: String,
    pub read_lag_ms: u64,
    pub query_base_ms: u64,
    pub query_cap_ms: u64,
}

/// `[context]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Context {
    pub calls: u32,
    pub bytes: u32,
}

/// `[retention]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Retention {
    pub finished_after_s: u64,
}

/// `[restore]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Restore {
    pub asleep_s: u64,
}

/// `[telemetry]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Telemetry {
    pub otlp_endpoint: String,
    pub service_name: String,
    pub environment: String,
    pub log: String,
    pub log_form: String,
}

impl Config {
    /// Reads defaults, `file` and the environment, resolves secret files, and checks every value.
    ///
    /// *Errors*: one line that names the setting, never its value.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigFault> {
        let mut config = layers::layered(file, std::env::vars_os())?;
        config.resolve_secrets()?;
        Ok(config)
    }

    fn resolve_secrets(&mut self) -> Result<(), ConfigFault> {
        resolve("database.url", &mut self.database.url, &self.database.url_file)?;
        resolve("signer.api_key", &mut self.signer.api_key, &self.signer.api_key_file)?;
        resolve("rail.api_key", &mut self.rail.api_key, &self.rail.api_key_file)?;
        self.webhooks.resolve_secrets()?;
        let signer = &mut self.signer;
        resolve("signer.callback_secret", &mut signer.callback_secret, &signer.callback_secret_file)
    }

    /// Checks what a gateway or worker needs before it starts.
    ///
    /// *Errors*: the first setting that is missing or can't be used.
    pub fn check(&self) -> Result<(), ConfigFault> {
        web_url("server.public_url", &self.server.public_url)?;
        if self.auth.issuer.trim().is_empty() {
            return Err(fault("auth.issuer", "is required: the \"iss\" of the tokens you accept"));
        }
        match (self.auth.jwks_url.is_empty(), self.auth.jwks_file.is_empty()) {
            (true, true) => {
                return Err(fault("auth.jwks_url", "is required (or auth.jwks_file): where the issuer's keys are"));
            }
            (false, false) => return Err(fault("auth.jwks_url", "and auth.jwks_file are both set; set one")),
            (false, true) => web_url("auth.jwks_url", &self.auth.jwks_url)?,
            (true, false) => {}
        }
        web_url("signer.url", &self.signer.url)?;
        web_url("rail.url", &self.rail.url)?;
        secret("signer.api_key", &self.signer.api_key, 16)?;
        secret("rail.api_key", &self.rail.api_key, 16)?;
        secret("signer.callback_secret", &self.signer.callback_secret, 38)?;
        self.dedup()?;
        self.webhooks.check()?;
        for code in self.payments.currencies.iter().chain([&self.payments.currency]) {
            code.parse::<Currency>()
                .map_err(|_| fault("payments.currencies", format_args!("{code:?} is not a current ISO 4217 code")))?;
        }
        if !self.payments.currencies.contains(&self.payments.currency) {
            return Err(fault("payments.currency", "must be one of payments.currencies"));
        }
        Account::parse("payer_account", &self.payments.payer_account)
            .map_err(|err| fault("payments.payer_account", err.message))?;
        if !self.payments.payee_account.is_empty() {
            Account::parse("payee_account", &self.payments.payee_account)
                .map_err(|err| fault("payments.payee_account", err.message))?;
        }
        let positive = [
            ("server.call_deadline_ms", self.server.call_deadline_ms),
            ("server.calls_per_minute", self.server.calls_per_minute.into()),
            ("server.calls_burst", self.server.calls_burst.into()),
            ("notify.attempts", self.notify.attempts.into()),
            ("notify.base_ms", self.notify.base_ms),
            ("notify.check_every_ms", self.notify.check_every_ms),
            ("worker.tick_ms", self.worker.tick_ms),
            ("worker.batch", self.worker.batch.into()),
            ("payments.expires_after_s", self.payments.expires_after_s),
            ("rail.query_base_ms", self.rail.query_base_ms),
        ];
        if let Some((setting, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(fault(setting, "must be more than zero"));
        }
        let slowest = self.rail.total_timeout_ms.max(self.signer.total_timeout_ms);
        if self.worker.lease_ms <= slowest {
            return Err(fault(
                "worker.lease_ms",
                "must be longer than rail.total_timeout_ms and signer.total_timeout_ms",
            ));
        }
        Ok(())
    }

    /// How long what has ended stays in the hot tables, if `longest` is the longest window that a limit counts over.
    ///
    /// *Errors*: less than that: a limit counts payments where they are, and would forget what was spent.
    pub fn finished_after(&self, longest: Duration) -> Result<Option<Duration>, ConfigFault> {
        let seconds = self.retention.finished_after_s;
        if seconds > 0 && Duration::from_secs(seconds) <= longest {
            return Err(fault(
                "retention.finished_after_s",
                format_args!(
                    "must be 0 or more than {}, the longest window of a limit in policy.file",
                    longest.as_secs()
                ),
            ));
        }
        Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
    }

    /// The protected resource: where the MCP endpoint is, and the default audience.
    pub fn resource(&self) -> String {
        format!("{}/mcp", self.server.public_url.trim_end_matches('/'))
    }

    /// The audience tokens must name.
    pub fn audience(&self) -> String {
        if self.auth.audience.is_empty() { self.resource() } else { self.auth.audience.clone() }
    }

    /// Where the signer service sends its callbacks.
    pub fn callback_url(&self) -> String {
        let own = &self.signer.callback_url;
        if own.is_empty() {
            format!("{}/callbacks/signer", self.server.public_url.trim_end_matches('/'))
        } else {
            own.clone()
        }
    }

    /// How long the rail remembers a key: `None` for never, `Some(None)` for always.
    pub fn dedup(&self) -> Result<Option<Option<Duration>>, ConfigFault> {
        match self.rail.dedup.as_str() {
            "none" => Ok(None),
            "forever" => Ok(Some(None)),
            text => text
                .parse()
                .map(|seconds| Some(Some(Duration::from_secs(seconds))))
                .map_err(|_| fault("rail.dedup", "must be \"none\", \"forever\" or a number of seconds")),
        }
    }
}

fn web_url(setting: &str, text: &str) -> Result<(), ConfigFault> {
    let usable = url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if usable { Ok(()) } else { Err(fault(setting, "must be an http or https URL")) }
}

fn secret(setting: &str, value: &SecretString, least: usize) -> Result<(), ConfigFault> {
    let text = value.expose_secret();
    if text.trim().is_empty() {
        return Err(fault(setting, format_args!("is required; set it by environment or {setting}_file")));
    }
    if text.len() < least || text.contains(char::is_whitespace) {
        return Err(fault(setting, format_args!("must be at least {least} characters without white space")));
    }
    Ok(())
}

/// Takes a secret from its file; a trailing line end is not part of it.
fn resolve(setting: &str, value: &mut SecretString, file: &str) -> Result<(), ConfigFault> {
    if file.is_empty() {
        return Ok(());
    }
    let given = value.expose_secret();
    let default = setting == "database.url" && given == "sqlite://countersign.db";
    if !given.is_empty() && !default {
        return Err(fault(setting, format_args!("and {setting}_file are both set; set one")));
    }
    let text = std::fs::read_to_string(file)
        .map_err(|err| fault(&format!("{setting}_file"), format_args!("can't be read: {}", err.kind())))?;
    *value = SecretString::from(text.trim_end_matches(['\r', '\n']).to_owned());
    Ok(())
}

/// A number of milliseconds as a span.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
