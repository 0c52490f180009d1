//! What happens while an audit is verified is no break of it.

use countersign::journal::verify::{AuditReport, BreakKind, verify_audit};
use countersign::proof::{PublicKey, SigningKey, key_id_of, sign_detached};
use serde_json::json;

use super::story::{checkpoints, configured, source};
use crate::harness::app::{App, Wishes, each_in_turn};
use crate::harness::folder::Folder;
use crate::harness::people::enrolment;
use crate::harness::whole::is_whole;

/// Does something in the middle of what is going on.
fn meanwhile(doing: impl Future<Output = ()>) {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(doing));
}

fn new_key() -> SigningKey {
    SigningKey::from_seed(&[77; 32])
}

/// `finance-1` gets another key and approves the order with it.
async fn approved_with_a_new_key(app: &App, order: &str) {
    let key = new_key();
    let name = key_id_of(&key.public());
    assert!(enrolment("finance-1", &key).pin(app.db.store(), &key.public()).await.unwrap());
    let approval = app.call(&app.signer_token("finance-1"), "get_approval", json!({"order_id": order})).await;
    let forms = approval.body["to_sign"].as_array().unwrap();
    let form = forms.iter().find(|form| form["key_id"] == json!(name)).unwrap();
    let jws = sign_detached(&key, &name, form["decision_document"].as_str().unwrap()).unwrap();
    assert!(!app.confirm("finance-1", order, &jws).await.is_error);
    app.settle().await;
    assert_eq!(app.status(order).await.status(), "EXECUTED");
}

/// A page of payments and one more, `last`, on which `doing` happens when the keys were looked at long before; what a verifier
/// says of them.
async fn verified_while(app: &App, doing: impl AsyncFn() + Sync) -> AuditReport {
    for n in 0..200 {
        assert!(!app.create(&format!("order-{n}")).await.is_error);
    }
    app.awaiting("last").await;
    let mut done = false;
    let report = verify_audit(app.db.store(), "default", None, &mut |what, _| {
        if what == "payments" && !std::mem::replace(&mut done, true) {
            meanwhile(doing());
        }
    })
    .await;
    assert!(done);
    report.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_enrolled_and_used_meanwhile_counts() {
    each_in_turn(Wishes::default().patient(), async |app: &mut App| {
        let report = verified_while(app, async || approved_with_a_new_key(app, "last").await).await;
        assert_eq!((report.breaks, report.payments), (vec![], 201));
        is_whole(app).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_takes_an_enrolled_ones_place_meanwhile_is_found() {
    each_in_turn(Wishes::default().patient(), async |app: &mut App| {
        let (own, other) = (new_key().public(), SigningKey::from_seed(&[78; 32]).public());
        let set = |key: &PublicKey| {
            let (key, name) = (key.to_b64url(), key_id_of(&own));
            format!("UPDATE signer_keys SET public_key = '{key}' WHERE key_id = '{name}'")
        };
        let report = verified_while(app, async || {
            approved_with_a_new_key(app, "last").await;
            app.db.raw().await.execute(&set(&other)).await.unwrap();
        });
        let kinds: Vec<_> = report.await.breaks.iter().map(|found| found.kind).collect();
        assert!(kinds.contains(&BreakKind::KeyUnaudited) && kinds.contains(&BreakKind::DecisionInvalid), "{kinds:?}");
        app.db.raw().await.execute(&set(&own)).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_made_meanwhile_vouches_for_all_that_was_read() {
    each_in_turn(Wishes::default().patient(), async |app: &mut App| {
        let folder = Folder::new("meanwhile");
        let config = configured(app, &folder);
        let checkpoints = checkpoints(app, &config).await;
        app.create("order-1").await;
        assert_eq!(checkpoints.write_all().await.unwrap().len(), 1);
        let (app, mut done) = (&*app, false);
        let sink = source(&folder);
        let mut progress = |what: &str, _| {
            if what == "checkpoints" && !std::mem::replace(&mut done, true) {
                meanwhile(async {
                    app.create("order-2").await;
                    assert_eq!(checkpoints.write_all().await.unwrap().len(), 1);
                });
            }
        };
        let report = verify_audit(app.db.store(), "default", Some(&sink), &mut progress).await.unwrap();
        let covered = report.covered.unwrap();
        assert_eq!((report.breaks, covered.checkpoints, covered.uncovered), (vec![], 2, 0));
        assert!(covered.up_to > report.entries, "{covered:?}");
    })
    .await;
}
