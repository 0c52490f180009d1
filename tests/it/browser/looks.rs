//! How the pages look and read: on a phone and a desk, light and dark, in each language.

use super::*;

const CHINESE: &str = "zh-CN";

#[tokio::test]
async fn the_sign_page_is_pleasant_on_every_screen_and_to_every_reader() {
    browsing(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("PO-2026-117").await;
        for (name, look) in [
            ("light-en", Look::DESKTOP),
            ("dark-en", Look::DESKTOP.dark()),
            ("light-en", Look::PHONE),
            ("dark-zh", Look::PHONE.dark().speaking(CHINESE)),
            ("light-zh", Look::DESKTOP.speaking(CHINESE)),
        ] {
            browser.look(look).await;
            browser.open(&app.sign_page("PO-2026-117").await).await;
            let waits = if look.language == CHINESE { "正在等待签署" } else { "waits for signatures" };
            browser.sees(waits).await;
            browser.screenshot(&format!("look-{name}-closed")).await;
            browser.press("article:first-of-type > details > summary").await;
            let with = if look.language == CHINESE { "用通行密钥批准" } else { "Approve with passkey" };
            browser.sees(with).await;
            browser.screenshot(&format!("look-{name}")).await;
            match (name, look.phone) {
                ("light-en", true) => browser.upper_part("readme-sign-phone", look, 1230).await,
                ("dark-en", false) => browser.upper_part("readme-sign-desk", look, 1080).await,
                _ => {}
            }
            for summary in [
                "[data-passkey] details > summary",
                "details.other > summary",
                "section:last-of-type details > summary",
            ] {
                browser.press(summary).await;
            }
            browser.screenshot(&format!("look-{name}-unfolded")).await;
            browser.is_accessible(name).await;
            let shown =
                browser.script("return getComputedStyle(document.querySelector('.qr')).display", json!([])).await;
            assert_eq!(shown != "none", !look.phone, "{name}: the QR code is for who is not on a phone");
        }
    })
    .await;
}

/// What is seen before and after a decision: in the dark, and in Chinese.
#[tokio::test]
async fn every_kind_of_page_is_pleasant_in_the_dark_and_in_chinese() {
    browsing(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        for (name, look) in [
            ("dark-en", Look::DESKTOP.dark()),
            ("dark-zh", Look::PHONE.dark().speaking(CHINESE)),
            ("light-zh", Look::DESKTOP.speaking(CHINESE)),
        ] {
            browser.look(look).await;
            let order = format!("{name}-{}", look.phone);
            app.proposed(&order).await;
            let (_, invitation) = invite(app, "finance-2").await;
            let stale = app.sign_page(&order).await;
            let chinese = |chinese, english| if look.language == CHINESE { chinese } else { english };
            for (page, url, seen) in [
                ("enrol", invitation, chinese("创建", "Make your passkey")),
                ("unknown", format!("{}/sign/nobody", app.pages), chinese("链接不存在", "No such link")),
                ("no-invitation", format!("{}/enrol/nobody", app.pages), chinese("邀请不存在", "No such invitation")),
                ("inbox-in", format!("{}/inbox", app.pages), chinese("登录", "Sign in")),
                ("open", stale, chinese("正在等待签署", "waits for signatures")),
            ] {
                browser.open(&url).await;
                browser.sees(seen).await;
                browser.screenshot(&format!("look-{name}-{page}")).await;
                browser.is_accessible(&format!("{name}: {page}")).await;
            }
            // A decision that is refused, the same person's result, and the page after it.
            browser.press("article:first-of-type > details > summary").await;
            browser.verifies(false).await;
            browser.press(APPROVE).await;
            browser.sees(chinese("没有使用任何通行密钥", "No passkey was used")).await;
            browser.screenshot(&format!("look-{name}-unused")).await;
            browser.is_accessible(&format!("{name}: unused")).await;
            browser.verifies(true).await;
            browser.press(APPROVE).await;
            browser.sees(chinese("您已批准此付款", "You approved this payment")).await;
            browser.screenshot(&format!("look-{name}-result")).await;
            browser.is_accessible(&format!("{name}: result")).await;
            app.cancel_as_purchasing(&order).await;
            browser.press("a.onward").await;
            browser.sees(chinese("此付款已被取消", "This payment was cancelled")).await;
            browser.screenshot(&format!("look-{name}-cancelled")).await;
            browser.is_accessible(&format!("{name}: cancelled")).await;
        }
    })
    .await;
}
