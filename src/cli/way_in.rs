//! Where the gateway is and what opens it: options of the commands that are a caller's side.

use std::path::PathBuf;

use clap::Args;

use super::{CommandFault, read, web_address};

/// The endpoint and a token, each by default the running dev instance's.
#[derive(Debug, Args)]
pub(super) struct WayIn {
    /// The MCP endpoint
    #[arg(long)]
    url: Option<String>,
    /// A token whose role grants what is asked
    #[arg(long, env = "COUNTERSIGN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file that holds that token
    #[arg(long, conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// The dev instance's folder
    #[arg(long, default_value = ".countersign")]
    pub(super) data_dir: PathBuf,
}

impl WayIn {
    /// The endpoint and the token, as far as they were given.
    pub(super) fn given(&self) -> Result<(Option<String>, Option<String>), CommandFault> {
        if let Some(url) = &self.url {
            web_address("--url", url)?;
        }
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(read(file)?.trim().to_owned()),
            (None, None) => None,
        };
        Ok((self.url.clone(), token))
    }
}
