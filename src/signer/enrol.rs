//! `POST /enrol/{token}`: a person answers an invitation.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;

use super::Desk;
use super::api::Segment;
use super::invitations;
use super::refused::{Refused, Reply, body_of, json_of};
use super::sign::check_origin;

/// `POST /enrol/{token}`: what the page's script sends when the passkey was made.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    Segment(token): Segment,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Reply, Refused> {
    check_origin(&desk, &headers)?;
    let made = json_of(&body_of(body)?)?;
    invitations::answer(&desk, &token, &made).await
}
