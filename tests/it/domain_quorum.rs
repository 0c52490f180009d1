//! Quorum for real: several groups at once, one person's accounts, deputies, who is paid, second confirmations.

use std::collections::{BTreeMap, BTreeSet};

use countersign::domain::{
    Answer, ApprovalPolicy, Asking, Cast, Choice, Deputy, Level, Payment, Standing, Terms, Timestamp, Turn, Vote, cast,
    enough, evaluate, is_barred, is_requester, lost, opened_at, progress, wants,
};
use countersign::proof::{b64url, jcs, tagged_digest};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use crate::harness::payments::{CREATED_AT, EXPIRES_AT, HOUR, NOW, created, group_of, level, quorum_of, terms};

/// One of finance and one of legal, at once; ana is both.
fn at_once() -> ApprovalPolicy {
    let groups = vec![group_of(1, "finance", &["ana", "ben"]), group_of(1, "legal", &["ana", "lea"])];
    ApprovalPolicy { levels: vec![Level { groups }], ..quorum_of(1, &["ana"]) }
}

fn with_persons(policy: ApprovalPolicy, persons: &[(&str, &[&str])]) -> ApprovalPolicy {
    let own = |accounts: &[&str]| accounts.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let persons = persons.iter().map(|(person, accounts)| ((*person).to_owned(), own(accounts))).collect();
    ApprovalPolicy { persons, ..policy }
}

fn deputy(of: &str, signer: &str, from: Timestamp, until: Timestamp) -> Deputy {
    Deputy { of: of.to_owned(), signer: signer.to_owned(), from: from.rfc3339(), until: until.rfc3339() }
}

/// An hour before to an hour after `NOW`.
fn deputy_now(of: &str, signer: &str) -> Deputy {
    deputy(of, signer, NOW.plus_micros(-HOUR), NOW.plus_micros(HOUR))
}

/// A vote: the signer's name, after `-` if it rejects, before `/` and the key if that is not the first one.
fn vote(word: &str) -> Vote {
    let choice = if word.starts_with('-') { Choice::Reject } else { Choice::Approve };
    let (name, key) = word.trim_start_matches('-').split_once('/').unwrap_or((word.trim_start_matches('-'), "k1"));
    Vote { signer: name.parse().unwrap(), choice, key: key.to_owned(), at: NOW }
}

fn votes(words: &[&str]) -> Vec<Vote> {
    words.iter().copied().map(vote).collect()
}

fn judged(policy: &ApprovalPolicy, words: &[&str]) -> Standing {
    evaluate(policy, &terms(), &votes(words))
}

fn turn_of(policy: &ApprovalPolicy, words: &[&str]) -> Turn {
    let (last, earlier) = words.split_last().unwrap();
    let Cast { turn, standing, .. } = cast(policy, &terms(), &votes(earlier), vote(last));
    assert_eq!(standing, judged(policy, words), "{words:?}");
    turn
}

const fn pending(approvals: u32) -> Standing {
    Standing::Pending { approvals, level: 0 }
}

const fn complete(approvals: u32) -> Standing {
    Standing::Complete { approvals }
}

#[test]
fn groups_of_a_level_are_asked_at_once_and_a_person_counts_for_one_of_them() {
    let policy = at_once();
    assert_eq!(judged(&policy, &["ana"]), pending(1), "one person is not both");
    assert_eq!(judged(&policy, &["ben", "ana"]), complete(2));
    assert_eq!(
        judged(&policy, &["ana", "ben"]),
        complete(2),
        "ana counts for legal then, whatever she counted for before"
    );
    assert_eq!(judged(&policy, &["ana", "lea"]), complete(2));
    assert_eq!(judged(&policy, &["ben", "ben/k2"]), pending(1));
    assert_eq!(judged(&policy, &["ben", "-lea"]), Standing::Rejected, "a no of either group");
    assert_eq!((policy.required(), policy.required_text().as_str()), (2, "1 of finance and 1 of legal"));
    let then =
        ApprovalPolicy { levels: [policy.levels.clone(), vec![level(1, "board", &["dora"])]].concat(), ..policy };
    assert_eq!(then.required_text(), "1 of finance and 1 of legal, then 1 of board");
    assert_eq!(judged(&then, &["dora", "ana", "ben"]), Standing::Pending { approvals: 2, level: 1 });
    assert_eq!(judged(&then, &["ana", "ben", "dora"]), complete(3));
}

#[test]
fn who_adds_nothing_is_not_asked_and_may_still_say_no() {
    let groups = vec![group_of(1, "finance", &["ana", "ben"]), group_of(1, "legal", &["lea"])];
    let policy = ApprovalPolicy { levels: vec![Level { groups }], ..quorum_of(1, &["ana"]) };
    assert_eq!(turn_of(&policy, &["ana", "ben"]), Turn::Past, "finance has given what it was asked for");
    assert_eq!(turn_of(&policy, &["ana", "-ben"]), Turn::Now);
    let wanted = |words: &[&str], name: &str| wants(&policy, &terms(), &votes(words), &name.parse().unwrap(), NOW);
    assert!(wanted(&[], "ana") && wanted(&[], "ben") && wanted(&[], "lea") && !wanted(&[], "dora"));
    assert!(!wanted(&["ana"], "ana") && !wanted(&["ana"], "ben") && wanted(&["ana"], "lea"));
    assert!(!wanted(&["ana", "lea"], "ben"), "nothing is left");
    let mut it = created();
    it.terms.policy = policy;
    assert_eq!(it.asked(&votes(&["ana"]), NOW, Asking::default()), ["lea"]);
    it.terms.wish = vec!["ben".parse().unwrap(), "lea".parse().unwrap()];
    assert_eq!(it.asked(&[], NOW, Asking::default()), ["ben", "lea"], "a wish that completes the level");
    it.terms.wish = vec!["ben".parse().unwrap()];
    assert_eq!(it.asked(&[], NOW, Asking::default()), ["ana", "ben", "lea"], "and one that does not");
    let two: Vec<_> = ["ana", "ben"].map(|name| name.parse().unwrap()).into();
    assert!(!enough(&it.terms.policy, &terms(), &[], &two, NOW), "two of one group are not one of each");
}

#[test]
fn an_approval_that_would_leave_a_later_level_without_people_waits_for_that_level() {
    let levels = vec![level(1, "finance", &["ana", "ben"]), level(1, "board", &["ana"])];
    let policy = ApprovalPolicy { levels, ..quorum_of(1, &["ana"]) };
    assert_eq!(turn_of(&policy, &["ana"]), Turn::Later);
    assert_eq!(turn_of(&policy, &["ben"]), Turn::Now);
    assert_eq!(turn_of(&policy, &["ben", "ana"]), Turn::Now);
    assert_eq!(judged(&policy, &["ben", "ana"]), complete(2));
    let mut it = created();
    it.terms.policy = policy;
    assert_eq!(it.asked(&[], NOW, Asking::default()), ["ben"]);
    // By another account of theirs as well, which the later level does not know.
    let levels = vec![level(1, "finance", &["ana", "ben"]), level(1, "board", &["ana-admin"])];
    let known = with_persons(ApprovalPolicy { levels, ..quorum_of(1, &["ana"]) }, &[("j.doe", &["ana", "ana-admin"])]);
    assert_eq!(turn_of(&known, &["ana"]), Turn::Later, "not swallowed as surplus");
    assert_eq!(judged(&known, &["ben", "ana-admin"]), complete(2));
    // Only who asks makes it so: all others were enough.
    let levels = vec![level(1, "finance", &["ana", "ben"]), level(1, "board", &["ana", "olivia"])];
    it.terms.policy = ApprovalPolicy { levels, ..quorum_of(1, &["ana"]) };
    assert_eq!(it.asked(&[], NOW, Asking::default()), ["ben"]);
}

#[test]
fn accounts_of_one_person_count_once_and_a_no_by_one_is_not_talked_over_by_another() {
    let people: [(&str, &[&str]); 1] = [("j.doe", &["ana", "ana-admin"])];
    let two = with_persons(quorum_of(2, &["ana", "ana-admin", "ben"]), &people);
    assert_eq!(judged(&two, &["ana", "ana-admin"]), pending(1));
    assert_eq!(judged(&two, &["ana", "ana-admin", "ben"]), complete(2));
    assert_eq!(turn_of(&two, &["ana", "ana-admin"]), Turn::Past);
    let lenient = ApprovalPolicy {
        any_reject: Answer::No,
        ..with_persons(quorum_of(2, &["ana", "ana-admin", "ben", "cem"]), &people)
    };
    for words in [["-ana", "ana-admin"], ["ana-admin", "-ana"]] {
        assert_eq!(judged(&lenient, &words), pending(0), "{words:?}");
    }
    assert_eq!(judged(&lenient, &["ana-admin", "ben"]), complete(2));
    assert_eq!(judged(&lenient, &["-ana", "ana-admin", "ben", "cem"]), complete(2));
    // An account that is in no group approves nothing, whosever it is.
    let one = with_persons(quorum_of(1, &["ana", "ben"]), &people);
    assert_eq!(judged(&one, &["ana-admin"]), pending(0));
    // Over levels too.
    let levels = vec![level(1, "finance", &["ana", "ben"]), level(1, "board", &["ana-admin", "dora"])];
    let then = with_persons(ApprovalPolicy { levels, ..quorum_of(1, &["ana"]) }, &people);
    assert_eq!(judged(&then, &["ana", "ana-admin"]), Standing::Pending { approvals: 1, level: 1 });
    assert_eq!(judged(&then, &["ana", "dora"]), complete(2));
    assert_eq!(judged(&then, &["ben", "ana-admin"]), complete(2));
}

#[test]
fn who_asks_is_barred_by_whatever_account_of_theirs() {
    let people: [(&str, &[&str]); 2] =
        [("j.doe", &["ana", "ana-admin", "sub:jd@example.org"]), ("robot", &["agent-1", "cem"])];
    let policy = with_persons(quorum_of(1, &["ana", "ana-admin", "ben", "cem"]), &people);
    for (principal, barred) in [
        ("ana", vec!["ana", "ana-admin", "cem"]),
        ("ana-admin", vec!["ana", "ana-admin", "cem"]),
        ("j.doe", vec!["ana", "ana-admin", "cem"]),
        ("jd@example.org", vec!["ana", "ana-admin", "cem"]),
        ("somebody", vec!["cem"]),
    ] {
        let terms = Terms { principal: principal.to_owned(), ..terms() };
        for name in ["ana", "ana-admin", "ben", "cem"] {
            let signer = name.parse().unwrap();
            assert_eq!(is_requester(&policy, &terms, &signer), barred.contains(&name), "{principal}: {name}");
            let alone = evaluate(&policy, &terms, &[vote(name)]);
            assert_eq!(alone == pending(0), barred.contains(&name), "{principal}: {name}");
        }
    }
    // A rule may let that person sign, once; it never lets the agent.
    let may = ApprovalPolicy { principal_may_sign: Answer::Yes, ..policy };
    let asks = Terms { principal: "jd@example.org".to_owned(), ..terms() };
    assert_eq!(evaluate(&may, &asks, &[vote("ana-admin")]), complete(1));
    assert_eq!(evaluate(&may, &asks, &[vote("cem")]), pending(0));
}

#[test]
fn whom_the_payees_account_belongs_to_is_barred_and_no_rule_lets_them_sign() {
    let people: [(&str, &[&str]); 1] = [("j.doe", &["ana", "ana-admin"])];
    for name in ["ana", "ana-admin", "j.doe"] {
        let policy = ApprovalPolicy {
            beneficiary: name.to_owned(),
            principal_may_sign: Answer::Yes,
            ..with_persons(quorum_of(1, &["ana", "ana-admin", "ben"]), &people)
        };
        for (signer, barred) in [("ana", true), ("ana-admin", true), ("ben", false)] {
            assert_eq!(is_barred(&policy, &terms(), &signer.parse().unwrap()), barred, "{name}: {signer}");
            assert!(!is_requester(&policy, &terms(), &signer.parse().unwrap()));
        }
        assert_eq!(judged(&policy, &["ana", "-ana-admin", "ben"]), complete(1), "not even to reject");
        let alone = ApprovalPolicy { levels: vec![level(1, "finance", &["ana"])], ..policy };
        assert_eq!(judged(&alone, &[]), Standing::Rejected, "nobody else could");
    }
}

#[test]
fn a_deputy_counts_in_place_of_whom_they_stand_in_for_and_never_beside() {
    let deputies = vec![deputy_now("ana", "zoe")];
    let one = ApprovalPolicy { deputies: deputies.clone(), ..quorum_of(1, &["ana", "ben"]) };
    assert_eq!(judged(&one, &["zoe"]), complete(1));
    let two = ApprovalPolicy { deputies, ..quorum_of(2, &["ana", "ben"]) };
    for words in [["ana", "zoe"], ["zoe", "ana"]] {
        assert_eq!(judged(&two, &words), pending(1), "{words:?}");
        assert_eq!(turn_of(&two, &words), Turn::Past, "{words:?}");
    }
    assert_eq!(judged(&two, &["zoe", "ben"]), complete(2));
    let both = ApprovalPolicy { deputies: vec![deputy_now("ana", "zoe")], ..at_once() };
    assert_eq!(judged(&both, &["ana", "zoe"]), pending(1), "not for another group either");
    assert_eq!(judged(&both, &["zoe", "ben"]), complete(2), "zoe for legal, as ana would be");
    assert_eq!(judged(&one, &["-zoe"]), Standing::Rejected);
    // Whose no was heard is not talked over by their deputy.
    let lenient = ApprovalPolicy { any_reject: Answer::No, ..two.clone() };
    assert_eq!(judged(&lenient, &["-ana", "zoe"]), Standing::Rejected, "one is left of the two that it needs");
    // Nobody stands in for who may not decide, and who may not decide stands in for nobody.
    let asks = Terms { principal: "ana".to_owned(), ..terms() };
    assert_eq!(evaluate(&one, &asks, &[vote("zoe")]), pending(0));
    let asks = Terms { principal: "zoe".to_owned(), ..terms() };
    assert_eq!(evaluate(&one, &asks, &[vote("zoe")]), pending(0));
    let paid = ApprovalPolicy { beneficiary: "ana".to_owned(), ..one.clone() };
    assert_eq!(judged(&paid, &["zoe"]), pending(0));
    // One person, though they have a place of their own and a deputy's.
    let own = ApprovalPolicy { deputies: vec![deputy_now("ana", "ben")], ..quorum_of(2, &["ana", "ben", "cem"]) };
    assert_eq!(judged(&own, &["ben", "ben/k2"]), pending(1));
    assert_eq!(judged(&own, &["ben", "ana"]), complete(2), "then ben is there for himself");
    // Nor is a deputy's deputy asked.
    let chain = ApprovalPolicy { deputies: vec![deputy_now("ana", "zoe"), deputy_now("zoe", "yan")], ..one };
    assert_eq!(judged(&chain, &["yan"]), pending(0));
    assert_eq!(chain.signers().into_iter().collect::<Vec<_>>(), ["ana", "ben", "yan", "zoe"]);
}

#[test]
fn a_deputys_place_is_taken_at_all_levels() {
    let levels = vec![level(1, "finance", &["ana", "ben"]), level(1, "board", &["ana", "dora"])];
    let policy = ApprovalPolicy { levels, deputies: vec![deputy_now("ana", "zoe")], ..quorum_of(1, &["ana"]) };
    assert_eq!(judged(&policy, &["zoe", "ana"]), Standing::Pending { approvals: 1, level: 1 }, "zoe spoke for ana");
    assert_eq!(judged(&policy, &["zoe", "dora"]), complete(2));
    assert_eq!(judged(&policy, &["ana", "zoe"]), Standing::Pending { approvals: 1, level: 1 });
    assert_eq!(judged(&policy, &["ben", "zoe"]), complete(2));
    // Who has a place of their own takes that one: ana is still there for the board.
    let own = ApprovalPolicy { deputies: vec![deputy_now("ana", "ben")], ..policy };
    assert_eq!(judged(&own, &["ben", "ana"]), complete(2));
}

#[test]
fn a_deputys_time_is_judged_by_when_the_decision_was_taken_in() {
    let (from, until) = (NOW.plus_micros(-HOUR), NOW.plus_micros(HOUR));
    let policy = ApprovalPolicy { deputies: vec![deputy("ana", "zoe", from, until)], ..quorum_of(1, &["ana"]) };
    for (at, counts) in [
        (from.plus_micros(-1), false),
        (from, true),
        (until.plus_micros(-1), true),
        (until, false),
        (EXPIRES_AT, false),
    ] {
        let word = Vote { at, ..vote("zoe") };
        let standing = evaluate(&policy, &terms(), std::slice::from_ref(&word));
        assert_eq!(standing, if counts { complete(1) } else { pending(0) }, "{at:?}");
        assert_eq!(policy.has_voice(&word.signer, at), counts, "{at:?}");
        let no = Vote { choice: Choice::Reject, ..word };
        let standing = evaluate(&policy, &terms(), &[no]);
        assert_eq!(standing, if counts { Standing::Rejected } else { pending(0) }, "{at:?}");
        let mut it = created();
        it.terms.policy = policy.clone();
        let too = Asking { widened: false, deputies: true };
        let asked = |it: &Payment, asking| it.asked(&[], at, asking);
        for wish in [vec![], vec!["ana".parse().unwrap()]] {
            it.terms.wish = wish;
            assert_eq!(asked(&it, too), if counts { vec!["ana", "zoe"] } else { vec!["ana"] }, "{at:?}");
            assert_eq!(asked(&it, Asking::default()), ["ana"], "{at:?}");
        }
        it.terms.wish = vec!["zoe".parse().unwrap()];
        assert_eq!(asked(&it, Asking::default()), if counts { ["zoe"] } else { ["ana"] }, "{at:?}");
    }
    for (from, until) in [("", "x"), ("2026-01-01", "2027-01-01"), ("x", "9999-12-31T00:00:00Z")] {
        let unreadable = Deputy { from: from.to_owned(), until: until.to_owned(), ..deputy_now("ana", "zoe") };
        assert!(!unreadable.is_in_force(NOW), "{from} {until}");
    }
    assert!(policy.has_voice(&"ana".parse().unwrap(), CREATED_AT), "who is in the group always");
}

#[test]
fn deputies_are_asked_before_their_turn_where_the_others_are_not_enough() {
    let levels = vec![level(1, "finance", &["xia", "yan"]), level(2, "board", &["ana", "dora"])];
    let deputies = vec![deputy_now("xia", "ana"), deputy_now("ana", "zoe"), deputy_now("dora", "zoe")];
    let mut it = created();
    it.terms.policy = ApprovalPolicy { levels, deputies, ..quorum_of(1, &["ana"]) };
    assert_eq!(it.asked(&[], NOW, Asking::default()), ["xia", "yan"], "ana has no place of her own there");
    assert_eq!(it.asked(&[], NOW, Asking { deputies: true, widened: false }), ["ana", "xia", "yan"]);
    assert_eq!(it.asked(&votes(&["yan"]), NOW, Asking::default()), ["ana", "dora"]);
    assert_eq!(it.asked(&votes(&["ana"]), NOW, Asking::default()), ["dora", "zoe"], "ana has given her word for xia");
    let opened = |words: &[&str]| opened_at(&it.terms.policy, &it.terms, &votes(words));
    assert_eq!((opened(&[]), opened(&["yan"]), opened(&["yan", "dora"])), (None, Some(NOW), Some(NOW)));
    let dora = Vote { at: NOW.plus_micros(HOUR), ..vote("dora") };
    let both = [vote("yan"), dora];
    assert_eq!(opened_at(&it.terms.policy, &it.terms, &both), Some(NOW), "by the vote that opened it");
}

#[test]
fn those_who_are_needed_later_are_not_enough_now() {
    let levels = vec![level(2, "finance", &["ana", "ben", "cem"]), level(1, "board", &["ana", "ben"])];
    let policy = ApprovalPolicy { levels, ..quorum_of(1, &["ana"]) };
    let are = |names: &[&str], words: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
        enough(&policy, &terms(), &votes(words), &names, NOW)
    };
    assert!(!are(&["ana", "ben"], &[]), "nobody would be left for the board");
    assert!(are(&["ana", "ben", "cem"], &[]) && are(&["ben", "cem"], &[]) && !are(&["cem"], &[]));
    assert!(are(&["cem"], &["ana"]) && !are(&["ben"], &["ana"]) && !are(&[], &["ana"]));
    assert!(are(&["ben"], &["ana", "cem"]) && !are(&["cem"], &["ana", "cem"]) && !are(&["ana"], &["ana", "cem"]));
    assert!(!are(&["ben"], &["ana", "cem", "ben"]) && !are(&["ben"], &["-ana"]), "nothing is left to decide");
}

#[test]
fn an_approval_that_is_to_be_confirmed_counts_with_two_keys_and_not_before() {
    let twice = |required| ApprovalPolicy { confirmations: "2".to_owned(), ..quorum_of(required, &["ana", "ben"]) };
    let policy = twice(1);
    assert_eq!(policy.required_text(), "1 of finance; each with 2 keys");
    assert_eq!(judged(&policy, &["ana"]), pending(0));
    assert_eq!(judged(&policy, &["ana", "ana"]), pending(0), "the same key again says nothing new");
    assert_eq!(judged(&policy, &["ana", "ana/k2"]), complete(1));
    assert_eq!(judged(&policy, &["ana", "ben/k2"]), pending(0), "each their own two");
    assert_eq!(judged(&twice(2), &["ana", "ben", "ana/k2", "ben/k2"]), complete(2));
    assert_eq!(judged(&policy, &["ana", "-ana"]), Standing::Rejected, "a no follows any_reject");
    assert_eq!(judged(&policy, &["-ana"]), Standing::Rejected, "and needs no second key");
    let lenient = ApprovalPolicy { any_reject: Answer::No, ..policy.clone() };
    assert_eq!(judged(&lenient, &["ana", "-ana"]), pending(0));
    assert_eq!(judged(&lenient, &["ana", "-ana", "ana/k2"]), pending(0), "not talked over by the second key");
    assert_eq!(turn_of(&policy, &["ana"]), Turn::Now);
    assert_eq!(turn_of(&policy, &["ana", "ana/k2"]), Turn::Now);
    let half = progress(&policy, &terms(), &votes(&["ana"]));
    assert_eq!(
        (half.approved.len(), half.half, half.missing),
        (0, vec!["ana".to_owned()], vec![("finance".to_owned(), 1)])
    );
    // A deputy whose time ends between the two has not confirmed.
    let stood_in = ApprovalPolicy { deputies: vec![deputy_now("ana", "zoe")], ..policy };
    let late = Vote { at: NOW.plus_micros(HOUR), ..vote("zoe/k2") };
    assert_eq!(evaluate(&stood_in, &terms(), &[vote("zoe"), vote("zoe/k2")]), complete(1));
    assert_eq!(evaluate(&stood_in, &terms(), &[vote("zoe"), late]), pending(0));
    for unreadable in ["x", "-1", "99999999999"] {
        let policy = ApprovalPolicy { confirmations: unreadable.to_owned(), ..quorum_of(1, &["ana"]) };
        assert_eq!(judged(&policy, &["ana", "ana/k2", "ana/k3"]), pending(0), "{unreadable}");
    }
}

#[test]
fn how_far_it_has_come_is_told_by_group() {
    let mut policy = at_once();
    policy.levels.push(level(2, "board", &["dora", "emil"]));
    let told = |words: &[&str]| {
        let told = progress(&policy, &terms(), &votes(words));
        let missing: Vec<String> = told.missing.iter().map(|(group, lack)| format!("{group} {lack}")).collect();
        (told.approved.join(" "), missing.join(", "))
    };
    assert_eq!(told(&[]), (String::new(), "finance 1, legal 1, board 2".to_owned()));
    assert_eq!(told(&["ben"]), ("ben".to_owned(), "legal 1, board 2".to_owned()));
    assert_eq!(told(&["ben", "ana"]), ("ana ben".to_owned(), "board 2".to_owned()));
    assert_eq!(told(&["ben", "ana", "dora", "emil"]), ("ana ben dora emil".to_owned(), String::new()));
}

#[test]
fn a_rule_that_uses_none_of_it_has_the_digest_that_it_always_had() {
    let text = jcs(&quorum_of(2, &["ana", "ben"])).unwrap();
    let old = r#"{"any_reject":"yes","id":"house","levels":[{"group":"finance","required":"2","signers":["ana","ben"]}],"principal_may_sign":"no","rule":"default","version":"7"}"#;
    assert_eq!(text, old);
    assert_eq!(b64url(tagged_digest("countersign/policy/v1", &text)), "jMEA9ZGVtXyMMh5QBS8p3WQVIMj-oTFe-8QgSRB_2HQ");
    assert_eq!(serde_json::from_str::<ApprovalPolicy>(old).unwrap(), quorum_of(2, &["ana", "ben"]));
    let all = ApprovalPolicy {
        confirmations: "2".to_owned(),
        deputies: vec![deputy_now("ana", "zoe")],
        beneficiary: "ben".to_owned(),
        ..with_persons(at_once(), &[("j.doe", &["ana", "sub:jd@example.org"])])
    };
    let text = jcs(&all).unwrap();
    assert_eq!(serde_json::from_str::<ApprovalPolicy>(&text).unwrap(), all);
    let all: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(all["levels"][0]["groups"][1]["group"], "legal");
    for odd in [old.replace("\"group\":", "\"grup\":"), old.replace("\"rule\"", "\"more\":\"x\",\"rule\"")] {
        assert!(serde_json::from_str::<ApprovalPolicy>(&odd).is_err(), "{odd}");
    }
}

#[test]
fn a_quorum_of_people_who_turn_out_to_be_one_is_lost() {
    let own = quorum_of(2, &["ana", "ana-admin", "ben"]);
    let terms = Terms { policy: own.clone(), ..terms() };
    let words = votes(&["ana", "ana-admin"]);
    assert_eq!(lost(&terms, &own, &words), None);
    let known = with_persons(own.clone(), &[("j.doe", &["ana", "ana-admin"])]);
    let paid = ApprovalPolicy { beneficiary: "ana".to_owned(), ..own.clone() };
    let twice = ApprovalPolicy { confirmations: "2".to_owned(), ..own.clone() };
    for current in [known, paid, twice] {
        assert_eq!(lost(&terms, &current, &words), Some(&current));
        // What the payment was proposed under is kept, though it is looser by now.
        let terms = Terms { policy: current.clone(), ..terms.clone() };
        assert_eq!(lost(&terms, &own, &words), Some(&current));
    }
}

// What no policy or order may change.

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A level of up to three groups over six accounts, some of which are one person's, and deputies among them.
fn policies() -> impl Strategy<Value = ApprovalPolicy> {
    let group = (1..3_u32, proptest::sample::subsequence(NAMES.to_vec(), 1..5));
    let groups = prop::collection::vec(group, 1..4);
    let people = prop::collection::vec(0..4_usize, NAMES.len());
    let deputies = prop::collection::vec((select(&NAMES[..]), select(&NAMES[..])), 0..4);
    (groups, people, deputies, 1..3_u32, any::<bool>()).prop_map(
        |(groups, people, deputies, confirmations, any_reject)| {
            let groups = groups.iter().enumerate();
            let groups = groups.map(|(at, (required, names))| group_of(*required, &format!("g{at}"), names)).collect();
            let mut policy = ApprovalPolicy {
                levels: vec![Level { groups }],
                any_reject: any_reject.into(),
                confirmations: if confirmations == 1 { String::new() } else { confirmations.to_string() },
                ..quorum_of(1, &["a"])
            };
            for (name, person) in NAMES.iter().zip(people) {
                // Person 0 is nobody: those accounts stand by themselves.
                if person > 0 {
                    policy.persons.entry(format!("p{person}")).or_default().insert((*name).to_owned());
                }
            }
            let kinds = |person: &str| {
                let own = NAMES.iter().filter(|name| policy.person(name) == person);
                let level = &policy.levels[0];
                let kind =
                    |name: &&str| level.groups.iter().map(|group| group.signers.contains(*name)).collect::<Vec<_>>();
                own.map(kind).filter(|kind| kind.contains(&true)).collect::<BTreeSet<_>>()
            };
            // As a policy file may have them.
            let allowed = deputies.into_iter().filter(|(of, signer)| {
                policy.person(of) != policy.person(signer) && kinds(policy.person(of)).len() < 2
            });
            let allowed = allowed.map(|(of, signer)| deputy_now(of, signer)).collect();
            ApprovalPolicy { deputies: allowed, ..policy }
        },
    )
}

fn ballots() -> impl Strategy<Value = Vec<Vote>> {
    let ballot = (select(&NAMES[..]), select(&["k1", "k2"][..]), prop::bool::weighted(0.1));
    prop::collection::vec(ballot, 0..9).prop_map(|ballots| {
        let words = ballots.iter().map(|(name, key, no)| format!("{}{name}/{key}", if *no { "-" } else { "" }));
        words.map(|word| vote(&word)).collect()
    })
}

/// The most approvals that can count, found by trying everything: each speaker for one, each place once.
fn tried(policy: &ApprovalPolicy, approvals: &[Vote]) -> usize {
    let level = &policy.levels[0];
    let keys = |name: &str| {
        approvals.iter().filter(|vote| vote.signer.as_str() == name).map(|vote| &vote.key).collect::<BTreeSet<_>>()
    };
    let confirmed: Vec<&str> =
        NAMES.into_iter().filter(|name| keys(name).len() >= usize::try_from(policy.confirmations()).unwrap()).collect();
    let mut ways: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for name in confirmed {
        for voice in policy.voices(name, None) {
            for (at, group) in level.groups.iter().enumerate().filter(|(_, group)| group.signers.contains(voice)) {
                assert!(group.required() > 0);
                ways.entry(policy.person(name)).or_default().push((policy.person(voice), at));
            }
        }
    }
    let ways: Vec<Vec<(&str, usize)>> = ways.into_values().collect();
    let mut room: Vec<u32> = level.groups.iter().map(countersign::domain::Group::required).collect();
    most(&ways, &mut BTreeSet::new(), &mut room)
}

fn most<'a>(ways: &[Vec<(&'a str, usize)>], places: &mut BTreeSet<&'a str>, room: &mut Vec<u32>) -> usize {
    let Some((first, others)) = ways.split_first() else { return 0 };
    let mut best = most(others, places, room);
    for (place, group) in first {
        if room[*group] > 0 && places.insert(place) {
            room[*group] -= 1;
            best = best.max(1 + most(others, places, room));
            room[*group] += 1;
            places.remove(place);
        }
    }
    best
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(11),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_order_of_approvals_within_a_level_changes_nothing(
        policy in policies(),
        ballots in ballots(),
        order in Just((0..9_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let terms = Terms { principal: "nobody".to_owned(), ..terms() };
        // A no that comes when all is complete is too late: among approvals alone there is no too late.
        let yes: Vec<Vote> = ballots.into_iter().filter(|vote| vote.choice == Choice::Approve).collect();
        let shuffled: Vec<Vote> = order.iter().filter_map(|at| yes.get(*at).cloned()).collect();
        prop_assert_eq!(evaluate(&policy, &terms, &yes), evaluate(&policy, &terms, &shuffled));
    }

    #[test]
    fn as_many_count_as_can_and_nobody_twice(policy in policies(), ballots in ballots()) {
        let terms = Terms { principal: "nobody".to_owned(), ..terms() };
        let yes: Vec<Vote> = ballots.into_iter().filter(|vote| vote.choice == Choice::Approve).collect();
        let people: BTreeSet<&str> = yes.iter().map(|vote| policy.person(vote.signer.as_str())).collect();
        match evaluate(&policy, &terms, &yes) {
            Standing::Pending { approvals, .. } => {
                prop_assert_eq!(usize::try_from(approvals).unwrap(), tried(&policy, &yes));
                prop_assert!(approvals < policy.required());
            }
            Standing::Complete { approvals } => {
                prop_assert_eq!(approvals, policy.required());
                prop_assert!(usize::try_from(approvals).unwrap() <= people.len(), "{} of {:?}", approvals, people);
                prop_assert_eq!(usize::try_from(approvals).unwrap(), tried(&policy, &yes));
            }
            // Nobody said no: there were never enough people.
            Standing::Rejected => prop_assert_eq!(evaluate(&policy, &terms, &[]), Standing::Rejected),
        }
    }

    #[test]
    fn a_vote_whose_turn_it_is_not_changes_nothing_and_one_whose_it_is_does(
        policy in policies(),
        ballots in ballots(),
    ) {
        let terms = Terms { principal: "nobody".to_owned(), ..terms() };
        let mut taken: Vec<Vote> = Vec::new();
        for vote in ballots {
            let before = evaluate(&policy, &terms, &taken);
            if !matches!(before, Standing::Pending { .. }) {
                break;
            }
            let Cast { turn, standing, .. } = cast(&policy, &terms, &taken, vote.clone());
            match turn {
                Turn::Past => prop_assert_eq!(standing, before),
                Turn::Later => prop_assert_eq!(standing, before, "one level has no later one"),
                Turn::Now => {
                    if vote.choice == Choice::Approve && policy.confirmations() == 1 {
                        prop_assert!(standing != before);
                    }
                    prop_assert!(vote.choice == Choice::Reject || standing != Standing::Rejected);
                    taken.push(vote);
                }
            }
        }
    }
}
