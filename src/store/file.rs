//! The file of an SQLite database: whether the one at its path is still the one that is open.

use std::path::{Path, PathBuf};

use super::fault::StoreFault;

/// A file that is open by its path.
///
/// A process goes on in the file that it has opened, wherever that was moved: what it wrote there would be seen by
/// nobody, and what another file says at the path, a backup say, it would not see.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    opened: Option<Identity>,
}

/// Device and inode; `None` where there are none.
type Identity = (u64, u64);

impl File {
    /// The file that has been opened at `path`.
    pub(super) fn opened(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: identity(path) }
    }

    /// What is open, `pool`, while the file is there.
    ///
    /// *Errors*: `Unavailable` while another file, or none, is at the path.
    pub(super) fn held<'a, T>(&self, pool: &'a T) -> Result<&'a T, StoreFault> {
        if self.opened.is_none() || identity(&self.path) == self.opened {
            return Ok(pool);
        }
        let path = self.path.display();
        let why = format!(
            "{path} is not the file that this process has opened: it was moved, replaced or deleted; stop every process \
             that works at it, put the file back or follow docs/restore.md (a -wal that is left beside a backup undoes \
             it), run `countersign restored`, and start again"
        );
        Err(StoreFault::Unavailable(sqlx::Error::Io(std::io::Error::other(why))))
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<Identity> {
    None
}
