//! Whether writes go well: a database may answer reads and take no writes, as on a full disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Connection as _, PgConnection, SqliteConnection, SqlitePool};

use super::fault::{StoreFault, is_read_only_file};
use crate::ambient::Clock;
use crate::domain::Timestamp;

/// How long a failed write is remembered when no other follows.
const REMEMBERED: Duration = Duration::from_secs(10);

/// How the last write of this process ended.
#[derive(Debug, Clone)]
pub(super) struct Writes {
    /// When it failed for want of the database, in microseconds; 0 when it went well.
    failed_at: Arc<AtomicI64>,
    /// What is known of SQLite's one writing connection.
    writer: Arc<AtomicU8>,
    clock: Arc<dyn Clock>,
}

/// It was opened, and has not been tried.
const UNTRIED: u8 = 0;
/// It writes, until it is closed.
const WRITES: u8 = 1;
/// It only reads, until it is closed.
const READS: u8 = 2;

/// Needs the right to write, and changes nothing.
const SQLITE_TRIAL: &str = "DELETE FROM payments WHERE FALSE";
const POSTGRES_WRITES: &str = "SELECT current_setting('transaction_read_only') = 'off'";

impl Writes {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { failed_at: Arc::default(), writer: Arc::default(), clock }
    }

    /// Remembers an ending, and hands it on.
    pub(super) fn note<T>(&self, ended: Result<T, StoreFault>) -> Result<T, StoreFault> {
        if matches!(ended, Err(StoreFault::Unavailable(_))) {
            self.failed_at.store(self.clock.now().micros(), Ordering::Relaxed);
        }
        ended
    }

    /// Remembers that a commit went well.
    pub(super) fn went_well(&self) {
        self.failed_at.store(0, Ordering::Relaxed);
    }

    /// *Errors*: the last write failed, not long ago.
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        let failed_at = Timestamp::from_micros(self.failed_at.load(Ordering::Relaxed));
        let lately = failed_at.micros() != 0 && self.clock.now().since(failed_at) < REMEMBERED;
        if lately { Err(no_writes()) } else { Ok(()) }
    }

    /// SQLite: has the pool of the one writing connection tell when that is another, and keep it only whole.
    pub(super) fn watched(&self, pool: SqlitePoolOptions) -> SqlitePoolOptions {
        let opened = Arc::clone(&self.writer);
        let pool = pool.after_connect(move |_, _| {
            opened.store(UNTRIED, Ordering::Relaxed);
            Box::pin(async { Ok(()) })
        });
        pool.after_release(|conn, _| Box::pin(whole(conn)))
    }

    /// SQLite: has the pool of those that read close what is released while the writing connection only reads.
    ///
    /// The connections of a process share the log's index as the first one opened it.
    pub(super) fn followed(&self, pool: SqlitePoolOptions) -> SqlitePoolOptions {
        let writer = Arc::clone(&self.writer);
        pool.after_release(move |_, _| {
            let kept = writer.load(Ordering::Relaxed) != READS;
            Box::pin(async move { Ok(kept) })
        })
    }

    /// SQLite: whether nobody knows that the writing connection writes.
    pub(super) fn untried(&self) -> bool {
        self.writer.load(Ordering::Relaxed) != WRITES
    }

    /// SQLite: tries the writing connection, once.
    ///
    /// A file that may not be written is opened to read without a word, and stays so until it is opened anew.
    ///
    /// *Errors*: `Unavailable` when it only reads; it is closed then, and so is what is idle among `readers`.
    pub(super) async fn try_out(&self, writer: &SqlitePool, readers: &SqlitePool) -> Result<(), StoreFault> {
        if !self.untried() {
            return Ok(());
        }
        let mut conn = writer.acquire().await?;
        let tried = sqlx::query(SQLITE_TRIAL).execute(&mut *conn).await;
        match &tried {
            Ok(_) => self.writer.store(WRITES, Ordering::Relaxed),
            Err(err) if is_read_only_file(err) => {
                self.writer.store(READS, Ordering::Relaxed);
                drop(conn.close().await);
                while let Some(idle) = readers.try_acquire() {
                    drop(idle.close().await);
                }
            }
            Err(_) => {}
        }
        Ok(tried.map(drop)?)
    }
}

/// The database answers, and takes no writes.
pub(super) fn no_writes() -> StoreFault {
    StoreFault::Unavailable(sqlx::Error::Protocol("the database takes no writes".to_owned()))
}

/// PostgreSQL: has the pool close an idle connection that is lost, or that takes no writes, before it serves.
///
/// A session opened while `default_transaction_read_only` was on keeps it for good.
pub(super) fn writing(pool: PgPoolOptions) -> PgPoolOptions {
    pool.test_before_acquire(false).before_acquire(|conn, _| Box::pin(takes_writes(conn)))
}

async fn takes_writes(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(POSTGRES_WRITES).fetch_one(conn).await
}

/// Whether a released connection may serve the next: it is in no transaction.
///
/// SQLite rolls back by itself when the disk is full; sqlx's own rollback then fails and it believes
/// the transaction open for ever. The ping waits for a rollback that is on its way.
async fn whole(conn: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    conn.ping().await?;
    Ok(!conn.is_in_transaction())
}
