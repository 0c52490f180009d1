//! stub
/// x
pub fn transition(_status: &'static str) {}
/// x
pub fn effect(_kind: &'static str, _outcome: &'static str) {}
