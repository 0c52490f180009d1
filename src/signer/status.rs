//! The reads of the API: a payment's status, and the look-up by reference.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use serde::Serialize;

use super::Desk;
use super::api::Segment;
use super::notify::{Receipt, receipts};
use super::refused::{Refused, Reply};
use super::register::Registered;
use super::store::{KeptDecision, Verdict};
use crate::domain::Timestamp;

#[derive(Debug, Serialize)]
struct Status<'a> {
    id: &'a str,
    reference: &'a str,
    round: i64,
    state: &'a str,
    signers: Vec<Asked<'a>>,
    decisions: Vec<Decided<'a>>,
    receipts: Vec<Receipt>,
    told: String,
}

#[derive(Debug, Serialize)]
struct Asked<'a> {
    signer_id: &'a str,
    online: bool,
}

#[derive(Debug, Serialize)]
struct Decided<'a> {
    decision_id: &'a str,
    document: &'a str,
    proof: Proof<'a>,
}

#[derive(Debug, Serialize)]
struct Proof<'a> {
    r#type: &'a str,
    value: &'a str,
}

impl<'a> From<&'a KeptDecision> for Decided<'a> {
    fn from(kept: &'a KeptDecision) -> Self {
        let proof = Proof { r#type: &kept.proof_type, value: &kept.proof };
        Self { decision_id: &kept.decision_id, document: &kept.document, proof }
    }
}

/// Whether a decision is to be judged: one that was refused is not once its signer has decided again, lest the first
/// one is taken after all when the cause is mended.
fn is_current(kept: &KeptDecision, all: &[KeptDecision]) -> bool {
    let again = |later: &KeptDecision| {
        later.verified && later.signer_id == kept.signer_id && later.decided_at > kept.decided_at
    };
    !(kept.verified && matches!(kept.verdict(), Verdict::Refused(_)) && all.iter().any(again))
}

/// `GET /api/v1/payments/{id}/status`.
pub(super) async fn get(State(desk): State<Arc<Desk>>, Segment(id): Segment) -> Result<Reply, Refused> {
    let mut session = desk.store.read().await?;
    let payment = session.payment(&id).await?.ok_or_else(Refused::unknown_payment)?;
    let challenges = session.challenges(&id).await?;
    let decisions = session.decisions(&payment).await?;
    let told = session.told(&payment).await?;
    let presence = session.presence().await?;
    let number = session.last_number(&payment).await?;
    let mut receipts = receipts(&desk, &mut session, &payment, number).await?;
    for seen in session.views(&payment).await? {
        receipts.push(Receipt::viewed(seen.signer_id, number, Timestamp::from_micros(seen.first_at)));
    }
    let online = |signer: &str| presence.get(signer).copied().unwrap_or(false);
    let signers = challenges.iter().map(|c| Asked { signer_id: &c.signer_id, online: online(&c.signer_id) }).collect();
    Reply::json(
        200,
        &Status {
            id: &payment.id,
            reference: &payment.reference,
            round: payment.round,
            state: &payment.state,
            signers,
            decisions: decisions.iter().filter(|kept| is_current(kept, &decisions)).map(Decided::from).collect(),
            receipts,
            told,
        },
    )
}

#[derive(Debug, Serialize)]
struct Found<'a> {
    items: Vec<Registered<'a>>,
}

/// `GET /api/v1/payments?reference=…`.
pub(super) async fn find(State(desk): State<Arc<Desk>>, RawQuery(query): RawQuery) -> Result<Reply, Refused> {
    let query = query.unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "reference");
    let (Some((_, reference)), None) = (pairs.next(), pairs.next()) else {
        return Err(Refused::invalid("one reference is needed: ?reference=pay_…"));
    };
    let payment = desk.store.read().await?.payment_of(&reference).await?;
    Reply::json(200, &Found { items: payment.iter().map(Registered::from).collect() })
}

#[derive(Serialize)]
struct Healthy {
    status: &'static str,
}

/// `GET /healthz`: whether the database answers.
pub(super) async fn health(State(desk): State<Arc<Desk>>) -> Result<Reply, Refused> {
    let pinged = async { desk.store.read().await?.ping().await }.await;
    match pinged {
        Ok(()) => Reply::json(200, &Healthy { status: "ok" }),
        Err(fault) => {
            let mut refused = Refused::from(fault);
            refused.status = 503;
            Err(refused)
        }
    }
}
