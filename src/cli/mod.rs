//! The commands: one file each; one match; one exit code.
//!
//! Exit codes: 0 it was done, 1 it was not, 2 the command line or the configuration can't be used; 3, of `verify`
//! only, that what was verified is broken; 141, as of a shell, that nobody read on (`output`).

mod audit;
mod check;
mod client;
mod demo;
mod dev;
mod doctor;
mod evidence;
mod health;
mod home;
mod keys;
mod output;
mod pair;
mod passkeys;
mod people;
mod restored;
mod root;
mod sandbox;
mod serve;
mod sign;
mod signer;
mod token;
mod verify;
mod way_in;
mod webhooks;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use secrecy::SecretString;
use url::Url;

pub use client::{CallFault, McpClient, ToolAnswer};
pub use home::{Card, Home, Peers};
use output::warn;

use crate::ambient::{SystemClock, SystemEntropy};
use crate::app::{Ambient, StartFault};
use crate::config::{ConfigFault, web_url};

/// The payment desk for AI agents: an agent proposes, a person countersigns, the money moves once.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Start here:\n  countersign dev          everything in one process, tokens printed\n  countersign demo         the whole story, played and checked"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Gateway, reference signer service and sandbox rail in one process, on embedded databases
    Dev(dev::Dev),
    /// Play the whole story against a fresh dev instance, and check every promise
    Demo(demo::Demo),
    /// The gateway and its worker
    Serve(serve::Serve),
    /// The worker alone
    Worker(serve::Worker),
    /// The reference signer service
    Signer(signer::Signer),
    /// The sandbox rail
    Sandbox(sandbox::SandboxRail),
    /// After restoring a backup: compare every payment that it believes unpaid with the rail, before anything is sent
    Restored(restored::Restored),
    /// Bring the database's schema up to date
    Migrate(serve::Migrate),
    /// The effective configuration, redacted, and whether every dependency answers; or `check signer`
    Check(check::Check),
    /// Whether a health page answers well; for a container's health check
    Health(health::Health),
    /// Key files of a first deployment; enrolling and revoking signers' keys
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Mint a token of the dev issuer
    Token(token::Token),
    /// See a payment, then approve or reject it with your key
    Sign(sign::Sign),
    /// Why a payment is where it is, and what to do now
    Doctor(doctor::Doctor),
    /// Check what is stored, trusting nobody
    #[command(subcommand)]
    Verify(verify::Verify),
    /// Signed checkpoints of the audit, and its export
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Events for webhooks: what became of them, and another try
    #[command(subcommand)]
    Webhooks(webhooks::Webhooks),
}

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
enum CommandFault {
    /// The command line or the configuration can't be used.
    #[error("{0}")]
    Unusable(String),
    /// It was tried and did not succeed.
    #[error("{0}")]
    Failed(String),
    /// What was verified is broken.
    #[error("{0}")]
    Broken(String),
}

impl From<ConfigFault> for CommandFault {
    fn from(fault: ConfigFault) -> Self {
        Self::Unusable(fault.to_string())
    }
}

impl From<StartFault> for CommandFault {
    fn from(fault: StartFault) -> Self {
        match fault {
            StartFault::Config(fault) => fault.into(),
            StartFault::Store(_) | StartFault::Schema(_) | StartFault::Migrate(_) => Self::Failed(fault.to_string()),
        }
    }
}

/// No link or token is good for longer.
const A_YEAR_OF_MINUTES: u64 = 366 * 24 * 60;

/// A failure with a line of its own.
fn failed(why: impl std::fmt::Display) -> CommandFault {
    CommandFault::Failed(why.to_string())
}

/// Reads a text file that an option named.
fn read(file: &Path) -> Result<String, CommandFault> {
    std::fs::read_to_string(file)
        .map_err(|err| CommandFault::Unusable(format!("{}: can't be read: {}", file.display(), err.kind())))
}

/// A secret from its file; a trailing line end is not part of it.
fn secret(file: &Path) -> Result<SecretString, CommandFault> {
    Ok(read(file)?.trim_end_matches(['\r', '\n']).to_owned().into())
}

/// An address that an option named.
fn web_address(option: &str, text: &str) -> Result<Url, CommandFault> {
    web_url(text).map_err(|why| CommandFault::Unusable(format!("{option}: {why}")))
}

fn ambient() -> Ambient {
    Ambient { clock: Arc::new(SystemClock), entropy: Arc::new(SystemEntropy) }
}

/// What every command's help ends with, and the only place in it that speaks of exit codes.
const EXITS: &str = "Exit codes: 0 it was done, 1 it was not, 2 the command line or the configuration can't be used; \
    3, of verify only: what was verified is broken; 141: nobody read on what it printed.";

/// `command` and all below it, each with the exit codes in its help.
fn with_exits(command: clap::Command) -> clap::Command {
    let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let told = format!("{own}\n\n{EXITS}").trim_start().to_owned();
    let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    below.into_iter().fold(command.after_help(told), |command, name| command.mut_subcommand(name, with_exits))
}

/// Reads the command line, does it, and tells how it went.
pub fn main() -> ExitCode {
    let read = Cli::from_arg_matches(&with_exits(Cli::command()).get_matches());
    let cli = read.unwrap_or_else(|err| err.exit());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => {
            warn(format_args!("countersign: no threads can be started: {err}"));
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(run(cli.command));
    // Lookups and other blocking work must not keep a finished command alive.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            warn(format_args!("countersign: {fault}"));
            match fault {
                CommandFault::Unusable(_) => ExitCode::from(2),
                CommandFault::Failed(_) => ExitCode::FAILURE,
                CommandFault::Broken(_) => ExitCode::from(3),
            }
        }
    }
}

async fn run(command: Command) -> Result<(), CommandFault> {
    match command {
        Command::Dev(dev) => Box::pin(dev.run()).await,
        Command::Demo(demo) => Box::pin(demo.run()).await,
        Command::Serve(serve) => Box::pin(serve.run()).await,
        Command::Worker(worker) => Box::pin(worker.run()).await,
        Command::Signer(signer) => Box::pin(signer.run()).await,
        Command::Sandbox(rail) => Box::pin(rail.run()).await,
        Command::Restored(restored) => Box::pin(restored.run()).await,
        Command::Migrate(migrate) => Box::pin(migrate.run()).await,
        Command::Check(check) => Box::pin(check.run()).await,
        Command::Health(health) => Box::pin(health.run()).await,
        Command::Keys(keys) => Box::pin(keys.run()).await,
        Command::Token(token) => token.run(),
        Command::Sign(sign) => Box::pin(sign.run()).await,
        Command::Doctor(doctor) => Box::pin(doctor.run()).await,
        Command::Verify(verify) => Box::pin(verify.run()).await,
        Command::Audit(audit) => Box::pin(audit.run()).await,
        Command::Webhooks(webhooks) => Box::pin(webhooks.run()).await,
    }
}
