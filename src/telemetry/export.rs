//! The exporters, and the guard that ends them in bounded time.

use std::sync::mpsc;
use std::time::Duration;

use futures::FutureExt as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter as _};

use crate::config::{self, ConfigFault};

/// The longest that the end of the process waits for the last export.
const SHUTDOWN: Duration = Duration::from_secs(2);
/// The longest that one export takes.
const EXPORT: Duration = Duration::from_secs(3);

/// Keeps the exporters; shut it down last.
#[derive(Debug, Default)]
#[must_use = "dropping it at once loses the spans still in the queue"]
pub struct Guard {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
}

impl Guard {
    /// Opens the exporters, if an endpoint is set, and makes them the process's own.
    pub(super) fn open(config: &config::Telemetry) -> Result<Self, ConfigFault> {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let base = config.otlp_endpoint.trim_end_matches('/');
        if base.is_empty() {
            return Ok(Self::default());
        }
        let bad = |why: &dyn std::fmt::Display| ConfigFault(format!("telemetry.otlp_endpoint: {why}"));
        config::base_url(base).map_err(|why| bad(&why))?;
        let resource = Resource::builder()
            .with_service_name(config.service_name.clone())
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("deployment.environment.name", config.environment.clone()),
            ])
            .build();
        let spans = span_exporter(base).map_err(|err| bad(&err))?;
        let traces = SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource.clone()).build();
        let points = MetricExporter::builder()
            .with_http()
            .with_endpoint(format!("{base}/v1/metrics"))
            .with_timeout(EXPORT)
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(|err| bad(&err))?;
        let metrics = SdkMeterProvider::builder().with_periodic_exporter(points).with_resource(resource).build();
        global::set_tracer_provider(traces.clone());
        global::set_meter_provider(metrics.clone());
        Ok(Self { traces: Some(traces), metrics: Some(metrics) })
    }

    pub(super) fn tracer_provider(&self) -> Option<&SdkTracerProvider> {
        self.traces.as_ref()
    }

    /// Sends what is queued and stops; at most two seconds, whatever the collector does.
    pub fn shutdown(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let (traces, metrics) = (self.traces.take(), self.metrics.take());
        if traces.is_none() && metrics.is_none() {
            return;
        }
        // The SDK flushes metrics without a bound and blocks; both go to a thread that may be left behind.
        let (done, ended) = mpsc::channel();
        for task in [
            traces.map(|traces| {
                Box::new(move || drop(traces.shutdown_with_timeout(SHUTDOWN))) as Box<dyn FnOnce() + Send>
            }),
            metrics.map(|metrics| Box::new(move || drop(metrics.shutdown_with_timeout(SHUTDOWN))) as Box<_>),
        ]
        .into_iter()
        .flatten()
        {
            let done = done.clone();
            std::thread::spawn(move || {
                task();
                drop(done);
            });
        }
        drop(done);
        // Returns when both threads are done, since no sender is left then, or at the time-out.
        let _: Result<(), _> = ended.recv_timeout(SHUTDOWN);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}

fn span_exporter(base: &str) -> Result<SpanExporter, ExporterBuildError> {
    // No retries: the next batch is on its way anyway, and the queue is bounded.
    SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{base}/v1/traces"))
        .with_timeout(EXPORT)
        .with_retry_policy(RetryPolicy::disabled())
        .build()
}

/// Whether the collector at `endpoint` takes an export: an empty one, sent as every other is.
///
/// *Errors*: why not, in words for an operator.
pub async fn probe(endpoint: &str) -> Result<(), String> {
    let base = endpoint.trim_end_matches('/').to_owned();
    let sent = tokio::task::spawn_blocking(move || {
        let exporter = span_exporter(&base).map_err(|err| err.to_string())?;
        // The exporter's client blocks, so that it never has to be polled twice.
        match exporter.export(Vec::new()).now_or_never() {
            Some(Ok(())) => Ok(()),
            Some(Err(err)) => Err(err.to_string()),
            None => Err("no answer in time".to_owned()),
        }
    });
    sent.await.unwrap_or_else(|_| Err("the export was broken off".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::time::Instant;

    use opentelemetry::trace::{Tracer as _, TracerProvider as _};

    use super::*;

    /// A collector that takes connections and never answers.
    fn silent() -> (std::net::TcpListener, String) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (listener, url)
    }

    fn telemetry(otlp_endpoint: String) -> config::Telemetry {
        config::Telemetry {
            otlp_endpoint,
            service_name: "t".into(),
            environment: "t".into(),
            log: String::new(),
            log_form: String::new(),
        }
    }

    #[tokio::test]
    async fn the_last_spans_leave_at_the_end() {
        let (listener, url) = silent();
        let (told, paths) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut head = [0; 64];
                let mut stream = stream.unwrap();
                let read = stream.read(&mut head).unwrap();
                told.send(String::from_utf8_lossy(&head[..read]).into_owned()).unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            }
        });
        let guard = Guard::open(&telemetry(url)).unwrap();
        guard.tracer_provider().unwrap().tracer("t").start("call");
        guard.shutdown();
        let heads: Vec<String> = paths.try_iter().collect();
        assert!(heads.iter().any(|head| head.starts_with("POST /v1/traces HTTP/1.1")), "{heads:?}");
    }

    #[test]
    fn a_collector_that_never_answers_delays_neither_calls_nor_the_end() {
        let (_listener, otlp_endpoint) = silent();
        let guard = Guard::open(&telemetry(otlp_endpoint)).unwrap();
        let tracer = guard.tracer_provider().unwrap().tracer("t");
        let begun = Instant::now();
        for _ in 0..10_000 {
            tracer.start("call");
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let begun = Instant::now();
        guard.shutdown();
        assert!(begun.elapsed() < Duration::from_millis(2_500), "{:?}", begun.elapsed());
    }
}
