//! The inbox's pages: the way in, and what waits.

use maud::{Markup, html};

use super::person::said_by_script;
use super::shell::{Frame, deadline, grouped, or_none, shell};
use super::texts;
use super::words::spoken;
use crate::proof::PaymentDocument;
use crate::signer::inbox::PATH;
use crate::signer::language::{Both, Language, both};
use crate::signer::link::Address;

const SIGN_IN_HEADING: Both = both("Your inbox", "您的收件箱");
const SIGN_IN_WHY: Both = both(
    "Sign in to see the payments that wait for you. The passkey for that is one of its own: it approves nothing.",
    "登录后可查看等待您处理的付款。登录所用的通行密钥是单独的，不能用于批准付款。",
);
const SIGN_IN: Both = both("Sign in with passkey", "用通行密钥登录");
const NO_KEY: Both = both(
    "You make it right after the passkey that approves, on the page of your invitation. Without one you still get to each payment by its link.",
    "它在创建用于批准的通行密钥之后，于邀请页面上创建。没有它，您仍可通过链接打开每笔付款。",
);
const WITHOUT_SCRIPT: Both = both(
    "Passkeys need this page's small script, which did not run. Allow scripts of this site and reload.",
    "通行密钥需要运行本页的一个小脚本，但它没有运行。请允许本站脚本后刷新。",
);
const UNSUPPORTED: Both = both(
    "This browser can't use passkeys here. Open the page in another browser or on your phone.",
    "此浏览器无法在此使用通行密钥。请用其他浏览器或手机打开本页。",
);
const NOT_USED: Both = both(
    "No passkey was used. Either you cancelled, it took too long, or this device has none to sign in with. You can try again.",
    "没有使用通行密钥。可能是您取消了操作、等待超时，或此设备上没有用于登录的通行密钥。您可以重试。",
);
const WAITS: Both = both("What waits for {}", "等待 {} 处理");
const NOTHING: Both = both(
    "Nothing waits for you. A new payment shows up here by itself.",
    "没有等待您处理的付款。新的付款会自动出现在这里。",
);
const LIVE: Both = both("This list follows by itself.", "此列表会自动更新。");
const OLDEST: Both = both("Oldest first", "最早的在前");
const LARGEST: Both = both("Largest first", "金额最大的在前");
const ORDER_OF: Both = both("In which order", "排列顺序");
const OPEN: Both = both("Look and decide", "查看并决定");
const SIGN_OUT: Both = both("Sign out", "退出登录");
const FOOT: Both = both(
    "The session ends by itself after half an hour. Nothing is decided here.",
    "会话在半小时后自动结束。这里不会作出任何决定。",
);

/// A payment that waits.
#[derive(Debug)]
pub(in crate::signer) struct Waiting {
    /// The service's id for it.
    pub(in crate::signer) id: String,
    /// Until when it can be decided, RFC 3339.
    pub(in crate::signer) expires_at: String,
    /// Its amount in minor units, to order by.
    pub(in crate::signer) minor: i64,
    /// Its document.
    pub(in crate::signer) document: PaymentDocument,
}

/// Everything the page is made from.
#[derive(Debug)]
pub(in crate::signer) struct Inbox<'a> {
    /// The language it speaks.
    pub(in crate::signer) language: Language,
    /// Where the service is.
    pub(in crate::signer) address: &'a Address,
    /// Whose it is.
    pub(in crate::signer) name: &'a str,
    /// What the list is told apart by.
    pub(in crate::signer) mark: &'a str,
    /// What waits, in order.
    pub(in crate::signer) waiting: &'a [Waiting],
    /// In which order that is.
    pub(in crate::signer) largest_first: bool,
}

/// The way in.
pub(in crate::signer) fn sign_in(language: Language, address: &Address, rp_id: &str, challenge: &str) -> String {
    let say = |text| language.say(text);
    let body = html! {
        section {
            p { (say(SIGN_IN_WHY)) }
            p.note data-without-script="" { (say(WITHOUT_SCRIPT)) }
            div.passkey hidden data-passkey="" data-credentials="[]" data-rp-id=(rp_id) data-challenge=(challenge)
                data-answer=(address.within(&format!("{PATH}/sign-in"))) {
                form data-sign-in="" { button type="submit" { (say(SIGN_IN)) } }
                p.problem role="alert" data-alert="" {}
            }
            p.note { (say(NO_KEY)) }
            (said_by_script(language, &[
                ("unsupported", UNSUPPORTED),
                ("working", texts::SAY_WORKING),
                ("sending", texts::SAY_SENDING),
                ("cancelled", NOT_USED),
                ("refused", texts::SAY_REFUSED),
                ("unsent", texts::SAY_UNSENT),
            ]))
        }
    };
    let heading = say(SIGN_IN_HEADING);
    let frame = Frame { language, address, title: heading, heading, kind: "sign-in", standing: "out", foot: FOOT };
    shell(&frame, &body)
}

/// What waits.
pub(in crate::signer) fn inbox(inbox: &Inbox<'_>) -> String {
    let say = |text| inbox.language.say(text);
    let path = inbox.address.within(PATH);
    let body = html! {
        section aria-label=(say(SIGN_IN_HEADING)) data-changes=(format!("{path}/changes")) {
            @if inbox.waiting.is_empty() {
                p role="status" { (say(NOTHING)) }
            } @else {
                nav.orders aria-label=(say(ORDER_OF)) {
                    a href=(path) aria-current=[(!inbox.largest_first).then_some("true")] { (say(OLDEST)) } " "
                    a href=(format!("{path}?order=largest")) aria-current=[inbox.largest_first.then_some("true")] { (say(LARGEST)) }
                }
                @for (place, waiting) in inbox.waiting.iter().enumerate() { (item(inbox, waiting, place)) }
            }
            p.note { (say(LIVE)) }
        }
        form method="post" action=(format!("{path}/sign-out")) { button.plain type="submit" { (say(SIGN_OUT)) } }
    };
    let heading = inbox.language.fill(WAITS, inbox.name);
    let frame = Frame {
        language: inbox.language,
        address: inbox.address,
        title: &format!("({}) {heading}", inbox.waiting.len()),
        heading: &heading,
        kind: "inbox",
        standing: inbox.mark,
        foot: FOOT,
    };
    shell(&frame, &body)
}

fn item(inbox: &Inbox<'_>, waiting: &Waiting, place: usize) -> Markup {
    let say = |text| inbox.language.say(text);
    let document = &waiting.document;
    let open = inbox.address.within(&format!("{PATH}/payments/{}", waiting.id));
    html! {
        article aria-labelledby=(format!("waiting-{place}")) {
            h2.sum id=(format!("waiting-{place}")) { (grouped(&document.amount_text().unwrap_or_default())) }
            p.currency { (spoken(inbox.language, &document.amount_text().unwrap_or_default(), &document.currency)) }
            dl.fields {
                dt { (say(texts::TO_ACCOUNT)) } dd.exact { (document.payee_account) }
                @if document.payee_name.is_empty() {
                    dt { (say(texts::TO_UNVERIFIED)) } dd { (say(texts::NO_PAYEE)) }
                } @else {
                    dt { (say(texts::TO_VERIFIED)) } dd { (document.payee_name) }
                }
                dt { (say(texts::ORDER)) } dd.exact { (document.order_id) }
                dt { (say(texts::PURPOSE)) } dd.memo { (or_none(inbox.language, &document.purpose)) }
                dt { (say(texts::REQUESTED_BY)) } dd.exact { (or_none(inbox.language, &document.requester_agent)) }
                dt { (say(texts::UNTIL)) } dd { (deadline(&waiting.expires_at)) }
            }
            form method="post" action=(open) { button type="submit" aria-describedby=(format!("waiting-{place}")) { (say(OPEN)) } }
        }
    }
}
