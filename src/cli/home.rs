//! The dev instance's folder: keys and secrets made once, and a card that says where it runs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{CommandFault, failed};
use crate::ambient::{Clock, Entropy};
use crate::config::{Config, whsec_of};
use crate::domain::Role;
use crate::http::auth::{Grant, Mint};
use crate::proof::{NoteSigner, SigningKey, b64url, key_id_of};

/// Where the parts of a dev instance listen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peers {
    /// The gateway.
    pub gateway: String,
    /// The reference signer service.
    pub signer: String,
    /// Its pages, as people open them: browsers have passkeys at a host name, never at an address.
    #[serde(default)]
    pub pages: String,
    /// The sandbox rail.
    pub rail: String,
}

/// What a person or program needs to use a running dev instance. Holds tokens: readable by its owner only.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Card {
    /// Where it listens.
    pub peers: Peers,
    /// The MCP endpoint.
    pub mcp_url: String,
    /// A token per role.
    pub tokens: Tokens,
    /// The signers and their key files.
    pub signers: Vec<SignerCard>,
    /// The sandbox rail's API key.
    pub rail_api_key: String,
    /// The reference signer service's API key.
    pub signer_api_key: String,
    /// The process.
    pub pid: u32,
}

/// A token per role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tokens {
    /// For the agent.
    pub agent: String,
    /// For the first signer.
    pub signer: String,
    /// For the operator.
    pub operator: String,
    /// For the auditor.
    pub auditor: String,
}

/// A dev signer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SignerCard {
    /// The person.
    pub signer_id: String,
    /// The private key file.
    pub key_file: PathBuf,
    /// A token for them.
    pub token: String,
}

/// The dev issuer's name.
pub(super) const ISSUER: &str = "https://issuer.dev.invalid";
/// The dev signers, as `config/policy.toml` names them.
pub(super) const SIGNERS: [&str; 2] = ["finance-1", "finance-2"];
/// The key of the audit's checkpoints, and what its checkpoints are named after.
const CHECKPOINT_KEY: &str = "checkpoint-key";
const ORIGIN: &str = "dev";
/// The registry's root.
const ROOT_KEY: &str = "root.pem";
const ROOT_PUBLIC_KEY: &str = "root.pub.pem";
/// How long dev tokens last.
const TOKENS_LAST: Duration = Duration::from_hours(24);

/// A dev instance's folder.
#[derive(Debug)]
pub struct Home {
    dir: PathBuf,
    mint: Mint,
    signer_keys: Vec<SigningKey>,
    root: SigningKey,
    signer_api_key: String,
    rail_api_key: String,
    callback_secret: String,
}

impl Home {
    /// Opens `dir`, making what is missing. Secrets are files of mode 0600.
    pub(super) fn open(dir: &Path, entropy: &dyn Entropy) -> Result<Self, CommandFault> {
        let unusable = |what: &Path, err: std::io::Error| {
            CommandFault::Unusable(format!("{}: can't be used: {err}", what.display()))
        };
        std::fs::create_dir_all(dir.join("keys")).map_err(|err| unusable(dir, err))?;
        let dir = dir.canonicalize().map_err(|err| unusable(dir, err))?;
        private_folder(&dir).map_err(|err| unusable(&dir, err))?;
        let seed = || {
            let mut seed = [0; 32];
            entropy.fill(&mut seed);
            seed
        };
        let file = |name: &str, make: &dyn Fn() -> Result<String, CommandFault>| -> Result<String, CommandFault> {
            let path = dir.join("keys").join(name);
            match std::fs::read_to_string(&path) {
                Ok(text) if text.trim().is_empty() => Err(CommandFault::Unusable(format!(
                    "{}: is empty; move it away, and the next start makes a new one",
                    path.display()
                ))),
                Ok(text) => Ok(text.trim_end().to_owned()),
                Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
                    let text = make()?;
                    write_private(&path, &text).map_err(|err| unusable(&path, err))?;
                    Ok(text.trim_end().to_owned())
                }
                Err(err) => Err(unusable(&path, err)),
            }
        };
        let key_pem = || SigningKey::from_seed(&seed()).to_pem().map_err(failed);
        let secret = || Ok(b64url(seed()));
        let issuer = file("issuer.pem", &key_pem)?;
        let mint = Mint::from_pem(&issuer).map_err(|err| CommandFault::Unusable(format!("keys/issuer.pem: {err}")))?;
        let mut signer_keys = Vec::new();
        for signer in SIGNERS {
            let pem = file(&format!("{signer}.pem"), &key_pem)?;
            signer_keys.push(
                SigningKey::from_pem(&pem)
                    .map_err(|err| CommandFault::Unusable(format!("keys/{signer}.pem: {err}")))?,
            );
        }
        let root = SigningKey::from_pem(&file(ROOT_KEY, &key_pem)?)
            .map_err(|err| CommandFault::Unusable(format!("keys/{ROOT_KEY}: {err}")))?;
        let public = dir.join("keys").join(ROOT_PUBLIC_KEY);
        write_private(&public, &root.public().to_pem().map_err(failed)?).map_err(|err| unusable(&public, err))?;
        let jwks = dir.join("keys").join("jwks.json");
        write_private(&jwks, &mint.jwks()).map_err(|err| unusable(&jwks, err))?;
        let checkpoint_key = || Ok(NoteSigner::from_seed(ORIGIN, &seed()).map_err(failed)?.to_text());
        let signer = NoteSigner::parse(&file(CHECKPOINT_KEY, &checkpoint_key)?)
            .map_err(|err| CommandFault::Unusable(format!("keys/{CHECKPOINT_KEY}: {err}")))?;
        let public = dir.join("keys").join(format!("{CHECKPOINT_KEY}.pub"));
        write_private(&public, &signer.verifier().to_text()).map_err(|err| unusable(&public, err))?;
        let callback = || Ok(whsec_of(&seed()));
        Ok(Self {
            signer_api_key: file("signer-api-key", &secret)?,
            rail_api_key: file("rail-api-key", &secret)?,
            callback_secret: file("callback-secret", &callback)?,
            dir,
            mint,
            signer_keys,
            root,
        })
    }

    /// Takes the folder for this process alone.
    ///
    /// *Errors*: another instance uses it.
    pub(super) fn take_alone(&self) -> Result<std::fs::File, CommandFault> {
        let path = self.path("dev.lock");
        let file = std::fs::File::create(&path).map_err(|err| failed(format_args!("{}: {err}", path.display())))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(_) => Err(CommandFault::Unusable(format!(
                "{}: another dev instance uses this folder; stop it, or name another with --data-dir",
                self.dir.display()
            ))),
        }
    }

    /// A path in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The signer service's API key.
    pub(super) fn signer_api_key(&self) -> SecretString {
        self.signer_api_key.clone().into()
    }

    /// The rail's API key.
    pub(super) fn rail_api_key(&self) -> SecretString {
        self.rail_api_key.clone().into()
    }

    /// The callbacks' secret.
    pub(super) fn callback_secret(&self) -> SecretString {
        self.callback_secret.clone().into()
    }

    /// Each dev signer with their key.
    pub(super) fn signers(&self) -> impl Iterator<Item = (&'static str, &SigningKey)> {
        SIGNERS.into_iter().zip(&self.signer_keys)
    }

    /// The registry's root: of a dev instance alone it is where the gateway is.
    pub(super) const fn root(&self) -> &SigningKey {
        &self.root
    }

    /// Points `config` at this folder and these peers.
    pub(super) fn configure(&self, config: &mut Config, peers: &Peers) {
        config.server.public_url.clone_from(&peers.gateway);
        config.database.url = format!("sqlite://{}", self.path("gateway.db").display()).into();
        ISSUER.clone_into(&mut config.auth.issuer);
        config.auth.jwks_url.clear();
        config.auth.jwks_file = self.path("keys").join("jwks.json").display().to_string();
        config.signer.url.clone_from(&peers.signer);
        config.signer.api_key = self.signer_api_key();
        config.signer.callback_secret = self.callback_secret();
        if let Ok(url) = url::Url::parse(&peers.pages) {
            url.host_str().unwrap_or_default().clone_into(&mut config.passkeys.rp_id);
            config.passkeys.origins = vec![url.origin().ascii_serialization()];
        }
        config.registry.root_public_key_file = self.path("keys").join(ROOT_PUBLIC_KEY).display().to_string();
        config.rail.url.clone_from(&peers.rail);
        config.rail.api_key = self.rail_api_key();
        config.audit.checkpoint_folder = self.path("checkpoints");
        config.audit.checkpoint_key_file = self.path("keys").join(CHECKPOINT_KEY).display().to_string();
        if config.payments.payee_account.is_empty() {
            "demo-payee-001".clone_into(&mut config.payments.payee_account);
        }
    }

    /// The card of the instance that runs at `peers`.
    pub(super) fn card(&self, config: &Config, peers: Peers, clock: &dyn Clock) -> Card {
        let audience = config.audience();
        let token = |role: Role, subject: &str| {
            self.mint.token(&Grant {
                issuer: ISSUER,
                audience: &audience,
                subject,
                tenant: &config.auth.default_tenant,
                client: subject,
                roles: &[role],
                scope: "",
                issued_at: clock.now(),
                valid_for: TOKENS_LAST,
            })
        };
        let signers: Vec<SignerCard> = SIGNERS
            .iter()
            .map(|signer| SignerCard {
                signer_id: (*signer).to_owned(),
                key_file: self.path("keys").join(format!("{signer}.pem")),
                token: token(Role::Signer, signer),
            })
            .collect();
        Card {
            mcp_url: config.resource(),
            tokens: Tokens {
                agent: token(Role::Agent, "agent-1"),
                signer: token(Role::Signer, "finance-1"),
                operator: token(Role::Operator, "operator-1"),
                auditor: token(Role::Auditor, "auditor-1"),
            },
            signers,
            rail_api_key: self.rail_api_key.clone(),
            signer_api_key: self.signer_api_key.clone(),
            peers,
            pid: std::process::id(),
        }
    }

    /// Writes the settings that commands on the gateway's database and peers need, so that `--config` finds them.
    pub(super) fn publish_settings(&self, config: &Config) -> Result<(), CommandFault> {
        let key = |name: &str| self.path("keys").join(name).display().to_string();
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let origins = serde_json::json!(config.passkeys.origins);
        let settings = format!(
            "# Where this dev instance is, for the commands that take --config; written anew at each start.\n\n\
             [server]\npublic_url = {}\n\n[database]\nurl = {}\n\n[auth]\nissuer = {}\njwks_file = {}\n\n\
             [payments]\npayee_account = {}\n\n[signer]\nurl = {}\napi_key_file = {}\ncallback_secret_file = {}\n\n\
             [passkeys]\nrp_id = {}\norigins = {origins}\n\n[registry]\nroot_public_key_file = {}\n\n[rail]\nurl = {}\napi_key_file = {}\n\n\
             [audit]\ncheckpoint_folder = {}\ncheckpoint_key_file = {}\n",
            text(&config.server.public_url),
            text(&format!("sqlite://{}", self.path("gateway.db").display())),
            text(&config.auth.issuer),
            text(&config.auth.jwks_file),
            text(&config.payments.payee_account),
            text(&config.signer.url),
            text(&key("signer-api-key")),
            text(&key("callback-secret")),
            text(&config.passkeys.rp_id),
            text(&config.registry.root_public_key_file),
            text(&config.rail.url),
            text(&key("rail-api-key")),
            text(&self.path("checkpoints").display().to_string()),
            text(&config.audit.checkpoint_key_file),
        );
        let path = self.path(SETTINGS);
        write_private(&path, &settings)
            .map_err(|err| failed(format_args!("{}: can't be written: {err}", path.display())))
    }

    /// Writes the card where `sign` and `token` find it.
    pub(super) fn publish(&self, card: &Card) -> Result<(), CommandFault> {
        let text = serde_json::to_string_pretty(card).map_err(failed)?;
        let path = self.path(CARD);
        write_private(&path, &text).map_err(|err| failed(format_args!("{}: can't be written: {err}", path.display())))
    }
}

const CARD: &str = "dev.json";
/// The settings, for commands that take `--config`.
pub(super) const SETTINGS: &str = "countersign.toml";

impl Card {
    /// The card of the dev instance whose folder is `dir`.
    pub(super) fn read(dir: &Path) -> Result<Self, CommandFault> {
        let path = dir.join(CARD);
        let text = std::fs::read_to_string(&path).map_err(|_| {
            CommandFault::Unusable(format!(
                "{}: not found; start `countersign dev` first, or name --url, --token and --key",
                path.display()
            ))
        })?;
        serde_json::from_str(&text).map_err(|err| CommandFault::Unusable(format!("{}: {err}", path.display())))
    }
}

/// The name a dev signer's key is enrolled under.
pub(super) fn dev_key_id(key: &SigningKey) -> String {
    key_id_of(&key.public())
}

/// Writes a file that only its owner reads, whole or not at all.
pub(super) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    write_whole(path, text, 0o600)
}

/// Writes a file that anyone may read, whole or not at all.
pub(super) fn write_public(path: &Path, text: &str) -> std::io::Result<()> {
    write_whole(path, text, 0o644)
}

#[cfg_attr(not(unix), expect(unused_variables, reason = "a mode is a word of Unix"))]
fn write_whole(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let draft = path.with_extension("tmp");
    // One that a crash left keeps the mode it was made with, and may be of another file.
    match std::fs::remove_file(&draft) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => return Err(err),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    let mut file = options.open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

#[cfg(unix)]
fn private_folder(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn private_folder(_dir: &Path) -> std::io::Result<()> {
    Ok(())
}
