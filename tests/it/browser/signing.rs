//! A person looks at a payment and says yes or no with a passkey.

use super::*;

#[tokio::test]
async fn a_person_approves_with_a_passkey_and_the_payment_is_carried_out() {
    on_each_screen(async |app, browser| {
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
        browser.screenshot("sign").await;
        browser.is_accessible("the sign page").await;
        browser.press(APPROVE).await;
        browser.sees("You approved this payment").await;
        browser.screenshot("approved").await;
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
        browser.sees("This payment is approved, or already paid").await;
        browser.screenshot("closed").await;
    })
    .await;
}

/// Tab, on a keyboard.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

#[tokio::test]
async fn a_person_rejects_by_keyboard_and_the_reason_is_signed() {
    on_each_screen(async |app, browser| {
        browser.enrols(app, "finance-1").await;
        app.proposed("PO-2026-118").await;
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
        browser.screenshot("rejecting").await;
        browser.keys(ENTER).await;
        browser.sees("You rejected this payment").await;
        browser.sees("Reason: Not ours; ñot & <b>").await;
        browser.screenshot("rejected").await;
        app.deliver_callbacks().await;
        app.settle().await;
        assert_eq!(app.stands("PO-2026-118").await, "REJECTED");
    })
    .await;
}

#[tokio::test]
async fn looking_at_a_page_changes_nothing_and_only_a_person_has_seen_it() {
    on_each_screen(async |app, browser| {
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
    on_each_screen_with(wishes().policy(twice), async |app, browser| {
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

#[tokio::test]
async fn what_others_wrote_is_shown_and_never_run() {
    let hostile = "<img src=x onerror=hit=1><script>hit=2</script>&lt;b&gt;";
    let named = wishes().policy(policy().replace("Widgets GmbH", hostile));
    on_each_screen_with(named, async |app, browser| {
        browser.enrols(app, "finance-1").await;
        let arguments = json!({"order_id": "PO-1", "amount": "1.00", "currency": "EUR", "notify": true,
            "payee": "DE89370400440532013000", "memo": hostile, "signer_id": "finance-1"});
        let created = app.call(&app.purchasing(), "create_payment", arguments).await;
        assert_eq!(created.status(), "AWAITING_SIGNER", "{}", created.body);
        browser.open(&format!("{}?for=finance-1", app.sign_page("PO-1").await)).await;
        let harmless = async |times: usize| {
            let text = browser.text().await;
            assert_eq!(text.matches(hostile).count(), times, "{text}");
            let found = "return [window.hit ?? 0, document.querySelectorAll('main img:not([src$=\"/qr.svg\"]), main script, main b').length]";
            assert_eq!(browser.script(found, json!([])).await, json!([0, 0]));
        };
        browser.sees("Approve with passkey").await;
        harmless(2).await;
        browser.screenshot("hostile").await;
        browser.press("[data-passkey] details > summary").await;
        browser.write("form[data-choice=reject] input", hostile).await;
        browser.press("form[data-choice=reject] button").await;
        browser.sees("You rejected this payment").await;
        harmless(2).await;
        browser.press("a.onward").await;
        browser.sees("Rejected, recorded at").await;
        harmless(3).await;
    })
    .await;
}
