//! What people and programs are told when they ask in a wrong way: what is wrong, and what to do instead.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use serde_json::json;
use tokio::net::TcpListener;

use crate::desk_hands::hold;
use crate::harness::app::{App, each};
use crate::harness::database::Raw;
use crate::harness::desk::program;
use crate::harness::folder::Folder;

async fn run(folder: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> (i32, String) {
    let mut command = program();
    command.args(arguments).envs(environment.iter().copied()).current_dir(folder);
    let ended = tokio::time::timeout(Duration::from_secs(40), command.output());
    let Output { status, stdout, stderr } = ended.await.unwrap().unwrap();
    let told = format!("{}{}", String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    (status.code().unwrap(), told)
}

#[tokio::test]
async fn commands_on_keys_say_which_file_and_which_half() {
    let folder = Folder::new("words");
    let told = async |arguments: &[&str], code: i32, words: &str| {
        let (ended, told) = run(&folder, &[], arguments).await;
        assert!(ended == code && told.contains(words), "{arguments:?}: {ended} {told}");
        told
    };
    let made = told(&["keys", "new", "a.pem"], 0, "key id ").await;
    let key_id = made.lines().find_map(|line| line.strip_prefix("key id ")).unwrap().to_owned();
    told(&["keys", "new", "nowhere/x.pem"], 1, "nowhere/x.pem: can't be written").await;
    told(&["keys", "init", "a.pem/x"], 1, "a.pem/x: can't be written").await;
    told(&["keys", "issuer", "nowhere/x.pem"], 1, "nowhere/x.pem: can't be written").await;
    told(&["keys", "checkpoint", "nowhere/x"], 1, "nowhere/x: can't be written").await;
    told(&["keys", "enrol", "finance-1", "a.pem", "--by", "x"], 2, "a.pem: is a private key").await;
    let wrong_half = ["sign", "o", "--url", "http://127.0.0.1:9/mcp", "--token", "t", "--key", "a.pub.pem", "--yes"];
    told(&wrong_half, 2, "a.pub.pem: is a public key").await;
    std::fs::create_dir(folder.join("config")).unwrap();
    std::fs::write(folder.join("config/policy.toml"), crate::harness::app::POLICY).unwrap();
    told(&["migrate"], 0, "up to date").await;
    let named = told(&["keys", "enrol", "finance-1", "a.pub.pem", "--by", "x"], 0, "finance-1 enrolled").await;
    assert!(!named.contains("no group"), "{named}");
    told(&["keys", "revoke", "finance-1", &key_id, "--by", "x"], 0, "lost").await;
    // Whoever was cut off before the signer service was told does it again.
    told(&["keys", "revoke", "finance-1", &key_id, "--by", "x"], 0, "lost").await;
    told(&["keys", "revoke", "finance-1", "another", "--by", "x"], 1, "is no key of this signer's").await;
    told(&["keys", "enrol", "finance-1", "a.pub.pem", "--by", "x"], 1, "was revoked and never counts again").await;
    told(&["keys", "new", "b.pem"], 0, "key id ").await;
    for (arguments, private, public) in [
        (["keys", "new", "b.pem"], "b.pem", "b.pub.pem"),
        (["keys", "checkpoint", "audit-key"], "audit-key", "audit-key.pub"),
    ] {
        // The power went out between the halves: the one that is there is kept, the other made from it again.
        let before = run(&folder, &[], &arguments).await;
        let half = std::fs::read_to_string(folder.join(public)).unwrap();
        std::fs::remove_file(folder.join(public)).unwrap();
        told(&arguments, 0, public).await;
        assert_eq!(std::fs::read_to_string(folder.join(public)).unwrap(), half, "{before:?}");
        told(&arguments, 1, "exists; a key is never overwritten").await;
        std::fs::remove_file(folder.join(private)).unwrap();
        told(&arguments, 1, "its private half may be kept elsewhere").await;
        assert_eq!(std::fs::read_to_string(folder.join(public)).unwrap(), half);
    }
    told(&["keys", "enrol", "nobody-9", "b.pub.pem", "--by", "x"], 0, "no group of the policy names nobody-9").await;
    told(&["webhooks", "redeliver"], 2, "--all-dead").await;
}

/// A file that is empty or cut off holds nothing: a public one is made again, of a private one it is said.
#[tokio::test]
async fn half_written_keys_are_finished_or_called_broken() {
    const NEXT: &str = "move it away, and repeat this to make a new one";
    let folder = Folder::new("words");
    let told = async |arguments: &[&str], code: i32, words: &[&str]| {
        let (ended, told) = run(&folder, &[], arguments).await;
        assert!(ended == code && words.iter().all(|word| told.contains(word)), "{arguments:?}: {ended} {told}");
    };
    for (arguments, private, public) in
        [(["keys", "new", "a.pem"], "a.pem", "a.pub.pem"), (["keys", "checkpoint", "ck"], "ck", "ck.pub")]
    {
        let (wrote, kept, made) =
            (format!("wrote  {private}"), format!("kept   {private}"), format!("wrote  {public}"));
        // Of a public half that holds nothing nobody has the private one.
        folder.write(public, "");
        told(&arguments, 0, &[&wrote, &made]).await;
        let whole = (folder.read(private), folder.read(public));
        for cut in ["", "\n"] {
            folder.write(public, cut);
            told(&arguments, 0, &[&kept, &made]).await;
            assert_eq!((folder.read(private), folder.read(public)), whole);
        }
        std::fs::remove_file(folder.join(public)).unwrap();
        told(&arguments, 0, &[&kept, &made]).await;
        assert_eq!((folder.read(private), folder.read(public)), whole);
        folder.write(public, &whole.1[..30]);
        let other = format!("{public}: is not the public half of {private}; move it away");
        told(&arguments, 2, &[&other]).await;
        for public_is in [&whole.1[..], ""] {
            folder.write(public, public_is);
            for (cut, why) in [("", "it is empty"), (&whole.0[..40], "it was cut off")] {
                folder.write(private, cut);
                told(&arguments, 2, &[&format!("{private}: is no private key: {why}"), NEXT]).await;
                assert_eq!((folder.read(private), folder.read(public)), (cut.to_owned(), public_is.to_owned()));
            }
        }
    }
    for cut in ["", "-----BEGIN PRIVATE KEY-----\nMC4"] {
        folder.write("issuer.pem", cut);
        told(&["keys", "issuer", "issuer.pem"], 2, &["issuer.pem: is no private key: it ", NEXT]).await;
        assert!(!folder.join("issuer.jwks.json").exists() && folder.read("issuer.pem") == cut);
    }
    for (name, cut) in [("signer-api-key", ""), ("rail-api-key", "short\n"), ("callback-secret", "whsec_c2hvcnQ=")] {
        std::fs::create_dir(folder.join("secrets")).unwrap();
        folder.write(&format!("secrets/{name}"), cut);
        told(&["keys", "init", "secrets"], 2, &[&format!("secrets/{name}: is no secret: it "), NEXT]).await;
        assert_eq!(std::fs::read_dir(folder.join("secrets")).unwrap().count(), 1, "nothing is written");
        std::fs::remove_file(folder.join("secrets").join(name)).unwrap();
        told(&["keys", "init", "secrets"], 0, &[&format!("wrote  secrets/{name}")]).await;
        told(&["keys", "init", "secrets"], 0, &[&format!("kept   secrets/{name}")]).await;
        std::fs::remove_dir_all(folder.join("secrets")).unwrap();
    }
    for name in ["issuer.pem", "finance-1.pem", "checkpoint-key", "signer-api-key", "callback-secret"] {
        std::fs::create_dir_all(folder.join("dev/keys")).unwrap();
        folder.write(&format!("dev/keys/{name}"), "");
        told(&["dev", "--port", "0", "--data-dir", "dev"], 2, &[&format!("keys/{name}: is empty; move it away")]).await;
        std::fs::remove_dir_all(folder.join("dev")).unwrap();
    }
}

#[tokio::test]
async fn a_key_to_verify_with_that_is_not_there_is_named_as_such() {
    let folder = Folder::new("words");
    std::fs::create_dir(folder.join("sink")).unwrap();
    folder.write("other", "nothing of the kind");
    assert_eq!(run(&folder, &[], &["keys", "checkpoint", "ck"]).await.0, 0);
    let private = folder.read("ck").trim().to_owned();
    for (key, words) in [
        ("nowhere/ck.pub", "--key: nowhere/ck.pub: there is no such file"),
        ("sink", "--key: sink: can't be read: "),
        ("other", "--key: other: is not a checkpoint key"),
        ("ck", "--key: ck: is not a checkpoint key"),
        (&private, "--key: a private key: there is no such file"),
        ("ck.pub", "database: "),
        (folder.read("ck.pub").trim(), "database: "),
    ] {
        let (code, told) = run(&folder, &[], &["verify", "audit", "--checkpoints", "sink", "--key", key]).await;
        assert!(code != 0 && told.contains(words) && !told.contains(&private), "{key}: {code} {told}");
    }
}

/// A draft that a crash left, in the public file's mode or leading elsewhere, gives a private key neither.
#[cfg(unix)]
#[tokio::test]
async fn a_private_key_takes_nothing_over_from_a_draft_that_was_left() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = Folder::new("words");
    let mode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    std::fs::write(
        folder.join("a.tmp"),
        "left by a crash, and longer than any key that will be written here ".repeat(9),
    )
    .unwrap();
    std::fs::set_permissions(folder.join("a.tmp"), std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(folder.join("elsewhere"), "").unwrap();
    symlink(folder.join("elsewhere"), folder.join("b.tmp")).unwrap();
    for name in ["a", "b"] {
        let (code, told) = run(&folder, &[], &["keys", "new", &format!("{name}.pem")]).await;
        assert_eq!(code, 0, "{told}");
        assert_eq!((mode(&format!("{name}.pem")), mode(&format!("{name}.pub.pem"))), (0o600, 0o644), "{name}");
        let key = std::fs::read_to_string(folder.join(format!("{name}.pem"))).unwrap();
        assert!(key.starts_with("-----BEGIN") && !key.contains("left by"), "{name}");
        assert!(std::fs::symlink_metadata(folder.join(format!("{name}.pem"))).unwrap().is_file(), "{name}");
        assert!(!folder.join(format!("{name}.tmp")).exists(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(folder.join("elsewhere")).unwrap(), "");
}

#[tokio::test]
async fn a_span_that_cannot_be_meant_is_refused_by_the_command_line() {
    let folder = Folder::new("words");
    let signer = ["signer", "--directory", "d", "--api-key-file", "k", "--callback-secret-file", "c", "--link-minutes"];
    let token = ["token", "--role", "agent", "--subject", "a", "--minutes"];
    for (command, longest) in [(&signer[..], "527040"), (&token[..], "527040"), (&["health", "--timeout"], "3600")] {
        for span in ["0", "18446744073709551615"] {
            let (code, told) = run(&folder, &[], &[command, &[span]].concat()).await;
            assert!(code == 2 && told.contains(&format!("is not in 1..={longest}")), "{command:?}: {code} {told}");
        }
    }
}

#[tokio::test]
async fn what_speaks_of_what_is_there_makes_no_database() {
    let folder = Folder::new("words");
    let config = folder.write("good.toml", &crate::startup::good(&folder));
    assert_eq!(run(&folder, &[], &["keys", "new", "a.pem"]).await.0, 0);
    let database = folder.join("gateway.db");
    let commands: [&[&str]; 8] = [
        &["restored"],
        &["restored", "--mark-only"],
        &["restored", "--report"],
        &["keys", "enrol", "finance-1", "a.pub.pem", "--by", "x"],
        &["keys", "revoke", "finance-1", "k", "--by", "x"],
        &["verify", "audit"],
        &["audit", "export"],
        &["webhooks", "list"],
    ];
    for command in commands {
        let arguments = [command, &["--config", &config]].concat();
        let (code, told) = run(&folder, &[], &arguments).await;
        assert!(code == 1 && told.contains("there is no file "), "{command:?}: {code} {told}");
        assert!(!database.exists(), "{command:?}");
    }
    // Nor does one that somebody else's hand made empty become a desk's.
    std::fs::write(&database, "").unwrap();
    for command in &commands[..5] {
        let arguments = [command, &["--config", &config][..]].concat();
        let (code, told) = run(&folder, &[], &arguments).await;
        assert!(code == 1 && told.contains("it was never used"), "{command:?}: {code} {told}");
    }
}

#[tokio::test]
async fn a_database_without_this_versions_schema_is_named_as_such_and_stays_as_it_is() {
    let folder = Folder::new("words");
    let config = folder.write("good.toml", &crate::startup::good(&folder));
    let sink = folder.place("sink");
    let made = run(&folder, &[], &["keys", "checkpoint", "audit-key"]).await;
    assert_eq!(made.0, 0, "{}", made.1);
    let environment = [
        ("COUNTERSIGN__AUDIT__CHECKPOINT_FOLDER", sink.as_str()),
        ("COUNTERSIGN__AUDIT__CHECKPOINT_KEY_FILE", "audit-key"),
    ];
    let told = async |command: &[&str], words: &[&str]| {
        let (code, told) = run(&folder, &environment, &[command, &["--config", &config]].concat()).await;
        assert!(code == 1 && words.iter().all(|word| told.contains(word)), "{command:?}: {code} {told}");
    };
    let commands: [&[&str]; 7] = [
        &["verify", "audit"],
        &["audit", "export"],
        &["audit", "checkpoint"],
        &["webhooks", "list"],
        &["webhooks", "redeliver", "--all-dead"],
        &["check"],
        &["check", "--json"],
    ];
    std::fs::write(folder.join("gateway.db"), "").unwrap();
    for command in commands {
        told(command, &["it holds none; run countersign migrate"]).await;
    }
    assert_eq!(run(&folder, &[], &["migrate", "--config", &config]).await.0, 0);
    let mut raw = Raw::file(&format!("sqlite://{}", folder.place("gateway.db"))).await;
    let last = "DELETE FROM _sqlx_migrations WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)";
    raw.execute(last).await.unwrap();
    for command in commands {
        told(command, &["it is older, 1 migrations are not applied; run countersign migrate"]).await;
    }
    // One that a hand has damaged is told of in the database's own words.
    std::fs::remove_file(folder.join("gateway.db")).unwrap();
    drop(raw);
    assert_eq!(run(&folder, &[], &["migrate", "--config", &config]).await.0, 0);
    let mut raw = Raw::file(&format!("sqlite://{}", folder.place("gateway.db"))).await;
    raw.execute("DROP TABLE audit_heads").await.unwrap();
    told(&["verify", "audit"], &["the database refused a statement: ", "audit_heads"]).await;
}

#[tokio::test]
async fn a_variable_with_one_underscore_too_few_is_spelt_out() {
    let folder = Folder::new("words");
    let (code, told) = run(&folder, &[("COUNTERSIGN_WORKER__TICK_MS", "5")], &["serve"]).await;
    assert!(code == 2 && told.contains("COUNTERSIGN__WORKER__TICK_MS"), "{told}");
    let (code, told) = run(&folder, &[("COUNTERSIGN__DATABASE__URL", "mysql://x")], &["migrate"]).await;
    assert!(code == 2 && told.contains("database.url"), "{code} {told}");
}

#[tokio::test]
async fn signing_tells_a_dead_address_a_wrong_path_and_a_refused_token_apart() {
    let folder = Folder::new("words");
    assert_eq!(run(&folder, &[], &["keys", "new", "a.pem"]).await.0, 0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", axum::routing::post(async || StatusCode::UNAUTHORIZED));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    for (url, words) in [
        ("http://127.0.0.1:9/mcp".to_owned(), "can't be reached"),
        ("http://127.0.0.1:9/mcp?key=SECRET".to_owned(), "http://127.0.0.1:9/mcp?… can't be reached"),
        (format!("{here}/"), "is no MCP endpoint"),
        (format!("{here}/mcp"), "refuses the token"),
    ] {
        let arguments = ["sign", "o", "--url", &url, "--token", "t", "--key", "a.pem", "--yes"];
        let (code, told) = run(&folder, &[], &arguments).await;
        assert!(code == 1 && told.contains(words), "{url}: {code} {told}");
    }
    serving.abort();
}

#[tokio::test]
async fn signing_what_is_held_or_has_ended_is_not_even_asked_for() {
    each(async |app: &mut App| {
        let folder = Folder::new("words");
        std::fs::write(folder.join("a.pem"), app.key("finance-1").to_pem().unwrap().as_bytes()).unwrap();
        app.awaiting("held").await;
        assert!(!hold(app, "held").await.is_error);
        app.awaiting("over").await;
        app.cancel("over").await;
        let (url, token) = (format!("{}/mcp", app.config.server.public_url), app.signer_token("finance-1"));
        for (order, words) in [("held", "Nothing is to be signed until it is released"), ("over", "was called off")] {
            let arguments = ["sign", order, "--url", &url, "--token", &token, "--key", "a.pem", "--yes"];
            let (code, told) = run(&folder, &[], &arguments).await;
            assert!(code == 1 && told.contains(words) && told.lines().count() == 1, "{order}: {code} {told}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_signer_service_that_is_not_there_is_not_checked() {
    let folder = Folder::new("words");
    std::fs::write(folder.join("key"), "signer-api-key-for-tests").unwrap();
    let arguments = ["check", "signer", "http://127.0.0.1:9", "--api-key-file", "key"];
    let (code, told) = run(&folder, &[], &arguments).await;
    assert!(code == 1 && told.contains("can't be reached") && told.lines().count() == 1, "{code} {told}");
}

#[tokio::test]
async fn an_address_and_a_version_that_there_are_not_are_answered_in_form() {
    each(async |app: &mut App| {
        for path in ["/", "/nowhere", "/mcp/"] {
            let answer = app.http.get(format!("{}{path}", app.config.server.public_url)).send().await.unwrap();
            assert_eq!(answer.status(), 404, "{path}");
            assert_eq!(answer.headers()["content-type"], "application/problem+json", "{path}");
        }
        for (path, allowed) in [
            ("/callbacks/signer", "POST"),
            ("/healthz", "GET"),
            ("/readyz", "GET"),
            ("/.well-known/oauth-protected-resource", "GET"),
        ] {
            let answer = app.http.put(format!("{}{path}", app.config.server.public_url)).send().await.unwrap();
            assert_eq!(answer.status(), 405, "{path}");
            assert!(answer.headers()["allow"].to_str().unwrap().split(',').any(|word| word == allowed), "{path}");
            assert_eq!(answer.headers()["content-type"], "application/problem+json", "{path}");
            let told: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            assert_eq!((&told["error_code"], &told["status"]), (&json!("INVALID_ARGUMENT"), &json!(405)), "{path}");
        }
        let raw = app.rpc().with("mcp-protocol-version", "1999-01-01").request(&app.agent(), "ping", json!({})).await;
        assert_eq!((raw.status, raw.rpc_error()), (400, -32_022), "{}", raw.text);
        assert_eq!(raw.json()["error"]["data"]["requested"], "1999-01-01");
        let explained = app.create("order-1").await;
        assert!(!explained.is_error);
        let told = app.call(&app.operator(), "explain_payment", json!({"order_id": "order-1"})).await;
        let process = told.body["checks"][0]["found"].as_str().unwrap().to_owned();
        assert!(process.starts_with("countersign 0.") && process.contains("environment "), "{process}");
    })
    .await;
}
