//! Stopping in order, and clients that take their time: through real listeners and a real process.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::harness::app::{App, CALLBACK_SECRET, ISSUER, RAIL_API_KEY, SIGNER_API_KEY, Wishes, each, each_with};
use crate::harness::desk::signal;
use crate::harness::peer::{Peer, Weather};
use crate::harness::rpc::{Answer, Rpc};

/// Another gateway on the app's database and peers, as a process of its own.
struct Other {
    child: Child,
    address: String,
    rpc: Rpc,
}

impl Other {
    async fn start(app: &App, drain_ms: u64) -> Self {
        let (socket, address) = Peer::bind().await;
        drop(socket);
        let address = address.to_string();
        let drain = drain_ms.to_string();
        // A file that may not grow is then an error of the write, not the end of the process.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" serve", env!("CARGO_BIN_EXE_countersign")]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("COUNTERSIGN")) {
            command.env_remove(name);
        }
        let url = secrecy::ExposeSecret::expose_secret(&app.config.database.url);
        let child = command
            .envs([
                ("COUNTERSIGN__SERVER__LISTEN", address.as_str()),
                ("COUNTERSIGN__SERVER__PUBLIC_URL", &app.config.server.public_url),
                ("COUNTERSIGN__SERVER__DRAIN_MS", &drain),
                ("COUNTERSIGN__DATABASE__URL", url),
                ("COUNTERSIGN__AUTH__ISSUER", ISSUER),
                ("COUNTERSIGN__AUTH__JWKS_FILE", &app.config.auth.jwks_file),
                ("COUNTERSIGN__POLICY__FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/config/policy.toml")),
                ("COUNTERSIGN__WORKER__TICK_MS", "20"),
                ("COUNTERSIGN__SIGNER__URL", &app.signer.url()),
                ("COUNTERSIGN__SIGNER__API_KEY", SIGNER_API_KEY),
                ("COUNTERSIGN__SIGNER__CALLBACK_SECRET", CALLBACK_SECRET),
                ("COUNTERSIGN__RAIL__URL", &app.rail.url()),
                ("COUNTERSIGN__RAIL__API_KEY", RAIL_API_KEY),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let rpc = Rpc::new(app.http.clone(), format!("http://{address}/mcp"));
        let other = Self { child, address, rpc };
        until("it serves", async || other.connects().await).await;
        other
    }

    async fn connects(&self) -> bool {
        TcpStream::connect(&self.address).await.is_ok()
    }

    /// A call that goes on while the test does.
    fn begin(
        &self,
        token: String,
        tool: &'static str,
        arguments: serde_json::Value,
    ) -> tokio::task::JoinHandle<Answer> {
        let rpc = self.rpc.clone();
        tokio::spawn(async move { rpc.call(&token, tool, arguments).await })
    }

    fn terminate(&self) -> Instant {
        signal(&self.child, "TERM");
        Instant::now()
    }

    /// How long it took to end, in order.
    async fn ended(mut self, asked: Instant) -> Duration {
        let status = tokio::time::timeout(Duration::from_secs(20), self.child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0), "{status:?}");
        asked.elapsed()
    }
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..400 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within 8 s: {what}");
}

#[tokio::test]
async fn b22_told_to_stop_it_answers_the_calls_in_flight_records_outcomes_and_exits_in_time() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        app.create("order-2").await;
        let paid = app.signed("order-3").await;
        app.rail.once("/transfers", Weather::Slow(3_500));
        let other = Other::start(app, 8_000).await;
        until("the worker pays", async || app.rail.count("POST", "/transfers") == 1).await;
        app.signer.once("/notify", Weather::Slow(3_000));
        let asked = app.signer.count("POST", "/notify");
        let notify = other.begin(app.agent(), "notify_signer", json!({"order_id": "order-2"}));
        let wait = json!({"order_id": "order-1", "wait_ms": 20_000});
        let waiting = other.begin(app.agent(), "get_payment_status", wait);
        until("the signers are notified", async || app.signer.count("POST", "/notify") > asked).await;
        assert_eq!(app.payment("order-3").await.execution.phase.as_str(), "intended");

        let stopped = other.terminate();
        until("new connections are refused", async || !other.connects().await).await;
        assert!(!notify.is_finished() && stopped.elapsed() < Duration::from_millis(2_500), "they are in flight");
        // Who waits for news is answered at once, with what there is.
        assert_eq!(waiting.await.unwrap().status(), "AWAITING_SIGNER");
        assert!(stopped.elapsed() < Duration::from_millis(2_500), "{:?}", stopped.elapsed());
        assert_eq!(notify.await.unwrap().status(), "AWAITING_SIGNER");
        let took = other.ended(stopped).await;
        assert!(took < Duration::from_secs(7), "{took:?}");
        let stored = app.payment("order-3").await;
        assert_eq!((stored.status.as_str(), stored.execution.phase.as_str()), ("EXECUTED", "confirmed"), "recorded");
        assert_eq!(app.payment("order-2").await.status.as_str(), "AWAITING_SIGNER");
        assert_eq!((app.executions(&paid).await, app.requests(&paid).await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn what_never_ends_holds_the_stop_no_longer_than_the_drain_and_is_recovered() {
    each(async |app: &mut App| {
        app.create("order-2").await;
        let paid = app.signed("order-3").await;
        app.rail.once("/transfers", Weather::Hang);
        let other = Other::start(app, 700).await;
        until("the worker pays", async || app.rail.count("POST", "/transfers") == 1).await;
        app.signer.once("/notify", Weather::Hang);
        let asked = app.signer.count("POST", "/notify");
        let (rpc, agent) = (other.rpc.clone(), app.agent());
        let cut = tokio::spawn(async move { rpc.call(&agent, "notify_signer", json!({"order_id": "order-2"})).await });
        until("the signers are notified", async || app.signer.count("POST", "/notify") > asked).await;
        let stopped = other.terminate();
        let took = other.ended(stopped).await;
        assert!((600..2_500).contains(&took.as_millis()), "{took:?}");
        assert!(cut.await.is_err(), "that call got no answer");
        // Both were written down before they were tried: the next process finds out.
        assert_eq!(app.payment("order-3").await.execution.phase.as_str(), "intended");
        app.pass(Duration::from_secs(16)).await;
        app.until("order-3", "EXECUTED").await;
        app.until("order-2", "AWAITING_SIGNER").await;
        assert_eq!(app.executions(&paid).await, 1);
    })
    .await;
}

fn few_seats() -> Wishes {
    Wishes::default().config(|config| {
        config.server.max_connections = 2;
        config.server.header_timeout_ms = 400;
    })
}

#[tokio::test]
async fn a_client_that_sends_its_head_byte_by_byte_is_let_go() {
    each_with(few_seats(), async |app: &mut App| {
        for kept in [false, true] {
            let mut socket = TcpStream::connect(&app.config.server.listen).await.unwrap();
            if kept {
                // Its first request was as it should be.
                socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
                let mut answer = [0; 2_048];
                let read = socket.read(&mut answer).await.unwrap();
                let text = String::from_utf8_lossy(&answer[..read]).to_lowercase();
                assert!(text.starts_with("http/1.1 200") && !text.contains("connection: close"), "{text}");
            }
            let begun = Instant::now();
            let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: {}", "y".repeat(1_000));
            let mut let_go = false;
            for byte in head.bytes() {
                let sent = socket.write_all(&[byte]).await;
                let mut rest = [0; 256];
                let answer = tokio::time::timeout(Duration::from_millis(20), socket.read(&mut rest)).await;
                let_go = sent.is_err() || matches!(answer, Ok(Ok(0) | Err(_)));
                if let_go {
                    break;
                }
            }
            let took = begun.elapsed();
            assert!(let_go && took < Duration::from_secs(3), "kept: {kept}: {took:?}");
        }
    })
    .await;
}

/// From now on no file of `child` may grow beyond so many bytes.
async fn limit(child: &Child, bytes: &str) {
    let pid = child.id().unwrap().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:unlimited")]).status().await;
    assert!(set.unwrap().success(), "{bytes}");
}

#[tokio::test]
async fn b20c_while_its_files_may_not_grow_a_process_loses_nothing_and_then_goes_on_by_itself() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        let database = secrecy::ExposeSecret::expose_secret(&app.config.database.url).to_owned();
        // PostgreSQL's files are not this process's.
        let Some(file) = database.strip_prefix("sqlite://") else { return };
        let asked = app.awaiting("asked").await;
        let other = Other::start(app, 1_000).await;
        let ready = async || {
            let page = app.http.get(format!("http://{}/readyz", other.address)).send().await.unwrap();
            page.status().as_u16()
        };
        let create = async |order: &str| {
            let arguments = json!({"order_id": order, "amount": "199.00", "payee": "demo-payee-001"});
            other.rpc.call(&app.agent(), "create_payment", arguments).await
        };
        assert_eq!(create("before").await.status(), "CREATED");
        let document = app.document("finance-1", "asked", "approve", "").await;
        let approval = json!({"order_id": "asked", "signature": app.jws("finance-1", &document)});
        let confirm =
            async || other.rpc.call(&app.signer_token("finance-1"), "confirm_signing", approval.clone()).await;

        let log = std::fs::metadata(format!("{}-wal", file.split('?').next().unwrap())).unwrap().len();
        limit(&other.child, &log.to_string()).await;
        let mut told = create("more-0").await;
        for number in 1..300 {
            if told.is_error {
                break;
            }
            told = create(&format!("more-{number}")).await;
        }
        assert_eq!((told.code().as_str(), &told.body["retryable"]), ("STORE_UNAVAILABLE", &json!(true)));
        assert_eq!(confirm().await.code(), "STORE_UNAVAILABLE");
        assert_eq!((ready().await, app.requests(&asked).await), (503, 0), "no intent, no request");
        let status = other.rpc.call(&app.agent(), "get_payment_status", json!({"order_id": "asked"})).await;
        assert_eq!(status.status(), "AWAITING_SIGNER", "reads go on");

        limit(&other.child, "unlimited").await;
        assert_eq!(create("after").await.status(), "CREATED", "without a repair");
        assert_eq!(ready().await, 200);
        assert!(!confirm().await.is_error);
        until("it is paid", async || app.payment("asked").await.status.as_str() == "EXECUTED").await;
        assert_eq!((app.executions(&asked).await, app.requests(&asked).await), (1, 1));
        let stopped = other.terminate();
        other.ended(stopped).await;
    })
    .await;
}

#[tokio::test]
async fn who_comes_when_every_seat_is_taken_waits_and_is_served() {
    each_with(few_seats(), async |app: &mut App| {
        let mut seats = Vec::new();
        for _ in 0..2 {
            let mut socket = TcpStream::connect(&app.config.server.listen).await.unwrap();
            socket.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
            seats.push(socket);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begun = Instant::now();
        assert_eq!(app.create("order-1").await.status(), "CREATED");
        let waited = begun.elapsed();
        assert!(waited > Duration::from_millis(150) && waited < Duration::from_secs(5), "{waited:?}");
    })
    .await;
}
