//! Whether the decisions given make a quorum: a function of policy, votes and requester.

use std::collections::BTreeSet;

use super::choice::Choice;
use super::id::SignerId;
use super::payment::Terms;
use super::policy::{Answer, ApprovalPolicy, Level};

/// One person's verified decision in the current round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    /// Who.
    pub signer: SignerId,
    /// What they said.
    pub choice: Choice,
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
/// *Invariant*: each person counts once over all levels, whatever the number of their votes and keys;
/// a vote counts for the level that is open when it is given; people outside that level's group and
/// the requester never count, not even to reject.
pub fn evaluate(policy: &ApprovalPolicy, terms: &Terms, votes: &[Vote]) -> Standing {
    let (mut level, mut approvals, mut here) = (0_usize, 0_u32, 0_u32);
    let mut heard: BTreeSet<&str> = BTreeSet::new();
    for vote in votes {
        let Some(open) = policy.levels.get(level) else { break };
        let entitled = open.signers.contains(vote.signer.as_str()) && !is_requester(policy, terms, &vote.signer);
        if !entitled {
            continue;
        }
        // A second word of the same person adds nothing, but a no is never talked over.
        if !heard.insert(vote.signer.as_str()) && vote.choice == Choice::Approve {
            continue;
        }
        match vote.choice {
            Choice::Approve => {
                approvals = approvals.saturating_add(1);
                here = here.saturating_add(1);
            }
            Choice::Reject if policy.any_reject == Answer::Yes => return Standing::Rejected,
            Choice::Reject => {}
        }
        if here >= open.required() {
            level = level.saturating_add(1);
            here = 0;
        }
    }
    if level >= policy.levels.len() {
        return Standing::Complete { approvals };
    }
    let reachable = policy.levels.iter().enumerate().skip(level).all(|(at, needed)| {
        let free = |name: &&String| {
            !heard.contains(name.as_str()) && name.parse().is_ok_and(|signer| !is_requester(policy, terms, &signer))
        };
        let left = needed.signers.iter().filter(free);
        let have = if at == level { here } else { 0 };
        u32::try_from(left.count()).unwrap_or(u32::MAX).saturating_add(have) >= needed.required()
    });
    if reachable { Standing::Pending { approvals, level } } else { Standing::Rejected }
}

/// Whether a signer's level is open, in the order the levels are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Others must approve first.
    Later,
    /// It is, or nothing is left to decide.
    Now,
    /// It was complete without them: their vote is kept, with no effect.
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

/// Judges one more `vote` after the `earlier` ones, none of which is of the same person.
pub fn cast(policy: &ApprovalPolicy, terms: &Terms, earlier: &[Vote], vote: Vote) -> Cast {
    let before = evaluate(policy, terms, earlier);
    let turn = turn(policy, before, &vote.signer);
    let mut votes = earlier.to_vec();
    votes.push(vote);
    let standing = evaluate(policy, terms, &votes);
    Cast { turn, standing, advanced: level_of(standing) > level_of(before) }
}

fn turn(policy: &ApprovalPolicy, standing: Standing, signer: &SignerId) -> Turn {
    let Standing::Pending { level: open, .. } = standing else { return Turn::Now };
    let asked = |level: &Level| level.signers.contains(signer.as_str());
    if policy.levels.get(open).is_some_and(asked) {
        Turn::Now
    } else if policy.levels.iter().skip(open).any(asked) {
        Turn::Later
    } else {
        Turn::Past
    }
}

/// The level that is open; one past the last when none is.
fn level_of(standing: Standing) -> usize {
    match standing {
        Standing::Pending { level, .. } => level,
        Standing::Complete { .. } | Standing::Rejected => usize::MAX,
    }
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

/// Whether `signer` is the agent that asked, or the person it asked for where that person may not sign.
pub fn is_requester(policy: &ApprovalPolicy, terms: &Terms, signer: &SignerId) -> bool {
    let principal = signer.as_str() == terms.principal && policy.principal_may_sign == Answer::No;
    signer.as_str() == terms.agent.as_str() || principal
}
