//! `countersign demo`: the whole story against a fresh dev instance, each promise checked as it is told.

mod acts;
mod ledger;
mod stage;
mod story;

use clap::Args;

use super::{CommandFault, failed};
use stage::Stage;
use story::Story;

/// Options of `demo`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  countersign demo            a readable account; takes about 15 seconds\n  countersign demo --json     one JSON object at the end\n\nPlays over real MCP and HTTP against a dev instance of its own, in a temporary folder and on free ports,\nand kills that instance once between the intent and the commit of a payment.\nExit 0 only if every promise was seen to hold."
)]
pub(super) struct Demo {
    /// Print one JSON object at the end instead of an account
    #[arg(long)]
    json: bool,
    /// Keep the temporary folder for a look
    #[arg(long)]
    keep: bool,
}

impl Demo {
    #[expect(clippy::print_stdout, reason = "what it prints is its purpose")]
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let mut story = Story::new(!self.json);
        let mut stage = Stage::set().await?;
        let played = Box::pin(acts::play(&mut stage, &mut story)).await;
        stage.strike(self.keep).await;
        if let Err(fault) = &played {
            story.broke_off(&fault.to_string());
        }
        if self.json {
            println!("{}", story.json());
        }
        if story.held() { Ok(()) } else { Err(failed("the demo did not see every promise hold")) }
    }
}
