//! Passkeys: how one comes to count, what it approves, and what no answer of one does.

use countersign::ambient::SystemEntropy;
use countersign::domain::Choice;
use countersign::journal::InvitationAnswer;
use countersign::journal::verify::verify_audit;
use countersign::proof::{
    DecisionDocument, EnrolmentDocument, PASSKEY, RelyingParty, decision_digest, enrolment_digest,
};
use serde_json::{Value, json};

use crate::harness::app::{App, SIGNER_API_KEY, each};
use crate::harness::passkey::{Odd, SoftPasskey};
use crate::harness::people::registry;
use crate::harness::rpc::Answer;
use crate::harness::whole::is_whole;

/// The site of the signer service's pages.
pub(crate) fn site(app: &App) -> RelyingParty {
    let id = url::Url::parse(&app.pages).unwrap().host_str().unwrap().to_owned();
    RelyingParty { id, origins: [app.pages.clone()].into() }
}

/// Invites a person; the page's address.
pub(crate) async fn invite(app: &App, person: &str) -> (EnrolmentDocument, String) {
    let lasts = std::time::Duration::from_hours(1);
    let document = registry(person).invite(app.db.store(), "aud", lasts, &SystemEntropy).await.unwrap();
    let text = document.canonical().unwrap();
    let invited = app
        .http
        .post(format!("{}/api/v1/invitations", app.signer.url()))
        .bearer_auth(SIGNER_API_KEY)
        .header("idempotency-key", &document.invitation_id)
        .json(&json!({"document": text}))
        .send()
        .await
        .unwrap();
    assert_eq!(invited.status(), 201);
    let invited: Value = invited.json().await.unwrap();
    (document, invited["url"].as_str().unwrap().to_owned())
}

async fn answer(app: &App, url: &str, passkey: &SoftPasskey, digest: &str) -> (u16, Value) {
    let made = passkey.register(digest, Odd::default());
    let made = json!({"label": "phone", "client_data_json": made.client_data_json,
        "attestation_object": made.attestation_object});
    let answered = app.http.post(url).json(&made).send().await.unwrap();
    (answered.status().as_u16(), answered.json().await.unwrap())
}

/// Pins what was answered to an invitation, as `keys pin` does.
pub(crate) async fn pin(app: &App, person: &str, invitation: &str, code: &str) -> Result<String, String> {
    let url = format!("{}/api/v1/invitations/{invitation}", app.signer.url());
    let told: Value = app.http.get(url).bearer_auth(SIGNER_API_KEY).send().await.unwrap().json().await.unwrap();
    let registration = serde_json::from_value(told["registration"].clone()).unwrap();
    let answer = InvitationAnswer { invitation_id: invitation, registration: &registration, label: "phone", code };
    let pinned = registry(person).pin_passkey(app.db.store(), &site(app), &answer).await;
    let pinned = pinned.map_err(|refusal| refusal.message)?;
    let body = json!({"tenant": "default", "credential_id": pinned.credential_id, "alg": pinned.alg, "public_key": pinned.public_key,
        "label": pinned.label, "state": "active"});
    let url = format!("{}/api/v1/signers/{person}/passkeys/{}", app.signer.url(), pinned.key_id);
    let put = app.http.put(url).bearer_auth(SIGNER_API_KEY).json(&body).send().await.unwrap();
    assert_eq!(put.status(), 200);
    Ok(pinned.key_id)
}

/// A passkey of a person's that counts, and the registry's name for it.
pub(crate) async fn enrolled(app: &App, person: &str) -> (SoftPasskey, String) {
    let passkey = SoftPasskey::new(&site(app));
    let (document, url) = invite(app, person).await;
    let (status, body) = answer(app, &url, &passkey, &enrolment_digest(&document.canonical().unwrap())).await;
    assert_eq!(status, 200, "{body}");
    let key_id = pin(app, person, &document.invitation_id, body["code"].as_str().unwrap()).await.unwrap();
    (passkey, key_id)
}

/// What `person` signs with a passkey.
pub(crate) async fn document(app: &App, person: &str, order: &str, choice: Choice) -> String {
    let text = app.document(person, order, choice.as_str(), "").await;
    let document = DecisionDocument::parse(&text).unwrap();
    DecisionDocument { key_id: PASSKEY.to_owned(), ..document }.canonical().unwrap()
}

/// Sends a decision through the sign page.
pub(crate) async fn decide(app: &App, order: &str, document: &str, assertion: &str) -> (u16, String) {
    let link = app.call(&app.agent(), "get_sign_link", json!({"order_id": order})).await;
    let url = format!("{}/decisions", link.text("sign_url"));
    let body = json!({"document": document, "proof": {"type": "webauthn", "value": assertion}});
    let answer = app.http.post(url).json(&body).send().await.unwrap();
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (status, body["error_code"].as_str().unwrap_or_default().to_owned())
}

/// Has the signer service keep a decision that it never checked: it is in someone else's hands.
pub(crate) async fn smuggle(app: &App, order: &str, person: &str, document: &str, assertion: &str, at: i64) -> Answer {
    let payment = app.payment(order).await.terms.payment_id.to_string();
    let sql = format!(
        "INSERT INTO decisions SELECT 'dec_{payment}_{at}', id, round, '{person}', 'approve', '{document}', 'webauthn', \
         '{assertion}', 'smuggled-{at}', 1, {at}, '', '' FROM payments WHERE reference = '{payment}'"
    );
    app.signer_db().await.execute(&sql).await.unwrap();
    app.call(&app.agent(), "check_sign_status", json!({"order_id": order})).await
}

#[tokio::test]
async fn a_passkey_that_was_invited_made_and_pinned_approves_a_payment_that_is_paid_once() {
    each(async |app: &mut App| {
        let (passkey, key_id) = enrolled(app, "finance-1").await;
        let id = app.awaiting("order-1").await;
        let text = document(app, "finance-1", "order-1", Choice::Approve).await;
        let assertion = passkey.sign(&decision_digest(&text), Odd::default());
        assert_eq!(decide(app, "order-1", &text, &assertion).await, (200, String::new()));
        // Again, by a double click: the same answer, and nothing new.
        assert_eq!(decide(app, "order-1", &text, &assertion).await, (200, String::new()));
        let again = passkey.sign(&decision_digest(&text), Odd::default());
        assert_eq!(decide(app, "order-1", &text, &again).await, (200, String::new()));
        assert_eq!(app.deliver_callbacks().await, 1);
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        let kept = format!("SELECT key_id || ' ' || proof_type || ' ' || via FROM decisions WHERE payment_id = '{id}'");
        assert_eq!(app.db.raw().await.texts(&kept).await, [format!("{key_id} webauthn signer_service")]);
        assert_eq!(app.audited("signer_key.enrolled", &format!("finance-1 {key_id}")).await, 1);
        assert_eq!(app.audited_events("signer_key.invited").await, 1);
        is_whole(app).await;
        // A decision that names another key than signed it is found.
        let hand = "UPDATE decisions SET key_id = 'passkey-of-nobody'";
        assert_eq!(app.db.raw().await.execute(hand).await.unwrap(), 1);
        let breaks = verify_audit(app.db.store(), "default", None, &mut |_, _| {}).await.unwrap().breaks;
        assert!(!breaks.is_empty());
        app.db.raw().await.execute(&format!("UPDATE decisions SET key_id = '{key_id}'")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_is_to_be_signed_here_is_by_keys_that_sign_here() {
    each(async |app: &mut App| {
        enrolled(app, "finance-1").await;
        app.awaiting("order-1").await;
        let shown =
            async || app.call(&app.signer_token("finance-1"), "get_approval", json!({"order_id": "order-1"})).await;
        let approval = shown().await;
        let forms = approval.body["to_sign"].as_array().unwrap();
        let names: Vec<&Value> = forms.iter().map(|form| &form["key_id"]).collect();
        assert_eq!(names, [&json!(app.key_id("finance-1"))], "no passkey makes a JWS");
        app.revoke_key("finance-1").await;
        let approval = shown().await;
        assert_eq!((approval.text("next_action"), &approval.body["to_sign"]), ("open_sign_page", &json!([])));
        assert!(approval.text("message").contains("Your passkey signs on the payment's own page"));
    })
    .await;
}

#[tokio::test]
async fn a_passkey_says_no_as_well() {
    each(async |app: &mut App| {
        let (passkey, _) = enrolled(app, "finance-1").await;
        app.awaiting("order-1").await;
        let text = document(app, "finance-1", "order-1", Choice::Reject).await;
        let assertion = passkey.sign(&decision_digest(&text), Odd::default());
        assert_eq!(decide(app, "order-1", &text, &assertion).await, (200, String::new()));
        assert_eq!(app.deliver_callbacks().await, 1);
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "REJECTED");
    })
    .await;
}

#[tokio::test]
async fn what_the_gateway_did_not_pin_or_no_owner_made_for_this_payment_approves_nothing() {
    each(async |app: &mut App| {
        let (passkey, _) = enrolled(app, "finance-1").await;
        let (others, _) = enrolled(app, "finance-2").await;
        let unpinned = SoftPasskey::new(&site(app));
        app.awaiting("order-1").await;
        app.awaiting("order-2").await;
        let text = document(app, "finance-1", "order-1", Choice::Approve).await;
        let digest = decision_digest(&text);
        let elsewhere = decision_digest(&document(app, "finance-1", "order-2", Choice::Approve).await);
        let no = decision_digest(&document(app, "finance-1", "order-1", Choice::Reject).await);
        let plain = Odd::default();
        let good = passkey.sign(&digest, plain);
        let swapped = |name: &str, value: &str| {
            let mut assertion: Value = serde_json::from_str(&good).unwrap();
            assertion[name] = json!(value);
            assertion.to_string()
        };
        let cases = [
            ("another payment's digest", passkey.sign(&elsewhere, plain)),
            ("a rejection's digest", passkey.sign(&no, plain)),
            ("another origin", passkey.sign(&digest, Odd { origin: Some("https://evil.example"), ..plain })),
            (
                "this origin, longer",
                passkey.sign(&digest, Odd { origin: Some(&format!("{}.evil.example", app.signer.url())), ..plain }),
            ),
            ("another site", passkey.sign(&digest, Odd { rp_id: Some("evil.example"), ..plain })),
            ("another ceremony", passkey.sign(&digest, Odd { kind: Some("webauthn.create"), ..plain })),
            ("no user verified", passkey.sign(&digest, Odd { flags: Some(0x01), ..plain })),
            ("no user present", passkey.sign(&digest, Odd { flags: Some(0x04), ..plain })),
            ("backed up and not to be", passkey.sign(&digest, Odd { flags: Some(0x15), ..plain })),
            ("within another site's frame", passkey.sign(&digest, Odd { framed: true, ..plain })),
            ("another person's passkey", others.sign(&digest, plain)),
            ("a passkey nobody pinned", unpinned.sign(&digest, plain)),
            ("another's credential id", swapped("credential_id", &others.credential_id)),
            ("a signature that is none", swapped("signature", "AAAA")),
            ("no authenticator data", swapped("authenticator_data", "")),
            ("no client data", swapped("client_data_json", "e30")),
            ("not in canonical form", format!("{good} ")),
            ("a JWS", app.jws("finance-1", &text)),
            ("nothing that is one", "{}".to_owned()),
        ];
        let mut at = 1;
        for (what, assertion) in &cases {
            let (status, code) = decide(app, "order-1", &text, assertion).await;
            assert!(matches!(status, 400 | 422) && !code.is_empty(), "{what}: the page took it: {status}");
            at += 1;
            let told = smuggle(app, "order-1", "finance-1", &text, assertion, at).await;
            assert_eq!(told.status(), "AWAITING_SIGNER", "{what}: {}", told.body);
            assert_eq!(app.db.raw().await.texts("SELECT decision_id FROM decisions").await, [""; 0], "{what}");
        }
        assert_eq!(app.audited("decision.refused", "SIGNATURE_INVALID").await, cases.len(), "each is audited");
        // And the one that is as it should be, after all of them.
        let told = smuggle(app, "order-1", "finance-1", &text, &passkey.sign(&digest, plain), at + 1).await;
        assert_eq!(told.status(), "SIGNED", "{}", told.body);
    })
    .await;
}

#[tokio::test]
async fn a_counter_that_stands_still_is_a_copy_and_one_that_goes_back_wants_attention() {
    each(async |app: &mut App| {
        let (passkey, _) = enrolled(app, "finance-1").await;
        let mut digests = Vec::new();
        for order in ["order-1", "order-2", "order-3", "order-4"] {
            app.awaiting(order).await;
            let text = document(app, "finance-1", order, Choice::Approve).await;
            digests.push((order, decision_digest(&text), text));
        }
        let mut at = 0;
        let mut signs = async |app: &mut App, order: usize, counter: u32| {
            let (order, digest, text) = &digests[order];
            at += 1;
            let proof = passkey.sign(digest, Odd { counter: Some(counter), ..Odd::default() });
            let told = smuggle(app, order, "finance-1", text, &proof, at).await;
            (told.status().clone(), told.body["attention"].clone())
        };
        assert_eq!(signs(app, 1, 8).await, ("SIGNED".to_owned(), Value::Null));
        assert_eq!(signs(app, 0, 8).await, ("AWAITING_SIGNER".to_owned(), Value::Null), "it signed another by 8");
        // Signed before the other, and here after it: by hold, level or a lost callback.
        assert_eq!(signs(app, 0, 7).await, ("SIGNED".to_owned(), json!(["PASSKEY_COUNTER_BACK"])));
        assert_eq!(signs(app, 2, 7).await, ("AWAITING_SIGNER".to_owned(), Value::Null), "it signed another by 7");
        assert_eq!(signs(app, 2, 0).await, ("SIGNED".to_owned(), json!(["PASSKEY_COUNTER_BACK"])));
        assert_eq!(
            signs(app, 3, 0).await,
            ("AWAITING_SIGNER".to_owned(), Value::Null),
            "one that counts says 0 once at most"
        );
        assert_eq!(signs(app, 3, 9).await, ("SIGNED".to_owned(), Value::Null));
    })
    .await;
}

#[tokio::test]
async fn a_passkey_that_was_revoked_signs_nothing_and_what_it_signed_is_not_carried_out() {
    each(async |app: &mut App| {
        let (passkey, key_id) = enrolled(app, "finance-1").await;
        app.awaiting("order-1").await;
        let text = document(app, "finance-1", "order-1", Choice::Approve).await;
        let told =
            smuggle(app, "order-1", "finance-1", &text, &passkey.sign(&decision_digest(&text), Odd::default()), 2)
                .await;
        assert_eq!(told.status(), "SIGNED", "{}", told.body);
        registry("finance-1").revoke(app.db.store(), &key_id.parse().unwrap()).await.unwrap();
        let again = registry("finance-1").revoke(app.db.store(), &key_id.parse().unwrap()).await.unwrap();
        assert_eq!(again.key_id, key_id, "whoever was cut off before the signer service was told does it again");
        let revoked =
            app.db.raw().await.texts("SELECT event FROM audit_entries WHERE event = 'signer_key.revoked'").await;
        assert_eq!(revoked.len(), 1, "and it is one revocation");
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "AWAITING_SIGNER", "asked anew, in another round");
        let text = document(app, "finance-1", "order-1", Choice::Approve).await;
        let told =
            smuggle(app, "order-1", "finance-1", &text, &passkey.sign(&decision_digest(&text), Odd::default()), 3)
                .await;
        assert_eq!(told.status(), "AWAITING_SIGNER", "{}", told.body);
    })
    .await;
}

#[tokio::test]
async fn a_passkey_counts_only_for_whom_and_while_it_was_invited_and_by_the_code_its_owner_read() {
    each(async |app: &mut App| {
        let passkey = SoftPasskey::new(&site(app));
        let (invitation, url) = invite(app, "finance-1").await;
        let digest = enrolment_digest(&invitation.canonical().unwrap());
        let (status, body) = answer(app, &url, &passkey, "another-challenge").await;
        assert_eq!((status, body["error_code"].as_str()), (422, Some("registration_invalid")));
        let (status, body) = answer(app, &url, &passkey, &digest).await;
        assert_eq!(status, 200, "{body}");
        let code = body["code"].as_str().unwrap();
        // The same answer again is answered alike; another one is not taken.
        assert_eq!(answer(app, &url, &passkey, &digest).await, (200, body.clone()));
        let (status, other) = answer(app, &url, &SoftPasskey::new(&site(app)), &digest).await;
        assert_eq!((status, other["error_code"].as_str()), (409, Some("invitation_answered")));

        let id = &invitation.invitation_id;
        let refused = async |person: &str, code: &str| pin(app, person, id, code).await.unwrap_err();
        assert!(refused("finance-2", code).await.contains("no such invitation"));
        assert!(refused("finance-1", "0000-0000").await.contains("exchanged"));
        assert!(refused("finance-1", "").await.contains("is not the code"));
        let key_id = pin(app, "finance-1", id, &code.to_lowercase().replace('-', " ")).await.unwrap();
        assert_eq!(pin(app, "finance-1", id, code).await.unwrap(), key_id, "asked again, the service is told again");

        // The same passkey for somebody else: it is one person's.
        let (second, url) = invite(app, "finance-2").await;
        let digest = enrolment_digest(&second.canonical().unwrap());
        let (status, body) = answer(app, &url, &passkey, &digest).await;
        assert_eq!(status, 200, "{body}");
        let refused = pin(app, "finance-2", &second.invitation_id, body["code"].as_str().unwrap()).await.unwrap_err();
        assert!(refused.contains("belongs to another signer"), "{refused}");

        // An invitation ends.
        let (late, url) = invite(app, "finance-2").await;
        let fresh = SoftPasskey::new(&site(app));
        let digest = enrolment_digest(&late.canonical().unwrap());
        let (_, body) = answer(app, &url, &fresh, &digest).await;
        app.clock.advance(2 * 3_600_000_000);
        let refused = pin(app, "finance-2", &late.invitation_id, body["code"].as_str().unwrap()).await.unwrap_err();
        assert!(refused.contains("expired"), "{refused}");
    })
    .await;
}
