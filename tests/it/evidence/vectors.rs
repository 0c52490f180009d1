//! The vectors: what the Rust and the Python verifier say of each, kept and made anew.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

use countersign::proof::{NoteVerifier, PublicKey, Step, Trust, Verdict, verify};
use serde::{Deserialize, Serialize};

use super::good::{Good, told};
use super::people::{Many, happened, peopled};
use super::{noter, people, root, rooted, tampered};
use crate::harness::app::{App, only};
use crate::harness::database::TestEngine;
use crate::harness::folder::Folder;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evidence/vectors");
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evidence/verify.py");
/// Where CI keeps Python packages.
const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/ci/python");

/// One bundle, and what a verifier must say of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vector {
    pub(super) name: String,
    /// What was tampered with; empty for a good one.
    pub(super) changed: String,
    /// The step that must not be ok; empty for none.
    pub(super) fails: String,
    /// The root's public key, PEM, or nothing.
    pub(super) root: String,
    pub(super) checkpoint_keys: Vec<String>,
    pub(super) verdicts: BTreeMap<String, String>,
    pub(super) bundle: String,
}

impl Vector {
    /// A bundle as both keys' holder sees it.
    pub(super) fn of(name: &str, changed: &str, fails: &str, bundle: String) -> Self {
        let mut vector = Self {
            name: name.to_owned(),
            changed: changed.to_owned(),
            fails: fails.to_owned(),
            root: root().public().to_pem().unwrap(),
            checkpoint_keys: vec![noter().verifier().to_text()],
            verdicts: BTreeMap::new(),
            bundle,
        };
        vector.verdicts = vector.found();
        vector
    }

    /// The same bundle as seen by somebody without a key.
    fn without(mut self, name: &str, fails: &str, (root, checkpoint): (bool, bool)) -> Self {
        self.name = name.to_owned();
        self.fails = fails.to_owned();
        if root {
            self.root.clear();
        }
        if checkpoint {
            self.checkpoint_keys.clear();
        }
        self.verdicts = self.found();
        self
    }

    /// What our verifier says.
    fn found(&self) -> BTreeMap<String, String> {
        let trust = Trust {
            root: (!self.root.is_empty()).then(|| PublicKey::from_pem(&self.root).unwrap()),
            checkpoint_keys: self.checkpoint_keys.iter().map(|key| NoteVerifier::parse(key).unwrap()).collect(),
        };
        let steps = verify(self.bundle.as_bytes(), &trust).steps;
        let told = |checked: &countersign::proof::Checked| {
            (checked.step.as_str().to_owned(), checked.verdict.as_str().to_owned())
        };
        steps.iter().map(told).collect()
    }

    /// What is not as it should be: the step that it names is ok, or one is not and it names none.
    fn wrong(&self) -> Option<String> {
        let bad: Vec<&String> = self
            .verdicts
            .iter()
            .filter(|(_, verdict)| *verdict != Verdict::Ok.as_str())
            .map(|(step, _)| step)
            .collect();
        let right = self.verdicts.len() == Step::ALL.len()
            && if self.fails.is_empty() { bad.is_empty() } else { bad.contains(&&self.fails) };
        (!right).then(|| format!("{} is to fail at {:?}, and it is {bad:?}", self.name, self.fails))
    }
}

/// Every vector of two desks.
fn all(good: &Good, many: &Many) -> Vec<Vector> {
    let whole = |name: &str, text: &String| Vector::of(name, "", "", text.clone());
    let mut vectors = vec![
        whole("good-jws", &good.jws),
        whole("good-passkey", &good.passkey),
        whole("good-two-of-two", &good.two),
        whole("good-rejected", &good.rejected),
        whole("good-open", &good.open),
        whole("good-two-checkpoints", &good.apart),
        whole("good-second-round", &good.again),
        Vector::of("good-by-hand", "", "quorum", good.by_hand.clone()),
        Vector::of("good-not-covered-yet", "", "checkpoint", good.fresh.clone()),
        whole("", &good.jws).without("good-without-keys", "registry", (true, true)),
        whole("", &good.rejected).without("good-without-checkpoint-key", "checkpoint", (false, true)),
        Vector::of("", "", "registry", good.rootless.clone()).without("good-rootless", "registry", (true, false)),
    ];
    vectors.extend(people::good(many).into_iter().map(|(name, text)| whole(name, text)));
    vectors.extend(tampered::all(good));
    vectors.extend(people::tampered(many));
    vectors
}

/// Runs the Python verifier.
fn python(arguments: &[&str]) -> Output {
    let mut path = vec![PACKAGES.into()];
    path.extend(std::env::var_os("PYTHONPATH").iter().flat_map(std::env::split_paths));
    let output = Command::new("python3")
        .arg(PYTHON)
        .args(arguments)
        .env("PYTHONPATH", std::env::join_paths(path).unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|err| panic!("the second verifier needs python3: {err}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !said.contains("ModuleNotFoundError"),
        "the second verifier needs the package cryptography (.ci/run names the version): {said}"
    );
    output
}

/// Holds that another program agrees on every vector of a folder.
pub(super) fn agreed(folder: &Path, count: usize) {
    let output = python(&["--vectors", &folder.display().to_string()]);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.trim(), format!("{count} vectors agree"), "{errors}");
    assert!(output.status.success());
}

pub(super) fn write(folder: &Path, vectors: &[Vector]) {
    for vector in vectors {
        let text = serde_json::to_string_pretty(vector).unwrap() + "\n";
        std::fs::write(folder.join(format!("{}.json", vector.name)), text).unwrap();
    }
}

#[test]
fn both_verifiers_say_of_every_kept_vector_what_it_says() {
    let mut vectors = Vec::new();
    for entry in std::fs::read_dir(KEPT).unwrap().map(Result::unwrap) {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let vector: Vector = serde_json::from_str(&text).unwrap();
        assert_eq!(entry.file_name().to_str().unwrap(), format!("{}.json", vector.name));
        assert_eq!(vector.found(), vector.verdicts, "{}", vector.name);
        assert_eq!(vector.wrong(), None);
        vectors.push(vector);
    }
    let good = vectors.iter().filter(|vector| vector.changed.is_empty()).count();
    assert!(good >= 20 && vectors.len() - good >= 90, "{good} good of {}", vectors.len());
    agreed(Path::new(KEPT), vectors.len());
}

#[tokio::test]
async fn both_verifiers_agree_on_the_vectors_of_a_fresh_desk() {
    let (folder, other) = (Folder::new("evidence"), Folder::new("people"));
    let many = Mutex::new(None);
    only(TestEngine::Sqlite, peopled(&other), async |app: &mut App| {
        let done = happened(app, &other).await;
        people::as_meant(&done);
        *many.lock().unwrap() = Some(done);
    })
    .await;
    let many = many.into_inner().unwrap().unwrap();
    only(TestEngine::Sqlite, rooted(&folder), async |app: &mut App| {
        let vectors = all(&told(app, &folder).await, &many);
        let wrong: Vec<String> = vectors.iter().filter_map(Vector::wrong).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        let fresh = Folder::new("vectors");
        write(&fresh, &vectors);
        agreed(&fresh, vectors.len());
        if std::env::var_os("COUNTERSIGN_VECTORS").is_some_and(|wish| wish == "write") {
            for entry in std::fs::read_dir(KEPT).unwrap().map(Result::unwrap) {
                std::fs::remove_file(entry.path()).unwrap();
            }
            write(Path::new(KEPT), &vectors);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stranger_needs_the_file_and_two_keys_and_nothing_else() {
    let folder = Folder::new("evidence");
    only(TestEngine::Sqlite, rooted(&folder), async |app: &mut App| {
        let good = told(app, &folder).await;
        let file = folder.write("jws.json", &good.jws);
        let (root, key) = (folder.place("root.pub.pem"), noter().verifier().to_text());
        assert_eq!(python(&[&file, &root, &key]).status.code(), Some(0));
        assert_eq!(python(&[&file, &root]).status.code(), Some(1));
        assert_eq!(python(&[&file, "-", &key]).status.code(), Some(1));
        let other = folder.write("other.json", &good.jws.replace("EXECUTED", "EXPIRED"));
        assert_eq!(python(&[&other, &root, &key]).status.code(), Some(3));
    })
    .await;
}
