//! Reaching people: what they are told, channels in their order, time-outs and crashes.

mod links;
mod pacing;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use standardwebhooks::Webhook;

use super::*;
use crate::signer::{ChannelSettings, Language, Way};

type Seen = Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>;

/// A server that a channel posts to: paths that begin with a status answer it, `/hang` never does.
struct Receiver {
    url: String,
    seen: Seen,
}

impl Receiver {
    async fn new() -> Self {
        let seen = Seen::default();
        let take = async |State(seen): State<Seen>, uri: Uri, headers: HeaderMap, body: Bytes| {
            seen.lock().unwrap().push((uri.path().to_owned(), headers, body));
            let first = uri.path().split('/').nth(1).unwrap_or_default().to_owned();
            if first == "hang" {
                std::future::pending::<()>().await;
            }
            StatusCode::from_u16(first.parse().unwrap_or(200)).unwrap()
        };
        let router = Router::new().fallback(take).with_state(Arc::clone(&seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, seen }
    }

    fn hook(&self, path: &str) -> ChannelSettings {
        ChannelSettings::Webhook {
            url: format!("{}/{path}", self.url).into(),
            secret: SECRET.into(),
            within: Duration::from_millis(700),
        }
    }

    fn push(&self) -> ChannelSettings {
        ChannelSettings::Ntfy { url: self.url.clone(), token: Some("tk_secret".into()), within: Duration::from_secs(5) }
    }

    fn paths(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(path, ..)| path.clone()).collect()
    }

    /// The bodies of webhooks.
    fn posts(&self) -> Vec<Value> {
        self.seen.lock().unwrap().iter().map(|(_, _, body)| serde_json::from_slice(body).unwrap()).collect()
    }
}

fn ways(all: &[(&str, &str)]) -> Vec<Way> {
    all.iter().map(|(channel, to)| Way { channel: (*channel).to_owned(), to: (*to).to_owned() }).collect()
}

/// Settings under which ann and bob are reached so.
fn by(channels: Vec<(&str, ChannelSettings)>, order: &[(&str, &str)]) -> SignerSettings {
    let mut settings = settings(Path::new(":memory:"), true);
    settings.reaching.channels =
        channels.into_iter().map(|(name, it)| (name.to_owned(), it)).collect::<BTreeMap<_, _>>();
    for entry in settings.directory.iter_mut().filter(|entry| entry.signer_id != "cleo") {
        entry.ways = ways(order);
    }
    settings
}

impl Bench {
    /// Registers another payment; the service's id.
    async fn another(&self, reference: &str, signer: &str) -> String {
        let mut document = document(1);
        document.payment_id = reference.to_owned();
        document.order_id = format!("order-of-{reference}");
        let mut body = self.registration_of(&document.canonical().unwrap(), 1, &[signer]);
        body["reference"] = json!(reference);
        body["expires_at"] = json!(self.clock.now().plus_micros(24 * 60 * MINUTE).rfc3339());
        let answer = self.post("/api/v1/payments", &format!("register-{reference}"), &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    async fn notify(&self, id: &str, number: i64, signers: &[&str]) -> Value {
        let body = json!({"round": 1, "notification": number, "signers": signers});
        let answer = self.post(&format!("/api/v1/payments/{id}/notify"), &format!("{id}-n{number}"), &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }

    /// The receipts of the last notification, shortened to signer, channel, outcome and reason.
    async fn told(&self, id: &str) -> Vec<String> {
        short(&self.status(id).await)
    }

    /// Waits, in true time, until nothing of a payment is under way.
    async fn until_settled(&self, id: &str) {
        for _ in 0..200 {
            if !self.told(id).await.iter().any(|line| line.contains("pending")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("still under way: {:?}", self.told(id).await);
    }
}

fn short(answer: &Value) -> Vec<String> {
    let word = |receipt: &Value, name: &str| receipt[name].as_str().unwrap().to_owned();
    let all = answer["receipts"].as_array().unwrap().iter();
    all.map(|it| {
        format!("{} {} {} {}", word(it, "signer_id"), word(it, "channel"), word(it, "outcome"), word(it, "reason"))
    })
    .map(|line| line.trim_end().to_owned())
    .collect()
}

#[tokio::test]
async fn a_message_says_who_asks_how_much_for_whom_and_what_to_compare() {
    let receiver = Receiver::new().await;
    let mut settings = by(vec![("chat", receiver.hook("chat")), ("push", receiver.push())], &[("chat", "@ann")]);
    settings.directory[1].language = Language::Chinese;
    settings.directory[1].zone = "Asia/Shanghai".to_owned();
    settings.directory[1].ways = ways(&[("push", "topic-of-bob")]);
    let bench = Bench::on(settings).await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let answer = bench.notify(&id, 1, &["ann", "bob"]).await;
    assert_eq!(answer["outcome"], "notified");
    assert_eq!(short(&answer), ["ann chat delivered", "bob push delivered"]);

    let seen = receiver.seen.lock().unwrap().clone();
    let (_, headers, text) = seen.iter().find(|(path, ..)| path == "/chat").unwrap();
    Webhook::new(SECRET).unwrap().verify(text, headers).unwrap();
    let post: Value = serde_json::from_slice(text).unwrap();
    let code = &body["payment_digest"].as_str().unwrap()[..8];
    let item = &post["data"]["payments"][0];
    assert_eq!(post["type"], "approval.wanted");
    assert_eq!((&post["data"]["to"], &post["data"]["waiting"]), (&json!("@ann"), &json!(1)));
    assert_eq!((&item["payment_id"], &item["compare_code"]), (&json!(REFERENCE), &json!(code)));
    assert_eq!(item["payee"], "Widgets GmbH, account …3000");
    let said = post["text"].as_str().unwrap();
    for wanted in ["agent-7, for mia", "199.00 USD", "Widgets GmbH", code, "PO-2026-117", "2026-01-02 00:00 UTC"] {
        assert!(said.contains(wanted), "{wanted:?} in {said}");
    }
    for secret in ["DE89370400440532013000", KEY, SECRET, "nonce", "<script>"] {
        assert!(!post.to_string().contains(secret), "{secret}");
    }
    let link = item["url"].as_str().unwrap().strip_prefix(ORIGIN).unwrap();
    assert!(said.contains(link));
    assert_eq!(bench.get(link).await.status, 200);

    let (path, headers, text) = seen.iter().find(|(path, ..)| path != "/chat").unwrap();
    assert_eq!(path, "/topic-of-bob");
    assert_eq!(headers["authorization"], "Bearer tk_secret");
    assert!(headers["title"].to_str().unwrap().starts_with("=?UTF-8?B?"));
    assert!(headers["click"].to_str().unwrap().starts_with(&format!("{ORIGIN}/sign/")));
    let said = std::str::from_utf8(text).unwrap();
    for wanted in ["付款", "agent-7（代表 mia）", "199.00 USD", code, "2026-01-02 08:00 CST"] {
        assert!(said.contains(wanted), "{wanted:?} in {said}");
    }
}

#[tokio::test]
async fn the_next_channel_is_tried_until_one_takes_it() {
    let receiver = Receiver::new().await;
    let channels = vec![
        ("gone", receiver.hook("410/a")),
        ("busy", receiver.hook("503/b")),
        ("good", receiver.hook("good")),
        ("more", receiver.hook("more")),
    ];
    let order = [("gone", "a"), ("busy", "b"), ("good", "c"), ("more", "d")];
    let bench = Bench::on(by(channels, &order)).await;
    let (id, _) = bench.registered(&["ann"]).await;
    let answer = bench.notify(&id, 1, &["ann"]).await;
    assert_eq!(answer["outcome"], "notified");
    assert_eq!(short(&answer), ["ann gone unreachable bounced", "ann busy unreachable not_now", "ann good delivered"]);
    assert_eq!(receiver.paths(), ["/410/a", "/503/b", "/good"]);
    let ids: Vec<_> =
        receiver.seen.lock().unwrap().iter().map(|(_, headers, _)| headers["webhook-id"].clone()).collect();
    assert!(ids.iter().all(|id| id == ids[0]), "one message on all of them: {ids:?}");
    assert_eq!(bench.told(&id).await, short(&answer), "the status says the same");
}

#[tokio::test]
async fn who_has_no_channel_left_is_unreachable() {
    let receiver = Receiver::new().await;
    let channels = vec![("gone", receiver.hook("410/a")), ("denied", receiver.hook("403/b"))];
    let bench = Bench::on(by(channels, &[("denied", "b"), ("gone", "a")])).await;
    let (id, _) = bench.registered(&["ann", "dan"]).await;
    let answer = bench.notify(&id, 1, &["ann"]).await;
    assert_eq!((&answer["outcome"], &answer["reason"]), (&json!("unreachable"), &json!("bounced")));
    assert_eq!(short(&answer), ["ann denied unreachable login_refused", "ann gone unreachable bounced"]);
    // Who is offline is not tried at all.
    let answer = bench.notify(&id, 2, &["dan"]).await;
    assert_eq!(
        (&answer["reason"], short(&answer)),
        (&json!("offline"), vec!["dan denied unreachable offline".to_owned()])
    );
    assert_eq!(receiver.paths().len(), 2);
    // What reached nobody is no crowd: each new attempt is made.
    for number in 3..9 {
        assert_eq!(bench.notify(&id, number, &["ann"]).await["outcome"], "unreachable", "{number}");
    }
    assert_eq!(receiver.paths().len(), 14);
}

#[tokio::test]
async fn the_answer_comes_in_time_whatever_a_channel_does() {
    let receiver = Receiver::new().await;
    let channels = vec![("hangs", receiver.hook("hang")), ("hangs_too", receiver.hook("hang"))];
    let mut settings = by(channels, &[("hangs", "a"), ("hangs_too", "b")]);
    settings.reaching.answer_within = Duration::from_millis(200);
    let bench = Bench::on(settings).await;
    let (id, _) = bench.registered(&["ann"]).await;
    let began = Instant::now();
    let answer = bench.notify(&id, 1, &["ann"]).await;
    assert!(began.elapsed() < Duration::from_millis(650), "{:?}", began.elapsed());
    assert_eq!((&answer["outcome"], short(&answer)), (&json!("notified"), vec!["ann hangs pending".to_owned()]));
    bench.until_settled(&id).await;
    assert_eq!(bench.told(&id).await, ["ann hangs unreachable timeout", "ann hangs_too unreachable timeout"]);
    // What was answered stays answered.
    assert_eq!(bench.notify(&id, 1, &["ann"]).await, answer);
    assert_eq!(receiver.paths().len(), 2);
}

#[tokio::test]
async fn the_same_key_never_sends_twice() {
    let receiver = Receiver::new().await;
    let bench = Bench::on(by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")])).await;
    let (id, _) = bench.registered(&["ann"]).await;
    let answers = futures::future::join_all((0..8).map(|_| bench.notify(&id, 1, &["ann"]))).await;
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer["outcome"] == "notified"), "{answers:?}");
    assert_eq!(bench.notify(&id, 1, &["ann"]).await, answers[0]);
    assert_eq!(receiver.paths().len(), 1);
    bench.notify(&id, 2, &["ann"]).await;
    assert_eq!(receiver.paths().len(), 2, "a new number is a new message");
}

#[tokio::test]
async fn an_attempt_that_a_crash_cut_short_is_not_made_again_and_the_next_channel_is() {
    let place = tempfile::tempdir().unwrap();
    let receiver = Receiver::new().await;
    let settings = |channels, within| {
        let mut settings = by(channels, &[("hangs", "a"), ("good", "b")]);
        settings.database = place.path().join("signer.db");
        settings.reaching.answer_within = within;
        settings
    };
    let slow = ChannelSettings::Webhook {
        url: format!("{}/hang", receiver.url).into(),
        secret: SECRET.into(),
        within: Duration::from_secs(50),
    };
    // The process dies in the attempt, before it has answered: all that it had begun ends with its runtime.
    let first = settings(vec![("hangs", slow.clone()), ("good", receiver.hook("good"))], Duration::from_secs(30));
    let id = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::on(first).await;
            let (id, _) = bench.registered(&["ann"]).await;
            let asked = tokio::time::timeout(Duration::from_secs(2), bench.notify(&id, 1, &["ann"]));
            assert!(asked.await.is_err(), "it was answered");
            id
        })
    })
    .await
    .unwrap();
    assert_eq!(receiver.paths(), ["/hang"]);

    let channels = vec![("hangs", slow), ("good", receiver.hook("good"))];
    let again = Bench::on(settings(channels, Duration::from_millis(100))).await;
    assert_eq!(short(&again.notify(&id, 1, &["ann"]).await), ["ann hangs pending"]);
    assert_eq!(again.service.tick_messages().await.unwrap(), 0, "it may be under way still");
    again.clock.advance(2 * MINUTE);
    assert_eq!(again.service.tick_messages().await.unwrap(), 1);
    assert_eq!(again.told(&id).await, ["ann hangs unreachable in_doubt", "ann good delivered"]);
    assert_eq!(receiver.paths(), ["/hang", "/good"], "neither was tried twice");
}

#[tokio::test]
async fn what_was_written_down_before_a_crash_is_sent_after_it() {
    let place = tempfile::tempdir().unwrap();
    let receiver = Receiver::new().await;
    let mut settings = by(vec![("chat", receiver.hook("chat"))], &[("chat", "@ann")]);
    settings.database = place.path().join("signer.db");
    let bench = Bench::on(settings.clone()).await;
    let (id, _) = bench.registered(&["ann"]).await;
    // As it stands when a process dies between the commit and the first attempt.
    let mut session = bench.service.desk.store.write().await.unwrap();
    let payment = session.payment(&id).await.unwrap().unwrap();
    let now = bench.clock.now();
    session.add_notification(&payment, 1, r#"["ann"]"#, now).await.unwrap();
    let message = crate::signer::store::Message {
        id: "ntf_1".to_owned(),
        payment_id: id.clone(),
        round: 1,
        number: 1,
        signer_id: "ann".to_owned(),
        state: "due".to_owned(),
        place: 0,
        due_at: now.micros(),
        reason: String::new(),
        created_at: now.micros(),
    };
    session.add_message(&message).await.unwrap();
    session.commit().await.unwrap();
    drop(bench);
    let bench = Bench::on(settings).await;
    let answer = bench.notify(&id, 1, &["ann"]).await;
    assert_eq!(short(&answer), ["ann chat delivered"]);
    assert_eq!(bench.service.tick_messages().await.unwrap(), 0);
    assert_eq!(receiver.paths(), ["/chat"]);
}
