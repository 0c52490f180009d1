//! What may go wrong between a person and their decision; each time the page says what it is.

use super::*;
use crate::harness::app::SIGNER_API_KEY;

/// Opens the first person's part, where their passkey is used.
async fn opens(app: &App, browser: &Browser, order: &str) -> String {
    let url = app.sign_page(order).await;
    browser.open(&url).await;
    browser.press("article:first-of-type > details > summary").await;
    browser.sees("Approve with passkey").await;
    url
}

#[tokio::test]
async fn a_passkey_that_is_not_there_or_not_theirs_decides_nothing() {
    on_each_screen(async |app, browser| {
        let key_id = browser.enrols(app, "finance-1").await;
        let mine = browser.credentials().await.remove(0);
        app.proposed("order-1").await;

        // The person is not verified; nothing is sent.
        opens(app, browser, "order-1").await;
        browser.verifies(false).await;
        browser.press(APPROVE).await;
        browser.sees("No passkey was used, so nothing was decided").await;
        browser.screenshot("cancelled").await;
        browser.is_accessible("a passkey that was not used").await;

        // A device that holds none of theirs.
        browser.authenticator().await;
        opens(app, browser, "order-1").await;
        browser.tampers("credentials", &json!("[\"AAAA\"]")).await;
        browser.press(APPROVE).await;
        browser.sees("No passkey was used, so nothing was decided").await;

        // Somebody else's, on a page that offers it to them.
        browser.enrols(app, "finance-2").await;
        let theirs = browser.credentials().await[0]["credentialId"].as_str().unwrap().to_owned();
        opens(app, browser, "order-1").await;
        browser.tampers("credentials", &json!(json!([theirs]).to_string())).await;
        browser.press(APPROVE).await;
        browser.sees("Your decision was not recorded").await;
        assert_eq!(browser.heading().await, "Not a passkey of this person");
        browser.screenshot("not-theirs").await;
        browser.is_accessible("a refusal").await;

        // What it is to sign was changed on the way to the passkey: another amount is another digest.
        browser.authenticator().await;
        browser.put_credential(&mine).await;
        opens(app, browser, "order-1").await;
        let body = "const box = document.querySelector('[data-passkey]');
             const decision = JSON.parse(box.dataset.decision);
             decision.payment_digest = decision.payment_digest.split('').reverse().join('');
             box.dataset.decision = JSON.stringify(decision)";
        browser.script(body, json!([])).await;
        browser.press(APPROVE).await;
        browser.sees("digest_mismatch").await;

        // Revoked while the page is open.
        opens(app, browser, "order-1").await;
        let told = app.signer_db().await.texts(&format!("SELECT credential_id || ' ' || public_key FROM passkeys WHERE key_id = '{key_id}'")).await;
        let (credential, public_key) = told[0].split_once(' ').unwrap();
        let revoked = json!({"tenant": "default", "credential_id": credential, "alg": "ES256", "public_key": public_key, "label": "x", "state": "revoked"});
        let url = format!("{}/api/v1/signers/finance-1/passkeys/{key_id}", app.signer.url());
        assert_eq!(app.http.put(url).bearer_auth(SIGNER_API_KEY).json(&revoked).send().await.unwrap().status(), 200);
        browser.press(APPROVE).await;
        browser.sees("It counts no more").await;
        assert_eq!(browser.heading().await, "This passkey was revoked");
        browser.press("a.onward").await;
        browser.press("article:first-of-type > details > summary").await;
        browser.sees("No passkey of this person counts yet").await;
        assert_eq!(app.kept().await, 0, "nothing of it was kept");
    })
    .await;
}

#[tokio::test]
async fn what_became_of_the_payment_meanwhile_is_said() {
    on_each_screen(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("order-1").await;
        opens(app, browser, "order-1").await;
        app.cancel_as_purchasing("order-1").await;
        browser.press(APPROVE).await;
        browser.sees("No decision is wanted any more").await;
        browser.screenshot("cancelled-meanwhile").await;
        browser.press("a.onward").await;
        browser.sees("This payment was cancelled").await;

        // Another round: the key that had signed was revoked.
        app.proposed("order-2").await;
        opens(app, browser, "order-2").await;
        app.sign_as("finance-2", "order-2").await;
        app.revoke_key("finance-2").await;
        app.settle().await;
        assert_eq!(app.stands("order-2").await, "AWAITING_SIGNER", "asked anew");
        app.settle().await;
        browser.press(APPROVE).await;
        browser.sees("This payment was changed").await;
        browser.reload().await;
        browser.sees("This payment was changed").await;
        opens(app, browser, "order-2").await;

        // The link lapses before the payment does.
        app.clock.advance(16 * 60_000_000);
        browser.press(APPROVE).await;
        browser.sees("This link has lapsed").await;
        browser.screenshot("lapsed").await;
        assert_eq!(app.stands("order-2").await, "AWAITING_SIGNER");
        assert_eq!(app.kept().await, 0, "none of these was recorded");
        opens(app, browser, "order-2").await;
        browser.press(APPROVE).await;
        browser.sees("You approved this payment").await;
    })
    .await;
}

#[tokio::test]
async fn a_payment_that_expires_while_its_page_is_open_is_not_decided_and_says_so() {
    // Sooner than the link.
    let soon = wishes().config(|config| config.payments.expires_after_s = 600);
    on_each_screen_with(soon, async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("order-1").await;
        opens(app, browser, "order-1").await;
        app.clock.advance(601 * 1_000_000);
        browser.press(APPROVE).await;
        browser.sees("This payment has expired. Your decision was not recorded.").await;
        assert_eq!(browser.heading().await, "The time to decide has passed");
        browser.screenshot("expired").await;
        browser.is_accessible("too late").await;
        browser.press("a.onward").await;
        browser.sees("No signature is taken any more").await;
        assert_eq!(browser.heading().await, "A payment that has expired");
        browser.screenshot("expired-after").await;
        browser.is_accessible("a payment that has expired").await;

        // The gateway was sooner, and has told the service.
        app.proposed("order-2").await;
        opens(app, browser, "order-2").await;
        app.clock.advance(601 * 1_000_000);
        app.settle().await;
        assert_eq!(app.stands("order-2").await, "EXPIRED");
        browser.press(APPROVE).await;
        browser.sees("Your decision was not recorded").await;
        assert_eq!(browser.heading().await, "No decision is wanted any more");
        browser.press("a.onward").await;
        browser.sees("The time to decide has passed").await;
        assert_eq!((app.kept().await, app.deliver_callbacks().await), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn two_presses_and_two_windows_are_one_decision() {
    on_each_screen(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("order-1").await;
        let url = opens(app, browser, "order-1").await;
        let (first, second) = browser.second_tab().await;
        browser.open(&url).await;
        browser.sees("Sign as Mia Lindqvist").await;
        browser.tab(&first).await;
        let twice = "const button = document.querySelector(arguments[0]); button.click(); button.click()";
        browser.script(twice, json!([APPROVE])).await;
        browser.sees("You approved this payment").await;
        assert_eq!(app.kept().await, 1);
        // Whoever comes back to the other one sees it.
        browser.tab(&second).await;
        browser.sees("Approved, recorded at").await;
        assert_eq!(app.kept().await, 1);
        browser.tab(&first).await;
    })
    .await;
}

#[tokio::test]
async fn who_has_decided_elsewhere_is_told_and_the_first_word_stands() {
    on_each_screen(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("order-1").await;
        let url = opens(app, browser, "order-1").await;
        let document = app.document("finance-1", "order-1", "approve", "").await;
        let sent = json!({"document": document, "jws": app.jws("finance-1", &document)});
        assert_eq!(app.http.post(format!("{url}/decisions")).json(&sent).send().await.unwrap().status(), 200);
        browser.press("[data-passkey] details > summary").await;
        browser.write("form[data-choice=reject] input", "after all").await;
        browser.press("form[data-choice=reject] button").await;
        browser.sees("You have decided already").await;
        browser.press("a.onward").await;
        browser.sees("Approved, recorded at").await;
        assert_eq!(app.kept().await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_browser_without_passkeys_or_scripts_is_told_what_to_do() {
    on_each_screen(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("order-1").await;
        let without = json!({"source": "delete window.PublicKeyCredential"});
        let script = browser.devtools("Page.addScriptToEvaluateOnNewDocument", without).await;
        browser.open(&app.sign_page("order-1").await).await;
        browser.press("article:first-of-type > details > summary").await;
        browser.sees("This browser can't use passkeys here").await;
        browser.screenshot("no-passkeys").await;
        browser.devtools("Page.removeScriptToEvaluateOnNewDocument", json!({"identifier": script["identifier"]})).await;

        browser.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        browser.open(&app.sign_page("order-1").await).await;
        browser.press("article:first-of-type > details > summary").await;
        browser.sees("Passkeys need this page's small script").await;
        assert!(!browser.text().await.contains("Approve with passkey"), "no button that does nothing");
        browser.press("details.other > summary").await;
        browser.sees("countersign sign order-1 --signer finance-1").await;
        browser.devtools("Emulation.setScriptExecutionDisabled", json!({"value": false})).await;
    })
    .await;
}
