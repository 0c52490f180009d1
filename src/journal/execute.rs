//! Carrying a payment out by the unknown-outcome protocol.
//!
//! The intent is durable before anything is sent; one attempt sends one request; any ambiguity is
//! `unknown` and is asked about before anything is sent again; the same key is sent again only
//! inside the resend window; "not found" is never "not paid". *Crash*: wherever a process dies, the
//! next one finds the intent, looks the payment up at the rail and goes on from the answer.

use super::attempt::{Intent, Settlement, keep, verdict};
use super::create::{document, says_its_terms};
use super::decide::Quorum;
use super::ports::{Cause, Lookup, Outcome, RailReceipt, Transfer, Trouble};
use super::recorded::{Recorded, Started};
use super::{Act, Journal};
use crate::crash::{self, Point};
use crate::domain::{
    ApprovalPolicy, Code, Event, ExecutionStep, Finding, Invariant, Payment, Refusal, Terms, execution_step,
    sends_again, still_says,
};
use crate::store::{EffectKind, EffectState, Lease, Tx};

impl Journal {
    /// Does what a signed payment needs at the rail. The caller holds the lease, and still does if it gets the payment
    /// back: an outcome gives the lease up.
    #[tracing::instrument(name = "journal.payment.execute", skip_all, fields(payment.id = %payment.terms.payment_id))]
    pub(super) async fn execute(&self, lease: &Lease, payment: Payment) -> Result<Option<Payment>, Refusal> {
        crate::telemetry::trace_context::add_link(&tracing::Span::current(), &payment.terms.traceparent);
        match execution_step(&payment, lease.claimed_at) {
            ExecutionStep::Start => self.start(lease).await,
            ExecutionStep::SendAgain => self.send_again(lease).await,
            ExecutionStep::LookUp => self.look_up(lease, payment).await,
            ExecutionStep::Wait => Ok(Some(payment)),
        }
    }

    /// The first transaction of the first attempt: quorum re-verified, intent written.
    async fn start(&self, lease: &Lease) -> Result<Option<Payment>, Refusal> {
        let started = Started::now(&self.clock);
        let mut tx = self.store.begin().await?;
        let payment = self.under_lease(&mut tx, lease).await?;
        if !says_its_terms(&payment) {
            return Err(self.suspect(&payment, Invariant::Terms));
        }
        match self.quorum_holds(&mut tx, &payment).await? {
            Quorum::Holds => {}
            Quorum::Lost(policy) => return self.new_round(tx, payment, policy).await.map(Some),
            Quorum::Denied(refusal) => {
                let event = Event::PolicyDenied { reason: refusal.code.as_str().to_lowercase() };
                let actor = self.worker_actor();
                let act = Act::new(&actor, "execution.denied").because(refusal.message);
                let applied = self.change(&mut tx, &payment, event, act).await?;
                crash::at(Point::DenialBeforeCommit);
                tx.commit().await?;
                crash::at(Point::DenialAfterCommit);
                self.announce(&applied);
                return Ok(Some(applied.payment));
            }
        }
        let intent = self.intent(&payment);
        let (payment, recorded) = self.record(tx, started, &payment, vec![Event::ExecutionIntended], intent).await?;
        self.send(lease, &payment, recorded).await?;
        Ok(None)
    }

    /// Asks everybody anew, by the rule in force now; what was signed before is void.
    async fn new_round(&self, mut tx: Tx, payment: Payment, policy: Box<ApprovalPolicy>) -> Result<Payment, Refusal> {
        let terms = Terms { policy: (*policy).clone(), ..payment.terms.clone() };
        let (document, digest) = document(&terms, payment.round.saturating_add(1), &self.rules.audience)?;
        let reason = "quorum_no_longer_holds".to_owned();
        let event = Event::QuorumLost { reason, policy, document: document.clone(), digest };
        let actor = self.worker_actor();
        let applied =
            self.change(&mut tx, &payment, event, Act::new(&actor, "execution.quorum_lost").with(document)).await?;
        self.insert_challenges(&mut tx, &applied.payment).await?;
        crash::at(Point::RoundBeforeCommit);
        tx.commit().await?;
        crash::at(Point::RoundAfterCommit);
        self.announce(&applied);
        Ok(applied.payment)
    }

    async fn send_again(&self, lease: &Lease) -> Result<Option<Payment>, Refusal> {
        let started = Started::now(&self.clock);
        let mut tx = self.store.begin().await?;
        let payment = self.under_lease(&mut tx, lease).await?;
        let intent = self.intent(&payment);
        let (payment, recorded) = self.record(tx, started, &payment, vec![Event::SendStarted], intent).await?;
        self.send(lease, &payment, recorded).await?;
        Ok(None)
    }

    pub(super) fn intent(&self, payment: &Payment) -> Intent {
        let terms = &payment.terms;
        let transfer = Transfer {
            reference: terms.payment_id.to_string(),
            order_id: terms.order_id.to_string(),
            amount: terms.amount,
            payer_account: terms.payer_account.to_string(),
            payee_account: terms.payee_account.to_string(),
            payee_name: terms.payee_name.to_string(),
            purpose: terms.memo.to_string(),
        };
        Intent {
            kind: EffectKind::RailExecute,
            key: payment.execution_key(),
            target: String::new(),
            body: self.rail.prepare(&transfer),
        }
    }

    /// One attempt, one request, then the second transaction, which gives the lease back.
    async fn send(&self, lease: &Lease, payment: &Payment, recorded: Recorded) -> Result<(), Refusal> {
        let outcome = self.rail.execute(&recorded).await;
        let (state, words) = verdict(&outcome);
        // What this attempt was sent under; people may have raised the group by the time it is known.
        let group = payment.execution.group;
        let receipt = if let Outcome::Done(receipt) = &outcome { receipt.document.clone() } else { String::new() };
        let event = match outcome {
            Outcome::Done(RailReceipt { transfer_id, .. }) => Event::RailConfirmed { group, transfer_id },
            Outcome::Refused(trouble) => Event::RailRefused { group, code: failure_code(&trouble) },
            Outcome::NotSent(trouble) => Event::RailNotSent { group, retry_after: trouble.retry_after },
            Outcome::Unknown(trouble) => Event::RailUnknown { group, mismatch: trouble.cause == Cause::Mismatch },
        };
        let settlement = Settlement {
            kind: EffectKind::RailExecute,
            key: recorded.key(),
            state,
            outcome: words,
            event,
            release: Some(lease),
        };
        self.settle_with(payment.terms.payment_id.as_str(), settlement, &receipt).await.map(drop)
    }

    /// Asks the rail; then settles, sends the same key again if that is safe, or waits.
    async fn look_up(&self, lease: &Lease, payment: Payment) -> Result<Option<Payment>, Refusal> {
        let key = payment.doubtful_key();
        let effect = self
            .store
            .read()
            .await?
            .effect(&key)
            .await?
            .ok_or_else(|| Refusal::new(Code::Internal, "an intended payment has no recorded intent"))?;
        let found = self.rail.lookup(payment.terms.payment_id.as_str(), &effect.body).await;
        let receipt = receipt_of(&found);
        let (finding, words) = finding(found);
        crate::telemetry::metrics::metrics().effect(EffectKind::RailExecute.as_str(), "looked_up");
        tracing::info!(payment.id = %payment.terms.payment_id, finding = %words, "looked a payment up at the rail");

        let started = Started::now(&self.clock);
        let mut tx = self.store.begin().await?;
        let current = self.under_lease(&mut tx, lease).await?;
        let finding = still_says(finding, &payment, &current);
        let event = Event::LookedUp(finding.clone());
        if sends_again(&finding, &current, lease.claimed_at, tx.now(), &self.rules.timing) {
            let intent = self.intent(&current);
            let (payment, recorded) =
                self.record(tx, started, &current, vec![event, Event::SendStarted], intent).await?;
            self.send(lease, &payment, recorded).await?;
            return Ok(None);
        }
        if let Some(state) = settled_by(&finding) {
            tx.settle(&key, state, &format!("look-up: {words}")).await?;
            keep(&mut tx, &key, current.terms.payment_id.as_str(), &receipt).await?;
        }
        let actor = self.worker_actor();
        let act = Act::new(&actor, "rail.execute.looked_up").because(words);
        let applied = self.change(&mut tx, &current, event, act).await?;
        tx.release(lease).await?;
        crash::at(Point::LookUpBeforeCommit);
        tx.commit().await?;
        crash::at(Point::LookUpAfterCommit);
        self.announce(&applied);
        Ok(None)
    }
}

fn failure_code(trouble: &Trouble) -> String {
    match (&trouble.code, trouble.cause) {
        // Whatever word comes with a 401: it is our key, not the payment.
        (_, Cause::Unauthorized) => "rail_unauthorized".to_owned(),
        (Some(code), _) => code.clone(),
        (None, cause) => format!("rail_{}", cause.as_str()),
    }
}

/// The canonical receipt of what was found; empty where there is none.
pub(super) fn receipt_of(lookup: &Lookup) -> String {
    if let Lookup::Found(receipt) = lookup { receipt.document.clone() } else { String::new() }
}

pub(super) fn finding(lookup: Lookup) -> (Finding, String) {
    match lookup {
        Lookup::Found(RailReceipt { transfer_id, .. }) => (Finding::Found { transfer_id }, "found".to_owned()),
        Lookup::FoundRefused(trouble) => {
            (Finding::FoundRefused { code: failure_code(&trouble) }, format!("refused: {trouble}"))
        }
        Lookup::Differs => (Finding::Differs, "differs".to_owned()),
        Lookup::NotFound => (Finding::NotFound, "not found".to_owned()),
        Lookup::Inconclusive(trouble) => (Finding::Inconclusive, format!("inconclusive: {trouble}")),
    }
}

fn settled_by(finding: &Finding) -> Option<EffectState> {
    match finding {
        Finding::Found { .. } => Some(EffectState::Done),
        Finding::FoundRefused { .. } => Some(EffectState::Refused),
        Finding::Differs | Finding::NotFound | Finding::Inconclusive => None,
    }
}
