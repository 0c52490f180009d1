//! A command whose reader has gone, as `head` goes, ends quietly and says so in its exit code.

use std::process::Output;
use std::time::Duration;

use tokio::process::Command;

use crate::harness::app::{App, each};
use crate::harness::desk;
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
