//! Whose turn it is, and what one more vote comes to.

use super::count::Count;
use super::{Standing, Vote};
use crate::domain::choice::Choice;
use crate::domain::id::SignerId;
use crate::domain::payment::Terms;
use crate::domain::policy::ApprovalPolicy;
use crate::domain::time::Timestamp;

/// Whether a signer is asked, in the order the levels are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Others must approve first.
    Later,
    /// They are, or nothing is left to decide.
    Now,
    /// It is complete without them: their vote is kept, with no effect.
    Past,
}

/// What one more vote comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    /// Whether it is the signer's turn.
    pub turn: Turn,
    /// What the votes amount to with this one.
    pub standing: Standing,
    /// Whether it opens the next level.
    pub advanced: bool,
}

/// Judges one more `vote` after the `earlier` ones.
pub fn cast(policy: &ApprovalPolicy, terms: &Terms, earlier: &[Vote], vote: Vote) -> Cast {
    let before = Count::of(policy, terms, earlier);
    let turn = turn(&before, policy, terms, earlier, &vote);
    let mut votes = earlier.to_vec();
    votes.push(vote);
    let standing = Count::of(policy, terms, &votes).standing();
    Cast { turn, standing, advanced: level_of(standing) > level_of(before.standing()) }
}

/// Whether an approval by `signer` at `at` is still wanted.
pub fn wants(policy: &ApprovalPolicy, terms: &Terms, votes: &[Vote], signer: &SignerId, at: Timestamp) -> bool {
    let count = Count::of(policy, terms, votes);
    let vote = Vote { signer: signer.clone(), choice: Choice::Approve, key: String::new(), at };
    matches!(count.standing(), Standing::Pending { .. }) && turn(&count, policy, terms, votes, &vote) == Turn::Now
}

/// Whether it is wanted for their own place, and not only in that of whom they are deputy of.
pub fn wants_own(policy: &ApprovalPolicy, terms: &Terms, votes: &[Vote], signer: &SignerId, at: Timestamp) -> bool {
    let mut own = policy.clone();
    own.deputies.retain(|deputy| deputy.signer != signer.as_str());
    wants(policy, terms, votes, signer, at) && (own == *policy || wants(&own, terms, votes, signer, at))
}

/// Whether `signers`, approving at `at`, could complete the level that is open, and leave enough people for those after it.
pub fn enough(policy: &ApprovalPolicy, terms: &Terms, votes: &[Vote], signers: &[SignerId], at: Timestamp) -> bool {
    let count = Count::of(policy, terms, votes);
    matches!(count.standing(), Standing::Pending { .. }) && count.is_reachable(Some((signers, at)))
}

/// When a vote opened the level that is open; `None` for the first.
pub fn opened_at(policy: &ApprovalPolicy, terms: &Terms, votes: &[Vote]) -> Option<Timestamp> {
    Count::of(policy, terms, votes).opened()
}

fn turn(before: &Count<'_>, policy: &ApprovalPolicy, terms: &Terms, earlier: &[Vote], vote: &Vote) -> Turn {
    let standing = before.standing();
    if !matches!(standing, Standing::Pending { .. }) {
        return Turn::Now;
    }
    let account = vote.signer.as_str();
    if before.is_entitled(account, vote.at) {
        if vote.choice == Choice::Reject {
            return Turn::Now;
        }
        let with: Vec<Vote> = earlier.iter().cloned().chain(whole(policy, &vote.signer, vote.at)).collect();
        let then = Count::of(policy, terms, &with).standing();
        if then == Standing::Rejected {
            // Their word is needed at a later level, and they have one.
            return Turn::Later;
        }
        if weight(then) > weight(standing) {
            return Turn::Now;
        }
    }
    if before.comes_later(account) { Turn::Later } else { Turn::Past }
}

/// A whole approval, confirmed as often as the rule asks.
fn whole(policy: &ApprovalPolicy, signer: &SignerId, at: Timestamp) -> impl Iterator<Item = Vote> {
    let vote = move |key: u32| Vote { signer: signer.clone(), choice: Choice::Approve, key: key.to_string(), at };
    (0..policy.confirmations().min(MOST_CONFIRMATIONS)).map(vote)
}

/// More than a policy can ask for.
const MOST_CONFIRMATIONS: u32 = 8;

/// How far it has come.
fn weight(standing: Standing) -> (usize, u32) {
    match standing {
        Standing::Pending { approvals, .. } | Standing::Complete { approvals } => (level_of(standing), approvals),
        Standing::Rejected => (0, 0),
    }
}

/// The level that is open; one past the last when none is.
pub(super) fn level_of(standing: Standing) -> usize {
    match standing {
        Standing::Pending { level, .. } => level,
        Standing::Complete { .. } | Standing::Rejected => usize::MAX,
    }
}
