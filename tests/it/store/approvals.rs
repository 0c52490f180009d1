//! Challenges, decisions and pinned keys: one per person.

use countersign::store::{PinnedKey, StoreFault, StoredChallenge, StoredDecision};

use super::sample::at;
use crate::harness::database::{TestDatabase, engines};

fn decision(id: &str, signer: &str) -> StoredDecision {
    StoredDecision {
        decision_id: id.to_owned(),
        signer_id: signer.to_owned(),
        key_id: "k1".to_owned(),
        choice: "approve".to_owned(),
        reason: "ça va, \"ok\"".to_owned(),
        document: "{\"d\":\"1\"}".to_owned(),
        digest: "D".repeat(43),
        proof_type: "jws".to_owned(),
        proof: "a..b".to_owned(),
        confirmation: 1,
        decided_at: 1_000_003,
        payment_version: 2,
    }
}

fn key(signer: &str, name: &str, public: char) -> PinnedKey {
    PinnedKey {
        signer_id: signer.to_owned(),
        key_id: name.to_owned(),
        alg: "Ed25519".to_owned(),
        public_key: public.to_string().repeat(43),
        enrolled_by: "op".to_owned(),
        enrolled_at: 1,
        ..PinnedKey::default()
    }
}

#[tokio::test]
async fn a_person_decides_once_in_a_round() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        let first = decision("dec_1", "alice");
        let contrary = StoredDecision { choice: "reject".to_owned(), ..decision("dec_2", "alice") };
        assert!(tx.insert_decision("pay_1", 1, "page", &first).await.unwrap(), "{engine}");
        assert!(!tx.insert_decision("pay_1", 1, "page", &contrary).await.unwrap(), "{engine}");
        assert!(tx.insert_decision("pay_1", 1, "mcp", &decision("dec_3", "bob")).await.unwrap(), "{engine}");
        assert!(tx.insert_decision("pay_1", 2, "mcp", &decision("dec_4", "alice")).await.unwrap(), "{engine}");
        assert!(tx.insert_decision("pay_2", 1, "mcp", &decision("dec_5", "alice")).await.unwrap(), "{engine}");
        tx.commit().await.unwrap();
        let round = db.store().read().await.unwrap().decisions("pay_1", 1).await.unwrap();
        assert_eq!(round, [first, decision("dec_3", "bob")], "{engine}: the first decision stands");
        let mut tx = db.store().begin().await.unwrap();
        let reused = tx.insert_decision("pay_3", 1, "mcp", &decision("dec_1", "alice")).await;
        assert!(matches!(reused, Err(StoreFault::Conflict)), "{engine}: an id of another decision: {reused:?}");
    }
}

#[tokio::test]
async fn decisions_are_in_the_order_they_were_counted_whatever_the_clock_said() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        let mut counted = Vec::new();
        for (version, signer) in [(2, "bob"), (3, "carol"), (4, "alice")] {
            let mut own = decision(&format!("dec_{}", 9 - version), signer);
            (own.payment_version, own.decided_at) = (version, 1_000_003 - version);
            assert!(tx.insert_decision("pay_1", 1, "mcp", &own).await.unwrap(), "{engine}");
            counted.push(own);
        }
        tx.commit().await.unwrap();
        let mut session = db.store().read().await.unwrap();
        assert_eq!(session.decisions("pay_1", 1).await.unwrap(), counted, "{engine}");
        let timed = session.timed_decisions("pay_1").await.unwrap().into_iter().map(|timed| timed.decision);
        assert_eq!(timed.collect::<Vec<_>>(), counted, "{engine}: in evidence");
        let all = session.all_decisions("pay_1").await.unwrap().into_iter().map(|of| of.decision);
        assert_eq!(all.collect::<Vec<_>>(), counted, "{engine}: in the audit");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_16_decisions_of_one_person_at_the_same_moment_one_is_stored() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let race = (0..16).map(|number| {
            let store = db.store().clone();
            tokio::spawn(async move {
                let mut tx = store.begin().await.unwrap();
                let mine = decision(&format!("dec_{number}"), "alice");
                let stored = tx.insert_decision("pay_1", 1, "page", &mine).await.unwrap();
                tx.commit().await.unwrap();
                stored
            })
        });
        let stored = futures::future::join_all(race).await.into_iter().filter(|done| *done.as_ref().unwrap()).count();
        assert_eq!(stored, 1, "{engine}");
        assert_eq!(db.store().read().await.unwrap().decisions("pay_1", 1).await.unwrap().len(), 1, "{engine}");
    }
}

#[tokio::test]
async fn challenges_belong_to_their_round() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let challenge = |signer: &str, nonce: char| StoredChallenge {
            signer_id: signer.to_owned(),
            nonce: nonce.to_string().repeat(43),
            issued_at: 1,
            expires_at: i64::MAX,
        };
        let mut tx = db.store().begin().await.unwrap();
        for (round, challenge) in
            [(1, challenge("bob", 'b')), (1, challenge("alice", 'a')), (2, challenge("alice", 'c'))]
        {
            tx.insert_challenge("pay_1", round, &challenge).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut session = db.store().read().await.unwrap();
        let first = session.challenges("pay_1", 1).await.unwrap();
        assert_eq!(first, [challenge("alice", 'a'), challenge("bob", 'b')], "{engine}");
        assert_eq!(session.challenges("pay_1", 2).await.unwrap(), [challenge("alice", 'c')], "{engine}");
        assert_eq!(session.challenges("pay_2", 1).await.unwrap(), [], "{engine}");
        drop(session);
        let mut tx = db.store().begin().await.unwrap();
        let again = tx.insert_challenge("pay_1", 1, &challenge("bob", 'z')).await;
        assert!(matches!(again, Err(StoreFault::Conflict)), "{engine}: a challenge is not replaced: {again:?}");
    }
}

#[tokio::test]
async fn a_key_is_one_persons_and_keeps_its_name() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        assert!(tx.pin_key("acme", &key("alice", "k1", 'A')).await.unwrap(), "{engine}");
        assert!(!tx.pin_key("acme", &key("alice", "k1", 'B')).await.unwrap(), "{engine}: the name is taken");
        assert!(!tx.pin_key("acme", &key("bob", "k1", 'A')).await.unwrap(), "{engine}: the key is alice's");
        assert!(!tx.pin_key("acme", &key("alice", "k2", 'A')).await.unwrap(), "{engine}: pinned already");
        assert!(tx.pin_key("acme", &key("alice", "k2", 'C')).await.unwrap(), "{engine}");
        assert!(tx.pin_key("other", &key("bob", "k1", 'A')).await.unwrap(), "{engine}: another tenant");
        tx.commit().await.unwrap();
        let keys = db.store().read().await.unwrap().pinned_keys("acme", "alice").await.unwrap();
        assert_eq!(keys, [key("alice", "k1", 'A'), key("alice", "k2", 'C')], "{engine}");
        assert_eq!(db.store().read().await.unwrap().pinned_keys("acme", "bob").await.unwrap(), [], "{engine}");
    }
}

#[tokio::test]
async fn a_revoked_key_stays_revoked_and_pinned() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut tx = db.store().begin().await.unwrap();
        assert!(tx.pin_key("acme", &key("alice", "k1", 'A')).await.unwrap(), "{engine}");
        assert!(!tx.revoke_key("other", "alice", "k1", at(1)).await.unwrap(), "{engine}: another tenant's");
        assert!(!tx.revoke_key("acme", "bob", "k1", at(1)).await.unwrap(), "{engine}: another person's");
        assert!(!tx.revoke_key("acme", "alice", "k2", at(1)).await.unwrap(), "{engine}: another key");
        assert!(tx.revoke_key("acme", "alice", "k1", at(1)).await.unwrap(), "{engine}");
        assert!(!tx.revoke_key("acme", "alice", "k1", at(2)).await.unwrap(), "{engine}: revoked once");
        assert!(!tx.pin_key("acme", &key("alice", "k1", 'A')).await.unwrap(), "{engine}: not revived");
        assert!(!tx.pin_key("acme", &key("bob", "k1", 'A')).await.unwrap(), "{engine}: not handed on");
        tx.commit().await.unwrap();
        let keys = db.store().read().await.unwrap().pinned_keys("acme", "alice").await.unwrap();
        let revoked = PinnedKey { revoked_at: Some(at(1).micros()), ..key("alice", "k1", 'A') };
        assert_eq!(keys, [revoked], "{engine}: the first instant stands");
    }
}
