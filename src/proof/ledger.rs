//! A file of checkpoints: notes one after the other, and what a cut-off write leaves behind.
//!
//! A file only grows. A note is its lines and an empty one after them. A write that did not finish
//! is closed by the next one with a line that holds nothing but `#`, so that what follows is read.

use super::note::KIND;

/// The line that closes what a cut-off write left.
pub const CLOSING: &str = "#";

/// How many lines a note has, the empty one after it included.
const LINES: usize = 7;

/// A part of a file of checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole note.
    Note {
        /// Its first line's number.
        line: u64,
        /// The note.
        text: String,
    },
    /// The beginning of a note, closed by a later write.
    CutOff {
        /// Its first line's number.
        line: u64,
    },
    /// Something else.
    Unreadable {
        /// Its first line's number.
        line: u64,
    },
}

/// Cuts a file into pieces, line by line.
#[derive(Debug, Default)]
pub struct Pieces {
    held: Vec<String>,
    number: u64,
}

impl Pieces {
    /// Takes the next line, without its end.
    pub fn push(&mut self, line: &str) -> Option<Piece> {
        if line == CLOSING {
            let cut = self.end().map(|piece| match piece {
                Piece::Unreadable { line } => Piece::CutOff { line },
                whole => whole,
            });
            self.number = self.number.saturating_add(1);
            return cut;
        }
        self.number = self.number.saturating_add(1);
        if line.is_empty() && self.held.is_empty() {
            return None;
        }
        self.held.push(line.to_owned());
        if self.held.len() < LINES {
            return None;
        }
        let first = self.first();
        if let [_, _, _, _, gap, signature, end] = self.held.as_slice()
            && gap.is_empty()
            && signature.starts_with('\u{2014}')
            && end.is_empty()
        {
            let mut text = self.held.iter().take(LINES - 1).fold(String::new(), |text, line| text + line + "\n");
            text.shrink_to_fit();
            self.held.clear();
            return Some(Piece::Note { line: first, text });
        }
        // Up to where a note may begin it is one spoilt piece; what follows is judged anew.
        let next = self.held.iter().skip(1).position(|line| line.contains(KIND));
        self.held.drain(..next.map_or(LINES, |at| at.saturating_add(1)).min(self.held.len()));
        Some(Piece::Unreadable { line: first })
    }

    /// What is left when the file is at its end.
    pub fn end(&mut self) -> Option<Piece> {
        let line = self.first();
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then_some(Piece::Unreadable { line })
    }

    fn first(&self) -> u64 {
        let held = u64::try_from(self.held.len()).unwrap_or(u64::MAX);
        self.number.saturating_sub(held).saturating_add(1)
    }
}

/// The last whole note of the end of a file, and whether the file ends where a note may begin.
pub fn last_note(tail: &str) -> (Option<String>, bool) {
    let lines: Vec<&str> = tail.split('\n').collect();
    // What was kept whole has an end of its own: an empty line.
    let signed = |at: &usize| {
        *at >= 5
            && lines.get(*at).is_some_and(|line| line.starts_with('\u{2014}'))
            && lines.get(at.saturating_add(1)) == Some(&"")
    };
    let last = (0..lines.len()).rev().find(signed);
    let note = last.and_then(|at| lines.get(at.saturating_sub(5)..=at)).map(|lines| lines.join("\n") + "\n");
    let open = match lines.as_slice() {
        [] | [""] | [.., CLOSING, ""] => true,
        [.., signature, "", ""] => signature.starts_with('\u{2014}'),
        _ => false,
    };
    (note, open)
}
