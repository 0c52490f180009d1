//! The audit: signed checkpoints, what a verifier finds and where, how fast the chain is.

mod bench;
mod checkpoints;
mod command;
mod completeness;
mod hands;
mod meanwhile;
mod note;
mod story;
mod tampering;
mod ways;
