//! Webhooks on the wire: who is connected to, when the name says one thing and then another.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::address::{Lookup, is_public};
use super::script::{Script, Step};
use super::webhook::WebhookClient;
use crate::ambient::SystemClock;
use crate::config::Config;
use crate::journal::ports::{Delivery, WebhookPort as _};
use crate::journal::posting_for_test;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr";
const PUBLIC: &str = "203.0.114.7";

/// A resolver that answers these, one look-up after the other; the last one for ever.
fn says(answers: &[&[&str]]) -> (Lookup, Arc<Mutex<Vec<String>>>) {
    let answers = answers.iter().map(|all| all.iter().map(|one| one.parse().unwrap()).collect::<Vec<IpAddr>>());
    let answers = Mutex::new(answers.collect::<VecDeque<_>>());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |name| {
        log.lock().unwrap().push(name);
        let mut answers = answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
        let answer = if answer.is_empty() { Err(io::Error::other("no such name")) } else { Ok(answer) };
        Box::pin(std::future::ready(answer))
    });
    (lookup, asked)
}

fn client(target: &str, allowed: &[&str], lookup: &Lookup) -> WebhookClient {
    let mut config = Config::load(None).unwrap();
    config.webhooks.targets = vec![target.to_owned()];
    config.webhooks.allow_private = allowed.iter().map(|&entry| entry.to_owned()).collect();
    config.webhooks.secrets = vec![SECRET.into()];
    config.webhooks.timeout_ms = 300;
    WebhookClient::with_lookup(&config, Arc::new(SystemClock), lookup).unwrap()
}

async fn post(client: &WebhookClient) -> String {
    let posting = posting_for_test(&client.targets()[0], "{}", Duration::from_secs(5));
    match client.post(&posting).await {
        Delivery::Missed(miss) => miss.to_string(),
        other => format!("{other:?}"),
    }
}

fn port(script: &Script) -> &str {
    script.url.rsplit_once(':').unwrap().1
}

fn taken() -> Step {
    Step::SayClose("HTTP/1.1 204 No Content\r\n\r\n".to_owned())
}

#[tokio::test]
async fn a_name_is_judged_by_the_very_addresses_that_are_connected_to() {
    let canary = Script::play([taken()]).await;
    let target = format!("http://hooks.example:{}/", port(&canary));
    // One bad address among good ones; every form that carries the loopback.
    for bad in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "10.0.0.1", "fe80::1"] {
        let (lookup, asked) = says(&[&[PUBLIC, bad]]);
        let client = client(&target, &[], &lookup);
        assert_eq!(post(&client).await, "address_refused", "{bad}");
        assert_eq!(asked.lock().unwrap().as_slice(), ["hooks.example"], "{bad}: asked once");
        assert!(client.look_up().await.is_err(), "{bad}: refused at the start too");
    }
    assert_eq!(*canary.connections.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let canary = Script::play([taken()]).await;
    let target = format!("http://hooks.example:{}/", port(&canary));
    let (lookup, asked) = says(&[&[PUBLIC], &[PUBLIC], &["127.0.0.1"]]);
    let client = client(&target, &[], &lookup);
    client.look_up().await.unwrap();
    // The address that was judged is the one that is tried; nothing listens there.
    assert!(["timeout", "no_connection"].contains(&post(&client).await.as_str()));
    assert_eq!(post(&client).await, "address_refused");
    assert_eq!((asked.lock().unwrap().len(), *canary.connections.lock().unwrap()), (3, 0));
}

#[tokio::test]
async fn an_allowed_place_is_reached_wherever_it_is_and_only_there() {
    let sink = Script::play([taken()]).await;
    let (lookup, _) = says(&[&["127.0.0.1"]]);
    let place = format!("hooks.example:{}", port(&sink));
    let allowed = client(&format!("http://{place}/"), &[&place], &lookup);
    allowed.look_up().await.unwrap();
    assert_eq!(post(&allowed).await, "Taken");
    let other = client(&format!("http://{place}/"), &["hooks.example:1"], &lookup);
    assert_eq!(post(&other).await, "address_refused");
    assert_eq!(*sink.connections.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_is_a_matter_of_its_deliveries() {
    let (lookup, _) = says(&[&[]]);
    let client = client("https://hooks.example/", &[], &lookup);
    client.look_up().await.unwrap();
    assert_eq!(post(&client).await, "no_connection");
    let never: Lookup = Arc::new(|_| Box::pin(std::future::pending()));
    let client = self::client("https://hooks.example/", &[], &never);
    assert_eq!(post(&client).await, "timeout", "a resolver that hangs is part of the attempt's time");
}

#[tokio::test]
async fn each_answer_has_its_meaning_and_none_is_waited_for() {
    for (head, told) in [
        ("200 OK", "Taken"),
        ("202 Accepted", "Taken"),
        ("299 Fine", "Taken"),
        ("300 Multiple Choices", "redirect (HTTP 300)"),
        ("304 Not Modified", "redirect (HTTP 304)"),
        ("400 Bad Request", "refused (HTTP 400)"),
        ("401 Unauthorized", "refused (HTTP 401)"),
        ("410 Gone", "Gone"),
        ("429 Too Many Requests", "rate_limited (HTTP 429)"),
        ("502 Bad Gateway", "unavailable (HTTP 502)"),
        ("nonsense", "no_answer"),
    ] {
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 100\r\n\r\nx");
        // The rest of the body drips for a long time.
        let script = Script::play([Step::Drip(answer)]).await;
        let (lookup, _) = says(&[&[]]);
        let client = client(&script.url, &[script.url.trim_start_matches("http://")], &lookup);
        assert_eq!(post(&client).await, told, "{head}");
    }
}

#[tokio::test]
async fn what_came_too_late_or_is_no_target_is_not_sent() {
    let script = Script::play([taken()]).await;
    let (lookup, _) = says(&[&[]]);
    let client = client(&script.url, &[script.url.trim_start_matches("http://")], &lookup);
    for (target, within, told) in [
        (client.targets()[0].as_str(), Duration::ZERO, "too_late"),
        ("http://elsewhere.example/", Duration::from_secs(5), "not_a_target"),
    ] {
        let Delivery::Missed(miss) = client.post(&posting_for_test(target, "{}", within)).await else {
            panic!("{told}")
        };
        assert_eq!(miss.to_string(), told);
    }
    assert_eq!(*script.connections.lock().unwrap(), 0);
}

#[test]
fn the_public_internet_ends_where_its_registries_say() {
    for (address, public) in [
        ("1.1.1.1", true),
        ("9.255.255.255", true),
        ("11.0.0.0", true),
        ("100.63.255.255", true),
        ("100.64.0.0", false),
        ("100.128.0.0", true),
        ("172.15.255.255", true),
        ("172.16.0.0", false),
        ("172.32.0.0", true),
        ("192.0.0.192", false),
        ("192.0.1.1", true),
        ("198.17.255.255", true),
        ("198.19.255.255", false),
        ("223.255.255.255", true),
        ("224.0.0.1", false),
        ("255.255.255.255", false),
        ("0.0.0.0", false),
        ("2606:4700::1111", true),
        ("2001:200::1", true),
        ("2001::1", false),
        ("2001:1ff::", false),
        ("2001:db8::1", false),
        ("3fff:fff::1", false),
        ("3fff:1000::1", true),
        ("4000::1", false),
        ("64:ff9b::101:101", true),
        ("64:ff9b::a00:1", false),
        ("64:ff9b:1::101:101", false),
        ("::ffff:1.1.1.1", false),
        ("::1.1.1.1", false),
        ("fc00::1", false),
        ("fec0::1", false),
        ("ff02::1", false),
        ("::", false),
    ] {
        assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
    }
}
