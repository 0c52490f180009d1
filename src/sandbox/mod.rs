//! The sandbox rail: moves make-believe money, misbehaves on demand, forgets nothing.
//!
//! It speaks docs/rail-contract.md over a file of its own and is the judge of every test: its
//! ledger shows what was executed and every request that arrived, however it was answered.
//!
//! *Invariant*: a request is written down before anything is done about it; a transfer, its two
//! entries and its key's answer are one transaction; no delay holds the database.
//! *Crash*: everything, the queued faults included, is in the file (WAL, `synchronous=FULL`).

mod api;
mod book;
mod desk;
mod fault;
mod ledger;
mod wire;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use secrecy::SecretString;

use crate::ambient::{Clock, Entropy};
pub use book::BookFault;

/// A sandbox rail over one file.
#[derive(Debug, Clone)]
pub struct Sandbox {
    desk: Arc<desk::Desk>,
    api_key: SecretString,
}

impl Sandbox {
    /// Opens the rail's file, which is made when missing.
    ///
    /// *Errors*: the file can't be opened, or holds another program's tables.
    pub async fn open(
        path: &Path,
        api_key: SecretString,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, BookFault> {
        let book = book::Book::open(path).await?;
        Ok(Self { desk: Arc::new(desk::Desk { book, clock, entropy }), api_key })
    }

    /// The rail's pages, to be served anywhere.
    ///
    /// A dropped reply is a response whose body fails at once: hyper then closes the connection
    /// before a byte has left, so nothing between may buffer or replace bodies.
    pub fn router(&self) -> Router {
        api::router(self.desk.clone(), &self.api_key)
    }

    /// Ends the use of the file, once its writes are done.
    pub async fn close(&self) {
        self.desk.book.close().await;
    }
}
