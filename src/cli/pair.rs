//! A key in a file of its own and its public half beside it; no key is ever overwritten.

use std::path::{Path, PathBuf};

use super::home::{write_private, write_public};
use super::{CommandFault, ambient, failed, read};

/// What could not be written, by its path.
pub(super) fn at(path: &Path) -> impl Fn(std::io::Error) -> CommandFault {
    move |err| failed(format_args!("{}: can't be written: {err}", path.display()))
}

pub(super) fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    ambient().entropy.fill(&mut seed);
    seed
}

/// What a file says that was to hold a key or secret and does not, as one does that a crash or a full disk cut off.
pub(super) fn broken(path: &Path, text: &str, what: &str) -> CommandFault {
    let why = if text.trim().is_empty() { "it is empty" } else { "it was cut off, or is something else" };
    CommandFault::Unusable(format!(
        "{}: is no {what}: {why}; move it away, and repeat this to make a new one",
        path.display()
    ))
}

/// A key in a file of its own, and its public half beside it.
pub(super) struct Pair<'a> {
    pub(super) private: &'a Path,
    pub(super) public: PathBuf,
    /// The public half of a private one; `None` for what is none.
    pub(super) public_of: fn(&str) -> Option<String>,
}

/// What came of writing a pair.
pub(super) struct Written {
    pub(super) public: String,
    /// What became of the private half.
    pub(super) private: &'static str,
}

impl Pair<'_> {
    /// Writes both halves; no key is ever overwritten, and an empty public half is as good as none.
    ///
    /// `fits` is asked of a private half that was there alone.
    ///
    /// *Crash*: whoever finds the private half alone writes the public one from it.
    pub(super) fn write(
        &self,
        mint: impl FnOnce() -> Result<String, CommandFault>,
        fits: impl FnOnce(&str) -> Result<(), CommandFault>,
    ) -> Result<Written, CommandFault> {
        let there = if self.public.exists() { read(&self.public)? } else { String::new() };
        let there = there.trim();
        let kept = self.private.exists();
        let private = if kept {
            read(self.private)?
        } else if there.is_empty() {
            let private = mint()?;
            write_private(self.private, &private).map_err(at(self.private))?;
            private
        } else {
            return Err(failed(format_args!(
                "{}: exists, and its private half may be kept elsewhere; name another file",
                self.public.display()
            )));
        };
        let Some(public) = (self.public_of)(&private) else {
            return Err(broken(self.private, &private, "private key"));
        };
        if there == public.trim() {
            return Err(failed(format_args!("{}: exists; a key is never overwritten", self.private.display())));
        }
        if !there.is_empty() {
            return Err(CommandFault::Unusable(format!(
                "{}: is not the public half of {}; move it away, and repeat this to make that",
                self.public.display(),
                self.private.display()
            )));
        }
        if kept {
            fits(&private)?;
        }
        write_public(&self.public, &public).map_err(at(&self.public))?;
        Ok(Written { public, private: if kept { "kept " } else { "wrote" } })
    }
}
