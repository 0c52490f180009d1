//! Everything that differs between SQLite and PostgreSQL.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::audit::AuditNote;
use super::fault::StoreFault;
use super::file::File;
use super::schema;
use super::writes::{Writes, no_writes, writing};
use crate::ambient::Clock;
use crate::domain::Timestamp;

/// Runs one body against whichever engine `$session` speaks to, type-checked for both.
macro_rules! on {
    ($session:expr, $conn:ident => $body:expr) => {
        match $session.reach() {
            crate::store::engine::Reach::Lite($conn) => $body,
            crate::store::engine::Reach::Pg($conn) => $body,
        }
    };
}
pub(super) use on;

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Embedded, one process.
    Sqlite,
    /// Shared by any number of processes.
    Postgres,
}

#[derive(Debug, Clone)]
enum Pools {
    /// One connection writes, so that writers wait in turn; others read.
    Lite { write: SqlitePool, read: SqlitePool, file: Arc<File> },
    /// A pool each: what waits to write must not keep others from reading.
    Pg { write: PgPool, read: PgPool },
}

/// The database.
#[derive(Debug, Clone)]
pub struct Store {
    pools: Pools,
    clock: Arc<dyn Clock>,
    writes: Writes,
}

/// A connection: enough to read; see [`Tx`] for writing.
#[derive(Debug)]
pub struct Session(Link);

#[derive(Debug)]
enum Link {
    LiteRead(PoolConnection<Sqlite>),
    LiteTx(Transaction<'static, Sqlite>),
    PgRead(PoolConnection<Postgres>),
    PgTx(Transaction<'static, Postgres>),
}

/// The engine's own connection.
pub(super) enum Reach<'a> {
    Lite(&'a mut SqliteConnection),
    Pg(&'a mut PgConnection),
}

impl Session {
    pub(super) fn reach(&mut self) -> Reach<'_> {
        match &mut self.0 {
            Link::LiteRead(conn) => Reach::Lite(conn),
            Link::LiteTx(tx) => Reach::Lite(tx),
            Link::PgRead(conn) => Reach::Pg(conn),
            Link::PgTx(tx) => Reach::Pg(tx),
        }
    }

    pub(super) fn engine(&self) -> Engine {
        match self.0 {
            Link::LiteRead(_) | Link::LiteTx(_) => Engine::Sqlite,
            Link::PgRead(_) | Link::PgTx(_) => Engine::Postgres,
        }
    }
}

/// A write transaction. Dropped without [`Tx::commit`], it never happened.
#[derive(Debug)]
pub struct Tx {
    session: Session,
    now: Timestamp,
    shift: i64,
    pub(super) floor: Timestamp,
    pub(super) notes: Vec<AuditNote>,
    writes: Writes,
}

impl std::ops::Deref for Tx {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.session
    }
}

impl std::ops::DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl Tx {
    /// The store's time, read once at the start of the transaction, and again after it has waited for a turn.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Reads the time again. On SQLite the wait was over before the first reading.
    pub(super) async fn read_time(&mut self) -> Result<(), StoreFault> {
        if let Link::PgTx(tx) = &mut self.session.0 {
            let now: i64 = sqlx::query_scalar(POSTGRES_NOW).fetch_one(&mut **tx).await?;
            self.now = Timestamp::from_micros(now).plus_micros(self.shift);
        }
        Ok(())
    }

    /// Writes the audit entries and commits.
    ///
    /// *Crash*: before this returns, nothing happened; after it, everything did.
    pub async fn commit(mut self) -> Result<(), StoreFault> {
        let writes = self.writes.clone();
        writes.note(self.write_audit().await)?;
        let committed = match self.session.0 {
            Link::LiteTx(tx) => tx.commit().await,
            Link::PgTx(tx) => tx.commit().await,
            Link::LiteRead(_) | Link::PgRead(_) => Ok(()),
        };
        writes.note(committed.map_err(StoreFault::from))?;
        writes.went_well();
        Ok(())
    }
}

impl Store {
    /// Opens the database at `url`: `sqlite://path` or `postgres://…`.
    ///
    /// *Errors*: `Unavailable` when it can't be reached; `Refused` for a URL that is neither, and for a
    /// PostgreSQL that answers a commit before it is on the disk.
    pub async fn open(url: &str, pool_size: u32, busy: Duration, clock: Arc<dyn Clock>) -> Result<Self, StoreFault> {
        let writes = Writes::new(Arc::clone(&clock));
        let pools = if url.starts_with("sqlite:") {
            let options = SqliteConnectOptions::from_str(url)?
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                // NORMAL can lose committed transactions at power loss.
                .synchronous(SqliteSynchronous::Full)
                .busy_timeout(busy);
            let write = SqlitePoolOptions::new().max_connections(1).acquire_timeout(busy);
            let write = writes.watched(write).connect_with(options.clone()).await?;
            let read = SqlitePoolOptions::new().max_connections(pool_size.max(1)).acquire_timeout(busy);
            let read =
                writes.followed(read).connect_lazy_with(options.clone().read_only(true).create_if_missing(false));
            Pools::Lite { write, read, file: Arc::new(File::opened(options.get_filename())) }
        } else {
            if !url.starts_with("postgres:") && !url.starts_with("postgresql:") {
                return Err(StoreFault::Refused(sqlx::Error::Configuration(
                    "must be sqlite://… or postgres://…".into(),
                )));
            }
            // A process that is frozen in a transaction, or someone's lock, must not stop everybody else.
            let patience = format!("{}ms", busy.as_millis().max(1));
            let options = PgConnectOptions::from_str(url)?
                .options([("lock_timeout", &patience), ("idle_in_transaction_session_timeout", &patience)]);
            let pool = |size| PgPoolOptions::new().max_connections(size).acquire_timeout(busy);
            // Of their own, so that waiting writers leave readers their connections.
            let read = pool((pool_size / 2).max(1)).connect_lazy_with(options.clone());
            Pools::Pg { write: writing(pool(pool_size.max(1))).connect_with(options).await?, read }
        };
        let store = Self { pools, clock, writes };
        // A lost intent is a payment that may be made twice.
        let promise = store.durability().await?;
        if promise.split(' ').any(|word| word.ends_with("=off")) {
            let why = format!("{promise}: what is committed may be lost; both must be on");
            return Err(StoreFault::Refused(sqlx::Error::Configuration(why.into())));
        }
        Ok(store)
    }

    /// Brings the schema up to date.
    pub async fn migrate(&self) -> Result<(), StoreFault> {
        let migrated = match &self.pools {
            Pools::Lite { write, .. } => schema::SQLITE.run(write).await,
            Pools::Pg { write, .. } => {
                // Another process that migrates may take its time.
                let mut conn = write.acquire().await?.detach();
                sqlx::query("SET lock_timeout = 0").execute(&mut conn).await?;
                schema::POSTGRES.run(&mut conn).await
            }
        };
        migrated.map_err(|err| match err {
            MigrateError::Execute(err) => err.into(),
            other => StoreFault::Refused(other.into()),
        })
    }

    /// Which database it is.
    pub const fn engine(&self) -> Engine {
        match self.pools {
            Pools::Lite { .. } => Engine::Sqlite,
            Pools::Pg { .. } => Engine::Postgres,
        }
    }

    /// A connection to read with.
    pub async fn read(&self) -> Result<Session, StoreFault> {
        Ok(Session(match &self.pools {
            Pools::Lite { read, file, .. } => Link::LiteRead(file.held(read)?.acquire().await?),
            Pools::Pg { read, .. } => Link::PgRead(read.acquire().await?),
        }))
    }

    /// Begins a write transaction.
    ///
    /// SQLite takes the write lock at once (`BEGIN IMMEDIATE`): a transaction that reads first and
    /// writes later would fail at once when another commits between.
    pub async fn begin(&self) -> Result<Tx, StoreFault> {
        self.writes.note(self.begun().await)
    }

    async fn begun(&self) -> Result<Tx, StoreFault> {
        let writes = self.writes.clone();
        match &self.pools {
            Pools::Lite { write, read, file } => {
                writes.try_out(file.held(write)?, read).await?;
                let tx = write.begin_with("BEGIN IMMEDIATE").await?;
                let (session, now) = (Session(Link::LiteTx(tx)), self.clock.now());
                Ok(Tx { session, now, shift: 0, floor: now, notes: Vec::new(), writes })
            }
            Pools::Pg { write, .. } => {
                let mut tx = write.begin().await?;
                let (now, reads_only): (i64, bool) = sqlx::query_as(POSTGRES_BEGUN).fetch_one(&mut *tx).await?;
                if reads_only {
                    return Err(no_writes());
                }
                let shift = self.clock.shift();
                let now = Timestamp::from_micros(now).plus_micros(shift);
                Ok(Tx { session: Session(Link::PgTx(tx)), now, shift, floor: now, notes: Vec::new(), writes })
            }
        }
    }

    /// When the next row is due, and the store's time: one query.
    pub async fn next_due(&self) -> Result<(Option<Timestamp>, Timestamp), StoreFault> {
        let (due, now): (Option<i64>, i64) = match &self.pools {
            Pools::Lite { read, file, .. } => {
                let due: Option<i64> = sqlx::query_scalar(SQLITE_DUE).fetch_one(file.held(read)?).await?;
                (due, self.clock.now().micros())
            }
            Pools::Pg { read: pool, .. } => {
                let (due, now): (Option<i64>, i64) = sqlx::query_as(POSTGRES_DUE).fetch_one(pool).await?;
                (due, now.saturating_add(self.clock.shift()))
            }
        };
        Ok((due.map(Timestamp::from_micros), Timestamp::from_micros(now)))
    }

    /// When the next event for `target` is due, and the store's time: one query.
    pub async fn next_event(&self, target: &str) -> Result<(Option<Timestamp>, Timestamp), StoreFault> {
        let (due, now): (Option<i64>, i64) = match &self.pools {
            Pools::Lite { read, file, .. } => {
                let due: Option<i64> =
                    sqlx::query_scalar(SQLITE_EVENT_DUE).bind(target).fetch_one(file.held(read)?).await?;
                (due, self.clock.now().micros())
            }
            Pools::Pg { read: pool, .. } => {
                let (due, now): (Option<i64>, i64) =
                    sqlx::query_as(POSTGRES_EVENT_DUE).bind(target).fetch_one(pool).await?;
                (due, now.saturating_add(self.clock.shift()))
            }
        };
        Ok((due.map(Timestamp::from_micros), Timestamp::from_micros(now)))
    }

    /// Whether the database answers, the last write did not fail for want of it, and another could begin.
    ///
    /// Where every connection is at work nothing is begun: those who work tell.
    pub async fn ping(&self) -> Result<(), StoreFault> {
        self.writes.check()?;
        let mut session = self.read().await?;
        let _: i64 = on!(session, conn => sqlx::query_scalar("SELECT CAST(1 AS BIGINT)").fetch_one(conn).await)?;
        drop(session);
        let ask = match &self.pools {
            Pools::Lite { .. } => self.writes.untried(),
            Pools::Pg { write, .. } => write.num_idle() > 0 || write.size() < write.options().get_max_connections(),
        };
        if ask {
            self.begun().await?;
        }
        Ok(())
    }

    /// What the engine promises when a commit returns, in its own words.
    pub async fn durability(&self) -> Result<String, StoreFault> {
        Ok(match &self.pools {
            Pools::Lite { write, .. } => {
                let mut conn = write.acquire().await?;
                let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *conn).await?;
                let level: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *conn).await?;
                format!("journal_mode={journal} synchronous={level}")
            }
            Pools::Pg { write: pool, .. } => sqlx::query_scalar(POSTGRES_DURABILITY).fetch_one(pool).await?,
        })
    }

    /// Closes all connections.
    pub async fn close(&self) {
        match &self.pools {
            Pools::Lite { write, read, .. } => {
                read.close().await;
                write.close().await;
            }
            Pools::Pg { write, read } => {
                read.close().await;
                write.close().await;
            }
        }
    }
}

const POSTGRES_NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";
const POSTGRES_BEGUN: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT), \
     current_setting('transaction_read_only') = 'on'";
/// A server of throw-away data says that it may lose it: `countersign.fsync_off = 'accepted'`.
const POSTGRES_DURABILITY: &str = "SELECT 'synchronous_commit=' || current_setting('synchronous_commit') || ' fsync=' || \
     COALESCE(current_setting('fsync', true), 'unknown') || \
     CASE current_setting('countersign.fsync_off', true) WHEN 'accepted' THEN ',accepted' ELSE '' END";
pub(super) const SQLITE_DUE: &str = "SELECT MIN(next_wake_at) FROM payments WHERE next_wake_at IS NOT NULL";
pub(super) const POSTGRES_DUE: &str = "SELECT MIN(next_wake_at), CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) \
     FROM payments WHERE next_wake_at IS NOT NULL";
pub(super) const SQLITE_EVENT_DUE: &str = "SELECT MIN(next_at) FROM outbox WHERE target = $1 AND state = 'pending'";
pub(super) const POSTGRES_EVENT_DUE: &str = "SELECT MIN(next_at), CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) \
     FROM outbox WHERE target = $1 AND state = 'pending'";

/// The claim of due rows: oldest first, none that another holds, none of the tenants that `$6` lists.
///
/// The lease predicate stands where rows are chosen and where they are changed, so that a row claimed in
/// between is not claimed again. PostgreSQL chooses in a CTE, which runs once: a sub-select may be run for
/// each row, and one that skips what it has locked itself yields others, beyond the limit.
pub(super) const fn claim_statement(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => {
            "UPDATE payments SET lease_owner = $1, lease_token = $2, lease_until = $3, claims = claims + 1 \
             WHERE lease_until <= $4 AND payment_id IN (SELECT payment_id FROM payments \
               WHERE next_wake_at <= $4 AND lease_until <= $4 AND instr($6, ',' || tenant || ',') = 0 \
               AND ($7 = 0 OR (status = 'SIGNED') = ($7 = 1)) \
               ORDER BY next_wake_at LIMIT $5) \
             RETURNING payment_id, tenant, claims"
        }
        Engine::Postgres => {
            "WITH due AS MATERIALIZED (SELECT payment_id FROM payments \
               WHERE next_wake_at <= $4 AND lease_until <= $4 AND strpos($6, ',' || tenant || ',') = 0 \
               AND ($7 = 0 OR (status = 'SIGNED') = ($7 = 1)) \
               ORDER BY next_wake_at LIMIT $5 FOR UPDATE SKIP LOCKED) \
             UPDATE payments SET lease_owner = $1, lease_token = $2, lease_until = $3, claims = claims + 1 \
             WHERE lease_until <= $4 AND payment_id IN (SELECT payment_id FROM due) \
             RETURNING payment_id, tenant, claims"
        }
    }
}

/// The claim of due events for one target, as [`claim_statement`] claims payments.
///
/// While it is leased, a row is due at the end of its lease, so that those under way are not looked at again.
pub(super) const fn claim_events_statement(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => {
            "UPDATE outbox SET lease_token = $1, lease_until = $2, next_at = $2, attempts = attempts + 1 \
             WHERE target = $3 AND state = 'pending' AND next_at <= $4 AND lease_until <= $4 AND event_id IN (SELECT event_id FROM outbox \
               WHERE target = $3 AND state = 'pending' AND next_at <= $4 AND lease_until <= $4 ORDER BY next_at LIMIT $5) \
             RETURNING event_id, target, payment_id, type, body, attempts"
        }
        Engine::Postgres => {
            "WITH due AS MATERIALIZED (SELECT event_id FROM outbox \
               WHERE target = $3 AND state = 'pending' AND next_at <= $4 AND lease_until <= $4 ORDER BY next_at LIMIT $5 FOR UPDATE SKIP LOCKED) \
             UPDATE outbox SET lease_token = $1, lease_until = $2, next_at = $2, attempts = attempts + 1 \
             WHERE target = $3 AND state = 'pending' AND next_at <= $4 AND lease_until <= $4 AND event_id IN (SELECT event_id FROM due) \
             RETURNING event_id, target, payment_id, type, body, attempts"
        }
    }
}
