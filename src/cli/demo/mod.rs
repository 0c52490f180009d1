//! `countersign demo`: the whole story against a fresh dev instance, each promise checked as it is told.

mod acts;
mod cast;
mod ledger;
mod stage;
mod story;
mod visit;

use clap::Args;

use super::output::say;
use super::{CommandFault, failed};
use stage::Stage;
use story::Story;

/// Options of `demo`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign demo            a readable account; takes about 15 seconds\n  countersign demo --json     one JSON object at the end\n  countersign demo --url http://127.0.0.1:8080/mcp --keys trial --rail http://127.0.0.1:8082\n\nPlays over real MCP and HTTP against a dev instance of its own, in a temporary folder and on free ports,\nand kills that instance once between the intent and the commit of a payment.\nWith --url it plays what needs no such powers on a trial that runs already."
)]
pub(super) struct Demo {
    /// Print one JSON object at the end instead of an account
    #[arg(long)]
    json: bool,
    /// Keep the temporary folder for a look
    #[arg(long, conflicts_with = "url")]
    keep: bool,
    #[command(flatten)]
    visit: visit::Visit,
}

impl Demo {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        self.visit.check()?;
        let mut story = Story::new(!self.json);
        let played = match &self.visit.url {
            Some(url) => Box::pin(self.visit.play(url, &mut story)).await,
            None => self.whole(&mut story).await?,
        };
        if let Err(fault) = &played {
            story.broke_off(&fault.to_string());
        }
        if self.json {
            say(story.json());
        }
        if story.held() { Ok(()) } else { Err(failed("the demo did not see every promise hold")) }
    }

    /// The whole story on an instance of its own; the outer fault is one of setting the stage.
    async fn whole(&self, story: &mut Story) -> Result<Result<(), CommandFault>, CommandFault> {
        let mut stage = Stage::set(self.keep).await?;
        let played = Box::pin(acts::play(&mut stage, story)).await;
        stage.strike().await;
        Ok(played)
    }
}
