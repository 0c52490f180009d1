//! The sandbox over real connections: faults, keys, ledger, durability.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Sandbox;
use crate::ambient::{SystemClock, SystemEntropy};
use crate::proof::sha256_hex;

const KEY: &str = "sandbox-key-0001";

/// A sandbox that is served, and the folder of its file.
struct Served {
    sandbox: Sandbox,
    address: SocketAddr,
    folder: TempDir,
    server: tokio::task::JoinHandle<()>,
}

async fn serve(folder: TempDir) -> Served {
    let file = folder.path().join("rail.db");
    let sandbox = Sandbox::open(&file, KEY.into(), Arc::new(SystemClock), Arc::new(SystemEntropy)).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, router) = (listener.local_addr().unwrap(), sandbox.router());
    let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    Served { sandbox, address, folder, server }
}

fn order(reference: &str) -> Value {
    json!({"reference": reference, "order_id": "o1", "amount_minor": "19900", "currency": "USD",
           "payer_account": "main", "payee_account": "ACME-1", "payee_name": "Acme", "purpose": "chairs"})
}

/// The head's status (0 when not a byte came) and the body as text.
type Told = (u16, String);

impl Served {
    /// One request on a connection of its own; returns every byte that came until the end.
    async fn raw(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        String::from_utf8(bytes).unwrap()
    }

    async fn call(&self, method: &str, path: &str, headers: &str, body: &str) -> Told {
        let text = self.raw(method, path, &format!("authorization: Bearer {KEY}\r\n{headers}"), body).await;
        let status = text.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
        (status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    async fn pay(&self, key: &str, body: &Value) -> Told {
        self.call("POST", "/api/v1/transfers", &format!("idempotency-key: {key}\r\n"), &body.to_string()).await
    }

    async fn faults(&self, body: &Value) {
        assert_eq!(self.call("PUT", "/sandbox/faults", "", &body.to_string()).await.0, 200, "{body}");
    }

    async fn ledger(&self, reference: &str) -> Value {
        let (status, body) = self.call("GET", &format!("/sandbox/ledger?reference={reference}"), "", "").await;
        assert_eq!(status, 200);
        serde_json::from_str(&body).unwrap()
    }

    async fn look_up(&self, reference: &str) -> Told {
        self.call("GET", &format!("/api/v1/transfers?reference={reference}"), "", "").await
    }

    async fn counts(&self, reference: &str) -> (u64, u64) {
        let ledger = self.ledger(reference).await;
        assert_eq!(ledger["balanced"], true);
        (ledger["executions"].as_u64().unwrap(), ledger["requests"].as_u64().unwrap())
    }
}

#[tokio::test]
async fn a_transfer_is_one_debit_and_one_credit() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    let (status, body) = rail.pay("k1", &order("pay_1")).await;
    assert_eq!(status, 201);
    let told: Value = serde_json::from_str(&body).unwrap();
    let expected = json!({"transfer_id": told["transfer_id"], "reference": "pay_1", "status": "settled",
        "amount_minor": "19900", "currency": "USD", "payee_account": "ACME-1", "failure_code": ""});
    assert_eq!(told, expected);
    let ledger = rail.ledger("pay_1").await;
    assert_eq!((&ledger["executions"], &ledger["requests"], &ledger["balanced"]), (&json!(1), &json!(1), &json!(true)));
    let sides: Vec<_> =
        ledger["entries"].as_array().unwrap().iter().map(|e| (&e["account"], &e["direction"])).collect();
    assert_eq!(sides, [(&json!("main"), &json!("debit")), (&json!("ACME-1"), &json!("credit"))]);
    assert_eq!(ledger["seen"][0]["body_sha256"], json!(sha256_hex(order("pay_1").to_string())));
    assert_eq!(ledger["seen"][0]["answered"], "201");
    let (status, list) = rail.look_up("pay_1").await;
    assert_eq!((status, serde_json::from_str::<Value>(&list).unwrap()), (200, json!({"transfers": [told]})));
    assert_eq!(rail.look_up("pay_2").await, (200, r#"{"transfers":[]}"#.to_owned()));
}

#[tokio::test]
async fn a_key_is_answered_the_same_and_never_executed_twice() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    let first = rail.pay("k1", &order("pay_1")).await;
    assert_eq!(rail.pay("k1", &order("pay_1")).await, first);
    let (status, body) = rail.pay("k1", &order("pay_2")).await;
    assert!(status == 422 && body.contains("invalid_request"), "{body}");
    assert_eq!((rail.counts("pay_1").await, rail.counts("pay_2").await), ((1, 2), (0, 1)));
    // Many at once are still one.
    let (body, mut many) = (order("pay_3"), Vec::new());
    for _ in 0..8 {
        many.push(rail.pay("k3", &body));
    }
    let answers = futures::future::join_all(many).await;
    assert!(answers.iter().all(|answer| Some(answer) == answers.first() && answer.0 == 201));
    assert_eq!(rail.counts("pay_3").await, (1, 8));
    // Without its memory it pays again, and shows it.
    rail.faults(&json!({"standing": {"forget_keys": true}})).await;
    assert_eq!(rail.pay("k1", &order("pay_1")).await.0, 201);
    assert_eq!(rail.counts("pay_1").await, (2, 3));
    rail.faults(&json!({"standing": {"forget_keys": false}})).await;
    assert_eq!(rail.pay("k1", &order("pay_1")).await, first);
}

#[tokio::test]
async fn each_fault_does_what_it_says() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    let rows = [
        ("drop_request", 0, 0, "dropped"),
        ("drop_reply", 0, 1, "dropped"),
        ("fail_before", 503, 0, "503 unavailable"),
        ("fail_after", 500, 1, "500 internal"),
        ("garbage", 200, 0, "garbage"),
        ("truncate", 201, 1, "truncated"),
        ("wrong_amount", 201, 1, "201"),
        ("refuse", 422, 0, "422 insufficient_funds"),
        ("rate_limit", 429, 0, "429 rate_limited"),
        ("unauthorized", 401, 0, "401 unauthorized"),
        ("redirect", 302, 0, "302"),
    ];
    for (kind, status, executions, answered) in rows {
        rail.faults(&json!({"next": [{"kind": kind}]})).await;
        let told = rail.pay(kind, &order(kind)).await;
        assert_eq!(told.0, status, "{kind}: {told:?}");
        let ledger = rail.ledger(kind).await;
        assert_eq!((&ledger["executions"], &ledger["seen"][0]["answered"]), (&json!(executions), &json!(answered)));
        match kind {
            "garbage" => assert!(told.1.contains("<html>")),
            "wrong_amount" => assert!(told.1.contains("\"19901\"")),
            _ => assert!(!told.1.contains("settled") || kind == "truncate"),
        }
        // It struck once. A refusal stays one: a repeat must not pay after all.
        let again = rail.pay(kind, &order(kind)).await;
        assert_eq!(again.0, if kind == "refuse" { 422 } else { 201 }, "{kind}");
        assert_eq!(rail.counts(kind).await, (u64::from(kind != "refuse"), 2), "{kind}");
    }
}

#[tokio::test]
async fn half_an_answer_names_the_whole_length_and_a_dropped_one_has_not_a_byte() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    rail.faults(&json!({"next": [{"kind": "truncate"}, {"kind": "drop_reply"}, {"kind": "drop_request"}]})).await;
    let head = format!("authorization: Bearer {KEY}\r\nidempotency-key: k1\r\n");
    let text = rail.raw("POST", "/api/v1/transfers", &head, &order("pay_1").to_string()).await;
    let (head_told, half) = text.split_once("\r\n\r\n").unwrap();
    let length = head_told.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert_eq!(half.len(), length.parse::<usize>().unwrap() / 2);
    for _ in 0..2 {
        assert_eq!(rail.raw("POST", "/api/v1/transfers", &head, &order("pay_1").to_string()).await, "");
    }
}

#[tokio::test]
async fn delays_hold_nobody_else_and_outlive_the_caller() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    let slow = [("delay_before", 400), ("delay_after", 400), ("drop_reply", 400)];
    let next: Vec<_> = slow.iter().map(|(kind, ms)| json!({"kind": kind, "delay_ms": ms})).collect();
    rail.faults(&json!({"next": next})).await;
    for (kind, _) in slow {
        let mut stream = TcpStream::connect(rail.address).await.unwrap();
        let body = order(kind).to_string();
        let request = format!(
            "POST /api/v1/transfers HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\nidempotency-key: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        while rail.counts(kind).await.1 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The caller is gone before the rail has acted or answered.
        drop(stream);
    }
    let started = Instant::now();
    assert_eq!(rail.pay("other", &order("other")).await.0, 201);
    assert!(started.elapsed() < Duration::from_millis(300), "{:?}", started.elapsed());
    tokio::time::sleep(Duration::from_millis(600)).await;
    for (kind, _) in slow {
        let ledger = rail.ledger(kind).await;
        assert_eq!(ledger["executions"], 1, "{kind}");
        assert_ne!(ledger["seen"][0]["answered"], "", "{kind}");
    }
}

#[tokio::test]
async fn look_ups_can_be_hidden_or_down() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    rail.pay("k1", &order("pay_1")).await;
    rail.faults(&json!({"standing": {"hide_lookups": true}})).await;
    assert_eq!(rail.look_up("pay_1").await, (200, r#"{"transfers":[]}"#.to_owned()));
    rail.faults(&json!({"standing": {"lookup_down": true}})).await;
    assert_eq!(rail.look_up("pay_1").await.0, 503);
    rail.faults(&json!({"standing": {"hide_lookups": false, "lookup_down": false}})).await;
    assert!(rail.look_up("pay_1").await.1.contains("settled"));
}

#[tokio::test]
async fn what_is_no_transfer_is_refused_and_seen() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    let with = |field: &str, value: Value| {
        let mut body = order("pay_1");
        body.as_object_mut().unwrap().insert(field.to_owned(), value);
        body
    };
    let rows = [
        (json!([]), 400, "invalid_request"),
        (with("amount_minor", json!(19900)), 400, "invalid_request"),
        (with("amount_minor", json!("0")), 400, "invalid_request"),
        (with("amount_minor", json!("-1")), 400, "invalid_request"),
        (with("amount_minor", json!("+1")), 400, "invalid_request"),
        (with("amount_minor", json!("199.00")), 400, "invalid_request"),
        (with("currency", json!("XXX")), 422, "currency_not_supported"),
        (with("payee_account", json!("main")), 400, "invalid_request"),
        (with("payee_account", json!("")), 400, "invalid_request"),
        (with("extra", json!("x")), 400, "invalid_request"),
    ];
    for (body, status, code) in rows {
        let told = rail.pay("k1", &body).await;
        assert!(told.0 == status && told.1.contains(code), "{body}: {told:?}");
    }
    assert_eq!(rail.counts("pay_1").await, (0, 9));
    // A mistake does not use the key up.
    assert_eq!(rail.pay("k1", &order("pay_1")).await.0, 201);
    assert_eq!(rail.call("POST", "/api/v1/transfers", "", &order("pay_1").to_string()).await.0, 400, "no key");
    assert_eq!(rail.counts("pay_1").await, (1, 11));
    for bad in [
        json!({"next": [{"kind": "no_such"}]}),
        json!({"next": [{"kind": "refuse", "delay_ms": 60_001}]}),
        json!({"next": [{"kind": "refuse", "times": 0}]}),
        json!({"standing": {"no_such": true}}),
    ] {
        assert_eq!(rail.call("PUT", "/sandbox/faults", "", &bad.to_string()).await.0, 400, "{bad}");
    }
}

#[tokio::test]
async fn every_page_but_health_wants_the_key() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    let pages = [
        ("POST", "/api/v1/transfers"),
        ("GET", "/api/v1/transfers?reference=x"),
        ("GET", "/sandbox/ledger"),
        ("PUT", "/sandbox/faults"),
    ];
    for (method, path) in pages {
        for header in ["", "authorization: Bearer wrong\r\n", "authorization: Bearer\r\n"] {
            let text = rail.raw(method, path, header, "{}").await;
            assert!(text.starts_with("HTTP/1.1 401 "), "{method} {path} {header}");
        }
    }
    assert!(rail.raw("GET", "/healthz", "", "").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn nothing_is_lost_when_the_process_dies() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    rail.faults(&json!({"next": [{"kind": "drop_reply", "times": 2}], "standing": {"lookup_down": true}})).await;
    assert_eq!(rail.pay("k1", &order("pay_1")).await.0, 0);
    // Copied as it lies on the disk, log and all: what a killed process leaves behind.
    let copy = tempfile::tempdir().unwrap();
    for name in ["rail.db", "rail.db-wal"] {
        std::fs::copy(rail.folder.path().join(name), copy.path().join(name)).unwrap();
    }
    rail.server.abort();
    let next = serve(copy).await;
    assert_eq!(next.counts("pay_1").await, (1, 1));
    assert_eq!(next.look_up("pay_1").await.0, 503, "lasting faults last");
    assert_eq!(next.pay("k1", &order("pay_1")).await.0, 0, "the queue goes on");
    assert_eq!(next.pay("k1", &order("pay_1")).await.0, 201, "the key is known");
    assert_eq!(next.counts("pay_1").await, (1, 3));
    // And after an orderly end.
    next.server.abort();
    next.sandbox.close().await;
    let last = serve(next.folder).await;
    assert_eq!(last.counts("pay_1").await, (1, 3));
    rail.sandbox.close().await;
}

#[tokio::test]
async fn what_it_will_not_read_is_refused_in_form() {
    let rail = serve(tempfile::tempdir().unwrap()).await;
    let huge = "x".repeat(257 * 1024);
    for (method, path, body, status, code) in [
        ("POST", "/api/v1/transfers", huge.as_str(), 413, "body_too_large"),
        ("PUT", "/sandbox/faults", huge.as_str(), 413, "body_too_large"),
        ("GET", "/api/v1/transfers", "", 400, "invalid_request"),
        ("GET", "/api/v1/transfers?reference=a&reference=b", "", 400, "invalid_request"),
        ("GET", "/sandbox/ledger?reference=a&reference=b", "", 400, "invalid_request"),
    ] {
        let (told, text) = rail.call(method, path, "idempotency-key: k1\r\n", body).await;
        let error: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method} {path}: {text}"));
        assert_eq!((told, &error["error_code"]), (status, &json!(code)), "{method} {path}");
    }
}
