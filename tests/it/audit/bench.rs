//! How fast audited changes commit, beside what the engine itself can do.
//!
//! In one run, on each engine, with 1, 8 and 32 writers: transactions that only append an audit entry,
//! all to one tenant's chain or spread over eight; and bare transactions of an insert and an update, each
//! writer on rows of its own. The cells take turns, several rounds; the median counts.
//!
//! `just bench-audit` runs it for seconds a cell, PostgreSQL with `fsync` on. Among the tests it runs for moments,
//! and asserts that what was counted is what is stored, never how fast.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use countersign::ambient::SystemClock;
use countersign::store::{AuditNote, Store};

use crate::harness::bare::Bare;
use crate::harness::database::{TestDatabase, engines};

/// The most writers at once.
const MOST: usize = 32;

/// How large a run is.
#[derive(Debug, Clone, Copy)]
struct Size {
    writers: &'static [usize],
    rounds: usize,
    each: Duration,
    /// Whether PostgreSQL is told to reach the disk; the cluster's other tests are slower meanwhile.
    durable: bool,
}

fn size() -> Size {
    match std::env::var("COUNTERSIGN_BENCH_AUDIT") {
        Ok(seconds) => {
            let each = Duration::from_secs(seconds.parse().expect("COUNTERSIGN_BENCH_AUDIT is seconds a cell"));
            Size { writers: &[1, 8, MOST], rounds: 3, each, durable: true }
        }
        Err(_) => Size { writers: &[1, 8], rounds: 1, each: Duration::from_millis(50), durable: false },
    }
}

/// What a cell of the table does.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// Audit entries, spread over so many tenants.
    Audited(usize),
    /// An insert and an update.
    Bare,
}

const BARE: [&str; 2] = [
    "INSERT INTO bench_log VALUES ($1, 1, 'a text about as long as what an entry is made of')",
    "UPDATE bench_rows SET n = 1 WHERE id = $1",
];

/// The engine without the store, and the tables that its commits are of.
async fn bare(db: &TestDatabase) -> Bare {
    let tables = "CREATE TABLE bench_rows (id BIGINT PRIMARY KEY, n BIGINT NOT NULL); \
         CREATE TABLE bench_log (id BIGINT NOT NULL, n BIGINT NOT NULL, text TEXT NOT NULL)";
    let mut raw = db.raw().await;
    raw.execute(tables).await.unwrap();
    for id in 0..MOST {
        raw.execute(&format!("INSERT INTO bench_rows VALUES ({id}, 0)")).await.unwrap();
    }
    Bare::open(db, MOST).await
}

async fn audited(store: &Store, tenant: usize) {
    let mut tx = store.begin().await.unwrap();
    tx.audit(AuditNote {
        tenant: format!("tenant-{tenant}"),
        payment_id: "pay_01KDYYZZ8800000000000000007".to_owned(),
        version: 1,
        node: "node-1".to_owned(),
        actor: "agent:agent-1".to_owned(),
        event: "payment.created".to_owned(),
        to: "CREATED".to_owned(),
        details: "a document".to_owned(),
        ..AuditNote::default()
    });
    tx.commit().await.unwrap();
}

/// Commits, and commits a second.
async fn rate(store: &Store, plain: &Bare, load: Load, writers: usize, each: Duration) -> (u64, f64) {
    let count = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let work = (0..writers).map(|writer| {
        let (store, plain, count) = (store.clone(), plain.clone(), Arc::clone(&count));
        tokio::spawn(async move {
            while begun.elapsed() < each {
                match load {
                    Load::Audited(tenants) => audited(&store, writer % tenants).await,
                    Load::Bare => plain.commit(&BARE, i64::try_from(writer).unwrap()).await,
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    for done in futures::future::join_all(work).await {
        done.unwrap();
    }
    let count = count.load(Ordering::Relaxed);
    (count, f64::from(u32::try_from(count).unwrap()) / begun.elapsed().as_secs_f64())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn rows(db: &TestDatabase, table: &str) -> u64 {
    db.raw().await.texts(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}")).await[0].parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_counted_as_audited_is_stored_however_fast() {
    let Size { writers, rounds, each, durable: to_disk } = size();
    let mut table = String::from(
        "| engine | writers | one tenant, commits/s | eight tenants | bare | one to eight | eight to bare |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut notes = Vec::new();
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let store = Store::open(db.url(), 32, Duration::from_secs(20), Arc::new(SystemClock)).await.unwrap();
        let plain = bare(&db).await;
        notes.push(format!("{engine}: {}", if to_disk { db.durable(true).await } else { "as it comes".to_owned() }));
        let loads = [Load::Audited(1), Load::Audited(8), Load::Bare];
        let (mut audits, mut bares) = (0, 0);
        for &writers in writers {
            let mut rates = [const { Vec::new() }; 3];
            for _ in 0..rounds {
                for (cell, load) in rates.iter_mut().zip(loads) {
                    let (count, rate) = rate(&store, &plain, load, writers, each).await;
                    match load {
                        Load::Audited(_) => audits += count,
                        Load::Bare => bares += count,
                    }
                    cell.push(rate);
                }
            }
            let [one, eight, bare] = rates.map(median);
            let (spread, cost) = (100.0 * one / eight, 100.0 * eight / bare);
            writeln!(
                table,
                "| {engine} | {writers} | {one:.0} | {eight:.0} | {bare:.0} | {spread:.0} % | {cost:.0} % |"
            )
            .unwrap();
        }
        if to_disk {
            db.durable(false).await;
        }
        assert!(audits > 0 && bares > 0, "{engine}");
        assert_eq!((rows(&db, "audit_entries").await, rows(&db, "bench_log").await), (audits, bares), "{engine}");
        store.close().await;
    }
    println!("\n{table}\n{}; {rounds} rounds of {each:?}, the median", notes.join(", "));
}
