//! One person's part of the sign page: where they stand, and the ways in which they can sign.

use maud::{Markup, html};

use super::shell::{deadline, exact_text, grouped, time};
use super::{State, View, texts, verdict};
use crate::domain::Choice;
use crate::signer::language::{Both, Language};
use crate::signer::store::{Verdict, Word};

/// What a signer asked to be shown.
#[derive(Debug, Clone)]
pub(in crate::signer) struct Ask {
    /// Whether anything was asked for.
    pub(in crate::signer) asked: bool,
    /// Whether it is only their own part that they want to find open.
    pub(in crate::signer) opened: bool,
    /// Who asked.
    pub(in crate::signer) signer_id: String,
    /// Their key, when it is not the directory's.
    pub(in crate::signer) key_id: Option<String>,
    /// Yes or no.
    pub(in crate::signer) choice: Choice,
    /// Why.
    pub(in crate::signer) reason: String,
    /// What of it can't be signed.
    pub(in crate::signer) problem: Option<Both>,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            asked: false,
            opened: false,
            signer_id: String::new(),
            key_id: None,
            choice: Choice::Approve,
            reason: String::new(),
            problem: None,
        }
    }
}

/// A passkey that counts.
#[derive(Debug)]
pub(in crate::signer) struct OfferedPasskey {
    /// Its credential, base64url.
    pub(in crate::signer) credential_id: String,
    /// What its owner calls it.
    pub(in crate::signer) label: String,
}

/// A decision, and what became of it.
#[derive(Debug)]
pub(in crate::signer) struct Decided {
    /// Yes or no.
    pub(in crate::signer) choice: Option<Choice>,
    /// Why; may be empty.
    pub(in crate::signer) reason: String,
    /// When it was kept, RFC 3339.
    pub(in crate::signer) at: String,
    /// What the gateway made of it, as far as it told.
    pub(in crate::signer) verdict: Verdict,
}

/// One person who is asked.
#[derive(Debug)]
pub(in crate::signer) struct SignerView<'a> {
    /// The person's id.
    pub(in crate::signer) id: &'a str,
    /// The person's name.
    pub(in crate::signer) name: &'a str,
    /// Until when their challenge counts.
    pub(in crate::signer) until: &'a str,
    /// Their decision that stands.
    pub(in crate::signer) decided: Option<Decided>,
    /// What came after it, if anything did, and was refused by the gateway.
    pub(in crate::signer) refused: Option<Decided>,
    /// How far they have come: an approval may have to be confirmed with another key.
    pub(in crate::signer) word: Word,
    /// Whether something came in their name that could not be verified here.
    pub(in crate::signer) unverified: bool,
    /// Their passkeys that count, and have not been used here.
    pub(in crate::signer) passkeys: Vec<OfferedPasskey>,
    /// The decision that a passkey signs, as an approval without a reason; the script fills in the rest.
    pub(in crate::signer) by_passkey: String,
    /// The key they sign with; empty when it is not known.
    pub(in crate::signer) key_id: String,
    /// The exact text to sign and its digest.
    pub(in crate::signer) to_sign: Option<(String, String)>,
    /// What they asked to be shown.
    pub(in crate::signer) ask: Ask,
}

/// The person's part.
pub(super) fn person(view: &View<'_>, signer: &SignerView<'_>, place: usize) -> Markup {
    html! {
        article aria-labelledby=(format!("signer-{place}")) {
            h3 id=(format!("signer-{place}")) { (signer.name) @if signer.name != signer.id { " (" (signer.id) ")" } }
            @if signer.unverified && signer.decided.is_none() { p { (view.say(texts::PASSED_ON)) } }
            @if let Some(decided) = &signer.decided { (said(view, decided)) (verdict::beside(view, &decided.verdict)) }
            @if let Some(decided) = &signer.refused {
                (verdict::refused(view, decided, view.state == State::Open && signer.word != Word::Whole))
            }
            @match signer.word {
                Word::Whole => {},
                // One person finds the form open; of several, each opens their own.
                Word::None | Word::Half if view.state == State::Open => {
                    p.waiting { (view.say(if signer.word == Word::Half { texts::CONFIRM } else { texts::WAITING })) }
                    details open[view.signers.len() == 1 || signer.ask.asked || signer.ask.opened] {
                        summary { (view.language.fill(texts::SIGN_AS, signer.name)) }
                        (by_passkey(view, signer, place))
                        details.other open[signer.ask.asked] {
                            summary { (view.say(texts::OTHER_WAY)) }
                            (by_jws(view, signer, place))
                        }
                    }
                },
                Word::Half => p { (view.say(texts::UNCONFIRMED)) },
                Word::None => p { (view.say(texts::UNDECIDED)) },
            }
        }
    }
}

/// What a person decided, when, and why.
pub(super) fn said(view: &View<'_>, decided: &Decided) -> Markup {
    let word = match decided.choice {
        Some(Choice::Approve) => texts::APPROVED,
        Some(Choice::Reject) | None => texts::REJECTED,
    };
    html! {
        p.decided { strong { (view.say(word)) } (view.say(texts::RECORDED_AT)) (time(&decided.at)) "." }
        @if !decided.reason.is_empty() { p.memo { (view.say(texts::REASON_WAS)) (decided.reason) } }
    }
}

fn by_passkey(view: &View<'_>, signer: &SignerView<'_>, place: usize) -> Markup {
    if signer.passkeys.is_empty() {
        let none = if signer.word == Word::Half { texts::NO_OTHER_PASSKEY } else { texts::NO_PASSKEY };
        return html! { p.note { (view.say(none)) } };
    }
    let credentials: Vec<&str> = signer.passkeys.iter().map(|passkey| passkey.credential_id.as_str()).collect();
    let credentials = serde_json::Value::from(credentials).to_string();
    let labels: Vec<&str> = signer.passkeys.iter().map(|passkey| passkey.label.as_str()).collect();
    let reason = format!("why-{place}");
    html! {
        @if signer.until != view.payment.expires_at().rfc3339() {
            p { (view.say(texts::SIGN_UNTIL)) (deadline(signer.until)) }
        }
        p.note data-without-script="" { (view.say(texts::WITHOUT_SCRIPT)) }
        div.passkey hidden data-passkey="" data-decision=(signer.by_passkey) data-credentials=(credentials) {
            form data-choice="approve" {
                button type="submit" { (view.say(texts::APPROVE_WITH_PASSKEY)) span.of { (grouped(&view.amount())) } }
            }
            details {
                summary { (view.say(texts::REJECT)) }
                form data-choice="reject" {
                    label for=(reason) { (view.say(texts::REJECT_WHY)) }
                    input id=(reason) name="reason" maxlength="512" required autocomplete="off";
                    button.danger type="submit" { (view.say(texts::REJECT_WITH_PASSKEY)) }
                }
            }
            p.note { (view.language.fill(texts::PASSKEYS, &labels.join(", "))) }
            p.problem role="alert" data-alert="" {}
        }
    }
}

/// What the script may have to say, in the page's language.
pub(super) fn messages(language: Language) -> Markup {
    said_by_script(
        language,
        &[
            ("unsupported", texts::SAY_UNSUPPORTED),
            ("working", texts::SAY_WORKING),
            ("sending", texts::SAY_SENDING),
            ("cancelled", texts::SAY_CANCELLED),
            ("refused", texts::SAY_REFUSED),
            ("unsent", texts::SAY_UNSENT),
        ],
    )
}

/// Texts by the names that the script knows.
pub(super) fn said_by_script(language: Language, said: &[(&str, Both)]) -> Markup {
    html! { ul hidden { @for (name, text) in said { li data-message=(name) { (language.say(*text)) } } } }
}

fn by_jws(view: &View<'_>, signer: &SignerView<'_>, place: usize) -> Markup {
    let id = |name: &str| format!("{name}-{place}");
    let approving = signer.ask.choice == Choice::Approve;
    html! {
        p { (view.say(texts::COMMAND)) }
        @if ["http://127.0.0.1", "http://localhost"].iter().any(|dev| view.document.aud.starts_with(dev)) {
            pre { code { "countersign sign " (view.document.order_id) " --signer " (signer.id) } }
        } @else {
            pre { code { "countersign sign " (view.document.order_id) " --url " (view.document.aud) " --token-file TOKEN --key KEY.pem" } }
        }
        @if let Some(problem) = signer.ask.problem { p.problem role="alert" { (view.say(problem)) } }
        form method="get" action=(view.below("")) {
            fieldset {
                legend { (view.say(texts::SAY)) }
                input type="hidden" name="signer_id" value=(signer.id);
                label for=(id("decision")) { (view.say(texts::DECISION)) }
                select id=(id("decision")) name="decision" {
                    option value="approve" selected[approving] { (view.say(texts::CHOOSE_APPROVE)) }
                    option value="reject" selected[!approving] { (view.say(texts::CHOOSE_REJECT)) }
                }
                label for=(id("reason")) { (view.say(texts::REASON_OPTIONAL)) }
                input id=(id("reason")) name="reason" maxlength="512" value=(signer.ask.reason) autocomplete="off";
                label for=(id("key")) { (view.say(texts::KEY_ID)) }
                input id=(id("key")) name="key_id" maxlength="64" value=(signer.key_id) autocomplete="off" spellcheck="false";
                button.plain type="submit" { (view.say(texts::SHOW_TEXT)) }
            }
        }
        @if let Some((text, digest)) = &signer.to_sign {
            (jws_form(view, signer, place, text, digest))
        } @else {
            p { (view.say(texts::NO_KEY)) }
        }
    }
}

fn jws_form(view: &View<'_>, signer: &SignerView<'_>, place: usize, text: &str, digest: &str) -> Markup {
    let approving = signer.ask.choice == Choice::Approve;
    let verb = if approving { texts::CHOOSE_APPROVE } else { texts::CHOOSE_REJECT };
    let submit = if approving { texts::APPROVE } else { texts::REJECT };
    let jws = format!("jws-{place}");
    html! {
        p { (view.language.fill(texts::SIGN_EXACTLY, view.say(verb))) " "
            code { "{\"alg\":\"EdDSA\",\"kid\":\"" (signer.key_id) "\",\"typ\":\"countersign-approval+jws\"}" } }
        (exact_text(view.say(texts::TEXT_TO_SIGN), text))
        dl { dt { (view.say(texts::DIGEST_OF_TEXT)) } dd.digest { (digest) } }
        form method="post" action=(view.below("/decisions")) {
            input type="hidden" name="signer_id" value=(signer.id);
            input type="hidden" name="key_id" value=(signer.key_id);
            input type="hidden" name="decision" value=(signer.ask.choice.as_str());
            input type="hidden" name="reason" value=(signer.ask.reason);
            label for=(jws) { (view.say(texts::JWS)) }
            textarea id=(jws) name="jws" rows="4" required spellcheck="false" autocomplete="off" {}
            button type="submit" .danger[!approving] { (view.say(submit)) " " (grouped(&view.amount())) }
        }
    }
}
