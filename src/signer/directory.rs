//! Who can be asked: names and, where known, public keys; from configuration.

use std::collections::HashMap;

use super::channels::{CONSOLE, Channels, Hours, Language, Way};
use super::settings::SignerFault;
use crate::domain::{PartyName, SignerId};
use crate::proof::{Challenge, PublicKey};

/// A person who can be asked.
#[derive(Debug, Clone, Default)]
pub struct DirectoryEntry {
    /// The person, as the gateway's policy names them.
    pub signer_id: String,
    /// The person's name, for people to read.
    pub name: String,
    /// The person's Ed25519 public key in PEM, if the service is to check signatures early.
    ///
    /// The gateway verifies against its own pinned keys in any case.
    pub key_pem: Option<String>,
    /// Whether the person can be reached, until something else is said.
    pub online: bool,
    /// The language that they are written to in.
    pub language: Language,
    /// Their channels, in the order in which they are tried; none: the console.
    pub ways: Vec<Way>,
    /// Their time zone (IANA); empty for UTC.
    pub zone: String,
    /// Hours by their clock in which nothing is sent, such as `22:00-07:00`; empty for none.
    pub quiet_hours: String,
}

/// How a person is written to.
#[derive(Debug)]
pub(super) struct Contact {
    /// In which language.
    pub(super) language: Language,
    /// Where, in the order in which it is tried; at least one.
    pub(super) ways: Vec<Way>,
    /// When not, and by what clock.
    pub(super) hours: Hours,
}

/// One entry, checked.
#[derive(Debug)]
pub(super) struct Person {
    /// The person's name.
    pub(super) name: String,
    /// The person's public key, if known.
    pub(super) key: Option<PublicKey>,
    /// How they are written to.
    pub(super) contact: Contact,
}

/// The directory, checked.
#[derive(Debug)]
pub(super) struct Directory(HashMap<String, Person>);

impl Directory {
    /// Checks every entry.
    pub(super) fn parse(entries: &[DirectoryEntry], channels: &Channels) -> Result<Self, SignerFault> {
        let mut people = HashMap::new();
        for entry in entries {
            let unusable = |why: &str| SignerFault::setting("directory", format!("{:?}: {why}", entry.signer_id));
            entry.signer_id.parse::<SignerId>().map_err(|refusal| unusable(&refusal.message))?;
            PartyName::parse("name", &entry.name).map_err(|refusal| unusable(&refusal.message))?;
            let key = match &entry.key_pem {
                Some(pem) => Some(PublicKey::from_pem(pem).map_err(|_| unusable("its key is not an Ed25519 PEM"))?),
                None => None,
            };
            let contact = contact(entry, channels).map_err(|why| unusable(&why))?;
            let person = Person { name: entry.name.clone(), key, contact };
            if people.insert(entry.signer_id.clone(), person).is_some() {
                return Err(unusable("is named twice"));
            }
        }
        Ok(Self(people))
    }

    /// Whether the person is known.
    pub(super) fn knows(&self, signer_id: &str) -> bool {
        self.0.contains_key(signer_id)
    }

    /// The first who is asked and not known.
    pub(super) fn stranger<'a>(&self, asked: &'a [Challenge]) -> Option<&'a str> {
        asked.iter().map(|challenge| challenge.signer_id.as_str()).find(|signer| !self.knows(signer))
    }

    /// The person's name; their id when they have none.
    pub(super) fn name<'a>(&'a self, signer_id: &'a str) -> &'a str {
        self.0.get(signer_id).map(|person| person.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(signer_id)
    }

    /// How the person is written to.
    pub(super) fn contact(&self, signer_id: &str) -> Option<&Contact> {
        self.0.get(signer_id).map(|person| &person.contact)
    }

    /// The channel that is tried first.
    pub(super) fn first_channel(&self, signer_id: &str) -> &str {
        self.contact(signer_id).and_then(|contact| contact.ways.first()).map_or(CONSOLE, |way| way.channel.as_str())
    }

    /// The person's public key, if known.
    pub(super) fn key(&self, signer_id: &str) -> Option<&PublicKey> {
        self.0.get(signer_id).and_then(|person| person.key.as_ref())
    }
}

/// Checks how a person is to be written to.
fn contact(entry: &DirectoryEntry, channels: &Channels) -> Result<Contact, String> {
    let hours = Hours::parse(&entry.zone, &entry.quiet_hours)?;
    for way in &entry.ways {
        let channel = channels.get(&way.channel).ok_or_else(|| format!("there is no channel {:?}", way.channel))?;
        channel.check(&way.to).map_err(|why| format!("{}: {why}", way.channel))?;
    }
    let ways = if entry.ways.is_empty() {
        vec![Way { channel: CONSOLE.to_owned(), to: String::new() }]
    } else {
        entry.ways.clone()
    };
    Ok(Contact { language: entry.language, ways, hours })
}
