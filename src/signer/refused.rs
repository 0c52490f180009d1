//! What an API request is answered: a JSON reply, or a refusal with a stable code.
//!
//! A refusal carries words of this service only. The database's own words go to the log, once, where
//! a [`StoreFault`] becomes a refusal.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::store::StoreFault;

/// A JSON answer.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// HTTP status.
    pub(super) status: u16,
    /// The JSON body.
    pub(super) body: String,
}

impl Reply {
    /// The answer `status` with `value`.
    pub(super) fn json(status: u16, value: &impl Serialize) -> Result<Self, Refused> {
        match serde_json::to_string(value) {
            Ok(body) => Ok(Self { status, body }),
            Err(error) => {
                tracing::error!(%error, "an answer could not be written as JSON");
                Err(Refused::internal())
            }
        }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], self.body).into_response()
    }
}

/// A refusal: `{"error_code", "error_message"}` with a 4xx or 5xx status.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    /// HTTP status.
    pub(super) status: u16,
    /// The stable code.
    pub(super) code: &'static str,
    /// What is wrong and, where it helps, what to do.
    pub(super) message: Cow<'static, str>,
    /// After how many seconds it may be asked again.
    pub(super) retry_after: Option<u64>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error_code: &'a str,
    error_message: &'a str,
}

impl Refused {
    /// A refusal.
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    /// 400: the request can't be read.
    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "invalid_request", message)
    }

    /// 404.
    pub(super) fn not_found(code: &'static str, message: &'static str) -> Self {
        Self::new(404, code, message)
    }

    /// 404 `unknown_payment`.
    pub(super) fn unknown_payment() -> Self {
        Self::not_found("unknown_payment", "no payment of that id")
    }

    /// 409.
    pub(super) fn conflict(code: &'static str, message: &'static str) -> Self {
        Self::new(409, code, message)
    }

    /// 422: well-formed, and not acceptable.
    pub(super) fn unacceptable(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(422, code, message)
    }

    /// 429: links to this payment were asked for too often.
    pub(super) fn too_many_links(wait: Duration) -> Self {
        let message = "too many links to this payment were asked for; use one that has not lapsed, or ask later";
        Self { retry_after: Some(wait.as_secs().saturating_add(1)), ..Self::new(429, "too_many_links", message) }
    }

    /// 500, without a word of why.
    pub(super) fn internal() -> Self {
        Self::new(500, "internal", "the signer service could not do this now; nothing was changed")
    }

    /// The refusal as a reply.
    fn reply(&self) -> Reply {
        let body = ErrorBody { error_code: self.code, error_message: &self.message };
        Reply { status: self.status, body: serde_json::to_string(&body).unwrap_or_default() }
    }
}

impl From<StoreFault> for Refused {
    fn from(fault: StoreFault) -> Self {
        tracing::error!(error = %fault, "the signer service's database failed");
        Self::internal()
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.reply().into_response();
        if self.status == 401 {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // For who turns it into a page.
        response.extensions_mut().insert(self);
        response
    }
}

/// The whole body, or why it can't be had.
pub(super) fn body_of(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Refused> {
    body.map_err(|rejection| match rejection.status().as_u16() {
        413 => Refused::new(413, "body_too_large", "the body is larger than 256 KiB"),
        _ => Refused::invalid("the body could not be read"),
    })
}

/// Reads a JSON body. Unknown and repeated names are refused, by the types it is read into.
pub(super) fn json_of<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        // serde's words may quote the body, so only the kind and the place are told.
        let what = match error.classify() {
            serde_json::error::Category::Data => "a field is missing, unknown, repeated or of the wrong type",
            _ => "not JSON",
        };
        Refused::invalid(format!("the body is not what is expected here: {what}, near line {}", error.line()))
    })
}
