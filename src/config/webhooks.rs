//! `[webhooks]`: where payment events go, what signs them, how often they are tried.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;

use super::secrets::MOST;
use super::urls::{bare_url, web_url};
use super::{ConfigFault, fault};

/// `[webhooks]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Webhooks {
    pub targets: Vec<String>,
    pub secrets: Vec<SecretString>,
    pub secrets_file: String,
    pub allow_private: Vec<String>,
    pub schedule_s: Vec<u64>,
    pub timeout_ms: u64,
}

impl Webhooks {
    /// Takes the secrets from their file, one a line.
    pub(super) fn resolve_secrets(&mut self) -> Result<(), ConfigFault> {
        if self.secrets_file.is_empty() {
            return Ok(());
        }
        if !self.secrets.is_empty() {
            return Err(fault("webhooks.secrets", "and webhooks.secrets_file are both set; set one"));
        }
        let text = std::fs::read_to_string(&self.secrets_file)
            .map_err(|err| fault("webhooks.secrets_file", format_args!("can't be read: {}", err.kind())))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        self.secrets = lines.map(|line| SecretString::from(line.to_owned())).collect();
        Ok(())
    }

    /// Checks every value but what an address is found to be.
    pub(super) fn check(&self) -> Result<(), ConfigFault> {
        let urls = self.urls()?;
        self.allowed()?;
        for secret in &self.secrets {
            whsec("webhooks.secrets", secret)?;
        }
        if self.secrets.len() > MOST {
            return Err(fault("webhooks.secrets", "must be one, or two while one replaces the other"));
        }
        if !urls.is_empty() && self.secrets.is_empty() {
            return Err(fault("webhooks.secrets", "is required with targets; set it by environment or secrets_file"));
        }
        if self.schedule_s.is_empty() {
            return Err(fault("webhooks.schedule_s", "must list at least one wait"));
        }
        Ok(())
    }

    /// The targets, each in the one form that its URL has.
    ///
    /// *Errors*: one that is no address, or is listed twice.
    pub fn urls(&self) -> Result<Vec<Url>, ConfigFault> {
        let mut urls: Vec<Url> = Vec::with_capacity(self.targets.len());
        for (text, number) in self.targets.iter().zip(1..) {
            let bad = |why: &dyn Display| fault("webhooks.targets", format_args!("number {number} {why}"));
            let url = web_url(text).map_err(|why| bad(&why))?;
            if urls.contains(&url) {
                return Err(bad(&"is listed twice"));
            }
            urls.push(url);
        }
        Ok(urls)
    }

    /// What may be private: host and port, the host as URLs spell it.
    pub fn allowed(&self) -> Result<Vec<(String, u16)>, ConfigFault> {
        let read = |entry: &String| {
            let port: u16 = entry.rsplit_once(':')?.1.parse().ok()?;
            let url = bare_url(&format!("http://{entry}/")).ok()?;
            let host = url.host_str().filter(|_| url.port_or_known_default() == Some(port))?;
            Some((host.to_owned(), port))
        };
        let bad = |number| fault("webhooks.allow_private", format_args!("number {number} must be host:port"));
        self.allow_private.iter().zip(1..).map(|(entry, number)| read(entry).ok_or_else(|| bad(number))).collect()
    }
}

/// The key in a `whsec_` secret (Standard Webhooks): 24 to 64 bytes.
pub fn whsec(setting: &str, secret: &SecretString) -> Result<Vec<u8>, ConfigFault> {
    let bytes = secret.expose_secret().strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    // An empty or short key would verify what anyone can compute.
    bytes
        .filter(|bytes| (24..=64).contains(&bytes.len()))
        .ok_or_else(|| fault(setting, "must be whsec_ and base64 of 24 to 64 bytes"))
}

/// The `whsec_` secret that a key is.
pub fn whsec_of(key: &[u8; 32]) -> String {
    format!("whsec_{}", STANDARD.encode(key))
}
