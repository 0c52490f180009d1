//! Decisions: who may give one, over which bytes, how often, until when.

use std::time::Duration;

use countersign::domain::Role;
use countersign::proof::{SigningKey, b64url, key_id_of, sign_detached};
use serde_json::json;

use crate::harness::app::{App, POLICY, Wishes, each, each_with, two_must_approve};
use crate::harness::people::enrolment;
use crate::harness::rpc::Answer;

/// Refused with `code`, nothing recorded, audited.
async fn refused(app: &App, order: &str, answer: &Answer, code: &str) {
    assert_eq!(answer.code(), code, "{}", answer.body);
    let payment = app.payment(order).await;
    assert_eq!(payment.status.as_str(), "AWAITING_SIGNER", "after {code}");
    let id = payment.terms.payment_id.as_str();
    let kept = format!("SELECT decision_id FROM decisions WHERE payment_id = '{id}'");
    assert!(app.db.raw().await.texts(&kept).await.is_empty(), "after {code}");
    assert!(app.audited("decision.refused", code).await >= 1, "{code} is audited");
}

#[tokio::test]
async fn no_token_of_an_agent_reaches_a_signature() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let jws = app.jws("finance-1", &document);
        // The signature is good; who brings it is not.
        for (tool, arguments) in [
            ("confirm_signing", json!({"order_id": "order-1", "signature": jws})),
            ("reject_signing", json!({"order_id": "order-1", "signature": jws, "reason": "x"})),
            ("get_approval", json!({"order_id": "order-1"})),
            ("list_approvals", json!({})),
            ("simulate_signer_online", json!({"signer_id": "finance-1", "online": true})),
            ("resend_notification", json!({"order_id": "order-1"})),
        ] {
            let answer = app.call(&app.agent(), tool, arguments).await;
            assert_eq!(answer.code(), "FORBIDDEN_TOOL", "{tool}");
            assert_eq!(app.audited("tool.forbidden", tool).await, 1, "{tool}");
        }
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
    })
    .await;
}

#[tokio::test]
async fn only_the_right_key_over_the_right_bytes_by_the_right_person_counts() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        app.create("order-2").await;
        app.notify("order-2").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let good = app.jws("finance-1", &document);
        let kid = app.key_id("finance-1");
        let foreign = SigningKey::from_seed(&[99; 32]);
        let (head, signature) = good.split_once("..").unwrap();
        let header = |text: &str| format!("{}..{signature}", b64url(text));
        let mut flipped = good.clone().into_bytes();
        let at = flipped.len() - 10;
        flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };

        let elsewhere = app.document("finance-1", "order-2", "approve", "").await;
        let rejecting = app.document("finance-1", "order-1", "reject", "no").await;
        let of_other = app.document("finance-2", "order-1", "approve", "").await;
        let forged = document.replace("finance-1", "finance-2");
        let cases = [
            ("another key under the right name", sign_detached(&foreign, &kid, &document).unwrap()),
            ("a key that is not enrolled", sign_detached(&foreign, &key_id_of(&foreign.public()), &document).unwrap()),
            ("another signer's key", app.jws("finance-2", &document)),
            ("another payment's signature", app.jws("finance-1", &elsewhere)),
            ("a rejection's signature", app.jws("finance-1", &rejecting)),
            ("another signer's document", app.jws("finance-1", &of_other)),
            ("a document made up", app.jws("finance-1", &forged)),
            ("one bit flipped", String::from_utf8(flipped).unwrap()),
            ("cut off", good[..good.len() - 4].to_owned()),
            ("no signature", format!("{head}..")),
            ("not a JWS", "x".to_owned()),
            ("with its payload attached", format!("{head}.{}.{signature}", b64url(&document))),
            ("alg none", header(&format!(r#"{{"alg":"none","kid":"{kid}","typ":"countersign-approval+jws"}}"#))),
            ("alg HS256", header(&format!(r#"{{"alg":"HS256","kid":"{kid}","typ":"countersign-approval+jws"}}"#))),
            ("another typ", header(&format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"JWT"}}"#))),
            (
                "a key in the header",
                header(&format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"countersign-approval+jws","jwk":{{}}}}"#)),
            ),
        ];
        for (what, jws) in &cases {
            let answer = app.confirm("finance-1", "order-1", jws).await;
            eprintln!("{what}");
            refused(app, "order-1", &answer, "SIGNATURE_INVALID").await;
            assert_eq!(answer.text("field"), "signature", "{what}");
        }
        let brought = app.confirm("finance-2", "order-1", &good).await;
        refused(app, "order-1", &brought, "SIGNATURE_INVALID").await;
        assert_eq!(app.audited("decision.refused", "SIGNATURE_INVALID").await, cases.len() + 1);
        assert_eq!(app.confirm("finance-1", "order-1", &good).await.status(), "SIGNED", "the good one still counts");
    })
    .await;
}

#[tokio::test]
async fn a_revoked_key_counts_no_more() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        app.revoke_key("finance-1").await;
        let answer = app.confirm("finance-1", "order-1", &app.jws("finance-1", &document)).await;
        refused(app, "order-1", &answer, "SIGNATURE_INVALID").await;
        let approval = app.call(&app.signer_token("finance-1"), "get_approval", json!({"order_id": "order-1"})).await;
        assert_eq!(approval.body["to_sign"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn who_is_not_asked_sees_nothing_and_decides_nothing() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        let jws = app.jws("stranger-1", "{}");
        assert_eq!(app.confirm("stranger-1", "order-1", &jws).await.code(), "PAYMENT_NOT_FOUND");
        let arguments = json!({"order_id": "order-1"});
        assert_eq!(
            app.call(&app.signer_token("stranger-1"), "get_approval", arguments).await.code(),
            "PAYMENT_NOT_FOUND"
        );
        assert_eq!(
            app.call(&app.signer_token("stranger-1"), "list_approvals", json!({})).await.body["approvals"],
            json!([])
        );
        // Who may see it for another reason is told plainly.
        let both = app.token("default", "stranger-1", "stranger-1", &[Role::Signer, Role::Operator]);
        let answer = app.call(&both, "confirm_signing", json!({"order_id": "order-1", "signature": jws})).await;
        refused(app, "order-1", &answer, "SIGNER_NOT_ELIGIBLE").await;
        // Nor can an agent pick its accomplice.
        let order = json!({"order_id": "order-9", "amount": "1.00", "signer_id": "stranger-1"});
        let created = app.call(&app.agent(), "create_payment", order).await;
        assert_eq!((created.code().as_str(), created.text("field")), ("SIGNER_NOT_ELIGIBLE", "signer_id"));
    })
    .await;
}

#[tokio::test]
async fn the_person_an_agent_acts_for_does_not_approve() {
    each(async |app: &mut App| {
        let agent = app.token("default", "finance-1", "agent-1", &[Role::Agent]);
        let order = json!({"order_id": "order-1", "amount": "199.00", "notify": true});
        assert_eq!(app.call(&agent, "create_payment", order).await.status(), "AWAITING_SIGNER");
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let answer = app.confirm("finance-1", "order-1", &app.jws("finance-1", &document)).await;
        refused(app, "order-1", &answer, "SELF_APPROVAL_FORBIDDEN").await;
        assert_eq!(
            app.call(&app.signer_token("finance-1"), "list_approvals", json!({})).await.body["approvals"],
            json!([])
        );
        // Nor by way of the signer service, which does not ask them.
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 422);
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.sign_as("finance-2", "order-1").await.status(), "SIGNED");
        app.settle().await;
    })
    .await;
}

#[tokio::test]
async fn a_rejection_ends_the_payment_with_its_reason() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let approval = app.document("finance-2", "order-1", "approve", "").await;
        let rejected = app.reject("finance-1", "order-1", "wrong supplier").await;
        assert_eq!((rejected.status().as_str(), rejected.text("reason")), ("REJECTED", "wrong supplier"));
        // A reason that was not signed is not taken.
        app.create("order-2").await;
        app.notify("order-2").await;
        let document = app.document("finance-1", "order-2", "reject", "one").await;
        let arguments = json!({"order_id": "order-2", "signature": app.jws("finance-1", &document), "reason": "two"});
        let answer = app.call(&app.signer_token("finance-1"), "reject_signing", arguments).await;
        refused(app, "order-2", &answer, "SIGNATURE_INVALID").await;

        // Nobody revives it.
        let late = app.confirm("finance-2", "order-1", &app.jws("finance-2", &approval)).await;
        assert_eq!(late.code(), "PAYMENT_TERMINAL");
        assert_eq!(app.audited("decision.refused", "PAYMENT_TERMINAL").await, 1);
        app.settle().await;
        assert_eq!(app.requests(&payment).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_person_decides_once() {
    each_with(two_must_approve(), async |app: &mut App| {
        app.awaiting("order-1").await;
        assert_eq!(app.sign("order-1").await.status(), "AWAITING_SIGNER");
        let version = app.payment("order-1").await.version;
        // The same again: the same answer, and nothing changes.
        let again = app.sign("order-1").await;
        assert_eq!((again.status().as_str(), &again.body["idempotent_replayed"]), ("AWAITING_SIGNER", &json!(true)));
        assert_eq!(again.body["approvals"], json!({"have": 1, "need": 2}));
        assert_eq!((app.payment("order-1").await.version, app.rows("decisions").await), (version, 1));
        // The opposite: no.
        let changed = app.reject("finance-1", "order-1", "changed my mind").await;
        assert_eq!(changed.code(), "NONCE_CONSUMED");
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
    })
    .await;
}

#[tokio::test]
async fn a_quorum_of_two_needs_two_people() {
    each_with(two_must_approve(), async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let first = app.sign_as("finance-1", "order-1").await;
        assert_eq!((first.status().as_str(), &first.body["approvals"]["have"]), ("AWAITING_SIGNER", &json!(1)));
        app.pass(Duration::from_mins(2)).await;
        assert_eq!(app.requests(&payment).await, 0);
        // A second key of the same person is not a second person.
        let second = SigningKey::from_seed(&[77; 32]);
        enrolment("finance-1", &second).pin(app.db.store(), &second.public()).await.unwrap();
        let form = app.call(&app.signer_token("finance-1"), "get_approval", json!({"order_id": "order-1"})).await;
        let kid = key_id_of(&second.public());
        let forms = form.body["to_sign"].as_array().unwrap();
        let form = forms.iter().find(|form| form["key_id"] == kid.as_str()).unwrap();
        let jws = sign_detached(&second, &kid, form["decision_document"].as_str().unwrap()).unwrap();
        assert_eq!(app.confirm("finance-1", "order-1", &jws).await.code(), "NONCE_CONSUMED");

        let last = app.sign_as("finance-2", "order-1").await;
        assert_eq!((last.status().as_str(), &last.body["approvals"]["have"]), ("SIGNED", &json!(2)));
        app.settle().await;
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn identical_decisions_at_the_same_moment_are_one() {
    each(async |app: &mut App| {
        for round in 0..8_usize {
            let order = format!("order-{round}");
            let payment = app.awaiting(&order).await;
            let document = app.document("finance-1", &order, "approve", "").await;
            let jws = app.jws("finance-1", &document);
            let calls = (0..8).map(|_| app.confirm("finance-1", &order, &jws));
            let answers = futures::future::join_all(calls).await;
            assert!(answers.iter().all(|answer| answer.status() == "SIGNED"), "{answers:?}");
            let fresh = answers.iter().filter(|answer| answer.body["idempotent_replayed"].is_null()).count();
            assert_eq!((fresh, app.rows("decisions").await), (1, round + 1));
            app.settle().await;
            assert_eq!(app.executions(&payment).await, 1);
        }
        assert_eq!(app.audit().await.iter().filter(|facts| facts.event == "decision.approve").count(), 8);
    })
    .await;
}

#[tokio::test]
async fn approve_and_reject_at_the_same_moment_leave_one_end() {
    each(async |app: &mut App| {
        for round in 0..6 {
            let order = format!("order-{round}");
            let payment = app.awaiting(&order).await;
            let approve = app.document("finance-1", &order, "approve", "").await;
            let reject = app.document("finance-2", &order, "reject", "no").await;
            let rejection = json!({"order_id": order, "signature": app.jws("finance-2", &reject), "reason": "no"});
            let (jws, token) = (app.jws("finance-1", &approve), app.signer_token("finance-2"));
            let (yes, no) =
                tokio::join!(app.confirm("finance-1", &order, &jws), app.call(&token, "reject_signing", rejection));
            app.settle().await;
            let end = app.payment(&order).await.status.as_str();
            // Whoever was first: a rejection ends it unpaid; after the quorum it is surplus and has no effect.
            let (expected, requests) = match yes.status().as_str() {
                "SIGNED" => ("EXECUTED", 1),
                "(PAYMENT_TERMINAL)" => ("REJECTED", 0),
                other => panic!("{other}"),
            };
            assert_eq!(end, expected, "{}", no.body);
            assert_eq!(app.requests(&payment).await, requests);
        }
    })
    .await;
}

#[tokio::test]
async fn expiry_is_judged_when_the_decision_is_written_not_when_a_sweeper_comes() {
    each(async |app: &mut App| {
        app.awaiting("order-1").await;
        app.create("order-2").await;
        app.notify("order-2").await;
        let (one, two) = (app.payment("order-1").await, app.payment("order-2").await);
        let first = app.document("finance-1", "order-1", "approve", "").await;
        let second = app.document("finance-1", "order-2", "approve", "").await;
        // The worker does not come. Just before order-1's instant, and just after order-2's.
        let (_, now) = app.db.store().next_due().await.unwrap();
        let left = one.terms.expires_at.since(now).saturating_sub(Duration::from_secs(3));
        app.clock.advance(i64::try_from(left.as_micros()).unwrap());
        assert_eq!(app.confirm("finance-1", "order-1", &app.jws("finance-1", &first)).await.status(), "SIGNED");
        let (_, now) = app.db.store().next_due().await.unwrap();
        app.clock.advance(i64::try_from(two.terms.expires_at.since(now).as_micros()).unwrap());
        let late = app.confirm("finance-1", "order-2", &app.jws("finance-1", &second)).await;
        refused(app, "order-2", &late, "PAYMENT_EXPIRED").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED", "it is started by execute_by, not expires_at");
        assert_eq!(app.status("order-2").await.status(), "EXPIRED");
    })
    .await;
}

#[tokio::test]
async fn a_decision_after_the_end_is_refused_audited_and_moves_nothing() {
    each(async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        assert_eq!(app.cancel("order-1").await.status(), "CANCELLED");
        assert_eq!(app.cancel("order-1").await.status(), "CANCELLED", "calling off twice is answered alike");
        let late = app.confirm("finance-1", "order-1", &app.jws("finance-1", &document)).await;
        assert_eq!((late.code().as_str(), late.text("status")), ("PAYMENT_TERMINAL", "CANCELLED"));
        assert_eq!(app.audited("decision.refused", "PAYMENT_TERMINAL").await, 1);
        app.settle().await;
        assert_eq!((app.requests(&payment).await, app.rows("decisions").await), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_signature_over_another_payment_is_none_at_the_execution() {
    each(async |app: &mut App| {
        let [one, other] = [app.signed("order-1").await, app.awaiting("order-2").await];
        app.sign_as("finance-2", "order-2").await;
        // Somebody with access to the database puts what was signed for one payment beneath another.
        let keep = format!("CREATE TABLE kept AS SELECT * FROM decisions WHERE payment_id = '{one}'");
        let swap = format!(
            "DELETE FROM decisions WHERE payment_id = '{one}'; \
             UPDATE decisions SET payment_id = '{one}' WHERE payment_id = '{other}'"
        );
        app.db.raw().await.execute(&format!("{keep}; {swap}")).await.unwrap();
        app.settle().await;
        assert_eq!((app.requests(&one).await, app.requests(&other).await), (0, 0));
        for order in ["order-1", "order-2"] {
            assert_eq!(
                (app.payment(order).await.status.as_str(), app.payment(order).await.round),
                ("AWAITING_SIGNER", 2)
            );
        }
        let back = format!(
            "UPDATE decisions SET payment_id = '{other}' WHERE payment_id = '{one}'; \
             INSERT INTO decisions SELECT * FROM kept; DROP TABLE kept"
        );
        app.db.raw().await.execute(&back).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_quorum_that_is_lost_before_the_execution_is_asked_for_anew() {
    each_with(two_must_approve(), async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let old = app.document("finance-1", "order-1", "approve", "").await;
        app.sign_as("finance-1", "order-1").await;
        assert_eq!(app.sign_as("finance-2", "order-1").await.status(), "SIGNED");
        app.revoke_key("finance-2").await;
        app.settle().await;
        let after = app.status("order-1").await;
        assert_eq!((after.status().as_str(), &after.body["approvals"]["have"]), ("AWAITING_SIGNER", &json!(0)));
        assert_eq!((app.payment("order-1").await.round, app.requests(&payment).await), (2, 0));
        assert_eq!(app.payment("order-1").await.notice.registered_round, 2, "the signer service knows the new round");
        // The old signature says nothing about the new round.
        let stale = app.confirm("finance-1", "order-1", &app.jws("finance-1", &old)).await;
        assert_eq!((stale.code().as_str(), stale.text("next_action")), ("SIGNING_ROUND_STALE", "get_approval"));
        assert_eq!(app.audited("decision.refused", "SIGNING_ROUND_STALE").await, 1);
        // A signature over neither round's bytes is no signature at all.
        let other = old.replace("approve", "reject");
        let wrong = app.confirm("finance-1", "order-1", &app.jws("finance-1", &other)).await;
        assert_eq!(wrong.code(), "SIGNATURE_INVALID");
        // With a new key of the second person it goes on.
        let key = SigningKey::from_seed(&[55; 32]);
        enrolment("finance-2", &key).pin(app.db.store(), &key.public()).await.unwrap();
        assert_eq!(app.sign_as("finance-1", "order-1").await.body["approvals"]["have"], 1);
        let document = app.document("finance-2", "order-1", "approve", "").await;
        let jws = sign_detached(&key, &key_id_of(&key.public()), &document).unwrap();
        assert_eq!(app.confirm("finance-2", "order-1", &jws).await.status(), "SIGNED");
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        assert_eq!(app.executions(&payment).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_policy_made_stricter_before_the_execution_is_kept() {
    each(async |app: &mut App| {
        let payment = app.signed("order-1").await;
        app.change_policy(POLICY.replace("required = 1", "required = 2"));
        app.restart().await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.requests(&payment).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_forged_decision_that_the_signer_service_keeps_is_refused_and_audited_once() {
    each_with(Wishes::default().without_keys_at_the_service(), async |app: &mut App| {
        let payment = app.awaiting("order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let culprit = SigningKey::from_seed(&[66; 32]);
        let forged = sign_detached(&culprit, &app.key_id("finance-1"), &document).unwrap();
        assert_eq!(app.decide_on_page("order-1", &document, &forged).await, 200, "the service can't tell");
        assert_eq!(app.deliver_callbacks().await, 1);
        for _ in 0..3 {
            app.pass(Duration::from_secs(31)).await;
        }
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER");
        assert_eq!(app.audited("decision.refused", "SIGNATURE_INVALID").await, 1, "audited once, however often shown");
        assert_eq!(app.requests(&payment).await, 0);
        // The signer's own decision still gets through beside it.
        assert_eq!(app.decide_on_page("order-1", &document, &app.jws("finance-1", &document)).await, 200);
        app.deliver_callbacks().await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
    })
    .await;
}
