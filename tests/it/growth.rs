//! What grows: claims, scans and reads stay as cheap over a million finished payments as over a thousand.
//!
//! `COUNTERSIGN_TEST_ROWS` sets how many finished payments there are (20,000 unless it is set) and so how many are
//! open (a hundredth, a thousand at most); `COUNTERSIGN_BENCH_ROWS` up to how many the cost of reads is measured.

use std::collections::BTreeMap;
use std::time::Instant;

use countersign::domain::{Phase, Status, Timestamp};
use countersign::store::hot_statements;

use crate::harness::database::{Raw, TestDatabase, TestEngine, engines};
use crate::store::sample::{full, insert, payment};

/// A number from the environment.
fn number(name: &str, usual: u32) -> u32 {
    std::env::var(name).map_or(usual, |text| text.parse().expect(name))
}

async fn columns(raw: &mut Raw, engine: TestEngine, table: &str) -> Vec<String> {
    raw.texts(&match engine {
        TestEngine::Sqlite => format!("SELECT name FROM pragma_table_info('{table}')"),
        TestEngine::Postgres => format!(
            "SELECT column_name::text FROM information_schema.columns \
             WHERE table_schema = current_schema() AND table_name = '{table}' ORDER BY ordinal_position"
        ),
    })
    .await
}

/// `INSERT … SELECT` of the rows of `from` that `which` names, once for each number; `varied` says how copies differ.
async fn copy(
    raw: &mut Raw,
    engine: TestEngine,
    (table, from, which): (&str, &str, &str),
    numbers: std::ops::Range<u32>,
    varied: &BTreeMap<&str, &str>,
) {
    let columns = columns(raw, engine, table).await;
    let values: Vec<&str> =
        columns.iter().map(|column| varied.get(column.as_str()).copied().unwrap_or(column)).collect();
    let copied = format!(
        "WITH RECURSIVE numbers(n) AS (SELECT CAST({} AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {}) \
         INSERT INTO {table} ({}) SELECT {} FROM {from}, numbers WHERE {which}",
        numbers.start,
        numbers.end,
        columns.join(", "),
        values.join(", ")
    );
    assert_eq!(raw.execute(&copied).await.unwrap(), u64::from(numbers.end - numbers.start), "{table}");
}

/// A payment that has ended, and nothing is left to do for it.
async fn template(db: &TestDatabase) -> String {
    let mut over = full("over", 0);
    over.held_at = None;
    over.closing.tell_at = None;
    over.attention.clear();
    over.status = Status::Executed;
    over.execution.phase = Phase::Confirmed;
    over.execution.next_at = None;
    over.notice.next_at = None;
    over.notice.check_at = None;
    assert!(insert(db.store(), &over).await);
    over.terms.payment_id.to_string()
}

/// How copies of the template differ: one order each, few tenants and agents, spread over time, most of them paid.
fn varied() -> BTreeMap<&'static str, &'static str> {
    [
        ("payment_id", "'pay_01J000000' || (10000000000000000 + n)"),
        ("order_id", "'o' || n"),
        ("tenant", "CASE WHEN n % 10 < 8 THEN 'acme' ELSE 'tenant-' || (n % 3) END"),
        ("agent", "'agent-' || (n % 7)"),
        ("created_at", "created_at - n * 1000000"),
        ("updated_at", "created_at - n * 1000000"),
        ("status", "CASE n % 10 WHEN 0 THEN 'REJECTED' WHEN 1 THEN 'CANCELLED' ELSE 'EXECUTED' END"),
        ("currency", "CASE n % 4 WHEN 0 THEN 'EUR' ELSE 'JPY' END"),
    ]
    .into()
}

/// `finished` payments with what belongs to them, a tenth more in the archive, and few open ones.
async fn fill(db: &TestDatabase, finished: u32) {
    let engine = db.engine();
    let id = template(db).await;
    let this = format!("payment_id = '{id}'");
    let mut raw = db.raw().await;
    copy(&mut raw, engine, ("payments", "payments", &this), 0..finished, &varied()).await;
    let archived = finished / 10;
    let mut old = varied();
    old.insert("payment_id", "'pay_01H000000' || (10000000000000000 + n)");
    old.insert("order_id", "'old' || n");
    copy(&mut raw, engine, ("archived_payments", "payments", &this), 0..archived, &old).await;
    let wide = "A".repeat(43);
    for (kept, of) in
        [("", "pay_01J000000' || (10000000000000000 + n)"), ("archived_", "pay_01H000000' || (10000000000000000 + n)")]
    {
        let numbers = format!(
            "WITH RECURSIVE numbers(n) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {archived})"
        );
        let key = if kept.is_empty() { "k" } else { "a" };
        for rows in [
            format!(
                "effects SELECT 'eff_' || n, '{key}' || n, 'acme', '{of}, 'rail.execute', '', '', '', 'done', 1, '', '', n, n, n"
            ),
            format!("challenges SELECT '{of}, 1, 'alice', '{wide}', n, n"),
            format!(
                "decisions SELECT '{key}' || n, '{of}, 1, 'alice', 1, 'k', 'approve', '', 'd', '{wide}', 'jws', 'j', 'mcp', n, 1"
            ),
        ] {
            raw.execute(&format!("{numbers} INSERT INTO {kept}{rows} FROM numbers")).await.unwrap();
        }
        if kept.is_empty() {
            let events = format!(
                "{numbers} INSERT INTO outbox SELECT 'evt_' || n, 'https://a.example/', 'acme', '{of}, 1, 'payment.created', 'b', n, \
                   CASE WHEN n < 10 THEN 'pending' ELSE 'delivered' END, 1, CASE WHEN n < 10 THEN n END, '', \
                   CASE WHEN n >= 10 THEN n END, '', 0 FROM numbers"
            );
            assert_eq!(raw.execute(&events).await.unwrap(), u64::from(archived));
            let compared = format!(
                "{numbers} INSERT INTO comparisons SELECT 'rst_1', '{of}, 'CREATED', CASE WHEN n < 10 THEN '' ELSE 'found' END, '', \
                   CASE WHEN n >= 10 THEN n END FROM numbers"
            );
            assert_eq!(raw.execute(&compared).await.unwrap(), u64::from(archived));
            let audited = format!(
                "{numbers} INSERT INTO audit_entries SELECT 'acme', n + 1, '{of}, 'e', 'c', 'p' || n, '{wide}', n FROM numbers"
            );
            assert_eq!(raw.execute(&audited).await.unwrap(), u64::from(archived));
        }
    }
    let open = payment("open");
    assert!(insert(db.store(), &open).await);
    let another = BTreeMap::from([
        ("payment_id", "payment_id || n"),
        ("order_id", "order_id || n"),
        ("next_wake_at", "next_wake_at + n * 1000000"),
        ("status", "CASE n % 5 WHEN 0 THEN 'SIGNED' WHEN 1 THEN 'NEED_MANUAL' ELSE 'AWAITING_SIGNER' END"),
        ("phase", "CASE n % 5 WHEN 0 THEN 'unknown' ELSE 'none' END"),
    ]);
    let this = format!("payment_id = '{}'", open.terms.payment_id);
    copy(&mut raw, engine, ("payments", "payments", &this), 1..(finished / 100).clamp(20, 1_000), &another).await;
}

/// The indexes that a statement must read, and its arguments as SQL.
///
/// Of a tenant with most of the payments the latest twenty are as near by the primary key.
fn reads(name: &str) -> (&'static [&'static str], &'static str) {
    match name {
        "due" => (&["payments_due"], ""),
        "claim" => (&["payments_due"], "'node', 'lse_1', 1900000000000000, 1800000000000001, 16, ',busy,', 1"),
        "by id" => (&[], "'acme', 'pay_01J00000010000000000000017'"),
        "for work" => (&[], "'pay_01J00000010000000000000017'"),
        "by order" => (&["payments_by_order", "archived_payments_by_order"], "'acme', 'o17'"),
        "list of an agent" => (&["payments_by_agent", "archived_payments_by_agent"], "'acme', 'agent-1', '', 'q', 20"),
        "list of a tenant" => (
            &["payments_by_tenant or payments_pkey", "archived_payments_by_tenant or archived_payments_pkey"],
            "'acme', '', '', 'q', 20",
        ),
        "open" => (&["payments_open"], "'acme', '', 20"),
        "attention" => (&["payments_attention"], "'acme', '', 20"),
        "limit's window" => {
            (&["payments_in_window"], "'acme', 'agent-1', 'EUR', 1799999999999999, 1900000000000000, 'pay_x'")
        }
        "limit's open" => (&["payments_open_now"], "'acme', 'agent-1', 'EUR'"),
        "challenges" | "decisions" => (&[], "'pay_01J00000010000000000000017', 1"),
        "effect by key" => (&[], "'k17'"),
        "effects of a payment" => {
            (&["effects_by_payment", "archived_effects_by_payment"], "'pay_01J00000010000000000000017'")
        }
        "event due" => (&["outbox_due"], "'https://a.example/'"),
        "claim of events" => (&["outbox_due"], "'lse_1', 1900000000000000, 'https://a.example/', 1800000000000001, 8"),
        "finished" => (&["payments_finished", "outbox_undelivered"], "1700000000000000, 0, '', 256"),
        "may move" => (&["outbox_undelivered"], "'pay_01J00000010000000000000017', 1700000000000000, 1800000000000001"),
        "to compare" => (&["comparisons_pending"], "'rst_1', '', 16"),
        "may work" => (&[], "'k17', 1"),
        "audit of a payment" => (&["audit_entries_by_payment"], "'acme', 'pay_01J00000010000000000000017'"),
        "ids of a tenant" => (
            &["payments_by_tenant or payments_pkey", "archived_payments_by_tenant or archived_payments_pkey"],
            "'acme', 'pay_01H', 200",
        ),
        other => panic!("{other} needs arguments here"),
    }
}

/// The plans of a statement: for PostgreSQL both the one for these arguments and the one for any.
async fn plans(raw: &mut Raw, engine: TestEngine, name: &str, statement: &str) -> Vec<String> {
    let (_, arguments) = reads(name);
    if engine == TestEngine::Sqlite {
        let mut bound = statement.to_owned();
        for (argument, number) in arguments.split(", ").zip(1..).collect::<Vec<_>>().into_iter().rev() {
            bound = bound.replace(&format!("${number}"), argument);
        }
        return vec![raw.column(&format!("EXPLAIN QUERY PLAN {bound}"), 3).await.join("\n")];
    }
    let mut plans = Vec::new();
    raw.execute(&format!("PREPARE hot AS {statement}")).await.unwrap();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        raw.execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
        let call = if arguments.is_empty() { "hot".to_owned() } else { format!("hot({arguments})") };
        plans.push(raw.texts(&format!("EXPLAIN (COSTS OFF) EXECUTE {call}")).await.join("\n"));
    }
    raw.execute("DEALLOCATE hot").await.unwrap();
    plans
}

/// Whether a plan reads a table from one end to the other, or all of what is asked for to give the first of it.
fn scans(plan: &str) -> bool {
    const TABLES: [&str; 7] =
        ["payments", "effects", "challenges", "decisions", "outbox", "comparisons", "audit_entries"];
    let sqlite = |line: &str| {
        let table = line.trim().strip_prefix("SCAN ").unwrap_or_default();
        let table = table.split(' ').next().unwrap_or_default();
        // An index scan in the order wanted, cut off by LIMIT, is none.
        TABLES.contains(&table.trim_start_matches("archived_")) && !line.contains("INDEX payments_due")
    };
    // These have a row or two, ever.
    let few = |line: &str| ["Seq Scan on restores", "Seq Scan on worked"].iter().any(|scan| line.contains(scan));
    plan.contains("FOR DISTINCT") || plan.lines().any(|line| sqlite(line) || (line.contains("Seq Scan") && !few(line)))
}

#[tokio::test]
async fn hot_statements_read_an_index_over_many_finished_and_few_open_payments() {
    let finished = number("COUNTERSIGN_TEST_ROWS", 20_000);
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let begun = Instant::now();
        fill(&db, finished).await;
        let mut raw = db.raw().await;
        println!("{engine}: {finished} finished payments in {:?}", begun.elapsed());
        for analyzed in [false, true] {
            if analyzed {
                raw.execute("ANALYZE").await.unwrap();
            }
            for (name, statement) in hot_statements(db.store().engine()) {
                for plan in plans(&mut raw, engine, name, statement).await {
                    println!("{engine} {name} analyzed={analyzed}\n{plan}\n");
                    for index in reads(name).0 {
                        let read = index.split(" or ").any(|index| plan.contains(index));
                        assert!(read, "{engine}: {name} (analyzed: {analyzed}): no {index}\n{plan}");
                    }
                    assert!(!scans(&plan), "{engine}: {name} (analyzed: {analyzed}):\n{plan}");
                }
            }
        }
    }
}

/// What one of four measurements undercuts, in microseconds: other work on the machine shows little in it.
async fn quarter(times: u32, mut one: impl AsyncFnMut(u32)) -> f64 {
    let mut took = Vec::new();
    for round in 0..times {
        let begun = Instant::now();
        one(round).await;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 4].as_secs_f64() * 1e6
}

/// Prints what a status read and an idle tick cost as the table grows; `just bench-reads` goes up to a million.
#[tokio::test]
async fn reads_and_idle_ticks_cost_the_same_as_the_table_grows() {
    let most = number("COUNTERSIGN_BENCH_ROWS", 2_000);
    let mut lines = vec![format!(
        "{:<12}{:>10}{:>16}{:>8}{:>16}{:>8}",
        "engine", "rows", "status read", "ratio", "idle tick", "ratio"
    )];
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let id = template(&db).await;
        let this = format!("payment_id = '{id}'");
        let mut raw = db.raw().await;
        let (mut rows, mut next, mut first) = (0, 1_000.min(most), None);
        loop {
            copy(&mut raw, engine, ("payments", "payments", &this), rows..next, &varied()).await;
            raw.execute("ANALYZE").await.unwrap();
            rows = next;
            let status = quarter(4_000, async |round| {
                let n = round.wrapping_mul(2_654_435_761) % rows;
                let tenant = if n % 10 < 8 { "acme".to_owned() } else { format!("tenant-{}", n % 3) };
                let found = db.store().read().await.unwrap().payment_by_order(&tenant, &format!("o{n}")).await.unwrap();
                assert!(found.is_some(), "{tenant} o{n}");
            })
            .await;
            let tick = quarter(4_000, async |_| {
                let (due, _) = db.store().next_due().await.unwrap();
                assert_eq!(due, None::<Timestamp>);
            })
            .await;
            let (status_first, tick_first) = *first.get_or_insert((status, tick));
            lines.push(format!(
                "{:<12}{rows:>10}{:>16}{:>8.2}{:>16}{:>8.2}",
                engine.to_string(),
                format!("{status:.0} µs"),
                status / status_first,
                format!("{tick:.0} µs"),
                tick / tick_first
            ));
            if rows >= most {
                break;
            }
            next = rows.saturating_mul(10).min(most);
        }
    }
    println!("{}", lines.join("\n"));
}
