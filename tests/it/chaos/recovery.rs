//! Recovery within one lease of the last fault: what that means, and how it is measured.
//!
//! The last fault leaves nobody who works. Two things are then held, neither by this process's own watch:
//!
//! - *By the rows, to the microsecond*: by the database's clock nothing that is signed is leased to anybody, or put off,
//!   for longer than one lease from the fault on. So everything is free to be taken up by then.
//! - *By the order of the work*: an ordinary payment is signed one lease after the fault, or when everybody is up again
//!   if that is later, and the longest call after that. When it has been executed, whatever the fault left in flight has
//!   come to its end too, or was at least taken up since: a machine on which calls time out may have to ask again. A
//!   slow machine is slow for both.
//!
//! That all of it comes to its end is held afterwards, with everything else.

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

/// Those that wake up within a lease: work that failed is put off by one.
pub(super) async fn awake_within_a_lease(desk: &Desk) -> Vec<String> {
    let free_at = now(desk).await + LEASE;
    let sql = format!("SELECT payment_id FROM payments WHERE next_wake_at <= {free_at}");
    desk.db.raw().await.texts(&sql).await
}

/// A signed payment: until when it is leased, and when it wakes up.
struct Row {
    order: String,
    lease_until: i64,
    wakes: i64,
}

/// The signed payments, by id.
async fn signed(desk: &Desk) -> BTreeMap<String, Row> {
    let sql = "SELECT payment_id, order_id, CAST(lease_until AS TEXT), CAST(COALESCE(next_wake_at, 0) AS TEXT) \
        FROM payments WHERE status = 'SIGNED'";
    let row = |row: Vec<String>| {
        let [payment, order, lease_until, wakes] = row.try_into().unwrap();
        (payment, Row { order, lease_until: lease_until.parse().unwrap(), wakes: wakes.parse().unwrap() })
    };
    desk.db.raw().await.rows(sql, 4).await.into_iter().map(row).collect()
}

/// What the last fault left in flight.
pub(super) struct Left {
    /// A lease after that was read, by the database's clock.
    free_at: i64,
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
        let at = now(desk).await;
        let free_at = at + LEASE;
        let mut left = Self { free_at, signed: BTreeMap::new(), held: 0 };
        for (payment, Row { order, lease_until, wakes }) in signed(desk).await {
            if waiting.contains(&order) {
                continue;
            }
            assert!(lease_until <= free_at, "{order} is leased for {} µs more than a lease", lease_until - free_at);
            assert!(wakes > 0 && wakes <= free_at, "{order} is put off for {} µs more than a lease", wakes - free_at);
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
        let free_at = now(desk).await.max(self.free_at);
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
        let signed = signed(desk).await;
        let mut last = free_at;
        for (payment, order) in &self.signed {
            // Whoever takes it up leases it, and leaves it with a later time to wake up.
            let taken_up = signed.get(payment).is_none_or(|row| row.lease_until.max(row.wakes) > self.free_at);
            assert!(
                taken_up || waiting.contains(order),
                "{order} was in flight when the last fault struck, and nobody has taken it up, but executed a payment \
                 that was signed a lease and a call later"
            );
            last = ends.get(payment).map_or(last, |at| last.max(*at));
        }
        Duration::from_micros((last - free_at).cast_unsigned())
    }
}

/// When each payment that has ended did, by the audit.
async fn ends(desk: &Desk) -> BTreeMap<String, i64> {
    let ts = "MIN(CAST(CAST(canonical AS JSON) ->> 'ts' AS TIMESTAMPTZ))";
    let sql = format!(
        "SELECT payment_id, CAST(CAST(EXTRACT(EPOCH FROM {ts}) * 1000000 AS BIGINT) AS TEXT) FROM audit_entries \
         WHERE CAST(canonical AS JSON) ->> 'to' IN ('EXECUTED', 'FAILED', 'CANCELLED') GROUP BY payment_id"
    );
    let rows = desk.db.raw().await.rows(&sql, 2).await;
    rows.into_iter().map(|row| (row[0].clone(), row[1].parse().unwrap())).collect()
}
