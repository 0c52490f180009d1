//! The policy file judged: rules by band, levels, limits, payees.

use countersign::domain::{
    Account, AgentId, Answer, ApprovalPolicy, Choice, Code, Facts, Money, Policy, Standing, Usage, Vote, evaluate,
};

use crate::harness::payments::{level, quorum_of, terms, usd};

const TOOLS: [&str; 2] = ["create_payment", "confirm_signing"];
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
    let (payee, agent) = (Account::parse("payee", payee).unwrap(), agent.parse::<AgentId>().unwrap());
    let facts = Facts { amount: money(amount), payee: &payee, agent: &agent };
    policy(FILE).approval(&facts).map(|approval| approval.rule.clone()).map_err(|refusal| refusal.code)
}

#[test]
fn the_band_decides_who_must_approve_and_deny_beats_all() {
    assert_eq!(rule_of("9999.99", "acct-1", "agent-1").unwrap(), "default");
    assert_eq!(rule_of("10000.00", "acct-1", "agent-1").unwrap(), "large");
    assert_eq!(rule_of("1.00", "acct-1", "agent-7").unwrap(), "robots");
    assert_eq!(rule_of("10000.00", "acct-1", "agent-7").unwrap(), "large", "the first that matches");
    assert_eq!(rule_of("10000.00", "acct-sanctioned", "agent-1").unwrap_err(), Code::PolicyDenied);
    let whole_yen = Money::parse("20000", "JPY".parse().unwrap()).unwrap();
    let (payee, agent) = (Account::parse("payee", "acct-1").unwrap(), "agent-1".parse().unwrap());
    let facts = Facts { amount: whole_yen, payee: &payee, agent: &agent };
    assert_eq!(policy(FILE).approval(&facts).unwrap().rule, "default", "a band of dollars says nothing of yen");
}

fn two_levels(any_reject: Answer) -> ApprovalPolicy {
    let levels = vec![level(2, "finance", &["ana", "ben", "cem"]), level(1, "board", &["dora", "emil"])];
    ApprovalPolicy { levels, any_reject, ..quorum_of(1, &["ana"]) }
}

fn judged(policy: &ApprovalPolicy, words: &[&str]) -> Standing {
    let votes: Vec<Vote> = words
        .iter()
        .map(|word| {
            let choice = if word.starts_with('-') { Choice::Reject } else { Choice::Approve };
            Vote { signer: word.trim_start_matches('-').parse().unwrap(), choice }
        })
        .collect();
    evaluate(policy, &terms(), &votes)
}

#[test]
fn levels_are_asked_one_after_the_other_and_each_counts_its_own_people() {
    let policy = two_levels(Answer::Yes);
    assert_eq!(judged(&policy, &["ana"]), Standing::Pending { approvals: 1, level: 0 });
    assert_eq!(
        judged(&policy, &["dora", "ana"]),
        Standing::Pending { approvals: 1, level: 0 },
        "too early does not count"
    );
    assert_eq!(judged(&policy, &["ana", "ben"]), Standing::Pending { approvals: 2, level: 1 });
    assert_eq!(judged(&policy, &["ana", "ben", "cem"]), Standing::Pending { approvals: 2, level: 1 });
    assert_eq!(judged(&policy, &["ana", "ben", "dora"]), Standing::Complete { approvals: 3 });
    assert_eq!(judged(&policy, &["ana", "ben", "-emil"]), Standing::Rejected);
    assert_eq!(policy.required_text(), "2 of finance, then 1 of board");
    assert_eq!(policy.required(), 3);
}

#[test]
fn without_any_reject_a_payment_ends_only_when_the_quorum_is_out_of_reach() {
    let policy = two_levels(Answer::No);
    assert_eq!(judged(&policy, &["-ana"]), Standing::Pending { approvals: 0, level: 0 });
    assert_eq!(judged(&policy, &["-ana", "ben", "cem"]), Standing::Pending { approvals: 2, level: 1 });
    assert_eq!(judged(&policy, &["-ana", "-ben"]), Standing::Rejected);
    assert_eq!(judged(&policy, &["ana", "ben", "-dora"]), Standing::Pending { approvals: 2, level: 1 });
    assert_eq!(judged(&policy, &["ana", "ben", "-dora", "-emil"]), Standing::Rejected);
}

#[test]
fn the_person_the_agent_acts_for_signs_only_where_a_rule_says_so() {
    let mut policy = quorum_of(1, &["olivia", "agent-1"]);
    assert_eq!(judged(&policy, &["olivia"]), Standing::Rejected, "nobody else could");
    policy.principal_may_sign = Answer::Yes;
    assert_eq!(judged(&policy, &["olivia"]), Standing::Complete { approvals: 1 });
    assert_eq!(judged(&policy, &["agent-1"]), Standing::Pending { approvals: 0, level: 0 }, "the agent itself never");
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
    let facts = Facts { amount: money("1.00"), payee: &payee, agent: &agent };
    assert_eq!(policy.limits(&facts).count(), 2);
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
fn a_bad_file_is_refused_with_a_place_and_a_reason() {
    let cases = [
        ("required = 2 }, {", "required = 4 }, {", "[[rule]] large"),
        ("levels = [{ group = \"board\"", "levels = [{ group = \"nobody\"", "no group"),
        ("deny = true", "deny = true\nlevels = [{ group = \"board\", required = 1 }]", "either deny"),
        ("deny = true", "", "either deny"),
        ("amount_at_least = \"10000.00\"", "amount_at_least = \"10000.001\"", "fraction"),
        ("currency = \"USD\"\namount_at_least", "amount_at_least", "needs a currency"),
        ("binds = \"tenant\"", "binds = \"everyone\"", "binds"),
        ("window_hours = 1\n", "", "window"),
        ("per_payment = \"50000.00\"", "per_payment = \"-5\"", "[[limit]] each"),
        ("acct-1 = \"ACME GmbH\"", "acct-1 = \"\\u202eACME\"", "payees"),
        ("id = \"robots\"", "id = \"large\"", "taken"),
        ("any_reject = false", "any_rejct = false", "line 26"),
        // Whoever approves at the first level is not there for the second.
        ("board = [\"dora\", \"emil\"]", "board = [\"ana\", \"ben\"]", "[[rule]] large"),
    ];
    for (from, to, expected) in cases {
        let text = FILE.replacen(from, to, 1);
        assert_ne!(text, FILE, "{from}");
        let fault = Policy::parse(&text, &TOOLS).unwrap_err().to_string();
        assert!(fault.contains(expected), "{to}: {fault}");
    }
}
