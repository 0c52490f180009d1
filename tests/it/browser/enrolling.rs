//! A person is invited, makes a passkey, and reads its code to an operator.

use super::*;

#[tokio::test]
async fn a_person_makes_a_passkey_and_reads_its_code_which_makes_it_count() {
    on_each_screen(async |app, browser| {
        let (document, url) = invite(app, "finance-1").await;
        browser.open(&url).await;
        browser.sees("Mia Lindqvist").await;
        browser.screenshot("enrol").await;
        browser.is_accessible("the invitation").await;
        browser.write("#label", "Mia's phone").await;
        browser.press("form[data-make] button").await;
        browser.sees("Read this to your operator").await;
        browser.screenshot("enrolled").await;
        browser.is_accessible("the code").await;
        let code = browser.read_code().await;
        let fours: Vec<usize> = code.split('-').map(str::len).collect();
        assert_eq!(fours, [4, 4, 4], "{code}");

        browser.reload().await;
        browser.sees("By this invitation a passkey was made").await;
        assert_eq!(browser.read_code().await, code, "whoever closed the page too early finds it again");
        pin(app, "finance-1", &document.invitation_id, &code).await.unwrap();
        browser.reload().await;
        browser.sees("This passkey counts").await;
        browser.sees("Mia's phone").await;
        assert_eq!(browser.credentials().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_invitation_that_can_not_be_answered_says_why() {
    on_each_screen(async |app, browser| {
        // The device can't tell that it is its owner.
        let (_, url) = invite(app, "finance-1").await;
        browser.verifies(false).await;
        browser.open(&url).await;
        browser.press("form[data-make] button").await;
        browser.sees("No passkey was made").await;
        browser.verifies(true).await;

        // The same device again: it says that it has one.
        let passkey = browser.enrols(app, "finance-2").await;
        let (_, url) = invite(app, "finance-2").await;
        browser.open(&url).await;
        browser.press("form[data-make] button").await;
        browser.sees("This device holds such a passkey of yours already").await;
        assert!(!passkey.is_empty());

        // Too late, with the page open.
        let (_, url) = invite(app, "finance-1").await;
        browser.open(&url).await;
        browser.sees("Make your passkey").await;
        app.clock.advance(2 * 3_600_000_000);
        browser.press("form[data-make] button").await;
        browser.sees("No passkey was recorded").await;
        assert_eq!(browser.heading().await, "This invitation has expired");
        browser.press("a.onward").await;
        browser.sees("No passkey was made by it").await;
        browser.open(&format!("{}/enrol/nobody", app.pages)).await;
        browser.sees("No such invitation").await;
        browser.is_accessible("a notice").await;
    })
    .await;
}
