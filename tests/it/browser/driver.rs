//! A real Chromium, driven over `WebDriver`, with an authenticator that obeys the test.
//!
//! One chromedriver serves all tests of this process. A supervising shell holds it and waits on a pipe whose other end
//! only this process holds: however this process ends, the driver is told to shut its browsers down.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::harness::folder::Folder;

/// Said once, where the browser tests can't run.
const MISSING: &str = "chromium and chromedriver were not found: the browser tests did not run";

/// Arguments: the driver, a port. Says `ready`, then lives as long as its input.
const SUPERVISOR: &str = r#"
driver=$1 port=$2
trap '' HUP
"$driver" --port="$port" --log-level=OFF >/dev/null 2>&1 &
served=$!
for _ in $(seq 100); do
    if exec 3<>"/dev/tcp/127.0.0.1/$port"; then break; fi
    sleep 0.1
done 2>/dev/null
exec 3>&- 2>/dev/null
echo ready
while read -r _; do :; done
if exec 3<>"/dev/tcp/127.0.0.1/$port"; then
    printf 'GET /shutdown HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
    timeout 10 cat <&3 >/dev/null
fi 2>/dev/null
kill "$served" 2>/dev/null
wait
"#;

struct Driver {
    url: String,
    browser: PathBuf,
    /// Holds the pipe that the supervisor waits on; never dropped, so only our end closes it.
    _supervisor: Child,
}

fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    names.iter().find_map(|name| std::env::split_paths(&path).map(|at| at.join(name)).find(|at| at.is_file()))
}

/// The driver; `None`, said once, when this machine has none, which CI does not forgive.
fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(find).as_ref()
}

fn find() -> Option<Driver> {
    let found = program(&["chromedriver"]).zip(program(&["chromium", "chromium-browser", "google-chrome"]));
    let Some((driver, browser)) = found else {
        assert!(std::env::var_os("CI").is_none(), "{MISSING}");
        // Not eprintln, which the test runner keeps to itself.
        let _ = writeln!(std::io::stderr(), "{MISSING}");
        return None;
    };
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut supervisor = Command::new("bash")
        .args(["-c", SUPERVISOR, "supervisor"])
        .arg(driver)
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut word = String::new();
    BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut word).unwrap();
    assert_eq!(word.trim(), "ready", "chromedriver starts");
    Some(Driver { url: format!("http://127.0.0.1:{port}"), browser, _supervisor: supervisor })
}

/// What a browser is like.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) phone: bool,
    pub(super) dark: bool,
    pub(super) language: &'static str,
}

impl Look {
    pub(super) const DESKTOP: Self = Self { width: 1100, height: 900, phone: false, dark: false, language: "en" };
    pub(super) const PHONE: Self = Self { width: 360, height: 740, phone: true, dark: false, language: "en" };

    pub(super) const fn dark(self) -> Self {
        Self { dark: true, ..self }
    }

    pub(super) const fn speaking(self, language: &'static str) -> Self {
        Self { language, ..self }
    }
}

/// One browser with one window; another test's waits until this one has quit.
pub(super) struct Browser {
    http: reqwest::Client,
    session: String,
    authenticator: Option<String>,
    look: Cell<Look>,
    folder: Folder,
    _turn: MutexGuard<'static, ()>,
}

impl Browser {
    /// Starts one; `None` where there is none on this machine.
    pub(super) async fn start() -> Option<Self> {
        static TURN: Mutex<()> = Mutex::const_new(());
        let driver = driver()?;
        let turn = TURN.lock().await;
        let folder = Folder::new("browser");
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_mins(1)).build().unwrap();
        let mut args: Vec<String> = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-proxy-server",
            "--hide-scrollbars",
        ]
        .map(str::to_owned)
        .to_vec();
        args.push(format!("--user-data-dir={}", folder.display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "webauthn:virtualAuthenticators": true,
            "goog:chromeOptions": {"binary": driver.browser, "args": args},
        }}});
        let begun: Value =
            http.post(format!("{}/session", driver.url)).json(&wanted).send().await.unwrap().json().await.unwrap();
        let id = begun["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {begun}"));
        let session = format!("{}/session/{id}", driver.url);
        let look = Cell::new(Look::DESKTOP);
        Some(Self { http, session, authenticator: None, look, folder, _turn: turn })
    }

    async fn command(&self, path: &str, body: Value) -> Result<Value, Value> {
        let request = self.http.post(format!("{}{path}", self.session)).json(&body);
        let mut answer: Value = request.send().await.unwrap().json().await.unwrap();
        let value = answer["value"].take();
        if value.get("error").is_some() { Err(value) } else { Ok(value) }
    }

    /// A command of the `DevTools` protocol.
    pub(super) async fn devtools(&self, method: &str, params: Value) -> Value {
        self.command("/goog/cdp/execute", json!({"cmd": method, "params": params})).await.unwrap()
    }

    /// Ends it.
    pub(super) async fn quit(self) {
        self.http.delete(&self.session).send().await.unwrap();
        // It writes to its folder until it is gone.
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(self.folder);
    }

    /// Makes it look so, from the next page on.
    pub(super) async fn look(&self, look: Look) {
        self.look.set(look);
        let size = json!({"width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": look.phone});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        self.devtools("Emulation.setTouchEmulationEnabled", json!({"enabled": look.phone})).await;
        let scheme = if look.dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
        self.devtools("Network.enable", json!({})).await;
        let headers = json!({"headers": {"Accept-Language": look.language}});
        self.devtools("Network.setExtraHTTPHeaders", headers).await;
    }

    /// Gives it an authenticator such as a telephone has; an earlier one is taken away.
    pub(super) async fn authenticator(&mut self) {
        self.no_authenticator().await;
        self.authenticator = Some(self.device().await);
    }

    /// An authenticator for the window that is looked at: it serves no other one.
    pub(super) async fn device(&self) -> String {
        let like = json!({"protocol": "ctap2", "transport": "internal", "hasResidentKey": true,
            "hasUserVerification": true, "isUserVerified": true, "isUserConsenting": true});
        let id = self.command("/webauthn/authenticator", like).await.unwrap();
        id.as_str().unwrap().to_owned()
    }

    /// Takes the authenticator away, and its passkeys with it.
    pub(super) async fn no_authenticator(&mut self) {
        if let Some(id) = self.authenticator.take() {
            self.http.delete(format!("{}/webauthn/authenticator/{id}", self.session)).send().await.unwrap();
        }
    }

    /// Whether its owner can be verified: by a finger, say.
    pub(super) async fn verifies(&self, can: bool) {
        let id = self.authenticator.as_ref().unwrap();
        self.command(&format!("/webauthn/authenticator/{id}/uv"), json!({"isUserVerified": can})).await.unwrap();
    }

    /// The passkeys that it holds.
    pub(super) async fn credentials(&self) -> Vec<Value> {
        let id = self.authenticator.as_ref().unwrap();
        let url = format!("{}/webauthn/authenticator/{id}/credentials", self.session);
        let told: Value = self.http.get(url).send().await.unwrap().json().await.unwrap();
        told["value"].as_array().unwrap().clone()
    }

    /// Puts a passkey into it that another one held.
    pub(super) async fn put_credential(&self, credential: &Value) {
        self.put_into(self.authenticator.as_ref().unwrap(), credential).await;
    }

    /// The same, into this one.
    pub(super) async fn put_into(&self, device: &str, credential: &Value) {
        self.command(&format!("/webauthn/authenticator/{device}/credential"), credential.clone()).await.unwrap();
    }

    pub(super) async fn open(&self, url: &str) {
        self.command("/url", json!({"url": url})).await.unwrap();
    }

    pub(super) async fn reload(&self) {
        self.command("/refresh", json!({})).await.unwrap();
    }

    pub(super) async fn back(&self) {
        self.command("/back", json!({})).await.unwrap();
    }

    /// Opens another window, and looks at it; the handles of both.
    pub(super) async fn second_tab(&self) -> (String, String) {
        let first: Value =
            self.http.get(format!("{}/window", self.session)).send().await.unwrap().json().await.unwrap();
        let second = self.command("/window/new", json!({"type": "tab"})).await.unwrap();
        let handle = |value: &Value| value.as_str().unwrap().to_owned();
        let both = (handle(&first["value"]), handle(&second["handle"]));
        self.tab(&both.1).await;
        self.look(self.look.get()).await;
        both
    }

    /// The page does not notice that it is looked at again, so it stays as it is.
    pub(super) async fn notices_nothing(&self) {
        let deaf = "addEventListener('visibilitychange', (event) => event.stopImmediatePropagation(), true)";
        self.script(deaf, json!([])).await;
    }

    pub(super) async fn tab(&self, handle: &str) {
        self.command("/window", json!({"handle": handle})).await.unwrap();
    }

    /// What a function's body returns in the page.
    pub(super) async fn script(&self, body: &str, arguments: Value) -> Value {
        let call = json!({"script": body, "args": arguments});
        self.command("/execute/sync", call).await.unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    pub(super) async fn script_async(&self, body: &str) -> Value {
        let call = json!({"script": body, "args": []});
        self.command("/execute/async", call).await.unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    /// The text that a person sees.
    pub(super) async fn text(&self) -> String {
        self.script("return document.body.innerText", json!([])).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a person sees `text`.
    pub(super) async fn sees(&self, text: &str) {
        for _ in 0..100 {
            if self.text().await.contains(text) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("no {text:?} in: {}", self.text().await);
    }

    async fn element(&self, selector: &str) -> Option<String> {
        let found = self.command("/element", json!({"using": "css selector", "value": selector})).await.ok()?;
        found.as_object()?.values().next()?.as_str().map(str::to_owned)
    }

    /// Presses what the selector finds, as a finger does: it must be there to be seen.
    pub(super) async fn press(&self, selector: &str) {
        let id = self.element(selector).await.unwrap_or_else(|| panic!("no {selector}"));
        self.command(&format!("/element/{id}/click"), json!({}))
            .await
            .unwrap_or_else(|error| panic!("{selector}: {error}"));
    }

    /// Types into what the selector finds, in place of what is there.
    pub(super) async fn write(&self, selector: &str, text: &str) {
        let id = self.element(selector).await.unwrap_or_else(|| panic!("no {selector}"));
        self.command(&format!("/element/{id}/clear"), json!({})).await.unwrap();
        self.command(&format!("/element/{id}/value"), json!({"text": text})).await.unwrap();
    }

    /// Presses keys wherever the focus is; `\u{e004}` is Tab, `\u{e007}` Enter (`WebDriver`, 17.4.2).
    pub(super) async fn keys(&self, keys: &str) {
        let downs = keys.chars().flat_map(|key| {
            [json!({"type": "keyDown", "value": key.to_string()}), json!({"type": "keyUp", "value": key.to_string()})]
        });
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": downs.collect::<Vec<_>>()}]});
        self.command("/actions", actions).await.unwrap();
    }

    /// Writes the whole page to `target/screenshots`, by this name and the kind of screen; it must fit.
    pub(super) async fn screenshot(&self, name: &str) {
        self.fits(name).await;
        let screen = if self.look.get().phone { "phone" } else { "desktop" };
        self.picture(&format!("{name}-{screen}"), json!({"captureBeyondViewport": true})).await;
    }

    /// Nobody has to scroll sideways.
    async fn fits(&self, page: &str) {
        let wide = self.script("return [document.documentElement.scrollWidth, innerWidth]", json!([])).await;
        assert!(wide[0].as_u64() <= wide[1].as_u64(), "{page}: a person has to scroll sideways: {wide}");
        assert_eq!(wide[1].as_u64(), Some(u64::from(self.look.get().width)), "{page}");
    }

    /// Writes the upper part of the page, so many pixels of it, to `target/screenshots`: for the README.
    pub(super) async fn upper_part(&self, name: &str, look: Look, height: u32) {
        let clip = json!({"x": 0, "y": 0, "width": look.width, "height": height, "scale": 1});
        self.picture(name, json!({"captureBeyondViewport": true, "clip": clip})).await;
    }

    async fn picture(&self, name: &str, how: Value) {
        let shot = self.devtools("Page.captureScreenshot", how).await;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
        std::fs::create_dir_all(&folder).unwrap();
        let image = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), image).unwrap();
    }

    /// Has axe-core look for what a reader by voice or keyboard stumbles over.
    pub(super) async fn is_accessible(&self, page: &str) {
        static SAID: OnceLock<()> = OnceLock::new();
        self.fits(page).await;
        let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ci/node_modules/axe-core/axe.min.js");
        let Ok(axe) = std::fs::read_to_string(&at) else {
            assert!(std::env::var_os("CI").is_none(), "axe-core is missing: {}", at.display());
            SAID.get_or_init(|| {
                let _ = writeln!(std::io::stderr(), "axe-core was not found: accessibility was not checked");
            });
            return;
        };
        self.script(&axe, json!([])).await;
        let found = self
            .script_async(
                "const done = arguments[arguments.length - 1];
                 axe.run({resultTypes: ['violations']}).then(
                    (found) => done([found.passes.length, found.violations.map((v) => [v.id, v.help, v.nodes.map((n) => n.html)])]),
                    (error) => done(['failed', String(error)]));",
            )
            .await;
        assert_eq!(found[1], json!([]), "{page}");
        assert!(found[0].as_u64().is_some_and(|passes| passes > 10), "{page}: {found}");
    }
}
