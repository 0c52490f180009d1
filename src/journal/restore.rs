//! After a restore from backup: nothing is sent until what the backup believes unpaid was compared with the rail.
//!
//! The mode is a row in the database, so every process on it is in it, and no update of a payment goes through
//! meanwhile but for an outcome. A database is taken for a restored one when someone says so, when no worker
//! has been at it for long, or when it says less than this process knows of it (`known.rs`).
//! *Crash*: each payment's comparison is one transaction; what was not compared yet is compared by whoever goes on.

use std::time::Duration;

use super::attempt::{Intent, keep};
use super::compared::{ATTENTION, WENT_BACK, events, is_certain, outcome};
use super::execute::{finding, receipt_of};
use super::known::Then;
use super::{Act, Journal, again};
use crate::crash::{self, Point};
use crate::domain::{Code, EffectId, Event, Finding, Phase, Refusal, RestoreId, Stage, Timestamp};
use crate::store::{AuditNote, EffectKind, EffectState, NewEffect, Restore, Surprise, Tally, Tx, Words};
use crate::telemetry::metrics::metrics;

/// Payments compared side by side.
const AT_ONCE: i64 = 16;
/// Payments that a report names.
const NAMED: i64 = 1_000;

/// What one pass of comparing came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparing {
    /// Whether a restore was open.
    pub open: bool,
    /// Until when nothing may be asked yet.
    pub waits_until: Option<Timestamp>,
    /// Payments compared.
    pub compared: usize,
    /// Payments that the rail had no usable answer for, or that can't be read; they are asked about again.
    pub in_doubt: usize,
    /// Where the next pass goes on; `None` to start over.
    pub next: Option<String>,
    /// Whether this pass lifted it.
    pub lifted: bool,
}

/// How a restore stands.
#[derive(Debug, Clone)]
pub struct RestoreReport {
    /// The restore.
    pub restore: Restore,
    /// What was found, counted.
    pub tallies: Vec<Tally>,
    /// The payments of which the rail knew more, those that need a person first; not all when there are many.
    pub surprises: Vec<Surprise>,
}

/// How the database is.
#[derive(Debug, Clone, Copy)]
struct Here {
    /// No restore is open.
    free: bool,
    /// What workers have said.
    words: Words,
    /// It has forgotten what this process knows of it.
    went_back: bool,
}

impl RestoreReport {
    /// Payments still to be compared.
    pub fn left(&self) -> i64 {
        self.tallies.iter().filter(|tally| tally.finding.is_empty()).map(|tally| tally.payments).sum()
    }

    /// Payments that need a person; those that are named may be fewer.
    pub fn waits(&self) -> i64 {
        self.tallies.iter().filter(|tally| tally.outcome == ATTENTION).map(|tally| tally.payments).sum()
    }

    /// Payments in all.
    pub fn total(&self) -> i64 {
        self.tallies.iter().map(|tally| tally.payments).sum()
    }
}

impl Journal {
    /// Takes this database for a restored one; `false` when it was taken for one already.
    pub async fn mark_restored(&self, cause: &str) -> Result<bool, Refusal> {
        again(|| async {
            let mut tx = self.store.begin().await?;
            let opened = self.open_restore(&mut tx, cause).await?;
            tx.commit().await?;
            Ok(opened)
        })
        .await
    }

    async fn open_restore(&self, tx: &mut Tx, cause: &str) -> Result<bool, Refusal> {
        let id = RestoreId::mint(tx.now(), self.entropy.u128()).to_string();
        // What another process sent in its last moment shows by then.
        let compare_at = tx.now().plus(self.rules.timing.lease).plus(self.rules.timing.read_lag);
        if !tx.open_new_restore(&id, cause, compare_at).await? {
            self.make_sure(tx, cause).await?;
            return Ok(false);
        }
        self.note_restore(tx, "database.restored", cause).await?;
        tracing::error!(restore.id = id, cause, compare_at = %compare_at.rfc3339(), "this database may be a restored backup: nothing is sent until its payments were compared with the rail");
        metrics().restore(true);
        Ok(true)
    }

    /// What is certain takes the place of a guess: then more is asked anew.
    async fn make_sure(&self, tx: &mut Tx, cause: &str) -> Result<(), Refusal> {
        let moved = || Refusal::new(Code::VersionConflict, "the restore that was open is not any more");
        let open = tx.open_restore().await?.ok_or_else(moved)?;
        if is_certain(&open.cause) || !is_certain(cause) {
            return Ok(());
        }
        if !tx.restored_because(&open, cause).await? {
            return Err(moved());
        }
        tracing::error!(
            restore.id = open.restore_id,
            cause,
            "this database was restored from a backup: everything is compared with the rail anew"
        );
        self.note_restore(tx, "database.restored", cause).await
    }

    async fn note_restore(&self, tx: &mut Tx, event: &str, reason: &str) -> Result<(), Refusal> {
        for tenant in tx.tenants().await? {
            tx.audit(AuditNote {
                tenant,
                node: self.rules.node.clone(),
                actor: self.worker_actor(),
                event: event.to_owned(),
                reason: reason.to_owned(),
                ..AuditNote::default()
            });
        }
        Ok(())
    }

    /// A worker comes to this database, or says that it is still there.
    ///
    /// *Invariant*: called, and answered, before the first claim. *Errors*: `STORE_UNAVAILABLE`; then claim nothing.
    pub async fn appear(&self, first: bool) -> Result<(), Refusal> {
        let mut tx = self.store.begin().await?;
        let then = self.known.then();
        let here = self.look(&mut tx, &then).await?;
        let (last, now) = (Timestamp::from_micros(here.words.last_at), tx.now());
        // A word of the future was left by a clock that was ahead: how old it really is, nobody knows.
        let age = now.since(last).max(last.since(now));
        let asleep = first && here.words.last_at != 0 && self.rules.asleep.is_some_and(|longest| age > longest);
        if asleep {
            self.open_restore(&mut tx, "no_worker_for_long").await?;
        }
        if here.went_back {
            self.open_restore(&mut tx, WENT_BACK).await?;
        }
        let words = tx.leave_word().await?;
        tx.commit().await?;
        if here.went_back {
            self.known.forget(&then, words);
        }
        self.known.saw(words);
        Ok(())
    }

    /// `tx` again, if work may be claimed in it; `None` while a restore is open, or when one was found out, and
    /// stored, now.
    pub(super) async fn may_work(&self, mut tx: Tx) -> Result<Option<Tx>, Refusal> {
        let then = self.known.then();
        let here = self.look(&mut tx, &then).await?;
        if !here.went_back {
            self.known.saw(here.words.count);
            if here.free {
                return Ok(Some(tx));
            }
            tx.commit().await?;
            return Ok(None);
        }
        self.open_restore(&mut tx, WENT_BACK).await?;
        tx.commit().await?;
        // Once is enough, and only now that it is stored.
        self.known.forget(&then, here.words.count);
        Ok(None)
    }

    /// Asks the database how it is, and whether it knows what was known `then`.
    async fn look(&self, tx: &mut Tx, then: &Then) -> Result<Here, Refusal> {
        let sent = then.sent.as_deref().map(|sent| (sent.key.as_str(), sent.attempts));
        let (free, words, kept) = tx.may_work(sent).await?;
        let went_back = words.count < then.words || (sent.is_some() && !kept);
        Ok(Here { free, words, went_back })
    }

    /// Compares the next payments after `after` with the rail; lifts the mode when there are none left.
    ///
    /// *Errors*: `STORE_UNAVAILABLE`; what was compared stays compared.
    pub async fn compare(&self, after: &str) -> Result<Comparing, Refusal> {
        let Some(restore) = self.store.read().await?.open_restore().await? else { return Ok(Comparing::default()) };
        let mut compare_at = Timestamp::from_micros(restore.compare_at);
        let (_, now) = self.store.next_due().await?;
        let longest = now.plus(self.rules.timing.lease).plus(self.rules.timing.read_lag);
        if compare_at > longest {
            // Set by a clock that was ahead, and is not any more.
            let mut tx = self.store.begin().await?;
            tx.compare_sooner(&restore.restore_id, longest).await?;
            tx.commit().await?;
            compare_at = longest;
        }
        let mut pass = Comparing { open: true, ..Comparing::default() };
        if now < compare_at {
            pass.waits_until = Some(compare_at);
            return Ok(pass);
        }
        let found = self.store.read().await?.to_compare(&restore.restore_id, after, AT_ONCE).await?;
        let full = i64::try_from(found.len()).is_ok_and(|count| count >= AT_ONCE);
        pass.next = found.last().filter(|_| full).cloned();
        let asked = found.iter().map(|payment_id| self.compare_payment(&restore, payment_id));
        for (payment_id, answer) in found.iter().zip(futures::future::join_all(asked).await) {
            let compared = match answer {
                // One that can't be read, or would break what must hold: it keeps the mode on, and stops no other.
                Err(refusal) if refusal.code != Code::StoreUnavailable => {
                    tracing::error!(payment.id = payment_id, error = %refusal, "a payment could not be compared with the rail; it is tried again");
                    false
                }
                answer => answer?,
            };
            let count = if compared { &mut pass.compared } else { &mut pass.in_doubt };
            *count = count.saturating_add(1);
        }
        if pass.next.is_none() && pass.in_doubt == 0 {
            pass.lifted = self.lift(&restore).await?;
        }
        Ok(pass)
    }

    async fn lift(&self, restore: &Restore) -> Result<bool, Refusal> {
        let mut tx = self.store.begin().await?;
        let lifted = tx.lift_restore(&restore.restore_id).await?;
        if lifted {
            self.note_restore(&mut tx, "database.compared", &restore.restore_id).await?;
        }
        tx.commit().await?;
        if lifted {
            tracing::warn!(restore.id = restore.restore_id, "every payment was compared with the rail; work goes on");
            metrics().restore(false);
            self.due.notify_one();
        }
        Ok(lifted)
    }

    /// Asks the rail about one payment and goes by the answer; `false` when it had none.
    async fn compare_payment(&self, restore: &Restore, payment_id: &str) -> Result<bool, Refusal> {
        again(|| Box::pin(self.try_compare(restore, payment_id))).await
    }

    async fn try_compare(&self, restore: &Restore, payment_id: &str) -> Result<bool, Refusal> {
        let mut session = self.store.read().await?;
        let Some(payment) = session.payment_for_work(payment_id).await? else { return Ok(false) };
        // While a new attempt group has sent nothing, what is found is of the one before.
        let intent = Intent { key: payment.doubtful_key(), ..self.intent(&payment) };
        let recorded = session.effect(&intent.key).await?;
        drop(session);
        let body = recorded.as_ref().map_or(&intent.body, |row| &row.body);
        let found = self.rail.lookup(payment_id, body).await;
        let receipt = receipt_of(&found);
        let (finding, words) = finding(found);
        metrics().effect(EffectKind::RailExecute.as_str(), "compared");
        if finding == Finding::Inconclusive {
            tracing::warn!(
                payment.id = payment_id,
                answer = words,
                "a payment could not be compared with the rail yet"
            );
            return Ok(false);
        }
        let mut tx = self.store.begin().await?;
        let before = tx.payment_for_work(payment_id).await?.unwrap_or(payment);
        let mut current = before.clone();
        let mut steps = Vec::new();
        let actor = self.worker_actor();
        for (word, event) in events(&before, &finding, self.forgotten(restore, &before)?) {
            let mut act = Act::new(&actor, word).because(format!("after a restore: {words}"));
            if event == Event::IntentRecovered {
                let effect = NewEffect {
                    effect_id: EffectId::mint(tx.now(), self.entropy.u128()).to_string(),
                    key: &intent.key,
                    tenant: before.terms.tenant.as_str(),
                    payment_id,
                    kind: EffectKind::RailExecute,
                    target: "",
                    body: &intent.body,
                    traceparent: "",
                };
                act = act.with(tx.intend(&effect).await?.body);
            }
            if let Event::AskedAnew { document, .. } = &event {
                act = act.with(document.clone());
            }
            let applied = self.change(&mut tx, &current, event, act).await?;
            current = applied.payment.clone();
            steps.push(applied);
        }
        if current.round > before.round {
            self.insert_challenges(&mut tx, &current).await?;
        }
        let state = match (&finding, before.status.stage()) {
            (Finding::Found { .. }, Stage::Signed) => Some(EffectState::Done),
            (Finding::FoundRefused { .. }, Stage::Signed) => Some(EffectState::Refused),
            (_, Stage::Signed) if !steps.is_empty() && current.execution.phase != Phase::None => {
                Some(EffectState::Unknown)
            }
            _ => None,
        };
        if let Some(state) = state {
            tx.settle(&intent.key, state, &format!("after a restore: {words}")).await?;
            keep(&mut tx, &intent.key, payment_id, &receipt).await?;
        }
        let outcome = outcome(&before, &current);
        if tx.compared(restore, payment_id, &words, outcome).await? {
            crash::at(Point::CompareBeforeCommit);
            tx.commit().await?;
            crash::at(Point::CompareAfterCommit);
            for applied in &steps {
                self.announce(applied);
            }
        }
        Ok(true)
    }

    /// The last restore and what was found, if there ever was one.
    pub async fn restore_report(&self) -> Result<Option<RestoreReport>, Refusal> {
        let mut session = self.store.read().await?;
        let Some(restore) = session.last_restore().await? else { return Ok(None) };
        let tallies = session.tallies(&restore.restore_id).await?;
        let surprises = session.surprises(&restore.restore_id, NAMED).await?;
        Ok(Some(RestoreReport { restore, tallies, surprises }))
    }

    /// How often a worker says that it is there.
    pub const fn word_every(&self) -> Duration {
        Duration::from_secs(5)
    }
}
