//! Leases: who works on a payment now, until when, by which token.

use super::engine::{Tx, claim_statement, on};
use super::fault::StoreFault;
use crate::domain::{LeaseToken, Timestamp};

/// A claim of one payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The payment.
    pub payment_id: String,
    /// The fence.
    pub token: LeaseToken,
    /// The store's time at the claim.
    pub claimed_at: Timestamp,
}

impl Tx {
    /// Claims up to `limit` payments that are due and that nobody holds.
    pub async fn claim_due(
        &mut self,
        owner: &str,
        token: &LeaseToken,
        until: Timestamp,
        limit: i64,
    ) -> Result<Vec<Lease>, StoreFault> {
        let now = self.now().micros();
        let statement = claim_statement(self.engine());
        let ids: Vec<String> = on!(self, conn => sqlx::query_scalar(statement)
            .bind(owner).bind(token.as_str()).bind(until.micros()).bind(now).bind(limit)
            .fetch_all(conn).await)?;
        Ok(ids
            .into_iter()
            .map(|payment_id| Lease { payment_id, token: token.clone(), claimed_at: self.now() })
            .collect())
    }

    /// Claims one payment if nobody holds it.
    pub async fn claim(
        &mut self,
        payment_id: &str,
        owner: &str,
        token: &LeaseToken,
        until: Timestamp,
    ) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let claimed = on!(self, conn => sqlx::query("UPDATE payments SET lease_owner = $1, lease_token = $2, lease_until = $3 \
              WHERE payment_id = $4 AND lease_until <= $5")
            .bind(owner).bind(token.as_str()).bind(until.micros()).bind(payment_id).bind(now)
            .execute(conn).await?.rows_affected());
        Ok(claimed == 1)
    }

    /// Makes a lease last until `until`; `false` when it is no longer ours.
    ///
    /// Also the fence: called in the transaction of every write that only the holder may make.
    pub async fn renew(&mut self, lease: &Lease, until: Timestamp) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let renewed = on!(self, conn => sqlx::query("UPDATE payments SET lease_until = $1 \
              WHERE payment_id = $2 AND lease_token = $3 AND lease_until > $4")
            .bind(until.micros()).bind(&lease.payment_id).bind(lease.token.as_str()).bind(now)
            .execute(conn).await?.rows_affected());
        Ok(renewed == 1)
    }

    /// Ends a lease if it is still ours.
    pub async fn release(&mut self, lease: &Lease) -> Result<(), StoreFault> {
        on!(self, conn => sqlx::query("UPDATE payments SET lease_owner = '', lease_token = '', lease_until = 0 \
              WHERE payment_id = $1 AND lease_token = $2")
            .bind(&lease.payment_id).bind(lease.token.as_str())
            .execute(conn).await.map(drop))?;
        Ok(())
    }
}
