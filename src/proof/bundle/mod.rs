//! The evidence bundle (`countersign/evidence/v1`, docs/evidence.md): everything about one payment, and its verifier.
//!
//! The verifier asks nobody and believes nothing but the two keys that it is handed: that of the registry's root, and
//! those that sign checkpoints. It goes on after a fault, so that each step has a verdict of its own.

mod execution;
mod form;
mod history;
mod people;
mod read;
mod report;

pub use form::{Asked, Bundle, Carried, Decided, Document, Proven, Registered, Sent, SignedPayment, Stretch, Word};
pub use history::NEW_ROUND;
pub use report::{Checked, Report, Step, Verdict};

use super::jws::PublicKey;
use super::note::NoteVerifier;
use history::Walked;
use read::Documents;

/// What a verifier trusts; never taken from a bundle.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The registry's root; without it whose keys these are is not checked.
    pub root: Option<PublicKey>,
    /// The keys that sign checkpoints; without them the audit may have been made up as a whole.
    pub checkpoint_keys: Vec<NoteVerifier>,
}

/// Checks a bundle's bytes, step by step.
pub fn verify(bytes: &[u8], trust: &Trust) -> Report {
    let text = std::str::from_utf8(bytes).map_err(|_| "not a bundle: not UTF-8".to_owned());
    let bundle = match text.and_then(Bundle::parse) {
        Ok(bundle) => bundle,
        Err(why) => return Report::unread(Step::Format, why),
    };
    let mut report = Report::default();
    report.push(Step::Format, Vec::new());
    let documents = match Documents::read(&bundle) {
        Ok(documents) => documents,
        Err(why) => return report.stopped(Step::Documents, why),
    };
    report.push(Step::Documents, Vec::new());
    report.push(Step::Signatures, people::signatures(&documents));
    report.checked(Step::Registry, people::registry(&documents, trust.root.as_ref()));
    report.checked(Step::Quorum, people::quorum(&documents));
    report.checked(Step::Execution, execution::execution(&documents));
    let walked = Walked::along(&documents);
    report.push(Step::Audit, history::audit(&documents, &walked));
    report.checked(Step::Checkpoint, history::checkpoint(&documents, &walked, &trust.checkpoint_keys));
    report
}
