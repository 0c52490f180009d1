//! The signer service's own database: one writer, many readers.
//!
//! Every request that writes does so in one [`Session`], its idempotency record included, so a
//! process killed at any line leaves all of the request or nothing. Only this folder names sqlx
//! within the service.

mod decisions;
mod keys;
mod links;
mod messages;
mod notifications;
mod outbox;
mod passkeys;
mod payments;
mod presence;
mod sessions;
mod verdicts;

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, Sqlite, SqlitePool, Transaction};

pub(in crate::signer) use decisions::{KeptDecision, Verdict, Word};
pub(in crate::signer) use keys::KeyedRequest;
pub(in crate::signer) use links::NewLink;
pub(in crate::signer) use messages::{Attempt, Message, Trying};
pub(in crate::signer) use outbox::Callback;
pub(in crate::signer) use passkeys::{InvitationAnswer, KeptInvitation, KeptPasskey};
pub(in crate::signer) use payments::KeptPayment;
pub(in crate::signer) use sessions::SignInKey;
pub(in crate::signer) use verdicts::DecidedElsewhere;

/// The database could not do what was asked. Its text is for the log, never for an answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::signer) enum StoreFault {
    /// The database refused or could not be reached.
    #[error("signer database: {0}")]
    Database(#[from] sqlx::Error),
    /// The tables could not be brought up to date.
    #[error("signer database tables: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// A row was not in the state that the statement named.
    #[error("signer database: {0} changed underneath")]
    Moved(&'static str),
}

type Stored<T> = Result<T, StoreFault>;

/// The database.
#[derive(Debug)]
pub(in crate::signer) struct Store {
    writer: SqlitePool,
    reader: SqlitePool,
}

impl Store {
    /// Opens the file, or a private database in memory for `:memory:`, and brings its tables up to date.
    pub(in crate::signer) async fn open(database: &Path) -> Stored<Self> {
        let in_memory = database == Path::new(":memory:");
        let base = SqliteConnectOptions::new().busy_timeout(Duration::from_secs(5)).foreign_keys(true);
        let base = if in_memory { base.in_memory(true) } else { base.filename(database) };
        let writing = base
            .clone()
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        // A database in memory lives as long as its one connection, so that connection never retires.
        let writer = pool(1).connect_with(writing).await?;
        sqlx::migrate!("migrations/signer").run(&writer).await?;
        let reader = if in_memory { writer.clone() } else { pool(4).connect_with(base.read_only(true)).await? };
        Ok(Self { writer, reader })
    }

    /// A consistent view to read from.
    pub(in crate::signer) async fn read(&self) -> Stored<Session> {
        Ok(Session { tx: self.reader.begin().await? })
    }

    /// The only writer there is, until the session is committed or dropped.
    pub(in crate::signer) async fn write(&self) -> Stored<Session> {
        Ok(Session { tx: self.writer.begin_with("BEGIN IMMEDIATE").await? })
    }
}

/// Whether a released connection may serve the next: SQLite rolls back by itself when the disk is full,
/// and sqlx then believes the transaction open for ever.
async fn whole(conn: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    conn.ping().await?;
    Ok(!conn.is_in_transaction())
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(Duration::from_secs(10))
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .after_release(|conn, _| Box::pin(whole(conn)))
}

/// One transaction. Dropped without [`Session::commit`], it leaves nothing.
#[derive(Debug)]
pub(in crate::signer) struct Session {
    tx: Transaction<'static, Sqlite>,
}

impl Session {
    /// Makes everything written durable.
    pub(in crate::signer) async fn commit(self) -> Stored<()> {
        Ok(self.tx.commit().await?)
    }

    /// Whether the database answers.
    pub(in crate::signer) async fn ping(&mut self) -> Stored<()> {
        let _: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM signers").fetch_one(self.db()).await?;
        Ok(())
    }

    fn db(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}

/// Demands that a statement changed exactly one row.
fn one_row(changed: &sqlx::sqlite::SqliteQueryResult, what: &'static str) -> Stored<()> {
    if changed.rows_affected() == 1 { Ok(()) } else { Err(StoreFault::Moved(what)) }
}
