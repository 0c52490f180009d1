//! The instruments, by their fixed names.

use std::sync::LazyLock;
use std::time::Duration;

use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};
use opentelemetry::{KeyValue, global};

/// Bucket bounds of MCP durations, from the semantic conventions, in seconds.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Every instrument of the gateway.
///
/// *Invariant*: attribute values come from closed lists, so that no caller can multiply series.
#[derive(Debug, Clone)]
pub struct Metrics {
    operations: Histogram<f64>,
    transitions: Counter<u64>,
    effects: Counter<u64>,
    webhooks: Counter<u64>,
    retired: Counter<u64>,
    restore: Gauge<u64>,
    refusals: Counter<u64>,
    breakers: Gauge<u64>,
    breaker_changes: Counter<u64>,
    work_failures: Counter<u64>,
    work_parked: Counter<u64>,
    work_overdue: Gauge<f64>,
    invariants: Counter<u64>,
    checkpoints: Counter<u64>,
    checkpoint_age: Gauge<f64>,
    checkpoint_lag: Gauge<f64>,
}

/// One MCP request, as its duration is counted.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// `mcp.method.name`.
    pub method: &'a str,
    /// `gen_ai.tool.name`, of a tool that exists.
    pub tool: Option<&'a str>,
    /// `error.type`.
    pub error: Option<&'a str>,
    /// `mcp.protocol.version`, of one that exists.
    pub protocol_version: Option<&'a str>,
}

impl Metrics {
    /// The instruments of `meter`.
    pub fn new(meter: &Meter) -> Self {
        Self {
            operations: meter
                .f64_histogram("mcp.server.operation.duration")
                .with_unit("s")
                .with_description("How long MCP requests took")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            transitions: meter
                .u64_counter("countersign.payments.transitions")
                .with_description("Payments that entered a status")
                .build(),
            effects: meter
                .u64_counter("countersign.effects")
                .with_description("External side effects by kind and outcome")
                .build(),
            webhooks: meter
                .u64_counter("countersign.webhooks")
                .with_description("Attempts at delivering events, by outcome")
                .build(),
            retired: meter
                .u64_counter("countersign.payments.archived")
                .with_description("Finished payments moved to the archive")
                .build(),
            restore: meter
                .u64_gauge("countersign.restore.open")
                .with_description("1 while a restored database is compared with the rail and nothing is sent")
                .build(),
            refusals: meter
                .u64_counter("countersign.auth.refusals")
                .with_description("Requests without a valid token, by reason")
                .build(),
            breakers: meter
                .u64_gauge("countersign.breaker.state")
                .with_description("Circuit breakers of this process: 0 closed, 1 half open, 2 open")
                .build(),
            breaker_changes: meter
                .u64_counter("countersign.breaker.changes")
                .with_description("Circuit breakers that entered a state")
                .build(),
            work_failures: meter
                .u64_counter("countersign.work.failures")
                .with_description("Due work on a payment that failed, by reason")
                .build(),
            work_parked: meter
                .u64_counter("countersign.work.parked")
                .with_description("Payments parked because their work fails for ever, by reason")
                .build(),
            work_overdue: meter
                .f64_gauge("countersign.work.overdue")
                .with_unit("s")
                .with_description("How long the oldest due payment has been due when the worker looked")
                .build(),
            invariants: meter
                .u64_counter("countersign.invariants.broken")
                .with_description("Changes and rows refused because an invariant would not hold")
                .build(),
            checkpoints: meter
                .u64_counter("countersign.audit.checkpoints")
                .with_description("Checkpoints of audit chains, by outcome")
                .build(),
            checkpoint_age: meter
                .f64_gauge("countersign.audit.checkpoint.age")
                .with_unit("s")
                .with_description("How old the newest checkpoint is, whether or not there was anything to cover since")
                .build(),
            checkpoint_lag: meter
                .f64_gauge("countersign.audit.checkpoint.lag")
                .with_unit("s")
                .with_description("How long there have been audit entries that no checkpoint covers")
                .build(),
        }
    }

    /// Counts an MCP request.
    pub fn operation(&self, operation: Operation<'_>, took: Duration) {
        let mut attributes = vec![
            KeyValue::new("mcp.method.name", operation.method.to_owned()),
            KeyValue::new("network.transport", "tcp"),
            KeyValue::new("network.protocol.name", "http"),
        ];
        if operation.method == "tools/call" {
            attributes.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
        }
        let optional = [
            ("gen_ai.tool.name", operation.tool),
            ("error.type", operation.error),
            ("mcp.protocol.version", operation.protocol_version),
        ];
        for (name, value) in optional {
            attributes.extend(value.map(|value| KeyValue::new(name, value.to_owned())));
        }
        self.operations.record(took.as_secs_f64(), &attributes);
    }

    /// Counts a payment that entered `status`.
    pub fn transition(&self, status: &'static str) {
        self.transitions.add(1, &[KeyValue::new("status", status)]);
    }

    /// Counts a settled effect.
    pub fn effect(&self, kind: &'static str, outcome: &'static str) {
        self.effects.add(1, &[KeyValue::new("kind", kind), KeyValue::new("outcome", outcome)]);
    }

    /// Counts an attempt at delivering an event.
    pub fn webhook(&self, outcome: &'static str) {
        self.webhooks.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// Counts finished payments that moved to the archive.
    pub fn retired(&self, payments: u64) {
        self.retired.add(payments, &[]);
    }

    /// A restored database is being compared, or no longer.
    pub fn restore(&self, open: bool) {
        self.restore.record(u64::from(open), &[]);
    }

    /// A circuit breaker entered `state`: `closed`, `half_open` or `open`.
    pub fn breaker(&self, upstream: &'static str, state: &'static str) {
        self.breaker_stands(upstream, state);
        let change = [KeyValue::new("upstream.name", upstream), KeyValue::new("state", state)];
        self.breaker_changes.add(1, &change);
    }

    /// A circuit breaker is in `state`.
    pub fn breaker_stands(&self, upstream: &'static str, state: &'static str) {
        let level = match state {
            "closed" => 0,
            "half_open" => 1,
            _ => 2,
        };
        self.breakers.record(level, &[KeyValue::new("upstream.name", upstream)]);
    }

    /// Counts due work that failed.
    pub fn work_failed(&self, reason: &'static str) {
        self.work_failures.add(1, &[KeyValue::new("reason", reason)]);
    }

    /// Counts a payment that was parked.
    pub fn work_parked(&self, reason: &'static str) {
        self.work_parked.add(1, &[KeyValue::new("reason", reason)]);
    }

    /// How long the oldest due payment has been due.
    pub fn work_overdue(&self, by: Duration) {
        self.work_overdue.record(by.as_secs_f64(), &[]);
    }

    /// Counts a broken invariant.
    pub fn invariant_broken(&self, invariant: &'static str) {
        self.invariants.add(1, &[KeyValue::new("invariant", invariant)]);
    }

    /// Counts a checkpoint of an audit chain.
    pub fn checkpoint(&self, outcome: &'static str) {
        self.checkpoints.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// How old the newest checkpoint is, and for how long something has not been covered by one.
    pub fn checkpoint_age(&self, age: Duration, lag: Duration) {
        self.checkpoint_age.record(age.as_secs_f64(), &[]);
        self.checkpoint_lag.record(lag.as_secs_f64(), &[]);
    }

    /// Counts a request without a valid token.
    pub fn auth_refusal(&self, reason: &'static str) {
        self.refusals.add(1, &[KeyValue::new("reason", reason)]);
    }
}

/// The process's instruments. First use must come after [`init`](super::init), or they count for nobody.
pub fn metrics() -> &'static Metrics {
    static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::new(&global::meter("countersign")));
    &METRICS
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

    use super::*;

    #[test]
    fn the_instruments_have_their_names_and_the_buckets_of_the_conventions() {
        let memory = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(memory.clone()).build();
        let metrics = Metrics::new(&provider.meter("t"));
        let call = Operation { method: "tools/call", tool: Some("pay"), error: None, protocol_version: None };
        metrics.operation(call, Duration::from_millis(15));
        metrics.transition("SIGNED");
        metrics.effect("rail.execute", "done");
        metrics.webhook("delivered");
        metrics.retired(3);
        metrics.restore(true);
        metrics.auth_refusal("expired");
        metrics.breaker("rail", "open");
        metrics.work_failed("internal");
        metrics.work_parked("internal");
        metrics.work_overdue(Duration::from_secs(3));
        metrics.invariant_broken("absorbing");
        metrics.checkpoint("written");
        metrics.checkpoint_age(Duration::from_secs(1), Duration::ZERO);
        provider.force_flush().unwrap();
        let batches = memory.get_finished_metrics().unwrap();
        let all: Vec<_> = batches
            .iter()
            .flat_map(opentelemetry_sdk::metrics::data::ResourceMetrics::scope_metrics)
            .flat_map(opentelemetry_sdk::metrics::data::ScopeMetrics::metrics)
            .collect();
        let names: Vec<_> = all.iter().map(|metric| metric.name()).collect();
        for name in [
            "mcp.server.operation.duration",
            "countersign.payments.transitions",
            "countersign.effects",
            "countersign.webhooks",
            "countersign.payments.archived",
            "countersign.restore.open",
            "countersign.auth.refusals",
            "countersign.breaker.state",
            "countersign.breaker.changes",
            "countersign.work.failures",
            "countersign.work.parked",
            "countersign.work.overdue",
            "countersign.invariants.broken",
            "countersign.audit.checkpoints",
            "countersign.audit.checkpoint.age",
            "countersign.audit.checkpoint.lag",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
        let histogram = all.iter().find(|metric| metric.name() == "mcp.server.operation.duration").unwrap();
        assert_eq!(histogram.unit(), "s");
        let AggregatedMetrics::F64(MetricData::Histogram(data)) = histogram.data() else { panic!("no histogram") };
        assert_eq!(data.data_points().next().unwrap().bounds().collect::<Vec<_>>(), SECONDS);
    }
}
