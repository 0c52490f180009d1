//! Side effects and what came in before: written once, counted, never rewritten.

use countersign::store::{EffectKind, EffectRow, EffectState, KeyBinding, KeyScope, NewEffect, Store, StoreFault};

use super::sample::{insert, payment};
use crate::harness::database::{TestDatabase, engines};

const KEY: &str = "pay_1:rail.execute:g1";

fn effect<'a>(key: &'a str, words: [&'a str; 4]) -> NewEffect<'a> {
    let [id, target, body, traceparent] = words;
    NewEffect {
        effect_id: id.to_owned(),
        key,
        tenant: "acme",
        payment_id: "pay_1",
        kind: EffectKind::RailExecute,
        target,
        body,
        traceparent,
    }
}

const FIRST: [&str; 4] = ["eff_1", "target", "{\"first\":\"ü\"}", "00-trace-1"];
const LATER: [&str; 4] = ["eff_2", "elsewhere", "{\"other\":1}", "00-trace-2"];

async fn intend(store: &Store, new: &NewEffect<'_>) -> Result<EffectRow, StoreFault> {
    let mut tx = store.begin().await.unwrap();
    let row = tx.intend(new).await?;
    tx.commit().await.unwrap();
    Ok(row)
}

async fn settle(store: &Store, state: EffectState, outcome: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.settle(KEY, state, outcome).await.unwrap();
    tx.commit().await.unwrap();
}

fn seen(row: &EffectRow) -> [String; 6] {
    let EffectRow { outbound_key, target, body, state, attempts, traceparent } = row.clone();
    [outbound_key, target, body, state, attempts.to_string(), traceparent]
}

#[tokio::test]
async fn a_later_attempt_counts_and_sends_the_same_bytes() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let first = intend(db.store(), &effect(KEY, FIRST)).await.unwrap();
        assert_eq!(seen(&first), [KEY, FIRST[1], FIRST[2], "intended", "1", FIRST[3]], "{engine}");
        for (number, state) in [EffectState::Intended, EffectState::Refused, EffectState::NotSent, EffectState::Unknown]
            .into_iter()
            .enumerate()
        {
            settle(db.store(), state, "some outcome").await;
            let row = db.store().read().await.unwrap().effect(KEY).await.unwrap().unwrap();
            assert_eq!(row.state, state.as_str(), "{engine}");
            let attempts = (number + 2).to_string();
            let row = intend(db.store(), &effect(KEY, LATER)).await.unwrap();
            let expected = [KEY, FIRST[1], FIRST[2], "intended", &attempts, FIRST[3]];
            assert_eq!(seen(&row), expected, "{engine}");
            let stored = db.store().read().await.unwrap().effect(KEY).await.unwrap().unwrap();
            assert_eq!(seen(&stored), expected, "{engine}");
        }
        let stored = db.raw().await.texts("SELECT effect_id || body_sha256 FROM effects").await;
        assert_eq!(stored, [format!("eff_1{}", countersign::proof::sha256_hex(FIRST[2]))], "{engine}");
    }
}

#[tokio::test]
async fn what_is_done_stays_done_and_is_not_intended_again() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        intend(db.store(), &effect(KEY, FIRST)).await.unwrap();
        settle(db.store(), EffectState::Done, "receipt").await;
        let done = async || {
            db.raw()
                .await
                .texts("SELECT state || outcome || CAST(attempts AS TEXT) || CAST(settled_at AS TEXT) FROM effects")
                .await
        };
        let before = done().await;
        assert!(before[0].starts_with("donereceipt1"), "{engine}: {before:?}");
        db.clock().advance(1_000_000);
        for state in [EffectState::Refused, EffectState::Unknown, EffectState::NotSent, EffectState::Intended] {
            settle(db.store(), state, "late").await;
            assert_eq!(done().await, before, "{engine}: {state:?}");
        }
        let again = intend(db.store(), &effect(KEY, LATER)).await;
        assert!(matches!(again, Err(StoreFault::Conflict)), "{engine}: {again:?}");
        assert_eq!(done().await, before, "{engine}");
    }
}

#[tokio::test]
async fn only_what_is_known_has_a_time_of_settling() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        intend(db.store(), &effect(KEY, FIRST)).await.unwrap();
        let settled = async || {
            let sql = "SELECT CASE WHEN settled_at IS NULL THEN 'open' ELSE 'settled' END FROM effects";
            db.raw().await.texts(sql).await.remove(0)
        };
        assert_eq!(settled().await, "open", "{engine}");
        for (state, expected) in [
            (EffectState::Refused, "settled"),
            (EffectState::Unknown, "open"),
            (EffectState::NotSent, "open"),
            (EffectState::Intended, "open"),
            (EffectState::Done, "settled"),
        ] {
            settle(db.store(), state, "").await;
            assert_eq!(settled().await, expected, "{engine}: {state:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attempts_at_the_same_moment_are_each_counted() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let race = (0..16).map(|number| {
            let store = db.store().clone();
            tokio::spawn(async move {
                let (id, body) = (format!("eff_{number}"), format!("body {number}"));
                intend(&store, &effect(KEY, [&id, "t", &body, ""])).await.unwrap()
            })
        });
        let rows: Vec<EffectRow> = futures::future::join_all(race).await.into_iter().map(Result::unwrap).collect();
        let mut attempts: Vec<i64> = rows.iter().map(|row| row.attempts).collect();
        attempts.sort_unstable();
        assert_eq!(attempts, (1..=16).collect::<Vec<i64>>(), "{engine}");
        assert!(rows.iter().all(|row| row.body == rows[0].body), "{engine}: one body for every attempt");
    }
}

#[tokio::test]
async fn an_intent_that_was_not_committed_was_never_written() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        tx.intend(&effect(KEY, FIRST)).await.unwrap();
        drop(tx);
        assert!(db.store().read().await.unwrap().effect(KEY).await.unwrap().is_none(), "{engine}");
        for kind in
            [EffectKind::SignerRegister, EffectKind::SignerNotify, EffectKind::SignerCancel, EffectKind::RailExecute]
        {
            let id = format!("eff_{kind:?}");
            let new = NewEffect { kind, ..effect(kind.as_str(), [&id, "", "", ""]) };
            let row = intend(db.store(), &new).await.unwrap();
            assert_eq!(row.outbound_key, kind.as_str(), "{engine}: the schema knows every kind");
        }
    }
}

#[tokio::test]
async fn a_callers_key_is_bound_once_within_its_scope() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let scope = KeyScope { tenant: "acme", agent: "a", operation: "create_payment" };
        let first = KeyBinding { fingerprint: "f1".to_owned(), payment_id: "pay_1".to_owned(), refusal: String::new() };
        let second =
            KeyBinding { fingerprint: "f2".to_owned(), payment_id: "pay_2".to_owned(), refusal: String::new() };
        let mut tx = db.store().begin().await.unwrap();
        assert_eq!(tx.key_binding(scope, "k").await.unwrap(), None, "{engine}");
        assert!(tx.bind_key(scope, "k", &first).await.unwrap(), "{engine}");
        assert!(!tx.bind_key(scope, "k", &second).await.unwrap(), "{engine}");
        assert!(!tx.bind_key(scope, "k", &first).await.unwrap(), "{engine}");
        assert_eq!(tx.key_binding(scope, "k").await.unwrap().as_ref(), Some(&first), "{engine}");
        assert_eq!(tx.key_binding(scope, "K").await.unwrap(), None, "{engine}");
        for other in [
            KeyScope { tenant: "b", ..scope },
            KeyScope { agent: "b", ..scope },
            KeyScope { operation: "cancel_payment", ..scope },
        ] {
            assert_eq!(tx.key_binding(other, "k").await.unwrap(), None, "{engine}: {other:?}");
            assert!(tx.bind_key(other, "k", &second).await.unwrap(), "{engine}: {other:?}");
        }
        tx.commit().await.unwrap();
        let bound = db.store().read().await.unwrap().key_binding(scope, "k").await.unwrap();
        assert_eq!(bound, Some(first), "{engine}");
    }
}

#[tokio::test]
async fn a_callback_is_new_once_per_source() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let (one, two) = (payment("one"), payment("two"));
        assert!(insert(db.store(), &one).await && insert(db.store(), &two).await);
        let (one, two) = (one.terms.payment_id.as_str(), two.terms.payment_id.as_str());
        let mut tx = db.store().begin().await.unwrap();
        assert!(tx.remember_callback("signer", "evt_1", one).await.unwrap(), "{engine}");
        assert!(!tx.remember_callback("signer", "evt_1", one).await.unwrap(), "{engine}");
        assert!(!tx.remember_callback("signer", "evt_1", two).await.unwrap(), "{engine}");
        assert!(tx.remember_callback("signer", "evt_2", one).await.unwrap(), "{engine}");
        assert!(tx.remember_callback("rail", "evt_1", one).await.unwrap(), "{engine}");
        assert!(!tx.remember_callback("signer", "evt_3", "pay_elsewhere").await.unwrap(), "{engine}");
        drop(tx);
        let mut tx = db.store().begin().await.unwrap();
        let new = tx.remember_callback("signer", "evt_1", one).await.unwrap();
        assert!(new, "{engine}: rolled back, so the callback must be handled when it comes again");
    }
}
