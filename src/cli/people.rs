//! `signers.toml`: who can be asked, and how each is reached. Secrets come from files or the environment only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::{CommandFault, read, secret};
use crate::config::ms;
use crate::signer::{ChannelSettings, Digest, DirectoryEntry, Language, Mail, MailTls, Reaching, Way};

/// How long one attempt on a channel may take, unless it says otherwise.
const WITHIN_MS: u64 = 10_000;

/// What the file says.
#[derive(Debug)]
pub(super) struct People {
    /// Who can be asked.
    pub(super) directory: Vec<DirectoryEntry>,
    /// How they are reached.
    pub(super) reaching: Reaching,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    answer_within_ms: Option<u64>,
    #[serde(default)]
    message_links_s: Option<u64>,
    #[serde(default)]
    digest: Option<Rate>,
    #[serde(default)]
    links: Option<Rate>,
    #[serde(default)]
    channels: BTreeMap<String, ChannelRow>,
    signer: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    most: u32,
    within_s: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    signer_id: String,
    name: String,
    #[serde(default)]
    public_key_file: Option<PathBuf>,
    #[serde(default = "yes")]
    online: bool,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    zone: String,
    #[serde(default)]
    quiet_hours: String,
    #[serde(default)]
    channels: Vec<WayRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WayRow {
    by: String,
    #[serde(default)]
    to: String,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum ChannelRow {
    Console {},
    File {
        path: PathBuf,
    },
    Smtp(MailRow),
    Webhook {
        url: Option<String>,
        url_file: Option<PathBuf>,
        url_env: Option<String>,
        secret_file: Option<PathBuf>,
        secret_env: Option<String>,
        timeout_ms: Option<u64>,
    },
    Ntfy {
        url: String,
        token_file: Option<PathBuf>,
        token_env: Option<String>,
        timeout_ms: Option<u64>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MailRow {
    server: String,
    from: String,
    tls: TlsRow,
    ca_file: Option<PathBuf>,
    username: Option<String>,
    password_file: Option<PathBuf>,
    password_env: Option<String>,
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum TlsRow {
    Starttls,
    Implicit,
    None,
}

const fn yes() -> bool {
    true
}

impl People {
    /// Reads the file; what it names relatively is looked for beside it.
    pub(super) fn load(path: &Path) -> Result<Self, CommandFault> {
        let fault = |why: String| CommandFault::Unusable(format!("{}: {why}", path.display()));
        let text = read(path)?;
        // Its own words quote the line, which may hold what should have been in another file.
        let line = |at: usize| text.get(..at).unwrap_or_default().lines().count().max(1);
        let file: File = toml::from_str(&text).map_err(|err| {
            let place = err.span().map(|span| format!("near line {}: ", line(span.start))).unwrap_or_default();
            fault(format!("{place}{}", err.message().replace('\n', " ")))
        })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut reaching = Reaching::default();
        if let Some(within) = file.answer_within_ms {
            reaching.answer_within = ms(within);
        }
        if let Some(lasts) = file.message_links_s {
            reaching.message_links = Duration::from_secs(lasts);
        }
        if let Some(Rate { most, within_s }) = file.digest {
            reaching.digest = Digest { most, within: Duration::from_secs(within_s) };
        }
        if let Some(Rate { most, within_s }) = file.links {
            (reaching.links, reaching.links_within) = (most, Duration::from_secs(within_s));
        }
        for (name, row) in file.channels {
            let unusable = |why: String| fault(format!("channels.{name}: {why}"));
            let settings = channel(row, folder, &unusable)?;
            reaching.channels.insert(name, settings);
        }
        let directory = file.signer.into_iter().map(|row| entry(row, folder, &fault)).collect::<Result<_, _>>()?;
        Ok(Self { directory, reaching })
    }
}

fn entry(row: Row, folder: &Path, fault: &dyn Fn(String) -> CommandFault) -> Result<DirectoryEntry, CommandFault> {
    let key_pem = row.public_key_file.map(|key| read(&folder.join(key))).transpose()?;
    let language = match &row.language {
        None => Language::default(),
        Some(tag) => {
            Language::of(tag).ok_or_else(|| fault(format!("{:?}: language {tag:?} is not en or zh", row.signer_id)))?
        }
    };
    Ok(DirectoryEntry {
        signer_id: row.signer_id,
        name: row.name,
        key_pem,
        online: row.online,
        language,
        ways: row.channels.into_iter().map(|WayRow { by, to }| Way { channel: by, to }).collect(),
        zone: row.zone,
        quiet_hours: row.quiet_hours,
    })
}

fn channel(
    row: ChannelRow,
    folder: &Path,
    fault: &dyn Fn(String) -> CommandFault,
) -> Result<ChannelSettings, CommandFault> {
    let within = |given: Option<u64>| ms(given.unwrap_or(WITHIN_MS));
    let take = |name: &str, file: Option<PathBuf>, env: Option<String>| hidden(name, file, env, folder, fault);
    let needed = |name: &str, found: Option<SecretString>| {
        found.ok_or_else(|| fault(format!("{name} is needed, by {name}_file or {name}_env")))
    };
    Ok(match row {
        ChannelRow::Console {} => ChannelSettings::Console,
        ChannelRow::File { path } => ChannelSettings::File { path: folder.join(path) },
        ChannelRow::Webhook { url, url_file, url_env, secret_file, secret_env, timeout_ms } => {
            let hidden_url = take("url", url_file, url_env)?;
            let url = match (url, hidden_url) {
                (Some(_), Some(_)) => return Err(fault("url is given twice".to_owned())),
                (Some(url), None) => url.into(),
                (None, hidden) => needed("url", hidden)?,
            };
            let secret = needed("secret", take("secret", secret_file, secret_env)?)?;
            ChannelSettings::Webhook { url, secret, within: within(timeout_ms) }
        }
        ChannelRow::Ntfy { url, token_file, token_env, timeout_ms } => {
            let token = take("token", token_file, token_env)?;
            ChannelSettings::Ntfy { url, token, within: within(timeout_ms) }
        }
        ChannelRow::Smtp(mail) => {
            let password = take("password", mail.password_file, mail.password_env)?;
            let login = match (mail.username, password) {
                (Some(user), Some(password)) => Some((user, password)),
                (None, None) => None,
                (Some(_), None) => return Err(fault("username needs password_file or password_env".to_owned())),
                (None, Some(_)) => return Err(fault("a password needs a username".to_owned())),
            };
            let place = mail.server.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
            let (host, port) = place.ok_or_else(|| fault("server must be host:port".to_owned()))?;
            ChannelSettings::Smtp(Mail {
                host: host.to_owned(),
                port,
                tls: match mail.tls {
                    TlsRow::Starttls => MailTls::Starttls,
                    TlsRow::Implicit => MailTls::Implicit,
                    TlsRow::None => MailTls::None,
                },
                ca_pem: mail.ca_file.map(|file| read(&folder.join(file))).transpose()?,
                from: mail.from,
                login,
                within: within(mail.timeout_ms),
            })
        }
    })
}

/// A secret from its file or from the environment; the name of either may be shown, its value never.
fn hidden(
    name: &str,
    file: Option<PathBuf>,
    env: Option<String>,
    folder: &Path,
    fault: &dyn Fn(String) -> CommandFault,
) -> Result<Option<SecretString>, CommandFault> {
    match (file, env) {
        (Some(_), Some(_)) => Err(fault(format!("{name}_file and {name}_env are both set; set one"))),
        (Some(file), None) => secret(&folder.join(file)).map(Some),
        (None, Some(variable)) => match std::env::var(&variable) {
            Ok(value) if !value.is_empty() => Ok(Some(value.into())),
            _ => Err(fault(format!("{name}_env: the environment has no {variable}"))),
        },
        (None, None) => Ok(None),
    }
}
