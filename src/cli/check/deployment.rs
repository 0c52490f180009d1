//! `countersign check` by itself: what configuration is in force, and whether every dependency answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::super::output::say;
use super::super::serve::ConfigFile;
use super::super::{CommandFault, ambient, failed};
use crate::adapters::CheckpointSink;
use crate::app::{Ambient, WaysOut, checkpoint_key, open_existing, read_policy, registry_root, ways_out};
use crate::config::{Config, shown_url};
use crate::domain::Policy;
use crate::http::auth::{KeySource, Verifier};
use crate::journal::ports::{Answer, RailPort as _, SignerPort as _};
use crate::journal::vouches;
use crate::proof::PublicKey;
use crate::store::{Store, StoreFault};
use crate::telemetry;

/// Options of `check` by itself.
#[derive(Debug, Args)]
pub(super) struct Deployment {
    #[command(flatten)]
    file: ConfigFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const PATIENCE: Duration = Duration::from_secs(10);

/// How it went with a dependency.
enum Verdict {
    Ok,
    Failed(String),
    /// It works, and somebody should know this.
    Warning(String),
    /// It could not be looked at.
    Skipped(&'static str),
}

impl From<Result<(), String>> for Verdict {
    fn from(seen: Result<(), String>) -> Self {
        seen.map_or_else(Self::Failed, |()| Self::Ok)
    }
}

/// One dependency.
struct Row {
    dependency: String,
    verdict: Verdict,
    /// Of this command's own calls: a serving process shows its own in /readyz.
    breaker: Option<&'static str>,
}

impl Row {
    fn new(dependency: impl Into<String>, verdict: impl Into<Verdict>) -> Self {
        Self { dependency: dependency.into(), verdict: verdict.into(), breaker: None }
    }

    /// What a program reads: `ok`, `failed`, `warning` or `skipped`, and why.
    fn told(&self) -> (&'static str, Option<&str>) {
        match &self.verdict {
            Verdict::Ok => ("ok", None),
            Verdict::Failed(why) => ("failed", Some(why)),
            Verdict::Warning(why) => ("warning", Some(why)),
            Verdict::Skipped(why) => ("skipped", Some(why)),
        }
    }
}

impl Deployment {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let (config, shown) = Config::load_shown(self.file.config.as_deref())?;
        config.check()?;
        let policy = read_policy(&config)?;
        let ambient = ambient();
        let ways_out = ways_out(&config, &ambient)?;
        let rows = rows(&config, &policy, &ambient, &ways_out).await;
        let good = rows.iter().all(|row| matches!(row.verdict, Verdict::Ok | Verdict::Warning(_)));
        if self.json {
            let dependencies: Vec<Value> = rows
                .iter()
                .map(|row| {
                    let (result, reason) = row.told();
                    json!({"dependency": row.dependency, "result": result, "reason": reason, "breaker": row.breaker})
                })
                .collect();
            say(json!({"ok": good, "dependencies": dependencies, "config": shown}));
        } else {
            say(shown);
            for row in &rows {
                let (result, reason) = row.told();
                let reason = reason.map(|why| format!(": {why}")).unwrap_or_default();
                let breaker = row.breaker.map(|word| format!(" (breaker {word})")).unwrap_or_default();
                say(format_args!("{result:<8}{}{reason}{breaker}", row.dependency));
            }
        }
        if good { Ok(()) } else { Err(failed("not every dependency answers")) }
    }
}

/// A row for everything that `config` names, whatever becomes of the others.
async fn rows(config: &Config, policy: &Policy, ambient: &Ambient, ways_out: &WaysOut) -> Vec<Row> {
    let WaysOut { signer, rail, webhooks } = ways_out;
    let otlp = async {
        let endpoint = &config.telemetry.otlp_endpoint;
        if endpoint.is_empty() { None } else { Some(telemetry::probe(endpoint).await) }
    };
    let (keys, database, signed, paid, hooks, otlp) = tokio::join!(
        token_keys(config, ambient),
        database(config, policy, ambient),
        tokio::time::timeout(PATIENCE, signer.health()),
        tokio::time::timeout(PATIENCE, rail.health()),
        webhooks.probe(),
        tokio::time::timeout(PATIENCE, otlp),
    );
    let mut rows = vec![Row::new("token keys", keys)];
    rows.extend(database);
    rows.push(Row { breaker: Some(signer.breaker()), ..Row::new("signer service", told(signed)) });
    rows.push(Row { breaker: Some(rail.breaker()), ..Row::new("rail", told(paid)) });
    rows.push(Row::new("audit checkpoints", audit_sink(config)));
    rows.extend(
        hooks.into_iter().map(|(url, verdict)| Row::new(format!("webhook target {}", shown_url(&url)), verdict)),
    );
    let otlp = otlp.unwrap_or_else(|_| Some(Err("no answer in time".to_owned())));
    rows.extend(otlp.map(|verdict| Row::new("OTLP endpoint", verdict)));
    rows
}

fn told(answer: Result<Answer<()>, tokio::time::error::Elapsed>) -> Result<(), String> {
    match answer {
        Ok(Ok(())) => Ok(()),
        Ok(Err(trouble)) => Err(trouble.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Whether checkpoints can be signed, and where they go takes one.
fn audit_sink(config: &Config) -> Verdict {
    if !config.audit.is_on() {
        return Verdict::Warning("off; an audit rewritten as a whole would not be noticed; see [audit]".to_owned());
    }
    let seen = || {
        checkpoint_key(config).map_err(|fault| fault.to_string())?;
        let sink = CheckpointSink::from_config(config).map_err(|fault| fault.to_string())?;
        sink.probe().map_err(|trouble| trouble.to_string())
    };
    seen().into()
}

async fn token_keys(config: &Config, ambient: &Ambient) -> Result<(), String> {
    let source = KeySource::of(&config.auth);
    match Verifier::new(&config.auth, config.audience(), Arc::clone(&ambient.clock), source).await {
        Ok(keys) if keys.has_keys() => Ok(()),
        Ok(_) => Err("none could be loaded from auth.jwks_url".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}

const MIGRATIONS: &str = "migrations";
const SIGNERS_KEYS: &str = "signers' keys";

/// The database, and its schema and the signers' keys if they can be looked at.
async fn database(config: &Config, policy: &Policy, ambient: &Ambient) -> [Row; 3] {
    let store = match open_existing(config, Arc::clone(&ambient.clock)).await {
        Ok(store) => store,
        Err(fault) => {
            let unseen = |what: &str| Row::new(what, Verdict::Skipped("the database can't be opened"));
            return [Row::new("database", Err(fault.to_string())), unseen(MIGRATIONS), unseen(SIGNERS_KEYS)];
        }
    };
    let schema = match store.schema_fault().await {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(why),
        Err(fault) => Err(fault.to_string()),
    };
    let keys = match &schema {
        Ok(()) => signers_keys(config, &store, policy).await,
        Err(_) => Verdict::Skipped("the schema is not the one of this version"),
    };
    store.close().await;
    [Row::new("database", Verdict::Ok), Row::new(MIGRATIONS, schema), Row::new(SIGNERS_KEYS, keys)]
}

/// Whether everyone whom the policy asks could sign.
async fn signers_keys(config: &Config, store: &Store, policy: &Policy) -> Verdict {
    let root = match registry_root(config) {
        Ok(root) => root,
        Err(fault) => return Verdict::Failed(fault.to_string()),
    };
    let found = match &root {
        None => async { store.read().await?.keys_of_signers().await }.await,
        Some(root) => signers_under(store, root).await,
    };
    let have = match found {
        Ok(have) => have,
        Err(fault) => return Verdict::Failed(fault.to_string()),
    };
    let most =
        |signer: &str| have.iter().filter(|(known, _)| known == signer).map(|(_, keys)| *keys).max().unwrap_or(0);
    let needed = policy.keys_needed();
    let lacking: Vec<&str> =
        needed.iter().filter(|(signer, keys)| most(signer) < i64::from(**keys)).map(|(signer, _)| *signer).collect();
    let without: Vec<&str> = lacking.iter().copied().filter(|signer| most(signer) == 0).collect();
    if lacking.is_empty() {
        return Verdict::Ok;
    }
    let (good, sign) = match root {
        None => ("", "keys enrol pins one"),
        Some(_) => (" that the registry's root has signed", "keys enrol and keys certify sign one with --root-key"),
    };
    if without.is_empty() {
        return Verdict::Warning(format!(
            "a second{good} is missing of {}: the policy has them confirm with another key; keys invite makes one",
            lacking.join(", ")
        ));
    }
    Verdict::Warning(format!(
        "none{good} is pinned of {}: the policy asks for what they can't sign; {sign}",
        without.join(", ")
    ))
}

/// Everyone, of any tenant, who has a key that counts under `root`, and how many.
async fn signers_under(store: &Store, root: &PublicKey) -> Result<Vec<(String, i64)>, StoreFault> {
    let mut session = store.read().await?;
    let mut have = Vec::new();
    for tenant in session.audit_tenants().await? {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for key in session.keys_of_tenant(&tenant).await? {
            if key.revoked_at.is_none() && vouches(root, &tenant, &key) {
                let count = counts.entry(key.signer_id).or_default();
                *count = count.saturating_add(1);
            }
        }
        have.extend(counts);
    }
    Ok(have)
}
