//! What the service is started with, checked before anything is opened.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use standardwebhooks::Webhook;

use super::directory::DirectoryEntry;
use super::store::StoreFault;

/// Why the service can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum SignerFault {
    /// A setting can't be used: its name, and what it must be. Never its value.
    #[error("signer service: {0}: {1}")]
    Setting(&'static str, String),
    /// The database can't be used.
    #[error("{0}")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl SignerFault {
    pub(super) fn setting(name: &'static str, why: impl Into<String>) -> Self {
        Self::Setting(name, why.into())
    }

    pub(super) fn database(fault: StoreFault) -> Self {
        Self::Database(Box::new(fault))
    }
}

/// What the service is started with.
#[derive(Debug, Clone)]
pub struct SignerSettings {
    /// The `SQLite` file; `:memory:` for one that is gone when the service is.
    pub database: PathBuf,
    /// The bearer key that the gateway shows.
    pub api_key: SecretString,
    /// The Standard Webhooks secret that callbacks are signed with: `whsec_` and base64.
    pub callback_secret: SecretString,
    /// Where people reach the service, such as `https://sign.example`; sign links begin with it.
    pub public_url: String,
    /// Who can be asked.
    pub directory: Vec<DirectoryEntry>,
    /// How long a sign link leads anywhere.
    pub link_ttl: Duration,
    /// Whether `PUT /api/v1/signers/{id}/presence` exists. When it does not, the directory's word on
    /// who is online counts at each start; when it does, the last word kept counts.
    pub presence_switch: bool,
}

impl SignerSettings {
    pub(super) fn webhook(&self) -> Result<Webhook, SignerFault> {
        const FORM: &str = "must be whsec_ and the base64 of at least 24 bytes";
        let secret = self.callback_secret.expose_secret();
        // 38 characters: the prefix and the base64 of 24 bytes, which Standard Webhooks asks for.
        if !secret.starts_with("whsec_") || secret.len() < 38 {
            return Err(SignerFault::setting("callback_secret", FORM));
        }
        Webhook::new(secret).map_err(|_| SignerFault::setting("callback_secret", FORM))
    }

    pub(super) fn check_api_key(&self) -> Result<(), SignerFault> {
        let key = self.api_key.expose_secret();
        if key.len() < 16 || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SignerFault::setting("api_key", "must be at least 16 visible ASCII characters"));
        }
        Ok(())
    }

    pub(super) fn api_key_bytes(&self) -> &[u8] {
        self.api_key.expose_secret().as_bytes()
    }
}
