//! Callbacks, as the gateway receives them.

use std::collections::VecDeque;
use std::sync::Mutex;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use standardwebhooks::Webhook;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::signer::callback::backoff;

type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A gateway that answers with these statuses in turn, then with 204.
async fn gateway(statuses: &[u16]) -> (String, Seen) {
    let seen = Seen::default();
    let statuses = Arc::new(Mutex::new(statuses.iter().copied().collect::<VecDeque<_>>()));
    let take =
        async |State((seen, statuses)): State<(Seen, Arc<Mutex<VecDeque<u16>>>)>, headers: HeaderMap, body: Bytes| {
            seen.lock().unwrap().push((headers, body));
            let status = statuses.lock().unwrap().pop_front().unwrap_or(204);
            (StatusCode::from_u16(status).unwrap(), [("location", "/callbacks/signer")])
        };
    let router = Router::new().route("/callbacks/signer", post(take)).with_state((Arc::clone(&seen), statuses));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/callbacks/signer", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, seen)
}

async fn decided(bench: &Bench, signer: &str) -> Value {
    let (id, body) = bench.registered(&[signer]).await;
    let (text, jws) = signed(&body, signer, Choice::Approve);
    let answer = bench.decide(&bench.link(&id).await, &text, &jws).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["decision_id"].clone()
}

#[tokio::test]
async fn a_callback_is_signed_and_repeated_as_it_was() {
    let (url, seen) = gateway(&[500, 302]).await;
    let mut bench = Bench::new().await;
    bench.callback_url = url;
    assert_eq!(bench.service.tick().await.unwrap(), 0);
    let decision_id = decided(&bench, "ann").await;
    for attempt in 1..=3 {
        assert_eq!(bench.service.tick().await.unwrap(), 1, "attempt {attempt}");
        assert_eq!(bench.service.tick().await.unwrap(), 0, "not before its time");
        bench.clock.advance(3_000_000);
    }
    assert_eq!(bench.service.tick().await.unwrap(), 0, "a 2xx ends it");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    for (headers, body) in seen.iter() {
        Webhook::new(SECRET).unwrap().verify(body, headers).unwrap();
        assert_eq!((&headers["webhook-id"], body), (&seen[0].0["webhook-id"], &seen[0].1));
    }
    let event: Value = serde_json::from_slice(&seen[0].1).unwrap();
    assert_eq!(
        event,
        json!({
            "event_id": seen[0].0["webhook-id"].to_str().unwrap(), "type": "decision.recorded",
            "payment_id": REFERENCE, "decision_id": decision_id,
        })
    );
    assert!(event["event_id"].as_str().unwrap().starts_with("evt_"));
}

#[tokio::test]
async fn the_loop_delivers_at_once_and_stops_when_told() {
    let (url, seen) = gateway(&[]).await;
    let mut bench = Bench::new().await;
    bench.callback_url = url;
    let stop = CancellationToken::new();
    let service = bench.service.clone();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { service.deliver_callbacks(stop).await }
    });
    decided(&bench, "ann").await;
    for _ in 0..100 {
        if !seen.lock().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(2), running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_callback_survives_a_restart_and_is_given_up_in_the_end() {
    let place = tempfile::tempdir().unwrap();
    let first = Bench::on(settings(&place.path().join("signer.db"), true)).await;
    decided(&first, "ann").await;
    drop(first);
    // Nothing listens there.
    let bench = Bench::on(settings(&place.path().join("signer.db"), true)).await;
    assert_eq!(bench.service.tick().await.unwrap(), 1);
    bench.clock.advance(71 * 60 * MINUTE);
    assert_eq!(bench.service.tick().await.unwrap(), 1);
    bench.clock.advance(2 * 60 * MINUTE);
    assert_eq!(bench.service.tick().await.unwrap(), 1);
    bench.clock.advance(10 * MINUTE);
    assert_eq!(bench.service.tick().await.unwrap(), 0);
}

#[tokio::test]
async fn a_target_that_hangs_holds_up_no_other() {
    let hole = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, seen) = gateway(&[]).await;
    let mut bench = Bench::new().await;
    bench.callback_url = format!("http://{}/", hole.local_addr().unwrap());
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let stop = CancellationToken::new();
    let service = bench.service.clone();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { service.deliver_callbacks(stop).await }
    });
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    assert_eq!(bench.decide(&link, &text, &jws).await.status, 200);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut moved = body.clone();
    moved["callback_url"] = json!(url);
    assert_eq!(bench.post("/api/v1/payments", "moved", &moved).await.status, 200);
    let (text, jws) = signed(&body, "bob", Choice::Approve);
    assert_eq!(bench.decide(&link, &text, &jws).await.status, 200);
    for _ in 0..50 {
        if !seen.lock().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
    stop.cancel();
    running.await.unwrap();
}

#[test]
fn waits_double_up_to_five_minutes() {
    for random in [0, 1, u64::MAX / 3, u64::MAX] {
        let mut longest = Duration::ZERO;
        for attempts in 1..200 {
            let wait = backoff(attempts, random);
            assert!(wait >= Duration::from_millis(500) && wait <= Duration::from_mins(5), "{wait:?}");
            longest = longest.max(wait);
        }
        assert!(longest >= Duration::from_secs(150));
        assert!(backoff(1, random) <= Duration::from_secs(1));
    }
}
