//! `countersign verify`: what is stored, checked by recomputation.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;

use super::evidence::Evidence;
use super::output::{put, say};
use super::serve::ConfigFile;
use super::{CommandFault, ambient, failed};
use crate::app::open_current;
use crate::config::Config;
use crate::domain::Timestamp;
use crate::journal::verify::{AuditReport, CheckpointSource, audited_tenants, verify_audit};
use crate::proof::{NoteVerifier, shown};

/// `verify …`.
#[derive(Debug, Subcommand)]
pub(super) enum Verify {
    /// Recompute the audit chains, compare them with their signed checkpoints and with what is stored
    #[command(
        after_help = "Examples:\n  countersign verify audit --config countersign.toml --checkpoints /srv/audit --key checkpoint-key.pub\n  COUNTERSIGN__DATABASE__URL=sqlite://.countersign/gateway.db countersign verify audit \\\n    --checkpoints .countersign/checkpoints --key .countersign/keys/checkpoint-key.pub     a dev instance's\n\nFinds entries that were edited, deleted, inserted, reordered or cut off, a chain rewritten as a whole, spoilt\ncheckpoints, payments whose history is not complete, and executions without their approvals. Each is named.\nWithout checkpoints it can't see a chain that was rewritten or cut together with its head."
    )]
    Audit(Audit),
    /// Check the evidence of one payment, a file that an auditor was given: offline, with no database and no configuration
    #[command(
        after_help = "Examples:\n  countersign verify evidence order-1.json --root root.pub.pem --checkpoint-key checkpoint-key.pub\n  curl -s -H \"Authorization: Bearer $AUDITOR\" https://pay.example/payments/pay_…/evidence | countersign verify evidence - --root root.pub.pem\n\nEach step has a verdict: ok, failed, or not_checked with what is missing. It was done (0) when all are ok; it is\nbroken (3) when one failed; else (1) something could not be told. Neither key is ever taken from the file."
    )]
    Evidence(Evidence),
}

/// Options of `verify audit`.
#[derive(Debug, Args)]
pub(super) struct Audit {
    /// Only this tenant; by default every one that the database or the checkpoints tell of
    #[arg(long)]
    tenant: Option<String>,
    /// The folder of checkpoints
    #[arg(long, value_name = "FOLDER", requires = "keys")]
    checkpoints: Option<PathBuf>,
    /// The public key that signs checkpoints, or a file with it; again for each key there was
    #[arg(long = "key", value_name = "PUBLICKEY", requires = "checkpoints")]
    keys: Vec<String>,
    /// Entries older than this must be covered by a checkpoint
    #[arg(long, value_name = "SECONDS", requires = "checkpoints")]
    covered_within: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFile,
}

impl Verify {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        match self {
            Self::Audit(audit) => audit.run().await,
            Self::Evidence(evidence) => evidence.run(),
        }
    }
}

/// How often progress is shown.
const EVERY: Duration = Duration::from_millis(500);

impl Audit {
    async fn run(self) -> Result<(), CommandFault> {
        let source = self.source()?;
        let store = open_current(&Config::load(self.file.config.as_deref())?, ambient().clock).await?;
        let tenants = match &self.tenant {
            Some(tenant) => vec![tenant.clone()],
            None => audited_tenants(&store, source.as_ref()).await.map_err(failed)?,
        };
        let mut reports = Vec::new();
        for tenant in &tenants {
            let mut ticker = Ticker::new(tenant);
            let report =
                verify_audit(&store, tenant, source.as_ref(), &mut |what, count| ticker.show(what, count)).await;
            ticker.clear();
            let report = report.map_err(failed)?;
            if self.tenant.is_some() && report.is_whole() && report.entries == 0 && report.payments == 0 {
                // A name that nobody has is no good news.
                return Err(failed(format_args!("there is no audit of {tenant}")));
            }
            if !self.json {
                put(shown_report(&report));
            }
            reports.push(report);
        }
        store.close().await;
        let broken: Vec<&AuditReport> = reports.iter().filter(|report| !report.is_whole()).collect();
        if self.json {
            say(json!({"ok": broken.is_empty(), "tenants": reports}));
        } else if tenants.is_empty() {
            say("there is no audit yet");
        } else if source.is_none() {
            say("without --checkpoints, a chain that was cut or rewritten together with its head can't be seen");
        }
        match broken.first().and_then(|report| Some((report, report.breaks.first()?))) {
            None => Ok(()),
            Some((report, first)) => {
                Err(CommandFault::Broken(format!("the audit of {} is broken: {first}", report.tenant)))
            }
        }
    }

    fn source(&self) -> Result<Option<CheckpointSource>, CommandFault> {
        let Some(folder) = self.checkpoints.clone() else { return Ok(None) };
        if !folder.is_dir() {
            return Err(CommandFault::Unusable(format!("--checkpoints: {}: is not a folder", folder.display())));
        }
        let keys = self.keys.iter().map(|text| named_key("--key", text)).collect::<Result<_, _>>()?;
        let covered_before = self.covered_within.map(|seconds| {
            let span = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000);
            Timestamp::from_micros(ambient().clock.now().micros().saturating_sub(span))
        });
        Ok(Some(CheckpointSource { folder, keys, covered_before }))
    }
}

/// The key that an option is, or whose file it names.
pub(super) fn named_key(option: &str, text: &str) -> Result<NoteVerifier, CommandFault> {
    let unusable = |why: std::fmt::Arguments<'_>| {
        // Whoever takes the wrong half does not see it repeated.
        let named = if text.starts_with("PRIVATE+KEY+") { "a private key" } else { text };
        CommandFault::Unusable(format!("{option}: {named}: {why}; it is the text or file that keys checkpoint made"))
    };
    if let Ok(key) = NoteVerifier::parse(text.trim_end()) {
        return Ok(key);
    }
    match std::fs::read_to_string(text) {
        Ok(held) => NoteVerifier::parse(held.trim_end()).map_err(|err| unusable(format_args!("is {err}"))),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            Err(unusable(format_args!("there is no such file, and it is no checkpoint key itself")))
        }
        Err(err) => Err(unusable(format_args!("can't be read: {}", err.kind()))),
    }
}

/// A report for a person.
fn shown_report(report: &AuditReport) -> String {
    let AuditReport { tenant, entries, payments, .. } = report;
    let head = shown(&report.head);
    let mut lines = Vec::new();
    if report.is_whole() {
        lines.push(format!("the audit of {tenant} is whole: {entries} entries, head {head}"));
    } else {
        let breaks = u64::try_from(report.breaks.len()).unwrap_or(u64::MAX).saturating_add(report.more);
        lines.push(format!("the audit of {tenant} is BROKEN in {breaks} places: {entries} entries, head {head}"));
        lines.extend(report.breaks.iter().map(|found| format!("  {found}")));
        if report.more > 0 {
            lines.push(format!("  and {} more", report.more));
        }
    }
    lines.push(format!("  payments: {payments} compared with it"));
    if let Some(covered) = &report.covered {
        let signed = if covered.up_to > 0 {
            format!("up to entry {} as signed at {}", covered.up_to, covered.signed_at)
        } else {
            "no entry".to_owned()
        };
        let cut = if covered.cut_off > 0 { format!("; {} cut-off writes", covered.cut_off) } else { String::new() };
        let (read, after) = (covered.checkpoints, covered.uncovered);
        lines.push(format!("  checkpoints: {read} agree and vouch for {signed}; {after} entries after it{cut}"));
    }
    lines.join("\n") + "\n"
}

/// Progress on a terminal.
struct Ticker<'a> {
    tenant: &'a str,
    terminal: bool,
    shown: Option<Instant>,
    begun: Instant,
}

impl<'a> Ticker<'a> {
    fn new(tenant: &'a str) -> Self {
        Self { tenant, terminal: std::io::stderr().is_terminal(), shown: None, begun: Instant::now() }
    }

    fn show(&mut self, what: &str, count: u64) {
        let last = self.shown.unwrap_or(self.begun);
        if self.terminal && last.elapsed() >= EVERY {
            self.shown = Some(Instant::now());
            // That nobody sees it changes nothing.
            let _ = write!(std::io::stderr(), "\r\x1b[K{}: {count} {what}", self.tenant);
        }
    }

    fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
