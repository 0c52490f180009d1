//! The books that are judged: what each side wrote down, read without its help.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use countersign::domain::{Payment, Phase, Policy, Status};
use countersign::proof::AuditFacts;

use crate::harness::database::{Raw, TestDatabase};

/// Where the books are.
pub(crate) struct Sources<'a> {
    /// Our store.
    pub(crate) db: &'a TestDatabase,
    /// The sandbox rail's file.
    pub(crate) rail: PathBuf,
    /// The signer service's file.
    pub(crate) signer: PathBuf,
    /// The policy, where it was the same all along; limits are judged by it.
    pub(crate) policy: Option<Policy>,
    /// Who is told of changes; `None` where that changed, and I13 is not judged.
    pub(crate) targets: Option<Vec<String>>,
    /// The ids of the events that a receiver got, where one kept them.
    pub(crate) told: Option<Vec<String>>,
    /// Whether rail and signer service serve others too; what they did for those is then not judged.
    pub(crate) strangers: bool,
    /// Whether our store was put back to an earlier moment: what the others were asked since is then not judged.
    pub(crate) rewound: bool,
}

/// What a test did that its books can't tell.
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of its own")]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Did {
    pub(crate) change_policy: bool,
    pub(crate) change_targets: bool,
    pub(crate) others_at_the_peers: bool,
    pub(crate) rewind: bool,
}

/// A row as text; NULL is `""`.
#[derive(Debug, Clone)]
pub(crate) struct Row(BTreeMap<&'static str, String>);

impl Row {
    pub(crate) fn text(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("{column} was not read"))
    }

    pub(crate) fn int(&self, column: &str) -> i64 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{column} is no number in {self:?}"))
    }
}

/// An audit entry: its facts, and what chains it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) row: Row,
    /// `None` when they can't be read.
    pub(crate) facts: Option<AuditFacts>,
}

/// Everything that was written down.
pub(crate) struct Books {
    pub(crate) payments: Vec<Payment>,
    /// Payments that can't be read back: id and why.
    pub(crate) unreadable: Vec<(String, String)>,
    /// Those that were moved to the archive.
    pub(crate) archived: BTreeSet<String>,
    /// Payments that are both here and in the archive.
    pub(crate) twice: Vec<String>,
    /// The orders that are taken: tenant, order and payment.
    pub(crate) taken: BTreeSet<[String; 3]>,
    /// The stored wake times, by payment.
    pub(crate) wakes: BTreeMap<String, Option<i64>>,
    /// By tenant, in order.
    pub(crate) audit: BTreeMap<String, Vec<Entry>>,
    /// The readable facts of it by payment, in order.
    histories: BTreeMap<String, Vec<AuditFacts>>,
    /// The end of each tenant's chain: position and value.
    pub(crate) heads: BTreeMap<String, (i64, String)>,
    pub(crate) decisions: Vec<Row>,
    pub(crate) challenges: Vec<Row>,
    pub(crate) keys: Vec<Row>,
    pub(crate) effects: Vec<Row>,
    pub(crate) idempotency: Vec<Row>,
    pub(crate) outbox: Vec<Row>,
    pub(crate) transfers: Vec<Row>,
    pub(crate) entries: Vec<Row>,
    pub(crate) requests: Vec<Row>,
    pub(crate) registrations: Vec<Row>,
    pub(crate) notifications: Vec<Row>,
    pub(crate) policy: Option<Policy>,
    pub(crate) targets: Option<Vec<String>>,
    pub(crate) told: Option<Vec<String>>,
    pub(crate) rewound: bool,
}

async fn table(raw: &mut Raw, name: &str, columns: &[&'static str], order: &str) -> Vec<Row> {
    let list: Vec<String> = columns.iter().map(|column| format!("COALESCE(CAST({column} AS TEXT), '')")).collect();
    let sql = format!("SELECT {} FROM {name} ORDER BY {order}", list.join(", "));
    let rows = raw.rows(&sql, columns.len()).await;
    rows.into_iter().map(|values| Row(columns.iter().copied().zip(values).collect())).collect()
}

/// A table and its archive.
async fn everywhere(raw: &mut Raw, name: &str, columns: &[&'static str], order: &str) -> Vec<Row> {
    let mut listed: Vec<&str> = columns.to_vec();
    listed.extend((!columns.contains(&order)).then_some(order).filter(|order| !order.contains(',')));
    if order.contains(',') {
        listed.extend(order.split(", ").filter(|column| !columns.contains(column)));
    }
    let list = listed.join(", ");
    let both = format!("(SELECT {list} FROM {name} UNION ALL SELECT {list} FROM archived_{name}) AS everywhere");
    table(raw, &both, columns, order).await
}

impl Books {
    #[expect(clippy::too_many_lines, reason = "one line a table")]
    pub(crate) async fn read(sources: &Sources<'_>) -> Self {
        let mut ours = sources.db.raw().await;
        let wakes = everywhere(&mut ours, "payments", &["payment_id", "next_wake_at"], "payment_id").await;
        let archived = table(&mut ours, "archived_payments", &["payment_id"], "payment_id").await;
        let archived = archived.iter().map(|row| row.text("payment_id").to_owned()).collect();
        let twice = wakes.windows(2).filter(|pair| pair[0].text("payment_id") == pair[1].text("payment_id"));
        let twice = twice.map(|pair| pair[0].text("payment_id").to_owned()).collect();
        let taken = table(&mut ours, "taken_orders", &["tenant", "order_id", "payment_id"], "payment_id").await;
        let taken = taken.iter().map(|row| ["tenant", "order_id", "payment_id"].map(|name| row.text(name).to_owned()));
        let taken = taken.collect();
        let (mut payments, mut unreadable) = (Vec::new(), Vec::new());
        for id in wakes.iter().map(|row| row.text("payment_id")) {
            match sources.db.store().read().await.unwrap().payment_for_work(id).await {
                Ok(payment) => payments.push(payment.expect("it was listed")),
                Err(fault) => unreadable.push((id.to_owned(), fault.to_string())),
            }
        }
        let wakes = wakes
            .iter()
            .map(|row| (row.text("payment_id").to_owned(), row.text("next_wake_at").parse().ok()))
            .collect();
        let mut audit = BTreeMap::<String, Vec<Entry>>::new();
        let mut histories = BTreeMap::<String, Vec<AuditFacts>>::new();
        let columns = ["tenant", "seq", "payment_id", "event", "canonical", "previous", "chain"];
        for row in table(&mut ours, "audit_entries", &columns, "tenant, seq").await {
            let facts: Option<AuditFacts> = serde_json::from_str(row.text("canonical")).ok();
            if let Some(facts) = &facts {
                histories.entry(facts.payment_id.clone()).or_default().push(facts.clone());
            }
            audit.entry(row.text("tenant").to_owned()).or_default().push(Entry { row, facts });
        }
        let heads = table(&mut ours, "audit_heads", &["tenant", "seq", "chain"], "tenant").await;
        let heads = heads
            .iter()
            .map(|row| (row.text("tenant").to_owned(), (row.int("seq"), row.text("chain").to_owned())))
            .collect();
        let decided = [
            "payment_id",
            "round",
            "signer_id",
            "key_id",
            "choice",
            "document",
            "digest",
            "proof_type",
            "proof",
            "confirmation",
            "via",
            "payment_version",
            "decided_at",
        ];
        let effect = ["outbound_key", "payment_id", "kind", "state", "body", "body_sha256", "attempts", "created_at"];
        let event = ["event_id", "target", "payment_id", "version", "type", "state"];
        let key = ["tenant", "agent", "idempotency_key", "fingerprint", "payment_id", "refusal"];
        let pinned =
            ["tenant", "signer_id", "key_id", "alg", "public_key", "credential_id", "rp_id", "origins", "revoked_at"];
        let decisions = everywhere(&mut ours, "decisions", &decided, "payment_version, decision_id").await;
        let challenges =
            everywhere(&mut ours, "challenges", &["payment_id", "round", "signer_id", "nonce"], "payment_id").await;
        let keys = table(&mut ours, "signer_keys", &pinned, "key_id").await;
        let effects = everywhere(&mut ours, "effects", &effect, "created_at").await;
        let idempotency = table(&mut ours, "idempotency", &key, "created_at").await;
        let outbox = table(&mut ours, "outbox", &event, "event_id").await;

        let mut rail = Raw::file(&format!("sqlite://{}", sources.rail.display())).await;
        let moved = ["transfer_id", "reference", "order_id", "amount_minor", "currency", "payee_account"];
        let entry = ["transfer_id", "account", "direction", "amount_minor", "currency"];
        let transfers = table(&mut rail, "transfers", &moved, "rowid").await;
        let entries = table(&mut rail, "entries", &entry, "rowid").await;
        let seen = ["idempotency_key", "body_sha256", "reference"];
        let requests = table(&mut rail, "requests", &seen, "seq").await;

        let mut signer = Raw::file(&format!("sqlite://{}", sources.signer.display())).await;
        let registered = ["reference", "round", "payload", "payment_digest", "state"];
        let registrations = table(&mut signer, "payments", &registered, "rowid").await;
        let notified = "notifications n JOIN payments p ON p.id = n.payment_id";
        let columns = ["p.reference", "n.round", "n.number"];
        let notifications = table(&mut signer, notified, &columns, "n.rowid").await;
        let mut books = Self {
            payments,
            unreadable,
            archived,
            twice,
            taken,
            wakes,
            audit,
            histories,
            heads,
            decisions,
            challenges,
            keys,
            effects,
            idempotency,
            outbox,
            transfers,
            entries,
            requests,
            registrations,
            notifications,
            policy: sources.policy.clone(),
            targets: sources.targets.clone(),
            told: sources.told.clone(),
            rewound: sources.rewound,
        };
        if sources.strangers {
            books.forget_strangers();
        }
        if sources.rewound {
            for asked in [&mut books.requests, &mut books.registrations, &mut books.notifications] {
                asked.clear();
            }
        }
        books
    }

    fn forget_strangers(&mut self) {
        let ours: BTreeSet<String> = self.wakes.keys().cloned().collect();
        self.transfers.retain(|row| ours.contains(row.text("reference")));
        self.requests.retain(|row| ours.contains(row.text("reference")));
        self.registrations.retain(|row| ours.contains(row.text("reference")));
        self.notifications.retain(|row| ours.contains(row.text("p.reference")));
    }

    pub(crate) fn payment(&self, id: &str) -> Option<&Payment> {
        self.payments.iter().find(|payment| payment.terms.payment_id.as_str() == id)
    }

    /// The readable audit facts about a payment, in order.
    pub(crate) fn history<'a>(&'a self, payment_id: &'a str) -> impl Iterator<Item = &'a AuditFacts> {
        self.histories.get(payment_id).into_iter().flatten()
    }

    /// Those that made a version of it.
    pub(crate) fn changes<'a>(&'a self, payment_id: &'a str) -> impl Iterator<Item = &'a AuditFacts> {
        self.history(payment_id).filter(|facts| !facts.version.is_empty())
    }

    /// Whether two people said that the money moved: then their word stands, not the rail's.
    pub(crate) fn attested(&self, payment_id: &str) -> bool {
        self.history(payment_id).any(|facts| facts.event == "attest_executed.second")
    }

    /// What the rail moved for a payment.
    pub(crate) fn transfers_of<'a>(&'a self, payment_id: &'a str) -> impl Iterator<Item = &'a Row> {
        self.transfers.iter().filter(move |row| row.text("reference") == payment_id)
    }

    /// What was written down before it was sent, of one kind.
    pub(crate) fn effects_of<'a>(&'a self, payment_id: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Row> {
        self.effects.iter().filter(move |row| row.text("payment_id") == payment_id && row.text("kind") == kind)
    }
}

/// Whether the rail may be at it: only then may ledger and payment differ.
pub(crate) fn in_flight(payment: &Payment) -> bool {
    payment.status == Status::Signed && matches!(payment.execution.phase, Phase::Intended | Phase::Unknown)
}
