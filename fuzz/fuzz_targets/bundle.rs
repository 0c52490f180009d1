//! Arbitrary bytes as a bundle of evidence: see `bundle.rs` one folder up for what must hold.
#![no_main]

#[path = "../bundle.rs"]
mod bundle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bundle::check(bytes));
