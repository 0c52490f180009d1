//! The receipt: what the rail said of a transfer that it carried out.

use serde::{Deserialize, Serialize};

use super::canonical::jcs;

/// A settled transfer, in the rail's own words. Every value is a string.
///
/// Rails do not sign: it is the gateway that wrote down what it was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// [`Receipt::TYPE`].
    pub typ: String,
    /// The rail's id for the transfer.
    pub transfer_id: String,
    /// Our reference: the payment.
    pub reference: String,
    /// Minor units in decimal.
    pub amount_minor: String,
    /// ISO 4217.
    pub currency: String,
    /// To.
    pub payee_account: String,
}

impl Receipt {
    /// The document's type.
    pub const TYPE: &'static str = "countersign/receipt/v1";

    /// The canonical text.
    pub fn canonical(&self) -> Result<String, serde_json::Error> {
        jcs(self)
    }

    /// Reads a canonical text; refuses one that is not in canonical form.
    pub fn parse(text: &str) -> Option<Self> {
        let receipt: Self = serde_json::from_str(text).ok()?;
        (receipt.typ == Self::TYPE && receipt.canonical().ok()? == text).then_some(receipt)
    }
}
