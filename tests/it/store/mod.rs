//! The store's promises, each on both engines.

mod approvals;
mod audit;
mod clocks;
mod effects;
mod engine;
mod leases;
mod listing;
mod payments;
pub(crate) mod sample;
mod uniques;
