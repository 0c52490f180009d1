//! `countersign check`: what a deployment depends on, or a signer service against its contract.

mod acts;
mod deployment;
mod inbox;
mod paper;
mod refusals;
mod report;
mod signer;
mod wire;

use clap::{Args, Subcommand};

use super::CommandFault;

/// Options of `check`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  countersign check --config countersign.toml\n  countersign check signer https://signer.example --api-key-file secrets/signer-api-key --signer finance-1\n\nIt is done when everything answers. A warning is something to know, and no failure."
)]
pub(super) struct Check {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    deployment: deployment::Deployment,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Play the signer service's contract against a service, and say what does not hold
    Signer(signer::CheckSigner),
}

impl Check {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        match self.what {
            Some(What::Signer(signer)) => Box::pin(signer.run()).await,
            None => Box::pin(self.deployment.run()).await,
        }
    }
}
