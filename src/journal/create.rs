//! Creating a payment: durable at once, replayed by key, one per order.

use super::budget::judged_new;
use super::decide::can_be_approved;
use super::replay::{answer_by_order, bind, check_supersedes, replaces, replay};
use super::{Act, Journal, RACES, lost_race};
use crate::crash::{self, Point};
use crate::domain::{
    Account, ApprovalPolicy, Code, Currency, Event, Facts, IdempotencyKey, Memo, Money, OrderId, PartyName, Payment,
    PaymentId, Principal, Refusal, SignerId, Terms, Timestamp, is_barred,
};
use crate::proof::{PaymentDocument, b64url, jcs, payment_digest, sha256_hex};
use crate::store::{AuditNote, KeyScope, StoredChallenge, Tx};
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
    /// The order's open payment that this one replaces.
    pub supersedes: Option<PaymentId>,
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
    supersedes: &'a str,
}

const OPERATION: &str = "create_payment";

impl Journal {
    /// Creates a payment for `who`, or answers as before when it was asked before.
    ///
    /// *Errors*: `CURRENCY_UNSUPPORTED`, `AMOUNT_*`, `SIGNER_NOT_ELIGIBLE`, `IDEMPOTENCY_KEY_REUSED`,
    /// `ORDER_ALREADY_HAS_PAYMENT`, `PAYMENT_TERMINAL`, `STORE_UNAVAILABLE`; nothing is written then.
    /// *Crash*: payment, challenges, key, event and audit are one transaction.
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
        let fingerprint = jcs(&Fingerprint {
            v: "create/1",
            order_id: request.order_id.as_str(),
            amount_minor: amount.minor().to_string(),
            currency: currency.code(),
            payee_account: payee.as_str(),
            memo: request.memo.as_str(),
            wish: request.wish.iter().map(SignerId::as_str).collect(),
            supersedes: request.supersedes.as_ref().map_or("", PaymentId::as_str),
        })
        .map_err(|_| Refusal::new(Code::Internal, "the request can't be put in canonical form"))?;
        Ok(Draft { request, amount, payee, fingerprint: sha256_hex(fingerprint) })
    }

    async fn try_create(&self, who: &Principal, draft: &Draft) -> Result<Created, Refusal> {
        let mut tx = self.store.begin().await?;
        let id = PaymentId::mint(tx.now(), self.entropy.u128());
        let tenant = who.tenant.as_str();
        let scope = KeyScope { tenant, agent: who.client.as_str(), operation: OPERATION };
        // The order first: a twin's payment that is seen here was committed with its key, so the key is seen below.
        let earlier = tx.payment_by_order(tenant, draft.request.order_id.as_str()).await?;
        if let Some(key) = &draft.request.key
            && let Some(bound) = tx.key_binding(scope, key.as_str()).await?
        {
            return replay(&mut tx, who, &bound, draft).await;
        }
        let mut superseded = None;
        check_supersedes(who, draft, earlier.as_ref())?;
        if let Some(earlier) = earlier {
            if replaces(who, draft, &earlier) {
                let actor = who.actor();
                let act = Act::new(&actor, "payment.superseded").because(id.as_str());
                superseded = Some(self.change(&mut tx, &earlier, Event::Superseded, act).await?);
            } else if let Some(created) = answer_by_order(who, draft, earlier)? {
                return Ok(created);
            }
        }
        if draft.request.key.is_none()
            && let Some(refused) = tx.key_binding(scope, &draft.key(who)).await?
        {
            return replay(&mut tx, who, &refused, draft).await;
        }
        let ruled = self.rule(&mut tx, who, draft).await;
        // Whole milliseconds: the signed document's times say all of them. After any wait for a turn.
        let at = tx.now().to_millis();
        let terms = match ruled.and_then(|ruling| self.terms(who, draft, id, at, ruling)) {
            Ok(terms) => terms,
            Err(refusal) => {
                // Nothing of this attempt is kept, least of all the end of what it would have replaced.
                drop(tx);
                return Err(self.remember_refusal(scope, who, draft, refusal).await?);
            }
        };
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
        self.enqueue(&mut tx, &payment).await?;
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
        crash::at(Point::CreateBeforeCommit);
        tx.commit().await?;
        crash::at(Point::CreateAfterCommit);
        tracing::Span::current().record("payment.id", payment.terms.payment_id.as_str());
        crate::telemetry::metrics::metrics().transition(payment.status.as_str());
        self.news.send_replace(());
        if let Some(applied) = &superseded {
            self.announce(applied);
        }
        Ok(Created { payment, replayed: false })
    }

    /// Asks the policy: may this be proposed, to whom, who must approve, and does it fit the limits.
    async fn rule(&self, tx: &mut Tx, who: &Principal, draft: &Draft) -> Result<Ruling, Refusal> {
        let policy = self.policy();
        let facts = Facts { amount: draft.amount, payee: &draft.payee, agent: &who.client };
        let name = PartyName::parse("payee_name", policy.payees().name_of(draft.payee.as_str())?)?;
        let approval = judged_new(tx, &policy, who.tenant.as_str(), &facts).await?;
        Ok(Ruling { approval, payee_name: name })
    }

    /// *Errors*: what the policy says of these very people: nobody could approve, or not those wished for.
    fn terms(
        &self,
        who: &Principal,
        draft: &Draft,
        payment_id: PaymentId,
        at: Timestamp,
        ruling: Ruling,
    ) -> Result<Terms, Refusal> {
        let expires_at = at.plus(self.rules.expires_after);
        let terms = Terms {
            tenant: who.tenant.clone(),
            payment_id,
            order_id: draft.request.order_id.clone(),
            amount: draft.amount,
            payer_account: self.rules.payer.clone(),
            payee_account: draft.payee.clone(),
            payee_name: ruling.payee_name,
            memo: draft.request.memo.clone(),
            agent: who.client.clone(),
            principal: who.subject.clone(),
            wish: draft.request.wish.clone(),
            policy: ruling.approval,
            fingerprint: draft.fingerprint.clone(),
            traceparent: current_traceparent(),
            created_at: at,
            expires_at,
            execute_by: expires_at.plus(self.rules.execute_within),
        };
        can_be_approved(&terms.policy, &terms)?;
        let unfit = |signer: &&SignerId| !terms.policy.is_eligible(signer) || is_barred(&terms.policy, &terms, signer);
        if let Some(stranger) = terms.wish.iter().find(unfit) {
            return Err(Refusal::of_field(
                Code::SignerNotEligible,
                "signer_id",
                format_args!("{stranger} may not approve this payment; omit it and the policy decides who does"),
            ));
        }
        Ok(terms)
    }

    /// One single-use challenge per eligible signer for the payment's current round.
    pub(super) async fn insert_challenges(&self, tx: &mut Tx, payment: &Payment) -> Result<(), Refusal> {
        let now = tx.now().to_millis();
        for signer in payment.terms.policy.signers() {
            let mut nonce = [0; 32];
            self.entropy.fill(&mut nonce);
            let challenge = StoredChallenge {
                signer_id: signer.to_owned(),
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
pub(super) struct Draft {
    pub(super) request: CreateRequest,
    amount: Money,
    payee: Account,
    pub(super) fingerprint: String,
}

impl Draft {
    /// The caller's key, or the one that the request itself is, in letters that no caller's key has: of this person, as
    /// what the policy says is also about who asks.
    pub(super) fn key(&self, who: &Principal) -> String {
        let own = || format!("request/{}", sha256_hex(format!("{} {}", self.fingerprint, who.subject)));
        self.request.key.as_ref().map_or_else(own, ToString::to_string)
    }
}

/// What the policy in force says of a request.
struct Ruling {
    approval: ApprovalPolicy,
    payee_name: PartyName,
}

/// The canonical payment document of a round, and its digest.
pub(super) fn document(terms: &Terms, round: i64, audience: &str) -> Result<(String, String), Refusal> {
    let canonical = |_| Refusal::new(Code::Internal, "the payment can't be put in canonical form");
    let policy_digest =
        b64url(crate::proof::tagged_digest(PaymentDocument::POLICY, &jcs(&terms.policy).map_err(canonical)?));
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
        required: terms.policy.required_text(),
        created_at: terms.created_at.rfc3339(),
        expires_at: terms.expires_at.rfc3339(),
        execute_by: terms.execute_by.rfc3339(),
    };
    let text = document.canonical().map_err(canonical)?;
    let digest = payment_digest(&text);
    Ok((text, digest))
}

/// Whether a payment's document and digest are those of its terms, so that what was signed is what is paid.
pub(super) fn says_its_terms(payment: &Payment) -> bool {
    let audience = PaymentDocument::parse(&payment.document).map(|document| document.aud);
    let rebuilt = audience.and_then(|audience| document(&payment.terms, payment.round, &audience).ok());
    rebuilt.is_some_and(|(text, digest)| text == payment.document && digest == payment.digest)
}
