//! The routes: the REST contract behind the key, the sign page without one.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use sha2::{Digest as _, Sha256};

use super::refused::Refused;
use super::{
    Desk, asset, astray, cancel, enrol, inbox, invitations, link, notify, presence, register, sign, status, verdicts,
    viewed,
};

/// The variable part of a path.
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Refused;

    /// *Errors*: one that is no text once it is decoded; refused as everything is, by an error object.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(_) => Err(Refused::invalid("the address is not UTF-8")),
        }
    }
}

/// The largest body that is read.
const BODY_LIMIT: usize = 256 * 1024;

/// All routes.
pub(super) fn router(desk: Arc<Desk>) -> Router {
    let mut api = Router::new()
        .route(register::PATH, post(register::post).get(status::find))
        .route("/api/v1/payments/{id}/notify", post(notify::post))
        .route("/api/v1/payments/{id}/sign-link", get(link::get))
        .route("/api/v1/payments/{id}/status", get(status::get))
        .route("/api/v1/payments/{id}/cancel", post(cancel::post))
        .route("/api/v1/payments/{id}/verdicts", put(verdicts::put))
        .route(invitations::PATH, post(invitations::post))
        .route("/api/v1/invitations/{id}", get(invitations::get))
        .route("/api/v1/signers/{signer_id}/passkeys/{key_id}", put(invitations::put));
    if desk.presence_switch {
        api = api.route("/api/v1/signers/{signer_id}/presence", put(presence::put));
    }
    api.route_layer(from_fn_with_state(Arc::clone(&desk), authorize))
        .route("/healthz", get(status::health))
        .route("/enrol/{token}", get(enrol::get).post(enrol::post))
        .route("/enrol/{token}/sign-in", post(enrol::sign_in))
        .route(inbox::PATH, get(inbox::get))
        .route("/inbox/changes", get(inbox::changes))
        .route("/inbox/sign-in", post(inbox::sign_in))
        .route("/inbox/sign-out", post(inbox::sign_out))
        .route("/inbox/payments/{id}", post(inbox::open))
        .route("/sign/{token}", get(sign::get))
        .route("/sign/{token}/qr.svg", get(sign::qr))
        .route("/sign/{token}/decisions", post(sign::post))
        .route("/sign/{token}/viewed", post(viewed::post))
        .route(asset::CSS_PATH, get(asset::css))
        .route(asset::SCRIPT_PATH, get(asset::script))
        .fallback(async || Refused::not_found("not_found", "no such address"))
        .method_not_allowed_fallback(async || Refused::new(405, "method_not_allowed", "not with this method"))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(from_fn_with_state(Arc::clone(&desk), astray::guard))
        .layer(from_fn(asset::guard))
        .with_state(desk)
}

/// Lets a request with the key pass. The body is not read before.
async fn authorize(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let mut shown = request.headers().get_all(header::AUTHORIZATION).iter();
    let key = match (shown.next(), shown.next()) {
        (Some(value), None) => value.as_bytes().split_at_checked(7),
        _ => None,
    };
    let accepted =
        key.is_some_and(|(scheme, key)| scheme.eq_ignore_ascii_case(b"bearer ") && is_key(&desk.api_key_sha256, key));
    if accepted {
        next.run(request).await
    } else {
        Refused::new(401, "unauthorized", "a valid bearer key is needed").into_response()
    }
}

/// Compares digests, and all of them, so the time it takes tells nothing of the key.
fn is_key(expected: &[u8; 32], shown: &[u8]) -> bool {
    let shown: [u8; 32] = Sha256::digest(shown).into();
    let differing = expected.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differing) == 0
}
