//! The program as a child process: started, killed, stopped, continued, and what it said kept.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

/// The program under test, with none of this process's own settings.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("COUNTERSIGN")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Sends a signal, such as `TERM`, to a child that has not been waited for.
pub(crate) fn signal(child: &Child, name: &str) {
    if let Some(pid) = child.id() {
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
        assert!(sent.unwrap().success(), "SIG{name} to {pid}");
    }
}

/// One process of a desk.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Its standard error, over all its lives.
    log: PathBuf,
    /// Where it says that it is ready.
    health: String,
    child: Option<Child>,
}

impl Process {
    pub(super) fn new(
        name: String,
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
        log: PathBuf,
        health: String,
    ) -> Self {
        Self { name, arguments, environment, log, health, child: None }
    }

    /// Starts it, with more settings for this life; does not wait.
    pub(super) fn start(&mut self, more: &[(String, String)]) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let environment = self.environment.iter().chain(more).map(|(name, value)| (name, value));
        let child =
            program().args(&self.arguments).envs(environment).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.child = Some(child);
    }

    /// Whether it answers as ready within `patience`; `false` at once when it has ended.
    pub(super) async fn ready(&mut self, http: &reqwest::Client, patience: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + patience;
        while tokio::time::Instant::now() < deadline && self.runs() {
            if http.get(&self.health).send().await.is_ok_and(|answer| answer.status() == 200) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }

    /// Whether it has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Waits until it has ended; `None` where it was not running, or has not within `patience`.
    pub(crate) async fn ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        let status = tokio::time::timeout(patience, self.child.as_mut()?.wait()).await.ok()?.unwrap();
        self.child = None;
        Some(status)
    }

    /// SIGKILL, and gone when this returns.
    pub(crate) async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.unwrap();
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            signal(child, name);
        }
    }

    /// What it said on its standard error, over all its lives.
    pub(crate) fn said(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}
