//! What an auditor reads: the chain, and everything that stands behind one payment.

use super::{Journal, Selector};
use crate::domain::{Payment, Principal, Refusal};
use crate::store::{AuditRow, EffectTrail, PinnedKey, StoredDecision};

/// Everything that stands behind one payment.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The payment, with the canonical document that was signed.
    pub payment: Payment,
    /// The decisions of the current round, each with its proof.
    pub decisions: Vec<StoredDecision>,
    /// The pinned keys that verify them.
    pub keys: Vec<PinnedKey>,
    /// What was sent, and what came of it.
    pub effects: Vec<EffectTrail>,
    /// The audit entries about it, in order.
    pub audit: Vec<AuditRow>,
}

/// Audit entries in a page.
const PAGE: i64 = 50;

impl Journal {
    /// Everything that stands behind a payment.
    pub async fn evidence(&self, who: &Principal, selector: &Selector) -> Result<Evidence, Refusal> {
        let mut session = self.store.read().await?;
        let payment = Self::select(&mut session, who, selector).await?;
        let id = payment.terms.payment_id.as_str();
        let decisions = session.decisions(id, payment.round).await?;
        let mut keys = Vec::new();
        for decision in &decisions {
            let pinned = session.pinned_keys(payment.terms.tenant.as_str(), &decision.signer_id).await?;
            keys.extend(pinned.into_iter().filter(|key| key.key_id == decision.key_id));
        }
        let effects = session.effects_of(id).await?;
        let audit = session.audit_of(payment.terms.tenant.as_str(), id).await?;
        Ok(Evidence { payment, decisions, keys, effects, audit })
    }

    /// A page of the tenant's audit after position `after`, and where the next one starts.
    pub async fn audit_page(&self, who: &Principal, after: i64) -> Result<(Vec<AuditRow>, Option<i64>), Refusal> {
        let entries = self.store.read().await?.audit_entries(who.tenant.as_str(), after, PAGE).await?;
        let full = i64::try_from(entries.len()).is_ok_and(|count| count >= PAGE);
        let next = if full { entries.last().map(|entry| entry.seq) } else { None };
        Ok((entries, next))
    }
}
