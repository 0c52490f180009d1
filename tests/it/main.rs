//! One test binary; one file a subject.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests say what they expect by failing"
)]

mod domain_outcomes;
mod domain_properties;
mod domain_transitions;
mod domain_values;
mod harness;
mod proof;
