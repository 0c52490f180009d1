//! A passkey in software: makes and uses keys as a browser with an authenticator does, and misbehaves on demand.

use std::cell::Cell;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use ciborium::Value;
use countersign::proof::{Assertion, Registration, RelyingParty, b64url};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// What of an answer is not as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Odd<'a> {
    /// Another origin.
    pub(crate) origin: Option<&'a str>,
    /// Another site.
    pub(crate) rp_id: Option<&'a str>,
    /// Another ceremony.
    pub(crate) kind: Option<&'a str>,
    /// Other flags.
    pub(crate) flags: Option<u8>,
    /// Another counter.
    pub(crate) counter: Option<u32>,
    /// Asked from within another site's frame.
    pub(crate) framed: bool,
}

/// User present and verified.
const GOOD: u8 = 0x05;

/// One passkey.
pub(crate) struct SoftPasskey {
    site: RelyingParty,
    pair: EcdsaKeyPair,
    pub(crate) credential_id: String,
    counter: Cell<u32>,
}

impl SoftPasskey {
    pub(crate) fn new(site: &RelyingParty) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let credential_id = b64url(&Sha256::digest(pair.public_key())[..16]);
        Self { site: site.clone(), pair, credential_id, counter: Cell::new(0) }
    }

    /// Makes it known under `digest`.
    pub(crate) fn register(&self, digest: &str, odd: Odd<'_>) -> Registration {
        let point = self.pair.public_key().as_ref();
        let cose = Value::Map(vec![
            (1.into(), 2.into()),
            (3.into(), (-7).into()),
            ((-1).into(), 1.into()),
            ((-2).into(), Value::Bytes(point[1..33].to_vec())),
            ((-3).into(), Value::Bytes(point[33..65].to_vec())),
        ]);
        self.register_with(digest, &cose, odd)
    }

    /// Makes it known with a COSE key of the test's own.
    pub(crate) fn register_with(&self, digest: &str, cose: &Value, odd: Odd<'_>) -> Registration {
        let mut data = self.authenticator_data(odd, 0x40);
        data.extend_from_slice(&[0; 16]);
        let id = countersign::proof::from_b64url(&self.credential_id).unwrap();
        data.extend_from_slice(&u16::try_from(id.len()).unwrap().to_be_bytes());
        data.extend_from_slice(&id);
        ciborium::into_writer(cose, &mut data).unwrap();
        let object = Value::Map(vec![
            ("fmt".into(), "none".into()),
            ("attStmt".into(), Value::Map(Vec::new())),
            ("authData".into(), Value::Bytes(data)),
        ]);
        let mut attestation = Vec::new();
        ciborium::into_writer(&object, &mut attestation).unwrap();
        Registration {
            client_data_json: b64url(self.client_data("webauthn.create", digest, odd)),
            attestation_object: b64url(attestation),
        }
    }

    /// Signs `digest`.
    pub(crate) fn sign(&self, digest: &str, odd: Odd<'_>) -> String {
        self.counter.set(self.counter.get() + 1);
        let client_data = self.client_data("webauthn.get", digest, odd);
        let data = self.authenticator_data(odd, 0);
        let signed = [data.as_slice(), &Sha256::digest(&client_data)].concat();
        let signature = self.pair.sign(&SystemRandom::new(), &signed).unwrap();
        Assertion {
            credential_id: self.credential_id.clone(),
            authenticator_data: b64url(data),
            client_data_json: b64url(client_data),
            signature: b64url(signature),
        }
        .to_text()
        .unwrap()
    }

    fn authenticator_data(&self, odd: Odd<'_>, more: u8) -> Vec<u8> {
        let mut data = Sha256::digest(odd.rp_id.unwrap_or(&self.site.id).as_bytes()).to_vec();
        data.push(odd.flags.unwrap_or(GOOD) | more);
        data.extend_from_slice(&odd.counter.unwrap_or(self.counter.get()).to_be_bytes());
        data
    }

    /// The bytes as browsers write them: members that are not checked stand beside those that are.
    fn client_data(&self, kind: &str, challenge: &str, odd: Odd<'_>) -> Vec<u8> {
        let own = self.site.origins.first().unwrap();
        let mut data = json!({"type": odd.kind.unwrap_or(kind), "challenge": challenge,
            "origin": odd.origin.unwrap_or(own), "crossOrigin": odd.framed, "other_keys_can_be_added_here": "x"});
        if odd.framed {
            data["topOrigin"] = json!("https://evil.example");
        }
        data.to_string().into_bytes()
    }
}
