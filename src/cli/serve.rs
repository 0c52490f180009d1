//! `countersign serve`, `worker` and `migrate`: the gateway's processes.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::output::say;
use super::{CommandFault, ambient, failed};
use crate::app::{Gateway, checkpoints, finish_checkpoints, journal, open_store, read_policy};
use crate::config::{Config, ms};
use crate::http::health;
use crate::http::serve::{Serving, bind, serve};
use crate::lifecycle::stop_on_signals;
use crate::{telemetry, worker};

/// Which configuration.
#[derive(Debug, Args)]
pub(super) struct ConfigFile {
    /// A configuration file over the defaults; the environment overrides both
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CONFIG")]
    pub(super) config: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads and checks it.
    pub(super) fn checked(&self) -> Result<Config, CommandFault> {
        let config = Config::load(self.config.as_deref())?;
        config.check()?;
        Ok(config)
    }
}

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign serve --config countersign.toml\n  COUNTERSIGN__SERVER__LISTEN=0.0.0.0:8080 countersign serve --no-worker"
)]
pub(super) struct Serve {
    #[command(flatten)]
    file: ConfigFile,
    /// Leave due work to `countersign worker`
    #[arg(long)]
    no_worker: bool,
    /// Take the database for a restored backup: send nothing until its payments were compared with the rail
    #[arg(long)]
    reconcile_only: bool,
}

impl Serve {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let mut config = self.file.checked()?;
        config.worker.enabled &= !self.no_worker;
        config.worker.reconcile_only |= self.reconcile_only;
        let guard = telemetry::init(&config.telemetry)?;
        let policy = read_policy(&config)?;
        // First: a second instance by mistake must not touch the database.
        let listener = bind("server.listen", &config.server.listen).await?;
        let gateway = Gateway::build(&config, policy, &ambient(), false).await?;
        if config.worker.reconcile_only {
            gateway.journal.mark_restored("reconcile_only").await.map_err(failed)?;
        }
        let stop = stop_on_signals().map_err(failed)?;
        tracing::info!(
            listen = config.server.listen,
            resource = config.resource(),
            worker = config.worker.enabled,
            checkpoints = config.audit.is_on() && config.worker.enabled,
            "serving"
        );
        gateway.run(&config, listener, stop).await;
        guard.shutdown();
        Ok(())
    }
}

/// Options of `worker`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign worker --config countersign.toml\n  countersign worker --health 127.0.0.1:8083     beside it: countersign health http://127.0.0.1:8083/healthz"
)]
pub(super) struct Worker {
    #[command(flatten)]
    file: ConfigFile,
    /// Answer GET /healthz at this address: 200 while the process lives and the database answers
    #[arg(long, value_name = "ADDRESS", env = "COUNTERSIGN_WORKER_HEALTH")]
    health: Option<String>,
    /// Take the database for a restored backup: send nothing until its payments were compared with the rail
    #[arg(long)]
    reconcile_only: bool,
}

impl Worker {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let config = self.file.checked()?;
        let guard = telemetry::init(&config.telemetry)?;
        let ambient = ambient();
        let policy = read_policy(&config)?;
        let health = match &self.health {
            Some(address) => Some(bind("--health", address).await?),
            None => None,
        };
        let store = open_store(&config, Arc::clone(&ambient.clock)).await?;
        let journal = journal(&config, policy, store.clone(), &ambient, false).await?;
        if config.worker.reconcile_only || self.reconcile_only {
            journal.mark_restored("reconcile_only").await.map_err(failed)?;
        }
        let stop = stop_on_signals().map_err(failed)?;
        let health = health.map(|listener| {
            let router = health::alive(Arc::clone(&journal));
            tokio::spawn(serve(listener, router, Serving::from(&config.server), stop.clone()))
        });
        let checkpoints = checkpoints(&config, store.clone(), &ambient)?;
        let noting = checkpoints.clone().map(|all| tokio::spawn(worker::checkpoints(all, stop.clone())));
        tracing::info!(checkpoints = checkpoints.is_some(), "working");
        worker::run(journal, ms(config.worker.tick_ms), ms(config.server.drain_ms), stop).await;
        if let Some(health) = health
            && health.await.is_err()
        {
            tracing::error!("the health page panicked");
        }
        finish_checkpoints(checkpoints, noting).await;
        store.close().await;
        guard.shutdown();
        Ok(())
    }
}

/// Options of `migrate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  COUNTERSIGN__DATABASE__URL=postgres://desk@db/desk countersign migrate")]
pub(super) struct Migrate {
    #[command(flatten)]
    file: ConfigFile,
}

impl Migrate {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let config = Config::load(self.file.config.as_deref())?;
        let store = open_store(&config, ambient().clock).await?;
        say("the database's schema is up to date");
        store.close().await;
        Ok(())
    }
}
