//! Field bug B24: a decision that is pressed twice, raced, forged, or only looked at, by a key and by a passkey.
//!
//! What came of it is read in three places: the signer service's own log of decisions and of what it told the
//! gateway, the gateway's payment with its audit, and the rail's ledger.

use std::sync::Arc;

use countersign::domain::Choice;
use countersign::proof::decision_digest;
use futures::future::join_all;
use reqwest::RequestBuilder;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION, ORIGIN};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::harness::app::{App, Wishes, each_with};
use crate::harness::passkey::{Odd, SoftPasskey};
use crate::passkeys::{document, enrolled};

const FORM: &str = "application/x-www-form-urlencoded";
const ME: &str = "finance-1";

/// How a person proves what they say.
#[derive(Debug, Clone, Copy)]
enum By {
    Key,
    Passkey,
}

const WAYS: [By; 2] = [By::Key, By::Passkey];

async fn both(test: impl AsyncFn(&App, &SoftPasskey)) {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        let (passkey, _) = enrolled(app, ME).await;
        test(app, &passkey).await;
    })
    .await;
}

/// A fresh link to an order's payment.
async fn link(app: &App, order: &str) -> String {
    let told = app.call(&app.agent(), "get_sign_link", json!({"order_id": order})).await;
    told.text("sign_url").to_owned()
}

/// What `ME` sends to say this of an order; signed anew each time.
async fn word(app: &App, passkey: &SoftPasskey, by: By, order: &str, choice: Choice) -> Value {
    match by {
        By::Key => {
            let text = app.document(ME, order, choice.as_str(), "").await;
            json!({"document": text, "jws": app.jws(ME, &text)})
        }
        By::Passkey => by_passkey(passkey, &document(app, ME, order, choice).await),
    }
}

fn by_passkey(passkey: &SoftPasskey, text: &str) -> Value {
    let value = passkey.sign(&decision_digest(text), Odd::default());
    json!({"document": text, "proof": {"type": "webauthn", "value": value}})
}

/// Sends it as the page's script does.
fn pressed(app: &App, page: &str, word: &Value) -> RequestBuilder {
    app.http.post(format!("{page}/decisions")).header(ACCEPT, "text/html").json(word)
}

/// Status and text.
async fn answer(request: RequestBuilder) -> (u16, String) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// The value of the first attribute of that name, unescaped.
fn attribute(html: &str, name: &str) -> String {
    let (_, rest) = html.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("no {name} in {html}"));
    unescaped(rest.split('"').next().unwrap())
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// What the signer service has kept of an order's payment, and how many callbacks it has made out of that.
async fn log(app: &App, order: &str) -> (Vec<String>, usize) {
    let id = app.payment(order).await.terms.payment_id.to_string();
    let mut log = app.signer_db().await;
    let kept = "SELECT d.decision FROM decisions d JOIN payments p ON p.id = d.payment_id WHERE p.reference";
    let told = "SELECT event_id FROM callbacks WHERE body LIKE";
    let kept = log.texts(&format!("{kept} = '{id}'")).await;
    (kept, log.texts(&format!("{told} '%\"{id}\"%'")).await.len())
}

/// Holds that one decision was kept, told, taken in, and carried out, and no other.
async fn one_decision(app: &App, order: &str, choice: Choice) {
    assert_eq!(log(app, order).await, (vec![choice.as_str().to_owned()], 1), "{order}: the signer service's log");
    app.deliver_callbacks().await;
    app.settle().await;
    let payment = app.payment(order).await;
    let id = payment.terms.payment_id.to_string();
    let (end, times) = if choice == Choice::Approve { ("EXECUTED", 1) } else { ("REJECTED", 0) };
    assert_eq!(payment.status.as_str(), end, "{order}");
    let taken = app.db.raw().await.texts(&format!("SELECT choice FROM decisions WHERE payment_id = '{id}'")).await;
    assert_eq!(taken, [choice.as_str()], "{order}: the gateway's decisions");
    let event = format!("decision.{}", choice.as_str());
    let audit = app.audit().await;
    let audited = |event: &str| audit.iter().filter(|facts| facts.payment_id == id && facts.event == event).count();
    assert_eq!((audited(&event), audited("decision.refused")), (1, 0), "{order}: the audit");
    assert_eq!((app.executions(&id).await, app.requests(&id).await), (times, times), "{order}: the rail's ledger");
}

/// Holds that nobody decided anything, and nothing is under way.
async fn undecided(app: &App, order: &str, version: i64, what: &str) {
    assert_eq!(log(app, order).await, (Vec::new(), 0), "{what}: the signer service's log");
    assert_eq!(app.deliver_callbacks().await, 0, "{what}");
    app.settle().await;
    let payment = app.payment(order).await;
    assert_eq!((payment.status.as_str(), payment.version), ("AWAITING_SIGNER", version), "{what}");
    assert_eq!(app.requests(&payment.terms.payment_id.to_string()).await, 0, "{what}: the rail's ledger");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b24_ten_at_once_are_one_decision_and_all_are_shown_the_same() {
    both(async |app, passkey| {
        for by in WAYS {
            for choice in [Choice::Approve, Choice::Reject] {
                let order = format!("{by:?}-{}", choice.as_str());
                app.awaiting(&order).await;
                let page = link(app, &order).await;
                let said = word(app, passkey, by, &order, choice).await;
                let shown = join_all((0..10).map(|_| answer(pressed(app, &page, &said)))).await;
                let (status, text) = &shown[0];
                assert!(*status == 200 && text.contains("data-page=\"result\""), "{order}: {status}: {text}");
                assert!(shown.iter().all(|one| *one == shown[0]), "{order}: {shown:#?}");
                // A little later, and signed anew as a second press does: the same page.
                let anew = word(app, passkey, by, &order, choice).await;
                for said in [&said, &anew] {
                    assert_eq!(answer(pressed(app, &page, said)).await, shown[0], "{order}");
                }
                one_decision(app, &order, choice).await;
                // And when all is over.
                let (status, text) = answer(pressed(app, &page, &said)).await;
                assert!(status == 200 && text.contains("data-page=\"result\""), "{order}: {status}: {text}");
                assert_eq!(answer(app.http.get(&page)).await.0, 200);
                one_decision(app, &order, choice).await;
            }
        }
        // Ten presses, of which each asked the passkey: ten proofs of one word.
        app.awaiting("order-proofs").await;
        let page = link(app, "order-proofs").await;
        let text = document(app, ME, "order-proofs", Choice::Approve).await;
        let words: Vec<Value> = (0..10).map(|_| by_passkey(passkey, &text)).collect();
        let shown = join_all(words.iter().map(|said| answer(pressed(app, &page, said)))).await;
        assert!(shown.iter().all(|one| one.0 == 200 && *one == shown[0]), "{shown:#?}");
        one_decision(app, "order-proofs", Choice::Approve).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b24_of_a_yes_and_a_no_at_the_same_moment_one_stands_and_the_other_is_told() {
    both(async |app, passkey| {
        let mut won = [0, 0];
        for round in 0..50_usize {
            let order = format!("order-{round}");
            app.awaiting(&order).await;
            let page = link(app, &order).await;
            let (yes, no) = (WAYS[round % 2], WAYS[round / 2 % 2]);
            let words = [
                word(app, passkey, yes, &order, Choice::Approve).await,
                word(app, passkey, no, &order, Choice::Reject).await,
            ];
            let barrier = Arc::new(Barrier::new(2));
            let racers = words.map(|said| {
                let (barrier, request) = (Arc::clone(&barrier), pressed(app, &page, &said));
                tokio::spawn(async move {
                    barrier.wait().await;
                    answer(request).await
                })
            });
            let shown: Vec<(u16, String)> = join_all(racers).await.into_iter().map(Result::unwrap).collect();
            let winner = shown.iter().position(|(status, _)| *status == 200).expect("one of them is taken");
            let (status, text) = &shown[1 - winner];
            assert!(*status == 409 && text.contains("already_decided"), "{order} {yes:?} {no:?}: {status}: {text}");
            won[winner] += 1;
            one_decision(app, &order, [Choice::Approve, Choice::Reject][winner]).await;
        }
        println!("{}: {} times yes, {} times no", app.db.engine(), won[0], won[1]);
    })
    .await;
}

/// The fields of a page's form for a person, and where it goes.
fn form_of(html: &str, person: &str) -> (String, Vec<(&'static str, String)>) {
    let (_, form) = html
        .split("<form method=\"post\"")
        .skip(1)
        .map(|rest| rest.split_once("</form>").unwrap())
        .map(|(form, _)| (attribute(form, "value"), form.to_owned()))
        .find(|(signer, _)| signer == person)
        .unwrap();
    let value = |name: &str| {
        let (_, rest) = form.split_once(&format!("name=\"{name}\"")).unwrap();
        attribute(rest, "value")
    };
    let names = ["signer_id", "key_id", "decision", "reason"];
    (attribute(&form, "action"), names.map(|name| (name, value(name))).to_vec())
}

/// The text that a page gives a person to sign, above the form.
fn text_to_sign(html: &str, person: &str) -> String {
    let texts = html.split("<code>").skip(1).map(|rest| unescaped(rest.split("</code>").next().unwrap()));
    let theirs = format!("\"signer_id\":\"{person}\"");
    texts.into_iter().find(|text| text.contains("countersign/approval/v1") && text.contains(&theirs)).unwrap()
}

fn submitted(app: &App, action: &str, fields: &[(&'static str, String)]) -> RequestBuilder {
    let body: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    app.http.post(format!("{}{action}", app.pages)).header(CONTENT_TYPE, FORM).body(body)
}

#[tokio::test]
async fn b24_the_first_of_two_looks_still_decides_and_the_second_is_no_other_decision() {
    both(async |app, passkey| {
        // The page's form, with a key.
        app.awaiting("order-form").await;
        let page = link(app, "order-form").await;
        let first = answer(app.http.get(&page)).await.1;
        let second = answer(app.http.get(&page)).await.1;
        let mut ends = Vec::new();
        for html in [&first, &second, &first] {
            let (action, mut fields) = form_of(html, ME);
            fields.push(("jws", app.jws(ME, &text_to_sign(html, ME))));
            let sent = submitted(app, &action, &fields).send().await.unwrap();
            ends.push((sent.status().as_u16(), sent.headers()[LOCATION].to_str().unwrap().to_owned()));
        }
        let path = page.strip_prefix(&app.pages).unwrap().to_owned();
        assert_eq!(ends, vec![(303, path); 3], "each leads back to the page, which shows what stands");
        for _ in 0..2 {
            assert!(answer(app.http.get(&page)).await.1.contains("Approved"));
        }
        one_decision(app, "order-form", Choice::Approve).await;

        // The page's script, with a passkey.
        app.awaiting("order-script").await;
        let page = link(app, "order-script").await;
        let first = answer(app.http.get(&page)).await.1;
        let second = answer(app.http.get(&page)).await.1;
        let mut shown = Vec::new();
        for html in [&first, &second] {
            let said = by_passkey(passkey, &attribute(html, "data-decision"));
            shown.push(answer(pressed(app, &page, &said)).await);
        }
        assert!(shown[0].0 == 200 && shown[0] == shown[1], "{shown:#?}");
        one_decision(app, "order-script", Choice::Approve).await;
    })
    .await;
}

#[tokio::test]
async fn b24_whoever_only_looks_decides_nothing() {
    both(async |app, passkey| {
        for by in WAYS {
            let order = format!("order-{by:?}");
            app.awaiting(&order).await;
            let page = link(app, &order).await;
            let version = app.payment(&order).await.version;
            let queries =
                ["", "?action=approve", "?decision=approve", "?signer_id=finance-1&decision=approve&action=approve"];
            let ahead = [
                ("sec-purpose", "prefetch;prerender"),
                ("purpose", "prefetch"),
                ("x-moz", "prefetch"),
                ("accept", "text/html"),
            ];
            for query in queries {
                for (name, value) in ahead {
                    for request in [app.http.get(format!("{page}{query}")), app.http.head(format!("{page}{query}"))] {
                        assert_eq!(answer(request.header(name, value)).await.0, 200, "{query} {name}");
                    }
                    let decisions = format!("{page}/decisions{query}");
                    for request in [app.http.get(&decisions), app.http.head(&decisions)] {
                        assert_eq!(answer(request.header(name, value)).await.0, 405, "{query} {name}");
                    }
                }
            }
            undecided(app, &order, version, "looking").await;
            let said = word(app, passkey, by, &order, Choice::Approve).await;
            assert_eq!(answer(pressed(app, &page, &said)).await.0, 200, "and it is not used up by it");
            one_decision(app, &order, Choice::Approve).await;
        }
    })
    .await;
}

#[tokio::test]
async fn b24_what_another_site_or_another_person_sends_decides_nothing() {
    both(async |app, passkey| {
        let (theirs, _) = enrolled(app, "finance-2").await;
        for by in WAYS {
            let (order, other) = (format!("order-{by:?}"), format!("other-{by:?}"));
            app.awaiting(&order).await;
            app.awaiting(&other).await;
            let version = app.payment(&order).await.version;
            let page = link(app, &order).await;
            let decisions = format!("{page}/decisions");
            let said = word(app, passkey, by, &order, Choice::Approve).await;
            let elsewhere = word(app, passkey, by, &other, Choice::Approve).await;
            let text = said["document"].as_str().unwrap();
            let mut bare = said.clone();
            bare.as_object_mut().unwrap().retain(|name, _| name == "document");
            let forged = match by {
                By::Key => json!({"document": text, "jws": app.jws("finance-2", text)}),
                By::Passkey => by_passkey(&theirs, text),
            };
            let form = [("signer_id", ME.to_owned()), ("decision", "approve".to_owned()), ("jws", "a..b".to_owned())];
            let as_text = app.http.post(&decisions).header(CONTENT_TYPE, "text/plain").body(said.to_string());
            let path = decisions.strip_prefix(&app.pages).unwrap();
            let cases = [
                ("no proof", pressed(app, &page, &bare), 400),
                ("another person's proof", pressed(app, &page, &forged), 422),
                ("another payment's decision", pressed(app, &page, &elsewhere), 422),
                ("another site", pressed(app, &page, &said).header(ORIGIN, "https://evil.example"), 403),
                (
                    "another site's frame",
                    pressed(app, &page, &said).header(ORIGIN, "null").header("sec-fetch-site", "cross-site"),
                    403,
                ),
                ("another site's form", submitted(app, path, &form).header(ORIGIN, "https://evil.example"), 403),
                ("plain text", as_text, 415),
                ("another method", app.http.put(&decisions).json(&said), 405),
                ("a link that is none", app.http.post(format!("{}/sign/AAAA/decisions", app.pages)).json(&said), 404),
            ];
            for (what, request, expected) in cases {
                let (status, text) = answer(request).await;
                assert_eq!(status, expected, "{by:?}: {what}: {text}");
                undecided(app, &order, version, what).await;
            }
            assert_eq!(answer(pressed(app, &page, &said)).await.0, 200);
            one_decision(app, &order, Choice::Approve).await;
        }
    })
    .await;
}
