//! The policy file on people: several groups at once, whose accounts are whose, deputies, who is paid.

use countersign::domain::{Account, Counts, Facts, Money, Policy};

use crate::harness::payments::usd;

const TOOLS: [&str; 2] = ["create_payment", "confirm_signing"];
const FILE: &str = r#"
id = "house"
version = "3"
[roles]
agent = ["create_payment"]
signer = ["confirm_signing"]
[groups]
finance = ["ana", "ben", "cem"]
legal = ["ana", "lea"]
board = ["dora", "emil"]
[persons]
"j.doe" = ["ana", "ana-admin", "sub:jd@example.org"]
emil = ["sub:auth0|emil"]
"k.roe" = ["zoe", "zoe-admin"]
[[deputy]]
of = "ben"
signer = "zoe"
from = "2026-12-24T00:00:00+01:00"
until = "2027-01-02T00:00:00Z"
[[deputy]]
of = "dora"
signer = "ben"
from = "2026-12-24T00:00:00Z"
until = "2027-01-02T00:00:00Z"
[approval]
group = "board"
required = 1
[[rule]]
id = "large"
currency = "USD"
amount_at_least = "10000.00"
levels = [
  { groups = [{ group = "finance", required = 2 },
              { group = "legal", required = 1 }] },
  { group = "board", required = 2 },
]
confirmations = 2
[[rule]]
id = "middle"
currency = "USD"
amount_at_least = "1000.00"
levels = [{ group = "finance", required = 2 }]
confirmations = 1
[payees.beneficiaries]
acct-1 = "ben"
acct-2 = "j.doe"
acct-3 = "sub:auth0|emil"
"#;

fn asked(file: &str, amount: &str, payee: &str) -> countersign::domain::ApprovalPolicy {
    let (payee, agent) = (Account::parse("payee", payee).unwrap(), "agent-1".parse().unwrap());
    let facts = Facts { amount: Money::parse(amount, usd()).unwrap(), payee: &payee, agent: &agent };
    Policy::parse(file, &TOOLS).unwrap().approval(&facts, &Counts::default()).unwrap()
}

#[test]
fn a_rule_says_what_is_signed_with_each_payment_and_no_more_of_the_file_than_concerns_it() {
    let large = asked(FILE, "10000.00", "acct-9");
    assert_eq!(large.required_text(), "2 of finance and 1 of legal, then 2 of board; each with 2 keys");
    assert_eq!((large.required(), large.confirmations(), large.beneficiary.as_str()), (5, 2, ""));
    let deputies: Vec<String> =
        large.deputies.iter().map(|it| format!("{} {} {} {}", it.of, it.signer, it.from, it.until)).collect();
    assert_eq!(
        deputies,
        [
            "ben zoe 2026-12-23T23:00:00.000Z 2027-01-02T00:00:00.000Z",
            "dora ben 2026-12-24T00:00:00.000Z 2027-01-02T00:00:00.000Z",
        ]
    );
    assert_eq!(large.persons.keys().collect::<Vec<_>>(), ["emil", "j.doe", "k.roe"], "a deputy's accounts too");
    assert_eq!(large.signers().into_iter().collect::<Vec<_>>(), ["ana", "ben", "cem", "dora", "emil", "lea", "zoe"]);
    for (account, person) in [
        ("ana", "j.doe"),
        ("sub:jd@example.org", "j.doe"),
        ("emil", "emil"),
        ("sub:auth0|emil", "emil"),
        ("lea", "lea"),
    ] {
        assert_eq!(large.person(account), person);
    }
    let default = asked(FILE, "1.00", "acct-9");
    assert_eq!((default.confirmations.as_str(), default.deputies.len()), ("", 1));
    assert_eq!(default.persons.keys().collect::<Vec<_>>(), ["emil"]);
    assert_eq!(asked(FILE, "1000.00", "acct-9").confirmations, "", "once is what it is without a word");
}

#[test]
fn whom_an_account_belongs_to_stands_in_the_rule_of_each_payment_to_it() {
    for (payee, owner) in [("acct-1", "ben"), ("acct-2", "j.doe"), ("acct-3", "sub:auth0|emil"), ("acct-9", "")] {
        for amount in ["1.00", "1000.00", "10000.00"] {
            assert_eq!(asked(FILE, amount, payee).beneficiary, owner, "{payee} {amount}");
        }
    }
}

#[test]
fn each_signer_needs_as_many_keys_as_the_strictest_rule_that_asks_them() {
    let needed = |file: &str| {
        let policy = Policy::parse(file, &TOOLS).unwrap();
        policy.keys_needed().into_iter().map(|(signer, keys)| format!("{signer} {keys}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(needed(FILE), "ana 2 ben 2 cem 2 dora 2 emil 2 lea 2 zoe 2");
    assert_eq!(needed(&FILE.replace("confirmations = 2\n", "")), "ana 1 ben 1 cem 1 dora 1 emil 1 lea 1 zoe 1");
    let default = FILE
        .replace("confirmations = 2\n", "")
        .replace("required = 1\n[[rule]]", "required = 1\nconfirmations = 2\n[[rule]]");
    assert_eq!(needed(&default), "ana 1 ben 2 cem 1 dora 2 emil 2 lea 1 zoe 1");
}

#[test]
fn a_bad_file_is_refused_with_its_line_and_a_reason() {
    // What is replaced, by what, the text on whose line it is, and what is said of it.
    let cases = [
        // People count once over all groups of a level: ana is in both.
        ("finance\", required = 2 },\n", "finance\", required = 4 },\n", "required = 4", "must be 1 to 3"),
        ("legal\", required = 1 }", "legal\", required = 3 }", "required = 3", "must be 1 to 2"),
        (
            "finance\", required = 2 },\n              { group = \"legal\", required = 1 }",
            "finance\", required = 3 },\n              { group = \"legal\", required = 2 }",
            "legal\", required = 2 }",
            "finance and legal ask for 5 people, and have 4",
        ),
        // Two accounts of one person are one.
        ("[\"sub:auth0|emil\"]", "[\"dora\", \"sub:auth0|emil\"]", "board\", required = 2", "must be 1 to 1"),
        // Whoever earlier levels may use up is not there: both of the board are of finance.
        ("\"ben\", \"cem\"]", "\"ben\", \"dora\", \"emil\"]", "board\", required = 2", "may be left for this level"),
        (
            "legal\", required = 1 }",
            "finance\", required = 1 }",
            "{ group = \"finance\", required = 1 }",
            "twice in one level",
        ),
        ("legal\", required = 1 }", "nobody\", required = 1 }", "nobody", "no group"),
        ("legal\", required = 1 }", "legal\", required = 0 }", "required = 0", "must be 1 to 2"),
        (
            "{ group = \"board\", required = 2 }",
            "{ group = \"board\" }",
            "{ group = \"board\" }",
            "either group and required",
        ),
        ("{ group = \"board\", required = 2 }", "{ groups = [] }", "{ groups = [] }", "1 to 8 groups"),
        (
            "{ group = \"board\", required = 2 }",
            "{ group = \"board\", required = 2, groups = [] }",
            "groups = [] }",
            "either group and required",
        ),
        ("confirmations = 2", "confirmations = 0", "confirmations = 0", "must be 1 or 2"),
        ("confirmations = 2", "confirmations = 3", "confirmations = 3", "must be 1 or 2"),
        ("\"ana-admin\"", "\"ben\", \"ana admin\"", "ana admin", "not a signer's name"),
        ("\"ana-admin\"", "\"sub:\"", "\"sub:\"", "not a signer's name"),
        ("\"zoe-admin\"", "\"ana\"", "\"k.roe\"", "another person's"),
        ("\"zoe-admin\"", "\"jd@example.org\"", "\"k.roe\"", "another person's"),
        ("\"zoe-admin\"", "\"emil\"", "\"k.roe\"", "another person's"),
        ("\"zoe-admin\"", "\"zoe\"", "\"k.roe\"", "twice"),
        ("[\"zoe\", \"zoe-admin\"]", "[]", "\"k.roe\"", "at least one"),
        ("\"k.roe\" =", "\"sub:x\" =", "\"sub:x\"", "not a person's name"),
        ("\"k.roe\" =", "\"\" =", "\"\" =", "plain text"),
        ("of = \"ben\"", "of = \"nobody\"", "of = \"nobody\"", "in no group"),
        ("signer = \"zoe\"", "signer = \"zoe r\"", "zoe r", "not a signer's name"),
        (
            "of = \"ben\"\nsigner = \"zoe\"",
            "of = \"ana\"\nsigner = \"ana-admin\"",
            "signer = \"ana-admin\"",
            "own deputy",
        ),
        (
            "of = \"ben\"\nsigner = \"zoe\"",
            "of = \"ben\"\nsigner = \"ben\"",
            "signer = \"ben\"\nfrom = \"2026-12-24T00:00:00+",
            "own deputy",
        ),
        ("from = \"2026-12-24T00:00:00+01:00\"", "from = \"2026-12-24\"", "from = \"2026-12-24\"", "RFC 3339"),
        ("from = \"2026-12-24T00:00:00+01:00\"", "from = 2026-12-24", "from = 2026-12-24", "string"),
        ("from = \"2026-12-24T00:00:00+01:00\"", "from = \"2027-01-02T00:00:00Z\"", "until", "after from"),
        // For which of the two would zoe speak?
        ("[\"ana\", \"lea\"]", "[\"ana-admin\", \"lea\"]", "of = \"ana\"", "different groups"),
        ("acct-1 = \"ben\"", "acct-1 = \"bne\"", "bne", "among [persons]"),
        ("acct-1 = \"ben\"", "\"acct 1\" = \"ben\"", "acct 1", "not an account"),
    ];
    for (from, to, at, expected) in cases {
        let mut text = FILE.replacen(from, to, 1);
        if expected == "different groups" {
            text = text.replacen("of = \"ben\"", "of = \"ana\"", 1);
        }
        assert_ne!(text, FILE, "{from}");
        let fault = Policy::parse(&text, &TOOLS).expect_err(&text).to_string();
        let offset = text.find(at).unwrap_or_else(|| panic!("{at} is not in the file"));
        let line = text[..offset].lines().count() + usize::from(text[..offset].ends_with('\n'));
        assert!(fault.starts_with(&format!("line {}: ", line.max(1))), "{to}: {fault}, not on line {line}");
        assert!(fault.contains(expected), "{to}: {fault}");
    }
}
