//! Settling by hand: one person holds; two release or attest; another signer is asked.

use super::{Act, Journal, Selector, again, unless_restoring};
use crate::crash::{self, Point};
use crate::domain::{Account, Code, Event, Payment, Phase, Principal, Reason, Refusal, SignerId, Terms, is_barred};
use crate::store::{Attestation, Matter};

/// What two people must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// Let a held payment go on.
    Release,
    /// The money moved.
    Executed {
        /// What proves it, such as a bank's reference.
        reference: Account,
    },
    /// The money did not move.
    NotExecuted,
}

impl Verb {
    /// The stable spelling, the tool's name.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Release => "release_hold",
            Self::Executed { .. } => "attest_executed",
            Self::NotExecuted => "attest_not_executed",
        }
    }

    fn event(&self) -> Event {
        match self {
            Self::Release => Event::Released,
            Self::Executed { reference } => Event::AttestedExecuted { reference: reference.to_string() },
            Self::NotExecuted => Event::AttestedNotExecuted,
        }
    }
}

/// What a person's word came to.
#[derive(Debug, Clone)]
pub struct Attested {
    /// The payment now.
    pub payment: Payment,
    /// Whether another person's word is still missing.
    pub waits: bool,
}

impl Journal {
    /// Takes a payment over to pay it by hand.
    ///
    /// *Errors*: `OUTCOME_UNKNOWN_BLOCKS` once it may be on its way, `PAYMENT_TERMINAL`.
    pub async fn hold(&self, who: &Principal, selector: &Selector, reason: &Reason) -> Result<Payment, Refusal> {
        self.by_hand(who, selector, Event::Held, "payment.held", reason.as_str()).await
    }

    /// Asks another signer first, with a new campaign of attempts.
    ///
    /// *Errors*: `SIGNER_NOT_ELIGIBLE` for someone the payment's rule does not ask.
    pub async fn reassign(&self, who: &Principal, selector: &Selector, signer: SignerId) -> Result<Payment, Refusal> {
        let payment = self.status(who, selector).await?;
        let Terms { policy, .. } = &payment.terms;
        if !policy.is_eligible(&signer) || is_barred(policy, &payment.terms, &signer) {
            return Err(Refusal::of_field(
                Code::SignerNotEligible,
                "signer_id",
                "is not among the people this payment's rule asks",
            )
            .about(payment.reference()));
        }
        let reason = signer.to_string();
        self.by_hand(who, selector, Event::Reassigned { signer }, "payment.reassigned", &reason).await
    }

    async fn by_hand(
        &self,
        who: &Principal,
        selector: &Selector,
        event: Event,
        word: &str,
        reason: &str,
    ) -> Result<Payment, Refusal> {
        again(|| self.try_by_hand(who, selector, event.clone(), word, reason)).await
    }

    async fn try_by_hand(
        &self,
        who: &Principal,
        selector: &Selector,
        event: Event,
        word: &str,
        reason: &str,
    ) -> Result<Payment, Refusal> {
        let mut tx = self.store.begin().await?;
        let payment = Self::select(&mut tx, who, selector).await?;
        let actor = who.actor();
        let applied = self.change(&mut tx, &payment, event, Act::new(&actor, word).because(reason)).await?;
        crash::at(Point::HoldBeforeCommit);
        tx.commit().await?;
        crash::at(Point::HoldAfterCommit);
        self.announce(&applied);
        Ok(applied.payment)
    }

    /// Gives one person's word; the second, of another person, makes it so.
    ///
    /// *Errors*: what the verb is refused with, to the first person already; nothing is kept then.
    pub async fn attest(
        &self,
        who: &Principal,
        selector: &Selector,
        verb: &Verb,
        evidence: &Reason,
    ) -> Result<Attested, Refusal> {
        again(|| self.try_attest(who, selector, verb, evidence)).await
    }

    async fn try_attest(
        &self,
        who: &Principal,
        selector: &Selector,
        verb: &Verb,
        evidence: &Reason,
    ) -> Result<Attested, Refusal> {
        let mut tx = self.store.begin().await?;
        let payment = Self::select(&mut tx, who, selector).await?;
        if who.subject == payment.terms.principal {
            return Err(Refusal::new(
                Code::SelfApprovalForbidden,
                "the agent asked for this payment on your behalf; two others must give their word",
            )
            .about(payment.reference()));
        }
        // From here on one after the other: the second person's call sees the first's word.
        tx.take_row(payment.terms.payment_id.as_str()).await?;
        // Refused already to the first person, rather than to the second.
        crate::domain::apply(&payment, verb.event(), &self.moment(&tx))?;
        let episode = episode(&payment);
        let matter = Matter { payment_id: payment.terms.payment_id.as_str(), verb: verb.as_str(), episode: &episode };
        let word = Attestation {
            person: who.subject.clone(),
            reference: match verb {
                Verb::Executed { reference } => reference.to_string(),
                Verb::Release | Verb::NotExecuted => String::new(),
            },
            evidence: evidence.to_string(),
        };
        let given = tx.attestations(matter).await?;
        let agreed = given.iter().any(|earlier| earlier.person != word.person && earlier.reference == word.reference);
        let new = tx.attest(matter, &word).await?;
        let actor = who.actor();
        let name = format!("{}.{}", verb.as_str(), if agreed { "second" } else { "first" });
        let act = Act::new(&actor, &name).because(word.evidence.clone()).with(word.reference.clone());
        if !agreed {
            unless_restoring(&mut tx).await?;
            if new {
                tx.audit(self.note(&payment, &payment, &act));
            }
            crash::at(Point::FirstWordBeforeCommit);
            tx.commit().await?;
            crash::at(Point::FirstWordAfterCommit);
            return Ok(Attested { payment, waits: true });
        }
        let applied = self.change(&mut tx, &payment, verb.event(), act).await?;
        crash::at(Point::WordBeforeCommit);
        tx.commit().await?;
        crash::at(Point::WordAfterCommit);
        self.announce(&applied);
        Ok(Attested { payment: applied.payment, waits: false })
    }
}

/// Which hold or attempt group a word speaks of: one given for an earlier one never counts.
fn episode(payment: &Payment) -> String {
    match (payment.held_at, payment.execution.phase) {
        (Some(at), _) => format!("hold:{}", at.micros()),
        (None, Phase::None | Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused) => {
            format!("group:{}", payment.execution.group)
        }
    }
}
