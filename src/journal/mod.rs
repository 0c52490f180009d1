//! The write-ahead discipline: intent before, commit after, ask when in doubt.

pub mod ports;
mod recorded;

pub use recorded::Recorded;
#[cfg(test)]
pub(crate) use recorded::for_test;
