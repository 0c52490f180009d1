//! Whether the decisions given make a quorum: a function of policy, votes and requester.

use std::collections::BTreeMap;

use super::choice::Choice;
use super::id::SignerId;
use super::payment::Terms;
use super::policy::ApprovalPolicy;

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
        /// Distinct eligible people who approved.
        approvals: u32,
    },
    /// The quorum is complete.
    Complete {
        /// Distinct eligible people who approved.
        approvals: u32,
    },
    /// Someone entitled to said no.
    Rejected,
}

/// Judges `votes` under `policy`.
///
/// *Invariant*: each person counts once, whatever the number of their votes; people outside the
/// policy's group and the requester never count, not even to reject.
pub fn evaluate(policy: &ApprovalPolicy, terms: &Terms, votes: &[Vote]) -> Standing {
    let mut by_person: BTreeMap<&SignerId, Choice> = BTreeMap::new();
    for vote in votes {
        if policy.is_eligible(&vote.signer) && !is_requester(terms, &vote.signer) {
            by_person
                .entry(&vote.signer)
                .and_modify(|choice| {
                    if vote.choice == Choice::Reject {
                        *choice = Choice::Reject;
                    }
                })
                .or_insert(vote.choice);
        }
    }
    if by_person.values().any(|choice| *choice == Choice::Reject) {
        return Standing::Rejected;
    }
    let approvals = u32::try_from(by_person.len()).unwrap_or(u32::MAX);
    if approvals >= policy.required() { Standing::Complete { approvals } } else { Standing::Pending { approvals } }
}

/// Whether `signer` is the agent that asked or the person it asked for.
pub fn is_requester(terms: &Terms, signer: &SignerId) -> bool {
    signer.as_str() == terms.agent.as_str() || signer.as_str() == terms.principal
}
