//! The bodies of both contracts, field by field and in the order they are sent.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::proof::Challenge;

/// `POST /api/v1/payments`.
#[derive(Serialize)]
pub(super) struct RegisterBody<'a> {
    pub(super) reference: &'a str,
    pub(super) round: i64,
    pub(super) payload: &'a str,
    pub(super) payment_digest: &'a str,
    pub(super) signers: &'a [Challenge],
    pub(super) expires_at: String,
    pub(super) callback_url: &'a str,
    /// Left out where one key is enough, as services know it that never heard of more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) confirmations: Option<u32>,
}

/// `POST /api/v1/payments/{id}/notify`.
#[derive(Serialize)]
pub(super) struct NotifyBody<'a> {
    pub(super) round: i64,
    pub(super) notification: i64,
    pub(super) signers: &'a [String],
}

/// `POST /api/v1/payments/{id}/cancel`.
#[derive(Serialize)]
pub(super) struct CloseBody<'a> {
    pub(super) round: i64,
    pub(super) reason: &'a str,
}

/// What a recorded registration asks for, read back from its bytes.
#[derive(Deserialize)]
pub(super) struct AskedRegister {
    pub(super) reference: String,
    pub(super) round: i64,
}

/// What a recorded notification asks for.
#[derive(Deserialize)]
pub(super) struct AskedNotify {
    pub(super) notification: i64,
    pub(super) signers: Vec<String>,
}

/// A payment as the signer service names it.
#[derive(Deserialize)]
pub(super) struct RegisteredBody {
    pub(super) id: String,
    pub(super) reference: String,
    pub(super) round: i64,
}

/// The answer to a notification.
#[derive(Deserialize)]
pub(super) struct NotifiedBody {
    pub(super) outcome: String,
    pub(super) notification: i64,
    pub(super) reason: String,
    /// Nothing depends on them: whatever they look like, the attempt is judged by the rest.
    #[serde(default)]
    pub(super) receipts: serde_json::Value,
}

/// What became of a message to one signer.
#[derive(Deserialize)]
pub(super) struct ReceiptLine {
    pub(super) signer_id: String,
    #[serde(default)]
    pub(super) notification: i64,
    pub(super) channel: String,
    pub(super) outcome: String,
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) at: String,
}

/// The answer to a closing.
#[derive(Deserialize)]
pub(super) struct ClosedBody {
    pub(super) id: String,
    pub(super) state: String,
}

/// The answer to a look-up.
#[derive(Deserialize)]
pub(super) struct ItemsBody {
    pub(super) items: Vec<RegisteredBody>,
}

/// The status of a payment.
#[derive(Deserialize)]
pub(super) struct StatusBody {
    pub(super) id: String,
    pub(super) reference: String,
    pub(super) round: i64,
    pub(super) state: String,
    pub(super) signers: Vec<SignerLine>,
    pub(super) decisions: Vec<DecisionLine>,
    #[serde(default)]
    pub(super) receipts: serde_json::Value,
    /// Text from a service that wants to be told what counts.
    #[serde(default)]
    pub(super) told: serde_json::Value,
}

/// Whether one signer can be reached.
#[derive(Deserialize)]
pub(super) struct SignerLine {
    pub(super) signer_id: String,
    pub(super) online: bool,
}

/// One decision that the service keeps.
#[derive(Deserialize)]
pub(super) struct DecisionLine {
    pub(super) decision_id: String,
    pub(super) document: String,
    pub(super) proof: ProofLine,
}

/// Its proof.
#[derive(Deserialize)]
pub(super) struct ProofLine {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) value: String,
}

/// A link to the sign page.
#[derive(Deserialize)]
pub(super) struct LinkBody {
    pub(super) url: String,
    pub(super) expires_at: String,
    #[serde(default)]
    pub(super) qr_url: String,
}

/// `POST /api/v1/transfers`; also read back from a recorded body, to compare answers with.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransferBody<'a> {
    pub(super) reference: Cow<'a, str>,
    pub(super) order_id: Cow<'a, str>,
    pub(super) amount_minor: Cow<'a, str>,
    pub(super) currency: Cow<'a, str>,
    pub(super) payer_account: Cow<'a, str>,
    pub(super) payee_account: Cow<'a, str>,
    pub(super) payee_name: Cow<'a, str>,
    pub(super) purpose: Cow<'a, str>,
}

/// A transfer as the rail tells of it.
#[derive(Deserialize)]
pub(super) struct TransferAnswer {
    pub(super) transfer_id: String,
    pub(super) reference: String,
    pub(super) status: String,
    pub(super) amount_minor: String,
    pub(super) currency: String,
    pub(super) payee_account: String,
    pub(super) failure_code: String,
}

/// The answer to a look-up at the rail.
#[derive(Deserialize)]
pub(super) struct TransfersBody {
    pub(super) transfers: Vec<TransferAnswer>,
}
