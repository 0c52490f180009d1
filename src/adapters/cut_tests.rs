//! Reads whose answer is cut: wherever it ends too early, and however it says where it should, nothing is learnt.
//!
//! "Not found" read out of half an answer would be a second payment, half a list of decisions a lost one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::http::Endpoint;
use super::rail_tests::transfer;
use super::script::{Script, Step, endpoint, http};
use super::{RailClient, SignerClient};
use crate::ambient::{SystemClock, SystemEntropy};
use crate::journal::ports::{Dedup, Lookup, RailCaps, RailPort as _, SignerPort as _};

/// What is asked, and what a whole answer says.
#[derive(Debug, Clone, Copy)]
enum Read {
    LookUp,
    Find,
    Status,
    Link,
}

const READS: [(Read, &str, &str); 6] = [
    (Read::LookUp, r#"{"transfers":[]}"#, "not found"),
    (
        Read::LookUp,
        r#"{"transfers":[{"transfer_id":"t1","reference":"pay_1","status":"settled","amount_minor":"19900","currency":"USD","payee_account":"ACME-1","failure_code":""}]}"#,
        "found",
    ),
    (Read::Find, r#"{"items":[]}"#, "unknown there"),
    (Read::Find, r#"{"items":[{"id":"s1","reference":"pay_1","round":1}]}"#, "known there"),
    (
        Read::Status,
        r#"{"id":"s1","reference":"pay_1","round":1,"state":"open","signers":[{"signer_id":"f","online":true}],"decisions":[{"decision_id":"d1","document":"{}","proof":{"type":"jws","value":"a..b"}}]}"#,
        "1 decision",
    ),
    (Read::Link, r#"{"url":"https://signer.example/sign/x","expires_at":"2026-01-02T03:04:05.000Z"}"#, "a link"),
];

struct Clients {
    rail: RailClient,
    signer: SignerClient,
}

impl Clients {
    fn of(endpoint: &Endpoint) -> Self {
        let caps = RailCaps { dedup: Dedup::Forever, read_lag: Duration::ZERO, in_flight: Duration::ZERO };
        let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        let rail = RailClient::new(endpoint, caps, clock.clone(), entropy.clone()).unwrap();
        let signer = SignerClient::new(endpoint, "http://x/callbacks".to_owned(), clock, entropy).unwrap();
        Self { rail, signer }
    }

    /// What the answer says; `None` when nothing was learnt from it.
    async fn learn(&self, read: Read) -> Option<String> {
        match read {
            Read::LookUp => match self.rail.lookup("pay_1", &self.rail.prepare(&transfer("pay_1"))).await {
                Lookup::Inconclusive(_) => None,
                Lookup::NotFound => Some("not found".to_owned()),
                Lookup::Found(_) => Some("found".to_owned()),
                other => Some(format!("{other:?}")),
            },
            Read::Find => {
                let found = self.signer.find("pay_1").await.ok()?;
                Some(found.map_or("unknown there", |_| "known there").to_owned())
            }
            Read::Status => Some(format!("{} decision", self.signer.status("s1").await.ok()?.decisions.len())),
            Read::Link => self.signer.sign_link("s1").await.ok().map(|_| "a link".to_owned()),
        }
    }
}

/// The whole answer: its end told by a length, by a last chunk, or by the end of the connection alone.
fn whole(body: &str) -> [String; 3] {
    let length = body.len();
    [
        format!("content-length: {length}\r\n\r\n{body}"),
        format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("\r\n{body}"),
    ]
    .map(|rest| format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n{rest}"))
}

fn begin(text: &str, bytes: usize) -> String {
    text.get(..bytes).unwrap().to_owned()
}

/// Nothing here is slow but the machine.
fn patient(server: &Script) -> Endpoint {
    let long = Duration::from_secs(20);
    Endpoint { connect: long, read: long, total: long, ..endpoint(&server.url) }
}

#[tokio::test]
async fn an_answer_that_ends_too_early_says_nothing_wherever_it_ends() {
    join_all(READS.map(async |(read, body, says)| {
        let mut steps: Vec<Step> = Vec::new();
        for whole in whole(body) {
            // Each byte near the end, where all that is said may be there already.
            let cuts = (0..whole.len()).filter(|bytes| whole.len() - bytes <= 24 || bytes % 7 == 0);
            steps.extend(cuts.map(|bytes| Step::SayClose(begin(&whole, bytes))));
            steps.extend((0..whole.len()).step_by(19).map(|bytes| Step::SayReset(begin(&whole, bytes))));
        }
        // Somebody on the way cut it, and told the length of what was left.
        let close = |text: String| text.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        let cuts = (0..body.len()).filter(|bytes| body.len() - bytes <= 24 || bytes % 7 == 0);
        steps.extend(cuts.map(|bytes| Step::SayClose(close(http(200, &begin(body, bytes))))));
        let server = Script::play(steps.clone()).await;
        let clients = Clients::of(&patient(&server));
        for step in &steps {
            assert_eq!(clients.learn(read).await, None, "{read:?}: {step:?}");
        }
        assert_eq!(server.count(), steps.len(), "each was asked once");
        let server = Script::play(whole(body).map(Step::SayClose)).await;
        let clients = Clients::of(&patient(&server));
        for whole in whole(body) {
            assert_eq!(clients.learn(read).await.as_deref(), Some(says), "{whole}");
        }
    }))
    .await;
}

#[tokio::test]
async fn an_answer_whose_end_does_not_come_says_nothing_though_all_it_has_to_say_is_there() {
    let mut asked = Vec::new();
    for (read, body, _) in READS {
        let [length, chunked, closing] = whole(body);
        let more = format!("content-length: {}\r\n", body.len());
        let longer = length.replace(&more, &format!("content-length: {}\r\n", body.len() + 400));
        let open = begin(&chunked, chunked.len() - 5);
        let head = begin(&length, length.len() - body.len());
        let steps = [
            Step::SayHang(longer.clone()),
            Step::Drip(longer),
            Step::SayHang(open),
            Step::SayHang(closing.clone()),
            Step::Drip(begin(&closing, closing.len() - body.len())),
            Step::SayHang(begin(&length, length.len() - 1)),
            Step::Drip(begin(&length, 20)),
            Step::SayHang(head),
            Step::Hang,
        ];
        for step in steps {
            let server = Script::play([step.clone()]).await;
            asked.push((read, step, Clients::of(&endpoint(&server.url))));
        }
    }
    let begun = Instant::now();
    join_all(asked.iter().map(async |(read, step, clients)| {
        assert_eq!(clients.learn(*read).await, None, "{read:?}: {step:?}");
    }))
    .await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}
