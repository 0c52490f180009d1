//! `countersign keys root` and `keys certify`: the registry's root, and its word on a key.

use std::path::PathBuf;

use clap::Args;

use super::keys::key_id_in;
use super::output::say;
use super::pair::{Pair, seed};
use super::passkeys::registry;
use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed, read};
use crate::app::open_used;
use crate::config::Config;
use crate::domain::KeyId;
use crate::journal::Registry;
use crate::proof::{SignerKey, SigningKey, key_id_of};
use crate::store::Store;

/// Options of `keys root`.
#[derive(Debug, Args)]
pub(super) struct Root {
    /// The private key file to write
    file: PathBuf,
}

/// Options of `keys certify`.
#[derive(Debug, Args)]
pub(super) struct Certify {
    /// Whose key it is, as the policy names them
    signer: String,
    /// The key's name
    key_id: String,
    /// Who vouches for it
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

/// The root's private key, where it is at hand.
#[derive(Debug, Args)]
pub(super) struct RootKey {
    /// The registry root's private key (keys root), which then signs whose key it is
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_ROOT_KEY_FILE")]
    root_key: Option<PathBuf>,
}

/// A root that may be there.
pub(super) struct Signing(Option<SigningKey>);

impl RootKey {
    /// *Errors*: a file that holds no private key.
    pub(super) fn read(&self) -> Result<Signing, CommandFault> {
        let Some(file) = &self.root_key else { return Ok(Signing(None)) };
        let key = SigningKey::from_pem(&read(file)?);
        let key = key.map_err(|_| {
            CommandFault::Unusable(format!("--root-key: {}: is no private key; keys root makes it", file.display()))
        })?;
        Ok(Signing(Some(key)))
    }
}

impl Signing {
    /// Puts the root's word on a key whose public half is known to be `public_key`.
    pub(super) async fn certify(
        &self,
        store: &Store,
        registry: &Registry,
        key_id: &KeyId,
        public_key: &str,
    ) -> Result<(), CommandFault> {
        let Some(root) = &self.0 else { return Ok(()) };
        let entry = registry.certify(store, key_id, public_key, root).await.map_err(failed)?;
        say(format_args!(
            "certified {} {} as {} by the root {}",
            entry.signer_id,
            entry.key_id,
            entry.status,
            key_id_of(&root.public())
        ));
        Ok(())
    }
}

impl Root {
    pub(super) fn run(self) -> Result<(), CommandFault> {
        let pair = Pair {
            private: &self.file,
            public: self.file.with_extension("pub.pem"),
            public_of: |pem| SigningKey::from_pem(pem).and_then(|key| key.public().to_pem()).ok(),
        };
        let written = pair.write(|| SigningKey::from_seed(&seed()).to_pem().map_err(failed), |_| Ok(()))?;
        say(format_args!(
            "{}  {} (for keys … --root-key; never on a gateway)\nwrote  {} (for registry.root_public_key_file, and whoever audits)",
            written.private,
            self.file.display(),
            pair.public.display(),
        ));
        Ok(())
    }
}

impl Certify {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let registry = registry(&self.tenant, &self.signer, &self.by)?;
        let key_id = key_id_in(&self.key_id)?;
        let root = self.root.read()?;
        if root.0.is_none() {
            return Err(CommandFault::Unusable("--root-key: name the root's private key".to_owned()));
        }
        let store = open_used(&Config::load(self.file.config.as_deref())?, ambient().clock).await?;
        let pinned = registry.pinned(&store, &key_id).await.map_err(failed)?;
        let own = match pinned.key().map_err(failed)? {
            SignerKey::Jws(key) => key_id_of(&key),
            SignerKey::Passkey { key, .. } => key.key_id(),
        };
        // A name that is made from the key says which key is meant; any other, only the database does.
        if own != self.key_id {
            return Err(CommandFault::Unusable(format!(
                "{}: its name does not say which key it is; repeat keys enrol with its public key and --root-key",
                self.key_id
            )));
        }
        let certified = root.certify(&store, &registry, &key_id, &pinned.public_key).await;
        store.close().await;
        certified
    }
}
