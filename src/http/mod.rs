//! The inbound HTTP edge: who calls, in what form, and what they are told when it does not fit.

pub mod auth;
