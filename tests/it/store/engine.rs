//! Time, visibility and durability: what a transaction is on either engine.

use std::sync::Arc;
use std::time::Duration;

use countersign::ambient::{Clock as _, SystemClock};
use countersign::store::{Engine, Store, StoreFault};

use super::sample::{insert, payment, read};
use crate::harness::database::{TestDatabase, TestEngine, engines};

/// More than the clocks of one machine differ, less than any shift tried here.
const CLOSE: i64 = 5_000_000;
const HOUR: i64 = 3_600_000_000;

#[tokio::test]
async fn the_stores_time_is_the_true_time_moved_by_the_clock() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        for shift in [0, HOUR, -2 * HOUR] {
            db.clock().advance(shift - db.clock().shift());
            let expected = SystemClock.now().micros() + shift;
            let tx = db.store().begin().await.unwrap().now().micros();
            let due = db.store().next_due().await.unwrap().1.micros();
            assert!((tx - expected).abs() < CLOSE, "{engine}: {shift}: {}", tx - expected);
            assert!((due - expected).abs() < CLOSE, "{engine}: {shift}: {}", due - expected);
        }
    }
}

#[tokio::test]
async fn a_transaction_has_one_time() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let tx = db.store().begin().await.unwrap();
        let now = tx.now();
        db.clock().advance(HOUR);
        assert_eq!(tx.now(), now, "{engine}");
        drop(tx);
        assert!(db.store().begin().await.unwrap().now().micros() - now.micros() >= HOUR, "{engine}");
    }
}

#[tokio::test]
async fn a_commit_is_seen_at_once_by_every_reader_and_after_a_restart() {
    for engine in engines() {
        let mut db = TestDatabase::new(engine).await;
        let other = db.another().await;
        for number in 0..20 {
            let sample = payment(&format!("o{number}"));
            assert!(insert(db.store(), &sample).await, "{engine}");
            assert!(read(db.store(), &sample).await.is_some(), "{engine}: own reader, {number}");
            assert!(read(&other, &sample).await.is_some(), "{engine}: another process, {number}");
        }
        let sample = payment("last");
        assert!(insert(&other, &sample).await, "{engine}");
        other.close().await;
        db.reopen().await;
        assert_eq!(read(db.store(), &sample).await, Some(sample), "{engine}: after a restart");
        db.store().migrate().await.unwrap();
    }
}

#[tokio::test]
async fn a_transaction_sees_its_own_writes_and_nobody_else_does() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let sample = payment("o");
        let mut tx = db.store().begin().await.unwrap();
        assert!(tx.insert_payment(&sample).await.unwrap(), "{engine}");
        assert!(tx.payment("acme", &sample.terms.payment_id).await.unwrap().is_some(), "{engine}");
        assert_eq!(read(db.store(), &sample).await, None, "{engine}");
        tx.commit().await.unwrap();
        assert_eq!(read(db.store(), &sample).await, Some(sample), "{engine}");
    }
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing_and_blocks_nobody() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        // More often than there are connections: a leaked one would be missed.
        for number in 0..20 {
            let mut tx = db.store().begin().await.unwrap();
            assert!(tx.insert_payment(&payment(&format!("o{number}"))).await.unwrap(), "{engine}");
            drop(tx);
        }
        assert_eq!(db.raw().await.texts("SELECT payment_id FROM payments").await, [""; 0], "{engine}");
        assert!(insert(db.store(), &payment("o0")).await, "{engine}");
    }
}

#[tokio::test]
async fn a_cancelled_writer_leaves_nothing_and_blocks_nobody() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        for number in 0..20 {
            let store = db.store().clone();
            let writer = tokio::spawn(async move {
                let mut tx = store.begin().await.unwrap();
                tx.insert_payment(&payment(&format!("o{number}"))).await.unwrap();
                std::future::pending::<()>().await;
            });
            tokio::time::sleep(Duration::from_millis(number)).await;
            writer.abort();
            assert!(writer.await.unwrap_err().is_cancelled(), "{engine}: {number}");
        }
        assert!(insert(db.store(), &payment("o0")).await, "{engine}");
        assert_eq!(db.raw().await.texts("SELECT order_id FROM payments").await, ["o0"], "{engine}");
    }
}

#[tokio::test]
async fn the_engine_is_what_the_url_says_and_answers() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let expected = match engine {
            TestEngine::Sqlite => Engine::Sqlite,
            TestEngine::Postgres => Engine::Postgres,
        };
        assert_eq!(db.store().engine(), expected, "{engine}");
        db.store().ping().await.unwrap();
        db.store().close().await;
        let closed = db.store().ping().await;
        assert!(matches!(closed, Err(StoreFault::Unavailable(_))), "{engine}: {closed:?}");
    }
}

#[tokio::test]
async fn a_commit_is_on_the_disk_before_it_returns() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let expected = match engine {
            TestEngine::Sqlite => "journal_mode=wal synchronous=2",
            // The tests' cluster is thrown away.
            TestEngine::Postgres => "synchronous_commit=on fsync=off,accepted",
        };
        assert_eq!(db.store().durability().await.unwrap(), expected, "{engine}");
    }
}

#[tokio::test]
async fn a_server_that_may_lose_commits_is_refused() {
    for engine in engines().into_iter().filter(|engine| *engine == TestEngine::Postgres) {
        let db = TestDatabase::new(engine).await;
        for setting in ["synchronous_commit%3Doff", "countersign.fsync_off%3Dno"] {
            let url = format!("{}&options=-c{setting}", db.url());
            let opened = Store::open(&url, 1, Duration::from_secs(5), Arc::new(SystemClock)).await;
            let told = format!("{opened:?}");
            assert!(matches!(opened, Err(StoreFault::Refused(_))) && told.contains("may be lost"), "{engine}: {told}");
        }
    }
}

#[tokio::test]
async fn a_full_writer_queue_is_unavailable_and_not_a_fault_of_ours() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let brief = Store::open(db.url(), 1, Duration::from_millis(200), Arc::new(SystemClock)).await.unwrap();
        let held = brief.begin().await.unwrap();
        let second = brief.begin().await;
        assert!(matches!(second, Err(StoreFault::Unavailable(_))), "{engine}: {second:?}");
        drop(held);
        brief.begin().await.unwrap();
    }
}

#[tokio::test]
async fn a_second_process_that_writes_makes_us_wait_then_unavailable() {
    let db = TestDatabase::new(TestEngine::Sqlite).await;
    let brief = Store::open(db.url(), 1, Duration::from_millis(200), Arc::new(SystemClock)).await.unwrap();
    let held = db.store().begin().await.unwrap();
    let second = brief.begin().await;
    assert!(matches!(second, Err(StoreFault::Unavailable(_))), "{second:?}");
    drop(held);
    assert!(insert(&brief, &payment("o")).await);
}

#[test]
fn postgresql_is_available_in_ci() {
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!ci || engines().contains(&TestEngine::Postgres), "CI must run the PostgreSQL half of the tests");
}

/// A process that went on in the file that was moved away would answer from, and write to, what nobody else sees.
#[tokio::test]
async fn a_file_that_was_moved_or_replaced_is_not_worked_at_any_more() {
    let db = TestDatabase::new(TestEngine::Sqlite).await;
    assert!(insert(db.store(), &payment("kept")).await);
    let path = std::path::PathBuf::from(db.url().trim_start_matches("sqlite://"));
    let [away, copy] = ["away", "copy"].map(|ending| path.with_extension(ending));
    db.raw().await.execute(&format!("VACUUM INTO '{}'", copy.display())).await.unwrap();
    let works = async || {
        let store = db.store();
        let all = [
            store.read().await.map(drop),
            store.begin().await.map(drop),
            store.next_due().await.map(drop),
            store.next_event("https://a.example/").await.map(drop),
            store.ping().await,
        ];
        let refused = all.iter().filter(|done| matches!(done, Err(StoreFault::Unavailable(_)))).count();
        assert!(refused == 0 || refused == all.len(), "{all:?}");
        refused == 0
    };
    assert!(works().await);
    std::fs::rename(&path, &away).unwrap();
    assert!(!works().await, "nothing is there");
    std::fs::rename(&copy, &path).unwrap();
    assert!(!works().await, "another is there");
    let told = db.store().begin().await.unwrap_err();
    let cause = std::error::Error::source(&told).unwrap().to_string();
    assert!(cause.contains("countersign restored"), "{cause}");
    std::fs::rename(&path, &copy).unwrap();
    std::fs::rename(&away, &path).unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(db.store().read().await.is_ok(), "it is there again");
    assert!(insert(db.store(), &payment("more")).await);
}
