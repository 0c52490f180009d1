//! Stopping: one token that signals or a parent's end turn, handed to whoever must end.

use tokio_util::sync::CancellationToken;

/// A token that is cancelled by SIGTERM or SIGINT.
///
/// A second signal ends the process at once, for someone who will not wait for the drain.
///
/// *Errors*: the signal handlers can't be installed.
pub fn stop_on_signals() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut signals = Signals::install()?;
    let stop = token.clone();
    tokio::spawn(async move {
        let name = signals.next().await;
        tracing::info!(signal = name, "stopping: calls in flight get time to end");
        stop.cancel();
        let name = signals.next().await;
        tracing::warn!(signal = name, "stopping at once");
        std::process::exit(130);
    });
    Ok(token)
}

/// Cancels `stop` once nobody holds the other end of our standard input: the parent ended, however it did.
pub fn stop_with_parent(stop: CancellationToken) {
    // It may read for as long as the process lives, and nobody waits for it.
    std::thread::spawn(move || {
        let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        tracing::info!(ok = ended.is_ok(), "stopping: the parent has ended");
        stop.cancel();
    });
}

#[cfg(unix)]
struct Signals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn install() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn install() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn sigterm_turns_the_token() {
        let stop = stop_on_signals().unwrap();
        assert!(!stop.is_cancelled());
        let me = std::process::id().to_string();
        let sent = tokio::process::Command::new("kill").args(["-TERM", &me]).status().await.unwrap();
        assert!(sent.success());
        tokio::time::timeout(Duration::from_secs(5), stop.cancelled()).await.unwrap();
    }
}
