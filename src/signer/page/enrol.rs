//! The page of an invitation: whom it invites, the passkey that is made, and its code.

use maud::{Markup, html};

use super::person::said_by_script;
use super::shell::{Frame, deadline, shell, time};
use super::texts;
use crate::signer::inbox::PATH;
use crate::signer::language::{Both, Language, both};
use crate::signer::link::Address;

const OPEN_HEADING: Both = both("Make your passkey", "创建您的通行密钥");
const OPEN: Both = both(
    "You are invited to make a passkey, with which you approve or reject payments.",
    "邀请您创建一个通行密钥，用于批准或驳回付款。",
);
const ANSWERED_HEADING: Both = both("Your passkey's code", "您的通行密钥核对码");
const READ_IT: Both = both(
    "Read this to your operator, on the telephone say. Only then does the passkey count.",
    "请将此核对码念给您的管理员听，例如通过电话。此后该通行密钥才会生效。",
);
const ANSWERED: Both = both(
    "By this invitation a passkey was made. If it was not you, do not read the code to anybody, and tell your operator.",
    "通过此邀请已创建了一个通行密钥。如果不是您本人所为，请不要将核对码告诉任何人，并通知管理员。",
);
const COUNTS_HEADING: Both = both("This passkey counts", "此通行密钥已生效");
const COUNTS: Both = both(
    "Your operator has confirmed it: you can approve and reject payments with it.",
    "管理员已确认：您可以用它批准和驳回付款。",
);
const REVOKED_HEADING: Both = both("This passkey was revoked", "此通行密钥已被撤销");
const REVOKED: Both = both(
    "It counts no more. Ask your operator for another invitation if you need one.",
    "它已不再有效。如有需要，请向管理员索取新的邀请。",
);
const EXPIRED_HEADING: Both = both("This invitation has expired", "此邀请已过期");
const EXPIRED: Both = both(
    "No passkey was made by it. Ask your operator for another invitation.",
    "未通过它创建通行密钥。请向管理员索取新的邀请。",
);
const FOR_WHOM: Both = both("For", "受邀人");
const DESK: Both = both("Payment desk", "付款服务台");
const HOLDS_UNTIL: Both = both("Holds until", "有效期至");
const EXPIRED_AT: Both = both("Held until", "曾有效至");
const MADE_AT: Both = both("Made", "创建于");
const NAME: Both = both("Name", "名称");
const NOT_YOU: Both = both(
    "Not you? Then close this page and tell whoever sent you the link.",
    "不是您本人？请关闭本页并告知发送链接的人。",
);
const LABEL: Both = both("A name for the passkey, such as the device it is on", "为通行密钥取个名称，例如所在的设备");
const MAKE: Both = both("Make a passkey", "创建通行密钥");
const WITHOUT_SCRIPT: Both = both(
    "A passkey needs this page's small script, which did not run. Allow scripts of this site and reload.",
    "创建通行密钥需要运行本页的一个小脚本，但它没有运行。请允许本站脚本后刷新。",
);
const UNSUPPORTED: Both = both(
    "This browser can't make passkeys here. Open the link in another browser or on your phone.",
    "此浏览器无法在此创建通行密钥。请用其他浏览器或手机打开此链接。",
);
const SECOND: Both = both("If you like: an inbox", "可选：收件箱");
const SECOND_WHY: Both = both(
    "With a second passkey you sign in to a list of the payments that wait for you. It approves nothing, and counts once the first one does.",
    "使用第二个通行密钥，您可以登录查看等待您处理的付款列表。它不能用于批准，并且在第一个通行密钥生效后才生效。",
);
const SECOND_MAKE: Both = both("Make a passkey to sign in", "创建用于登录的通行密钥");
const SIGN_IN_USER: Both = both("{} (sign in)", "{}（登录）");
const SECOND_MADE: Both = both("Your sign-in passkey is made", "已创建用于登录的通行密钥");
const SECOND_MADE_WHY: Both = both(
    "It signs you in to your inbox as soon as your operator has confirmed the code of the first one.",
    "管理员确认第一个通行密钥的核对码之后，即可用它登录收件箱。",
);
const BACK_TO_CODE: Both = both("Back to the code", "返回核对码");
const TO_INBOX: Both = both("To the inbox", "前往收件箱");
const YOUR_PHONE: Both = both("My phone", "我的手机");

/// Where an invitation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::signer) enum Step {
    /// A passkey can be made.
    Open,
    /// One was made; no operator has confirmed it.
    Answered,
    /// One was made, and counts.
    Counts,
    /// One was made, and was revoked.
    Revoked,
    /// Too late.
    Expired,
}

/// Everything the page is made from.
#[derive(Debug)]
pub(in crate::signer) struct Invited<'a> {
    /// The language it speaks.
    pub(in crate::signer) language: Language,
    /// Where the service is.
    pub(in crate::signer) address: &'a Address,
    /// The site that passkeys are made for.
    pub(in crate::signer) rp_id: &'a str,
    /// The link's token.
    pub(in crate::signer) token: &'a str,
    /// Where it stands.
    pub(in crate::signer) step: Step,
    /// The canonical enrolment document.
    pub(in crate::signer) document: &'a str,
    /// What keys of this enrolment count for.
    pub(in crate::signer) desk: &'a str,
    /// Who is invited, by id.
    pub(in crate::signer) signer_id: &'a str,
    /// And by name.
    pub(in crate::signer) name: &'a str,
    /// Until when, RFC 3339.
    pub(in crate::signer) until: &'a str,
    /// What the passkey is called, once there is one.
    pub(in crate::signer) label: &'a str,
    /// Its code.
    pub(in crate::signer) code: &'a str,
    /// When it was made, RFC 3339.
    pub(in crate::signer) made_at: &'a str,
    /// The credentials that the person has already.
    pub(in crate::signer) known: &'a [String],
    /// What a sign-in passkey is made under, when the first one was made just now; else empty.
    pub(in crate::signer) sign_in_challenge: &'a str,
}

/// The page of an invitation.
pub(in crate::signer) fn invitation(invited: &Invited<'_>) -> String {
    let say = |text| invited.language.say(text);
    let (heading, standing) = match invited.step {
        Step::Open => (OPEN_HEADING, "open"),
        Step::Answered => (ANSWERED_HEADING, "answered"),
        Step::Counts => (COUNTS_HEADING, "counts"),
        Step::Revoked => (REVOKED_HEADING, "revoked"),
        Step::Expired => (EXPIRED_HEADING, "expired"),
    };
    let body = html! {
        @match invited.step {
            Step::Open => p.banner.open role="status" { (say(OPEN)) },
            Step::Answered if !invited.sign_in_challenge.is_empty() => {},
            Step::Answered => p.banner.open role="status" { (say(ANSWERED)) },
            Step::Counts => p.banner.done role="status" { (say(COUNTS)) },
            Step::Revoked => p.banner.ended role="status" { (say(REVOKED)) },
            Step::Expired => p.banner.ended role="status" { (say(EXPIRED)) },
        }
        section aria-label=(say(heading)) {
            @if invited.step == Step::Answered {
                p.spoken aria-label=(spelled(invited.code)) { (invited.code) }
                p.lead { (say(READ_IT)) }
            }
            dl.fields {
                dt { (say(FOR_WHOM)) } dd { strong { (invited.name) } @if invited.name != invited.signer_id { " (" (invited.signer_id) ")" } }
                dt { (say(DESK)) } dd.exact { (invited.desk) }
                @match invited.step {
                    Step::Open => { dt { (say(HOLDS_UNTIL)) } dd { (deadline(invited.until)) } }
                    Step::Expired => { dt { (say(EXPIRED_AT)) } dd { (time(invited.until)) } }
                    Step::Answered | Step::Counts | Step::Revoked => {
                        dt { (say(NAME)) } dd { (invited.label) }
                        dt { (say(MADE_AT)) } dd { (time(invited.made_at)) }
                    }
                }
            }
            @if invited.step == Step::Open { (making(invited)) }
        }
        @if !invited.sign_in_challenge.is_empty() { (second_step(invited)) }
    };
    let frame = Frame {
        language: invited.language,
        address: invited.address,
        title: say(heading),
        heading: say(heading),
        kind: "enrol",
        standing,
        foot: texts::FOOT_ENROL,
    };
    shell(&frame, &body)
}

/// The code letter by letter, for a voice that reads the page.
fn spelled(code: &str) -> String {
    code.chars().map(String::from).collect::<Vec<_>>().join(" ")
}

fn making(invited: &Invited<'_>) -> Markup {
    let say = |text| invited.language.say(text);
    let known = serde_json::json!(invited.known).to_string();
    html! {
        p.note { (say(NOT_YOU)) }
        p.note data-without-script="" { (say(WITHOUT_SCRIPT)) }
        div.passkey hidden data-passkey="" data-enrolment=(invited.document) data-credentials=(known)
            data-rp-id=(invited.rp_id) data-user=(invited.signer_id) data-user-name=(invited.name)
            data-answer=(invited.address.within(&format!("/enrol/{}", invited.token))) {
            form data-make="" {
                label for="label" { (say(LABEL)) }
                input id="label" name="label" value=(say(YOUR_PHONE)) maxlength="64" required autocomplete="off";
                button type="submit" { (say(MAKE)) }
            }
            p.problem role="alert" data-alert="" {}
        }
        (messages(invited.language))
    }
}

fn messages(language: Language) -> Markup {
    said_by_script(
        language,
        &[
            ("unsupported", UNSUPPORTED),
            ("working", texts::SAY_WORKING),
            ("sending", texts::SAY_SENDING),
            ("cancelled", texts::SAY_NOT_MADE),
            ("refused", texts::SAY_REFUSED),
            ("twice", texts::SAY_TWICE),
            ("unsent", texts::SAY_UNSENT),
        ],
    )
}

/// A passkey of its own to sign in with, for whoever wants it.
fn second_step(invited: &Invited<'_>) -> Markup {
    let say = |text| invited.language.say(text);
    let answer = invited.address.within(&format!("/enrol/{}/sign-in", invited.token));
    html! {
        section aria-labelledby="second" {
            h2 id="second" { (say(SECOND)) }
            p { (say(SECOND_WHY)) }
            div.passkey hidden data-passkey="" data-challenge=(invited.sign_in_challenge) data-credentials="[]"
                data-rp-id=(invited.rp_id) data-user=(invited.language.fill(SIGN_IN_USER, invited.signer_id))
                data-user-name=(invited.name) data-answer=(answer) {
                form data-make-sign-in="" { button.plain type="submit" { (say(SECOND_MAKE)) } }
                p.problem role="alert" data-alert="" {}
            }
            (messages(invited.language))
        }
    }
}

/// The page after the second step; `back` leads to the code.
pub(in crate::signer) fn sign_in_made(language: Language, address: &Address, back: &str) -> String {
    let heading = language.say(SECOND_MADE);
    let body = html! {
        p.banner.done role="status" { (language.say(SECOND_MADE_WHY)) }
        p { a.onward href=(back) { (language.say(BACK_TO_CODE)) } }
        p { a.onward href=(address.within(PATH)) { (language.say(TO_INBOX)) } }
    };
    let foot = texts::FOOT_ENROL;
    shell(&Frame { language, address, title: heading, heading, kind: "result", standing: "result", foot }, &body)
}
