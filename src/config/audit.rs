//! `[audit]`: where signed checkpoints go, what signs them, how often they are made.

use std::path::PathBuf;

use serde::Deserialize;
use url::Url;

use super::urls::web_url;
use super::{ConfigFault, fault};

/// `[audit]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Audit {
    pub checkpoint_folder: PathBuf,
    pub checkpoint_url: String,
    pub checkpoint_key_file: String,
    pub checkpoint_every_ms: u64,
    pub checkpoint_entries: u32,
}

impl Audit {
    /// Whether checkpoints are made.
    pub fn is_on(&self) -> bool {
        !self.checkpoint_folder.as_os_str().is_empty() || !self.checkpoint_url.is_empty()
    }

    /// Checks every value but the key itself.
    ///
    /// *Errors*: the first setting that is missing or can't be used.
    pub fn check(&self) -> Result<(), ConfigFault> {
        self.receiver()?;
        match (self.is_on(), self.checkpoint_key_file.is_empty()) {
            (true, true) => {
                return Err(fault(
                    "audit.checkpoint_key_file",
                    "is required with a folder or URL; countersign keys checkpoint makes one",
                ));
            }
            (false, false) => {
                return Err(fault("audit.checkpoint_folder", "is required with a key (or audit.checkpoint_url)"));
            }
            (true, false) | (false, true) => {}
        }
        if self.checkpoint_entries == 0 {
            return Err(fault("audit.checkpoint_entries", "must be more than zero"));
        }
        Ok(())
    }

    /// Where each checkpoint is posted to.
    ///
    /// *Errors*: a text that is no address.
    pub fn receiver(&self) -> Result<Option<Url>, ConfigFault> {
        if self.checkpoint_url.is_empty() {
            return Ok(None);
        }
        web_url(&self.checkpoint_url).map(Some).map_err(|why| fault("audit.checkpoint_url", why))
    }
}
