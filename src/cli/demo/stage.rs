//! The demo's own dev instance: a child process that can be killed and started again.

use std::path::PathBuf;
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
    /// Starts a fresh instance in a temporary folder.
    pub(super) async fn set() -> Result<Self, CommandFault> {
        let folder = std::env::temp_dir().join(format!("countersign-demo-{:016x}", SystemEntropy.u64()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        Self::start(folder).await
    }

    async fn start(folder: PathBuf) -> Result<Self, CommandFault> {
        let (child, card) = launch(&folder).await?;
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
        Ok(Self { folder, child, cast })
    }

    /// Kills the instance as a power cut would: no handler runs, nothing is flushed.
    pub(super) async fn kill(&mut self) -> Result<(), CommandFault> {
        self.child.kill().await.map_err(failed)
    }

    /// Starts the killed instance again on the same data.
    pub(super) async fn restart(&mut self) -> Result<(), CommandFault> {
        *self = Self::start(self.folder.clone()).await?;
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
    pub(super) async fn strike(&mut self, keep: bool) {
        if self.child.kill().await.is_err() {
            tracing::debug!("the demo's instance had ended already");
        }
        if !keep && std::fs::remove_dir_all(&self.folder).is_err() {
            tracing::debug!("the demo's folder could not be removed");
        }
    }
}

async fn launch(folder: &std::path::Path) -> Result<(Child, Card), CommandFault> {
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(["dev", "--json", "--port", "0", "--data-dir"])
        .arg(folder)
        .envs(QUICK)
        .stdin(Stdio::null())
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
