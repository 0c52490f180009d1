//! `GET /sign/{token}` and `POST /sign/{token}/decisions`: where a person looks and decides.
//!
//! Looking changes nothing, so a mail scanner that opens a link neither decides nor uses it up.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use qrcode::render::svg;
use qrcode::{EcLevel, QrCode};

use super::Desk;
use super::api::Segment;
use super::decision::{self, FormFields, Submitted};
use super::language::Language;
use super::look::{Looked, look};
use super::page::{self, Ask};
use super::refused::{Refused, Reply, body_of, json_of};
use crate::domain::{Choice, KeyId, Reason};

/// `GET /sign/{token}`.
pub(super) async fn get(
    State(desk): State<Arc<Desk>>,
    Segment(token): Segment,
    language: Language,
    RawQuery(query): RawQuery,
) -> Response {
    match look(&desk, &token).await {
        Ok(looked) => {
            let ask = ask_of(&query.unwrap_or_default());
            looked.view(&desk, language, &token, &ask).map_or_else(
                |refused| notice(&desk, language, &refused, &token),
                |view| Html(page::payment(&view)).into_response(),
            )
        }
        Err(refused) => notice(&desk, language, &refused, &token),
    }
}

/// `GET /sign/{token}/qr.svg`: the page's address as an image, for a phone to read off a screen.
pub(super) async fn qr(State(desk): State<Arc<Desk>>, Segment(token): Segment) -> Result<Response, Refused> {
    look(&desk, &token).await?;
    let code = QrCode::with_error_correction_level(desk.address.page(&token), EcLevel::M).map_err(|error| {
        tracing::error!(%error, "an address does not fit into a QR code");
        Refused::internal()
    })?;
    let image = code.render::<svg::Color<'_>>().min_dimensions(256, 256).build();
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], image).into_response())
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
            "for" => {
                ask.opened = true;
                ask.signer_id = value.into_owned();
            }
            "decision" => match Choice::from_name(&value) {
                Some(choice) => ask.choice = choice,
                None => ask.problem = Some(page::BAD_DECISION),
            },
            "key_id" if !value.trim().is_empty() => match value.trim().parse::<KeyId>() {
                Ok(key_id) => ask.key_id = Some(key_id.to_string()),
                Err(_) => ask.problem = Some(page::BAD_KEY_ID),
            },
            "reason" => match Reason::parse("reason", value.trim()) {
                Ok(reason) => ask.reason = reason.to_string(),
                Err(_) => ask.problem = Some(page::BAD_REASON),
            },
            _ => {}
        }
    }
    ask
}

/// How whoever sent a decision wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answering {
    /// JSON, to a program.
    Json,
    /// A page, to the page's script.
    Page,
    /// Led back to the page, after its form.
    Redirect,
}

/// `POST /sign/{token}/decisions`: JSON from a program or the page's script, form fields from the page.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    Segment(token): Segment,
    language: Language,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let answering = match kind.as_str() {
        "application/x-www-form-urlencoded" => Answering::Redirect,
        _ if wants_page(&headers) => Answering::Page,
        _ => Answering::Json,
    };
    let outcome = async {
        check_origin(&desk, &headers)?;
        let body = body_of(body)?;
        let submitted = match kind.as_str() {
            "application/json" => Submitted::Document(json_of(&body)?),
            "application/x-www-form-urlencoded" => Submitted::Form(form_of(&body)),
            _ => return Err(Refused::new(415, "unsupported_media_type", "send JSON or the form of the page")),
        };
        decision::take(&desk, &token, submitted).await
    }
    .await;
    match (outcome, answering) {
        (Ok(recorded), Answering::Json) => Reply::json(200, &recorded).into_response(),
        (Ok(_), Answering::Redirect) => Redirect::to(&page_path(&desk, &token)).into_response(),
        (Ok(recorded), Answering::Page) => match result(&desk, language, &token, &recorded).await {
            Ok(html) => Html(html).into_response(),
            // It was recorded, so nothing may say that it was not; the script asks for a reload.
            Err(_) => Reply::json(200, &recorded).into_response(),
        },
        (Err(refused), Answering::Json) => refused.into_response(),
        (Err(refused), Answering::Redirect | Answering::Page) => notice(&desk, language, &refused, &token),
    }
}

async fn result(
    desk: &Desk,
    language: Language,
    token: &str,
    recorded: &decision::Recorded,
) -> Result<String, Refused> {
    let looked: Looked = look(desk, token).await?;
    let view = looked.view(desk, language, token, &Ask::default())?;
    let decided = looked.decided(&recorded.decision_id).ok_or_else(Refused::internal)?;
    Ok(page::result(&view, &recorded.signer_id, &decided))
}

/// Whether a page is asked for, as browsers and the page's script do.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    let mut wanted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    wanted.any(|value| value.split(',').any(|kind| kind.split(';').next().unwrap_or_default().trim() == "text/html"))
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
fn notice(desk: &Desk, language: Language, refused: &Refused, token: &str) -> Response {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Html(page::refused(language, &desk.address, refused, token))).into_response()
}
