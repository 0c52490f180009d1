//! `POST /api/v1/payments`: a payment, or a new round of one, becomes known.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::Desk;
use super::keyed::{self, Begun};
use super::refused::{Refused, Reply, body_of, json_of};
use super::store::{KeptPayment, Session};
use crate::config::web_url;
use crate::domain::{SignerId, Timestamp};
use crate::proof::{Challenge, PaymentDocument, from_b64url, payment_digest};

/// More keys than anybody is asked to have.
const MOST_CONFIRMATIONS: i64 = 8;

/// The path, which the idempotency key is bound to.
pub(super) const PATH: &str = "/api/v1/payments";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Registration {
    reference: String,
    round: i64,
    payload: String,
    payment_digest: String,
    signers: Vec<Challenge>,
    expires_at: String,
    callback_url: String,
    #[serde(default = "once")]
    confirmations: i64,
}

const fn once() -> i64 {
    1
}

/// What a registration is answered, and an item of the look-up by reference.
#[derive(Debug, Serialize)]
pub(super) struct Registered<'a> {
    /// The service's own id.
    pub(super) id: &'a str,
    /// The gateway's.
    pub(super) reference: &'a str,
    /// The round it is in.
    pub(super) round: i64,
}

impl<'a> From<&'a KeptPayment> for Registered<'a> {
    fn from(payment: &'a KeptPayment) -> Self {
        Self { id: &payment.id, reference: &payment.reference, round: payment.round }
    }
}

/// `POST /api/v1/payments`.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Reply, Refused> {
    let body = body_of(body)?;
    match keyed::begin(&desk, &headers, PATH, &body).await? {
        Begun::Answered(reply) => Ok(reply),
        Begun::New(mut session, request) => {
            let outcome = apply(&desk, &mut session, &body).await;
            keyed::settle(&desk, session, &request, outcome).await
        }
    }
}

async fn apply(desk: &Desk, session: &mut Session, body: &[u8]) -> Result<Reply, Refused> {
    let asked: Registration = json_of(body)?;
    let (tenant, expires_at) = check(desk, &asked)?;
    let now = desk.now();
    let known = session.payment_of(&asked.reference).await?;
    let wanted = KeptPayment {
        id: known.as_ref().map_or_else(|| desk.mint("sgn_"), |known| known.id.clone()),
        reference: asked.reference,
        tenant,
        round: asked.round,
        payload: asked.payload,
        payment_digest: asked.payment_digest,
        expires_at: expires_at.micros(),
        callback_url: asked.callback_url,
        confirmations: asked.confirmations,
        state: "open".to_owned(),
        close_reason: String::new(),
    };
    let Some(known) = known else {
        session.add_payment(&wanted, now).await?;
        session.add_challenges(&wanted.id, &asked.signers).await?;
        return Reply::json(201, &Registered::from(&wanted));
    };
    if wanted.round < known.round {
        return Err(Refused::conflict("round_stale", "a higher round of this payment is registered"));
    }
    if wanted.round > known.round {
        session.replace_round(&wanted, now).await?;
        session.add_challenges(&wanted.id, &asked.signers).await?;
        return Reply::json(200, &Registered::from(&wanted));
    }
    let same = known.payload == wanted.payload
        && known.expires_at == wanted.expires_at
        && known.confirmations == wanted.confirmations
        && session.challenges(&known.id).await? == asked.signers;
    if !same {
        // People may have seen and signed what is known; only a new round may say something else.
        return Err(Refused::conflict("round_conflict", "this round is registered with other contents"));
    }
    if known.callback_url != wanted.callback_url {
        session.set_callback_url(&known.id, &wanted.callback_url, now).await?;
    }
    Reply::json(200, &Registered::from(&known))
}

/// Checks what a registration says, apart from what is known already; returns whose it is and when it expires.
fn check(desk: &Desk, asked: &Registration) -> Result<(String, Timestamp), Refused> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !(1..=64).contains(&asked.reference.len()) || !asked.reference.chars().all(plain) {
        return Err(Refused::invalid("reference must be 1 to 64 of A-Z a-z 0-9 _ and -"));
    }
    let document = PaymentDocument::parse(&asked.payload).ok_or_else(|| {
        Refused::unacceptable("payload_invalid", "payload is not a payment document in canonical form")
    })?;
    if payment_digest(&asked.payload) != asked.payment_digest {
        return Err(Refused::unacceptable("digest_mismatch", "payment_digest is not the digest of payload"));
    }
    // What people are shown must be what they are asked about.
    if document.payment_id != asked.reference || document.round != asked.round.to_string() || asked.round < 1 {
        return Err(Refused::unacceptable("payload_mismatch", "payload speaks of another reference or round"));
    }
    if document.amount_text().is_none() {
        return Err(Refused::unacceptable("payload_invalid", "payload's amount, currency and exponent do not agree"));
    }
    if asked.signers.is_empty() {
        return Err(Refused::invalid("signers must name at least one signer"));
    }
    if !(1..=MOST_CONFIRMATIONS).contains(&asked.confirmations) {
        return Err(Refused::invalid(format!("confirmations must be 1 to {MOST_CONFIRMATIONS}")));
    }
    let mut named = HashSet::new();
    for challenge in &asked.signers {
        check_challenge(challenge)?;
        if !named.insert(challenge.signer_id.as_str()) {
            return Err(Refused::invalid("signers names the same signer twice"));
        }
    }
    if let Some(stranger) = desk.directory.stranger(&asked.signers) {
        return Err(Refused::unacceptable("unknown_signer", format!("the directory has no signer {stranger:?}")));
    }
    web_url(&asked.callback_url).map_err(|why| Refused::invalid(format!("callback_url {why}")))?;
    Ok((document.tenant, time("expires_at", &asked.expires_at)?))
}

fn check_challenge(challenge: &Challenge) -> Result<(), Refused> {
    if challenge.signer_id.parse::<SignerId>().is_err() {
        return Err(Refused::invalid("signer_id must be 1 to 64 of A-Z a-z 0-9 and ._@+-"));
    }
    if from_b64url(&challenge.nonce).is_none_or(|nonce| nonce.len() != 32) {
        return Err(Refused::invalid("nonce must be 32 bytes in base64url"));
    }
    time("issued_at", &challenge.issued_at)?;
    time("challenge_expires_at", &challenge.challenge_expires_at)?;
    Ok(())
}

/// Reads a time in the one form the contract has.
fn time(field: &str, text: &str) -> Result<Timestamp, Refused> {
    Timestamp::parse_rfc3339(text)
        .filter(|at| at.rfc3339() == text)
        .ok_or_else(|| Refused::invalid(format!("{field} must be RFC 3339 UTC with three fraction digits")))
}
