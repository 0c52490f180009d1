//! The commands as an auditor and an operator meet them: exit codes, words, JSON, and another program.

use std::process::{Output, Stdio};
use std::time::Duration;

use countersign::cli::{Card, McpClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::story::each;
use super::story::{Story, configured, signer};
use crate::harness::app::App;
use crate::harness::desk;
use crate::harness::folder::Folder;
use crate::restore::{back_up, restore};

const VERIFIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/verify_audit.py");

fn program(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = desk::program();
    command.args(arguments).envs(environment.iter().copied());
    command
}

async fn run(mut command: Command) -> Output {
    tokio::time::timeout(Duration::from_secs(30), command.output()).await.unwrap().unwrap()
}

/// Exit code, stdout and stderr.
async fn said(command: Command) -> (i32, String, String) {
    let output = run(command).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// `verify audit` on the desk's database.
async fn verify(app: &App, arguments: &[&str]) -> (i32, String, String) {
    let arguments = [&["verify", "audit"], arguments].concat();
    said(program(&arguments, &[("COUNTERSIGN__DATABASE__URL", app.db.url())])).await
}

#[tokio::test]
async fn verify_audit_says_what_it_found_in_its_exit_code_in_words_and_in_json() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let story = Story::tell(app, &folder).await;
        folder.write("pub", &signer().verifier().to_text());
        let (sink, file, key) = (
            folder.join("sink").display().to_string(),
            folder.join("pub").display().to_string(),
            signer().verifier().to_text(),
        );
        let (code, out, err) = verify(app, &[]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        let entries = story.entries();
        assert!(out.starts_with(&format!("the audit of default is whole: {entries} entries, head ")), "{out}");
        assert!(out.contains("without --checkpoints"), "it says what it can't see: {out}");
        for key in [&file, &key] {
            let (code, out, _) = verify(app, &["--checkpoints", &sink, "--key", key]).await;
            let covered = format!("2 agree and vouch for up to entry {} as signed at 2", story.signed[1]);
            assert!(code == 0 && out.contains(&covered) && !out.contains("without"), "{out}");
        }

        let approved = story.seq(&story.paid, "decision.approve");
        let edit = |from: &str, to: &str| {
            format!("UPDATE audit_entries SET canonical = REPLACE(canonical, '{from}', '{to}') WHERE seq = {approved}")
        };
        app.db.raw().await.execute(&edit("finance-1", "finance-x")).await.unwrap();
        let (code, out, err) = verify(app, &["--checkpoints", &sink, "--key", &key]).await;
        let place = format!("entry {approved} {} entry_edited: expected ", story.paid);
        assert!(code == 3 && out.contains("BROKEN") && out.contains(&place), "{out}");
        assert!(
            err.starts_with(&format!("countersign: the audit of default is broken: {place}"))
                && err.lines().count() == 1,
            "{err}"
        );
        let (code, out, _) = verify(app, &["--json", "--tenant", "default"]).await;
        let body: Value = serde_json::from_str(&out).unwrap();
        let first = &body["tenants"][0]["breaks"][0];
        assert_eq!((code, &body["ok"], &first["kind"]), (3, &json!(false), &json!("entry_edited")), "{body}");
        assert_eq!((&first["seq"], &first["payment_id"]), (&json!(approved), &json!(story.paid)));
        app.db.raw().await.execute(&edit("finance-x", "finance-1")).await.unwrap();
        let (code, out, err) = verify(app, &["--json", "--tenant", "nobody"]).await;
        assert!(code == 1 && out.is_empty() && err.contains("there is no audit of nobody"), "{code} {out} {err}");

        for (arguments, named) in [
            (vec!["--checkpoints", &sink], "--key"),
            (vec!["--key", &key], "--checkpoints"),
            (vec!["--checkpoints", "/nowhere/at/all", "--key", &key], "--checkpoints"),
            (vec!["--checkpoints", &sink, "--key", "nonsense"], "--key"),
            (vec!["--checkpoints", &sink, "--key", &key, "--covered-within", "soon"], "--covered-within"),
        ] {
            let (code, _, err) = verify(app, &arguments).await;
            assert!(code == 2 && err.contains(named), "{arguments:?}: {code} {err}");
        }
        let nothing =
            said(program(&["verify", "audit"], &[("COUNTERSIGN__DATABASE__URL", "sqlite:///nowhere/at/all.db")])).await;
        assert_eq!(nothing.0, 1, "not looked at is not broken: {}", nothing.2);
    })
    .await;
}

#[tokio::test]
async fn audit_checkpoint_writes_one_before_a_backup_and_says_why_it_can_not() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        configured(app, &folder);
        let (sink, key) = (folder.join("sink").display().to_string(), folder.join("key").display().to_string());
        let on = [
            ("COUNTERSIGN__DATABASE__URL", app.db.url()),
            ("COUNTERSIGN__AUDIT__CHECKPOINT_FOLDER", &sink),
            ("COUNTERSIGN__AUDIT__CHECKPOINT_KEY_FILE", &key),
        ];
        let entries = app.audit().await.len();
        for (word, lines) in [("wrote", 7), ("stands", 7)] {
            let (code, out, err) = said(program(&["audit", "checkpoint"], &on)).await;
            let line = format!("{word:<7} default entry {entries}\n");
            assert_eq!((code, out, err.as_str()), (0, line, ""));
            assert_eq!(folder.read("sink/default.checkpoints").lines().count(), lines);
        }
        let (code, out, _) = said(program(&["audit", "checkpoint", "--json"], &on)).await;
        let body: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &body["ok"], &body["tenants"][0]["written"]), (0, &json!(true), &json!(false)), "{body}");

        app.create("order-1").await;
        let gone = [on[0], ("COUNTERSIGN__AUDIT__CHECKPOINT_FOLDER", &key), on[2]];
        let (code, out, err) = said(program(&["audit", "checkpoint"], &gone)).await;
        assert!(code == 1 && out.starts_with("failed  default") && err.contains("not every chain"), "{out}{err}");
        let (code, _, err) = said(program(&["audit", "checkpoint"], &on[..1])).await;
        assert!(code == 2 && err.contains("audit.checkpoint_folder"), "{err}");
        for (files, named) in [
            ([on[0], on[1], ("COUNTERSIGN__AUDIT__CHECKPOINT_KEY_FILE", "")], "audit.checkpoint_key_file"),
            ([on[0], on[1], ("COUNTERSIGN__AUDIT__CHECKPOINT_KEY_FILE", "/nowhere/key")], "/nowhere/key"),
            ([on[0], on[1], ("COUNTERSIGN__AUDIT__CHECKPOINT_KEY_FILE", &sink)], "audit.checkpoint_key_file"),
        ] {
            let (code, _, err) = said(program(&["audit", "checkpoint"], &files)).await;
            assert!(code == 2 && err.contains(named) && err.lines().count() == 1, "{err}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_is_made_once_and_never_overwritten() {
    let folder = Folder::new("audit");
    let file = folder.join("checkpoint-key").display().to_string();
    let make = |origin: &str| program(&["keys", "checkpoint", &file, "--origin", origin], &[]);
    let (code, _, err) = said(make("a b")).await;
    assert!(code == 2 && err.contains("--origin"), "{err}");
    let (code, out, _) = said(make("pay.example")).await;
    assert_eq!(code, 0, "{out}");
    let private = folder.read("checkpoint-key");
    let public = folder.read("checkpoint-key.pub");
    assert!(private.starts_with("PRIVATE+KEY+pay.example+") && public.starts_with("pay.example+"));
    assert!(out.ends_with(&public) && !out.contains(private.trim()), "{out}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(said(make("pay.example")).await.0, 1);
    assert_eq!(folder.read("checkpoint-key"), private);
    // The half that is there has its name; another is not quietly left out.
    let half = folder.join("checkpoint-key.pub");
    std::fs::remove_file(&half).unwrap();
    for origin in ["other.example", "countersign", "a b"] {
        let (code, _, err) = said(make(origin)).await;
        assert!(code == 2 && err.contains("--origin") && err.contains("pay.example"), "{origin}: {code} {err}");
        assert!(!half.exists(), "{origin}");
    }
    for again in [make("pay.example"), program(&["keys", "checkpoint", &file], &[])] {
        assert_eq!(said(again).await.0, 0);
        assert_eq!(
            (folder.read("checkpoint-key"), folder.read("checkpoint-key.pub")),
            (private.clone(), public.clone())
        );
        std::fs::remove_file(&half).unwrap();
    }
}

/// docs/restore.md: what an auditor sees of a restored desk, and what becomes of the checkpoints.
#[tokio::test]
async fn after_a_restore_the_old_checkpoints_stop_the_new_ones_until_moved_aside_and_stay_evidence() {
    each(async |app: &mut App| {
        app.did.rewind = true;
        let folder = Folder::new("audit");
        configured(app, &folder);
        let [sink, aside, key] = ["sink", "aside", "key"].map(|name| folder.join(name).display().to_string());
        let public = signer().verifier().to_text();
        let on = [
            ("COUNTERSIGN__DATABASE__URL", app.db.url()),
            ("COUNTERSIGN__AUDIT__CHECKPOINT_FOLDER", &sink),
            ("COUNTERSIGN__AUDIT__CHECKPOINT_KEY_FILE", &key),
        ];
        let checkpoint = async || said(program(&["audit", "checkpoint"], &on)).await;
        let against = async |folder: &str| verify(app, &["--json", "--checkpoints", folder, "--key", &public]).await;
        let found = |out: &str| {
            let report: Value = serde_json::from_str(out).unwrap();
            let breaks = report["tenants"][0]["breaks"].as_array().unwrap().clone();
            assert_eq!(breaks.len(), 1, "{report:#}");
            (breaks[0]["kind"].as_str().unwrap().to_owned(), breaks[0]["expected"].as_str().unwrap().to_owned())
        };
        app.create("kept").await;
        assert_eq!(checkpoint().await.0, 0);
        let kept = app.audit().await.len();
        back_up(app).await;
        app.create("lost").await;
        assert_eq!(checkpoint().await.0, 0);
        let known = app.audit().await.len();
        restore(app).await;

        // Before anything is written: the end is missing, and that is all.
        let (code, out, _) = against(&sink).await;
        let (kind, expected) = found(&out);
        assert_eq!((code, kind.as_str()), (3, "tail_cut"), "{out}");
        assert!(expected.starts_with(&format!("{known} entries")), "{expected}");
        let (code, out, _) = checkpoint().await;
        assert!(code == 1 && out.contains("the chain is not the one that was signed"), "{code} {out}");
        // Afterwards the new chain has grown over it.
        app.create("new").await;
        app.create("newer").await;
        let (code, out, _) = against(&sink).await;
        let (kind, expected) = found(&out);
        assert_eq!((code, kind.as_str()), (3, "checkpoint_disagrees"), "{out}");
        assert!(
            expected.ends_with(&format!("the last entry that a checkpoint before it confirms is {kept}")),
            "{expected}"
        );
        assert_eq!(checkpoint().await.0, 1);

        std::fs::rename(&sink, &aside).unwrap();
        assert_eq!(checkpoint().await.0, 0);
        let (code, out, _) = against(&sink).await;
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &report["tenants"][0]["covered"]["uncovered"]), (0, &json!(0)), "{report:#}");
        let (code, out, _) = against(&aside).await;
        assert_eq!((code, found(&out).0.as_str()), (3, "checkpoint_disagrees"), "it says what it said");
    })
    .await;
}

/// A `dev` instance in `folder`, and its card.
async fn dev(folder: &str) -> (Child, Card) {
    let quick = [("COUNTERSIGN__TELEMETRY__LOG", "off"), ("COUNTERSIGN__AUDIT__CHECKPOINT_EVERY_MS", "200")];
    let mut command = program(&["dev", "--json", "--port", "0", "--data-dir", folder], &quick);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.unwrap().unwrap().unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

#[tokio::test]
async fn dev_makes_checkpoints_by_itself_and_the_last_at_its_end() {
    let folder = Folder::new("audit");
    let home = folder.join("dev").display().to_string();
    let database = format!("sqlite://{home}/gateway.db");
    let (sink, key) = (format!("{home}/checkpoints"), format!("{home}/keys/checkpoint-key.pub"));
    let verify = async || {
        let arguments = ["verify", "audit", "--json", "--checkpoints", &sink, "--key", &key];
        let (code, out, err) = said(program(&arguments, &[("COUNTERSIGN__DATABASE__URL", &database)])).await;
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str::<Value>(&out).unwrap()["tenants"][0].clone()
    };
    let mut entries = 0;
    for (order, kind) in [("order-1", "-TERM"), ("order-2", "-KILL"), ("order-3", "-TERM")] {
        let (mut child, card) = dev(&home).await;
        let client = McpClient::connect(&card.mcp_url, &card.tokens.agent).await.unwrap();
        for n in 0..3 {
            let wish = json!({"order_id": format!("{order}-{n}"), "amount": "1.00", "signer_id": "finance-1"});
            client.call("create_payment", wish).await.unwrap();
        }
        let pid = child.id().unwrap().to_string();
        assert!(Command::new("kill").args([kind, &pid]).status().await.unwrap().success());
        tokio::time::timeout(Duration::from_secs(20), child.wait()).await.unwrap().unwrap();
        let report = verify().await;
        assert!(report["entries"].as_i64().unwrap() > entries, "{report}");
        entries = report["entries"].as_i64().unwrap();
        if kind == "-TERM" {
            assert_eq!((&report["covered"]["uncovered"], &report["covered"]["up_to"]), (&json!(0), &json!(entries)));
        }
    }
}

#[tokio::test]
async fn check_says_whether_checkpoints_are_made() {
    let folder = Folder::new("audit");
    let home = folder.join("dev").display().to_string();
    let (child, card) = dev(&home).await;
    let database = format!("sqlite://{home}/gateway.db");
    let jwks = format!("{home}/keys/jwks.json");
    let api_key = |name: &str| folder.read(&format!("dev/keys/{name}"));
    let (signer_key, rail_key, secret) =
        (api_key("signer-api-key"), api_key("rail-api-key"), api_key("callback-secret"));
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/config/policy.toml");
    let (sink, key) = (format!("{home}/checkpoints"), format!("{home}/keys/checkpoint-key"));
    let mut settings = vec![
        ("COUNTERSIGN__DATABASE__URL", database.as_str()),
        ("COUNTERSIGN__AUTH__ISSUER", "https://issuer.dev.invalid"),
        ("COUNTERSIGN__AUTH__JWKS_FILE", &jwks),
        ("COUNTERSIGN__POLICY__FILE", policy),
        ("COUNTERSIGN__SIGNER__URL", &card.peers.signer),
        ("COUNTERSIGN__SIGNER__API_KEY", &signer_key),
        ("COUNTERSIGN__SIGNER__CALLBACK_SECRET", &secret),
        ("COUNTERSIGN__RAIL__URL", &card.peers.rail),
        ("COUNTERSIGN__RAIL__API_KEY", &rail_key),
    ];
    let (code, out, err) = said(program(&["check"], &settings)).await;
    assert!(code == 0 && out.contains("warning audit checkpoints: off"), "{out}{err}");
    let (_, out, _) = said(program(&["check", "--json"], &settings)).await;
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    let row = |row: &&serde_json::Value| row["dependency"] == "audit checkpoints";
    assert_eq!(told["dependencies"].as_array().unwrap().iter().find(row).unwrap()["result"], "warning", "{out}");
    settings.extend([
        ("COUNTERSIGN__AUDIT__CHECKPOINT_FOLDER", sink.as_str()),
        ("COUNTERSIGN__AUDIT__CHECKPOINT_KEY_FILE", &key),
    ]);
    let (code, out, _) = said(program(&["check"], &settings)).await;
    assert!(code == 0 && out.contains("ok      audit checkpoints\n"), "{out}");
    settings[9].1 = &key;
    let (code, out, _) = said(program(&["check"], &settings)).await;
    assert!(code == 1 && out.contains("failed  audit checkpoints: "), "{out}");
    // A process can't start without the key it was told of, and says which setting it is.
    settings[9].1 = &sink;
    settings[10].1 = "/nowhere/key";
    settings.push(("COUNTERSIGN__SERVER__LISTEN", "127.0.0.1:0"));
    settings.push(("COUNTERSIGN__TELEMETRY__LOG", "off"));
    for role in ["serve", "worker"] {
        let (code, _, err) = said(program(&[role], &settings)).await;
        assert!(code == 2 && err.contains("audit.checkpoint_key_file") && err.lines().count() == 1, "{role}: {err}");
    }
    drop(child);
}

/// Runs the independent verifier; `None`, said once, where there is no Python to run it.
async fn stranger(arguments: &[&str]) -> Option<(i32, String, String)> {
    let mut command = Command::new("python3");
    command.arg(VERIFIER).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(Duration::from_secs(30), command.output()).await.unwrap() {
        Ok(output) => {
            let text = |bytes| String::from_utf8(bytes).unwrap();
            Some((output.status.code().unwrap(), text(output.stdout), text(output.stderr)))
        }
        Err(err) => {
            assert!(std::env::var_os("CI").is_none(), "python3 is needed here: {err}");
            eprintln!("python3 was not found: docs/verify_audit.py did not run");
            None
        }
    }
}

#[tokio::test]
async fn another_program_comes_to_the_same_verdict_on_an_export() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let story = Story::tell(app, &folder).await;
        let export = said(program(&["audit", "export"], &[("COUNTERSIGN__DATABASE__URL", app.db.url())])).await;
        assert_eq!((export.0, export.2.as_str()), (0, ""));
        let text = export.1;
        assert_eq!(i64::try_from(text.lines().count()).unwrap(), story.entries());
        let (chain, notes) = (
            folder.join("audit.jsonl").display().to_string(),
            folder.join("sink/default.checkpoints").display().to_string(),
        );
        let (key, strange) = (
            signer().verifier().to_text(),
            countersign::proof::NoteSigner::from_seed("pay.example", &[1; 32]).unwrap(),
        );
        let good = folder.read("sink/default.checkpoints");
        let lines: Vec<&str> = text.lines().collect();
        let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().join("\n") + "\n";
        let [first, second] = story.signed;
        let at = usize::try_from(first).unwrap();
        let rows = [
            (
                text.clone(),
                good.clone(),
                key.clone(),
                format!("whole: {} entries, checkpoints vouch for {second}", story.entries()),
            ),
            (text.clone(), format!("{good}pay.\n#\n"), key.clone(), format!("whole: {} entries", story.entries())),
            (
                text.replacen("agent:agent-1", "agent:agent-9", 1),
                good.clone(),
                key.clone(),
                "does not follow".to_owned(),
            ),
            (without(at), good.clone(), key.clone(), format!("entry {}: not entry {}", first + 1, first + 1)),
            (
                lines[..at].join("\n") + "\n",
                good.clone(),
                key.clone(),
                format!("the chain ends at entry {first}; {second} were signed at "),
            ),
            (
                text.clone(),
                good.replacen(&format!("\n{first}\n"), &format!("\n{}\n", first - 1), 1),
                key.clone(),
                "not signed by this key".to_owned(),
            ),
            (text.clone(), good[..good.len() - 9].to_owned(), key.clone(), "the middle of a checkpoint".to_owned()),
            (text.clone(), String::new(), key.clone(), "there is no checkpoint in the file".to_owned()),
            (text.clone(), "\npay.\n#\n".to_owned(), key.clone(), "there is no checkpoint in the file".to_owned()),
            (text.clone(), good.clone(), strange.verifier().to_text(), "not signed by this key".to_owned()),
        ];
        for (text, file, key, verdict) in rows {
            folder.write("audit.jsonl", &text);
            folder.write("sink/default.checkpoints", &file);
            let Some((code, out, err)) = stranger(&[&chain, &notes, &key]).await else { return };
            assert!(out.contains(&verdict) && err.is_empty(), "{verdict}: {out}{err}");
            assert_eq!(code, i32::from(!verdict.starts_with("whole")), "{out}");
        }
        // What is no export or no checkpoint at all is said in words; nothing is read as if its line ends were ours.
        let converted = |text: &str| text.replace('\n', "\r\n").into_bytes();
        let (text, good, garbage) = (text.into_bytes(), good.into_bytes(), b"\xff\0 garbage\n".repeat(20));
        for (chain_file, file, key, verdict, lines) in [
            (
                converted(std::str::from_utf8(&text).unwrap()),
                good.clone(),
                &key,
                "entry 1: not a line of an export",
                None,
            ),
            (text.clone(), converted(std::str::from_utf8(&good).unwrap()), &key, "is not signed by this key", Some(2)),
            (text.clone(), garbage.clone(), &key, "a part of the file is no checkpoint", Some(1)),
            (b"[]\n5\n{\"entry\":5}\n".to_vec(), Vec::new(), &key, "entry 3: not a line of an export", Some(4)),
            (text, good, &"pay.example+no+key".to_owned(), "the public key is not one", Some(1)),
        ] {
            std::fs::write(&chain, chain_file).unwrap();
            std::fs::write(&notes, file).unwrap();
            let Some((code, out, err)) = stranger(&[&chain, &notes, key]).await else { return };
            assert!(code == 1 && err.is_empty() && out.contains(verdict), "{verdict}: {code} {out}{err}");
            assert!(lines.is_none_or(|lines| out.lines().count() == lines), "{verdict}: {out}");
        }
        std::fs::remove_file(&notes).unwrap();
        let Some((code, out, err)) = stranger(&[&chain, &notes, &key]).await else { return };
        assert!(code == 2 && out.is_empty() && err.lines().count() == 1 && err.contains(&notes), "{out}{err}");
    })
    .await;
}
