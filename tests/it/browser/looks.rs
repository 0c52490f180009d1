//! How the pages look and read: on a phone and a desk, light and dark, in each language.

use super::*;

#[tokio::test]
async fn the_sign_page_is_pleasant_on_every_screen_and_to_every_reader() {
    browsing(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("PO-2026-117").await;
        let (english, chinese) = ("en", "zh-CN");
        for (name, look) in [
            ("desktop-light-en", Look::DESKTOP),
            ("desktop-dark-en", Look::DESKTOP.dark()),
            ("phone-light-en", Look::PHONE.speaking(english)),
            ("phone-dark-zh", Look::PHONE.dark().speaking(chinese)),
            ("desktop-light-zh", Look::DESKTOP.speaking(chinese)),
        ] {
            browser.look(look).await;
            browser.open(&app.sign_page("PO-2026-117").await).await;
            let waits = if look.language == english { "waits for signatures" } else { "正在等待签署" };
            browser.sees(waits).await;
            browser.screenshot(&format!("look-{name}-closed")).await;
            browser.press("article:first-of-type > details > summary").await;
            let with = if look.language == english { "Approve with passkey" } else { "用通行密钥批准" };
            browser.sees(with).await;
            browser.screenshot(&format!("look-{name}")).await;
            match name {
                "phone-light-en" => browser.upper_part("sign-phone", look, 1230).await,
                "desktop-dark-en" => browser.upper_part("sign-desk", look, 1080).await,
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
