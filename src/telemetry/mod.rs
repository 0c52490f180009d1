//! Seeing it work: logs to stderr; traces and metrics by OTLP when an endpoint is set.
//!
//! *Invariant*: telemetry never slows or fails a call. Spans go to a bounded queue and are dropped
//! when it is full; the exporters have threads of their own; the end is bounded too.

mod export;
pub mod metrics;
pub mod trace_context;

use std::io::IsTerminal as _;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::filter::{FilterExt as _, FilterFn, Filtered, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use crate::config::{self, ConfigFault};
pub use export::{Guard, probe};

/// Installs logging for the process, and export when `otlp_endpoint` is set.
///
/// Keep the guard until the end and shut it down, so that the last spans leave.
///
/// *Errors*: a filter, form or endpoint that can't be used; a second call in one process.
pub fn init(config: &config::Telemetry) -> Result<Guard, ConfigFault> {
    let filter = filter(config)?;
    let writer = std::io::stderr;
    let log = match config.log_form.as_str() {
        "json" => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_writer(writer)
            .boxed(),
        "text" => {
            tracing_subscriber::fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(writer).boxed()
        }
        _ => return Err(no_form()),
    };
    let guard = Guard::open(config)?;
    let traces = guard.tracer_provider().map(trace_layer);
    Registry::default()
        .with(log.with_filter(filter.and(no_foreign_spans())))
        .with(traces)
        .try_init()
        .map_err(|_| ConfigFault("telemetry: logging is set up already in this process".to_owned()))?;
    Ok(guard)
}

/// Checks what [`init`] would refuse, and sets nothing up.
pub fn check(config: &config::Telemetry) -> Result<(), ConfigFault> {
    filter(config)?;
    if matches!(config.log_form.as_str(), "json" | "text") { Ok(()) } else { Err(no_form()) }
}

fn filter(config: &config::Telemetry) -> Result<EnvFilter, ConfigFault> {
    let filter = EnvFilter::builder().parse(&config.log);
    filter.map_err(|err| ConfigFault(format!("telemetry.log: not a filter: {err}")))
}

fn no_form() -> ConfigFault {
    ConfigFault("telemetry.log_form: must be \"json\" or \"text\"".to_owned())
}

/// A filter that lets through every event, and of spans only our own.
///
/// A span of rmcp's that only the log sees would stand between a call's span and its tool's, since
/// rmcp spawns the handler within it: the tool's span would then begin a trace of its own.
pub fn no_foreign_spans() -> FilterFn {
    let ours: fn(&tracing::Metadata<'_>) -> bool =
        |metadata| !metadata.is_span() || metadata.target().starts_with("countersign");
    filter_fn(ours)
}

/// The layer that turns our spans into those of `provider`; tests bring one with a memory exporter.
///
/// Only spans of this crate: those of an HTTP client would trace the export of themselves.
pub fn trace_layer<S>(provider: &SdkTracerProvider) -> Filtered<OpenTelemetryLayer<S, SdkTracer>, FilterFn, S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let ours: fn(&tracing::Metadata<'_>) -> bool =
        |metadata| metadata.target().starts_with("countersign") && *metadata.level() <= Level::INFO;
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("countersign"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        // Parents are found along tracing's own spans; a second, per-thread stack would only cost.
        .with_context_activation(false)
        .with_filter(filter_fn(ours).with_max_level_hint(LevelFilter::INFO))
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::InMemorySpanExporter;

    use super::*;

    #[test]
    fn only_our_own_spans_are_exported() {
        let memory = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(memory.clone()).build();
        let subscriber = Registry::default().with(trace_layer(&provider));
        tracing::subscriber::with_default(subscriber, || {
            drop(tracing::info_span!("ours").entered());
            drop(tracing::info_span!(target: "hyper::client", "theirs").entered());
            drop(tracing::debug_span!("too fine").entered());
        });
        let names: Vec<_> = memory.get_finished_spans().unwrap().into_iter().map(|span| span.name).collect();
        assert_eq!(names, ["ours"]);
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named() {
        let good = config::Telemetry {
            otlp_endpoint: String::new(),
            service_name: "countersign".into(),
            environment: "test".into(),
            log: "info".into(),
            log_form: "json".into(),
        };
        let bad = [
            ("telemetry.log:", config::Telemetry { log: "info,=,=".into(), ..good.clone() }),
            ("telemetry.log_form", config::Telemetry { log_form: "xml".into(), ..good.clone() }),
            ("telemetry.otlp_endpoint", config::Telemetry { otlp_endpoint: "not a url".into(), ..good }),
        ];
        for (setting, config) in bad {
            let fault = init(&config).err().map(|fault| fault.to_string()).unwrap_or_default();
            assert!(fault.contains(setting), "{fault}");
        }
    }
}
