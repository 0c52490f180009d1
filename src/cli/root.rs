//! `countersign keys root` and `keys certify`: the registry's root, and its word on a key.

use std::path::PathBuf;

use clap::Args;

use super::keys::key_id_in;
use super::output::{say, warn};
use super::pair::{Pair, seed};
use super::passkeys::{registry, tell};
use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed, read};
use crate::app::{open_used, registry_root};
use crate::config::Config;
use crate::domain::KeyId;
use crate::journal::{Registry, vouches};
use crate::proof::{PublicKey, SignerKey, SigningKey, key_id_of};
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

/// The root's private key, which may be at hand, and the root that the gateway goes by, which there may be.
pub(super) struct Signing {
    key: Option<SigningKey>,
    root: Option<PublicKey>,
}

impl RootKey {
    /// *Errors*: a file that holds no private key, or another than the root's that the configuration names.
    pub(super) fn read(&self, config: &Config) -> Result<Signing, CommandFault> {
        let root = registry_root(config)?;
        let Some(file) = &self.root_key else { return Ok(Signing { key: None, root }) };
        let key = SigningKey::from_pem(&read(file)?);
        let key = key.map_err(|_| {
            CommandFault::Unusable(format!("--root-key: {}: is no private key; keys root makes it", file.display()))
        })?;
        if root.as_ref().is_some_and(|root| *root != key.public()) {
            return Err(CommandFault::Unusable(format!(
                "--root-key: {}: is another key than the root of registry.root_public_key_file, so what it signs counts nothing",
                file.display()
            )));
        }
        Ok(Signing { key: Some(key), root })
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
        let Some(root) = &self.key else { return Ok(()) };
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

    /// Says what is missing where the root has not signed that a key was revoked: the key counts no more in any case.
    pub(super) async fn stands_behind(
        &self,
        store: &Store,
        registry: &Registry,
        key_id: &KeyId,
    ) -> Result<(), CommandFault> {
        let Some(root) = &self.root else { return Ok(()) };
        let Registry { tenant, signer, by, .. } = registry;
        if !vouches(root, tenant.as_str(), &registry.pinned(store, key_id).await.map_err(failed)?) {
            warn(format_args!(
                "countersign: {key_id} counts no more, but the registry's root has not signed that yet, and until it has, evidence of payments that this key approved does not hold. Repeat this command with --root-key, or where the root's key is:\n  countersign keys certify {signer} {key_id} --tenant {tenant} --by '{by}' --root-key ROOT.pem"
            ));
        }
        Ok(())
    }

    /// Whether a pinned key counts; where it does not, says what is missing.
    pub(super) async fn counts(
        &self,
        store: &Store,
        registry: &Registry,
        key_id: &KeyId,
    ) -> Result<bool, CommandFault> {
        let Some(root) = &self.root else { return Ok(true) };
        let Registry { tenant, signer, by, .. } = registry;
        let counts = vouches(root, tenant.as_str(), &registry.pinned(store, key_id).await.map_err(failed)?);
        if !counts {
            warn(format_args!(
                "countersign: {key_id} counts for nothing yet: the gateway goes by a registry root, which has not signed it. Repeat this command with --root-key, or where the root's key is:\n  countersign keys certify {signer} {key_id} --tenant {tenant} --by '{by}' --root-key ROOT.pem"
            ));
        }
        Ok(counts)
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
        let config = Config::load(self.file.config.as_deref())?;
        let root = self.root.read(&config)?;
        if root.key.is_none() {
            return Err(CommandFault::Unusable("--root-key: name the root's private key".to_owned()));
        }
        let store = open_used(&config, ambient().clock).await?;
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
        certified?;
        if !pinned.credential_id.is_empty() {
            let state = if pinned.revoked_at.is_none() { "active" } else { "revoked" };
            tell(&config, &registry, &pinned, state).await;
        }
        Ok(())
    }
}
