//! `signers.toml`: the documentation's example starts a service; what can't be used is named, and no secret is shown.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::harness::app::{CALLBACK_SECRET, SIGNER_API_KEY};
use crate::harness::desk::program;
use crate::harness::folder::Folder;
use crate::startup::{refuses, run};

/// The example of docs/channels.md.
fn example() -> &'static str {
    let page = include_str!("../../docs/channels.md");
    page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap()
}

/// What the example names, beside it.
fn files(folder: &Folder) -> Vec<String> {
    folder.write("smtp-password", "SECRET\n");
    folder.write("chat-url", "https://chat.example/hooks/SECRET\n");
    folder.write("chat-secret", CALLBACK_SECRET);
    folder.write("ntfy-token", "tk_SECRET\n");
    let files = [
        ("--api-key-file", folder.write("key", SIGNER_API_KEY)),
        ("--callback-secret-file", folder.write("secret", CALLBACK_SECRET)),
        ("--database", folder.place("signer.db")),
        ("--listen", "127.0.0.1:0".to_owned()),
    ];
    files.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect()
}

fn arguments<'a>(files: &'a [String], directory: &'a str) -> Vec<&'a str> {
    ["signer", "--directory", directory].into_iter().chain(files.iter().map(String::as_str)).collect()
}

#[test]
fn the_documentations_example_starts_a_service() {
    let folder = Folder::new("people");
    let files = files(&folder);
    let directory = folder.write("signers.toml", example());
    let mut command = program().into_std();
    command.args(arguments(&files, &directory)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        said.push(line);
        if said.last().unwrap().contains("signer service is serving") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.last().is_some_and(|line| line.contains("signer service is serving")), "{said:?}");
    assert!(!said.concat().contains("SECRET"), "{said:?}");
}

#[tokio::test]
async fn what_cannot_be_used_is_named_and_no_secret_is_shown() {
    let folder = Folder::new("people");
    let files = files(&folder);
    for (right, wrong, named) in [
        ("password_file = \"smtp-password\"", "password = \"SECRET\"", "unknown field `password`"),
        ("password_file = \"smtp-password\"", "", "username needs password_file"),
        ("username = \"countersign\"", "", "a password needs a username"),
        ("password_file = \"smtp-password\"", "password_env = \"NOBODY_SETS_THIS\"", "NOBODY_SETS_THIS"),
        ("password_file = \"smtp-password\"", "password_file = \"nowhere\"", "can't be read"),
        ("tls = \"starttls\"", "tls = \"none\"", "in the clear"),
        ("tls = \"starttls\"", "tls = \"maybe\"", "unknown variant `maybe`"),
        ("smtp.example.com:587", "smtp.example.com", "host:port"),
        ("secret_file = \"chat-secret\"", "", "secret is needed"),
        ("url_file = \"chat-url\"", "url_file = \"chat-url\"\nurl = \"https://x.example/SECRET\"", "given twice"),
        ("kind = \"ntfy\"", "kind = \"fax\"", "unknown variant `fax`"),
        ("language = \"en\"", "language = \"tlh\"", "not en or zh"),
        ("Europe/Berlin", "Mars/Base", "no IANA time zone"),
        ("22:00-07:00", "nights", "quiet_hours"),
        ("by = \"push\"", "by = \"pigeon\"", "there is no channel \"pigeon\""),
        ("to = \"ann@example.com\"", "to = \"ann\"", "mail address"),
        ("most = 3", "most = 0", "at least one"),
        ("message_links_s = 21600", "message_links_s = 0", "message_links"),
        ("answer_within_ms = 4000", "answer_within_ms = 0", "answer_within"),
    ] {
        let text = example().replacen(right, wrong, 1);
        assert_ne!(text, example(), "{right}");
        let directory = folder.write("signers.toml", &text);
        let output = run(&arguments(&files, &directory), &[]).await;
        refuses(wrong, &output, 2, named);
        assert!(!String::from_utf8(output.stderr).unwrap().contains("SECRET"), "{wrong}");
    }
}
