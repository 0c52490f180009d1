//! What a service must refuse, and how; and what all its answers have in common.

use reqwest::Method;
use serde_json::{Value, json};

use super::acts::{self, KEYS, PAYMENTS, Play, REGISTER, STATUS, Taken};
use super::paper::{edited, without};
use super::report::{Verdict, Why, failed};
use super::wire::{Ask, Key, PATIENCE, Wire};
use crate::proof::{b64url, payment_digest};

const BODIES: &str = "Error codes";
const ACCESS: &str = "Authorization: Bearer <api key>";
/// Every address of a payment, and whether it is written to.
const PAGES: [(&str, bool); 4] = [("status", false), ("sign-link", false), ("notify", true), ("cancel", true)];

/// A key that is wrong, or none, at every address.
pub(super) async fn access(play: &mut Play<'_>) {
    for (check, key) in [("a wrong key is 401 everywhere", Key::Wrong), ("no key is 401 everywhere", Key::None)] {
        let verdict = shut(play.wire, key).await;
        play.report.must(ACCESS, check, verdict);
    }
}

async fn shut(wire: &Wire, key: Key) -> Verdict {
    let of = |page: &str| format!("{PAYMENTS}/unknown/{page}");
    let mut addresses = vec![(Method::GET, format!("{PAYMENTS}?reference=pay_0")), (Method::POST, PAYMENTS.to_owned())];
    addresses.extend(PAGES.map(|(page, writes)| (if writes { Method::POST } else { Method::GET }, of(page))));
    for (method, path) in addresses {
        let body = (method == Method::POST).then(|| b"{}".to_vec());
        let answer = wire.send(Ask { method, path: &path, key, idempotency_key: Some("check-access"), body }).await?;
        if answer.status != 401 {
            return Err(failed(format_args!("{path} was answered {} instead of 401", answer.status)));
        }
    }
    Ok(())
}

/// Registrations that must not be taken, and what becomes of their keys.
pub(super) async fn registrations(play: &mut Play<'_>) {
    let (wire, paper) = (play.wire, play.paper);
    let reference = paper.reference();
    let good = match paper.registration(&reference, 1) {
        Ok(good) => good,
        Err(why) => {
            play.report.must(REGISTER, "a wrong digest is 422 digest_mismatch", Err(why));
            return;
        }
    };
    let key = paper.key();
    let wrong = edited(&good, "payment_digest", json!(b64url([0; 32])));
    let verdict = wire.post(PAYMENTS, &key, &wrong).await.and_then(|it| it.refuses(422, "digest_mismatch"));
    play.report.must(REGISTER, "a wrong digest is 422 digest_mismatch", verdict);
    for (check, code, body) in [
        ("a payload that is no payment document is 422 payload_invalid", "payload_invalid", of_payload(&good, "{}")),
        ("a payload that is not canonical is 422 payload_invalid", "payload_invalid", spaced(&good)),
        ("a payload of another round is 422 payload_mismatch", "payload_mismatch", edited(&good, "round", json!(2))),
        ("a signer it does not know is 422 unknown_signer", "unknown_signer", of_a_stranger(&good)),
    ] {
        let verdict = wire.post(PAYMENTS, &paper.key(), &body).await.and_then(|it| it.refuses(422, code));
        play.report.must(REGISTER, check, verdict);
    }
    let verdict = async {
        let answer = wire.get(&format!("{PAYMENTS}?reference={reference}")).await?;
        answer.is(200)?;
        answer.says("items", &json!([]))
    }
    .await;
    play.report.must(BODIES, "what was refused did nothing: its reference is not known", verdict);
    let mended = wire.post(PAYMENTS, &key, &good).await;
    if let Ok(taken) = &mended {
        acts::close(play, taken.text("id"), 1).await;
    }
    let verdict = mended.and_then(|it| it.is(201).map(drop));
    play.report.must(KEYS, "a refusal leaves its key free for the mended request", verdict);
    for (check, key) in [
        ("no Idempotency-Key is 400 idempotency_key_missing", None),
        ("an Idempotency-Key of 256 characters is 400 idempotency_key_missing", Some("k".repeat(256))),
    ] {
        let body = Some(good.to_string().into_bytes());
        let ask = Ask { method: Method::POST, path: PAYMENTS, key: Key::Right, idempotency_key: key.as_deref(), body };
        let verdict = async { wire.send(ask).await?.refuses(400, "idempotency_key_missing") }.await;
        play.report.must(KEYS, check, verdict);
    }
}

fn of_payload(good: &Value, payload: &str) -> Value {
    edited(&edited(good, "payload", json!(payload)), "payment_digest", json!(payment_digest(payload)))
}

/// The same document with a blank in it.
fn spaced(good: &Value) -> Value {
    let payload = good.get("payload").and_then(Value::as_str).unwrap_or_default();
    of_payload(good, &payload.replacen(':', ": ", 1))
}

fn of_a_stranger(good: &Value) -> Value {
    let mut good = good.clone();
    if let Some(signer) = good.pointer_mut("/signers/0/signer_id") {
        *signer = json!("nobody-is-named-so");
    }
    good
}

/// An id that nobody gave out, at every address.
pub(super) async fn unknown(play: &mut Play<'_>) {
    let (wire, paper) = (play.wire, play.paper);
    let verdict = async {
        for (page, writes) in PAGES {
            let path = format!("{PAYMENTS}/no-such-payment-{}/{page}", paper.key());
            let body = match page {
                "notify" => json!({"round": 1, "notification": 1, "signers": paper.signers()}),
                _ => json!({"round": 1, "reason": "cancelled"}),
            };
            let answer = if writes { wire.post(&path, &paper.key(), &body).await? } else { wire.get(&path).await? };
            answer.refuses(404, "unknown_payment")?;
        }
        Ok(())
    }
    .await;
    play.report.must(STATUS, "an unknown id is 404 unknown_payment everywhere", verdict);
    let verdict = async { wire.get("/api/v1/no-such-page").await?.refuses(404, "not_found") }.await;
    play.report.should(BODIES, "an unknown address is 404 not_found", verdict);
    let ask = Ask { method: Method::DELETE, path: PAYMENTS, key: Key::Right, idempotency_key: None, body: None };
    let verdict = async { wire.send(ask).await?.refuses(405, "method_not_allowed") }.await;
    play.report.should(BODIES, "another method is 405 method_not_allowed", verdict);
    let verdict = async { wire.get(PAYMENTS).await?.refuses(400, "invalid_request") }.await;
    play.report.must(BODIES, "a look-up without a reference is 400 invalid_request", verdict);
}

/// Bodies that can't be read, at every address that is written to.
pub(super) async fn malformed(play: &mut Play<'_>, taken: &Taken) {
    let (wire, paper) = (play.wire, play.paper);
    let registration = paper.registration(&taken.reference, 4).unwrap_or_default();
    let targets = [
        (PAYMENTS.to_owned(), registration),
        (taken.page("notify"), json!({"round": 3, "notification": 9, "signers": paper.signers()})),
        (taken.page("cancel"), json!({"round": 3, "reason": "cancelled"})),
    ];
    let verdict = async {
        for (path, good) in &targets {
            for (what, bytes) in bad_bodies(good) {
                let answer = wire.post_bytes(path, &paper.key(), bytes).await?;
                answer.refuses(400, "invalid_request").map_err(|why| at(&why, path, &what))?;
            }
        }
        Ok(())
    }
    .await;
    play.report.must(BODIES, "a body that can't be read is 400 invalid_request, never 5xx", verdict);
    let verdict = async {
        let big = format!("{{\"pad\":\"{}\"}}", "x".repeat(257 * 1024)).into_bytes();
        for (path, _) in &targets {
            let answer = wire.post_bytes(path, &paper.key(), big.clone()).await?;
            answer.refuses(413, "body_too_large").map_err(|why| at(&why, path, "257 KiB"))?;
        }
        Ok(())
    }
    .await;
    play.report.must(BODIES, "a body of 257 KiB is 413 body_too_large", verdict);
}

fn at(why: &Why, path: &str, what: &str) -> Why {
    let (Why::Failed(why) | Why::Skipped(why)) = why;
    failed(format_args!("{what} at {path}: {why}"))
}

fn bad_bodies(good: &Value) -> Vec<(String, Vec<u8>)> {
    let text = good.to_string();
    let mut bad: Vec<(String, Vec<u8>)> = [
        ("nothing", Vec::new()),
        ("half an object", b"{".to_vec()),
        ("an array", b"[]".to_vec()),
        ("null", b"null".to_vec()),
        ("bytes that are no text", vec![b'{', 0xff, b'}']),
        ("deep nesting", [b"{\"round\":".to_vec(), vec![b'['; 20_000], vec![b']'; 20_000], b"}".to_vec()].concat()),
        ("a member twice", text.replacen('{', "{\"round\":1,", 1).into_bytes()),
        ("an unknown member", edited(good, "no_such_member", json!(1)).to_string().into_bytes()),
    ]
    .into_iter()
    .map(|(what, bytes)| (what.to_owned(), bytes))
    .collect();
    for name in good.as_object().into_iter().flat_map(|members| members.keys()) {
        bad.push((format!("no {name}"), without(good, name).to_string().into_bytes()));
        for value in [json!(null), json!({}), json!(true), json!(1.5)] {
            bad.push((format!("{name}: {value}"), edited(good, name, value).to_string().into_bytes()));
        }
    }
    bad
}

/// What was seen of all answers together.
pub(super) fn overall(play: &mut Play<'_>) -> Value {
    const FORM: &str = "All answers";
    let mut tally = play.wire.tally();
    let none = |seen: &[String], what: &str| match seen {
        [] => Ok(()),
        [first, rest @ ..] => Err(failed(format_args!("{first}{what}; {} more", rest.len()))),
    };
    play.report.must(FORM, "no answer is a redirect", none(&tally.redirects, ""));
    play.report.must(FORM, "every answer is a JSON object, typed so", none(&tally.not_json, ", not as a JSON object"));
    let verdict = none(&tally.not_an_error_object, " without error_code and error_message");
    play.report.must(FORM, "every refusal is an error object with a stable word", verdict);
    play.report.must(FORM, "nothing that was asked is answered 5xx", none(&tally.own_trouble, ""));
    play.report.must(FORM, "no answer is longer than 256 KiB", none(&tally.too_long, ""));
    tally.millis.sort_unstable();
    let most = tally.millis.last().copied().unwrap_or_default();
    let half = tally.millis.get(tally.millis.len() / 2).copied().unwrap_or_default();
    let patient = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
    let verdict = if most < patient / 2 {
        Ok(())
    } else {
        Err(failed(format_args!("the slowest took {most} ms; the gateway waits {patient} ms by default")))
    };
    play.report.must(FORM, "every answer comes within half of what the gateway waits", verdict);
    json!({"requests": tally.millis.len(), "median_ms": half, "slowest_ms": most})
}
