//! `countersign audit`: checkpoints on demand, and the chain for others to verify.

use clap::{Args, Subcommand};
use serde_json::json;

use super::output::say;
use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed};
use crate::app::{checkpoints, open_current};
use crate::config::Config;

/// `audit …`.
#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Write a signed checkpoint of every chain that moved since its last one; also right before a backup
    #[command(
        after_help = "Example:\n  countersign audit checkpoint --config countersign.toml\n\nIt is done when the sink holds a checkpoint of every chain's end."
    )]
    Checkpoint(Checkpoint),
    /// Print a tenant's chain, a JSON object a line, for a verifier of one's own
    #[command(
        after_help = "Example:\n  countersign audit export --tenant default > audit.jsonl\n\nEach line has seq, entry (the canonical text), previous and chain. docs/verify_audit.py checks such a file."
    )]
    Export(Export),
}

/// Options of `audit checkpoint`.
#[derive(Debug, Args)]
pub(super) struct Checkpoint {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFile,
}

/// Options of `audit export`.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// The tenant
    #[arg(long, default_value = "default")]
    tenant: String,
    #[command(flatten)]
    file: ConfigFile,
}

/// Entries read at once.
const PAGE: i64 = 1_000;

impl Audit {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.run().await,
            Self::Export(export) => export.run().await,
        }
    }
}

impl Checkpoint {
    async fn run(self) -> Result<(), CommandFault> {
        let config = Config::load(self.file.config.as_deref())?;
        config.audit.check()?;
        if !config.audit.is_on() {
            return Err(CommandFault::Unusable(
                "audit.checkpoint_folder: is empty: checkpoints are off; name a folder (or audit.checkpoint_url) and a key"
                    .to_owned(),
            ));
        }
        let ambient = ambient();
        let store = open_current(&config, std::sync::Arc::clone(&ambient.clock)).await?;
        let Some(checkpoints) = checkpoints(&config, store.clone(), &ambient)? else { return Ok(()) };
        let done = checkpoints.write_all().await.map_err(failed)?;
        store.close().await;
        let failures = done.iter().filter(|done| done.outcome.is_err()).count();
        if self.json {
            let rows: Vec<_> = done
                .iter()
                .map(|done| {
                    json!({"tenant": done.tenant, "entries": done.size, "written": done.outcome.as_ref().ok(),
                        "reason": done.outcome.as_ref().err().map(ToString::to_string)})
                })
                .collect();
            say(json!({"ok": failures == 0, "tenants": rows}));
        } else {
            for done in &done {
                match &done.outcome {
                    Ok(true) => say(format_args!("wrote   {} entry {}", done.tenant, done.size)),
                    Ok(false) => say(format_args!("stands  {} entry {}", done.tenant, done.size)),
                    Err(fault) => say(format_args!("failed  {} entry {}: {fault}", done.tenant, done.size)),
                }
            }
        }
        if failures == 0 { Ok(()) } else { Err(failed("not every chain has a checkpoint of its end")) }
    }
}

impl Export {
    async fn run(self) -> Result<(), CommandFault> {
        let store = open_current(&Config::load(self.file.config.as_deref())?, ambient().clock).await?;
        let mut session = store.read().await.map_err(failed)?;
        let mut after = 0;
        loop {
            let page = session.audit_entries(&self.tenant, after, PAGE).await.map_err(failed)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for row in &page {
                let line =
                    json!({"seq": row.seq, "entry": row.canonical, "previous": row.previous, "chain": row.chain});
                say(line);
            }
        }
        drop(session);
        store.close().await;
        Ok(())
    }
}
