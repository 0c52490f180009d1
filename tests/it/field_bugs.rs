//! Real bug reports as tests: B14 (leaving and calling off in mid-call), B15 (news before its row),
//! B20 (a locked or full database).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use countersign::app::open_store;
use futures::future::join_all;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::harness::app::{App, CALLBACK_SECRET, PEOPLE, SIGNER_API_KEY, Wishes, each, each_with, only, settle};
use crate::harness::database::{Raw, TestEngine};
use crate::harness::peer::Weather;
use crate::harness::people::enrolment;
use crate::harness::scripted::{Execution, ScriptedRail};
use crate::harness::sink::{Seen, Sink};
use crate::webhooks::tell;

/// Holds every payment's row as another process would, until the connection says ROLLBACK.
async fn held(app: &App) -> Raw {
    let mut raw = app.db.raw().await;
    let lock = match app.db.engine() {
        TestEngine::Sqlite => "BEGIN IMMEDIATE",
        TestEngine::Postgres => "BEGIN; LOCK TABLE payments IN EXCLUSIVE MODE",
    };
    raw.execute(lock).await.unwrap();
    raw
}

async fn release(mut raw: Raw) {
    raw.execute("ROLLBACK").await.unwrap();
}

async fn becomes(app: &App, order: &str, status: &str) {
    for _ in 0..250 {
        if app.payment(order).await.status.as_str() == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{order} is {:?}, not {status}", app.payment(order).await.status);
}

/// A callback of the signer service's, signed as it should be; the status of its answer.
async fn call_back(app: &App, event: &str, payment: &str) -> u16 {
    #[expect(clippy::disallowed_methods, reason = "a callback's timestamp is judged by the machine's own clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap();
    let body =
        json!({"event_id": event, "type": "decision.recorded", "payment_id": payment, "decision_id": "d"}).to_string();
    let signature = Webhook::new(CALLBACK_SECRET).unwrap().sign(event, now, body.as_bytes()).unwrap();
    let request = app.http.post(format!("{}/callbacks/signer", app.config.server.public_url));
    let request = request.header("webhook-id", event).header("webhook-timestamp", now.to_string());
    request.header("webhook-signature", signature).body(body).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn b14a_a_client_that_leaves_in_mid_call_stops_nothing_that_was_begun() {
    each_with(patient(), async |app: &mut App| {
        app.create("order-1").await;
        app.signer.once("/notify", Weather::Slow(600));
        let gone = tokio::time::timeout(Duration::from_millis(250), app.notify("order-1")).await;
        assert!(gone.is_err(), "the client left before the answer");
        becomes(app, "order-1", "AWAITING_SIGNER").await;

        let document = app.document("finance-1", "order-1", "approve", "").await;
        let jws = app.jws("finance-1", &document);
        let lock = held(app).await;
        let gone = tokio::time::timeout(Duration::from_millis(250), app.confirm("finance-1", "order-1", &jws)).await;
        assert!(gone.is_err());
        release(lock).await;
        becomes(app, "order-1", "SIGNED").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        // Who repeats the call hears of the same decision.
        let again = app.confirm("finance-1", "order-1", &jws).await;
        assert_eq!((again.status().as_str(), &again.body["idempotent_replayed"]), ("EXECUTED", &json!(true)));
    })
    .await;
}

#[tokio::test]
async fn b14b_a_cancelled_notification_stops_nothing_however_often_and_for_whatever_id() {
    each_with(patient(), async |app: &mut App| {
        app.create("order-1").await;
        let cancel = async |id: Value| {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "impatient"}});
            let raw = app.rpc().post(&app.agent(), note.to_string()).await;
            assert!(raw.status == 202 && raw.text.is_empty(), "{} {}", raw.status, raw.text);
        };
        app.signer.once("/notify", Weather::Slow(500));
        let impatient = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            cancel(json!(1)).await;
        };
        let (told, ()) = tokio::join!(app.notify("order-1"), impatient);
        assert_eq!(told.status(), "AWAITING_SIGNER", "the call still has its answer");
        let before = app.payment("order-1").await;
        cancel(json!(1)).await;
        cancel(json!("never-was")).await;
        assert_eq!(app.payment("order-1").await, before);
        assert_eq!(app.signer.count("POST", "/notify"), 1);
    })
    .await;
}

#[tokio::test]
async fn b14c_calling_off_while_the_money_moves_promises_nothing_and_loses_nothing() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::AnswersWhenTold));
        let journal = app.another(Some(Arc::clone(&rail) as _)).await;
        let work = tokio::spawn(async move { journal.tick().await });
        rail.reached().await;
        let told = app.cancel("order-1").await;
        assert!(told.status() == "SIGNED" && told.text("message").starts_with("CANCEL_PENDING"), "{}", told.body);
        rail.answer();
        work.await.unwrap().unwrap();
        let told = app.status("order-1").await;
        assert_eq!((told.status().as_str(), app.executions(&payment).await), ("EXECUTED", 1));
        assert_eq!(app.cancel("order-1").await.code(), "PAYMENT_TERMINAL");
    })
    .await;
}

#[tokio::test]
async fn b14d_of_ten_cancels_at_once_one_takes_effect() {
    each_with(patient(), async |app: &mut App| {
        app.awaiting("order-1").await;
        let told = join_all((0..10).map(|_| app.cancel("order-1"))).await;
        assert!(told.iter().all(|answer| answer.status() == "CANCELLED"), "{told:?}");
        assert_eq!(app.audited_events("payment.cancel").await, 1);
        assert_eq!(app.payment("order-1").await.status.as_str(), "CANCELLED");
    })
    .await;
}

/// Delivers what there is; of each of so many payments exactly one event says how it ended, and says it true.
async fn one_final_event_each(app: &App, sink: &Sink, payments: usize) {
    while app.journal.deliver_due().await.unwrap().attempted > 0 {}
    let mut ends: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in sink.seen().iter().map(Seen::json) {
        let status = event["data"]["status"].as_str().unwrap().to_owned();
        if ["EXECUTED", "CANCELLED", "REJECTED", "EXPIRED", "FAILED"].contains(&status.as_str()) {
            ends.entry(event["data"]["order_id"].as_str().unwrap().to_owned()).or_default().push(status);
        }
    }
    assert_eq!(ends.len(), payments);
    for (order, told) in ends {
        assert_eq!(told, [app.payment(&order).await.status.as_str()], "{order}");
    }
}

#[tokio::test]
async fn b14e_confirm_and_cancel_released_together_have_one_end() {
    each_with(patient(), async |app: &mut App| {
        let sink = Sink::new().await;
        tell(app, &[&sink]).await;
        let mut ends = [0, 0];
        for round in 0..100 {
            let order = format!("order-{round}");
            let payment = app.awaiting(&order).await;
            let document = app.document("finance-1", &order, "approve", "").await;
            let jws = app.jws("finance-1", &document);
            let lead = Duration::from_micros(700 * (round % 5));
            let late = async {
                tokio::time::sleep(lead).await;
                app.cancel(&order).await
            };
            let (confirmed, cancelled, ()) = tokio::join!(app.confirm("finance-1", &order, &jws), late, app.settle());
            app.settle().await;
            for answer in [&confirmed, &cancelled] {
                let known = !answer.is_error || answer.code() == "PAYMENT_TERMINAL";
                assert!(known, "{}", answer.body);
            }
            let stored = app.payment(&order).await;
            let executed = match stored.status.as_str() {
                "EXECUTED" => true,
                "CANCELLED" => false,
                other => panic!("{order} is {other}"),
            };
            ends[usize::from(executed)] += 1;
            assert_eq!(app.executions(&payment).await, u64::from(executed), "{order}");
            let history = app.audit().await;
            let last = history.iter().filter(|facts| facts.payment_id == payment && facts.to == stored.status.as_str());
            let entered = last.filter(|facts| facts.from != facts.to).count();
            assert_eq!(entered, 1, "{order} ends once");
            // Late ones change nothing.
            if executed {
                assert_eq!(app.cancel(&order).await.code(), "PAYMENT_TERMINAL");
            } else {
                // Refused; or it had counted before the cancel, and is answered as it was.
                let late = app.confirm("finance-1", &order, &jws).await;
                let replayed = late.body["idempotent_replayed"] == true && late.status() == "CANCELLED";
                assert!(replayed || late.code() == "PAYMENT_TERMINAL", "{}", late.body);
            }
            assert_eq!(app.payment(&order).await.version, stored.version);
        }
        one_final_event_each(app, &sink, 100).await;
        eprintln!("{} cancelled, {} executed", ends[0], ends[1]);
    })
    .await;
}

/// `finance-1` decides at the signer service itself, which may know the payment before we know its id there.
async fn decide_there(app: &App, payment: &str, order: &str) {
    let get = async |path: String| -> Value {
        let request = app.http.get(format!("{}/api/v1/payments{path}", app.signer.url())).bearer_auth(SIGNER_API_KEY);
        request.send().await.unwrap().json().await.unwrap()
    };
    let id = loop {
        let found = get(format!("?reference={payment}")).await;
        if let Some(id) = found["items"][0]["id"].as_str() {
            break id.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let link = get(format!("/{id}/sign-link")).await;
    let document = app.document("finance-1", order, "approve", "").await;
    let decision = json!({"document": document, "jws": app.jws("finance-1", &document)});
    let url = format!("{}/decisions", link["url"].as_str().unwrap());
    assert_eq!(app.http.post(url).json(&decision).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn b15_news_that_comes_before_the_answer_it_belongs_to_is_not_lost() {
    for weather in [Weather::Slow(800), Weather::LoseReply] {
        each_with(patient(), async |app: &mut App| {
            let sink = Sink::new().await;
            tell(app, &[&sink]).await;
            let payment = app.create("order-1").await.text("payment_id").to_owned();
            app.signer.once("POST /api/v1/payments", weather);
            // The service has the payment, decides and calls back while our request for it is still out.
            let early = async {
                decide_there(app, &payment, "order-1").await;
                let stored = app.payment("order-1").await;
                assert!(stored.notice.signer_ref.is_empty(), "its id has not reached us");
                assert_eq!(call_back(app, "evt_early", &payment).await, 204);
                app.settle().await;
            };
            let (told, ()) = tokio::join!(app.notify("order-1"), early);
            // The late answer moves nothing back.
            assert!(
                ["SIGNED", "EXECUTED", "CREATED", "AWAITING_SIGNER"].contains(&told.status().as_str()) || told.is_error
            );
            for _ in 0..4 {
                app.pass(Duration::from_secs(16)).await;
            }
            assert_eq!(app.status("order-1").await.status(), "EXECUTED", "{weather:?}");
            let history = app.audit().await;
            let signed = history.iter().filter(|facts| facts.to == "SIGNED" && facts.from != "SIGNED").count();
            let executed = history.iter().filter(|facts| facts.to == "EXECUTED" && facts.from != "EXECUTED").count();
            assert_eq!((signed, executed, app.executions(&payment).await), (1, 1, 1));
            one_final_event_each(app, &sink, 1).await;
            // The same event again is nothing new.
            let before = app.payment("order-1").await;
            assert_eq!(call_back(app, "evt_early", &payment).await, 204);
            assert_eq!(app.payment("order-1").await, before);
        })
        .await;
    }
}

fn patient() -> Wishes {
    Wishes::default().config(|config| {
        (config.signer.read_timeout_ms, config.signer.total_timeout_ms) = (3_000, 4_000);
    })
}

fn impatient() -> Wishes {
    Wishes::default().config(|config| {
        config.database.busy_timeout_ms = 300;
        (config.signer.read_timeout_ms, config.signer.total_timeout_ms) = (3_000, 4_000);
    })
}

#[tokio::test]
async fn b15_b20_news_that_could_not_be_kept_is_refused_so_that_it_comes_again() {
    only(TestEngine::Sqlite, impatient(), async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        let lock = held(app).await;
        assert_eq!(call_back(app, "evt_1", &payment).await, 503);
        release(lock).await;
        assert_eq!(app.rows("callbacks").await, 0);
        assert_eq!(call_back(app, "evt_1", &payment).await, 204);
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn b20a_many_clients_at_once_lose_no_action() {
    each_with(patient(), async |app: &mut App| {
        let journal = Arc::clone(&app.journal);
        let client = async |client: usize| {
            for number in 0..4 {
                let order = format!("order-{client}-{number}");
                let payment = app.awaiting(&order).await;
                let document = app.document("finance-1", &order, "approve", "").await;
                let jws = app.jws("finance-1", &document);
                if number % 2 == 0 {
                    assert_eq!(app.confirm("finance-1", &order, &jws).await.status(), "SIGNED");
                } else {
                    assert_eq!(app.decide_on_page(&order, &document, &jws).await, 200);
                    assert_eq!(call_back(app, &format!("evt_{client}_{number}"), &payment).await, 204);
                }
                settle(&journal).await;
            }
        };
        join_all((0..6).map(client)).await;
        app.restart().await;
        app.pass(Duration::from_secs(16)).await;
        for client in 0..6 {
            for number in 0..4 {
                let payment = app.payment(&format!("order-{client}-{number}")).await;
                assert_eq!(payment.status.as_str(), "EXECUTED", "{client} {number}");
                assert_eq!(app.executions(payment.terms.payment_id.as_str()).await, 1);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn b20b_a_lock_of_three_seconds_is_waited_for() {
    each_with(patient(), async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let jws = app.jws("finance-1", &document);
        let lock = held(app).await;
        let begun = Instant::now();
        let later = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(app.signer.count("POST", "/cancel"), 0, "nobody is called without a recorded intent");
            release(lock).await;
        };
        let (confirmed, created, ()) =
            tokio::join!(app.confirm("finance-1", "order-1", &jws), app.create("order-2"), later);
        assert_eq!((confirmed.status(), created.status()), ("SIGNED".to_owned(), "CREATED".to_owned()));
        assert!(begun.elapsed() >= Duration::from_secs(3));
        app.settle().await;
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn b20b_a_lock_that_lasts_is_a_retryable_error_in_time_and_unready() {
    only(TestEngine::Sqlite, impatient(), async |app: &mut App| {
        let payment = app.signed("order-1").await;
        let lock = held(app).await;
        let begun = Instant::now();
        let told = app.create("order-2").await;
        assert_eq!((told.code().as_str(), &told.body["retryable"]), ("STORE_UNAVAILABLE", &json!(true)));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert!(app.journal.tick().await.is_err());
        assert_eq!(app.requests(&payment).await, 0, "no intent, no request");
        assert_eq!(ready(app).await, 503);
        release(lock).await;
        assert_eq!(app.create("order-2").await.status(), "CREATED");
        assert_eq!(ready(app).await, 200);
        app.settle().await;
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

async fn ready(app: &App) -> u16 {
    app.http.get(format!("{}/readyz", app.config.server.public_url)).send().await.unwrap().status().as_u16()
}

/// A small volume of its own, where this machine lets a test mount one.
struct Volume(PathBuf);

impl Volume {
    fn mount(name: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("countersign-volume-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(&folder).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        drop(std::fs::remove_dir(&folder));
        None
    }

    /// Takes all the space there is.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.0.join("fill")).unwrap();
        let block = [7; 4_096];
        while file.write_all(&block).is_ok() {}
        while file.write_all(&block[..1]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).output());
        drop(std::fs::remove_dir(&self.0));
    }
}

#[tokio::test]
async fn b20c_on_a_full_disk_nothing_is_half_done_and_freed_it_goes_on_by_itself() {
    only(TestEngine::Sqlite, patient(), async |app: &mut App| {
        // Whose books are on the volume.
        app.did.others_at_the_peers = true;
        let Some(volume) = Volume::mount("full") else {
            let told = "not run: this machine lets no test mount a volume; flow_drain's b20c needs none";
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{told}");
            eprintln!("{told}");
            return;
        };
        app.config.database.url = format!("sqlite://{}", volume.0.join("desk.db").display()).into();
        app.restart().await;
        let store = open_store(&app.config, Arc::clone(&app.clock) as _).await.unwrap();
        for person in PEOPLE {
            assert!(enrolment(person, app.key(person)).pin(&store, &app.key(person).public()).await.unwrap());
        }
        let asked = app.awaiting("asked").await;
        let signed = app.signed("signed").await;
        let document = app.document("finance-1", "asked", "approve", "").await;
        let jws = app.jws("finance-1", &document);

        for round in 0..2 {
            volume.fill();
            let mut told = app.create(&format!("more-{round}-0")).await;
            // What is left in the write-ahead log is used up first.
            for number in 1..300 {
                if told.is_error {
                    break;
                }
                told = app.create(&format!("more-{round}-{number}")).await;
            }
            assert_eq!((told.code().as_str(), &told.body["retryable"]), ("STORE_UNAVAILABLE", &json!(true)));
            if round == 0 {
                assert_eq!(app.confirm("finance-1", "asked", &jws).await.code(), "STORE_UNAVAILABLE");
                assert_eq!(call_back(app, "evt_1", &asked).await, 503);
                // Either nothing can be claimed, or none of what was claimed goes well.
                match app.journal.tick().await {
                    Ok(progress) => assert_eq!(progress.failed, progress.claimed, "{progress:?}"),
                    Err(refusal) => assert_eq!(refusal.code.as_str(), "STORE_UNAVAILABLE"),
                }
                assert_eq!(app.requests(&signed).await, 0, "no intent, no request");
            }
            assert_eq!(ready(app).await, 503);
            assert!(!app.status("asked").await.is_error, "reads go on");
            volume.free();
            assert_eq!(app.create(&format!("after-{round}")).await.status(), "CREATED", "without a repair");
            assert_eq!(ready(app).await, 200);
        }
        assert_eq!(app.status("asked").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.confirm("finance-1", "asked", &jws).await.status(), "SIGNED");
        assert_eq!(call_back(app, "evt_1", &asked).await, 204);
        // What a tick claimed on the full disk is due again when its lease ends.
        app.pass(Duration::from_secs(16)).await;
        app.restart().await;
        app.pass(Duration::from_secs(16)).await;
        for (order, payment) in [("asked", &asked), ("signed", &signed)] {
            assert_eq!(app.status(order).await.status(), "EXECUTED", "{order}");
            assert_eq!((app.executions(payment).await, app.requests(payment).await), (1, 1), "{order}");
        }
        assert!(!app.status("more-0-0").await.is_error || !app.status("after-0").await.is_error);
        store.close().await;
    })
    .await;
}
