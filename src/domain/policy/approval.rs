//! Who must approve a payment: levels of groups, in order.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::domain::id::SignerId;

/// The part of the policy that is snapshotted with a payment and signed by digest.
///
/// Its JSON form is canonical: strings, and sorted lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalPolicy {
    /// The policy's name.
    pub id: String,
    /// Its version, as the file's author counts it.
    pub version: String,
    /// The rule that asks for these approvals.
    pub rule: String,
    /// Who must approve, one level after the other. Never empty.
    pub levels: Vec<Level>,
    /// Whether one rejection ends the payment; else only when the quorum is out of reach.
    pub any_reject: Answer,
    /// Whether the person the agent acts for may be one of the signers.
    pub principal_may_sign: Answer,
}

/// One level: so many of one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The group's name.
    pub group: String,
    /// How many distinct people of the group must approve.
    pub required: String,
    /// The people in the group.
    pub signers: BTreeSet<String>,
}

/// Yes or no, as a word: signed documents hold strings only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Yes.
    Yes,
    /// No.
    No,
}

impl From<bool> for Answer {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

impl Level {
    /// How many distinct people must approve. Never zero.
    pub fn required(&self) -> u32 {
        self.required.parse().unwrap_or(u32::MAX).max(1)
    }
}

impl ApprovalPolicy {
    /// How many approvals complete it, over all levels.
    pub fn required(&self) -> u32 {
        self.levels.iter().fold(0, |sum, level| level.required().saturating_add(sum)).max(1)
    }

    /// The requirement in one line, such as `2 of finance, then 1 of board`: what signers sign.
    pub fn required_text(&self) -> String {
        let levels: Vec<String> =
            self.levels.iter().map(|level| format!("{} of {}", level.required, level.group)).collect();
        levels.join(", then ")
    }

    /// Whether `signer` may decide at some level.
    pub fn is_eligible(&self, signer: &SignerId) -> bool {
        self.levels.iter().any(|level| level.signers.contains(signer.as_str()))
    }

    /// Everyone who may decide at some level.
    pub fn signers(&self) -> BTreeSet<&str> {
        self.levels.iter().flat_map(|level| &level.signers).map(String::as_str).collect()
    }
}
