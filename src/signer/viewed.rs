//! `POST /sign/{token}/viewed`: the sign page tells that a person has it before them.
//!
//! Delivered is a server's word, viewed a person's screen. Only this request counts, which the page's script makes
//! once the page is shown: a GET or HEAD may be a mail scanner's, a prefetch nobody's. It decides nothing.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::Desk;
use super::api::Segment;
use super::refused::Refused;
use super::sign::check_origin;

/// `POST /sign/{token}/viewed`.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    Segment(token): Segment,
    headers: HeaderMap,
) -> Result<StatusCode, Refused> {
    check_origin(&desk, &headers)?;
    let ahead = ["sec-purpose", "purpose"].iter().filter_map(|name| headers.get(*name));
    if ahead.filter_map(|value| value.to_str().ok()).any(|value| value.contains("prefetch")) {
        return Ok(StatusCode::NO_CONTENT);
    }
    let now = desk.now();
    let mut session = desk.store.write().await?;
    let unknown = || Refused::not_found("unknown_link", "no such link");
    let link = session.link(&token).await?.ok_or_else(unknown)?;
    if link.expires_at <= now.micros() {
        return Err(Refused::new(410, "link_expired", "the link has lapsed; the payment is still there"));
    }
    let payment = session.payment(&link.payment_id).await?.ok_or_else(unknown)?;
    if payment.round != link.round {
        return Err(Refused::new(410, "round_stale", "the payment has another round now"));
    }
    session.add_view(&payment, &link.signer_id, now).await?;
    session.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
