//! The rail: one attempt, one request, and a table of what each answer proves.
//!
//! *Invariant*: no retry lives here. Money is sent by the journal, once per attempt, and whatever
//! does not prove an ending is `Unknown`: the journal then looks up.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::breaker::BreakerPlan;
use super::http::{Call, Endpoint, Http, Kind, Raw, Reply};
use super::verdict::{answer, cause_of, is_name, is_word, parse, trouble};
use super::wire::{TransferAnswer, TransferBody, TransfersBody};
use crate::ambient::{Clock, Entropy};
use crate::config::{Config, ConfigFault, ms};
use crate::journal::ports::{
    Answer, Cause, Dedup, Lookup, Outcome, RailCaps, RailPort, RailReceipt, Recorded, Transfer, Trouble,
};
use crate::proof::Receipt;

const TRANSFERS: &str = "/api/v1/transfers";

/// The codes that prove that no money moved (docs/rail-contract.md).
const REFUSALS: [&str; 8] = [
    "insufficient_funds",
    "account_closed",
    "account_unknown",
    "limit_exceeded",
    "payee_blocked",
    "currency_not_supported",
    "invalid_request",
    "duplicate_reference_refused",
];

/// The client of a rail that speaks docs/rail-contract.md.
#[derive(Debug, Clone)]
pub struct RailClient {
    http: Http,
    caps: RailCaps,
}

impl RailClient {
    /// A client for the rail at `endpoint`, which promises `caps`.
    ///
    /// *Errors*: an endpoint that no call could be sent to. Nothing is sent yet.
    pub fn new(
        endpoint: &Endpoint,
        caps: RailCaps,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ConfigFault> {
        Ok(Self { http: Http::new(endpoint, clock, entropy)?, caps })
    }

    /// The client that `[rail]` describes.
    ///
    /// *Errors*: the setting that can't be used.
    pub fn from_config(config: &Config, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Self, ConfigFault> {
        let rail = &config.rail;
        let endpoint = Endpoint {
            name: "rail",
            url: rail.url.clone(),
            api_key: rail.api_key.clone(),
            connect: ms(rail.connect_timeout_ms),
            read: ms(rail.read_timeout_ms),
            total: ms(rail.total_timeout_ms),
            breaker: BreakerPlan { failures: rail.breaker_failures, wait: ms(rail.breaker_wait_ms) },
        };
        let dedup = match config.dedup()? {
            None => Dedup::None,
            Some(None) => Dedup::Forever,
            Some(Some(span)) => Dedup::Ttl(span),
        };
        let in_flight = Duration::from_secs(rail.in_flight_s);
        let caps = RailCaps { dedup, read_lag: ms(rail.read_lag_ms), in_flight };
        Self::new(&endpoint, caps, clock, entropy)
    }

    async fn get(&self, template: &'static str, path: &[&str], query: Option<(&str, &str)>) -> Raw {
        self.http.send(Call { kind: Kind::Read, template, path, query, within: self.http.total() }).await
    }

    async fn find(&self, reference: &str) -> Answer<TransfersBody> {
        let raw = self.get(TRANSFERS, &["api", "v1", "transfers"], Some(("reference", reference))).await;
        answer(raw, parse)
    }
}

impl RailPort for RailClient {
    fn caps(&self) -> RailCaps {
        self.caps
    }

    fn prepare(&self, transfer: &Transfer) -> String {
        let body = TransferBody {
            reference: Cow::from(&transfer.reference),
            order_id: Cow::from(&transfer.order_id),
            amount_minor: Cow::from(transfer.amount.minor().to_string()),
            currency: Cow::from(transfer.amount.currency().code()),
            payer_account: Cow::from(&transfer.payer_account),
            payee_account: Cow::from(&transfer.payee_account),
            payee_name: Cow::from(&transfer.payee_name),
            purpose: Cow::from(&transfer.purpose),
        };
        // A struct of strings always serializes; an empty body would not be sent.
        serde_json::to_string(&body).unwrap_or_default()
    }

    fn execute<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<RailReceipt>> {
        Box::pin(async move {
            let Ok(asked) = serde_json::from_str::<TransferBody<'_>>(recorded.body()) else {
                // An answer to a body that can't be read back could not be compared with it.
                return Outcome::NotSent(Trouble::of(Cause::Garbage));
            };
            let call = Call {
                kind: Kind::Effect(recorded),
                template: TRANSFERS,
                path: &["api", "v1", "transfers"],
                query: None,
                within: self.http.total(),
            };
            match self.http.send(call).await {
                Raw::NotSent(trouble) => Outcome::NotSent(trouble),
                Raw::NoAnswer(trouble) => Outcome::Unknown(trouble),
                Raw::Answered(reply) => judge(&reply, &asked),
            }
        })
    }

    fn lookup<'a>(&'a self, reference: &'a str, body: &'a str) -> BoxFuture<'a, Lookup> {
        Box::pin(async move {
            let asked = serde_json::from_str::<TransferBody<'_>>(body);
            let Some(asked) = asked.ok().filter(|asked| asked.reference == reference) else {
                return Lookup::Inconclusive(Trouble::of(Cause::Mismatch));
            };
            match self.find(reference).await {
                Ok(found) => compare(found.transfers, &asked),
                Err(trouble) => Lookup::Inconclusive(trouble),
            }
        })
    }

    fn breaker(&self) -> &'static str {
        self.http.breaker()
    }

    fn health(&self) -> BoxFuture<'_, Answer<()>> {
        Box::pin(async move {
            answer(self.get("/healthz", &["healthz"], None).await, |_| Ok(()))?;
            // The health page takes no key, so ask about a payment that can't exist.
            self.find("pay_0").await.map(drop)
        })
    }
}

/// The contract's table, row by row.
fn judge(reply: &Reply, asked: &TransferBody<'_>) -> Outcome<RailReceipt> {
    match reply.status {
        200 | 201 => judge_transfer(reply, asked),
        400 | 402 | 422 => {
            let told = trouble(Cause::Rejected, reply);
            if told.code.as_deref().is_some_and(is_refusal) {
                Outcome::Refused(told)
            } else {
                Outcome::Unknown(Trouble { cause: Cause::Garbage, ..told })
            }
        }
        401 | 403 => Outcome::Refused(trouble(Cause::Unauthorized, reply)),
        // The contract: not processed at all.
        429 => Outcome::NotSent(trouble(Cause::RateLimited, reply)),
        status => Outcome::Unknown(trouble(cause_of(status), reply)),
    }
}

fn judge_transfer(reply: &Reply, asked: &TransferBody<'_>) -> Outcome<RailReceipt> {
    let unknown = |cause| Outcome::Unknown(trouble(cause, reply));
    let Ok(transfer) = parse::<TransferAnswer>(reply) else {
        return unknown(Cause::Garbage);
    };
    if !transfer.is(asked) {
        return unknown(Cause::Mismatch);
    }
    match transfer.ending() {
        Some(Ok(receipt)) => Outcome::Done(receipt),
        Some(Err(code)) => Outcome::Refused(Trouble { code: Some(code), ..trouble(Cause::Rejected, reply) }),
        None => unknown(Cause::Garbage),
    }
}

/// What the rail's own list says about what was asked.
fn compare(mut found: Vec<TransferAnswer>, asked: &TransferBody<'_>) -> Lookup {
    let Some(transfer) = found.pop() else {
        return Lookup::NotFound;
    };
    // Two under one reference may be two payments: never ours to explain away.
    if !found.is_empty() || !transfer.is(asked) {
        return Lookup::Differs;
    }
    match transfer.ending() {
        Some(Ok(receipt)) => Lookup::Found(receipt),
        Some(Err(code)) => Lookup::FoundRefused(Trouble { code: Some(code), ..Trouble::of(Cause::Rejected) }),
        None => {
            let code = Some(transfer.failure_code).filter(|code| is_word(code));
            Lookup::Inconclusive(Trouble { code, ..Trouble::of(Cause::Garbage) })
        }
    }
}

fn is_refusal(code: &str) -> bool {
    REFUSALS.contains(&code)
}

impl TransferAnswer {
    /// Whether it speaks of what was asked.
    fn is(&self, asked: &TransferBody<'_>) -> bool {
        self.reference == asked.reference
            && self.amount_minor == asked.amount_minor
            && self.currency == asked.currency
            && self.payee_account == asked.payee_account
    }

    /// What is kept of it as evidence.
    fn receipt(&self) -> RailReceipt {
        let receipt = Receipt {
            typ: Receipt::TYPE.to_owned(),
            transfer_id: self.transfer_id.clone(),
            reference: self.reference.clone(),
            amount_minor: self.amount_minor.clone(),
            currency: self.currency.clone(),
            payee_account: self.payee_account.clone(),
        };
        // A struct of strings is always written; without one the transfer is as good.
        RailReceipt { transfer_id: self.transfer_id.clone(), document: receipt.canonical().unwrap_or_default() }
    }

    /// How it ended: settled, or refused with a listed code; `None` for anything else.
    fn ending(&self) -> Option<Result<RailReceipt, String>> {
        match self.status.as_str() {
            "settled" if self.failure_code.is_empty() && is_name(&self.transfer_id) => Some(Ok(self.receipt())),
            "failed" if is_refusal(&self.failure_code) => Some(Err(self.failure_code.clone())),
            _ => None,
        }
    }
}
