//! Push by an ntfy server: a POST to the topic, the title and where a tap leads in headers.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};

use super::{Channel, Letter, Missed};
use crate::config::base_url;

/// What a server takes as text; longer, it becomes an attachment that nobody opens.
const MOST_BYTES: usize = 4_000;

/// The channel.
pub(super) struct Ntfy {
    base: String,
    token: Option<SecretString>,
    within: Duration,
    client: reqwest::Client,
}

impl std::fmt::Debug for Ntfy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ntfy").field("within", &self.within).finish_non_exhaustive()
    }
}

impl Ntfy {
    pub(super) fn new(
        url: &str,
        token: Option<SecretString>,
        within: Duration,
        client: reqwest::Client,
    ) -> Result<Self, String> {
        let url = base_url(url).map_err(|why| format!("url {why}"))?;
        let token_fits = |token: &SecretString| token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic());
        if token.as_ref().is_some_and(|token| token.expose_secret().is_empty() || !token_fits(token)) {
            return Err("token must be visible ASCII characters".to_owned());
        }
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), token, within, client })
    }

    async fn post(&self, topic: &str, letter: &Letter) -> Result<(), Missed> {
        let mut request = self
            .client
            .post(format!("{}/{topic}", self.base))
            .timeout(self.within)
            .header("content-type", "text/plain; charset=utf-8")
            .header("title", header_text(&letter.title))
            .header("click", &letter.url)
            .body(cut(&letter.text, MOST_BYTES).to_owned());
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        let answer = request.send().await.map_err(|error| Missed::of_error(&error))?;
        if answer.status().is_success() { Ok(()) } else { Err(Missed::of_status(answer.status().as_u16())) }
    }
}

/// A text as a header can carry it (RFC 2047, which ntfy reads).
fn header_text(text: &str) -> String {
    if text.is_ascii() { text.to_owned() } else { format!("=?UTF-8?B?{}?=", STANDARD.encode(text)) }
}

/// The text up to `most` bytes, cut between characters.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

impl Channel for Ntfy {
    fn check(&self, to: &str) -> Result<(), &'static str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if (1..=64).contains(&to.len()) && to.chars().all(plain) {
            Ok(())
        } else {
            Err("an address is a topic: 1 to 64 of A-Z a-z 0-9 _ -")
        }
    }

    fn within(&self) -> Duration {
        self.within
    }

    fn send<'a>(&'a self, to: &'a str, letter: &'a Letter) -> BoxFuture<'a, Result<(), Missed>> {
        Box::pin(self.post(to, letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, most, left) in [("abc", 9, "abc"), ("abc", 2, "ab"), ("付款", 4, "付"), ("付", 2, ""), ("", 3, "")]
        {
            assert_eq!(cut(text, most), left);
        }
        assert_eq!(header_text("付款"), "=?UTF-8?B?5LuY5qy+?=");
    }
}
