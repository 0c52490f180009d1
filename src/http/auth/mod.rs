//! Who calls: bearer tokens, the keys that verify them, and the principal they name.
//!
//! *Invariant*: a [`Principal`](crate::domain::Principal) leaves this module only for a token whose
//! signature, issuer, audience and times were all checked; algorithms and keys come from our
//! configuration, never from the token. No token is ever logged or echoed.

mod bearer;
mod claims;
mod fault;
mod fetch;
mod keys;
mod mint;
mod verify;

#[cfg(test)]
mod tests;

pub use bearer::{MAX_TOKEN_BYTES, bearer};
pub use fault::AuthFault;
pub use keys::{KeySet, KeySource};
pub use mint::{Grant, Mint, MintFault, jwks_of};
pub use verify::Verifier;
