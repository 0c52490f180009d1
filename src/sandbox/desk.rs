//! What the sandbox does with a transfer: write it down, misbehave as told, move the money.

use std::sync::Arc;
use std::time::Duration;

use ulid::Ulid;

use super::book::{Arrival, Book, Names, Reached};
use super::fault::FaultKind;
use super::wire::Order;
use crate::ambient::{Clock, Entropy};
use crate::proof::sha256_hex;

/// The rail's back office.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) book: Book,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
}

/// How a request is answered, on the wire.
#[derive(Debug)]
pub(super) enum Reply {
    /// As the contract says.
    Whole(Reached),
    /// The head, the right length, and half of the body.
    Half(Reached),
    /// 200 and a page for people.
    Html,
    /// 302 to the same place.
    Elsewhere,
    /// Not a byte.
    Nothing,
}

impl Reply {
    /// How `seen` tells of it.
    fn word(&self) -> String {
        match self {
            Self::Whole(reached) if reached.code.is_empty() => reached.status.to_string(),
            Self::Whole(reached) => format!("{} {}", reached.status, reached.code),
            Self::Half(_) => "truncated".to_owned(),
            Self::Html => "garbage".to_owned(),
            Self::Elsewhere => "302".to_owned(),
            Self::Nothing => "dropped".to_owned(),
        }
    }
}

impl Desk {
    /// Takes one transfer from arrival to answer. Runs on its own, whether or not the caller waits.
    ///
    /// An empty `key` is one that was missing or not usable.
    pub(super) async fn take(&self, key: &str, body: &[u8]) -> Result<Reply, sqlx::Error> {
        let order = Order::parse(body);
        let body_sha256 = sha256_hex(body);
        let reference = match &order {
            Ok(order) => order.reference.as_str(),
            Err(no) => no.reference.as_str(),
        };
        let arrival = Arrival { key, body_sha256: &body_sha256, reference, at: self.clock.now() };
        let (seq, strike) = self.book.arrived(&arrival).await?;
        let (kind, delay) = strike.map_or((None, Duration::ZERO), |strike| (Some(strike.kind), strike.delay));
        let before = kind == Some(FaultKind::DelayBefore);
        if before {
            tokio::time::sleep(delay).await;
        }
        let reply = match &order {
            Ok(_) if key.is_empty() => {
                let message = "Idempotency-Key is missing or not usable";
                Reply::Whole(Reached::refusal(400, "invalid_request", message))
            }
            Ok(order) => self.act(kind, &arrival, order).await?,
            Err(no) => Reply::Whole(no.answer.clone()),
        };
        if !before {
            tokio::time::sleep(delay).await;
        }
        self.book.answered(seq, &reply.word()).await?;
        Ok(reply)
    }

    async fn act(&self, kind: Option<FaultKind>, arrival: &Arrival<'_>, order: &Order) -> Result<Reply, sqlx::Error> {
        let refusal = |status, code, message| Reply::Whole(Reached::refusal(status, code, message));
        let not_executed = match kind {
            Some(FaultKind::DropRequest) => Reply::Nothing,
            Some(FaultKind::FailBefore) => refusal(503, "unavailable", "the sandbox was told to fail"),
            Some(FaultKind::Garbage) => Reply::Html,
            Some(FaultKind::RateLimit) => refusal(429, "rate_limited", "the sandbox was told to be busy"),
            Some(FaultKind::Unauthorized) => refusal(401, "unauthorized", "the sandbox was told to refuse the key"),
            Some(FaultKind::Redirect) => Reply::Elsewhere,
            Some(FaultKind::Refuse) => {
                let refused = Reached::refusal(422, "insufficient_funds", "the sandbox was told to refuse");
                self.book.refuse(arrival, &refused).await?;
                Reply::Whole(refused)
            }
            _ => return self.execute(kind, arrival, order).await,
        };
        Ok(not_executed)
    }

    async fn execute(
        &self,
        kind: Option<FaultKind>,
        arrival: &Arrival<'_>,
        order: &Order,
    ) -> Result<Reply, sqlx::Error> {
        let names = Names { transfer: self.name("trf_"), debit: self.name("ent_"), credit: self.name("ent_") };
        let reached = self.book.transfer(arrival, order, &names).await?;
        Ok(match kind {
            Some(FaultKind::DropReply) => Reply::Nothing,
            Some(FaultKind::FailAfter) => {
                Reply::Whole(Reached::refusal(500, "internal", "the sandbox was told to fail after executing"))
            }
            Some(FaultKind::Truncate) => Reply::Half(reached),
            Some(FaultKind::WrongAmount) => {
                let (right, wrong) = (order.amount.minor(), order.amount.minor().saturating_add(1));
                let body = reached
                    .body
                    .replace(&format!("\"amount_minor\":\"{right}\""), &format!("\"amount_minor\":\"{wrong}\""));
                Reply::Whole(Reached { body, ..reached })
            }
            _ => Reply::Whole(reached),
        })
    }

    fn name(&self, prefix: &str) -> String {
        let millis = u64::try_from(self.clock.now().micros().div_euclid(1_000)).unwrap_or(0);
        format!("{prefix}{}", Ulid::from_parts(millis, self.entropy.u128()))
    }
}
