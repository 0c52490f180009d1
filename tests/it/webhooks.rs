//! Webhooks out: an event for every change, told at least once, to nobody but the configured targets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use countersign::app;
use countersign::config::Config;
use countersign::domain::EventId;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::net::TcpListener;

use crate::harness::app::{App, each, each_with};
use crate::harness::desk::program;
use crate::harness::sink::{Reply, Seen, Sink};
use crate::harness::wishes::{Wishes, ambient};

const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDC2FVsBQIhrsc";
const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr";

/// From now on the desk tells these, each on a loopback address that is allowed.
pub(crate) async fn tell(app: &mut App, sinks: &[&Sink]) {
    let hooks = &mut app.config.webhooks;
    hooks.targets = sinks.iter().map(|sink| sink.url()).collect();
    hooks.allow_private = sinks.iter().map(|sink| sink.place()).collect();
    hooks.secrets = vec![NEW.into(), OLD.into()];
    hooks.schedule_s = vec![0, 5, 20];
    hooks.timeout_ms = 700;
    app.restart().await;
}

/// Attempts at what is due now; how many, and how many of them were taken.
async fn deliver(app: &App) -> (usize, usize) {
    let done = app.journal.deliver_due().await.unwrap();
    (done.attempted, done.delivered)
}

fn pass(app: &App, seconds: u64) {
    app.clock.advance(i64::try_from(seconds).unwrap() * 1_000_000);
}

/// `state attempts last_error` of every row, by event.
async fn rows(app: &App) -> Vec<String> {
    let sql =
        "SELECT state || ' ' || CAST(attempts AS TEXT) || ' ' || last_error FROM outbox ORDER BY event_id, target";
    app.db.raw().await.texts(sql).await
}

/// Holds that a receiver with either secret may believe it.
fn is_signed(seen: &Seen) {
    for secret in [OLD, NEW] {
        Webhook::new(secret).unwrap().verify(&seen.body, &seen.headers).unwrap();
    }
    let other = "whsec_AAAAsBQIhrscChlQIMV+b5sSYspob7oDC2FVsBQIhrsc";
    assert!(Webhook::new(other).unwrap().verify(&seen.body, &seen.headers).is_err());
    assert_eq!(seen.header("webhook-signature").split(' ').count(), 2);
}

/// Runs a `countersign webhooks` command on the test's database.
async fn command(app: &App, arguments: &[&str]) -> (i32, String) {
    let mut command = program();
    command.arg("webhooks").args(arguments).env("COUNTERSIGN__DATABASE__URL", app.db.url());
    let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await.unwrap().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn every_change_of_status_is_told_once_to_every_target() {
    each(async |app: &mut App| {
        let (one, two) = (Sink::new().await, Sink::new().await);
        tell(app, &[&one, &two]).await;
        let payment = app.signed("order-1").await;
        assert_eq!(app.create("order-1").await.text("payment_id"), payment, "a replay is no news");
        app.settle().await;
        app.restart().await;
        app.until("order-1", "EXECUTED").await;
        // Each target has its places.
        assert_eq!(deliver(app).await, (8, 8));
        assert_eq!(deliver(app).await, (0, 0));
        for sink in [&one, &two] {
            let mut told: Vec<Value> = sink.seen().iter().map(Seen::json).collect();
            told.sort_by_key(|event| event["data"]["version"].as_i64());
            let kinds: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
            let expected = ["payment.created", "payment.awaiting_signer", "payment.signed", "payment.executed"];
            assert_eq!(kinds, expected);
            let last = &told[3];
            let version = last["data"]["version"].as_i64().unwrap();
            assert!(version > told[2]["data"]["version"].as_i64().unwrap());
            assert!(version <= app.payment("order-1").await.version);
            let data = json!({"tenant": "default", "payment_id": payment, "order_id": "order-1",
                "version": version, "status": "EXECUTED"});
            let event_id = last["event_id"].as_str().unwrap();
            let timestamp = last["timestamp"].as_str().unwrap();
            let whole = json!({"type": "payment.executed", "event_id": event_id, "timestamp": timestamp, "data": data});
            assert_eq!(last, &whole, "enough to ask, nothing to trust");
            assert!(event_id.parse::<EventId>().is_ok());
            for seen in sink.seen() {
                is_signed(&seen);
                assert_eq!(seen.json()["event_id"], seen.id());
                assert_eq!(seen.header("content-type"), "application/json");
            }
        }
        let ids = |sink: &Sink| sink.seen().iter().map(Seen::id).collect::<BTreeSet<_>>();
        assert_eq!(ids(&one), ids(&two), "one event, one id");
    })
    .await;
}

#[tokio::test]
async fn an_event_is_written_with_its_change_or_not_at_all() {
    each(async |app: &mut App| {
        let sink = Sink::new().await;
        assert_eq!(app.create("order-0").await.status(), "CREATED");
        assert_eq!(app.rows("outbox").await, 0, "nobody wants to know");
        app.did.change_targets = true;
        tell(app, &[&sink]).await;
        let mut raw = app.db.raw().await;
        for (table, about) in [("audit_entries", "what fails after the event"), ("outbox", "the event itself")] {
            raw.execute(&format!("ALTER TABLE {table} RENAME TO away")).await.unwrap();
            assert_eq!(app.create("order-1").await.code(), "INTERNAL", "{about}");
            raw.execute(&format!("ALTER TABLE away RENAME TO {table}")).await.unwrap();
            assert_eq!((app.rows("outbox").await, app.rows("payments").await), (0, 1), "{about}");
        }
        let first = app.create("order-1").await.text("payment_id").to_owned();
        // A replacement that the policy refuses ends nothing, and tells of no end.
        let refused = json!({"order_id": "order-1", "amount": "5", "signer_id": "stranger-1", "supersedes": first});
        assert_eq!(app.call(&app.agent(), "create_payment", refused).await.code(), "SIGNER_NOT_ELIGIBLE");
        assert_eq!(rows(app).await, ["pending 0 "]);
        assert_eq!(deliver(app).await, (1, 1));
        assert_eq!(sink.seen()[0].json()["type"], "payment.created");
    })
    .await;
}

#[tokio::test]
async fn an_event_survives_the_process_that_wrote_it() {
    each(async |app: &mut App| {
        let sink = Sink::new().await;
        tell(app, &[&sink]).await;
        app.create("order-1").await;
        let id = app.db.raw().await.texts("SELECT event_id FROM outbox").await;
        app.restart().await;
        // This one dies with an attempt under way, having sent nothing or all of it.
        let lost = app.journal.claim_events(&sink.url(), 8).await.unwrap();
        assert_eq!(lost.len(), 1);
        drop(lost);
        app.restart().await;
        assert_eq!(deliver(app).await, (0, 0), "it may still be on its way");
        pass(app, 16);
        assert_eq!(deliver(app).await, (1, 1), "its lease has ended");
        assert_eq!(vec![sink.seen()[0].id()], id);
        assert_eq!(rows(app).await, ["delivered 2 "]);
    })
    .await;
}

#[tokio::test]
async fn b19_each_attempt_has_the_same_id_and_bytes_and_a_fresh_signature() {
    each(async |app: &mut App| {
        let sink = Sink::new().await;
        tell(app, &[&sink]).await;
        sink.next([Reply::Status(500), Reply::Status(500), Reply::Status(200)]);
        app.create("order-1").await;
        assert_eq!(deliver(app).await, (1, 0));
        assert_eq!(rows(app).await, ["pending 1 unavailable (HTTP 500)"]);
        pass(app, 4);
        assert_eq!(deliver(app).await, (0, 0), "not sooner than listed");
        pass(app, 2);
        assert_eq!(deliver(app).await, (1, 0));
        pass(app, 24);
        assert_eq!(deliver(app).await, (1, 1));
        pass(app, 1_000);
        assert_eq!(deliver(app).await, (0, 0));
        let seen = sink.seen();
        assert_eq!(seen.len(), 3);
        let distinct = |what: &dyn Fn(&Seen) -> String| seen.iter().map(what).collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(&Seen::id), 1);
        assert_eq!(distinct(&|seen| String::from_utf8(seen.body.to_vec()).unwrap()), 1);
        assert_eq!(distinct(&|seen| seen.header("webhook-timestamp")), 3);
        assert_eq!(distinct(&|seen| seen.header("webhook-signature")), 3);
        seen.iter().for_each(is_signed);
        assert_eq!(rows(app).await, ["delivered 3 "]);
    })
    .await;
}

#[tokio::test]
async fn b19_a_redirect_is_a_failed_attempt_and_nobody_else_is_told() {
    each(async |app: &mut App| {
        let sink = Sink::new().await;
        let canary = Sink::new().await;
        tell(app, &[&sink]).await;
        let places = [
            (302, canary.url()),
            (307, canary.url()),
            (308, canary.url()),
            (302, "http://169.254.169.254/".to_owned()),
            (301, sink.url()),
        ];
        for ((status, place), number) in places.into_iter().zip(0..) {
            sink.next([Reply::To(status, place)]);
            app.create(&format!("order-{number}")).await;
            let started = Instant::now();
            assert_eq!(deliver(app).await, (1, 0));
            assert!(started.elapsed() < Duration::from_secs(3));
            assert_eq!(rows(app).await.last().unwrap(), &format!("pending 1 redirect (HTTP {status})"));
        }
        assert_eq!((sink.seen().len(), canary.seen().len()), (5, 0));
    })
    .await;
}

/// Targets that no configuration may name by itself.
const PRIVATE: [&str; 32] = [
    "http://127.0.0.1:PORT",
    "http://[::1]:PORT",
    "http://[::ffff:127.0.0.1]:PORT",
    "http://[::ffff:7f00:1]:PORT",
    "http://[::127.0.0.1]:PORT",
    "http://2130706433:PORT",
    "http://0x7f000001:PORT",
    "http://0177.0.0.1:PORT",
    "http://127.1:PORT",
    "http://127.0.0.1.:PORT",
    "http://①②⑦.⓪.⓪.①:PORT",
    "http://%31%32%37.0.0.1:PORT",
    "http://ok.example@127.0.0.1:PORT",
    "http://ok.example:secret@ok.example:PORT",
    "http://0.0.0.0:PORT",
    "http://[::]:PORT",
    "http://10.1.2.3:PORT",
    "http://172.31.255.255:PORT",
    "http://192.168.0.1:PORT",
    "http://169.254.169.254/latest/meta-data",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]:PORT",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:7f00:1::]/",
    "http://100.100.100.200/",
    "http://localhost:PORT",
    "http://LOCALHOST.:PORT",
    "http://app.localhost:PORT",
    "file:///etc/passwd",
    "gopher://127.0.0.1:PORT",
    "javascript:alert(1)",
    "//127.0.0.1:PORT",
];

#[tokio::test]
async fn b19_private_targets_are_refused_at_set_up_in_every_notation() {
    let canary = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = canary.local_addr().unwrap().port().to_string();
    let ambient = ambient(&std::sync::Arc::default());
    let mut config = Config::load(None).unwrap();
    config.webhooks.secrets = vec![NEW.into()];
    for target in PRIVATE {
        config.webhooks.targets = vec![target.replace("PORT", &port)];
        let refused = app::webhooks(&config, &ambient).await.expect_err(target).to_string();
        assert!(refused.starts_with("configuration: webhooks.targets: number 1 "), "{target}: {refused}");
        assert!(!refused.contains(&port), "{target}: {refused}");
    }
    for target in ["https://hooks.example/desk", "https://93.184.215.14/", "http://[2606:2800:21f:cb07::1]:8080/x?k=v"]
    {
        config.webhooks.targets = vec![target.to_owned()];
        app::webhooks(&config, &ambient).await.expect(target);
    }
    // Allowed is one host and port, not an address.
    config.webhooks.targets = vec!["http://2130706433:9000/".to_owned()];
    for (allowed, good) in [("127.0.0.1:9000", true), ("127.0.0.1:9001", false), ("localhost:9000", false)] {
        config.webhooks.allow_private = vec![allowed.to_owned()];
        assert_eq!(app::webhooks(&config, &ambient).await.is_ok(), good, "{allowed}");
    }
    let nobody = tokio::time::timeout(Duration::from_millis(50), canary.accept()).await;
    assert!(nobody.is_err(), "set-up calls nobody");
}

#[tokio::test]
async fn b19_an_answer_is_bounded_and_believed_no_further_than_its_status() {
    each(async |app: &mut App| {
        let sink = Sink::new().await;
        tell(app, &[&sink]).await;
        app.config.webhooks.schedule_s = vec![0, 5, 20, 20];
        app.restart().await;
        sink.next([Reply::Flood, Reply::Hang, Reply::Later(503, 60), Reply::Later(429, 90)]);
        app.create("order-1").await;
        assert_eq!(deliver(app).await, (1, 1));
        assert!(sink.flooded() < 16 * 1024 * 1024, "{} bytes were sent", sink.flooded());
        app.create("order-2").await;
        let started = Instant::now();
        assert_eq!(deliver(app).await, (1, 0));
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert_eq!(rows(app).await[1], "pending 1 timeout");
        pass(app, 7);
        for (asked, last) in [(60, "pending 2 unavailable (HTTP 503)"), (90, "pending 3 rate_limited (HTTP 429)")] {
            assert_eq!(deliver(app).await, (1, 0), "{last}");
            assert_eq!(rows(app).await[1], last, "the other side's words are not kept");
            pass(app, asked - 2);
            assert_eq!(deliver(app).await, (0, 0), "Retry-After is kept to");
            pass(app, 3);
        }
        assert_eq!(deliver(app).await, (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_dead_letter_is_listed_and_delivered_again_by_command() {
    each(async |app: &mut App| {
        let sink = Sink::new().await;
        tell(app, &[&sink]).await;
        sink.next([Reply::Status(410), Reply::Status(404), Reply::Status(404), Reply::Status(404)]);
        app.create("order-1").await;
        assert_eq!(deliver(app).await, (1, 0));
        assert_eq!(rows(app).await, ["dead 1 gone (HTTP 410)"], "it asked not to be told again");
        app.create("order-2").await;
        for _ in 0..3 {
            assert_eq!(deliver(app).await, (1, 0));
            pass(app, 30);
        }
        assert_eq!(rows(app).await[1], "dead 3 refused (HTTP 404)", "the attempts are used up");
        pass(app, 1_000_000);
        assert_eq!(deliver(app).await, (0, 0));
        app.clock.advance(-1_000_000_000_000);

        let ids: Vec<String> = sink.seen().iter().map(Seen::id).collect();
        let (code, listed) = command(app, &["list", "--state", "dead"]).await;
        assert_eq!((code, listed.lines().count()), (0, 2), "{listed}");
        assert!(ids.iter().all(|id| listed.contains(id)) && listed.contains("gone (HTTP 410)"), "{listed}");
        let (_, lines) = command(app, &["list", "--state", "dead", "--json"]).await;
        let first: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!((&first["event_id"], &first["type"]), (&json!(ids[0]), &json!("payment.created")));
        assert_eq!(command(app, &["list", "--state", "delivered"]).await, (0, "no events\n".to_owned()));

        let (code, said) = command(app, &["redeliver", &ids[0]]).await;
        assert_eq!(code, 0, "{said}");
        assert_eq!(deliver(app).await, (1, 1));
        assert_eq!(sink.seen().last().unwrap().id(), ids[0], "under its own id");
        assert_eq!(command(app, &["redeliver", "--all-dead"]).await.0, 0);
        assert_eq!(deliver(app).await, (1, 1));
        assert_eq!(rows(app).await, ["delivered 1 ", "delivered 1 "]);
        // What was taken can be told once more, by its id only.
        assert_eq!(command(app, &["redeliver", "--all-dead"]).await.0, 0);
        assert_eq!(deliver(app).await, (0, 0));
        assert_eq!(command(app, &["redeliver", &ids[0]]).await.0, 0);
        assert_eq!(deliver(app).await, (1, 1));
        for (arguments, code) in [
            (vec!["redeliver", "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV"], 1),
            (vec!["redeliver", "nonsense"], 2),
            (vec!["redeliver"], 2),
            (vec!["redeliver", &ids[0], "--all-dead"], 2),
        ] {
            assert_eq!(command(app, &arguments).await.0, code, "{arguments:?}");
        }
    })
    .await;
}

/// A token in a query was changed: the old target and the new one look alike, and only the old one is gone.
#[tokio::test]
async fn a_targets_query_is_not_listed_and_a_target_is_forgotten_as_it_is_listed() {
    each(async |app: &mut App| {
        let (sink, here) = (Sink::new().await, Sink::new().await);
        sink.always(Reply::Status(500));
        let (old, new) = (format!("{}?token=SECRET-1", sink.url()), format!("{}?token=SECRET-2", sink.url()));
        let shown = format!("{}?…", sink.url());
        for (target, order) in [(&old, "order-1"), (&new, "order-2")] {
            tell(app, &[&sink, &here]).await;
            app.config.webhooks.targets = vec![target.clone(), here.url()];
            app.restart().await;
            app.create(order).await;
            assert_eq!(deliver(app).await, (2, 1), "{target}");
        }
        let listed = format!("{},{new}", here.url());
        let with = async |listed: &str, arguments: &[&str]| {
            let mut command = program();
            command.arg("webhooks").args(arguments).env("COUNTERSIGN__WEBHOOKS__TARGETS", listed);
            command.env("COUNTERSIGN__WEBHOOKS__SECRETS", NEW).env("COUNTERSIGN__DATABASE__URL", app.db.url());
            let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await.unwrap().unwrap();
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(!said.contains("SECRET"), "{arguments:?}: {said}");
            (output.status.code().unwrap(), said)
        };
        for form in [&["list"][..], &["list", "--json"]] {
            let (code, said) = with(&listed, form).await;
            assert!(code == 0 && said.matches(&shown).count() == 2, "{said}");
        }
        let (_, said) = with(&listed, &["list"]).await;
        assert_eq!(said.matches("sent nowhere").count(), 1, "{said}");
        let (code, said) = with(&listed, &["forget", &new]).await;
        assert!(code == 2 && said.contains(&format!("{shown}: is in webhooks.targets")), "{code} {said}");
        let (code, said) = with(&listed, &["forget", &shown]).await;
        assert!(code == 0 && said.contains(&format!("1 events of {shown} forgotten")), "{code} {said}");
        assert_eq!(rows(app).await.len(), 3, "the one that is listed keeps its event");
        let (code, said) = with(&listed, &["forget", &shown]).await;
        assert!(code == 2 && said.contains("is in webhooks.targets"), "{code} {said}");
        let (code, said) = with(&here.url(), &["forget", &new]).await;
        assert!(code == 0 && said.contains(&format!("1 events of {shown} forgotten")), "{code} {said}");
        tell(app, &[&here]).await;
        assert_eq!(rows(app).await, ["delivered 1 ", "delivered 1 "], "what was taken elsewhere stays");
    })
    .await;
}

/// Its events would keep what they tell of in the hot tables for ever.
#[tokio::test]
async fn events_of_a_target_that_was_taken_off_the_list_are_shown_as_such_and_can_be_forgotten() {
    each(async |app: &mut App| {
        let (gone, here) = (Sink::new().await, Sink::new().await);
        tell(app, &[&gone, &here]).await;
        gone.next([Reply::Status(410)]);
        app.create("order-1").await;
        assert_eq!(deliver(app).await, (2, 1));
        gone.always(Reply::Status(500));
        app.create("order-2").await;
        assert_eq!(deliver(app).await, (2, 1));
        tell(app, &[&here]).await;
        pass(app, 30);
        assert_eq!(deliver(app).await, (0, 0), "nobody asks for them any more");
        let listing = [("COUNTERSIGN__WEBHOOKS__TARGETS", here.url())];
        let with = async |arguments: &[&str]| {
            let mut command = program();
            command.arg("webhooks").args(arguments).envs(listing.clone());
            command.env("COUNTERSIGN__WEBHOOKS__SECRETS", NEW).env("COUNTERSIGN__DATABASE__URL", app.db.url());
            let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await.unwrap().unwrap();
            let text = [output.stdout, output.stderr].concat();
            (output.status.code().unwrap(), String::from_utf8(text).unwrap())
        };
        let (code, listed) = with(&["list", "--state", "pending"]).await;
        assert!(code == 0 && listed.contains("sent nowhere: its target is not in webhooks.targets"), "{listed}");
        let (code, said) = with(&["forget", &here.url()]).await;
        assert!(code == 2 && said.contains("is in webhooks.targets"), "{code} {said}");
        assert_eq!(rows(app).await.len(), 4, "nothing of a target that is listed");
        let one_under_way = "UPDATE outbox SET lease_until = 9000000000000000 WHERE state = 'pending'";
        app.db.raw().await.execute(one_under_way).await.unwrap();
        let (code, said) = with(&["forget", &gone.url()]).await;
        assert!(code == 0 && said.contains("1 events of "), "{code} {said}");
        app.db.raw().await.execute("UPDATE outbox SET lease_until = 0 WHERE state = 'pending'").await.unwrap();
        let (code, said) = with(&["forget", &gone.url()]).await;
        assert!(code == 0 && said.contains("1 events of "), "{code} {said}");
        assert_eq!(rows(app).await, ["delivered 1 ", "delivered 1 "], "what was taken elsewhere stays");
    })
    .await;
}

#[tokio::test]
async fn two_workers_never_hold_the_same_event() {
    each(async |app: &mut App| {
        let sink = Sink::new().await;
        tell(app, &[&sink]).await;
        sink.always(Reply::Slowly(Duration::from_millis(20)));
        for number in 0..20 {
            app.create(&format!("order-{number}")).await;
        }
        let other = app.another(None).await;
        let drain = async |journal: &countersign::journal::Journal| {
            let mut made = 0;
            while made < 20 {
                let done = journal.deliver_due().await.unwrap().attempted;
                assert!(done <= 8, "{done} at once");
                if done == 0 {
                    break;
                }
                made += done;
            }
            made
        };
        let (ours, theirs) = tokio::join!(drain(&app.journal), drain(&other));
        assert_eq!(ours + theirs, 20);
        assert!(ours > 0 && theirs > 0, "both worked: {ours} and {theirs}");
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for seen in sink.seen() {
            *times.entry(seen.id()).or_default() += 1;
        }
        assert!(times.len() == 20 && times.values().all(|times| *times == 1), "{times:?}");
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_slept_past_its_lease_sends_nothing_and_settles_nothing() {
    each(async |app: &mut App| {
        let sink = Sink::new().await;
        tell(app, &[&sink]).await;
        app.config.webhooks.timeout_ms = 5_000;
        app.restart().await;
        app.create("order-1").await;
        let other = app.another(None).await;
        let claimed = other.claim_events(&sink.url(), 8).await.unwrap();
        pass(app, 21);
        sink.next([Reply::Status(500)]);
        assert_eq!(deliver(app).await, (1, 0));
        let settled = rows(app).await;
        assert!(!other.deliver(&claimed[0]).await);
        assert_eq!((rows(app).await, sink.seen().len()), (settled, 1));

        // One that sent in time and learned of it late: what it learned is not written over another's.
        pass(app, 25);
        let claimed = other.claim_events(&sink.url(), 8).await.unwrap();
        sink.next([Reply::Slowly(Duration::from_millis(1_500))]);
        let late = other.deliver(&claimed[0]);
        let meanwhile = async {
            while sink.seen().len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            pass(app, 21);
            sink.next([Reply::Status(503)]);
            assert_eq!(deliver(app).await, (1, 0));
        };
        assert!(tokio::join!(late, meanwhile).0);
        assert_eq!(rows(app).await, ["dead 4 unavailable (HTTP 503)"]);
    })
    .await;
}

#[tokio::test]
async fn b19_a_receiver_that_hangs_holds_up_nobody_else() {
    let wishes = Wishes::default().config(|config| {
        config.worker.enabled = true;
        config.worker.tick_ms = 50;
        config.server.drain_ms = 1_000;
        (config.signer.read_timeout_ms, config.signer.total_timeout_ms) = (5_000, 6_000);
        (config.rail.read_timeout_ms, config.rail.total_timeout_ms) = (5_000, 6_000);
    });
    each_with(wishes, async |app: &mut App| {
        let (silent, healthy) = (Sink::new().await, Sink::new().await);
        silent.always(Reply::Hang);
        app.config.webhooks.timeout_ms = 60_000;
        let hooks = &mut app.config.webhooks;
        hooks.targets = vec![silent.url(), healthy.url()];
        hooks.allow_private = vec![silent.place(), healthy.place()];
        hooks.secrets = vec![NEW.into()];
        app.restart().await;
        let started = Instant::now();
        for number in 0..6 {
            app.signed(&format!("order-{number}")).await;
        }
        for _ in 0..20 {
            let asked = Instant::now();
            app.status("order-0").await;
            assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        }
        let done = async {
            loop {
                let told = healthy.seen().iter().filter(|seen| seen.json()["type"] == "payment.executed").count();
                if told == 6 && silent.seen().len() == 8 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), done).await.expect("payments and the other target go on");
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        let stopping = Instant::now();
        app.restart().await;
        assert!(stopping.elapsed() < Duration::from_secs(10), "a stop is not held up either");
        assert_eq!(silent.seen().len(), 8, "what was under way waits for its lease");
    })
    .await;
}
