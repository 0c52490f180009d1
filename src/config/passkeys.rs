//! `[passkeys]`: for which site signers make theirs.

use serde::Deserialize;

use super::urls::bare_url;
use super::{ConfigFault, fault};

/// `[passkeys]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/countersign.toml documents every key")]
pub struct Passkeys {
    pub rp_id: String,
    pub origins: Vec<String>,
}

impl Passkeys {
    /// Whether there is a site to make them for.
    pub fn is_on(&self) -> bool {
        !self.rp_id.is_empty()
    }

    /// Checks that every origin is one at which a browser uses a passkey of this site.
    ///
    /// *Errors*: the first setting that can't be used.
    pub fn check(&self) -> Result<(), ConfigFault> {
        let name = self.rp_id.as_str();
        let host = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if name.starts_with('.') || name.ends_with('.') || !name.chars().all(host) {
            return Err(fault("passkeys.rp_id", "must be a host name in lower case, such as sign.example"));
        }
        if self.is_on() == self.origins.is_empty() {
            return Err(fault("passkeys.origins", "is required with passkeys.rp_id, and only with it"));
        }
        for (origin, number) in self.origins.iter().zip(1..) {
            let wrong = |why: &dyn std::fmt::Display| fault("passkeys.origins", format_args!("number {number} {why}"));
            let url = bare_url(origin).map_err(|why| wrong(&why))?;
            if url.origin().ascii_serialization() != *origin {
                return Err(wrong(&format_args!(
                    "must be written as browsers do: {}",
                    url.origin().ascii_serialization()
                )));
            }
            let at = url.host_str().unwrap_or_default();
            if at != name && !at.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')) {
                return Err(wrong(&"must be at passkeys.rp_id or below it"));
            }
            if url.scheme() != "https" && at != "localhost" && !at.ends_with(".localhost") {
                return Err(wrong(&"must be https: browsers have no passkeys elsewhere"));
            }
        }
        Ok(())
    }
}
