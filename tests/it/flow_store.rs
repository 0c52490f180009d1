//! The database goes away for a moment: nothing is half done, and everything works again by itself.

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use crate::harness::app::{App, Wishes, each, only};
use crate::harness::database::{Raw, TestEngine};
use crate::harness::rpc::Answer;
use crate::harness::scripted::{Execution, ScriptedRail};
use crate::harness::wire::Wire;

/// What stands between the gateway and its database.
enum Between {
    /// PostgreSQL: a wire that is cut.
    Wire(Wire),
    /// SQLite: another process that holds the write lock.
    Lock(Raw),
}

impl Between {
    /// Restarts the gateway so that its database can be taken away, and won't be waited for long.
    async fn put(app: &mut App) -> Self {
        app.config.database.busy_timeout_ms = 250;
        let between = match app.db.engine() {
            TestEngine::Sqlite => Self::Lock(app.db.raw().await),
            TestEngine::Postgres => {
                let mut url: Url = app.db.url().parse().unwrap();
                let target = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432));
                let wire = Wire::to(target).await;
                url.set_host(Some("127.0.0.1")).unwrap();
                url.set_port(Some(wire.address.port())).unwrap();
                app.config.database.url = String::from(url).into();
                Self::Wire(wire)
            }
        };
        app.restart().await;
        between
    }

    async fn take_away(&mut self) {
        match self {
            Self::Wire(wire) => wire.cut(),
            Self::Lock(raw) => drop(raw.execute("BEGIN IMMEDIATE").await.unwrap()),
        }
    }

    async fn give_back(&mut self) {
        match self {
            Self::Wire(wire) => wire.mend(),
            Self::Lock(raw) => drop(raw.execute("ROLLBACK").await.unwrap()),
        }
    }
}

fn is_unavailable(answer: &Answer) {
    assert_eq!(
        (answer.code().as_str(), &answer.body["retryable"]),
        ("STORE_UNAVAILABLE", &json!(true)),
        "{}",
        answer.body
    );
    let text = answer.body.to_string().to_lowercase();
    for leak in ["sql", "locked", "pool", "postgres", "connection", "os error"] {
        assert!(!text.contains(leak), "{leak}: {text}");
    }
}

#[tokio::test]
async fn without_its_database_every_call_is_refused_for_now_and_nothing_is_half_done() {
    each(async |app: &mut App| {
        let mut between = Between::put(app).await;
        let waiting = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let before = (app.payment("order-1").await, app.rows("audit_entries").await, app.rows("payments").await);
        let asked = app.signer.count("POST", "");

        between.take_away().await;
        is_unavailable(&app.create("order-2").await);
        is_unavailable(&app.notify("order-1").await);
        is_unavailable(&app.cancel("order-1").await);
        let order = json!({"order_id": "order-1", "signature": app.jws("finance-1", &document)});
        is_unavailable(&app.call(&app.signer_token("finance-1"), "confirm_signing", order).await);
        is_unavailable(&app.call(&app.agent(), "confirm_signing", json!({})).await);
        let url = format!("{}/readyz", app.config.server.public_url);
        let ready = app.http.get(&url).send().await.unwrap();
        let (status, ready) = (ready.status().as_u16(), ready.json::<Value>().await.unwrap());
        match app.db.engine() {
            TestEngine::Postgres => assert_eq!((status, &ready["status"]), (503, &json!("unready")), "{ready}"),
            // Reads go on beside another's write.
            TestEngine::Sqlite => assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER"),
        }
        assert_eq!(app.http.get(url.replace("readyz", "healthz")).send().await.unwrap().status(), 200, "it lives");
        between.give_back().await;

        let after = (app.payment("order-1").await, app.rows("audit_entries").await, app.rows("payments").await);
        assert_eq!(before, after);
        assert_eq!(app.signer.count("POST", ""), asked, "nobody was called without a recorded intent");
        // The same calls again.
        assert_eq!(app.create("order-2").await.status(), "CREATED");
        assert_eq!(app.confirm("finance-1", "order-1", &app.jws("finance-1", &document)).await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.executions(&waiting).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_worker_without_its_database_sends_nothing_and_goes_on_when_it_is_back() {
    each(async |app: &mut App| {
        let mut between = Between::put(app).await;
        let payment = app.signed("order-1").await;
        between.take_away().await;
        for _ in 0..2 {
            assert_eq!(app.journal.tick().await.unwrap_err().code.as_str(), "STORE_UNAVAILABLE");
        }
        between.give_back().await;
        assert_eq!(app.requests(&payment).await, 0, "no intent, no request");
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn b21_an_outcome_that_could_not_be_written_is_found_by_asking() {
    each(async |app: &mut App| {
        let mut between = Between::put(app).await;
        let payment = app.signed("order-1").await;
        let rail = Arc::new(ScriptedRail::new(app.real_rail(), Execution::AnswersWhenTold));
        let journal = app.another(Some(Arc::clone(&rail) as _)).await;
        let work = tokio::spawn(async move { journal.tick().await });
        rail.reached().await;
        between.take_away().await;
        rail.answer();
        assert_eq!(work.await.unwrap().unwrap().failed, 1, "it could not be recorded");
        between.give_back().await;
        assert_eq!(app.status("order-1").await.phase(), "intended");
        app.pass(std::time::Duration::from_secs(16)).await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!((app.executions(&payment).await, app.requests(&payment).await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn b20_a_callback_that_could_not_be_kept_is_sent_again() {
    each(async |app: &mut App| {
        let mut between = Between::put(app).await;
        app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        between.take_away().await;
        assert_eq!(app.deliver_callbacks().await, 1);
        between.give_back().await;
        assert_eq!(app.rows("callbacks").await, 0);
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        // It was not answered 2xx, so it comes again.
        app.clock.advance(3_000_000);
        assert_eq!(app.deliver_callbacks().await, 1);
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn connections_that_the_server_ended_are_replaced() {
    only(TestEngine::Postgres, Wishes::default(), async |app: &mut App| {
        app.create("order-1").await;
        let name = app.db.url().rsplit_once("application_name=").unwrap().1.to_owned();
        let end = format!("SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM pg_stat_activity WHERE application_name = '{name}' AND pid <> pg_backend_pid()");
        app.db.raw().await.texts(&end).await;
        for _ in 0..3 {
            let answer = app.notify("order-1").await;
            if !answer.is_error {
                break;
            }
            is_unavailable(&answer);
        }
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
    })
    .await;
}

/// One frozen process, or a person's open transaction, must not stop everybody else for long.
#[tokio::test]
async fn a_lock_that_is_never_given_back_is_not_waited_for_and_leaves_readers_alone() {
    only(TestEngine::Postgres, Wishes::default(), async |app: &mut App| {
        app.config.database.busy_timeout_ms = 400;
        app.restart().await;
        app.create("order-1").await;
        let mut raw = app.db.raw().await;
        raw.execute("BEGIN").await.unwrap();
        raw.texts("SELECT tenant FROM audit_heads FOR UPDATE").await;
        let arguments = json!({"order_id": "order-2", "amount": "1.00", "signer_id": "finance-1"});
        is_unavailable(&app.call(&app.agent(), "create_payment", arguments.clone()).await);
        assert_eq!(app.status("order-1").await.status(), "CREATED", "reading needs no lock");
        raw.execute("ROLLBACK").await.unwrap();
        assert_eq!(app.call(&app.agent(), "create_payment", arguments).await.status(), "CREATED");
    })
    .await;
}
