//! The engine without the store: what its own commits cost, for benchmarks to stand beside.

use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgPool, SqlitePool};

use super::database::{TestDatabase, TestEngine};

/// As durable as the store: on SQLite one connection writes, on PostgreSQL any number.
#[derive(Debug, Clone)]
pub(crate) enum Bare {
    Lite(SqlitePool),
    Pg(PgPool),
}

impl Bare {
    pub(crate) async fn open(db: &TestDatabase, writers: usize) -> Self {
        match db.engine() {
            TestEngine::Sqlite => {
                let options: SqliteConnectOptions = db.url().parse().unwrap();
                let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
                let options = options.busy_timeout(Duration::from_secs(20));
                Self::Lite(SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap())
            }
            TestEngine::Postgres => {
                let most = u32::try_from(writers).unwrap();
                Self::Pg(PgPoolOptions::new().max_connections(most).connect(db.url()).await.unwrap())
            }
        }
    }

    /// One transaction of these statements, each about row `$1`.
    pub(crate) async fn commit(&self, statements: &[&'static str], row: i64) {
        match self {
            Self::Lite(pool) => {
                let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                for statement in statements {
                    sqlx::query(*statement).bind(row).execute(&mut *tx).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
            Self::Pg(pool) => {
                let mut tx = pool.begin().await.unwrap();
                for statement in statements {
                    sqlx::query(*statement).bind(row).execute(&mut *tx).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Lite(pool) => pool.close().await,
            Self::Pg(pool) => pool.close().await,
        }
    }
}
