//! The bodies that the sandbox reads and writes.

use serde::{Deserialize, Serialize};

use super::book::Reached;
use crate::domain::{Account, Currency, Money};

/// `POST /api/v1/transfers`, as it came.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderBody {
    reference: String,
    order_id: String,
    amount_minor: String,
    currency: String,
    payer_account: String,
    payee_account: String,
    payee_name: String,
    purpose: String,
}

/// The least that tells what a body that is no transfer was about.
#[derive(Deserialize)]
struct Named {
    reference: String,
}

/// A transfer to carry out; checked.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) reference: String,
    pub(super) number: String,
    pub(super) amount: Money,
    pub(super) payer_account: String,
    pub(super) payee_account: String,
}

/// A body that is no order, and what can be told of it.
#[derive(Debug)]
pub(super) struct NoOrder {
    pub(super) reference: String,
    pub(super) answer: Reached,
}

impl Order {
    /// Reads and checks a body.
    pub(super) fn parse(body: &[u8]) -> Result<Self, NoOrder> {
        let no = |reference: &str, status, code, message: &str| NoOrder {
            reference: reference.to_owned(),
            answer: Reached::refusal(status, code, message),
        };
        let told: OrderBody = serde_json::from_slice(body).map_err(|_| {
            let named = serde_json::from_slice::<Named>(body).map(|named| named.reference).unwrap_or_default();
            no(&named, 400, "invalid_request", "the body is not a transfer")
        })?;
        let bad = |field: &str| no(&told.reference, 400, "invalid_request", &format!("{field} is not usable"));
        if told.reference.is_empty() || told.reference.len() > 128 {
            return Err(bad("reference"));
        }
        let currency: Currency = told
            .currency
            .parse()
            .map_err(|_| no(&told.reference, 422, "currency_not_supported", "the currency is not supported"))?;
        let minor: i64 = told.amount_minor.parse().map_err(|_| bad("amount_minor"))?;
        let amount = Money::from_minor(minor, currency).map_err(|_| bad("amount_minor"))?;
        if minor.to_string() != told.amount_minor {
            return Err(bad("amount_minor"));
        }
        Account::parse("payer_account", &told.payer_account).map_err(|_| bad("payer_account"))?;
        Account::parse("payee_account", &told.payee_account).map_err(|_| bad("payee_account"))?;
        if told.payer_account == told.payee_account {
            return Err(bad("payee_account"));
        }
        if told.order_id.len() > 128 || told.payee_name.len() > 1024 || told.purpose.len() > 2048 {
            return Err(bad("order_id, payee_name or purpose"));
        }
        Ok(Self {
            reference: told.reference,
            number: told.order_id,
            amount,
            payer_account: told.payer_account,
            payee_account: told.payee_account,
        })
    }
}

/// A transfer as the contract shows it.
#[derive(Serialize)]
pub(super) struct TransferPage {
    pub(super) transfer_id: String,
    pub(super) reference: String,
    pub(super) status: &'static str,
    pub(super) amount_minor: String,
    pub(super) currency: String,
    pub(super) payee_account: String,
    pub(super) failure_code: &'static str,
}

/// `GET /api/v1/transfers`.
#[derive(Serialize)]
pub(super) struct TransfersPage {
    pub(super) transfers: Vec<TransferPage>,
}

/// `GET /sandbox/ledger`.
#[derive(Serialize)]
pub(super) struct LedgerPage {
    pub(super) executions: usize,
    pub(super) requests: usize,
    pub(super) entries: Vec<EntryLine>,
    pub(super) seen: Vec<SeenLine>,
    pub(super) balanced: bool,
}

/// One side of a transfer.
#[derive(Serialize)]
pub(super) struct EntryLine {
    pub(super) entry_id: String,
    pub(super) transfer_id: String,
    pub(super) reference: String,
    pub(super) account: String,
    pub(super) direction: String,
    pub(super) amount_minor: String,
    pub(super) currency: String,
    pub(super) at: String,
}

/// One request that arrived.
#[derive(Serialize)]
pub(super) struct SeenLine {
    pub(super) seq: i64,
    pub(super) idempotency_key: String,
    pub(super) body_sha256: String,
    pub(super) answered: String,
    pub(super) at: String,
}

/// An error, as the contract shows it.
#[derive(Serialize)]
pub(super) struct ErrorPage<'a> {
    pub(super) error_code: &'a str,
    pub(super) error_message: &'a str,
}
