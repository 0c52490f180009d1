//! Reading: who may see which payment, and what they see of it.

use super::votes::{votes, wants_another};
use super::{Journal, RACES};
use crate::domain::{
    Choice, Code, OrderId, Payment, PaymentId, Principal, Progress, Refusal, Role, SignerId, Stage, Status, Terms,
    Timestamp, progress, wants,
};
use crate::proof::{Challenge, DecisionDocument, compare_code, decision_digest};
use crate::store::{Listed, Listing, PinnedKey, Session, StoredChallenge, StoredDecision, Stuck};

/// Which payment: by its id, or an order's latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// This payment.
    Payment(PaymentId),
    /// The order's latest payment.
    Order(OrderId),
}

/// A page of payments and where the next one starts.
#[derive(Debug, Clone)]
pub struct Page {
    /// The payments.
    pub payments: Vec<Payment>,
    /// What to ask for the next page with; `None` at the end.
    pub next: Option<String>,
}

/// How many payments a page holds.
const PAGE: i64 = 20;

/// Whether `who` may know of `payment`.
///
/// An agent sees its own, a signer what they are eligible for, operators and auditors everything
/// of their tenant.
pub(super) fn visible_to(who: &Principal, payment: &Payment) -> bool {
    let same_tenant = who.tenant == payment.terms.tenant;
    let all = who.is(Role::Operator) || who.is(Role::Auditor);
    let own = who.is(Role::Agent) && who.client == payment.terms.agent;
    let asked = who.signer().is_some_and(|signer| payment.terms.policy.is_eligible(&signer));
    same_tenant && (all || own || asked)
}

fn not_found(selector: &Selector) -> Refusal {
    let what = match selector {
        Selector::Payment(id) => format!("payment_id {id}"),
        Selector::Order(order) => format!("order_id {order}"),
    };
    Refusal::new(Code::PaymentNotFound, format!("there is no payment of yours with {what}; ids are case-sensitive"))
}

/// A payment as its signer must see it before deciding.
#[derive(Debug, Clone)]
pub struct Approval {
    /// The payment.
    pub payment: Payment,
    /// For people to compare.
    pub compare_code: String,
    /// The exact documents to sign, one per key of the signer's that counts and signs here: a passkey signs on a page.
    pub forms: Vec<ApprovalForm>,
    /// Whether a passkey of theirs counts, which they have not used here.
    pub by_passkey: bool,
    /// What this signer has decided already.
    pub decided: Option<String>,
    /// The keys by which this signer has approved, while the rule has them confirm it with another.
    pub confirmed_by: Vec<String>,
    /// How far the approvals have come.
    pub progress: Progress,
}

/// The exact bytes a signer signs with one key.
#[derive(Debug, Clone)]
pub struct ApprovalForm {
    /// The key.
    pub key_id: String,
    /// The canonical decision document: the payload of the detached JWS.
    pub document: String,
    /// Its digest, base64url.
    pub digest: String,
}

impl Journal {
    pub(super) async fn select(
        session: &mut Session,
        who: &Principal,
        selector: &Selector,
    ) -> Result<Payment, Refusal> {
        let tenant = who.tenant.as_str();
        let found = match selector {
            Selector::Payment(id) => session.payment(tenant, id).await?,
            Selector::Order(order) => session.payment_by_order(tenant, order.as_str()).await?,
        };
        found.filter(|payment| visible_to(who, payment)).ok_or_else(|| not_found(selector))
    }

    /// A payment as it stands: one indexed query.
    pub async fn status(&self, who: &Principal, selector: &Selector) -> Result<Payment, Refusal> {
        let mut session = self.store.read().await?;
        Self::select(&mut session, who, selector).await
    }

    /// A page of the caller's payments, newest first.
    pub async fn list(
        &self,
        who: &Principal,
        status: Option<Status>,
        cursor: Option<&PaymentId>,
    ) -> Result<Page, Refusal> {
        let sees_all = who.is(Role::Operator) || who.is(Role::Auditor);
        let listing = Listing {
            agent: if sees_all { String::new() } else { who.client.to_string() },
            status,
            before: cursor.map(ToString::to_string).unwrap_or_default(),
            limit: PAGE,
        };
        let Listed { payments, next } = self.store.read().await?.payments(who.tenant.as_str(), &listing).await?;
        Ok(Page { payments, next })
    }

    /// A page of what waits for this signer, oldest first.
    pub async fn approvals(&self, who: &Principal, cursor: Option<&PaymentId>) -> Result<Page, Refusal> {
        let signer = signer_of(who)?;
        let mut session = self.store.read().await?;
        let mut after = cursor.map(ToString::to_string).unwrap_or_default();
        let mut payments = Vec::new();
        let mut next = None;
        for _ in 0..RACES {
            let open = session.open_payments(who.tenant.as_str(), &after, PAGE).await?;
            for payment in open.payments {
                let decided = session.decisions(payment.terms.payment_id.as_str(), payment.round).await?;
                let Terms { policy, .. } = &payment.terms;
                if wants(policy, &payment.terms, &votes(&decided), &signer, self.clock.now()) {
                    payments.push(payment);
                }
            }
            next = open.next;
            match &next {
                Some(cursor) if payments.is_empty() => after.clone_from(cursor),
                _ => break,
            }
        }
        Ok(Page { payments, next })
    }

    /// What this signer must see and sign to decide on a payment.
    pub async fn approval(
        &self,
        who: &Principal,
        selector: &Selector,
        choice: Choice,
        reason: &str,
    ) -> Result<Approval, Refusal> {
        let signer = signer_of(who)?;
        let mut session = self.store.read().await?;
        let payment = Self::select(&mut session, who, selector).await?;
        let payment_id = payment.terms.payment_id.as_str();
        let challenges = session.challenges(payment_id, payment.round).await?;
        let challenge = challenges
            .iter()
            .find(|challenge| challenge.signer_id == signer.as_str())
            .ok_or_else(|| Refusal::new(Code::SignerNotEligible, "the policy does not ask you about this payment"))?;
        let decisions = session.decisions(payment_id, payment.round).await?;
        let progress = progress(&payment.terms.policy, &payment.terms, &votes(&decisions));
        let again = wants_another(&payment, &decisions, signer.as_str());
        let own: Vec<StoredDecision> =
            decisions.into_iter().filter(|decision| decision.signer_id == signer.as_str()).collect();
        let decided = own.last().filter(|_| !again).map(|decision| decision.choice.clone());
        let confirmed_by: Vec<String> = own.into_iter().filter(|_| again).map(|decision| decision.key_id).collect();
        let keys = session.pinned_keys(who.tenant.as_str(), signer.as_str()).await?;
        let spent = |key: &PinnedKey| choice == Choice::Approve && confirmed_by.contains(&key.key_id);
        let counts = |key: &PinnedKey| key.revoked_at.is_none() && self.is_vouched(who.tenant.as_str(), key);
        let usable = keys.into_iter().filter(|key| counts(key) && !spent(key));
        let (here, passkeys): (Vec<_>, Vec<_>) = usable.partition(|key| key.credential_id.is_empty());
        let by_passkey = !passkeys.is_empty();
        let mut forms = Vec::new();
        for key in here {
            let (document, digest) = decision_bytes(challenge, &payment.digest, &key.key_id, choice, reason)?;
            forms.push(ApprovalForm { key_id: key.key_id, document, digest });
        }
        let compare_code = compare_code(&payment.digest);
        Ok(Approval { payment, compare_code, forms, by_passkey, decided, confirmed_by, progress })
    }

    /// A page of payments that a person should look at, oldest first, and where the next one starts.
    pub async fn attention(
        &self,
        who: &Principal,
        cursor: Option<&PaymentId>,
    ) -> Result<(Vec<Stuck>, Option<String>), Refusal> {
        let after = cursor.map(ToString::to_string).unwrap_or_default();
        let stuck = self.store.read().await?.attention(who.tenant.as_str(), &after, PAGE).await?;
        let full = i64::try_from(stuck.len()).is_ok_and(|count| count >= PAGE);
        let next = stuck.last().filter(|_| full).map(|row| row.payment_id.clone());
        let all = who.is(Role::Operator) || who.is(Role::Auditor);
        let theirs = |row: &Stuck| all || row.payment.as_ref().is_some_and(|payment| visible_to(who, payment));
        Ok((stuck.into_iter().filter(theirs).collect(), next))
    }
}

/// The signer that `who` is.
pub(super) fn signer_of(who: &Principal) -> Result<SignerId, Refusal> {
    who.signer().ok_or_else(|| Refusal::new(Code::ForbiddenTool, "only a signer may do this"))
}

/// A stored challenge in the form that is signed.
pub(super) fn challenge_of(stored: &StoredChallenge) -> Challenge {
    Challenge {
        signer_id: stored.signer_id.clone(),
        nonce: stored.nonce.clone(),
        issued_at: Timestamp::from_micros(stored.issued_at).rfc3339(),
        challenge_expires_at: Timestamp::from_micros(stored.expires_at).rfc3339(),
    }
}

/// The canonical decision document that answers a challenge, and its digest.
pub(super) fn decision_bytes(
    challenge: &StoredChallenge,
    payment_digest: &str,
    key_id: &str,
    choice: Choice,
    reason: &str,
) -> Result<(String, String), Refusal> {
    let document = DecisionDocument::answering(&challenge_of(challenge), payment_digest, key_id, choice, reason)
        .canonical()
        .map_err(|_| Refusal::new(Code::Internal, "the decision can't be put in canonical form"))?;
    let digest = decision_digest(&document);
    Ok((document, digest))
}

/// Whether a payment still accepts decisions.
pub(super) fn is_open(payment: &Payment) -> bool {
    payment.status.stage() == Stage::Open
}
