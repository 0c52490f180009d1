//! Host and Origin allow-lists: the wall against DNS rebinding and foreign web pages.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use url::Url;

/// Names and origins that this server answers to.
#[derive(Debug, Clone)]
pub struct Origins {
    hosts: Vec<Authority>,
    origins: Vec<String>,
}

/// A host, with a port where one is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

/// Why a request is turned away before anything else is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OriginFault {
    /// The Host is missing, unreadable or not ours.
    #[error("the Host header is not a name of this server; see server.allowed_hosts")]
    Host,
    /// The Origin is not on the list.
    #[error("the Origin is not allowed; see server.allowed_origins")]
    Origin,
}

impl Origins {
    /// Loopback names, the host of `public_url` and `hosts`; an entry without a port means any.
    pub fn new(public_url: &str, hosts: &[String], origins: &[String]) -> Self {
        let own = Url::parse(public_url).ok().and_then(|url| url.host_str().map(str::to_owned));
        let names = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into_iter().chain(own);
        Self {
            hosts: names.chain(hosts.iter().cloned()).filter_map(|name| authority(&name)).collect(),
            origins: origins.iter().filter_map(|origin| normal(origin)).collect(),
        }
    }

    /// Checks the request's host (HTTP/1 header or HTTP/2 authority) and its origin.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), OriginFault> {
        let mut lines = headers.get_all(HOST).iter();
        let named = match (lines.next(), lines.next()) {
            (Some(line), None) => line.to_str().ok(),
            (None, _) => uri.authority().map(axum::http::uri::Authority::as_str),
            (Some(_), Some(_)) => None,
        };
        let host = named.and_then(authority).ok_or(OriginFault::Host)?;
        if !self.hosts.iter().any(|own| own.host == host.host && own.port.is_none_or(|port| Some(port) == host.port)) {
            return Err(OriginFault::Host);
        }
        let mut lines = headers.get_all(ORIGIN).iter();
        match (lines.next(), lines.next()) {
            (None, _) => Ok(()),
            (Some(line), None) => {
                let origin = line.to_str().ok().and_then(normal).ok_or(OriginFault::Origin)?;
                if self.origins.contains(&origin) { Ok(()) } else { Err(OriginFault::Origin) }
            }
            (Some(_), Some(_)) => Err(OriginFault::Origin),
        }
    }
}

fn authority(text: &str) -> Option<Authority> {
    let parsed: axum::http::uri::Authority = text.trim().parse().ok()?;
    if text.contains('@') {
        return None;
    }
    let host = parsed.host().trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then(|| Authority { host, port: parsed.port_u16() })
}

/// An origin in one spelling: lower case, default port left out. `null` is none.
fn normal(text: &str) -> Option<String> {
    let origin = Url::parse(text.trim()).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn verdict(host: &[&str], origin: &[&str]) -> Result<(), OriginFault> {
        let origins = Origins::new(
            "https://pay.example",
            &["alias.example".into(), "ported.example:8443".into()],
            &["https://app.example:443".into()],
        );
        let mut headers = HeaderMap::new();
        for line in host {
            headers.append(HOST, HeaderValue::from_str(line).unwrap());
        }
        for line in origin {
            headers.append(ORIGIN, HeaderValue::from_str(line).unwrap());
        }
        origins.check(&Uri::from_static("/mcp"), &headers)
    }

    #[test]
    fn our_own_names_are_answered_to() {
        for host in [
            "pay.example",
            "PAY.example:443",
            "alias.example:1",
            "ported.example:8443",
            "localhost:8080",
            "127.0.0.1:9",
            "[::1]:8080",
            "pay.example.",
        ] {
            assert_eq!(verdict(&[host], &[]), Ok(()), "{host}");
        }
    }

    #[test]
    fn foreign_missing_and_doubled_hosts_are_not() {
        for host in
            ["evil.example", "pay.example.evil.example", "ported.example", "ported.example:1", "a@pay.example", ""]
        {
            assert_eq!(verdict(&[host], &[]), Err(OriginFault::Host), "{host}");
        }
        assert_eq!(verdict(&[], &[]), Err(OriginFault::Host));
        assert_eq!(verdict(&["pay.example", "evil.example"], &[]), Err(OriginFault::Host));
    }

    #[test]
    fn an_http2_authority_counts_as_the_host() {
        let origins = Origins::new("https://pay.example", &[], &[]);
        let headers = HeaderMap::new();
        assert_eq!(origins.check(&Uri::from_static("https://pay.example/mcp"), &headers), Ok(()));
        assert_eq!(origins.check(&Uri::from_static("https://evil.example/mcp"), &headers), Err(OriginFault::Host));
    }

    #[test]
    fn only_listed_origins_pass_and_none_is_fine() {
        for origin in ["https://app.example", "https://APP.example:443"] {
            assert_eq!(verdict(&["pay.example"], &[origin]), Ok(()), "{origin}");
        }
        for origin in ["https://evil.example", "http://app.example", "https://app.example:8443", "null", "", "x"] {
            assert_eq!(verdict(&["pay.example"], &[origin]), Err(OriginFault::Origin), "{origin}");
        }
        let two = ["https://app.example", "https://evil.example"];
        assert_eq!(verdict(&["pay.example"], &two), Err(OriginFault::Origin));
    }
}
