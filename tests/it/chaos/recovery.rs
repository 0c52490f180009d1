//! Recovery within one lease of the last fault: what that means, and how it is measured.
//!
//! The last fault leaves nobody who works. Two things are then held, neither by this process's own watch:
//!
//! - *By the rows, to the microsecond*: at the instant of the fault, by the database's clock, nothing that is signed is
//!   leased to anybody, or put off, for longer than one lease. So everything is free to be taken up by then.
//! - *By the order of the commits*: an ordinary payment is signed one lease after the fault, or when everybody is up
//!   again if that is later, and the longest call after that. Whatever the fault left in flight has come to its end
//!   before that payment has, by the audit chain. A slow machine is slow for both.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::load::Load;
use super::waits_for_a_person;
use crate::harness::desk::{CALL_MS, Desk, LEASE_MS};

/// The database's time in microseconds, as a column.
const NOW: &str = "CAST(CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS TEXT)";
const LEASE: i64 = 1_000 * LEASE_MS.cast_signed();
const CALL: i64 = 1_000 * CALL_MS.cast_signed();

/// What the last fault left in flight.
pub(super) struct Left {
    /// When that was read, by the database's clock.
    at: i64,
    /// By payment, the order.
    signed: BTreeMap<String, String>,
    /// How many of them a dead worker holds.
    pub(super) held: usize,
}

async fn now(desk: &Desk) -> i64 {
    desk.db.raw().await.texts(&format!("SELECT {NOW}")).await[0].parse().unwrap()
}

impl Left {
    /// What is signed, right after the last worker died.
    pub(super) async fn by_the_last_fault(desk: &Desk) -> Self {
        let waiting: Vec<String> =
            desk.unfinished().await.into_iter().filter(waits_for_a_person).map(|order| order.order).collect();
        let sql = format!(
            "SELECT payment_id, order_id, CAST(lease_until AS TEXT), COALESCE(CAST(next_wake_at AS TEXT), ''), {NOW} \
             FROM payments WHERE status = 'SIGNED'"
        );
        let mut left = Self { at: now(desk).await, signed: BTreeMap::new(), held: 0 };
        for row in desk.db.raw().await.rows(&sql, 5).await {
            let [payment, order, lease_until, next_wake, now] = row.try_into().unwrap();
            if waiting.contains(&order) {
                continue;
            }
            let free_at = now.parse::<i64>().unwrap() + LEASE;
            let lease_until: i64 = lease_until.parse().unwrap();
            let wakes = next_wake.parse::<i64>().unwrap_or_else(|_| panic!("{order} never wakes up"));
            assert!(lease_until <= free_at, "{order} is leased for {} µs more than a lease", lease_until - free_at);
            assert!(wakes <= free_at, "{order} is put off for {} µs more than a lease", wakes - free_at);
            left.held += usize::from(lease_until > 0);
            left.signed.insert(payment, order);
        }
        left
    }

    /// How many.
    pub(super) fn orders(&self) -> usize {
        self.signed.len()
    }

    /// Holds that all of it has come to its end; when the last did, after the lease was over and everybody up again.
    pub(super) async fn recovers(&self, desk: &Desk, load: &Load) -> Duration {
        let free_at = now(desk).await.max(self.at + LEASE);
        let due = free_at + CALL;
        while now(desk).await < due {
            sleep(Duration::from_millis(20)).await;
        }
        let measure = load.ordinary(desk, "order-after-the-faults").await;
        let patience = Instant::now() + Duration::from_mins(1);
        let mut ends = ends(desk).await;
        while !ends.contains_key(&measure) {
            assert!(
                Instant::now() < patience,
                "a payment after the last fault is not executed: {:?}",
                desk.unfinished().await
            );
            sleep(Duration::from_millis(50)).await;
            ends = self::ends(desk).await;
        }
        let waiting: Vec<String> =
            desk.unfinished().await.into_iter().filter(waits_for_a_person).map(|order| order.order).collect();
        let (before, _) = ends[&measure];
        let mut last = free_at;
        for (payment, order) in &self.signed {
            match ends.get(payment) {
                Some((seq, at)) if *seq < before => last = last.max(*at),
                None if waiting.contains(order) => {}
                end => panic!(
                    "{order} was in flight when the last fault struck, and a payment that was signed a lease and a \
                     call later was faster: {end:?}, {:?}",
                    desk.unfinished().await
                ),
            }
        }
        Duration::from_micros((last - free_at).cast_unsigned())
    }
}

/// The end of each payment that has ended: its place in the audit chain, and when.
async fn ends(desk: &Desk) -> BTreeMap<String, (i64, i64)> {
    let sql = "SELECT payment_id, CAST(MIN(seq) AS TEXT), \
        CAST(CAST(EXTRACT(EPOCH FROM MIN(CAST(CAST(canonical AS JSON) ->> 'ts' AS TIMESTAMPTZ))) * 1000000 AS BIGINT) AS TEXT) \
        FROM audit_entries WHERE CAST(canonical AS JSON) ->> 'to' IN ('EXECUTED', 'FAILED', 'CANCELLED') GROUP BY payment_id";
    let rows = desk.db.raw().await.rows(sql, 3).await;
    rows.into_iter().map(|row| (row[0].clone(), (row[1].parse().unwrap(), row[2].parse().unwrap()))).collect()
}
