//! The rail's table, row by row, against a scripted server.

use std::sync::Arc;
use std::time::Duration;

use super::RailClient;
use super::script::{Script, Step, endpoint, http, refused, says};
use crate::ambient::{SystemClock, SystemEntropy};
use crate::domain::Money;
use crate::journal::for_test;
use crate::journal::ports::{Cause, Dedup, Lookup, Outcome, RailCaps, RailPort as _, RailReceipt, Transfer};

fn rail(url: &str) -> RailClient {
    let caps = RailCaps { dedup: Dedup::Forever, read_lag: Duration::ZERO, in_flight: Duration::from_hours(24) };
    RailClient::new(&endpoint(url), caps, Arc::new(SystemClock), Arc::new(SystemEntropy)).unwrap()
}

pub(super) fn transfer(reference: &str) -> Transfer {
    Transfer {
        reference: reference.to_owned(),
        order_id: "order-1".to_owned(),
        amount: Money::parse("199.00", "USD".parse().unwrap()).unwrap(),
        payer_account: "main".to_owned(),
        payee_account: "ACME-1".to_owned(),
        payee_name: "Acme \"Ltd\"".to_owned(),
        purpose: "new chairs".to_owned(),
    }
}

fn told(status: &str, code: &str) -> String {
    format!(
        r#"{{"transfer_id":"t1","reference":"pay_1","status":"{status}","amount_minor":"19900","currency":"USD","payee_account":"ACME-1","failure_code":"{code}"}}"#
    )
}

async fn execute(step: Step) -> (Outcome<RailReceipt>, usize) {
    let server = Script::play([step]).await;
    let rail = rail(&server.url);
    let recorded = for_test("key-0001", "", &rail.prepare(&transfer("pay_1")), Duration::from_secs(30));
    let outcome = rail.execute(&recorded).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    (outcome, server.count())
}

fn word(outcome: &Outcome<RailReceipt>) -> String {
    match outcome {
        Outcome::Done(receipt) => format!("done {}", receipt.transfer_id),
        Outcome::Refused(trouble) => format!("refused {trouble}"),
        Outcome::NotSent(trouble) => format!("not sent {trouble}"),
        Outcome::Unknown(trouble) => format!("unknown {trouble}"),
    }
}

#[test]
fn the_body_is_the_contract_s() {
    let body = rail("http://x").prepare(&transfer("pay_1"));
    assert_eq!(
        body,
        r#"{"reference":"pay_1","order_id":"order-1","amount_minor":"19900","currency":"USD","payer_account":"main","payee_account":"ACME-1","payee_name":"Acme \"Ltd\"","purpose":"new chairs"}"#
    );
}

#[tokio::test]
async fn each_answer_proves_what_the_contract_says() {
    let settled = told("settled", "");
    let coded = |code: &str| format!(r#"{{"error_code":"{code}","error_message":"x"}}"#);
    let html = "<html>502 Bad Gateway</html>";
    let rows = [
        (201, settled.clone(), "done t1"),
        (200, settled.clone(), "done t1"),
        (200, told("failed", "account_closed"), "refused rejected (HTTP 200) [account_closed]"),
        (200, told("failed", "odd_code"), "unknown garbage (HTTP 200)"),
        (200, told("failed", ""), "unknown garbage (HTTP 200)"),
        (200, told("processing", ""), "unknown garbage (HTTP 200)"),
        (200, told("settled", "account_closed"), "unknown garbage (HTTP 200)"),
        (201, settled.replace("19900", "19901"), "unknown mismatch (HTTP 201)"),
        (201, settled.replace("pay_1", "pay_2"), "unknown mismatch (HTTP 201)"),
        (201, settled.replace("USD", "EUR"), "unknown mismatch (HTTP 201)"),
        (201, settled.replace("ACME-1", "ACME-2"), "unknown mismatch (HTTP 201)"),
        (201, told("failed", "account_closed").replace("pay_1", "pay_2"), "unknown mismatch (HTTP 201)"),
        (201, settled.replace("\"19900\"", "19900"), "unknown garbage (HTTP 201)"),
        (201, settled.replace("t1", ""), "unknown garbage (HTTP 201)"),
        (201, format!("{settled}{settled}"), "unknown garbage (HTTP 201)"),
        (201, settled.replacen('{', r#"{"status":"failed","#, 1), "unknown garbage (HTTP 201)"),
        (200, "{}".to_owned(), "unknown garbage (HTTP 200)"),
        (200, html.to_owned(), "unknown garbage (HTTP 200)"),
        (202, settled.clone(), "unknown garbage (HTTP 202)"),
        (204, String::new(), "unknown garbage (HTTP 204)"),
        (400, coded("invalid_request"), "refused rejected (HTTP 400) [invalid_request]"),
        (402, coded("insufficient_funds"), "refused rejected (HTTP 402) [insufficient_funds]"),
        (422, coded("payee_blocked"), "refused rejected (HTTP 422) [payee_blocked]"),
        (422, coded("something_else"), "unknown garbage (HTTP 422) [something_else]"),
        (400, html.to_owned(), "unknown garbage (HTTP 400)"),
        (401, html.to_owned(), "refused unauthorized (HTTP 401)"),
        (403, coded("forbidden"), "refused unauthorized (HTTP 403) [forbidden]"),
        (404, coded("insufficient_funds"), "unknown not_found (HTTP 404) [insufficient_funds]"),
        (408, String::new(), "unknown timeout (HTTP 408)"),
        (409, coded("insufficient_funds"), "unknown conflict (HTTP 409) [insufficient_funds]"),
        (429, String::new(), "not sent rate_limited (HTTP 429)"),
        (500, coded("insufficient_funds"), "unknown unavailable (HTTP 500) [insufficient_funds]"),
        (502, html.to_owned(), "unknown unavailable (HTTP 502)"),
        (503, String::new(), "unknown unavailable (HTTP 503)"),
        (302, String::new(), "unknown redirect (HTTP 302)"),
    ];
    for (status, body, expected) in rows {
        let (outcome, count) = execute(says(status, &body)).await;
        assert_eq!((word(&outcome).as_str(), count), (expected, 1), "{status} {body}");
    }
}

#[tokio::test]
async fn a_broken_connection_is_unknown_and_a_failed_connect_is_not() {
    let half = http(201, &told("settled", "")).replace("content-length: 1", "content-length: 9");
    let rows = [
        (Step::SayClose(half), "unknown garbage (HTTP 201)"),
        (Step::SayClose(String::new()), "unknown unavailable"),
        (Step::SayReset("HTTP/1.1 201 X\r\n".to_owned()), "unknown unavailable"),
        (Step::Hang, "unknown timeout"),
    ];
    for (step, expected) in rows {
        let (outcome, count) = execute(step.clone()).await;
        assert_eq!((word(&outcome).as_str(), count), (expected, 1), "{step:?}");
    }
    let rail = rail(&refused().await);
    let recorded = for_test("key-0001", "", &rail.prepare(&transfer("pay_1")), Duration::from_secs(30));
    assert_eq!(word(&rail.execute(&recorded).await), "not sent unavailable");
}

#[tokio::test]
async fn a_busy_rail_s_waiting_time_is_kept() {
    let busy = "HTTP/1.1 429 X\r\nretry-after: 3\r\ncontent-length: 0\r\n\r\n".to_owned();
    match execute(Step::Say(busy)).await.0 {
        Outcome::NotSent(trouble) => assert_eq!(trouble.retry_after, Some(Duration::from_secs(3))),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_body_that_is_no_transfer_is_not_sent() {
    let server = Script::play([says(201, &told("settled", ""))]).await;
    for body in ["", "{}", "[1]"] {
        let recorded = for_test("key-0001", "", body, Duration::from_secs(30));
        let outcome = rail(&server.url).execute(&recorded).await;
        assert_eq!(word(&outcome), "not sent garbage");
    }
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn a_look_up_compares() {
    let settled = told("settled", "");
    let list = |items: &[&str]| format!(r#"{{"transfers":[{}]}}"#, items.join(","));
    let rows = [
        (200, list(&[]), "not found".to_owned()),
        (200, list(&[&settled]), "found t1".to_owned()),
        (200, list(&[&told("failed", "limit_exceeded")]), "refused limit_exceeded".to_owned()),
        (200, list(&[&told("failed", "odd")]), format!("inconclusive {:?}", Cause::Garbage)),
        (200, list(&[&told("pending", "")]), format!("inconclusive {:?}", Cause::Garbage)),
        (200, list(&[&settled, &settled]), "differs".to_owned()),
        (200, list(&[&settled, &told("failed", "limit_exceeded")]), "differs".to_owned()),
        (200, list(&[&settled.replace("19900", "1")]), "differs".to_owned()),
        (200, list(&[&settled.replace("pay_1", "pay_2")]), "differs".to_owned()),
        (200, "{}".to_owned(), format!("inconclusive {:?}", Cause::Garbage)),
        (200, "<html>".to_owned(), format!("inconclusive {:?}", Cause::Garbage)),
        (201, list(&[]), format!("inconclusive {:?}", Cause::Garbage)),
        (204, String::new(), format!("inconclusive {:?}", Cause::Garbage)),
        (404, String::new(), format!("inconclusive {:?}", Cause::NotFound)),
        (401, String::new(), format!("inconclusive {:?}", Cause::Unauthorized)),
        (503, String::new(), format!("inconclusive {:?}", Cause::Unavailable)),
    ];
    for (status, body, expected) in rows {
        let server = Script::play([says(status, &body)]).await;
        let rail = rail(&server.url);
        let asked = rail.prepare(&transfer("pay_1"));
        let told = match rail.lookup("pay_1", &asked).await {
            Lookup::Found(receipt) => format!("found {}", receipt.transfer_id),
            Lookup::FoundRefused(trouble) => format!("refused {}", trouble.code.unwrap()),
            Lookup::Differs => "differs".to_owned(),
            Lookup::NotFound => "not found".to_owned(),
            Lookup::Inconclusive(trouble) => format!("inconclusive {:?}", trouble.cause),
        };
        assert_eq!(told, expected, "{status} {body}");
        let line = server.requests.lock().unwrap().first().unwrap().lines().next().unwrap().to_owned();
        assert_eq!(line, "GET /api/v1/transfers?reference=pay_1 HTTP/1.1");
        assert!(matches!(rail.lookup("pay_9", &asked).await, Lookup::Inconclusive(_)));
    }
}
