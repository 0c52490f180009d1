//! How a passkey comes to be known: an invitation that is signed by making the key.

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::signature::RsaPublicKeyComponents;
use ciborium::Value;
use coset::iana::{Ec2KeyParameter, EllipticCurve, EnumI64 as _, KeyType, OkpKeyParameter, RsaKeyParameter};
use coset::{AsCborValue as _, CoseKey, Label, RegisteredLabel, RegisteredLabelWithPrivate};
use serde::{Deserialize, Serialize};

use super::canonical::{b64url, from_b64url, jcs, tagged_digest};
use super::jws::ProofFault;
use super::passkey::{AuthenticatorData, PasskeyAlg, PasskeyKey, RelyingParty, check_client_data};

/// E: whom a passkey is asked of. Its digest is the challenge under which the passkey is made.
///
/// Every value is a string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolmentDocument {
    /// [`EnrolmentDocument::TYPE`].
    pub typ: String,
    /// What its keys count for: the protected resource.
    pub aud: String,
    /// Whose people it invites.
    pub tenant: String,
    /// The person, as the policy names them.
    pub signer_id: String,
    /// The invitation.
    pub invitation_id: String,
    /// 32 random bytes, base64url.
    pub nonce: String,
    /// RFC 3339 UTC, three fraction digits.
    pub expires_at: String,
}

impl EnrolmentDocument {
    /// The document's type, and the tag of its digest.
    pub const TYPE: &'static str = "countersign/enrolment/v1";

    /// The canonical text.
    pub fn canonical(&self) -> Result<String, serde_json::Error> {
        jcs(self)
    }

    /// Reads a canonical text; refuses one that is not in canonical form.
    pub fn parse(text: &str) -> Option<Self> {
        let document: Self = serde_json::from_str(text).ok()?;
        (document.typ == Self::TYPE && document.canonical().ok()? == text).then_some(document)
    }
}

/// The digest of a canonical E, base64url.
pub fn enrolment_digest(canonical: &str) -> String {
    b64url(tagged_digest(EnrolmentDocument::TYPE, canonical))
}

/// What a browser answers when a passkey was made, in base64url.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// What the browser vouches for.
    pub client_data_json: String,
    /// The authenticator's answer, CBOR.
    pub attestation_object: String,
}

/// A passkey that answers an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPasskey {
    /// The credential's id, base64url.
    pub credential_id: String,
    /// Its public half.
    pub key: PasskeyKey,
    /// The authenticator's counter.
    pub counter: u32,
    /// Whether it may be on more devices than one.
    pub synced: bool,
}

/// Reads the answer to the invitation with this digest (base64url), made for `party`.
///
/// An attestation of the authenticator's make is neither asked for nor believed: what makes a key a person's is
/// that an operator compared its code with them.
///
/// *Errors*: each fault by its own name; `Key` for a key of a kind that is not taken.
pub fn read_registration(
    party: &RelyingParty,
    digest: &str,
    registration: &Registration,
) -> Result<NewPasskey, ProofFault> {
    let client_data = from_b64url(&registration.client_data_json).ok_or(ProofFault::Malformed)?;
    check_client_data(&client_data, "webauthn.create", party, digest)?;
    let object = from_b64url(&registration.attestation_object).ok_or(ProofFault::Malformed)?;
    let data = authenticator_data(&object)?;
    let authenticator = AuthenticatorData::read(&data)?;
    authenticator.check(party)?;
    let (id, cose) = authenticator.credential()?;
    if id.is_empty() || id.len() > LONGEST_ID {
        return Err(ProofFault::Malformed);
    }
    Ok(NewPasskey {
        credential_id: b64url(id),
        key: public_key(cose)?,
        counter: authenticator.counter,
        synced: authenticator.is_synced(),
    })
}

/// The longest credential id there may be (WebAuthn §4).
const LONGEST_ID: usize = 1023;

fn authenticator_data(object: &[u8]) -> Result<Vec<u8>, ProofFault> {
    let Ok(Value::Map(members)) = ciborium::from_reader::<Value, _>(object) else { return Err(ProofFault::Malformed) };
    let data = members.into_iter().find(|(name, _)| name.as_text() == Some("authData"));
    data.and_then(|(_, value)| value.into_bytes().ok()).ok_or(ProofFault::Malformed)
}

/// Reads the first CBOR item of `bytes` as a COSE key (RFC 9053); extensions may follow it.
fn public_key(mut bytes: &[u8]) -> Result<PasskeyKey, ProofFault> {
    let value: Value = ciborium::from_reader(&mut bytes).map_err(|_| ProofFault::Malformed)?;
    let key = CoseKey::from_cbor_value(value).map_err(|_| ProofFault::Malformed)?;
    let RegisteredLabel::Assigned(kind) = key.kty else { return Err(ProofFault::Key) };
    let Some(RegisteredLabelWithPrivate::Assigned(alg)) = key.alg.clone() else { return Err(ProofFault::Key) };
    let (alg, spki) = match (kind, alg) {
        (KeyType::EC2, coset::iana::Algorithm::ES256) => {
            on_curve(&key, Ec2KeyParameter::Crv.to_i64(), EllipticCurve::P_256)?;
            let (x, y) = (bytes32(&key, Ec2KeyParameter::X.to_i64())?, bytes32(&key, Ec2KeyParameter::Y.to_i64())?);
            (PasskeyAlg::Es256, [P256_SPKI, x, y].concat())
        }
        (KeyType::OKP, coset::iana::Algorithm::EdDSA) => {
            on_curve(&key, OkpKeyParameter::Crv.to_i64(), EllipticCurve::Ed25519)?;
            (PasskeyAlg::EdDsa, [ED25519_SPKI, bytes32(&key, OkpKeyParameter::X.to_i64())?].concat())
        }
        (KeyType::RSA, coset::iana::Algorithm::RS256) => {
            let n = member(&key, RsaKeyParameter::N.to_i64()).and_then(Value::as_bytes).ok_or(ProofFault::Key)?;
            let e = member(&key, RsaKeyParameter::E.to_i64()).and_then(Value::as_bytes).ok_or(ProofFault::Key)?;
            let der: PublicKeyX509Der<'_> = RsaPublicKeyComponents { n, e }.as_der().map_err(|_| ProofFault::Key)?;
            (PasskeyAlg::Rs256, der.as_ref().to_vec())
        }
        _ => return Err(ProofFault::Key),
    };
    PasskeyKey::from_spki(alg, spki)
}

/// What stands before the point of a P-256 key in DER (RFC 5480), the point's own first byte with it.
const P256_SPKI: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];
/// What stands before an Ed25519 key in DER (RFC 8410).
const ED25519_SPKI: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

fn member(key: &CoseKey, label: i64) -> Option<&Value> {
    key.params.iter().find(|(name, _)| *name == Label::Int(label)).map(|(_, value)| value)
}

fn bytes32(key: &CoseKey, label: i64) -> Result<&[u8], ProofFault> {
    let bytes = member(key, label).and_then(Value::as_bytes).ok_or(ProofFault::Key)?;
    if bytes.len() == 32 { Ok(bytes) } else { Err(ProofFault::Key) }
}

fn on_curve(key: &CoseKey, label: i64, curve: EllipticCurve) -> Result<(), ProofFault> {
    let named = member(key, label).and_then(Value::as_integer).and_then(|curve| i64::try_from(curve).ok());
    if named == Some(curve.to_i64()) { Ok(()) } else { Err(ProofFault::Key) }
}
