//! `countersign check` by itself: what configuration is in force, and whether every dependency answers.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::super::serve::ConfigFile;
use super::super::{CommandFault, ambient, failed};
use crate::adapters::CheckpointSink;
use crate::app::{Ambient, WaysOut, checkpoint_key, open_existing, read_policy, ways_out};
use crate::config::Config;
use crate::http::auth::{KeySource, Verifier};
use crate::journal::ports::{Answer, RailPort as _, SignerPort as _};
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
    /// It could not be looked at.
    Skipped(&'static str),
}

/// One dependency.
struct Row {
    dependency: String,
    verdict: Verdict,
    /// Of this command's own calls: a serving process shows its own in /readyz.
    breaker: Option<&'static str>,
}

impl Row {
    fn new(dependency: impl Into<String>, verdict: Result<(), String>) -> Self {
        let verdict = verdict.map_or_else(Verdict::Failed, |()| Verdict::Ok);
        Self { dependency: dependency.into(), verdict, breaker: None }
    }

    /// What a program reads: `ok`, `failed` or `skipped`, and why.
    fn told(&self) -> (&'static str, Option<&str>) {
        match &self.verdict {
            Verdict::Ok => ("ok", None),
            Verdict::Failed(why) => ("failed", Some(why)),
            Verdict::Skipped(why) => ("skipped", Some(why)),
        }
    }
}

impl Deployment {
    #[expect(clippy::print_stdout, reason = "what it prints is its purpose")]
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let (config, shown) = Config::load_shown(self.file.config.as_deref())?;
        config.check()?;
        read_policy(&config)?;
        let ambient = ambient();
        let ways_out = ways_out(&config, &ambient)?;
        let rows = rows(&config, &ambient, &ways_out).await;
        let good = rows.iter().all(|row| matches!(row.verdict, Verdict::Ok));
        if self.json {
            let dependencies: Vec<Value> = rows
                .iter()
                .map(|row| {
                    let (result, reason) = row.told();
                    json!({"dependency": row.dependency, "result": result, "reason": reason, "breaker": row.breaker})
                })
                .collect();
            let checkpoints = if config.audit.is_on() { "on" } else { "off" };
            let told =
                json!({"ok": good, "dependencies": dependencies, "audit_checkpoints": checkpoints, "config": shown});
            println!("{told}");
        } else {
            println!("{shown}");
            for row in &rows {
                let (result, reason) = row.told();
                let reason = reason.map(|why| format!(": {why}")).unwrap_or_default();
                let breaker = row.breaker.map(|word| format!(" (breaker {word})")).unwrap_or_default();
                println!("{result:<8}{}{reason}{breaker}", row.dependency);
            }
            if !config.audit.is_on() {
                println!("off     audit checkpoints: an audit rewritten as a whole would not be noticed; see [audit]");
            }
        }
        if good { Ok(()) } else { Err(failed("not every dependency answers")) }
    }
}

/// A row for everything that `config` names, whatever becomes of the others.
async fn rows(config: &Config, ambient: &Ambient, ways_out: &WaysOut) -> Vec<Row> {
    let WaysOut { signer, rail, webhooks } = ways_out;
    let otlp = async {
        let endpoint = &config.telemetry.otlp_endpoint;
        if endpoint.is_empty() { None } else { Some(telemetry::probe(endpoint).await) }
    };
    let (keys, database, signed, paid, hooks, otlp) = tokio::join!(
        token_keys(config, ambient),
        database(config, ambient),
        tokio::time::timeout(PATIENCE, signer.health()),
        tokio::time::timeout(PATIENCE, rail.health()),
        webhooks.probe(),
        tokio::time::timeout(PATIENCE, otlp),
    );
    let mut rows = vec![Row::new("token keys", keys)];
    rows.extend(database);
    rows.push(Row { breaker: Some(signer.breaker()), ..Row::new("signer service", told(signed)) });
    rows.push(Row { breaker: Some(rail.breaker()), ..Row::new("rail", told(paid)) });
    if config.audit.is_on() {
        rows.push(Row::new("audit checkpoints", audit_sink(config)));
    }
    rows.extend(hooks.into_iter().map(|(url, verdict)| Row::new(format!("webhook target {url}"), verdict)));
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
fn audit_sink(config: &Config) -> Result<(), String> {
    checkpoint_key(config).map_err(|fault| fault.to_string())?;
    let sink = CheckpointSink::from_config(config).map_err(|fault| fault.to_string())?;
    sink.probe().map_err(|trouble| trouble.to_string())
}

async fn token_keys(config: &Config, ambient: &Ambient) -> Result<(), String> {
    let source = KeySource::of(&config.auth);
    match Verifier::new(&config.auth, config.audience(), Arc::clone(&ambient.clock), source).await {
        Ok(keys) if keys.has_keys() => Ok(()),
        Ok(_) => Err("none could be loaded from auth.jwks_url".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}

/// The database, and its schema if there is one to look at.
async fn database(config: &Config, ambient: &Ambient) -> [Row; 2] {
    let store = match open_existing(config, Arc::clone(&ambient.clock)).await {
        Ok(store) => store,
        Err(fault) => {
            let unseen = Verdict::Skipped("the database can't be opened");
            let migrations = Row { dependency: "migrations".to_owned(), verdict: unseen, breaker: None };
            return [Row::new("database", Err(fault.to_string())), migrations];
        }
    };
    let schema = match store.schema_fault().await {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(why),
        Err(fault) => Err(fault.to_string()),
    };
    store.close().await;
    [Row::new("database", Ok(())), Row::new("migrations", schema)]
}
