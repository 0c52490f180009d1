//! `countersign check signer`: the contract of docs/signer-contract.md, played against a service.
//!
//! The payments are throwaways of a reference that nobody has, under a tenant of their own, and are
//! closed again. Nothing is asked of any gateway, and no money can move.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::super::output::say;
use super::super::{CommandFault, ambient, failed, secret, web_address};
use super::acts::{self, Play};
use super::inbox::{self, Inbox};
use super::paper::Paper;
use super::refusals;
use super::report::Report;
use super::wire::Wire;
use crate::config::{api_key, base_url, whsec};
use crate::domain::SignerId;
use crate::http::serve::bind;

/// Options of `check signer`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign check signer http://127.0.0.1:8081 --api-key-file secrets/signer-api-key --signer finance-1\n  countersign check signer https://signer.example --api-key-file key --signer ann --signer bob --json\n\nEach check is a line: ok, failed, skipped, or advised where the gateway does not depend on it, with why and the\nsection of docs/signer-contract.md. It leaves a few closed payments of the tenant countersign-check behind, and\nsigners whom the service reaches get one message.\n\nIt is done when every mandatory check held."
)]
pub(super) struct CheckSigner {
    /// The service's base URL, as `signer.url` would be
    url: String,
    /// The API key that the gateway shows
    #[arg(long, env = "COUNTERSIGN_SIGNER_API_KEY_FILE", value_name = "FILE")]
    api_key_file: PathBuf,
    /// A person whom the service knows; give two for every check
    #[arg(long = "signer", value_name = "ID", default_value = "finance-1")]
    signers: Vec<String>,
    /// Take callbacks here, and wait for somebody to decide
    #[arg(long, value_name = "ADDR")]
    callback_listen: Option<String>,
    /// Where the service reaches that address, when it is not at ADDR by http
    #[arg(long, value_name = "URL", requires = "callback_listen")]
    callback_url: Option<String>,
    /// The secret that callbacks are signed with
    #[arg(long, value_name = "FILE", requires = "callback_listen")]
    callback_secret_file: Option<PathBuf>,
    /// How long to wait for a decision, in seconds
    #[arg(long, default_value_t = 120, requires = "callback_listen")]
    callback_wait: u64,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// Where callbacks go when nobody waits for them (RFC 6761: resolves nowhere).
const NOWHERE: &str = "https://countersign-check.invalid/callbacks/signer";

impl CheckSigner {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let unusable = |why: String| CommandFault::Unusable(why);
        base_url(&self.url).map_err(|why| unusable(format!("URL: {why}")))?;
        for (at, signer) in self.signers.iter().enumerate() {
            signer.parse::<SignerId>().map_err(|refusal| unusable(format!("--signer: {}", refusal.message)))?;
            if self.signers.iter().take(at).any(|before| before == signer) {
                return Err(unusable("--signer: the same person twice".to_owned()));
            }
        }
        let (inbox, callback_url) = self.inbox().await?;
        let key = secret(&self.api_key_file)?;
        api_key("--api-key-file", &key)?;
        let wire = Wire::new(&self.url, key).map_err(failed)?;
        wire.reach().await.map_err(|why| failed(format_args!("{}: {why}", self.url)))?;
        let ambient = ambient();
        let paper = Paper::new(ambient.clock.now(), Arc::clone(&ambient.entropy), callback_url, self.signers);
        let mut report = Report::new(!self.json);
        let latency = play(&mut Play { wire: &wire, paper: &paper, report: &mut report }, inbox.as_ref()).await;
        let (held, all) = report.count();
        if self.json {
            say(json!({"ok": report.held(), "service": self.url, "checks": report.json(), "latency": latency}));
        } else {
            let of = |name: &str| latency.get(name).cloned().unwrap_or_default();
            say(format_args!(
                "\n{held} of {all} checks held. {} requests, median {} ms, slowest {} ms.",
                of("requests"),
                of("median_ms"),
                of("slowest_ms")
            ));
        }
        if report.held() { Ok(()) } else { Err(failed("the service does not keep the whole contract")) }
    }

    async fn inbox(&self) -> Result<(Option<Inbox>, String), CommandFault> {
        let Some(address) = &self.callback_listen else {
            return Ok((None, NOWHERE.to_owned()));
        };
        let listener = bind("--callback-listen", address).await?;
        let here = listener.local_addr().map_err(failed)?;
        let key = match &self.callback_secret_file {
            Some(file) => {
                const OPTION: &str = "--callback-secret-file";
                let key = Webhook::from_bytes(whsec(OPTION, &secret(file)?)?);
                Some(key.map_err(|_| CommandFault::Unusable(format!("{OPTION}: can't be used")))?)
            }
            None => None,
        };
        let url = match &self.callback_url {
            Some(url) => web_address("--callback-url", url)?.to_string(),
            None => format!("http://{here}{}", inbox::PATH),
        };
        Ok((Some(Inbox::open(listener, key, Duration::from_secs(self.callback_wait))), url))
    }
}

/// The whole of it, in the order of a payment's life; how long answers took.
async fn play(play: &mut Play<'_>, inbox: Option<&Inbox>) -> Value {
    acts::health(play).await;
    refusals::access(play).await;
    let taken = acts::register(play).await;
    refusals::registrations(play).await;
    refusals::unknown(play).await;
    if let Some(taken) = &taken {
        acts::read(play, taken).await;
        acts::notify(play, taken).await;
        acts::new_round(play, taken).await;
        acts::cancel(play, taken).await;
        refusals::malformed(play, taken).await;
        inbox::callback(play, inbox).await;
    }
    refusals::overall(play)
}
