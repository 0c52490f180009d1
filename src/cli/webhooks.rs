//! `countersign webhooks`: what became of events, and another try for those that did not arrive.

use clap::{Args, Subcommand, ValueEnum};

use super::output::say;
use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed};
use crate::app::open_current;
use crate::config::{Config, shown_url};
use crate::domain::{EventId, Timestamp};
use crate::store::{ListedEvent, Store};

/// `webhooks …`.
#[derive(Debug, Subcommand)]
pub(super) enum Webhooks {
    /// Events and what became of them, the latest first
    #[command(
        after_help = "Examples:\n  countersign webhooks list --state dead     the dead letters\n  countersign webhooks list --json           one object a line"
    )]
    List(List),
    /// Have events delivered once more, with all attempts; the worker does it
    #[command(
        after_help = "Examples:\n  countersign webhooks redeliver evt_01M8MVZKVSMWQPF6BJX58977ZP     to every target, delivered or not\n  countersign webhooks redeliver --all-dead\n\nRefused where there is no such event, or it is being delivered right now."
    )]
    Redeliver(Redeliver),
    /// Give up the events that a target, which is listed no more, never took
    #[command(
        after_help = "Example:\n  countersign webhooks forget https://gone.example/hooks\n\nIts events, pending and dead, are deleted, and what they tell of may move to the archive. Refused while the target is in webhooks.targets."
    )]
    Forget(Forget),
}

/// The state of an event.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    /// It will be tried again
    Pending,
    /// The receiver took it
    Delivered,
    /// It is not tried again by itself
    Dead,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

/// Options of `webhooks list`.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Only these
    #[arg(long)]
    state: Option<State>,
    /// At most this many
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFile,
}

/// Options of `webhooks redeliver`.
#[derive(Debug, Args)]
pub(super) struct Redeliver {
    /// The event
    #[arg(value_name = "EVENT_ID")]
    event_id: Option<String>,
    /// Every dead letter
    #[arg(long, conflicts_with = "event_id")]
    all_dead: bool,
    #[command(flatten)]
    file: ConfigFile,
}

/// Options of `webhooks forget`.
#[derive(Debug, Args)]
pub(super) struct Forget {
    /// The target, as `webhooks list` shows it
    #[arg(value_name = "URL")]
    target: String,
    #[command(flatten)]
    file: ConfigFile,
}

impl Webhooks {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        match self {
            Self::List(list) => list.run().await,
            Self::Redeliver(redeliver) => redeliver.run().await,
            Self::Forget(forget) => forget.run().await,
        }
    }
}

/// The database, and the targets as their events name them.
async fn open(file: &ConfigFile) -> Result<(Store, Vec<String>), CommandFault> {
    let config = Config::load(file.config.as_deref())?;
    let targets = config.webhooks.urls()?.into_iter().map(String::from).collect();
    Ok((open_current(&config, ambient().clock).await?, targets))
}

impl List {
    async fn run(self) -> Result<(), CommandFault> {
        let (store, targets) = open(&self.file).await?;
        let state = self.state.map_or("", State::as_str);
        let events = store.read().await.map_err(failed)?.events(state, self.limit.into()).await.map_err(failed)?;
        store.close().await;
        let none = events.is_empty();
        for mut event in events {
            let listed = targets.contains(&event.target);
            event.target = shown_url(&event.target);
            if self.json {
                say(serde_json::to_string(&event).map_err(failed)?);
            } else {
                say(line(&event, listed));
            }
        }
        if none && !self.json {
            say("no events");
        }
        Ok(())
    }
}

fn line(event: &ListedEvent, listed: bool) -> String {
    let at = |micros| Timestamp::from_micros(micros).rfc3339();
    let fate = match (event.next_at, event.delivered_at) {
        (Some(_), _) if !listed => "sent nowhere: its target is not in webhooks.targets".to_owned(),
        (Some(next), _) if event.attempts == 0 => format!("first attempt {}", at(next)),
        (Some(next), _) => format!("next attempt {}", at(next)),
        (None, Some(delivered)) => format!("taken {}", at(delivered)),
        (None, None) => "not tried again".to_owned(),
    };
    let error = if event.last_error.is_empty() { String::new() } else { format!("; last: {}", event.last_error) };
    format!(
        "{}  {:9}  {} {} v{} to {}: {} attempts, {fate}{error}",
        event.event_id, event.state, event.kind, event.payment_id, event.version, event.target, event.attempts
    )
}

impl Redeliver {
    async fn run(self) -> Result<(), CommandFault> {
        if self.event_id.is_none() && !self.all_dead {
            return Err(CommandFault::Unusable("name an EVENT_ID, or --all-dead for every dead letter".to_owned()));
        }
        let event = self.event_id.as_deref().map(str::parse::<EventId>).transpose();
        let event = event.map_err(|refusal| CommandFault::Unusable(format!("EVENT_ID: {}", refusal.message)))?;
        let (store, _) = open(&self.file).await?;
        let mut tx = store.begin().await.map_err(failed)?;
        let rows = match &event {
            Some(event) => tx.redeliver(event.as_str()).await,
            None => tx.redeliver_dead().await,
        };
        let rows = rows.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        store.close().await;
        if rows == 0
            && let Some(event) = event
        {
            return Err(failed(format_args!("no {event} waits here, or it is being delivered right now")));
        }
        say(format_args!("{rows} due again; the worker delivers them"));
        Ok(())
    }
}

/// Events that one transaction takes away: few, because SQLite has one writer.
const AT_ONCE: u32 = 1_000;

impl Forget {
    async fn run(self) -> Result<(), CommandFault> {
        let (store, targets) = open(&self.file).await?;
        // In full, or as it is shown: then it may stand for several, of which only those that are not listed are meant.
        let named = |target: &String| *target == self.target || shown_url(target) == self.target;
        let owed = store.read().await.map_err(failed)?.owed_targets().await.map_err(failed)?;
        let gone: Vec<&String> = owed.iter().filter(|target| named(target) && !targets.contains(target)).collect();
        if gone.is_empty() && targets.iter().any(named) {
            return Err(CommandFault::Unusable(format!(
                "{}: is in webhooks.targets; take it off the list first, in every process",
                shown_url(&self.target)
            )));
        }
        let mut all: u64 = 0;
        for target in gone {
            all = all.saturating_add(forget(&store, target).await?);
        }
        store.close().await;
        say(format_args!("{all} events of {} forgotten", shown_url(&self.target)));
        Ok(())
    }
}

/// Takes every event away that a target never took and nobody is delivering; how many there were.
async fn forget(store: &Store, target: &str) -> Result<u64, CommandFault> {
    let mut all: u64 = 0;
    loop {
        let mut tx = store.begin().await.map_err(failed)?;
        let rows = tx.forget_events(target, AT_ONCE.into()).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        all = all.saturating_add(rows);
        if rows < AT_ONCE.into() {
            return Ok(all);
        }
    }
}
