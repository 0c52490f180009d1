//! What became of a decision at the gateway, in words.

use maud::{Markup, html};

use super::shell::time;
use super::{State, View};
use crate::domain::Choice;
use crate::signer::language::{Both, both};
use crate::signer::page::Decided;
use crate::signer::store::Verdict;

const UNTOLD: Both = both("Sent to the payment desk, not confirmed yet.", "已转交付款服务台，尚未确认。");
const NEVER_TOLD: Both = both(
    "The payment desk had not confirmed it when this payment was closed.",
    "在此付款关闭时，付款服务台尚未予以确认。",
);
const COUNTED: Both = both("The payment desk has confirmed this decision.", "付款服务台已确认此决定。");
const SURPLUS: Both = both(
    "The payment desk has it. Enough others had decided before, so it was not needed.",
    "付款服务台已收到。在此之前已有足够的人作出决定，因此不再需要它。",
);
const LEVEL_NOT_OPEN: Both = both(
    "The payment desk keeps it waiting: others must approve first. It is taken once they have.",
    "付款服务台将其搁置：须由其他人先批准，之后才会采纳。",
);
const ON_HOLD: Both = both(
    "The payment desk keeps it waiting: an operator holds this payment. It is taken once they let it go.",
    "付款服务台将其搁置：管理员已暂停此付款，解除之后才会采纳。",
);
const WAITING: Both = both(
    "The payment desk has not taken it so far. It looks again by itself.",
    "付款服务台尚未采纳，稍后会自动再次查看。",
);
const SIGNATURE_INVALID: Both = both(
    "The payment desk does not accept the key: it was revoked, no operator vouches for it, or there may be a copy of it. \
     Use another passkey of yours, or ask your operator.",
    "付款服务台不接受所用的密钥：它已被撤销、没有管理员为其担保，或可能存在副本。请使用您的其他通行密钥，或联系管理员。",
);
const NONCE_CONSUMED: Both = both(
    "There was a decision by this person, or by this key, before. The earlier one stands.",
    "此人或此密钥之前已作出决定，以先前的决定为准。",
);
const NOT_ELIGIBLE: Both = both(
    "The payment desk does not ask this person about this payment, or not at this time.",
    "付款服务台未请此人就此付款作出决定，或目前不由此人决定。",
);
const SELF_APPROVAL: Both = both(
    "Whoever asks for a payment or is paid by it can't decide on it.",
    "请求付款的人或收款的人不能对此付款作出决定。",
);
const EARLIER_FORM: Both = both("It is about an earlier form of this payment.", "它针对的是此付款较早的版本。");
const TOO_LATE: Both = both("It came after this payment had ended.", "它在此付款结束之后才到达。");
const REFUSED: Both = both("The payment desk did not accept it.", "付款服务台未予接受。");
const AGAIN: Both = both("You can decide again.", "您可以重新作出决定。");
const APPROVAL: Both = both("Approval that did not count", "未被采纳的批准");
const REJECTION: Both = both("Rejection that did not count", "未被采纳的驳回");
const RECEIVED_AT: Both = both(", received at ", "，收到于 ");

/// What is to be said beside a decision; nothing where it counts, which is what everybody expects.
pub(super) fn beside(view: &View<'_>, verdict: &Verdict) -> Markup {
    match verdict {
        Verdict::Counted => html! {},
        other => html! { p.verdict { (in_words(view, other)) } },
    }
}

/// A decision that the gateway refused, and why.
pub(super) fn refused(view: &View<'_>, decided: &Decided, again: bool) -> Markup {
    html! {
        (said_in_vain(view, decided))
        p.problem { (in_words(view, &decided.verdict)) @if again { " " (view.say(AGAIN)) } }
        // For whoever is called for help.
        @if let Verdict::Refused(code) = &decided.verdict { p.code-note { code { (code) } } }
    }
}

/// What was decided, and did not count.
pub(super) fn said_in_vain(view: &View<'_>, decided: &Decided) -> Markup {
    let what = match decided.choice {
        Some(Choice::Approve) => APPROVAL,
        Some(Choice::Reject) | None => REJECTION,
    };
    html! { p.refused { strong { (view.say(what)) } (view.say(RECEIVED_AT)) (time(&decided.at)) "." } }
}

/// What became of a decision.
pub(super) fn in_words(view: &View<'_>, verdict: &Verdict) -> &'static str {
    view.say(match verdict {
        Verdict::Untold | Verdict::Waiting(_) if matches!(view.state, State::Closed(_)) => NEVER_TOLD,
        Verdict::Untold => UNTOLD,
        Verdict::Counted => COUNTED,
        Verdict::Surplus => SURPLUS,
        Verdict::Waiting(code) => match code.as_str() {
            "LEVEL_NOT_OPEN" => LEVEL_NOT_OPEN,
            "PAYMENT_ON_MANUAL_HOLD" => ON_HOLD,
            _ => WAITING,
        },
        Verdict::Refused(code) => match code.as_str() {
            "SIGNATURE_INVALID" => SIGNATURE_INVALID,
            "NONCE_CONSUMED" => NONCE_CONSUMED,
            "SIGNER_NOT_ELIGIBLE" => NOT_ELIGIBLE,
            "SELF_APPROVAL_FORBIDDEN" => SELF_APPROVAL,
            "SIGNING_ROUND_STALE" | "DIGEST_MISMATCH" => EARLIER_FORM,
            "PAYMENT_EXPIRED" | "PAYMENT_TERMINAL" => TOO_LATE,
            _ => REFUSED,
        },
    })
}

/// One letter, for the script to see that it changed.
pub(super) const fn mark(verdict: &Verdict) -> char {
    match verdict {
        Verdict::Untold => 'u',
        Verdict::Counted => 'c',
        Verdict::Surplus => 's',
        Verdict::Waiting(_) => 'w',
        Verdict::Refused(_) => 'r',
    }
}
