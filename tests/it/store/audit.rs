//! The audit chain: contiguous, verifiable, without gaps, whoever writes at the same moment.

use std::collections::BTreeSet;

use countersign::proof::{AuditFacts, GENESIS, jcs, link, sha256_hex};
use countersign::store::{AuditNote, AuditRow, Store};

use super::sample::{insert, payment};
use crate::harness::database::{TestDatabase, TestEngine, engines};

fn note(tenant: &str, reason: &str) -> AuditNote {
    AuditNote {
        tenant: tenant.to_owned(),
        payment_id: "pay_1".to_owned(),
        version: 3,
        node: "node-1".to_owned(),
        actor: "agent:a".to_owned(),
        event: "payment.created".to_owned(),
        from: "CREATED".to_owned(),
        to: "SIGNED".to_owned(),
        reason: reason.to_owned(),
        details: format!("details of {reason}"),
    }
}

async fn write(store: &Store, notes: Vec<AuditNote>) {
    let mut tx = store.begin().await.unwrap();
    for note in notes {
        tx.audit(note);
    }
    tx.commit().await.unwrap();
}

async fn chain(store: &Store, tenant: &str) -> Vec<AuditRow> {
    store.read().await.unwrap().audit_entries(tenant, 0, 1_000).await.unwrap()
}

/// Recomputes a tenant's chain from nothing but its canonical texts; returns the facts.
fn verified(rows: &[AuditRow], tenant: &str, engine: TestEngine) -> Vec<AuditFacts> {
    let mut previous = GENESIS.to_owned();
    rows.iter()
        .zip(1_i64..)
        .map(|(row, seq)| {
            assert_eq!((row.seq, &row.previous), (seq, &previous), "{engine}: {tenant}");
            let facts: AuditFacts = serde_json::from_str(&row.canonical).unwrap();
            assert_eq!(jcs(&facts).unwrap(), row.canonical, "{engine}");
            assert_eq!((facts.seq.as_str(), facts.tenant.as_str()), (seq.to_string().as_str(), tenant), "{engine}");
            let link = link(&previous, &facts).unwrap();
            assert_eq!((&link.chain, &link.canonical), (&row.chain, &row.canonical), "{engine}: {tenant}");
            previous = link.chain;
            facts
        })
        .collect()
}

#[tokio::test]
async fn a_note_is_written_word_for_word_with_the_stores_time() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        tx.audit(note("acme", "ünïcode \" \\ \n"));
        tx.audit(AuditNote { tenant: "acme".to_owned(), event: "e".to_owned(), ..AuditNote::default() });
        let now = tx.now().rfc3339();
        tx.commit().await.unwrap();
        let facts = verified(&chain(db.store(), "acme").await, "acme", engine);
        let said = AuditFacts {
            seq: "1".to_owned(),
            ts: now.clone(),
            tenant: "acme".to_owned(),
            payment_id: "pay_1".to_owned(),
            version: "3".to_owned(),
            node: "node-1".to_owned(),
            actor: "agent:a".to_owned(),
            event: "payment.created".to_owned(),
            from: "CREATED".to_owned(),
            to: "SIGNED".to_owned(),
            reason: "ünïcode \" \\ \n".to_owned(),
            digest_of_details: sha256_hex("details of ünïcode \" \\ \n"),
        };
        assert_eq!(facts[0], said, "{engine}");
        assert_eq!((facts[1].version.as_str(), facts[1].digest_of_details.as_str()), ("", ""), "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_writers_at_once_make_one_chain_per_tenant() {
    const TENANTS: [&str; 3] = ["acme", "beta", "gamma"];
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let other = db.another().await;
        let race = (0..64).map(|number| {
            let store = if number % 2 == 0 { db.store().clone() } else { other.clone() };
            tokio::spawn(async move {
                let reason = format!("by {number}");
                // Most on one tenant; some on several at once, named in either order.
                let mut notes = vec![note("acme", &reason)];
                if number % 4 == 0 {
                    notes.extend([note("gamma", &reason), note("beta", &reason)]);
                }
                if number % 8 == 0 {
                    notes.reverse();
                }
                write(&store, notes).await;
            })
        });
        for done in futures::future::join_all(race).await {
            done.unwrap();
        }
        for (tenant, expected) in TENANTS.into_iter().zip([64, 16, 16]) {
            let facts = verified(&chain(db.store(), tenant).await, tenant, engine);
            let reasons: BTreeSet<&str> = facts.iter().map(|facts| facts.reason.as_str()).collect();
            assert_eq!((facts.len(), reasons.len()), (expected, expected), "{engine}: {tenant}");
        }
    }
}

#[tokio::test]
async fn a_transaction_that_does_not_commit_leaves_no_gap() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        write(db.store(), vec![note("acme", "one")]).await;
        let mut tx = db.store().begin().await.unwrap();
        tx.audit(note("acme", "dropped"));
        drop(tx);
        // The head moves before the last note fails: an event must have a name.
        let mut tx = db.store().begin().await.unwrap();
        assert!(tx.insert_payment(&payment("lost")).await.unwrap(), "{engine}");
        tx.audit(note("acme", "failed"));
        tx.audit(AuditNote { tenant: "acme".to_owned(), ..AuditNote::default() });
        assert!(tx.commit().await.is_err(), "{engine}");
        write(db.store(), vec![note("acme", "two"), note("acme", "three")]).await;
        let facts = verified(&chain(db.store(), "acme").await, "acme", engine);
        let reasons: Vec<&str> = facts.iter().map(|facts| facts.reason.as_str()).collect();
        assert_eq!(reasons, ["one", "two", "three"], "{engine}");
        assert!(insert(db.store(), &payment("lost")).await, "{engine}: no audit, no change");
    }
}

#[tokio::test]
async fn the_chain_is_read_in_pages_and_per_tenant() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        write(db.store(), (0..7).map(|number| note("acme", &number.to_string())).collect()).await;
        write(db.store(), vec![note("beta", "b")]).await;
        let mut session = db.store().read().await.unwrap();
        let mut pages = Vec::new();
        let mut after = 0;
        loop {
            let page = session.audit_entries("acme", after, 3).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.seq;
            pages.push(page.len());
        }
        assert_eq!(pages, [3, 3, 1], "{engine}");
        assert_eq!(session.audit_entries("nobody", 0, 9).await.unwrap(), [], "{engine}");
        drop(session);
        assert_eq!(verified(&chain(db.store(), "beta").await, "beta", engine).len(), 1, "{engine}");
    }
}

#[tokio::test]
async fn the_database_itself_refuses_a_forked_chain() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        write(db.store(), vec![note("acme", "one"), note("acme", "two")]).await;
        let fork = "INSERT INTO audit_entries SELECT tenant, 3, payment_id, event, canonical, previous, chain, written_at \
             FROM audit_entries WHERE seq = 2";
        assert!(db.raw().await.execute(fork).await.is_err(), "{engine}");
    }
}
