//! The sandbox's file: requests, keys, a double-entry ledger, and the faults to come.
//!
//! *Invariant*: one connection writes, each transaction is `BEGIN IMMEDIATE`, and a COMMIT has
//! reached the disk when it returns.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Sqlite, Transaction};

use super::fault::{FORGET_KEYS, FaultKind, FaultsBody, StandingFaults};
use super::wire::{ErrorPage, Order, TransferPage};
use crate::domain::Timestamp;

/// The sandbox's file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum BookFault {
    /// A statement or the file failed.
    #[error("the sandbox's database failed")]
    Database(#[from] sqlx::Error),
    /// The tables could not be brought up to date.
    #[error("the sandbox's database could not be migrated")]
    Migration(#[from] sqlx::migrate::MigrateError),
}

/// An answer that was come to: what a repeated key is answered again.
#[derive(Debug, Clone)]
pub(super) struct Reached {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) body: String,
}

impl Reached {
    /// A refusal, as the contract shows it.
    pub(super) fn refusal(status: u16, code: &'static str, message: &str) -> Self {
        let page = ErrorPage { error_code: code, error_message: message };
        Self { status, code, body: serde_json::to_string(&page).unwrap_or_default() }
    }
}

/// A fault that strikes one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strike {
    pub(super) kind: FaultKind,
    pub(super) delay: Duration,
}

/// One request as it arrived.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    pub(super) key: &'a str,
    pub(super) body_sha256: &'a str,
    pub(super) reference: &'a str,
    pub(super) at: Timestamp,
}

/// Names for the rows of one transfer.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) transfer: String,
    pub(super) debit: String,
    pub(super) credit: String,
}

/// The file.
#[derive(Debug)]
pub(super) struct Book {
    writer: SqlitePool,
    pub(super) readers: SqlitePool,
}

impl Book {
    /// Opens or makes the file.
    pub(super) async fn open(path: &Path) -> Result<Self, BookFault> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(5));
        let writer = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        sqlx::migrate!("./migrations/sandbox").run(&writer).await?;
        let readers = SqlitePoolOptions::new().max_connections(4).connect_with(options.read_only(true)).await?;
        Ok(Self { writer, readers })
    }

    /// Closes the file.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        const BEGIN: &str = "BEGIN IMMEDIATE";
        match self.writer.begin_with(BEGIN).await {
            // After a full disk: see the gateway's `store::engine`.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.writer.acquire().await?.close().await?;
                self.writer.begin_with(BEGIN).await
            }
            begun => begun,
        }
    }

    /// Writes down that a request arrived, and takes the fault that strikes it.
    pub(super) async fn arrived(&self, arrival: &Arrival<'_>) -> Result<(i64, Option<Strike>), sqlx::Error> {
        let mut tx = self.begin().await?;
        let seq =
            sqlx::query("INSERT INTO requests (idempotency_key, body_sha256, reference, at) VALUES ($1, $2, $3, $4)")
                .bind(arrival.key)
                .bind(arrival.body_sha256)
                .bind(arrival.reference)
                .bind(arrival.at.micros())
                .execute(&mut *tx)
                .await?
                .last_insert_rowid();
        let next: Option<(i64, String, i64, i64)> =
            sqlx::query_as("SELECT position, kind, delay_ms, remaining FROM faults ORDER BY position LIMIT 1")
                .fetch_optional(&mut *tx)
                .await?;
        let mut strike = None;
        if let Some((position, kind, delay_ms, remaining)) = next {
            let used = if remaining > 1 {
                "UPDATE faults SET remaining = remaining - 1 WHERE position = $1"
            } else {
                "DELETE FROM faults WHERE position = $1"
            };
            sqlx::query(used).bind(position).execute(&mut *tx).await?;
            let delay = Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0));
            strike = FaultKind::from_name(&kind).map(|kind| Strike { kind, delay });
        }
        tx.commit().await?;
        Ok((seq, strike))
    }

    /// Writes down how a request is about to be answered.
    pub(super) async fn answered(&self, seq: i64, answer: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE requests SET answered = $2 WHERE seq = $1")
            .bind(seq)
            .bind(answer)
            .execute(&self.writer)
            .await
            .map(drop)
    }

    /// Moves the money, unless the key has been answered before: then that answer, again.
    pub(super) async fn transfer(
        &self,
        arrival: &Arrival<'_>,
        order: &Order,
        names: &Names,
    ) -> Result<Reached, sqlx::Error> {
        let mut tx = self.begin().await?;
        let forgetful: Option<String> = sqlx::query_scalar("SELECT name FROM standing WHERE name = $1")
            .bind(FORGET_KEYS)
            .fetch_optional(&mut *tx)
            .await?;
        if forgetful.is_none()
            && let Some(before) = remembered(&mut tx, arrival).await?
        {
            return Ok(before);
        }
        let (minor, currency) = (order.amount.minor(), order.amount.currency().code());
        sqlx::query("INSERT INTO transfers VALUES ($1, $2, $3, $4, $5, $6, $7)")
            .bind(&names.transfer)
            .bind(&order.reference)
            .bind(&order.number)
            .bind(minor)
            .bind(currency)
            .bind(&order.payee_account)
            .bind(arrival.at.micros())
            .execute(&mut *tx)
            .await?;
        let sides = [(&names.debit, &order.payer_account, "debit"), (&names.credit, &order.payee_account, "credit")];
        for (entry, account, direction) in sides {
            sqlx::query("INSERT INTO entries VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
                .bind(entry)
                .bind(&names.transfer)
                .bind(&order.reference)
                .bind(account)
                .bind(direction)
                .bind(minor)
                .bind(currency)
                .bind(arrival.at.micros())
                .execute(&mut *tx)
                .await?;
        }
        let page = settled(names.transfer.clone(), &order.reference, minor, currency, &order.payee_account);
        let reached = Reached { status: 201, code: "", body: serde_json::to_string(&page).unwrap_or_default() };
        remember(&mut tx, arrival, &reached).await?;
        tx.commit().await?;
        Ok(reached)
    }

    /// Refuses under the key, for good: a repeat must not pay after all.
    pub(super) async fn refuse(&self, arrival: &Arrival<'_>, refusal: &Reached) -> Result<(), sqlx::Error> {
        let mut tx = self.begin().await?;
        remember(&mut tx, arrival, refusal).await?;
        tx.commit().await
    }

    /// What was moved under `reference`, oldest first.
    pub(super) async fn transfers(&self, reference: &str) -> Result<Vec<TransferPage>, sqlx::Error> {
        let rows: Vec<(String, String, i64, String, String)> = sqlx::query_as(
            "SELECT transfer_id, reference, amount_minor, currency, payee_account FROM transfers \
             WHERE reference = $1 ORDER BY rowid",
        )
        .bind(reference)
        .fetch_all(&self.readers)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(id, reference, minor, currency, payee)| settled(id, &reference, minor, &currency, &payee))
            .collect())
    }

    /// Whether a lasting fault is on.
    pub(super) async fn stands(&self, name: &'static str) -> Result<bool, sqlx::Error> {
        let row: Option<String> = sqlx::query_scalar("SELECT name FROM standing WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.readers)
            .await?;
        Ok(row.is_some())
    }

    /// Queues and switches faults.
    pub(super) async fn plan(&self, faults: &FaultsBody) -> Result<(), sqlx::Error> {
        let mut tx = self.begin().await?;
        if let Some(next) = &faults.next {
            sqlx::query("DELETE FROM faults").execute(&mut *tx).await?;
            for fault in next {
                sqlx::query("INSERT INTO faults (kind, delay_ms, remaining) VALUES ($1, $2, $3)")
                    .bind(fault.kind.as_str())
                    .bind(i64::from(fault.delay_ms))
                    .bind(i64::from(fault.times))
                    .execute(&mut *tx)
                    .await?;
            }
        }
        for (name, on) in faults.standing.iter().flat_map(StandingFaults::switches) {
            let switch = if on {
                "INSERT INTO standing (name) VALUES ($1) ON CONFLICT DO NOTHING"
            } else {
                "DELETE FROM standing WHERE name = $1"
            };
            sqlx::query(switch).bind(name).execute(&mut *tx).await?;
        }
        tx.commit().await
    }

    /// Whether the file answers.
    pub(super) async fn works(&self) -> Result<(), sqlx::Error> {
        sqlx::query("SELECT 1 FROM standing LIMIT 1").execute(&self.readers).await.map(drop)
    }
}

async fn remembered(
    tx: &mut Transaction<'static, Sqlite>,
    arrival: &Arrival<'_>,
) -> Result<Option<Reached>, sqlx::Error> {
    let row: Option<(String, i64, String)> =
        sqlx::query_as("SELECT body_sha256, status, answer FROM keys WHERE idempotency_key = $1")
            .bind(arrival.key)
            .fetch_optional(&mut **tx)
            .await?;
    Ok(row.map(|(sha256, status, body)| {
        if sha256 == arrival.body_sha256 {
            Reached { status: u16::try_from(status).unwrap_or(500), code: "", body }
        } else {
            Reached::refusal(422, "invalid_request", "the key was used with another body")
        }
    }))
}

async fn remember(
    tx: &mut Transaction<'static, Sqlite>,
    arrival: &Arrival<'_>,
    reached: &Reached,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO keys VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING")
        .bind(arrival.key)
        .bind(arrival.body_sha256)
        .bind(i64::from(reached.status))
        .bind(&reached.body)
        .execute(&mut **tx)
        .await
        .map(drop)
}

fn settled(transfer_id: String, reference: &str, minor: i64, currency: &str, payee: &str) -> TransferPage {
    TransferPage {
        transfer_id,
        reference: reference.to_owned(),
        status: "settled",
        amount_minor: minor.to_string(),
        currency: currency.to_owned(),
        payee_account: payee.to_owned(),
        failure_code: "",
    }
}
