//! `countersign signer`: the reference signer service by itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};

use super::people::People;
use super::{A_YEAR_OF_MINUTES, CommandFault, ambient, failed, secret};
use crate::config::Config;
use crate::http::serve::{Serving, bind, serve};
use crate::lifecycle::stop_on_signals;
use crate::signer::{SignerService, SignerSettings};
use crate::telemetry;

/// Options of `signer`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  countersign signer --directory signers.toml --database signer.db \\\n    --api-key-file secrets/signer-api-key --callback-secret-file secrets/callback-secret\n\nsigners.toml:\n  [[signer]]\n  signer_id = \"finance-1\"\n  name = \"Finance, first\"\n  public_key_file = \"finance-1.pub.pem\"   # optional\n  channels = [{ by = \"console\" }]            # mail, push and more: docs/channels.md"
)]
pub(super) struct Signer {
    /// Where it listens
    #[arg(long, default_value = "127.0.0.1:8081", env = "COUNTERSIGN_SIGNER_LISTEN")]
    listen: String,
    /// Where people reach it; sign links begin with it
    #[arg(long, default_value = "http://127.0.0.1:8081", env = "COUNTERSIGN_SIGNER_PUBLIC_URL")]
    public_url: String,
    /// Its database file
    #[arg(long, default_value = "signer.db", env = "COUNTERSIGN_SIGNER_DATABASE")]
    database: PathBuf,
    /// Who can be asked, and how each is reached (TOML)
    #[arg(long, env = "COUNTERSIGN_SIGNER_DIRECTORY")]
    directory: PathBuf,
    /// The API key that the gateway shows
    #[arg(long, env = "COUNTERSIGN_SIGNER_API_KEY_FILE")]
    api_key_file: PathBuf,
    /// The secret that callbacks are signed with
    #[arg(long, env = "COUNTERSIGN_SIGNER_CALLBACK_SECRET_FILE")]
    callback_secret_file: PathBuf,
    /// How long a sign link that was asked for leads anywhere, in minutes
    #[arg(long, default_value_t = 15, value_parser = value_parser!(u64).range(1..=A_YEAR_OF_MINUTES))]
    link_minutes: u64,
    /// Offer the presence switch (for trying things out)
    #[arg(long)]
    presence_switch: bool,
}

impl Signer {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let mut config = Config::load(None)?;
        if std::env::var_os("COUNTERSIGN__TELEMETRY__SERVICE_NAME").is_none() {
            "countersign-signer".clone_into(&mut config.telemetry.service_name);
        }
        let guard = telemetry::init(&config.telemetry)?;
        let listener = bind("--listen", &self.listen).await?;
        let People { directory, reaching } = People::load(&self.directory)?;
        let settings = SignerSettings {
            database: self.database.clone(),
            api_key: secret(&self.api_key_file)?,
            callback_secret: secret(&self.callback_secret_file)?,
            public_url: self.public_url.clone(),
            directory,
            reaching,
            link_ttl: Duration::from_secs(self.link_minutes.saturating_mul(60)),
            presence_switch: self.presence_switch,
        };
        let ambient = ambient();
        let service = SignerService::open(settings, Arc::clone(&ambient.clock), Arc::clone(&ambient.entropy))
            .await
            .map_err(|err| CommandFault::Unusable(err.to_string()))?;
        let stop = stop_on_signals().map_err(failed)?;
        tracing::info!(listen = self.listen, "signer service is serving");
        let router = service.router();
        let deliveries = tokio::spawn({
            let (service, stop) = (service.clone(), stop.clone());
            async move { tokio::join!(service.deliver_callbacks(stop.clone()), service.carry_messages(stop)) }
        });
        serve(listener, router, Serving::from(&config.server), stop).await;
        if deliveries.await.is_err() {
            tracing::error!(
                "the delivery of callbacks or messages panicked; what is pending goes on at the next start"
            );
        }
        guard.shutdown();
        Ok(())
    }
}
