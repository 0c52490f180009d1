//! What every page stands in, and the few forms in which pages show values.

use maud::{DOCTYPE, Markup, html};

use super::texts;
use crate::domain::Currency;
use crate::signer::asset;
use crate::signer::language::Language;
use crate::signer::link::Address;

/// What frames a page.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// The language it speaks.
    pub(super) language: Language,
    /// Where the service is.
    pub(super) address: &'a Address,
    /// The window's title.
    pub(super) title: &'a str,
    /// The page's own.
    pub(super) heading: &'a str,
    /// What kind of page it is, for the script.
    pub(super) kind: &'a str,
    /// What it says is so; when another answer says otherwise, the page is old.
    pub(super) standing: &'a str,
    /// What stands at its end.
    pub(super) foot: crate::signer::language::Both,
}

/// The whole page around `body`.
pub(super) fn shell(frame: &Frame<'_>, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang=(frame.language.tag()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex, nofollow";
                meta name="color-scheme" content="light dark";
                title { (frame.title) " – Countersign" }
                link rel="stylesheet" href=(frame.address.within(asset::CSS_PATH));
                script src=(frame.address.within(asset::SCRIPT_PATH)) defer {}
            }
            body {
                header { p.mark { "Countersign" } h1 tabindex="-1" { (frame.heading) } }
                main data-page=(frame.kind) data-standing=(frame.standing) { (body) }
                footer { p { (frame.language.say(frame.foot)) } }
            }
        }
    };
    page.into_string()
}

/// The amount with its digits in threes. The gap is drawn, so the text stays as it is signed.
pub(super) fn grouped(amount: &str) -> Markup {
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

/// The Chinese names of the currencies, a line each: code, space, name.
const CURRENCIES_ZH: &str = include_str!("../assets/currencies.zh.txt");

/// The currency's name; its code where it has none.
pub(super) fn currency_name(language: Language, code: &str) -> String {
    let chinese = |code: &str| {
        let named = |line: &'static str| line.strip_prefix(code).and_then(|rest| rest.strip_prefix(' '));
        CURRENCIES_ZH.lines().find_map(named).map(str::to_owned)
    };
    let name = match language {
        Language::English => code.parse::<Currency>().ok().map(|currency| currency.name().to_owned()),
        Language::Chinese => chinese(code),
    };
    name.unwrap_or_else(|| code.to_owned())
}

/// A time as people read it, to the minute that has begun, with the exact one behind it.
pub(super) fn time(exact: &str) -> Markup {
    html! { time datetime=(exact) title=(exact) { (to_the_minute(exact)) } }
}

/// A time that is still to come; the script says how far off it is.
pub(super) fn deadline(exact: &str) -> Markup {
    html! { time datetime=(exact) title=(exact) data-deadline="" { (to_the_minute(exact)) } }
}

fn to_the_minute(exact: &str) -> String {
    format!("{} UTC", exact.get(..16).unwrap_or(exact).replacen('T', " ", 1))
}

/// A text that is signed, whole; it wraps, and a long one scrolls, by keyboard too.
pub(super) fn exact_text(label: &str, text: &str) -> Markup {
    html! { pre.whole tabindex="0" role="region" aria-label=(label) { code { (text) } } }
}

pub(super) fn or_none(language: Language, value: &str) -> Markup {
    html! { @if value.is_empty() { span.none { (language.say(texts::NONE)) } } @else { (value) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_currency_has_a_name_in_each_language() {
        let letters = || (b'A'..=b'Z').map(char::from);
        let codes = letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| format!("{a}{b}{c}"))));
        let mut seen = 0;
        for code in codes.filter(|code| code.parse::<Currency>().is_ok()) {
            for language in [Language::English, Language::Chinese] {
                let name = currency_name(language, &code);
                assert!(name != code && !name.is_empty(), "{code} in {language:?}");
            }
            assert!(!currency_name(Language::Chinese, &code).is_ascii(), "{code}");
            seen += 1;
        }
        assert!(seen > 150, "{seen}");
        assert_eq!(seen, CURRENCIES_ZH.lines().count(), "none is named that is not accepted");
        assert_eq!(currency_name(Language::Chinese, "USD"), "美元");
    }
}
