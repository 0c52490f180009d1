//! The schema: brought up to date by a start or `migrate`, and compared by `check`.

use std::collections::BTreeMap;

use sqlx::migrate::Migrator;

use super::engine::{Engine, Store, on};
use super::fault::StoreFault;

pub(super) static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
pub(super) static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

const APPLIED: &str = "SELECT version, checksum, success FROM _sqlx_migrations";

/// The migrations that were applied, each with its checksum and whether it succeeded.
type Applied = BTreeMap<i64, (Vec<u8>, bool)>;

impl Store {
    async fn applied(&self) -> Result<Applied, StoreFault> {
        let mut session = self.read().await?;
        let read: Result<Vec<(i64, Vec<u8>, bool)>, sqlx::Error> =
            on!(session, conn => sqlx::query_as(APPLIED).fetch_all(conn).await);
        match read {
            Ok(rows) => Ok(rows.into_iter().map(|(version, checksum, good)| (version, (checksum, good))).collect()),
            Err(sqlx::Error::Database(err)) if names_no_table(&*err) => Ok(Applied::new()),
            Err(err) => Err(err.into()),
        }
    }

    /// Whether no version ever brought a schema into it.
    pub async fn is_new(&self) -> Result<bool, StoreFault> {
        Ok(self.applied().await?.is_empty())
    }

    /// What keeps the schema from being the one of this version; `None` when it is. Nothing is changed.
    pub async fn schema_fault(&self) -> Result<Option<String>, StoreFault> {
        let known = match self.engine() {
            Engine::Sqlite => &SQLITE,
            Engine::Postgres => &POSTGRES,
        };
        let mut applied = self.applied().await?;
        if applied.is_empty() {
            return Ok(Some("it holds none; run countersign migrate if it is the right database".to_owned()));
        }
        let mut missing = 0_usize;
        for migration in known.iter() {
            match applied.remove(&migration.version) {
                None => missing = missing.saturating_add(1),
                Some((checksum, true)) if *checksum == *migration.checksum => {}
                Some(_) => return Ok(Some(format!("migration {} is not the one of this version", migration.version))),
            }
        }
        Ok(match (missing, applied.is_empty()) {
            (0, true) => None,
            (_, false) => Some("it belongs to a newer version of countersign".to_owned()),
            (_, true) => Some(format!("it is older, {missing} migrations are not applied; run countersign migrate")),
        })
    }
}

fn names_no_table(err: &dyn sqlx::error::DatabaseError) -> bool {
    err.code().as_deref() == Some("42P01") || err.message().starts_with("no such table")
}
