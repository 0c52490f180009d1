//! Who can be asked: names and, where known, public keys; from configuration.

use std::collections::HashMap;

use super::settings::SignerFault;
use crate::domain::{PartyName, SignerId};
use crate::proof::{Challenge, PublicKey};

/// A person who can be asked.
#[derive(Debug, Clone)]
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
}

/// One entry, checked.
#[derive(Debug)]
pub(super) struct Person {
    /// The person's name.
    pub(super) name: String,
    /// The person's public key, if known.
    pub(super) key: Option<PublicKey>,
}

/// The directory, checked.
#[derive(Debug)]
pub(super) struct Directory(HashMap<String, Person>);

impl Directory {
    /// Checks every entry.
    pub(super) fn parse(entries: &[DirectoryEntry]) -> Result<Self, SignerFault> {
        let mut people = HashMap::new();
        for entry in entries {
            let unusable = |why: &str| SignerFault::setting("directory", format!("{:?}: {why}", entry.signer_id));
            entry.signer_id.parse::<SignerId>().map_err(|refusal| unusable(&refusal.message))?;
            PartyName::parse("name", &entry.name).map_err(|refusal| unusable(&refusal.message))?;
            let key = match &entry.key_pem {
                Some(pem) => Some(PublicKey::from_pem(pem).map_err(|_| unusable("its key is not an Ed25519 PEM"))?),
                None => None,
            };
            if people.insert(entry.signer_id.clone(), Person { name: entry.name.clone(), key }).is_some() {
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

    /// The person's public key, if known.
    pub(super) fn key(&self, signer_id: &str) -> Option<&PublicKey> {
        self.0.get(signer_id).and_then(|person| person.key.as_ref())
    }
}
