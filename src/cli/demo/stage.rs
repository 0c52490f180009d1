//! The demo's own dev instance: a child process that can be killed and started again.
//!
//! *Crash*: however the demo ends, the instance sees its standard input end, stops, and takes the folder away.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::cast::{Cast, Entry};
use super::ledger::Ledger;
use crate::ambient::{Entropy as _, SystemClock, SystemEntropy};
use crate::cli::home::Card;
use crate::cli::{CommandFault, failed};
use crate::proof::{AuditFacts, SigningKey};
use crate::store::Store;

/// A running dev instance.
pub(super) struct Stage {
    folder: PathBuf,
    /// Whether the folder stays.
    keep: bool,
    child: Child,
    pub(super) cast: Cast,
}

/// Settings that make the story short: attempts by the second, leases just longer than a call.
const QUICK: [(&str, &str); 9] = [
    ("COUNTERSIGN__NOTIFY__ATTEMPTS", "3"),
    ("COUNTERSIGN__NOTIFY__BASE_MS", "800"),
    ("COUNTERSIGN__NOTIFY__CAP_MS", "1600"),
    ("COUNTERSIGN__NOTIFY__CHECK_EVERY_MS", "1000"),
    ("COUNTERSIGN__WORKER__TICK_MS", "100"),
    ("COUNTERSIGN__WORKER__LEASE_MS", "12000"),
    ("COUNTERSIGN__RAIL__QUERY_BASE_MS", "500"),
    ("COUNTERSIGN__RAIL__READ_LAG_MS", "500"),
    ("COUNTERSIGN__TELEMETRY__LOG", "warn"),
];

const PATIENCE: Duration = Duration::from_secs(30);

impl Stage {
    /// Starts a fresh instance in a temporary folder, which stays afterwards only for one who wants to `keep` it.
    pub(super) async fn set(keep: bool) -> Result<Self, CommandFault> {
        let folder = std::env::temp_dir().join(format!("countersign-demo-{:016x}", SystemEntropy.u64()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let stage = Self::start(folder.clone(), keep).await;
        if stage.is_err() && !keep {
            remove(&folder);
        }
        stage
    }

    async fn start(folder: PathBuf, keep: bool) -> Result<Self, CommandFault> {
        let (child, card) = launch(&folder, keep).await?;
        let signer = card.signers.first().ok_or_else(|| failed("the dev instance has no signer"))?;
        let pem = std::fs::read_to_string(&signer.key_file).map_err(failed)?;
        let cast = Cast::enter(Entry {
            url: &card.mcp_url,
            agent: &card.tokens.agent,
            signer: &card.tokens.signer,
            operator: &card.tokens.operator,
            key: SigningKey::from_pem(&pem).map_err(failed)?,
            ledger: Ledger::new(&card.peers.rail, &card.rail_api_key).map_err(failed)?,
            repeats: 0,
        })
        .await?;
        Ok(Self { folder, keep, child, cast })
    }

    /// Kills the instance as a power cut would: no handler runs, nothing is flushed.
    pub(super) async fn kill(&mut self) -> Result<(), CommandFault> {
        self.child.kill().await.map_err(failed)
    }

    /// Starts the killed instance again on the same data.
    pub(super) async fn restart(&mut self) -> Result<(), CommandFault> {
        *self = Self::start(self.folder.clone(), self.keep).await?;
        Ok(())
    }

    /// The instance's audit, read from its database as an auditor would, beside the running process.
    pub(super) async fn audit(&self) -> Result<Vec<AuditFacts>, CommandFault> {
        let url = format!("sqlite://{}", self.folder.join("gateway.db").display());
        let store = Store::open(&url, 1, PATIENCE, std::sync::Arc::new(SystemClock)).await.map_err(failed)?;
        let entries = store.read().await.map_err(failed)?.audit_entries("default", 0, 1_000).await.map_err(failed)?;
        store.close().await;
        entries.iter().map(|entry| serde_json::from_str(&entry.canonical).map_err(failed)).collect()
    }

    /// Ends the instance and takes its folder away.
    pub(super) async fn strike(&mut self) {
        if self.child.kill().await.is_err() {
            tracing::debug!("the demo's instance had ended already");
        }
        if !self.keep {
            remove(&self.folder);
        }
    }
}

fn remove(folder: &Path) {
    if std::fs::remove_dir_all(folder).is_err() {
        tracing::debug!("the demo's folder could not be removed");
    }
}

async fn launch(folder: &Path, keep: bool) -> Result<(Child, Card), CommandFault> {
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(["dev", "--json", "--port", "0", "--until-stdin-ends", "--data-dir"])
        .arg(folder)
        .args((!keep).then_some("--remove-data-dir"))
        .envs(QUICK)
        // Held and never written to.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let stdout = child.stdout.take().ok_or_else(|| failed("the dev instance has no output"))?;
    let mut lines = BufReader::new(stdout).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line())
        .await
        .map_err(|_| failed("the dev instance did not start in time"))?
        .map_err(failed)?
        .ok_or_else(|| failed("the dev instance ended before it was ready"))?;
    let card = serde_json::from_str(&line).map_err(failed)?;
    Ok((child, card))
}
