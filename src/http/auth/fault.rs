//! Why a caller was not let in, as a closed list with a stable word for each.

use crate::domain::{Code, Refusal};

/// Why a request carries no principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthFault {
    /// No bearer credentials at all.
    #[error("send an access token in the Authorization header, as \"Bearer <token>\"")]
    Missing,
    /// More than one `Authorization` header: none of them is chosen.
    #[error("there is more than one Authorization header; send one")]
    SeveralHeaders,
    /// Longer than [`MAX_TOKEN_BYTES`](super::MAX_TOKEN_BYTES).
    #[error("the token is longer than 16 KiB")]
    TooLong,
    /// Not a JWT in compact form, or a claim of the wrong type.
    #[error("the token is not a well-formed JWT")]
    Malformed,
    /// A `typ` of another kind of token.
    #[error("the token is of another type than an access token")]
    Type,
    /// An algorithm that is not on the list, or does not fit the key.
    #[error("the token is signed with an algorithm that is not accepted")]
    Algorithm,
    /// A `crit` header: no extension is understood here.
    #[error("the token marks a header extension as critical that is not understood")]
    Critical,
    /// No `kid` although the issuer has several keys.
    #[error("the token names no key (kid) and the issuer has several")]
    NoKeyId,
    /// No key of that `kid` for that algorithm.
    #[error("the token is signed with a key that the issuer does not publish")]
    UnknownKey,
    /// The issuer's keys could not be loaded yet: our trouble, not the token's.
    #[error("the issuer's keys can't be loaded at the moment; try again shortly")]
    KeysUnavailable,
    /// The signature does not verify.
    #[error("the token's signature does not verify")]
    Signature,
    /// `iss` is missing or another issuer.
    #[error("the token is from another issuer")]
    Issuer,
    /// `aud` is missing or does not name this resource.
    #[error("the token is not for this resource; ask for one with this resource as its audience")]
    Audience,
    /// No `exp`.
    #[error("the token has no expiry")]
    NoExpiry,
    /// Past `exp`.
    #[error("the token has expired; get a new one")]
    Expired,
    /// Before `nbf`.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `sub` is missing, empty or unusable.
    #[error("the token names no usable subject (sub)")]
    Subject,
    /// No tenant, or one that is not a tenant's name.
    #[error("the token names no usable tenant")]
    Tenant,
    /// A client that is not a name.
    #[error("the token names no usable client")]
    Client,
    /// `agent` together with another role: who proposes must not approve.
    #[error("the token combines the role agent with another; an agent never holds a second role")]
    AgentCombined,
}

impl AuthFault {
    /// One word for logs and metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::SeveralHeaders => "several_headers",
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Type => "type",
            Self::Algorithm => "algorithm",
            Self::Critical => "critical",
            Self::NoKeyId => "no_key_id",
            Self::UnknownKey => "unknown_key",
            Self::KeysUnavailable => "keys_unavailable",
            Self::Signature => "signature",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::NoExpiry => "no_expiry",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Subject => "subject",
            Self::Tenant => "tenant",
            Self::Client => "client",
            Self::AgentCombined => "agent_combined",
        }
    }
}

impl From<AuthFault> for Refusal {
    fn from(fault: AuthFault) -> Self {
        let code = if fault == AuthFault::Expired { Code::TokenExpired } else { Code::Unauthenticated };
        let refusal = Self::new(code, fault.to_string());
        if fault == AuthFault::KeysUnavailable { refusal.after_ms(5_000) } else { refusal }
    }
}
