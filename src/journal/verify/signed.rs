//! Whether a chain is the one whose checkpoints were signed, and how far they vouch for it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::{AuditReport, Break, BreakKind, Covered, Progress, VerifyFault, payment_at};
use crate::domain::Timestamp;
use crate::proof::{Checkpoint, NoteFault, NoteVerifier, Piece, Pieces, shown};
use crate::store::Session;

/// A longer line is none of a checkpoint's.
const LONGEST_LINE: u64 = 4_096;
/// What a tenant's file is called after it.
const ENDING: &str = ".checkpoints";

/// Files of checkpoints, and the keys that are known to sign them.
#[derive(Debug, Clone)]
pub struct CheckpointSource {
    /// The folder, with a file for each tenant.
    pub folder: PathBuf,
    /// The pinned keys; several while one replaced the other.
    pub keys: Vec<NoteVerifier>,
    /// Entries written before this must be covered by a checkpoint.
    pub covered_before: Option<Timestamp>,
}

impl CheckpointSource {
    /// The tenants that have a file.
    pub(super) fn tenants(&self) -> Result<Vec<String>, VerifyFault> {
        let entries = std::fs::read_dir(&self.folder).map_err(|err| unreadable(&self.folder, &err))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| name.strip_suffix(ENDING).map(str::to_owned)).collect())
    }

    fn file(&self, tenant: &str) -> PathBuf {
        self.folder.join(format!("{tenant}{ENDING}"))
    }
}

fn unreadable(path: &Path, err: &std::io::Error) -> VerifyFault {
    VerifyFault::Checkpoints(format!("{}: can't be read: {}", path.display(), err.kind()))
}

/// The chain against the checkpoints: what agreed, and where it no longer does.
#[derive(Debug, Default)]
struct Tally {
    covered: Covered,
    /// What the file holds, whole or spoilt.
    pieces: u64,
    /// The smallest checkpoint that disagrees: its size, head and time.
    first_wrong: Option<(i64, String, String)>,
    wrong: u64,
    /// The largest checkpoint beyond the chain's end.
    beyond: Option<(i64, String, String)>,
}

pub(super) async fn check(
    session: &mut Session,
    source: &CheckpointSource,
    report: &mut AuditReport,
    progress: &mut Progress<'_>,
) -> Result<(), VerifyFault> {
    let path = source.file(&report.tenant);
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            none_there(report, &path, "no such file");
            return conclude(session, source, report, Tally::default()).await;
        }
        Err(err) => return Err(unreadable(&path, &err)),
    };
    let mut tally = Tally::default();
    let (mut reader, mut pieces, mut line) = (BufReader::new(file), Pieces::default(), Vec::new());
    loop {
        line.clear();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        if read.map_err(|err| unreadable(&path, &err))? == 0 {
            break;
        }
        // Of a line that is too long for one of ours, the rest is passed over.
        while line.last() != Some(&b'\n') {
            let mut rest = Vec::new();
            let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut rest);
            if read.map_err(|err| unreadable(&path, &err))? == 0 {
                break;
            }
            line.truncate(64);
            line.extend(rest.last().filter(|last| **last == b'\n'));
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(piece) = pieces.push(text.strip_suffix('\n').unwrap_or(&text)) {
            tally.pieces = tally.pieces.saturating_add(1);
            take(session, source, report, &mut tally, &name(&path), piece).await?;
            progress("checkpoints", tally.covered.checkpoints);
        }
    }
    if let Some(Piece::Unreadable { line } | Piece::CutOff { line }) = pieces.end() {
        let expected = format!("a whole checkpoint at line {line} of {}", name(&path));
        let found = "the file ends in it: it was cut, or a write did not finish".to_owned();
        report.push(at_file(BreakKind::CheckpointUnreadable, expected, found));
    } else if tally.pieces == tally.covered.cut_off {
        none_there(report, &path, "nothing signed in it");
    }
    conclude(session, source, report, tally).await
}

/// A chain whose checkpoints are gone; one without entries never had any.
fn none_there(report: &mut AuditReport, path: &Path, found: &str) {
    if report.entries > 0 {
        let expected = format!("a file {} with checkpoints of {} entries", name(path), report.entries);
        report.push(at_file(BreakKind::CheckpointsMissing, expected, found.to_owned()));
    }
}

/// Judges one piece of a file.
async fn take(
    session: &mut Session,
    source: &CheckpointSource,
    report: &mut AuditReport,
    tally: &mut Tally,
    file: &str,
    piece: Piece,
) -> Result<(), VerifyFault> {
    let (line, note) = match piece {
        Piece::Note { line, text } => (line, Checkpoint::open(&text, &source.keys)),
        Piece::CutOff { .. } => {
            tally.covered.cut_off = tally.covered.cut_off.saturating_add(1);
            return Ok(());
        }
        Piece::Unreadable { line } => (line, Err(NoteFault::Malformed)),
    };
    let checkpoint = match note {
        Ok(checkpoint) => checkpoint,
        Err(fault) => {
            let kind = match fault {
                NoteFault::Foreign => BreakKind::CheckpointForeign,
                NoteFault::Signature => BreakKind::CheckpointForged,
                NoteFault::Malformed | NoteFault::Key => BreakKind::CheckpointUnreadable,
            };
            let expected = format!("a checkpoint by a known key at line {line} of {file}");
            report.push(at_file(kind, expected, fault.to_string()));
            return Ok(());
        }
    };
    if checkpoint.tenant != report.tenant {
        let expected = format!("checkpoints of {} in {file}", report.tenant);
        let found = format!("one of {} at line {line}", checkpoint.tenant);
        report.push(at_file(BreakKind::CheckpointMisfiled, expected, found));
        return Ok(());
    }
    let there = session.audit_line(&report.tenant, checkpoint.size).await?;
    let Checkpoint { size, head, at, .. } = checkpoint;
    match there {
        Some(entry) if entry.chain == head => {
            tally.covered.checkpoints = tally.covered.checkpoints.saturating_add(1);
            if size >= tally.covered.up_to {
                (tally.covered.up_to, tally.covered.signed_at) = (size, at);
            }
        }
        Some(_) => {
            tally.wrong = tally.wrong.saturating_add(1);
            if tally.first_wrong.as_ref().is_none_or(|(first, _, _)| size < *first) {
                tally.first_wrong = Some((size, head, at));
            }
        }
        None => {
            if tally.beyond.as_ref().is_none_or(|(most, _, _)| size > *most) {
                tally.beyond = Some((size, head, at));
            }
        }
    }
    Ok(())
}

async fn conclude(
    session: &mut Session,
    source: &CheckpointSource,
    report: &mut AuditReport,
    tally: Tally,
) -> Result<(), VerifyFault> {
    let Tally { mut covered, first_wrong, wrong, beyond, .. } = tally;
    let good = covered.up_to;
    if let Some((size, head, at)) = first_wrong {
        let payment_id = payment_at(session, &report.tenant, size).await?;
        let chain = session.audit_line(&report.tenant, size).await?.map(|line| line.chain).unwrap_or_default();
        let agrees = if good > 0 && good < size { good.to_string() } else { "none".to_owned() };
        report.push(Break {
            kind: BreakKind::CheckpointDisagrees,
            seq: Some(size),
            payment_id,
            expected: format!(
                "chain value {} as signed at {at}; the last entry that a checkpoint before it confirms is {agrees}",
                shown(&head)
            ),
            found: format!("chain value {}; {wrong} checkpoints disagree", shown(&chain)),
        });
    }
    if let Some((size, head, at)) = beyond {
        report.push(Break {
            kind: BreakKind::TailCut,
            seq: Some(report.entries.saturating_add(1)),
            payment_id: String::new(),
            expected: format!("{size} entries, the last with chain value {}, as signed at {at}", shown(&head)),
            found: format!("{} entries, the last with chain value {}", report.entries, shown(&report.head)),
        });
    }
    if let Some(before) = source.covered_before
        && let Some(entry) = session.audit_lines(&report.tenant, good, 1).await?.into_iter().next()
        && entry.written_at < before.micros()
    {
        report.push(Break {
            kind: BreakKind::CheckpointsMissing,
            seq: Some(entry.seq),
            payment_id: entry.payment_id,
            expected: format!("a checkpoint of what was written before {}", before.rfc3339()),
            found: format!(
                "none after entry {good}; this one is of {}",
                Timestamp::from_micros(entry.written_at).rfc3339()
            ),
        });
    }
    // One that was made since the chain was walked vouches for more than was read.
    covered.uncovered = report.entries.saturating_sub(good).max(0);
    report.covered = Some(covered);
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn at_file(kind: BreakKind, expected: String, found: String) -> Break {
    Break { kind, seq: None, payment_id: String::new(), expected, found }
}
