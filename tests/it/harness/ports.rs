//! Ports of which each is given once on this machine, however many test processes run there.
//!
//! Who was down for a while must find its port free. So a process claims ports by the fifty, with a lock on a file that
//! ends with the process; none of them is one that outgoing connections get.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use countersign::ambient::{Entropy as _, SystemEntropy};

const FIRST: u16 = 10_000;
const BLOCK: u16 = 50;
const BLOCKS: u16 = 440;

#[derive(Debug, Default)]
struct Claimed {
    left: Vec<u16>,
    /// Held until the process ends.
    locks: Vec<File>,
}

/// A port that nobody was given.
pub(super) fn port() -> u16 {
    static CLAIMED: Mutex<Option<Claimed>> = Mutex::new(None);
    let mut claimed = CLAIMED.lock().unwrap();
    let claimed = claimed.get_or_insert_default();
    loop {
        if let Some(port) = claimed.left.pop() {
            return port;
        }
        let begin = u16::try_from(SystemEntropy.u64() % u64::from(BLOCKS)).unwrap();
        let mut blocks = (0..BLOCKS).map(|number| (begin + number) % BLOCKS);
        let (block, lock) = blocks
            .find_map(|block| Some((block, claim(&folder(), block)?)))
            .expect("a block of ports that no test process has");
        claimed.left.extend((0..BLOCK).map(|number| FIRST + block * BLOCK + number));
        claimed.locks.push(lock);
    }
}

fn folder() -> PathBuf {
    std::env::temp_dir().join("countersign_test_ports")
}

/// The lock on a block; `None` where another process has it.
fn claim(folder: &Path, block: u16) -> Option<File> {
    std::fs::create_dir_all(folder).unwrap();
    let lock = File::options().create(true).append(true).open(folder.join(block.to_string())).unwrap();
    match lock.try_lock() {
        Ok(()) => Some(lock),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => panic!("{}: {error}", folder.display()),
    }
}

#[test]
fn ports_that_one_process_claimed_are_no_other_ones_until_it_ends() {
    let folder = super::folder::Folder::new("ports");
    let first = claim(&folder, 7);
    assert!(first.is_some());
    assert!(claim(&folder, 7).is_none(), "another handle is as another process");
    assert!(claim(&folder, 8).is_some());
    drop(first);
    assert!(claim(&folder, 7).is_some());
    assert_ne!(port(), port());
}
