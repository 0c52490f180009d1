//! The page after a decision: what was decided, and what follows.

use maud::html;

use super::shell::{Frame, shell};
use super::{Decided, State, View, amount, payee, person, texts, verdict};
use crate::domain::Choice;
use crate::signer::language::{Both, both};
use crate::signer::store::{Verdict, Word};

const YOU_APPROVED: Both = both("You approved this payment", "您已批准此付款");
const YOU_REJECTED: Both = both("You rejected this payment", "您已驳回此付款");
const PASSED_ON: Both = both(
    "Your decision is recorded and on its way to the payment desk, which checks the signature once more. You can close this page.",
    "您的决定已记录，正在转交付款服务台，服务台会再次验证签名。您可以关闭本页。",
);
const DID_NOT_COUNT: Both = both("Your decision did not count", "您的决定未被采纳");
const OTHERS: Both = both("Others are asked too. What the rule needs: {}", "还请求了其他人签署。规则要求：{}");
const LOOK: Both = both("Look at the payment", "查看此付款");

/// The page of a decision that `signer_id` gave just now.
pub(in crate::signer) fn result(view: &View<'_>, signer_id: &str, decided: &Decided) -> String {
    let refused = matches!(decided.verdict, Verdict::Refused(_));
    let heading = view.say(match decided.choice {
        _ if refused => DID_NOT_COUNT,
        Some(Choice::Approve) => YOU_APPROVED,
        Some(Choice::Reject) | None => YOU_REJECTED,
    });
    let (kind, banner) = match &decided.verdict {
        Verdict::Untold => ("done", view.say(PASSED_ON)),
        Verdict::Refused(_) => ("ended", verdict::in_words(view, &decided.verdict)),
        other => ("done", verdict::in_words(view, other)),
    };
    let signer = view.signers.iter().find(|signer| signer.id == signer_id);
    let half = !refused && signer.is_some_and(|signer| signer.word == Word::Half);
    let body = html! {
        p.banner.(kind) role="status" { (banner) }
        section.key aria-label=(view.say(texts::WHAT)) {
            div {
                (amount(view))
                dl {
                    (payee(view))
                    dt { (view.say(texts::ORDER)) } dd.exact { (view.document.order_id) }
                }
                @if refused { (verdict::said_in_vain(view, decided)) } @else { (person::said(view, decided)) }
                @if half { p { strong { (view.say(texts::CONFIRM)) } } }
                @else if !refused && view.state == State::Open { p { (view.language.fill(OTHERS, &view.document.required)) } }
            }
        }
        p { a.onward href=(view.below("")) { (view.say(LOOK)) } }
    };
    let frame = Frame {
        language: view.language,
        address: view.address,
        title: heading,
        heading,
        kind: "result",
        standing: "result",
        foot: texts::FOOT,
    };
    shell(&frame, &body)
}
