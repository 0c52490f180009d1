//! Arbitrary files at the verifier, by the fuzz target's own function; `just fuzz` tries many more.

#[path = "../../../fuzz/bundle.rs"]
mod checked;

use proptest::prelude::*;
use serde_json::Value;

use checked::check;

/// The kept bundles.
fn kept() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evidence/vectors");
    let bundle = |entry: std::fs::DirEntry| {
        let vector: Value = serde_json::from_str(&std::fs::read_to_string(entry.path()).unwrap()).unwrap();
        vector["bundle"].as_str().unwrap().to_owned()
    };
    std::fs::read_dir(folder).unwrap().map(Result::unwrap).map(bundle).collect()
}

#[test]
fn whatever_a_file_holds_each_step_has_a_verdict() {
    let few = ["", "{", "[]", "null", "{}", "\u{feff}{}", "\"\"", "{\"format\":\"countersign/evidence/v1\"}"];
    for text in few.into_iter().map(str::to_owned).chain(kept()) {
        check(text.as_bytes());
    }
    check(&[0xff, 0xfe, b'{', b'}']);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_bundle_with_bytes_changed_never_harms(which in any::<prop::sample::Index>(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let kept = kept();
        let mut bytes = which.get(&kept).clone().into_bytes();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check(&bytes);
    }

    #[test]
    fn a_bundle_with_a_part_in_anothers_place_never_harms(which in any::<prop::sample::Index>(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), length in 1_usize..400) {
        let kept = kept();
        let text = which.get(&kept).as_bytes();
        let piece = &text[from.index(text.len())..].iter().copied().take(length).collect::<Vec<_>>();
        let at = to.index(text.len());
        check(&[&text[..at], piece, &text[at..]].concat());
    }
}
