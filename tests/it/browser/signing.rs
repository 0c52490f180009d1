//! A person looks at a payment and says yes or no with a passkey.

use super::*;

#[tokio::test]
async fn a_person_approves_with_a_passkey_and_the_payment_is_carried_out() {
    browsing(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("PO-2026-117").await;
        let url = app.sign_page("PO-2026-117").await;
        browser.open(&url).await;
        for text in [
            "purchasing",
            "12480.00 EUR",
            "Euro",
            "DE89370400440532013000",
            "Widgets GmbH",
            "PO-2026-117",
            "Invoice 4711, spare parts for line 2",
            "1 of finance",
            "Mia Lindqvist",
            "Tomás Herrera",
            "Compare code",
        ] {
            browser.sees(text).await;
        }
        // Of two who are asked, each opens their own part.
        browser.press("article:first-of-type > details > summary").await;
        browser.sees("Approve with passkey").await;
        browser.screenshot("sign-desktop").await;
        browser.is_accessible("the sign page").await;
        browser.press(APPROVE).await;
        browser.sees("You approved this payment").await;
        browser.screenshot("approved-desktop").await;
        browser.is_accessible("the result").await;
        assert_eq!(browser.script("return document.activeElement.tagName", json!([])).await, "H1", "a voice reads it");

        // Opened again, back, and in the end: the truth.
        browser.reload().await;
        browser.sees("Approved, recorded at").await;
        browser.open("about:blank").await;
        browser.back().await;
        browser.sees("Approved, recorded at").await;
        assert_eq!(app.kept().await, 1);
        app.deliver_callbacks().await;
        app.settle().await;
        assert_eq!(app.stands("PO-2026-117").await, "EXECUTED");
        browser.reload().await;
        browser.sees("Enough people have approved this payment").await;
        browser.screenshot("closed-desktop").await;
    })
    .await;
}

/// Tab, on a keyboard.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

#[tokio::test]
async fn a_person_rejects_by_keyboard_and_the_reason_is_signed() {
    browsing(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("PO-2026-118").await;
        browser.look(Look::PHONE).await;
        browser.open(&app.sign_page("PO-2026-118").await).await;
        browser.sees("Sign as Mia Lindqvist").await;
        let focused = async || {
            let name = "const at = document.activeElement;
                 return at === document.body ? '' : at.textContent.trim() || at.name";
            browser.script(name, json!([])).await.as_str().unwrap_or_default().to_owned()
        };
        let reach = async |wanted: &str| {
            for _ in 0..12 {
                if focused().await.contains(wanted) {
                    return;
                }
                browser.keys(TAB).await;
            }
            panic!("no key leads to {wanted:?}; at {:?}", focused().await);
        };
        reach("Sign as Mia Lindqvist").await;
        browser.keys(ENTER).await;
        browser.keys(TAB).await;
        reach("Reject").await;
        browser.keys(ENTER).await;
        browser.keys(TAB).await;
        assert_eq!(focused().await, "reason");
        // A reason is asked for.
        browser.keys(ENTER).await;
        assert_eq!(app.kept().await, 0);
        browser.keys("Not ours; n\u{303}ot & <b>").await;
        browser.screenshot("rejecting-phone").await;
        browser.keys(ENTER).await;
        browser.sees("You rejected this payment").await;
        browser.sees("Reason: Not ours; ñot & <b>").await;
        browser.screenshot("rejected-phone").await;
        app.deliver_callbacks().await;
        app.settle().await;
        assert_eq!(app.stands("PO-2026-118").await, "REJECTED");
    })
    .await;
}

#[tokio::test]
async fn looking_at_a_page_changes_nothing_and_only_a_person_has_seen_it() {
    browsing(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("PO-2026-119").await;
        let url = app.sign_page("PO-2026-119").await;
        // A scanner of mail gets all of it, and follows what it finds.
        for path in ["", "?signer_id=finance-1", "/qr.svg"] {
            for request in [app.http.get(format!("{url}{path}")), app.http.head(format!("{url}{path}"))] {
                assert_eq!(request.header("sec-purpose", "prefetch").send().await.unwrap().status(), 200);
            }
        }
        assert_eq!((app.kept().await, app.signer.count("POST", "/viewed")), (0, 0));
        browser.open(&url).await;
        browser.sees("Sign as Mia Lindqvist").await;
        for _ in 0..50 {
            if app.signer.count("POST", "/viewed") == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(app.signer.count("POST", "/viewed"), 1, "a person has it before them");
        assert_eq!(app.kept().await, 0);
    })
    .await;
}

#[tokio::test]
async fn an_approval_that_must_be_confirmed_is_confirmed_on_a_second_device() {
    let twice = policy().replace("\nrequired = 1\n", "\nrequired = 1\nconfirmations = 2\n");
    browsing_under(twice, async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("PO-2026-118").await;
        let url = format!("{}?for=finance-1", app.sign_page("PO-2026-118").await);
        browser.open(&url).await;
        browser.sees("each with 2 keys").await;
        browser.press(APPROVE).await;
        browser.sees("One confirmation is missing").await;
        browser.open(&url).await;
        browser.sees("One confirmation is missing").await;
        browser.sees("No other passkey of this person counts yet").await;
        assert_eq!(app.stands("PO-2026-118").await, "AWAITING_SIGNER");

        // Another device, which does not hold the first passkey.
        browser.no_authenticator().await;
        browser.authenticator().await;
        browser.enrols(app, "finance-1").await;
        browser.open(&url).await;
        browser.sees("One confirmation is missing").await;
        browser.is_accessible("an approval that waits for its confirmation").await;
        browser.press(APPROVE).await;
        browser.sees("You approved this payment").await;
        app.deliver_callbacks().await;
        app.settle().await;
        assert_eq!(app.stands("PO-2026-118").await, "EXECUTED");
        assert_eq!(app.kept().await, 2);
    })
    .await;
}
