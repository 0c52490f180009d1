//! Sign links: addresses that lapse, and never a capability.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;

use super::Desk;
use super::api::Segment;
use super::refused::{Refused, Reply};
use super::settings::SignerFault;
use super::store::{KeptPayment, NewLink, Session, StoreFault};
use crate::config::base_url;
use crate::domain::Timestamp;
use crate::proof::{RelyingParty, b64url};

/// Where people reach the service.
#[derive(Debug)]
pub(super) struct Address {
    /// The public URL without a slash at its end.
    base: String,
    /// Its path, for addresses within a page.
    path: String,
    /// Its origin, as a browser names it.
    origin: String,
    /// Its host.
    host: String,
}

impl Address {
    /// Reads the public URL.
    pub(super) fn parse(public_url: &str) -> Result<Self, SignerFault> {
        let url = base_url(public_url).map_err(|why| SignerFault::setting("public_url", why))?;
        Ok(Self {
            base: url.as_str().trim_end_matches('/').to_owned(),
            path: url.path().trim_end_matches('/').to_owned(),
            origin: url.origin().ascii_serialization(),
            host: url.host_str().unwrap_or_default().to_owned(),
        })
    }

    /// The page of a link, in full.
    pub(super) fn page(&self, token: &str) -> String {
        format!("{}/sign/{token}", self.base)
    }

    /// The page of an invitation, in full.
    pub(super) fn enrolment(&self, token: &str) -> String {
        format!("{}/enrol/{token}", self.base)
    }

    /// Whom passkeys are made for: this host, at this origin.
    pub(super) fn party(&self) -> RelyingParty {
        RelyingParty { id: self.host.clone(), origins: [self.origin.clone()].into() }
    }

    /// `path` as a page of the service refers to it.
    pub(super) fn within(&self, path: &str) -> String {
        format!("{}{path}", self.path)
    }

    /// Whether pages travel encrypted, so that a cookie may ask for it.
    pub(super) fn is_secure(&self) -> bool {
        self.base.starts_with("https:")
    }

    /// Whether a browser's `Origin` is the service's own.
    pub(super) fn is_origin(&self, origin: &str) -> bool {
        self.origin == origin
    }
}

/// A link that was just issued.
#[derive(Debug, Serialize)]
pub(super) struct Issued {
    /// The page's address.
    pub(super) url: String,
    /// When it lapses, RFC 3339.
    expires_at: String,
    /// The page's address as an image.
    qr_url: String,
}

/// Issues a link to the payment's current round: 32 random bytes, of which the hash is kept.
///
/// `signer_id` is whose message it goes into; empty where it was asked for by the gateway.
pub(super) async fn issue(
    desk: &Desk,
    session: &mut Session,
    payment: &KeptPayment,
    signer_id: &str,
    now: Timestamp,
) -> Result<Issued, StoreFault> {
    let mut token = [0; 32];
    desk.entropy.fill(&mut token);
    let token = b64url(token);
    let lasts = if signer_id.is_empty() { desk.link_ttl } else { desk.reaching.message_links };
    let expires_at = now.plus(lasts).to_millis();
    session.add_link(&token, payment, &NewLink { signer_id, issued_at: now, expires_at }).await?;
    let url = desk.address.page(&token);
    let qr_url = format!("{url}/qr.svg");
    Ok(Issued { url, expires_at: expires_at.rfc3339(), qr_url })
}

/// `GET /api/v1/payments/{id}/sign-link`.
pub(super) async fn get(State(desk): State<Arc<Desk>>, Segment(id): Segment) -> Result<Reply, Refused> {
    let mut session = desk.store.write().await?;
    let payment = session.payment(&id).await?.ok_or_else(Refused::unknown_payment)?;
    let now = desk.now();
    let (most, within) = (desk.reaching.links, desk.reaching.links_within);
    let before = session.requested_links(&payment.id, now.minus(within), most).await?;
    if before.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
        let free = before.last().map_or(now, |oldest| Timestamp::from_micros(*oldest).plus(within));
        return Err(Refused::too_many_links(free.since(now)));
    }
    let issued = issue(&desk, &mut session, &payment, "", now).await?;
    session.commit().await?;
    Reply::json(200, &issued)
}
