//! Reaching people, from the agent's call to a mailbox: bounces, silence, reminders, and what an operator is told.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::domain::Status;
use countersign::signer::{ChannelSettings, Digest, DirectoryEntry, Mail, MailTls, Reaching, Way};
use serde_json::{Value, json};

use crate::harness::app::{App, Wishes, each_with, only};
use crate::harness::database::TestEngine;
use crate::harness::mail::{Kind, MailServer};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// finance-1 is reached by these ways over these channels.
fn wishes(channels: Vec<(&str, ChannelSettings)>, order: &[(&str, &str)]) -> Wishes {
    let channels = channels.into_iter().map(|(name, it)| (name.to_owned(), it)).collect::<BTreeMap<_, _>>();
    let digest = Digest { most: 100, within: 10 * MINUTE };
    let reaching = Reaching { channels, digest, answer_within: Duration::from_millis(700), ..Reaching::default() };
    let order: Vec<(String, String)> = order.iter().map(|(by, to)| ((*by).to_owned(), (*to).to_owned())).collect();
    Wishes::default().reached(reaching, move |entry: &mut DirectoryEntry| {
        if entry.signer_id == "finance-1" {
            entry.ways = order.iter().map(|(by, to)| Way { channel: by.clone(), to: to.clone() }).collect();
        }
    })
}

/// Found in the answer of `explain_payment`.
pub(crate) async fn found(app: &App, order: &str, check: &str) -> String {
    let answer = app.call(&app.agent(), "explain_payment", json!({"order_id": order})).await;
    let checks = answer.body["checks"].as_array().unwrap();
    let row = checks.iter().find(|row| row["check"] == check).unwrap_or_else(|| panic!("no {check}: {}", answer.body));
    row["found"].as_str().unwrap().to_owned()
}

/// The mails whose links lead to this desk's signer service.
fn mails(app: &App, server: &MailServer) -> Vec<Value> {
    let pages = format!("{}/sign/", app.signer.url());
    server.taken().into_iter().filter(|mail| mail["text"].as_str().unwrap().contains(&pages)).collect()
}

/// Waits in true time for what goes on in other processes.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..400 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("not in time: {what}");
}

#[tokio::test]
async fn a_signer_is_told_by_mail_and_what_the_mail_says_is_on_the_page() {
    let server = MailServer::start(Kind::Open);
    each_with(wishes(vec![("mail", server.open())], &[("mail", "ann@books.example")]), async |app: &mut App| {
        app.awaiting("order-1").await;
        eventually("a mail", async || mails(app, &server).len() == 1).await;
        let mail = mails(app, &server).remove(0);
        assert_eq!((&mail["from"], &mail["to"]), (&json!("desk@pay.example"), &json!(["ann@books.example"])));
        let text = mail["text"].as_str().unwrap();
        let code = &app.payment("order-1").await.digest[..8];
        for wanted in
            ["Subject: A payment of 199.00 USD", "Auto-Submitted: auto-generated", "agent-1", "order-1", code, "…-001"]
        {
            assert!(text.contains(wanted) || quoted(text).contains(wanted), "{wanted:?} in {text}");
        }
        assert!(!text.contains("demo-payee-001") && !text.contains("signer-api-key"), "{text}");
        let link = text.split_whitespace().find(|word| word.starts_with("http")).unwrap();
        let page = app.http.get(link).send().await.unwrap().text().await.unwrap();
        assert!(page.contains(code) && page.contains("199.00"), "{page}");
        assert!(found(app, "order-1", "people").await.contains("finance-1 by mail: delivered at 20"));
        assert!(found(app, "order-1", "people").await.ends_with("told and not looked yet: human delay, not a fault"));
        let seen = app.http.post(format!("{link}/viewed")).send().await.unwrap();
        assert_eq!(seen.status(), 204);
        let people = found(app, "order-1", "people").await;
        assert!(people.contains("finance-1 by page: viewed at 20"), "{people}");
        assert!(people.ends_with("seen and not decided: human delay, not a fault"), "{people}");
    })
    .await;
}

/// The text with soft breaks and the escapes of quoted-printable taken out.
fn quoted(text: &str) -> String {
    text.replace("=\r\n", "").replace("=\n", "").replace("=E2=80=A6", "…")
}

#[tokio::test]
async fn a_mail_that_bounces_is_a_signer_who_is_unreachable_and_in_the_end_a_persons_task() {
    let server = MailServer::start(Kind::Open);
    each_with(wishes(vec![("mail", server.open())], &[("mail", "bounce@books.example")]), async |app: &mut App| {
        app.create("order-1").await;
        let answer = app.notify("order-1").await;
        assert_eq!(answer.status(), "SIGNER_UNREACHABLE", "{}", answer.body);
        let receipt = found(app, "order-1", "receipt").await;
        assert!(receipt.ends_with("unreachable: bounced; finance-1 by mail: unreachable (bounced)"), "{receipt}");
        app.until("order-1", "NEED_MANUAL").await;
        assert_eq!(mails(app, &server), [json!(null); 0]);
    })
    .await;
}

#[tokio::test]
async fn where_the_mail_bounces_the_next_channel_is_tried() {
    let server = MailServer::start(Kind::Open);
    let order = [("mail", "bounce@books.example"), ("mail", "later@books.example"), ("mail", "ann@books.example")];
    each_with(wishes(vec![("mail", server.open())], &order), async |app: &mut App| {
        app.awaiting("order-1").await;
        let receipt = found(app, "order-1", "receipt").await;
        let all = "finance-1 by mail: unreachable (bounced); finance-1 by mail: unreachable (not_now); finance-1 by mail: delivered";
        assert!(receipt.ends_with(all), "{receipt}");
    })
    .await;
}

#[tokio::test]
async fn a_mail_server_that_hangs_is_answered_for_in_time_and_found_out_later() {
    let server = MailServer::start(Kind::Open);
    let slow = ChannelSettings::Smtp(Mail { within: Duration::from_millis(1_200), ..server.mail(MailTls::None) });
    each_with(wishes(vec![("mail", slow)], &[("mail", "hang@books.example")]), async |app: &mut App| {
        app.create("order-1").await;
        let answer = app.notify("order-1").await;
        assert_eq!(answer.status(), "AWAITING_SIGNER", "{}", answer.body);
        assert!(found(app, "order-1", "receipt").await.ends_with("finance-1 by mail: pending"));
        let timed_out = "finance-1 by mail: unreachable (timeout)";
        eventually("the time-out", async || found(app, "order-1", "people").await.contains(timed_out)).await;
        assert_eq!(app.payment("order-1").await.status, Status::AwaitingSigner, "looking changes nothing");
        // The worker asks for decisions on its schedule, and hears that nobody was reached.
        app.pass(Duration::from_millis(app.config.notify.check_every_ms)).await;
        assert_eq!(app.audited_events("signer.notify.unreached").await, 1);
        let after = app.payment("order-1").await;
        assert_eq!((after.status, after.notice.attempts), (Status::SignerUnreachable, 1), "{:?}", after.notice);
        // Again and again in silence: that ends, too.
        for _ in 0..60 {
            if app.payment("order-1").await.status == Status::NeedManual {
                break;
            }
            app.next_due().await;
            let pending = async || !found(app, "order-1", "people").await.contains("pending");
            eventually("the next time-out", pending).await;
        }
        assert_eq!(app.payment("order-1").await.status, Status::NeedManual);
        let asked = app.asked(app.payment("order-1").await.terms.payment_id.as_str()).await;
        assert_eq!(asked.len(), usize::try_from(app.config.notify.attempts).unwrap(), "bounded");
    })
    .await;
}

#[tokio::test]
async fn mail_is_spoken_in_tls_with_a_login_or_not_at_all() {
    for (kind, tls) in [(Kind::Starttls, MailTls::Starttls), (Kind::Implicit, MailTls::Implicit)] {
        let server = MailServer::start(kind);
        let right = server.mail(tls);
        let wrong = Mail { login: Some(("desk".to_owned(), "SECRET wrong".into())), ..right.clone() };
        let strange = Mail { ca_pem: None, ..right.clone() };
        let channels = vec![
            ("strange", ChannelSettings::Smtp(strange)),
            ("denied", ChannelSettings::Smtp(wrong)),
            ("mail", ChannelSettings::Smtp(right)),
        ];
        let to = "ann@books.example";
        let order = [("strange", to), ("denied", to), ("mail", to)];
        only(TestEngine::Sqlite, wishes(channels, &order).patient(), async |app: &mut App| {
            app.awaiting("order-1").await;
            eventually("a mail", async || mails(app, &server).len() == 1).await;
            let mail = mails(app, &server).remove(0);
            assert_eq!((&mail["tls"], &mail["login"]), (&json!(true), &json!(true)), "{kind:?}");
            let people = found(app, "order-1", "people").await;
            assert!(people.contains("finance-1 by strange: unreachable (no_connection)"), "{kind:?}: {people}");
            assert!(people.contains("finance-1 by denied: unreachable (login_refused)"), "{kind:?}: {people}");
            assert!(people.contains("finance-1 by mail: delivered"), "{kind:?}: {people}");
        })
        .await;
    }
}

#[tokio::test]
async fn who_was_told_and_has_not_decided_is_reminded_and_at_half_time_others_are_asked() {
    let server = MailServer::start(Kind::Open);
    each_with(wishes(vec![("mail", server.open())], &[("mail", "ann@books.example")]), async |app: &mut App| {
        let id = app.awaiting("order-1").await;
        let asked = async |app: &App| app.asked(&id).await.len();
        app.pass(9 * MINUTE).await;
        assert_eq!(asked(app).await, 1, "not before its time");
        app.pass(2 * MINUTE + 5 * Duration::from_secs(1)).await;
        assert_eq!(asked(app).await, 2, "after ten minutes, and up to a tenth of them more");
        app.restart().await;
        app.pass(54 * MINUTE).await;
        assert_eq!(asked(app).await, 3, "after an hour");
        // Away for half a day: one reminder, not all that were missed, and now everybody is asked.
        app.stop().await;
        app.clock.advance(i64::try_from((12 * HOUR).as_micros()).unwrap());
        app.restart().await;
        app.settle().await;
        let all = app.asked(&id).await;
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!(all[..3], [["finance-1"], ["finance-1"], ["finance-1"]]);
        assert_eq!(all[3], ["finance-1", "finance-2"], "half of its life is over");
        app.pass(6 * HOUR).await;
        assert_eq!(asked(app).await, 5, "the last call");
        app.pass(4 * HOUR).await;
        assert_eq!(asked(app).await, 5);
        assert_eq!(app.payment("order-1").await.notice.last, "reached");
        app.pass(2 * HOUR).await;
        assert_eq!(app.payment("order-1").await.status, Status::Expired);
        eventually("the mails", async || mails(app, &server).len() == 5).await;
    })
    .await;
}

#[tokio::test]
async fn who_has_decided_is_not_reminded() {
    each_with(Wishes::default(), async |app: &mut App| {
        let id = app.signed("order-1").await;
        app.settle().await;
        app.pass(20 * HOUR).await;
        assert_eq!(app.asked(&id).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_people_of_the_next_level_are_reminded_from_when_they_are_asked() {
    let two_levels = crate::harness::app::POLICY.replace("required = 1", "required = 2");
    each_with(Wishes::default().policy(two_levels), async |app: &mut App| {
        let id = app.awaiting("order-1").await;
        app.pass(5 * HOUR).await;
        let before = app.asked(&id).await.len();
        assert_eq!(app.sign("order-1").await.status(), "AWAITING_SIGNER");
        app.pass(2 * HOUR).await;
        let after = app.asked(&id).await;
        assert_eq!(after[before..], [["finance-2"]], "whoever is left, at six hours");
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_asks_for_links_without_end_is_told_when_to_ask_again() {
    let reaching = Reaching { links: 2, ..Reaching::default() };
    each_with(Wishes::default().reached(reaching, |_| {}), async |app: &mut App| {
        app.awaiting("order-1").await;
        let link = async |app: &App| app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        let first = link(app).await;
        assert!(!link(app).await.is_error);
        let refused = link(app).await;
        assert_eq!((refused.is_error, refused.text("error_code")), (true, "RATE_LIMITED"));
        let wait = refused.body["retry_after_ms"].as_u64().unwrap();
        assert!((500_000..=601_000).contains(&wait), "{wait}");
        assert_eq!(app.http.get(first.text("sign_url")).send().await.unwrap().status(), 200, "the first leads on");
        assert!(found(app, "order-1", "sign_link").await.contains("enough were asked for"));
        app.pass(Duration::from_millis(wait)).await;
        assert!(!link(app).await.is_error);
        // The link may have lapsed; the payment has not.
        app.pass(20 * MINUTE).await;
        assert_eq!(app.http.get(first.text("sign_url")).send().await.unwrap().status(), 410);
        assert_eq!(app.sign("order-1").await.status(), "SIGNED");
    })
    .await;
}
