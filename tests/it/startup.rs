//! Starting, failing to start, and being killed: the program as an operator meets it.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use countersign::ambient::{Entropy as _, SystemEntropy};
use countersign::cli::{Card, McpClient, ToolAnswer};
use countersign::proof::{SigningKey, key_id_of, sign_detached};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use crate::harness::app::CALLBACK_SECRET;
use crate::harness::desk::{program, signal};
use crate::harness::folder::Folder;

/// A whole good configuration in a file, its secrets in files of their own; each test changes one thing.
pub(crate) fn good(folder: &Folder) -> String {
    let policy = folder.write("policy.toml", crate::harness::app::POLICY);
    let jwks = folder.write("jwks.json", &countersign::http::auth::Mint::from_seed(&[7; 32]).jwks());
    let database = folder.place("gateway.db");
    let signer_key = folder.write("signer-api-key", "signer-api-key-for-tests");
    let secret = folder.write("callback-secret", CALLBACK_SECRET);
    let rail_key = folder.write("rail-api-key", "rail-api-key-for-tests");
    format!(
        r#"
[server]
listen = "127.0.0.1:0"
public_url = "http://127.0.0.1:9"
[database]
url = "sqlite://{database}"
[auth]
issuer = "https://issuer.test.invalid"
jwks_file = "{jwks}"
[policy]
file = "{policy}"
[signer]
url = "http://127.0.0.1:9"
api_key_file = "{signer_key}"
callback_secret_file = "{secret}"
[rail]
url = "http://127.0.0.1:9"
api_key_file = "{rail_key}"
"#
    )
}

/// Runs `countersign serve` until it ends; kills it after ten seconds.
async fn serve(config: &str, environment: &[(&str, &str)]) -> Output {
    run(&["serve", "--config", config], environment).await
}

/// Runs a command until it ends; kills it after ten seconds.
pub(crate) async fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = program();
    command.args(arguments);
    command.envs(environment.iter().copied());
    tokio::time::timeout(Duration::from_secs(10), command.output())
        .await
        .unwrap_or_else(|_| panic!("it did not end within 10 s: {environment:?}"))
        .unwrap()
}

/// One line on stderr that names `named`, and this exit code.
pub(crate) fn refuses(what: &str, output: &Output, code: i32, named: &str) {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{what}: {text}");
    // Beside log lines, which are JSON.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(lines.len(), 1, "{what}: one line: {text}");
    let last = lines[0];
    assert!(last.starts_with("countersign: ") && last.contains(named), "{what}: {text}");
    assert!(last.len() < 400 && !last.contains("panicked"), "{what}: {last}");
    assert!(output.stdout.is_empty(), "{what}");
}

#[tokio::test]
async fn b23_a_setting_that_cannot_be_used_is_named_in_one_line() {
    let folder = Folder::new("start");
    let good = good(&folder);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        folder.write(&format!("c{:08x}.toml", SystemEntropy.u64() & 0xffff_ffff), &good.replacen(from, to, 1))
    };
    // The same with another secret in the file that holds it.
    let holding = |name: &str, text: &str| {
        let other = folder.write(&format!("s{:08x}", SystemEntropy.u64() & 0xffff_ffff), text);
        with(&folder.place(name), &other)
    };
    let signer_key = format!("api_key_file = \"{}\"", folder.join("signer-api-key").display());
    let secret = format!("callback_secret_file = \"{}\"", folder.join("callback-secret").display());
    let rail_key = format!("api_key_file = \"{}\"", folder.join("rail-api-key").display());
    let bad_policy = folder.write("bad.toml", &crate::harness::app::POLICY.replace("required = 1", "required = 9"));
    let signing_agent = folder
        .write("signing.toml", &crate::harness::app::POLICY.replace("agent = [", "agent = [\"confirm_signing\", "));
    let policy = folder.place("policy.toml");
    let jwks = folder.place("jwks.json");
    let rows: Vec<(&str, String, &str)> = vec![
        ("no file", "/nowhere/countersign.toml".to_owned(), "--config"),
        ("not TOML", folder.write("not.toml", "[server\n"), "not.toml"),
        ("a typo", with("[server]", "[server]\nlistn = \"x\""), "listn"),
        ("a section that is none", with("[server]", "[sever]\nx = 1\n[server]"), "sever"),
        ("a word for a number", with("[server]", "[server]\nbody_limit_bytes = \"many\""), "body_limit_bytes"),
        ("no issuer", with("issuer = \"https://issuer.test.invalid\"", ""), "auth.issuer"),
        ("no keys", with(&format!("jwks_file = \"{jwks}\""), ""), "auth.jwks_url"),
        ("a keys file that is not there", with(&jwks, "/nowhere/jwks.json"), "auth.jwks_file"),
        ("no signer URL", with("[signer]\nurl = \"http://127.0.0.1:9\"", "[signer]"), "signer.url"),
        ("no signer key", with(&signer_key, ""), "signer.api_key"),
        ("an empty signer key", with(&signer_key, "api_key = \"\""), "signer.api_key"),
        ("an empty signer key file", holding("signer-api-key", ""), "signer.api_key"),
        ("a blank signer key", holding("signer-api-key", "                    "), "signer.api_key"),
        ("a short signer key", holding("signer-api-key", "short"), "signer.api_key"),
        (
            "a key file that is not there",
            with(&signer_key, "api_key_file = \"/nowhere/at/all\""),
            "signer.api_key_file",
        ),
        ("no callback secret", with(&secret, ""), "signer.callback_secret"),
        ("an empty callback secret", holding("callback-secret", ""), "signer.callback_secret"),
        ("three spaces", holding("callback-secret", "   "), "signer.callback_secret"),
        ("only the prefix", holding("callback-secret", "whsec_"), "signer.callback_secret"),
        (
            "a secret that is not base64",
            holding("callback-secret", &format!("whsec_{}", "!".repeat(40))),
            "signer.callback_secret",
        ),
        ("a secret whose quote is not closed", with(&rail_key, "api_key = \"rail-api-key-for-tests"), "line 18"),
        ("no rail key", with(&rail_key, ""), "rail.api_key"),
        ("no policy file", with(&policy, "/nowhere/policy.toml"), "policy.file"),
        ("a quorum of nobody", with(&policy, &bad_policy), "required"),
        ("an agent that could sign", with(&policy, &signing_agent), "confirm_signing"),
        (
            "a payee that is none",
            with("[signer]", "[payments]\npayee_account = \"\u{202e}\"\n[signer]"),
            "payments.payee",
        ),
        ("a currency that is none", with("[signer]", "[payments]\ncurrency = \"XXX\"\n[signer]"), "payments.currenc"),
        ("a lease that is too short", with("[signer]", "[worker]\nlease_ms = 10\n[signer]"), "worker.lease_ms"),
        ("an endless lease", with("[signer]", "[worker]\nlease_ms = 9223372036854775807\n[signer]"), "worker.lease_ms"),
        ("an endless tick", with("[signer]", "[worker]\ntick_ms = 9223372036854775807\n[signer]"), "worker.tick_ms"),
        ("no seats", with("[server]", "[server]\nmax_connections = 0"), "server.max_connections"),
        ("no time for a head", with("[server]", "[server]\nheader_timeout_ms = 0"), "server.header_timeout_ms"),
        (
            "a public address with a path",
            with("127.0.0.1:9\"\n[database]", "127.0.0.1:9/x\"\n[database]"),
            "server.public_url",
        ),
        ("one with a query", with("127.0.0.1:9\"\n[database]", "127.0.0.1:9/?a\"\n[database]"), "server.public_url"),
        ("a database that is neither", with("sqlite://", "mysql://"), "database.url"),
        ("an address that is none", with("127.0.0.1:0", "nonsense"), "server.listen"),
    ];
    let both =
        serve(&folder.write("both.toml", &good), &[("COUNTERSIGN__SIGNER__API_KEY", "another-signer-key")]).await;
    refuses("key and key file", &both, 2, "signer.api_key");
    for (what, config, named) in rows {
        let output = serve(&config, &[]).await;
        refuses(what, &output, 2, named);
        let text = String::from_utf8(output.stderr).unwrap();
        for secret in ["signer-api-key-for-tests", "rail-api-key-for-tests", &CALLBACK_SECRET[6..]] {
            assert!(!text.contains(secret), "{what}: {text}");
        }
    }
    let config = folder.write("good.toml", &good);
    refuses("a typo in the environment", &serve(&config, &[("COUNTERSIGN__SERVER__LISTN", "x")]).await, 2, "listn");
    refuses(
        "a bad log filter",
        &serve(&config, &[("COUNTERSIGN__TELEMETRY__LOG", "info,=,=")]).await,
        2,
        "telemetry.log",
    );
}

/// A file is copied, committed and shown; a secret in it is refused, whatever else is right.
#[tokio::test]
async fn b23_a_secret_in_the_file_is_refused_and_not_shown() {
    const API_KEY: &str = "SECRET-API-KEY-IN-A-FILE";
    let folder = Folder::new("start");
    let good = good(&folder);
    let database = format!("url = \"sqlite://{}\"", folder.join("gateway.db").display());
    let secret = format!("callback_secret = \"{CALLBACK_SECRET}\"");
    let hooks = format!("[webhooks]\nsecrets = [\"{CALLBACK_SECRET}\"]\n[signer]");
    for (from, to, setting) in [
        ("[signer]", &format!("[signer]\napi_key = \"{API_KEY}\""), "signer.api_key"),
        ("[signer]", &format!("[signer]\n{secret}"), "signer.callback_secret"),
        ("[rail]", &format!("[rail]\napi_key = \"{API_KEY}\""), "rail.api_key"),
        ("[signer]", &hooks, "webhooks.secrets"),
        (&database, &format!("url = \"postgres://desk:{API_KEY}@127.0.0.1:1/desk\""), "database.url"),
        (&database, &format!("url = \"postgres://desk@127.0.0.1:1/desk?password={API_KEY}\""), "database.url"),
        (&database, &format!("url = \"postgres://desk:{API_KEY}@[/desk\""), "database.url"),
    ] {
        assert!(good.contains(from), "{from}");
        let config = folder.write("inline.toml", &good.replacen(from, to, 1));
        for command in ["serve", "check", "migrate"] {
            let output = run(&[command, "--config", &config], &[]).await;
            let told = format!("{setting} is a secret: set it by environment or {setting}_file");
            refuses(&format!("{command}: {setting}"), &output, 2, &told);
            refuses(&format!("{command}: {setting}"), &output, 2, "inline.toml, line ");
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(!text.contains(API_KEY) && !text.contains(&CALLBACK_SECRET[6..]), "{text}");
        }
    }
    // An empty one is none, and neither is a URL without a password.
    let empty = good.replacen("[rail]\n", "[rail]\napi_key = \"\"\n", 1);
    let url = empty.replacen(&database, "url = \"postgres://desk@127.0.0.1:1/desk\"", 1);
    let output = run(&["migrate", "--config", &folder.write("empty.toml", &url)], &[]).await;
    refuses("no database is there", &output, 1, "database: can't be opened");
}

/// Each is the environment over a good file; the last one's only fault is not about webhooks.
#[tokio::test]
async fn webhooks_that_cannot_be_used_are_named_in_one_line() {
    const HOOKS: &str = "https://93.184.215.14/a,https://93.184.215.14/b";
    let folder = Folder::new("start");
    let config = folder.write("good.toml", &good(&folder));
    let rotation = format!("{CALLBACK_SECRET},whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDC2FVsBQIhrsc");
    let three = format!("{CALLBACK_SECRET},{rotation}");
    let file = folder.write("secrets", &format!("{}\n\n", rotation.replace(',', "\r\n")));
    let rows: [(&[(&str, &str)], &str); 17] = [
        (&[("TARGETS", "http://127.0.0.1:9/"), ("SECRETS", CALLBACK_SECRET)], "webhooks.targets: number 1"),
        (&[("TARGETS", "https://93.184.215.14/,http://[::1]:9"), ("SECRETS", CALLBACK_SECRET)], "targets: number 2"),
        (&[("TARGETS", "https://u:PASSWORD@93.184.215.14/"), ("SECRETS", CALLBACK_SECRET)], "webhooks.targets"),
        (&[("TARGETS", "https://93.184.215.14,https://93.184.215.14/")], "listed twice"),
        (&[("TARGETS", "nonsense")], "webhooks.targets"),
        (&[("TARGETS", "ftp://93.184.215.14/")], "webhooks.targets"),
        (&[("TARGETS", HOOKS)], "webhooks.secrets: is required"),
        (&[("TARGETS", HOOKS), ("SECRETS", "whsec_c2hvcnQ=")], "webhooks.secrets"),
        (&[("TARGETS", HOOKS), ("SECRETS", &CALLBACK_SECRET[6..])], "webhooks.secrets"),
        (&[("TARGETS", HOOKS), ("SECRETS", &three)], "webhooks.secrets"),
        (&[("SECRETS", CALLBACK_SECRET), ("SECRETS_FILE", &file)], "webhooks.secrets_file"),
        (&[("SECRETS_FILE", "/nowhere/at/all")], "webhooks.secrets_file"),
        (&[("ALLOW_PRIVATE", "127.0.0.1")], "webhooks.allow_private: number 1"),
        (&[("ALLOW_PRIVATE", "127.0.0.1:9,a@b:1")], "webhooks.allow_private: number 2"),
        (&[("TIMEOUT_MS", "0")], "webhooks.timeout_ms"),
        (&[("SCHEDULE_S", "0,soon")], "webhooks.schedule_s"),
        (
            &[
                ("TARGETS", HOOKS),
                ("SECRETS_FILE", &file),
                ("ALLOW_PRIVATE", "[::1]:9,hooks.internal:80"),
                ("SCHEDULE_S", "0,5"),
            ],
            "worker.tick_ms",
        ),
    ];
    for (environment, named) in rows {
        let names: Vec<String> = environment.iter().map(|(key, _)| format!("COUNTERSIGN__WEBHOOKS__{key}")).collect();
        let mut all: Vec<(&str, &str)> =
            names.iter().map(String::as_str).zip(environment.iter().map(|(_, value)| *value)).collect();
        if named == "worker.tick_ms" {
            all.push(("COUNTERSIGN__WORKER__TICK_MS", "0"));
        }
        let output = serve(&config, &all).await;
        refuses(&format!("{environment:?}"), &output, 2, named);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!text.contains("PASSWORD") && !text.contains(&CALLBACK_SECRET[6..]), "{text}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let folder = Folder::new("start");
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let config = folder.write("taken.toml", &good(&folder).replace("127.0.0.1:0", &address));
    let output = serve(&config, &[]).await;
    refuses("taken", &output, 2, "server.listen");
    assert!(String::from_utf8(output.stderr).unwrap().contains(&address));
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_is_a_failure_of_its_own() {
    let folder = Folder::new("start");
    let config = folder.write("good.toml", &good(&folder));
    for url in ["sqlite:///nowhere/at/all/gateway.db", "postgres://nobody:PASSWORD-IN-A-URL@127.0.0.1:1/nothing"] {
        let output =
            serve(&config, &[("COUNTERSIGN__DATABASE__URL", url), ("COUNTERSIGN__DATABASE__BUSY_TIMEOUT_MS", "1000")])
                .await;
        refuses(url, &output, 1, "database");
        assert!(!String::from_utf8(output.stderr).unwrap().contains("PASSWORD"));
    }
}

/// A child that is killed when the test ends, and the lines it says on its output.
struct Running {
    child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

fn spawn(arguments: &[&str], environment: &[(&str, &str)]) -> Running {
    let mut child = program()
        .args(arguments)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Running { child, lines }
}

async fn is_up(url: &str) -> bool {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for _ in 0..100 {
        if http.get(url).send().await.is_ok_and(|answer| answer.status() == 200) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

#[tokio::test]
async fn the_environment_goes_before_the_file_and_an_empty_variable_counts_as_unset() {
    let folder = Folder::new("start");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let config = folder.write("good.toml", &good(&folder));
    let environment = [
        ("COUNTERSIGN__SERVER__LISTEN", address.as_str()),
        ("COUNTERSIGN__SIGNER__API_KEY", ""),
        ("COUNTERSIGN__WORKER__TICK_MS", "100"),
    ];
    let mut running = spawn(&["serve", "--config", &config], &environment);
    assert!(is_up(&format!("http://{address}/healthz")).await, "it starts");
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let open = http
        .post(format!("http://{address}/mcp"))
        .header("content-type", "application/json")
        .body(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .send()
        .await
        .unwrap();
    assert_eq!(open.status(), 401, "never open");
    // Asked to stop, it stops in order and in time.
    let asked = Instant::now();
    signal(&running.child, "TERM");
    let ended = tokio::time::timeout(Duration::from_secs(10), running.child.wait()).await.unwrap().unwrap();
    assert!(ended.success() && asked.elapsed() < Duration::from_secs(10), "{ended:?}");
}

#[tokio::test]
async fn b23_an_unknown_key_is_answered_with_where_it_is_and_what_was_meant() {
    let folder = Folder::new("start");
    let good = good(&folder);
    for (from, to, meant) in [
        ("[rail]", "[notify]\natempts = 3\n[rail]", "unknown key notify.atempts; did you mean notify.attempts?"),
        ("[rail]", "[rail]\ntick_ms = 3", "unknown key rail.tick_ms; did you mean worker.tick_ms?"),
        ("[rail]", "[rial]", "unknown key rial; did you mean rail?"),
    ] {
        let config = folder.write("typo.toml", &good.replacen(from, to, 1));
        let output = serve(&config, &[]).await;
        refuses(to, &output, 2, meant);
        let line = 1 + good[..good.find(from).unwrap()].matches('\n').count() + usize::from(to.contains('\n'));
        refuses(to, &output, 2, &format!("typo.toml, line {line}: "));
    }
    let config = folder.write("good.toml", &good);
    for variable in ["COUNTERSIGN__NOTIFY__ATEMPTS", "COUNTERSIGN__NOTIFY_ATTEMPTS"] {
        let output = serve(&config, &[(variable, "3")]).await;
        refuses(variable, &output, 2, "did you mean notify.attempts?");
        refuses(variable, &output, 2, variable);
    }
}

#[tokio::test]
async fn b23_a_secret_file_that_holds_no_secret_is_named() {
    let folder = Folder::new("start");
    let good = good(&folder);
    let secret = folder.place("callback-secret");
    let no_text = folder.join("bytes");
    std::fs::write(&no_text, [0xff, 0xfe]).unwrap();
    let rows = [
        ("a folder", folder.display().to_string()),
        ("bytes that are no text", no_text.display().to_string()),
        ("an empty file", folder.write("empty", "")),
        ("a line end only", folder.write("line", "\n")),
        ("blanks", folder.write("blanks", "                                             \n")),
        ("only the prefix", folder.write("prefix", "whsec_\n")),
        ("three lines", folder.write("lines", &format!("{CALLBACK_SECRET}\n").repeat(3))),
        ("a good line and a bad one", folder.write("mixed", &format!("{CALLBACK_SECRET}\nwhsec_\n"))),
    ];
    for (what, file) in rows {
        let config = folder.write("c.toml", &good.replace(&secret, &file));
        let output = serve(&config, &[]).await;
        refuses(what, &output, 2, "signer.callback_secret");
        assert!(!String::from_utf8(output.stderr).unwrap().contains(&CALLBACK_SECRET[6..]), "{what}");
    }
    for (what, from, to, named) in [
        ("an empty issuer", "issuer = \"https://issuer.test.invalid\"", "issuer = \"\"", "auth.issuer"),
        ("a blank issuer", "issuer = \"https://issuer.test.invalid\"", "issuer = \"  \"", "auth.issuer"),
        ("keys twice", "[auth]", "[auth]\njwks_url = \"https://x.invalid\"", "auth.jwks_url"),
    ] {
        let config = folder.write("c.toml", &good.replacen(from, to, 1));
        refuses(what, &serve(&config, &[]).await, 2, named);
    }
}

#[tokio::test]
async fn b23_where_it_starts_nothing_is_open_and_a_files_line_end_is_no_part_of_the_secret() {
    let folder = Folder::new("start");
    let text = good(&folder).replace("[auth]", "[auth]\naudience = \"\"");
    folder.write("callback-secret", &format!("{CALLBACK_SECRET}\r\n"));
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let config = folder.write("good.toml", &text.replace("127.0.0.1:0", &address));
    let _running = spawn(&["serve", "--config", &config], &[]);
    assert!(is_up(&format!("http://{address}/healthz")).await, "it starts");
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({"event_id": "evt_1", "type": "decision.recorded",
        "payment_id": "pay_01J00000000000000000000000", "decision_id": "dec_1"})
    .to_string();
    let now = countersign::ambient::Clock::now(&countersign::ambient::SystemClock).seconds();
    for (key, status) in [
        (standardwebhooks::Webhook::from_bytes(Vec::new()), 401),
        (standardwebhooks::Webhook::from_bytes(b"whsec_".to_vec()), 401),
        // It is ours, and speaks of a payment that is not.
        (standardwebhooks::Webhook::new(CALLBACK_SECRET), 404),
    ] {
        let signature = key.unwrap().sign("evt_1", now, body.as_bytes()).unwrap();
        let answer = http
            .post(format!("http://{address}/callbacks/signer"))
            .header("content-type", "application/json")
            .header("webhook-id", "evt_1")
            .header("webhook-timestamp", now)
            .header("webhook-signature", signature)
            .body(body.clone())
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), status, "{}", answer.text().await.unwrap());
    }
    for token in ["", "Bearer", "Bearer "] {
        let open = http
            .post(format!("http://{address}/mcp"))
            .header("authorization", token)
            .header("content-type", "application/json")
            .body(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        assert_eq!(open.send().await.unwrap().status(), 401, "{token:?}");
    }
}

#[tokio::test]
async fn the_demo_holds_every_promise() {
    let output = program().args(["demo", "--json"]).output();
    let output = tokio::time::timeout(Duration::from_secs(90), output).await.unwrap().unwrap();
    let story: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(story["held"], true, "{story:#}");
    assert!(story["promises"].as_array().unwrap().len() > 10);
    assert!(output.status.success());
}

/// A dev instance whose time is short.
async fn dev(folder: &Path) -> (Running, Card) {
    let quick = [
        ("COUNTERSIGN__WORKER__TICK_MS", "20"),
        ("COUNTERSIGN__WORKER__LEASE_MS", "1500"),
        ("COUNTERSIGN__SIGNER__TOTAL_TIMEOUT_MS", "700"),
        ("COUNTERSIGN__RAIL__TOTAL_TIMEOUT_MS", "700"),
        ("COUNTERSIGN__RAIL__READ_LAG_MS", "100"),
        ("COUNTERSIGN__RAIL__QUERY_BASE_MS", "100"),
        ("COUNTERSIGN__NOTIFY__CHECK_EVERY_MS", "500"),
        ("COUNTERSIGN__TELEMETRY__LOG", "off"),
    ];
    let folder = folder.display().to_string();
    let mut running = spawn(&["dev", "--json", "--port", "0", "--data-dir", &folder], &quick);
    let line = tokio::time::timeout(Duration::from_secs(20), running.lines.next_line()).await.unwrap().unwrap();
    let card = serde_json::from_str(&line.expect("it starts")).unwrap();
    (running, card)
}

async fn told(client: &McpClient, tool: &str, arguments: Value) -> Option<ToolAnswer> {
    // A process that was killed answers nothing.
    tokio::time::timeout(Duration::from_secs(5), client.call(tool, arguments)).await.ok()?.ok()
}

/// Proposes and countersigns an order, as far as the process lives.
async fn pay(card: &Card, key: &SigningKey, order: &str) -> Option<()> {
    let agent = McpClient::connect(&card.mcp_url, &card.tokens.agent).await.ok()?;
    let signer = McpClient::connect(&card.mcp_url, &card.tokens.signer).await.ok()?;
    let created = json!({"order_id": order, "amount": "199.00", "signer_id": "finance-1", "notify": true});
    told(&agent, "create_payment", created).await?;
    let approval = told(&signer, "get_approval", json!({"order_id": order})).await?;
    let document = approval.body["to_sign"][0]["decision_document"].as_str()?.to_owned();
    let jws = sign_detached(key, &key_id_of(&key.public()), &document).ok()?;
    told(&signer, "confirm_signing", json!({"order_id": order, "signature": jws})).await?;
    Some(())
}

#[tokio::test]
async fn b21_killed_at_any_moment_the_payment_is_made_exactly_once() {
    let folder = Folder::new("start");
    for round in 0..5 {
        let order = format!("order-{round}");
        let after = Duration::from_millis(SystemEntropy.u64() % 260);
        eprintln!("round {round}: killed after {after:?}");
        let (mut running, card) = dev(&folder).await;
        let pem = std::fs::read_to_string(&card.signers[0].key_file).unwrap();
        let key = SigningKey::from_pem(&pem).unwrap();
        let killed = async {
            tokio::time::sleep(after).await;
            running.child.kill().await.unwrap();
        };
        tokio::join!(pay(&card, &key, &order), killed);

        // Started again on the same data; whatever was not answered is asked for again.
        let (_running, card) = dev(&folder).await;
        pay(&card, &key, &order).await;
        let agent = McpClient::connect(&card.mcp_url, &card.tokens.agent).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(15);
        let done = loop {
            let answer =
                told(&agent, "get_payment_status", json!({"order_id": order, "wait_ms": 1_000})).await.unwrap();
            if answer.text("status") == "EXECUTED" || Instant::now() > deadline {
                break answer;
            }
        };
        assert_eq!(done.text("status"), "EXECUTED", "{}", done.body);
        let url = format!("{}/sandbox/ledger?reference={}", card.peers.rail, done.text("payment_id"));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let ledger: Value = http.get(url).bearer_auth(&card.rail_api_key).send().await.unwrap().json().await.unwrap();
        assert_eq!((&ledger["executions"], &ledger["balanced"]), (&json!(1), &json!(true)), "{ledger}");
    }
}

#[tokio::test]
async fn a_folder_belongs_to_one_dev_instance() {
    let folder = Folder::new("start");
    let (running, _card) = dev(&folder).await;
    let mut second = program();
    second.args(["dev", "--json", "--port", "0", "--data-dir"]).arg(&*folder);
    second.env("COUNTERSIGN__TELEMETRY__LOG", "off");
    let output = tokio::time::timeout(Duration::from_secs(10), second.output()).await.unwrap().unwrap();
    refuses("a second dev", &output, 2, "another dev instance uses this folder");
    drop(running);
}
