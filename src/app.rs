//! The composition root: the only file that names concrete adapters.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::adapters::{CheckpointSink, RailClient, SignerClient, WebhookClient};
use crate::ambient::{Clock, Entropy};
use crate::config::{Config, ConfigFault, ms};
use crate::domain::{Account, Backoff, Currency, Policy, Refusal, Schedule, Timing};
use crate::http::auth::{KeySource, Verifier};
use crate::http::gate::Gate;
use crate::http::serve::{Serving, serve};
use crate::journal::ports::{PresencePort, RailPort, SignerPort, WebhookPort};
use crate::journal::{
    CheckpointPlan, Checkpoints, ContextBudget, EventRules, Journal, Rules, Setup, resend_window, settle_after,
};
use crate::proof::{NoteSigner, PublicKey};
use crate::store::{Store, StoreFault};
use crate::tools::names;
use crate::{http, worker};

/// The longest a call waits for news, however late its deadline is.
const LONGEST_WAIT: Duration = Duration::from_secs(25);
/// What is left of it for the last look and the way back, also on a busy machine.
const ANSWER: Duration = Duration::from_millis(1_500);

/// Why a gateway can't start, in one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    /// A setting.
    #[error(transparent)]
    Config(#[from] ConfigFault),
    /// The database can't be opened.
    #[error("database: can't be opened; check database.url and that it is reachable and writable: {0}")]
    Store(String),
    /// The schema is missing, old or another version's.
    #[error("database: its schema is not the one of this version: {0}")]
    Schema(String),
    /// The schema can't be brought up to date.
    #[error("database: the schema can't be brought up to date: {0}")]
    Migrate(String),
}

impl From<StoreFault> for StartFault {
    fn from(fault: StoreFault) -> Self {
        Self::Store(cause(&fault))
    }
}

/// A fault's source in one line, or else its own words.
fn cause(fault: &StoreFault) -> String {
    std::error::Error::source(fault).map_or_else(|| fault.to_string(), ToString::to_string)
}

/// What time and chance come from.
#[derive(Debug, Clone)]
pub struct Ambient {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The chance.
    pub entropy: Arc<dyn Entropy>,
}

/// A gateway, ready to be served.
#[derive(Debug)]
pub struct Gateway {
    /// Its routes.
    pub router: Router,
    /// Its journal.
    pub journal: Arc<Journal>,
    store: Store,
    checkpoints: Option<Arc<Checkpoints>>,
    ended: CancellationToken,
}

/// Opens the database that `config` names and brings its schema up to date.
pub async fn open_store(config: &Config, clock: Arc<dyn Clock>) -> Result<Store, StartFault> {
    let store = connect(config, clock).await?;
    migrate(&store).await?;
    Ok(store)
}

/// Opens a database that a desk has used, and brings its schema up to date: what speaks of payments or keys that are
/// there makes no database by mistake.
pub async fn open_used(config: &Config, clock: Arc<dyn Clock>) -> Result<Store, StartFault> {
    let store = open_existing(config, clock).await?;
    if store.is_new().await? {
        return Err(StartFault::Store("it was never used; run countersign migrate if it is the right one".to_owned()));
    }
    migrate(&store).await?;
    Ok(store)
}

async fn migrate(store: &Store) -> Result<(), StartFault> {
    store.migrate().await.map_err(|fault| StartFault::Migrate(cause(&fault)))
}

/// Opens a database that must be there already, with this version's schema; nothing in it is changed.
///
/// *Errors*: `Schema`, which says what is missing: a statement would only be refused later, in the database's words.
pub async fn open_current(config: &Config, clock: Arc<dyn Clock>) -> Result<Store, StartFault> {
    let store = open_existing(config, clock).await?;
    match store.schema_fault().await? {
        None => Ok(store),
        Some(why) => Err(StartFault::Schema(why)),
    }
}

/// Opens a database that must be there already, its schema as it is.
pub async fn open_existing(config: &Config, clock: Arc<dyn Clock>) -> Result<Store, StartFault> {
    let url = config.database.url.expose_secret();
    let file = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"));
    if let Some(file) = file.map(|file| file.split('?').next().unwrap_or(file))
        && !std::path::Path::new(file).is_file()
    {
        return Err(StartFault::Store(format!(
            "there is no file {file}; name the database with COUNTERSIGN__DATABASE__URL or --config"
        )));
    }
    connect(config, clock).await
}

/// Opens the database that `config` names, its schema as it is.
async fn connect(config: &Config, clock: Arc<dyn Clock>) -> Result<Store, StartFault> {
    let database = &config.database;
    database.check()?;
    Ok(Store::open(database.url.expose_secret(), database.pool_size, ms(database.busy_timeout_ms), clock).await?)
}

/// The policy in `config`'s file.
pub fn read_policy(config: &Config) -> Result<Policy, ConfigFault> {
    let path = &config.policy.file;
    let text = std::fs::read_to_string(path)
        .map_err(|err| ConfigFault(format!("policy.file: {} can't be read: {}", path.display(), err.kind())))?;
    parse_policy(&text)
}

/// A policy, checked against the tools there are.
pub fn parse_policy(text: &str) -> Result<Policy, ConfigFault> {
    Policy::parse(text, &names()).map_err(|fault| ConfigFault(format!("policy.file: {fault}")))
}

/// The ways out of the house.
#[derive(Debug)]
pub struct WaysOut {
    /// To the signer service.
    pub signer: Arc<SignerClient>,
    /// To the rail.
    pub rail: Arc<RailClient>,
    /// To those who are told of payments.
    pub webhooks: Arc<WebhookClient>,
}

/// The ways out that `config` names; nothing is asked or sent yet.
pub fn ways_out(config: &Config, ambient: &Ambient) -> Result<WaysOut, ConfigFault> {
    let Ambient { clock, entropy } = ambient;
    Ok(WaysOut {
        signer: Arc::new(SignerClient::from_config(config, Arc::clone(clock), Arc::clone(entropy))?),
        rail: Arc::new(RailClient::from_config(config, Arc::clone(clock), Arc::clone(entropy))?),
        webhooks: Arc::new(WebhookClient::from_config(config, Arc::clone(clock))?),
    })
}

/// A journal over real adapters; `presence` also wires the dev profile's switch.
pub async fn journal(
    config: &Config,
    policy: Policy,
    store: Store,
    ambient: &Ambient,
    presence: bool,
) -> Result<Arc<Journal>, ConfigFault> {
    let WaysOut { signer, rail, webhooks } = ways_out(config, ambient)?;
    // A target that must not be reached is refused now.
    webhooks.look_up().await?;
    let switch: Arc<dyn PresencePort> = Arc::<SignerClient>::clone(&signer);
    let rules =
        Rules { finished_after: config.finished_after(policy.looks_back())?, ..rules(config, rail.as_ref(), ambient)? };
    Ok(Arc::new(Journal::new(Setup {
        store,
        signer: signer as Arc<dyn SignerPort>,
        rail: rail as Arc<dyn RailPort>,
        presence: presence.then_some(switch),
        webhooks: webhooks as Arc<dyn WebhookPort>,
        clock: Arc::clone(&ambient.clock),
        entropy: Arc::clone(&ambient.entropy),
        policy,
        rules,
    })))
}

/// Who makes checkpoints of the audit; `None` where they are off.
///
/// *Errors*: the key can't be read. A sink that can't be written to now is no error: payments go on.
pub fn checkpoints(config: &Config, store: Store, ambient: &Ambient) -> Result<Option<Arc<Checkpoints>>, ConfigFault> {
    let audit = &config.audit;
    if !audit.is_on() {
        return Ok(None);
    }
    let signer = checkpoint_key(config)?;
    let sink = Arc::new(CheckpointSink::from_config(config)?);
    let plan = CheckpointPlan { every: ms(audit.checkpoint_every_ms), entries: i64::from(audit.checkpoint_entries) };
    Ok(Some(Arc::new(Checkpoints::new(store, signer, sink, Arc::clone(&ambient.clock), plan))))
}

/// What signs checkpoints.
pub fn checkpoint_key(config: &Config) -> Result<NoteSigner, ConfigFault> {
    let file = &config.audit.checkpoint_key_file;
    let fault = |why: String| ConfigFault(format!("audit.checkpoint_key_file: {why}"));
    let text = std::fs::read_to_string(file).map_err(|err| fault(format!("{file} can't be read: {}", err.kind())))?;
    NoteSigner::parse(text.trim_end()).map_err(|err| fault(err.to_string()))
}

/// Whose signature signers' keys must have; `None` where pinning is enough.
pub fn registry_root(config: &Config) -> Result<Option<PublicKey>, ConfigFault> {
    let file = &config.registry.root_public_key_file;
    let fault = |why: String| ConfigFault(format!("registry.root_public_key_file: {why}"));
    if file.is_empty() {
        return Ok(None);
    }
    let pem = std::fs::read_to_string(file).map_err(|err| fault(format!("{file} can't be read: {}", err.kind())))?;
    if pem.contains("PRIVATE KEY") {
        return Err(fault("is a private key, which no gateway has; name its public half (.pub.pem)".to_owned()));
    }
    PublicKey::from_pem(&pem).map(Some).map_err(|err| fault(err.to_string()))
}

/// Those who are told of payments; a target that must not be reached is refused now.
pub async fn webhooks(config: &Config, ambient: &Ambient) -> Result<Arc<dyn WebhookPort>, ConfigFault> {
    let client = WebhookClient::from_config(config, Arc::clone(&ambient.clock))?;
    client.look_up().await?;
    Ok(Arc::new(client))
}

/// The spans and defaults of `config`.
pub fn rules(config: &Config, rail: &dyn RailPort, ambient: &Ambient) -> Result<Rules, ConfigFault> {
    let setting = |name: &'static str| move |refusal: Refusal| ConfigFault(format!("{name}: {}", refusal.message));
    let currency = |code: &String| code.parse::<Currency>().map_err(setting("payments.currencies"));
    let notify = &config.notify;
    let timing = Timing {
        notify: Backoff {
            base: ms(notify.base_ms),
            cap: ms(notify.cap_ms),
            fast_attempts: notify.fast_attempts,
            slow: ms(notify.slow_ms),
            attempts: notify.attempts,
        },
        reminders: config.notify.reminders()?,
        check_every: ms(notify.check_every_ms),
        query: Backoff {
            base: ms(config.rail.query_base_ms),
            cap: ms(config.rail.query_cap_ms),
            fast_attempts: u32::MAX,
            slow: ms(config.rail.query_cap_ms),
            attempts: u32::MAX,
        },
        lease: ms(config.worker.lease_ms),
        read_lag: rail.caps().read_lag,
        resend_window: resend_window(rail.caps()),
        settle_after: settle_after(rail.caps()),
    };
    Ok(Rules {
        node: format!("node-{:08x}", ambient.entropy.u64() >> 32),
        environment: config.telemetry.environment.clone(),
        audience: config.resource(),
        timing,
        send_within: ms(config
            .worker
            .lease_ms
            .saturating_sub(config.signer.total_timeout_ms.max(config.rail.total_timeout_ms))),
        auto_notify_after: ms(notify.auto_after_ms),
        longest_wait: LONGEST_WAIT.min(ms(config.server.call_deadline_ms)).saturating_sub(ANSWER),
        expires_after: Duration::from_secs(config.payments.expires_after_s),
        execute_within: Duration::from_secs(config.payments.execute_within_s),
        currency: currency(&config.payments.currency)?,
        currencies: config
            .payments
            .currencies
            .iter()
            .map(|code| Ok(currency(code)?.code()))
            .collect::<Result<_, ConfigFault>>()?,
        payee: Some(config.payments.payee_account.as_str())
            .filter(|account| !account.is_empty())
            .map(|account| Account::parse("payee_account", account))
            .transpose()
            .map_err(setting("payments.payee_account"))?,
        payer: Account::parse("payer_account", &config.payments.payer_account)
            .map_err(setting("payments.payer_account"))?,
        batch: config.worker.batch.into(),
        finished_after: None,
        asleep: (config.restore.asleep_s > 0).then(|| Duration::from_secs(config.restore.asleep_s)),
        events: EventRules {
            schedule: Schedule::new(config.webhooks.schedule_s.iter().copied().map(Duration::from_secs).collect()),
            send_within: ms(config.worker.lease_ms),
            lease: ms(config.worker.lease_ms.saturating_add(config.webhooks.timeout_ms)),
        },
        context: ContextBudget { calls: config.context.calls.into(), bytes: config.context.bytes.into() },
        registry_root: registry_root(config)?,
    })
}

impl Gateway {
    /// Builds a gateway from a checked configuration.
    ///
    /// *Errors*: the first thing that can't be used; nothing listens then.
    pub async fn build(config: &Config, policy: Policy, ambient: &Ambient, presence: bool) -> Result<Self, StartFault> {
        let store = open_store(config, Arc::clone(&ambient.clock)).await?;
        let journal = journal(config, policy, store.clone(), ambient, presence).await?;
        let checkpoints = checkpoints(config, store.clone(), ambient)?;
        let source = KeySource::of(&config.auth);
        let verifier =
            Arc::new(Verifier::new(&config.auth, config.audience(), Arc::clone(&ambient.clock), source).await?);
        let gate = Gate::new(
            &config.server,
            &config.resource(),
            &config.auth.required_scope,
            Arc::clone(&verifier),
            Arc::clone(&ambient.clock),
            Arc::clone(&ambient.entropy),
        );
        let ended = CancellationToken::new();
        let router = http::router::router(config, Arc::clone(&journal), verifier, gate, ended.clone())?;
        Ok(Self { router, journal, store, checkpoints, ended })
    }

    /// Serves until `stop` turns, then drains, ends the worker and closes the database.
    pub async fn run(self, config: &Config, listener: TcpListener, stop: CancellationToken) {
        let Self { router, journal, store, checkpoints, ended } = self;
        let checkpoints = checkpoints.filter(|_| config.worker.enabled);
        let (enabled, tick) = (config.worker.enabled, ms(config.worker.tick_ms));
        let drain = ms(config.server.drain_ms);
        let waiting = tokio::spawn({
            let (journal, stop) = (Arc::clone(&journal), stop.clone());
            async move {
                stop.cancelled().await;
                journal.stopping().cancel();
            }
        });
        let work = enabled.then(|| tokio::spawn(worker::run(journal, tick, drain, stop.clone())));
        let noting = checkpoints.clone().map(|all| tokio::spawn(worker::checkpoints(all, stop.clone())));
        serve(listener, router, Serving::from(&config.server), stop.clone()).await;
        // Only now: rmcp turns calls in flight into errors when this token turns.
        ended.cancel();
        stop.cancel();
        let worked = match work {
            Some(work) => work.await,
            None => Ok(()),
        };
        if waiting.await.and(worked).is_err() {
            tracing::error!("the worker panicked; its work is due again when its leases end");
        }
        finish_checkpoints(checkpoints, noting).await;
        store.close().await;
    }
}

/// Ends the loop of checkpoints and makes the last ones, of what the drained process wrote.
pub async fn finish_checkpoints(checkpoints: Option<Arc<Checkpoints>>, noting: Option<JoinHandle<()>>) {
    if let Some(noting) = noting
        && noting.await.is_err()
    {
        tracing::error!("the loop of audit checkpoints panicked");
    }
    if let Some(checkpoints) = checkpoints {
        checkpoints.finish().await;
    }
}
