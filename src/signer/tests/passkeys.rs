//! What the sign page offers to a passkey, and what it says when it is not taken.

use super::*;
use crate::proof::PASSKEY;

/// The public half of a passkey that nobody has, DER in base64url.
pub(super) const PUBLIC_KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEd3bfr6CPQ8NSYdH1UxRKgPbCyCU_gFjzGsjiMTawpTP5pm0EAwfSgytW4QL-KBiLj3-HWUl1hxSJOfwhZ9mIuQ";

impl Bench {
    /// Tells the service of a passkey, as the gateway does.
    pub(super) async fn passkey(&self, signer: &str, credential: &str, state: &str) {
        let told = json!({"state": state, "label": format!("{signer}'s <phone>")});
        assert_eq!(self.tell(signer, credential, told).await.status, 200);
    }

    /// Tells it of one that is otherwise than usual.
    async fn tell(&self, signer: &str, credential: &str, otherwise: Value) -> Answer {
        let request = Self::request("PUT", &format!("/api/v1/signers/{signer}/passkeys/passkey-{credential}"));
        let mut body = json!({"tenant": "acme", "credential_id": credential, "alg": "ES256", "public_key": PUBLIC_KEY,
            "label": "phone", "state": "active"});
        body.as_object_mut().unwrap().extend(otherwise.as_object().unwrap().clone());
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    /// Gets a page as a browser of that language does.
    pub(super) async fn page(&self, path: &str, language: &str) -> Answer {
        self.send(Request::get(path).header("accept-language", language).body(Body::empty()).unwrap()).await
    }

    /// Sends a body as the page's script does.
    pub(super) async fn as_script(&self, path: &str, body: &Value) -> Answer {
        let request = Request::post(path).header("content-type", "application/json").header("accept", "text/html");
        let request = request.header("origin", ORIGIN).header("sec-fetch-site", "same-origin");
        self.send(request.body(body.to_string().into()).unwrap()).await
    }
}

/// The value of the first attribute of that name, unescaped.
pub(super) fn attribute(html: &str, name: &str) -> Option<String> {
    let (_, rest) = html.split_once(&format!(" {name}=\""))?;
    let value = rest.split('"').next()?;
    Some(value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}

#[tokio::test]
async fn the_script_is_given_what_it_signs_and_only_the_passkeys_that_count() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    assert!(!bench.get(&link).await.text.contains("data-decision="), "nobody has one yet");
    assert_eq!(bench.get(&link).await.text.matches("No passkey of this person counts yet").count(), 2);
    for (credential, state) in [("YW5uLTE", "active"), ("YW5uLTI", "active"), ("YW5uLTM", "revoked")] {
        bench.passkey("ann", credential, state).await;
    }
    let page = bench.get(&link).await.text;
    let decision = attribute(&page, "data-decision").unwrap();
    let digest = body["payment_digest"].as_str().unwrap();
    let expected = DecisionDocument::answering(&challenge(&body, "ann"), digest, PASSKEY, Choice::Approve, "");
    assert_eq!(decision, expected.canonical().unwrap());
    assert_eq!(attribute(&page, "data-credentials").unwrap(), r#"["YW5uLTE","YW5uLTI"]"#, "not the revoked one");
    assert_eq!(attribute(&page, "data-rp-id").unwrap(), "sign.example");
    assert_eq!(attribute(&page, "data-decisions").unwrap(), format!("{link}/decisions"));
    assert_eq!(attribute(&page, "data-viewed").unwrap(), format!("{link}/viewed"));
    assert!(page.contains("Passkeys that count: ann's &lt;phone&gt;, ann's &lt;phone&gt;"));
    assert_eq!(page.matches("No passkey of this person counts yet").count(), 1, "bob has none still");
    assert!(page.contains("<div class=\"passkey\" hidden"), "without the script no button is shown that does nothing");
    bench.passkey("ann", "YW5uLTE", "revoked").await;
    bench.passkey("ann", "YW5uLTI", "revoked").await;
    assert!(!bench.get(&link).await.text.contains("data-decision="));
}

#[tokio::test]
async fn the_script_is_answered_by_pages_and_a_program_as_before() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let decisions = format!("{link}/decisions");
    let document = answering(&body, "ann", Choice::Reject, "Too dear & <late>");
    let (text, jws) = signed_by(&document, "ann");
    let sent = json!({"document": text, "jws": jws});
    let made = bench.as_script(&decisions, &sent).await;
    assert_eq!((made.status, made.header("content-type")), (200, "text/html; charset=utf-8"));
    for said in ["You rejected this payment", "Too dear &amp; &lt;late&gt;", "199.00 USD", "DE89370400440532013000"] {
        assert!(made.text.contains(said), "{said}: {}", made.text);
    }
    assert_eq!(made.text.matches("data-page=\"result\"").count(), 1);
    let again = bench.as_script(&decisions, &sent).await;
    assert_eq!((again.status, again.text), (200, made.text), "the same again, by a double click");
    assert_eq!(bench.decide(&link, &text, &jws).await.json()["decision"], "reject", "a program gets JSON");

    let (text, jws) = signed(&body, "ann", Choice::Approve);
    let otherwise = bench.as_script(&decisions, &json!({"document": text, "jws": jws})).await;
    assert_eq!(otherwise.status, 409);
    assert!(otherwise.text.contains("You have decided already") && otherwise.text.contains("Back to the payment"));
    assert_eq!(bench.decide(&link, &text, &jws).await.fault(), (409, "already_decided".to_owned()));
}

/// What the page's script sends for a passkey, but for what only a passkey makes.
fn by_passkey(body: &Value, signer: &str, reason: &str) -> Value {
    let digest = body["payment_digest"].as_str().unwrap();
    let document = DecisionDocument::answering(&challenge(body, signer), digest, PASSKEY, Choice::Approve, reason);
    let assertion = crate::proof::Assertion {
        credential_id: "YW5uLTE".to_owned(),
        authenticator_data: "AAAA".to_owned(),
        client_data_json: "e30".to_owned(),
        signature: "AAAA".to_owned(),
    };
    let value = assertion.to_text().unwrap();
    json!({"document": document.canonical().unwrap(), "proof": {"type": "webauthn", "value": value}})
}

#[tokio::test]
async fn a_namesakes_passkey_of_another_tenant_is_not_offered_and_signs_nothing() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    let (_, invitation) = bench.invited("ann", 60).await;
    assert_eq!(bench.tell("ann", "YW5uLTE", json!({"tenant": "other"})).await.status, 200);
    assert!(!bench.get(&link).await.text.contains("data-decision="), "the payment is acme's");
    assert!(bench.page(&invitation, "en").await.text.contains("data-credentials=\"[]\""), "the invitation is too");
    let decided = async || {
        let request = Request::post(format!("{link}/decisions")).header("content-type", "application/json");
        bench.send(request.body(by_passkey(&body, "ann", "").to_string().into()).unwrap()).await.fault()
    };
    assert_eq!(decided().await, (422, "unknown_passkey".to_owned()));
    // The same person may be one of both tenants' people; what becomes of it with one is nothing to the other.
    bench.passkey("ann", "YW5uLTE", "active").await;
    assert_eq!(bench.tell("ann", "YW5uLTE", json!({"tenant": "other", "state": "revoked"})).await.status, 200);
    assert_eq!(attribute(&bench.get(&link).await.text, "data-credentials").unwrap(), r#"["YW5uLTE"]"#);
    assert_eq!(decided().await, (422, "signature_invalid".to_owned()));
}

#[tokio::test]
async fn a_passkey_is_kept_only_with_a_tenant_and_a_name_that_can_be_shown() {
    let bench = Bench::new().await;
    for odd in [
        json!({"tenant": ""}),
        json!({"tenant": "two words"}),
        json!({"tenant": null}),
        json!({"label": "a\u{1b}[2J"}),
        json!({"label": "a\nb"}),
        json!({"label": "x".repeat(65)}),
    ] {
        let refused = bench.tell("ann", "YW5uLTE", odd.clone()).await;
        assert_eq!(refused.fault(), (400, "invalid_request".to_owned()), "{odd}");
    }
    assert_eq!(bench.tell("ann", "YW5uLTE", json!({"label": "手".repeat(64)})).await.status, 200);
}

/// Each refusal has words of its own, in each language, and none is the one for what nobody thought of.
#[tokio::test]
async fn each_odd_case_has_a_page_of_its_own() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let decisions = format!("{link}/decisions");
    let by_passkey = |signer: &str, reason: &str| by_passkey(&body, signer, reason);
    let mut seen = std::collections::BTreeSet::new();
    let mut expect = |answer: &Answer, status: u16, code: &str, title: &str| {
        assert_eq!(answer.status, status, "{code}: {}", answer.text);
        assert!(answer.text.contains(&format!("<h1 tabindex=\"-1\">{title}</h1>")), "{code}: {}", answer.text);
        assert!(answer.text.contains(&format!("<code>{code}</code>")), "{code}");
        assert!(seen.insert(title.to_owned()), "{title} says two things");
    };

    let unknown = bench.as_script(&decisions, &by_passkey("ann", "")).await;
    expect(&unknown, 422, "unknown_passkey", "Not a passkey of this person");
    bench.passkey("ann", "YW5uLTE", "active").await;
    let forged = bench.as_script(&decisions, &by_passkey("ann", "")).await;
    expect(&forged, 422, "signature_invalid", "The signature does not fit");
    let another = bench.as_script(&decisions, &by_passkey("bob", "")).await;
    assert!(another.text.contains("Not a passkey of this person"), "ann's passkey says nothing for bob");
    bench.passkey("ann", "YW5uLTE", "revoked").await;
    let revoked = bench.as_script(&decisions, &by_passkey("ann", "")).await;
    expect(&revoked, 422, "passkey_revoked", "This passkey was revoked");
    let odd = bench.as_script(&decisions, &by_passkey("ann", "two\nlines")).await;
    expect(&odd, 422, "reason_invalid", "The reason can't be signed");
    let other_site = bench
        .send(
            Request::post(&decisions)
                .header("content-type", "application/json")
                .header("accept", "text/html")
                .header("origin", "https://evil.example")
                .body(by_passkey("ann", "").to_string().into())
                .unwrap(),
        )
        .await;
    expect(&other_site, 403, "wrong_origin", "Sent from another site");
    let nothing = bench.as_script(&decisions, &json!({"document": "x", "jws": "y"})).await;
    expect(&nothing, 422, "document_invalid", "Not recorded");

    let (text, jws) = signed(&body, "ann", Choice::Approve);
    let signed = json!({"document": text, "jws": jws});
    bench.clock.advance(20 * MINUTE);
    let late = bench.as_script(&decisions, &signed).await;
    expect(&late, 410, "link_expired", "This link has lapsed");
    assert_eq!(bench.get(&link).await.status, 410);
    assert!(late.text.contains("countersign sign ORDER_ID") && !late.text.contains("Back to the payment"));
    bench.clock.advance(45 * MINUTE);
    let fresh = bench.link(&id).await;
    let late = bench.as_script(&format!("{fresh}/decisions"), &signed).await;
    expect(&late, 409, "payment_expired", "The time to decide has passed");
    assert!(bench.get(&fresh).await.text.contains("A payment that has expired"));
    let closing = json!({"round": 1, "reason": "cancelled"});
    assert_eq!(bench.post(&format!("/api/v1/payments/{id}/cancel"), "close", &closing).await.status, 200);
    let closed = bench.as_script(&format!("{fresh}/decisions"), &signed).await;
    expect(&closed, 409, "closed", "No decision is wanted any more");
    assert!(bench.get(&fresh).await.text.contains("This payment was cancelled"));
    let second = bench.registration(2, &["ann"]);
    assert_eq!(bench.post("/api/v1/payments", "second", &second).await.status, 200);
    let stale = bench.as_script(&format!("{fresh}/decisions"), &signed).await;
    expect(&stale, 409, "round_stale", "This payment was changed");
    assert_eq!(bench.get(&fresh).await.status, 410);
    let gone = bench.as_script("/sign/unknown/decisions", &signed).await;
    expect(&gone, 404, "unknown_link", "No such link");
}

#[tokio::test]
async fn the_page_speaks_the_language_that_the_browser_asks_for() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann", "bob", "cleo"]).await;
    bench.passkey("ann", "YW5uLTE", "active").await;
    let link = bench.link(&id).await;
    let english = bench.page(&link, "en-GB").await.text;
    assert!(english.contains("<html lang=\"en\">") && english.contains("Approve with passkey"));
    let pages = [
        link.clone(),
        format!("{link}?signer_id=ann&decision=reject"),
        format!("{link}?signer_id=bob&decision=x&key_id=%3Cb%3E"),
        "/sign/unknown".to_owned(),
        "/enrol/unknown".to_owned(),
    ];
    for path in pages {
        let page = bench.page(&path, "zh-CN,zh;q=0.9").await.text;
        assert!(page.contains("<html lang=\"zh-Hans\">"), "{path}");
        assert_eq!(left_in_english(&page), [""; 0], "{path}");
        assert_ne!(left_in_english(&bench.page(&path, "en").await.text), [""; 0], "{path}: and this sees English");
    }
    assert!(bench.page(&link, "zh").await.text.contains("美元"));
}

/// What holds a value, or says that it is English.
const ASIDE: [&str; 4] = ["lang=\"en\"", "class=\"digest\"", "class=\"exact\"", "class=\"code\""];

/// Words of English in a page's own texts: values, code and what says that it is English aside.
pub(super) fn left_in_english(page: &str) -> Vec<&str> {
    let (_, body) = page.split_once("<body>").unwrap();
    let values = [
        "Countersign",
        "ann",
        "bob",
        "cleo",
        "of",
        "Finance",
        "phone",
        "agent",
        "mia",
        "USD",
        "UTC",
        "JWS",
        "Widgets",
        "GmbH",
        "Invoice",
        "script",
        "alert",
        "more",
        "acme",
        "operating",
        "finance",
        "default",
        "digest",
        "the",
        "policy",
        "lt",
        "gt",
        "amp",
        "quot",
        "countersign",
        "payment",
        "https",
        "gateway",
        "example",
    ];
    let mut left = Vec::new();
    // What stands in code, or in another language, ends with the element.
    let mut aside: Option<&str> = None;
    for part in body.split('<').skip(1) {
        let Some((tag, text)) = part.split_once('>') else { continue };
        let name = tag.split(' ').next().unwrap_or_default();
        match aside {
            Some(open) if name.strip_prefix('/') == Some(open) => aside = None,
            None if name == "code" || ASIDE.iter().any(|attribute| tag.contains(attribute)) => aside = Some(name),
            _ => {}
        }
        if aside.is_none() {
            let words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
            left.extend(words.filter(|word| !values.contains(word)));
        }
    }
    left
}

#[tokio::test]
async fn the_pages_address_is_an_image_and_the_link_names_it() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    let issued = bench.get(&format!("/api/v1/payments/{id}/sign-link")).await.json();
    let url = issued["url"].as_str().unwrap();
    assert_eq!(issued["qr_url"], format!("{url}/qr.svg"));
    let path = issued["qr_url"].as_str().unwrap().strip_prefix(ORIGIN).unwrap();
    let image = bench.send(Request::get(path).body(Body::empty()).unwrap()).await;
    assert_eq!((image.status, image.header("content-type")), (200, "image/svg+xml"));
    let modules = qrcode::QrCode::with_error_correction_level(url, qrcode::EcLevel::M).unwrap();
    let drawn = modules.render::<qrcode::render::svg::Color<'_>>().min_dimensions(256, 256).build();
    assert_eq!(image.text, drawn, "the page's whole address");
    assert!(bench.get(&bench.link(&id).await).await.text.contains("/qr.svg\""));
    let none = bench.send(Request::get("/sign/unknown/qr.svg").body(Body::empty()).unwrap()).await;
    assert_eq!(none.fault(), (404, "unknown_link".to_owned()));
}
