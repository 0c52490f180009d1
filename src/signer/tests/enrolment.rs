//! What the page of an invitation says, from the invitation to the passkey that counts.

use super::passkeys::{PUBLIC_KEY, attribute, left_in_english};
use super::*;
use crate::proof::{EnrolmentDocument, PasskeyKey};
use crate::signer::store::InvitationAnswer;

impl Bench {
    /// Invites a person for so many minutes; the document and the page's path.
    pub(super) async fn invited(&self, signer: &str, minutes: i64) -> (EnrolmentDocument, String) {
        let mut nonce = [0; 32];
        SystemEntropy.fill(&mut nonce);
        let document = EnrolmentDocument {
            typ: EnrolmentDocument::TYPE.to_owned(),
            aud: "https://gateway.example".to_owned(),
            tenant: "acme".to_owned(),
            signer_id: signer.to_owned(),
            invitation_id: format!("inv_{}", b64url(&nonce[..8])),
            nonce: b64url(nonce),
            expires_at: self.clock.now().plus_micros(minutes * MINUTE).rfc3339(),
        };
        let body = json!({"document": document.canonical().unwrap()});
        let answer = self.post("/api/v1/invitations", &document.invitation_id, &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let path = answer.json()["url"].as_str().unwrap().strip_prefix(ORIGIN).unwrap().to_owned();
        (document, path)
    }
}

#[tokio::test]
async fn an_invitation_says_whom_it_invites_and_gives_the_script_what_is_signed() {
    let bench = Bench::new().await;
    bench.passkey("ann", "YW5uLTE", "active").await;
    bench.passkey("ann", "YW5uLTI", "revoked").await;
    let (document, path) = bench.invited("ann", 60).await;
    for method in ["GET", "HEAD", "GET"] {
        let page = bench.send(Request::builder().method(method).uri(&path).body(Body::empty()).unwrap()).await;
        assert_eq!((page.status, page.text.is_empty()), (200, method == "HEAD"));
    }
    let page = bench.page(&path, "en").await.text;
    for text in ["Make your passkey", "ann of Finance", "https://gateway.example", &document.expires_at] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert_eq!(attribute(&page, "data-enrolment").unwrap(), document.canonical().unwrap());
    assert_eq!(attribute(&page, "data-credentials").unwrap(), r#"["YW5uLTE"]"#, "what the device may hold already");
    assert_eq!(attribute(&page, "data-answer").unwrap(), path);
    assert_eq!(attribute(&page, "data-rp-id").unwrap(), "sign.example");
    let chinese = bench.page(&path, "zh").await.text;
    assert_eq!(left_in_english(&chinese), [""; 0]);
}

#[tokio::test]
async fn an_invitation_that_lapsed_or_never_was_says_so() {
    let bench = Bench::new().await;
    let (_, path) = bench.invited("ann", 60).await;
    bench.clock.advance(61 * MINUTE);
    let page = bench.page(&path, "en").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("This invitation has expired") && !page.text.contains("data-enrolment"));
    let made = json!({"label": "phone", "client_data_json": "e30", "attestation_object": "AAAA"});
    let late = bench.as_script(&path, &made).await;
    assert_eq!(late.status, 410);
    assert!(late.text.contains("This invitation has expired") && late.text.contains("Back to the invitation"));
    let none = bench.page("/enrol/unknown", "en").await;
    assert_eq!(none.status, 404);
    assert!(none.text.contains("No such invitation") && !none.text.contains("countersign sign"));
    let (_, path) = bench.invited("ann", 60).await;
    let elsewhere =
        Request::post(&path).header("content-type", "application/json").header("origin", "https://evil.example");
    assert_eq!(
        bench.send(elsewhere.body(made.to_string().into()).unwrap()).await.fault(),
        (403, "wrong_origin".to_owned())
    );
    let odd = bench.as_script(&path, &made).await;
    assert_eq!(odd.status, 422);
    assert!(odd.text.contains("This passkey can't be used"), "{}", odd.text);
}

#[tokio::test]
async fn what_was_made_waits_for_the_operator_then_counts_and_may_be_revoked() {
    let bench = Bench::new().await;
    let (document, path) = bench.invited("ann", 60).await;
    let code = PasskeyKey::parse("ES256", PUBLIC_KEY).unwrap().code();
    // The answer as it is kept; making one takes a browser, which the browser tests have.
    let answer = InvitationAnswer { label: "phone", client_data_json: "x", attestation_object: "x", code: &code };
    let mut session = bench.service.desk.store.write().await.unwrap();
    session.answer_invitation(&document.invitation_id, &answer, bench.clock.now()).await.unwrap();
    session.commit().await.unwrap();
    let says = async |text: &str| {
        let page = bench.page(&path, "en").await.text;
        assert!(page.contains(text), "{text}: {page}");
        page
    };
    let page = says("Read this to your operator").await;
    assert!(page.contains(&format!(">{code}</p>")) && !page.contains("data-enrolment"));
    bench.passkey("ann", "YW5uLTE", "active").await;
    says("This passkey counts").await;
    bench.passkey("ann", "YW5uLTE", "revoked").await;
    says("This passkey was revoked").await;
    bench.clock.advance(120 * MINUTE);
    says("This passkey was revoked").await;
}
