//! Taking a decision in: verified against our own keys, counted once per person, guarded in the update.

use super::budget::judged_again;
use super::counter::take_counter;
use super::create::document;
use super::reading::{decision_bytes, signer_of};
use super::votes::{Word, may_speak, taken_at, votes, wants_another, word};
use super::{Act, Journal, Selector, again, unless_restoring};
use crate::crash::{self, Point};
use crate::domain::{
    Applied, ApprovalPolicy, Choice, Code, DecisionId, Event, Payment, PaymentId, Principal, Reason, Refusal, SignerId,
    Standing, TenantId, Terms, Timestamp, Turn, Vote, apply, cast, evaluate, is_barred, is_requester, lost,
};
use crate::proof::{Claim, DecisionDocument, PASSKEY, Proof, SignerKey};
use crate::store::{Counter, Guard, PinnedKey, StoredDecision, Tx};

/// Which way a decision came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The signer brought it straight to us.
    Mcp,
    /// The signer service keeps it.
    SignerService,
}

/// A decision that claims to be a signer's.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Whose it claims to be.
    pub signer: SignerId,
    /// What it says.
    pub choice: Choice,
    /// Why.
    pub reason: String,
    /// What proves it.
    pub proof: Proof,
    /// The document it says it signs; absent when it is rebuilt from the challenge.
    pub document: Option<String>,
    /// Which way it came.
    pub source: Source,
}

/// What a decision came to.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The payment now.
    pub payment: Payment,
    /// Whether this very decision had been recorded before.
    pub replayed: bool,
    /// Whether the rule has its signer confirm it with another key.
    pub again: bool,
    /// Whether it was not needed: enough had decided before.
    pub surplus: bool,
}

impl Journal {
    /// A signer's own decision, brought over MCP.
    ///
    /// *Errors*: `SIGNATURE_INVALID`, `SIGNING_ROUND_STALE`, `SIGNER_NOT_ELIGIBLE`, `SELF_APPROVAL_FORBIDDEN`,
    /// `NONCE_CONSUMED`, `PAYMENT_EXPIRED`, `PAYMENT_TERMINAL`, `PAYMENT_ON_MANUAL_HOLD`; each is audited.
    #[tracing::instrument(name = "journal.decision.take", skip_all, fields(payment.id))]
    pub async fn decide_as(
        &self,
        who: &Principal,
        selector: &Selector,
        choice: Choice,
        reason: Reason,
        proof: Proof,
    ) -> Result<Verdict, Refusal> {
        let signer = signer_of(who)?;
        let payment = self.status(who, selector).await?;
        tracing::Span::current().record("payment.id", payment.terms.payment_id.as_str());
        let decision =
            Decision { signer, choice, reason: reason.to_string(), proof, document: None, source: Source::Mcp };
        let done = self.decide(&payment.terms.tenant, &payment.terms.payment_id, decision).await;
        if let Err(refusal) = &done
            && !refusal.code.entry().retryable
        {
            let mut tx = self.store.begin().await?;
            let actor = who.actor();
            tx.audit(self.note(
                &payment,
                &payment,
                &Act::new(&actor, "decision.refused").because(refusal.code.as_str()),
            ));
            tx.commit().await?;
        }
        done
    }

    /// Verifies a decision and records it.
    pub(super) async fn decide(
        &self,
        tenant: &TenantId,
        payment_id: &PaymentId,
        decision: Decision,
    ) -> Result<Verdict, Refusal> {
        again(|| self.try_decide(tenant, payment_id, &decision)).await
    }

    async fn try_decide(
        &self,
        tenant: &TenantId,
        payment_id: &PaymentId,
        decision: &Decision,
    ) -> Result<Verdict, Refusal> {
        let mut tx = self.store.begin().await?;
        let payment = tx
            .payment(tenant.as_str(), payment_id)
            .await?
            .ok_or_else(|| Refusal::new(Code::PaymentNotFound, "there is no such payment"))?;
        let Verified { document, digest, key_id, counter, since } = self.verify(&mut tx, &payment, decision).await?;
        let earlier = tx.decisions(payment_id.as_str(), payment.round).await?;
        let confirmation = match word(&payment, &earlier, decision, (&document, &key_id))? {
            Word::Repeated => {
                let again = wants_another(&payment, &earlier, decision.signer.as_str());
                // Read again: the twin may have committed between the two reads (PostgreSQL).
                let payment = tx.payment(tenant.as_str(), payment_id).await?.unwrap_or(payment);
                return Ok(Verdict { payment, replayed: true, again, surplus: false });
            }
            Word::New(confirmation) => confirmation,
        };
        tx.not_before(taken_at(&payment, tx.now(), since, &earlier)?);
        may_speak(&payment, &decision.signer, tx.at())?;
        let counter = match counter {
            Some(counter) => take_counter(&mut tx, &payment, (&key_id, counter), &decision.signer, &digest).await?,
            None => Counter::Further,
        };
        let vote = Vote { signer: decision.signer.clone(), choice: decision.choice, key: key_id.clone(), at: tx.at() };
        let cast = cast(&payment.terms.policy, &payment.terms, &votes(&earlier), vote);
        if cast.turn == Turn::Later {
            return Err(Refusal::new(
                Code::LevelNotOpen,
                "others must approve before you are asked; repeat this later",
            )
            .about(payment.reference()));
        }
        let mut stored = StoredDecision {
            decision_id: DecisionId::mint(tx.now(), self.entropy.u128()).to_string(),
            signer_id: decision.signer.to_string(),
            key_id,
            choice: decision.choice.as_str().to_owned(),
            reason: decision.reason.clone(),
            document,
            digest: digest.clone(),
            proof_type: decision.proof.form().to_owned(),
            proof: decision.proof.text().to_owned(),
            confirmation,
            decided_at: tx.at().micros(),
            payment_version: payment.version.saturating_add(1),
        };
        let actor = format!("signer:{}", decision.signer);
        let word = format!("decision.{}", decision.choice.as_str());
        let act = Act { guard: Guard::Decision { now: tx.at() }, ..Act::new(&actor, &word).with(digest) };
        let event = Event::Decided {
            round: payment.round,
            standing: cast.standing,
            advanced: cast.advanced,
            reason: decision.reason.clone(),
            counter_back: counter == Counter::Back,
        };
        let applied = if cast.turn == Turn::Past {
            // Refused with whatever an open level would be refused with; else it changes nothing.
            apply(&payment, event, &self.moment(&tx))?;
            Applied { payment: payment.clone(), effects: Vec::new() }
        } else {
            self.change(&mut tx, &payment, event, act.clone()).await?
        };
        if !applied.changed(&payment) {
            unless_restoring(&mut tx).await?;
            // It has left the hot tables: nothing is added to what is all over.
            if !tx.take_row(payment_id.as_str()).await? {
                return Err(Refusal::new(
                    Code::PaymentTerminal,
                    format!("the payment has ended as {} and does not change again", payment.status.as_str()),
                )
                .about(payment.reference()));
            }
            // Surplus, after the quorum or the signer's level was complete: kept, with no effect now or
            // at execution.
            stored.payment_version = 0;
            tx.audit(self.note(&payment, &payment, &Act { event: "decision.surplus", ..act }));
        }
        let via = match decision.source {
            Source::Mcp => "mcp",
            Source::SignerService => "signer_service",
        };
        if !tx.insert_decision(payment_id.as_str(), payment.round, via, &stored).await? {
            return Err(Refusal::new(Code::VersionConflict, "the same signer decided at the same moment"));
        }
        crash::at(Point::DecideBeforeCommit);
        tx.commit().await?;
        crash::at(Point::DecideAfterCommit);
        self.announce(&applied);
        let surplus = stored.payment_version == 0;
        let again = {
            let all: Vec<StoredDecision> = earlier.into_iter().chain([stored]).collect();
            wants_another(&applied.payment, &all, decision.signer.as_str())
        };
        Ok(Verdict { payment: applied.payment, replayed: false, again, surplus })
    }

    /// Whether the decision is this signer's own answer to this round's challenge.
    async fn verify(&self, tx: &mut Tx, payment: &Payment, decision: &Decision) -> Result<Verified, Refusal> {
        let about = |refusal: Refusal| refusal.about(payment.reference());
        if is_barred(&payment.terms.policy, &payment.terms, &decision.signer) {
            let why = if is_requester(&payment.terms.policy, &payment.terms, &decision.signer) {
                "who asks for a payment can't approve it"
            } else {
                "who is paid can't approve it"
            };
            return Err(about(Refusal::new(Code::SelfApprovalForbidden, why)));
        }
        let challenges = tx.challenges(payment.terms.payment_id.as_str(), payment.round).await?;
        let challenge = challenges
            .iter()
            .find(|challenge| challenge.signer_id == decision.signer.as_str())
            .filter(|_| payment.terms.policy.is_eligible(&decision.signer))
            .ok_or_else(|| {
                about(Refusal::new(Code::SignerNotEligible, "the policy does not ask this signer about this payment"))
            })?;
        let invalid = |why: &str| about(Refusal::of_field(Code::SignatureInvalid, "signature", why));
        let claim = decision.proof.claim().map_err(|fault| invalid(&fault.to_string()))?;
        let (document, digest) =
            decision_bytes(challenge, &payment.digest, &claim.key_id, decision.choice, &decision.reason)?;
        if let Some(given) = &decision.document
            && *given != document
        {
            let code =
                if answers_earlier(tx, payment, given).await? { Code::SigningRoundStale } else { Code::DigestMismatch };
            return Err(about(not_this_round(code)));
        }
        let keys = tx.pinned_keys(payment.terms.tenant.as_str(), decision.signer.as_str()).await?;
        let (pinned, key) = active_key(&keys, &claim)
            .ok_or_else(|| invalid("no active key of this signer's has that name; an operator enrols keys"))?;
        if !self.is_vouched(payment.terms.tenant.as_str(), pinned) {
            return Err(invalid("the registry's root has not signed this key's entry; an operator certifies keys"));
        }
        match key.verify(&pinned.key_id, &document, &decision.proof) {
            Ok(counter) => {
                let since = Timestamp::from_micros(challenge.issued_at.max(pinned.enrolled_at));
                Ok(Verified { document, digest, key_id: pinned.key_id.clone(), counter, since })
            }
            Err(_) if signs_earlier(tx, payment, decision, (&key, &pinned.key_id), &self.rules.audience).await? => {
                Err(about(not_this_round(Code::SigningRoundStale)))
            }
            Err(fault) => Err(invalid(&fault.to_string())),
        }
    }

    /// Whether the quorum of a signed payment still holds: every counted signature verifies, by a key
    /// that is active now, of a person whom both the snapshot and the current policy make eligible.
    pub(super) async fn quorum_holds(&self, tx: &mut Tx, payment: &Payment) -> Result<Quorum, Refusal> {
        let decisions = tx.decisions(payment.terms.payment_id.as_str(), payment.round).await?;
        let mut standing = Vec::new();
        for decision in decisions {
            let keys = tx.pinned_keys(payment.terms.tenant.as_str(), &decision.signer_id).await?;
            let key = keys.iter().find(|key| key.key_id == decision.key_id && key.revoked_at.is_none());
            let key = key.filter(|key| self.is_vouched(payment.terms.tenant.as_str(), key));
            let says_so = is_decision_about(&decision, &payment.digest);
            if says_so && key.is_some_and(|key| is_proved_by(&decision, key)) {
                standing.push(decision);
            }
        }
        let votes = votes(&standing);
        let current = self.policy();
        let rule = match judged_again(tx, &current, payment).await? {
            Ok(rule) => rule,
            Err(refusal) => return Ok(Quorum::Denied(refusal)),
        };
        Ok(match lost(&payment.terms, &rule, &votes) {
            None => Quorum::Holds,
            Some(rule) => Quorum::Lost(Box::new(rule.clone())),
        })
    }
}

/// Whether anybody could approve a payment of these terms under `policy`.
///
/// *Errors*: `POLICY_DENIED`.
pub(super) fn can_be_approved(policy: &ApprovalPolicy, terms: &Terms) -> Result<(), Refusal> {
    if evaluate(policy, terms, &[]) == Standing::Rejected {
        return Err(Refusal::new(
            Code::PolicyDenied,
            "the policy asks for approvals that can't be had without the one who asks; an operator must change it",
        ));
    }
    Ok(())
}

/// What a signed payment's quorum is worth at execution.
pub(super) enum Quorum {
    /// It holds under the snapshot and under the policy in force.
    Holds,
    /// It does not; the new round is judged by this rule.
    Lost(Box<ApprovalPolicy>),
    /// The policy in force denies the payment.
    Denied(Refusal),
}

/// A decision that is its signer's, and the key that says so.
struct Verified {
    /// The canonical document.
    document: String,
    /// Its digest.
    digest: String,
    /// The registry's name for the key.
    key_id: String,
    /// The passkey's counter.
    counter: Option<u32>,
    /// Since when its signer was asked and the key counts.
    since: Timestamp,
}

/// The pinned key that a proof claims, if it still counts.
fn active_key<'a>(keys: &'a [PinnedKey], claim: &Claim) -> Option<(&'a PinnedKey, SignerKey)> {
    let pinned = keys.iter().find(|key| key.revoked_at.is_none() && key.is_claimed_by(claim))?;
    Some((pinned, pinned.key().ok()?))
}

/// Whether the document of a stored decision says what is stored of it, about the payment with this digest.
pub(super) fn is_decision_about(decision: &StoredDecision, payment_digest: &str) -> bool {
    DecisionDocument::parse(&decision.document).is_some_and(|document| {
        document.payment_digest == payment_digest
            && document.signer_id == decision.signer_id
            && document.decision == decision.choice
    })
}

/// Whether the proof of a stored decision verifies by `key`, and the document names it.
pub(super) fn is_proved_by(decision: &StoredDecision, key: &PinnedKey) -> bool {
    let named = if key.credential_id.is_empty() { key.key_id.as_str() } else { PASSKEY };
    let names_it = DecisionDocument::parse(&decision.document).is_some_and(|document| document.key_id == named);
    let proof = decision.proof();
    names_it
        && proof.is_some_and(|proof| {
            key.key().is_ok_and(|public| public.verify(&key.key_id, &decision.document, &proof).is_ok())
        })
}

/// Rounds further back are not looked at.
const ROUNDS: usize = 8;

/// Whether `given` answers what its signer was asked in an earlier round.
async fn answers_earlier(tx: &mut Tx, payment: &Payment, given: &str) -> Result<bool, Refusal> {
    let Some(document) = DecisionDocument::parse(given) else { return Ok(false) };
    for round in (1..payment.round).rev().take(ROUNDS) {
        let challenges = tx.challenges(payment.terms.payment_id.as_str(), round).await?;
        if challenges.iter().any(|asked| asked.signer_id == document.signer_id && asked.nonce == document.nonce) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a signature is good for what its signer was asked in an earlier round.
///
/// The digest of that round's payment is in the decisions it had; without any, a restore has ended it under the same rule.
async fn signs_earlier(
    tx: &mut Tx,
    payment: &Payment,
    decision: &Decision,
    (key, key_id): (&SignerKey, &str),
    audience: &str,
) -> Result<bool, Refusal> {
    let id = payment.terms.payment_id.as_str();
    for round in (1..payment.round).rev().take(ROUNDS) {
        let challenges = tx.challenges(id, round).await?;
        let asked = challenges.iter().find(|challenge| challenge.signer_id == decision.signer.as_str());
        let counted = tx.decisions(id, round).await?;
        let about = counted.iter().find_map(|counted| DecisionDocument::parse(&counted.document));
        let Some(asked) = asked else { continue };
        let about = match about {
            Some(about) => about.payment_digest,
            None => document(&payment.terms, round, audience)?.1,
        };
        let named = if matches!(key, SignerKey::Passkey { .. }) { PASSKEY } else { key_id };
        let (document, _) = decision_bytes(asked, &about, named, decision.choice, &decision.reason)?;
        if key.verify(key_id, &document, &decision.proof).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why a decision is not the one that answers this round's challenge.
fn not_this_round(code: Code) -> Refusal {
    let why = if code == Code::SigningRoundStale {
        "the decision is about an earlier form of this payment"
    } else {
        "the decision is not the answer to this payment's challenge"
    };
    Refusal::new(code, why)
}
