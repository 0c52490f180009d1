//! The people of a test: their keys enrolled at the gateway, themselves listed at the signer service.

use std::collections::BTreeMap;

use countersign::domain::{KeyId, Refusal};
use countersign::journal::Registry;
use countersign::proof::{PublicKey, SignerKey, SigningKey, key_id_of};
use countersign::signer::DirectoryEntry;
use countersign::store::Store;

use super::database::TestDatabase;
use super::wishes::Wishes;

/// What people are called where a browser looks.
const NAMES: [(&str, &str); 2] = [("finance-1", "Mia Lindqvist"), ("finance-2", "Tomás Herrera")];

/// The people as the signer service lists them.
pub(super) fn listed(keys: &BTreeMap<&'static str, SigningKey>, wishes: &Wishes) -> Vec<DirectoryEntry> {
    let entry = |(person, key): (&&'static str, &SigningKey)| {
        let name = NAMES.iter().find(|(id, _)| wishes.browsed && id == person).map_or(*person, |(_, name)| *name);
        let mut entry = DirectoryEntry {
            signer_id: (*person).to_owned(),
            name: name.to_owned(),
            key_pem: (!wishes.keyless).then(|| key.public().to_pem().unwrap()),
            online: true,
            ..DirectoryEntry::default()
        };
        if let Some(change) = &wishes.people {
            change(&mut entry);
        }
        entry
    };
    keys.iter().map(entry).collect()
}

/// The enrolment of a person's key.
pub(crate) fn enrolment(person: &str, key: &SigningKey) -> Enrolment {
    Enrolment { registry: registry(person), key_id: key_id_of(&key.public()).parse().unwrap() }
}

/// What `ops-1` may do with a person's keys.
pub(crate) fn registry(person: &str) -> Registry {
    Registry {
        tenant: "default".parse().unwrap(),
        signer: person.parse().unwrap(),
        by: "ops-1".to_owned(),
        node: "test".to_owned(),
    }
}

/// A person's key of a name.
pub(crate) struct Enrolment {
    registry: Registry,
    key_id: KeyId,
}

impl Enrolment {
    pub(crate) async fn pin(self, store: &Store, key: &PublicKey) -> Result<bool, Refusal> {
        self.registry.pin(store, &self.key_id, &SignerKey::Jws(key.clone())).await
    }

    pub(crate) async fn revoke(self, store: &Store) -> Result<(), Refusal> {
        self.registry.revoke(store, &self.key_id).await.map(drop)
    }
}

/// Pins the keys of all of them.
pub(super) async fn enrol(db: &TestDatabase, keys: &BTreeMap<&'static str, SigningKey>) {
    for (person, key) in keys {
        assert!(enrolment(person, key).pin(db.store(), &key.public()).await.unwrap());
    }
}
