//! Configuration: one commented file that is the default, a file over it, the environment over both.

mod audit;
mod check;
mod layers;
mod notify;
mod passkeys;
mod secrets;
mod urls;
mod webhooks;

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

pub use audit::Audit;
pub use notify::Notify;
pub use passkeys::Passkeys;
pub use secrets::{api_key, whsecs};
pub use urls::{UrlFault, base_url, is_web, shown_url, web_url};
pub use webhooks::{Webhooks, whsec, whsec_of};

use secrets::resolve;

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
    pub passkeys: Passkeys,
    pub registry: Registry,
    pub rail: Rail,
    pub webhooks: Webhooks,
    pub audit: Audit,
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

/// `[registry]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Registry {
    pub root_public_key_file: String,
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
    pub in_flight_s: u64,
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
    /// Reads defaults, `file` and the environment, and resolves secret files. [`Config::check`] judges the values.
    ///
    /// *Errors*: one line that names the setting, never its value.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigFault> {
        Ok(Self::load_shown(file)?.0)
    }

    /// As [`Config::load`], and beside it what is in force, without its secrets.
    pub fn load_shown(file: Option<&Path>) -> Result<(Self, toml::Table), ConfigFault> {
        let merged = layers::layered(file, std::env::vars_os())?;
        let shown = secrets::redacted(&merged, "");
        let mut config = layers::typed(merged)?;
        config.resolve_secrets()?;
        Ok((config, shown))
    }

    fn resolve_secrets(&mut self) -> Result<(), ConfigFault> {
        resolve("database.url", &mut self.database.url, &self.database.url_file)?;
        resolve("signer.api_key", &mut self.signer.api_key, &self.signer.api_key_file)?;
        resolve("rail.api_key", &mut self.rail.api_key, &self.rail.api_key_file)?;
        self.webhooks.resolve_secrets()?;
        let signer = &mut self.signer;
        resolve("signer.callback_secret", &mut signer.callback_secret, &signer.callback_secret_file)
    }

    /// How long what has ended stays in the hot tables, if the policy looks back over `span` at the most.
    ///
    /// *Errors*: less than that and a payment's own life: limits and sums count payments where they are, once more
    /// when one is carried out, as of when it was created. They would forget what was spent.
    pub fn finished_after(&self, span: Duration) -> Result<Option<Duration>, ConfigFault> {
        let seconds = self.retention.finished_after_s;
        let life = self.payments.expires_after_s.saturating_add(self.payments.execute_within_s);
        let least = span.as_secs().saturating_add(life);
        if seconds > 0 && !span.is_zero() && seconds <= least {
            return Err(fault(
                "retention.finished_after_s",
                format_args!(
                    "must be 0 or more than {least}: the longest span of policy.file and what a payment may live"
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

/// A number of milliseconds as a span.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
