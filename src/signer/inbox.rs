//! The inbox: a signed-in signer sees what waits for them. It decides nothing; the sign page does.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Serialize;

use super::Desk;
use super::api::Segment;
use super::language::Language;
use super::page::{self, Inbox, Waiting};
use super::refused::{Refused, Reply, body_of, json_of};
use super::sign::{check_origin, wants_page};
use super::sign_in::{self, Purpose, SESSION_TTL};
use super::store::{KeptPayment, NewLink, Session, SignInKey};
use crate::proof::{PaymentDocument, b64url, sha256_hex};

/// Where it is.
pub(super) const PATH: &str = "/inbox";
/// The cookie of a session.
const COOKIE: &str = "countersign_inbox";
/// How long a question whether something changed is held, and how often it is looked.
const HELD: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(500);
/// How many such questions are held at once; more are asked to come again.
pub(super) const MOST_HELD: usize = 64;

/// `GET /inbox`: what waits, or the way in.
pub(super) async fn get(
    State(desk): State<Arc<Desk>>,
    language: Language,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let largest_first = query.as_deref() == Some("order=largest");
    match look(&desk, language, &headers, largest_first).await {
        Ok(html) => Html(html).into_response(),
        Err(refused) => notice(&desk, language, &refused, &headers),
    }
}

async fn look(desk: &Desk, language: Language, headers: &HeaderMap, largest_first: bool) -> Result<String, Refused> {
    let mut session = desk.store.read().await?;
    let Some(key) = signed_in(desk, &mut session, headers).await? else {
        drop(session);
        let challenge = desk.challenges.make(Purpose::SignIn, desk.now(), desk.entropy.as_ref());
        return Ok(page::sign_in(language, &desk.address, &desk.party.id, &challenge));
    };
    let payments = session.waiting(&key, desk.now()).await?;
    drop(session);
    let mut waiting: Vec<Waiting> = payments.iter().filter_map(waiting_of).collect();
    if largest_first {
        // Amounts of different currencies are not compared; each currency's largest comes first.
        waiting.sort_by(|a, b| a.document.currency.cmp(&b.document.currency).then(b.minor.cmp(&a.minor)));
    }
    let inbox = Inbox {
        language,
        address: &desk.address,
        name: desk.directory.name(&key.signer_id),
        mark: &mark(&payments),
        waiting: &waiting,
        largest_first,
    };
    Ok(page::inbox(&inbox))
}

fn waiting_of(payment: &KeptPayment) -> Option<Waiting> {
    let document = PaymentDocument::parse(&payment.payload)?;
    let minor = document.amount_minor.parse().ok()?;
    Some(Waiting { id: payment.id.clone(), expires_at: payment.expires_at().rfc3339(), minor, document })
}

/// What a list of payments is told apart by.
fn mark(payments: &[KeptPayment]) -> String {
    let named: Vec<String> = payments.iter().map(|payment| format!("{} {}", payment.id, payment.round)).collect();
    sha256_hex(named.join("\n"))
}

/// Whose session the request is of, while their sign-in passkey counts.
async fn signed_in(desk: &Desk, session: &mut Session, headers: &HeaderMap) -> Result<Option<SignInKey>, Refused> {
    let Some(token) = cookie(headers) else { return Ok(None) };
    match session.signed_in(&token, desk.now()).await? {
        Some(key) if sign_in::counts(session, &key).await? => Ok(Some(key)),
        Some(_) | None => Ok(None),
    }
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = sent.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned())
}

#[derive(Serialize)]
struct Changed<'a> {
    mark: &'a str,
}

/// `GET /inbox/changes?…`: the list's mark, as soon as it is not the one that was seen, and after a while in any case.
pub(super) async fn changes(
    State(desk): State<Arc<Desk>>,
    headers: HeaderMap,
    RawQuery(seen): RawQuery,
) -> Result<Reply, Refused> {
    let seen = seen.unwrap_or_default();
    let busy = || Refused::new(429, "too_many_requests", "too many are waiting; ask again in a while");
    let _held = desk.held.try_acquire().map_err(|_| busy())?;
    let mut left = HELD;
    loop {
        let mut session = desk.store.read().await?;
        let key = signed_in(&desk, &mut session, &headers).await?;
        let key = key.ok_or_else(|| Refused::new(403, "signed_out", "the session has ended; sign in again"))?;
        let now = mark(&session.waiting(&key, desk.now()).await?);
        drop(session);
        if now != seen || left.is_zero() {
            return Reply::json(200, &Changed { mark: &now });
        }
        tokio::time::sleep(LOOK).await;
        left = left.saturating_sub(LOOK);
    }
}

/// `POST /inbox/sign-in`: what the page's script sends; answered with the session's cookie.
pub(super) async fn sign_in(
    State(desk): State<Arc<Desk>>,
    language: Language,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let begun = async {
        check_origin(&desk, &headers)?;
        sign_in::begin(&desk, &json_of(&body_of(body)?)?).await
    }
    .await;
    match begun {
        Ok(token) => with_cookie(&desk, &token, SESSION_TTL, StatusCode::NO_CONTENT.into_response()),
        Err(refused) => notice(&desk, language, &refused, &headers),
    }
}

/// `POST /inbox/sign-out`.
pub(super) async fn sign_out(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Result<Response, Refused> {
    check_origin(&desk, &headers)?;
    if let Some(token) = cookie(&headers) {
        let mut session = desk.store.write().await?;
        session.end_session(&token).await?;
        session.commit().await?;
    }
    let back = Redirect::to(&desk.address.within(PATH)).into_response();
    Ok(with_cookie(&desk, "", Duration::ZERO, back))
}

fn with_cookie(desk: &Desk, token: &str, lasts: Duration, mut response: Response) -> Response {
    let secure = if desk.address.is_secure() { "; Secure" } else { "" };
    let path = desk.address.within(PATH);
    let cookie =
        format!("{COOKIE}={token}; Path={path}; Max-Age={}; HttpOnly; SameSite=Strict{secure}", lasts.as_secs());
    match HeaderValue::from_str(&cookie) {
        Ok(cookie) => {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            response
        }
        Err(_) => Refused::internal().into_response(),
    }
}

/// `POST /inbox/payments/{id}`: leads to the sign page of a payment that asks the signer, by a fresh link.
pub(super) async fn open(
    State(desk): State<Arc<Desk>>,
    Segment(id): Segment,
    language: Language,
    headers: HeaderMap,
) -> Response {
    let opened = async {
        check_origin(&desk, &headers)?;
        let now = desk.now();
        let mut session = desk.store.write().await?;
        let key = signed_in(&desk, &mut session, &headers).await?;
        let key = key.ok_or_else(|| Refused::new(403, "signed_out", "the session has ended; sign in again"))?;
        let payment = session.payment(&id).await?.ok_or_else(Refused::unknown_payment)?;
        let asked = session.challenges(&id).await?;
        if payment.tenant != key.tenant || !asked.iter().any(|asked| asked.signer_id == key.signer_id) {
            return Err(Refused::unknown_payment());
        }
        let token = new_token(&desk);
        let expires_at = now.plus(desk.link_ttl).to_millis();
        let link = NewLink { signer_id: &key.signer_id, issued_at: now, expires_at };
        session.add_link(&token, &payment, &link).await?;
        session.commit().await?;
        Ok((token, key.signer_id))
    }
    .await;
    match opened {
        Ok((token, signer_id)) => {
            let whose = url::form_urlencoded::Serializer::new(String::new()).append_pair("for", &signer_id).finish();
            Redirect::to(&desk.address.within(&format!("/sign/{token}?{whose}"))).into_response()
        }
        Err(refused) => notice(&desk, language, &refused, &headers),
    }
}

fn new_token(desk: &Desk) -> String {
    let mut token = [0; 32];
    desk.entropy.fill(&mut token);
    b64url(token)
}

/// The refusal as a page, for whoever asks for one.
fn notice(desk: &Desk, language: Language, refused: &Refused, headers: &HeaderMap) -> Response {
    if !wants_page(headers) {
        return refused.clone().into_response();
    }
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Html(page::not_signed_in(language, &desk.address, refused))).into_response()
}
