//! Windows that are old, and what is sent from them: after Back, and beside another window.

use super::*;

/// Opens a page in a second window that notices nothing from then on; both windows, the first one before the person.
async fn left_open(browser: &Browser, url: &str, text: &str) -> (String, String) {
    let (first, second) = browser.second_tab().await;
    browser.open(url).await;
    browser.sees(text).await;
    browser.notices_nothing().await;
    browser.tab(&first).await;
    (first, second)
}

#[tokio::test]
async fn a_press_in_a_window_that_was_left_open_decides_nothing_anew() {
    on_each_screen(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        for order in ["order-1", "order-2"] {
            app.proposed(order).await;
            let url = format!("{}?for=finance-1", app.sign_page(order).await);
            browser.open(&url).await;
            let (first, second) = left_open(browser, &url, "Approve with passkey").await;
            browser.press(APPROVE).await;
            browser.sees("You approved this payment").await;
            // The other window still shows the form. A yes is the one that there is; a no comes too late.
            let mine = browser.credentials().await;
            browser.tab(&second).await;
            let device = browser.device().await;
            browser.put_into(&device, &mine[0]).await;
            if order == "order-1" {
                browser.press(APPROVE).await;
                browser.sees("You approved this payment").await;
            } else {
                browser.press("[data-passkey] details > summary").await;
                browser.write("form[data-choice=reject] input", "after all").await;
                browser.press("form[data-choice=reject] button").await;
                browser.sees("The first decision stands").await;
                assert_eq!(browser.heading().await, "You have decided already");
                browser.screenshot("decided-already").await;
                browser.is_accessible("decided already").await;
            }
            browser.press("a.onward").await;
            browser.sees("Approved, recorded at").await;
            browser.tab(&first).await;
            assert_eq!(app.deliver_callbacks().await, 1);
            app.settle().await;
            assert_eq!(app.stands(order).await, "EXECUTED");
        }
        assert_eq!(app.kept().await, 2);
    })
    .await;
}

#[tokio::test]
async fn what_is_sent_again_after_back_is_the_decision_that_there_is() {
    on_each_screen(async |app, browser| {
        app.proposed("order-1").await;
        let url = format!("{}?signer_id=finance-1", app.sign_page("order-1").await);
        let document = app.document("finance-1", "order-1", "approve", "").await;
        browser.open(&url).await;
        browser.write("form[method=post] textarea", &app.jws("finance-1", &document)).await;
        // As a browser keeps it that shows the old page after Back.
        let fields = "const form = document.querySelector('form[method=post]');
             return [form.getAttribute('action'), [...new FormData(form)]]";
        let fields = browser.script(fields, json!([])).await;
        browser.press("form[method=post] button").await;
        browser.sees("Approved, recorded at").await;
        assert_eq!(app.kept().await, 1);
        browser.reload().await;
        browser.sees("Approved, recorded at").await;
        browser.back().await;
        browser.sees("Approved, recorded at").await;
        let button = "return document.querySelector('article:first-of-type button, article:first-of-type textarea')";
        assert!(browser.script(button, json!([])).await.is_null(), "nothing is left to be sent");
        let again = "const form = document.createElement('form');
             [form.method, form.action] = ['post', arguments[0]];
             for (const [name, value] of arguments[1]) {
                form.append(Object.assign(document.createElement('input'), { name, value }));
             }
             document.body.append(form);
             form.submit()";
        browser.script(again, fields).await;
        browser.sees("Approved, recorded at").await;
        browser.screenshot("sent-again").await;
        assert_eq!(app.kept().await, 1);
        assert_eq!(app.deliver_callbacks().await, 1, "one decision was told of");
        app.settle().await;
        assert_eq!(app.stands("order-1").await, "EXECUTED");
    })
    .await;
}

#[tokio::test]
async fn of_two_windows_of_an_invitation_the_second_one_makes_no_passkey_that_counts() {
    on_each_screen(async |app, browser| {
        let (_, url) = invite(app, "finance-1").await;
        browser.open(&url).await;
        let (first, second) = left_open(browser, &url, "Make your passkey").await;
        browser.press("form[data-make] button").await;
        browser.sees("Read this to your operator").await;
        let code = browser.read_code().await;
        browser.tab(&second).await;
        browser.device().await;
        browser.press("form[data-make] button").await;
        browser.sees("This one does not count").await;
        assert_eq!(browser.heading().await, "A passkey was made already");
        browser.screenshot("made-already").await;
        browser.is_accessible("made already").await;
        browser.press("a.onward").await;
        assert_eq!(browser.read_code().await, code, "the first one's");

        // Whoever comes back to an old window sees what is so, and need not press.
        let (_, url) = invite(app, "finance-2").await;
        browser.open(&url).await;
        browser.sees("Make your passkey").await;
        browser.tab(&first).await;
        browser.open(&url).await;
        browser.press("form[data-make] button").await;
        browser.sees("Read this to your operator").await;
        browser.tab(&second).await;
        browser.sees("By this invitation a passkey was made").await;
        browser.tab(&first).await;
    })
    .await;
}
