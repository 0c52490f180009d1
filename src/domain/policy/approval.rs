//! Who must approve a payment: levels of groups, in order, and who is whom.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::deputy::Deputy;
use crate::domain::id::SignerId;
use crate::domain::time::Timestamp;

/// The part of the policy that is snapshotted with a payment and signed by digest.
///
/// Its JSON form is canonical: strings, and sorted lists. What a rule does not use is not in it, so that a rule has
/// the digest that it had before there was such a thing.
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
    /// How often a person must confirm, each time with another key; `""` for once.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub confirmations: String,
    /// People with several accounts, and those accounts: signers' names, and `sub:` before what else tokens call them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub persons: Persons,
    /// Who may stand in for whom, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deputies: Vec<Deputy>,
    /// Whom the payee's account belongs to; `""` for nobody known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub beneficiary: String,
}

/// One level: so many of each of its groups, in whatever order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "LevelForm", into = "LevelForm")]
pub struct Level {
    /// Its groups. Never empty.
    pub groups: Vec<Group>,
}

/// So many people of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The group's name.
    pub group: String,
    /// How many distinct people of the group must approve.
    pub required: String,
    /// The people in the group.
    pub signers: BTreeSet<String>,
}

/// A level as it is written: one group by itself, or a list of them.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LevelForm {
    One(Group),
    Several(Groups),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Groups {
    groups: Vec<Group>,
}

impl From<LevelForm> for Level {
    fn from(form: LevelForm) -> Self {
        match form {
            LevelForm::One(group) => Self { groups: vec![group] },
            LevelForm::Several(Groups { groups }) => Self { groups },
        }
    }
}

impl From<Level> for LevelForm {
    fn from(level: Level) -> Self {
        match <[Group; 1]>::try_from(level.groups) {
            Ok([group]) => Self::One(group),
            Err(groups) => Self::Several(Groups { groups }),
        }
    }
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

/// People with several accounts, and those accounts.
pub(super) type Persons = BTreeMap<String, BTreeSet<String>>;

/// The person whose account this is: the one that it is listed under, or else the account is one.
pub(super) fn person_of<'a>(persons: &'a Persons, account: &'a str) -> &'a str {
    let known = persons.iter().find(|(_, accounts)| accounts.contains(account));
    known.map_or(account, |(person, _)| person)
}

/// A number as signed documents hold it; one that can't be read is never reached, and nobody is never enough.
fn count(text: &str) -> u32 {
    text.parse().unwrap_or(u32::MAX).max(1)
}

impl Group {
    /// How many distinct people must approve. Never zero.
    pub fn required(&self) -> u32 {
        count(&self.required)
    }
}

impl Level {
    /// How many approvals complete it. Never zero.
    pub fn required(&self) -> u32 {
        self.groups.iter().map(Group::required).fold(0, u32::saturating_add).max(1)
    }

    /// Whether some group of it has this account.
    pub fn has(&self, account: &str) -> bool {
        self.groups.iter().any(|group| group.signers.contains(account))
    }

    /// The accounts of its groups.
    pub fn signers(&self) -> BTreeSet<&str> {
        self.groups.iter().flat_map(|group| &group.signers).map(String::as_str).collect()
    }

    fn text(&self) -> String {
        let groups = self.groups.iter().map(|group| format!("{} of {}", group.required, group.group));
        groups.collect::<Vec<_>>().join(" and ")
    }
}

impl ApprovalPolicy {
    /// How many approvals complete it, over all levels.
    pub fn required(&self) -> u32 {
        self.levels.iter().map(Level::required).fold(0, u32::saturating_add).max(1)
    }

    /// How often a person must confirm, each time with another key. Never zero.
    pub fn confirmations(&self) -> u32 {
        if self.confirmations.is_empty() { 1 } else { count(&self.confirmations) }
    }

    /// The requirement in one line, such as `2 of finance and 1 of legal, then 1 of board`: what signers sign.
    pub fn required_text(&self) -> String {
        let levels: Vec<String> = self.levels.iter().map(Level::text).collect();
        let levels = levels.join(", then ");
        match self.confirmations() {
            1 => levels,
            _ => format!("{levels}; each with {} keys", self.confirmations),
        }
    }

    /// Whether `signer` may decide at some level, in their own right or as somebody's deputy.
    pub fn is_eligible(&self, signer: &SignerId) -> bool {
        self.signers().contains(signer.as_str())
    }

    /// Everyone who may decide at some level, deputies included.
    pub fn signers(&self) -> BTreeSet<&str> {
        let deputies = self.deputies.iter().map(|deputy| deputy.signer.as_str());
        self.levels.iter().flat_map(Level::signers).chain(deputies).collect()
    }

    /// The person whose account this is: by the list of people, or else the account is one.
    pub fn person<'a>(&'a self, account: &'a str) -> &'a str {
        person_of(&self.persons, account)
    }

    /// The accounts that `account` may speak for at `at`, or at whatever time: itself, and those it is deputy of then.
    pub fn voices<'a>(&'a self, account: &'a str, at: Option<Timestamp>) -> impl Iterator<Item = &'a str> {
        let stands_in = move |deputy: &&Deputy| deputy.signer == account && at.is_none_or(|at| deputy.is_in_force(at));
        [account].into_iter().chain(self.deputies.iter().filter(stands_in).map(|deputy| deputy.of.as_str()))
    }

    /// Whether `signer` has a voice at `at`: a member of some group has it always, a deputy in their time.
    pub fn has_voice(&self, signer: &SignerId, at: Timestamp) -> bool {
        self.voices(signer.as_str(), Some(at)).any(|account| self.levels.iter().any(|level| level.has(account)))
    }
}
