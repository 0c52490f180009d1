//! A folder of a test, gone when the test is.

use std::path::{Path, PathBuf};

use countersign::ambient::{Entropy as _, SystemEntropy};

/// The folder.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A fresh, empty one.
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("countersign-folder-{:016x}", SystemEntropy.u64()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.join(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
