//! Telling the signer service what counts: it keeps decisions, and only here it is known what became of them.
//!
//! A courtesy to the people who read its pages: nothing of a payment depends on it, and nothing is stored of it here.
//! A service that wants to know says in its status what it was told last; it is told again when that is not what there
//! is to tell. So what was lost is said at the next look, and a service that never asked is never told.

use serde::Serialize;

use super::Journal;
use super::ports::SignerStatus;
use crate::domain::{Code, Payment, Refusal, Timestamp};
use crate::proof::sha256_hex;
use crate::store::StoredDecision;

/// The most decisions taken from one answer, and told of in one. A service without a signer's key may keep several that
/// claim to be theirs; those it could verify come first.
pub(super) const DECISIONS: usize = 64;

/// What has become of a round's decisions, as the signer service is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// The signing round.
    pub round: i64,
    /// Of those that the service keeps.
    pub decisions: Vec<Judged>,
    /// Those that came another way.
    pub elsewhere: Vec<Elsewhere>,
}

/// What has become of a decision that the signer service keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// The service's id for it.
    pub decision_id: String,
    /// `counted`, `surplus`, `waiting` or `refused`.
    pub verdict: &'static str,
    /// Why it waits or was refused, a stable code; else empty.
    pub code: &'static str,
}

/// A decision that was recorded, and did not come by the signer service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
    /// Who decided.
    pub signer_id: String,
    /// `approve` or `reject`.
    pub decision: String,
    /// `counted` or `surplus`.
    pub verdict: &'static str,
    /// When it was recorded, RFC 3339.
    pub decided_at: String,
}

impl Journal {
    /// Tells the signer service what it has not heard; failing that is said in the log and nowhere else.
    ///
    /// `taken` says of each decision in the status, in its order, why it was not taken; without it, only what was recorded is told.
    pub(super) async fn tell_verdicts(&self, payment: &Payment, status: &SignerStatus, taken: &[Option<Code>]) {
        let here = status.round == payment.round && !payment.notice.signer_ref.is_empty();
        let Some(told) = status.told.as_ref().filter(|_| here) else { return };
        let id = payment.terms.payment_id.as_str();
        let verdicts = match self.verdicts(payment, status, taken).await {
            Ok(verdicts) => verdicts,
            Err(refusal) => {
                tracing::warn!(payment.id = id, error = %refusal, "what the signer service is to be told could not be read");
                return;
            }
        };
        if told.is_empty() && verdicts.decisions.is_empty() && verdicts.elsewhere.is_empty() {
            return;
        }
        let body = self.signer.prepare_verdicts(&verdicts);
        if *told == sha256_hex(&body) {
            return;
        }
        if let Err(trouble) = self.signer.tell_verdicts(&payment.notice.signer_ref, &body).await {
            tracing::warn!(payment.id = id, trouble = %trouble, "the signer service could not be told what counts; it is told at the next look");
        }
    }

    /// Tells it once more before it is told that no more decisions are wanted: what completed the quorum is not said before.
    pub(super) async fn tell_last_verdicts(&self, payment: &Payment) {
        if payment.decisions == 0 || payment.notice.signer_ref.is_empty() {
            return;
        }
        match self.signer.status(&payment.notice.signer_ref).await {
            Ok(status) => self.tell_verdicts(payment, &status, &[]).await,
            Err(trouble) => {
                let id = payment.terms.payment_id.as_str();
                tracing::warn!(payment.id = id, trouble = %trouble, "the signer service could not be asked what it was told");
            }
        }
    }

    async fn verdicts(
        &self,
        payment: &Payment,
        status: &SignerStatus,
        taken: &[Option<Code>],
    ) -> Result<Verdicts, Refusal> {
        let recorded = self.store.read().await?.decisions(payment.terms.payment_id.as_str(), payment.round).await?;
        let mut from_the_service: Vec<&str> = Vec::new();
        let mut decisions = Vec::new();
        for (place, kept) in status.decisions.iter().take(DECISIONS).enumerate() {
            let says_it = |own: &&StoredDecision| own.document == kept.document;
            let very_same = recorded.iter().find(|own| says_it(own) && own.proof == kept.proof.text());
            let (verdict, code) = match (very_same, taken.get(place)) {
                (Some(own), _) => {
                    from_the_service.push(&own.decision_id);
                    (word(own), "")
                }
                // Said before with another proof, which is answered alike.
                (None, Some(None)) => {
                    let Some(own) = recorded.iter().find(says_it) else { continue };
                    from_the_service.push(&own.decision_id);
                    (word(own), "")
                }
                (None, Some(Some(code))) => {
                    let Some(verdict) = why(*code) else { continue };
                    (verdict, code.as_str())
                }
                (None, None) => continue,
            };
            decisions.push(Judged { decision_id: kept.decision_id.clone(), verdict, code });
        }
        let elsewhere = recorded.iter().filter(|own| !from_the_service.contains(&own.decision_id.as_str()));
        let elsewhere = elsewhere.take(DECISIONS).map(|own| Elsewhere {
            signer_id: own.signer_id.clone(),
            decision: own.choice.clone(),
            verdict: word(own),
            decided_at: Timestamp::from_micros(own.decided_at).rfc3339(),
        });
        Ok(Verdicts { round: payment.round, decisions, elsewhere: elsewhere.collect() })
    }
}

fn word(own: &StoredDecision) -> &'static str {
    if own.payment_version > 0 { "counted" } else { "surplus" }
}

/// What a decision that was not taken is: one that may be taken yet, or refused; nothing where a fault of ours is why.
fn why(code: Code) -> Option<&'static str> {
    match code {
        Code::LevelNotOpen | Code::PaymentOnManualHold => Some("waiting"),
        Code::Internal => None,
        code if code.entry().retryable => None,
        _ => Some("refused"),
    }
}
