//! The sign page: exactly what is signed, and how; plain HTML that needs no script.
//!
//! *Invariant*: what it says of a payment comes from the payment document whose digest is signed,
//! and from nothing else. Every value is escaped; nothing of it is ever markup.

use maud::{DOCTYPE, Markup, html};

use super::asset;
use super::link::Address;
use super::refused::Refused;
use super::store::{KeptDecision, KeptPayment};
use crate::domain::{Choice, Timestamp};
use crate::proof::{Challenge, PaymentDocument, compare_code};

/// What a signer asked to be shown.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// Whether anything was asked for.
    pub(super) asked: bool,
    /// Who asked.
    pub(super) signer_id: String,
    /// Their key, when it is not the directory's.
    pub(super) key_id: Option<String>,
    /// Yes or no.
    pub(super) choice: Choice,
    /// Why.
    pub(super) reason: String,
    /// What of it can't be signed.
    pub(super) problem: Option<String>,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            asked: false,
            signer_id: String::new(),
            key_id: None,
            choice: Choice::Approve,
            reason: String::new(),
            problem: None,
        }
    }
}

/// Where a payment stands, as its page says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Decisions are wanted.
    Open,
    /// Everyone who is asked has decided.
    Decided,
    /// The gateway wants no more, for this reason.
    Closed(String),
    /// The time has passed.
    Expired,
}

/// Where the payment stands at `now`.
pub(super) fn state_of(payment: &KeptPayment, asked: &[Challenge], kept: &[KeptDecision], now: Timestamp) -> State {
    if !payment.is_open() {
        State::Closed(payment.close_reason.clone())
    } else if asked.iter().all(|asked| kept.iter().any(|kept| kept.verified && kept.signer_id == asked.signer_id)) {
        State::Decided
    } else if payment.expires_at() <= now {
        State::Expired
    } else {
        State::Open
    }
}

/// One person who is asked.
#[derive(Debug)]
pub(super) struct SignerView<'a> {
    /// The person's id.
    pub(super) id: &'a str,
    /// The person's name.
    pub(super) name: &'a str,
    /// Until when their challenge counts.
    pub(super) until: &'a str,
    /// Their decision and when it was kept, where their key verified it.
    pub(super) decided: Option<(String, String)>,
    /// Whether something came in their name that could not be verified here.
    pub(super) unverified: bool,
    /// The key they sign with; empty when it is not known.
    pub(super) key_id: String,
    /// The exact text to sign and its digest.
    pub(super) to_sign: Option<(String, String)>,
    /// What they asked to be shown.
    pub(super) ask: Ask,
}

/// Everything the page is made from.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// Where the service is.
    pub(super) address: &'a Address,
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

/// The page of a payment: first what a person must compare, then how to sign, then every field.
pub(super) fn payment(view: &View<'_>) -> String {
    let document = view.document;
    let amount = document.amount_text().unwrap_or_default();
    let body = html! {
        (banner(view))
        section.key aria-label="What is paid" {
            p.amount { (grouped(&amount)) }
            dl {
                dt { "To account" } dd.exact { (document.payee_account) }
                // The payload carries a name only where the policy's payee list has it for this account.
                @if document.payee_name.is_empty() {
                    dt { "To" } dd { "no name: this account is not on the list of known payees" }
                } @else {
                    dt { "To (verified: the known payee of this account)" } dd { (document.payee_name) }
                }
                dt { "Order" } dd.exact { (document.order_id) }
            }
            div.compare {
                h2 { "Compare code" }
                p.code { (compare_code(&view.payment.payment_digest)) }
                p { "Every signer sees the same code. If yours differs from another signer's or from what your own device shows, do not sign." }
            }
        }
        section aria-labelledby="more" {
            h2 id="more" { "More about it" }
            dl.fields {
                dt { "Purpose" } dd.memo { (or_none(&document.purpose)) }
                dt { "From account" } dd.exact { (document.payer_account) }
                dt { "Requested by" } dd.exact { (or_none(&document.requester_agent)) }
                dt { "Decide until" } dd { (time(&view.payment.expires_at().rfc3339())) }
                dt { "Payment digest" } dd.digest { (view.payment.payment_digest) }
            }
        }
        section aria-labelledby="who" {
            h2 id="who" { "Who may sign" }
            @for (place, signer) in view.signers.iter().enumerate() { (person(view, signer, place)) }
        }
        section aria-labelledby="document" {
            h2 id="document" { "The payment document, field by field" }
            dl.fields { @for (name, value) in fields(&view.payment.payload) {
                dt { (name) } dd.exact { (or_none(&value)) }
            } }
            details {
                summary { "The exact text" }
                (exact_text("The payment document", &view.payment.payload))
            }
        }
    };
    let (verb, heading) = match view.state {
        State::Open => ("Sign", "A payment to sign"),
        State::Decided => ("Decided:", "A payment that was decided"),
        State::Closed(_) => ("Closed:", "A payment that is closed"),
        State::Expired => ("Expired:", "A payment that has expired"),
    };
    shell(view.address, &format!("{verb} {amount}"), heading, &body)
}

/// The amount with its digits in threes. The gap is drawn, so the text stays as it is signed.
fn grouped(amount: &str) -> Markup {
    let whole = amount.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = amount.split_at_checked(whole).unwrap_or((amount, ""));
    let first = match whole.len() % 3 {
        0 => 3,
        some => some,
    };
    let (first, mut others) = whole.split_at_checked(first).unwrap_or((whole, ""));
    let mut threes = Vec::new();
    while let Some((three, left)) = others.split_at_checked(3) {
        threes.push(three);
        others = left;
    }
    html! { (first) @for three in threes { span.three { (three) } } (rest) }
}

/// A time as people read it, to the minute that has begun, with the exact one behind it.
fn time(exact: &str) -> Markup {
    let short = exact.get(..16).unwrap_or(exact).replacen('T', " ", 1);
    html! { time datetime=(exact) title=(exact) { (short) " UTC" } }
}

/// A text that is signed, whole; it wraps, and a long one scrolls, by keyboard too.
fn exact_text(label: &str, text: &str) -> Markup {
    html! { pre.whole tabindex="0" role="region" aria-label=(label) { code { (text) } } }
}

fn banner(view: &View<'_>) -> Markup {
    let (class, text) = match &view.state {
        State::Open => ("open", "This payment waits for signatures. Looking at this page decides nothing.".to_owned()),
        State::Decided => ("done", "Everyone who was asked has decided. There is nothing more to do here.".to_owned()),
        State::Expired => ("ended", "The time to decide has passed. No signature is taken any more.".to_owned()),
        State::Closed(reason) => {
            ("ended", format!("This payment is closed ({reason}). No signature is taken any more."))
        }
    };
    html! { p.banner.(class) role="status" { (text) } }
}

fn person(view: &View<'_>, signer: &SignerView<'_>, place: usize) -> Markup {
    html! {
        article aria-labelledby=(format!("signer-{place}")) {
            h3 id=(format!("signer-{place}")) { (signer.name) @if signer.name != signer.id { " (" (signer.id) ")" } }
            @if signer.unverified && signer.decided.is_none() {
                p { "A decision in this name was received and passed on. This service has no key to check it; the payment desk does." }
            }
            @match &signer.decided {
                Some((decision, at)) => {
                    p.decided { strong { (if decision == "approve" { "Approved" } else { "Rejected" }) } ", recorded at " (time(at)) "." }
                }
                // One person finds the form open; of several, each opens their own.
                None if view.state == State::Open => details open[view.signers.len() == 1 || signer.ask.asked] {
                    summary { "Sign as " (signer.name) }
                    (ask_to_sign(view, signer, place))
                },
                None => p { "No decision." },
            }
        }
    }
}

fn ask_to_sign(view: &View<'_>, signer: &SignerView<'_>, place: usize) -> Markup {
    let id = |name: &str| format!("{name}-{place}");
    let approving = signer.ask.choice == Choice::Approve;
    html! {
        p { "Sign until " (time(signer.until)) ". The short way is the command, with your own key:" }
        pre { code { "countersign sign " (view.document.order_id) " --signer " (signer.id) } }
        @if let Some(problem) = &signer.ask.problem { p.problem role="alert" { (problem) } }
        form method="get" action=(view.address.within(&format!("/sign/{}", view.token))) {
            fieldset {
                legend { "What you want to say" }
                input type="hidden" name="signer_id" value=(signer.id);
                label for=(id("decision")) { "Decision" }
                select id=(id("decision")) name="decision" {
                    option value="approve" selected[approving] { "approve" }
                    option value="reject" selected[!approving] { "reject" }
                }
                label for=(id("reason")) { "Reason (optional; it is signed too)" }
                input id=(id("reason")) name="reason" maxlength="512" value=(signer.ask.reason) autocomplete="off";
                label for=(id("key")) { "Key id" }
                input id=(id("key")) name="key_id" maxlength="64" value=(signer.key_id) autocomplete="off" spellcheck="false";
                button.plain type="submit" { "Show the text to sign" }
            }
        }
        @if let Some((text, digest)) = &signer.to_sign {
            p { "To " strong { (signer.ask.choice.as_str()) } ", sign exactly this text (no line end) as a detached JWS, header " code { "{\"alg\":\"EdDSA\",\"kid\":\"" (signer.key_id) "\",\"typ\":\"countersign-approval+jws\"}" } ":" }
            (exact_text("The text to sign", text))
            dl { dt { "Digest of this text" } dd.digest { (digest) } }
            form method="post" action=(view.address.within(&format!("/sign/{}/decisions", view.token))) {
                input type="hidden" name="signer_id" value=(signer.id);
                input type="hidden" name="key_id" value=(signer.key_id);
                input type="hidden" name="decision" value=(signer.ask.choice.as_str());
                input type="hidden" name="reason" value=(signer.ask.reason);
                label for=(id("jws")) { "Detached JWS" }
                textarea id=(id("jws")) name="jws" rows="4" required spellcheck="false" autocomplete="off" {}
                button type="submit" .danger[!approving] { (if approving { "Approve" } else { "Reject" }) " " (grouped(&view.document.amount_text().unwrap_or_default())) }
            }
        } @else {
            p { "This service does not know a key of yours. Enter your key id to see the text to sign." }
        }
    }
}

/// The document's fields in the order in which they are signed.
fn fields(payload: &str) -> Vec<(String, String)> {
    let parsed: Option<std::collections::BTreeMap<String, String>> = serde_json::from_str(payload).ok();
    parsed.unwrap_or_default().into_iter().collect()
}

fn or_none(value: &str) -> Markup {
    html! { @if value.is_empty() { span.none { "(none)" } } @else { (value) } }
}

/// A page that says one thing.
#[derive(Debug)]
pub(super) struct Notice {
    title: String,
    text: String,
}

impl Notice {
    /// What a refusal says to a person.
    pub(super) fn of(refused: &Refused) -> Self {
        let (title, text) = match refused.code {
            "unknown_link" => (
                "No such link",
                "This address leads nowhere. Check that it was copied whole, or ask for a fresh link as below.",
            ),
            "link_expired" => (
                "This link has lapsed",
                "Sign links are short-lived; the payment itself may well be open still. Nothing was decided by it.",
            ),
            "round_stale" => (
                "This payment was changed",
                "Since this link was made, the payment was changed and every signature on the old version is void. \
                 Look at the new version before you sign anything.",
            ),
            _ if refused.status >= 500 => {
                ("Not now", "The signer service is in trouble. Nothing was decided; try again soon.")
            }
            code => {
                return Self {
                    title: "Not recorded".to_owned(),
                    text: format!("Your decision was not recorded: {} ({code}).", refused.message),
                };
            }
        };
        Self { title: title.to_owned(), text: text.to_owned() }
    }
}

/// The page of a notice; `back` leads to the payment when its link still does.
pub(super) fn notice(address: &Address, notice: &Notice, back: Option<&str>) -> String {
    let body = html! {
        p.banner.ended role="alert" { (notice.text) }
        @match back {
            Some(back) => p { a href=(back) { "Back to the payment" } },
            None => {
                p { "For a fresh link, ask whoever sent you this one, or the agent that follows the payment: it can get \
                     another at any time. With your own key you need no link:" }
                pre { code { "countersign sign ORDER_ID" } }
            }
        }
    };
    shell(address, &notice.title, &notice.title, &body)
}

fn shell(address: &Address, title: &str, heading: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex, nofollow";
                meta name="color-scheme" content="light dark";
                title { (title) " – Countersign" }
                link rel="stylesheet" href=(address.within(asset::CSS_PATH));
            }
            body {
                header { p.mark { "Countersign" } h1 { (heading) } }
                main { (body) }
                footer { p { "This page shows the payment document that is signed, and nothing else. It holds no key of yours." } }
            }
        }
    };
    page.into_string()
}
