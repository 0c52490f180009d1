//! `GET /sign/{token}` and `POST /sign/{token}/decisions`: where a person looks and decides.
//!
//! Looking changes nothing, so a mail scanner that opens a link neither decides nor uses it up.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::Desk;
use super::api::Segment;
use super::decision::{self, FormFields, Submitted};
use super::page::{self, Ask, Notice, SignerView, View};
use super::refused::{Refused, body_of, json_of};
use super::store::{KeptDecision, KeptPayment};
use crate::domain::{Choice, KeyId, Reason};
use crate::proof::{Challenge, DecisionDocument, PaymentDocument, decision_digest, key_id_of};

/// `GET /sign/{token}`.
pub(super) async fn get(State(desk): State<Arc<Desk>>, Segment(token): Segment, RawQuery(query): RawQuery) -> Response {
    let ask = ask_of(&query.unwrap_or_default());
    match look(&desk, &token, &ask).await {
        Ok(html) => Html(html).into_response(),
        Err(refused) => notice(&desk, &refused, None),
    }
}

async fn look(desk: &Desk, token: &str, ask: &Ask) -> Result<String, Refused> {
    let now = desk.now();
    let mut session = desk.store.read().await?;
    let link = session.link(token).await?.ok_or_else(|| Refused::not_found("unknown_link", ""))?;
    if link.expires_at <= now.micros() {
        return Err(Refused::new(410, "link_expired", ""));
    }
    let payment = session.payment(&link.payment_id).await?.ok_or_else(Refused::unknown_payment)?;
    if payment.round != link.round {
        return Err(Refused::new(410, "round_stale", ""));
    }
    let challenges = session.challenges(&payment.id).await?;
    let decisions = session.decisions(&payment).await?;
    drop(session);
    let document = PaymentDocument::parse(&payment.payload).ok_or_else(Refused::internal)?;
    let view = View {
        address: &desk.address,
        token,
        state: page::state_of(&payment, &challenges, &decisions, now),
        signers: challenges.iter().map(|challenge| signer(desk, &payment, challenge, &decisions, ask)).collect(),
        payment: &payment,
        document: &document,
    };
    Ok(page::payment(&view))
}

fn signer<'a>(
    desk: &'a Desk,
    payment: &KeptPayment,
    challenge: &'a Challenge,
    decisions: &[KeptDecision],
    ask: &Ask,
) -> SignerView<'a> {
    let ask = if ask.signer_id == challenge.signer_id { ask.clone() } else { Ask::default() };
    let key_id = match (&ask.key_id, desk.directory.key(&challenge.signer_id)) {
        (Some(key_id), _) => Some(key_id.clone()),
        (None, Some(key)) => Some(key_id_of(key)),
        (None, None) => None,
    };
    let to_sign = key_id.as_ref().and_then(|key_id| {
        let document = DecisionDocument::answering(challenge, &payment.payment_digest, key_id, ask.choice, &ask.reason);
        let text = document.canonical().ok()?;
        let digest = decision_digest(&text);
        Some((text, digest))
    });
    SignerView {
        id: &challenge.signer_id,
        name: desk.directory.name(&challenge.signer_id),
        until: &challenge.challenge_expires_at,
        decided: decisions
            .iter()
            .find(|kept| kept.verified && kept.signer_id == challenge.signer_id)
            .map(|kept| (kept.decision.clone(), kept.decided_at().rfc3339())),
        unverified: decisions.iter().any(|kept| !kept.verified && kept.signer_id == challenge.signer_id),
        key_id: key_id.unwrap_or_default(),
        to_sign,
        ask,
    }
}

/// What a signer asked to be shown; a value that can't be signed is left out and said so.
fn ask_of(query: &str) -> Ask {
    let mut ask = Ask::default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match name.as_ref() {
            "signer_id" => {
                ask.asked = true;
                ask.signer_id = value.into_owned();
            }
            "decision" => match Choice::from_name(&value) {
                Some(choice) => ask.choice = choice,
                None => ask.problem = Some("The decision must be approve or reject.".to_owned()),
            },
            "key_id" if !value.trim().is_empty() => match value.trim().parse::<KeyId>() {
                Ok(key_id) => ask.key_id = Some(key_id.to_string()),
                Err(refusal) => ask.problem = Some(format!("The key id can't be used: {}.", refusal.message)),
            },
            "reason" => match Reason::parse("reason", value.trim()) {
                Ok(reason) => ask.reason = reason.to_string(),
                Err(refusal) => ask.problem = Some(format!("The reason was left out: {}.", refusal.message)),
            },
            _ => {}
        }
    }
    ask
}

/// `POST /sign/{token}/decisions`: JSON from a program, form fields from the page.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    Segment(token): Segment,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_form = kind == "application/x-www-form-urlencoded";
    let outcome = async {
        check_origin(&desk, &headers)?;
        let body = body_of(body)?;
        let submitted = match kind.as_str() {
            "application/json" => Submitted::Document(json_of(&body)?),
            _ if is_form => Submitted::Form(form_of(&body)),
            _ => return Err(Refused::new(415, "unsupported_media_type", "send JSON or the form of the page")),
        };
        decision::take(&desk, &token, submitted).await
    }
    .await;
    match outcome {
        Ok(_) if is_form => Redirect::to(&page_path(&desk, &token)).into_response(),
        Ok(reply) => reply.into_response(),
        Err(refused) if is_form => notice(&desk, &refused, Some(&token)),
        Err(refused) => refused.into_response(),
    }
}

fn page_path(desk: &Desk, token: &str) -> String {
    desk.address.within(&format!("/sign/{token}"))
}

/// Refuses a browser that was sent here by another site.
///
/// A page with `Referrer-Policy: no-referrer` makes browsers send `Origin: null` with its own forms
/// (Fetch, "append a request Origin header"), so `null` passes unless `Sec-Fetch-Site` tells of
/// another site. What guards a decision is its signature; this only keeps mistakes out.
pub(super) fn check_origin(desk: &Desk, headers: &HeaderMap) -> Result<(), Refused> {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let own = headers.get_all(header::ORIGIN).iter().all(|origin| match origin.to_str() {
        Ok("null") => site.is_none_or(|site| site == b"same-origin"),
        Ok(origin) => desk.address.is_origin(origin),
        Err(_) => false,
    });
    if own { Ok(()) } else { Err(Refused::new(403, "wrong_origin", "decisions are not taken from other sites")) }
}

fn form_of(body: &[u8]) -> FormFields {
    let mut fields = FormFields::default();
    for (name, value) in url::form_urlencoded::parse(body) {
        match name.as_ref() {
            "signer_id" => value.trim().clone_into(&mut fields.signer_id),
            "key_id" => value.trim().clone_into(&mut fields.key_id),
            "decision" => value.trim().clone_into(&mut fields.decision),
            "reason" => value.trim().clone_into(&mut fields.reason),
            "jws" => value.trim().clone_into(&mut fields.jws),
            _ => {}
        }
    }
    fields
}

/// The refusal as a page, with the way back where there is one.
fn notice(desk: &Desk, refused: &Refused, back: Option<&str>) -> Response {
    let back = back.filter(|_| !matches!(refused.code, "unknown_link" | "link_expired" | "round_stale"));
    let back = back.map(|token| page_path(desk, token));
    let html = page::notice(&desk.address, &Notice::of(refused), back.as_deref());
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Html(html)).into_response()
}
