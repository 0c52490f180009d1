//! Whether the decisions given make a quorum: a function of policy, votes and requester.
//!
//! `people` says who may not decide, `assign` which approvals count for which groups, `count` goes through the votes
//! level by level, `turn` says whose turn it is.

mod assign;
mod count;
mod people;
mod turn;

pub use people::{has_voice, is_barred, is_requester};
pub use turn::{Cast, Turn, cast, enough, opened_at, wants, wants_own};

use super::choice::Choice;
use super::id::SignerId;
use super::payment::Terms;
use super::policy::ApprovalPolicy;
use super::time::Timestamp;
use count::Count;

/// One verified decision of the current round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    /// Who.
    pub signer: SignerId,
    /// What they said.
    pub choice: Choice,
    /// The key of theirs that proves it.
    pub key: String,
    /// When it was taken in.
    pub at: Timestamp,
}

/// What the votes amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// More approvals are needed.
    Pending {
        /// Approvals counted over all levels.
        approvals: u32,
        /// The level that is open, from 0.
        level: usize,
    },
    /// The quorum is complete.
    Complete {
        /// Approvals counted over all levels.
        approvals: u32,
    },
    /// It will not be: someone entitled to said no.
    Rejected,
}

/// Judges `votes`, in the order they were given, under `policy`.
///
/// *Invariant*: each person counts once over all groups and levels, whatever the number of their votes, accounts and
/// keys; a deputy counts in place of whom they stand in for, in the deputy's time, never beside them. A vote counts for
/// the level that is open when it is given, for whichever of its groups makes the most of all votes: their order within
/// a level changes nothing. Whose place a deputy of several people took is settled by what later levels need. An approval
/// that is to be confirmed counts once it was given with so many keys. People outside that level's groups, the requester
/// and the payee's beneficiary never count, not even to reject.
pub fn evaluate(policy: &ApprovalPolicy, terms: &Terms, votes: &[Vote]) -> Standing {
    Count::of(policy, terms, votes).standing()
}

/// How far the votes have come: who is counted, and who is missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// The accounts whose approvals count.
    pub approved: Vec<String>,
    /// Those whose approval waits for a confirmation with another key of theirs.
    pub half: Vec<String>,
    /// How many more each group must give, in the order the levels are asked.
    pub missing: Vec<(String, u32)>,
}

/// Who has approved, and how many are missing by group.
pub fn progress(policy: &ApprovalPolicy, terms: &Terms, votes: &[Vote]) -> Progress {
    let count = Count::of(policy, terms, votes);
    let approved: Vec<String> = count.approvals().iter().map(|claim| claim.account.to_owned()).collect();
    let mut half: Vec<String> = Vec::new();
    for vote in votes.iter().filter(|vote| vote.choice == Choice::Approve) {
        let name = vote.signer.to_string();
        if !approved.contains(&name) && !half.contains(&name) && wants(policy, terms, votes, &vote.signer, vote.at) {
            half.push(name);
        }
    }
    let missing = count.missing().into_iter().map(|(group, lack)| (group.to_owned(), lack)).collect();
    Progress { approved, half, missing }
}

/// The rule that a new round is judged by when `votes` no longer make a quorum; `None` while they do.
///
/// They must complete both the rule that the payment was proposed under and the `current` one. Where only
/// the payment's own is not met, it is the stricter one: asked anew, it is not lowered.
pub fn lost<'a>(terms: &'a Terms, current: &'a ApprovalPolicy, votes: &[Vote]) -> Option<&'a ApprovalPolicy> {
    let complete = |policy| matches!(evaluate(policy, terms, votes), Standing::Complete { .. });
    match (complete(&terms.policy), complete(current)) {
        (true, true) => None,
        (false, true) => Some(&terms.policy),
        (true | false, false) => Some(current),
    }
}
