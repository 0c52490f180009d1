//! Random rules and votes: what the domain counts, the verifier of bundles and its second implementation say alike.

use countersign::domain::{
    Answer, ApprovalPolicy, Choice, Deputy, Level, Standing, Terms, Timestamp, Vote, evaluate, is_barred,
};
use countersign::proof::{
    PaymentDocument, Step, Trust, Verdict, b64url, decision_digest, jcs, payment_digest, tagged_digest, verify,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Value, json};

use super::vectors::{Vector, agreed, write};
use crate::harness::folder::Folder;
use crate::harness::payments::{HOUR, NOW, group_of, quorum_of, terms};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const LATER: Timestamp = NOW.plus_micros(HOUR);
const AFTER: Timestamp = NOW.plus_micros(2 * HOUR);

/// Up to three levels of up to two groups, people with several accounts, and deputies, of which some are so later only:
/// also as no policy file may have them.
fn policies() -> impl Strategy<Value = ApprovalPolicy> {
    let group = (select(&[1_u32, 1, 2][..]), subsequence(NAMES.to_vec(), 2..6));
    let levels = prop::collection::vec(prop::collection::vec(group, 1..3), 1..4);
    let people = prop::collection::vec(select(&[0_usize, 0, 0, 1, 2, 3][..]), NAMES.len());
    let deputy = (select(&NAMES[..]), select(&NAMES[..]), select(&[(NOW, AFTER), (NOW, LATER), (LATER, AFTER)][..]));
    let deputies = prop::collection::vec(deputy, 0..5);
    let flags = (prop::bool::weighted(0.3), prop::bool::weighted(0.3), any::<bool>());
    (levels, people, deputies, flags, select(&["", "", "", "", "", "a", "p1"][..])).prop_map(
        |(levels, people, deputies, (twice, any_reject, may), beneficiary)| {
            let groups = |groups: Vec<(u32, Vec<&str>)>| {
                let groups = groups.iter().enumerate();
                Level {
                    groups: groups.map(|(at, (asked, names))| group_of(*asked, &format!("g{at}"), names)).collect(),
                }
            };
            let deputies = deputies.into_iter().map(|(of, signer, (from, until))| Deputy {
                of: of.to_owned(),
                signer: signer.to_owned(),
                from: from.rfc3339(),
                until: until.rfc3339(),
            });
            let mut policy = ApprovalPolicy {
                levels: levels.into_iter().map(groups).collect(),
                any_reject: any_reject.into(),
                principal_may_sign: Answer::from(may),
                confirmations: if twice { "2".to_owned() } else { String::new() },
                deputies: deputies.collect(),
                beneficiary: beneficiary.to_owned(),
                ..quorum_of(1, &["a"])
            };
            for (name, person) in NAMES.iter().zip(people).filter(|(_, person)| *person > 0) {
                policy.persons.entry(format!("p{person}")).or_default().insert((*name).to_owned());
            }
            policy
        },
    )
}

fn ballots() -> impl Strategy<Value = Vec<Vote>> {
    let ballot = (select(&NAMES[..]), select(&["k1", "k2"][..]), prop::bool::weighted(0.1), any::<bool>());
    prop::collection::vec(ballot, 0..12).prop_map(|ballots| {
        let mut votes: Vec<Vote> = Vec::new();
        for (name, key, no, late) in ballots {
            let choice = if no { Choice::Reject } else { Choice::Approve };
            let (signer, key) = (name.parse().unwrap(), key.to_owned());
            votes.push(Vote { signer, choice, key, at: if late { LATER } else { NOW } });
        }
        votes
    })
}

/// A bundle of these votes, with nothing behind them, of a payment that stands at `status`.
fn bundle(terms: &Terms, votes: &[Vote], status: &str) -> String {
    let policy = jcs(&terms.policy).unwrap();
    let policy_digest = b64url(tagged_digest(PaymentDocument::POLICY, &policy));
    let time = terms.created_at.rfc3339();
    let document = PaymentDocument {
        typ: PaymentDocument::TYPE.to_owned(),
        aud: "test".to_owned(),
        tenant: terms.tenant.to_string(),
        payment_id: terms.payment_id.to_string(),
        order_id: terms.order_id.to_string(),
        round: "1".to_owned(),
        amount_minor: "19900".to_owned(),
        currency: "USD".to_owned(),
        currency_exponent: "2".to_owned(),
        payer_account: terms.payer_account.to_string(),
        payee_account: terms.payee_account.to_string(),
        payee_name: terms.payee_name.to_string(),
        purpose: terms.memo.to_string(),
        requester_agent: terms.agent.to_string(),
        requester_principal: terms.principal.clone(),
        mandate_id: String::new(),
        policy_id: terms.policy.id.clone(),
        policy_version: terms.policy.version.clone(),
        policy_digest: policy_digest.clone(),
        required: terms.policy.required_text(),
        created_at: time.clone(),
        expires_at: terms.expires_at.rfc3339(),
        execute_by: terms.execute_by.rfc3339(),
    };
    let document = document.canonical().unwrap();
    let decided = |(number, vote): (usize, &Vote)| {
        let said = json!({"challenge_expires_at": time, "decision": vote.choice.as_str(), "issued_at": time, "key_id": vote.key,
            "nonce": "n", "payment_digest": payment_digest(&document), "reason": "", "signer_id": vote.signer.as_str(),
            "typ": "countersign/approval/v1"});
        let said = jcs(&said).unwrap();
        json!({"decision_id": number.to_string(), "round": "1", "digest": decision_digest(&said), "document": said,
            "key_id": vote.key, "proof": {"type": "jws", "value": "x"}, "confirmation": (number + 1).to_string(),
            "standing": "counted", "decided_at": vote.at.rfc3339()})
    };
    let decisions: Vec<Value> = votes.iter().enumerate().map(decided).collect();
    let whole = json!({"format": "countersign/evidence/v1", "generated_at": time,
        "payment": {"digest": payment_digest(&document), "document": document, "status": status},
        "policy": {"document": policy, "digest": policy_digest}, "challenges": [], "decisions": decisions, "registry": [],
        "execution": {"requests": [], "receipt": "", "transfer_id": "", "attestations": []}, "audit": []});
    whole.to_string()
}

#[test]
fn the_rule_the_bundles_verifier_and_the_second_one_count_alike() {
    let config = ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let cases = (policies(), ballots(), select(&["nobody", "nobody", "nobody", "a", "p2"][..]));
    let folder = Folder::new("agreed");
    let mut vectors = Vec::new();
    let mut seen = [0, 0, 0];
    for number in 0..1_000 {
        let (policy, mut votes, principal) = cases.new_tree(&mut runner).unwrap().current();
        let terms = Terms { policy, principal: principal.to_owned(), ..terms() };
        votes.retain(|vote| !is_barred(&terms.policy, &terms, &vote.signer));
        let (status, kind) = match evaluate(&terms.policy, &terms, &votes) {
            Standing::Complete { .. } => ("SIGNED", 0),
            Standing::Rejected => ("REJECTED", 1),
            Standing::Pending { .. } => ("SIGNED", 2),
        };
        seen[kind] += 1;
        for status in [status, "REJECTED"] {
            let text = bundle(&terms, &votes, status);
            let steps = verify(text.as_bytes(), &Trust::default()).steps;
            let quorum = steps.iter().find(|checked| checked.step == Step::Quorum).unwrap();
            let holds = (status == "SIGNED" && kind == 0) || (status == "REJECTED" && kind == 1);
            assert_eq!(quorum.verdict == Verdict::Ok, holds, "{status} {votes:?} {:?}", terms.policy);
            vectors.push(Vector::of(&format!("{number}-{status}"), "", "", text));
        }
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    vectors.sort_by(|one, other| one.name.cmp(&other.name));
    vectors.dedup_by(|one, other| one.name == other.name);
    write(&folder, &vectors);
    agreed(&folder, vectors.len());
}
