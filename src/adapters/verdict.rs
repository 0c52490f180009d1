//! What the adapters agree on: how a status, a code and a body are read.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::http::{Raw, Reply};
use crate::config::is_web;
use crate::journal::ports::{Answer, Cause, Trouble};

/// The kind of trouble that a status alone means, where the contract says nothing better.
pub(super) const fn cause_of(status: u16) -> Cause {
    match status {
        401 | 403 => Cause::Unauthorized,
        404 => Cause::NotFound,
        408 => Cause::Timeout,
        409 => Cause::Conflict,
        429 => Cause::RateLimited,
        300..=399 => Cause::Redirect,
        500..=599 => Cause::Unavailable,
        _ => Cause::Garbage,
    }
}

/// Trouble of kind `cause` that `reply` told of.
pub(super) fn trouble(cause: Cause, reply: &Reply) -> Trouble {
    Trouble { cause, status: Some(reply.status), code: error_code(&reply.body), retry_after: reply.retry_after }
}

/// Whether `word` is a stable word that may be shown and stored: `[a-z0-9_]{1,64}`.
pub(super) fn is_word(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Whether `id` can be kept, shown and put in a path: `[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}`.
///
/// A leading dot is refused because `.` and `..` are not path segments.
pub(super) fn is_id(id: &str) -> bool {
    (1..=128).contains(&id.len())
        && !id.starts_with('.')
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}

/// Whether `name` can be kept and shown: 1 to 128 printable ASCII characters.
pub(super) fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
}

/// Whether `text` is an address that may be passed on as it came: its own serialised form, so that it can hold no space,
/// line or tag, of at most 2048 characters.
pub(super) fn is_address(text: &str) -> bool {
    text.len() <= 2_048 && Url::parse(text).is_ok_and(|url| is_web(&url) && url.as_str() == text)
}

/// The body as the contract's shape; anything else is garbage.
pub(super) fn parse<T: DeserializeOwned>(reply: &Reply) -> Result<T, Cause> {
    serde_json::from_slice(&reply.body).map_err(|_| Cause::Garbage)
}

/// What a read yielded: only a 200 that `check` accepts is an answer.
pub(super) fn answer<T>(raw: Raw, check: impl FnOnce(&Reply) -> Result<T, Cause>) -> Answer<T> {
    match raw {
        Raw::NotSent(trouble) | Raw::NoAnswer(trouble) => Err(trouble),
        Raw::Answered(reply) if reply.status == 200 => check(&reply).map_err(|cause| trouble(cause, &reply)),
        Raw::Answered(reply) => Err(trouble(cause_of(reply.status), &reply)),
    }
}

fn error_code(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct ErrorBody {
        error_code: String,
    }
    let body: ErrorBody = serde_json::from_slice(body).ok()?;
    is_word(&body.error_code).then_some(body.error_code)
}
