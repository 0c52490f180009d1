//! A fault of a policy file: the line it is on, and why it is one.

use std::fmt::Display;

use toml::Spanned;

/// A policy file that can't be used: where and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct PolicyFault {
    line: usize,
    why: String,
}

/// The text of a file, to find lines in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'a>(pub(super) &'a str);

impl Lines<'_> {
    fn of(self, offset: usize) -> usize {
        self.0.bytes().take(offset).filter(|byte| *byte == b'\n').count().saturating_add(1)
    }

    /// What is wrong with the value at `at`.
    pub(super) fn fault<T, V>(self, at: &Spanned<V>, why: impl Display) -> Result<T, PolicyFault> {
        Err(PolicyFault { line: self.of(at.span().start), why: why.to_string() })
    }

    /// What the reader of TOML said; about the whole file when it names no place.
    pub(super) fn unread(self, err: &toml::de::Error) -> PolicyFault {
        PolicyFault { line: self.of(err.span().map_or(0, |span| span.start)), why: err.message().to_owned() }
    }
}
