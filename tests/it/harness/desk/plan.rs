//! What a desk of processes is made of, and the settings each process gets.

use std::path::Path;

use super::Addresses;
use crate::harness::app::{CALLBACK_SECRET, ISSUER, POLICY, RAIL_API_KEY, SIGNER_API_KEY};
use crate::harness::database::TestEngine;

/// How many processes of what kind, and how they are set.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(super) engine: TestEngine,
    pub(super) serves: usize,
    pub(super) workers: usize,
    pub(super) serve_works: bool,
    pub(super) policy: String,
    settings: Vec<(String, String)>,
}

/// The lease of a desk's workers, in milliseconds, unless a plan says otherwise.
pub(crate) const LEASE_MS: u64 = 1_500;
/// The longest call of a desk's gateways and workers, in milliseconds.
pub(crate) const CALL_MS: u64 = 700;

/// Who is never paid by a desk.
pub(crate) const NOBODY: &str = "acct-of-nobody";

/// What a desk's policy says beside the shipped one: nobody is not paid, two people where it is much, and two agents whose limits bind
/// as soon as they propose three orders at once.
const HOUSE_RULES: &str = r#"
[[rule]]
id = "never"
payees = ["acct-of-nobody"]
deny = true

[[rule]]
id = "large"
currency = "USD"
amount_at_least = "1000.00"
levels = [{ group = "finance", required = 2 }]

[[limit]]
id = "few-at-once"
binds = "agent:agent-few"
currency = "USD"
open = 2

[[limit]]
id = "purse"
binds = "agent:agent-purse"
currency = "USD"
window_hours = 24
window_amount = "400.00"
"#;

impl Plan {
    /// One gateway with its own worker.
    pub(crate) fn new(engine: TestEngine) -> Self {
        let policy = format!("{POLICY}{HOUSE_RULES}");
        Self { engine, serves: 1, workers: 0, serve_works: true, policy, settings: Vec::new() }
    }

    /// So many gateways, whose own workers are on only where no `worker` process is asked for.
    pub(crate) fn processes(mut self, serves: usize, workers: usize) -> Self {
        (self.serves, self.workers, self.serve_works) = (serves, workers, workers == 0);
        self
    }

    /// Another policy text.
    pub(crate) fn policy(mut self, text: impl Into<String>) -> Self {
        self.policy = text.into();
        self
    }

    /// A setting of the gateways and workers, as `SECTION__KEY`.
    pub(crate) fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((format!("COUNTERSIGN__{key}"), value.to_string()));
        self
    }

    /// What gateways and workers are told. Short spans: a lease is over in [`LEASE_MS`].
    pub(super) fn environment(&self, folder: &Path, database: &str, at: &Addresses) -> Vec<(String, String)> {
        let file = |name: &str| folder.join(name).display().to_string();
        let defaults = [
            ("SERVER__PUBLIC_URL", format!("http://{}", at.serves[0])),
            ("SERVER__CALLS_PER_MINUTE", "1000000".to_owned()),
            ("SERVER__CALLS_BURST", "1000000".to_owned()),
            ("SERVER__DRAIN_MS", "3000".to_owned()),
            ("DATABASE__URL", database.to_owned()),
            ("DATABASE__POOL_SIZE", "4".to_owned()),
            ("AUTH__ISSUER", ISSUER.to_owned()),
            ("AUTH__JWKS_FILE", file("jwks.json")),
            ("POLICY__FILE", file("policy.toml")),
            ("PAYMENTS__PAYEE_ACCOUNT", "demo-payee-001".to_owned()),
            ("WORKER__TICK_MS", "20".to_owned()),
            ("WORKER__LEASE_MS", LEASE_MS.to_string()),
            ("NOTIFY__AUTO_AFTER_MS", "200".to_owned()),
            ("NOTIFY__ATTEMPTS", "100".to_owned()),
            ("NOTIFY__FAST_ATTEMPTS", "100".to_owned()),
            ("NOTIFY__BASE_MS", "50".to_owned()),
            ("NOTIFY__CAP_MS", "300".to_owned()),
            ("NOTIFY__CHECK_EVERY_MS", "300".to_owned()),
            ("SIGNER__URL", format!("http://{}", at.signer_link)),
            ("SIGNER__API_KEY", SIGNER_API_KEY.to_owned()),
            ("SIGNER__CALLBACK_SECRET", CALLBACK_SECRET.to_owned()),
            ("SIGNER__CONNECT_TIMEOUT_MS", "300".to_owned()),
            ("SIGNER__READ_TIMEOUT_MS", "500".to_owned()),
            ("SIGNER__TOTAL_TIMEOUT_MS", CALL_MS.to_string()),
            ("SIGNER__BREAKER_WAIT_MS", "150".to_owned()),
            ("RAIL__URL", format!("http://{}", at.rail_link)),
            ("RAIL__API_KEY", RAIL_API_KEY.to_owned()),
            ("RAIL__CONNECT_TIMEOUT_MS", "300".to_owned()),
            ("RAIL__READ_TIMEOUT_MS", "500".to_owned()),
            ("RAIL__TOTAL_TIMEOUT_MS", CALL_MS.to_string()),
            ("RAIL__BREAKER_WAIT_MS", "150".to_owned()),
            ("RAIL__READ_LAG_MS", "100".to_owned()),
            ("RAIL__QUERY_BASE_MS", "100".to_owned()),
            ("RAIL__QUERY_CAP_MS", "500".to_owned()),
            ("WEBHOOKS__TARGETS", at.target()),
            ("WEBHOOKS__SECRETS", CALLBACK_SECRET.to_owned()),
            ("WEBHOOKS__ALLOW_PRIVATE", at.sink_link.clone()),
            ("WEBHOOKS__SCHEDULE_S", "0,1,1,1,1,1,1,1,2,2,2,2".to_owned()),
            ("WEBHOOKS__TIMEOUT_MS", "500".to_owned()),
            ("CONTEXT__CALLS", "0".to_owned()),
            ("TELEMETRY__LOG", "info,rmcp=error,sqlx=error,hyper=error".to_owned()),
        ];
        let defaults = defaults.map(|(key, value)| (format!("COUNTERSIGN__{key}"), value));
        defaults.into_iter().chain(self.settings.iter().cloned()).collect()
    }

    /// The arguments of the signer service and of the rail.
    pub(super) fn services(folder: &Path, at: &Addresses) -> [Vec<String>; 2] {
        let file = |name: &str| folder.join(name).display().to_string();
        let (url, keys) = (format!("http://{}", at.signer), [file("signer-key"), file("callback-secret")]);
        let signer = [
            "signer",
            "--listen",
            &at.signer,
            "--public-url",
            &url,
            "--database",
            &file("signer.db"),
            "--directory",
            &file("signers.toml"),
            "--api-key-file",
            &keys[0],
            "--callback-secret-file",
            &keys[1],
            "--presence-switch",
        ];
        let rail =
            ["sandbox", "--listen", &at.rail, "--database", &file("rail.db"), "--api-key-file", &file("rail-key")];
        [signer.map(str::to_owned).to_vec(), rail.map(str::to_owned).to_vec()]
    }

    /// Writes the files that the processes read.
    pub(super) fn write(&self, folder: &Path, jwks: &str, people: &[&str]) {
        let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        put("jwks.json", jwks);
        put("policy.toml", &self.policy);
        put("signer-key", SIGNER_API_KEY);
        put("rail-key", RAIL_API_KEY);
        put("callback-secret", CALLBACK_SECRET);
        let rows: Vec<String> = people
            .iter()
            .map(|person| {
                format!(
                    "[[signer]]\nsigner_id = \"{person}\"\nname = \"{person}\"\npublic_key_file = \"{person}.pem\"\n"
                )
            })
            .collect();
        put("signers.toml", &rows.concat());
    }
}
