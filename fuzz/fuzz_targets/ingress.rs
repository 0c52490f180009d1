//! Arbitrary bytes as a request body: see `ingress.rs` one folder up for what must hold.
#![no_main]

#[path = "../ingress.rs"]
mod ingress;

libfuzzer_sys::fuzz_target!(|body: &[u8]| ingress::check(body));
