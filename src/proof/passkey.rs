//! Passkeys: WebAuthn assertions whose challenge is the digest of what is signed.
//!
//! The checks are those of WebAuthn level 3, §7.2, in a form that knows its answer beforehand: one challenge, one
//! relying party, user verification always. Nothing here keeps state; a counter that runs backwards is the caller's.

use std::collections::BTreeSet;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::canonical::{b64url, from_b64url, jcs};
use super::jws::ProofFault;

/// What a passkey's decision names as its key: which one it was, the assertion itself says.
pub const PASSKEY: &str = "passkey";

/// Whom passkeys are made for: what the browser vouches for in every answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelyingParty {
    /// Its id, a host name such as `sign.example`.
    pub id: String,
    /// The origins whose pages may ask, such as `https://sign.example`; compared exactly.
    pub origins: BTreeSet<String>,
}

/// How a passkey signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasskeyAlg {
    /// ECDSA on P-256 with SHA-256 (COSE -7).
    Es256,
    /// Ed25519 (COSE -8).
    EdDsa,
    /// RSASSA-PKCS1-v1_5 with SHA-256 (COSE -257): Windows Hello.
    Rs256,
}

impl PasskeyAlg {
    /// Its name, as the registry keeps it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
        }
    }

    /// Reads a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Es256, Self::EdDsa, Self::Rs256].into_iter().find(|alg| alg.as_str() == name)
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Es256 => &ECDSA_P256_SHA256_ASN1,
            Self::EdDsa => &ED25519,
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

/// A passkey's public half.
#[derive(Debug, Clone)]
pub struct PasskeyKey {
    alg: PasskeyAlg,
    /// `SubjectPublicKeyInfo`, DER.
    spki: Vec<u8>,
    parsed: ParsedPublicKey,
}

impl PartialEq for PasskeyKey {
    fn eq(&self, other: &Self) -> bool {
        (self.alg, &self.spki) == (other.alg, &other.spki)
    }
}

impl Eq for PasskeyKey {}

impl PasskeyKey {
    /// Reads a `SubjectPublicKeyInfo` (RFC 5280), DER.
    pub(super) fn from_spki(alg: PasskeyAlg, spki: Vec<u8>) -> Result<Self, ProofFault> {
        let parsed = ParsedPublicKey::new(alg.verification(), &spki).map_err(|_| ProofFault::Key)?;
        Ok(Self { alg, spki, parsed })
    }

    /// Reads what the registry keeps: the algorithm's name, and the DER in base64url.
    pub fn parse(alg: &str, public_key: &str) -> Result<Self, ProofFault> {
        let alg = PasskeyAlg::from_name(alg).ok_or(ProofFault::Key)?;
        Self::from_spki(alg, from_b64url(public_key).ok_or(ProofFault::Key)?)
    }

    /// How it signs.
    pub const fn alg(&self) -> PasskeyAlg {
        self.alg
    }

    /// `SubjectPublicKeyInfo` in base64url, the form that the registry keeps.
    pub fn to_b64url(&self) -> String {
        b64url(&self.spki)
    }

    /// A name for it, from the key itself: `passkey-` and 16 base64url characters.
    pub fn key_id(&self) -> String {
        let digest = b64url(Sha256::digest(&self.spki));
        format!("{PASSKEY}-{}", digest.chars().filter(char::is_ascii_alphanumeric).take(16).collect::<String>())
    }

    /// What its owner and an operator compare before it counts: 60 bits of its digest, as `XXXX-XXXX-XXXX`.
    ///
    /// So many that nobody makes another key of the same code while an invitation lasts. Crockford's letters, which
    /// nobody mistakes on the telephone.
    pub fn code(&self) -> String {
        const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let digest = Sha256::digest(&self.spki);
        let bits = digest.iter().take(8).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let letters = (0..12_u32).filter_map(|place| {
            let at = usize::try_from(bits >> (59 - place * 5) & 31).ok()?;
            LETTERS.get(at).map(|letter| char::from(*letter))
        });
        let letters: Vec<char> = letters.collect();
        letters.chunks(4).map(|four| four.iter().collect::<String>()).collect::<Vec<_>>().join("-")
    }
}

/// An assertion as it travels and is kept: canonical JSON of four base64url values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    /// The credential that signed.
    pub credential_id: String,
    /// What the authenticator vouches for.
    pub authenticator_data: String,
    /// What the browser vouches for.
    pub client_data_json: String,
    /// The signature over the first and the digest of the second.
    pub signature: String,
}

impl Assertion {
    /// Reads the canonical text.
    ///
    /// *Errors*: `Malformed`, also for a text in another than the canonical form: there is one for each assertion.
    pub fn parse(text: &str) -> Result<Self, ProofFault> {
        let assertion: Self = serde_json::from_str(text).map_err(|_| ProofFault::Malformed)?;
        let canonical = assertion.to_text().ok_or(ProofFault::Malformed)?;
        if canonical == text { Ok(assertion) } else { Err(ProofFault::Malformed) }
    }

    /// The canonical text.
    pub fn to_text(&self) -> Option<String> {
        jcs(self).ok()
    }
}

/// Checks an assertion over `digest` (base64url) by `key`, for `party`; returns the authenticator's counter.
///
/// *Errors*: each fault by its own name, in the order of the specification's checks.
pub fn verify_assertion(
    key: &PasskeyKey,
    party: &RelyingParty,
    digest: &str,
    assertion: &Assertion,
) -> Result<u32, ProofFault> {
    let client_data = from_b64url(&assertion.client_data_json).ok_or(ProofFault::Malformed)?;
    check_client_data(&client_data, "webauthn.get", party, digest)?;
    let data = from_b64url(&assertion.authenticator_data).ok_or(ProofFault::Malformed)?;
    let authenticator = AuthenticatorData::read(&data)?;
    authenticator.check(party)?;
    let signature = from_b64url(&assertion.signature).ok_or(ProofFault::Malformed)?;
    let mut signed = data.clone();
    signed.extend_from_slice(&Sha256::digest(&client_data));
    key.parsed.verify_sig(&signed, &signature).map_err(|_| ProofFault::Signature)?;
    Ok(authenticator.counter)
}

/// The members of the browser's word that are checked; others may stand beside them (WebAuthn §5.8.1).
#[derive(Debug, Deserialize)]
struct ClientData {
    r#type: String,
    challenge: String,
    origin: String,
    #[serde(default, rename = "crossOrigin")]
    cross_origin: bool,
    #[serde(default, rename = "topOrigin")]
    top_origin: Option<String>,
}

pub(super) fn check_client_data(
    bytes: &[u8],
    kind: &str,
    party: &RelyingParty,
    challenge: &str,
) -> Result<(), ProofFault> {
    let data: ClientData = serde_json::from_slice(bytes).map_err(|_| ProofFault::Malformed)?;
    if data.r#type != kind {
        return Err(ProofFault::Ceremony);
    }
    if data.challenge != challenge {
        return Err(ProofFault::Challenge);
    }
    if !party.origins.contains(&data.origin) || data.cross_origin || data.top_origin.is_some() {
        return Err(ProofFault::Origin);
    }
    Ok(())
}

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const BACKUP_ELIGIBLE: u8 = 0x08;
const BACKED_UP: u8 = 0x10;
const ATTESTED: u8 = 0x40;

/// What the authenticator vouches for (WebAuthn §6.1).
pub(super) struct AuthenticatorData<'a> {
    party: &'a [u8],
    flags: u8,
    pub(super) counter: u32,
    rest: &'a [u8],
}

impl<'a> AuthenticatorData<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, ProofFault> {
        let (party, rest) = bytes.split_at_checked(32).ok_or(ProofFault::Malformed)?;
        let (flags, rest) = rest.split_first().ok_or(ProofFault::Malformed)?;
        let (counter, rest) = rest.split_first_chunk::<4>().ok_or(ProofFault::Malformed)?;
        Ok(Self { party, flags: *flags, counter: u32::from_be_bytes(*counter), rest })
    }

    pub(super) fn check(&self, party: &RelyingParty) -> Result<(), ProofFault> {
        if self.party != Sha256::digest(party.id.as_bytes()).as_slice() {
            return Err(ProofFault::RelyingParty);
        }
        if self.flags & USER_PRESENT == 0 || self.flags & USER_VERIFIED == 0 {
            return Err(ProofFault::UserVerification);
        }
        // A passkey that says it is backed up and may not be is no authenticator's word.
        if self.flags & BACKED_UP != 0 && self.flags & BACKUP_ELIGIBLE == 0 {
            return Err(ProofFault::Malformed);
        }
        Ok(())
    }

    /// Whether the passkey may be on more devices than one.
    pub(super) const fn is_synced(&self) -> bool {
        self.flags & BACKUP_ELIGIBLE != 0
    }

    /// The new credential's id and COSE key (with what follows), where there is one.
    pub(super) fn credential(&self) -> Result<(&'a [u8], &'a [u8]), ProofFault> {
        if self.flags & ATTESTED == 0 {
            return Err(ProofFault::Malformed);
        }
        let (_aaguid, rest) = self.rest.split_at_checked(16).ok_or(ProofFault::Malformed)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or(ProofFault::Malformed)?;
        rest.split_at_checked(usize::from(u16::from_be_bytes(*length))).ok_or(ProofFault::Malformed)
    }
}
