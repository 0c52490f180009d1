//! What is signed, and how a signature is checked; pure, and shared with whoever verifies offline.
//!
//! `bundle` is all of it about one payment.
//!
//! Forms are those of the evidence contract: canonical JSON (RFC 8785) with string values only,
//! domain-separated SHA-256 digests, Ed25519 detached JWS (RFC 7515 appendix F), and WebAuthn assertions whose
//! challenge is the digest.

mod bundle;
mod canonical;
mod chain;
mod decision;
mod enrolment;
mod form;
mod jws;
mod ledger;
mod note;
mod passkey;
mod payload;
mod receipt;
mod registry;
mod walk;

pub use bundle::{
    Asked, Bundle, Carried, Checked, Decided, Document, NEW_ROUND, Proven, Registered, Report, Sent, SignedPayment,
    Step, Stretch, Trust, Verdict, Word, verify,
};
pub use canonical::{b64url, from_b64url, jcs, sha256_hex, tagged_digest};
pub use chain::{AuditFacts, GENESIS, Link, chained, leaf, link};
pub use decision::{Challenge, DecisionDocument, decision_digest};
pub use enrolment::{EnrolmentDocument, NewPasskey, Registration, enrolment_digest, read_registration};
pub use form::{Claim, JWS_ALG, Proof, SignerKey, named_key};
pub use jws::{ProofFault, PublicKey, SigningKey, claimed_key_id, key_id_of, sign_detached, verify_detached};
pub use ledger::{CLOSING, Piece, Pieces, last_note};
pub use note::{Checkpoint, NoteFault, NoteSigner, NoteVerifier};
pub use passkey::{Assertion, PASSKEY, PasskeyAlg, PasskeyKey, RelyingParty, verify_assertion};
pub use payload::{PaymentDocument, compare_code, payment_digest};
pub use receipt::Receipt;
pub use registry::{RegistryEntry, sign_entry, verify_entry};
pub use walk::{AuditLine, Flaw, FlawKind, Walk, shown};
