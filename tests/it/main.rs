//! The tests of the house in one binary: one harness, one file or folder a subject.
//!
//! Run them with `cargo test`; every store test runs on both engines (`harness::database`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, and says where"
)]

mod flow_decisions;
mod flow_execution;
mod flow_main;
mod flow_unreachable;
mod harness;
mod schema;

mod store;
