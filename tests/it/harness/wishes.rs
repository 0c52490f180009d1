//! What a test wants otherwise than usual, and the gateway built by it.

use std::net::SocketAddr;
use std::sync::Arc;

use countersign::adapters::{RailClient, SignerClient};
use countersign::ambient::{ShiftedClock, SystemEntropy};
use countersign::app::{self, Ambient, Gateway, open_store, parse_policy};
use countersign::config::Config;
use countersign::http::auth::{KeySource, Verifier};
use countersign::http::gate::Gate;
use countersign::http::router::router;
use countersign::http::serve::{Serving, serve};
use countersign::journal::ports::{PresencePort, RailPort, SignerPort};
use countersign::journal::{Journal, Setup};
use countersign::signer::{DirectoryEntry, Reaching};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::app::POLICY;

type Settings = Arc<dyn Fn(&mut Config) + Send + Sync>;
/// Changes how a person is listed at the signer service.
type People = Arc<dyn Fn(&mut DirectoryEntry) + Send + Sync>;
type SignerWrap = Arc<dyn Fn(Arc<dyn SignerPort>) -> Arc<dyn SignerPort> + Send + Sync>;

/// What a test wants otherwise than usual.
#[derive(Clone, Default)]
pub(crate) struct Wishes {
    pub(super) policy: Option<String>,
    pub(super) config: Option<Settings>,
    pub(super) signer: Option<SignerWrap>,
    pub(super) keyless: bool,
    pub(super) spans: Option<(u64, u64)>,
    pub(super) reaching: Reaching,
    pub(super) people: Option<People>,
    pub(super) browsed: bool,
}

impl Wishes {
    /// The signer service has no keys of the signers, so it can't verify anything.
    pub(crate) fn without_keys_at_the_service(mut self) -> Self {
        self.keyless = true;
        self
    }

    /// A browser opens the pages, which has passkeys at a host's name only; people have names there.
    pub(crate) fn browsed(mut self) -> Self {
        self.browsed = true;
        self.patient()
    }

    /// Where people find the pages of the signer service that listens there.
    pub(super) fn pages(&self, at: SocketAddr) -> String {
        let host = if self.browsed { "localhost".to_owned() } else { at.ip().to_string() };
        format!("http://{host}:{}", at.port())
    }

    /// Nothing of this test hangs: a busy machine's slow answers are waited for.
    pub(crate) fn patient(mut self) -> Self {
        self.spans = Some((4_000, 6_000));
        self
    }

    /// Answers come late in this test, and it does not wait for them.
    pub(crate) fn hasty(mut self) -> Self {
        self.spans = Some((400, 900));
        self
    }

    /// Other channels, and people who are reached by them.
    pub(crate) fn reached(
        mut self,
        reaching: Reaching,
        people: impl Fn(&mut DirectoryEntry) + Send + Sync + 'static,
    ) -> Self {
        self.reaching = reaching;
        self.people = Some(Arc::new(people));
        self
    }

    /// Another policy text.
    pub(crate) fn policy(mut self, text: impl Into<String>) -> Self {
        self.policy = Some(text.into());
        self
    }

    /// Other settings.
    pub(crate) fn config(mut self, change: impl Fn(&mut Config) + Send + Sync + 'static) -> Self {
        self.config = Some(Arc::new(change));
        self
    }

    /// A scripted signer service around the real one.
    pub(crate) fn signer(
        mut self,
        wrap: impl Fn(Arc<dyn SignerPort>) -> Arc<dyn SignerPort> + Send + Sync + 'static,
    ) -> Self {
        self.signer = Some(Arc::new(wrap));
        self
    }
}

/// Builds the gateway, by the composition root unless a port is scripted, and serves it.
pub(super) async fn build(
    config: &Config,
    wishes: &Wishes,
    clock: &Arc<ShiftedClock>,
    socket: TcpListener,
) -> (Arc<Journal>, (CancellationToken, JoinHandle<()>)) {
    let ambient = ambient(clock);
    let policy = parse_policy(wishes.policy.as_deref().unwrap_or(POLICY)).unwrap();
    let stop = CancellationToken::new();
    if wishes.signer.is_none() {
        let gateway = Box::pin(Gateway::build(config, policy, &ambient, true)).await.unwrap();
        let journal = Arc::clone(&gateway.journal);
        let (config, ended) = (config.clone(), stop.clone());
        let task = tokio::spawn(async move { Box::pin(gateway.run(&config, socket, ended)).await });
        return (journal, (stop, task));
    }
    let store = open_store(config, Arc::clone(&ambient.clock)).await.unwrap();
    let client = signer_client(config, &ambient);
    let switch: Arc<dyn PresencePort> = Arc::<SignerClient>::clone(&client);
    let signer = wishes.signer.as_ref().map_or_else(|| Arc::clone(&client) as _, |wrap| wrap(Arc::clone(&client) as _));
    let (time, chance) = (Arc::clone(&ambient.clock), Arc::clone(&ambient.entropy));
    let rail: Arc<dyn RailPort> = Arc::new(RailClient::from_config(config, time, chance).unwrap());
    let rules = app::rules(config, rail.as_ref(), &ambient).unwrap();
    let journal = Arc::new(Journal::new(Setup {
        store: store.clone(),
        signer,
        rail,
        presence: Some(switch),
        webhooks: app::webhooks(config, &ambient).await.unwrap(),
        clock: Arc::clone(&ambient.clock),
        entropy: Arc::clone(&ambient.entropy),
        policy,
        rules,
    }));
    let source = KeySource::of(&config.auth);
    let verifier =
        Verifier::new(&config.auth, config.audience(), Arc::clone(&ambient.clock), source).await.map(Arc::new).unwrap();
    let (clock, entropy) = (Arc::clone(&ambient.clock), Arc::clone(&ambient.entropy));
    let judge = Gate::new(&config.server, &config.resource(), "", Arc::clone(&verifier), clock, entropy);
    let ended = CancellationToken::new();
    let pages = router(config, Arc::clone(&journal), verifier, judge, ended).unwrap();
    let serving = Serving::from(&config.server);
    let task = tokio::spawn({
        let stop = stop.clone();
        async move {
            serve(socket, pages, serving, stop).await;
            store.close().await;
        }
    });
    (journal, (stop, task))
}

pub(crate) fn ambient(clock: &Arc<ShiftedClock>) -> Ambient {
    Ambient { clock: Arc::clone(clock) as _, entropy: Arc::new(SystemEntropy) }
}

pub(super) fn signer_client(config: &Config, ambient: &Ambient) -> Arc<SignerClient> {
    let (clock, entropy) = (Arc::clone(&ambient.clock), Arc::clone(&ambient.entropy));
    Arc::new(SignerClient::from_config(config, clock, entropy).unwrap())
}
