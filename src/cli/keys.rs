//! `countersign keys`: key files of a first deployment, and whose keys count.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use secrecy::SecretString;

use super::home::{write_private, write_public};
use super::output::{say, warn};
use super::pair::{Pair, at, broken, seed};
use super::passkeys::{Invite, Pin, Uninvite, registry, tell};
use super::root::{Certify, Root, RootKey};
use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed, read};
use crate::app::{open_used, read_policy};
use crate::config::{Config, api_key, whsec_of, whsecs};
use crate::domain::KeyId;
use crate::http::auth::Mint;
use crate::proof::{NoteSigner, PublicKey, SignerKey, SigningKey, b64url, key_id_of};

/// `keys …`.
#[derive(Debug, Subcommand)]
pub(super) enum Keys {
    /// Make the secrets that gateway, signer service and rail share, and nothing else
    #[command(
        after_help = "Example:\n  countersign keys init ./secrets\n\nWrites signer-api-key, callback-secret and rail-api-key, each readable by its owner only. Existing files stay as they are; one that holds no secret is refused."
    )]
    Init(Init),
    /// Make a signer's key pair; the signer keeps the private file
    #[command(
        after_help = "Example:\n  countersign keys new finance-1.pem     writes finance-1.pem and finance-1.pub.pem"
    )]
    New(New),
    /// Make the key of an issuer to try things out with, and its JWKS; production has its identity provider
    #[command(
        after_help = "Example:\n  countersign keys issuer issuer.pem     writes issuer.pem (token --key) and issuer.jwks.json (auth.jwks_file)"
    )]
    Issuer(Issuer),
    /// Make the key that signs the audit's checkpoints, and the public half that `verify audit` wants
    #[command(
        after_help = "Example:\n  countersign keys checkpoint checkpoint-key --origin pay.example     writes checkpoint-key (audit.checkpoint_key_file) and checkpoint-key.pub\n\nOne key for one deployment. Keep it off the database's host; give the public half to whoever audits."
    )]
    Checkpoint(CheckpointKey),
    /// Make the registry's root key, with which operators sign whose key is whose; it is never on a gateway
    #[command(
        after_help = "Example:\n  countersign keys root root.pem     writes root.pem (keys … --root-key) and root.pub.pem (registry.root_public_key_file, verify evidence --root)\n\nOne for one registry. Keep it away from gateways and their database, and give the public half to whoever audits."
    )]
    Root(Root),
    /// Put the root's word on a key that is pinned already, or was revoked without it
    #[command(
        after_help = "Example:\n  countersign keys certify finance-1 ed25519-AbC… --by 'ops: J. Doe' --root-key root.pem\n\nThe signer service is told of a passkey that counts by it: it is offered from then on."
    )]
    Certify(Certify),
    /// Pin a signer's public key in the gateway's database, audited
    #[command(
        after_help = "Examples:\n  countersign keys enrol finance-1 finance-1.pub.pem --by 'ops: J. Doe'\n  countersign keys enrol finance-1 finance-1.pub.pem --by 'ops: J. Doe' --root-key root.pem"
    )]
    Enrol(Enrol),
    /// Invite a person to make a passkey: writes the invitation down, audited, and prints the link
    #[command(
        after_help = "Example:\n  countersign keys invite finance-1 --by 'ops: J. Doe'\n\nThe passkey counts once it was pinned: countersign keys pin."
    )]
    Invite(Invite),
    /// Withdraw an invitation that was not used: no passkey is pinned by it any more, audited
    #[command(
        after_help = "Example:\n  countersign keys uninvite finance-1 inv_… --by 'ops: J. Doe'\n\nFor a link that went astray. A passkey that was pinned already goes by keys revoke."
    )]
    Uninvite(Uninvite),
    /// Pin the passkey that answers an invitation, once its owner has read its code to you
    #[command(
        after_help = "Examples:\n  countersign keys pin finance-1 inv_… 7KQ2-M9XD-4H0T --by 'ops: J. Doe'\n  countersign keys pin finance-1 inv_… 7KQ2-M9XD-4H0T --by 'ops: J. Doe' --root-key root.pem\n\nThe code is what makes the passkey theirs: let them read it to you, on the telephone say. A passkey that\nwas exchanged on its way has another code.\n\nWhere the gateway goes by a registry root, the passkey counts, and is offered, once the root has signed it:\nwith --root-key, or by keys certify where the root's key is."
    )]
    Pin(Pin),
    /// Revoke a signer's key: it counts no more
    #[command(after_help = "Example:\n  countersign keys revoke finance-1 ed25519-AbC… --by 'ops: J. Doe'")]
    Revoke(Revoke),
}

/// Options of `keys init`.
#[derive(Debug, Args)]
pub(super) struct Init {
    /// The folder
    dir: PathBuf,
}

/// Options of `keys new`.
#[derive(Debug, Args)]
pub(super) struct New {
    /// The private key file to write
    file: PathBuf,
}

/// Options of `keys issuer`.
#[derive(Debug, Args)]
pub(super) struct Issuer {
    /// The private key file; made when missing
    file: PathBuf,
}

/// Options of `keys checkpoint`.
#[derive(Debug, Args)]
pub(super) struct CheckpointKey {
    /// The private key file to write
    file: PathBuf,
    /// What the checkpoints are named after: the deployment's own name; by default countersign
    #[arg(long)]
    origin: Option<String>,
}

/// Options of `keys enrol`.
#[derive(Debug, Args)]
pub(super) struct Enrol {
    /// Whose key it is, as the policy names them
    signer: String,
    /// The public key (PEM)
    public_key: PathBuf,
    /// Who vouches for it
    #[arg(long)]
    by: String,
    /// The tenant
    #[arg(long, default_value = "default")]
    tenant: String,
    /// The key's name; by default one made from the key itself
    #[arg(long)]
    key_id: Option<String>,
    #[command(flatten)]
    root: RootKey,
    #[command(flatten)]
    file: ConfigFile,
}

/// Options of `keys revoke`.
#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Whose key it is
    signer: String,
    /// The key's name
    key_id: String,
    /// Who revokes it
    #[arg(long)]
    by: String,
    /// The tenant
    #[arg(long, default_value = "default")]
    tenant: String,
    #[command(flatten)]
    root: RootKey,
    #[command(flatten)]
    file: ConfigFile,
}

impl Keys {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        match self {
            Self::Init(init) => init.run(),
            Self::New(new) => new.run(),
            Self::Issuer(issuer) => issuer.run(),
            Self::Checkpoint(checkpoint) => checkpoint.run(),
            Self::Root(root) => root.run(),
            Self::Certify(certify) => certify.run().await,
            Self::Enrol(enrol) => enrol.run().await,
            Self::Invite(invite) => invite.run().await,
            Self::Uninvite(uninvite) => uninvite.run().await,
            Self::Pin(pin) => pin.run().await,
            Self::Revoke(revoke) => revoke.run().await,
        }
    }
}

/// Whether a secret's text can be used as such.
type Judge = fn(&SecretString) -> bool;

impl Init {
    fn run(self) -> Result<(), CommandFault> {
        std::fs::create_dir_all(&self.dir).map_err(at(&self.dir))?;
        let key: Judge = |text| api_key("", text).is_ok();
        let whsec: Judge = |text| whsecs("", text).is_ok();
        let files = [
            ("signer-api-key", b64url(seed()), key),
            ("rail-api-key", b64url(seed()), key),
            ("callback-secret", whsec_of(&seed()), whsec),
        ]
        .map(|(name, fresh, judge)| (self.dir.join(name), fresh, judge));
        for (path, _, judge) in files.iter().filter(|(path, ..)| path.exists()) {
            let text = read(path)?;
            if !judge(&text.trim_end_matches(['\r', '\n']).into()) {
                return Err(broken(path, &text, "secret"));
            }
        }
        let mut lines = Vec::new();
        for (path, fresh, _) in &files {
            if path.exists() {
                lines.push(format!("kept   {}", path.display()));
            } else {
                write_private(path, fresh).map_err(at(path))?;
                lines.push(format!("wrote  {}", path.display()));
            }
        }
        // Said when all is done, as nobody may be reading.
        lines.iter().for_each(say);
        Ok(())
    }
}

impl New {
    fn run(self) -> Result<(), CommandFault> {
        let pair = Pair {
            private: &self.file,
            public: self.file.with_extension("pub.pem"),
            public_of: |pem| SigningKey::from_pem(pem).and_then(|key| key.public().to_pem()).ok(),
        };
        let written = pair.write(|| SigningKey::from_seed(&seed()).to_pem().map_err(failed), |_| Ok(()))?;
        let key_id = key_id_of(&PublicKey::from_pem(&written.public).map_err(failed)?);
        say(format_args!(
            "{}  {} (keep it to yourself)\nwrote  {} (give it to an operator)\nkey id {key_id}",
            written.private,
            self.file.display(),
            pair.public.display(),
        ));
        Ok(())
    }
}

impl CheckpointKey {
    fn run(self) -> Result<(), CommandFault> {
        let pair = Pair {
            private: &self.file,
            public: PathBuf::from(format!("{}.pub", self.file.display())),
            public_of: |text| Some(format!("{}\n", NoteSigner::parse(text.trim()).ok()?.verifier().to_text())),
        };
        let written = pair.write(
            || {
                let origin = self.origin.as_deref().unwrap_or("countersign");
                let signer = NoteSigner::from_seed(origin, &seed()).map_err(|_| {
                    CommandFault::Unusable("--origin: must be 1 to 64 of A-Z a-z 0-9 and .-:".to_owned())
                })?;
                Ok(format!("{}\n", signer.to_text()))
            },
            |text| {
                let signer = NoteSigner::parse(text.trim()).map_err(failed)?;
                // The name is part of the key's id: the half that is there can't take another.
                match self.origin.as_deref().filter(|origin| *origin != signer.origin()) {
                    None => Ok(()),
                    Some(origin) => Err(CommandFault::Unusable(format!(
                        "--origin {origin}: {} is the key of {:?}; leave --origin out to make its public half, or name another file",
                        self.file.display(),
                        signer.origin()
                    ))),
                }
            },
        )?;
        say(format_args!(
            "{}  {} (for audit.checkpoint_key_file)\nwrote  {} (for whoever audits)\n{}",
            written.private,
            self.file.display(),
            pair.public.display(),
            written.public.trim_end()
        ));
        Ok(())
    }
}

impl Issuer {
    fn run(self) -> Result<(), CommandFault> {
        if !self.file.exists() {
            let pem = SigningKey::from_seed(&seed()).to_pem().map_err(failed)?;
            write_private(&self.file, &pem).map_err(at(&self.file))?;
        }
        let pem = read(&self.file)?;
        let mint = Mint::from_pem(&pem).map_err(|_| broken(&self.file, &pem, "private key"))?;
        let jwks = self.file.with_extension("jwks.json");
        write_public(&jwks, &mint.jwks()).map_err(at(&jwks))?;
        say(format_args!("{} verifies the tokens of {}", jwks.display(), self.file.display()));
        Ok(())
    }
}

impl Enrol {
    async fn run(self) -> Result<(), CommandFault> {
        let unusable =
            |err: &dyn std::fmt::Display| CommandFault::Unusable(format!("{}: {err}", self.public_key.display()));
        let pem = read(&self.public_key)?;
        if pem.contains("PRIVATE KEY") {
            return Err(unusable(&"is a private key, which its owner keeps; enrol its public half (.pub.pem)"));
        }
        let key = PublicKey::from_pem(&pem).map_err(|err| unusable(&err))?;
        let key_id = self.key_id.clone().unwrap_or_else(|| key_id_of(&key));
        let registry = registry(&self.tenant, &self.signer, &self.by)?;
        let name = key_id_in(&key_id)?;
        let config = Config::load(self.file.config.as_deref())?;
        let root = self.root.read(&config)?;
        let store = open_used(&config, ambient().clock).await?;
        let key = SignerKey::Jws(key);
        let new = registry.clone().pin(&store, &name, &key).await.map_err(failed)?;
        root.certify(&store, &registry, &name, &key.public_key()).await?;
        say(format_args!("{} {} {key_id}", self.signer, if new { "enrolled" } else { "already has" }));
        root.counts(&store, &registry, &name).await?;
        // The policy may be another machine's: then nothing is said.
        if read_policy(&config).is_ok_and(|policy| !policy.signers().contains(self.signer.as_str())) {
            warn(format_args!("countersign: no group of the policy names {}: this key approves nothing", self.signer));
        }
        store.close().await;
        Ok(())
    }
}

impl Revoke {
    async fn run(self) -> Result<(), CommandFault> {
        let registry = registry(&self.tenant, &self.signer, &self.by)?;
        let key_id = key_id_in(&self.key_id)?;
        let config = Config::load(self.file.config.as_deref())?;
        let root = self.root.read(&config)?;
        let store = open_used(&config, ambient().clock).await?;
        let revoked = registry.clone().revoke(&store, &key_id).await.map_err(failed)?;
        say(format_args!("{} lost {}", self.signer, self.key_id));
        let certified = match root.certify(&store, &registry, &key_id, &revoked.public_key).await {
            Ok(()) => root.stands_behind(&store, &registry, &key_id).await,
            Err(fault) => Err(fault),
        };
        store.close().await;
        certified?;
        if !revoked.credential_id.is_empty() {
            tell(&config, &registry, &revoked, "revoked").await;
        }
        Ok(())
    }
}

pub(super) fn key_id_in(key_id: &str) -> Result<KeyId, CommandFault> {
    key_id.parse().map_err(|err: crate::domain::Refusal| CommandFault::Unusable(err.message))
}
