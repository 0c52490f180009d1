//! What the tests stand on.

pub(crate) mod database;
pub(crate) mod payments;
mod postgres;
