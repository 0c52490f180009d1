//! stub
/// x
pub fn current_traceparent() -> String {
    String::new()
}
/// x
pub fn add_link(_span: &tracing::Span, _tp: &str) {}
