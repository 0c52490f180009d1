//! Accept and Content-Type, negotiated as RFC 9110 says, then spelled as rmcp wants them.

use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};

/// Why the request's form does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormFault {
    /// 406.
    #[error("accept application/json or text/event-stream")]
    NotAcceptable,
    /// 415.
    #[error("send Content-Type: application/json, in UTF-8 and not compressed")]
    UnsupportedMediaType,
}

/// Checks both headers and rewrites them to the literal forms that rmcp looks for.
///
/// *Errors*: the Content-Type first, since a body of another kind is not read at all.
pub fn negotiate(headers: &mut HeaderMap) -> Result<(), FormFault> {
    if !is_json(headers) {
        return Err(FormFault::UnsupportedMediaType);
    }
    if !accepts_ours(headers) {
        return Err(FormFault::NotAcceptable);
    }
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(())
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let Ok(text) = line.to_str() else { return false };
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    let utf8 = parts.filter_map(|part| part.split_once('=')).all(|(name, value)| {
        !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    let plain = headers.get_all(CONTENT_ENCODING).iter().all(|line| line.as_bytes().eq_ignore_ascii_case(b"identity"));
    essence && utf8 && plain
}

/// Whether one of the two types that we answer in is acceptable. No Accept means anything is.
fn accepts_ours(headers: &HeaderMap) -> bool {
    let ranges: Vec<Range> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| unquoted(line, ','))
        .filter_map(Range::parse)
        .collect();
    let nothing_said = headers.get_all(ACCEPT).iter().all(|line| line.as_bytes().trim_ascii().is_empty());
    nothing_said || acceptable(&ranges, "application", "json") || acceptable(&ranges, "text", "event-stream")
}

/// The most specific range that matches decides (RFC 9110 §12.5.1).
fn acceptable(ranges: &[Range], main: &str, sub: &str) -> bool {
    ranges
        .iter()
        .filter_map(|range| range.specificity(main, sub).map(|rank| (rank, range.wanted)))
        .max_by_key(|(rank, wanted)| (*rank, *wanted))
        .is_some_and(|(_, wanted)| wanted)
}

#[derive(Debug)]
struct Range {
    main: String,
    sub: String,
    wanted: bool,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = unquoted(text, ';');
        let (main, sub) = parts.next()?.trim().split_once('/')?;
        let mut wanted = true;
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            if name.trim().eq_ignore_ascii_case("q") {
                let q: f64 = value.trim().parse().ok().filter(|q| (0.0..=1.0).contains(q))?;
                wanted = q > 0.0;
            }
        }
        Some(Self { main: main.to_ascii_lowercase(), sub: sub.to_ascii_lowercase(), wanted })
    }

    /// How closely this range matches a type: 2 exactly, 1 by main type, 0 by `*/*`.
    fn specificity(&self, main: &str, sub: &str) -> Option<u8> {
        match (self.main.as_str(), self.sub.as_str()) {
            ("*", "*") => Some(0),
            (own, "*") if own == main => Some(1),
            (own, exact) if own == main && exact == sub => Some(2),
            _ => None,
        }
    }
}

/// The parts of `text` between separators that stand outside quotes.
fn unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |c| {
        inside ^= c == '"';
        c == separator && !inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &axum::http::HeaderName, lines: &[&str]) -> Result<HeaderMap, FormFault> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.remove(name);
        for line in lines {
            headers.append(name, HeaderValue::from_str(line).unwrap());
        }
        negotiate(&mut headers).map(|()| headers)
    }

    #[test]
    fn b01_every_usual_accept_works_and_is_rewritten() {
        let rows: [&[&str]; 13] = [
            &["application/json, text/event-stream"],
            &["text/event-stream, application/json"],
            &["text/event-stream;q=0.9, application/json;q=0.8"],
            &["*/*"],
            &["application/*, text/*"],
            &["Application/JSON, Text/Event-Stream"],
            &["application/json", "text/event-stream"],
            &["application/json"],
            &["text/event-stream"],
            &["text/html", "application/json;q=0.1"],
            &["text/html;x=\"a,b;q=0\", */*;q=0.1"],
            &["application/json;q=0, text/event-stream"],
            &[],
        ];
        for row in rows {
            let headers = with(&ACCEPT, row).unwrap();
            assert_eq!(headers[ACCEPT], "application/json, text/event-stream", "{row:?}");
            assert_eq!(headers.get_all(ACCEPT).iter().count(), 1);
        }
    }

    #[test]
    fn b01_what_we_cannot_answer_in_is_406() {
        for row in [
            "text/html",
            "application/json;q=0, text/event-stream;q=0",
            "*/*;q=0",
            "application/*;q=0, text/html",
            "*/*, application/json;q=0, text/event-stream;q=0.0",
            "application/json;q=abc",
            "application/jsonx",
        ] {
            assert_eq!(with(&ACCEPT, &[row]).unwrap_err(), FormFault::NotAcceptable, "{row}");
        }
    }

    #[test]
    fn b01_json_in_any_spelling_is_json() {
        for row in [
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            "APPLICATION/JSON",
            "application/json; charset=\"utf-8\"",
        ] {
            assert_eq!(with(&CONTENT_TYPE, &[row]).unwrap()[CONTENT_TYPE], "application/json", "{row}");
        }
    }

    #[test]
    fn b01_any_other_body_is_415() {
        for row in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json-seq",
            "",
            "application/json; charset=utf-16",
        ] {
            assert_eq!(with(&CONTENT_TYPE, &[row]).unwrap_err(), FormFault::UnsupportedMediaType, "{row}");
        }
        assert_eq!(with(&CONTENT_TYPE, &[]).unwrap_err(), FormFault::UnsupportedMediaType);
        let two = with(&CONTENT_TYPE, &["application/json", "text/plain"]);
        assert_eq!(two.unwrap_err(), FormFault::UnsupportedMediaType);
        assert_eq!(with(&CONTENT_ENCODING, &["gzip"]).unwrap_err(), FormFault::UnsupportedMediaType);
        assert!(with(&CONTENT_ENCODING, &["identity"]).is_ok());
    }
}
