//! What a container needs of the program, and the files in `deploy` against what they must fit.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use countersign::cli::Card;
use countersign::config::DEFAULTS;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use crate::harness::desk::program;
use crate::harness::folder::Folder;

async fn run(arguments: &[&str]) -> Output {
    tokio::time::timeout(Duration::from_mins(1), program().args(arguments).output()).await.unwrap().unwrap()
}

/// A dev instance in `folder`, killed when dropped.
async fn dev(folder: &Folder) -> (Child, Card) {
    let mut child = program()
        .args(["dev", "--json", "--port", "0", "--data-dir", &folder.place("dev")])
        .env("COUNTERSIGN__TELEMETRY__LOG", "off")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.unwrap().unwrap();
    (child, serde_json::from_str(&line.expect("it starts")).unwrap())
}

fn read(path: &str) -> toml::Table {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    text.parse().unwrap()
}

#[tokio::test]
async fn the_demo_plays_on_an_instance_that_runs_and_health_tells_by_its_exit_code() {
    let folder = Folder::new("ship");
    let (mut child, card) = dev(&folder).await;
    let keys = folder.place("dev/keys");
    let told = run(&["demo", "--json", "--url", &card.mcp_url, "--keys", &keys, "--rail", &card.peers.rail]).await;
    let story: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(told.status.success() && story["held"] == true, "{story:#}");
    assert_eq!(story["promises"].as_array().unwrap().len(), 10);

    let gateway = card.peers.gateway;
    for (page, code) in [("readyz", 0), ("healthz", 0), ("nothing-here", 1)] {
        let told = run(&["health", &format!("{gateway}/{page}")]).await;
        assert_eq!(told.status.code(), Some(code), "{page}: {}", String::from_utf8_lossy(&told.stderr));
    }
    child.kill().await.unwrap();
    assert_eq!(run(&["health", &format!("{gateway}/readyz")]).await.status.code(), Some(1), "nobody is there");
    assert_eq!(run(&["health", "not a page"]).await.status.code(), Some(2));
}

#[tokio::test]
async fn an_issuers_key_is_made_once_and_its_jwks_again() {
    let folder = Folder::new("ship");
    let (pem, jwks) = (folder.place("issuer.pem"), folder.place("issuer.jwks.json"));
    let made = async || {
        assert!(run(&["keys", "issuer", &pem]).await.status.success());
        (std::fs::read_to_string(&pem).unwrap(), std::fs::read_to_string(&jwks).unwrap())
    };
    let first = made().await;
    std::fs::remove_file(&jwks).unwrap();
    assert_eq!(first, made().await);
    assert!(first.1.contains("OKP") && !first.1.contains("\"d\""), "the public half only: {}", first.1);
}

#[test]
fn the_deployed_settings_exist() {
    let (known, deployed) = (DEFAULTS.parse::<toml::Table>().unwrap(), read("deploy/countersign.toml"));
    for (section, settings) in &deployed {
        for setting in settings.as_table().unwrap().keys() {
            let exists = known.get(section).and_then(|section| section.get(setting)).is_some();
            assert!(exists, "deploy/countersign.toml: {section}.{setting}");
        }
    }
}

#[test]
fn everyone_who_approves_is_in_the_deployed_directory() {
    let (policy, directory) = (read("config/policy.toml"), read("deploy/signers.toml"));
    let known: Vec<&str> =
        directory["signer"].as_array().unwrap().iter().map(|signer| signer["signer_id"].as_str().unwrap()).collect();
    for (group, people) in policy["groups"].as_table().unwrap() {
        for person in people.as_array().unwrap() {
            assert!(known.contains(&person.as_str().unwrap()), "{group}: {person}");
        }
    }
}
