//! One trace tells the story across hours, and neither it nor the log holds a secret.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::telemetry::{no_foreign_spans, trace_layer};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics, SumDataPoint};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::guards::raised;
use crate::harness::app::{App, CALLBACK_SECRET, RAIL_API_KEY, SIGNER_API_KEY, Wishes, each_in_turn};
use crate::harness::peer::Weather;

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Names the test that a process runs which has only one to run.
const ALONE: &str = "COUNTERSIGN_TEST_ALONE";

/// Everything that is traced and logged, as `telemetry::init` would have it.
struct Watch {
    spans: InMemorySpanExporter,
    log: Log,
}

impl Watch {
    /// Watches this process, or runs `test` in a process of its own and returns `None`.
    ///
    /// A span that sqlx's threads enter is closed only by a subscriber of the whole process, and
    /// other tests must not be watched.
    async fn alone(test: &str) -> Option<Self> {
        if std::env::var(ALONE).is_ok_and(|name| name == test) {
            return Some(Self::begin());
        }
        let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
        let name = format!("trace::{test}");
        let output = again.args([&name, "--exact", "--nocapture"]).env(ALONE, test).output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        None
    }

    fn begin() -> Self {
        let spans = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let log = Log::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(move || writer.clone())
            .with_filter(tracing_subscriber::filter::FilterExt::and(EnvFilter::new("trace"), no_foreign_spans()));
        tracing::subscriber::set_global_default(Registry::default().with(lines).with(trace_layer(&provider))).unwrap();
        Self { spans, log }
    }

    /// Forgets what was seen.
    fn anew(&self) {
        self.spans.reset();
        self.log.0.lock().unwrap().clear();
    }

    /// The finished spans of this name, in order.
    fn all(&self, name: &str) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap().into_iter().filter(|span| span.name == name).collect()
    }

    fn one(&self, name: &str) -> SpanData {
        let mut found = self.all(name);
        let names: Vec<_> = self.spans.get_finished_spans().unwrap().into_iter().map(|span| span.name).collect();
        assert_eq!(found.len(), 1, "{name} among {names:?}");
        found.remove(0)
    }
}

fn trace_of(span: &SpanData) -> String {
    span.span_context.trace_id().to_string()
}

fn links_to(span: &SpanData, traceparent: &str) -> bool {
    span.links.iter().any(|link| {
        let context = &link.span_context;
        traceparent.contains(&format!("{}-{}", context.trace_id(), context.span_id()))
    })
}

fn attribute(span: &SpanData, name: &str) -> String {
    span.attributes.iter().find(|one| one.key.as_str() == name).map(|one| one.value.to_string()).unwrap_or_default()
}

async fn traceparent_of_effect(app: &App, kind: &str) -> String {
    app.db.raw().await.texts(&format!("SELECT traceparent FROM effects WHERE kind = '{kind}'")).await.remove(0)
}

#[tokio::test]
async fn create_notify_sign_and_execute_hang_together_across_traces() {
    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let Some(watch) = Watch::alone("create_notify_sign_and_execute_hang_together_across_traces").await else { return };
    each_in_turn(Wishes::default(), async |app: &mut App| {
        watch.anew();
        let order = json!({"order_id": "order-1", "amount": "199.00", "signer_id": "finance-1"});
        let rpc = app.rpc().with("traceparent", CALLER);
        let created = rpc.call(&app.agent(), "create_payment", order).await;
        app.notify("order-1").await;
        app.pass(Duration::from_mins(1)).await;
        app.sign("order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");

        // The create call continues its caller's trace, and the payment keeps it.
        let create = watch.one("tools/call create_payment");
        assert_eq!(trace_of(&create), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(attribute(&create, "mcp.method.name"), "tools/call");
        assert_eq!(attribute(&create, "gen_ai.tool.name"), "create_payment");
        assert_eq!(create.span_kind, opentelemetry::trace::SpanKind::Server);
        let kept = app.payment("order-1").await.terms.traceparent;
        assert!(kept.contains("0af7651916cd43dd8448eb211c80319c"), "{kept}");
        assert_eq!(watch.one("journal.payment.create").span_context.trace_id(), create.span_context.trace_id());

        // What a call caused outside is of the call's own trace, and so is the recorded intent.
        let notify = watch.one("tools/call notify_signer");
        let register = watch.one("POST /api/v1/payments");
        assert_eq!(trace_of(&register), trace_of(&notify));
        assert!(traceparent_of_effect(app, "signer.register").await.contains(&trace_of(&notify)));
        assert!(watch.all("tools/call confirm_signing").len() == 1);

        // Hours later the worker's trace links back to the creation, and carries the execution.
        let execute = watch.one("journal.payment.execute");
        assert!(links_to(&execute, &kept), "{:?}", execute.links);
        assert_eq!(attribute(&execute, "payment.id"), created.text("payment_id"));
        app.call(&app.agent(), "cancel_payment", json!({"order_id": "order-1"})).await;
        for about in ["journal.payment.create", "journal.decision.take", "journal.payment.cancel"] {
            assert_eq!(attribute(&watch.one(about), "payment.id"), created.text("payment_id"), "{about}");
        }
        let transfer = watch.one("POST /api/v1/transfers");
        assert_eq!(trace_of(&transfer), trace_of(&execute));
        assert_eq!(attribute(&transfer, "http.response.status_code"), "201");
        assert!(traceparent_of_effect(app, "rail.execute").await.contains(&trace_of(&execute)));
        for work in watch.all("worker.payment.work") {
            assert!(links_to(&work, &kept), "every piece of work links to the creation");
        }
    })
    .await;
}

#[tokio::test]
async fn another_trace_and_other_metadata_make_no_other_request() {
    const TEST: &str = "another_trace_and_other_metadata_make_no_other_request";
    let Some(_watch) = Watch::alone(TEST).await else { return };
    each_in_turn(Wishes::default(), async |app: &mut App| {
        for key in [None, Some("one-key-in-three-traces")] {
            let order = if key.is_some() { "keyed" } else { "bare" };
            let mut first = String::new();
            for (call, meta) in [json!({}), json!({"progressToken": 2}), json!({"progressToken": "c", "a.b/c": [1]})]
                .into_iter()
                .enumerate()
            {
                let trace = format!("00-0af7651916cd43dd8448eb211c80319{call}-b7ad6b716920333{call}-01");
                let mut arguments = json!({"order_id": order, "amount": "199.00"});
                if let Some(key) = key {
                    arguments["idempotency_key"] = json!(key);
                }
                let mut params = json!({"name": "create_payment", "arguments": arguments, "_meta": meta});
                // The caller's trace comes by the header, or by the metadata, and is another one each time.
                let rpc = if call == 1 { app.rpc() } else { app.rpc().with("traceparent", &trace) };
                if call == 1 {
                    params["_meta"]["traceparent"] = json!(trace);
                }
                let rpc = rpc.with("user-agent", &format!("client/{call}"));
                let told = rpc.request(&app.agent(), "tools/call", params).await.answer();
                assert_eq!(told.body["idempotent_replayed"] == true, call > 0, "{}", told.body);
                if call == 0 {
                    told.text("payment_id").clone_into(&mut first);
                }
                assert_eq!(told.text("payment_id"), first, "{}", told.body);
            }
            let kept = app.payment(order).await.terms.traceparent;
            assert!(kept.contains("0af7651916cd43dd8448eb211c803190"), "it was traced, by the first call: {kept}");
        }
        assert_eq!(app.rows("payments").await, 2);
    })
    .await;
}

#[tokio::test]
async fn no_log_line_and_no_span_holds_a_secret() {
    let Some(watch) = Watch::alone("no_log_line_and_no_span_holds_a_secret").await else { return };
    each_in_turn(Wishes::default(), async |app: &mut App| {
        watch.anew();
        app.awaiting("order-1").await;
        let memo = json!({"order_id": "order-2", "amount": "1.00", "memo": "MEMO-OF-A-PERSON", "idempotency_key": "IDEMPOTENCY-KEY-SECRET"});
        let agent = app.agent();
        app.call(&agent, "create_payment", memo).await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let jws = app.jws("finance-1", &document);
        let bad = app.jws("finance-2", &document);
        let signer = app.signer_token("finance-1");
        for signature in [&bad, &jws] {
            app.call(&signer, "confirm_signing", json!({"order_id": "order-1", "signature": signature})).await;
        }
        assert_eq!(app.decide_on_page("order-2", &document, &bad).await, 422);
        app.rpc().post("JUNK-TOKEN-IN-A-HEADER", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
        app.signer.set(Weather::Status(401));
        app.notify("order-2").await;
        app.signer.set(Weather::Garbage);
        app.call(&agent, "get_sign_link", json!({"order_id": "order-2"})).await;
        app.next_fault("fail_after").await;
        app.settle().await;
        app.signer.up().await;
        app.until("order-1", "EXECUTED").await;

        let spans = format!("{:?}", watch.spans.get_finished_spans().unwrap());
        let log = watch.log.text();
        assert!(log.contains("tool call begins") && log.contains("order-1") && spans.contains("confirm_signing"));
        let signature = |jws: &str| jws.rsplit_once("..").unwrap().1.to_owned();
        for (what, secret) in [
            ("a token", agent.rsplit_once('.').unwrap().1.to_owned()),
            ("a signer's token", signer.rsplit_once('.').unwrap().1.to_owned()),
            ("a refused token", "JUNK-TOKEN".to_owned()),
            ("a signature", signature(&jws)),
            ("a refused signature", signature(&bad)),
            ("the signer service's key", SIGNER_API_KEY.to_owned()),
            ("the rail's key", RAIL_API_KEY.to_owned()),
            ("the callbacks' secret", CALLBACK_SECRET.trim_start_matches("whsec_").to_owned()),
            ("a memo", "MEMO-OF-A-PERSON".to_owned()),
            ("an idempotency key of a caller", "IDEMPOTENCY-KEY-SECRET".to_owned()),
            ("another's answer", "SECRET-UPSTREAM-BODY".to_owned()),
        ] {
            assert!(!spans.contains(&secret), "{what} is in a span");
            let line = log.lines().find(|line| line.contains(&secret));
            // The peers run in this process too; only what is ours is held to it.
            assert_eq!(line, None, "{what} is in the log");
        }
    })
    .await;
}

/// How often an invariant called `word` was found broken so far.
fn broken_invariants(memory: &InMemoryMetricExporter, word: &str) -> u64 {
    let batches = memory.get_finished_metrics().unwrap();
    let counters = batches.last().into_iter().flat_map(ResourceMetrics::scope_metrics).flat_map(ScopeMetrics::metrics);
    let ours = counters.filter(|counter| counter.name() == "countersign.invariants.broken");
    let points = ours.flat_map(|counter| match counter.data() {
        AggregatedMetrics::U64(MetricData::Sum(sum)) => sum.data_points(),
        other => panic!("no counter: {other:?}"),
    });
    let named = points.filter(|point| point.attributes().any(|name| name.value.as_str() == word));
    named.map(SumDataPoint::value).sum()
}

#[tokio::test]
async fn a_broken_invariant_is_counted_and_logged_wherever_it_is_found() {
    let Some(watch) = Watch::alone("a_broken_invariant_is_counted_and_logged_wherever_it_is_found").await else {
        return;
    };
    let memory = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(memory.clone()).build();
    opentelemetry::global::set_meter_provider(provider.clone());
    each_in_turn(Wishes::default(), async |app: &mut App| {
        watch.anew();
        let before = broken_invariants(&memory, "quorum");
        let id = app.signed("order-1").await;
        app.db.raw().await.execute("UPDATE payments SET approvals = 0").await.unwrap();
        let hold = json!({"order_id": "order-1", "reason": "paid by hand"});
        assert_eq!(app.call(&app.operator(), "hold_payment", hold).await.code(), "INTERNAL");
        // Written by a task of its own, with which the worker's step would race.
        raised(app, "order-1").await;
        app.settle().await;
        provider.force_flush().unwrap();
        let counted = broken_invariants(&memory, "quorum") - before;
        assert!(counted >= 2, "the person's step and the worker's are both counted: {counted}");
        let log = watch.log.text();
        let told =
            log.lines().filter(|line| line.contains("\"ERROR\"") && line.contains("an invariant would not hold"));
        let ours = told.filter(|line| line.contains(&id) && line.contains("\"quorum\"")).count();
        assert!(ours >= 2, "and both are told: {ours}");
        app.db.raw().await.execute("UPDATE payments SET approvals = 1").await.unwrap();
        app.until("order-1", "EXECUTED").await;
    })
    .await;
}
