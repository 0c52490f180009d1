//! The 401 and 403 that a client can act on (RFC 6750 §3, RFC 9728 §5.1).

use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use url::Url;

use super::auth::AuthFault;
use super::problem::{problem, problem_as};
use crate::domain::{Code, Refusal};

/// The path of the metadata at the root of a host.
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// What every challenge of one resource says.
#[derive(Debug, Clone)]
pub struct Challenge {
    metadata_url: String,
    scope: String,
}

impl Challenge {
    /// Challenges for `resource`; `scope` is the scope each token needs, empty for none.
    pub fn new(resource: &str, scope: &str) -> Self {
        Self { metadata_url: metadata_url(resource), scope: scope.to_owned() }
    }

    /// Where the resource's metadata is.
    pub fn metadata_url(&self) -> &str {
        &self.metadata_url
    }

    /// 401 with a challenge; 503 when the fault is ours, so that no client throws a good token away.
    pub fn unauthenticated(&self, fault: AuthFault, request_id: &str) -> Response {
        let refusal = Refusal::from(fault);
        if fault == AuthFault::KeysUnavailable {
            return problem_as(StatusCode::SERVICE_UNAVAILABLE, &refusal, request_id);
        }
        // A client that sent nothing is told where to go, not that it did wrong (RFC 6750 §3.1).
        let error = (fault != AuthFault::Missing).then_some("invalid_token");
        self.with_header(problem(&refusal, request_id), error, &refusal.message)
    }

    /// 403 with a challenge for the scope that the token lacks.
    pub fn insufficient_scope(&self, request_id: &str) -> Response {
        let refusal = Refusal::new(Code::ForbiddenTool, format!("the token lacks the scope {}", self.scope));
        self.with_header(problem(&refusal, request_id), Some("insufficient_scope"), &refusal.message)
    }

    fn with_header(&self, mut response: Response, error: Option<&str>, description: &str) -> Response {
        let mut parts = vec![format!("resource_metadata={}", quoted(&self.metadata_url))];
        if let Some(error) = error {
            parts.push(format!("error={}", quoted(error)));
            parts.push(format!("error_description={}", quoted(description)));
        }
        if !self.scope.is_empty() {
            parts.push(format!("scope={}", quoted(&self.scope)));
        }
        if let Ok(value) = HeaderValue::from_str(&format!("Bearer {}", parts.join(", "))) {
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        response
    }
}

/// The metadata's address: the well-known path put before the resource's own (RFC 9728 §3.1).
fn metadata_url(resource: &str) -> String {
    let Ok(mut url) = Url::parse(resource) else { return METADATA_PATH.to_owned() };
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{METADATA_PATH}{path}"));
    url.to_string()
}

/// A quoted-string of what RFC 6750 allows in one: printable ASCII without `"` and `\`.
fn quoted(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if matches!(c, ' '..='~') && c != '"' && c != '\\' { c } else { '\'' }).collect();
    format!("\"{plain}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(response: &Response) -> &str {
        response.headers()[WWW_AUTHENTICATE].to_str().unwrap()
    }

    const METADATA: &str = "resource_metadata=\"https://pay.example/.well-known/oauth-protected-resource/mcp\"";

    #[test]
    fn who_sent_nothing_is_shown_the_way() {
        let response = Challenge::new("https://pay.example/mcp", "").unauthenticated(AuthFault::Missing, "req_1");
        assert_eq!(response.status(), 401);
        assert_eq!(header(&response), format!("Bearer {METADATA}"));
    }

    #[test]
    fn a_rejected_token_is_named_invalid_and_shown_the_way_too() {
        for fault in [AuthFault::Expired, AuthFault::SeveralHeaders, AuthFault::Malformed, AuthFault::AgentCombined] {
            let response = Challenge::new("https://pay.example/mcp", "pay").unauthenticated(fault, "req_1");
            assert_eq!(response.status(), 401);
            let header = header(&response);
            assert!(header.contains(METADATA) && header.contains("error=\"invalid_token\""), "{header}");
            assert!(header.ends_with("scope=\"pay\""), "{header}");
        }
    }

    #[test]
    fn our_own_trouble_is_no_challenge() {
        let response = Challenge::new("https://pay.example/mcp", "").unauthenticated(AuthFault::KeysUnavailable, "r");
        assert_eq!(response.status(), 503);
        assert!(response.headers().get(WWW_AUTHENTICATE).is_none());
        assert!(response.headers().contains_key("retry-after"));
    }

    #[test]
    fn a_missing_scope_is_403_and_names_it() {
        let response = Challenge::new("https://pay.example/mcp", "pay").insufficient_scope("req_1");
        assert_eq!(response.status(), 403);
        assert!(header(&response).contains("error=\"insufficient_scope\""));
        assert!(header(&response).contains("scope=\"pay\""));
    }

    #[test]
    fn each_parameter_is_a_quoted_string() {
        assert_eq!(quoted("a \"b\" \\ \u{e9}"), "\"a 'b' ' '\"");
    }
}
