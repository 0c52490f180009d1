//! A payment as a tool's result: small, structured, and clear about what to do next.

use serde_json::{Map, Value, json};

use crate::domain::{Payment, Phase, Progress, Refusal, Status, Timestamp};

/// A successful result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The structured content.
    pub body: Map<String, Value>,
}

impl Reply {
    /// A result about one payment, and how far its approvals have come.
    ///
    /// Who is left out for want of room is told by the counts.
    pub fn following(payment: &Payment, progress: &Progress) -> Self {
        let missing: Map<String, Value> =
            progress.missing.iter().map(|(group, lack)| (group.clone(), json!(lack))).collect();
        let told = [
            ("by", json!(progress.approved)),
            ("confirming", json!(progress.half)),
            ("missing", Value::Object(missing)),
        ];
        let told = told.into_iter().filter(|(_, what)| !is_empty(what));
        Self::told(payment, told.map(|(key, what)| (key.to_owned(), what)).collect())
    }

    /// A result about one payment.
    pub fn about(payment: &Payment) -> Self {
        Self::told(payment, Map::new())
    }

    fn told(payment: &Payment, mut approvals: Map<String, Value>) -> Self {
        let advice = advice(payment);
        let terms = &payment.terms;
        let mut body = Map::new();
        let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
        put("success", json!(true));
        put("status", json!(payment.status.as_str()));
        put("order_id", json!(terms.order_id.as_str()));
        put("payment_id", json!(terms.payment_id.as_str()));
        put("message", json!(advice.message));
        put("next_action", json!(advice.next_action));
        if let Some(millis) = advice.retry_after_ms {
            put("retry_after_ms", json!(millis));
        }
        put("amount", json!(terms.amount.decimal()));
        put("amount_minor", json!(terms.amount.minor()));
        put("currency", json!(terms.amount.currency().code()));
        approvals.insert("have".to_owned(), json!(payment.approvals));
        approvals.insert("need".to_owned(), json!(terms.policy.required()));
        put("approvals", Value::Object(approvals));
        put("execution", json!({"phase": payment.execution.phase.as_str()}));
        if !payment.reason.is_empty() {
            put("reason", json!(payment.reason.chars().take(160).collect::<String>()));
        }
        if payment.execution.cancel_requested_at.is_some() && !payment.status.is_terminal() {
            put("cancel", json!("CANCEL_PENDING"));
        }
        if !payment.attention.is_empty() {
            put("attention", json!(payment.attention.iter().map(|reason| reason.as_str()).collect::<Vec<_>>()));
        }
        if !payment.execution.transfer_id.is_empty() {
            put("transfer_id", json!(payment.execution.transfer_id));
        }
        put("expires_at", json!(terms.expires_at.rfc3339()));
        put("version", json!(payment.version));
        if payment.held_at.is_some() {
            put("held", json!(true));
        }
        fit(&mut body);
        Self { body }
    }

    /// A result that is not about one payment.
    pub fn list(message: impl Into<String>) -> Self {
        let mut body = Map::new();
        body.insert("success".to_owned(), json!(true));
        body.insert("status".to_owned(), json!("OK"));
        body.insert("message".to_owned(), json!(message.into()));
        Self { body }
    }

    /// The same result with one more member.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.body.insert(key.to_owned(), value);
        self
    }
}

/// The most bytes of a status answer: it is read into a model's context again and again.
pub const STATUS_BYTES: usize = 1_024;

/// The bytes of a result.
pub(super) fn bytes(body: &Map<String, Value>) -> usize {
    serde_json::to_string(body).map_or(0, |text| text.len())
}

fn is_empty(what: &Value) -> bool {
    what.as_array().is_some_and(Vec::is_empty) || what.as_object().is_some_and(Map::is_empty)
}

/// Leaves out who has approved, one after the other, then which groups are missing.
fn fit_progress(body: &mut Map<String, Value>) {
    for people in ["by", "confirming"] {
        while bytes(body) > STATUS_BYTES
            && progress_of(body).and_then(|told| told.get_mut(people)?.as_array_mut()?.pop()).is_some()
        {}
    }
    if bytes(body) > STATUS_BYTES
        && let Some(told) = progress_of(body)
    {
        told.remove("missing");
    }
    if let Some(told) = progress_of(body) {
        told.retain(|_, what| !is_empty(what));
    }
}

fn progress_of(body: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    body.get_mut("approvals")?.as_object_mut()
}

/// Makes the result fit: says less of how far it has come, shortens the reason, then leaves out what an agent can do
/// without.
///
/// Only a rail whose ids are as long as they may be, and odd, costs more than the reason.
pub(super) fn fit(body: &mut Map<String, Value>) {
    fit_progress(body);
    let over = bytes(body).saturating_sub(STATUS_BYTES);
    if over == 0 {
        return;
    }
    if let Some(Value::String(mut reason)) = body.remove("reason") {
        let written = |text: &str| Value::from(text).to_string().len();
        let room = written(&reason).saturating_sub(over.saturating_add("…".len()));
        while written(&reason) > room && reason.pop().is_some() {}
        if !reason.is_empty() {
            reason.push('…');
            body.insert("reason".to_owned(), Value::String(reason));
        }
    }
    for spare in ["expires_at", "version"] {
        if bytes(body) > STATUS_BYTES {
            body.remove(spare);
        }
    }
    // The operators' list has them all.
    while bytes(body) > STATUS_BYTES
        && body.get_mut("attention").and_then(Value::as_array_mut).is_some_and(|reasons| reasons.pop().is_some())
    {}
}

/// One payment of a list.
pub(super) fn summary(payment: &Payment) -> Value {
    let terms = &payment.terms;
    let mut row = json!({
        "payment_id": terms.payment_id.as_str(),
        "order_id": terms.order_id.as_str(),
        "status": payment.status.as_str(),
        "amount": terms.amount.decimal(),
        "currency": terms.amount.currency().code(),
        "created_at": terms.created_at.rfc3339(),
    });
    if let (true, Some(row)) = (payment.held_at.is_some(), row.as_object_mut()) {
        row.insert("held".to_owned(), json!(true));
    }
    row
}

struct Advice {
    message: String,
    next_action: &'static str,
    retry_after_ms: Option<u64>,
}

/// What a model should understand and do: one sentence, one action.
fn advice(payment: &Payment) -> Advice {
    let say = |message: &str, next_action, retry_after_ms| Advice {
        message: message.to_owned(),
        next_action,
        retry_after_ms,
    };
    if payment.held_at.is_some() {
        return say(
            "An operator has taken this payment over to settle it by hand. Do not pay it another way; tell your user and stop.",
            "inform_user",
            Some(60_000),
        );
    }
    let never_tried = payment.notice.attempts == 0 && payment.notice.settled == 0;
    match payment.status {
        Status::Created if never_tried => say(
            "The payment is recorded. Call notify_signer; if you do not, the gateway does soon.",
            "notify_signer",
            None,
        ),
        Status::Created => say(
            "The payment is recorded. The signer service can't be used now; the gateway goes on trying by itself.",
            "wait",
            Some(until_next(payment)),
        ),
        Status::AwaitingSigner => say(
            "A signer has been notified and must approve. Do not loop: ask again later, or tell your user it is waiting.",
            "wait",
            Some(15_000),
        ),
        Status::SignerUnreachable => say(
            "The signer can't be reached now. The gateway goes on trying by itself; this is not an error, do not create another payment.",
            "wait",
            Some(until_next(payment)),
        ),
        Status::NeedManual => say(
            "The gateway's attempts are used up and an operator has been asked. A late signature still counts. Tell your user and stop.",
            "inform_user",
            Some(60_000),
        ),
        Status::Signed if payment.execution.phase == Phase::Unknown => say(
            "Signed and sent; whether the money moved is not known yet. The gateway is asking the rail. Never pay this again another way.",
            "wait",
            Some(5_000),
        ),
        Status::Signed => say("Signed; the payment is being carried out.", "wait", Some(1_000)),
        Status::Executed => say("The money has moved, once. Nothing is left to do.", "done", None),
        Status::Rejected => say("A signer rejected the payment. Tell your user why.", "inform_user", None),
        Status::Expired => say(
            "The payment's time ran out; no money moved. A new payment needs a new idempotency_key.",
            "inform_user",
            None,
        ),
        Status::Cancelled => say("The payment was called off; no money moved.", "done", None),
        Status::Failed => say("The rail refused the payment; no money moved. Tell your user why.", "inform_user", None),
    }
}

/// Milliseconds from the last change to the next attempt; a hint, not a clock.
fn until_next(payment: &Payment) -> u64 {
    let wait = payment.notice.next_at.map(|at| Timestamp::since(at, payment.updated_at)).unwrap_or_default();
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).clamp(1_000, 60_000)
}

/// A refusal as the error object of a tool result.
pub fn error_object(refusal: &Refusal, request_id: &str) -> Map<String, Value> {
    let entry = refusal.code.entry();
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
    put("success", json!(false));
    put("error_code", json!(entry.name));
    put("category", json!(entry.category));
    put("error_message", json!(refusal.message));
    put("message", json!(refusal.message));
    put("retryable", json!(entry.retryable));
    if let Some(millis) = refusal.retry_after_ms() {
        put("retry_after_ms", json!(millis));
    }
    if let Some(field) = refusal.field {
        put("field", json!(field));
    }
    put("next_action", json!(entry.next_action));
    put("next_actions", json!([entry.next_action]));
    if let Some(payment) = &refusal.payment {
        put("status", json!(payment.status));
        put("order_id", json!(payment.order_id));
        put("payment_id", json!(payment.payment_id));
    }
    put("request_id", json!(request_id));
    body
}
