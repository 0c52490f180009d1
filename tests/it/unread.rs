//! A command whose reader has gone, as `head` goes, ends quietly and says so in its exit code.

use std::process::Output;
use std::time::Duration;

use countersign::cli::Card;
use tokio::process::Command;

use crate::harness::app::{App, each};
use crate::harness::desk;
use crate::harness::desk::signal;
use crate::harness::folder::Folder;

/// Of a shell's 128 and SIGPIPE.
const UNREAD: i32 = 141;

/// The writing end of a pipe that nobody reads.
fn unread() -> std::io::PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

async fn ended(mut command: Command) -> Output {
    let child = command.spawn().unwrap();
    // The test's own end of the pipes is closed, as a shell closes it.
    drop(command);
    tokio::time::timeout(Duration::from_secs(30), child.wait_with_output()).await.unwrap().unwrap()
}

#[tokio::test]
async fn who_reads_no_further_ends_a_command_without_a_word() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        let folder = Folder::new("unread");
        let (keys, database) = (folder.join("keys").display().to_string(), app.db.url().to_owned());
        let mut spoken = Vec::new();
        for arguments in [
            vec!["verify", "audit"],
            vec!["verify", "audit", "--json"],
            vec!["audit", "export"],
            vec!["webhooks", "list"],
            vec!["keys", "init", &keys],
        ] {
            let mut command = desk::program();
            command.args(&arguments).env("COUNTERSIGN__DATABASE__URL", &database);
            command.stdout(unread()).stderr(std::process::Stdio::piped());
            let output = ended(command).await;
            let err = String::from_utf8(output.stderr).unwrap();
            if (output.status.code(), err.as_str()) != (Some(UNREAD), "") {
                spoken.push(format!("{arguments:?}: {:?} {err}", output.status.code()));
            }
        }
        assert_eq!(spoken, [""; 0]);
        let made = ["callback-secret", "rail-api-key", "signer-api-key"].map(|name| folder.join("keys").join(name));
        assert!(made.iter().all(|file| file.exists()), "what it was to do is done before it is said");
        // That nobody reads what is said beside the output changes nothing.
        let mut command = desk::program();
        command.args(["verify", "audit"]).env("COUNTERSIGN__DATABASE__URL", "sqlite:///nowhere/at/all.db");
        command.stdout(std::process::Stdio::null()).stderr(unread());
        assert_eq!(ended(command).await.status.code(), Some(1));
    })
    .await;
}

/// The first path in `folder` that `seek` finds, within 30 s.
async fn found<T>(folder: &Folder, seek: impl Fn(&std::path::Path) -> Option<T>) -> T {
    for _ in 0..600 {
        let inside = std::fs::read_dir(&**folder).unwrap().find_map(|entry| seek(&entry.unwrap().path()));
        if let Some(inside) = inside {
            return inside;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not come to that within 30 s");
}

fn card(folder: &std::path::Path) -> Option<Card> {
    serde_json::from_str(&std::fs::read_to_string(folder.join("dev.json")).ok()?).ok()
}

fn listens(card: &Card) -> bool {
    std::net::TcpStream::connect(card.peers.gateway.trim_start_matches("http://")).is_ok()
}

/// Whether the instance has ended and `folder` is as `then` wants it, within 30 s; ends an instance that has not.
async fn ended_with(card: Option<&Card>, folder: &Folder, then: impl Fn(bool) -> bool) -> bool {
    for _ in 0..600 {
        let empty = std::fs::read_dir(&**folder).unwrap().next().is_none();
        if !card.is_some_and(listens) && then(empty) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if let Some(card) = card.filter(|card| listens(card)) {
        let _ = std::process::Command::new("kill").args(["-KILL", &card.pid.to_string()]).status();
    }
    false
}

/// Its instance is a process of its own, with ports and a folder: it ends with the demo, however that ends.
#[cfg(unix)]
#[tokio::test]
async fn a_demo_leaves_nothing_however_it_ends() {
    let folder = Folder::new("demo");
    let demo = |arguments: &[&str]| {
        let mut command = desk::program();
        command.arg("demo").args(arguments).env("TMPDIR", &*folder);
        command
    };
    // Nobody reads on; not on its standard error either.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = demo(&[]);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let instance = found(&folder, card).await;
    assert!(listens(&instance), "this is how it is seen");
    drop(reader);
    let ended = tokio::time::timeout(Duration::from_mins(1), child.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(UNREAD));
    assert!(ended_with(Some(&instance), &folder, |empty| empty).await, "nobody read on");

    // Killed while the instance runs, and while it starts; or asked to end, in the midst of the story.
    for (name, up) in [("KILL", true), ("KILL", false), ("TERM", true)] {
        let mut child = demo(&["--json"]).stdout(std::process::Stdio::null()).spawn().unwrap();
        let instance = if up {
            Some(found(&folder, card).await)
        } else {
            found(&folder, |folder| folder.join("dev.lock").exists().then_some(())).await;
            None
        };
        signal(&child, name);
        assert!(!child.wait().await.unwrap().success());
        assert!(ended_with(instance.as_ref(), &folder, |empty| empty).await, "SIG{name}, up: {up}");
    }

    // Kept is what a person wants to look at.
    let mut child = demo(&["--json", "--keep"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let (instance, kept) = found(&folder, |folder| Some((card(folder)?, folder.join("gateway.db")))).await;
    signal(&child, "KILL");
    assert!(!child.wait().await.unwrap().success());
    assert!(ended_with(Some(&instance), &folder, |empty| !empty).await && kept.exists(), "the folder stays");
}
