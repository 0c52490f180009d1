//! Too few who can be reached, and deputies who are asked when those they stand in for do not answer.

use std::time::Duration;

use countersign::ambient::{Clock as _, SystemClock};
use countersign::domain::Status;
use countersign::signer::{ChannelSettings, Digest, DirectoryEntry, Mail, MailTls, Reaching, Way};
use serde_json::{Value, json};

use crate::desk_policy::policy;
use crate::harness::app::{App, Wishes, each_with, two_must_approve};
use crate::harness::mail::{Kind, MailServer};
use crate::reaching::{eventually, found};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

const TWO: &str = "[[rule]]\nid = \"two\"\ncurrency = \"USD\"\nlevels = [{ group = \"finance\", required = 2 }]\n";
const LEVELS: &str = "[[rule]]\nid = \"levels\"\ncurrency = \"USD\"\n\
    levels = [{ group = \"finance\", required = 1 }, { group = \"board\", required = 1 }]\n";

fn ruled(rest: &str) -> Wishes {
    Wishes::default().patient().policy(policy(rest))
}

/// `signer` stands in for `of` all day.
fn deputy(of: &str, signer: &str) -> String {
    let bound = |hours: i64| SystemClock.now().plus_micros(hours * 3_600_000_000).rfc3339();
    format!("[[deputy]]\nof = \"{of}\"\nsigner = \"{signer}\"\nfrom = \"{}\"\nuntil = \"{}\"\n", bound(-1), bound(24))
}

async fn propose(app: &App, changes: Value) -> String {
    let mut arguments = json!({"order_id": "order-1", "amount": "199.00", "notify": true});
    arguments.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    app.call(&app.agent(), "create_payment", arguments).await.text("payment_id").to_owned()
}

async fn last_asked(app: &App, id: &str) -> Vec<String> {
    app.asked(id).await.pop().unwrap()
}

#[tokio::test]
async fn where_two_must_approve_one_who_is_reached_is_not_enough() {
    each_with(two_must_approve(), async |app: &mut App| {
        app.presence("finance-2", false).await;
        let id = app.create("order-1").await.text("payment_id").to_owned();
        let answer = app.notify("order-1").await;
        assert_eq!(answer.status(), "SIGNER_UNREACHABLE", "{}", answer.body);
        assert_eq!((answer.is_error, answer.text("next_action")), (false, "wait"));
        let people = found(app, "order-1", "people").await;
        assert!(
            people.starts_with("not enough of them can be reached: not finance-2 (offline). finance-1 by"),
            "{people}"
        );
        let receipt = found(app, "order-1", "receipt").await;
        assert!(
            receipt.contains("not enough reached") && receipt.contains("finance-2 by console: unreachable (offline)"),
            "{receipt}"
        );
        let notice = app.payment("order-1").await.notice;
        assert_eq!((notice.attempts, notice.settled), (1, 1));
        // Who was reached can sign, and that is kept.
        let signed = app.sign("order-1").await;
        assert_eq!((signed.status().as_str(), &signed.body["approvals"]["have"]), ("SIGNER_UNREACHABLE", &json!(1)));
        app.until("order-1", "NEED_MANUAL").await;
        let asked = app.asked(&id).await;
        assert_eq!(asked.len(), usize::try_from(app.config.notify.attempts).unwrap(), "bounded");
        assert_eq!(asked[1..].iter().flatten().collect::<std::collections::BTreeSet<_>>().len(), 1, "{asked:?}");
        // The other, at last.
        assert_eq!(app.sign_as("finance-2", "order-1").await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.executions(&id).await, 1);
    })
    .await;
}

#[tokio::test]
async fn two_of_three_who_are_reached_are_enough_until_one_of_them_is_lost() {
    let lenient = TWO.replace("currency = \"USD\"\n", "currency = \"USD\"\nany_reject = false\n");
    each_with(ruled(&lenient), async |app: &mut App| {
        app.presence("finance-3", false).await;
        let id = propose(app, json!({})).await;
        assert_eq!(app.payment("order-1").await.status, Status::AwaitingSigner);
        assert!(found(app, "order-1", "people").await.contains("finance-3 by console: unreachable (offline)"));
        assert!(found(app, "order-1", "people").await.ends_with("human delay, not a fault"));
        // One says no: now it takes the one who was not told.
        app.reject("finance-2", "order-1", "not mine").await;
        assert_eq!(app.payment("order-1").await.status, Status::AwaitingSigner);
        let people = found(app, "order-1", "people").await;
        assert!(people.starts_with("not enough of them can be reached: not finance-3 (offline)"), "{people}");
        app.pass(Duration::from_millis(app.config.notify.check_every_ms)).await;
        assert_eq!(app.payment("order-1").await.status, Status::SignerUnreachable);
        app.presence("finance-3", true).await;
        app.next_due().await;
        assert_eq!(app.payment("order-1").await.status, Status::AwaitingSigner);
        assert_eq!(last_asked(app, &id).await, ["finance-1", "finance-3"]);
        app.sign_as("finance-3", "order-1").await;
        assert_eq!(app.sign("order-1").await.status(), "SIGNED");
    })
    .await;
}

#[tokio::test]
async fn one_who_is_told_does_not_make_up_for_another_whose_mail_never_arrives() {
    let server = MailServer::start(Kind::Open);
    let slow = ChannelSettings::Smtp(Mail { within: Duration::from_millis(900), ..server.mail(MailTls::None) });
    let answer_within = Duration::from_millis(500);
    let digest = Digest { most: 100, within: 10 * MINUTE };
    let channels = [("mail".to_owned(), slow)].into();
    let reaching = Reaching { channels, digest, answer_within, ..Reaching::default() };
    let hangs = |entry: &mut DirectoryEntry| {
        if entry.signer_id == "finance-2" {
            entry.ways = vec![Way { channel: "mail".to_owned(), to: "hang@books.example".to_owned() }];
        }
    };
    each_with(two_must_approve().reached(reaching, hangs), async |app: &mut App| {
        app.create("order-1").await;
        assert_eq!(app.notify("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.payment("order-1").await.notice.last, "under_way", "it takes both");
        let timed_out = "finance-2 by mail: unreachable (timeout)";
        eventually("the time-out", async || found(app, "order-1", "people").await.contains(timed_out)).await;
        app.pass(Duration::from_millis(app.config.notify.check_every_ms)).await;
        assert_eq!(app.audited_events("signer.notify.unreached").await, 1);
        let after = app.payment("order-1").await;
        assert_eq!((after.status, after.notice.attempts), (Status::SignerUnreachable, 1));
        for _ in 0..60 {
            if app.payment("order-1").await.status == Status::NeedManual {
                break;
            }
            app.next_due().await;
            let pending = async || !found(app, "order-1", "people").await.contains("pending");
            eventually("the next time-out", pending).await;
        }
        assert_eq!(app.payment("order-1").await.status, Status::NeedManual, "it ends, whoever else is told");
    })
    .await;
}

#[tokio::test]
async fn a_deputy_is_asked_when_those_asked_have_let_the_first_reminder_come() {
    each_with(ruled(&format!("{TWO}{}", deputy("finance-1", "stranger-1"))), async |app: &mut App| {
        let id = propose(app, json!({})).await;
        let own = ["finance-1", "finance-2", "finance-3"];
        assert_eq!(app.asked(&id).await, [own]);
        // Sent again before that: still not.
        app.pass(5 * MINUTE).await;
        app.resend("order-1").await;
        assert_eq!(app.asked(&id).await, [own, own]);
        app.pass(7 * MINUTE).await;
        let asked = app.asked(&id).await;
        assert_eq!(
            (asked.len(), asked[2].as_slice()),
            (3, &["finance-1", "finance-2", "finance-3", "stranger-1"].map(str::to_owned)[..])
        );
        let receipt = found(app, "order-1", "receipt").await;
        assert!(
            receipt.contains("done; deputies asked; ") && receipt.contains("stranger-1 by console: delivered"),
            "{receipt}"
        );
        app.sign_as("stranger-1", "order-1").await;
        assert_eq!(app.sign_as("finance-2", "order-1").await.status(), "SIGNED");
    })
    .await;
}

#[tokio::test]
async fn a_deputy_is_asked_at_once_when_too_few_of_those_asked_are_reached() {
    each_with(ruled(&format!("{TWO}{}", deputy("finance-2", "stranger-1"))), async |app: &mut App| {
        app.presence("finance-2", false).await;
        app.presence("finance-3", false).await;
        let id = propose(app, json!({})).await;
        assert_eq!(app.asked(&id).await, [["finance-1", "finance-2", "finance-3"]]);
        assert_eq!(app.payment("order-1").await.status, Status::SignerUnreachable);
        app.next_due().await;
        assert_eq!(last_asked(app, &id).await, ["finance-1", "finance-2", "finance-3", "stranger-1"]);
        let payment = app.payment("order-1").await;
        assert_eq!(
            (payment.status, payment.notice.attempts),
            (Status::AwaitingSigner, 0),
            "with the deputy it is enough"
        );
        app.sign("order-1").await;
        assert_eq!(app.sign_as("stranger-1", "order-1").await.status(), "SIGNED");
    })
    .await;
}

#[tokio::test]
async fn each_level_begins_with_its_own_people() {
    let deputies = deputy("finance-1", "finance-3") + &deputy("board-1", "stranger-1");
    each_with(ruled(&format!("{LEVELS}{deputies}")), async |app: &mut App| {
        app.presence("finance-2", false).await;
        for person in ["finance-1", "finance-3"] {
            app.presence(person, false).await;
        }
        let id = propose(app, json!({})).await;
        app.next_due().await;
        assert_eq!(app.payment("order-1").await.status, Status::SignerUnreachable, "nobody of finance");
        app.pass(30 * MINUTE).await;
        app.sign("order-1").await;
        app.settle().await;
        assert_eq!(last_asked(app, &id).await, ["board-1", "board-2"], "neither that nor the time is theirs");
        assert_eq!(app.payment("order-1").await.status, Status::AwaitingSigner);
        app.pass(9 * MINUTE).await;
        assert_eq!(last_asked(app, &id).await, ["board-1", "board-2"]);
        app.pass(3 * MINUTE).await;
        assert_eq!(last_asked(app, &id).await, ["board-1", "board-2", "stranger-1"]);
    })
    .await;
}

#[tokio::test]
async fn votes_at_a_level_do_not_begin_its_time_anew() {
    each_with(ruled(&format!("{TWO}{}", deputy("finance-2", "stranger-1"))), async |app: &mut App| {
        let id = propose(app, json!({})).await;
        app.pass(12 * MINUTE).await;
        app.sign_as("finance-1", "order-1").await;
        app.resend("order-1").await;
        assert_eq!(last_asked(app, &id).await, ["finance-2", "finance-3", "stranger-1"]);
    })
    .await;
}

#[tokio::test]
async fn at_half_time_deputies_of_those_who_were_not_named_are_asked_with_them() {
    let deputies = deputy("finance-1", "board-1") + &deputy("finance-2", "stranger-1");
    each_with(ruled(&deputies), async |app: &mut App| {
        let id = propose(app, json!({"signer_id": "finance-1"})).await;
        assert_eq!(app.asked(&id).await, [["finance-1"]]);
        app.pass(12 * MINUTE).await;
        assert_eq!(last_asked(app, &id).await, ["finance-1", "board-1"], "beside whom they stand in for");
        app.pass(11 * HOUR).await;
        assert_eq!(last_asked(app, &id).await, ["finance-1", "board-1"]);
        app.pass(HOUR).await;
        assert_eq!(last_asked(app, &id).await, ["board-1", "finance-1", "finance-2", "finance-3", "stranger-1"]);
    })
    .await;
}

#[tokio::test]
async fn a_deputy_who_is_named_is_asked_first() {
    each_with(ruled(&deputy("finance-1", "stranger-1")), async |app: &mut App| {
        let id = propose(app, json!({"signer_id": "stranger-1"})).await;
        assert_eq!(app.asked(&id).await, [["stranger-1"]]);
        let to = json!({"order_id": "order-1", "signer_id": "finance-2"});
        assert!(!app.call(&app.operator(), "reassign_signer", to).await.is_error);
        app.settle().await;
        assert_eq!(last_asked(app, &id).await, ["finance-2"]);
    })
    .await;
}
