//! The same request again: what a key or an order that was seen before answers.

use super::Journal;
use super::create::{Created, Draft};
use super::reading::visible_to;
use crate::crash::{self, Point};
use crate::domain::{Code, IdempotencyKey, Payment, PaymentId, Principal, Refusal, Stage, Status};
use crate::store::{KeyBinding, KeyScope, Tx};

impl Journal {
    /// A refusal by the policy is remembered under the request's key: the same request stays refused, whatever
    /// moves on meanwhile. A limit that passes with time is not.
    pub(super) async fn remember_refusal(
        &self,
        scope: KeyScope<'_>,
        who: &Principal,
        draft: &Draft,
        refusal: Refusal,
    ) -> Result<Refusal, Refusal> {
        let sticky = matches!(refusal.code, Code::PolicyDenied | Code::PayeeNotAllowed | Code::MandateExceeded);
        if !sticky {
            return Ok(refusal);
        }
        let refusal = Refusal { message: format!("{}; {ANEW}", refusal.message), ..refusal };
        let mut tx = self.store.begin().await?;
        let binding = KeyBinding {
            fingerprint: draft.fingerprint.clone(),
            payment_id: String::new(),
            refusal: written(&refusal),
        };
        if tx.bind_key(scope, &draft.key(who), &binding).await? {
            crash::at(Point::RefusalBeforeCommit);
            tx.commit().await?;
            crash::at(Point::RefusalAfterCommit);
        }
        Ok(refusal)
    }
}

/// What is said with a refusal that stays.
const ANEW: &str = "repeating this request changes nothing; once it is allowed, propose it with a new idempotency_key";

/// The arguments that the policy refuses something for.
const FIELDS: [&str; 3] = ["amount", "currency", "payee"];

/// A refusal as it is kept under a key: `CODE words` or `CODE/field words`.
fn written(refusal: &Refusal) -> String {
    let field = refusal.field.map(|field| format!("/{field}")).unwrap_or_default();
    format!("{}{field} {}", refusal.code.as_str(), refusal.message)
}

/// The refusal that was written so; `None` when nothing was.
fn read(kept: &str) -> Option<Refusal> {
    let (head, message) = kept.split_once(' ')?;
    let (code, field) = head.split_once('/').map_or((head, None), |(code, field)| (code, Some(field)));
    let code = Code::ALL.into_iter().find(|known| known.as_str() == code).unwrap_or(Code::PolicyDenied);
    let field = FIELDS.into_iter().find(|known| field == Some(known));
    Some(Refusal { field, ..Refusal::new(code, message) })
}

pub(super) async fn bind(
    tx: &mut Tx,
    scope: KeyScope<'_>,
    key: &IdempotencyKey,
    payment: &Payment,
) -> Result<(), Refusal> {
    let binding = KeyBinding {
        fingerprint: payment.terms.fingerprint.clone(),
        payment_id: payment.terms.payment_id.to_string(),
        refusal: String::new(),
    };
    if tx.bind_key(scope, key.as_str(), &binding).await? {
        Ok(())
    } else {
        Err(Refusal::new(Code::VersionConflict, "the key was used at the same moment"))
    }
}

/// The key was used before: the same answer for the same request, a refusal for another.
pub(super) async fn replay(
    tx: &mut Tx,
    who: &Principal,
    bound: &KeyBinding,
    draft: &Draft,
) -> Result<Created, Refusal> {
    if bound.fingerprint != draft.fingerprint {
        return Err(Refusal::new(
            Code::IdempotencyKeyReused,
            "this idempotency_key was used for another request; use the same key only to repeat the same payment",
        ));
    }
    if let Some(refusal) = read(&bound.refusal) {
        return Err(refusal);
    }
    let id: PaymentId = bound.payment_id.parse()?;
    let payment = tx
        .payment(who.tenant.as_str(), &id)
        .await?
        .ok_or_else(|| Refusal::new(Code::Internal, "the key's payment is missing"))?;
    Ok(Created { payment, replayed: true })
}

/// Refuses a request to replace what is not the order's latest payment, or was not replaced by it before.
///
/// *Errors*: `INVALID_ARGUMENT`: to go on would leave the payment that it names open beside the new one.
pub(super) fn check_supersedes(who: &Principal, draft: &Draft, latest: Option<&Payment>) -> Result<(), Refusal> {
    let Some(named) = &draft.request.supersedes else { return Ok(()) };
    let known = latest.is_some_and(|latest| {
        let replayed = latest.terms.fingerprint == draft.fingerprint;
        visible_to(who, latest) && (latest.terms.payment_id == *named || replayed)
    });
    if known {
        return Ok(());
    }
    Err(Refusal::invalid("supersedes", "is not the latest payment of this order; nothing was changed"))
}

/// Whether the request names this very payment, open and the caller's own, as the one it replaces.
pub(super) fn replaces(who: &Principal, draft: &Draft, earlier: &Payment) -> bool {
    draft.request.supersedes.as_ref() == Some(&earlier.terms.payment_id)
        && visible_to(who, earlier)
        && earlier.status.stage() != Stage::Ended
}

/// What an order's earlier payment means for this request; `None` when a new one may be made.
pub(super) fn answer_by_order(who: &Principal, draft: &Draft, earlier: Payment) -> Result<Option<Created>, Refusal> {
    let own = visible_to(who, &earlier);
    let same = own && earlier.terms.fingerprint == draft.fingerprint;
    let open_or_executed = earlier.status.stage() != Stage::Ended || earlier.status == Status::Executed;
    match (open_or_executed, same, draft.request.key.is_some()) {
        (true, true, false) => Ok(Some(Created { payment: earlier, replayed: true })),
        (true, _, _) => {
            let refusal = Refusal::new(
                Code::OrderAlreadyHasPayment,
                format!(
                    "order {} already has a payment{}; follow that one, or use another order_id for another payment",
                    draft.request.order_id,
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
