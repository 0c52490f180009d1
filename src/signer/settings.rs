//! What the service is started with, checked before anything is opened.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use standardwebhooks::Webhook;

use super::channels::Reaching;
use super::directory::DirectoryEntry;
use super::store::StoreFault;
use crate::config::{ConfigFault, api_key, whsec};

/// Why the service can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum SignerFault {
    /// A setting can't be used: its name, and what it must be. Never its value.
    #[error(transparent)]
    Setting(#[from] ConfigFault),
    /// The database can't be used.
    #[error("{0}")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl SignerFault {
    pub(super) fn setting(name: &str, why: impl std::fmt::Display) -> Self {
        Self::Setting(ConfigFault(format!("{}: {why}", of_ours(name))))
    }

    pub(super) fn database(fault: StoreFault) -> Self {
        Self::Database(Box::new(fault))
    }
}

fn of_ours(name: &str) -> String {
    format!("signer service, {name}")
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
    /// How they are reached.
    pub reaching: Reaching,
    /// How long a sign link leads anywhere.
    pub link_ttl: Duration,
    /// Whether `PUT /api/v1/signers/{id}/presence` exists. When it does not, the directory's word on
    /// who is online counts at each start; when it does, the last word kept counts.
    pub presence_switch: bool,
}

impl SignerSettings {
    pub(super) fn webhook(&self) -> Result<Webhook, SignerFault> {
        const NAME: &str = "callback_secret";
        let key = whsec(&of_ours(NAME), &self.callback_secret)?;
        Webhook::from_bytes(key).map_err(|_| SignerFault::setting(NAME, "can't be used"))
    }

    pub(super) fn check_api_key(&self) -> Result<(), SignerFault> {
        Ok(api_key(&of_ours("api_key"), &self.api_key)?)
    }

    pub(super) fn check_reaching(&self) -> Result<(), SignerFault> {
        let Reaching { digest, answer_within, links, links_within, message_links, .. } = &self.reaching;
        let longest = Duration::from_hours(24 * 366);
        for (name, span) in [
            ("digest_within", digest.within),
            ("answer_within", *answer_within),
            ("links_within", *links_within),
            ("message_links", *message_links),
        ] {
            if span.is_zero() || span > longest {
                return Err(SignerFault::setting(name, "must be more than zero and at most a year"));
            }
        }
        if digest.most == 0 || *links == 0 {
            return Err(SignerFault::setting("digest and links", "must allow at least one"));
        }
        Ok(())
    }

    pub(super) fn api_key_bytes(&self) -> &[u8] {
        self.api_key.expose_secret().as_bytes()
    }
}
