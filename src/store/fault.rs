//! What can go wrong with the database, and what a caller is told.

use sqlx::error::{DatabaseError, ErrorKind};

use crate::domain::{Code, Refusal};

/// A failed database operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    /// The database can't be used right now; nothing was written.
    #[error("the database can't be used right now")]
    Unavailable(#[source] sqlx::Error),
    /// Someone else changed it at the same moment; reload and decide again.
    #[error("the row changed at the same moment")]
    Conflict,
    /// The database may be a restored backup; only outcomes are stored until it was compared with the rail.
    #[error("the database is being compared with the rail")]
    Restoring,
    /// A row that this version can't read.
    #[error("a stored row can't be read: {0}")]
    Corrupt(String),
    /// A fault of ours: a statement the database refuses.
    #[error("the database refused a statement: {0}")]
    Refused(#[source] sqlx::Error),
}

impl From<sqlx::Error> for StoreFault {
    fn from(err: sqlx::Error) -> Self {
        match &err {
            sqlx::Error::Database(db) if db.kind() == ErrorKind::UniqueViolation || is_serialization(&**db) => {
                Self::Conflict
            }
            sqlx::Error::Database(db) if is_passing(&**db) => Self::Unavailable(err),
            sqlx::Error::Io(_)
            // A connection that believes it is in a transaction still; it is thrown away.
            | sqlx::Error::InvalidSavePointStatement
            | sqlx::Error::BeginFailed
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(err),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
                Self::Corrupt(err.to_string())
            }
            _ => Self::Refused(err),
        }
    }
}

/// PostgreSQL: serialization failure, deadlock. SQLite: a snapshot that a later commit outdated.
fn is_serialization(db: &dyn DatabaseError) -> bool {
    matches!(db.code().as_deref(), Some("40001" | "40P01" | "517"))
}

/// SQLite: `SQLITE_READONLY` in the low byte, which lasts as long as the connection.
pub(super) fn is_read_only_file(err: &sqlx::Error) -> bool {
    let code = err.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code.len() < 5 && code.parse::<u32>().is_ok_and(|code| code & 0xff == 8))
}

/// A state of the database that passes, or that an operator ends: busy, full, restarting, read-only.
fn is_passing(db: &dyn DatabaseError) -> bool {
    let code = db.code().unwrap_or_default();
    let postgres = ["08", "25006", "25P03", "53", "55P03", "57", "58"]
        .iter()
        .any(|class| code.len() == 5 && code.starts_with(class));
    // SQLITE_BUSY, LOCKED, NOMEM, READONLY, IOERR, FULL, CANTOPEN in the low byte.
    let sqlite =
        code.len() < 5 && code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 5 | 6 | 7 | 8 | 10 | 13 | 14));
    postgres || sqlite
}

impl From<StoreFault> for Refusal {
    /// Tells the caller what to do and logs the cause once, here.
    fn from(fault: StoreFault) -> Self {
        match &fault {
            StoreFault::Unavailable(cause) => {
                tracing::warn!(error = %cause, "database unavailable");
                Self::new(
                    Code::StoreUnavailable,
                    "the database can't be used right now; nothing was written, repeat the same call",
                )
            }
            StoreFault::Conflict => {
                Self::new(Code::VersionConflict, "the payment changed at the same moment; repeat the same call")
            }
            StoreFault::Restoring => Self::new(
                Code::RestoreUnderWay,
                "this desk was restored from a backup; payments stay as they are until they were compared with the rail",
            ),
            StoreFault::Corrupt(_) | StoreFault::Refused(_) => {
                tracing::error!(error = &fault as &dyn std::error::Error, "database fault");
                Self::new(Code::Internal, "a fault on our side; it has been logged")
            }
        }
    }
}
