//! The throwaway payments that a service is checked with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::report::{Why, failed};
use crate::ambient::Entropy;
use crate::domain::{PaymentId, Timestamp};
use crate::proof::{PaymentDocument, b64url, payment_digest};

/// How long a check's payments may be decided on, in microseconds.
const AN_HOUR: i64 = 3_600_000_000;

/// Makes payments and keys that nobody else has.
#[derive(Debug)]
pub(super) struct Paper {
    now: Timestamp,
    entropy: Arc<dyn Entropy>,
    callback_url: String,
    signers: Vec<String>,
    run: String,
    keys: AtomicU32,
}

impl Paper {
    /// For one run of the check.
    pub(super) fn new(now: Timestamp, entropy: Arc<dyn Entropy>, callback_url: String, signers: Vec<String>) -> Self {
        let run = b64url(entropy.u128().to_be_bytes());
        Self { now, entropy, callback_url, signers, run, keys: AtomicU32::new(1) }
    }

    /// A reference that no service knows yet.
    pub(super) fn reference(&self) -> String {
        PaymentId::mint(self.now, self.entropy.u128()).to_string()
    }

    /// An idempotency key that was never used.
    pub(super) fn key(&self) -> String {
        format!("check-{}-{}", self.run, self.keys.fetch_add(1, Ordering::Relaxed))
    }

    /// The signers who are asked.
    pub(super) fn signers(&self) -> &[String] {
        &self.signers
    }

    /// The body of a registration. Its nonces are fresh, so that two of the same round differ.
    pub(super) fn registration(&self, reference: &str, round: i64) -> Result<Value, Why> {
        let until = self.now.plus_micros(AN_HOUR).rfc3339();
        let payload = self.document(reference, round).canonical().map_err(failed)?;
        let signers: Vec<Value> = self
            .signers
            .iter()
            .map(|signer| {
                let mut nonce = [0; 32];
                self.entropy.fill(&mut nonce);
                json!({"signer_id": signer, "nonce": b64url(nonce), "issued_at": self.now.rfc3339(),
                    "challenge_expires_at": until})
            })
            .collect();
        Ok(json!({
            "reference": reference, "round": round, "payload": payload, "payment_digest": payment_digest(&payload),
            "signers": signers, "expires_at": until, "callback_url": self.callback_url,
        }))
    }

    fn document(&self, reference: &str, round: i64) -> PaymentDocument {
        PaymentDocument {
            typ: PaymentDocument::TYPE.to_owned(),
            aud: "https://countersign-check.invalid".to_owned(),
            tenant: "countersign-check".to_owned(),
            payment_id: reference.to_owned(),
            order_id: "countersign-check".to_owned(),
            round: round.to_string(),
            amount_minor: "1".to_owned(),
            currency: "USD".to_owned(),
            currency_exponent: "2".to_owned(),
            payer_account: "countersign-check".to_owned(),
            payee_account: "countersign-check".to_owned(),
            payee_name: String::new(),
            purpose: "A check of this service's contract. No money moves.".to_owned(),
            requester_agent: "countersign-check".to_owned(),
            requester_principal: String::new(),
            mandate_id: String::new(),
            policy_id: "countersign-check".to_owned(),
            policy_version: "1".to_owned(),
            policy_digest: String::new(),
            required: "check:1".to_owned(),
            created_at: self.now.rfc3339(),
            expires_at: self.now.plus_micros(AN_HOUR).rfc3339(),
            execute_by: self.now.plus_micros(AN_HOUR).rfc3339(),
        }
    }
}

/// `body` with another value under `name`.
pub(super) fn edited(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    if let Some(members) = body.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    body
}

/// `body` without `name`.
pub(super) fn without(body: &Value, name: &str) -> Value {
    let mut body = body.clone();
    if let Some(members) = body.as_object_mut() {
        members.remove(name);
    }
    body
}
