//! Whether the decisions given make a quorum: a function of policy, votes and requester.

use std::collections::BTreeSet;

use super::choice::Choice;
use super::id::SignerId;
use super::payment::Terms;
use super::policy::{Answer, ApprovalPolicy};

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

/// Whether `signer` is the agent that asked, or the person it asked for where that person may not sign.
pub fn is_requester(policy: &ApprovalPolicy, terms: &Terms, signer: &SignerId) -> bool {
    let principal = signer.as_str() == terms.principal && policy.principal_may_sign == Answer::No;
    signer.as_str() == terms.agent.as_str() || principal
}
