//! The inbound HTTP edge: who calls, in what form, and what they are told when it does not fit.

pub mod auth;
pub mod callbacks;
pub mod challenge;
pub mod envelope;
mod evidence;
pub mod gate;
pub mod health;
pub mod json;
pub mod limit;
pub mod mcp;
pub mod negotiate;
pub mod origin;
pub mod problem;
pub mod router;
pub mod serve;
mod traffic;
pub mod wellknown;
