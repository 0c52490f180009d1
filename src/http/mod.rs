//! The inbound HTTP edge: who calls, in what form, and what they are told when it does not fit.

pub mod auth;
pub mod challenge;
pub mod envelope;
pub mod gate;
pub mod json;
pub mod limit;
pub mod negotiate;
pub mod origin;
pub mod problem;
pub mod serve;
pub mod wellknown;
