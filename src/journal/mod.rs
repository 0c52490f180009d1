//! The write-ahead discipline: intent before, commit after, ask when in doubt.
//!
//! Every external side effect of a payment goes through here, in this order:
//!
//! ```text
//! claim lease → (tx 1: intent row, state, audit) → call, no transaction open → validate →
//! (tx 2: outcome, state, audit, lease released)
//! ```
//!
//! A port method that changes anything takes a [`Recorded`], which only `attempt` mints, after
//! tx 1 has committed. *Crash*: before tx 1, nothing happened. Between tx 1 and tx 2 the row says
//! that an attempt may be on its way; when its lease ends, whoever ticks next asks the other side
//! (the rail is looked up; the signer service's writes are safe by key) and settles. After tx 2,
//! the outcome stands.
//!
//! To add an effect: a kind in `store::effects`, a `prepare_*` and a call in the port, an event in
//! `domain::transition`, and one function beside those in `reach.rs`.

mod asking;
mod attempt;
mod audit;
mod budget;
mod check;
mod checkpoints;
mod compared;
mod context;
mod counter;
mod create;
mod decide;
mod evidence;
mod execute;
mod explain;
mod forgotten;
mod history;
mod inbox;
mod known;
mod manual;
mod outbox;
mod person;
pub mod ports;
mod reach;
mod reading;
mod receipt;
mod recorded;
mod registry;
mod replay;
mod restore;
mod retention;
mod rules;
mod told;
pub mod verify;
mod votes;
mod work;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub use crate::store::{AuditRow, DueKind, Lease, Moved, Parking, Place, Stuck};
pub use check::SignerNews;
pub use checkpoints::{CheckpointFault, CheckpointPlan, Checkpointed, Checkpoints};
pub use context::ContextBudget;
pub use create::{CreateRequest, Created};
pub use decide::{Decision, Source, Verdict};
pub use evidence::Evidence;
pub use explain::{Diagnosis, Finding};
pub use manual::{Attested, Verb};
#[cfg(test)]
pub(crate) use outbox::posting_for_test;
pub use outbox::{Deliveries, PLACES, Posting};
pub use reach::Reaching;
pub use reading::{Approval, ApprovalForm, Page, Selector};
pub use recorded::Recorded;
#[cfg(test)]
pub(crate) use recorded::for_test;
pub use registry::{InvitationAnswer, Registry, vouches};
pub use restore::{Comparing, RestoreReport};
pub use rules::{EventRules, Rules, resend_window, settle_after};
pub use work::Progress;

use crate::ambient::{Clock, Entropy};
use crate::domain::{
    Applied, Attention, Code, Effect, Event, Invariant, LeaseToken, Moment, Payment, Policy, Refusal, Timing, apply,
    broken_by,
};
use crate::store::{AuditNote, Guard, Store, StoreFault, Tx};
use crate::telemetry::metrics::metrics;
use ports::{PresencePort, RailPort, SignerPort, WebhookPort};

/// What a journal is made of.
#[derive(Debug)]
pub struct Setup {
    /// The database.
    pub store: Store,
    /// The signer service.
    pub signer: Arc<dyn SignerPort>,
    /// What moves the money.
    pub rail: Arc<dyn RailPort>,
    /// The reference signer service's presence switch, in the dev profile.
    pub presence: Option<Arc<dyn PresencePort>>,
    /// Who is told of payments.
    pub webhooks: Arc<dyn WebhookPort>,
    /// The time of day, beside the store's own.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Who may do what, and who must approve.
    pub policy: Policy,
    /// Spans and defaults.
    pub rules: Rules,
}

/// The one way to read and change payments.
#[derive(Debug)]
pub struct Journal {
    store: Store,
    signer: Arc<dyn SignerPort>,
    rail: Arc<dyn RailPort>,
    presence: Option<Arc<dyn PresencePort>>,
    webhooks: Arc<dyn WebhookPort>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    policy: ArcSwap<Policy>,
    rules: Rules,
    /// Told when a row became due in this process; the worker's loop waits on it.
    due: Notify,
    /// Turns when this process wrote an event; the delivery loops wait on it.
    news: watch::Sender<()>,
    /// What this process knows of the database.
    known: known::Known,
    /// What agents were told about payments by this process.
    context: context::Counts,
    /// Turns when this process is to stop: who waits for news then answers with what there is.
    stopping: CancellationToken,
}

impl Journal {
    /// A journal over `setup`.
    pub fn new(setup: Setup) -> Self {
        let Setup { store, signer, rail, presence, webhooks, clock, entropy, policy, rules } = setup;
        Self {
            store,
            signer,
            rail,
            presence,
            webhooks,
            clock,
            entropy,
            policy: ArcSwap::from_pointee(policy),
            rules,
            due: Notify::new(),
            news: watch::Sender::new(()),
            known: known::Known::default(),
            context: context::Counts::new(),
            stopping: CancellationToken::new(),
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Spans and defaults.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Waits until something became due in this process.
    pub async fn woken(&self) {
        self.due.notified().await;
    }

    /// The token that ends waiting for news: turned when this process is to stop.
    pub const fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Whether the database answers and takes writes.
    pub async fn ping_store(&self) -> Result<(), Refusal> {
        Ok(self.store.ping().await?)
    }

    /// Whether the signer service answers and accepts our key.
    pub async fn ping_signer(&self) -> ports::Answer<()> {
        self.signer.health().await
    }

    /// Whether the rail answers and accepts our key.
    pub async fn ping_rail(&self) -> ports::Answer<()> {
        self.rail.health().await
    }

    /// The circuit breakers' states: the signer service's and the rail's.
    pub fn breakers(&self) -> [&'static str; 2] {
        [self.signer.breaker(), self.rail.breaker()]
    }

    fn moment(&self, tx: &Tx) -> Moment<'_> {
        Moment { now: tx.now(), roll: self.entropy.u64(), timing: &self.rules.timing }
    }

    fn mint_token(&self, tx: &Tx) -> LeaseToken {
        LeaseToken::mint(tx.now(), self.entropy.u128())
    }

    fn worker_actor(&self) -> String {
        format!("worker:{}", self.rules.node)
    }

    /// Applies `event` to `before` inside `tx` and audits it.
    ///
    /// Nothing is written for an event that changes nothing. A new status is written to the outbox too.
    /// What follows from the transition is announced by [`Journal::announce`] once the transaction has
    /// committed.
    async fn change(&self, tx: &mut Tx, before: &Payment, event: Event, mut act: Act<'_>) -> Result<Applied, Refusal> {
        let guard = match (event.is_outcome(), act.guard) {
            (true, Guard::Version) => Guard::Outcome,
            (_, guard) => guard,
        };
        if act.details.is_empty() {
            // What the rail says is its transfer stands in the chain too.
            event.transfer_id().clone_into(&mut act.details);
        }
        let applied = apply(before, event, &self.moment(tx))?;
        if applied.changed(before) {
            if let Some(invariant) = broken_by(before, &applied.payment) {
                return Err(self.suspect(before, invariant));
            }
            tx.save_payment(before, &applied.payment, guard).await?;
            tx.audit(self.note(before, &applied.payment, &act));
            if applied.effects.iter().any(|effect| matches!(effect, Effect::Announce { .. })) {
                self.enqueue(tx, &applied.payment).await?;
            }
        }
        Ok(applied)
    }

    /// Refuses what would break `invariant`, and raises attention once the caller's transaction is gone.
    fn suspect(&self, payment: &Payment, invariant: Invariant) -> Refusal {
        let id = payment.terms.payment_id.as_str();
        let word = invariant.as_str();
        metrics().invariant_broken(word);
        tracing::error!(payment.id = id, invariant = word, "an invariant would not hold; nothing was changed");
        if !payment.attention.contains(&Attention::InvariantBroken) {
            let (store, timing, id) = (self.store.clone(), self.rules.timing, id.to_owned());
            let (node, actor) = (self.rules.node.clone(), self.worker_actor());
            tokio::spawn(async move {
                if let Err(fault) = raise(&store, &timing, (node, actor), &id, word).await {
                    tracing::error!(payment.id = id, error = %fault, "attention could not be raised");
                }
            });
        }
        Refusal::new(Code::Internal, "a fault on our side; nothing was changed, and it has been logged")
            .about(payment.reference())
    }

    fn note(&self, before: &Payment, after: &Payment, act: &Act<'_>) -> AuditNote {
        AuditNote {
            tenant: after.terms.tenant.to_string(),
            payment_id: after.terms.payment_id.to_string(),
            // What changed nothing has no version: it may have been read before another's change.
            version: if after.version == before.version { 0 } else { after.version },
            node: self.rules.node.clone(),
            actor: act.actor.to_owned(),
            event: act.event.to_owned(),
            from: before.status.as_str().to_owned(),
            to: after.status.as_str().to_owned(),
            reason: if act.reason.is_empty() { after.reason.clone() } else { act.reason.clone() },
            details: act.details.clone(),
        }
    }

    /// Tells the world outside the database what has been committed.
    fn announce(&self, applied: &Applied) {
        let payment = &applied.payment;
        let id = payment.terms.payment_id.as_str();
        for effect in &applied.effects {
            match effect {
                Effect::Announce { from, to } => {
                    metrics().transition(to.as_str());
                    tracing::info!(payment.id = id, from = from.as_str(), to = to.as_str(), reason = %payment.reason, "payment changed state");
                }
                Effect::Raise(reason) => {
                    tracing::warn!(payment.id = id, attention = reason.as_str(), "payment needs a person's attention");
                }
            }
        }
        self.due.notify_one();
        self.news.send_replace(());
    }
}

/// Raises `INVARIANT_BROKEN` on a payment, by the ordinary way but for the check that it failed.
async fn raise(
    store: &Store,
    timing: &Timing,
    (node, actor): (String, String),
    payment_id: &str,
    word: &str,
) -> Result<(), Refusal> {
    let mut tx = store.begin().await?;
    let Some(before) = tx.payment_for_work(payment_id).await? else { return Ok(()) };
    let moment = Moment { now: tx.now(), roll: 0, timing };
    let applied = apply(&before, Event::InvariantBroken, &moment)?;
    if applied.changed(&before) {
        tx.save_payment(&before, &applied.payment, Guard::Outcome).await?;
        tx.audit(AuditNote {
            tenant: before.terms.tenant.to_string(),
            payment_id: payment_id.to_owned(),
            version: applied.payment.version,
            node,
            actor,
            event: "invariant.broken".to_owned(),
            from: before.status.as_str().to_owned(),
            to: before.status.as_str().to_owned(),
            reason: word.to_owned(),
            details: String::new(),
        });
        tx.commit().await?;
    }
    Ok(())
}

/// How a change is guarded and audited.
#[derive(Debug, Clone)]
struct Act<'a> {
    actor: &'a str,
    event: &'a str,
    reason: String,
    details: String,
    guard: Guard,
}

impl<'a> Act<'a> {
    fn new(actor: &'a str, event: &'a str) -> Self {
        Self { actor, event, reason: String::new(), details: String::new(), guard: Guard::Version }
    }

    fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    fn with(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }
}

/// Asks what the update of a payment asks, for what is written without one.
///
/// *Errors*: `RESTORE_UNDER_WAY`.
async fn unless_restoring(tx: &mut Tx) -> Result<(), Refusal> {
    if tx.restore_is_open().await? { Err(StoreFault::Restoring.into()) } else { Ok(()) }
}

/// How often a change that lost a race is decided again.
const RACES: usize = 16;

/// Decides again on a fresh read what lost a race.
///
/// *Errors*: `VERSION_CONFLICT` when it lost all of them.
async fn again<T, F: Future<Output = Result<T, Refusal>>>(decide: impl Fn() -> F) -> Result<T, Refusal> {
    for _ in 0..RACES {
        match decide().await {
            Err(refusal) if lost_race(&refusal) => {}
            done => return done,
        }
    }
    Err(StoreFault::Conflict.into())
}

/// Whether a refusal means "decide again on a fresh read".
fn lost_race(refusal: &Refusal) -> bool {
    refusal.code == Code::VersionConflict
}
