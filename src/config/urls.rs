//! Every URL that a setting or option names is judged here.
//!
//! *Invariant*: one that was taken has no user name and no password, so it may be shown and logged; only the
//! database's may have them. What is said of one that was refused shows nothing of it.

use url::Url;

/// Why a URL can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// Not a URL, of another scheme, or without a host.
    #[error("must be an http or https URL")]
    NotWeb,
    /// With what is no part of an address.
    #[error("must have no user name, password or fragment")]
    More,
    /// With a query, where paths are put behind it.
    #[error("must have no query")]
    Query,
    /// With a path or query, where only scheme, host and port have a meaning.
    #[error("must be scheme, host and port alone")]
    NotBare,
    /// A database of another kind.
    #[error("must be sqlite://… or postgres://…")]
    NotDatabase,
}

/// Whether a URL leads to a server on the web.
pub fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

/// An address as a whole, asked or shown as it stands.
pub fn web_url(text: &str) -> Result<Url, UrlFault> {
    let url = Url::parse(text).ok().filter(is_web).ok_or(UrlFault::NotWeb)?;
    let more = !url.username().is_empty() || url.password().is_some() || url.fragment().is_some();
    if more { Err(UrlFault::More) } else { Ok(url) }
}

/// An address that paths are put behind.
pub fn base_url(text: &str) -> Result<Url, UrlFault> {
    let url = web_url(text)?;
    if url.query().is_some() { Err(UrlFault::Query) } else { Ok(url) }
}

/// Scheme, host and port.
pub(super) fn bare_url(text: &str) -> Result<Url, UrlFault> {
    let url = web_url(text)?;
    if url.path() == "/" && url.query().is_none() { Ok(url) } else { Err(UrlFault::NotBare) }
}

/// The database's, as far as it is ours to judge.
pub(super) fn database_url(text: &str) -> Result<(), UrlFault> {
    let known = ["sqlite:", "postgres:", "postgresql:"].iter().any(|scheme| text.starts_with(scheme));
    if known { Ok(()) } else { Err(UrlFault::NotDatabase) }
}
