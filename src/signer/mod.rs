//! The reference signer service: shows payments to people and collects their decisions.
//!
//! It implements `docs/signer-contract.md` and shares with the gateway nothing but the documents of
//! [`crate::proof`]. It holds no signer's private key and no rail credential, so the worst it can
//! do is refuse or delay.
//!
//! A request that writes is one transaction: its effects, the callback it owes and its idempotency
//! record are kept together or not at all; but for `notify`, which commits its messages before it tries them.
//! Callbacks leave from the outbox, by
//! [`SignerService::deliver_callbacks`]; a process that dies between sending one and noting it sends
//! it again under the same event id.

mod api;
mod asset;
mod astray;
mod callback;
mod cancel;
mod channels;
mod decision;
mod directory;
mod enrol;
mod inbox;
mod invitations;
mod keyed;
mod language;
mod link;
mod look;
mod notify;
mod page;
mod presence;
mod reach;
mod refused;
mod register;
mod settings;
mod sign;
mod sign_in;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod verdicts;
mod viewed;

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use standardwebhooks::Webhook;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::ambient::{Clock, Entropy};
use crate::domain::Timestamp;
use crate::proof::b64url;

pub use channels::{ChannelSettings, Digest, Language, Mail, MailTls, Reaching, Way};
pub use directory::DirectoryEntry;
pub use settings::{SignerFault, SignerSettings};

/// What every request handler and the callback loop work with.
struct Desk {
    store: store::Store,
    directory: directory::Directory,
    channels: channels::Channels,
    reaching: Reaching,
    address: link::Address,
    /// Whom passkeys are made for.
    party: crate::proof::RelyingParty,
    link_ttl: std::time::Duration,
    presence_switch: bool,
    api_key_sha256: [u8; 32],
    webhook: Webhook,
    client: reqwest::Client,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// Vouches for what is answered to sign in.
    challenges: sign_in::Challenges,
    /// Seats for questions whether an inbox changed, which are held.
    held: Semaphore,
    /// Told by whoever enqueues a callback; the delivery loop listens.
    callback_enqueued: Notify,
    /// Turns when what became of a message was noted; those who wait for one look then.
    message_settled: watch::Sender<u64>,
}

impl Desk {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Says that something became of a message.
    fn settled(&self) {
        self.message_settled.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Hears when something became of a message.
    fn settlements(&self) -> watch::Receiver<u64> {
        self.message_settled.subscribe()
    }

    /// An id nobody can guess: a prefix and 128 random bits.
    fn mint(&self, prefix: &str) -> String {
        format!("{prefix}{}", b64url(self.entropy.u128().to_be_bytes()))
    }
}

/// The reference signer service. Clones share one database.
#[derive(Clone)]
pub struct SignerService {
    desk: Arc<Desk>,
}

impl std::fmt::Debug for SignerService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignerService").finish_non_exhaustive()
    }
}

impl SignerService {
    /// Checks the settings, opens the database and brings directory and tables up to date.
    ///
    /// *Errors*: a setting that can't be used, by name and never by value; the database's own trouble.
    pub async fn open(
        settings: SignerSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, SignerFault> {
        let webhook = settings.webhook()?;
        settings.check_api_key()?;
        let address = link::Address::parse(&settings.public_url)?;
        let party = address.party();
        settings.check_reaching()?;
        let channels = channels::Channels::open(&settings.reaching.channels, &clock)?;
        let directory = directory::Directory::parse(&settings.directory, &channels)?;
        let client = callback::client()?;
        let store = store::Store::open(&settings.database).await.map_err(SignerFault::database)?;
        presence::settle(&store, &settings, clock.now()).await.map_err(SignerFault::database)?;
        let api_key_sha256 = Sha256::digest(settings.api_key_bytes()).into();
        let desk = Desk {
            store,
            directory,
            channels,
            reaching: settings.reaching,
            address,
            party,
            link_ttl: settings.link_ttl,
            presence_switch: settings.presence_switch,
            api_key_sha256,
            webhook,
            client,
            clock,
            challenges: sign_in::Challenges::new(entropy.as_ref()),
            held: Semaphore::new(inbox::MOST_HELD),
            entropy,
            callback_enqueued: Notify::new(),
            message_settled: watch::Sender::new(0),
        };
        Ok(Self { desk: Arc::new(desk) })
    }

    /// The REST API, the sign page and `/healthz`.
    pub fn router(&self) -> axum::Router {
        api::router(Arc::clone(&self.desk))
    }

    /// Delivers callbacks until `stop` is cancelled. One such loop is enough; several do no harm.
    ///
    /// *Crash*: an attempt under way is made again.
    pub async fn deliver_callbacks(&self, stop: CancellationToken) {
        callback::run(&self.desk, stop).await;
    }

    /// Carries messages to people until `stop` is cancelled, beside what `notify` carries at once: what was held back,
    /// and what a crash left behind. One such loop is enough; several do no harm.
    ///
    /// *Crash*: an attempt under way may have arrived; the person's next channel is tried.
    pub async fn carry_messages(&self, stop: CancellationToken) {
        reach::run(&self.desk, stop).await;
    }

    /// Carries once what is due, and returns for how many people something was.
    ///
    /// *Errors*: the database's own trouble; a channel that fails is not an error.
    pub async fn tick_messages(&self) -> Result<usize, SignerFault> {
        reach::tick(&self.desk).await.map_err(SignerFault::database)
    }

    /// Makes one attempt at each callback that is due, and returns how many there were.
    ///
    /// *Errors*: the database's own trouble; a target that fails is not an error.
    pub async fn tick(&self) -> Result<usize, SignerFault> {
        callback::tick(&self.desk).await.map_err(SignerFault::database)
    }
}
