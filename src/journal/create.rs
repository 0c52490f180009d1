//! Creating a payment: durable at once, replayed by key, one per order.

use super::reading::visible_to;
use super::{Journal, RACES, lost_race};
use crate::domain::{
    Account, ApprovalPolicy, Code, Currency, IdempotencyKey, Memo, Money, OrderId, PartyName, Payment, PaymentId,
    Principal, Refusal, SignerId, Stage, Status, Terms, Timestamp,
};
use crate::proof::{PaymentDocument, b64url, jcs, payment_digest, sha256_hex};
use crate::store::{AuditNote, KeyBinding, KeyScope, StoredChallenge, Tx};
use crate::telemetry::trace_context::current_traceparent;

/// A checked request for a payment.
#[derive(Debug, Clone)]
pub struct CreateRequest {
    /// The caller's business key.
    pub order_id: OrderId,
    /// The amount's digits as they were written.
    pub amount: String,
    /// Its currency; the configured one when absent.
    pub currency: Option<Currency>,
    /// The payee's account; the configured one when absent.
    pub payee: Option<Account>,
    /// What for.
    pub memo: Memo,
    /// The signers the agent would like.
    pub wish: Vec<SignerId>,
    /// The caller's idempotency key.
    pub key: Option<IdempotencyKey>,
}

/// A created payment, or the one that an identical request created before.
#[derive(Debug, Clone)]
pub struct Created {
    /// The payment as it stands now.
    pub payment: Payment,
    /// Whether it was created by an earlier, identical request.
    pub replayed: bool,
}

/// The defaulted request, fixed in form and order: what "the same request" means.
#[derive(serde::Serialize)]
struct Fingerprint<'a> {
    v: &'static str,
    order_id: &'a str,
    amount_minor: String,
    currency: &'a str,
    payee_account: &'a str,
    memo: &'a str,
    wish: Vec<&'a str>,
}

const OPERATION: &str = "create_payment";

impl Journal {
    /// Creates a payment for `who`, or answers as before when it was asked before.
    ///
    /// *Errors*: `CURRENCY_UNSUPPORTED`, `AMOUNT_*`, `SIGNER_NOT_ELIGIBLE`, `IDEMPOTENCY_KEY_REUSED`,
    /// `ORDER_ALREADY_HAS_PAYMENT`, `PAYMENT_TERMINAL`, `STORE_UNAVAILABLE`; nothing is written then.
    /// *Crash*: payment, challenges, key and audit are one transaction.
    #[tracing::instrument(name = "journal.payment.create", skip_all, fields(order.id = %request.order_id, payment.id))]
    pub async fn create(&self, who: &Principal, request: CreateRequest) -> Result<Created, Refusal> {
        let draft = self.draft(request)?;
        for _ in 0..RACES {
            match self.try_create(who, &draft).await {
                Err(refusal) if lost_race(&refusal) => {}
                done => return done,
            }
        }
        Err(Refusal::new(
            Code::IdempotencyInProgress,
            "the same order is being created right now; repeat the same call",
        ))
    }

    fn draft(&self, request: CreateRequest) -> Result<Draft, Refusal> {
        let currency = request.currency.unwrap_or(self.rules.currency);
        if !self.rules.currencies.contains(currency.code()) {
            return Err(Refusal::of_field(
                Code::CurrencyUnsupported,
                "currency",
                format_args!(
                    "{currency} is not accepted here; accepted are {}",
                    self.rules.currencies.iter().copied().collect::<Vec<_>>().join(", ")
                ),
            ));
        }
        let amount = Money::parse(&request.amount, currency)?;
        let payee = request
            .payee
            .clone()
            .or_else(|| self.rules.payee.clone())
            .ok_or_else(|| Refusal::invalid("payee", "is required: no default payee is configured"))?;
        let policy = self.policy().approval().clone();
        if let Some(stranger) = request.wish.iter().find(|signer| !policy.is_eligible(signer)) {
            return Err(Refusal::of_field(
                Code::SignerNotEligible,
                "signer_id",
                format_args!("{stranger} may not approve this payment; omit it and the policy decides who does"),
            ));
        }
        let fingerprint = jcs(&Fingerprint {
            v: "create/1",
            order_id: request.order_id.as_str(),
            amount_minor: amount.minor().to_string(),
            currency: currency.code(),
            payee_account: payee.as_str(),
            memo: request.memo.as_str(),
            wish: request.wish.iter().map(SignerId::as_str).collect(),
        })
        .map_err(|_| Refusal::new(Code::Internal, "the request can't be put in canonical form"))?;
        Ok(Draft { request, amount, payee, policy, fingerprint: sha256_hex(fingerprint) })
    }

    async fn try_create(&self, who: &Principal, draft: &Draft) -> Result<Created, Refusal> {
        let mut tx = self.store.begin().await?;
        // Whole milliseconds: the signed document's times say all of them.
        let at = tx.now().to_millis();
        let id = PaymentId::mint(at, self.entropy.u128());
        let terms = self.terms(who, draft, id, at);
        let tenant = who.tenant.as_str();
        let scope = KeyScope { tenant, agent: who.client.as_str(), operation: OPERATION };
        // The order first: a twin's payment that is seen here was committed with its key, so the key is seen below.
        let earlier = tx.payment_by_order(tenant, terms.order_id.as_str()).await?;
        if let Some(key) = &draft.request.key
            && let Some(bound) = tx.key_binding(scope, key.as_str()).await?
        {
            return replay(&mut tx, who, &bound, &terms).await;
        }
        if let Some(earlier) = earlier
            && let Some(created) = answer_by_order(who, draft, &terms, earlier)?
        {
            return Ok(created);
        }
        let (document, digest) = document(&terms, 1, &self.rules.audience)?;
        let auto = at.plus(self.rules.auto_notify_after);
        let payment = Payment::new(terms, document, digest, auto);
        if !tx.insert_payment(&payment).await? {
            return Err(Refusal::new(Code::VersionConflict, "the order was created at the same moment"));
        }
        if let Some(key) = &draft.request.key {
            bind(&mut tx, scope, key, &payment).await?;
        }
        self.insert_challenges(&mut tx, &payment).await?;
        tx.audit(AuditNote {
            tenant: tenant.to_owned(),
            payment_id: payment.terms.payment_id.to_string(),
            version: payment.version,
            node: self.rules.node.clone(),
            actor: who.actor(),
            event: "payment.created".to_owned(),
            to: payment.status.as_str().to_owned(),
            details: payment.document.clone(),
            ..AuditNote::default()
        });
        tx.commit().await?;
        tracing::Span::current().record("payment.id", payment.terms.payment_id.as_str());
        crate::telemetry::metrics::metrics().transition(payment.status.as_str());
        Ok(Created { payment, replayed: false })
    }

    fn terms(&self, who: &Principal, draft: &Draft, payment_id: PaymentId, at: Timestamp) -> Terms {
        let expires_at = at.plus(self.rules.expires_after);
        Terms {
            tenant: who.tenant.clone(),
            payment_id,
            order_id: draft.request.order_id.clone(),
            amount: draft.amount,
            payer_account: self.rules.payer.clone(),
            payee_account: draft.payee.clone(),
            payee_name: PartyName::default(),
            memo: draft.request.memo.clone(),
            agent: who.client.clone(),
            principal: who.subject.clone(),
            wish: draft.request.wish.clone(),
            policy: draft.policy.clone(),
            fingerprint: draft.fingerprint.clone(),
            traceparent: current_traceparent(),
            created_at: at,
            expires_at,
            execute_by: expires_at.plus(self.rules.execute_within),
        }
    }

    /// One single-use challenge per eligible signer for the payment's current round.
    pub(super) async fn insert_challenges(&self, tx: &mut Tx, payment: &Payment) -> Result<(), Refusal> {
        let now = tx.now().to_millis();
        for signer in &payment.terms.policy.signers {
            let mut nonce = [0; 32];
            self.entropy.fill(&mut nonce);
            let challenge = StoredChallenge {
                signer_id: signer.clone(),
                nonce: b64url(nonce),
                issued_at: now.micros(),
                expires_at: payment.terms.expires_at.micros(),
            };
            tx.insert_challenge(payment.terms.payment_id.as_str(), payment.round, &challenge).await?;
        }
        Ok(())
    }
}

/// A request with its defaults filled in and its rule chosen.
struct Draft {
    request: CreateRequest,
    amount: Money,
    payee: Account,
    policy: ApprovalPolicy,
    fingerprint: String,
}

async fn bind(tx: &mut Tx, scope: KeyScope<'_>, key: &IdempotencyKey, payment: &Payment) -> Result<(), Refusal> {
    let binding =
        KeyBinding { fingerprint: payment.terms.fingerprint.clone(), payment_id: payment.terms.payment_id.to_string() };
    if tx.bind_key(scope, key.as_str(), &binding).await? {
        Ok(())
    } else {
        Err(Refusal::new(Code::VersionConflict, "the key was used at the same moment"))
    }
}

/// The key was used before: the same answer for the same request, a refusal for another.
async fn replay(tx: &mut Tx, who: &Principal, bound: &KeyBinding, terms: &Terms) -> Result<Created, Refusal> {
    if bound.fingerprint != terms.fingerprint {
        return Err(Refusal::new(
            Code::IdempotencyKeyReused,
            "this idempotency_key was used for another request; use the same key only to repeat the same payment",
        ));
    }
    let id: PaymentId = bound.payment_id.parse()?;
    let payment = tx
        .payment(who.tenant.as_str(), &id)
        .await?
        .ok_or_else(|| Refusal::new(Code::Internal, "the key's payment is missing"))?;
    Ok(Created { payment, replayed: true })
}

/// What an order's earlier payment means for this request; `None` when a new one may be made.
fn answer_by_order(
    who: &Principal,
    draft: &Draft,
    terms: &Terms,
    earlier: Payment,
) -> Result<Option<Created>, Refusal> {
    let own = visible_to(who, &earlier);
    let same = own && earlier.terms.fingerprint == terms.fingerprint;
    let open_or_executed = earlier.status.stage() != Stage::Ended || earlier.status == Status::Executed;
    match (open_or_executed, same, draft.request.key.is_some()) {
        (true, true, false) => Ok(Some(Created { payment: earlier, replayed: true })),
        (true, _, _) => {
            let refusal = Refusal::new(
                Code::OrderAlreadyHasPayment,
                format!(
                    "order {} already has a payment{}; follow that one, or use another order_id for another payment",
                    terms.order_id,
                    if own { format!(", {}", earlier.terms.payment_id) } else { String::new() }
                ),
            );
            Err(if own { refusal.about(earlier.reference()) } else { refusal })
        }
        (false, _, true) => Ok(None),
        (false, _, false) => {
            let refusal = Refusal::new(
                Code::PaymentTerminal,
                format!(
                    "the order's last payment has ended as {}; to pay the order anew, send a new idempotency_key",
                    earlier.status.as_str()
                ),
            );
            Err(if own { refusal.about(earlier.reference()) } else { refusal })
        }
    }
}

/// The canonical payment document of a round, and its digest.
pub(super) fn document(terms: &Terms, round: i64, audience: &str) -> Result<(String, String), Refusal> {
    let canonical = |_| Refusal::new(Code::Internal, "the payment can't be put in canonical form");
    let policy_digest =
        b64url(crate::proof::tagged_digest("countersign/policy/v1", &jcs(&terms.policy).map_err(canonical)?));
    let currency = terms.amount.currency();
    let document = PaymentDocument {
        typ: PaymentDocument::TYPE.to_owned(),
        aud: audience.to_owned(),
        tenant: terms.tenant.to_string(),
        payment_id: terms.payment_id.to_string(),
        order_id: terms.order_id.to_string(),
        round: round.to_string(),
        amount_minor: terms.amount.minor().to_string(),
        currency: currency.code().to_owned(),
        currency_exponent: currency.exponent().to_string(),
        payer_account: terms.payer_account.to_string(),
        payee_account: terms.payee_account.to_string(),
        payee_name: terms.payee_name.to_string(),
        purpose: terms.memo.to_string(),
        requester_agent: terms.agent.to_string(),
        requester_principal: terms.principal.clone(),
        mandate_id: String::new(),
        policy_id: terms.policy.id.clone(),
        policy_version: terms.policy.version.clone(),
        policy_digest,
        required: terms.policy.required.clone(),
        created_at: terms.created_at.rfc3339(),
        expires_at: terms.expires_at.rfc3339(),
        execute_by: terms.execute_by.rfc3339(),
    };
    let text = document.canonical().map_err(canonical)?;
    let digest = payment_digest(&text);
    Ok((text, digest))
}
