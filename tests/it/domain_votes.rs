//! Votes judged: levels one after the other, what one more vote comes to, a quorum that is lost.

use countersign::domain::{Answer, ApprovalPolicy, Cast, Choice, Standing, Terms, Turn, Vote, cast, evaluate, lost};

use crate::harness::payments::{NOW, level, quorum_of, terms};

fn two_levels(any_reject: Answer) -> ApprovalPolicy {
    let levels = vec![level(2, "finance", &["ana", "ben", "cem"]), level(1, "board", &["dora", "emil"])];
    ApprovalPolicy { levels, any_reject, ..quorum_of(1, &["ana"]) }
}

/// A vote: the signer's name, after `-` if it rejects.
fn vote(word: &str) -> Vote {
    let choice = if word.starts_with('-') { Choice::Reject } else { Choice::Approve };
    Vote { signer: word.trim_start_matches('-').parse().unwrap(), choice, key: "k1".to_owned(), at: NOW }
}

fn votes(words: &[&str]) -> Vec<Vote> {
    words.iter().copied().map(vote).collect()
}

fn judged(policy: &ApprovalPolicy, words: &[&str]) -> Standing {
    evaluate(policy, &terms(), &votes(words))
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

/// The last of `words` cast after the others.
fn cast_last(policy: &ApprovalPolicy, words: &[&str]) -> (Turn, bool) {
    let (last, earlier) = words.split_last().unwrap();
    let Cast { turn, standing, advanced } = cast(policy, &terms(), &votes(earlier), vote(last));
    assert_eq!(standing, judged(policy, words), "{words:?}");
    (turn, advanced)
}

#[test]
fn a_vote_that_completes_a_level_opens_the_next_and_no_other_does() {
    let policy = two_levels(Answer::Yes);
    let cases: [(&[&str], Turn, bool); 8] = [
        (&["ana"], Turn::Now, false),
        (&["ana", "ben"], Turn::Now, true),
        (&["dora"], Turn::Later, false),
        (&["ana", "ben", "cem"], Turn::Past, false),
        (&["ana", "ben", "dora"], Turn::Now, true),
        (&["ana", "ben", "dora", "emil"], Turn::Now, false),
        (&["-ana"], Turn::Now, true),
        (&["ana", "ben", "-dora", "emil"], Turn::Now, false),
    ];
    for (words, turn, advanced) in cases {
        assert_eq!(cast_last(&policy, words), (turn, advanced), "{words:?}");
    }
}

#[test]
fn a_quorum_must_stand_under_the_payments_own_rule_and_under_the_one_in_force() {
    let (one, two) = (quorum_of(1, &["ana", "ben"]), quorum_of(2, &["ana", "ben"]));
    let rule_of_the_new_round = |own: &ApprovalPolicy, current: &ApprovalPolicy, words: &[&str]| {
        let terms = Terms { policy: own.clone(), ..terms() };
        lost(&terms, current, &votes(words)).cloned()
    };
    assert_eq!(rule_of_the_new_round(&two, &one, &["ana", "ben"]), None);
    assert_eq!(rule_of_the_new_round(&one, &two, &["ana"]), Some(two.clone()), "the rule became stricter");
    assert_eq!(rule_of_the_new_round(&two, &one, &["ana"]), Some(two.clone()), "asked anew, it is not lowered");
    assert_eq!(rule_of_the_new_round(&two, &one, &["cem"]), Some(one), "neither stands: the one in force");
}

#[test]
fn whoever_decides_at_some_level_is_eligible_and_nobody_else() {
    let policy = two_levels(Answer::Yes);
    assert_eq!(policy.signers().into_iter().collect::<Vec<_>>(), ["ana", "ben", "cem", "dora", "emil"]);
    for (name, eligible) in [("ana", true), ("emil", true), ("olivia", false)] {
        assert_eq!(policy.is_eligible(&name.parse().unwrap()), eligible, "{name}");
    }
}
