//! The pages that say one thing: what became of a decision, and each way in which it did not.

use maud::{Markup, html};

use super::shell::{Frame, shell};
use crate::signer::inbox::PATH;
use crate::signer::language::{Both, Language, both};
use crate::signer::link::Address;
use crate::signer::refused::Refused;

/// What a page of one thing says: its title, and the thing.
type Notice = (Both, Both);

const UNKNOWN_LINK: Notice = (
    both("No such link", "链接不存在"),
    both(
        "This address leads nowhere. Check that it was copied whole, or ask for a fresh link as below.",
        "此地址无效。请检查是否完整复制，或按下述方式索取新链接。",
    ),
);
const LINK_EXPIRED: Notice = (
    both("This link has lapsed", "此链接已失效"),
    both(
        "Sign links are short-lived; the payment itself may well be open still. Nothing was decided by it.",
        "签署链接的有效期很短；付款本身可能仍在等待签署。此链接未作出任何决定。",
    ),
);
const ROUND_STALE: Notice = (
    both("This payment was changed", "此付款已变更"),
    both(
        "Since this link was made, the payment was changed and every signature on the old version is void. \
         Look at the new version before you sign anything.",
        "此链接生成之后，付款内容已变更，旧版本上的签署全部作废。签署之前请查看新版本。",
    ),
);
const CLOSED: Notice = (
    both("No decision is wanted any more", "不再需要决定"),
    both(
        "While this page was open, the payment was decided, cancelled or ended otherwise. Your decision was not recorded.",
        "在您打开本页期间，此付款已有决定、已取消或以其他方式结束。您的决定未被记录。",
    ),
);
const PAYMENT_EXPIRED: Notice = (
    both("The time to decide has passed", "决定的时限已过"),
    both("This payment has expired. Your decision was not recorded.", "此付款已过期。您的决定未被记录。"),
);
const CHALLENGE_EXPIRED: Notice = (
    both("Your time to answer has passed", "您答复的时限已过"),
    both(
        "You were asked to answer by a time that has passed. Your decision was not recorded; the payment desk asks anew.",
        "要求您答复的时限已过。您的决定未被记录；付款服务台会重新请求。",
    ),
);
const ALREADY_DECIDED: Notice = (
    both("You have decided already", "您已作出决定"),
    both(
        "This signer decided before, in another window or another way. The first decision stands; this one was not recorded.",
        "此签署人之前已在另一个窗口或以其他方式作出决定。以先前的决定为准，这一次未被记录。",
    ),
);
const KEY_USED: Notice = (
    both("Another key is wanted", "需要另一把密钥"),
    both(
        "You have approved with this key already. The rule asks for a second one: confirm with another passkey of yours, on another device.",
        "您已使用此密钥批准。规则要求第二把密钥：请在另一台设备上使用您的另一个通行密钥确认。",
    ),
);
const UNKNOWN_PASSKEY: Notice = (
    both("Not a passkey of this person", "不是此人的通行密钥"),
    both(
        "The passkey that was used is somebody else's, or no operator has confirmed it yet. Your decision was not recorded. \
         Choose your own name on the page, and a passkey whose code you read to your operator.",
        "所用的通行密钥属于他人，或尚未经管理员确认。您的决定未被记录。请在页面上选择自己的姓名，并使用已向管理员报过核对码的通行密钥。",
    ),
);
const PASSKEY_REVOKED: Notice = (
    both("This passkey was revoked", "此通行密钥已被撤销"),
    both(
        "It counts no more, so your decision was not recorded. Use another passkey of yours, or ask your operator for an invitation.",
        "它已无效，因此您的决定未被记录。请使用您的其他通行密钥，或向管理员索取邀请。",
    ),
);
const SIGNATURE_INVALID: Notice = (
    both("The signature does not fit", "签名不符"),
    both(
        "What was signed is not this decision on this payment by this key. Your decision was not recorded. Open the payment again and retry.",
        "所签署的并非用此密钥对此付款作出的这一决定。您的决定未被记录。请重新打开付款页面再试。",
    ),
);
const REASON_INVALID: Notice = (
    both("The reason can't be signed", "理由无法签署"),
    both(
        "It must be one line of at most 512 plain characters. Your decision was not recorded.",
        "理由必须是一行，最多 512 个普通字符。您的决定未被记录。",
    ),
);
const WRONG_ORIGIN: Notice = (
    both("Sent from another site", "来自其他网站"),
    both(
        "Another site sent your browser here with a decision. It was not recorded. Tell your operator if you did not expect that.",
        "另一个网站让您的浏览器带着一个决定来到这里。它未被记录。如果这不在您意料之中，请告知管理员。",
    ),
);
const TOO_MANY: Notice = (
    both("Too many decisions", "决定过多"),
    both(
        "Too many decisions came in this signer's name that could not be checked. Yours was not recorded; tell your operator.",
        "以此签署人名义收到了过多无法验证的决定。您的决定未被记录，请告知管理员。",
    ),
);
const TROUBLE: Notice = (
    both("Not now", "暂时无法处理"),
    both(
        "The signer service is in trouble. Nothing was decided; try again soon.",
        "签署服务出现故障。未作出任何决定，请稍后重试。",
    ),
);
const NOT_RECORDED: Notice =
    (both("Not recorded", "未被记录"), both("What was sent was not recorded.", "所发送的内容未被记录。"));
const UNKNOWN_INVITATION: Notice = (
    both("No such invitation", "邀请不存在"),
    both(
        "This address leads nowhere. Check that it was copied whole, or ask your operator for another invitation.",
        "此地址无效。请检查是否完整复制，或向管理员索取新的邀请。",
    ),
);
const INVITATION_ANSWERED: Notice = (
    both("A passkey was made already", "已创建过通行密钥"),
    both(
        "By this invitation a passkey was made before, perhaps in another window. This one does not count; delete it from your device.",
        "通过此邀请已创建过一个通行密钥，可能是在另一个窗口中。这一个无效，请从您的设备中删除。",
    ),
);
const INVITATION_EXPIRED: Notice = (
    both("This invitation has expired", "此邀请已过期"),
    both(
        "No passkey was recorded. Ask your operator for another invitation.",
        "未记录任何通行密钥。请向管理员索取新的邀请。",
    ),
);
const LABEL_INVALID: Notice = (
    both("This name can't be used", "此名称不可用"),
    both(
        "The passkey's name must be one line of plain characters. Nothing was recorded; choose another name.",
        "通行密钥的名称必须是一行普通字符。未记录任何内容，请另选名称。",
    ),
);
const REGISTRATION_INVALID: Notice = (
    both("This passkey can't be used", "此通行密钥不可用"),
    both(
        "Your device made a passkey of a kind that is not taken here, or for another site. Nothing was recorded.",
        "您的设备创建了此处不接受的通行密钥，或是为其他网站创建的。未记录任何内容。",
    ),
);
const SIGN_IN_STALE: Notice = (
    both("Begin again", "请重新开始"),
    both(
        "This took too long, or was done already. Nothing was changed; open the page again.",
        "操作时间过长，或已完成过。未作任何更改，请重新打开页面。",
    ),
);
const NOT_TO_SIGN_IN: Notice = (
    both("Not a passkey to sign in with", "不是用于登录的通行密钥"),
    both(
        "A passkey that approves payments does not sign in, and one that signs in approves nothing. Choose the one that is named for signing in.",
        "用于批准付款的通行密钥不能登录，用于登录的也不能批准付款。请选择名称中注明登录的那一个。",
    ),
);
const SIGN_IN_NOT_COUNTING: Notice = (
    both("This passkey does not count", "此通行密钥无效"),
    both(
        "It counts while the passkey that was made with it does: your operator has not confirmed that one yet, or it was revoked.",
        "它仅在与之一同创建的通行密钥有效时有效：管理员尚未确认该密钥，或它已被撤销。",
    ),
);
const SIGNED_OUT: Notice = (
    both("You are signed out", "您已退出登录"),
    both("The session has ended. Nothing was changed; sign in again.", "会话已结束。未作任何更改，请重新登录。"),
);
const UNKNOWN_PAYMENT: Notice = (
    both("No such payment", "付款不存在"),
    both("There is no such payment, or it does not ask you.", "没有此付款，或此付款未请求您签署。"),
);
const NO_PAGE: Notice = (
    both("There is no page here", "此处没有页面"),
    both(
        "This address shows nothing by itself. Nothing was changed, and nothing was decided.",
        "此地址本身不显示任何内容。未作任何更改，也未作出任何决定。",
    ),
);
const NOT_SIGNED_IN: Notice =
    (both("Not signed in", "未登录"), both("What was sent did not sign you in.", "所发送的内容未能使您登录。"));
const TO_INBOX: Both = both("To the inbox", "前往收件箱");
const FOOT: Both = both(
    "This service holds no key of yours, and decides nothing by itself.",
    "本服务不保存您的任何密钥，也不会自行作出任何决定。",
);
const HOW_TO_GET_A_LINK: Both = both(
    "For a fresh link, ask whoever sent you this one, or the agent that follows the payment: it can get another at any \
     time. With your own key you need no link:",
    "如需新链接，请联系发给您此链接的人，或跟进此付款的代理程序：它随时可以获取新链接。用您自己的密钥则无需链接：",
);
const BACK: Both = both("Back to the payment", "返回付款页面");
const BACK_TO_INVITATION: Both = both("Back to the invitation", "返回邀请页面");

/// Where a page of one thing leads on to.
#[derive(Debug, Clone, Copy)]
pub(in crate::signer) enum Onward<'a> {
    /// To the payment, at this path.
    Payment(&'a str),
    /// To the invitation, at this path.
    Invitation(&'a str),
    /// To the inbox, at this path.
    Inbox(&'a str),
    /// Nowhere: how to get another link to the payment.
    FreshLink,
    /// Nowhere.
    Nowhere,
}

/// What a refusal says to a person who decides.
fn of_decision(refused: &Refused) -> Notice {
    match refused.code {
        "unknown_link" => UNKNOWN_LINK,
        "link_expired" => LINK_EXPIRED,
        "round_stale" => ROUND_STALE,
        "closed" => CLOSED,
        "payment_expired" => PAYMENT_EXPIRED,
        "challenge_expired" => CHALLENGE_EXPIRED,
        "already_decided" => ALREADY_DECIDED,
        "key_used" => KEY_USED,
        "unknown_passkey" => UNKNOWN_PASSKEY,
        "passkey_revoked" => PASSKEY_REVOKED,
        "signature_invalid" => SIGNATURE_INVALID,
        "reason_invalid" => REASON_INVALID,
        "wrong_origin" => WRONG_ORIGIN,
        "too_many_decisions" => TOO_MANY,
        _ if refused.status >= 500 => TROUBLE,
        _ => NOT_RECORDED,
    }
}

/// What a refusal says to a person who makes a passkey.
fn of_enrolment(refused: &Refused) -> Notice {
    match refused.code {
        "unknown_link" => UNKNOWN_INVITATION,
        "invitation_answered" => INVITATION_ANSWERED,
        "invitation_expired" => INVITATION_EXPIRED,
        "label_invalid" => LABEL_INVALID,
        "registration_invalid" => REGISTRATION_INVALID,
        "sign_in_stale" => SIGN_IN_STALE,
        _ => of_decision(refused),
    }
}

/// What a refusal says to a person who signs in, or is.
fn of_sign_in(refused: &Refused) -> Notice {
    match refused.code {
        "sign_in_stale" => SIGN_IN_STALE,
        "unknown_passkey" => NOT_TO_SIGN_IN,
        "passkey_revoked" => SIGN_IN_NOT_COUNTING,
        "signed_out" => SIGNED_OUT,
        "unknown_payment" => UNKNOWN_PAYMENT,
        "wrong_origin" => WRONG_ORIGIN,
        _ if refused.status >= 500 => TROUBLE,
        _ => NOT_SIGNED_IN,
    }
}

/// The page of a refused sign-in, or of what needs one.
pub(in crate::signer) fn not_signed_in(language: Language, address: &Address, refused: &Refused) -> String {
    page(language, address, refused, of_sign_in(refused), Onward::Inbox(&address.within(PATH)))
}

/// The page of a refused look or decision; its way on goes to the payment while the link still leads there.
pub(in crate::signer) fn refused(language: Language, address: &Address, refused: &Refused, token: &str) -> String {
    let back = address.within(&format!("/sign/{token}"));
    let onward = match refused.code {
        "unknown_link" | "link_expired" | "round_stale" => Onward::FreshLink,
        _ => Onward::Payment(&back),
    };
    page(language, address, refused, of_decision(refused), onward)
}

/// The page of a refused enrolment.
pub(in crate::signer) fn not_enrolled(language: Language, address: &Address, refused: &Refused, token: &str) -> String {
    let back = address.within(&format!("/enrol/{token}"));
    let onward = match refused.code {
        "unknown_link" => Onward::Nowhere,
        _ => Onward::Invitation(&back),
    };
    page(language, address, refused, of_enrolment(refused), onward)
}

/// Whether an address is one of the pages', or would be if it led anywhere.
pub(in crate::signer) fn is_below_pages(path: &str) -> bool {
    matches!(path.split('/').nth(1), Some("sign" | "enrol" | "inbox"))
}

/// The page of what is refused below the pages' addresses before any page is asked.
pub(in crate::signer) fn astray(language: Language, address: &Address, refused: &Refused, path: &str) -> String {
    let mut parts = path.split('/').skip(1);
    let (room, token) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let linked = !token.is_empty() && token.chars().all(plain) && refused.code != "unknown_link";
    let back = address.within(&if room == "inbox" { PATH.to_owned() } else { format!("/{room}/{token}") });
    let (of_room, onward): (fn(&Refused) -> Notice, _) = match room {
        "inbox" => (of_sign_in, Onward::Inbox(&back)),
        "enrol" if linked => (of_enrolment, Onward::Invitation(&back)),
        "enrol" => (of_enrolment, Onward::Nowhere),
        _ if linked => (of_decision, Onward::Payment(&back)),
        _ => (of_decision, Onward::FreshLink),
    };
    let lost = matches!(refused.code, "not_found" | "method_not_allowed");
    page(language, address, refused, if lost { NO_PAGE } else { of_room(refused) }, onward)
}

fn page(language: Language, address: &Address, refused: &Refused, notice: Notice, onward: Onward<'_>) -> String {
    let (title, text) = (language.say(notice.0), language.say(notice.1));
    let body = html! {
        p.banner.ended role="alert" { (text) }
        (onward_of(language, onward))
        // For whoever is called for help.
        p.code-note { code { (refused.code) } @if notice == NOT_RECORDED || notice == NOT_SIGNED_IN { " · " span lang="en" { (refused.message) } } }
    };
    shell(
        &Frame { language, address, title, heading: title, kind: "notice", standing: refused.code, foot: FOOT },
        &body,
    )
}

fn onward_of(language: Language, onward: Onward<'_>) -> Markup {
    html! {
        @match onward {
            Onward::Payment(path) => p { a.onward href=(path) { (language.say(BACK)) } },
            Onward::Invitation(path) => p { a.onward href=(path) { (language.say(BACK_TO_INVITATION)) } },
            Onward::Inbox(path) => p { a.onward href=(path) { (language.say(TO_INBOX)) } },
            Onward::FreshLink => {
                p { (language.say(HOW_TO_GET_A_LINK)) }
                pre { code { "countersign sign ORDER_ID" } }
            }
            Onward::Nowhere => {}
        }
    }
}
