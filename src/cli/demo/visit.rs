//! The part of the story that any running trial can play: nobody is made unreachable, nothing is killed.
//!
//! Whoever runs it may kill what they like meanwhile; `--hold-reply` says when that is worth most.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::acts::{Paid, duplicates, not_the_agent, nothing_twice, order, told};
use super::cast::{Actor, Cast, Entry};
use super::ledger::Ledger;
use super::story::Story;
use crate::cli::home::ISSUER;
use crate::cli::{CommandFault, ambient, failed, secret, web_address};
use crate::domain::Role;
use crate::http::auth::{Grant, Mint};
use crate::proof::SigningKey;

/// Which running trial to play on, instead of a dev instance of the demo's own.
#[derive(Debug, Args)]
pub(super) struct Visit {
    /// Play on a running trial: its MCP endpoint
    #[arg(long, requires_all = ["keys", "rail"])]
    pub(super) url: Option<String>,
    /// The trial's folder of keys: issuer.pem, finance-1.pem, rail-api-key
    #[arg(long, value_name = "DIR", requires = "url")]
    keys: Option<PathBuf>,
    /// The trial's sandbox rail, whose ledger judges
    #[arg(long, value_name = "URL", requires = "url")]
    rail: Option<String>,
    /// The audience that tokens must name; by default the endpoint
    #[arg(long, requires = "url")]
    audience: Option<String>,
    /// Let the rail carry out the payment and answer so many seconds later: the time to kill something
    #[arg(long, value_name = "SECONDS", requires = "url")]
    hold_reply: Option<u64>,
}

/// A process may be killed while it answers: every call here may be repeated as it is.
const REPEATS: u32 = 15;
const PATIENCE: Duration = Duration::from_secs(90);

impl Visit {
    /// Judges the addresses, before anything is played.
    pub(super) fn check(&self) -> Result<(), CommandFault> {
        for (option, url) in [("--url", &self.url), ("--rail", &self.rail)] {
            url.as_ref().map(|url| web_address(option, url)).transpose()?;
        }
        Ok(())
    }

    /// Plays on the trial at `url`.
    pub(super) async fn play(&self, url: &str, story: &mut Story) -> Result<(), CommandFault> {
        let cast = self.cast(url).await?;
        let order_id = format!("demo-{:016x}", ambient().entropy.u64());
        story.act("1. The agent proposes a payment and has the signer notified");
        let answer = cast.call(Actor::Agent, "create_payment", order(&order_id)).await?;
        story.check("create_payment answers at once with a durable payment", !answer.is_error, told(&answer));
        let payment = answer.text("payment_id").to_owned();
        let began = Instant::now();
        let answer = cast.call(Actor::Agent, "notify_signer", json!({"order_id": order_id})).await?;
        // What was killed may have taken the way to the signer service with it: then the worker brings it there.
        let answer = if !answer.is_error && answer.text("status") == "CREATED" {
            cast.until(&order_id, "AWAITING_SIGNER", PATIENCE).await?
        } else {
            answer
        };
        story.check(
            "the signer is notified",
            answer.text("status") == "AWAITING_SIGNER",
            format!("after {:.1} s: {}", began.elapsed().as_secs_f64(), told(&answer)),
        );

        story.act("2. The signer countersigns");
        if let Some(seconds) = self.hold_reply {
            cast.ledger.delay_next_reply(Duration::from_secs(seconds)).await.map_err(failed)?;
        }
        let jws = cast.signature(&order_id).await?;
        let arguments = json!({"order_id": order_id, "signature": jws});
        let answer = cast.call(Actor::Signer, "confirm_signing", arguments).await?;
        // Another process may have carried it out before this answer was made.
        let signed = ["SIGNED", "EXECUTED"].contains(&answer.text("status"));
        story.check("the signature counts", !answer.is_error && signed, told(&answer));
        if let Some(seconds) = self.hold_reply {
            cast.carried_out(&payment, PATIENCE).await?;
            story.tell(&format!("the rail has carried it out and keeps its answer back for {seconds} s"));
        }
        let began = Instant::now();
        let answer = cast.until(&order_id, "EXECUTED", PATIENCE).await?;
        story.check(
            "the payment is executed",
            answer.text("status") == "EXECUTED",
            format!("after {:.1} s: {}", began.elapsed().as_secs_f64(), told(&answer)),
        );
        let account = cast.ledger.account(&payment).await.map_err(failed)?;
        story.check(
            "the rail's own ledger shows exactly one execution, and balances",
            account.executions == 1 && account.balanced,
            format!("{} execution, {} request", account.executions, account.requests),
        );

        story.act("3. The same confirmation again");
        nothing_twice(&cast, story, &Paid { order: &order_id, payment: &payment, jws: &jws }).await?;
        story.act("4. The agent tries to sign");
        not_the_agent(&cast, story, &order_id, &jws).await?;
        story.act("5. The agent proposes the same payment again");
        duplicates(&cast, story, &order_id, &payment).await?;
        story.tell(&format!("{} calls had to be repeated", cast.repeated()));
        story.end();
        Ok(())
    }

    async fn cast(&self, url: &str) -> Result<Cast, CommandFault> {
        let unset = || CommandFault::Unusable("--url: --keys and --rail must be given with it".to_owned());
        let keys = self.keys.as_deref().ok_or_else(unset)?;
        let rail = self.rail.as_deref().ok_or_else(unset)?;
        let mint = Mint::from_pem(&read(keys, "issuer.pem")?).map_err(failed)?;
        let token = |role: Role, subject: &str| {
            mint.token(&Grant {
                issuer: ISSUER,
                audience: self.audience.as_deref().unwrap_or(url),
                subject,
                tenant: "default",
                client: subject,
                roles: &[role],
                scope: "",
                issued_at: ambient().clock.now(),
                valid_for: Duration::from_mins(15),
            })
        };
        Cast::enter(Entry {
            url,
            agent: &token(Role::Agent, "agent-1"),
            signer: &token(Role::Signer, "finance-1"),
            operator: &token(Role::Operator, "operator-1"),
            key: SigningKey::from_pem(&read(keys, "finance-1.pem")?).map_err(failed)?,
            ledger: Ledger::new(rail, &read(keys, "rail-api-key")?).map_err(failed)?,
            repeats: REPEATS,
        })
        .await
    }
}

fn read(folder: &Path, name: &str) -> Result<String, CommandFault> {
    Ok(secret(&folder.join(name))?.expose_secret().to_owned())
}
