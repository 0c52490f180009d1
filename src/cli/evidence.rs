//! `countersign verify evidence`: the verifier of bundles, on a file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::output::{put, say};
use super::verify::named_key;
use super::{CommandFault, read};
use crate::proof::{Bundle, PublicKey, Report, Trust, Verdict, verify};

/// Options of `verify evidence`.
#[derive(Debug, Args)]
pub(super) struct Evidence {
    /// The bundle; - is standard input
    file: PathBuf,
    /// The public half of the registry's root (PEM): whose keys these are is its word
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// The public key that signs checkpoints, or a file with it; again for each key there was
    #[arg(long = "checkpoint-key", value_name = "PUBLICKEY")]
    checkpoint_keys: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Evidence {
    pub(super) fn run(&self) -> Result<(), CommandFault> {
        let checkpoint_keys =
            self.checkpoint_keys.iter().map(|text| named_key("--checkpoint-key", text)).collect::<Result<_, _>>()?;
        let trust = Trust { root: self.root.as_deref().map(root_key).transpose()?, checkpoint_keys };
        let report = verify(&self.bytes()?, &trust);
        let verdict = report.verdict();
        if self.json {
            say(json!({"ok": verdict == Verdict::Ok, "verdict": verdict, "steps": report.steps}));
        } else {
            put(shown(&report));
        }
        let of = |verdict| {
            let steps = report.steps.iter().filter(|checked| checked.verdict == verdict);
            steps.map(|checked| checked.step.as_str()).collect::<Vec<_>>().join(", ")
        };
        match verdict {
            Verdict::Ok => Ok(()),
            Verdict::Failed => {
                Err(CommandFault::Broken(format!("the evidence does not hold: {}", of(Verdict::Failed))))
            }
            Verdict::NotChecked => Err(CommandFault::Failed(format!("not checked: {}", of(Verdict::NotChecked)))),
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, CommandFault> {
        let unreadable = |why: &dyn std::fmt::Display| {
            CommandFault::Unusable(format!("{}: can't be read: {why}", self.file.display()))
        };
        // One byte more than is taken, so that a longer one is seen to be.
        let most = u64::try_from(Bundle::LONGEST).unwrap_or(u64::MAX).saturating_add(1);
        let mut bytes = Vec::new();
        let done = if self.file == Path::new("-") {
            std::io::stdin().lock().take(most).read_to_end(&mut bytes)
        } else {
            std::fs::File::open(&self.file).and_then(|file| file.take(most).read_to_end(&mut bytes))
        };
        done.map_err(|err| unreadable(&err.kind()))?;
        Ok(bytes)
    }
}

fn root_key(file: &Path) -> Result<PublicKey, CommandFault> {
    let pem = read(file)?;
    let unusable = |why: &str| CommandFault::Unusable(format!("--root: {}: {why}", file.display()));
    if pem.contains("PRIVATE KEY") {
        return Err(unusable("is a private key; give its public half (.pub.pem)"));
    }
    PublicKey::from_pem(&pem).map_err(|_| unusable("is no public key (PEM)"))
}

/// A report for a person.
fn shown(report: &Report) -> String {
    let line = |checked: &crate::proof::Checked| {
        let head = format!("{:<12} {}\n", checked.verdict.as_str(), checked.step.as_str());
        checked.why.iter().fold(head, |text, why| text + "             - " + why + "\n")
    };
    let steps: String = report.steps.iter().map(line).collect();
    let verdict = match report.verdict() {
        Verdict::Ok => "the evidence holds",
        Verdict::Failed => "the evidence does NOT hold",
        Verdict::NotChecked => "nothing is wrong with what could be checked, and not all of it could be",
    };
    format!("{steps}{verdict}\n")
}
