//! The people of a test: their keys enrolled at the gateway, themselves listed at the signer service.

use std::collections::BTreeMap;

use countersign::journal::KeyEnrolment;
use countersign::proof::{SigningKey, key_id_of};
use countersign::signer::DirectoryEntry;

use super::database::TestDatabase;

/// A person as the signer service lists them.
pub(super) fn listed(person: &str, key: Option<&SigningKey>) -> DirectoryEntry {
    DirectoryEntry {
        signer_id: person.to_owned(),
        name: person.to_owned(),
        key_pem: key.map(|key| key.public().to_pem().unwrap()),
        online: true,
    }
}

/// The enrolment of a person's key.
pub(crate) fn enrolment(person: &str, key: &SigningKey) -> KeyEnrolment {
    KeyEnrolment {
        tenant: "default".parse().unwrap(),
        signer: person.parse().unwrap(),
        key_id: key_id_of(&key.public()).parse().unwrap(),
        by: "ops-1".to_owned(),
        node: "test".to_owned(),
    }
}

/// Pins the keys of all of them.
pub(super) async fn enrol(db: &TestDatabase, keys: &BTreeMap<&'static str, SigningKey>) {
    for (person, key) in keys {
        assert!(enrolment(person, key).pin(db.store(), &key.public()).await.unwrap());
    }
}
