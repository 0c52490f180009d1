//! What a test wants done at a point: one line in a file, `POINT NTH ACTION`, taken by whoever it strikes.
//!
//! `NTH` is the passage that counts, from 1. Actions: `abort`; `abort+MS`, which goes on and aborts so many
//! milliseconds later; `stop`, which is SIGSTOP to itself. Processes may share a file: it strikes once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use super::Point;

/// Names the file.
const PLAN: &str = "COUNTERSIGN_CRASH_PLAN";

/// By how many milliseconds this process's clock is wrong.
const CLOCK_ERROR: &str = "COUNTERSIGN_CLOCK_ERROR_MS";

/// In microseconds, read once. A number that can't be read stops the process: a test would go by a right clock.
pub(super) fn clock_error() -> i64 {
    static ERROR: LazyLock<i64> = LazyLock::new(|| {
        let Some(text) = std::env::var_os(CLOCK_ERROR) else { return 0 };
        let Some(millis) = text.to_str().and_then(|millis| millis.parse::<i64>().ok()) else {
            eprintln!("{CLOCK_ERROR} must be a number of milliseconds");
            std::process::abort();
        };
        millis.saturating_mul(1_000)
    });
    *ERROR
}

/// The plan that is waited for, and how often its point was passed.
static PASSED: Mutex<(String, u32)> = Mutex::new((String::new(), 0));

struct Plan {
    kind: String,
    point: String,
    nth: u32,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    Abort,
    AbortLater(Duration),
    Stop,
}

impl FromStr for Plan {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split_whitespace();
        let (Some(name), Some(nth), Some(action), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(());
        };
        let (kind, point) = name.split_once('/').unwrap_or(("", name));
        let later = action.strip_prefix("abort+").and_then(|millis| millis.parse().ok());
        let action = match (action, later) {
            ("abort", _) => Action::Abort,
            ("stop", _) => Action::Stop,
            (_, Some(millis)) => Action::AbortLater(Duration::from_millis(millis)),
            _ => return Err(()),
        };
        let nth = nth.parse().map_err(drop)?;
        Ok(Self { kind: kind.to_owned(), point: point.to_owned(), nth, action })
    }
}

/// Does what the plan says about this point, if anything.
pub(super) fn pass(kind: &str, point: Point) {
    let Some(file) = std::env::var_os(PLAN).map(PathBuf::from) else { return };
    let Ok(text) = std::fs::read_to_string(&file) else { return };
    let Ok(plan) = text.parse::<Plan>() else { return };
    let meant = plan.point == point.as_str() && (plan.kind.is_empty() || kind.split(':').any(|word| word == plan.kind));
    if meant && is_time(&text, plan.nth) && taken(&file) {
        act(plan.action);
    }
}

/// Counts the passage; whether it is the one that is meant.
fn is_time(text: &str, nth: u32) -> bool {
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    if passed.0 != text {
        *passed = (text.to_owned(), 0);
    }
    passed.1 = passed.1.saturating_add(1);
    let is_time = passed.1 == nth;
    if is_time {
        *passed = (String::new(), 0);
    }
    is_time
}

/// Takes the file away; `false` when another process was faster.
fn taken(file: &Path) -> bool {
    let mut struck = file.as_os_str().to_owned();
    struck.push(".struck");
    std::fs::rename(file, struck).is_ok()
}

fn act(action: Action) {
    match action {
        Action::Abort => std::process::abort(),
        Action::AbortLater(wait) => {
            std::thread::spawn(move || {
                std::thread::sleep(wait);
                std::process::abort();
            });
        }
        Action::Stop => {
            let ours = std::process::id().to_string();
            // It stops while it waits for this.
            let _ = Command::new("kill").args(["-STOP", &ours]).stdin(Stdio::null()).status();
        }
    }
}
