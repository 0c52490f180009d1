//! `countersign token`: mint a token of the dev issuer.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};

use super::home::{Card, ISSUER};
use super::output::say;
use super::{A_YEAR_OF_MINUTES, CommandFault, ambient, read};
use crate::domain::Role;
use crate::http::auth::{Grant, Mint};

/// Options of `token`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign token --role agent --subject agent-7\n  countersign token --role signer --subject finance-2 --minutes 5\n\nFor a dev instance: a gateway in production takes its tokens from your identity provider."
)]
pub(super) struct Token {
    /// agent, signer, operator or auditor; may be repeated, but agent never with another
    #[arg(long, required = true)]
    role: Vec<String>,
    /// Who it speaks for ("sub")
    #[arg(long)]
    subject: String,
    /// The client (`client_id`); the subject when absent
    #[arg(long)]
    client: Option<String>,
    /// The tenant
    #[arg(long, default_value = "default")]
    tenant: String,
    /// A scope to carry
    #[arg(long)]
    scope: Option<String>,
    /// How long it is good for, in minutes
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..=A_YEAR_OF_MINUTES))]
    minutes: u64,
    /// The audience; by default the running dev instance's MCP endpoint
    #[arg(long)]
    audience: Option<String>,
    /// The issuer's name
    #[arg(long, default_value = ISSUER)]
    issuer: String,
    /// The issuer's private key; by default the dev instance's
    #[arg(long)]
    key: Option<PathBuf>,
    /// The dev instance's folder
    #[arg(long, default_value = ".countersign")]
    data_dir: PathBuf,
}

impl Token {
    pub(super) fn run(self) -> Result<(), CommandFault> {
        let roles = self
            .role
            .iter()
            .map(|name| {
                Role::from_name(name).ok_or_else(|| {
                    CommandFault::Unusable(format!("--role {name}: is not agent, signer, operator or auditor"))
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if roles.contains(&Role::Agent) && roles.len() > 1 {
            return Err(CommandFault::Unusable(
                "--role: a token of an agent can hold no other role; the gateway would refuse it".to_owned(),
            ));
        }
        let audience = match self.audience {
            Some(audience) => audience,
            None => Card::read(&self.data_dir)?.mcp_url,
        };
        let file = self.key.unwrap_or_else(|| self.data_dir.join("keys").join("issuer.pem"));
        let mint = Mint::from_pem(&read(&file)?)
            .map_err(|err| CommandFault::Unusable(format!("{}: {err}", file.display())))?;
        say(mint.token(&Grant {
            issuer: &self.issuer,
            audience: &audience,
            subject: &self.subject,
            tenant: &self.tenant,
            client: self.client.as_deref().unwrap_or(&self.subject),
            roles: &roles,
            scope: self.scope.as_deref().unwrap_or_default(),
            issued_at: ambient().clock.now(),
            valid_for: Duration::from_secs(self.minutes.saturating_mul(60)),
        }));
        Ok(())
    }
}
