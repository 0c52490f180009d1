//! The rail client against the real sandbox: one request an attempt, whatever happens.

use std::sync::Arc;
use std::time::Duration;

use super::rail_tests::transfer;
use super::script::endpoint;
use super::{Endpoint, RailClient};
use crate::ambient::{SystemClock, SystemEntropy};
use crate::journal::for_test;
use crate::journal::ports::{Cause, Dedup, Lookup, Outcome, RailCaps, RailPort as _, RailReceipt};
use crate::sandbox::Sandbox;

struct Pair {
    rail: RailClient,
    endpoint: Endpoint,
    /// Where the sandbox keeps its file.
    _folder: Option<tempfile::TempDir>,
}

async fn pair() -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rail.db");
    let key = endpoint("http://x").api_key;
    let sandbox = Sandbox::open(&file, key, Arc::new(SystemClock), Arc::new(SystemEntropy)).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&format!("http://{}", listener.local_addr().unwrap()));
    tokio::spawn(async move { axum::serve(listener, sandbox.router()).await });
    let caps = RailCaps { dedup: Dedup::Forever, read_lag: Duration::ZERO, in_flight: Duration::from_hours(24) };
    let rail = RailClient::new(&endpoint, caps, Arc::new(SystemClock), Arc::new(SystemEntropy)).unwrap();
    Pair { rail, endpoint, _folder: Some(folder) }
}

impl Pair {
    async fn faults(&self, body: String) {
        let url = format!("{}/sandbox/faults", self.endpoint.url);
        let request = reqwest::Client::new().put(url).bearer_auth("key-for-tests-0001").body(body);
        assert!(request.send().await.unwrap().status().is_success());
    }

    async fn ledger(&self, reference: &str) -> serde_json::Value {
        let url = format!("{}/sandbox/ledger?reference={reference}", self.endpoint.url);
        let request = reqwest::Client::new().get(url).bearer_auth("key-for-tests-0001");
        request.send().await.unwrap().json().await.unwrap()
    }

    async fn pay(&self, reference: &str) -> Outcome<RailReceipt> {
        let body = self.rail.prepare(&transfer(reference));
        self.rail.execute(&for_test(&format!("key-{reference}"), "", &body, Duration::from_secs(30))).await
    }

    async fn look_up(&self, reference: &str) -> Lookup {
        self.rail.lookup(reference, &self.rail.prepare(&transfer(reference))).await
    }
}

#[tokio::test]
async fn every_fault_is_one_request_and_is_never_called_what_it_is_not() {
    let pair = pair().await;
    pair.rail.health().await.unwrap();
    assert_eq!(pair.look_up("none").await, Lookup::NotFound);
    let rows = [
        ("drop_request", 0, "unknown unavailable", 0),
        ("drop_reply", 0, "unknown unavailable", 1),
        ("fail_before", 0, "unknown unavailable (HTTP 503) [unavailable]", 0),
        ("fail_after", 0, "unknown unavailable (HTTP 500) [internal]", 1),
        ("wrong_amount", 0, "unknown mismatch (HTTP 201)", 1),
        ("garbage", 0, "unknown garbage (HTTP 200)", 0),
        ("truncate", 0, "unknown garbage (HTTP 201)", 1),
        ("refuse", 0, "refused rejected (HTTP 422) [insufficient_funds]", 0),
        ("rate_limit", 0, "not sent rate_limited (HTTP 429) [rate_limited]", 0),
        ("unauthorized", 0, "refused unauthorized (HTTP 401) [unauthorized]", 0),
        ("redirect", 0, "unknown redirect (HTTP 302)", 0),
        ("delay_before", 100, "done", 1),
        ("delay_after", 1_500, "unknown timeout", 1),
    ];
    for (kind, delay, expected, executions) in rows {
        // A rail without memory: any hidden repeat would show as a second execution.
        let faults = r#"{"next":[{"kind":"KIND","delay_ms":DELAY}],"standing":{"forget_keys":true}}"#;
        pair.faults(faults.replace("KIND", kind).replace("DELAY", &delay.to_string())).await;
        let told = match pair.pay(kind).await {
            Outcome::Done(_) => "done".to_owned(),
            Outcome::Refused(trouble) => format!("refused {trouble}"),
            Outcome::NotSent(trouble) => format!("not sent {trouble}"),
            Outcome::Unknown(trouble) => format!("unknown {trouble}"),
        };
        assert_eq!(told, expected, "{kind}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let ledger = pair.ledger(kind).await;
        assert_eq!((ledger["requests"].as_u64(), ledger["executions"].as_u64()), (Some(1), Some(executions)), "{kind}");
        match (pair.look_up(kind).await, executions) {
            (Lookup::NotFound, 0) | (Lookup::Found(_), 1) => {}
            (other, _) => assert_eq!(other, Lookup::NotFound, "{kind}"),
        }
    }
}

#[tokio::test]
async fn a_look_up_tells_two_payments_and_silence_apart() {
    let pair = pair().await;
    pair.faults(r#"{"standing":{"forget_keys":true}}"#.to_owned()).await;
    let first = pair.pay("pay_1").await;
    let Lookup::Found(receipt) = pair.look_up("pay_1").await else {
        unreachable!("it was just paid");
    };
    assert_eq!(first, Outcome::Done(receipt));
    pair.pay("pay_1").await;
    assert_eq!(pair.look_up("pay_1").await, Lookup::Differs);
    pair.faults(r#"{"standing":{"hide_lookups":true}}"#.to_owned()).await;
    assert_eq!(pair.look_up("pay_1").await, Lookup::NotFound);
    pair.faults(r#"{"standing":{"lookup_down":true}}"#.to_owned()).await;
    assert!(
        matches!(pair.look_up("pay_1").await, Lookup::Inconclusive(trouble) if trouble.cause == Cause::Unavailable)
    );
}

#[tokio::test]
async fn a_wrong_key_refuses_and_is_not_well() {
    let pair = pair().await;
    let wrong = Endpoint { api_key: "another-key-00001".into(), ..pair.endpoint.clone() };
    let rail = RailClient::new(&wrong, pair.rail.caps(), Arc::new(SystemClock), Arc::new(SystemEntropy)).unwrap();
    assert_eq!(rail.health().await.unwrap_err().cause, Cause::Unauthorized);
    let other = Pair { rail, endpoint: pair.endpoint.clone(), _folder: None };
    assert!(matches!(other.pay("pay_1").await, Outcome::Refused(trouble) if trouble.cause == Cause::Unauthorized));
    assert_eq!(pair.ledger("pay_1").await["executions"], 0);
}
