//! A fresh, migrated database for each test, on either engine.
//!
//! ```text
//! for engine in engines() {
//!     let db = TestDatabase::new(engine).await;
//!     let mut tx = db.store().begin().await.unwrap();
//!     …
//!     assert!(held, "{engine}");
//! }
//! ```
//!
//! SQLite: a folder of its own, removed on drop, or by the next run when the process was killed.
//! PostgreSQL: a schema of its own in the cluster of `harness::postgres`, dropped on drop together
//! with every connection to it. A child process reaches the same database by [`TestDatabase::url`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use countersign::ambient::{Entropy as _, ShiftedClock, SystemEntropy};
use countersign::store::Store;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};
use tokio::sync::{Semaphore, SemaphorePermit};
use url::Url;

use super::postgres;

/// Connections of one store. [`LIVE`] times this, and twice that for second stores, is under 200.
const POOL: u32 = 6;

/// PostgreSQL databases alive at once, so that no number of test threads uses up the connections.
static LIVE: Semaphore = Semaphore::const_new(16);

/// An engine that tests run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestEngine {
    Sqlite,
    Postgres,
}

impl fmt::Display for TestEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// The engines there are on this machine: SQLite always.
pub(crate) fn engines() -> Vec<TestEngine> {
    let mut engines = vec![TestEngine::Sqlite];
    engines.extend(postgres::server().map(|_| TestEngine::Postgres));
    engines
}

/// A database of one test.
#[derive(Debug)]
pub(crate) struct TestDatabase {
    store: Store,
    clock: Arc<ShiftedClock>,
    engine: TestEngine,
    url: String,
    _home: Home,
}

impl TestDatabase {
    /// A fresh database with today's schema, its clock at the true time.
    pub(crate) async fn new(engine: TestEngine) -> Self {
        let (home, url) = Home::new(engine).await;
        let clock = Arc::new(ShiftedClock::default());
        let store = open(&url, &clock).await;
        store.migrate().await.unwrap();
        Self { store, clock, engine, url, _home: home }
    }

    /// A database on a cluster of the test's own, which takes it along when it goes.
    pub(crate) async fn on(cluster: &postgres::Cluster) -> Self {
        let clock = Arc::new(ShiftedClock::default());
        let url = cluster.url().to_string();
        let store = open(&url, &clock).await;
        store.migrate().await.unwrap();
        Self { store, clock, engine: TestEngine::Postgres, url, _home: Home::Elsewhere }
    }

    /// The store that the test works with.
    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// Which engine it is.
    pub(crate) const fn engine(&self) -> TestEngine {
        self.engine
    }

    /// Where it is, for another process.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The clock of every store on this database; `advance` moves the store's time.
    pub(crate) const fn clock(&self) -> &Arc<ShiftedClock> {
        &self.clock
    }

    /// A second store on the same database, as another process would have.
    pub(crate) async fn another(&self) -> Store {
        open(&self.url, &self.clock).await
    }

    /// Closes the store and opens it again, as a restart does.
    pub(crate) async fn reopen(&mut self) {
        self.store.close().await;
        self.store = self.another().await;
    }

    /// Waits until the server has finished what processes that stand still had given it, so that the books are of
    /// one moment. Who waits for a lock of theirs waits on.
    pub(crate) async fn quiet(&self) {
        if self.engine == TestEngine::Sqlite {
            return;
        }
        let busy = "SELECT CAST(pid AS TEXT) FROM pg_stat_activity WHERE state = 'active' \
            AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database() \
            AND application_name = current_setting('application_name') AND wait_event_type IS DISTINCT FROM 'Lock'";
        let mut raw = self.raw().await;
        for _ in 0..500 {
            // A request may have been on its way to the server when its sender was stopped.
            tokio::time::sleep(Duration::from_millis(10)).await;
            if raw.texts(busy).await.is_empty() {
                return;
            }
        }
        panic!("the server is still busy, though everybody stands still");
    }

    /// A connection beside the store, for what the store must not be able to do.
    pub(crate) async fn raw(&self) -> Raw {
        match self.engine {
            TestEngine::Sqlite => Raw::Sqlite(SqliteConnection::connect(&self.url).await.unwrap()),
            TestEngine::Postgres => Raw::Postgres(PgConnection::connect(&self.url).await.unwrap()),
        }
    }
}

impl TestDatabase {
    /// What commits reach; has the cluster that the tests started flush them, or not. Another's server is left as it is.
    pub(crate) async fn durable(&self, on: bool) -> String {
        if self.engine == TestEngine::Sqlite {
            return "synchronous=FULL".to_owned();
        }
        let mut raw = self.raw().await;
        if std::env::var_os(postgres::SERVER).is_none() {
            let word = if on { "on" } else { "off" };
            raw.execute(&format!("ALTER SYSTEM SET fsync = {word}")).await.unwrap();
            raw.execute("SELECT pg_reload_conf()").await.unwrap();
            while raw.texts("SHOW fsync").await != [word] {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        format!("fsync={}", raw.texts("SHOW fsync").await[0])
    }
}

async fn open(url: &str, clock: &Arc<ShiftedClock>) -> Store {
    Store::open(url, POOL, Duration::from_secs(20), Arc::clone(clock) as _).await.unwrap()
}

/// A plain connection, for statements that are not the store's.
#[derive(Debug)]
pub(crate) enum Raw {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Raw {
    /// A SQLite file of another part.
    pub(crate) async fn file(url: &str) -> Self {
        Self::Sqlite(SqliteConnection::connect(url).await.unwrap())
    }

    /// A PostgreSQL server of the test's own.
    pub(crate) async fn server(url: &str) -> Self {
        Self::Postgres(PgConnection::connect(url).await.unwrap())
    }

    /// Closes it, and waits for that.
    pub(crate) async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(link) => link.close().await,
            Self::Postgres(link) => link.close().await,
        }
    }

    /// Runs one or more statements; how many rows the last one touched.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<u64, sqlx::Error> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        Ok(match self {
            Self::Sqlite(link) => sql.execute(link).await?.rows_affected(),
            Self::Postgres(link) => sql.execute(link).await?.rows_affected(),
        })
    }

    /// The first column of a query, a text.
    pub(crate) async fn texts(&mut self, sql: &str) -> Vec<String> {
        self.column(sql, 0).await
    }

    /// The first `columns` columns of a query, all of them texts.
    pub(crate) async fn rows(&mut self, sql: &str, columns: usize) -> Vec<Vec<String>> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let all = 0..columns;
        match self {
            Self::Sqlite(link) => {
                let rows = sql.fetch_all(link).await.unwrap();
                rows.iter().map(|row| all.clone().map(|number| row.get(number)).collect()).collect()
            }
            Self::Postgres(link) => {
                let rows = sql.fetch_all(link).await.unwrap();
                rows.iter().map(|row| all.clone().map(|number| row.get(number)).collect()).collect()
            }
        }
    }

    /// A text column of a query.
    pub(crate) async fn column(&mut self, sql: &str, number: usize) -> Vec<String> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Self::Sqlite(link) => sql.fetch_all(link).await.unwrap().iter().map(|row| row.get(number)).collect(),
            Self::Postgres(link) => sql.fetch_all(link).await.unwrap().iter().map(|row| row.get(number)).collect(),
        }
    }
}

/// What every test database's name starts with; the id of its process follows.
const PREFIX: &str = "countersign_test_";

/// Removes the folders of test processes that were killed.
fn sweep() {
    let alive = |pid: &str| !Path::new("/proc/self").exists() || Path::new("/proc").join(pid).exists();
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('_').next());
        if pid.is_some_and(|pid| !alive(pid)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Where a test's database lives; removed on drop.
#[derive(Debug)]
enum Home {
    Folder(PathBuf),
    Schema { name: String, _place: SemaphorePermit<'static> },
    Elsewhere,
}

impl Home {
    async fn new(engine: TestEngine) -> (Self, String) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "{PREFIX}{}_{}_{:08x}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed),
            SystemEntropy.u64() & 0xffff_ffff
        );
        match engine {
            TestEngine::Sqlite => {
                static SWEPT: Once = Once::new();
                SWEPT.call_once(sweep);
                let folder = std::env::temp_dir().join(name);
                std::fs::create_dir(&folder).unwrap();
                let url = format!("sqlite://{}", folder.join("test.db").display());
                (Self::Folder(folder), url)
            }
            TestEngine::Postgres => {
                let place = LIVE.acquire().await.unwrap();
                on_server(&format!("CREATE SCHEMA {name}")).await.unwrap();
                let mut url = server();
                let join = if url.query().is_some() { '&' } else { '?' };
                url = format!("{url}{join}options=-csearch_path%3D{name}&application_name={name}").parse().unwrap();
                (Self::Schema { name, _place: place }, url.into())
            }
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        match self {
            Self::Elsewhere => {}
            Self::Folder(folder) => drop(std::fs::remove_dir_all(folder)),
            Self::Schema { name, .. } => {
                let sql = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'; \
                     SET lock_timeout = '5s'; DROP SCHEMA {name} CASCADE"
                );
                // Not on the test's runtime, which may be what is being dropped.
                let dropped = std::thread::spawn(move || {
                    tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .unwrap()
                        .block_on(on_server(&sql))
                });
                if !matches!(dropped.join(), Ok(Ok(()))) {
                    eprintln!("the test schema {name} was not dropped");
                }
            }
        }
    }
}

fn server() -> Url {
    postgres::server().expect("a PostgreSQL test runs where there is a server").clone()
}

async fn on_server(sql: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(server().as_str()).await?;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await?;
    connection.close().await
}
