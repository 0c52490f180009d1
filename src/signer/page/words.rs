//! An amount in words, as on a cheque: a digit too many is seen at once.

use super::shell::currency_name;
use crate::signer::language::Language;

/// An amount such as `12480.50 EUR` in words, with its currency's name.
pub(super) fn spoken(language: Language, amount: &str, currency: &str) -> String {
    let name = currency_name(language, currency);
    match in_words(amount.split(' ').next().unwrap_or_default(), language) {
        Some(words) => format!("{words} {name}"),
        None => name,
    }
}

/// The words of an amount such as `12480.50`; `None` for what is no such number.
pub(super) fn in_words(amount: &str, language: Language) -> Option<String> {
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    if part.chars().any(|digit| !digit.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    Some(match language {
        Language::English if part.is_empty() => english(whole),
        Language::English => format!("{} and {part}/1{}", english(whole), "0".repeat(part.len())),
        Language::Chinese if part.is_empty() => chinese(whole),
        Language::Chinese => format!("{}点{}", chinese(whole), part.chars().filter_map(numeral).collect::<String>()),
    })
}

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const THOUSANDS: [&str; 7] = ["", " thousand", " million", " billion", " trillion", " quadrillion", " quintillion"];

fn english(number: u64) -> String {
    if number == 0 {
        return word(&SMALL, 0).to_owned();
    }
    let groups = groups_of(number, 1000);
    let said = groups.iter().enumerate().rev().filter(|(_, group)| **group > 0);
    let said = said.map(|(place, group)| below_thousand(*group) + THOUSANDS.get(place).copied().unwrap_or_default());
    said.collect::<Vec<_>>().join(" ")
}

fn below_thousand(number: u64) -> String {
    let (hundreds, rest) = (number / 100, number % 100);
    let rest = match rest {
        0 => String::new(),
        1..20 => word(&SMALL, rest).to_owned(),
        _ if rest % 10 == 0 => word(&TENS, rest / 10).to_owned(),
        _ => format!("{}-{}", word(&TENS, rest / 10), word(&SMALL, rest % 10)),
    };
    match (hundreds, rest.as_str()) {
        (0, _) => rest,
        (_, "") => format!("{} hundred", word(&SMALL, hundreds)),
        _ => format!("{} hundred {rest}", word(&SMALL, hundreds)),
    }
}

fn word(words: &[&'static str], at: u64) -> &'static str {
    usize::try_from(at).ok().and_then(|at| words.get(at)).copied().unwrap_or_default()
}

const NUMERALS: [char; 10] = ['零', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
const PLACES: [&str; 4] = ["", "十", "百", "千"];
const MYRIADS: [&str; 5] = ["", "万", "亿", "万亿", "亿亿"];

fn numeral(digit: char) -> Option<char> {
    digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).and_then(|digit| NUMERALS.get(digit)).copied()
}

fn chinese(number: u64) -> String {
    let mut said = String::new();
    // Whether a place before was empty: one 零 says so of any number of them.
    let mut gap = false;
    let mut above = 0;
    for (myriad, group) in groups_of(number, 10_000).into_iter().enumerate().rev() {
        // A full group is plain enough after another.
        gap &= above == 0 || group < 1000;
        above = group;
        for (place, digit) in format!("{group:04}").chars().enumerate() {
            if digit == '0' {
                gap = !said.is_empty();
                continue;
            }
            if std::mem::take(&mut gap) {
                said.push('零');
            }
            said.extend(numeral(digit));
            said.push_str(PLACES.iter().rev().nth(place).copied().unwrap_or_default());
        }
        if group > 0 {
            said.push_str(MYRIADS.get(myriad).copied().unwrap_or_default());
        }
    }
    // Eighteen is said as "ten eight".
    match said.strip_prefix("一十") {
        Some(rest) => format!("十{rest}"),
        None if said.is_empty() => "零".to_owned(),
        None => said,
    }
}

/// The digits of a number to a base, the smallest first.
fn groups_of(mut number: u64, base: u64) -> Vec<u64> {
    let mut groups = Vec::new();
    while number > 0 {
        groups.push(number % base);
        number /= base;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_said_as_people_say_them() {
        for (amount, english, chinese) in [
            ("0", "zero", "零"),
            ("0.07", "zero and 07/100", "零点零七"),
            ("15", "fifteen", "十五"),
            ("110", "one hundred ten", "一百一十"),
            ("199.00", "one hundred ninety-nine and 00/100", "一百九十九点零零"),
            ("1005", "one thousand five", "一千零五"),
            ("12480.00", "twelve thousand four hundred eighty and 00/100", "一万二千四百八十点零零"),
            ("100000", "one hundred thousand", "十万"),
            ("203000", "two hundred three thousand", "二十万三千"),
            ("100003000", "one hundred million three thousand", "一亿零三千"),
            ("1000001", "one million one", "一百万零一"),
            (
                "100200300.500",
                "one hundred million two hundred thousand three hundred and 500/1000",
                "一亿零二十万零三百点五零零",
            ),
            (
                "9223372036854775807",
                "nine quintillion two hundred twenty-three quadrillion three hundred seventy-two trillion thirty-six billion \
                 eight hundred fifty-four million seven hundred seventy-five thousand eight hundred seven",
                "九百二十二亿亿三千三百七十二万亿零三百六十八亿五千四百七十七万五千八百零七",
            ),
        ] {
            assert_eq!(in_words(amount, Language::English).as_deref(), Some(english));
            assert_eq!(in_words(amount, Language::Chinese).as_deref(), Some(chinese));
        }
        for odd in ["", "-1", "1.x", "1e3", ".5", "1 000"] {
            assert_eq!(in_words(odd, Language::English), None, "{odd:?}");
        }
    }
}
