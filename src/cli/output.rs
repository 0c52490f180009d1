//! What a command prints, and its end when nobody reads that any more.
//!
//! Everything printed goes through here: `println!` panics where `head` has read enough.

use std::fmt::Display;
use std::io::{ErrorKind, Write as _, stderr, stdout};

/// The exit code of a command whose reader has gone: a shell's word for SIGPIPE.
const UNREAD: i32 = 141;

/// Prints a line; where nobody reads, ends the process.
pub(super) fn say(text: impl Display) {
    put(format_args!("{text}\n"));
}

/// Prints a text as it is; where nobody reads, ends the process.
pub(super) fn put(text: impl Display) {
    if let Err(fault) = heard(text) {
        if fault.kind() == ErrorKind::BrokenPipe {
            std::process::exit(UNREAD);
        }
        warn(format_args!("countersign: what was to be printed can't be: {fault}"));
        std::process::exit(1);
    }
}

/// Prints a text as it is, for who has more to do than to end where nobody reads.
pub(super) fn heard(text: impl Display) -> std::io::Result<()> {
    let mut out = stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush())
}

/// Prints a line beside the output. That nobody reads it changes nothing.
pub(super) fn warn(text: impl Display) {
    let _ = writeln!(stderr(), "{text}");
}
