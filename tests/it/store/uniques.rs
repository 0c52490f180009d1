//! What there is one of, the database itself refuses a second of; a restore, it lifts by itself.

use std::collections::BTreeMap;

use countersign::store::Place;

use super::sample::{at, bare, insert, payment};
use crate::harness::database::{Raw, TestDatabase, TestEngine, engines};

#[tokio::test]
async fn a_restore_is_lifted_by_the_update_that_finds_nothing_left_to_compare() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let open = payment("open");
        assert!(insert(db.store(), &open).await, "{engine}");
        let mut tx = db.store().begin().await.unwrap();
        let (now, later) = (tx.now(), tx.now().plus_micros(1));
        for (restore, compare_at) in [("rst_now", now), ("rst_later", later)] {
            assert!(tx.open_new_restore(restore, "told", compare_at).await.unwrap(), "{engine}");
            assert!(!tx.lift_restore(restore).await.unwrap(), "{engine}: {restore}: one payment is not compared");
            let stored = tx.open_restore().await.unwrap().unwrap();
            assert!(tx.compared(&stored, open.terms.payment_id.as_str(), "not found", "as_believed").await.unwrap());
            assert_eq!(tx.lift_restore(restore).await.unwrap(), restore == "rst_now", "{engine}: {restore}");
        }
    }
}

/// A row, and one that is the same in what must be unique and in nothing else.
const DOUBLES: [(&str, &str, &str); 36] = [
    ("payments", "", "UPDATE payments SET payment_id = 'pay_same'"),
    ("payments", "", "UPDATE payments SET order_id = 'same'"),
    ("archived_payments", "", "UPDATE archived_payments SET payment_id = 'pay_same'"),
    ("archived_payments", "", "UPDATE archived_payments SET order_id = 'same'"),
    ("taken_orders", "'t','o','p'", "'t','o','q'"),
    ("taken_orders", "'t','o','p'", "'t','n','p'"),
    ("idempotency", "'t','a','op','k','f','p',1,''", "'t','a','op','k','g','q',2,'x'"),
    ("effects", EFFECT[0], EFFECT[1]),
    ("effects", EFFECT[0], EFFECT[2]),
    ("archived_effects", EFFECT[0], EFFECT[1]),
    ("archived_effects", EFFECT[0], EFFECT[2]),
    ("challenges", "'p',1,'s','<a>',1,2", "'p',1,'s','<b>',3,4"),
    ("archived_challenges", "'p',1,'s','<a>',1,2", "'p',1,'s','<b>',3,4"),
    ("decisions", DECISION[0], DECISION[1]),
    ("decisions", DECISION[0], DECISION[2]),
    ("archived_decisions", DECISION[0], DECISION[1]),
    ("archived_decisions", DECISION[0], DECISION[2]),
    (
        "signer_keys",
        "'t','s','k','Ed25519','<a>','','','','',0,'','','op',1,NULL",
        "'t','s','k','Ed25519','<b>','','','','',0,'','','op',1,NULL",
    ),
    (
        "signer_keys",
        "'t','s','k','Ed25519','<a>','','','','',0,'','','op',1,NULL",
        "'t','z','l','Ed25519','<a>','','','','',0,'','','op',1,NULL",
    ),
    ("signer_keys", PASSKEY[0], PASSKEY[1]),
    ("invitations", "'i','t','s','d','op',1,2,NULL", "'i','t','z','e','op',3,4,5"),
    ("key_counters", "'t','s','k',7,'<a>'", "'t','s','k',7,'<b>'"),
    ("receipts", "'k','p','d',1", "'k','q','e',2"),
    ("checkpoints", "'t',1,'n'", "'t',1,'m'"),
    ("callbacks", "'signer','e','p',1", "'signer','e','q',2"),
    ("attestations", "'p','release_hold','h','ana','r','e',1", "'p','release_hold','h','ana','q','f',2"),
    ("audit_heads", "'t',1,'<a>'", "'t',2,'<b>'"),
    ("audit_entries", "'t',1,'p','e','c','<a>','<b>',1", "'t',1,'q','f','d','<b>','<a>',2"),
    ("audit_entries", "'t',1,'p','e','c','<a>','<b>',1", "'t',2,'q','f','d','<a>','<c>',2"),
    (
        "outbox",
        "'e','u','t','p',1,'k','b',1,'pending',0,1,'',NULL,'',0",
        "'e','u','t','q',2,'l','c',1,'dead',0,NULL,'',NULL,'',0",
    ),
    ("budget_turns", "'t','a',1", "'t','a',2"),
    ("restores", "'r','open','c',1,2,NULL", "'r','lifted','d',3,4,5"),
    ("restores", "'r','open','c',1,2,NULL", "'s','open','d',3,4,NULL"),
    ("comparisons", "'r','p','SIGNED','','',NULL", "'r','p','SIGNED','found','executed',1"),
    ("worked", "'any',1,1", "'any',2,2"),
    ("_sqlx_migrations", "", ""),
];
const EFFECT: [&str; 3] = [
    "'e','k','t','p','rail.execute','','','','intended',1,'','',1,1,NULL",
    "'e','l','t','q','rail.execute','','','','intended',1,'','',1,1,NULL",
    "'f','k','t','q','rail.execute','','','','intended',1,'','',1,1,NULL",
];
const PASSKEY: [&str; 2] = [
    "'t','s','k','ES256','<a>','cred','host','http://host','phone',0,'','','op',1,NULL",
    "'t','z','l','ES256','<b>','cred','host','http://host','phone',0,'','','op',1,NULL",
];
const DECISION: [&str; 3] = [
    "'d','p',1,'s',1,'k','approve','','doc','<a>','jws','a..b','mcp',1,2",
    "'d','q',1,'s',1,'k','approve','','doc','<a>','jws','a..b','mcp',1,2",
    "'e','p',1,'s',1,'l','reject','no','cod','<b>','jws','b..a','mcp',3,0",
];

/// How many unique indexes each table has, the primary key's included.
async fn unique_indexes(raw: &mut Raw, engine: TestEngine) -> BTreeMap<String, usize> {
    let sql = match engine {
        TestEngine::Sqlite => {
            "SELECT m.name FROM sqlite_schema m JOIN pragma_index_list(m.name) i \
             WHERE m.type = 'table' AND i.\"unique\" = 1"
        }
        TestEngine::Postgres => {
            "SELECT CAST(t.relname AS TEXT) FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid \
             WHERE i.indisunique AND t.relnamespace = CAST(current_schema() AS regnamespace)"
        }
    };
    let mut counts = BTreeMap::new();
    for table in raw.texts(sql).await {
        *counts.entry(table).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn the_database_refuses_a_second_of_what_there_is_one() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut raw = db.raw().await;
        let mut known = BTreeMap::new();
        for (table, _, _) in DOUBLES {
            *known.entry(table.to_owned()).or_default() += 1;
        }
        let mut there = unique_indexes(&mut raw, engine).await;
        // The migrations' own table, whose key SQLite has without an index.
        there.insert("_sqlx_migrations".to_owned(), 1);
        assert_eq!(there, known, "{engine}: each unique index has its row in DOUBLES");

        for order in ["one", "two"] {
            assert!(insert(db.store(), &bare(order)).await, "{engine}");
        }
        let until = at(i64::MAX / 2);
        let found = db.store().read().await.unwrap().finished(until, &Place::default(), 9, 9).await.unwrap();
        let mut tx = db.store().begin().await.unwrap();
        assert_eq!(tx.archive_finished(until, &found).await.unwrap().payments, 2, "{engine}");
        tx.commit().await.unwrap();
        for order in ["three", "four"] {
            assert!(insert(db.store(), &payment(order)).await, "{engine}");
        }
        for (table, first, second) in DOUBLES.into_iter().filter(|(_, _, second)| !second.is_empty()) {
            let wide = |text: &str| {
                ["a", "b", "c"]
                    .iter()
                    .fold(text.to_owned(), |text, name| text.replace(&format!("<{name}>"), &name.repeat(43)))
            };
            let again = if first.is_empty() {
                second.to_owned()
            } else {
                raw.execute(&format!("DELETE FROM {table}; INSERT INTO {table} VALUES ({})", wide(first)))
                    .await
                    .unwrap();
                format!("INSERT INTO {table} VALUES ({})", wide(second))
            };
            match raw.execute(&again).await {
                Err(sqlx::Error::Database(fault)) if fault.is_unique_violation() => {}
                other => panic!("{engine}: {table}: {second}: {other:?}"),
            }
        }
    }
}
