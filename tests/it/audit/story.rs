//! A desk with a history worth tampering with, its checkpoints, and the question whether it is whole.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign::ambient::SystemEntropy;
use countersign::app::{self, Ambient};
use countersign::config::Config;
use countersign::domain::Timestamp;
use countersign::journal::verify::{AuditReport, CheckpointSource, verify_audit};
use countersign::journal::{Checkpoints, Place};
use countersign::proof::{AuditFacts, NoteSigner};
use serde_json::json;

use crate::harness::app::{App, Wishes, each_with};
use crate::harness::folder::Folder;

/// Runs a test on each engine; what is slow on a busy machine is waited for.
pub(super) async fn each(body: impl AsyncFn(&mut App)) {
    let wishes = Wishes::default().config(|config| config.retention.finished_after_s = KEPT.as_secs());
    each_with(wishes.patient(), body).await;
}

/// How long what has ended stays in the hot tables.
const KEPT: Duration = Duration::from_hours(48);

/// The key that signs the checkpoints of a test.
pub(super) fn signer() -> NoteSigner {
    NoteSigner::from_seed("pay.example", &[9; 32]).unwrap()
}

/// A desk's configuration with checkpoints in `folder`, whose key is in it too.
pub(super) fn configured(app: &App, folder: &Folder) -> Config {
    folder.write("key", &format!("{}\n", signer().to_text()));
    let mut config = app.config.clone();
    config.audit.checkpoint_folder = folder.join("sink");
    config.audit.checkpoint_key_file = folder.join("key").display().to_string();
    config.check().unwrap();
    config
}

/// Who makes checkpoints, as a process on the desk's database would.
pub(super) async fn checkpoints(app: &App, config: &Config) -> Arc<Checkpoints> {
    let ambient = Ambient { clock: Arc::clone(&app.clock) as _, entropy: Arc::new(SystemEntropy) };
    app::checkpoints(config, app.db.another().await, &ambient).unwrap().unwrap()
}

/// A desk's checkpoints as an auditor reads them.
pub(super) fn source(folder: &Folder) -> CheckpointSource {
    CheckpointSource { folder: folder.join("sink"), keys: vec![signer().verifier().clone()], covered_before: None }
}

/// What a verifier says of the default tenant.
pub(super) async fn verified(app: &App, source: Option<&CheckpointSource>) -> AuditReport {
    verify_audit(app.db.store(), "default", source, &mut |_, _| {}).await.unwrap()
}

/// What happened at a desk.
pub(super) struct Story {
    /// Executed, and in the archive.
    pub(super) old: String,
    /// Executed, with a decision too many.
    pub(super) paid: String,
    /// Awaits its signer.
    pub(super) open: String,
    /// Rejected.
    pub(super) rejected: String,
    /// Paid by hand, as two people said.
    pub(super) by_hand: String,
    /// The checkpoints' sizes: in the middle, and near the end.
    pub(super) signed: [i64; 2],
    /// The chain.
    pub(super) facts: Vec<AuditFacts>,
}

impl Story {
    /// Lets it happen, with two checkpoints in `folder`; a few entries follow the last.
    pub(super) async fn tell(app: &App, folder: &Folder) -> Self {
        let config = configured(app, folder);
        let checkpoints = checkpoints(app, &config).await;
        let old = app.signed("old").await;
        app.settle().await;
        app.pass(KEPT + Duration::from_secs(1)).await;
        assert_eq!(app.journal.retire(&Place::default()).await.unwrap().payments, 1);
        app.revoke_key("board-2").await;
        let paid = app.signed("paid").await;
        app.sign_as("finance-2", "paid").await;
        app.settle().await;
        assert_eq!(app.status("paid").await.status(), "EXECUTED");
        let open = app.awaiting("open").await;
        assert_eq!(checkpoints.tick(Instant::now()).await, 1);
        let rejected = app.awaiting("rejected").await;
        app.reject("finance-1", "rejected", "no").await;
        let by_hand = app.awaiting("by-hand").await;
        app.call(&app.operator(), "hold_payment", json!({"order_id": "by-hand", "reason": "by hand"})).await;
        for person in ["operator-1", "operator-2"] {
            let word = json!({"order_id": "by-hand", "reference": "bank-1", "evidence": "statement"});
            app.call(&app.operator_named(person), "attest_executed", word).await;
        }
        assert_eq!(app.status("by-hand").await.status(), "EXECUTED");
        for _ in 0..3 {
            app.call(&app.agent(), "confirm_signing", json!({"order_id": "open", "signature": "x"})).await;
        }
        assert_eq!(checkpoints.write_all().await.unwrap().len(), 1);
        let notes = folder.read("sink/default.checkpoints");
        let sizes: Vec<i64> =
            notes.split("\n\n\u{2014} ").filter_map(|part| part.lines().rev().nth(2)?.parse().ok()).collect();
        let &[first, second] = sizes.as_slice() else { panic!("two checkpoints: {notes}") };
        app.create("later").await;
        app.cancel("later").await;
        Self { old, paid, open, rejected, by_hand, signed: [first, second], facts: app.audit().await }
    }

    /// The position of a payment's first entry of this event.
    pub(super) fn seq(&self, payment: &str, event: &str) -> i64 {
        let found = self.facts.iter().find(|facts| facts.payment_id == payment && facts.event == event);
        found.unwrap_or_else(|| panic!("{event} of {payment}")).seq.parse().unwrap()
    }

    /// The position of a payment's last change.
    pub(super) fn last(&self, payment: &str) -> i64 {
        let of = |facts: &&AuditFacts| facts.payment_id == payment && !facts.version.is_empty();
        self.facts.iter().rfind(of).unwrap().seq.parse().unwrap()
    }

    /// The position of the entry of this event about a person's key.
    pub(super) fn of_key(&self, person: &str, event: &str) -> i64 {
        let of = |facts: &&AuditFacts| facts.event == event && facts.reason.starts_with(&format!("{person} "));
        self.facts.iter().find(of).unwrap().seq.parse().unwrap()
    }

    /// The payment that an entry is about.
    pub(super) fn of(&self, seq: i64) -> &str {
        &self.facts[usize::try_from(seq - 1).unwrap()].payment_id
    }

    /// When the last entry was written.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::parse_rfc3339(&self.facts.last().unwrap().ts).unwrap()
    }

    /// How many entries there are.
    pub(super) fn entries(&self) -> i64 {
        i64::try_from(self.facts.len()).unwrap()
    }
}
