//! The sign page: exactly what is signed, and how; everything but a passkey works without the script.
//!
//! *Invariant*: what it says of a payment comes from the payment document whose digest is signed,
//! and from nothing else. Every value is escaped; nothing of it is ever markup.

mod enrol;
mod inbox;
mod notices;
mod person;
mod result;
mod shell;
mod texts;
mod verdict;
mod words;

use maud::{Markup, html};

pub(super) use enrol::{Invited, Step, invitation, sign_in_made};
pub(super) use inbox::{Inbox, Waiting, inbox, sign_in};
pub(super) use notices::{astray, is_below_pages, not_enrolled, not_signed_in, refused};
pub(super) use person::{Ask, Decided, OfferedPasskey, SignerView};
pub(super) use result::result;
pub(super) use texts::{BAD_DECISION, BAD_KEY_ID, BAD_REASON};

use self::shell::{Frame, deadline, exact_text, grouped, or_none, shell};
use super::language::{Both, Language};
use super::link::Address;
use super::store::{KeptDecision, KeptPayment, Word};
use crate::domain::Timestamp;
use crate::proof::{Challenge, PaymentDocument, compare_code};

/// Where a payment stands, as its page says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Decisions are wanted.
    Open,
    /// Everyone who is asked has decided, each with as many keys as the rule asks for.
    Decided,
    /// The gateway wants no more, for this reason.
    Closed(String),
    /// The time has passed.
    Expired,
}

impl State {
    /// Its name, for the script and the style.
    const fn name(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Decided => "decided",
            Self::Closed(_) => "closed",
            Self::Expired => "expired",
        }
    }
}

/// Where the payment stands at `now`.
pub(super) fn state_of(payment: &KeptPayment, asked: &[Challenge], kept: &[KeptDecision], now: Timestamp) -> State {
    if !payment.is_open() {
        State::Closed(payment.close_reason.clone())
    } else if asked.iter().all(|asked| payment.word_of(kept, &asked.signer_id) == Word::Whole) {
        State::Decided
    } else if payment.expires_at() <= now {
        State::Expired
    } else {
        State::Open
    }
}

/// Everything the page is made from.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// The language it speaks.
    pub(super) language: Language,
    /// Where the service is.
    pub(super) address: &'a Address,
    /// The site that passkeys are made for.
    pub(super) rp_id: &'a str,
    /// The link's token.
    pub(super) token: &'a str,
    /// Where the payment stands.
    pub(super) state: State,
    /// The payment as registered.
    pub(super) payment: &'a KeptPayment,
    /// Its document.
    pub(super) document: &'a PaymentDocument,
    /// Who is asked.
    pub(super) signers: Vec<SignerView<'a>>,
}

impl View<'_> {
    fn say(&self, text: Both) -> &'static str {
        self.language.say(text)
    }

    /// A page below this payment's.
    fn below(&self, path: &str) -> String {
        self.address.within(&format!("/sign/{}{path}", self.token))
    }

    fn amount(&self) -> String {
        self.document.amount_text().unwrap_or_default()
    }

    /// What of the page may change while it is open.
    fn standing(&self) -> String {
        let decided = self.signers.iter().map(|signer| {
            let word = match signer.word {
                Word::None => '0',
                Word::Half => 'h',
                Word::Whole => '1',
            };
            let told = [&signer.decided, &signer.refused].into_iter().flatten();
            [word].into_iter().chain(told.map(|decided| verdict::mark(&decided.verdict))).collect::<String>()
        });
        format!("{}:{}:{}", self.state.name(), self.payment.round, decided.collect::<Vec<_>>().join("."))
    }
}

/// The page of a payment: first what a person must compare, then who signs and how, then every field.
pub(super) fn payment(view: &View<'_>) -> String {
    let body = html! {
        (banner(view))
        (what_is_paid(view))
        section aria-labelledby="who" data-rp-id=(view.rp_id) data-decisions=(view.below("/decisions")) data-viewed=(view.below("/viewed")) {
            h2 id="who" { (view.say(texts::WHO)) }
            p.rule { (view.say(texts::RULE)) ": " span.exact { (or_none(view.language, &view.document.required)) } }
            @for (place, signer) in view.signers.iter().enumerate() { (person::person(view, signer, place)) }
            @if view.state == State::Open { (person::messages(view.language)) }
        }
        (more(view))
    };
    let (title, heading) = match view.state {
        State::Open => (texts::OPEN_TITLE, texts::OPEN_HEADING),
        State::Decided => (texts::DECIDED_TITLE, texts::DECIDED_HEADING),
        State::Closed(_) => (texts::CLOSED_TITLE, texts::CLOSED_HEADING),
        State::Expired => (texts::EXPIRED_TITLE, texts::EXPIRED_HEADING),
    };
    let frame = Frame {
        language: view.language,
        address: view.address,
        title: &view.language.fill(title, &view.amount()),
        heading: view.say(heading),
        kind: "sign",
        standing: &view.standing(),
        foot: texts::FOOT,
    };
    shell(&frame, &body)
}

fn what_is_paid(view: &View<'_>) -> Markup {
    let document = view.document;
    html! {
        section.key aria-label=(view.say(texts::WHAT)) {
            div {
                p.asks { (asker(view)) " " (view.say(texts::ASKS)) }
                (amount(view))
                dl {
                    (payee(view))
                    dt { (view.say(texts::ORDER)) } dd.exact { (document.order_id) }
                    dt { (view.say(texts::PURPOSE)) } dd.memo { (or_none(view.language, &document.purpose)) }
                    dt { (view.say(texts::UNTIL)) } dd { (deadline(&view.payment.expires_at().rfc3339())) }
                }
            }
            @if view.state == State::Open {
                figure.qr {
                    img src=(view.below("/qr.svg")) alt=(view.say(texts::QR)) width="132" height="132" loading="lazy";
                    figcaption { (view.say(texts::QR_WHY)) }
                }
            }
            div.compare {
                h2 { (view.say(texts::COMPARE)) }
                p.code { (compare_code(&view.payment.payment_digest)) }
                p { (view.say(texts::COMPARE_WHY)) }
            }
        }
    }
}

/// Who asks: the agent, and the person it acts for.
fn asker(view: &View<'_>) -> Markup {
    let document = view.document;
    html! {
        strong { @if document.requester_agent.is_empty() { (view.say(texts::SOMEBODY)) } @else { (document.requester_agent) } }
        @if !["", &document.requester_agent].contains(&document.requester_principal.as_str()) { (view.language.fill(texts::ON_BEHALF, &document.requester_principal)) }
    }
}

/// The amount as it is signed, and its currency by name.
fn amount(view: &View<'_>) -> Markup {
    html! {
        p.amount { (grouped(&view.amount())) }
        p.currency { (words::spoken(view.language, &view.amount(), &view.document.currency)) }
    }
}

fn payee(view: &View<'_>) -> Markup {
    let document = view.document;
    html! {
        dt { (view.say(texts::TO_ACCOUNT)) } dd.exact { (document.payee_account) }
        // The payload carries a name only where the policy's payee list has it for this account.
        @if document.payee_name.is_empty() {
            dt { (view.say(texts::TO_UNVERIFIED)) } dd { (view.say(texts::NO_PAYEE)) }
        } @else {
            dt { (view.say(texts::TO_VERIFIED)) } dd { (document.payee_name) }
        }
    }
}

fn more(view: &View<'_>) -> Markup {
    let document = view.document;
    html! {
        section aria-labelledby="more" {
            h2 id="more" { (view.say(texts::MORE)) }
            dl.fields {
                dt { (view.say(texts::FROM_ACCOUNT)) } dd.exact { (document.payer_account) }
                dt { (view.say(texts::REQUESTED_BY)) } dd.exact { (or_none(view.language, &document.requester_agent)) }
                dt { (view.say(texts::FOR_PERSON)) } dd.exact { (or_none(view.language, &document.requester_principal)) }
                dt { (view.say(texts::DIGEST)) } dd.digest { (view.payment.payment_digest) }
            }
            details {
                summary { (view.say(texts::FIELDS)) }
                dl.fields { @for (name, value) in fields(&view.payment.payload) {
                    dt lang="en" { (name) } dd.exact { (or_none(view.language, &value)) }
                } }
            }
            details {
                summary { (view.say(texts::EXACT)) }
                (exact_text(view.say(texts::DOCUMENT), &view.payment.payload))
            }
        }
    }
}

fn banner(view: &View<'_>) -> Markup {
    let (class, text) = match &view.state {
        State::Open => ("open", texts::OPEN),
        State::Decided => ("done", texts::DECIDED),
        State::Expired => ("ended", texts::EXPIRED),
        State::Closed(reason) => ("ended", closed(reason)),
    };
    html! { p.banner.(class) role="status" { (view.say(text)) } }
}

/// Why no decision is wanted any more, by the contract's word for it.
fn closed(reason: &str) -> Both {
    match reason {
        "signed" => texts::CLOSED_SIGNED,
        "rejected" => texts::CLOSED_REJECTED,
        "cancelled" => texts::CLOSED_CANCELLED,
        "expired" => texts::EXPIRED,
        _ => texts::CLOSED_FAILED,
    }
}

/// The document's fields in the order in which they are signed.
fn fields(payload: &str) -> Vec<(String, String)> {
    let parsed: Option<std::collections::BTreeMap<String, String>> = serde_json::from_str(payload).ok();
    parsed.unwrap_or_default().into_iter().collect()
}
