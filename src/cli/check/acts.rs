//! A payment's life at the service, as a gateway would lead it: register, notify, a new round, cancel.

use serde_json::{Value, json};

use super::paper::{Paper, edited};
use super::report::{Report, Verdict, Why, failed};
use super::wire::{Answer, Ask, Key, Wire};
use crate::config::is_web;
use crate::domain::Timestamp;

pub(super) const REGISTER: &str = "POST /api/v1/payments: register";
pub(super) const NOTIFY: &str = "POST /api/v1/payments/{id}/notify";
const SIGN_LINK: &str = "GET /api/v1/payments/{id}/sign-link";
pub(super) const STATUS: &str = "GET /api/v1/payments/{id}/status";
pub(super) const FIND: &str = "GET /api/v1/payments?reference=pay_…";
const CANCEL: &str = "POST /api/v1/payments/{id}/cancel";
pub(super) const HEALTH: &str = "GET /healthz";
pub(super) const KEYS: &str = "Idempotency-Key";
pub(super) const PAYMENTS: &str = "/api/v1/payments";

/// What a run works with.
pub(super) struct Play<'a> {
    pub(super) wire: &'a Wire,
    pub(super) paper: &'a Paper,
    pub(super) report: &'a mut Report,
}

/// A payment that the service has taken.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) id: String,
    pub(super) reference: String,
    /// The registration of its round.
    body: Value,
    /// The key that it was registered under.
    key: String,
}

impl Taken {
    pub(super) fn page(&self, page: &str) -> String {
        format!("{PAYMENTS}/{}/{page}", self.id)
    }
}

/// Registers a payment of the check; `None` when the service does not take it.
pub(super) async fn register(play: &mut Play<'_>) -> Option<Taken> {
    let taken = first_registration(play).await;
    let verdict = taken.as_ref().map(|_| ()).map_err(Clone::clone);
    play.report.must(REGISTER, "a new payment is taken with 201, id, reference and round", verdict);
    let taken = taken.ok()?;
    let (wire, paper) = (play.wire, play.paper);
    let verdict = async {
        let again = wire.post(PAYMENTS, &taken.key, &taken.body).await?;
        again.is(201)?;
        again.says("id", &json!(taken.id))
    }
    .await;
    play.report.must(KEYS, "the same key and body are answered the same again", verdict);
    let verdict = async {
        let other = paper.registration(&paper.reference(), 1)?;
        wire.post(PAYMENTS, &taken.key, &other).await?.refuses(422, "idempotency_key_reused")
    }
    .await;
    play.report.must(KEYS, "the same key with another body is 422 idempotency_key_reused", verdict);
    let verdict = async { known(&wire.post(PAYMENTS, &paper.key(), &taken.body).await?, &taken.id, 1) }.await;
    play.report.must(REGISTER, "the same payment under a new key is known under the same id", verdict);
    let verdict = async {
        let other = paper.registration(&taken.reference, 1)?;
        wire.post(PAYMENTS, &paper.key(), &other).await?.refuses(409, "round_conflict")
    }
    .await;
    play.report.must(REGISTER, "the same round with other challenges is 409 round_conflict", verdict);
    Some(taken)
}

async fn first_registration(play: &Play<'_>) -> Result<Taken, Why> {
    let reference = play.paper.reference();
    let (body, key) = (play.paper.registration(&reference, 1)?, play.paper.key());
    let answer = play.wire.post(PAYMENTS, &key, &body).await?;
    if answer.text("error_code") == "unknown_signer" {
        return Err(failed("the service does not know the signer; name one it knows by --signer"));
    }
    answer.is(201)?;
    answer.says("reference", &json!(reference))?;
    answer.says("round", &json!(1))?;
    let id = answer.text("id");
    let form = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    if !(1..=128).contains(&id.len()) || id.starts_with('.') || !id.chars().all(form) {
        return Err(failed("id is not 1 to 128 of A-Z a-z 0-9 . _ : -, or begins with a dot"));
    }
    Ok(Taken { id: id.to_owned(), reference, body, key })
}

/// A registration that the service knew already, or a new round of it.
fn known(answer: &Answer, id: &str, round: i64) -> Verdict {
    if answer.status != 201 {
        answer.is(200)?;
    }
    answer.says("id", &json!(id))?;
    answer.says("round", &json!(round))
}

/// Reads what was registered, in each way there is.
pub(super) async fn read(play: &mut Play<'_>, taken: &Taken) {
    let (wire, paper) = (play.wire, play.paper);
    let verdict = finds(wire, taken, 1).await;
    play.report.must(FIND, "a known reference finds one payment under the same id", verdict);
    let verdict = async {
        let status = stands(wire, taken, 1, "open").await?;
        let asked: Vec<&Value> = status
            .member("signers")
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|line| line.get("signer_id"))
            .collect();
        let all = paper.signers().iter().all(|signer| asked.contains(&&json!(signer)));
        let online = status
            .member("signers")
            .as_array()
            .into_iter()
            .flatten()
            .all(|line| line.get("online").is_some_and(Value::is_boolean));
        if asked.len() != paper.signers().len() || !all || !online {
            return Err(failed("signers does not list each asked signer once, with online as true or false"));
        }
        status.says("decisions", &json!([]))
    }
    .await;
    play.report.must(STATUS, "the status says round, state, each signer asked, and no decision yet", verdict);
    let verdict = async {
        for _ in 0..2 {
            let link = wire.get(&taken.page("sign-link")).await?;
            link.is(200)?;
            let url = url::Url::parse(link.text("url")).ok();
            if !url.as_ref().is_some_and(is_web) {
                return Err(failed("url is no http or https address"));
            }
            if Timestamp::parse_rfc3339(link.text("expires_at"))
                .is_none_or(|at| at.rfc3339() != link.text("expires_at"))
            {
                return Err(failed("expires_at is not RFC 3339 UTC with three fraction digits"));
            }
        }
        stands(wire, taken, 1, "open").await.map(drop)
    }
    .await;
    play.report.must(SIGN_LINK, "links are issued freely, with an address and an end", verdict);
}

async fn finds(wire: &Wire, taken: &Taken, round: i64) -> Verdict {
    let answer = wire.get(&format!("{PAYMENTS}?reference={}", taken.reference)).await?;
    answer.is(200)?;
    let one = json!({"id": taken.id, "reference": taken.reference, "round": round});
    let same = |item: &Value| ["id", "reference", "round"].iter().all(|name| item.get(name) == one.get(name));
    match answer.member("items").as_array().map(Vec::as_slice) {
        Some([item]) if same(item) => Ok(()),
        Some([]) => Err(failed("items is empty")),
        _ => Err(failed(format_args!("items is not [{one}]"))),
    }
}

/// The status, which must say this.
async fn stands(wire: &Wire, taken: &Taken, round: i64, state: &str) -> Result<Answer, Why> {
    let status = wire.get(&taken.page("status")).await?;
    status.is(200)?;
    status.says("id", &json!(taken.id))?;
    status.says("reference", &json!(taken.reference))?;
    status.says("round", &json!(round))?;
    status.says("state", &json!(state))?;
    Ok(status)
}

/// Has the signers notified.
pub(super) async fn notify(play: &mut Play<'_>, taken: &Taken) {
    let (wire, paper) = (play.wire, play.paper);
    let path = taken.page("notify");
    let (body, key) = (json!({"round": 1, "notification": 1, "signers": paper.signers()}), paper.key());
    let first = async { notified(wire.post(&path, &key, &body).await?, paper.signers()) }.await;
    let told = first.as_ref().map(|first| first.body.clone()).ok();
    play.report.must(
        NOTIFY,
        "an attempt is answered notified or unreachable, with a receipt for each",
        first.map(drop),
    );
    let repeated = |answer: Answer| match &told {
        Some(told) if answer.status == 200 && answer.body == *told => Ok(()),
        Some(_) => Err(failed("it is answered otherwise than the first time")),
        None => Err(Why::Skipped("the first attempt failed".to_owned())),
    };
    let verdict = wire.post(&path, &key, &body).await.and_then(repeated);
    play.report.must(NOTIFY, "a repeated key replays the answer", verdict);
    let verdict = wire.post(&path, &paper.key(), &body).await.and_then(repeated);
    play.report.must(NOTIFY, "a repeated number is the same attempt under any key", verdict);
    let verdict = match paper.signers() {
        [one, _, ..] => {
            let fewer = edited(&body, "signers", json!([one]));
            wire.post(&path, &paper.key(), &fewer).await.and_then(|it| it.refuses(409, "notification_reused"))
        }
        _ => Err(Why::Skipped("it takes two signers; give --signer twice".to_owned())),
    };
    play.report.should(NOTIFY, "a repeated number for other signers is 409 notification_reused", verdict);
    for (check, name, value, status, code) in [
        ("another round is 409 round_stale", "round", json!(2), 409, "round_stale"),
        (
            "a signer who is not asked is 422 unknown_signer",
            "signers",
            json!(["nobody-is-named-so"]),
            422,
            "unknown_signer",
        ),
    ] {
        let other = edited(&edited(&body, "notification", json!(2)), name, value);
        let verdict = wire.post(&path, &paper.key(), &other).await.and_then(|it| it.refuses(status, code));
        play.report.must(NOTIFY, check, verdict);
    }
}

fn notified(answer: Answer, signers: &[String]) -> Result<Answer, Why> {
    answer.is(200)?;
    answer.says("notification", &json!(1))?;
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !matches!(answer.text("outcome"), "notified" | "unreachable") {
        return Err(failed("outcome is neither notified nor unreachable"));
    }
    if !answer.member("reason").is_string() || !answer.text("reason").chars().all(word) {
        return Err(failed("reason is not one word of a-z 0-9 _, or empty"));
    }
    let receipts = answer.member("receipts").as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |signer: &str| receipts.iter().any(|line| line.get("signer_id") == Some(&json!(signer)));
    let outcomes = ["pending", "deferred", "delivered", "unreachable"];
    let form = receipts.iter().all(|line| {
        line.get("channel").is_some_and(Value::is_string)
            && line.get("outcome").and_then(Value::as_str).is_some_and(|outcome| outcomes.contains(&outcome))
            && line.get("reason").is_none_or(|reason| reason.as_str().is_some_and(|text| text.chars().all(word)))
    });
    if !form || !signers.iter().all(|signer| of(signer)) {
        return Err(failed("receipts does not say of each signer by which channel and with what outcome"));
    }
    Ok(answer)
}

/// Asks anew, in a higher round.
pub(super) async fn new_round(play: &mut Play<'_>, taken: &Taken) {
    let (wire, paper) = (play.wire, play.paper);
    let verdict = async {
        let second = paper.registration(&taken.reference, 2)?;
        known(&wire.post(PAYMENTS, &paper.key(), &second).await?, &taken.id, 2)?;
        stands(wire, taken, 2, "open").await?.says("decisions", &json!([]))?;
        finds(wire, taken, 2).await
    }
    .await;
    play.report.must(REGISTER, "a higher round replaces the one before, under the same id", verdict);
    let stale = wire.post(PAYMENTS, &paper.key(), &taken.body).await.and_then(|it| it.refuses(409, "round_stale"));
    play.report.must(REGISTER, "a lower round is 409 round_stale", stale);
    let old = json!({"round": 1, "notification": 7, "signers": paper.signers()});
    let verdict = wire.post(&taken.page("notify"), &paper.key(), &old).await;
    play.report.must(
        NOTIFY,
        "the round before is 409 round_stale",
        verdict.and_then(|it| it.refuses(409, "round_stale")),
    );
}

/// Closes, late and in time, and opens again.
pub(super) async fn cancel(play: &mut Play<'_>, taken: &Taken) {
    let (wire, paper) = (play.wire, play.paper);
    let path = taken.page("cancel");
    let close = |round: i64, reason: &str| json!({"round": round, "reason": reason});
    let verdict = async {
        closed(&wire.post(&path, &paper.key(), &close(1, "cancelled")).await?, taken, "open")?;
        stands(wire, taken, 2, "open").await.map(drop)
    }
    .await;
    play.report.must(CANCEL, "a closing of a lower round changes nothing and says open", verdict);
    let verdict = wire.post(&path, &paper.key(), &close(9, "cancelled")).await;
    play.report.must(
        CANCEL,
        "a round that is not held is 409 round_unknown",
        verdict.and_then(|it| it.refuses(409, "round_unknown")),
    );
    let key = paper.key();
    let verdict = async {
        closed(&wire.post(&path, &key, &close(2, "cancelled")).await?, taken, "closed")?;
        stands(wire, taken, 2, "closed").await.map(drop)
    }
    .await;
    play.report.must(CANCEL, "a closing of the round closes it", verdict);
    let verdict = async {
        closed(&wire.post(&path, &key, &close(2, "cancelled")).await?, taken, "closed")?;
        closed(&wire.post(&path, &paper.key(), &close(2, "failed")).await?, taken, "closed")
    }
    .await;
    play.report.must(CANCEL, "closing what is closed is 200, under any key and for any reason", verdict);
    let late = json!({"round": 2, "notification": 8, "signers": paper.signers()});
    let verdict = wire.post(&taken.page("notify"), &paper.key(), &late).await.and_then(|it| it.refuses(409, "closed"));
    play.report.must(NOTIFY, "after a close it is 409 closed", verdict);
    let verdict = async {
        known(&wire.post(PAYMENTS, &paper.key(), &paper.registration(&taken.reference, 3)?).await?, &taken.id, 3)?;
        stands(wire, taken, 3, "open").await?;
        closed(&wire.post(&path, &paper.key(), &close(3, "expired")).await?, taken, "closed")
    }
    .await;
    play.report.must(REGISTER, "after a close a higher round opens it again", verdict);
}

/// Closes what a check has left open, whatever the service says to it.
pub(super) async fn close(play: &Play<'_>, id: &str, round: i64) {
    let body = json!({"round": round, "reason": "cancelled"});
    drop(play.wire.post(&format!("{PAYMENTS}/{id}/cancel"), &play.paper.key(), &body).await);
}

fn closed(answer: &Answer, taken: &Taken, state: &str) -> Verdict {
    answer.is(200)?;
    answer.says("id", &json!(taken.id))?;
    answer.says("state", &json!(state))
}

/// Whether the service works, and lets the key in.
pub(super) async fn health(play: &mut Play<'_>) {
    let wire = play.wire;
    let ask = Ask { method: reqwest::Method::GET, path: "/healthz", key: Key::None, idempotency_key: None, body: None };
    let verdict = async { wire.send(ask).await?.is(200).map(drop) }.await;
    play.report.must(HEALTH, "it answers 200 without a key", verdict);
    let verdict = async {
        let answer = wire.get(&format!("{PAYMENTS}?reference=pay_0")).await?;
        if answer.status == 401 {
            return Err(failed("the key is refused; is --api-key-file the right one?"));
        }
        answer.is(200)?;
        answer.says("items", &json!([]))
    }
    .await;
    play.report.must(HEALTH, "a look-up of pay_0 with the key finds nothing", verdict);
}
