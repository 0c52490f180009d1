//! The token in the `Authorization` header, and nowhere else.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use super::fault::AuthFault;

/// The longest token that is looked at.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The bearer token of a request (RFC 6750 §2.1). A token in the query is not looked for.
///
/// *Errors*: `Missing` where no bearer credentials were sent; the others where they can't be used.
pub fn bearer(headers: &HeaderMap) -> Result<&str, AuthFault> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let line = lines.next().ok_or(AuthFault::Missing)?;
    if lines.next().is_some() {
        // A proxy and we might each choose another one.
        return Err(AuthFault::SeveralHeaders);
    }
    if line.len() > MAX_TOKEN_BYTES + 16 {
        return Err(AuthFault::TooLong);
    }
    let text = line.to_str().map_err(|_| AuthFault::Malformed)?.trim();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(AuthFault::Missing);
    }
    let token = token.trim_start_matches(' ');
    if token.len() > MAX_TOKEN_BYTES {
        return Err(AuthFault::TooLong);
    }
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        return Err(AuthFault::Malformed);
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(lines: &[&str]) -> Result<String, AuthFault> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(AUTHORIZATION, HeaderValue::from_str(line).unwrap());
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        for line in ["Bearer a.b.c", "bearer a.b.c", "BEARER a.b.c", "Bearer   a.b.c"] {
            assert_eq!(of(&[line]).unwrap(), "a.b.c", "{line}");
        }
    }

    #[test]
    fn what_is_not_one_bearer_token_is_refused() {
        assert_eq!(of(&[]), Err(AuthFault::Missing));
        assert_eq!(of(&["Basic dTpw"]), Err(AuthFault::Missing));
        assert_eq!(of(&["Bearer"]), Err(AuthFault::Malformed));
        assert_eq!(of(&["Bearer a.b.c junk"]), Err(AuthFault::Malformed));
        assert_eq!(of(&["Bearer a.b.c,Bearer d"]), Err(AuthFault::Malformed));
    }

    #[test]
    fn two_headers_are_never_the_first_one() {
        assert_eq!(of(&["Bearer a.b.c", "Bearer junk"]), Err(AuthFault::SeveralHeaders));
        assert_eq!(of(&["Bearer junk", "Bearer a.b.c"]), Err(AuthFault::SeveralHeaders));
    }

    #[test]
    fn a_token_of_16_kib_is_the_longest() {
        let longest = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES));
        assert!(of(&[&longest]).is_ok());
        assert_eq!(of(&[&format!("{longest}a")]), Err(AuthFault::TooLong));
        assert_eq!(of(&[&format!("Bearer a.b.c{}", " ".repeat(100_000))]), Err(AuthFault::TooLong));
    }
}
