//! The breaker alone and before a real socket: what opens it, what it keeps back, what closes it.

use std::sync::Arc;
use std::time::Duration;

use super::breaker::{Breaker, BreakerPlan, Vital};
use super::http::{Call, Endpoint, Http, Kind, Raw};
use super::script::{Script, Step, endpoint, http, refused, says};
use super::signer::SignerClient;
use crate::ambient::{ShiftedClock, SystemEntropy};
use crate::journal::for_test;
use crate::journal::ports::{Cause, Outcome, Recorded, SignerPort as _};

const WAIT: Duration = Duration::from_mins(1);
const SECOND: i64 = 1_000_000;

fn plan(failures: u32) -> BreakerPlan {
    BreakerPlan { failures, wait: WAIT }
}

fn careful(url: &str, failures: u32) -> Endpoint {
    Endpoint { breaker: plan(failures), ..endpoint(url) }
}

fn recorded() -> Recorded {
    for_test("key-0001", "", "{\"a\":1}", Duration::from_secs(30))
}

async fn effect(http: &Http) -> Raw {
    let recorded = recorded();
    let (kind, within) = (Kind::Effect(&recorded), Duration::from_millis(900));
    http.send(Call { kind, template: "/x", path: &["x"], query: None, within }).await
}

async fn read(http: &Http) -> Raw {
    http.send(Call { kind: Kind::Read, template: "/x", path: &["x"], query: None, within: Duration::from_millis(900) })
        .await
}

fn kept(raw: &Raw) -> bool {
    let Raw::NotSent(trouble) = raw else { return false };
    trouble.code.as_deref() == Some("breaker_open")
        && trouble.cause == Cause::Unavailable
        && trouble.retry_after.is_some_and(|wait| !wait.is_zero() && wait <= WAIT)
}

fn breaker(failures: u32) -> (Arc<ShiftedClock>, Arc<Breaker>) {
    let clock = Arc::new(ShiftedClock::default());
    let breaker = Breaker::new("script", plan(failures), Arc::clone(&clock) as _, Arc::new(SystemEntropy));
    (clock, breaker)
}

fn ends(breaker: &Breaker, vital: Vital) {
    breaker.enter().unwrap().settle(vital);
}

#[test]
fn it_opens_after_failures_in_a_row_and_only_then() {
    let (_, breaker) = breaker(3);
    for vital in [Vital::Down, Vital::Down, Vital::Alive, Vital::Down, Vital::Silent, Vital::Down] {
        ends(&breaker, vital);
        assert_eq!(breaker.word(), "closed");
    }
    ends(&breaker, Vital::Down);
    assert_eq!(breaker.word(), "open");
    let left = breaker.enter().unwrap_err();
    assert!(left > WAIT / 3 && left <= WAIT, "half to the whole of the wait: {left:?}");

    let (_, never) = self::breaker(0);
    for _ in 0..100 {
        ends(&never, Vital::Down);
    }
    assert_eq!(never.word(), "closed");
}

#[test]
fn half_open_lets_one_call_out_at_a_time_and_its_ending_decides() {
    let (clock, breaker) = breaker(1);
    ends(&breaker, Vital::Down);
    clock.advance(61 * SECOND);
    assert_eq!(breaker.word(), "half_open");
    let probe = breaker.enter().unwrap();
    for _ in 0..10 {
        assert!(breaker.enter().is_err(), "one at a time");
    }
    probe.settle(Vital::Down);
    assert_eq!(breaker.word(), "open", "anew");
    assert!(breaker.enter().is_err());

    clock.advance(61 * SECOND);
    // A probe that is given up, or that was not sent after all, says nothing: the next one looks at once.
    drop(breaker.enter().unwrap());
    breaker.enter().unwrap().settle(Vital::Silent);
    breaker.enter().unwrap().settle(Vital::Alive);
    assert_eq!(breaker.word(), "closed");
    assert!(breaker.enter().is_ok() && breaker.enter().is_ok());
}

#[test]
fn calls_that_were_out_when_it_opened_change_nothing() {
    let (clock, breaker) = breaker(1);
    let (late, later) = (breaker.enter().unwrap(), breaker.enter().unwrap());
    ends(&breaker, Vital::Down);
    late.settle(Vital::Alive);
    assert_eq!(breaker.word(), "open");
    clock.advance(61 * SECOND);
    let probe = breaker.enter().unwrap();
    later.settle(Vital::Alive);
    assert!(breaker.enter().is_err(), "the probe is still out");
    probe.settle(Vital::Alive);
    assert_eq!(breaker.word(), "closed");
}

#[test]
fn a_clock_that_is_set_back_does_not_lengthen_the_wait() {
    let (clock, breaker) = breaker(1);
    ends(&breaker, Vital::Down);
    clock.advance(-86_400 * SECOND);
    assert!(breaker.enter().is_ok());
}

#[tokio::test]
async fn what_means_down_opens_it_and_what_is_an_answer_does_not() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"a\":";
    let rows = [
        (says(500, "{}"), true),
        (says(503, "{}"), true),
        (Step::Hang, true),
        (Step::SayHang(half.to_owned()), true),
        (Step::SayReset(String::new()), true),
        (Step::SayClose("not HTTP\r\n\r\n".to_owned()), true),
        (says(200, "{}"), false),
        (says(400, "{}"), false),
        (says(401, "{}"), false),
        (says(404, "{}"), false),
        (says(409, "{}"), false),
        (says(429, "{}"), false),
        (Step::Say("HTTP/1.1 302 X\r\nlocation: http://x/\r\ncontent-length: 0\r\n\r\n".to_owned()), false),
        (Step::SayClose(half.to_owned()), false),
    ];
    for (step, opens) in rows {
        let server = Script::play([step.clone()]).await;
        let http = Http::new(&careful(&server.url, 2), Arc::new(ShiftedClock::default()), Arc::new(SystemEntropy));
        let http = http.unwrap();
        effect(&http).await;
        read(&http).await;
        assert_eq!(http.breaker(), if opens { "open" } else { "closed" }, "{step:?}");
        // Open, nothing reaches the network, whatever kind of call it is.
        let (seen, connections) = (server.count(), *server.connections.lock().unwrap());
        assert_eq!((kept(&effect(&http).await), kept(&read(&http).await)), (opens, opens), "{step:?}");
        let after = (server.count(), *server.connections.lock().unwrap());
        assert_eq!(after == (seen, connections), opens, "{step:?}");
    }
    let nobody = Http::new(&careful(&refused().await, 1), Arc::new(ShiftedClock::default()), Arc::new(SystemEntropy));
    let nobody = nobody.unwrap();
    assert!(!kept(&effect(&nobody).await));
    assert!(kept(&effect(&nobody).await));
}

#[tokio::test]
async fn too_late_to_be_sent_says_nothing_about_the_other_side() {
    let server = Script::play([says(200, "{}")]).await;
    let http = Http::new(&careful(&server.url, 1), Arc::new(ShiftedClock::default()), Arc::new(SystemEntropy)).unwrap();
    let late = for_test("key-0001", "", "{}", Duration::ZERO);
    let (kind, within) = (Kind::Effect(&late), Duration::from_millis(900));
    http.send(Call { kind, template: "/x", path: &["x"], query: None, within }).await;
    assert_eq!((http.breaker(), server.count()), ("closed", 0));
}

#[tokio::test]
async fn back_again_one_call_finds_out_and_all_others_follow() {
    let clock = Arc::new(ShiftedClock::default());
    let server = Script::play([says(500, "{}"), Step::SayClose(http(200, "{}")), says(200, "{}")]).await;
    let http = Http::new(&careful(&server.url, 1), Arc::clone(&clock) as _, Arc::new(SystemEntropy)).unwrap();
    effect(&http).await;
    assert!(kept(&effect(&http).await));
    clock.advance(61 * SECOND);
    let (one, other) = tokio::join!(effect(&http), effect(&http));
    assert_eq!([kept(&one), kept(&other)].into_iter().filter(|kept| *kept).count(), 1, "{one:?} {other:?}");
    assert_eq!(server.count(), 2);
    assert!(matches!(effect(&http).await, Raw::Answered(reply) if reply.status == 200));
}

#[tokio::test]
async fn a_write_that_the_breaker_keeps_is_not_sent_and_not_tried_again_at_once() {
    let server = Script::play([says(500, "{}")]).await;
    let client = SignerClient::new(
        &careful(&server.url, 2),
        "http://x".to_owned(),
        Arc::new(ShiftedClock::default()),
        Arc::new(SystemEntropy),
    )
    .unwrap();
    let recorded = for_test("key-0001", "sgn-1", "{\"round\":1}", Duration::from_secs(30));
    assert!(matches!(client.close(&recorded).await, Outcome::Unknown(_)), "two tries, both in doubt");
    assert_eq!((client.breaker(), server.count()), ("open", 2));
    let begun = std::time::Instant::now();
    match client.close(&recorded).await {
        Outcome::NotSent(trouble) => assert_eq!(trouble.to_string(), "unavailable [breaker_open]"),
        other => panic!("{other:?}"),
    }
    assert!(client.status("sgn-1").await.is_err_and(|trouble| trouble.cause == Cause::Unavailable));
    assert!(client.health().await.is_err());
    assert_eq!(server.count(), 2);
    assert!(begun.elapsed() < Duration::from_millis(200));
}
