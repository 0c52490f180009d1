//! In which language a page speaks: what the browser asks for, among those there are.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

/// A text in each language there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Both {
    en: &'static str,
    zh: &'static str,
}

/// A text: English, then Chinese; the one that forgets a language, or a gap in it, does not compile.
pub(super) const fn both(en: &'static str, zh: &'static str) -> Both {
    assert!(!en.is_empty() && en.is_ascii(), "no English");
    assert!(!zh.is_ascii(), "no Chinese");
    assert!(contains(en.as_bytes(), b"{}") == contains(zh.as_bytes(), b"{}"), "a gap in one language only");
    Both { en, zh }
}

const fn contains(text: &[u8], part: &[u8]) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_first() {
        if starts(rest, part) {
            return true;
        }
        rest = after;
    }
    false
}

const fn starts(mut text: &[u8], mut part: &[u8]) -> bool {
    while let Some((wanted, part_left)) = part.split_first() {
        match text.split_first() {
            Some((found, text_left)) if *found == *wanted => (text, part) = (text_left, part_left),
            _ => return false,
        }
    }
    true
}

/// A language of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// English, also for whoever asks for neither.
    English,
    /// Chinese, in simplified characters.
    Chinese,
}

impl Language {
    /// Its tag (BCP 47).
    pub(super) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-Hans",
        }
    }

    /// The text in this language.
    pub(super) const fn say(self, text: Both) -> &'static str {
        match self {
            Self::English => text.en,
            Self::Chinese => text.zh,
        }
    }

    /// The text with `value` in its gap, `{}`.
    pub(super) fn fill(self, text: Both, value: &str) -> String {
        self.say(text).replacen("{}", value, 1)
    }

    /// The one that an `Accept-Language` prefers (RFC 9110, section 12.5.4).
    fn preferred(asked: &str) -> Self {
        let mut best = (0.0, Self::English);
        for range in asked.split(',').take(MOST_RANGES) {
            let mut parts = range.split(';');
            let tag = parts.next().unwrap_or_default().trim();
            let weight = parts.find_map(|part| part.trim().strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
            let language = match tag.split('-').next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "zh" => Self::Chinese,
                "en" | "*" => Self::English,
                _ => continue,
            };
            if let Some(weight) = weight.filter(|weight: &f32| (0.0..=1.0).contains(weight) && *weight > best.0) {
                best = (weight, language);
            }
        }
        best.1
    }
}

/// More languages than this nobody reads.
const MOST_RANGES: usize = 32;

impl<S: Send + Sync> FromRequestParts<S> for Language {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let asked = parts.headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        Ok(Self::preferred(asked.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_that_is_preferred_of_those_there_are() {
        use Language::{Chinese, English};
        for (asked, spoken) in [
            ("", English),
            ("en", English),
            ("zh", Chinese),
            ("zh-CN,zh;q=0.9,en;q=0.8", Chinese),
            ("ZH-hant-TW", Chinese),
            ("en-GB,en;q=0.9,zh;q=0.8", English),
            ("de,zh;q=0.5,en;q=0.4", Chinese),
            ("de,fr", English),
            ("zh;q=0", English),
            ("zh;q=2,en;q=0.1", English),
            ("zh;q=x", English),
            ("*;q=0.1,zh;q=0.2", Chinese),
            (" zh ; q=0.5 , en ; q=0.6", English),
            (",,;;q=,zh", Chinese),
        ] {
            assert_eq!(Language::preferred(asked), spoken, "{asked:?}");
        }
    }
}
