//! What others wrote is shown as they wrote it, and is never markup: in every field of a payment, on every page.

use super::*;
use crate::signer::tests::passkeys::attribute;

const HOSTILE: &str =
    "\"'></p><img src=x onerror=alert(1)><script>alert(2)</script><a href=javascript:alert(3)>x</a>&lt;";

/// A payment of which every text that somebody else chooses is hostile, each told apart by its name.
fn payload() -> String {
    let of = |name: &str| format!("{name}{HOSTILE}");
    let document = PaymentDocument {
        aud: of("aud"),
        tenant: of("tenant"),
        order_id: of("order"),
        payer_account: of("payer"),
        payee_account: of("account"),
        payee_name: of("payee"),
        purpose: of("purpose"),
        requester_agent: of("agent"),
        requester_principal: of("principal"),
        mandate_id: of("mandate"),
        policy_id: of("policy"),
        policy_version: of("version"),
        policy_digest: of("digest"),
        required: of("required"),
        ..document(1)
    };
    document.canonical().unwrap()
}

const SHOWN: [&str; 14] = [
    "aud",
    "tenant",
    "order",
    "payer",
    "account",
    "payee",
    "purpose",
    "agent",
    "principal",
    "mandate",
    "policy",
    "version",
    "digest",
    "required",
];

/// The elements that our pages are made of.
const OURS: &str = "html head meta title link script body header main footer section article nav div p h1 h2 h3 ul li dl dt dd \
    details summary figure figcaption img form fieldset legend label input select option textarea button pre code \
    strong span time a";

/// Reads a page as a browser does, and holds that there is no element, attribute or address in it but ours.
fn only_ours(page: &str, what: &str) {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    let mut scripts = 0;
    while let Some((_, tag)) = rest.split_once('<') {
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(OURS.split(' ').any(|ours| ours == name), "{what}: <{}", &tag[..tag.len().min(80)]);
        scripts += usize::from(tag.starts_with("script"));
        let mut inside = tag.trim_start_matches('/').strip_prefix(name.as_str()).unwrap();
        loop {
            inside = inside.trim_start();
            if let Some(after) = inside.strip_prefix('>') {
                rest = after;
                break;
            }
            let ends = inside.find([' ', '=', '>']).unwrap();
            let (attribute, after) = inside.split_at(ends);
            assert!(!attribute.is_empty(), "{what}: an attribute without quotes: {}", &inside[..inside.len().min(80)]);
            assert!(!attribute.starts_with("on") && attribute != "style", "{what}: {attribute}");
            assert!(attribute.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{what}: {attribute}");
            inside = after;
            if let Some(value) = after.strip_prefix("=\"") {
                let (value, after) = value.split_once('"').unwrap();
                let address = ["href", "src", "action"].contains(&attribute);
                assert!(!address || value.starts_with('/'), "{what}: {attribute}={value}");
                inside = after;
            }
        }
    }
    assert_eq!(scripts, 1, "{what}: the one script");
}

/// The text that a person reads.
fn read(page: &str) -> String {
    let texts = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text = texts.collect::<String>().replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&amp;", "&")
}

#[test]
fn the_reader_sees_what_is_not_ours() {
    let page = |body: &str| format!("<!DOCTYPE html><html><script src=\"/x\"></script>{body}</html>");
    only_ours(&page("<p title=\"<img>\">&lt;img src=x&gt;</p>"), "ours");
    for body in [
        "<iframe></iframe>",
        "<p onclick=\"x\">",
        "<a href=\"javascript:x\">",
        "<img src=x>",
        "<script>x</script>",
        "<p style=\"x\">",
    ] {
        assert!(std::panic::catch_unwind(|| only_ours(&page(body), "not ours")).is_err(), "{body}");
    }
}

#[tokio::test]
async fn no_field_of_a_payment_is_markup_on_any_page() {
    let bench = Bench::new().await;
    let body = bench.registration_of(&payload(), 1, &["ann", "bob"]);
    let answer = bench.post("/api/v1/payments", "register", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    bench.passkey("ann", "YW5uLTE", "active").await;
    let link = bench.link(&id).await;
    let asked: String = url::form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect();
    for language in ["en", "zh"] {
        for query in [
            String::new(),
            format!("?signer_id=ann&decision=reject&reason={asked}"),
            format!("?signer_id={asked}&key_id={asked}&decision={asked}"),
        ] {
            let page = bench.page(&format!("{link}{query}"), language).await;
            assert_eq!(page.status, 200, "{}", page.text);
            only_ours(&page.text, &query);
            let text = read(&page.text);
            for name in SHOWN {
                assert!(text.contains(&format!("{name}{HOSTILE}")), "{name} is shown as it was written: {text}");
            }
        }
    }
    // The same of a tenant whose people have passkeys.
    let known = PaymentDocument {
        tenant: "acme".to_owned(),
        round: "2".to_owned(),
        ..PaymentDocument::parse(&payload()).unwrap()
    };
    let body = bench.registration_of(&known.canonical().unwrap(), 2, &["ann", "bob"]);
    assert_eq!(bench.post("/api/v1/payments", "register-2", &body).await.status, 200);
    let link = bench.link(&id).await;
    let page = bench.get(&link).await.text;
    only_ours(&page, "with a passkey");
    let digest = body["payment_digest"].as_str().unwrap();
    let expected =
        DecisionDocument::answering(&challenge(&body, "ann"), digest, crate::proof::PASSKEY, Choice::Approve, "");
    assert_eq!(attribute(&page, "data-decision").unwrap(), expected.canonical().unwrap());

    // A person's own reason, on the page after their decision, and on what another is shown.
    let (document, jws) = signed_by(&answering(&body, "ann", Choice::Reject, HOSTILE), "ann");
    let result = bench.as_script(&format!("{link}/decisions"), &json!({"document": document, "jws": jws})).await;
    assert_eq!(result.status, 200, "{}", result.text);
    for (what, page) in [("result", result.text), ("afterwards", bench.get(&link).await.text)] {
        only_ours(&page, what);
        let text = read(&page);
        for shown in
            [format!("order{HOSTILE}"), format!("payee{HOSTILE}"), format!("account{HOSTILE}"), HOSTILE.to_owned()]
        {
            assert!(text.contains(&shown), "{what}: {shown}: {text}");
        }
    }
    // Refusals repeat nothing of what was sent.
    let (document, jws) = signed_by(&answering(&body, "bob", Choice::Reject, &format!("{HOSTILE}\n")), "bob");
    for sent in [
        json!({"document": document, "jws": jws}),
        json!({"document": HOSTILE, "jws": HOSTILE}),
        json!({"document": document, "jws": HOSTILE}),
    ] {
        let refused = bench.as_script(&format!("{link}/decisions"), &sent).await;
        assert!((400..500).contains(&refused.status), "{}", refused.text);
        only_ours(&refused.text, "refused");
    }
    for path in [format!("/sign/{asked}"), format!("/enrol/{asked}")] {
        let page = bench.get(&path).await;
        assert_eq!(page.status, 404);
        only_ours(&page.text, &path);
    }
}
