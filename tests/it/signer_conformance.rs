//! `countersign check signer`: it passes the reference service, and names what is wrong with another.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use countersign::ambient::{Entropy as _, SystemClock, SystemEntropy};
use countersign::proof::{SigningKey, key_id_of, sign_detached};
use countersign::signer::{DirectoryEntry, Reaching, SignerService, SignerSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::harness::app::{CALLBACK_SECRET, SIGNER_API_KEY};
use crate::harness::desk::program;

/// How a service is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Redirects,
    LetsAnyKeyIn,
    TakesAnyDigest,
    ForgetsKeys,
    BurnsKeysOfRefusals,
    TakesOldRounds,
    ClosesLate,
    BreaksOnBadBodies,
    SpeaksHtml,
    HasNoCodes,
    KnowsNoEmptyList,
    HasIdsWithDots,
    IsSlow,
    LosesTheRound,
}

#[derive(Clone)]
struct Liar {
    wrong: Wrong,
    refused: Arc<Mutex<Vec<String>>>,
}

/// A service on a port of its own; gone with the test's runtime.
struct Service {
    url: String,
    folder: PathBuf,
    inner: SignerService,
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn key() -> SigningKey {
    SigningKey::from_seed(&[3; 32])
}

impl Service {
    async fn start(wrong: Wrong) -> Self {
        let folder = std::env::temp_dir().join(format!("countersign-conform-{:016x}", SystemEntropy.u64()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("key"), format!("{SIGNER_API_KEY}\n")).unwrap();
        std::fs::write(folder.join("secret"), format!("{CALLBACK_SECRET}\n")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let entry = |id: &str, key: Option<SigningKey>| DirectoryEntry {
            signer_id: id.to_owned(),
            name: id.to_owned(),
            key_pem: key.map(|key| key.public().to_pem().unwrap()),
            online: true,
            ..DirectoryEntry::default()
        };
        let settings = SignerSettings {
            database: folder.join("signer.db"),
            api_key: SIGNER_API_KEY.into(),
            callback_secret: CALLBACK_SECRET.into(),
            public_url: url.clone(),
            directory: vec![entry("ann", Some(key())), entry("bob", None)],
            reaching: Reaching::default(),
            link_ttl: Duration::from_mins(15),
            presence_switch: false,
        };
        let service = SignerService::open(settings, Arc::new(SystemClock), Arc::new(SystemEntropy)).await.unwrap();
        let liar = Liar { wrong, refused: Arc::default() };
        let router: Router = service.router().layer(from_fn_with_state(liar, lie));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, folder, inner: service }
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = program();
        command.args(["check", "signer", &self.url, "--json", "--signer", "ann", "--api-key-file"]);
        command.arg(self.folder.join("key")).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The exit code, and each check with its result and why.
    async fn check(&self, more: &[&str]) -> (i32, Vec<(String, String, String)>) {
        let output = tokio::time::timeout(Duration::from_mins(1), self.command(more).output()).await.unwrap().unwrap();
        (output.status.code().unwrap(), lines(&output.stdout))
    }
}

fn lines(stdout: &[u8]) -> Vec<(String, String, String)> {
    let report: Value = serde_json::from_slice(stdout).unwrap();
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/signer-contract.md")).unwrap();
    let line = |line: &Value| {
        // Each line leads to a part of the page that is there.
        let section = text(line, "section");
        let on_page = section == "All answers" || page.contains(section.trim_end_matches(": register"));
        assert!(on_page, "docs/signer-contract.md has no {section:?}");
        (text(line, "check"), text(line, "result"), text(line, "why"))
    };
    report["checks"].as_array().unwrap().iter().map(line).collect()
}

/// The reference service, made wrong in one way on the wire.
async fn lie(State(liar): State<Liar>, mut request: Request, next: Next) -> Response {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    let writes = method == "POST";
    match liar.wrong {
        Wrong::Redirects if path.ends_with("/status") => {
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/elsewhere")]).into_response();
        }
        Wrong::LetsAnyKeyIn => {
            let right = HeaderValue::from_str(&format!("Bearer {SIGNER_API_KEY}")).unwrap();
            request.headers_mut().insert(header::AUTHORIZATION, right);
        }
        Wrong::ForgetsKeys if writes && !key.is_empty() => {
            let fresh = HeaderValue::from_str(&format!("fresh-{:x}", SystemEntropy.u128())).unwrap();
            request.headers_mut().insert("idempotency-key", fresh);
        }
        Wrong::BurnsKeysOfRefusals if liar.refused.lock().unwrap().contains(&key) => {
            return refusal(422, "idempotency_key_reused");
        }
        Wrong::IsSlow if path.ends_with("/sign-link") => tokio::time::sleep(Duration::from_millis(4_100)).await,
        _ => {}
    }
    let (parts, body) = request.into_parts();
    let sent = to_bytes(body, 1 << 20).await.unwrap();
    let asked: Value = serde_json::from_slice(&sent).unwrap_or_default();
    let answer = next.run(Request::from_parts(parts, Body::from(sent))).await;
    let status = answer.status().as_u16();
    let (head, body) = answer.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    let told: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let code = told["error_code"].as_str().unwrap_or_default();
    match liar.wrong {
        Wrong::TakesAnyDigest if code == "digest_mismatch" => {
            say(201, &json!({"id": "sgn_x", "reference": asked["reference"], "round": 1}))
        }
        Wrong::BurnsKeysOfRefusals if writes && status >= 400 => {
            liar.refused.lock().unwrap().push(key);
            Response::from_parts(head, Body::from(bytes))
        }
        Wrong::TakesOldRounds if code == "round_stale" && path.ends_with("/payments") => {
            say(200, &json!({"id": "sgn_x", "reference": asked["reference"], "round": asked["round"]}))
        }
        Wrong::ClosesLate if told["state"] == "open" && path.ends_with("/cancel") => {
            say(200, &json!({"id": told["id"], "state": "closed"}))
        }
        Wrong::BreaksOnBadBodies if code == "invalid_request" && writes => say(500, &json!({"error": "oops"})),
        Wrong::SpeaksHtml if status == 404 => {
            (head.status, [(header::CONTENT_TYPE, "text/html")], bytes).into_response()
        }
        Wrong::HasNoCodes if status >= 400 => say(status, &json!({"message": "no"})),
        Wrong::KnowsNoEmptyList if told["items"] == json!([]) => refusal(404, "unknown_payment"),
        Wrong::HasIdsWithDots if told["id"].is_string() => {
            let mut told = told;
            told["id"] = json!("../etc");
            say(status, &told)
        }
        Wrong::LosesTheRound if path.ends_with("/status") && status == 200 => {
            let mut told = told;
            told["round"] = json!(1);
            say(status, &told)
        }
        _ => Response::from_parts(head, Body::from(bytes)),
    }
}

fn say(status: u16, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::from_u16(status).unwrap(), kind, body.to_string()).into_response()
}

fn refusal(status: u16, code: &str) -> Response {
    say(status, &json!({"error_code": code, "error_message": "no"}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_service_keeps_the_whole_contract() {
    let service = Service::start(Wrong::Nothing).await;
    let (code, lines) = service.check(&["--signer", "bob"]).await;
    let not: Vec<_> = lines.iter().filter(|(_, result, _)| result != "ok").collect();
    assert_eq!(code, 0, "{not:#?}");
    assert!(not.iter().all(|(_, result, why)| result == "skipped" && why.contains("--callback-listen")), "{not:#?}");
    assert!(lines.len() > 45 && not.len() == 3, "{} checks, {not:#?}", lines.len());
    // Once more, on what the first run left behind, and with one signer.
    let (code, lines) = service.check(&[]).await;
    assert_eq!(code, 0, "{lines:#?}");
    assert!(lines.iter().any(|(_, result, why)| result == "skipped" && why.contains("give --signer twice")));
    let (code, lines) = service.check(&["--signer", "nobody"]).await;
    assert_eq!(code, 1);
    assert!(lines.iter().any(|(_, result, why)| result == "failed" && why.contains("does not know the signer")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wrong_thing_is_named() {
    let rows: [(Wrong, &[&str]); 14] = [
        (Wrong::Redirects, &["no answer is a redirect", "the status says round"]),
        (Wrong::LetsAnyKeyIn, &["a wrong key is 401", "no key is 401"]),
        (Wrong::TakesAnyDigest, &["a wrong digest is 422"]),
        (Wrong::ForgetsKeys, &["the same key and body", "the same key with another body"]),
        (Wrong::BurnsKeysOfRefusals, &["a refusal leaves its key free"]),
        (Wrong::TakesOldRounds, &["a lower round is 409"]),
        (Wrong::ClosesLate, &["a closing of a lower round changes nothing"]),
        (Wrong::BreaksOnBadBodies, &["a body that can't be read", "nothing that was asked is answered 5xx"]),
        (Wrong::SpeaksHtml, &["every answer is a JSON object"]),
        (Wrong::HasNoCodes, &["every refusal is an error object", "a wrong digest is 422"]),
        (Wrong::KnowsNoEmptyList, &["a look-up of pay_0"]),
        (Wrong::HasIdsWithDots, &["a new payment is taken"]),
        (Wrong::IsSlow, &["every answer comes within"]),
        (Wrong::LosesTheRound, &["a higher round replaces"]),
    ];
    let run = async |(wrong, named): &(Wrong, &[&str])| {
        let service = Service::start(*wrong).await;
        let (code, lines) = service.check(&[]).await;
        let failed: Vec<_> = lines.iter().filter(|(_, result, _)| result == "failed").collect();
        assert_eq!(code, 1, "{wrong:?}");
        for name in *named {
            assert!(failed.iter().any(|(check, ..)| check.starts_with(name)), "{wrong:?}: {name}: {failed:#?}");
        }
        assert!(failed.iter().all(|(_, _, why)| !why.is_empty() && !why.contains(SIGNER_API_KEY)), "{failed:#?}");
        // What is right is not called wrong.
        assert!(lines.iter().any(|(check, result, _)| check.starts_with("it answers 200") && result == "ok"));
    };
    futures::future::join_all(rows.iter().map(run)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_awaited_and_its_callback_checked() {
    let service = Service::start(Wrong::Nothing).await;
    let stop = CancellationToken::new();
    let (loop_of, stopped) = (service.inner.clone(), stop.clone());
    let deliveries = tokio::spawn(async move { loop_of.deliver_callbacks(stopped).await });
    let secret = service.folder.join("secret").display().to_string();
    let more = ["--callback-listen", "127.0.0.1:0", "--callback-secret-file", &secret, "--callback-wait", "30"];
    let mut child = service.command(&more).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let asked = tokio::time::timeout(Duration::from_secs(30), said.next_line()).await.unwrap().unwrap().unwrap();
    let page = asked.rsplit(' ').next().unwrap();

    // As a person would: look, sign what is shown, send it.
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let kid = key_id_of(&key().public());
    let shown = http.get(format!("{page}?signer_id=ann&decision=approve&key_id={kid}"));
    let shown = shown.send().await.unwrap().text().await.unwrap().replace("&quot;", "\"");
    let end =
        shown.find("\"typ\":\"countersign/approval/v1\"}").unwrap() + "\"typ\":\"countersign/approval/v1\"}".len();
    let begin = shown[..end].rfind('{').unwrap();
    let document = &shown[begin..end];
    let jws = sign_detached(&key(), &kid, document).unwrap();
    let sent =
        http.post(format!("{page}/decisions")).json(&json!({"document": document, "jws": jws})).send().await.unwrap();
    assert_eq!(sent.status(), 200, "{}", sent.text().await.unwrap());

    let output = tokio::time::timeout(Duration::from_secs(40), child.wait_with_output()).await.unwrap().unwrap();
    let lines = lines(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{lines:#?}");
    assert!(
        lines.iter().filter(|(check, result, _)| check.contains("callback") && result == "ok").count() == 2,
        "{lines:#?}"
    );
    stop.cancel();
    deliveries.await.unwrap();
}

#[tokio::test]
async fn a_command_line_that_cannot_be_used_is_told_so_and_check_by_itself_goes_on_as_before() {
    let service = Service::start(Wrong::Nothing).await;
    let code = async |arguments: &[&str]| {
        let output = program().args(arguments).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let key = service.folder.join("key").display().to_string();
    for arguments in [
        vec!["check", "signer", "not-a-url", "--api-key-file", &key],
        vec!["check", "signer", "ftp://x", "--api-key-file", &key],
        vec!["check", "signer", &service.url, "--api-key-file", "/nowhere/key"],
        vec!["check", "signer", &service.url, "--api-key-file", &key, "--signer", "a b"],
        vec!["check", "signer", &service.url, "--api-key-file", &key, "--signer", "ann", "--signer", "ann"],
        vec!["check", "signer", &service.url],
        vec!["check", "--config", "/nowhere/countersign.toml"],
        vec!["check", "nonsense"],
    ] {
        let (code, said) = code(&arguments).await;
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
    let unheard = ["check", "signer", "http://127.0.0.1:9", "--api-key-file", &key];
    assert_eq!(code(&unheard).await.0, Some(1), "nobody listens there");
}
