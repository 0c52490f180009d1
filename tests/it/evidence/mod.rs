//! Evidence: what a desk gives, what both verifiers say of it, and of what was tampered with.

mod agreed;
mod any;
mod command;
mod desk;
mod good;
mod people;
mod root;
mod stepped;
mod tampered;
mod vectors;

use std::sync::Arc;

use countersign::ambient::SystemEntropy;
use countersign::app::{self, Ambient};
use countersign::journal::Checkpoints;
use countersign::proof::{NoteSigner, RegistryEntry, SigningKey, Trust, Verdict, verify};
use serde_json::Value;

use crate::desk_policy::policy;
use crate::harness::app::{App, PEOPLE, Wishes};
use crate::harness::folder::Folder;
use crate::harness::people::registry;

/// The registry's root of every test here.
fn root() -> SigningKey {
    SigningKey::from_seed(&[11; 32])
}

/// What signs checkpoints.
fn noter() -> NoteSigner {
    NoteSigner::from_seed("pay.example", &[9; 32]).unwrap()
}

/// What an auditor was handed.
fn trust() -> Trust {
    Trust { root: Some(root().public()), checkpoint_keys: vec![noter().verifier().clone()] }
}

/// From a thousand dollars on two of finance, then one of the board.
const RULES: &str = "[[rule]]\nid = \"two\"\ncurrency = \"USD\"\namount_at_least = \"500.00\"\n\
    levels = [{ group = \"finance\", required = 2 }]\n\
    [[rule]]\nid = \"one\"\ncurrency = \"USD\"\nlevels = [{ group = \"finance\", required = 1 }]\n";

/// A desk that counts only keys of the root's, whose public half is in `folder`.
fn rooted(folder: &Folder) -> Wishes {
    ruled(folder, policy(RULES))
}

/// The same under another policy.
fn ruled(folder: &Folder, policy: String) -> Wishes {
    let file = folder.write("root.pub.pem", &root().public().to_pem().unwrap());
    let wishes = Wishes::default().patient().policy(policy);
    wishes.config(move |config| config.registry.root_public_key_file.clone_from(&file))
}

/// The root's word on a key.
async fn certify(app: &App, person: &str, key_id: &str, public_key: &str) -> RegistryEntry {
    let key_id = key_id.parse().unwrap();
    registry(person).certify(app.db.store(), &key_id, public_key, &root()).await.unwrap()
}

/// The root's word on the key file of everyone.
async fn certify_all(app: &App) {
    for person in PEOPLE {
        certify(app, person, &app.key_id(person), &app.key(person).public().to_b64url()).await;
    }
}

/// Who makes checkpoints of the desk's audit into `folder`.
async fn checkpoints(app: &App, folder: &Folder) -> Arc<Checkpoints> {
    let mut config = app.config.clone();
    config.audit.checkpoint_folder = folder.join("sink");
    config.audit.checkpoint_key_file = folder.write("checkpoint-key", &noter().to_text());
    let ambient = Ambient { clock: Arc::clone(&app.clock) as _, entropy: Arc::new(SystemEntropy) };
    app::checkpoints(&config, app.db.another().await, &ambient).unwrap().unwrap()
}

/// The file that an auditor is given.
async fn file(app: &App, token: &str, payment_id: &str) -> (u16, String) {
    let url = format!("{}/payments/{payment_id}/evidence", app.config.server.public_url);
    let answer = app.http.get(url).bearer_auth(token).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// The bundle's text of an order's payment.
async fn bundle(app: &App, order: &str) -> String {
    let payment = app.payment(order).await.terms.payment_id.to_string();
    let (status, text) = file(app, &app.auditor(), &payment).await;
    assert_eq!(status, 200, "{text}");
    text
}

/// The steps that are not ok, with why.
fn faults(text: &str, trust: &Trust) -> Vec<String> {
    let report = verify(text.as_bytes(), trust);
    let bad = report.steps.iter().filter(|checked| checked.verdict != Verdict::Ok);
    bad.map(|checked| format!("{} {}: {:?}", checked.step.as_str(), checked.verdict.as_str(), checked.why)).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
