//! What the journal costs: durable creates and whole payments a second, beside the engine's own commits.
//!
//! `just bench-journal` runs it in the release profile with numbers that mean something, PostgreSQL with `fsync` on,
//! and says what a flush takes there: what group commit could save is a part of that. Among the tests it runs with
//! few, so that it stays true; it asserts what it counted, never how fast.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use countersign::ambient::SystemEntropy;
use countersign::app::{self, Ambient};
use countersign::config::Config;
use countersign::domain::{Choice, Memo, Principal, Reason, Role};
use countersign::journal::{CreateRequest, Journal, Selector, Setup};
use countersign::proof::{Proof, SigningKey, key_id_of, sign_detached};
use futures::future::join_all;

use crate::harness::app::POLICY;
use crate::harness::bare::Bare;
use crate::harness::database::{TestDatabase, TestEngine, engines};
use crate::harness::folder::Folder;
use crate::harness::idle::{InstantRail, NoSigner, NoWebhooks};
use crate::harness::people::enrolment;

/// Work units for each measurement, and the clients that share them.
fn size() -> (usize, &'static [usize]) {
    match std::env::var("COUNTERSIGN_BENCH") {
        Ok(units) => (units.parse().expect("COUNTERSIGN_BENCH is a number of payments"), &[1, 8, 32]),
        Err(_) => (16, &[1, 8]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journals_cost_beside_the_engines_own() {
    let (units, clients) = size();
    let mut table = format!("a flush takes {} µs\n", flush().as_micros());
    table += "engine      clients  two commits/s   creates/s  (share)  payments/s  (share)\n";
    let to_disk = std::env::var_os("COUNTERSIGN_BENCH").is_some();
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        if to_disk {
            writeln!(table, "{engine}: {}", db.durable(true).await).unwrap();
        }
        for &clients in clients {
            let own = bare(engine, units, clients).await;
            let creates = creates(engine, units, clients).await;
            let flows = flows(engine, units, clients).await;
            let name = engine.to_string();
            let (a, b) = (creates / own, flows / own);
            writeln!(
                table,
                "{name:<11} {clients:>7} {own:>14.0} {creates:>11.0}  ({a:>5.2})  {flows:>10.0}  ({b:>5.2})"
            )
            .unwrap();
        }
        if to_disk {
            db.durable(false).await;
        }
    }
    println!("{table}");
}

/// Until a page that is appended to a file is on the disk: the median of a hundred.
fn flush() -> Duration {
    let folder = Folder::new("flush");
    let mut file = std::fs::File::create(folder.join("pages")).unwrap();
    let mut spans: Vec<Duration> = (0..100)
        .map(|_| {
            let begun = Instant::now();
            file.write_all(&[0; 4096]).unwrap();
            file.sync_data().unwrap();
            begun.elapsed()
        })
        .collect();
    spans.sort();
    spans[spans.len() / 2]
}

fn rate(units: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(units).unwrap()) / took.as_secs_f64()
}

/// `units` of `work` by `clients` at once; how many a second.
async fn measured(units: usize, clients: usize, work: impl AsyncFn(usize)) -> f64 {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    join_all((0..clients).map(|_| async {
        loop {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            if unit >= units {
                return;
            }
            work(unit).await;
        }
    }))
    .await;
    rate(units, begun.elapsed())
}

/// The least that an external effect needs of the engine: an insert committed, then an update committed.
async fn bare(engine: TestEngine, units: usize, clients: usize) -> f64 {
    let db = TestDatabase::new(engine).await;
    db.raw().await.execute("CREATE TABLE bare (id BIGINT PRIMARY KEY, state TEXT NOT NULL)").await.unwrap();
    let bare = Bare::open(&db, clients).await;
    let rate = measured(units, clients, async |unit| {
        for statement in ["INSERT INTO bare VALUES ($1, 'intended')", "UPDATE bare SET state = 'done' WHERE id = $1"] {
            bare.commit(&[statement], i64::try_from(unit).unwrap()).await;
        }
    })
    .await;
    bare.close().await;
    rate
}

struct Desk {
    db: TestDatabase,
    journal: Arc<Journal>,
    key: SigningKey,
}

impl Desk {
    /// A journal whose outside answers at once.
    async fn open(engine: TestEngine, clients: usize) -> Self {
        let db = TestDatabase::new(engine).await;
        let key = SigningKey::from_seed(&[1; 32]);
        assert!(enrolment("finance-1", &key).pin(db.store(), &key.public()).await.unwrap());
        let mut config = Config::load(None).unwrap();
        config.database.url = db.url().into();
        config.database.pool_size = u32::try_from(clients).unwrap().max(4);
        "demo-payee-001".clone_into(&mut config.payments.payee_account);
        let ambient = Ambient { clock: Arc::clone(db.clock()) as _, entropy: Arc::new(SystemEntropy) };
        let store = app::open_store(&config, Arc::clone(&ambient.clock)).await.unwrap();
        let rail = Arc::new(InstantRail::default());
        let rules = app::rules(&config, rail.as_ref(), &ambient).unwrap();
        let journal = Arc::new(Journal::new(Setup {
            store,
            signer: Arc::new(NoSigner),
            rail,
            presence: None,
            webhooks: Arc::new(NoWebhooks),
            clock: ambient.clock,
            entropy: ambient.entropy,
            policy: app::parse_policy(POLICY).unwrap(),
            rules,
        }));
        Self { db, journal, key }
    }

    async fn create(&self, unit: usize) {
        let request = CreateRequest {
            order_id: format!("order-{unit}").parse().unwrap(),
            amount: "199.00".to_owned(),
            currency: None,
            payee: None,
            memo: Memo::parse("memo", "").unwrap(),
            wish: Vec::new(),
            key: None,
            supersedes: None,
        };
        self.journal.create(&principal("agent-1", Role::Agent), request).await.unwrap();
    }

    async fn sign(&self, unit: usize) {
        let selector = Selector::Order(format!("order-{unit}").parse().unwrap());
        let signer = principal("finance-1", Role::Signer);
        let approval = self.journal.approval(&signer, &selector, Choice::Approve, "").await.unwrap();
        let jws = sign_detached(&self.key, &key_id_of(&self.key.public()), &approval.forms[0].document).unwrap();
        let reason = Reason::parse("reason", "").unwrap();
        self.journal.decide_as(&signer, &selector, Choice::Approve, reason, Proof::Jws(jws)).await.unwrap();
    }

    async fn count(&self, status: &str) -> usize {
        let sql = format!("SELECT CAST(COUNT(*) AS TEXT) FROM payments WHERE status = '{status}'");
        self.db.raw().await.texts(&sql).await[0].parse().unwrap()
    }
}

fn principal(name: &str, role: Role) -> Principal {
    Principal {
        tenant: "default".parse().unwrap(),
        client: name.parse().unwrap(),
        subject: name.to_owned(),
        roles: [role].into(),
        scopes: std::collections::BTreeSet::new(),
    }
}

async fn creates(engine: TestEngine, units: usize, clients: usize) -> f64 {
    let desk = Box::pin(Desk::open(engine, clients)).await;
    let rate = measured(units, clients, async |unit| desk.create(unit).await).await;
    assert_eq!(desk.count("CREATED").await, units);
    rate
}

/// Create, sign, carry out: until the last is `EXECUTED`.
async fn flows(engine: TestEngine, units: usize, clients: usize) -> f64 {
    let desk = Box::pin(Desk::open(engine, clients)).await;
    let begun = Instant::now();
    measured(units, clients, async |unit| {
        desk.create(unit).await;
        desk.sign(unit).await;
        desk.journal.tick().await.unwrap();
    })
    .await;
    while desk.count("EXECUTED").await < units {
        desk.journal.tick().await.unwrap();
    }
    rate(units, begun.elapsed())
}
