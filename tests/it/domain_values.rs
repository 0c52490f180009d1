//! Values at the edge: exact or refused. Money, ids, texts, instants, policies, quorums.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use countersign::domain::{
    Account, AgentId, ApprovalPolicy, Choice, Code, Counts, Currency, DecisionId, EffectId, IdempotencyKey, KeyId,
    LeaseToken, MAX_MINOR, Memo, Money, OrderId, PartyName, PaymentId, Policy, Principal, Reason, Refusal, Role,
    SignerId, Standing, TenantId, Terms, Timestamp, Vote, evaluate, is_requester,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::harness::payments::{CREATED_AT, NOW, created, quorum_of, terms};

fn config() -> ProptestConfig {
    ProptestConfig { cases: 1_000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() }
}

fn code<T: Debug>(parsed: Result<T, Refusal>) -> Code {
    parsed.unwrap_err().code
}

fn currency(code: &str) -> Currency {
    code.parse().unwrap()
}

#[test]
fn an_amount_is_read_exactly() {
    let cases = [
        ("199.00", "USD", 19_900),
        ("199.0", "USD", 19_900),
        ("199", "USD", 19_900),
        ("0.01", "USD", 1),
        ("19.99", "USD", 1_999),
        ("8.29", "USD", 829),
        ("1.10", "USD", 110),
        ("0.1", "USD", 10),
        ("10.00", "HUF", 1_000),
        ("100", "JPY", 100),
        ("0.001", "KWD", 1),
        ("1.234", "KWD", 1_234),
        ("1.2345", "CLF", 12_345),
        ("0.0001", "CLF", 1),
        // Past 2^53, where a double would round.
        ("9007199254740.93", "USD", 900_719_925_474_093),
        ("10000000000000.00", "USD", MAX_MINOR),
        ("9999999999999.99", "USD", MAX_MINOR - 1),
        ("1000000000000000", "JPY", MAX_MINOR),
        ("1000000000000", "KWD", MAX_MINOR),
        ("100000000000.0000", "CLF", MAX_MINOR),
    ];
    for (text, of, minor) in cases {
        let money = Money::parse(text, currency(of)).unwrap_or_else(|refusal| panic!("{text} {of}: {refusal}"));
        assert_eq!((money.minor(), money.currency().code()), (minor, of), "{text} {of}");
    }
}

#[test]
fn more_fraction_digits_than_the_currency_has_are_refused_even_zeros() {
    let cases = [
        ("1.005", "USD"),
        ("0.001", "USD"),
        ("0.30000000000000004", "USD"),
        ("100.0", "JPY"),
        ("1.000", "HUF"),
        ("1.2345", "KWD"),
        ("1.23456", "CLF"),
    ];
    for (text, of) in cases {
        assert_eq!(code(Money::parse(text, currency(of))), Code::AmountPrecision, "{text} {of}");
    }
}

#[test]
fn anything_but_a_positive_plain_decimal_is_refused() {
    let nines = "9".repeat(10_000);
    let zeros = format!("0.{}", "0".repeat(10_000));
    let cases = [
        "",
        " ",
        "0",
        "0.0",
        "0.00",
        "-0",
        "-1",
        "-0.01",
        "+5",
        "+0.01",
        " 5",
        "5 ",
        "\t5",
        "5\n",
        "1 000",
        "5.",
        ".5",
        ".",
        "..",
        "1..2",
        "1.2.3",
        "1.-2",
        "1.+2",
        "1e3",
        "1E3",
        "1e400",
        "1e-400",
        "1e999999999",
        "0x10",
        "0b1",
        "1_000",
        "1,000",
        "12,50",
        "1'000",
        "00",
        "01",
        "007.00",
        "00.50",
        "NaN",
        "nan",
        "Infinity",
        "-Infinity",
        "inf",
        "null",
        "true",
        "\"5\"",
        "$5",
        "5USD",
        "٥",
        "５",
        "１．００",
        "1．00",
        "5\u{200b}",
        "\u{feff}5",
        "¼",
        "5\0",
        "10000000000000.01",
        "10000000000001",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999",
        &nines,
    ];
    for text in cases {
        assert_eq!(code(Money::parse(text, currency("USD"))), Code::AmountInvalid, "{text:?}");
    }
    assert_eq!(code(Money::parse(&zeros, currency("USD"))), Code::AmountPrecision);
    for (text, of) in [("1000000000000001", "JPY"), ("1000000000000.001", "KWD"), ("100000000000.0001", "CLF")] {
        assert_eq!(code(Money::parse(text, currency(of))), Code::AmountInvalid, "{text} {of}");
    }
}

#[test]
fn minor_units_out_of_range_are_no_money() {
    for minor in [i64::MIN, -1, 0, MAX_MINOR + 1, i64::MAX] {
        assert_eq!(code(Money::from_minor(minor, currency("USD"))), Code::AmountInvalid, "{minor}");
    }
    for minor in [1, MAX_MINOR] {
        assert_eq!(Money::from_minor(minor, currency("USD")).unwrap().minor(), minor);
    }
}

#[test]
fn the_currencies_and_their_exponents_are_those_of_iso_4217() {
    let table = [
        (0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
        (
            2,
            "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF \
             CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL \
             HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU \
             MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR \
             SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED \
             VES WST XAD XCD XCG YER ZAR ZMW ZWG",
        ),
        (3, "BHD IQD JOD KWD LYD OMR TND"),
        (4, "CLF UYW"),
    ];
    let pinned: BTreeSet<(String, u32)> = table
        .into_iter()
        .flat_map(|(exponent, codes)| codes.split_whitespace().map(move |code| (code.to_owned(), exponent)))
        .collect();
    let letters = || (b'A'..=b'Z').map(char::from);
    let every =
        letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| String::from_iter([a, b, c]))));
    let known: BTreeSet<(String, u32)> =
        every.filter_map(|code| code.parse::<Currency>().ok().map(|known| (code, known.exponent()))).collect();
    assert_eq!(known, pinned);
}

#[test]
fn withdrawn_unitless_and_misspelt_currencies_are_refused() {
    let withdrawn = ["HRK", "BGN", "ANG", "CUC", "SLL", "ZWL", "VEF", "MRO", "DEM", "BYR", "STD", "LTL", "ZMK"];
    let unitless = ["XAU", "XAG", "XPT", "XPD", "XXX", "XTS", "XDR", "XSU", "XUA", "XBA"];
    let misspelt = ["usd", "Usd", "uSD", "", "US", "USDT", " USD", "USD ", "US\u{200b}D", "ＵＳＤ", "840", "€", "BTC"];
    for text in withdrawn.into_iter().chain(unitless).chain(misspelt) {
        assert_eq!(code(text.parse::<Currency>()), Code::CurrencyUnsupported, "{text:?}");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_amount_written_out_reads_back_the_same(
        minor in prop_oneof![1..=MAX_MINOR, 1_i64..2_000],
        of in prop::sample::select(vec!["JPY", "USD", "KWD", "CLF", "HUF"]),
    ) {
        let money = Money::from_minor(minor, currency(of)).unwrap();
        let text = money.decimal();
        prop_assert_eq!(Money::parse(&text, currency(of)).unwrap(), money);
        let exponent = usize::try_from(currency(of).exponent()).unwrap();
        prop_assert_eq!(text.split_once('.').map_or(0, |(_, fraction)| fraction.len()), exponent);
        let digits = text.replace('.', "");
        prop_assert_eq!(digits.trim_start_matches('0'), minor.to_string());
    }

    #[test]
    fn no_text_at_all_makes_an_amount_out_of_range_or_a_panic(text in "[0-9.eE+ -]{0,24}|\\PC{0,12}") {
        if let Ok(money) = Money::parse(&text, currency("USD")) {
            prop_assert!((1..=MAX_MINOR).contains(&money.minor()));
            prop_assert!(text.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        }
    }

    #[test]
    fn minted_ids_read_back(micros in 0_i64..=253_402_300_799_000_000, random in any::<u128>()) {
        let id = PaymentId::mint(Timestamp::from_micros(micros), random);
        prop_assert_eq!(id.as_str().parse::<PaymentId>().unwrap(), id.clone());
        prop_assert_eq!(id.as_str().len(), 30);
    }

    #[test]
    fn an_instant_in_whole_milliseconds_reads_back(millis in -62_135_596_800_000_i64..=253_402_300_799_999) {
        let at = Timestamp::from_micros(millis * 1_000);
        prop_assert_eq!(Timestamp::parse_rfc3339(&at.rfc3339()), Some(at));
        prop_assert_eq!(at.to_millis(), at);
        prop_assert_eq!(at.rfc3339().len(), "2026-01-02T03:04:05.678Z".len());
    }
}

#[test]
fn minted_ids_are_ordered_by_time_and_carry_their_kind() {
    let at = |seconds: i64| CREATED_AT.plus_micros(seconds * 1_000_000);
    assert!(PaymentId::mint(at(0), u128::MAX) < PaymentId::mint(at(1), 0));
    assert!(PaymentId::mint(CREATED_AT, 1).as_str().starts_with("pay_"));
    assert!(EffectId::mint(CREATED_AT, 1).as_str().starts_with("eff_"));
    assert!(DecisionId::mint(CREATED_AT, 1).as_str().starts_with("dec_"));
    assert!(LeaseToken::mint(CREATED_AT, 1).as_str().starts_with("lse_"));
}

#[test]
fn foreign_and_misspelt_ids_are_refused() {
    let good = PaymentId::mint(CREATED_AT, 7).to_string();
    assert!(good.parse::<PaymentId>().is_ok());
    let ulid = good.trim_start_matches("pay_").to_owned();
    let cases = [
        String::new(),
        "pay_".to_owned(),
        ulid.clone(),
        format!("eff_{ulid}"),
        format!("PAY_{ulid}"),
        format!("pay_pay_{ulid}"),
        format!("pay-{ulid}"),
        format!("pay_{}", ulid.to_lowercase()),
        format!("pay_{}", &ulid[1..]),
        format!("pay_{ulid}0"),
        format!("{good} "),
        format!(" {good}"),
        format!("{good}\0"),
        // Letters that a ULID does not have, or has only as another spelling.
        format!("pay_{}U", &ulid[..25]),
        format!("pay_{}O", &ulid[..25]),
        format!("pay_{}I", &ulid[..25]),
        // More than 128 bits.
        format!("pay_8{}", &ulid[1..]),
        "pay_ZZZZZZZZZZZZZZZZZZZZZZZZZZ".to_owned(),
        format!("pay_{}é", &ulid[..24]),
        format!("pay_{}", "0".repeat(10_000)),
    ];
    for text in cases {
        assert_eq!(code(text.parse::<PaymentId>()), Code::InvalidArgument, "{text:?}");
    }
}

fn reads<T: std::str::FromStr>(text: &str) -> bool {
    text.parse::<T>().is_ok()
}

#[test]
fn names_hold_their_own_characters_and_lengths_and_nothing_else() {
    type Reader = fn(&str) -> bool;
    let kinds: [(&str, Reader, &str, usize, usize); 6] = [
        ("order_id", reads::<OrderId>, "._:/#-", 1, 64),
        ("signer_id", reads::<SignerId>, "._@+-", 1, 64),
        ("tenant", reads::<TenantId>, "._-", 1, 64),
        ("agent", reads::<AgentId>, "._:@|/+-", 1, 128),
        ("key_id", reads::<KeyId>, "._:-", 1, 64),
        ("idempotency_key", reads::<IdempotencyKey>, "._:-", 16, 255),
    ];
    for (kind, read, extra, min, max) in kinds {
        let padded = |text: &str| format!("{text}{}", "x".repeat(min));
        assert!(read(&"x".repeat(min)) && read(&"9".repeat(max)), "{kind}");
        assert!(!read(&"x".repeat(min - 1)) && !read(&"x".repeat(max + 1)), "{kind}");
        assert!(!read(&"x".repeat(10_000)), "{kind}");
        for c in (0_u32..0x250).filter_map(char::from_u32) {
            let expected = c.is_ascii_alphanumeric() || extra.contains(c);
            assert_eq!(read(&padded(&c.to_string())), expected, "{kind}: {c:?}");
        }
        for text in ["a b", "é", "Аnna", "a\u{200b}b", "a\u{202e}b", "a\n", "😀", "a\0b", "../etc", "a'b", "a;b", "<a>"]
        {
            let allowed = text == "../etc" && extra.contains('/');
            assert_eq!(read(&padded(text)), allowed, "{kind}: {text:?}");
        }
    }
    assert_ne!("Order-1".parse::<OrderId>().unwrap(), "order-1".parse::<OrderId>().unwrap(), "case matters");
}

#[test]
fn texts_that_people_sign_have_one_spelling_and_hide_nothing() {
    let good = ["", "Invoice 42", "Zażółć gęślą jaźń", "請求書 42", "فاتورة", "a  b", "😀"];
    for text in good {
        assert_eq!(Memo::parse("memo", text).unwrap().as_str(), text);
    }
    let refused = [
        ("not NFC", "e\u{301}"),
        ("not NFC", "\u{212b}ngström"),
        ("not NFC", "\u{1100}\u{1161}"),
        ("a line feed", "a\nb"),
        ("a carriage return", "a\rb"),
        ("a tab", "a\tb"),
        ("NUL", "a\0b"),
        ("escape", "a\u{1b}[31mb"),
        ("DEL", "a\u{7f}b"),
        ("C1", "a\u{85}b"),
        ("right-to-left override", "a\u{202e}b"),
        ("left-to-right embedding", "a\u{202a}b"),
        ("isolate", "a\u{2066}b\u{2069}"),
        ("right-to-left mark", "a\u{200f}b"),
        ("Arabic letter mark", "a\u{61c}b"),
        ("zero width space", "a\u{200b}b"),
        ("zero width joiner", "a\u{200d}b"),
        ("word joiner", "a\u{2060}b"),
        ("byte order mark", "\u{feff}a"),
        ("soft hyphen", "a\u{ad}b"),
        ("line separator", "a\u{2028}b"),
        ("tag characters", "a\u{e0041}b"),
        ("a leading blank", " a"),
        ("a trailing blank", "a "),
        ("a leading no-break space", "\u{a0}a"),
        ("an ideographic space at the end", "a\u{3000}"),
        ("a blank alone", " "),
    ];
    for (why, text) in refused {
        assert_eq!(code(Memo::parse("memo", text)), Code::TextNotCanonical, "{why}: {text:?}");
        assert_eq!(code(Reason::parse("reason", text)), Code::TextNotCanonical, "{why}: {text:?}");
        assert_eq!(code(PartyName::parse("payee_name", text)), Code::TextNotCanonical, "{why}: {text:?}");
    }
}

#[test]
fn texts_are_as_long_as_they_may_be_in_characters() {
    let long = |count| "ż".repeat(count);
    assert!(Memo::parse("memo", &long(256)).is_ok() && Reason::parse("reason", &long(512)).is_ok());
    assert!(PartyName::parse("name", &long(128)).is_ok());
    let refused = [
        Memo::parse("memo", &long(257)).unwrap_err(),
        Reason::parse("reason", &long(513)).unwrap_err(),
        PartyName::parse("payee_name", &long(129)).unwrap_err(),
        Memo::parse("memo", &long(10_000)).unwrap_err(),
    ];
    for refusal in refused {
        assert_eq!(refusal.code, Code::InvalidArgument);
        assert!(refusal.field.is_some_and(|field| refusal.message.starts_with(field)), "{refusal}");
        assert!(refusal.message.len() < 200, "the text is not sent back: {refusal}");
    }
}

#[test]
fn an_account_is_plain_ascii() {
    for text in ["a", "DE89370400440532013000", "acct-1", "psp:x/y_z.1", &"9".repeat(64)] {
        assert_eq!(Account::parse("payee", text).unwrap().as_str(), text);
    }
    for text in ["", " ", "a b", "a\n", "Аcct", "a\u{202e}b", "a;b", "a'b", &"9".repeat(65), &"9".repeat(10_000)] {
        assert_eq!(code(Account::parse("payee", text)), Code::InvalidArgument, "{text:?}");
    }
}

#[test]
fn an_instant_is_written_in_one_form_and_read_in_any_of_rfc_3339() {
    let at = Timestamp::from_micros(1_767_323_045_678_912);
    assert_eq!(at.rfc3339(), "2026-01-02T03:04:05.678Z");
    assert_eq!(at.to_millis().micros(), 1_767_323_045_678_000);
    assert_eq!(at.seconds(), 1_767_323_045);
    assert_eq!(CREATED_AT.rfc3339(), "2026-01-02T03:04:05.000Z");
    assert_eq!(Timestamp::from_micros(0).rfc3339(), "1970-01-01T00:00:00.000Z");
    assert_eq!(Timestamp::from_micros(-1).rfc3339(), "1969-12-31T23:59:59.999Z");
    assert_eq!(Timestamp::from_micros(-1).to_millis().micros(), -1_000);
    assert_eq!(Timestamp::from_micros(-1).seconds(), -1);
    let same = [
        "2026-01-02T03:04:05.678912Z",
        "2026-01-02T03:04:05.678912+00:00",
        "2026-01-02T05:04:05.678912+02:00",
        "2026-01-01T21:34:05.678912-05:30",
    ];
    for text in same {
        assert_eq!(Timestamp::parse_rfc3339(text), Some(at), "{text}");
    }
    let none = [
        "",
        "2026",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04Z",
        "1767323045",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-02T25:00:00Z",
        " 2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z ",
        "２０２６-01-02T03:04:05Z",
    ];
    for text in none {
        assert_eq!(Timestamp::parse_rfc3339(text), None, "{text:?}");
    }
}

#[test]
fn instants_stop_at_the_ends_of_their_range() {
    let last = Timestamp::from_micros(i64::MAX);
    assert_eq!(last.plus(Duration::MAX), last);
    assert_eq!(last.plus_micros(1), last);
    assert_eq!(Timestamp::from_micros(0).plus(Duration::from_micros(1_500)).micros(), 1_500);
    assert_eq!(CREATED_AT.since(last), Duration::ZERO);
    assert_eq!(CREATED_AT.plus_micros(5).since(CREATED_AT), Duration::from_micros(5));
}

fn person(name: &str) -> SignerId {
    name.parse().unwrap()
}

fn yes(name: &str) -> Vote {
    Vote { signer: person(name), choice: Choice::Approve, key: "k1".to_owned(), at: NOW }
}

fn no(name: &str) -> Vote {
    Vote { signer: person(name), choice: Choice::Reject, key: "k1".to_owned(), at: NOW }
}

fn standing(policy: &ApprovalPolicy, votes: &[Vote]) -> Standing {
    evaluate(policy, &terms(), votes)
}

#[test]
fn a_quorum_is_m_distinct_people_of_n() {
    let three = ["ana", "ben", "cem"];
    for required in 1..=3_usize {
        let policy = quorum_of(u32::try_from(required).unwrap(), &three);
        for given in 0..=3_usize {
            let votes: Vec<Vote> = three.iter().take(given).map(|name| yes(name)).collect();
            let approvals = u32::try_from(given.min(required)).unwrap();
            let expected = if given >= required {
                Standing::Complete { approvals }
            } else {
                Standing::Pending { approvals, level: 0 }
            };
            assert_eq!(standing(&policy, &votes), expected, "{given} of {required}");
        }
    }
}

#[test]
fn a_person_counts_once_however_often_they_sign() {
    let policy = quorum_of(2, &["ana", "ben"]);
    assert_eq!(standing(&policy, &[yes("ana"), yes("ana"), yes("ana")]), Standing::Pending { approvals: 1, level: 0 });
}

#[test]
fn the_requester_never_counts_not_even_to_reject() {
    let policy = quorum_of(1, &["ana", "olivia", "agent-1"]);
    for requester in ["olivia", "agent-1"] {
        assert!(is_requester(&policy, &terms(), &person(requester)));
        assert_eq!(standing(&policy, &[yes(requester)]), Standing::Pending { approvals: 0, level: 0 });
        assert_eq!(standing(&policy, &[no(requester)]), Standing::Pending { approvals: 0, level: 0 });
        assert_eq!(standing(&policy, &[no(requester), yes("ana")]), Standing::Complete { approvals: 1 });
    }
    assert!(!is_requester(&policy, &terms(), &person("ana")));
    let other = Terms { principal: "ana".to_owned(), ..terms() };
    assert_eq!(evaluate(&policy, &other, &[yes("ana")]), Standing::Pending { approvals: 0, level: 0 });
}

#[test]
fn outsiders_never_count_not_even_to_reject() {
    let policy = quorum_of(1, &["ana"]);
    for outsider in ["mallory", "Ana", "ANA", "ana2", "an"] {
        assert_eq!(
            standing(&policy, &[yes(outsider), no(outsider)]),
            Standing::Pending { approvals: 0, level: 0 },
            "{outsider}"
        );
    }
}

#[test]
fn any_rejection_of_someone_entitled_is_final() {
    let policy = quorum_of(1, &["ana", "ben"]);
    for votes in [vec![no("ana")], vec![no("ben"), yes("ana")], vec![no("ana"), yes("ana")]] {
        assert_eq!(standing(&policy, &votes), Standing::Rejected, "{votes:?}");
    }
}

#[test]
fn a_no_after_the_quorum_changes_nothing_and_before_it_is_never_talked_over() {
    let one = quorum_of(1, &["ana", "ben"]);
    assert_eq!(standing(&one, &[yes("ana"), no("ben")]), Standing::Complete { approvals: 1 });
    let two = quorum_of(2, &["ana", "ben"]);
    assert_eq!(standing(&two, &[yes("ana"), no("ana"), yes("ben")]), Standing::Rejected);
}

#[test]
fn a_quorum_that_can_not_be_read_is_never_complete() {
    for required in ["", "x", "-1", "99999999999", "1.5"] {
        let mut policy = quorum_of(1, &["ana"]);
        policy.levels[0].groups[0].required = required.to_owned();
        assert_eq!(standing(&policy, &[yes("ana")]), Standing::Rejected, "{required:?}: it can never be reached");
    }
    let mut policy = quorum_of(1, &["ana"]);
    policy.levels[0].groups[0].required = "0".to_owned();
    assert_eq!(standing(&policy, &[]), Standing::Pending { approvals: 0, level: 0 }, "nobody is never enough");
}

const TOOLS: [&str; 4] = ["create_payment", "get_payment_status", "confirm_signing", "resend_notification"];

fn policy_file(agent: &str, required: i64, people: &str) -> String {
    format!(
        "id = \"house\"\nversion = \"7\"\n[roles]\nagent = [{agent}]\nsigner = [\"confirm_signing\"]\n\
         [groups]\nfinance = [{people}]\n[approval]\ngroup = \"finance\"\nrequired = {required}\n"
    )
}

#[test]
fn a_policy_grants_what_it_says_and_nothing_else() {
    let policy = Policy::parse(&policy_file("\"create_payment\"", 2, "\"ana\", \"ben\""), &TOOLS).unwrap();
    for role in Role::ALL {
        for tool in TOOLS.into_iter().chain(["", "CREATE_PAYMENT", "no_such_tool"]) {
            let granted = (role == Role::Agent && tool == "create_payment")
                || (role == Role::Signer && tool == "confirm_signing");
            assert_eq!(policy.grants(&[role].into(), tool), granted, "{role} {tool}");
        }
    }
    assert!(!policy.grants(&BTreeSet::new(), "create_payment"));
    let approval = policy.approval(&created().facts(), &Counts::default()).unwrap();
    assert_eq!(approval, quorum_of(2, &["ana", "ben"]));
}

#[test]
fn no_policy_file_lets_an_agent_approve_or_a_quorum_be_out_of_reach() {
    let refused = [
        policy_file("\"confirm_signing\"", 1, "\"ana\""),
        policy_file("\"resend_notification\"", 1, "\"ana\""),
        policy_file("\"no_such_tool\"", 1, "\"ana\""),
        policy_file("", 0, "\"ana\""),
        policy_file("", -1, "\"ana\""),
        policy_file("", 2, "\"ana\""),
        policy_file("", 2, "\"ana\", \"ana\""),
        policy_file("", 1, ""),
        policy_file("", 1, "\"ana smith\""),
        policy_file("", 1, "\"ana\"") + "approve_everything = true\n",
        policy_file("", 1, "\"ana\"").replace("group = \"finance\"", "group = \"board\""),
        policy_file("", 1, "\"ana\"").replace("agent =", "admin ="),
        policy_file("", 1, "\"ana\"").replace("[approval]", "[approvals]"),
        String::new(),
        "\0".to_owned(),
    ];
    for text in refused {
        let fault = Policy::parse(&text, &TOOLS).unwrap_err().to_string();
        let (line, why) = fault.strip_prefix("line ").unwrap().split_once(": ").unwrap();
        assert!(line.parse::<usize>().is_ok_and(|line| line > 0) && !why.is_empty(), "{text}: {fault}");
    }
}

#[test]
fn only_a_signer_whose_subject_is_a_signers_name_can_sign() {
    let caller = |role: Role, subject: &str| Principal {
        tenant: "acme".parse().unwrap(),
        client: "app".parse().unwrap(),
        subject: subject.to_owned(),
        roles: [role].into(),
        scopes: BTreeSet::new(),
    };
    assert_eq!(caller(Role::Signer, "ana").signer(), Some(person("ana")));
    assert_eq!(caller(Role::Signer, "ana smith").signer(), None);
    for role in [Role::Agent, Role::Operator, Role::Auditor] {
        assert_eq!(caller(role, "ana").signer(), None, "{role}");
    }
    assert_eq!(caller(Role::Agent, "olivia").actor(), "agent:app");
    assert_eq!(caller(Role::Operator, "olivia").actor(), "operator:olivia");
}
