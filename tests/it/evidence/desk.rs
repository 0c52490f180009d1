//! What a desk gives to whom, and what is never in it.

use countersign::domain::Role;
use countersign::proof::{NoteVerifier, Trust};
use serde_json::{Value, json};

use super::good::told;
use super::{bundle, certify_all, checkpoints, faults, file, json as parsed, rooted, trust};
use crate::harness::app::{App, RAIL_API_KEY, SIGNER_API_KEY, each, each_with};
use crate::harness::folder::Folder;

#[tokio::test]
async fn the_evidence_of_every_kind_of_payment_holds_on_both_engines() {
    let folder = Folder::new("evidence");
    let wishes = rooted(&folder);
    each_with(wishes, async |app: &mut App| {
        let own = Folder::new("evidence");
        let good = told(app, &own).await;
        for text in [&good.jws, &good.passkey, &good.two, &good.rejected, &good.open, &good.apart, &good.again] {
            assert_eq!(faults(text, &trust()), [""; 0]);
        }
        let by_hand = faults(&good.by_hand, &trust());
        assert!(matches!(by_hand.as_slice(), [only] if only.starts_with("quorum not_checked")), "{by_hand:?}");
        let fresh = faults(&good.fresh, &trust());
        assert!(matches!(fresh.as_slice(), [only] if only.starts_with("checkpoint not_checked")), "{fresh:?}");
        // Nobody's keys: nothing fails, and nothing passes for more than it is.
        let keyless = faults(&good.jws, &Trust::default());
        assert!(matches!(keyless.as_slice(), [registry, checkpoint]
            if registry.starts_with("registry not_checked") && checkpoint.starts_with("checkpoint not_checked")));
        assert_eq!(parsed(&good.two)["decisions"][2]["standing"], "surplus");
        assert_eq!(parsed(&good.again)["decisions"][0]["standing"], "void");
        assert_eq!(parsed(&good.apart)["audit"].as_array().unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn the_tool_and_the_address_give_the_same_and_refuse_alike() {
    each(async |app: &mut App| {
        let id = app.signed("order-1").await;
        app.settle().await;
        let auditor = app.auditor();
        let by_tool = app.call(&auditor, "get_evidence", json!({"order_id": "order-1"})).await;
        let (status, text) = file(app, &auditor, &id).await;
        let mut by_address = parsed(&text);
        by_address["generated_at"] = by_tool.body["evidence"]["generated_at"].clone();
        assert_eq!((status, &by_address), (200, &by_tool.body["evidence"]));
        assert_eq!(by_tool.text("evidence_path"), format!("/payments/{id}/evidence"));

        let code = |(status, text): (u16, String)| (status, parsed(&text)["error_code"].as_str().unwrap().to_owned());
        let strange = app.token("another", "auditor-1", "auditor-1", &[Role::Auditor]);
        let refused = |status: u16, name: &str| (status, name.to_owned());
        assert_eq!(code(file(app, "x", &id).await), refused(401, "UNAUTHENTICATED"));
        assert_eq!(code(file(app, &app.agent(), &id).await), refused(403, "FORBIDDEN_TOOL"));
        assert_eq!(code(file(app, &app.signer_token("finance-1"), &id).await), refused(403, "FORBIDDEN_TOOL"));
        assert_eq!(code(file(app, &strange, &id).await), refused(404, "PAYMENT_NOT_FOUND"));
        assert_eq!(
            code(file(app, &auditor, "pay_00000000000000000000000000").await),
            refused(404, "PAYMENT_NOT_FOUND")
        );
        assert_eq!(code(file(app, &auditor, "x").await), refused(404, "PAYMENT_NOT_FOUND"));
        assert_eq!(app.audited_events("tool.forbidden").await, 2, "who asks for what they may not see is audited");

        let url = format!("{}/payments/{id}/evidence", app.config.server.public_url);
        let request = || app.http.get(&url).bearer_auth(&auditor);
        let elsewhere = request().header("origin", "https://evil.example").send().await.unwrap();
        assert_eq!(elsewhere.status(), 403);
        let answer = request().send().await.unwrap();
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!((header("cache-control"), header("content-type")), ("no-store".into(), "application/json".into()));
        assert!(header("x-request-id").starts_with("req_"));
        assert_eq!(app.http.post(&url).bearer_auth(&auditor).send().await.unwrap().status(), 405);
    })
    .await;
}

#[tokio::test]
async fn a_bundle_holds_nothing_of_other_payments_and_no_secret() {
    let folder = Folder::new("evidence");
    each_with(rooted(&folder), async |app: &mut App| {
        let own = Folder::new("evidence");
        certify_all(app).await;
        let checkpoints = checkpoints(app, &own).await;
        app.create("order-1").await;
        let others: Vec<String> = futures::future::join_all((0..5).map(async |n| {
            let asked = json!({"order_id": format!("secret-{n}"), "amount": "7.77", "payee": "demo-payee-001", "memo": "private"});
            app.call(&app.other_agent(), "create_payment", asked).await.text("payment_id").to_owned()
        }))
        .await;
        app.sign("order-1").await;
        app.settle().await;
        checkpoints.write_all().await.unwrap();
        let text = bundle(app, "order-1").await;
        assert_eq!(faults(&text, &trust()), [""; 0]);
        let hashes = parsed(&text)["audit"][0]["items"].as_array().unwrap().iter().filter(|item| !item.as_str().unwrap().starts_with('{')).count();
        assert!(hashes >= 5, "{hashes} entries of others");
        let secrets = [RAIL_API_KEY, SIGNER_API_KEY, "whsec_", "Bearer", "PRIVATE", "secret-", "private", "agent-2", "7.77"];
        for secret in others.iter().map(String::as_str).chain(secrets) {
            assert!(!text.contains(secret), "{secret}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_too_long_for_a_model_is_a_file() {
    each(async |app: &mut App| {
        let id = app.create("order-1").await.text("payment_id").to_owned();
        let mut tx = app.db.store().begin().await.unwrap();
        for _ in 0..8_000 {
            tx.audit(countersign::store::AuditNote {
                tenant: "default".to_owned(),
                event: "e".to_owned(),
                ..Default::default()
            });
        }
        tx.commit().await.unwrap();
        app.cancel("order-1").await;
        let auditor = app.auditor();
        let answer = app.call(&auditor, "get_evidence", json!({"payment_id": id})).await;
        assert_eq!((answer.status().as_str(), &answer.body["evidence"]), ("CANCELLED", &Value::Null));
        assert!(answer.body.to_string().len() < 2_000 && answer.text("message").contains("/payments/pay_"));
        let (status, text) = file(app, &auditor, &id).await;
        assert_eq!(status, 200);
        assert!(text.len() > 256 * 1024);
        assert!(
            faults(&text, &trust()).iter().all(|fault| fault.contains("not_checked")),
            "{:?}",
            faults(&text, &trust())
        );
    })
    .await;
}

#[tokio::test]
async fn a_bundle_from_before_the_rails_word_was_kept_says_so() {
    let folder = Folder::new("evidence");
    each_with(rooted(&folder), async |app: &mut App| {
        certify_all(app).await;
        app.signed("order-1").await;
        app.settle().await;
        app.db.raw().await.execute("DELETE FROM receipts").await.unwrap();
        let text = bundle(app, "order-1").await;
        let found = faults(&text, &trust());
        assert!(
            matches!(found.as_slice(), [execution, _] if execution.starts_with("execution not_checked")),
            "{found:?}"
        );
        let other = Trust {
            checkpoint_keys: vec![NoteVerifier::parse(&super::noter().verifier().to_text()).unwrap()],
            ..trust()
        };
        assert_eq!(faults(&text, &other), found);
    })
    .await;
}
