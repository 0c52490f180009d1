//! What must hold for any file at the verifier of evidence; run by the fuzzer and, on fewer files, by `cargo test`.

use countersign::proof::{NoteSigner, SigningKey, Step, Trust, Verdict, verify};

/// Verifies `bytes` with and without keys.
///
/// Nothing panics. Each step has a verdict, and one that is not ok says why. Less trust never makes more of a file:
/// what is not ok with both keys is not ok without them, and nothing is ok altogether that no key was asked about.
pub(crate) fn check(bytes: &[u8]) {
    let root = SigningKey::from_seed(&[11; 32]).public();
    let noter = NoteSigner::from_seed("pay.example", &[9; 32]).expect("a name");
    let trusting = Trust { root: Some(root), checkpoint_keys: vec![noter.verifier().clone()] };
    let (with, without) = (verify(bytes, &trusting), verify(bytes, &Trust::default()));
    for report in [&with, &without] {
        assert!(report.steps.iter().map(|checked| checked.step).eq(Step::ALL), "each step once, in order");
        for checked in &report.steps {
            assert_eq!(checked.verdict == Verdict::Ok, checked.why.is_empty(), "{checked:?}");
        }
    }
    assert_ne!(without.verdict(), Verdict::Ok, "without a key nothing holds altogether");
    for (more, less) in with.steps.iter().zip(&without.steps) {
        assert!(less.verdict != Verdict::Ok || more.verdict != Verdict::NotChecked, "{more:?} {less:?}");
        // Steps that no key is asked about are the same.
        if !matches!(more.step, Step::Registry | Step::Checkpoint) {
            assert_eq!(more, less);
        }
    }
}
