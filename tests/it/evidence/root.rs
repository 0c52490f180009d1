//! The registry's root: what counts under one, and what its word is worth.

use countersign::domain::Role;
use countersign::proof::{RegistryEntry, SigningKey, verify_entry};
use serde_json::json;

use super::{certify, certify_all, root, rooted};
use crate::harness::app::{App, each_with};
use crate::harness::folder::Folder;
use crate::harness::people::registry;
use crate::harness::whole::is_whole;

const CERTIFIED: &str = "signer_key.certified";

#[tokio::test]
async fn under_a_root_a_key_counts_once_the_root_has_signed_it() {
    let folder = Folder::new("root");
    each_with(rooted(&folder), async |app: &mut App| {
        app.awaiting("order-1").await;
        certify_all(app).await;
        let jws = app.jws("finance-1", &app.document("finance-1", "order-1", "approve", "").await);
        app.db.raw().await.execute("UPDATE signer_keys SET entry = '', entry_signature = ''").await.unwrap();
        let refused = app.confirm("finance-1", "order-1", &jws).await;
        assert_eq!(refused.code(), "SIGNATURE_INVALID");
        assert!(refused.text("error_message").contains("root"), "{}", refused.body);
        // Nor is anybody asked to sign with one.
        let asked = json!({"order_id": "order-1"});
        let shown = async || app.call(&app.signer_token("finance-1"), "get_approval", asked.clone()).await;
        let approval = shown().await;
        assert_eq!((approval.text("next_action"), &approval.body["to_sign"]), ("ask_an_operator", &json!([])));
        assert!(approval.text("message").contains("no registered key that counts"), "{}", approval.body);
        certify_all(app).await;
        assert_eq!(shown().await.body["to_sign"][0]["key_id"], json!(app.key_id("finance-1")));
        assert_eq!(app.confirm("finance-1", "order-1", &jws).await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        let certified = app.audited_events(CERTIFIED).await;
        certify_all(app).await;
        assert_eq!(app.audited_events(CERTIFIED).await, certified, "the same word again is no news");
    })
    .await;
}

#[tokio::test]
async fn a_row_that_says_otherwise_than_its_entry_counts_no_more() {
    let ways = [
        ("another public key", "UPDATE signer_keys SET public_key = 'KEY' WHERE signer_id = 'finance-1'"),
        ("another name", "UPDATE signer_keys SET enrolled_by = 'somebody' WHERE signer_id = 'finance-1'"),
        (
            "another's entry",
            "UPDATE signer_keys SET entry = (SELECT k.entry FROM signer_keys k WHERE k.signer_id = 'finance-2'), \
            entry_signature = (SELECT k.entry_signature FROM signer_keys k WHERE k.signer_id = 'finance-2') \
            WHERE signer_id = 'finance-1'",
        ),
        ("no signature", "UPDATE signer_keys SET entry_signature = '' WHERE signer_id = 'finance-1'"),
    ];
    for (what, sql) in ways {
        let folder = Folder::new("root");
        each_with(rooted(&folder), async |app: &mut App| {
            certify_all(app).await;
            app.awaiting("order-1").await;
            let document = app.document("finance-1", "order-1", "approve", "").await;
            let stranger = SigningKey::from_seed(&[99; 32]);
            let swapped = sql.contains("'KEY'");
            app.db.raw().await.execute(&sql.replace("KEY", &stranger.public().to_b64url())).await.unwrap();
            let key = if swapped { &stranger } else { app.key("finance-1") };
            let jws = countersign::proof::sign_detached(key, &app.key_id("finance-1"), &document).unwrap();
            assert_eq!(app.confirm("finance-1", "order-1", &jws).await.code(), "SIGNATURE_INVALID", "{what}");
            assert_eq!(app.payment("order-1").await.approvals, 0, "{what}");
            // What the test did with the database is nothing that the judge should see.
            let own = app.key("finance-1").public().to_b64url();
            let back = format!(
                "UPDATE signer_keys SET public_key = '{own}', enrolled_by = 'ops-1' WHERE signer_id = 'finance-1'"
            );
            app.db.raw().await.execute(&back).await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn a_key_that_lost_the_roots_word_is_not_enough_when_the_money_is_to_move() {
    let folder = Folder::new("root");
    each_with(rooted(&folder), async |app: &mut App| {
        certify_all(app).await;
        let id = app.signed("order-1").await;
        app.db.raw().await.execute("UPDATE signer_keys SET entry = '', entry_signature = ''").await.unwrap();
        app.settle().await;
        let payment = app.payment("order-1").await;
        assert_eq!((payment.round, app.executions(&id).await), (2, 0), "a new round, and nothing was sent");
        certify_all(app).await;
        app.sign("order-1").await;
        app.settle().await;
        assert_eq!((app.status("order-1").await.status().as_str(), app.executions(&id).await), ("EXECUTED", 1));
    })
    .await;
}

#[tokio::test]
async fn a_revocation_takes_the_place_of_the_entry_and_both_are_audited() {
    let folder = Folder::new("root");
    each_with(rooted(&folder), async |app: &mut App| {
        let (key_id, public) = (app.key_id("finance-1"), app.key("finance-1").public().to_b64url());
        let first = certify(app, "finance-1", &key_id, &public).await;
        app.revoke_key("finance-1").await;
        let name = key_id.parse().unwrap();
        let pinned = registry("finance-1").pinned(app.db.store(), &name).await.unwrap();
        assert_eq!(RegistryEntry::parse(&pinned.entry).unwrap(), first, "until the root has spoken");
        let second = certify(app, "finance-1", &key_id, &public).await;
        assert_eq!((second.status.as_str(), second.revoked_at.is_empty()), (RegistryEntry::REVOKED, false));
        let pinned = registry("finance-1").pinned(app.db.store(), &name).await.unwrap();
        assert_eq!(RegistryEntry::parse(&pinned.entry).unwrap(), second);
        verify_entry(&root().public(), &pinned.entry, &pinned.entry_signature).unwrap();
        let told: Vec<String> = app
            .audit()
            .await
            .into_iter()
            .filter(|facts| facts.event == CERTIFIED)
            .map(|facts| facts.digest_of_details)
            .collect();
        let own = |entry: &RegistryEntry| countersign::proof::sha256_hex(entry.canonical().unwrap());
        assert_eq!(told, [own(&first), own(&second)]);
        is_whole(app).await;
        // Neither is a key certified that the database exchanged.
        let others = app.key_id("finance-2").parse().unwrap();
        let refused = registry("finance-2").certify(app.db.store(), &others, &public, &root()).await;
        assert!(refused.unwrap_err().message.contains("another public key"));
        let seen =
            app.call(&app.token("default", "auditor-1", "auditor-1", &[Role::Auditor]), "list_audit", json!({})).await;
        assert!(!seen.body.to_string().contains(&pinned.entry_signature), "digests only");
    })
    .await;
}

#[test]
fn a_signature_over_an_entry_is_none_over_anything_else() {
    let entry = RegistryEntry {
        typ: RegistryEntry::TYPE.to_owned(),
        tenant: "default".to_owned(),
        signer_id: "finance-1".to_owned(),
        key_id: "k".to_owned(),
        alg: "Ed25519".to_owned(),
        public_key: root().public().to_b64url(),
        credential_id: String::new(),
        rp_id: String::new(),
        origins: String::new(),
        enrolled_by: "ops".to_owned(),
        enrolled_at: "2026-01-02T03:04:05.000Z".to_owned(),
        status: RegistryEntry::ACTIVE.to_owned(),
        revoked_at: String::new(),
    };
    let text = entry.canonical().unwrap();
    assert_eq!(RegistryEntry::parse(&text).as_ref(), Some(&entry));
    let signature = countersign::proof::sign_entry(&root(), &text);
    assert!(verify_entry(&root().public(), &text, &signature).is_ok());
    let other = SigningKey::from_seed(&[12; 32]);
    assert!(verify_entry(&other.public(), &text, &signature).is_err());
    assert!(verify_entry(&root().public(), &text.replace("finance-1", "finance-2"), &signature).is_err());
    for bad in ["", "x", &signature[1..], &text] {
        assert!(verify_entry(&root().public(), &text, bad).is_err(), "{bad}");
    }
    let wrong = [
        text.replace("registry/v1", "registry/v2"),
        text.replace("\"status\":\"active\"", "\"status\":\"revoked\""),
        text.replace("\"revoked_at\":\"\"", "\"revoked_at\":\"2026-01-02T03:04:05.000Z\""),
        text.replace("05.000Z", "05Z"),
        text.replace("{\"alg\"", "{ \"alg\""),
        text.replace('}', ",\"x\":\"\"}"),
    ];
    for bad in wrong {
        assert_ne!(bad, text);
        assert_eq!(RegistryEntry::parse(&bad), None, "{bad}");
    }
    assert!(entry.counts_at("2026-01-02T03:04:05.000Z") && !entry.counts_at("2026-01-02T03:04:04.999Z"));
    let ended = RegistryEntry {
        status: RegistryEntry::REVOKED.to_owned(),
        revoked_at: "2026-01-03T00:00:00.000Z".to_owned(),
        ..entry
    };
    assert!(ended.counts_at("2026-01-02T23:59:59.999Z") && !ended.counts_at("2026-01-03T00:00:00.000Z"));
}
