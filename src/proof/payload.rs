//! The payment document P: the exact payment, as every signer sees and signs it.

use serde::{Deserialize, Serialize};

use super::canonical::{b64url, jcs, tagged_digest};

/// P. Every value is a string; an absent one is `""`.
///
/// Times are RFC 3339 UTC with three fraction digits; amounts are minor units in decimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are the document's own; DESIGN's payment document defines them")]
pub struct PaymentDocument {
    pub typ: String,
    pub aud: String,
    pub tenant: String,
    pub payment_id: String,
    pub order_id: String,
    pub round: String,
    pub amount_minor: String,
    pub currency: String,
    pub currency_exponent: String,
    pub payer_account: String,
    pub payee_account: String,
    pub payee_name: String,
    pub purpose: String,
    pub requester_agent: String,
    pub requester_principal: String,
    pub mandate_id: String,
    pub policy_id: String,
    pub policy_version: String,
    pub policy_digest: String,
    pub required: String,
    pub created_at: String,
    pub expires_at: String,
    pub execute_by: String,
}

impl PaymentDocument {
    /// The document's type, and the tag of its digest.
    pub const TYPE: &'static str = "countersign/payment/v1";
    /// The tag of the digest of a policy, which P names.
    pub const POLICY: &'static str = "countersign/policy/v1";

    /// The canonical text.
    pub fn canonical(&self) -> Result<String, serde_json::Error> {
        jcs(self)
    }

    /// Reads a canonical text; refuses one that is not in canonical form.
    pub fn parse(text: &str) -> Option<Self> {
        let document: Self = serde_json::from_str(text).ok()?;
        (document.typ == Self::TYPE && document.canonical().ok()? == text).then_some(document)
    }

    /// The amount in whole units and the currency, such as `199.00 USD`.
    pub fn amount_text(&self) -> Option<String> {
        let currency: crate::domain::Currency = self.currency.parse().ok()?;
        let minor: i64 = self.amount_minor.parse().ok()?;
        (currency.exponent().to_string() == self.currency_exponent).then_some(())?;
        crate::domain::Money::from_minor(minor, currency).ok().map(|money| money.to_string())
    }
}

/// The digest of a canonical P, base64url: what each decision names.
pub fn payment_digest(canonical: &str) -> String {
    b64url(tagged_digest(PaymentDocument::TYPE, canonical))
}

/// The first eight characters of a payment digest, for people to compare.
pub fn compare_code(payment_digest: &str) -> String {
    payment_digest.chars().take(8).collect()
}
