//! Every URL that a setting or option names is judged here.
//!
//! *Invariant*: one that was taken has no user name and no password; only the database's may have them. It is shown
//! and logged as [`shown_url`] says, without the values of its query. What is said of one that was refused shows
//! nothing of it.

use url::Url;

/// Why a URL can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// A parameter that a database of this kind does not have, by its name.
    #[error("has the unknown parameter {0}")]
    Parameter(String),
}

/// Every parameter that the driver takes from a database's URL; it logs any other with its value.
const POSTGRES_PARAMETERS: [&str; 18] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];
const SQLITE_PARAMETERS: [&str; 4] = ["mode", "cache", "immutable", "vfs"];

/// A URL as people and logs may see it: scheme, host and path as they are, of the rest only that it is there.
pub fn shown_url(text: &str) -> String {
    let (text, fragment) = text.split_once('#').map_or((text, ""), |(text, _)| (text, "#…"));
    let (text, query) = text.split_once('?').map_or((text, ""), |(text, _)| (text, "?…"));
    let Some((scheme, rest)) = text.split_once("://") else { return format!("{text}{query}{fragment}") };
    let (authority, path) = rest.find('/').and_then(|at| rest.split_at_checked(at)).unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(_, host)| ("…@", host));
    format!("{scheme}://{user}{host}{path}{query}{fragment}")
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

/// The database's, as far as it is ours to judge: its kind, and the names of its parameters.
pub(super) fn database_url(text: &str) -> Result<(), UrlFault> {
    let postgres = ["postgres:", "postgresql:"].iter().any(|scheme| text.starts_with(scheme));
    if !postgres && !text.starts_with("sqlite:") {
        return Err(UrlFault::NotDatabase);
    }
    let Some((_, query)) = text.split_once('?') else { return Ok(()) };
    let known = |name: &str| {
        if !postgres {
            return SQLITE_PARAMETERS.contains(&name);
        }
        POSTGRES_PARAMETERS.contains(&name) || (name.starts_with("options[") && name.ends_with(']'))
    };
    let mut parameters = url::form_urlencoded::parse(query.as_bytes());
    match parameters.find(|(name, _)| !known(name)) {
        None => Ok(()),
        Some((name, _)) => Err(UrlFault::Parameter(named(&name, query))),
    }
}

/// A parameter's name, unless it may be a piece of a password whose `?` or `&` was not escaped.
fn named(name: &str, query: &str) -> String {
    let word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if word && query.contains(&format!("{name}=")) && !query.contains('@') {
        name.to_owned()
    } else {
        "whose name is none; in a password ? & and # are written %3F %26 %23".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::shown_url;

    #[test]
    fn of_a_query_and_a_user_only_their_being_there_is_shown() {
        for (url, shown) in [
            ("https://hooks.example:8443/a/b", "https://hooks.example:8443/a/b"),
            ("https://hooks.example/a?token=SECRET&b", "https://hooks.example/a?…"),
            ("https://hooks.example?SECRET/x", "https://hooks.example?…"),
            ("https://hooks.example/a#SECRET?x", "https://hooks.example/a#…"),
            ("https://u:SEC@RET@hooks.example/a@b", "https://…@hooks.example/a@b"),
            ("postgres://SECRET@db.example/desk?sslmode=require", "postgres://…@db.example/desk?…"),
            ("sqlite://gateway.db", "sqlite://gateway.db"),
            ("https://issuer.example", "https://issuer.example"),
            ("no URL", "no URL"),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }
}
