//! `countersign verify`: what is stored, checked by recomputation.

use clap::{Args, Subcommand};

use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed};
use crate::app::open_existing;
use crate::config::Config;
use crate::proof::{AuditFacts, GENESIS, link};

/// `verify …`.
#[derive(Debug, Subcommand)]
pub(super) enum Verify {
    /// Recompute a tenant's audit chain and say where it breaks
    #[command(
        after_help = "Example:\n  countersign verify audit --config countersign.toml\n  COUNTERSIGN__DATABASE__URL=sqlite://.countersign/gateway.db countersign verify audit     a dev instance's\n\nExit 0: every entry is in its place. 1: the chain is broken; the first bad entry is named."
    )]
    Audit(Audit),
}

/// Options of `verify audit`.
#[derive(Debug, Args)]
pub(super) struct Audit {
    /// The tenant
    #[arg(long, default_value = "default")]
    tenant: String,
    #[command(flatten)]
    file: ConfigFile,
}

impl Verify {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        match self {
            Self::Audit(audit) => audit.run().await,
        }
    }
}

/// Entries read at once.
const PAGE: i64 = 1_000;

impl Audit {
    #[expect(clippy::print_stdout, reason = "what it prints is its purpose")]
    async fn run(self) -> Result<(), CommandFault> {
        let store = open_existing(&Config::load(self.file.config.as_deref())?, ambient().clock).await?;
        let mut session = store.read().await.map_err(failed)?;
        let (mut seq, mut chain) = (0_i64, GENESIS.to_owned());
        loop {
            let entries = session.audit_entries(&self.tenant, seq, PAGE).await.map_err(failed)?;
            let last = entries.is_empty();
            for entry in entries {
                seq = seq.saturating_add(1);
                let broken =
                    |why: &str| failed(format_args!("the audit of {} is broken at entry {seq}: {why}", self.tenant));
                if entry.seq != seq {
                    return Err(broken("it is missing"));
                }
                let facts: AuditFacts =
                    serde_json::from_str(&entry.canonical).map_err(|_| broken("it can't be read"))?;
                let expected = link(&chain, &facts).map_err(failed)?;
                if facts.seq != seq.to_string() || facts.tenant != self.tenant {
                    return Err(broken("it stands in another's place"));
                }
                if entry.previous != chain || expected.canonical != entry.canonical || expected.chain != entry.chain {
                    return Err(broken("it does not follow from what stands before it"));
                }
                chain = entry.chain;
            }
            if last {
                break;
            }
        }
        drop(session);
        store.close().await;
        println!(
            "the audit of {} is whole: {seq} entries, head {}",
            self.tenant,
            if chain.is_empty() { "-" } else { &chain }
        );
        Ok(())
    }
}
