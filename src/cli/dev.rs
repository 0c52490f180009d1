//! `countersign dev`: everything in one process, and what a person needs next.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::home::{Card, Home, Peers, dev_key_id};
use super::output::{heard, say};
use super::{CommandFault, ambient, failed};
use crate::app::{Ambient, Gateway, open_store, parse_policy};
use crate::config::{Config, ms};
use crate::http::serve::{Serving, bind, serve};
use crate::journal::Registry;
use crate::lifecycle::{stop_on_signals, stop_with_parent};
use crate::proof::SignerKey;
use crate::sandbox::Sandbox;
use crate::signer::{DirectoryEntry, SignerService, SignerSettings};
use crate::telemetry;

/// Options of `dev`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign dev\n  countersign dev --port 9000 --data-dir /tmp/desk\n  COUNTERSIGN__NOTIFY__BASE_MS=500 countersign dev\n\nGateway, signer service and rail take PORT, PORT+1 and PORT+2. Settings of the default configuration\ncan be overridden by environment, but for addresses, keys, database and policy, which dev sets itself."
)]
pub(super) struct Dev {
    /// Where keys and databases are kept
    #[arg(long, default_value = ".countersign")]
    data_dir: PathBuf,
    /// First of three ports; 0 takes free ones
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Print one JSON line instead of text
    #[arg(long)]
    json: bool,
    /// Stop when standard input ends: for a parent that holds it, and may be killed
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    /// Take the folder away at the end: it is this instance's alone
    #[arg(long, hide = true)]
    remove_data_dir: bool,
}

/// The policy that `dev` runs by.
const POLICY: &str = include_str!("../../config/policy.toml");

impl Dev {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let done = Box::pin(self.serve()).await;
        if self.remove_data_dir && std::fs::remove_dir_all(&self.data_dir).is_err() {
            tracing::warn!("the folder could not be removed");
        }
        done
    }

    async fn serve(&self) -> Result<(), CommandFault> {
        let mut config = Config::load(None)?;
        // A person reads this; the environment may still say otherwise.
        let unset = |name: &str| std::env::var_os(name).is_none();
        if unset("COUNTERSIGN__TELEMETRY__LOG_FORM") {
            "text".clone_into(&mut config.telemetry.log_form);
        }
        if unset("COUNTERSIGN__TELEMETRY__ENVIRONMENT") {
            "dev".clone_into(&mut config.telemetry.environment);
        }
        // Put away overnight, it is still the same one.
        if unset("COUNTERSIGN__RESTORE__ASLEEP_S") {
            config.restore.asleep_s = 0;
        }
        let guard = telemetry::init(&config.telemetry)?;
        let stop = stop_on_signals().map_err(failed)?;
        if self.until_stdin_ends {
            stop_with_parent(stop.clone());
        }
        let ambient = ambient();
        let home = Home::open(&self.data_dir, ambient.entropy.as_ref())?;
        // Held until the process ends, however it ends.
        let _alone = home.take_alone()?;
        let listeners = Listeners::bind(self.port).await?;
        let peers = listeners.peers()?;
        home.configure(&mut config, &peers);
        config.check()?;

        let rail = Sandbox::open(
            &home.path("rail.db"),
            home.rail_api_key(),
            Arc::clone(&ambient.clock),
            Arc::clone(&ambient.entropy),
        )
        .await
        .map_err(|err| failed(format_args!("sandbox rail: {err}")))?;
        let signer = SignerService::open(
            signer_settings(&home, &peers)?,
            Arc::clone(&ambient.clock),
            Arc::clone(&ambient.entropy),
        )
        .await
        .map_err(|err| failed(format_args!("signer service: {err}")))?;
        enrol(&config, &home, &ambient).await?;
        let gateway = Gateway::build(&config, parse_policy(POLICY)?, &ambient, true).await?;

        let peers_stop = CancellationToken::new();
        let serving = Serving::from(&config.server);
        let Listeners { gateway: gateway_socket, signer: signer_socket, rail: rail_socket } = listeners;
        let parts = [
            tokio::spawn(serve(signer_socket, signer.router(), serving, peers_stop.clone())),
            tokio::spawn(serve(rail_socket, rail.router(), serving, peers_stop.clone())),
            tokio::spawn({
                let stop = peers_stop.clone();
                async move {
                    tokio::join!(signer.deliver_callbacks(stop.clone()), signer.carry_messages(stop));
                }
            }),
        ];
        let card = home.card(&config, peers, ambient.clock.as_ref());
        home.publish(&card)?;
        home.publish_settings(&config)?;
        if self.until_stdin_ends {
            if heard(format_args!("{}\n", serde_json::to_string(&card).map_err(failed)?)).is_err() {
                stop.cancel();
            }
        } else {
            self.print(&card)?;
        }
        gateway.run(&config, gateway_socket, stop).await;
        // Last, so that calls in flight could still reach them.
        peers_stop.cancel();
        for part in parts {
            if tokio::time::timeout(ms(config.server.drain_ms), part).await.is_err() {
                tracing::warn!("a part of the dev instance did not end in time");
            }
        }
        rail.close().await;
        guard.shutdown();
        Ok(())
    }

    fn print(&self, card: &Card) -> Result<(), CommandFault> {
        if self.json {
            say(serde_json::to_string(card).map_err(failed)?);
        } else {
            say(welcome(card, &self.data_dir.display().to_string()));
        }
        Ok(())
    }
}

struct Listeners {
    gateway: TcpListener,
    signer: TcpListener,
    rail: TcpListener,
}

impl Listeners {
    async fn bind(port: u16) -> Result<Self, CommandFault> {
        if port > u16::MAX - 2 {
            return Err(CommandFault::Unusable("--port: must leave room for two more ports; at most 65533".to_owned()));
        }
        let at = |offset: u16| {
            let port = if port == 0 { 0 } else { port.saturating_add(offset) };
            format!("127.0.0.1:{port}")
        };
        Ok(Self {
            gateway: bind("--port", &at(0)).await?,
            signer: bind("--port (+1, signer service)", &at(1)).await?,
            rail: bind("--port (+2, sandbox rail)", &at(2)).await?,
        })
    }

    fn peers(&self) -> Result<Peers, CommandFault> {
        let url =
            |listener: &TcpListener| listener.local_addr().map(|address| format!("http://{address}")).map_err(failed);
        let port = self.signer.local_addr().map_err(failed)?.port();
        let pages = format!("http://localhost:{port}");
        Ok(Peers { gateway: url(&self.gateway)?, signer: url(&self.signer)?, pages, rail: url(&self.rail)? })
    }
}

fn signer_settings(home: &Home, peers: &Peers) -> Result<SignerSettings, CommandFault> {
    let entry = |(signer, key): (&str, &crate::proof::SigningKey)| {
        let key_pem = key.public().to_pem().map_err(failed)?;
        Ok(DirectoryEntry {
            signer_id: signer.to_owned(),
            name: signer.to_owned(),
            key_pem: Some(key_pem),
            online: true,
            ..DirectoryEntry::default()
        })
    };
    Ok(SignerSettings {
        database: home.path("signer.db"),
        api_key: home.signer_api_key(),
        callback_secret: home.callback_secret(),
        public_url: peers.pages.clone(),
        directory: home.signers().map(entry).collect::<Result<_, CommandFault>>()?,
        reaching: crate::signer::Reaching::default(),
        link_ttl: std::time::Duration::from_mins(15),
        presence_switch: true,
    })
}

/// Pins the dev signers' keys in the gateway's own table, with the root's word, as an operator would.
async fn enrol(config: &Config, home: &Home, ambient: &Ambient) -> Result<(), CommandFault> {
    let store = open_store(config, Arc::clone(&ambient.clock)).await?;
    for (signer, key) in home.signers() {
        let registry = Registry {
            tenant: config.auth.default_tenant.parse().map_err(failed)?,
            signer: signer.parse().map_err(failed)?,
            by: "dev-setup".to_owned(),
            node: "dev".to_owned(),
        };
        let key_id = dev_key_id(key).parse().map_err(failed)?;
        let pinned = SignerKey::Jws(key.public());
        registry.clone().pin(&store, &key_id, &pinned).await.map_err(failed)?;
        registry.certify(&store, &key_id, &pinned.public_key(), home.root()).await.map_err(failed)?;
    }
    store.close().await;
    Ok(())
}

fn welcome(card: &Card, folder: &str) -> String {
    let Card { mcp_url, tokens, peers, .. } = card;
    let Peers { gateway, signer, pages, rail } = peers;
    let client = serde_json::json!({"mcpServers": {"countersign": {
        "type": "streamable-http", "url": mcp_url, "headers": {"Authorization": format!("Bearer {}", tokens.agent)}}}});
    let client = serde_json::to_string_pretty(&client).unwrap_or_default();
    format!(
        r#"Countersign dev is running. Ctrl-C stops it; keys and data stay in {folder}.

  MCP endpoint     {mcp_url}
  Signer service   {signer}   (sign pages: {pages}/sign/…, get_sign_link gives the address; inbox: {pages}/inbox)
  Sandbox rail     {rail}   (its ledger: {rail}/sandbox/ledger, with the key in {folder}/keys/rail-api-key)

Tokens, good for 24 hours:

  agent      {agent}

  signer     {signer_token}

  operator   {operator}

  auditor    {auditor}

Client configuration:

{client}

Propose a payment:

  curl -s {mcp_url} -H 'Authorization: Bearer {agent}' \
    -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
    -d '{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"create_payment","arguments":{{"order_id":"order-1","amount":"199.00","signer_id":"finance-1","notify":true}}}}}}'

Then countersign it, as the person finance-1, from another terminal in this folder:

  cargo run -- sign order-1        (installed: countersign sign order-1)

Or make a passkey first, and countersign on the sign page:

  cargo run -- keys invite finance-1 --by me --config {folder}/countersign.toml

What stands behind a payment, for anyone to check:

  curl -fsS {gateway}/payments/PAYMENT_ID/evidence -H 'Authorization: Bearer AUDITOR' > evidence.json
  cargo run -- verify evidence evidence.json --root {folder}/keys/root.pub.pem --checkpoint-key {folder}/keys/checkpoint-key.pub
"#,
        agent = tokens.agent,
        signer_token = tokens.signer,
        operator = tokens.operator,
        auditor = tokens.auditor,
    )
}
