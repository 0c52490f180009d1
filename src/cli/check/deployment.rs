//! `countersign check` by itself: what configuration is in force, and whether every dependency answers.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::super::serve::ConfigFile;
use super::super::{CommandFault, ambient, failed};
use crate::adapters::CheckpointSink;
use crate::app::{checkpoints, journal, open_existing, read_policy};
use crate::http::auth::{KeySource, Verifier};

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

impl Deployment {
    #[expect(clippy::print_stdout, reason = "what it prints is its purpose")]
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let config = self.file.checked()?;
        let policy = read_policy(&config)?;
        let ambient = ambient();
        let mut verdicts: Vec<(&str, Result<(), String>)> = Vec::new();
        // Of this command's own calls: a serving process shows its own in /readyz.
        let mut breakers = [""; 2];
        let keys =
            Verifier::new(&config.auth, config.audience(), Arc::clone(&ambient.clock), KeySource::of(&config.auth))
                .await;
        verdicts.push((
            "token keys",
            keys.map_err(|err| err.to_string()).and_then(|keys| {
                if keys.has_keys() { Ok(()) } else { Err("none could be loaded from auth.jwks_url".to_owned()) }
            }),
        ));
        match open_existing(&config, Arc::clone(&ambient.clock)).await {
            Ok(store) => {
                verdicts.push(("database", Ok(())));
                let journal = journal(&config, policy, store.clone(), &ambient, false).await?;
                let told = |answer: Result<Result<(), crate::journal::ports::Trouble>, _>| match answer {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(trouble)) => Err(trouble.to_string()),
                    Err(_) => Err("no answer in time".to_owned()),
                };
                verdicts.push(("signer service", told(tokio::time::timeout(PATIENCE, journal.ping_signer()).await)));
                verdicts.push(("rail", told(tokio::time::timeout(PATIENCE, journal.ping_rail()).await)));
                breakers = journal.breakers();
                if config.audit.is_on() {
                    let ready = checkpoints(&config, store.clone(), &ambient).map_err(|fault| fault.to_string());
                    let sink = CheckpointSink::from_config(&config).map_err(|fault| fault.to_string());
                    let probe = sink.and_then(|sink| sink.probe().map_err(|trouble| trouble.to_string()));
                    verdicts.push(("audit checkpoints", ready.and(probe)));
                }
                store.close().await;
            }
            Err(fault) => verdicts.push(("database", Err(fault.to_string()))),
        }
        let good = verdicts.iter().all(|(_, verdict)| verdict.is_ok());
        if self.json {
            let rows: Vec<Value> = verdicts
                .iter()
                .map(|(name, verdict)| {
                    json!({"dependency": name, "ok": verdict.is_ok(), "reason": verdict.as_ref().err(),
                        "breaker": breaker_of(name, breakers)})
                })
                .collect();
            let checkpoints = if config.audit.is_on() { "on" } else { "off" };
            println!("{}", json!({"ok": good, "dependencies": rows, "audit_checkpoints": checkpoints}));
        } else {
            // Secrets print as REDACTED: they are a type of their own.
            println!("{config:#?}\n");
            for (name, verdict) in &verdicts {
                let breaker = breaker_of(name, breakers).map(|word| format!(" (breaker {word})")).unwrap_or_default();
                match verdict {
                    Ok(()) => println!("ok      {name}{breaker}"),
                    Err(why) => println!("failed  {name}: {why}{breaker}"),
                }
            }
            if !config.audit.is_on() {
                println!("off     audit checkpoints: an audit rewritten as a whole would not be noticed; see [audit]");
            }
        }
        if good { Ok(()) } else { Err(failed("not every dependency answers")) }
    }
}

fn breaker_of(dependency: &str, [signer, rail]: [&'static str; 2]) -> Option<&'static str> {
    match dependency {
        "signer service" => Some(signer),
        "rail" => Some(rail),
        _ => None,
    }
}
