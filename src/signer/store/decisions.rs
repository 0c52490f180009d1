//! Decisions of the current round.

use std::collections::BTreeSet;

use sqlx::FromRow;

use super::{KeptPayment, Session, Stored};
use crate::domain::{Choice, Timestamp};

/// A decision with its proof.
#[derive(Debug, Clone, FromRow)]
pub(in crate::signer) struct KeptDecision {
    /// The service's id for it.
    pub(in crate::signer) decision_id: String,
    /// Who decided.
    pub(in crate::signer) signer_id: String,
    /// `approve` or `reject`.
    pub(in crate::signer) decision: String,
    /// The canonical decision document.
    pub(in crate::signer) document: String,
    /// The form of its proof.
    pub(in crate::signer) proof_type: String,
    /// The proof over it.
    pub(in crate::signer) proof: String,
    /// The key that a JWS names, or the passkey's credential.
    pub(in crate::signer) signed_by: String,
    /// Whether the directory's key verified it.
    pub(in crate::signer) verified: bool,
    /// When it was kept, in Unix microseconds.
    pub(in crate::signer) decided_at: i64,
    /// What the gateway made of it, as it told; empty until then.
    pub(in crate::signer) verdict: String,
    /// Why it waits or was refused, the gateway's code.
    pub(in crate::signer) code: String,
}

/// What the gateway made of a decision, as far as it told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::signer) enum Verdict {
    /// It has not told.
    Untold,
    /// It counts.
    Counted,
    /// Enough had decided before it.
    Surplus,
    /// It may be taken yet; why not so far, by the gateway's code.
    Waiting(String),
    /// It was not taken; why, by the gateway's code.
    Refused(String),
}

impl KeptDecision {
    /// When it was kept.
    pub(in crate::signer) fn decided_at(&self) -> Timestamp {
        Timestamp::from_micros(self.decided_at)
    }

    /// What the gateway made of it.
    pub(in crate::signer) fn verdict(&self) -> Verdict {
        match self.verdict.as_str() {
            "counted" => Verdict::Counted,
            "surplus" => Verdict::Surplus,
            "waiting" => Verdict::Waiting(self.code.clone()),
            "refused" => Verdict::Refused(self.code.clone()),
            _ => Verdict::Untold,
        }
    }

    /// Whether it is its signer's word: the gateway has recorded it, or it was verified here and not refused since.
    pub(in crate::signer) fn stands(&self) -> bool {
        match self.verdict() {
            Verdict::Counted | Verdict::Surplus => true,
            Verdict::Untold | Verdict::Waiting(_) => self.verified,
            Verdict::Refused(_) => false,
        }
    }

    fn is_approval(&self) -> bool {
        self.decision == Choice::Approve.as_str()
    }
}

/// How far one person has come with what they say of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::signer) enum Word {
    /// Nothing that stands.
    None,
    /// They have approved, and must with another key of theirs.
    Half,
    /// All that they are asked for.
    Whole,
}

impl KeptPayment {
    /// How far `signer_id` has come, by the decisions that are `kept` of the round.
    pub(in crate::signer) fn word_of(&self, kept: &[KeptDecision], signer_id: &str) -> Word {
        let own = || kept.iter().filter(|kept| kept.stands() && kept.signer_id == signer_id);
        let keys: BTreeSet<&str> = own().map(|kept| kept.signed_by.as_str()).collect();
        let given = i64::try_from(keys.len()).unwrap_or(i64::MAX);
        match given {
            0 => Word::None,
            _ if own().all(KeptDecision::is_approval) && given < self.confirmations => Word::Half,
            _ => Word::Whole,
        }
    }
}

impl Session {
    /// The decisions of the payment's current round, oldest first.
    pub(in crate::signer) async fn decisions(&mut self, payment: &KeptPayment) -> Stored<Vec<KeptDecision>> {
        Ok(sqlx::query_as(
            "SELECT decision_id, signer_id, decision, document, proof_type, proof, signed_by, verified, decided_at, \
             verdict, code FROM decisions \
             WHERE payment_id = ?1 AND round = ?2 ORDER BY verified DESC, decided_at, decision_id",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .fetch_all(self.db())
        .await?)
    }

    /// Keeps a decision; a second verified one by the same key in the round is an error of the database.
    pub(in crate::signer) async fn add_decision(&mut self, payment: &KeptPayment, kept: &KeptDecision) -> Stored<()> {
        sqlx::query(
            "INSERT INTO decisions (decision_id, payment_id, round, signer_id, decision, document, proof_type, \
             proof, signed_by, verified, decided_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .bind(&kept.decision_id)
        .bind(&payment.id)
        .bind(payment.round)
        .bind(&kept.signer_id)
        .bind(&kept.decision)
        .bind(&kept.document)
        .bind(&kept.proof_type)
        .bind(&kept.proof)
        .bind(&kept.signed_by)
        .bind(i64::from(kept.verified))
        .bind(kept.decided_at)
        .execute(self.db())
        .await?;
        Ok(())
    }
}
