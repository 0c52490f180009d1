//! Reading who must approve: groups that there are, and as many people as are asked for.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;

use super::approval::{ApprovalPolicy, Group, Level, Persons, person_of};
use super::fault::{Lines, PolicyFault};
use super::people_file::People;
use super::text::{GroupText, LevelText, Number, Word};

/// The most groups that one level asks at once.
const MOST_GROUPS: usize = 8;

/// So many of a group, as it is written.
pub(super) type Quota<'a> = (&'a Word, &'a Number);

/// What a level asks for.
pub(super) fn quotas<'a>(
    at: Lines<'_>,
    place: &str,
    level: &'a Spanned<LevelText>,
) -> Result<Vec<Quota<'a>>, PolicyFault> {
    let quota = |GroupText { group, required }: &'a GroupText| (group, required);
    let quotas: Vec<Quota<'_>> = match level.get_ref() {
        LevelText { group: Some(group), required: Some(required), groups: None } => vec![(group, required)],
        LevelText { group: None, required: None, groups: Some(groups) } => groups.iter().map(quota).collect(),
        LevelText { .. } => {
            return at.fault(level, format_args!("{place}: levels: give either group and required, or groups"));
        }
    };
    if quotas.is_empty() || quotas.len() > MOST_GROUPS {
        return at.fault(level, format_args!("{place}: levels: groups: must be 1 to {MOST_GROUPS} groups"));
    }
    Ok(quotas)
}

/// What a rule, or the default, asks for, as it is written.
pub(super) struct Wanted<'a> {
    pub(super) rule: &'a str,
    pub(super) levels: Vec<Vec<Quota<'a>>>,
    pub(super) confirmations: Option<&'a Number>,
    pub(super) any_reject: bool,
    pub(super) principal_may_sign: bool,
}

/// What rules and the default share.
pub(super) struct Reader<'a> {
    pub(super) at: Lines<'a>,
    pub(super) id: &'a str,
    pub(super) version: &'a str,
    pub(super) groups: &'a BTreeMap<&'a str, BTreeSet<String>>,
    pub(super) people: &'a People<'a>,
}

impl Reader<'_> {
    pub(super) fn approval(&self, place: &str, wanted: &Wanted<'_>) -> Result<ApprovalPolicy, PolicyFault> {
        let mut levels: Vec<Level> = Vec::new();
        for quotas in &wanted.levels {
            let level = self.level(place, quotas)?;
            self.enough(place, quotas, &level, &levels)?;
            self.can_be_stood_in_for(place, &level)?;
            levels.push(level);
        }
        let confirmations = match wanted.confirmations.map(|number| (number, *number.get_ref())) {
            None | Some((_, 1)) => String::new(),
            Some((_, 2)) => "2".to_owned(),
            Some((number, _)) => return self.at.fault(number, format_args!("{place}: confirmations: must be 1 or 2")),
        };
        let deputies = self.people.deputies_in(&levels);
        let mut accounts: BTreeSet<&str> = levels.iter().flat_map(Level::signers).collect();
        accounts.extend(deputies.iter().map(|deputy| deputy.signer.as_str()));
        // People who can't be asked are none of the rule's.
        let asked = |(person, own): &(&String, &BTreeSet<String>)| {
            accounts.contains(person.as_str()) || own.iter().any(|account| accounts.contains(account.as_str()))
        };
        let persons: Persons =
            self.people.persons.iter().filter(asked).map(|(key, own)| (key.clone(), own.clone())).collect();
        Ok(ApprovalPolicy {
            id: self.id.to_owned(),
            version: self.version.to_owned(),
            rule: wanted.rule.to_owned(),
            levels,
            any_reject: wanted.any_reject.into(),
            principal_may_sign: wanted.principal_may_sign.into(),
            confirmations,
            persons,
            deputies,
            beneficiary: String::new(),
        })
    }

    fn level(&self, place: &str, quotas: &[Quota<'_>]) -> Result<Level, PolicyFault> {
        let mut groups: Vec<Group> = Vec::new();
        for (group, required) in quotas {
            let name = group.get_ref();
            let Some(signers) = self.groups.get(name.as_str()) else {
                return self.at.fault(group, format_args!("{place}: there is no group {name:?}"));
            };
            if groups.iter().any(|earlier| earlier.group == *name) {
                return self.at.fault(group, format_args!("{place}: levels: {name:?} is there twice in one level"));
            }
            let required = required.get_ref().to_string();
            groups.push(Group { group: name.clone(), required, signers: signers.clone() });
        }
        Ok(Level { groups })
    }

    /// Refuses a level that could lack people: a person counts once over all groups and levels, and whoever earlier
    /// levels may use up is not there for this one.
    fn enough(&self, place: &str, quotas: &[Quota<'_>], level: &Level, earlier: &[Level]) -> Result<(), PolicyFault> {
        let most = 1_u32.checked_shl(u32::try_from(quotas.len()).unwrap_or(u32::MAX)).unwrap_or(0);
        let mut choices: Vec<u32> = (1..most).collect();
        choices.sort_by_key(|choice| choice.count_ones());
        // Each choice of groups must have as many people as all of it asks for (Hall's theorem).
        for choice in choices {
            let chosen: Vec<(&Group, &Quota<'_>)> = level
                .groups
                .iter()
                .zip(quotas)
                .enumerate()
                .filter(|(at, _)| choice >> at & 1 == 1)
                .map(|(_, pair)| pair)
                .collect();
            let people = self.persons_of(chosen.iter().map(|(group, _)| *group));
            let used: usize = earlier
                .iter()
                .map(|level| {
                    let shared = self.persons_of(&level.groups).intersection(&people).count();
                    shared.min(usize::try_from(level.required()).unwrap_or(usize::MAX))
                })
                .sum();
            let left = u32::try_from(people.len().saturating_sub(used)).unwrap_or(u32::MAX);
            let asked = chosen.iter().map(|(_, (_, required))| *required.get_ref());
            let (none, asked) = (asked.clone().any(|count| count == 0), asked.fold(0, u32::saturating_add));
            let Some((_, (name, required))) = chosen.last().filter(|_| none || asked > left) else { continue };
            if chosen.len() == 1 {
                let name = name.get_ref();
                if left == 0 {
                    return self.at.fault(
                        required,
                        format_args!("{place}: required: nobody of {name:?} may be left for this level once the levels before it are complete; add people to the group"),
                    );
                }
                return self.at.fault(
                    required,
                    format_args!("{place}: required: must be 1 to {left}, the people that {name:?} has for this level"),
                );
            }
            let names: Vec<&str> = chosen.iter().map(|(group, _)| group.group.as_str()).collect();
            return self.at.fault(
                required,
                format_args!(
                    "{place}: required: {} ask for {asked} people, and have {left} for this level: each counts once",
                    names.join(" and ")
                ),
            );
        }
        Ok(())
    }

    fn persons_of<'b>(&'b self, groups: impl IntoIterator<Item = &'b Group>) -> BTreeSet<&'b str> {
        let accounts = groups.into_iter().flat_map(|group| &group.signers);
        accounts.map(|account| person_of(&self.people.persons, account)).collect()
    }

    /// Refuses a deputy of a person whose accounts are in different groups of a level: it could not be told for which
    /// of the groups the deputy speaks.
    fn can_be_stood_in_for(&self, place: &str, level: &Level) -> Result<(), PolicyFault> {
        let groups_of =
            |account: &str| level.groups.iter().map(|group| group.signers.contains(account)).collect::<Vec<_>>();
        for (deputy, written) in &self.people.deputies {
            let person = person_of(&self.people.persons, &deputy.of);
            let own = level.signers().into_iter().filter(|account| person_of(&self.people.persons, account) == person);
            let kinds: BTreeSet<Vec<bool>> = own.map(groups_of).collect();
            if kinds.len() > 1 {
                return self.at.fault(
                    written,
                    format_args!("[[deputy]] of: the accounts of {person:?} are in different groups of a level of {place}; put one of them in all of these"),
                );
            }
        }
        Ok(())
    }
}
