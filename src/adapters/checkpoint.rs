//! Where checkpoints of the audit go: a folder with a file for each tenant, a URL, or both.
//!
//! *Invariant*: a file only grows. It is opened for appending, written in one call, and brought to
//! the disk before the note counts as kept; nothing here can shorten or replace it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Url};

use crate::config::{Config, ConfigFault};
use crate::domain::TenantId;
use crate::journal::ports::{CheckpointPort, SinkTrouble};
use crate::proof::{CLOSING, last_note};

/// How much of a file's end holds its last note, and a cut-off one after it.
const TAIL: u64 = 4096;
/// The longest a receiver may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The configured sinks.
pub struct CheckpointSink {
    folder: Option<PathBuf>,
    receiver: Option<(Client, Url)>,
}

impl fmt::Debug for CheckpointSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointSink").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl CheckpointSink {
    /// The sinks that `[audit]` names. Nothing is written or sent yet.
    ///
    /// *Errors*: the setting that can't be used.
    pub fn from_config(config: &Config) -> Result<Self, ConfigFault> {
        let audit = &config.audit;
        let receiver = audit.receiver()?.map(|url| Some((client().ok()?, url)));
        if matches!(receiver, Some(None)) {
            return Err(ConfigFault("audit.checkpoint_url: the HTTP client could not be built".to_owned()));
        }
        let folder = Some(&audit.checkpoint_folder).filter(|folder| !folder.as_os_str().is_empty()).cloned();
        Ok(Self { folder, receiver: receiver.flatten() })
    }

    /// Whether the folder can be written to; nothing is left in it. A missing one is made.
    ///
    /// *Errors*: what stands in the way.
    pub fn probe(&self) -> Result<(), SinkTrouble> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let trouble = |err: std::io::Error| told(folder, &err);
        std::fs::create_dir_all(folder).map_err(trouble)?;
        let probe = folder.join(".probe");
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&probe)
            .and_then(|_| std::fs::remove_file(&probe))
            .map_err(trouble)
    }

    async fn send(&self, note: &str) -> Result<(), SinkTrouble> {
        let Some((client, url)) = &self.receiver else { return Ok(()) };
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        let sent = client.post(url.clone()).header(CONTENT_TYPE, plain).body(note.to_owned()).send().await;
        match sent.map(|answer| answer.status().as_u16()) {
            Ok(200..=299) => Ok(()),
            Ok(status) => Err(SinkTrouble(format!("audit.checkpoint_url answers {status}"))),
            Err(err) if err.is_timeout() => Err(SinkTrouble("audit.checkpoint_url does not answer in time".to_owned())),
            Err(_) => Err(SinkTrouble("audit.checkpoint_url can't be reached".to_owned())),
        }
    }

    fn file(&self, tenant: &str) -> Result<Option<PathBuf>, SinkTrouble> {
        // A name out of the database; as a tenant's it has nothing in it that leads elsewhere.
        let tenant: TenantId =
            tenant.parse().map_err(|_| SinkTrouble("the head's tenant is not a tenant's name".to_owned()))?;
        Ok(self.folder.as_ref().map(|folder| folder.join(format!("{tenant}.checkpoints"))))
    }
}

impl CheckpointPort for CheckpointSink {
    fn last<'a>(&'a self, tenant: &'a str) -> BoxFuture<'a, Result<Option<String>, SinkTrouble>> {
        Box::pin(async move {
            let Some(file) = self.file(tenant)? else { return Ok(None) };
            let shown = file.clone();
            blocking(move || tail(&file)).await.map(|tail| last_note(&tail).0).map_err(|err| told(&shown, &err))
        })
    }

    fn store<'a>(&'a self, tenant: &'a str, note: &'a str) -> BoxFuture<'a, Result<(), SinkTrouble>> {
        Box::pin(async move {
            if let Some(file) = self.file(tenant)? {
                let (shown, note) = (file.clone(), note.to_owned());
                blocking(move || append(&file, &note)).await.map_err(|err| told(&shown, &err))?;
            }
            self.send(note).await
        })
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|err| Err(std::io::Error::other(err)))
}

/// The end of a file; empty when there is none.
fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(err) => return Err(err),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn append(path: &Path, note: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(folder)?;
    let (_, open) = last_note(&tail(path)?);
    let new = !path.exists();
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let closing = if open { String::new() } else { format!("\n{CLOSING}\n") };
    file.write_all(format!("{closing}{note}\n").as_bytes())?;
    file.sync_all()?;
    if new {
        // The file's name is to last as well.
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn told(path: &Path, err: &std::io::Error) -> SinkTrouble {
    SinkTrouble(format!("{}: {err}", path.display()))
}

fn client() -> Result<Client, reqwest::Error> {
    Client::builder()
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .timeout(PATIENCE)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .http1_only()
        .build()
}
