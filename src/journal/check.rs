//! Asking the signer service: for decisions, for a link, for what it knows now.

use super::attempt::{signer_refusal, signer_trouble};
use super::decide::{Decision, Source};
use super::forgotten::says_unknown;
use super::ports::{Answer, Cause, KeptDecision, SignLink, SignerStatus, Trouble};
use super::reach::with_receipts;
use super::reading::is_open;
use super::told::DECISIONS;
use super::{Act, Journal, Selector};
use crate::domain::{Code, Event, Payment, Principal, Reason, Refusal, Stage};
use crate::proof::{DecisionDocument, sha256_hex};
use crate::store::Lease;

/// How many refused decisions of the signer service's are audited of a round: an honest one shows far fewer, and one that
/// invents them must not fill the database.
const MOST_REFUSED: usize = 64;
/// What the entry that stands for all the others says.
const TOO_MANY: &str = "too_many";

/// What the signer service says now.
#[derive(Debug, Clone)]
pub struct SignerNews {
    /// The payment after any decision was taken in.
    pub payment: Payment,
    /// Whether each asked signer can be reached now; empty when it is not registered yet.
    pub online: Vec<(String, bool)>,
}

impl Journal {
    /// Asks the signer service now and takes in what it has.
    ///
    /// *Errors*: `SIGNER_UNAUTHORIZED`, `SIGNER_SERVICE_UNAVAILABLE`, `SIGNER_TIMEOUT`; nothing changes then.
    pub async fn check_signer(&self, who: &Principal, selector: &Selector) -> Result<SignerNews, Refusal> {
        let payment = self.status(who, selector).await?;
        if !is_open(&payment) || payment.notice.signer_ref.is_empty() {
            return Ok(SignerNews { payment, online: Vec::new() });
        }
        let (payment, status) = match self.signer.status(&payment.notice.signer_ref).await {
            Err(trouble) if says_unknown(&trouble) => match Box::pin(self.registered_anew(&payment)).await? {
                Some(payment) => {
                    let status = self.signer.status(&payment.notice.signer_ref).await;
                    (payment, status)
                }
                None => (payment, Err(trouble)),
            },
            status => (payment, status),
        };
        let status = status.map_err(|trouble| signer_refusal(signer_trouble(&trouble), &payment))?;
        let payment = self.take_in(payment, &status).await?;
        Ok(SignerNews { payment, online: status.online })
    }

    /// A fresh address for the signers of a payment; registers it first if need be.
    pub async fn sign_link(&self, who: &Principal, selector: &Selector) -> Result<(Payment, SignLink), Refusal> {
        let payment = self.status(who, selector).await?;
        match payment.status.stage() {
            Stage::Open => {}
            Stage::Signed | Stage::Ended => {
                return Err(Refusal::new(
                    Code::PaymentTerminal,
                    format!("there is nothing left to sign: the payment is {}", payment.status.as_str()),
                )
                .about(payment.reference()));
            }
        }
        if payment.held_at.is_some() {
            return Err(Refusal::new(
                Code::PaymentOnManualHold,
                "an operator holds this payment to settle it by hand; there is nothing to sign now",
            )
            .about(payment.reference()));
        }
        let payment = Box::pin(self.registered_now(payment)).await?;
        let (payment, link) = match self.signer.sign_link(&payment.notice.signer_ref).await {
            Err(trouble) if says_unknown(&trouble) => match Box::pin(self.registered_anew(&payment)).await? {
                Some(payment) => {
                    let link = self.signer.sign_link(&payment.notice.signer_ref).await;
                    (payment, link)
                }
                None => (payment, Err(trouble)),
            },
            link => (payment, link),
        };
        let link = link.map_err(|trouble| link_refusal(&trouble, &payment))?;
        Ok((payment, link))
    }

    /// Registers what the signer service has forgotten; `None` where it is not done again.
    async fn registered_anew(&self, payment: &Payment) -> Result<Option<Payment>, Refusal> {
        match self.forget(payment).await? {
            Some(payment) if is_open(&payment) && payment.held_at.is_none() => {
                self.registered_now(payment).await.map(Some)
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn registered_now(&self, payment: Payment) -> Result<Payment, Refusal> {
        if payment.notice.registered_round >= payment.round {
            return Ok(payment);
        }
        let mut tx = self.store.begin().await?;
        let payment_id = payment.terms.payment_id.to_string();
        let lease = Lease {
            payment_id: payment_id.clone(),
            tenant: payment.terms.tenant.to_string(),
            token: self.mint_token(&tx),
            claimed_at: tx.now(),
            claims: 0,
        };
        let until = tx.now().plus(self.rules.timing.lease);
        let claimed = tx.claim(&payment_id, &self.rules.node, &lease.token, until).await?;
        tx.commit().await?;
        if !claimed {
            return Err(Refusal::new(
                Code::IdempotencyInProgress,
                "the payment is being registered with the signer service right now; repeat the call",
            )
            .about(payment.reference()));
        }
        let registered = self.ensure_registered(&lease, payment).await;
        self.release(&lease).await?;
        registered?.map_err(|(payment, trouble)| signer_refusal(trouble, &payment))
    }

    /// The worker's own question; the answer, or its absence, schedules the next.
    pub(super) async fn check_on_schedule(&self, payment: Payment) -> Result<Payment, Refusal> {
        let payment = match self.status_of(&payment).await {
            Ok(status) => {
                let payment = self.take_in(payment, &status).await?;
                self.missed_after_all(payment, &status).await?
            }
            Err(trouble) if says_unknown(&trouble) => self.forget(&payment).await?.unwrap_or(payment),
            Err(trouble) => {
                tracing::warn!(payment.id = %payment.terms.payment_id, trouble = %trouble, "the signer service could not be asked for decisions");
                payment
            }
        };
        let mut tx = self.store.begin().await?;
        let Some(payment) = tx.payment_for_work(payment.terms.payment_id.as_str()).await? else {
            return Ok(payment);
        };
        let actor = self.worker_actor();
        let applied = self.change(&mut tx, &payment, Event::Checked, Act::new(&actor, "signer.checked")).await?;
        tx.commit().await?;
        Ok(applied.payment)
    }

    /// Takes in that the last notification, which the service had taken, has not reached enough people.
    async fn missed_after_all(&self, payment: Payment, status: &SignerStatus) -> Result<Payment, Refusal> {
        let number = payment.notice.settled;
        if self.short_of(&payment, status).await?.is_empty() {
            return Ok(payment);
        }
        let mut tx = self.store.begin().await?;
        let Some(current) = tx.payment_for_work(payment.terms.payment_id.as_str()).await? else { return Ok(payment) };
        let actor = self.worker_actor();
        let act = Act::new(&actor, "signer.notify.unreached").because(with_receipts(&status.receipts));
        let applied = self.change(&mut tx, &current, Event::Unreached { number }, act).await?;
        tx.commit().await?;
        self.announce(&applied);
        Ok(applied.payment)
    }

    /// Asks by the signer service's id, or by our reference while that id has not reached us.
    async fn status_of(&self, payment: &Payment) -> Answer<SignerStatus> {
        if !payment.notice.signer_ref.is_empty() {
            return self.signer.status(&payment.notice.signer_ref).await;
        }
        match self.signer.find(payment.terms.payment_id.as_str()).await? {
            Some(known) => self.signer.status(&known.id).await,
            None => Err(Trouble::of(Cause::NotFound)),
        }
    }

    /// Verifies and records each decision that the signer service keeps, and tells it what became of them.
    ///
    /// What ends the round is told with its end, so that no execution waits for it.
    async fn take_in(&self, payment: Payment, status: &SignerStatus) -> Result<Payment, Refusal> {
        let mut payment = payment;
        let mut taken = Vec::new();
        for kept in status.decisions.iter().take(DECISIONS) {
            match self.take_decision(&payment, kept).await {
                Ok(after) => {
                    payment = after;
                    taken.push(None);
                }
                Err(refusal) if matches!(refusal.code, Code::StoreUnavailable | Code::RestoreUnderWay) => {
                    return Err(refusal);
                }
                Err(refusal) => {
                    self.refused_decision(&payment, kept, &refusal).await?;
                    taken.push(Some(refusal.code));
                }
            }
        }
        if is_open(&payment) {
            self.tell_verdicts(&payment, status, &taken).await;
        }
        Ok(payment)
    }

    async fn take_decision(&self, payment: &Payment, kept: &KeptDecision) -> Result<Payment, Refusal> {
        let malformed =
            || Refusal::new(Code::DigestMismatch, "the signer service keeps something that is not a decision document");
        let document = DecisionDocument::parse(&kept.document).ok_or_else(malformed)?;
        let decision = Decision {
            signer: document.signer_id.parse()?,
            choice: document.choice().ok_or_else(malformed)?,
            reason: Reason::parse("reason", &document.reason)?.to_string(),
            proof: kept.proof.clone(),
            document: Some(kept.document.clone()),
            source: Source::SignerService,
        };
        Ok(self.decide(&payment.terms.tenant, &payment.terms.payment_id, decision).await?.payment)
    }

    /// A decision that does not verify is audited once, however often it is shown again, and no more than
    /// [`MOST_REFUSED`] of a round are.
    async fn refused_decision(&self, payment: &Payment, kept: &KeptDecision, refusal: &Refusal) -> Result<(), Refusal> {
        let mut tx = self.store.begin().await?;
        let payment_id = payment.terms.payment_id.as_str();
        let source = format!("refused-decision:{payment_id}:r{}", payment.round);
        let seen = sha256_hex(format!("{}\n{}", kept.document, kept.proof.text()));
        let remembered = tx.callbacks_of(&source).await?;
        if remembered.contains(&seen) {
            return Ok(());
        }
        let code = refusal.code.as_str();
        let act = Act::new("signer-service", "decision.refused");
        let (name, act) = if remembered.len() < MOST_REFUSED {
            (seen.as_str(), act.because(code).with(kept.document.clone()))
        } else {
            tracing::debug!(payment.id = payment_id, code, "one more decision of the signer service was refused");
            (TOO_MANY, act.because(TOO_MANY))
        };
        if tx.remember_callback(&source, name, payment_id).await? {
            tracing::warn!(payment.id = payment_id, code, "a decision of the signer service was refused");
            tx.audit(self.note(payment, payment, &act));
        }
        Ok(tx.commit().await?)
    }
}

/// Why no link can be had, as the caller sees it.
fn link_refusal(trouble: &Trouble, payment: &Payment) -> Refusal {
    if trouble.cause == Cause::Garbage {
        return Refusal::new(
            Code::SignerServiceUnavailable,
            "the signer service's answer holds no usable link, so nothing of it is passed on; an operator must look at the service",
        )
        .about(payment.reference());
    }
    if trouble.cause != Cause::RateLimited {
        return signer_refusal(signer_trouble(trouble), payment);
    }
    let wait = trouble.retry_after.map_or(60_000, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    Refusal::new(
        Code::RateLimited,
        "links to this payment were asked for too often; pass on the last one, or ask again after retry_after_ms",
    )
    .after_ms(wait)
    .about(payment.reference())
}
