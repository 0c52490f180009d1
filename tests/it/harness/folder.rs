//! A folder that is gone when the test is.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign::ambient::{Entropy as _, SystemEntropy};

/// The folder; removed on drop.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A fresh one, with `word` in its name.
    pub(crate) fn new(word: &str) -> Self {
        let path = std::env::temp_dir().join(format!("countersign-{word}-{:016x}", SystemEntropy.u64()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.join(name)).unwrap()
    }

    /// Writes a file of it; its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.join(name), text).unwrap();
        self.place(name)
    }

    /// The path of a file in it, as an argument.
    pub(crate) fn place(&self, name: &str) -> String {
        self.join(name).display().to_string()
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Someone may still be closing files in it.
        for _ in 0..20 {
            match std::fs::remove_dir_all(&self.0) {
                Err(err) if err.kind() != std::io::ErrorKind::NotFound => std::thread::sleep(Duration::from_millis(5)),
                _ => return,
            }
        }
    }
}
