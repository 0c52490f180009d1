//! Reading who is whom: people with several accounts, deputies, whom payees' accounts belong to.

use std::collections::{BTreeMap, BTreeSet};

use super::approval::{Level, Persons, person_of};
use super::deputy::Deputy;
use super::fault::{Lines, PolicyFault};
use super::file::{is_account, named, plain};
use super::text::{DeputyText, PayeesText, PolicyText, Word};
use crate::domain::id::SignerId;
use crate::domain::time::Timestamp;

/// Who is whom.
pub(super) struct People<'a> {
    pub(super) persons: Persons,
    /// Deputies, each with the place in the file that says whose.
    pub(super) deputies: Vec<(Deputy, &'a Word)>,
    /// Every name by which the file knows somebody.
    names: BTreeSet<&'a str>,
}

impl People<'_> {
    /// Those who may stand in for somebody of these levels.
    pub(super) fn deputies_in(&self, levels: &[Level]) -> Vec<Deputy> {
        let needed = self.deputies.iter().filter(|(deputy, _)| levels.iter().any(|level| level.has(&deputy.of)));
        let sorted: BTreeSet<&Deputy> = needed.map(|(deputy, _)| deputy).collect();
        sorted.into_iter().cloned().collect()
    }
}

/// What the file says of people; `groups` are those of signers.
pub(super) fn people<'a>(
    at: Lines<'_>,
    file: &'a PolicyText,
    groups: &'a BTreeMap<&str, BTreeSet<String>>,
) -> Result<People<'a>, PolicyFault> {
    let persons = persons(at, file)?;
    let mut deputies = Vec::new();
    for text in &file.deputy {
        deputies.push((deputy(at, text, &persons, groups)?, &text.of));
    }
    let mut names: BTreeSet<&str> = groups.values().flatten().map(String::as_str).collect();
    names.extend(file.deputy.iter().map(|deputy| deputy.signer.get_ref().as_str()));
    for (person, accounts) in &file.persons {
        names.insert(person.get_ref());
        names.extend(accounts.get_ref().iter().map(|account| account.get_ref().as_str()));
    }
    Ok(People { persons, deputies, names })
}

/// What stands before a name that tokens have and no signer.
const SUBJECT: &str = "sub:";

fn persons(at: Lines<'_>, file: &PolicyText) -> Result<Persons, PolicyFault> {
    let bare = |account: &str| account.strip_prefix(SUBJECT).unwrap_or(account).to_owned();
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    let mut persons = Persons::new();
    for (person, accounts) in &file.persons {
        let (name, place) = (person.get_ref().as_str(), format!("[persons] {}", person.get_ref()));
        plain(at, "[persons]", person)?;
        if name.starts_with(SUBJECT) {
            return at.fault(person, format_args!("{place}: is not a person's name"));
        }
        let own = named(at, &place, accounts, is_persons, "is not a signer's name, nor sub: before another's")?;
        for account in accounts.get_ref() {
            let of_another =
                file.persons.keys().any(|other| other.get_ref() != name && *other.get_ref() == bare(account.get_ref()));
            let owner = owners.insert(bare(account.get_ref()), name);
            if of_another || owner.is_some_and(|owner| owner != name) {
                return at.fault(account, format_args!("{place}: {:?} is another person's as well", account.get_ref()));
            }
        }
        persons.insert(name.to_owned(), own);
    }
    Ok(persons)
}

fn is_persons(account: &str) -> bool {
    let subject = account.strip_prefix(SUBJECT).is_some_and(|subject| {
        (1..=255).contains(&subject.len()) && !subject.chars().any(|c| c.is_control() || c.is_whitespace())
    });
    subject || account.parse::<SignerId>().is_ok()
}

fn deputy(
    at: Lines<'_>,
    text: &DeputyText,
    persons: &Persons,
    groups: &BTreeMap<&str, BTreeSet<String>>,
) -> Result<Deputy, PolicyFault> {
    let (of, signer) = (text.of.get_ref(), text.signer.get_ref());
    if !groups.values().any(|people| people.contains(of)) {
        return at.fault(&text.of, format_args!("[[deputy]] of: {of:?} is in no group"));
    }
    if signer.parse::<SignerId>().is_err() {
        return at.fault(&text.signer, format_args!("[[deputy]] signer: {signer:?} is not a signer's name"));
    }
    if person_of(persons, of) == person_of(persons, signer) {
        return at.fault(&text.signer, "[[deputy]] signer: nobody is their own deputy");
    }
    let bound = |key: &str, word: &Word| {
        let why = format!("[[deputy]] {key}: must be a time as RFC 3339 writes it, such as \"2026-12-24T00:00:00Z\"");
        Timestamp::parse_rfc3339(word.get_ref()).map_or_else(|| at.fault(word, why), Ok)
    };
    let (from, until) = (bound("from", &text.from)?, bound("until", &text.until)?);
    if until <= from {
        return at.fault(&text.until, "[[deputy]] until: must be after from");
    }
    Ok(Deputy { of: of.clone(), signer: signer.clone(), from: from.rfc3339(), until: until.rfc3339() })
}

/// Whom payees' accounts belong to. Who is known to nobody else is a slip of the pen that would bar nobody.
pub(super) fn beneficiaries(
    at: Lines<'_>,
    text: &PayeesText,
    people: &People<'_>,
) -> Result<BTreeMap<String, String>, PolicyFault> {
    let mut beneficiaries = BTreeMap::new();
    for (account, name) in &text.beneficiaries {
        let (key, owner) = (account.get_ref(), name.get_ref());
        if !is_account(key) {
            return at.fault(account, format_args!("[payees.beneficiaries]: {key:?} is not an account"));
        }
        if !people.names.contains(owner.as_str()) {
            let why = "is in no group, no deputy, and not among [persons]";
            return at.fault(name, format_args!("[payees.beneficiaries] {key}: {owner:?} {why}"));
        }
        beneficiaries.insert(key.clone(), owner.clone());
    }
    Ok(beneficiaries)
}
