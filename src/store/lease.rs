//! Leases: who works on a payment now, until when, by which token.

use super::engine::{Session, Tx, claim_statement, on};
use super::fault::StoreFault;
use crate::domain::{LeaseToken, Payment, Timestamp, next_wake};

/// A claim of one payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The payment.
    pub payment_id: String,
    /// Whose it is.
    pub tenant: String,
    /// The fence.
    pub token: LeaseToken,
    /// The store's time at the claim.
    pub claimed_at: Timestamp,
    /// The worker's claims since its work last came to an end, this one included; 0 for a person's.
    pub claims: i64,
}

/// A payment whose work fails for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parking {
    /// Since when.
    pub since: Timestamp,
    /// What fails, in a stable word.
    pub reason: String,
}

/// Which payments are claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueKind {
    /// Any that are due.
    Any,
    /// Those to be executed.
    Signed,
    /// All others.
    Unsigned,
}

impl Tx {
    /// Claims up to `limit` payments that are due, that nobody holds, and that are of no tenant in `except`.
    pub async fn claim_due(
        &mut self,
        owner: &str,
        token: &LeaseToken,
        until: Timestamp,
        limit: i64,
        except: &[String],
    ) -> Result<Vec<Lease>, StoreFault> {
        self.claim_due_of(DueKind::Any, owner, token, until, limit, except).await
    }

    /// The same, of one kind.
    pub async fn claim_due_of(
        &mut self,
        kind: DueKind,
        owner: &str,
        token: &LeaseToken,
        until: Timestamp,
        limit: i64,
        except: &[String],
    ) -> Result<Vec<Lease>, StoreFault> {
        let kind: i64 = match kind {
            DueKind::Any => 0,
            DueKind::Signed => 1,
            DueKind::Unsigned => 2,
        };
        let now = self.now().micros();
        let statement = claim_statement(self.engine());
        // A tenant's name holds no comma.
        let except = format!(",{},", except.join(","));
        let claimed: Vec<(String, String, i64)> = on!(self, conn => sqlx::query_as(statement)
            .bind(owner).bind(token.as_str()).bind(until.micros()).bind(now).bind(limit).bind(except).bind(kind)
            .fetch_all(conn).await)?;
        let claimed_at = self.now();
        let lease =
            |(payment_id, tenant, claims)| Lease { payment_id, tenant, token: token.clone(), claimed_at, claims };
        Ok(claimed.into_iter().map(lease).collect())
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

    /// Ends a lease; `false` when it was not ours any more. The worker's: what was to be done is done.
    pub async fn release(&mut self, lease: &Lease) -> Result<bool, StoreFault> {
        let persons = i64::from(lease.claims == 0);
        let released = on!(self, conn => sqlx::query("UPDATE payments SET lease_owner = '', lease_token = '', lease_until = 0, \
              claims = claims * $1, parked_at = CASE WHEN $1 = 0 THEN NULL ELSE parked_at END, \
              parked_reason = CASE WHEN $1 = 0 THEN '' ELSE parked_reason END WHERE payment_id = $2 AND lease_token = $3")
            .bind(persons).bind(&lease.payment_id).bind(lease.token.as_str())
            .execute(conn).await?.rows_affected());
        Ok(released == 1)
    }

    /// Ends a lease whose work failed: the payment is due again at `wake`; `counts` if it is to blame. `false` when the
    /// lease was not ours any more.
    pub async fn stumble(&mut self, lease: &Lease, wake: Timestamp, counts: bool) -> Result<bool, StoreFault> {
        let ended = on!(self, conn => sqlx::query("UPDATE payments SET lease_owner = '', lease_token = '', lease_until = 0, \
              next_wake_at = $1, claims = claims - $2 WHERE payment_id = $3 AND lease_token = $4")
            .bind(wake.micros()).bind(i64::from(!counts)).bind(&lease.payment_id).bind(lease.token.as_str())
            .execute(conn).await?.rows_affected());
        Ok(ended == 1)
    }

    /// Lists a payment as one whose work fails for ever, due again at `wake`; whether it was not listed before.
    pub async fn park(&mut self, payment_id: &str, wake: Timestamp, reason: &str) -> Result<bool, StoreFault> {
        let now = self.now().micros();
        let known = self.parking(payment_id).await?.is_some();
        on!(self, conn => sqlx::query("UPDATE payments SET next_wake_at = $1, parked_reason = $2, parked_at = COALESCE(parked_at, $3) \
              WHERE payment_id = $4")
            .bind(wake.micros()).bind(reason).bind(now).bind(payment_id)
            .execute(conn).await.map(drop))?;
        Ok(!known)
    }

    /// Makes a payment due when its state says so, if it still is `payment`: not when failed work was put off to.
    pub async fn rewake(&mut self, payment: &Payment) -> Result<(), StoreFault> {
        on!(self, conn => sqlx::query("UPDATE payments SET next_wake_at = $1 WHERE payment_id = $2 AND version = $3")
            .bind(next_wake(payment).map(Timestamp::micros)).bind(payment.terms.payment_id.as_str()).bind(payment.version)
            .execute(conn).await.map(drop))?;
        Ok(())
    }
}

impl Session {
    /// Since when and why a payment is parked, if it is.
    pub async fn parking(&mut self, payment_id: &str) -> Result<Option<Parking>, StoreFault> {
        let row: Option<(Option<i64>, String)> = on!(self, conn => sqlx::query_as("SELECT parked_at, parked_reason FROM payments WHERE payment_id = $1")
            .bind(payment_id).fetch_optional(conn).await)?;
        Ok(row.and_then(|(since, reason)| Some(Parking { since: Timestamp::from_micros(since?), reason })))
    }
}
