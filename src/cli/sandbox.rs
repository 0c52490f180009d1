//! `countersign sandbox`: the sandbox rail by itself.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::{CommandFault, ambient, failed, secret};
use crate::config::{Config, api_key};
use crate::http::serve::{Serving, bind, serve};
use crate::lifecycle::stop_on_signals;
use crate::sandbox::Sandbox;
use crate::telemetry;

/// Options of `sandbox`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  countersign sandbox --database rail.db --api-key-file secrets/rail-api-key\n\nA rail to try and test with: it keeps a double-entry ledger of pretended money and misbehaves on request."
)]
pub(super) struct SandboxRail {
    /// Where it listens
    #[arg(long, default_value = "127.0.0.1:8082", env = "COUNTERSIGN_SANDBOX_LISTEN")]
    listen: String,
    /// Its database file
    #[arg(long, default_value = "rail.db", env = "COUNTERSIGN_SANDBOX_DATABASE")]
    database: PathBuf,
    /// The API key that the gateway shows
    #[arg(long, env = "COUNTERSIGN_SANDBOX_API_KEY_FILE")]
    api_key_file: PathBuf,
}

impl SandboxRail {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let mut config = Config::load(None)?;
        if std::env::var_os("COUNTERSIGN__TELEMETRY__SERVICE_NAME").is_none() {
            "countersign-sandbox".clone_into(&mut config.telemetry.service_name);
        }
        let guard = telemetry::init(&config.telemetry)?;
        let key = secret(&self.api_key_file)?;
        api_key("--api-key-file", &key)?;
        let listener = bind("--listen", &self.listen).await?;
        let ambient = ambient();
        let rail = Sandbox::open(&self.database, key, Arc::clone(&ambient.clock), Arc::clone(&ambient.entropy))
            .await
            .map_err(failed)?;
        let stop = stop_on_signals().map_err(failed)?;
        tracing::info!(listen = self.listen, "sandbox rail is serving");
        serve(listener, rail.router(), Serving::from(&config.server), stop).await;
        rail.close().await;
        guard.shutdown();
        Ok(())
    }
}
