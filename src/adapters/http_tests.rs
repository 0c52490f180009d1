//! The client alone: what counts as not sent, and that nothing is sent twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::HeaderValue;

use super::http::{Call, Http, Kind, Raw, retry_after};
use super::script::{Script, Step, endpoint, http, refused, says};
use crate::ambient::{SystemClock, SystemEntropy};
use crate::domain::Timestamp;
use crate::journal::for_test;
use crate::journal::ports::{Cause, Recorded};

fn client(url: &str) -> Http {
    Http::new(&endpoint(url), Arc::new(SystemClock), Arc::new(SystemEntropy)).unwrap()
}

fn recorded() -> Recorded {
    for_test("key-0001", "", "{\"a\":1}", Duration::from_secs(30))
}

fn call(kind: Kind<'_>) -> Call<'_> {
    Call { kind, template: "/x", path: &["x"], query: None, within: Duration::from_millis(900) }
}

async fn effect(url: &str) -> Raw {
    client(url).send(call(Kind::Effect(&recorded()))).await
}

fn not_sent(raw: &Raw) -> Cause {
    match raw {
        Raw::NotSent(trouble) => trouble.cause,
        other => panic!("{other:?}"),
    }
}

fn no_answer(raw: &Raw) -> Cause {
    match raw {
        Raw::NoAnswer(trouble) => trouble.cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_never_left_is_not_sent() {
    assert_eq!(not_sent(&effect(&refused().await).await), Cause::Unavailable);
    assert_eq!(not_sent(&effect("http://no-such-host.invalid").await), Cause::Unavailable);

    // TLS against a server that speaks none, and against one that says nothing: connect time-out.
    let plain = Script::play([Step::SayClose(http(400, "{}"))]).await;
    assert_eq!(not_sent(&effect(&plain.url.replace("http", "https")).await), Cause::Unavailable);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let started = Instant::now();
    assert_eq!(not_sent(&effect(&url).await), Cause::Unavailable);
    assert!(started.elapsed() < Duration::from_millis(700), "the connect time-out, not the total one");
}

#[tokio::test]
async fn too_late_is_not_sent() {
    let server = Script::play([says(200, "{}")]).await;
    let late = for_test("key-0001", "", "{}", Duration::ZERO);
    let raw = client(&server.url).send(call(Kind::Effect(&late))).await;
    assert_eq!(not_sent(&raw), Cause::TooLate);
    assert_eq!((server.count(), *server.connections.lock().unwrap()), (0, 0));
}

#[tokio::test]
async fn whatever_ends_without_a_whole_answer_is_no_answer_and_is_sent_once() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"a\":";
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 400000\r\n\r\n{}", "x".repeat(400_000));
    let endless = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n80000\r\n{}", "x".repeat(0x80000));
    let rows = [
        (Step::SayClose(String::new()), Cause::Unavailable),
        (Step::SayReset(String::new()), Cause::Unavailable),
        (Step::SayReset("HTTP/1.1 200 OK\r\n".to_owned()), Cause::Unavailable),
        (Step::SayClose("garbage that is not HTTP\r\n\r\n".to_owned()), Cause::Garbage),
        (Step::SayClose(half.to_owned()), Cause::Garbage),
        (Step::SayReset(half.to_owned()), Cause::Garbage),
        (Step::SayHang(half.to_owned()), Cause::Timeout),
        (Step::SayHang("HTTP/1.1 200 OK\r\n".to_owned()), Cause::Timeout),
        (Step::Hang, Cause::Timeout),
        (Step::Drip("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n".to_owned()), Cause::Timeout),
        (Step::Drip("HTTP/1.1 200 OK\r\n".to_owned()), Cause::Timeout),
        (Step::SayClose(long), Cause::Garbage),
        (Step::SayClose(endless), Cause::Garbage),
    ];
    for (step, cause) in rows {
        let server = Script::play([step.clone()]).await;
        let label: String = format!("{step:?}").chars().take(80).collect();
        let started = Instant::now();
        assert_eq!(no_answer(&effect(&server.url).await), cause, "{label}");
        assert!(started.elapsed() < Duration::from_secs(2), "{label}");
        // A hidden retry would come at once, or when the pool notices; give it the chance.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(server.count(), 1, "{label}");
    }
}

#[tokio::test]
async fn a_kept_connection_that_closes_under_a_request_never_makes_it_go_twice() {
    let server = Script::play([Step::SayThenDropNext(http(200, "{}"))]).await;
    let client = client(&server.url);
    for _ in 0..5 {
        let raw = client.send(call(Kind::Effect(&recorded()))).await;
        assert!(matches!(raw, Raw::Answered(_)), "a fresh connection each, so none is dropped: {raw:?}");
    }
    assert_eq!((server.count(), *server.connections.lock().unwrap()), (5, 5));
}

#[tokio::test]
async fn redirects_are_answers() {
    let canary = Script::play([says(200, "{}")]).await;
    let head = format!("HTTP/1.1 307 X\r\nlocation: {}/x\r\ncontent-length: 0\r\n\r\n", canary.url);
    let server = Script::play([Step::Say(head)]).await;
    for kind in [Kind::Effect(&recorded()), Kind::Read] {
        let raw = client(&server.url).send(call(kind)).await;
        assert!(matches!(raw, Raw::Answered(reply) if reply.status == 307));
    }
    assert_eq!(canary.count(), 0);
}

#[tokio::test]
async fn a_request_carries_key_trace_and_exact_bytes() {
    let server = Script::play([says(200, "{}")]).await;
    client(&format!("{}/base/", server.url)).send(call(Kind::Effect(&recorded()))).await;
    let sent = server.requests.lock().unwrap().first().unwrap().clone();
    assert!(sent.starts_with("POST /base/x HTTP/1.1\r\n"), "{sent}");
    for header in [
        "authorization: Bearer key-for-tests-0001\r\n",
        "idempotency-key: key-0001\r\n",
        "content-type: application/json\r\n",
        concat!("user-agent: countersign/", env!("CARGO_PKG_VERSION"), "\r\n"),
    ] {
        assert!(sent.contains(header), "{header} in {sent}");
    }
    assert!(sent.ends_with("\r\n\r\n{\"a\":1}"));
}

#[test]
fn retry_after_is_seconds_or_a_date_and_bounded() {
    let now = Timestamp::parse_rfc3339("1994-11-06T08:49:30.000Z").unwrap();
    let read = |text: &str| retry_after(&HeaderValue::from_str(text).unwrap(), now);
    assert_eq!(read("7"), Some(Duration::from_secs(7)));
    assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
    assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
    assert_eq!(read("99999999999999999999999"), Some(Duration::from_hours(1)));
    assert_eq!(read("Sat, 06 Nov 2094 08:49:37 GMT"), Some(Duration::from_hours(1)));
    assert_eq!((read(""), read("soon"), read("-1"), read("1.5")), (None, None, None, None));
}

#[test]
fn an_endpoint_that_could_not_be_called_is_refused() {
    for url in ["ftp://x", "not a url", "http://user@x", "http://user:pw@x", "http://x/?q", "http://x/#f", ""] {
        assert!(Http::new(&endpoint(url), Arc::new(SystemClock), Arc::new(SystemEntropy)).is_err(), "{url}");
    }
    let mut bad = endpoint("http://x");
    bad.api_key = "line\nbreak".into();
    let fault = Http::new(&bad, Arc::new(SystemClock), Arc::new(SystemEntropy)).unwrap_err();
    assert!(!fault.to_string().contains("break"));
}
