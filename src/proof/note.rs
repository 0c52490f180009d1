//! Signed checkpoints of an audit chain, as notes (C2SP signed-note, Ed25519).
//!
//! ```text
//! pay.example/countersign-audit-v1/acme
//! 1024
//! XyUQ…=
//! 2026-01-02T03:04:05.000Z
//!
//! — pay.example hPlvXw…=
//! ```
//!
//! The first line names what is signed, whose it is and the tenant: no other signature of ours is
//! over text that begins so. Then the number of entries, the chain value after the last of them in
//! base64, and the time. *Invariant*: a checkpoint has one spelling; any other is not read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::canonical::{b64url, from_b64url};
use super::jws::{PublicKey, SigningKey};
use crate::domain::{TenantId, Timestamp};

/// What the first line says between origin and tenant.
pub(super) const KIND: &str = "/countersign-audit-v1/";
/// What a private key's text begins with.
const PRIVATE: &str = "PRIVATE+KEY+";
/// The algorithm's number: Ed25519.
const ED25519: u8 = 1;

/// A tenant's chain at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Who signs, as its key is named.
    pub origin: String,
    /// The tenant.
    pub tenant: String,
    /// How many entries the chain had.
    pub size: i64,
    /// The chain value after the last of them, base64url.
    pub head: String,
    /// When it was made, RFC 3339 UTC with three fraction digits.
    pub at: String,
}

/// Why a note is not a checkpoint by one of the known keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteFault {
    /// Not exactly the form of a checkpoint.
    #[error("not a checkpoint in its one form")]
    Malformed,
    /// Signed by a key that was not named.
    #[error("signed by a key that is not known")]
    Foreign,
    /// The signature does not verify over these bytes.
    #[error("the signature does not verify over this text")]
    Signature,
    /// The text is not a key of this form.
    #[error("not a checkpoint key")]
    Key,
}

/// The key that signs checkpoints.
#[derive(Debug, Clone)]
pub struct NoteSigner {
    key: SigningKey,
    verifier: NoteVerifier,
}

/// The public half, pinned by whoever verifies: `<name>+<8 hexadecimal digits>+<base64>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteVerifier {
    name: String,
    key: PublicKey,
}

impl NoteSigner {
    /// A key named `origin` from 32 random bytes.
    ///
    /// *Errors*: `Key` for a name that is not 1 to 64 of A-Z a-z 0-9 and `.-:`.
    pub fn from_seed(origin: &str, seed: &[u8; 32]) -> Result<Self, NoteFault> {
        let named = (1..=64).contains(&origin.len())
            && origin.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':'));
        if !named {
            return Err(NoteFault::Key);
        }
        let key = SigningKey::from_seed(seed);
        let verifier = NoteVerifier { name: origin.to_owned(), key: key.public() };
        Ok(Self { key, verifier })
    }

    /// Reads the text of [`NoteSigner::to_text`].
    pub fn parse(text: &str) -> Result<Self, NoteFault> {
        let (name, material) = keyed(text.strip_prefix(PRIVATE).ok_or(NoteFault::Key)?)?;
        let signer = Self::from_seed(&name, &material)?;
        if signer.to_text() == text { Ok(signer) } else { Err(NoteFault::Key) }
    }

    /// The private key's one line.
    pub fn to_text(&self) -> String {
        let verifier = &self.verifier;
        format!("{PRIVATE}{}+{:08x}+{}", verifier.name, verifier.id(), material(&self.key.seed()))
    }

    /// The public half.
    pub const fn verifier(&self) -> &NoteVerifier {
        &self.verifier
    }

    /// Whose name its checkpoints bear.
    pub fn origin(&self) -> &str {
        &self.verifier.name
    }

    /// Signs a checkpoint; the result is the whole note.
    ///
    /// *Errors*: `Malformed` for a head, size or tenant that no chain has.
    pub fn sign(&self, tenant: &str, size: i64, head: &str, at: Timestamp) -> Result<String, NoteFault> {
        let checkpoint = Checkpoint {
            origin: self.verifier.name.clone(),
            tenant: tenant.to_owned(),
            size,
            head: head.to_owned(),
            at: at.rfc3339(),
        };
        let text = checkpoint.text().ok_or(NoteFault::Malformed)?;
        let mut signed = self.verifier.id().to_be_bytes().to_vec();
        signed.extend(self.key.sign(text.as_bytes()));
        let note = format!("{text}\n\u{2014} {} {}\n", self.verifier.name, STANDARD.encode(signed));
        // What could not be read again is not given out.
        Checkpoint::open(&note, std::slice::from_ref(&self.verifier)).map(|_| note)
    }
}

impl NoteVerifier {
    /// Reads a pinned key.
    pub fn parse(text: &str) -> Result<Self, NoteFault> {
        let (name, material) = keyed(text)?;
        let key = PublicKey::from_bytes(&material).map_err(|_| NoteFault::Key)?;
        let verifier = Self { name, key };
        if verifier.to_text() == text { Ok(verifier) } else { Err(NoteFault::Key) }
    }

    /// The pinned key's one line.
    pub fn to_text(&self) -> String {
        format!("{}+{:08x}+{}", self.name, self.id(), material(&self.key.to_bytes()))
    }

    /// The number by which a signature names its key.
    fn id(&self) -> u32 {
        let mut hash = Sha256::new();
        hash.update(self.name.as_bytes());
        hash.update([b'\n', ED25519]);
        hash.update(self.key.to_bytes());
        let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
        u32::from_be_bytes([a, b, c, d])
    }
}

impl Checkpoint {
    /// Reads a note and verifies it by one of `keys`.
    ///
    /// *Errors*: `Malformed` before anything else; `Foreign` when none of `keys` is the one it names.
    pub fn open(note: &str, keys: &[NoteVerifier]) -> Result<Self, NoteFault> {
        let (text, signature) = note.split_once("\n\n").ok_or(NoteFault::Malformed)?;
        let text = format!("{text}\n");
        let checkpoint = Self::read(&text).ok_or(NoteFault::Malformed)?;
        let signature = signature.strip_prefix("\u{2014} ").and_then(|line| line.strip_suffix('\n'));
        let (name, encoded) = signature.and_then(|line| line.split_once(' ')).ok_or(NoteFault::Malformed)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| NoteFault::Malformed)?;
        let (id, signature) = bytes.split_first_chunk::<4>().ok_or(NoteFault::Malformed)?;
        let signature: &[u8; 64] = signature.try_into().map_err(|_| NoteFault::Malformed)?;
        if name != checkpoint.origin || STANDARD.encode(&bytes) != encoded {
            return Err(NoteFault::Malformed);
        }
        let id = u32::from_be_bytes(*id);
        let key = keys.iter().find(|key| key.name == name && key.id() == id).ok_or(NoteFault::Foreign)?;
        key.key.verify(text.as_bytes(), signature).map_err(|_| NoteFault::Signature)?;
        Ok(checkpoint)
    }

    /// The text that is signed; `None` for what is no checkpoint.
    fn text(&self) -> Option<String> {
        let head: [u8; 32] = from_b64url(&self.head)?.try_into().ok()?;
        let text =
            format!("{}{KIND}{}\n{}\n{}\n{}\n", self.origin, self.tenant, self.size, STANDARD.encode(head), self.at);
        let at = Timestamp::parse_rfc3339(&self.at)?;
        let usable = self.size > 0 && self.tenant.parse::<TenantId>().is_ok() && at.rfc3339() == self.at;
        usable.then_some(text)
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.split_terminator('\n');
        let (origin, tenant) = lines.next()?.split_once(KIND)?;
        let size: i64 = lines.next()?.parse().ok()?;
        let head: [u8; 32] = STANDARD.decode(lines.next()?).ok()?.try_into().ok()?;
        let at = lines.next()?.to_owned();
        let checkpoint = Self { origin: origin.to_owned(), tenant: tenant.to_owned(), size, head: b64url(head), at };
        (checkpoint.text()? == text).then_some(checkpoint)
    }
}

/// `<name>+<8 hexadecimal digits>+<base64>`: the name, and what is encoded after the algorithm's number.
fn keyed(text: &str) -> Result<(String, [u8; 32]), NoteFault> {
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(_), Some(encoded)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(NoteFault::Key);
    };
    let bytes = STANDARD.decode(encoded).map_err(|_| NoteFault::Key)?;
    match bytes.split_first() {
        Some((&ED25519, rest)) => Ok((name.to_owned(), rest.try_into().map_err(|_| NoteFault::Key)?)),
        _ => Err(NoteFault::Key),
    }
}

fn material(key: &[u8; 32]) -> String {
    let mut bytes = vec![ED25519];
    bytes.extend(key);
    STANDARD.encode(bytes)
}
