//! One person's word for what needs two.

use sqlx::FromRow;

use super::engine::{Session, Tx, on};
use super::fault::StoreFault;

/// A person's word.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Attestation {
    /// Who.
    pub person: String,
    /// What they refer to, such as a bank's reference; may be empty.
    pub reference: String,
    /// Why they say so.
    pub evidence: String,
}

/// What is spoken of.
#[derive(Debug, Clone, Copy)]
pub struct Matter<'a> {
    /// The payment.
    pub payment_id: &'a str,
    /// The verb.
    pub verb: &'a str,
    /// Which hold or attempt group.
    pub episode: &'a str,
}

impl Session {
    /// The words given so far.
    pub async fn attestations(&mut self, matter: Matter<'_>) -> Result<Vec<Attestation>, StoreFault> {
        Ok(on!(self, conn => sqlx::query_as("SELECT person, reference, evidence FROM attestations \
              WHERE payment_id = $1 AND verb = $2 AND episode = $3 ORDER BY attested_at, person")
            .bind(matter.payment_id).bind(matter.verb).bind(matter.episode).fetch_all(conn).await)?)
    }
}

impl Tx {
    /// Takes the payment's row until the transaction ends: who comes next waits, then sees what this one wrote.
    ///
    /// `false` when the payment is in the archive.
    pub async fn take_row(&mut self, payment_id: &str) -> Result<bool, StoreFault> {
        let taken = on!(self, conn => sqlx::query("UPDATE payments SET version = version WHERE payment_id = $1")
            .bind(payment_id).execute(conn).await?.rows_affected());
        Ok(taken == 1)
    }

    /// Stores a person's word, their last one; `false` when they had given the same.
    pub async fn attest(&mut self, matter: Matter<'_>, word: &Attestation) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let new = on!(self, conn => sqlx::query("INSERT INTO attestations (payment_id, verb, episode, person, reference, evidence, attested_at) \
              VALUES ($1,$2,$3,$4,$5,$6,$7) ON CONFLICT (payment_id, verb, episode, person) \
              DO UPDATE SET reference = excluded.reference, evidence = excluded.evidence, attested_at = excluded.attested_at \
              WHERE attestations.reference <> excluded.reference")
            .bind(matter.payment_id).bind(matter.verb).bind(matter.episode).bind(&word.person).bind(&word.reference)
            .bind(&word.evidence).bind(now)
            .execute(conn).await?.rows_affected());
        Ok(new == 1)
    }
}
