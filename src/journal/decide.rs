//! Taking a decision in: verified against our own keys, counted once per person, guarded in the update.

use super::reading::{decision_bytes, signer_of};
use super::{Act, Journal, RACES, Selector, lost_race};
use crate::domain::{
    Applied, ApprovalPolicy, Choice, Code, DecisionId, Event, Level, Payment, PaymentId, Policy, Principal, Reason,
    Refusal, SignerId, Standing, TenantId, Terms, Usage, Vote, apply, evaluate, is_requester,
};
use crate::proof::{DecisionDocument, PublicKey, claimed_key_id, verify_detached};
use crate::store::{Guard, PinnedKey, StoredDecision, Tx};

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
    /// The detached JWS.
    pub jws: String,
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
}

impl Journal {
    /// A signer's own decision, brought over MCP.
    ///
    /// *Errors*: `SIGNATURE_INVALID`, `SIGNER_NOT_ELIGIBLE`, `SELF_APPROVAL_FORBIDDEN`, `NONCE_CONSUMED`,
    /// `PAYMENT_EXPIRED`, `PAYMENT_TERMINAL`, `PAYMENT_ON_MANUAL_HOLD`; each is audited.
    #[tracing::instrument(name = "journal.decision.take", skip_all, fields(payment.id))]
    pub async fn decide_as(
        &self,
        who: &Principal,
        selector: &Selector,
        choice: Choice,
        reason: Reason,
        jws: String,
    ) -> Result<Verdict, Refusal> {
        let signer = signer_of(who)?;
        let payment = self.status(who, selector).await?;
        let decision =
            Decision { signer, choice, reason: reason.to_string(), jws, document: None, source: Source::Mcp };
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
        for _ in 0..RACES {
            match self.try_decide(tenant, payment_id, &decision).await {
                Err(refusal) if lost_race(&refusal) => {}
                done => return done,
            }
        }
        Err(crate::store::StoreFault::Conflict.into())
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
        let (document, digest, key_id) = self.verify(&mut tx, &payment, decision).await?;
        let mut earlier = tx.decisions(payment_id.as_str(), payment.round).await?;
        if let Some(before) = earlier.iter().find(|before| before.signer_id == decision.signer.as_str()) {
            if before.document == document {
                // Read again: the twin may have committed between the two reads (PostgreSQL).
                let payment = tx.payment(tenant.as_str(), payment_id).await?.unwrap_or(payment);
                return Ok(Verdict { payment, replayed: true });
            }
            return Err(Refusal::new(
                Code::NonceConsumed,
                format!("you have already decided this payment: {}", before.choice),
            )
            .about(payment.reference()));
        }
        let before = evaluate(&payment.terms.policy, &payment.terms, &votes(&earlier));
        let turn = turn(&payment.terms.policy, before, &decision.signer);
        if turn == Turn::Later {
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
            jws: decision.jws.clone(),
            payment_version: payment.version.saturating_add(1),
        };
        earlier.push(stored.clone());
        let standing = evaluate(&payment.terms.policy, &payment.terms, &votes(&earlier));
        let actor = format!("signer:{}", decision.signer);
        let word = format!("decision.{}", decision.choice.as_str());
        let act = Act { guard: Guard::Decision { now: tx.now() }, ..Act::new(&actor, &word).with(digest) };
        let event = Event::Decided {
            round: payment.round,
            standing,
            advanced: level_of(standing) > level_of(before),
            reason: decision.reason.clone(),
        };
        let applied = if turn == Turn::Past {
            // Refused with whatever an open level would be refused with; else it changes nothing.
            apply(&payment, event, &self.moment(&tx))?;
            Applied { payment: payment.clone(), effects: Vec::new() }
        } else {
            self.change(&mut tx, &payment, event, act.clone()).await?
        };
        if !applied.changed(&payment) {
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
        tx.commit().await?;
        self.announce(&applied);
        Ok(Verdict { payment: applied.payment, replayed: false })
    }

    /// Whether the decision is this signer's own answer to this round's challenge.
    ///
    /// Returns the canonical document, its digest, and the key that signed.
    async fn verify(
        &self,
        tx: &mut Tx,
        payment: &Payment,
        decision: &Decision,
    ) -> Result<(String, String, String), Refusal> {
        let about = |refusal: Refusal| refusal.about(payment.reference());
        if is_requester(&payment.terms.policy, &payment.terms, &decision.signer) {
            return Err(about(Refusal::new(Code::SelfApprovalForbidden, "who asks for a payment can't approve it")));
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
        let key_id = claimed_key_id(&decision.jws).map_err(|fault| invalid(&fault.to_string()))?;
        let (document, digest) =
            decision_bytes(challenge, &payment.digest, &key_id, decision.choice, &decision.reason)?;
        if let Some(given) = &decision.document
            && *given != document
        {
            return Err(about(mismatch(given, payment)));
        }
        let keys = tx.pinned_keys(payment.terms.tenant.as_str(), decision.signer.as_str()).await?;
        let key = active_key(&keys, &key_id)
            .ok_or_else(|| invalid("no active key of this signer's has that kid; an operator enrols keys"))?;
        verify_detached(&key, &key_id, &document, &decision.jws).map_err(|fault| invalid(&fault.to_string()))?;
        Ok((document, digest, key_id))
    }

    /// Whether the quorum of a signed payment still holds: every counted signature verifies, by a key
    /// that is active now, of a person whom both the snapshot and the current policy make eligible.
    pub(super) async fn quorum_holds(&self, tx: &mut Tx, payment: &Payment) -> Result<Quorum, Refusal> {
        let decisions = tx.decisions(payment.terms.payment_id.as_str(), payment.round).await?;
        let mut standing = Vec::new();
        for decision in decisions {
            let keys = tx.pinned_keys(payment.terms.tenant.as_str(), &decision.signer_id).await?;
            let valid = active_key(&keys, &decision.key_id)
                .is_some_and(|key| verify_detached(&key, &decision.key_id, &decision.document, &decision.jws).is_ok())
                && DecisionDocument::parse(&decision.document).is_some_and(|document| {
                    document.payment_digest == payment.digest
                        && document.signer_id == decision.signer_id
                        && document.decision == decision.choice
                });
            if valid {
                standing.push(decision);
            }
        }
        let votes = votes(&standing);
        let current = self.policy();
        let rule = match allowed(&current, payment) {
            Ok(rule) => rule,
            Err(refusal) => return Ok(Quorum::Denied(refusal)),
        };
        let snapshot = &payment.terms.policy;
        let complete = |policy| matches!(evaluate(policy, &payment.terms, &votes), Standing::Complete { .. });
        Ok(match (complete(snapshot), complete(rule)) {
            (true, true) => Quorum::Holds,
            // The snapshot is the stricter one: asked anew, it is not lowered.
            (false, true) => Quorum::Lost(Box::new(snapshot.clone())),
            (true | false, false) => Quorum::Lost(Box::new(rule.clone())),
        })
    }
}

/// The rule that the policy in force has for a payment that was proposed earlier.
///
/// *Errors*: what it denies the payment with now: a rule, the payee, a limit that it alone exceeds, or
/// that nobody could approve it.
fn allowed<'a>(current: &'a Policy, payment: &Payment) -> Result<&'a ApprovalPolicy, Refusal> {
    let facts = payment.facts();
    let rule = current.approval(&facts)?;
    current.payees().name_of(payment.terms.payee_account.as_str())?;
    // What else is in a window was counted when it was proposed.
    current.limits(&facts).try_for_each(|limit| limit.admits(facts.amount, Usage::default()))?;
    can_be_approved(rule, &payment.terms)?;
    Ok(rule)
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

/// Whether a signer's level is open, in the order the levels are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Others must approve first.
    Later,
    /// It is, or nothing is left to decide.
    Now,
    /// It was complete without them.
    Past,
}

fn turn(policy: &ApprovalPolicy, standing: Standing, signer: &SignerId) -> Turn {
    let Standing::Pending { level: open, .. } = standing else { return Turn::Now };
    let asked = |level: &Level| level.signers.contains(signer.as_str());
    if policy.levels.get(open).is_some_and(asked) {
        Turn::Now
    } else if policy.levels.iter().skip(open).any(asked) {
        Turn::Later
    } else {
        Turn::Past
    }
}

/// The level that is open; one past the last when none is.
fn level_of(standing: Standing) -> usize {
    match standing {
        Standing::Pending { level, .. } => level,
        Standing::Complete { .. } | Standing::Rejected => usize::MAX,
    }
}

/// The pinned key of that name, if it still counts.
fn active_key(keys: &[PinnedKey], key_id: &str) -> Option<PublicKey> {
    keys.iter()
        .find(|key| key.key_id == key_id && key.revoked_at.is_none())
        .and_then(|key| PublicKey::from_b64url(&key.public_key).ok())
}

pub(super) fn votes(decisions: &[StoredDecision]) -> Vec<Vote> {
    decisions
        .iter()
        .filter(|decision| decision.payment_version > 0)
        .filter_map(|decision| {
            let signer = decision.signer_id.parse().ok()?;
            Some(Vote { signer, choice: Choice::from_name(&decision.choice)? })
        })
        .collect()
}

/// Why a given document is not the one that answers this round's challenge.
fn mismatch(given: &str, payment: &Payment) -> Refusal {
    match DecisionDocument::parse(given) {
        Some(document) if document.payment_digest != payment.digest => {
            Refusal::new(Code::SigningRoundStale, "the decision is about an earlier form of this payment")
        }
        _ => Refusal::new(Code::DigestMismatch, "the decision is not the answer to this payment's challenge"),
    }
}
