//! `countersign health`: one question to a health page, for a container's health check.

use std::time::Duration;

use clap::{Args, value_parser};

use super::{CommandFault, failed, web_address};
use crate::config::shown_url;

/// Options of `health`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign health                                    the gateway here: is it ready?\n  countersign health http://127.0.0.1:8081/healthz      the signer service here: does it live?"
)]
pub(super) struct Health {
    /// The page
    #[arg(default_value = "http://127.0.0.1:8080/readyz", env = "COUNTERSIGN_HEALTH_URL")]
    url: String,
    /// How long it may take, in seconds
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u64).range(1..=3_600))]
    timeout: u64,
}

impl Health {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let page = web_address("URL", &self.url)?;
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(self.timeout))
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(failed)?;
        let answer = http.get(page).send().await.map_err(|err| {
            let why = if err.is_timeout() { "no answer in time" } else { "no answer" };
            failed(format_args!("{}: {why}", shown_url(&self.url)))
        })?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(failed(format_args!("{}: {status}", shown_url(&self.url)))) }
    }
}
