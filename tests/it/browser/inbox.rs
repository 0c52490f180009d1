//! A person signs in and sees what waits, while it changes.

use super::*;

#[tokio::test]
async fn a_signer_makes_a_second_passkey_signs_in_and_follows_what_waits() {
    browsing(async |app, browser| {
        let (document, url) = invite(app, "finance-1").await;
        browser.open(&url).await;
        browser.press("form[data-make] button").await;
        browser.sees("Read this to your operator").await;
        let code = browser.read_code().await;
        browser.is_accessible("the second step").await;
        browser.screenshot("second-step").await;
        browser.press("form[data-make-sign-in] button").await;
        browser.sees("Your sign-in passkey is made").await;
        browser.press("a.onward").await;
        assert_eq!(browser.read_code().await, code);
        pin(app, "finance-1", &document.invitation_id, &code).await.unwrap();

        browser.open(&format!("{}/inbox", app.pages)).await;
        browser.sees("Sign in with passkey").await;
        browser.screenshot("inbox-in").await;
        browser.is_accessible("the way in").await;
        browser.press("form[data-sign-in] button").await;
        browser.sees("Nothing waits for you").await;
        // Nobody reloads.
        app.proposed("PO-2026-117").await;
        browser.sees("Widgets GmbH").await;
        app.proposed("PO-2026-118").await;
        browser.sees("PO-2026-118").await;
        browser.screenshot("inbox").await;
        browser.is_accessible("the inbox").await;
        browser.look(Look::PHONE).await;
        browser.screenshot("inbox").await;
        browser.press("article form button").await;
        browser.sees("Approve with passkey").await;
        browser.press(APPROVE).await;
        browser.sees("You approved this payment").await;
        browser.open(&format!("{}/inbox", app.pages)).await;
        browser.sees("PO-2026-118").await;
        assert!(!browser.text().await.contains("PO-2026-117"), "it waits no more");
        browser.press("form[action$=sign-out] button").await;
        browser.sees("Sign in with passkey").await;
    })
    .await;
}
