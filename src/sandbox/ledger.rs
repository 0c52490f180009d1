//! The sandbox's ledger page: the judge of every test.

use sqlx::FromRow;

use super::book::Book;
use super::wire::{EntryLine, LedgerPage, SeenLine};
use crate::domain::Timestamp;

#[derive(FromRow)]
struct EntryRow {
    entry_id: String,
    transfer_id: String,
    reference: String,
    account: String,
    direction: String,
    amount_minor: i64,
    currency: String,
    at: i64,
}

#[derive(FromRow)]
struct SeenRow {
    seq: i64,
    idempotency_key: String,
    body_sha256: String,
    answered: String,
    at: i64,
}

impl Book {
    /// Everything about `reference`, or everything.
    pub(super) async fn ledger(&self, reference: Option<&str>) -> Result<LedgerPage, sqlx::Error> {
        // One transaction, so that the three lists speak of the same moment.
        let mut tx = self.readers.begin().await?;
        let transfers: Vec<String> =
            sqlx::query_scalar("SELECT transfer_id FROM transfers WHERE $1 IS NULL OR reference = $1")
                .bind(reference)
                .fetch_all(&mut *tx)
                .await?;
        let entries: Vec<EntryRow> =
            sqlx::query_as("SELECT * FROM entries WHERE $1 IS NULL OR reference = $1 ORDER BY rowid")
                .bind(reference)
                .fetch_all(&mut *tx)
                .await?;
        let seen: Vec<SeenRow> =
            sqlx::query_as("SELECT * FROM requests WHERE $1 IS NULL OR reference = $1 ORDER BY seq")
                .bind(reference)
                .fetch_all(&mut *tx)
                .await?;
        tx.commit().await?;
        Ok(LedgerPage {
            executions: transfers.len(),
            requests: seen.len(),
            balanced: is_balanced(&transfers, &entries),
            entries: entries.into_iter().map(EntryLine::from).collect(),
            seen: seen.into_iter().map(SeenLine::from).collect(),
        })
    }
}

/// Each transfer has one debit and one credit of the same amount and currency, and nothing else is there.
fn is_balanced(transfers: &[String], entries: &[EntryRow]) -> bool {
    let mut sides = std::collections::HashMap::<&str, Vec<&EntryRow>>::new();
    for entry in entries {
        sides.entry(&entry.transfer_id).or_default().push(entry);
    }
    let even = |id: &String| match sides.get(id.as_str()).map(Vec::as_slice) {
        Some([one, other]) => {
            one.direction != other.direction && one.amount_minor == other.amount_minor && one.currency == other.currency
        }
        _ => false,
    };
    sides.len() == transfers.len() && transfers.iter().all(even)
}

impl From<EntryRow> for EntryLine {
    fn from(row: EntryRow) -> Self {
        Self {
            entry_id: row.entry_id,
            transfer_id: row.transfer_id,
            reference: row.reference,
            account: row.account,
            direction: row.direction,
            amount_minor: row.amount_minor.to_string(),
            currency: row.currency,
            at: Timestamp::from_micros(row.at).rfc3339(),
        }
    }
}

impl From<SeenRow> for SeenLine {
    fn from(row: SeenRow) -> Self {
        Self {
            seq: row.seq,
            idempotency_key: row.idempotency_key,
            body_sha256: row.body_sha256,
            answered: row.answered,
            at: Timestamp::from_micros(row.at).rfc3339(),
        }
    }
}
