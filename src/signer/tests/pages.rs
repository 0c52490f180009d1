//! What a person sees, and what a browser is told.

use super::*;
use crate::proof::decision_digest;

async fn form(bench: &Bench, link: &str, headers: &[(&str, &str)], fields: &[(&str, &str)]) -> Answer {
    let body: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut request =
        Request::post(format!("{link}/decisions")).header("content-type", "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    bench.send(request.body(body.into()).unwrap()).await
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[tokio::test]
async fn the_page_shows_exactly_what_is_signed() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let page = bench.get(&bench.link(&id).await).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let payload = body["payload"].as_str().unwrap();
    let digest = body["payment_digest"].as_str().unwrap();
    for text in ["199.00 USD", "DE89370400440532013000", digest, "ann of Finance (ann)"] {
        assert!(page.text.contains(text), "{text}");
    }
    let command = "countersign sign PO-2026-117 --url https://gateway.example --token-file TOKEN --key KEY.pem";
    assert_eq!(page.text.matches(command).count(), 2, "under each of them: by their own token and key");
    assert!(page.text.contains(&format!("<p class=\"code\">{}</p>", &digest[..8])));
    assert!(page.text.contains("To (verified: ") && !page.text.contains("no name:"), "the policy's name for it");
    assert!(page.text.contains(&escaped(payload)), "the canonical text, whole");
    let fields: std::collections::BTreeMap<String, String> = serde_json::from_str(payload).unwrap();
    for (name, value) in &fields {
        assert!(page.text.contains(&format!("<dt lang=\"en\">{name}</dt>")), "{name}");
        assert!(page.text.contains(&escaped(value)), "{value}");
    }
    for signer in ["ann", "bob"] {
        let text = answering(&body, signer, Choice::Approve, "").canonical().unwrap();
        assert!(page.text.contains(&escaped(&text)) && page.text.contains(&decision_digest(&text)));
    }
    let ours = "<script src=\"/assets/page.js\" defer></script>";
    assert!(page.text.contains(ours) && page.text.matches("<script").count() == 1, "no script but ours");
    assert!(page.text.contains("&lt;script&gt;alert("));
    for text in ["<strong>agent-7</strong>", ", for mia,", "United States dollar", "<dt>Decide until</dt>", "finance:1"]
    {
        assert!(page.text.contains(text), "{text}");
    }
    assert!(!page.text.contains(" style=") && !page.text.contains("<style"));
}

#[tokio::test]
async fn a_large_amount_is_spaced_and_its_text_stays_as_it_is_signed() {
    for (minor, shown) in [
        ("99", "0.99 USD"),
        ("100000", "1<span class=\"three\">000</span>.00 USD"),
        ("12345678", "123<span class=\"three\">456</span>.78 USD"),
        ("1234567890", "12<span class=\"three\">345</span><span class=\"three\">678</span>.90 USD"),
    ] {
        let bench = Bench::new().await;
        let mut document = document(1);
        document.amount_minor = minor.to_owned();
        let body = bench.registration_of(&document.canonical().unwrap(), 1, &["ann"]);
        let id = bench.post("/api/v1/payments", "r", &body).await.json()["id"].as_str().unwrap().to_owned();
        let page = bench.get(&bench.link(&id).await).await;
        assert!(page.text.contains(&format!("<p class=\"amount\">{shown}</p>")), "{minor}: {}", page.text);
    }
}

#[tokio::test]
async fn of_several_signers_the_one_who_asked_finds_their_form_open() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let opened = |page: &Answer| {
        let after = page.text.split("<details open>").skip(1);
        after.map(|rest| rest.split("</summary>").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(opened(&bench.get(&link).await), Vec::<String>::new());
    let asked = bench.get(&format!("{link}?signer_id=bob")).await;
    assert_eq!(opened(&asked), ["<summary>Sign as bob of Finance"]);
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    let alone = bench.get(&bench.link(&id).await).await;
    assert_eq!(opened(&alone), ["<summary>Sign as ann of Finance"]);
}

#[tokio::test]
async fn every_page_forbids_what_it_does_not_need() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    for (path, status) in [
        (link.as_str(), 200),
        (format!("{link}/qr.svg").as_str(), 200),
        ("/sign/unknown", 404),
        ("/enrol/unknown", 404),
        ("/assets/page.css", 200),
        ("/assets/page.js", 200),
        ("/healthz", 200),
    ] {
        let answer = bench.send(Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, status);
        assert_eq!(
            answer.header("content-security-policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
    }
    assert!(bench.get("/sign/unknown").await.text.contains("No such link"));
    assert_eq!(bench.get("/assets/page.css").await.header("content-type"), "text/css; charset=utf-8");
}

#[tokio::test]
async fn looking_changes_nothing() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    let before = bench.status(&id).await;
    for method in ["GET", "HEAD", "GET"] {
        let answer = bench.send(Request::builder().method(method).uri(&link).body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status, answer.text.is_empty()), (200, method == "HEAD"));
    }
    assert_eq!(bench.status(&id).await, before);
    let (text, jws) = signed(&body, "ann", Choice::Approve);
    assert_eq!(bench.decide(&link, &text, &jws).await.status, 200);
}

#[tokio::test]
async fn the_form_decides_and_leads_back_to_the_page() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["ann", "bob"]).await;
    let link = bench.link(&id).await;
    let query = "signer_id=ann&decision=reject&reason=Too+dear+%26+late";
    let shown = bench.get(&format!("{link}?{query}")).await;
    let document = answering(&body, "ann", Choice::Reject, "Too dear & late");
    let (text, jws) = signed_by(&document, "ann");
    assert!(shown.text.contains(&escaped(&text)), "the page shows the text for the asked decision");
    let fields = [
        ("signer_id", "ann"),
        ("key_id", document.key_id.as_str()),
        ("decision", "reject"),
        ("reason", "Too dear & late"),
        ("jws", jws.as_str()),
    ];
    let elsewhere = form(&bench, &link, &[("origin", "https://evil.example")], &fields).await;
    assert_eq!(elsewhere.status, 403);
    let sandboxed = form(&bench, &link, &[("origin", "null"), ("sec-fetch-site", "cross-site")], &fields).await;
    assert_eq!(sandboxed.status, 403);
    let answer = form(&bench, &link, &[("origin", "null"), ("sec-fetch-site", "same-origin")], &fields).await;
    assert_eq!((answer.status, answer.header("location")), (303, link.as_str()));
    let again = form(&bench, &link, &[("origin", ORIGIN)], &fields).await;
    assert_eq!(again.status, 303);
    let page = bench.get(&link).await;
    assert!(page.text.contains("<strong>Rejected</strong>") && page.text.contains("waits for signatures"));
    assert_eq!(bench.status(&id).await["decisions"][0]["document"], text);

    let wrong = form(&bench, &link, &[], &[("signer_id", "bob"), ("decision", "approve"), ("jws", jws.as_str())]).await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.text.contains("signature_invalid") && wrong.text.contains("Back to the payment"));
    // The key id may be left to the signature, and a pasted line end does not matter.
    let (_, jws) = signed(&body, "bob", Choice::Approve);
    let pasted = format!("{}\r\n", jws.replace("..", "..\n"));
    let fields = [("signer_id", "bob"), ("decision", "approve"), ("jws", pasted.as_str())];
    assert_eq!(form(&bench, &link, &[], &fields).await.status, 303);
    assert!(bench.get(&link).await.text.contains("Everyone who was asked has decided"));
}

#[tokio::test]
async fn a_signer_without_a_known_key_names_one() {
    let bench = Bench::new().await;
    let (id, body) = bench.registered(&["cleo"]).await;
    let link = bench.link(&id).await;
    assert!(bench.get(&link).await.text.contains("Enter your key id"));
    let document = answering(&body, "cleo", Choice::Approve, "");
    let shown = bench.get(&format!("{link}?signer_id=cleo&key_id={}", document.key_id)).await;
    assert!(shown.text.contains(&escaped(&document.canonical().unwrap())));
    let odd = bench.get(&format!("{link}?signer_id=cleo&key_id=%3Cb%3E&reason=a%0Ab&decision=x")).await;
    assert_eq!(odd.status, 200);
    assert!(odd.text.contains("role=\"alert\"") && !odd.text.contains("<b>"));
}

#[tokio::test]
async fn a_decision_in_an_unknown_form_is_refused() {
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    let request = Request::post(format!("{link}/decisions")).header("content-type", "text/plain");
    assert_eq!(bench.send(request.body("x".into()).unwrap()).await.status, 415);
}

/// A browser, or a program, that asks for an address.
async fn asks(bench: &Bench, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    bench.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn who_goes_astray_with_a_browser_is_told_so_by_a_page_and_a_program_by_json() {
    const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let bench = Bench::new().await;
    let (id, _) = bench.registered(&["ann"]).await;
    let link = bench.link(&id).await;
    let to_payment = format!("href=\"{link}\"");
    let cases: [(&str, String, u16, &str, &str); 12] = [
        ("GET", format!("{link}/decisions"), 405, "There is no page here", &to_payment),
        ("GET", format!("{link}/viewed"), 405, "There is no page here", &to_payment),
        ("GET", format!("{link}/x"), 404, "There is no page here", &to_payment),
        ("GET", "/sign".to_owned(), 404, "There is no page here", "countersign sign ORDER_ID"),
        (
            "GET",
            "/sign/<b>/x".replace('<', "%3C").replace('>', "%3E"),
            404,
            "There is no page here",
            "countersign sign",
        ),
        ("GET", "/sign/unknown/qr.svg".to_owned(), 404, "No such link", "countersign sign ORDER_ID"),
        ("GET", "/sign/%FF".to_owned(), 400, "Not recorded", "the address is not UTF-8"),
        ("GET", "/enrol/token/x".to_owned(), 404, "There is no page here", "href=\"/enrol/token\""),
        ("GET", "/enrol".to_owned(), 404, "There is no page here", "not_found"),
        ("GET", "/inbox/x".to_owned(), 404, "There is no page here", "href=\"/inbox\""),
        ("GET", "/inbox/sign-in".to_owned(), 405, "There is no page here", "href=\"/inbox\""),
        ("DELETE", "/inbox".to_owned(), 405, "There is no page here", "href=\"/inbox\""),
    ];
    for (method, path, status, title, onward) in cases {
        let page = asks(&bench, method, &path, &[BROWSER]).await;
        assert_eq!((page.status, page.header("content-type")), (status, "text/html; charset=utf-8"), "{path}");
        assert!(page.text.contains(&format!("<h1 tabindex=\"-1\">{title}</h1>")), "{path}: {}", page.text);
        assert!(page.text.contains(onward) && !page.text.contains("%3C"), "{path}: {}", page.text);
        assert!(page.header("content-security-policy").contains("default-src 'none'"), "{path}");
        let chinese = asks(&bench, method, &path, &[BROWSER, ("accept-language", "zh")]).await;
        assert!(!chinese.text.contains(title), "{path}");
        let program = asks(&bench, method, &path, &[("accept", "application/json")]).await;
        assert_eq!((program.status, program.header("allow")), (status, page.header("allow")), "{path}");
        assert!(program.json()["error_code"].is_string(), "{path}");
    }
    assert!(asks(&bench, "GET", &format!("{link}/decisions"), &[BROWSER]).await.header("allow").contains("POST"));
    let sent = asks(&bench, "POST", "/inbox/sign-out", &[BROWSER, ("origin", "https://evil.example")]).await;
    assert!(
        sent.status == 403 && sent.text.contains("Sent from another site"),
        "a form's answer is looked at: {}",
        sent.text
    );
    for path in ["/", "/api/v1/payments", "/assets/x", "/signs"] {
        assert!(asks(&bench, "GET", path, &[BROWSER]).await.json()["error_code"].is_string(), "{path} is no page's");
    }
}
