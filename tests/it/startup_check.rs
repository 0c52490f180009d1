//! `countersign check`, and what a configuration may say: the same verdict before a start as at it.

use std::collections::BTreeMap;

use axum::Json;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use countersign::http::auth::Mint;
use serde_json::Value;

use crate::harness::app::{App, CALLBACK_SECRET, POLICY, Wishes, each_with};
use crate::harness::folder::Folder;
use crate::harness::peer::{Peer, Weather};
use crate::harness::sink::Sink;
use crate::startup::{good, refuses, run};

/// Each over a good file; what `check` lets pass, `serve` does not refuse, and the other way round.
#[tokio::test]
async fn b23_a_value_that_cannot_be_meant_is_refused_by_serve_and_check_alike() {
    let folder = Folder::new("check");
    let config = folder.write("good.toml", &good(&folder));
    for (setting, value) in [
        ("server.body_limit_bytes", "0"),
        ("server.max_connections", "0"),
        ("server.header_timeout_ms", "0"),
        ("server.call_deadline_ms", "999"),
        ("server.listen", "nonsense"),
        ("server.listen", "127.0.0.1:99999"),
        ("server.public_url", "https://u:PASSWORD@pay.example"),
        ("server.allowed_hosts", "a/b"),
        ("server.allowed_hosts", "pay.example,u:PASSWORD@pay.example"),
        ("server.allowed_origins", "https://app.example,app.example"),
        ("server.allowed_origins", "https://app.example/path"),
        ("database.pool_size", "0"),
        ("database.busy_timeout_ms", "0"),
        ("auth.default_tenant", "a/b"),
        ("auth.roles_claim", " "),
        ("auth.authorization_servers", "nonsense"),
        ("signer.url", "nonsense"),
        ("signer.url", "ftp://signer.example"),
        ("signer.url", "https://u:PASSWORD@signer.example"),
        ("rail.url", "file:///etc/passwd"),
        ("signer.callback_url", "nonsense"),
        ("signer.connect_timeout_ms", "0"),
        ("signer.read_timeout_ms", "0"),
        ("signer.total_timeout_ms", "0"),
        ("rail.connect_timeout_ms", "0"),
        ("rail.read_timeout_ms", "0"),
        ("rail.total_timeout_ms", "0"),
        ("rail.query_cap_ms", "0"),
        ("rail.dedup", "soon"),
        ("rail.dedup", "99999999999999"),
        ("rail.read_lag_ms", "99999999999999"),
        ("notify.cap_ms", "0"),
        ("notify.auto_after_ms", "99999999999999"),
        ("payments.expires_after_s", "0"),
        ("payments.expires_after_s", "99999999999999"),
        ("payments.execute_within_s", "0"),
        ("payments.execute_within_s", "99999999999999"),
        ("worker.lease_ms", "99999999999999"),
        ("webhooks.schedule_s", "0,99999999999999"),
        ("audit.checkpoint_every_ms", "0"),
        ("audit.checkpoint_every_ms", "99999999999999"),
        ("restore.asleep_s", "99999999999999"),
        ("retention.finished_after_s", "99999999999999"),
        ("telemetry.otlp_endpoint", "nonsense"),
        ("telemetry.otlp_endpoint", "http://u:PASSWORD@127.0.0.1:4318"),
        ("telemetry.log_form", "xml"),
        ("telemetry.log", "info,=,="),
    ] {
        let variable = format!("COUNTERSIGN__{}", setting.to_ascii_uppercase().replace('.', "__"));
        let environment = [(variable.as_str(), value)];
        for command in ["serve", "check"] {
            let output = run(&[command, "--config", &config], &environment).await;
            refuses(&format!("{command} with {setting}={value}"), &output, 2, &format!("configuration: {setting}: "));
            assert!(!String::from_utf8(output.stderr).unwrap().contains("PASSWORD"), "{setting}");
        }
    }
}

/// Wherever a URL is named, in a setting or an option, it is judged alike; none that is refused is shown.
#[tokio::test]
async fn every_url_is_judged_alike() {
    const WEB: &str = "must be an http or https URL";
    const MORE: &str = "must have no user name, password or fragment";
    let folder = Folder::new("check");
    let text = good(&folder);
    let config = folder.write("good.toml", &text);
    let keys = text.lines().find(|line| line.starts_with("jwks_file")).unwrap();
    let without_keys = folder.write("keys.toml", &text.replace(keys, ""));
    let api_key = folder.place("signer-api-key");
    let secret = folder.place("callback-secret");
    for (url, words) in [
        ("SECRET", WEB),
        ("ftp://x.example/SECRET", WEB),
        ("https:SECRET@", WEB),
        ("https://SECRET@x.example", MORE),
        ("https://:SECRET@x.example", MORE),
        ("https://u:SECRET@x.example/y", MORE),
        ("https://x.example/#SECRET", MORE),
    ] {
        let told = async |arguments: &[&str], environment: &[(&str, &str)], named: &str| {
            let output = run(arguments, environment).await;
            refuses(&format!("{named}={url}"), &output, 2, &format!("{named}: "));
            refuses(&format!("{named}={url}"), &output, 2, words);
            let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            assert!(!said.contains("SECRET"), "{named}: {said}");
        };
        for setting in [
            "server.public_url",
            "auth.issuer",
            "auth.jwks_url",
            "signer.url",
            "signer.callback_url",
            "rail.url",
            "audit.checkpoint_url",
            "telemetry.otlp_endpoint",
        ] {
            let variable = format!("COUNTERSIGN__{}", setting.to_ascii_uppercase().replace('.', "__"));
            let config = if setting == "auth.jwks_url" { &without_keys } else { &config };
            told(&["check", "--config", config], &[(variable.as_str(), url)], setting).await;
        }
        for setting in ["server.allowed_origins", "auth.authorization_servers", "webhooks.targets"] {
            let variable = format!("COUNTERSIGN__{}", setting.to_ascii_uppercase().replace('.', "__"));
            let list = format!("https://x.example,{url}");
            let named = format!("{setting}: number 2 {words}");
            let output = run(&["check", "--config", &config], &[(variable.as_str(), &list)]).await;
            refuses(&format!("{setting}={url}"), &output, 2, &named);
        }
        told(&["health", url], &[], "URL").await;
        told(&["check", "signer", url, "--api-key-file", &api_key], &[], "URL").await;
        let callbacks = ["check", "signer", "http://127.0.0.1:9", "--api-key-file", &api_key];
        let callbacks = [&callbacks[..], &["--callback-listen", "127.0.0.1:0", "--callback-url", url]].concat();
        told(&callbacks, &[], "--callback-url").await;
        told(&["doctor", "order-1", "--token", "t", "--url", url], &[], "--url").await;
        told(&["sign", "order-1", "--token", "t", "--url", url], &[], "--url").await;
        let trial = folder.place("");
        told(&["demo", "--json", "--url", url, "--keys", &trial, "--rail", "http://127.0.0.1:9"], &[], "--url").await;
        let database = folder.place("signer.db");
        let directory = folder.write("signers.toml", "signer = []");
        let service = ["signer", "--listen", "127.0.0.1:0", "--directory", &directory, "--database", &database];
        let files = ["--api-key-file", &api_key, "--callback-secret-file", &secret, "--public-url", url];
        told(&[&service[..], &files].concat(), &[], "public_url").await;
    }
    // Where paths are put behind it, a query would be in the way.
    for setting in ["SIGNER__URL", "RAIL__URL", "TELEMETRY__OTLP_ENDPOINT"] {
        let variable = format!("COUNTERSIGN__{setting}");
        let output = run(&["check", "--config", &config], &[(variable.as_str(), "https://x.example/?a")]).await;
        refuses(setting, &output, 2, "must have no query");
    }
    // An issuer that is no URL is one that others speak for.
    let issuer =
        [("COUNTERSIGN__AUTH__ISSUER", "idp"), ("COUNTERSIGN__AUTH__AUTHORIZATION_SERVERS", "https://idp.example")];
    assert_eq!(run(&["check", "--config", &config], &issuer).await.status.code(), Some(1), "only no peer answers");
}

/// The driver would log an unknown one, with its value.
#[tokio::test]
async fn a_database_parameter_that_is_none_is_named_and_its_value_is_not() {
    const NAMELESS: &str = "has the unknown parameter whose name is none; in a password";
    let folder = Folder::new("check");
    let config = folder.write("good.toml", &good(&folder));
    for (url, words) in [
        ("postgres://u@127.0.0.1:1/d?passwd=SECRET", "has the unknown parameter passwd"),
        ("postgresql://u@127.0.0.1:1/d?sslmode=disable&Password=SECRET", "has the unknown parameter Password"),
        ("postgres://u@127.0.0.1:1/d?user=u&pass%77d=SECRET", NAMELESS),
        ("postgres://u@127.0.0.1:1/d?options[SECRET=x", NAMELESS),
        ("postgres://u@127.0.0.1:1/d?SECRET", NAMELESS),
        ("postgres://u@127.0.0.1:1/d?password=a&SECRET", NAMELESS),
        ("postgres://u:1?SECRET@127.0.0.1:1/d", NAMELESS),
        ("postgres://u:1?SECRET=@127.0.0.1:1/d", NAMELESS),
        ("sqlite://gateway.db?key=SECRET", "has the unknown parameter key"),
    ] {
        for command in ["serve", "check", "migrate"] {
            let output = run(&[command, "--config", &config], &[("COUNTERSIGN__DATABASE__URL", url)]).await;
            let what = format!("{command} with {url}");
            refuses(&what, &output, 2, &format!("database.url: {words}"));
            assert!(!String::from_utf8(output.stderr).unwrap().contains("SECRET"), "{what}");
        }
    }
    // Every one that the driver takes is let pass: it goes on to find no server, and has ignored nothing.
    let all = "sslmode=disable&ssl-mode=disable&sslrootcert=/r&ssl-root-cert=/r&ssl-ca=/r&sslcert=/c&ssl-cert=/c\
        &sslkey=/k&ssl-key=/k&statement-cache-capacity=9&host=127.0.0.1&hostaddr=127.0.0.1&port=1&dbname=d&user=u\
        &password=PASSWORD&application_name=a&options=-c%20x=1&options[search_path]=a";
    let url = format!("postgres://u@127.0.0.1:1/d?{all}");
    let environment = [("COUNTERSIGN__DATABASE__URL", url.as_str()), ("COUNTERSIGN__DATABASE__BUSY_TIMEOUT_MS", "500")];
    let output = run(&["migrate", "--config", &config], &environment).await;
    refuses("all that there are", &output, 1, "database: can't be opened");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("ignoring") && !said.contains("PASSWORD"), "{said}");
    let url = format!("sqlite://{}?mode=rwc&cache=private&immutable=0&vfs=unix", folder.place("all.db"));
    let output = run(&["migrate", "--config", &config], &[("COUNTERSIGN__DATABASE__URL", &url)]).await;
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn b23_what_check_prints_masks_every_secret() {
    let folder = Folder::new("check");
    let config = folder.write("good.toml", &good(&folder));
    let environment = [
        ("COUNTERSIGN__DATABASE__URL", "postgres://desk:PASSWORD-IN-A-URL@127.0.0.1:1/nothing"),
        ("COUNTERSIGN__DATABASE__BUSY_TIMEOUT_MS", "500"),
        ("COUNTERSIGN__WEBHOOKS__SECRETS", CALLBACK_SECRET),
    ];
    for form in [&["check", "--config", &config][..], &["check", "--json", "--config", &config]] {
        let output = run(form, &environment).await;
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "no peer answers: {said}");
        assert!(said.contains("https://issuer.test.invalid"), "{said}");
        assert_eq!(said.matches("REDACTED").count(), 2, "{said}");
        for secret in ["signer-api-key-for-tests", "rail-api-key-for-tests", &CALLBACK_SECRET[6..], "PASSWORD"] {
            assert!(!said.contains(secret), "{secret}: {said}");
        }
    }
}

/// Scheme, host and path tell one address from another; what is in a query may be a secret.
#[tokio::test]
async fn of_a_query_only_that_there_is_one_is_printed() {
    let folder = Folder::new("check");
    let config = folder.write("good.toml", &good(&folder));
    let key = folder.place("checkpoint-key");
    assert!(run(&["keys", "checkpoint", &key], &[]).await.status.success());
    let urls = [
        ("WEBHOOKS__TARGETS", "http://127.0.0.1:9/hooks?SECRET", 2),
        ("AUDIT__CHECKPOINT_URL", "http://127.0.0.1:9/audit?key=SECRET", 1),
        ("SIGNER__CALLBACK_URL", "http://127.0.0.1:9/callbacks?key=SECRET", 1),
        ("AUTH__AUTHORIZATION_SERVERS", "https://idp.example/a?key=SECRET", 1),
        ("AUTH__ISSUER", "https://issuer.example/b?key=SECRET", 1),
        ("DATABASE__URL", "postgres://127.0.0.1:1/desk?application_name=SECRET", 1),
    ];
    let more = [
        ("WEBHOOKS__SECRETS", CALLBACK_SECRET),
        ("WEBHOOKS__ALLOW_PRIVATE", "127.0.0.1:9"),
        ("AUDIT__CHECKPOINT_KEY_FILE", &key),
        ("DATABASE__BUSY_TIMEOUT_MS", "500"),
    ];
    let all: Vec<(String, &str)> = urls
        .iter()
        .map(|(name, value, _)| (*name, *value))
        .chain(more)
        .map(|(name, value)| (format!("COUNTERSIGN__{name}"), value))
        .collect();
    let environment: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for form in [&["check", "--config", &config][..], &["check", "--json", "--config", &config]] {
        let output = run(form, &environment).await;
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "no peer answers: {said}");
        for (name, url, times) in urls {
            let shown = format!("{}?…", url.split('?').next().unwrap());
            assert_eq!(said.matches(&shown).count(), times, "{name}: {said}");
        }
        assert!(!said.contains("SECRET"), "{said}");
    }
    let output = run(&["health", "http://127.0.0.1:9/readyz?SECRET"], &[]).await;
    refuses("health", &output, 1, "http://127.0.0.1:9/readyz?…: no answer");
}

/// What `check --json` says of each dependency, by name; and its exit code.
async fn verdicts(config: &str, environment: &[(&str, &str)]) -> (Option<i32>, BTreeMap<String, String>) {
    let output = run(&["check", "--json", "--config", config], environment).await;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(told["ok"], output.status.success(), "{told:#}");
    assert_eq!(told["config"]["auth"]["issuer"], "https://issuer.test.invalid", "{told:#}");
    let rows = told["dependencies"].as_array().unwrap().iter();
    let row =
        |row: &Value| (row["dependency"].as_str().unwrap().to_owned(), row["result"].as_str().unwrap().to_owned());
    (output.status.code(), rows.map(row).collect())
}

/// Where keys and traces are: `status` is what the collector answers.
async fn elsewhere(status: StatusCode) -> Peer {
    let jwks: Value = serde_json::from_str(&Mint::from_seed(&[7; 32]).jwks()).unwrap();
    let (listener, _) = Peer::bind().await;
    let router =
        Router::new().route("/jwks", get(async move || Json(jwks))).route("/v1/traces", post(async move || status));
    Peer::serve(listener, router)
}

#[tokio::test]
async fn check_gives_each_dependency_its_verdict() {
    each_with(Wishes::default(), async |app: &mut App| {
        let folder = Folder::new("check");
        let (sink, keys, collector) =
            (Sink::new().await, elsewhere(StatusCode::OK).await, elsewhere(StatusCode::OK).await);
        let closed = elsewhere(StatusCode::UNAUTHORIZED).await;
        let jwks = format!("jwks_url = \"{}/jwks\"", keys.url());
        let text = good(&folder);
        let file = text.lines().find(|line| line.starts_with("jwks_file")).unwrap().to_owned();
        let config = folder.write("check.toml", &text.replace(&file, &jwks));
        let (hooks, second) = (sink.url(), format!("{}/second", sink.url()));
        let targets = format!("{hooks},{second}");
        let database = secrecy::ExposeSecret::expose_secret(&app.config.database.url).to_owned();
        let (signer, rail, otlp, place) = (app.signer.url(), app.rail.url(), collector.url(), sink.place());
        let up: BTreeMap<&str, &str> = BTreeMap::from([
            ("DATABASE__URL", database.as_str()),
            ("DATABASE__BUSY_TIMEOUT_MS", "2000"),
            ("SIGNER__URL", &signer),
            ("RAIL__URL", &rail),
            ("WEBHOOKS__TARGETS", &targets),
            ("WEBHOOKS__SECRETS", CALLBACK_SECRET),
            ("WEBHOOKS__ALLOW_PRIVATE", &place),
            ("TELEMETRY__OTLP_ENDPOINT", &otlp),
        ]);
        let check = async |changes: &[(&'static str, &str)]| {
            let mut all: BTreeMap<&str, &str> = up.clone();
            all.extend(changes.iter().copied());
            let all: Vec<(String, &str)> =
                all.into_iter().map(|(name, value)| (format!("COUNTERSIGN__{name}"), value)).collect();
            let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            verdicts(&config, &all).await
        };
        let hooks_row = format!("webhook target {hooks}");
        let second_row = format!("webhook target {second}");
        let names = [
            "token keys",
            "database",
            "migrations",
            "signers' keys",
            "signer service",
            "rail",
            "OTLP endpoint",
            &hooks_row,
            &second_row,
        ];
        // All but these are well, and every row is there.
        let expect = |what: &str, (code, mut rows): (Option<i32>, BTreeMap<String, String>), bad: &[(&str, &str)]| {
            assert_eq!(rows.remove("audit checkpoints").as_deref(), Some("warning"), "{what}: they are off");
            let mut good: BTreeMap<String, String> =
                names.iter().map(|name| ((*name).to_owned(), "ok".to_owned())).collect();
            good.extend(bad.iter().map(|(name, result)| ((*name).to_owned(), (*result).to_owned())));
            assert_eq!((code, rows), (Some(i32::from(!bad.is_empty())), good), "{what}");
        };
        expect("all up", check(&[]).await, &[]);

        let nowhere = format!("sqlite://{}", folder.join("none.db").display());
        let no_database = [("database", "failed"), ("migrations", "skipped"), ("signers' keys", "skipped")];
        expect("no database file", check(&[("DATABASE__URL", &nowhere)]).await, &no_database);
        let refused = "postgres://desk:PASSWORD@127.0.0.1:1/desk";
        expect("no database server", check(&[("DATABASE__URL", refused)]).await, &no_database);
        let empty = folder.write("empty.db", "");
        let empty = format!("sqlite://{empty}");
        let no_schema = [("migrations", "failed"), ("signers' keys", "skipped")];
        expect("no schema", check(&[("DATABASE__URL", &empty)]).await, &no_schema);

        for (peer, row, key_file) in
            [(&app.signer, "signer service", "SIGNER__API_KEY_FILE"), (&app.rail, "rail", "RAIL__API_KEY_FILE")]
        {
            let other = folder.write("other-key", "another-key-than-theirs");
            expect(&format!("{row}: another key"), check(&[(key_file, &other)]).await, &[(row, "failed")]);
            for weather in [Weather::Status(401), Weather::Status(503), Weather::Garbage, Weather::Redirect] {
                peer.set(weather);
                expect(&format!("{row} {weather:?}"), check(&[]).await, &[(row, "failed")]);
            }
            peer.down().await;
            expect(&format!("{row} down"), check(&[]).await, &[(row, "failed")]);
            peer.up().await;
        }

        keys.set(Weather::Status(500));
        expect("no keys", check(&[]).await, &[("token keys", "failed")]);
        keys.up().await;
        expect(
            "a collector that refuses us",
            check(&[("TELEMETRY__OTLP_ENDPOINT", &closed.url())]).await,
            &[("OTLP endpoint", "failed")],
        );
        collector.down().await;
        expect("no collector", check(&[]).await, &[("OTLP endpoint", "failed")]);
        collector.up().await;

        let gone = Peer::bind().await.1.to_string();
        let (lost, unnamed) = (format!("http://{gone}/"), "http://no-such-name.invalid/".to_owned());
        let open = format!("{place},{gone}");
        let targets = format!("{hooks},{second},{lost},{unnamed}");
        let (code, rows) = check(&[("WEBHOOKS__TARGETS", &targets), ("WEBHOOKS__ALLOW_PRIVATE", &open)]).await;
        assert_eq!(code, Some(1));
        for (url, result) in [(&hooks, "ok"), (&second, "ok"), (&lost, "failed"), (&unnamed, "failed")] {
            assert_eq!(rows[&format!("webhook target {url}")], result, "{url}");
        }
        assert_eq!(rows.values().filter(|result| *result == "failed").count(), 2, "{rows:?}");
    })
    .await;
}

/// It is something to know, and no failure: a key may be enrolled tomorrow.
#[tokio::test]
async fn check_warns_of_a_signer_who_could_not_sign() {
    each_with(Wishes::default(), async |app: &mut App| {
        let folder = Folder::new("check");
        let config = folder.write("check.toml", &good(&folder));
        let asked = "\"nobody-9\", \"finance-1\"";
        let stranger = folder.write("stranger.toml", &POLICY.replacen("\"finance-1\"", asked, 1));
        let database = secrecy::ExposeSecret::expose_secret(&app.config.database.url).to_owned();
        let (signer, rail) = (app.signer.url(), app.rail.url());
        let mut environment = vec![
            ("COUNTERSIGN__DATABASE__URL", database.as_str()),
            ("COUNTERSIGN__SIGNER__URL", &signer),
            ("COUNTERSIGN__RAIL__URL", &rail),
        ];
        assert_eq!(verdicts(&config, &environment).await.1["signers' keys"], "ok");
        environment.push(("COUNTERSIGN__POLICY__FILE", &stranger));
        let (code, mut rows) = verdicts(&config, &environment).await;
        assert_eq!((code, rows.remove("signers' keys").as_deref()), (Some(0), Some("warning")));
        assert_eq!(rows.remove("audit checkpoints").as_deref(), Some("warning"));
        assert!(rows.values().all(|result| result == "ok"), "{rows:?}");
        let output = run(&["check", "--config", &config], &environment).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("warning signers' keys: none is pinned of nobody-9: "), "{said}");
        // A key that was revoked is none.
        let mut raw = app.db.raw().await;
        raw.execute("UPDATE signer_keys SET revoked_at = 1 WHERE signer_id = 'finance-1'").await.unwrap();
        let output = run(&["check", "--config", &config], &environment).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("none is pinned of finance-1, nobody-9: "), "{said}");
        raw.execute("UPDATE signer_keys SET revoked_at = NULL WHERE signer_id = 'finance-1'").await.unwrap();
        // One key does not confirm itself.
        let twice = POLICY.replacen("\nrequired = 1\n", "\nrequired = 1\nconfirmations = 2\n", 1);
        assert_ne!(twice, POLICY);
        environment.pop();
        let twice = folder.write("twice.toml", &twice);
        environment.push(("COUNTERSIGN__POLICY__FILE", &twice));
        let output = run(&["check", "--config", &config], &environment).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("a second is missing of finance-1, finance-2: "), "{said}");
    })
    .await;
}
