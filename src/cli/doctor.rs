//! `countersign doctor`: why a payment is where it is, check by check, and what to do now.

use clap::Args;
use serde_json::Value;

use super::client::{McpClient, ToolAnswer};
use super::home::Card;
use super::output::say;
use super::sign::{call, selector};
use super::way_in::WayIn;
use super::{CommandFault, failed};

/// Options of `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign doctor order-1                    beside a running `countersign dev`\n  countersign doctor order-1 --url https://pay.example/mcp --token-file token\n\nIt is done when nothing stands in the payment's way; what does is named."
)]
pub(super) struct Doctor {
    /// The order, or a payment id
    order: String,
    #[command(flatten)]
    way_in: WayIn,
    /// Print the tool's whole result as JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let (url, token) = self.desk()?;
        let client = McpClient::connect(&url, &token).await.map_err(failed)?;
        let answer = call(&client, "explain_payment", selector(&self.order)).await?;
        if self.json {
            say(&answer.body);
        } else {
            say(shown(&answer));
        }
        match answer.text("obstacle") {
            "" => Ok(()),
            obstacle => Err(failed(format_args!("{obstacle} stands in the way"))),
        }
    }

    fn desk(&self) -> Result<(String, String), CommandFault> {
        Ok(match self.way_in.given()? {
            (Some(url), Some(token)) => (url, token),
            (url, token) => {
                let card = Card::read(&self.way_in.data_dir)?;
                (url.unwrap_or(card.mcp_url), token.unwrap_or(card.tokens.operator))
            }
        })
    }
}

/// The checks for a person, in order.
fn shown(answer: &ToolAnswer) -> String {
    let mut lines =
        vec![format!("{}  {}  {}", answer.text("order_id"), answer.text("payment_id"), answer.text("status"))];
    for check in answer.body.get("checks").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| check.get(key).and_then(Value::as_str).unwrap_or_default();
        let good = check.get("ok").and_then(Value::as_bool).unwrap_or(false);
        lines.push(format!("  {}  {:<15} {}", if good { "ok " } else { "NOT" }, text("check"), text("found")));
        if !good {
            lines.push(format!("       -> {}", text("next")));
        }
    }
    lines.join("\n")
}
