//! Writes with an idempotency key: the same request is answered as the first time.
//!
//! The key's record and the work it stands for are in one transaction, and there is one writer, so
//! of two concurrent duplicates the second waits and finds the first one's answer. Only a success is
//! kept: a request that was refused did nothing, so once the cause is mended the same request must be
//! able to succeed under the key that the gateway has written down for it.

use axum::http::HeaderMap;

use super::Desk;
use super::refused::{Refused, Reply};
use super::store::{KeyedRequest, Session};

/// How a keyed write begins.
pub(super) enum Begun {
    /// It was answered before, like this.
    Answered(Reply),
    /// It is new: do the work in this session, then [`settle`].
    New(Session, KeyedRequest),
}

/// Looks up the key of a write to `path` with `body`.
///
/// *Errors*: 400 without a usable `Idempotency-Key`; 422 when the key succeeded at another request.
pub(super) async fn begin(desk: &Desk, headers: &HeaderMap, path: &str, body: &[u8]) -> Result<Begun, Refused> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let key = match (keys.next().and_then(|key| key.to_str().ok()), keys.next()) {
        (Some(key), None) if (1..=255).contains(&key.len()) => key,
        _ => {
            return Err(Refused::new(
                400,
                "idempotency_key_missing",
                "a write needs one Idempotency-Key header of 1 to 255 visible ASCII characters",
            ));
        }
    };
    let request = KeyedRequest::of(key, path, body);
    let mut session = desk.store.write().await?;
    match session.kept_answer(&request).await? {
        Some(kept) if kept.same_request => Ok(Begun::Answered(Reply { status: kept.status, body: kept.body })),
        Some(_) => Err(Refused::unacceptable(
            "idempotency_key_reused",
            "this Idempotency-Key was used for another request; use a new key",
        )),
        None => Ok(Begun::New(session, request)),
    }
}

/// Keeps a success under the key and makes everything durable.
///
/// A refusal or trouble leaves nothing: neither what the work wrote before, nor a record of the key.
pub(super) async fn settle(
    desk: &Desk,
    mut session: Session,
    request: &KeyedRequest,
    outcome: Result<Reply, Refused>,
) -> Result<Reply, Refused> {
    let reply = outcome?;
    session.keep_answer(request, reply.status, &reply.body, desk.now()).await?;
    session.commit().await?;
    Ok(reply)
}
