//! The way out: each adapter speaks one contract and says what an answer proves.
//!
//! [`SignerClient`] implements the signer service's port (docs/signer-contract.md) and
//! [`RailClient`] the rail's (docs/rail-contract.md). Both stand on one HTTP client that sends a
//! side effect at most once a try and never again behind anyone's back. [`WebhookClient`] tells others
//! of events (docs/webhooks.md); it has a client of its own for each target, which chooses addresses.
//! [`CheckpointSink`] keeps the audit's checkpoints.
//!
//! *Invariant*: nothing here decides about a payment. An answer is told apart by what it proves,
//! and what proves nothing is `Unknown`.

mod address;
mod breaker;
mod checkpoint;
mod http;
mod rail;
#[cfg(test)]
mod script;
mod signer;
mod verdict;
mod webhook;
mod wire;

#[cfg(test)]
mod breaker_tests;
#[cfg(test)]
mod cut_tests;
#[cfg(test)]
mod http_tests;
#[cfg(test)]
mod rail_tests;
#[cfg(test)]
mod sandbox_tests;
#[cfg(test)]
mod signer_tests;
#[cfg(test)]
mod webhook_tests;

pub use breaker::BreakerPlan;
pub use checkpoint::CheckpointSink;
pub use http::Endpoint;
pub use rail::RailClient;
pub use signer::SignerClient;
pub use webhook::WebhookClient;
