//! The policy file as it is written: every key, and where its value stands.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

pub(super) type Word = Spanned<String>;
pub(super) type Words = Spanned<Vec<Word>>;
pub(super) type Number = Spanned<u32>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyText {
    pub(super) id: Word,
    pub(super) version: Word,
    pub(super) roles: Spanned<BTreeMap<Word, Vec<Word>>>,
    pub(super) groups: BTreeMap<Word, Words>,
    #[serde(default)]
    pub(super) persons: BTreeMap<Word, Words>,
    #[serde(default)]
    pub(super) deputy: Vec<DeputyText>,
    pub(super) approval: ApprovalText,
    #[serde(default)]
    pub(super) rule: Vec<RuleText>,
    #[serde(default)]
    pub(super) limit: Vec<LimitText>,
    #[serde(default)]
    pub(super) payees: PayeesText,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalText {
    pub(super) group: Word,
    pub(super) required: Number,
    #[serde(default)]
    pub(super) confirmations: Option<Number>,
    #[serde(default = "yes")]
    pub(super) any_reject: bool,
    #[serde(default)]
    pub(super) principal_may_sign: bool,
}

/// One group by itself, or several at once.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LevelText {
    #[serde(default)]
    pub(super) group: Option<Word>,
    #[serde(default)]
    pub(super) required: Option<Number>,
    #[serde(default)]
    pub(super) groups: Option<Vec<GroupText>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupText {
    pub(super) group: Word,
    pub(super) required: Number,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeputyText {
    pub(super) of: Word,
    pub(super) signer: Word,
    pub(super) from: Word,
    pub(super) until: Word,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleText {
    pub(super) id: Word,
    #[serde(default)]
    pub(super) currency: Option<Word>,
    #[serde(default)]
    pub(super) amount_at_least: Option<Word>,
    #[serde(default)]
    pub(super) amount_below: Option<Word>,
    #[serde(default)]
    pub(super) sum_hours: Option<Number>,
    #[serde(default)]
    pub(super) payees: Option<Words>,
    #[serde(default)]
    pub(super) agents: Option<Words>,
    #[serde(default)]
    pub(super) deny: bool,
    #[serde(default)]
    pub(super) levels: Vec<Spanned<LevelText>>,
    #[serde(default)]
    pub(super) confirmations: Option<Number>,
    #[serde(default)]
    pub(super) any_reject: Option<Spanned<bool>>,
    #[serde(default)]
    pub(super) principal_may_sign: Option<Spanned<bool>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitText {
    pub(super) id: Word,
    pub(super) binds: Word,
    #[serde(default)]
    pub(super) currencies: Option<Words>,
    #[serde(default)]
    pub(super) payees: Option<Words>,
    #[serde(default)]
    pub(super) currency: Option<Word>,
    #[serde(default)]
    pub(super) per_payment: Option<Word>,
    #[serde(default)]
    pub(super) window_hours: Option<Number>,
    #[serde(default)]
    pub(super) window_amount: Option<Word>,
    #[serde(default)]
    pub(super) window_count: Option<Number>,
    #[serde(default)]
    pub(super) open: Option<Number>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PayeesText {
    #[serde(default)]
    pub(super) only_known: bool,
    #[serde(default)]
    pub(super) denied: Vec<Word>,
    #[serde(default)]
    pub(super) known: BTreeMap<Word, Word>,
    #[serde(default)]
    pub(super) beneficiaries: BTreeMap<Word, Word>,
}

const fn yes() -> bool {
    true
}
