//! The policy file judged: rules by band, levels, limits, payees.

use std::time::Duration;

use countersign::domain::{Account, AgentId, Code, Counts, Facts, Lack, Money, Policy, Usage};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::harness::payments::usd;

const TOOLS: [&str; 7] = [
    "create_payment",
    "confirm_signing",
    "reassign_signer",
    "hold_payment",
    "release_hold",
    "attest_executed",
    "attest_not_executed",
];
const FILE: &str = r#"
id = "house"
version = "3"
[roles]
agent = ["create_payment"]
signer = ["confirm_signing"]
[groups]
finance = ["ana", "ben", "cem"]
board = ["dora", "emil"]
[approval]
group = "finance"
required = 1
[[rule]]
id = "never"
payees = ["acct-sanctioned"]
deny = true
[[rule]]
id = "large"
currency = "USD"
amount_at_least = "10000.00"
levels = [{ group = "finance", required = 2 }, { group = "board", required = 1 }]
[[rule]]
id = "robots"
agents = ["agent-7"]
levels = [{ group = "board", required = 1 }]
any_reject = false
[[limit]]
id = "each"
binds = "each_agent"
currency = "USD"
per_payment = "50000.00"
window_hours = 24
window_amount = "60000.00"
window_count = 5
open = 3
[[limit]]
id = "all"
binds = "tenant"
currency = "USD"
window_hours = 1
window_count = 50
[payees]
denied = ["acct-frozen"]
[payees.known]
acct-1 = "ACME GmbH"
"#;

fn policy(text: &str) -> Policy {
    Policy::parse(text, &TOOLS).unwrap()
}

fn money(text: &str) -> Money {
    Money::parse(text, usd()).unwrap()
}

fn rule_of(amount: &str, payee: &str, agent: &str) -> Result<String, Code> {
    rule_in(FILE, amount, payee, agent)
}

fn rule_in(file: &str, amount: &str, payee: &str, agent: &str) -> Result<String, Code> {
    let (payee, agent) = (Account::parse("payee", payee).unwrap(), agent.parse::<AgentId>().unwrap());
    let facts = Facts { amount: money(amount), payee: &payee, agent: &agent };
    policy(file)
        .approval(&facts, &Counts::default())
        .map(|approval| approval.rule.clone())
        .map_err(|refusal| refusal.code)
}

#[test]
fn the_band_decides_who_must_approve_and_deny_beats_all() {
    assert_eq!(rule_of("9999.99", "acct-1", "agent-1").unwrap(), "default");
    assert_eq!(rule_of("10000.00", "acct-1", "agent-1").unwrap(), "large");
    assert_eq!(rule_of("1.00", "acct-1", "agent-7").unwrap(), "robots");
    assert_eq!(rule_of("10000.00", "acct-1", "agent-7").unwrap(), "large", "the first that matches");
    assert_eq!(rule_of("10000.00", "acct-sanctioned", "agent-1").unwrap_err(), Code::PolicyDenied);
    let never = "[[rule]]\nid = \"never\"\npayees = [\"acct-sanctioned\"]\ndeny = true\n";
    let last = FILE.replace(never, "").replacen("[[limit]]", &format!("{never}[[limit]]"), 1);
    assert!(last != FILE && last.len() == FILE.len());
    let denied = rule_in(&last, "10000.00", "acct-sanctioned", "agent-1");
    assert_eq!(denied.unwrap_err(), Code::PolicyDenied, "whatever asks for approvals before it");
    let whole_yen = Money::parse("20000", "JPY".parse().unwrap()).unwrap();
    let (payee, agent) = (Account::parse("payee", "acct-1").unwrap(), "agent-1".parse().unwrap());
    let facts = Facts { amount: whole_yen, payee: &payee, agent: &agent };
    assert_eq!(
        policy(FILE).approval(&facts, &Counts::default()).unwrap().rule,
        "default",
        "a band of dollars says nothing of yen"
    );
}

#[test]
fn limits_hold_to_the_minor_unit() {
    let policy = policy(FILE);
    let (payee, agent) = (Account::parse("payee", "acct-1").unwrap(), "agent-1".parse().unwrap());
    let admits = |amount: &str, used: &str, count: u32, open: u32| {
        let facts = Facts { amount: money(amount), payee: &payee, agent: &agent };
        let usage = Usage { amount_minor: used.parse().unwrap(), count, open };
        policy
            .limits(&facts)
            .find(|limit| limit.id == "each")
            .unwrap()
            .admits(facts.amount, usage)
            .map_err(|refusal| refusal.code)
    };
    assert_eq!(admits("50000.00", "0", 0, 0), Ok(()));
    assert_eq!(admits("50000.01", "0", 0, 0), Err(Code::MandateExceeded));
    assert_eq!(admits("10000.00", "5000000", 1, 1), Ok(()));
    assert_eq!(admits("10000.01", "5000000", 1, 1), Err(Code::VelocityExceeded));
    assert_eq!(admits("1.00", "0", 4, 2), Ok(()));
    assert_eq!(admits("1.00", "0", 5, 2), Err(Code::VelocityExceeded));
    assert_eq!(admits("1.00", "0", 0, 3), Err(Code::MandateExceeded));
    assert_eq!(admits("1.00", "9223372036854775807", 0, 0), Err(Code::VelocityExceeded), "no overflow makes room");
    assert_eq!(admits("60000.00", "0", 0, 0), Err(Code::MandateExceeded), "not in an empty window either");
    let facts = Facts { amount: money("1.00"), payee: &payee, agent: &agent };
    assert_eq!(policy.limits(&facts).count(), 2);
    let each = policy.limits(&facts).next().unwrap();
    let lack = |amount: &str, used: i64, count: u32| {
        each.lack(money(amount), Usage { amount_minor: used, count, open: 0 })
            .map(|lack| (lack.amount_minor, lack.count))
    };
    assert_eq!(lack("10000.00", 5_000_000, 4), None);
    assert_eq!(lack("10000.01", 5_000_000, 4), Some((1, 0)));
    assert_eq!(lack("0.01", 0, 7), Some((0, 3)));
    assert_eq!(each.lack(money("0.01"), Usage::default()), None::<Lack>);
}

#[test]
fn a_window_that_is_full_is_named_only_when_nothing_else_stands_in_the_way() {
    let policy = policy(FILE);
    let (payee, agent) = (Account::parse("payee", "acct-1").unwrap(), "agent-1".parse().unwrap());
    let judged = |amount: &str, each: Usage, all: Usage| {
        let facts = Facts { amount: money(amount), payee: &payee, agent: &agent };
        let used = [("each".to_owned(), each), ("all".to_owned(), all)].into();
        let counts = Counts { used, ..Counts::default() };
        policy.judge(&facts, &counts).map(|approval| approval.rule.clone()).map_err(|refusal| refusal.code)
    };
    let (none, full) = (Usage::default(), Usage { count: 50, ..Usage::default() });
    assert_eq!(judged("1.00", none, none).unwrap(), "default");
    assert_eq!(judged("1.00", full, none), Err(Code::VelocityExceeded));
    assert_eq!(judged("1.00", none, full), Err(Code::VelocityExceeded));
    let open = Usage { open: 3, ..Usage::default() };
    assert_eq!(judged("1.00", open, full), Err(Code::MandateExceeded));
    let facts = Facts { amount: money("1.00"), payee: &payee, agent: &agent };
    let uncounted = policy.judge(&facts, &Counts::default()).unwrap_err();
    assert_eq!(uncounted.code, Code::MandateExceeded, "what nobody counted is full");
}

#[test]
fn a_window_that_is_full_does_not_hide_a_later_limit_that_no_wait_helps() {
    let few = "[[limit]]\nid = \"few\"\nbinds = \"tenant\"\ncurrency = \"USD\"\nopen = 1\n[payees]\n";
    let policy = policy(&FILE.replace("[payees]\n", few));
    let (payee, agent) = (Account::parse("payee", "acct-1").unwrap(), "agent-1".parse().unwrap());
    let facts = Facts { amount: money("1.00"), payee: &payee, agent: &agent };
    let full = Usage { count: 50, ..Usage::default() };
    let used = |few: Usage| [("each".to_owned(), full), ("all".to_owned(), full), ("few".to_owned(), few)].into();
    let judged = |few: Usage| policy.judge(&facts, &Counts { used: used(few), ..Counts::default() }).unwrap_err();
    assert_eq!(judged(Usage { open: 1, ..Usage::default() }).code, Code::MandateExceeded);
    let first = judged(Usage::default());
    assert_eq!(first.code, Code::VelocityExceeded);
    assert!(first.message.contains("each"), "the first of two: {}", first.message);
}

#[test]
fn a_policy_names_all_whom_it_may_ask_and_how_far_it_looks_back() {
    let all = policy(FILE);
    assert_eq!(all.signers().into_iter().collect::<Vec<_>>(), ["ana", "ben", "cem", "dora", "emil"]);
    assert_eq!(all.looks_back(), Duration::from_hours(24));
    let summing = policy(&format!("{}{SUMMED}", &FILE[..FILE.find("[[rule]]").unwrap()]));
    assert_eq!(summing.looks_back(), Duration::from_hours(48), "a band's span as well as a limit's");
    let plain = policy(&FILE[..FILE.find("[[rule]]").unwrap()]);
    assert_eq!(plain.signers().into_iter().collect::<Vec<_>>(), ["ana", "ben", "cem"], "those of the default rule");
    assert_eq!(plain.looks_back(), Duration::ZERO);
}

/// What limits allow an agent, whatever the amount.
fn permitted(limits: &str, agent: &str, currency: &str, payee: &str) -> Result<(), (Code, Option<&'static str>)> {
    let policy = policy(&FILE.replace("[payees]\n", &format!("{limits}\n[payees]\n")));
    let (payee, agent) = (Account::parse("payee", payee).unwrap(), agent.parse().unwrap());
    let amount = Money::parse("9000", currency.parse().unwrap()).unwrap();
    let facts = Facts { amount, payee: &payee, agent: &agent };
    policy.permits(&facts).map_err(|refusal| (refusal.code, refusal.field))
}

#[test]
fn a_limit_allows_currencies_and_payees_to_those_it_binds_whatever_the_currency() {
    let limits = "[[limit]]\nid = \"money\"\nbinds = \"each_agent\"\ncurrencies = [\"USD\", \"EUR\"]\n\
        [[limit]]\nid = \"narrow\"\nbinds = \"agent:agent-1\"\ncurrency = \"USD\"\nper_payment = \"100.00\"\n\
        payees = [\"acct-1\", \"acct-2\"]\n";
    let (currency, payee) = (Err((Code::PolicyDenied, Some("currency"))), Err((Code::PayeeNotAllowed, Some("payee"))));
    for (agent, money, account, expected) in [
        ("agent-1", "USD", "acct-1", Ok(())),
        ("agent-1", "EUR", "acct-2", Ok(())),
        ("agent-1", "JPY", "acct-1", currency),
        ("agent-2", "JPY", "acct-1", currency),
        ("agent-1", "USD", "acct-3", payee),
        ("agent-1", "EUR", "acct-3", payee),
        ("agent-1", "USD", "ACCT-1", payee),
        ("agent-2", "EUR", "acct-3", Ok(())),
        ("agent-2", "EUR", "acct-frozen", payee),
    ] {
        assert_eq!(permitted(limits, agent, money, account), expected, "{agent} {money} {account}");
    }
    let whole = limits.replace("each_agent", "tenant");
    assert_eq!(permitted(&whole, "agent-2", "JPY", "acct-1"), currency);
}

const SUMMED: &str = r#"
[[rule]]
id = "huge"
currency = "USD"
amount_at_least = "50000.00"
sum_hours = 48
levels = [{ group = "board", required = 2 }]
[[rule]]
id = "large"
currency = "USD"
amount_at_least = "10000.00"
sum_hours = 24
levels = [{ group = "finance", required = 2 }]
"#;

fn summed(amount: &str, day: i64, two_days: i64, asked: Option<&str>) -> String {
    let text = format!("{}{SUMMED}", &FILE[..FILE.find("[[rule]]").unwrap()]);
    let policy = policy(&text);
    let (payee, agent) = (Account::parse("payee", "acct-1").unwrap(), "agent-1".parse().unwrap());
    let facts = Facts { amount: money(amount), payee: &payee, agent: &agent };
    let spans: Vec<Duration> = policy.sums(&facts).into_iter().collect();
    assert_eq!(spans, [Duration::from_hours(24), Duration::from_hours(48)]);
    let proposed = [(spans[0], day), (spans[1], two_days)].into();
    let counts = Counts { proposed, asked: asked.map(str::to_owned), ..Counts::default() };
    policy.approval(&facts, &counts).unwrap().rule.clone()
}

#[test]
fn a_band_with_a_span_looks_at_all_that_the_payee_is_to_get_in_it() {
    assert_eq!(summed("4000.00", 0, 0, None), "default");
    assert_eq!(summed("4000.00", 599_999, 599_999, None), "default");
    assert_eq!(summed("4000.00", 600_000, 600_000, None), "large");
    assert_eq!(summed("10000.00", 0, 0, None), "large", "one alone counts as before");
    assert_eq!(summed("4000.00", 0, 4_600_000, None), "huge", "each band looks back as far as it says");
    assert_eq!(summed("4000.00", i64::MAX, i64::MAX, None), "huge", "no overflow makes it small");
    assert_eq!(summed("4000.00", 0, 0, Some("large")), "large", "what a sum asked for once is asked for still");
    assert_eq!(summed("4000.00", 0, 4_600_000, Some("large")), "huge");
    assert_eq!(summed("4000.00", 0, 0, Some("gone")), "default");
    // A sum that nobody counted is never the smaller one; other currencies are not summed at all.
    let policy = policy(&format!("{}{SUMMED}", &FILE[..FILE.find("[[rule]]").unwrap()]));
    let (payee, agent) = (Account::parse("payee", "acct-1").unwrap(), "agent-1".parse().unwrap());
    let facts = Facts { amount: money("1.00"), payee: &payee, agent: &agent };
    assert_eq!(policy.approval(&facts, &Counts::default()).unwrap().rule, "huge");
    let euros = Money::parse("1.00", "EUR".parse().unwrap()).unwrap();
    let facts = Facts { amount: euros, payee: &payee, agent: &agent };
    assert_eq!(
        (policy.sums(&facts).len(), &*policy.approval(&facts, &Counts::default()).unwrap().rule),
        (0, "default")
    );
}

/// Whether rules of these conditions load, in this order.
fn loads(conditions: &[&str]) -> Result<(), String> {
    let rules: Vec<String> = conditions
        .iter()
        .zip(1..)
        .map(|(condition, number)| {
            let asks = if condition.contains("deny") { "" } else { "levels = [{ group = \"board\", required = 1 }]" };
            format!("[[rule]]\nid = \"r{number}\"\n{}\n{asks}\n", condition.replace("; ", "\n"))
        })
        .collect();
    let text = format!("{}{}", &FILE[..FILE.find("[[rule]]").unwrap()], rules.concat());
    Policy::parse(&text, &TOOLS).map(drop).map_err(|fault| fault.to_string())
}

#[test]
fn a_rule_that_could_never_be_asked_is_refused_and_a_stop_at_the_top_is_not() {
    const USD: &str = "currency = \"USD\"";
    let least = |amount: &str| format!("{USD}; amount_at_least = \"{amount}\"");
    let below = |amount: &str| format!("{USD}; amount_below = \"{amount}\"");
    let summed = |condition: String, hours: u32| format!("{condition}; sum_hours = {hours}");
    let agents = "agents = [\"agent-1\"]".to_owned();
    let both = "agents = [\"agent-1\", \"agent-2\"]".to_owned();
    let payee = "payees = [\"acct-1\"]".to_owned();
    let unreached = [
        [String::new(), agents.clone()],
        [USD.to_owned(), least("10")],
        [least("10"), least("10")],
        [least("10"), least("20")],
        [below("20"), format!("{}; amount_at_least = \"5\"", below("10"))],
        [both.clone(), agents.clone()],
        [USD.to_owned(), summed(least("10"), 24)],
        [summed(least("10"), 24), least("10")],
        [summed(least("10"), 48), summed(least("10"), 24)],
        // What is small enough would be split past the sum.
        [below("10"), summed(least("10"), 24)],
        [format!("{}; amount_at_least = \"5\"", below("10")), summed(least("10"), 24)],
    ];
    for [first, second] in &unreached {
        let fault = loads(&[first, second]).unwrap_err();
        let line = 17 + first.split("; ").count();
        assert!(fault.contains("rule \"r1\" comes before it"), "{first} | {second}: {fault}");
        assert!(fault.starts_with(&format!("line {line}: [[rule]] r2")), "{first} | {second}: {fault}");
    }
    let reached = [
        [agents.clone(), both],
        [agents, payee],
        [least("20"), least("10")],
        [below("10"), below("20")],
        [summed(least("10"), 24), summed(least("10"), 48)],
        [least("10"), summed(least("10"), 24)],
        [summed(least("10"), 24), below("10")],
        [USD.to_owned(), "currency = \"EUR\"".to_owned()],
        ["deny = true".to_owned(), least("10")],
        [least("10"), "deny = true".to_owned()],
    ];
    for [first, second] in &reached {
        assert_eq!(loads(&[first, second]), Ok(()), "{first} | {second}");
    }
}

#[test]
fn a_payees_name_comes_from_the_list_and_nowhere_else() {
    let open = policy(FILE);
    assert_eq!(open.payees().name_of("acct-1"), Ok("ACME GmbH"));
    assert_eq!(open.payees().name_of("acct-2"), Ok(""));
    assert_eq!(open.payees().name_of("acct-frozen").unwrap_err().code, Code::PayeeNotAllowed);
    let closed = policy(&FILE.replace("[payees]\n", "[payees]\nonly_known = true\n"));
    assert_eq!(closed.payees().name_of("acct-2").unwrap_err().code, Code::PayeeNotAllowed);
}

#[test]
fn a_bad_file_is_refused_with_its_line_and_a_reason() {
    let hour = "window_hours = 1\n";
    let second = "[[limit]]\nid = \"all\"";
    let narrow = |rest: &str| format!("[[limit]]\nid = \"narrow\"\nbinds = \"tenant\"\n{rest}\n{second}");
    // What is replaced, by what, the text on whose line it is, and what is said of it.
    let cases: Vec<(&str, String, &str, &str)> = [
        ("required = 2 }, {", "required = 4 }, {", "required = 4", "[[rule]] large"),
        ("levels = [{ group = \"board\"", "levels = [{ group = \"nobody\"", "nobody", "no group"),
        ("group = \"finance\"\nrequired", "group = \"cash\"\nrequired", "cash", "[approval]: there is no group"),
        ("required = 1\n", "required = 0\n", "required = 0", "must be 1 to 3"),
        ("required = 1\n", "required = 4\n", "required = 4", "must be 1 to 3"),
        ("required = 1\n", "required = -1\n", "required = -1", "-1"),
        ("deny = true", "deny = true\nlevels = [{ group = \"board\", required = 1 }]", "id = \"never\"", "either deny"),
        ("deny = true", "", "id = \"never\"", "either deny"),
        ("deny = true", "deny = true\nprincipal_may_sign = true", "principal_may_sign", "denies"),
        ("amount_at_least = \"10000.00\"", "amount_at_least = \"10000.001\"", "10000.001", "fraction"),
        ("currency = \"USD\"\namount_at_least", "amount_at_least", "amount_at_least", "needs a currency"),
        ("10000.00\"\n", "10000.00\"\namount_below = \"10000.00\"\n", "amount_below", "no amount is at least"),
        ("10000.00\"\n", "10000.00\"\nsum_hours = 0\n", "sum_hours", "1 to 8784"),
        ("any_reject = false", "sum_hours = 24", "sum_hours", "needs amount_at_least"),
        ("agents = [\"agent-7\"]", "agents = []", "agents = []", "at least one"),
        ("agents = [\"agent-7\"]", "agents = [\"a b\"]", "a b", "not an agent"),
        ("payees = [\"acct-sanctioned\"]", "payees = [\"acct sanctioned\"]", "acct sanctioned", "not an account"),
        ("binds = \"tenant\"", "binds = \"everyone\"", "everyone", "binds"),
        ("binds = \"tenant\"", "binds = \"agent:\"", "agent:\"", "binds"),
        (hour, "", "window_count = 50", "window"),
        (hour, "window_hours = 8785\n", "window_hours = 8785", "1 to 8784"),
        ("window_hours = 1\nwindow_count = 50\n", hour, "window_hours = 1\n", "window"),
        ("window_hours = 1\nwindow_count = 50\n", "", "currency = \"USD\"\n[payees]", "per_payment"),
        ("currency = \"USD\"\nwindow_hours = 1\nwindow_count = 50\n", "", "id = \"all\"", "limits nothing"),
        ("currency = \"USD\"\nwindow_hours = 1\n", hour, "window_count = 50", "needs a currency"),
        ("currency = \"USD\"\nper_payment", "per_payment", "per_payment", "needs a currency"),
        ("window_count = 50", "window_count = 0", "window_count = 0", "at least 1"),
        ("open = 3", "open = 0", "open = 0", "at least 1"),
        ("per_payment = \"50000.00\"", "per_payment = \"-5\"", "per_payment", "[[limit]] each"),
        ("open = 3", "currencies = [\"EUR\"]", "currencies", "leaves out"),
        ("acct-1 = \"ACME GmbH\"", "acct-1 = \"\\u202eACME\"", "acct-1", "plain name"),
        ("acct-1 = \"ACME GmbH\"", "acct-1 = \"\"", "acct-1", "plain name"),
        ("denied = [\"acct-frozen\"]", "denied = [\"acct frozen\"]", "acct frozen", "not an account"),
        ("denied = [\"acct-frozen\"]", "denied = [\"acct-1\"]", "acct-1 =", "denied as well"),
        ("denied = [\"acct-frozen\"]", "denied = [\n \"acct-2\",\n \"acct-2\"]", " \"acct-2\"]", "twice"),
        ("id = \"robots\"", "id = \"large\"", "id = \"large\"\nagents", "taken"),
        ("id = \"robots\"", "id = \"default\"", "id = \"default\"", "taken"),
        ("id = \"all\"", "id = \"each\"", "id = \"each\"\nbinds = \"tenant\"", "taken"),
        ("id = \"robots\"", "id = \"\"", "id = \"\"", "plain text"),
        ("id = \"all\"", "id = \"\"", "id = \"\"", "plain text"),
        ("id = \"house\"", "id = \"\"", "id = \"\"", "plain text"),
        ("version = \"3\"", "version = \"\"", "version", "plain text"),
        ("version = \"3\"", "version = \"3\\n\"", "version", "plain text"),
        ("version = \"3\"", "version = 3", "version", "string"),
        ("board = [", "finance = [", "finance = [\"dora", "duplicate"),
        ("board = [", "\"finance\" = [", "\"finance\" = [\"dora", "duplicate"),
        ("board = [", "\"\" = [", "\"\" = [", "plain text"),
        ("board = [\"dora\", \"emil\"]", "board = []", "board", "at least one"),
        ("board = [\"dora\", \"emil\"]", "board = [\"dora\", \"dora\"]", "board", "twice"),
        ("board = [\"dora\", \"emil\"]", "board = [\"dora e\"]", "dora e", "not a signer"),
        // Whoever approves at the first level is not there for the second.
        ("board = [\"dora\", \"emil\"]", "board = [\"ana\", \"ben\"]", "levels = ", "[[rule]] large"),
        ("any_reject = false", "any_rejct = false", "any_rejct", "unknown field"),
        ("agent = [\"create_payment\"]\nsigner = [\"confirm_signing\"]", "", "[roles]", "grants nothing"),
        ("agent = [", "robot = [", "robot", "not a role"),
        ("agent = [\"create_payment\"", "agent = [\"pay\"", "pay\"", "not a tool"),
        ("agent = [\"create_payment\"", "agent = [\"confirm_signing\"", "agent = [", "never be granted"),
        ("signer = [\"confirm_signing\"", "signer = [\"release_hold\"", "signer = [", "never be granted"),
        ("signer = [", "auditor = [", "auditor = [", "never be granted"),
        ("[groups]", "[group", "[group", "unclosed"),
    ]
    .into_iter()
    .map(|(from, to, at, expected)| (from, to.to_owned(), at, expected))
    .chain([
        (second, narrow("currencies = []"), "currencies", "at least one"),
        (second, narrow("currencies = [\"usd\"]"), "currencies", "ISO 4217"),
        (second, narrow("currencies = [\"EUR\", \"EUR\"]"), "currencies", "twice"),
        (second, narrow("payees = []"), "payees = []", "at least one"),
        (second, narrow("payees = [\"a b\"]"), "a b", "not an account"),
        (second, narrow("payees = [\"acct-frozen\"]"), "payees = [\"acct-frozen", "refused by [payees]"),
    ])
    .collect();
    for (from, to, at, expected) in cases {
        let text = FILE.replacen(from, &to, 1);
        assert_ne!(text, FILE, "{from}");
        let fault = Policy::parse(&text, &TOOLS).unwrap_err().to_string();
        let place = text.find(at).unwrap_or_else(|| panic!("{at:?} is not there: {fault}"));
        let line = text[..place].matches('\n').count() + 1;
        assert!(fault.starts_with(&format!("line {line}: ")), "{to}: not line {line}: {fault}");
        assert!(fault.contains(expected), "{to}: {fault}");
    }
    for (from, to, expected) in [("[roles]", "[rules]", "unknown field"), ("id = \"house\"\n", "", "missing field")] {
        let fault = Policy::parse(&FILE.replacen(from, to, 1), &TOOLS).unwrap_err().to_string();
        assert!(fault.starts_with("line ") && fault.contains(expected), "{to}: {fault}");
    }
    let dotted = FILE.replace("[roles]\nagent = ", "roles.agent = ").replace("\nsigner = ", "\nroles.signer = ");
    assert!(Policy::parse(&dotted, &TOOLS).is_ok(), "another way to write the same");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_policy_file_says_it_loads_or_is_refused_with_a_line(
        cuts in prop::collection::vec((any::<Index>(), 0_usize..40, select(vec![
            "", "\n", "\"", "[", "]", "=", "[[rule]]\n", "[[limit]]\n", "-1", "99999999999999999999", "\u{202e}", "\0",
            "id = \"x\"\n", "deny = true\n", "currency = \"JPY\"\n", "sum_hours = 1\n", "\u{1f600}", "nan", "{}",
        ])), 1..6),
        junk in prop::option::weighted(0.1, ".{0,80}"),
    ) {
        let mut text = FILE.to_owned();
        for (place, length, put) in cuts {
            let mut ends = [place.index(text.len() + 1), 0];
            ends[1] = (ends[0] + length).min(text.len());
            if ends.iter().all(|end| text.is_char_boundary(*end)) {
                text.replace_range(ends[0]..ends[1], put);
            }
        }
        let text = junk.unwrap_or(text);
        if let Err(fault) = Policy::parse(&text, &TOOLS) {
            let fault = fault.to_string();
            let line = fault.strip_prefix("line ").and_then(|rest| rest.split_once(": ")).unwrap().0;
            let lines = text.matches('\n').count() + 1;
            prop_assert!((1..=lines).contains(&line.parse::<usize>().unwrap()), "{}: {:?}", fault, text);
        }
    }
}
