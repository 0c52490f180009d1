//! The inbox: who gets in, what they see, and that the passkey for it approves nothing.

use countersign::domain::{Choice, Role};
use countersign::proof::{decision_digest, enrolment_digest};
use reqwest::header::{ACCEPT, COOKIE, LOCATION, SET_COOKIE};
use serde_json::{Value, json};

use crate::harness::app::{App, SIGNER_API_KEY, Wishes, only};
use crate::harness::database::TestEngine;
use crate::harness::passkey::{Odd, SoftPasskey};
use crate::passkeys::{decide, document, invite, pin, site};

/// The value of the first attribute of that name.
fn attribute<'a>(html: &'a str, name: &str) -> &'a str {
    let (_, rest) = html.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("no {name} in {html}"));
    rest.split('"').next().unwrap()
}

/// A person who has made both passkeys, neither of which counts yet.
pub(crate) struct Person {
    pub(crate) approving: SoftPasskey,
    pub(crate) signing_in: SoftPasskey,
    invitation: String,
    code: String,
    page: String,
    /// What the page gave for the second one.
    challenge: String,
}

impl Person {
    async fn invited(app: &App, person: &str) -> Self {
        let (approving, signing_in) = (SoftPasskey::new(&site(app)), SoftPasskey::new(&site(app)));
        let (invitation, page) = invite(app, person).await;
        let made = approving.register(&enrolment_digest(&invitation.canonical().unwrap()), Odd::default());
        let body = json!({"label": "phone", "client_data_json": made.client_data_json,
            "attestation_object": made.attestation_object});
        let answered = app.http.post(&page).header(ACCEPT, "text/html").json(&body).send().await.unwrap();
        assert_eq!(answered.status(), 200);
        let html = answered.text().await.unwrap();
        let challenge = attribute(&html, "data-challenge").to_owned();
        let (_, code) = html.split_once("class=\"spoken\"").unwrap();
        let code = code.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
        let invitation = invitation.invitation_id;
        Self { approving, signing_in, invitation, code, page, challenge }
    }

    /// Has the second passkey kept; the status.
    async fn makes(&self, app: &App, passkey: &SoftPasskey, challenge: &str) -> u16 {
        let made = passkey.register(challenge, Odd::default());
        let body = json!({"challenge": challenge, "client_data_json": made.client_data_json,
            "attestation_object": made.attestation_object});
        app.http.post(format!("{}/sign-in", self.page)).json(&body).send().await.unwrap().status().as_u16()
    }

    /// A person with both, which count.
    pub(crate) async fn enrolled(app: &App, person: &str) -> Self {
        let made = Self::invited(app, person).await;
        assert_eq!(made.makes(app, &made.signing_in, &made.challenge).await, 204);
        pin(app, person, &made.invitation, &made.code).await.unwrap();
        made
    }
}

/// The challenge of a fresh way in.
async fn challenge(app: &App) -> String {
    let html = app.http.get(format!("{}/inbox", app.pages)).send().await.unwrap().text().await.unwrap();
    attribute(&html, "data-challenge").to_owned()
}

/// Signs in with an assertion: the cookie, or the code of the refusal.
async fn shown(app: &App, challenge: &str, assertion: &str) -> Result<String, String> {
    let body = json!({"challenge": challenge, "assertion": assertion});
    let answer = app.http.post(format!("{}/inbox/sign-in", app.pages)).json(&body).send().await.unwrap();
    if answer.status() == 204 {
        let set = answer.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        assert!(set.contains("; HttpOnly; SameSite=Strict") && set.contains("Path=/inbox;"), "{set}");
        return Ok(set.split(';').next().unwrap().to_owned());
    }
    let refused: Value = answer.json().await.unwrap();
    Err(refused["error_code"].as_str().unwrap().to_owned())
}

pub(crate) async fn signs_in(app: &App, passkey: &SoftPasskey) -> Result<String, String> {
    let challenge = challenge(app).await;
    shown(app, &challenge, &passkey.sign(&challenge, Odd::default())).await
}

pub(crate) async fn inbox(app: &App, cookie: &str, query: &str) -> String {
    let request = app.http.get(format!("{}/inbox{query}", app.pages)).header(COOKIE, cookie);
    request.send().await.unwrap().text().await.unwrap()
}

/// What waits, in order, by order id.
pub(crate) fn orders(html: &str) -> Vec<&str> {
    let ids = html.split("<dt>Order</dt>").skip(1);
    ids.map(|rest| rest.split("exact\">").nth(1).unwrap().split('<').next().unwrap()).collect()
}

async fn alone(test: impl AsyncFn(&mut App)) {
    only(TestEngine::Sqlite, Wishes::default().patient(), test).await;
}

#[tokio::test]
async fn a_signer_sees_what_waits_for_them_and_nobody_else_does() {
    alone(async |app| {
        let person = Person::enrolled(app, "finance-1").await;
        for (order, amount) in [("order-1", "20.00"), ("order-2", "3000.00"), ("order-3", "100.00")] {
            let arguments = json!({"order_id": order, "amount": amount, "signer_id": "finance-1", "memo": "<b>x</b>"});
            app.call(&app.agent(), "create_payment", arguments).await;
            app.notify(order).await;
            app.clock.advance(1_000_000);
        }
        let cookie = signs_in(app, &person.signing_in).await.unwrap();
        let html = inbox(app, &cookie, "").await;
        assert_eq!(orders(&html), ["order-1", "order-2", "order-3"], "oldest first");
        assert!(html.contains("&lt;b&gt;x&lt;/b&gt;") && !html.contains("<b>x"));
        assert_eq!(orders(&inbox(app, &cookie, "?order=largest").await), ["order-2", "order-3", "order-1"]);

        // What is decided or over is gone, and whoever waits for that is told.
        let mark = attribute(&html, "data-standing").to_owned();
        let changes = app.http.get(format!("{}/inbox/changes?{mark}", app.pages)).header(COOKIE, &cookie);
        let told = tokio::spawn(changes.send());
        let text = document(app, "finance-1", "order-2", Choice::Approve).await;
        let assertion = person.approving.sign(&decision_digest(&text), Odd::default());
        assert_eq!(decide(app, "order-2", &text, &assertion).await, (200, String::new()));
        let told: Value = told.await.unwrap().unwrap().json().await.unwrap();
        assert_ne!(told["mark"], json!(mark));
        app.cancel("order-3").await;
        app.settle().await;
        let html = inbox(app, &cookie, "").await;
        assert_eq!((orders(&html), attribute(&html, "data-standing") == mark), (vec!["order-1"], false));

        // It leads to the sign page by a link of its own, and only to what asks them.
        let open = app.pages.clone()
            + html
                .split("action=\"")
                .find_map(|rest| rest.strip_prefix("/inbox/payments/"))
                .map(|rest| format!("/inbox/payments/{}", rest.split('"').next().unwrap()))
                .unwrap()
                .as_str();
        let led = app.http.post(&open).header(COOKIE, &cookie).send().await.unwrap();
        assert_eq!(led.status(), 303);
        let page = format!("{}{}", app.pages, led.headers()[LOCATION].to_str().unwrap());
        assert!(app.http.get(page).send().await.unwrap().text().await.unwrap().contains("order-1"));
        let elsewhere = app.http.post(&open).header(COOKIE, &cookie).header("origin", "https://evil.example");
        assert_eq!(elsewhere.send().await.unwrap().status(), 403);
        assert_eq!(app.http.post(&open).send().await.unwrap().status(), 403, "without a session");
        let stranger = Person::enrolled(app, "stranger-1").await;
        let other = signs_in(app, &stranger.signing_in).await.unwrap();
        assert_eq!(orders(&inbox(app, &other, "").await), [""; 0]);
        assert_eq!(app.http.post(&open).header(COOKIE, &other).send().await.unwrap().status(), 404);

        // A session ends: by itself, by its owner, and with the passkey that counts.
        let value = countersign::proof::from_b64url(cookie.split_once('=').unwrap().1).unwrap();
        assert_eq!(value.len(), 32, "nobody guesses it");
        let kept = app.signer_db().await.texts("SELECT token_sha256 FROM sessions").await;
        assert!(kept.iter().all(|kept| !cookie.contains(kept)), "the cookie's value is not kept");
        let out = app.http.post(format!("{}/inbox/sign-out", app.pages)).header(COOKIE, &other).send().await.unwrap();
        assert_eq!(out.status(), 303);
        assert!(inbox(app, &other, "").await.contains("data-challenge"));
        app.clock.advance(31 * 60_000_000);
        assert!(inbox(app, &cookie, "").await.contains("data-challenge"));
        let gone = app.http.get(format!("{}/inbox/changes?x", app.pages)).header(COOKIE, &cookie).send().await.unwrap();
        assert_eq!(gone.status(), 403);
        let cookie = signs_in(app, &person.signing_in).await.unwrap();
        revoke(app, "finance-1").await;
        assert!(inbox(app, &cookie, "").await.contains("data-challenge"));
        assert_eq!(signs_in(app, &person.signing_in).await.unwrap_err(), "passkey_revoked");
    })
    .await;
}

/// The gateway tells that a person's passkey counts no more.
async fn revoke(app: &App, person: &str) {
    let sql = format!(
        "SELECT key_id || ' ' || credential_id || ' ' || public_key FROM passkeys WHERE signer_id = '{person}'"
    );
    let told = app.signer_db().await.texts(&sql).await;
    let [key_id, credential, public_key] = told[0].split(' ').collect::<Vec<_>>().try_into().unwrap();
    let body = json!({"tenant": "default", "credential_id": credential, "alg": "ES256", "public_key": public_key, "label": "x", "state": "revoked"});
    let url = format!("{}/api/v1/signers/{person}/passkeys/{key_id}", app.signer.url());
    assert_eq!(app.http.put(url).bearer_auth(SIGNER_API_KEY).json(&body).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_namesake_of_another_tenant_sees_and_opens_nothing_of_this_ones() {
    alone(async |app| {
        let person = Person::enrolled(app, "finance-1").await;
        app.awaiting("order-1").await;
        let agent = app.token("other", "agent-2", "agent-2", &[Role::Agent]);
        let asked = json!({"order_id": "secret-1", "amount": "77.00", "signer_id": "finance-1", "notify": true});
        let told = app.call(&agent, "create_payment", asked).await;
        assert_eq!(told.status(), "AWAITING_SIGNER", "{}", told.body);
        let cookie = signs_in(app, &person.signing_in).await.unwrap();
        assert_eq!(orders(&inbox(app, &cookie, "").await), ["order-1"]);
        let ids = app.signer_db().await.texts("SELECT id FROM payments WHERE tenant = 'other'").await;
        let open = format!("{}/inbox/payments/{}", app.pages, ids[0]);
        assert_eq!(app.http.post(open).header(COOKIE, &cookie).send().await.unwrap().status(), 404);
        // The page itself, for whoever has its link, takes nothing of theirs.
        let link = app.call(&agent, "get_sign_link", json!({"order_id": "secret-1"})).await;
        let page = app.http.get(link.text("sign_url")).send().await.unwrap().text().await.unwrap();
        assert!(page.contains("secret-1") && !page.contains("data-decision="));
    })
    .await;
}

#[tokio::test]
async fn what_approves_does_not_sign_in_and_what_signs_in_approves_nothing() {
    alone(async |app| {
        let person = Person::invited(app, "finance-1").await;
        // The passkey that approves is not taken as the other kind, nor another one for another page's challenge.
        assert_eq!(person.makes(app, &person.approving, &person.challenge).await, 422);
        let foreign = Person::invited(app, "finance-2").await;
        assert_eq!(person.makes(app, &person.signing_in, &foreign.challenge).await, 409);
        assert_eq!(person.makes(app, &person.signing_in, &challenge(app).await).await, 409, "one for signing in");
        assert_eq!(person.makes(app, &person.signing_in, "AAAA").await, 409);
        assert_eq!(person.makes(app, &person.signing_in, &person.challenge).await, 204);
        let second = SoftPasskey::new(&site(app));
        assert_eq!(person.makes(app, &second, &person.challenge).await, 409, "one an invitation");
        // Whoever comes later, and has the link, makes none.
        let html = app.http.get(&person.page).send().await.unwrap().text().await.unwrap();
        assert!(!html.contains("data-challenge") && html.contains(&person.code));

        assert_eq!(
            signs_in(app, &person.signing_in).await.unwrap_err(),
            "passkey_revoked",
            "nobody compared the code yet"
        );
        pin(app, "finance-1", &person.invitation, &person.code).await.unwrap();
        assert_eq!(signs_in(app, &person.approving).await.unwrap_err(), "unknown_passkey");
        assert_eq!(signs_in(app, &second).await.unwrap_err(), "unknown_passkey");

        app.awaiting("order-1").await;
        let text = document(app, "finance-1", "order-1", Choice::Approve).await;
        let assertion = person.signing_in.sign(&decision_digest(&text), Odd::default());
        assert_eq!(decide(app, "order-1", &text, &assertion).await, (422, "unknown_passkey".to_owned()));

        // Nor is it enrolled as one that approves.
        let (invitation, page) = invite(app, "finance-1").await;
        let made = person.signing_in.register(&enrolment_digest(&invitation.canonical().unwrap()), Odd::default());
        let body = json!({"label": "phone", "client_data_json": made.client_data_json,
            "attestation_object": made.attestation_object});
        assert_eq!(app.http.post(&page).json(&body).send().await.unwrap().status(), 422);
    })
    .await;
}

#[tokio::test]
async fn a_challenge_signs_in_once_and_only_by_an_answer_that_is_as_it_should_be() {
    alone(async |app| {
        let person = Person::enrolled(app, "finance-1").await;
        let plain = Odd::default();
        let cases = [
            ("another origin", Odd { origin: Some("https://evil.example"), ..plain }),
            ("another site", Odd { rp_id: Some("evil.example"), ..plain }),
            ("another ceremony", Odd { kind: Some("webauthn.create"), ..plain }),
            ("no user verified", Odd { flags: Some(0x01), ..plain }),
            ("framed", Odd { framed: true, ..plain }),
        ];
        for (what, odd) in cases {
            let challenge = challenge(app).await;
            let assertion = person.signing_in.sign(&challenge, odd);
            assert_eq!(shown(app, &challenge, &assertion).await.unwrap_err(), "signature_invalid", "{what}");
        }
        let first = challenge(app).await;
        let assertion = person.signing_in.sign(&first, plain);
        let other = challenge(app).await;
        assert_eq!(shown(app, &other, &assertion).await.unwrap_err(), "signature_invalid", "for another challenge");
        let mut forged = countersign::proof::from_b64url(&first).unwrap();
        forged[7] ^= 1;
        let forged = countersign::proof::b64url(forged);
        let longer = person.signing_in.sign(&forged, plain);
        assert_eq!(shown(app, &forged, &longer).await.unwrap_err(), "sign_in_stale", "a time of its own");
        let assertion = person.signing_in.sign(&first, plain);
        shown(app, &first, &assertion).await.unwrap();
        let again = person.signing_in.sign(&first, plain);
        assert_eq!(shown(app, &first, &again).await.unwrap_err(), "sign_in_stale", "used up");
        let late = challenge(app).await;
        app.clock.advance(6 * 60_000_000);
        let assertion = person.signing_in.sign(&late, plain);
        assert_eq!(shown(app, &late, &assertion).await.unwrap_err(), "sign_in_stale", "too late");
        let copy = challenge(app).await;
        let assertion = person.signing_in.sign(&copy, Odd { counter: Some(1), ..plain });
        assert_eq!(shown(app, &copy, &assertion).await.unwrap_err(), "signature_invalid", "a counter that ran back");
    })
    .await;
}

#[tokio::test]
async fn questions_that_are_held_are_counted() {
    alone(async |app| {
        let person = Person::enrolled(app, "finance-1").await;
        let cookie = signs_in(app, &person.signing_in).await.unwrap();
        let mark = attribute(&inbox(app, &cookie, "").await, "data-standing").to_owned();
        let ask = || app.http.get(format!("{}/inbox/changes?{mark}", app.pages)).header(COOKIE, &cookie).send();
        let told = futures::future::join_all((0..70).map(|_| ask())).await;
        let told: Vec<u16> = told.into_iter().map(|answer| answer.unwrap().status().as_u16()).collect();
        let count = |status: u16| told.iter().filter(|told| **told == status).count();
        assert_eq!(count(200) + count(429), 70, "{told:?}");
        assert!(count(429) >= 6, "{told:?}");
        assert_eq!(ask().await.unwrap().status(), 200, "and given back");
    })
    .await;
}
