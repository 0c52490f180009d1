//! A real mail server on loopback, in a process of its own: aiosmtpd, pinned, installed where it is missing.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use countersign::signer::{ChannelSettings, Mail, MailTls};
use serde_json::Value;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mail");
/// The authority that the server's certificate is of.
pub(crate) const CA: &str = include_str!("../../mail/ca.pem");

/// How the server wants to be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In the clear, without a login.
    Open,
    /// With STARTTLS and a login.
    Starttls,
    /// With TLS from the first byte and a login.
    Implicit,
}

/// The server; gone when this is.
#[derive(Debug)]
pub(crate) struct MailServer {
    child: Child,
    port: u16,
    taken: Arc<Mutex<Vec<Value>>>,
}

impl MailServer {
    pub(crate) fn start(kind: Kind) -> Self {
        let mut command = Command::new("python3");
        command.arg(Path::new(HERE).join("server.py")).env("PYTHONPATH", packages());
        if kind != Kind::Open {
            command.arg("--certificate").arg(Path::new(HERE).join("localhost.pem"));
        }
        if kind == Kind::Implicit {
            command.arg("--implicit");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 can't be started");
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        says.read_line(&mut first).unwrap();
        let port = first.trim().parse().expect("the mail server did not start");
        let taken: Arc<Mutex<Vec<Value>>> = Arc::default();
        let box_of = Arc::clone(&taken);
        std::thread::spawn(move || {
            for line in says.lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap();
                box_of.lock().unwrap().push(message);
            }
        });
        Self { child, port, taken }
    }

    /// The channel that sends by it.
    pub(crate) fn mail(&self, tls: MailTls) -> Mail {
        Mail {
            host: "localhost".to_owned(),
            port: self.port,
            tls,
            ca_pem: (tls != MailTls::None).then(|| CA.to_owned()),
            from: "Countersign <desk@pay.example>".to_owned(),
            login: (tls != MailTls::None).then(|| ("desk".to_owned(), "right password".into())),
            within: Duration::from_secs(8),
        }
    }

    /// The channel that sends by it in the clear.
    pub(crate) fn open(&self) -> ChannelSettings {
        ChannelSettings::Smtp(self.mail(MailTls::None))
    }

    /// What it has taken, in order.
    pub(crate) fn taken(&self) -> Vec<Value> {
        self.taken.lock().unwrap().clone()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Where the server's packages are: as `.ci/run` put them, or put there now.
fn packages() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let requirements = Path::new(HERE).join("requirements.txt");
        let wanted = std::fs::read_to_string(&requirements).unwrap();
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ci/mail");
        let mark = place.join("wanted");
        if std::fs::read_to_string(&mark).is_ok_and(|there| there == wanted) {
            return place;
        }
        drop(std::fs::remove_dir_all(&place));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
        let installed = pip.arg(&place).arg("--requirement").arg(&requirements).status();
        assert!(
            installed.is_ok_and(|status| status.success()),
            "the tests' mail server can't be installed: python3 with pip is needed, and PyPI; or let .ci/run do it"
        );
        std::fs::write(mark, wanted).unwrap();
        place
    })
}
