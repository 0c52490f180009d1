//! `countersign signer`: the reference signer service by itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Deserialize;

use super::{A_YEAR_OF_MINUTES, CommandFault, ambient, failed, read, secret};
use crate::config::Config;
use crate::http::serve::{Serving, bind, serve};
use crate::lifecycle::stop_on_signals;
use crate::signer::{DirectoryEntry, SignerService, SignerSettings};
use crate::telemetry;

/// Options of `signer`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  countersign signer --directory signers.toml --database signer.db \\\n    --api-key-file secrets/signer-api-key --callback-secret-file secrets/callback-secret\n\nsigners.toml:\n  [[signer]]\n  signer_id = \"finance-1\"\n  name = \"Finance, first\"\n  public_key_file = \"finance-1.pub.pem\"   # optional"
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
    /// Who can be asked (TOML)
    #[arg(long, env = "COUNTERSIGN_SIGNER_DIRECTORY")]
    directory: PathBuf,
    /// The API key that the gateway shows
    #[arg(long, env = "COUNTERSIGN_SIGNER_API_KEY_FILE")]
    api_key_file: PathBuf,
    /// The secret that callbacks are signed with
    #[arg(long, env = "COUNTERSIGN_SIGNER_CALLBACK_SECRET_FILE")]
    callback_secret_file: PathBuf,
    /// How long a sign link leads anywhere, in minutes
    #[arg(long, default_value_t = 15, value_parser = value_parser!(u64).range(1..=A_YEAR_OF_MINUTES))]
    link_minutes: u64,
    /// Offer the presence switch (for trying things out)
    #[arg(long)]
    presence_switch: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DirectoryFile {
    signer: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    signer_id: String,
    name: String,
    #[serde(default)]
    public_key_file: Option<PathBuf>,
    #[serde(default = "yes")]
    online: bool,
}

const fn yes() -> bool {
    true
}

impl Signer {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let mut config = Config::load(None)?;
        if std::env::var_os("COUNTERSIGN__TELEMETRY__SERVICE_NAME").is_none() {
            "countersign-signer".clone_into(&mut config.telemetry.service_name);
        }
        let guard = telemetry::init(&config.telemetry)?;
        let listener = bind("--listen", &self.listen).await?;
        let settings = SignerSettings {
            database: self.database.clone(),
            api_key: secret(&self.api_key_file)?,
            callback_secret: secret(&self.callback_secret_file)?,
            public_url: self.public_url.clone(),
            directory: self.entries()?,
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
            let stop = stop.clone();
            async move { service.deliver_callbacks(stop).await }
        });
        serve(listener, router, Serving::from(&config.server), stop).await;
        if deliveries.await.is_err() {
            tracing::error!("the delivery of callbacks panicked; what is pending goes on at the next start");
        }
        guard.shutdown();
        Ok(())
    }

    fn entries(&self) -> Result<Vec<DirectoryEntry>, CommandFault> {
        let file: DirectoryFile = toml::from_str(&read(&self.directory)?)
            .map_err(|err| CommandFault::Unusable(format!("{}: {err}", self.directory.display())))?;
        let folder = self.directory.parent().unwrap_or(std::path::Path::new("."));
        file.signer
            .into_iter()
            .map(|row| {
                let key_pem = row.public_key_file.map(|key| read(&folder.join(key))).transpose()?;
                Ok(DirectoryEntry { signer_id: row.signer_id, name: row.name, key_pem, online: row.online })
            })
            .collect()
    }
}
