//! Trace context that travels as text: in requests, in rows, across hours.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing::span::Id;
use tracing_opentelemetry::{OpenTelemetrySpanExt as _, get_otel_context};
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan as _;

/// The `traceparent` of the current span; empty when nothing is traced.
pub fn current_traceparent() -> String {
    traceparent_of(&Span::current())
}

/// The `traceparent` of `span`; empty when it is not traced. Starts the span's OpenTelemetry twin.
///
/// A span that is only logged, such as one of rmcp's, stands for the nearest one around it that is
/// traced.
pub fn traceparent_of(span: &Span) -> String {
    let own = span.with_subscriber(|(id, dispatch)| {
        let registry = dispatch.downcast_ref::<Registry>();
        let around = registry.and_then(|registry| registry.span(id)).map(|span| {
            let ids: Vec<Id> = span.scope().map(|span| span.id()).collect();
            ids
        });
        around.unwrap_or_else(|| vec![id.clone()]).iter().find_map(|id| {
            let context = get_otel_context(id, dispatch)?.span().span_context().clone();
            context.is_valid().then_some(context)
        })
    });
    own.flatten().map_or_else(String::new, |own| {
        format!("00-{}-{}-{:02x}", own.trace_id(), own.span_id(), own.trace_flags().to_u8())
    })
}

/// Makes the span that `traceparent` names the parent of `span`, which must not have been entered.
///
/// Returns whether the text was a trace context. Without one nothing changes.
pub fn set_parent(span: &Span, traceparent: &str) -> bool {
    let Some(remote) = parse(traceparent) else { return false };
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
    true
}

/// Links `span` to the span that `traceparent` names. Without a trace context nothing changes.
pub fn add_link(span: &Span, traceparent: &str) {
    if let Some(remote) = parse(traceparent) {
        span.add_link(remote);
    }
}

/// Whether `text` is a W3C `traceparent`.
pub fn is_traceparent(text: &str) -> bool {
    parse(text).is_some()
}

fn parse(text: &str) -> Option<SpanContext> {
    if text.len() != 55 {
        return None;
    }
    let carrier = HashMap::from([("traceparent".to_owned(), text.to_owned())]);
    let context = TraceContextPropagator::new().extract_with_context(&opentelemetry::Context::new(), &carrier);
    let remote = context.span().span_context().clone();
    remote.is_valid().then_some(remote)
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER: &str = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01";

    #[test]
    fn a_span_continues_the_trace_it_is_given_and_hands_it_on() {
        let memory = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(memory.clone()).build();
        tracing::subscriber::with_default(Registry::default().with(crate::telemetry::trace_layer(&provider)), || {
            let span = tracing::info_span!("call");
            assert!(set_parent(&span, PARENT));
            add_link(&span, OTHER);
            let _in = span.enter();
            let own = current_traceparent();
            assert!(own.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && own.len() == 55, "{own}");
            assert!(!own.contains("b7ad6b7169203331"));
        });
        let spans = memory.get_finished_spans().unwrap();
        assert_eq!(spans[0].parent_span_id.to_string(), "b7ad6b7169203331");
        assert_eq!(spans[0].links.links[0].span_context.span_id().to_string(), "c7ad6b7169203331");
    }

    #[test]
    fn a_span_that_is_only_logged_stands_for_the_traced_one_around_it() {
        let provider = SdkTracerProvider::builder().build();
        let logged = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
        let both = Registry::default().with(logged).with(crate::telemetry::trace_layer(&provider));
        tracing::subscriber::with_default(both, || {
            let outer = tracing::info_span!("call").entered();
            let own = current_traceparent();
            let _inner = tracing::info_span!(target: "rmcp", "serve_inner").entered();
            assert_eq!((own.len(), current_traceparent()), (55, own));
            drop(outer);
        });
    }

    #[test]
    fn what_is_no_trace_context_changes_nothing() {
        for text in
            ["", "x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", &PARENT.to_uppercase(), &PARENT[1..]]
        {
            assert!(!is_traceparent(text), "{text}");
        }
        assert_eq!(current_traceparent(), "");
    }
}
