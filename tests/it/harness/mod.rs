//! What tests stand on.

pub(crate) mod database;
mod postgres;
