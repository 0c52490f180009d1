//! Whose place an approval takes: not settled before it must be, and never worse than it could be.

use countersign::domain::{
    ApprovalPolicy, Cast, Choice, Deputy, Level, Standing, Turn, Vote, cast, evaluate, progress,
};

use crate::harness::payments::{HOUR, NOW, group_of, level, quorum_of, terms};

fn deputy(of: &str, signer: &str) -> Deputy {
    let bound = |hours: i64| NOW.plus_micros(hours * HOUR).rfc3339();
    Deputy { of: of.to_owned(), signer: signer.to_owned(), from: bound(-1), until: bound(1) }
}

fn votes(names: &[&str]) -> Vec<Vote> {
    let vote =
        |name: &&str| Vote { signer: name.parse().unwrap(), choice: Choice::Approve, key: "k1".to_owned(), at: NOW };
    names.iter().map(vote).collect()
}

fn judged(policy: &ApprovalPolicy, names: &[&str]) -> Standing {
    evaluate(policy, &terms(), &votes(names))
}

fn turn(policy: &ApprovalPolicy, names: &[&str]) -> Turn {
    let votes = votes(names);
    let (last, earlier) = votes.split_last().unwrap();
    let Cast { turn, .. } = cast(policy, &terms(), earlier, last.clone());
    turn
}

/// Finance, then the board; zoe stands in for both of finance, and ana is of the board.
fn two_levels(board: &[&str]) -> ApprovalPolicy {
    let levels = vec![level(1, "finance", &["ana", "ben"]), level(1, "board", board)];
    let deputies = vec![deputy("ana", "zoe"), deputy("ben", "zoe")];
    ApprovalPolicy { levels, deputies, ..quorum_of(1, &["ana"]) }
}

#[test]
fn a_deputy_of_two_people_takes_the_place_that_no_later_level_needs() {
    let policy = two_levels(&["ana"]);
    assert_eq!(turn(&policy, &["zoe"]), Turn::Now, "for ben");
    assert_eq!(judged(&policy, &["zoe"]), Standing::Pending { approvals: 1, level: 1 });
    assert_eq!(judged(&policy, &["zoe", "ana"]), Standing::Complete { approvals: 2 });
    let told = progress(&policy, &terms(), &votes(&["zoe"]));
    assert_eq!((told.approved, told.missing), (vec!["zoe".to_owned()], vec![("board".to_owned(), 1)]));
    assert_eq!(turn(&policy, &["ana"]), Turn::Later, "ana is needed on the board");
    // Whichever of the two it is.
    let policy = two_levels(&["ben"]);
    assert_eq!(judged(&policy, &["zoe", "ben"]), Standing::Complete { approvals: 2 });
    let policy = two_levels(&["ana", "ben"]);
    for last in ["ana", "ben"] {
        assert_eq!(judged(&policy, &["zoe", last]), Standing::Complete { approvals: 2 }, "{last}");
    }
}

#[test]
fn a_level_that_is_complete_stays_so_and_what_it_lacks_is_told_no_more() {
    let mut policy = two_levels(&["dora"]);
    policy.levels.push(level(2, "finance", &["ana", "ben", "cem"]));
    let told = progress(&policy, &terms(), &votes(&["zoe"]));
    assert_eq!(told.missing, [("board".to_owned(), 1), ("finance".to_owned(), 2)]);
    assert_eq!(judged(&policy, &["zoe", "dora", "ana"]), Standing::Pending { approvals: 3, level: 2 });
    assert_eq!(
        judged(&policy, &["zoe", "dora", "ana", "ben"]),
        Standing::Pending { approvals: 3, level: 2 },
        "ben by zoe"
    );
    assert_eq!(judged(&policy, &["zoe", "dora", "ben", "cem"]), Standing::Complete { approvals: 4 }, "ana by zoe");
}

#[test]
fn a_deputy_of_one_account_speaks_for_no_other_of_its_person() {
    // No policy file says such a thing: it could not be told for which group dan speaks. Who judges it must still count.
    let groups = vec![group_of(1, "x", &["ana"]), group_of(1, "y", &["ana-admin", "eve"]), group_of(1, "z", &["quin"])];
    let mut policy = ApprovalPolicy {
        levels: vec![Level { groups }],
        deputies: vec![deputy("ana", "dan"), deputy("quin", "ana-admin")],
        ..quorum_of(1, &["ana"])
    };
    policy.persons.insert("p".to_owned(), ["ana".to_owned(), "ana-admin".to_owned()].into());
    assert_eq!(judged(&policy, &["ana-admin", "dan"]), Standing::Pending { approvals: 2, level: 0 });
    assert_eq!(judged(&policy, &["ana-admin", "dan", "eve"]), Standing::Complete { approvals: 3 });
    assert_eq!(judged(&policy, &["dan", "quin"]), Standing::Pending { approvals: 2, level: 0 });
    assert_eq!(judged(&policy, &["dan", "ana-admin", "quin"]), Standing::Pending { approvals: 2, level: 0 });
}
