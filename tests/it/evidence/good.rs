//! Payments that went as they may, and their bundles.

use std::time::Duration;

use countersign::domain::Choice;
use countersign::proof::decision_digest;
use serde_json::json;

use super::{bundle, certify, certify_all, checkpoints};
use crate::harness::app::App;
use crate::harness::folder::Folder;
use crate::harness::passkey::{Odd, SoftPasskey};
use crate::passkeys::{decide, document, enrolled};

/// The bundles of one desk's payments.
#[derive(Clone)]
pub(super) struct Good {
    /// Approved with a key file, executed.
    pub(super) jws: String,
    /// Approved with a passkey, executed.
    pub(super) passkey: String,
    /// Approved by two, executed, with a third approval that was one too many.
    pub(super) two: String,
    /// Paid by hand, on two people's word.
    pub(super) by_hand: String,
    /// Refused by its signer.
    pub(super) rejected: String,
    /// Nobody has decided.
    pub(super) open: String,
    /// Its entries are under two checkpoints.
    pub(super) apart: String,
    /// Executed, and no checkpoint covers that yet.
    pub(super) fresh: String,
    /// A new round was asked for, and signed.
    pub(super) again: String,
    /// The same as `jws`, before the root had signed anything.
    pub(super) rootless: String,
}

/// Approves an order with a passkey, through the page.
pub(super) async fn approve(app: &App, passkey: &SoftPasskey, person: &str, order: &str) {
    let text = document(app, person, order, Choice::Approve).await;
    let assertion = passkey.sign(&decision_digest(&text), Odd::default());
    assert_eq!(decide(app, order, &text, &assertion).await, (200, String::new()));
    app.deliver_callbacks().await;
    app.settle().await;
}

async fn propose(app: &App, order: &str, amount: &str) {
    let asked = json!({"order_id": order, "amount": amount, "memo": "Invoice 7 \u{2014} \"März\"", "notify": true});
    assert_eq!(app.call(&app.agent(), "create_payment", asked).await.status(), "AWAITING_SIGNER");
}

/// Lets it all happen at a desk whose root's public half is in `folder`.
pub(super) async fn told(app: &mut App, folder: &Folder) -> Good {
    let checkpoints = checkpoints(app, folder).await;
    certify_all(app).await;
    let (passkey, key_id) = enrolled(app, "finance-2").await;
    let pinned = super::registry("finance-2").pinned(app.db.store(), &key_id.parse().unwrap()).await.unwrap();
    certify(app, "finance-2", &key_id, &pinned.public_key).await;

    propose(app, "apart", "20.00").await;
    propose(app, "open", "21.00").await;
    checkpoints.write_all().await.unwrap();
    for order in ["jws", "passkey", "rejected", "by-hand", "rootless"] {
        propose(app, order, "199.00").await;
    }
    propose(app, "two", "900.00").await;
    app.sign("jws").await;
    approve(app, &passkey, "finance-2", "passkey").await;
    app.sign("two").await;
    approve(app, &passkey, "finance-2", "two").await;
    app.sign_as("finance-3", "two").await;
    app.reject("finance-1", "rejected", "not ours").await;
    app.call(&app.operator(), "hold_payment", json!({"order_id": "by-hand", "reason": "the rail is down"})).await;
    for person in ["operator-1", "operator-2"] {
        let word = json!({"order_id": "by-hand", "reference": "bank-77", "evidence": "on the statement"});
        app.call(&app.operator_named(person), "attest_executed", word).await;
    }
    app.sign_as("finance-3", "apart").await;
    app.settle().await;
    // A signature is void when its key is revoked before the money moves.
    propose(app, "again", "900.00").await;
    app.sign_as("finance-3", "again").await;
    let key = app.key_id("finance-3").parse().unwrap();
    let public = app.key("finance-3").public().to_b64url();
    super::registry("finance-3").revoke(app.db.store(), &key).await.unwrap();
    certify(app, "finance-3", key.as_str(), &public).await;
    app.sign_as("finance-1", "again").await;
    app.pass(Duration::from_secs(1)).await;
    app.sign_as("finance-1", "again").await;
    approve(app, &passkey, "finance-2", "again").await;
    app.sign("rootless").await;
    app.settle().await;
    checkpoints.write_all().await.unwrap();
    app.create("fresh").await;
    app.sign("fresh").await;
    app.settle().await;
    for order in ["jws", "passkey", "two", "by-hand", "apart", "again", "fresh", "rootless"] {
        assert_eq!(app.payment(order).await.status.as_str(), "EXECUTED", "{order}");
    }
    let rootless = bundle(app, "rootless").await;
    Good {
        jws: bundle(app, "jws").await,
        passkey: bundle(app, "passkey").await,
        two: bundle(app, "two").await,
        by_hand: bundle(app, "by-hand").await,
        rejected: bundle(app, "rejected").await,
        open: bundle(app, "open").await,
        apart: bundle(app, "apart").await,
        fresh: bundle(app, "fresh").await,
        again: bundle(app, "again").await,
        rootless: unsigned(&rootless),
    }
}

/// What a desk without a root gives.
fn unsigned(text: &str) -> String {
    let mut bundle = super::json(text);
    for kept in bundle["registry"].as_array_mut().unwrap() {
        kept["signature"] = json!("");
    }
    bundle.to_string()
}
