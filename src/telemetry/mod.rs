//! stub
pub mod metrics;
pub mod trace_context;
