//! `countersign restored`: a restored backup, compared with the rail before anything is sent from it.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::output::{say, warn};
use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed};
use crate::app::{journal, open_used, read_policy};
use crate::domain::Timestamp;
use crate::journal::{Comparing, Journal, RestoreReport};

/// How long a rail that has no answer is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of `restored`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign restored --config countersign.toml     mark, compare, report; then start the desk\n  countersign restored --mark-only                   mark; whoever works compares\n  countersign restored --report --json               what the last comparison found\n\nIt is done when everything was compared and nothing needs a person; nothing is sent before everything was\ncompared. See docs/restore.md."
)]
pub(super) struct Restored {
    #[command(flatten)]
    file: ConfigFile,
    /// Only mark the database; its workers compare
    #[arg(long, conflicts_with = "report")]
    mark_only: bool,
    /// Only report on the last comparison
    #[arg(long)]
    report: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Give up after so many seconds; what was compared stays compared
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    patience: u64,
}

impl Restored {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let config = self.file.checked()?;
        let policy = read_policy(&config)?;
        let ambient = ambient();
        let store = open_used(&config, std::sync::Arc::clone(&ambient.clock)).await?;
        let journal = journal(&config, policy, store.clone(), &ambient, false).await?;
        if !self.report {
            let new = journal.mark_restored("told").await.map_err(failed)?;
            let marked = if new { "marked as restored" } else { "was marked before; going on" };
            warn(format_args!("{marked}: nothing is sent from this database until it was compared with the rail"));
            if !self.mark_only {
                compare(&journal, Duration::from_secs(self.patience)).await?;
            }
        }
        let report = journal.restore_report().await.map_err(failed)?;
        store.close().await;
        let Some(report) = report else {
            if self.json {
                say(json!({"restored": false}));
            } else {
                say("this database was never taken for a restored one");
            }
            return Ok(());
        };
        if self.json {
            say(as_json(&report));
        } else {
            say(shown(&report));
        }
        match (report.left(), report.waits()) {
            _ if self.mark_only => Ok(()),
            (0, 0) if report.restore.state == "lifted" => Ok(()),
            (0, waits) if report.restore.state == "lifted" => {
                Err(failed(format_args!("{waits} payments need a person: see list_attention")))
            }
            (left, _) => {
                Err(failed(format_args!("{left} payments are not compared yet; nothing is sent until they are")))
            }
        }
    }
}

/// Compares until the mode is lifted, or patience ends.
async fn compare(journal: &Journal, patience: Duration) -> Result<(), CommandFault> {
    let begun = Instant::now();
    let mut place = String::new();
    let mut shown = String::new();
    let mut counted: Option<Instant> = None;
    while begun.elapsed() < patience {
        let pass = journal.compare(&place).await.map_err(failed)?;
        if !pass.open || pass.lifted {
            return Ok(());
        }
        let rests = pass.waits_until.is_some() || pass.in_doubt > 0 || pass.compared == 0;
        // All of them are counted for it: not after every few.
        if rests || counted.is_none_or(|at| at.elapsed() >= PAUSE) {
            counted = Some(Instant::now());
            let progress = progress(journal, &pass).await?;
            if progress != shown {
                warn(&progress);
                shown = progress;
            }
        }
        place = pass.next.unwrap_or_default();
        if rests {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

async fn progress(journal: &Journal, pass: &Comparing) -> Result<String, CommandFault> {
    if let Some(until) = pass.waits_until {
        return Ok(format!("the rail is asked from {} on: what was under way shows by then", until.rfc3339()));
    }
    let report = journal.restore_report().await.map_err(failed)?;
    let (left, total) = report.map_or((0, 0), |report| (report.left(), report.total()));
    let doubt = if pass.in_doubt > 0 { "; the rail has no answer for some, they are asked again" } else { "" };
    Ok(format!("{} of {total} compared{doubt}", total.saturating_sub(left)))
}

fn as_json(report: &RestoreReport) -> Value {
    let time = |micros: i64| Timestamp::from_micros(micros).rfc3339();
    let restore = &report.restore;
    let tallies: Vec<Value> = report
        .tallies
        .iter()
        .map(|tally| {
            json!({"believed": tally.believed, "finding": tally.finding, "outcome": tally.outcome,
                "payments": tally.payments})
        })
        .collect();
    let surprises: Vec<Value> = report
        .surprises
        .iter()
        .map(|surprise| {
            json!({"payment_id": surprise.payment_id, "tenant": surprise.tenant, "order_id": surprise.order_id,
                "believed": surprise.believed, "finding": surprise.finding, "outcome": surprise.outcome})
        })
        .collect();
    json!({
        "restored": true, "restore_id": restore.restore_id, "state": restore.state, "cause": restore.cause,
        "marked_at": time(restore.marked_at), "lifted_at": restore.lifted_at.map(time),
        "payments": report.total(), "left": report.left(), "tallies": tallies, "surprises": surprises,
    })
}

/// The report for a person.
fn shown(report: &RestoreReport) -> String {
    let restore = &report.restore;
    let at = |micros: i64| Timestamp::from_micros(micros).rfc3339();
    let mut lines = vec![match restore.lifted_at {
        Some(lifted) => format!(
            "{} ({}): all {} compared, lifted {}",
            restore.restore_id,
            restore.cause,
            report.total(),
            at(lifted)
        ),
        None => format!(
            "{} ({}): {} of {} still to be compared; nothing is sent",
            restore.restore_id,
            restore.cause,
            report.left(),
            report.total()
        ),
    }];
    for tally in &report.tallies {
        let finding = if tally.finding.is_empty() { "not compared yet" } else { &tally.finding };
        lines.push(format!("  {:>7}  {:<18} {finding}  {}", tally.payments, tally.believed, tally.outcome));
    }
    for surprise in &report.surprises {
        lines.push(format!(
            "  {}  {} of {}: believed {}, the rail says {}: {}",
            surprise.payment_id,
            surprise.order_id,
            surprise.tenant,
            surprise.believed,
            surprise.finding,
            surprise.outcome
        ));
    }
    lines.join("\n")
}
