//! Decisions as votes: what a further word of the same signer is, and how far a payment has come.

use std::time::Duration;

use super::Journal;
use super::decide::Decision;
use super::reading::is_open;
use crate::domain::{Choice, Code, Payment, Progress, Refusal, SignerId, Timestamp, Vote, has_voice, progress};
use crate::store::StoredDecision;

/// The decisions that count, in their order.
pub(super) fn votes(decisions: &[StoredDecision]) -> Vec<Vote> {
    decisions
        .iter()
        .filter(|decision| decision.payment_version > 0)
        .filter_map(|decision| {
            Some(Vote {
                signer: decision.signer_id.parse().ok()?,
                choice: Choice::from_name(&decision.choice)?,
                key: decision.key_id.clone(),
                at: Timestamp::from_micros(decision.decided_at),
            })
        })
        .collect()
}

/// How far the store's clock may have stepped back for a decision to be taken in all the same: more than the correction of
/// a clock or a failover is apart, and so little that an expiry that comes late by it does no harm.
const STEP: Duration = Duration::from_mins(5);

/// When a decision is taken in: now, but no earlier than its signer was asked, its key counted and others decided.
///
/// The clock that tells may have stepped back since, and who judges the evidence later knows of no clock.
///
/// *Errors*: `STORE_UNAVAILABLE` while the clock is further behind, or the payment expires before it has caught up.
pub(super) fn taken_at(
    payment: &Payment,
    now: Timestamp,
    since: Timestamp,
    earlier: &[StoredDecision],
) -> Result<Timestamp, Refusal> {
    let last = earlier.iter().map(|before| Timestamp::from_micros(before.decided_at)).max();
    let since = last.map_or(since, |last| last.max(since));
    if since <= now {
        return Ok(now);
    }
    let behind = since.since(now);
    tracing::warn!(
        payment.id = payment.terms.payment_id.as_str(),
        behind_ms = u64::try_from(behind.as_millis()).unwrap_or(u64::MAX),
        "the database's clock has stepped back: it is behind what is stored already"
    );
    if behind <= STEP && since < payment.terms.expires_at {
        return Ok(since);
    }
    Err(Refusal::new(
        Code::StoreUnavailable,
        format!(
            "the database's clock is behind what it has stored, by {} s; an operator must set it",
            behind.as_secs()
        ),
    )
    .about(payment.reference()))
}

/// What a signer's word is beside those that they gave before in this round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// One that is there already: answered alike.
    Repeated,
    /// A new one, and its number.
    New(i64),
}

/// Judges `decision`, which `document` and the key say, beside the signer's `earlier` ones.
///
/// A rule may ask for an approval with several keys: the same key again is a repetition, whatever its form. A no may
/// follow a yes that is not confirmed yet; nothing else is taken back.
///
/// *Errors*: `NONCE_CONSUMED`.
pub(super) fn word(
    payment: &Payment,
    earlier: &[StoredDecision],
    decision: &Decision,
    (document, key_id): (&str, &str),
) -> Result<Word, Refusal> {
    let own: Vec<&StoredDecision> =
        earlier.iter().filter(|before| before.signer_id == decision.signer.as_str()).collect();
    let Some(first) = own.first() else { return Ok(Word::New(1)) };
    let said = |before: &&StoredDecision| before.document == document;
    if own.iter().any(|before| said(before) && before.key_id == key_id) {
        return Ok(Word::Repeated);
    }
    let consumed = |why: String| Err(Refusal::new(Code::NonceConsumed, why).about(payment.reference()));
    if !wants_another(payment, earlier, decision.signer.as_str()) {
        // By another key of theirs, and nobody asked for a second.
        if own.iter().any(said) {
            return Ok(Word::Repeated);
        }
        return consumed(format!("you have already decided this payment: {}", first.choice));
    }
    if decision.choice == Choice::Approve && own.iter().any(|before| before.key_id == key_id) {
        return consumed(
            "you have approved with this key; confirm with another of yours, on another device".to_owned(),
        );
    }
    Ok(Word::New(i64::try_from(own.len()).unwrap_or(i64::MAX).saturating_add(1)))
}

/// Whether `signer` may decide at `at`, for themselves or for somebody else.
///
/// *Errors*: `SIGNER_NOT_ELIGIBLE`.
pub(super) fn may_speak(payment: &Payment, signer: &SignerId, at: Timestamp) -> Result<(), Refusal> {
    let voice = |at| has_voice(&payment.terms.policy, &payment.terms, signer, at);
    if voice(Some(at)) {
        return Ok(());
    }
    let why = if voice(None) {
        "you are nobody's deputy at this time; whom you stand in for at other times must decide"
    } else {
        "nobody for whom you may speak may decide this payment: they ask for it, or are paid by it"
    };
    Err(Refusal::new(Code::SignerNotEligible, why).about(payment.reference()))
}

/// Whether `signer` has approved, and the rule has them confirm it with another key.
pub(super) fn wants_another(payment: &Payment, decisions: &[StoredDecision], signer: &str) -> bool {
    let own = || decisions.iter().filter(|decision| decision.signer_id == signer);
    let given = u32::try_from(own().count()).unwrap_or(u32::MAX);
    let approved = own().all(|decision| decision.choice == Choice::Approve.as_str());
    approved && (1..payment.terms.policy.confirmations()).contains(&given)
}

impl Journal {
    /// How far the approvals of an open payment have come; `None` when there is nothing more to approve.
    ///
    /// Before the first decision that is said without a look at any.
    pub async fn progress(&self, payment: &Payment) -> Result<Option<Progress>, Refusal> {
        if !is_open(payment) {
            return Ok(None);
        }
        let decided = if payment.decisions == 0 {
            Vec::new()
        } else {
            self.store.read().await?.decisions(payment.terms.payment_id.as_str(), payment.round).await?
        };
        Ok(Some(progress(&payment.terms.policy, &payment.terms, &votes(&decided))))
    }
}
