//! Channels that leave nothing: the service's log, and a file. For trying things out.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;

use super::{Channel, Letter, Missed};

const WITHIN: Duration = Duration::from_secs(5);

/// A line in the service's log.
#[derive(Debug)]
pub(super) struct Console;

impl Channel for Console {
    fn check(&self, _to: &str) -> Result<(), &'static str> {
        Ok(())
    }

    fn within(&self) -> Duration {
        WITHIN
    }

    fn send<'a>(&'a self, _to: &'a str, letter: &'a Letter) -> BoxFuture<'a, Result<(), Missed>> {
        for item in &letter.items {
            tracing::info!(
                payment.id = %item.payment_id, signer.id = %letter.signer_id, url = %item.url,
                "a payment waits for a signature"
            );
        }
        Box::pin(async { Ok(()) })
    }
}

/// A line of JSON at the end of a file.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
}

impl File {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Channel for File {
    fn check(&self, _to: &str) -> Result<(), &'static str> {
        Ok(())
    }

    fn within(&self) -> Duration {
        WITHIN
    }

    fn send<'a>(&'a self, to: &'a str, letter: &'a Letter) -> BoxFuture<'a, Result<(), Missed>> {
        let path = self.path.clone();
        let line = json!({"id": letter.id, "signer_id": letter.signer_id, "to": to, "title": letter.title,
                          "text": letter.text, "url": letter.url});
        Box::pin(async move {
            let written = tokio::task::spawn_blocking(move || {
                let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
                // In one call, so that lines of several writers do not mix.
                file.write_all(format!("{line}\n").as_bytes())
            })
            .await;
            match written {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => {
                    tracing::warn!(kind = %error.kind(), "a message could not be written to its file");
                    Err(Missed::NotWritten)
                }
                Err(_) => Err(Missed::NotWritten),
            }
        })
    }
}
