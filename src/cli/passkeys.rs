//! `countersign keys invite`, `keys uninvite` and `keys pin`: how a person's passkey comes to count.

use std::time::Duration;

use clap::Args;
use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::keys::key_id_in;
use super::output::{say, warn};
use super::root::RootKey;
use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed};
use crate::ambient::Entropy;
use crate::app::open_used;
use crate::config::{Config, Passkeys};
use crate::domain::{Reason, Refusal};
use crate::journal::{InvitationAnswer, Registry};
use crate::proof::{Registration, RelyingParty, b64url};
use crate::store::PinnedKey;

/// Options of `keys invite`.
#[derive(Debug, Args)]
pub(super) struct Invite {
    /// Who is invited, as the policy names them
    signer: String,
    /// Who invites
    #[arg(long)]
    by: String,
    /// For how many hours the invitation holds
    #[arg(long, default_value_t = 72, value_parser = clap::value_parser!(u64).range(1..=720))]
    hours: u64,
    /// The tenant
    #[arg(long, default_value = "default")]
    tenant: String,
    #[command(flatten)]
    file: ConfigFile,
}

/// Options of `keys uninvite`.
#[derive(Debug, Args)]
pub(super) struct Uninvite {
    /// Who was invited
    signer: String,
    /// The invitation, as keys invite printed it
    invitation: String,
    /// Who withdraws it
    #[arg(long)]
    by: String,
    /// The tenant
    #[arg(long, default_value = "default")]
    tenant: String,
    #[command(flatten)]
    file: ConfigFile,
}

/// Options of `keys pin`.
#[derive(Debug, Args)]
pub(super) struct Pin {
    /// Who was invited
    signer: String,
    /// The invitation, as keys invite printed it
    invitation: String,
    /// The code that its owner reads from the page, such as 7KQ2-M9XD-4H0T
    code: String,
    /// Who vouches for it: you compared the code with the person
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

impl Invite {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let registry = registry(&self.tenant, &self.signer, &self.by)?;
        let config = Config::load(self.file.config.as_deref())?;
        party(&config.passkeys)?;
        let desk = SignerDesk::of(&config)?;
        let ambient = ambient();
        let store = open_used(&config, ambient.clock).await?;
        let lasts = Duration::from_hours(self.hours);
        let document = registry.invite(&store, &config.audience(), lasts, ambient.entropy.as_ref()).await;
        store.close().await;
        let document = document.map_err(failed)?;
        let text = document.canonical().map_err(failed)?;
        let invited: Invited =
            desk.post("api/v1/invitations", &json!({"document": text}), ambient.entropy.as_ref()).await?;
        say(format_args!(
            "{}\n\nSend this link to {} alone; it holds until {}:\n  {}\n\nThe page shows a code when the passkey was made. Let its owner read it to you, on the telephone say, then:\n  countersign keys pin {} {} CODE --by '{}'{}{}",
            document.invitation_id,
            self.signer,
            document.expires_at,
            link(&invited.url)?,
            self.signer,
            document.invitation_id,
            self.by,
            if config.registry.root_public_key_file.is_empty() { "" } else { " --root-key ROOT.pem" },
            self.file.config.as_ref().map(|file| format!(" --config {}", file.display())).unwrap_or_default(),
        ));
        Ok(())
    }
}

impl Uninvite {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let registry = registry(&self.tenant, &self.signer, &self.by)?;
        let config = Config::load(self.file.config.as_deref())?;
        let store = open_used(&config, ambient().clock).await?;
        let withdrawn = registry.withdraw(&store, &self.invitation).await;
        store.close().await;
        withdrawn.map_err(failed)?;
        say(format_args!("{} {} is withdrawn: no passkey is pinned by it any more", self.signer, self.invitation));
        Ok(())
    }
}

impl Pin {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let registry = registry(&self.tenant, &self.signer, &self.by)?;
        let config = Config::load(self.file.config.as_deref())?;
        let root = self.root.read(&config)?;
        let party = party(&config.passkeys)?;
        let desk = SignerDesk::of(&config)?;
        let answered: Answered = desk.get(&format!("api/v1/invitations/{}", url_part(&self.invitation)?)).await?;
        let Some(registration) = answered.registration else {
            let why = if answered.state == "expired" { "it has expired" } else { "no passkey was made for it yet" };
            return Err(failed(format_args!("{}: {why}", self.invitation)));
        };
        let store = open_used(&config, ambient().clock).await?;
        let answer = InvitationAnswer {
            invitation_id: &self.invitation,
            registration: &registration,
            label: &answered.label,
            code: &self.code,
        };
        let pinned = registry.pin_passkey(&store, &party, &answer).await.map_err(failed)?;
        say(format_args!("{} enrolled {} ({})", self.signer, pinned.key_id, pinned.label));
        let key_id = key_id_in(&pinned.key_id)?;
        root.certify(&store, &registry, &key_id, &pinned.public_key).await?;
        let counts = root.counts(&store, &registry, &key_id).await?;
        store.close().await;
        if counts {
            tell(&config, &registry, &pinned, "active").await;
        }
        Ok(())
    }
}

/// The registry of a tenant's signer, on the word of `by`.
pub(super) fn registry(tenant: &str, signer: &str, by: &str) -> Result<Registry, CommandFault> {
    let unusable = |err: Refusal| CommandFault::Unusable(err.message);
    if by.trim().is_empty() {
        return Err(CommandFault::Unusable("--by: say who vouches for it".to_owned()));
    }
    Ok(Registry {
        tenant: tenant.parse().map_err(unusable)?,
        signer: signer.parse().map_err(unusable)?,
        by: by.to_owned(),
        node: "cli".to_owned(),
    })
}

fn party(passkeys: &Passkeys) -> Result<RelyingParty, CommandFault> {
    passkeys.check()?;
    if !passkeys.is_on() {
        return Err(CommandFault::Unusable(
            "passkeys.rp_id: is required: the host name of the sign pages, such as sign.example".to_owned(),
        ));
    }
    Ok(RelyingParty { id: passkeys.rp_id.clone(), origins: passkeys.origins.iter().cloned().collect() })
}

fn url_part(id: &str) -> Result<&str, CommandFault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !id.is_empty() && id.chars().all(plain) {
        Ok(id)
    } else {
        Err(CommandFault::Unusable(format!("{id:?}: is not an invitation, such as inv_…")))
    }
}

#[derive(Debug, Deserialize)]
struct Invited {
    url: String,
}

#[derive(Debug, Deserialize)]
struct Answered {
    state: String,
    label: String,
    registration: Option<Registration>,
}

/// An address as the signer service gave it, which goes to a terminal.
fn link(url: &str) -> Result<url::Url, CommandFault> {
    let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    parsed.ok_or_else(|| failed("the signer service gave an address of the invitation that is no link"))
}

/// Tells the service whether a passkey counts: a courtesy to people, who are then not offered one that does not.
pub(super) async fn tell(config: &Config, registry: &Registry, key: &PinnedKey, state: &str) {
    let body = json!({"tenant": registry.tenant.as_str(), "credential_id": key.credential_id, "alg": key.alg,
        "public_key": key.public_key, "label": key.label, "state": state});
    let path = format!("api/v1/signers/{}/passkeys/{}", registry.signer, key.key_id);
    let told = async { SignerDesk::of(config)?.send::<Value>(Method::PUT, &path, Some(&body), None).await }.await;
    if let Err(fault) = told {
        warn(format_args!(
            "countersign: the signer service was not told ({fault}); the gateway goes by its own registry, but pages still show the passkey as it was; repeat this command to tell it"
        ));
    }
}

/// The signer service, as an operator's command asks it: nothing it says is believed.
struct SignerDesk {
    client: reqwest::Client,
    base: String,
    api_key: secrecy::SecretString,
}

const PATIENCE: Duration = Duration::from_secs(10);

impl SignerDesk {
    fn of(config: &Config) -> Result<Self, CommandFault> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()
            .map_err(failed)?;
        let base = config.signer.url.trim_end_matches('/').to_owned();
        if base.is_empty() {
            return Err(CommandFault::Unusable("signer.url: is required".to_owned()));
        }
        Ok(Self { client, base, api_key: config.signer.api_key.clone() })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFault> {
        self.send(Method::GET, path, None, None).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        entropy: &dyn Entropy,
    ) -> Result<T, CommandFault> {
        let key = format!("cli-{}", b64url(entropy.u128().to_be_bytes()));
        self.send(Method::POST, path, Some(body), Some(&key)).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<T, CommandFault> {
        let at = |why: &dyn std::fmt::Display| failed(format_args!("signer service at {}: {why}", self.base));
        let mut request =
            self.client.request(method, format!("{}/{path}", self.base)).bearer_auth(self.api_key.expose_secret());
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request
            .send()
            .await
            .map_err(|err| at(&if err.is_connect() { "can't be reached" } else { "did not answer" }))?;
        let status = answer.status();
        let body: Value = answer.json().await.map_err(|_| at(&format_args!("answered {status}, not in JSON")))?;
        if !status.is_success() {
            let said = body.get("error_message").and_then(Value::as_str).unwrap_or("no reason given");
            // It goes to a terminal.
            let said = Reason::parse("error_message", said)
                .map_or("a reason that is no plain text".to_owned(), |said| said.to_string());
            return Err(at(&format_args!("answered {status}: {said}")));
        }
        serde_json::from_value(body).map_err(|_| at(&"answered something else than its contract says"))
    }
}
