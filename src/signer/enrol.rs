//! `GET` and `POST /enrol/{token}`: a person looks at an invitation, and answers it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};

use super::Desk;
use super::api::Segment;
use super::invitations;
use super::language::Language;
use super::page::{self, Invited, Step};
use super::refused::{Refused, body_of, json_of};
use super::sign::{check_origin, wants_page};
use super::sign_in::{self, Purpose};
use super::store::{KeptInvitation, KeptPasskey};
use crate::domain::Timestamp;
use crate::proof::EnrolmentDocument;

/// `GET /enrol/{token}`. Changes nothing.
pub(super) async fn get(State(desk): State<Arc<Desk>>, Segment(token): Segment, language: Language) -> Response {
    match show(&desk, language, &token, false).await {
        Ok(html) => Html(html).into_response(),
        Err(refused) => notice(&desk, language, &refused, &token),
    }
}

/// `POST /enrol/{token}`: what the page's script sends when the passkey was made.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    Segment(token): Segment,
    language: Language,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let outcome = async {
        check_origin(&desk, &headers)?;
        let made = json_of(&body_of(body)?)?;
        invitations::answer(&desk, &token, &made).await
    }
    .await;
    match (outcome, wants_page(&headers)) {
        (Ok(reply), false) => reply.into_response(),
        (Err(refused), false) => refused.into_response(),
        // Where it can't be shown, the script asks for a reload: it was recorded.
        (Ok(reply), true) => match show(&desk, language, &token, true).await {
            Ok(html) => Html(html).into_response(),
            Err(_) => reply.into_response(),
        },
        (Err(refused), true) => notice(&desk, language, &refused, &token),
    }
}

async fn show(desk: &Desk, language: Language, token: &str, fresh: bool) -> Result<String, Refused> {
    let mut session = desk.store.read().await?;
    let kept = session.invitation_of(token).await?;
    let kept = kept.ok_or_else(|| Refused::not_found("unknown_link", "no such invitation"))?;
    let passkeys = session.passkeys(&kept.tenant, &kept.signer_id).await?;
    drop(session);
    let document = EnrolmentDocument::parse(&kept.document).ok_or_else(Refused::internal)?;
    let known = passkeys.iter().filter(|passkey| passkey.is_active()).map(|passkey| passkey.credential_id.clone());
    // Only who made the first passkey just now makes the second one; not whoever has the link.
    let sign_in_challenge = if fresh {
        desk.challenges.make(Purpose::Make(&kept.invitation_id), desk.now(), desk.entropy.as_ref())
    } else {
        String::new()
    };
    let invited = Invited {
        language,
        address: &desk.address,
        rp_id: &desk.party.id,
        token,
        step: step_of(&kept, &passkeys, desk.now()),
        document: &kept.document,
        desk: &document.aud,
        signer_id: &kept.signer_id,
        name: desk.directory.name(&kept.signer_id),
        until: &document.expires_at,
        label: &kept.label,
        code: &kept.code,
        made_at: &kept.answered_at.map(|at| Timestamp::from_micros(at).rfc3339()).unwrap_or_default(),
        known: &known.collect::<Vec<_>>(),
        sign_in_challenge: &sign_in_challenge,
    };
    Ok(page::invitation(&invited))
}

/// Where an invitation stands, as its page says it.
fn step_of(kept: &KeptInvitation, passkeys: &[KeptPasskey], now: Timestamp) -> Step {
    match invitations::state_of(kept, now) {
        "open" => Step::Open,
        "answered" => match sign_in::passkey_of(kept, passkeys) {
            Some(passkey) if passkey.is_active() => Step::Counts,
            Some(_) => Step::Revoked,
            None => Step::Answered,
        },
        _ => Step::Expired,
    }
}

/// `POST /enrol/{token}/sign-in`: what the page's script sends when the second passkey was made, which signs in.
pub(super) async fn sign_in(
    State(desk): State<Arc<Desk>>,
    Segment(token): Segment,
    language: Language,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let made = async {
        check_origin(&desk, &headers)?;
        sign_in::make(&desk, &token, &json_of(&body_of(body)?)?).await
    }
    .await;
    match (made, wants_page(&headers)) {
        (Ok(()), true) => {
            let back = desk.address.within(&format!("/enrol/{token}"));
            Html(page::sign_in_made(language, &desk.address, &back)).into_response()
        }
        (Ok(()), false) => StatusCode::NO_CONTENT.into_response(),
        (Err(refused), true) => notice(&desk, language, &refused, &token),
        (Err(refused), false) => refused.into_response(),
    }
}

/// The refusal as a page.
fn notice(desk: &Desk, language: Language, refused: &Refused, token: &str) -> Response {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Html(page::not_enrolled(language, &desk.address, refused, token))).into_response()
}
