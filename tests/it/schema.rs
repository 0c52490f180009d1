//! The schema: the same on both engines, and strict.

use crate::harness::database::{TestDatabase, TestEngine, engines};
use crate::store::sample::{insert, payment};
use crate::tidy::{files, read};

/// The columns that may be NULL, all read as `Option`: the SQLite driver reads NULL into a number as 0.
const NULLABLE: [&str; 27] = [
    "archived_effects.settled_at",
    "archived_payments.cancel_requested_at",
    "archived_payments.check_at",
    "archived_payments.execute_at",
    "archived_payments.held_at",
    "archived_payments.last_send_at",
    "archived_payments.next_wake_at",
    "archived_payments.notify_at",
    "archived_payments.resend_until",
    "archived_payments.tell_at",
    "comparisons.compared_at",
    "effects.settled_at",
    "invitations.used_at",
    "outbox.delivered_at",
    "outbox.next_at",
    "payments.cancel_requested_at",
    "payments.check_at",
    "payments.execute_at",
    "payments.held_at",
    "payments.last_send_at",
    "payments.next_wake_at",
    "payments.notify_at",
    "payments.parked_at",
    "payments.resend_until",
    "payments.tell_at",
    "restores.lifted_at",
    "signer_keys.revoked_at",
];

/// `table.column type null-or-not`, in order, as the engine's own catalog says.
async fn columns(db: &TestDatabase) -> Vec<String> {
    let sql = match db.engine() {
        TestEngine::Sqlite => {
            "SELECT m.name || '.' || c.name || ' ' || c.type || CASE c.\"notnull\" WHEN 1 THEN ' not null' ELSE '' END \
             FROM sqlite_schema m JOIN pragma_table_info(m.name) c \
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name NOT LIKE '\\_sqlx%' ESCAPE '\\'"
        }
        TestEngine::Postgres => {
            "SELECT table_name || '.' || column_name || ' ' || data_type || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END \
             FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) \
             WHERE table_schema = current_schema() AND table_name NOT LIKE '\\_sqlx%' AND table_type = 'BASE TABLE'"
        }
    };
    let mut columns = db.raw().await.texts(sql).await;
    columns.sort();
    columns
}

#[tokio::test]
async fn columns_are_text_numbers_or_bytes_and_null_only_where_named() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let columns = columns(&db).await;
        assert!(columns.len() > 90, "{engine}: {} columns", columns.len());
        let allowed = match engine {
            TestEngine::Sqlite => ["TEXT", "INTEGER", "BLOB"],
            TestEngine::Postgres => ["text", "bigint", "bytea"],
        };
        let mut nullable = Vec::new();
        for column in &columns {
            let (name, rest) = column.split_once(' ').unwrap();
            let kind = rest.trim_end_matches(" not null");
            assert!(allowed.contains(&kind), "{engine}: {column}");
            nullable.extend((kind == rest).then_some(name));
        }
        assert_eq!(nullable, NULLABLE, "{engine}");
    }
}

#[tokio::test]
async fn both_engines_have_the_same_tables_columns_and_indexes() {
    let mut seen = Vec::new();
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let columns: Vec<String> = columns(&db)
            .await
            .iter()
            .map(|column| column.replace("INTEGER", "bigint").replace("TEXT", "text").replace("BLOB", "bytea"))
            .collect();
        let sql = match engine {
            TestEngine::Sqlite => {
                "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
            }
            TestEngine::Postgres => {
                "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename NOT LIKE '\\_sqlx%' \
                 AND indexname NOT IN (SELECT conname FROM pg_constraint) ORDER BY indexname COLLATE \"C\""
            }
        };
        let indexes = db.raw().await.texts(sql).await;
        assert!(indexes.contains(&"payments_one_per_order".to_owned()), "{engine}: {indexes:?}");
        seen.push((columns, indexes));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
}

/// What moves is copied by position.
#[tokio::test]
async fn the_archive_has_the_columns_of_what_is_moved_in_the_same_order() {
    const PAIRS: [(&str, &str); 4] = [
        ("payments_everywhere", "archived_payments"),
        ("effects", "archived_effects"),
        ("challenges", "archived_challenges"),
        ("decisions", "archived_decisions"),
    ];
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let columns = async |table: &str| {
            let sql = match engine {
                TestEngine::Sqlite => format!("SELECT name FROM pragma_table_info('{table}') ORDER BY cid"),
                TestEngine::Postgres => format!(
                    "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() \
                     AND table_name = '{table}' ORDER BY ordinal_position"
                ),
            };
            db.raw().await.texts(&sql).await
        };
        for (from, to) in PAIRS {
            let kept = columns(to).await;
            assert!(kept.len() > 5, "{engine}: {to}");
            assert_eq!(columns(from).await, kept, "{engine}: {from} and {to}");
        }
    }
}

/// What catalogs don't show alike: checks, keys, what an index covers.
#[test]
fn both_migrations_say_the_same_but_for_the_names_of_types() {
    let names = |engine: &str| {
        let folder = format!("migrations/{engine}/");
        files().iter().filter_map(|path| path.strip_prefix(&folder).map(str::to_owned)).collect::<Vec<_>>()
    };
    let all = names("sqlite");
    assert!(all.len() > 7 && all == names("postgres"), "{all:?}");
    for name in all {
        let (sqlite, postgres) =
            (read(&format!("migrations/sqlite/{name}")), read(&format!("migrations/postgres/{name}")));
        let as_sqlite = postgres.replace("BIGINT", "INTEGER").replace("BYTEA", "BLOB").replace("\n);", "\n) STRICT;");
        assert_eq!(as_sqlite.replace("migrations/sqlite", "migrations/postgres"), sqlite, "{name}");
    }
}

/// Changes of a stored row that the database itself must refuse.
const REFUSED: [(&str, &str); 21] = [
    ("payments", "payment_id = ''"),
    ("payments", "tenant = ''"),
    ("payments", "order_id = ''"),
    ("payments", "agent = ''"),
    ("payments", "document = ''"),
    ("payments", "status = 'PAID'"),
    ("payments", "status = 'created'"),
    ("payments", "phase = 'maybe'"),
    ("payments", "status = 'EXECUTED'"),
    ("payments", "next_wake_at = NULL"),
    ("payments", "version = 0"),
    ("payments", "round = 0"),
    ("payments", "amount_minor = 0"),
    ("payments", "amount_minor = -5"),
    ("payments", "currency = 'EU'"),
    ("payments", "fingerprint = ''"),
    ("payments", "digest = ''"),
    ("payments", "not_sent = sends + 1"),
    ("payments", "version = 'one'"),
    ("payments", "reason = NULL"),
    ("payments", "lease_until = NULL"),
];

#[tokio::test]
async fn the_database_refuses_what_no_payment_can_be() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let sample = payment("o");
        assert!(insert(db.store(), &sample).await);
        let mut raw = db.raw().await;
        for (table, change) in REFUSED {
            let changed = raw.execute(&format!("UPDATE {table} SET {change}")).await;
            assert!(matches!(changed, Err(sqlx::Error::Database(_))), "{engine}: {change}: {changed:?}");
        }
        for change in
            ["status = 'CANCELLED', next_wake_at = NULL", "held_at = 1, status = 'CREATED', next_wake_at = NULL"]
        {
            let changed = raw.execute(&format!("UPDATE payments SET {change}")).await;
            assert_eq!(changed.unwrap(), 1, "{engine}: {change}");
        }
    }
}

/// Rows that the database itself must refuse: each a good row, and the one value that spoils it.
#[tokio::test]
async fn the_database_refuses_what_no_effect_key_or_decision_can_be() {
    const ROWS: [(&str, &str); 16] = [
        ("effects", "effect_id = ''"),
        ("effects", "outbound_key = ''"),
        ("effects", "payment_id = ''"),
        ("effects", "kind = 'rail.refund'"),
        ("effects", "state = 'paid'"),
        ("challenges", "nonce = 'short'"),
        ("challenges", "signer_id = ''"),
        ("decisions", "choice = 'maybe'"),
        ("decisions", "proof = ''"),
        ("signer_keys", "public_key = ''"),
        ("signer_keys", "enrolled_by = ''"),
        ("callbacks", "event_id = ''"),
        ("outbox", "state = 'lost'"),
        ("outbox", "next_at = NULL"),
        ("outbox", "state = 'dead'"),
        ("outbox", "state = 'delivered', next_at = NULL"),
    ];
    let wide = "A".repeat(43);
    let good = format!(
        "INSERT INTO effects VALUES ('e','k','t','p','rail.execute','','','','intended',1,'','',1,1,NULL); \
         INSERT INTO challenges VALUES ('p',1,'s','{wide}',1,2); \
         INSERT INTO decisions VALUES ('d','p',1,'s',1,'k','approve','','doc','{wide}','jws','a..b','page',1,2); \
         INSERT INTO signer_keys VALUES ('t','s','k','Ed25519','{wide}','','','','',0,'','','op',1,NULL); \
         INSERT INTO callbacks VALUES ('signer','e','p',1); \
         INSERT INTO outbox VALUES ('e','u','t','p',1,'payment.created','b',1,'pending',0,1,'',NULL,'',0)"
    );
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut raw = db.raw().await;
        raw.execute(&good).await.unwrap();
        for (table, change) in ROWS {
            let changed = raw.execute(&format!("UPDATE {table} SET {change}")).await;
            assert!(matches!(changed, Err(sqlx::Error::Database(_))), "{engine}: {table}: {change}: {changed:?}");
        }
    }
}
