//! A payment desk of real processes on loopback, which a test kills as it likes.
//!
//! ```text
//! let mut desk = Desk::open(Plan::new(engine).processes(3, 2)).await;   // 3 × serve, 2 × worker
//! desk.propose("order-1").await;                       // tried until it is answered
//! desk.kill(Part::Serve(0)).await;                     // SIGKILL; also stop, freeze, thaw
//! desk.start(Part::Serve(0)).await;
//! desk.countersign("order-1").await;
//! assert!(desk.comes_to_rest(Duration::from_secs(20)).await.is_empty());
//! desk.finish().await;                                 // judged; and nobody may have panicked
//! ```
//!
//! Signer service and rail are processes too; the receiver of events is a [`Sink`] in the test's own.
//! Everything is on true time: spans are short ([`LEASE_MS`]), and a test waits for what it speaks of.
//! To put a faulty wire before a service: [`Desk::prepare`], [`Desk::through`], then [`Desk::start_all`].
//! Each process's standard error is kept; when a test fails, its end is shown.

mod client;
mod plan;
mod process;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::app::parse_policy;
use countersign::http::auth::Mint;
use countersign::proof::SigningKey;

pub(crate) use client::{Callers, LARGE, Obstacle, OrderRow, SMALL, key_of, some_key_of};
pub(crate) use plan::{CALL_MS, LEASE_MS, NOBODY, Plan};
pub(crate) use process::{Process, program, signal};

use super::app::PEOPLE;
use super::database::{Raw, TestDatabase};
use super::folder::Folder;
use super::judge::{Books, Breach, Sources, verdict};
use super::peer::Peer;
use super::people::enrolment;
use super::sink::Sink;

/// One of a desk's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    Signer,
    Rail,
    Serve(usize),
    Worker(usize),
}

/// A way from gateways and workers to somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Signer,
    Rail,
    Sink,
}

/// Where everybody listens, as `host:port`; a link differs from its end when a wire is between.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    pub(crate) signer: String,
    pub(crate) rail: String,
    pub(crate) sink: String,
    pub(crate) serves: Vec<String>,
    workers: Vec<String>,
    signer_link: String,
    rail_link: String,
    sink_link: String,
}

impl Addresses {
    fn target(&self) -> String {
        format!("http://{}/hooks", self.sink_link)
    }
}

/// A port that is free now.
async fn free() -> String {
    Peer::bind().await.1.to_string()
}

/// The desk. It is its own [`Callers`] too; a clone of them calls from another task.
pub(crate) struct Desk {
    pub(crate) callers: Arc<Callers>,
    pub(crate) sink: Sink,
    pub(crate) at: Addresses,
    plan: Plan,
    policy_changed: bool,
    parts: BTreeMap<Part, Process>,
    /// Dropped last: everybody's files are in it.
    folder: Folder,
}

impl Desk {
    /// A desk on a fresh database, all of whose processes are ready.
    pub(crate) async fn open(plan: Plan) -> Self {
        let mut desk = Self::prepare(plan).await;
        desk.start_all().await;
        desk
    }

    /// A desk of which nothing runs yet.
    pub(crate) async fn prepare(plan: Plan) -> Self {
        let db = TestDatabase::new(plan.engine).await;
        Self::prepare_on(plan, db).await
    }

    /// The same on a database that there is.
    pub(crate) async fn prepare_on(plan: Plan, db: TestDatabase) -> Self {
        let folder = Folder::new("desk");
        let mint = Mint::from_seed(&[7; 32]);
        plan.write(&folder, &mint.jwks(), &PEOPLE);
        let keys: BTreeMap<&'static str, SigningKey> =
            (1_u8..).zip(PEOPLE).map(|(n, person)| (person, SigningKey::from_seed(&[n; 32]))).collect();
        for (person, key) in &keys {
            std::fs::write(folder.join(format!("{person}.pem")), key.public().to_pem().unwrap()).unwrap();
            assert!(enrolment(person, key).pin(db.store(), &key.public()).await.unwrap());
        }
        let sink = Sink::new().await;
        let (signer, rail) = (free().await, free().await);
        let mut at = Addresses {
            signer_link: signer.clone(),
            rail_link: rail.clone(),
            sink_link: sink.place(),
            sink: sink.place(),
            signer,
            rail,
            serves: Vec::new(),
            workers: Vec::new(),
        };
        for _ in 0..plan.serves {
            at.serves.push(free().await);
        }
        for _ in 0..plan.workers {
            at.workers.push(free().await);
        }
        let http = reqwest::Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0)
            .connect_timeout(Duration::from_secs(2))
            .timeout(Duration::from_secs(10))
            .build()
            .unwrap();
        let (serves, rail, signer) = (at.serves.clone(), at.rail.clone(), at.signer.clone());
        let callers = Arc::new(Callers {
            db: Arc::new(db),
            mint,
            http,
            keys,
            serves,
            rail,
            signer,
            turn: AtomicUsize::new(0),
            obstacles: Mutex::default(),
        });
        Self { callers, sink, at, plan, policy_changed: false, parts: BTreeMap::new(), folder }
    }

    /// From the next start on, gateways and workers reach `link` at `address`.
    pub(crate) fn through(&mut self, link: Link, address: impl ToString) {
        let place = match link {
            Link::Signer => &mut self.at.signer_link,
            Link::Rail => &mut self.at.rail_link,
            Link::Sink => &mut self.at.sink_link,
        };
        *place = address.to_string();
    }

    /// Starts everything that the plan has, the services first, and waits until all are ready.
    pub(crate) async fn start_all(&mut self) {
        self.start(Part::Rail).await;
        self.start(Part::Signer).await;
        for part in self.gateways() {
            self.start(part).await;
        }
    }

    /// The gateways and the workers.
    pub(crate) fn gateways(&self) -> Vec<Part> {
        let serves = (0..self.plan.serves).map(Part::Serve);
        serves.chain((0..self.plan.workers).map(Part::Worker)).collect()
    }

    /// Starts a process that does not run, and waits until it is ready.
    pub(crate) async fn start(&mut self, part: Part) {
        self.launch(part, &[]);
        assert!(self.ready(part, Duration::from_secs(20)).await, "{part:?} does not start: {}", self.said(part));
    }

    /// Starts a process that does not run, with more environment for this one life; does not wait.
    pub(crate) fn launch(&mut self, part: Part, more: &[(&str, String)]) {
        let more: Vec<_> = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        // Made anew, because a link may have moved; its log goes on.
        if let Some(mut old) = self.parts.remove(&part) {
            assert!(!old.runs(), "{part:?} runs already");
        }
        let mut process = self.process(part);
        process.start(&more);
        self.parts.insert(part, process);
    }

    /// Whether a process answers as ready within `patience`.
    pub(crate) async fn ready(&mut self, part: Part, patience: Duration) -> bool {
        let http = self.http.clone();
        self.part(part).ready(&http, patience).await
    }

    fn process(&self, part: Part) -> Process {
        let mut ours = self.plan.environment(&self.folder, self.db.url(), &self.at);
        let [signer, rail] = Plan::services(&self.folder, &self.at);
        let log = [("COUNTERSIGN__TELEMETRY__LOG".to_owned(), "warn".to_owned())].to_vec();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        ours.push(("COUNTERSIGN_CRASH_PLAN".to_owned(), self.crash_plan().display().to_string()));
        let (name, arguments, environment, address) = match part {
            Part::Signer => ("signer".to_owned(), signer, log, &self.at.signer),
            Part::Rail => ("rail".to_owned(), rail, log, &self.at.rail),
            Part::Serve(number) => {
                let address = &self.at.serves[number];
                ours.push(("COUNTERSIGN__SERVER__LISTEN".to_owned(), address.clone()));
                let arguments: &[&str] = if self.plan.serve_works { &["serve"] } else { &["serve", "--no-worker"] };
                (format!("serve-{number}"), words(arguments), ours, address)
            }
            Part::Worker(number) => {
                let address = &self.at.workers[number];
                (format!("worker-{number}"), words(&["worker", "--health", address]), ours, address)
            }
        };
        let log = self.folder.join(format!("{name}.log"));
        Process::new(name, arguments, environment, log, format!("http://{address}/healthz"))
    }

    /// A process that was started.
    pub(crate) fn part(&mut self, part: Part) -> &mut Process {
        self.parts.get_mut(&part).unwrap_or_else(|| panic!("{part:?} was never started"))
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self, part: Part) {
        self.part(part).kill().await;
    }

    /// SIGTERM; it must end by itself, in order and in time.
    pub(crate) async fn stop(&mut self, part: Part) {
        let process = self.part(part);
        if process.runs() {
            process.signal("TERM");
            let status = process.ended(Duration::from_secs(15)).await;
            assert!(status.is_some_and(|status| status.success()), "{part:?} ended {status:?}: {}", self.said(part));
        }
    }

    /// SIGSTOP: it holds its connections and does nothing.
    pub(crate) fn freeze(&mut self, part: Part) {
        self.part(part).signal("STOP");
    }

    /// SIGCONT.
    pub(crate) fn thaw(&mut self, part: Part) {
        self.part(part).signal("CONT");
    }

    /// The end of what a process said.
    pub(crate) fn said(&self, part: Part) -> String {
        let said = self.parts.get(&part).map(Process::said).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// From the next start on, gateways and workers go by another policy; limits are judged no more.
    pub(crate) fn change_policy(&mut self, text: impl Into<String>) {
        self.plan.policy = text.into();
        self.policy_changed = true;
        std::fs::write(self.folder.join("policy.toml"), &self.plan.policy).unwrap();
    }

    /// The file that tells gateways and workers where to die: one line, as `countersign::crash` reads it.
    pub(crate) fn crash_plan(&self) -> PathBuf {
        self.folder.join("crash-plan")
    }

    /// The rail's file.
    pub(crate) async fn rail_book(&self) -> Raw {
        Raw::file(&format!("sqlite://{}", self.folder.join("rail.db").display())).await
    }

    /// The signer service's file.
    pub(crate) async fn signer_book(&self) -> Raw {
        Raw::file(&format!("sqlite://{}", self.folder.join("signer.db").display())).await
    }

    // The end.

    /// What the judge goes by.
    pub(crate) fn books(&self) -> Sources<'_> {
        Sources {
            db: &self.db,
            rail: self.folder.join("rail.db"),
            signer: self.folder.join("signer.db"),
            policy: (!self.policy_changed).then(|| parse_policy(&self.plan.policy).unwrap()),
            targets: Some(vec![self.at.target()]),
            told: Some(self.sink.seen().iter().map(super::sink::Seen::id).collect()),
            strangers: false,
            rewound: false,
        }
    }

    /// Every breach of an invariant up to now. Gateways and workers stand still meanwhile, so that the books
    /// are of one moment.
    pub(crate) async fn judged(&mut self) -> Vec<Breach> {
        self.judged_and(async |_| ()).await.0
    }

    /// The same, and what `look` sees of the desk at that very moment, before anyone goes on.
    pub(crate) async fn judged_and<T>(&mut self, look: impl AsyncFnOnce(&Self) -> T) -> (Vec<Breach>, T) {
        let running: Vec<Part> = self.gateways().into_iter().filter(|part| self.runs(*part)).collect();
        for part in &running {
            self.freeze(*part);
        }
        if !running.is_empty() {
            self.db.quiet().await;
        }
        let books = Books::read(&self.books()).await;
        let seen = look(self).await;
        for part in &running {
            self.thaw(*part);
        }
        (verdict(&books), seen)
    }

    fn runs(&mut self, part: Part) -> bool {
        self.parts.get_mut(&part).is_some_and(Process::runs)
    }

    /// Which processes panicked, and their words.
    pub(crate) fn panics(&self) -> Vec<String> {
        let panicked = |process: &Process| {
            let said = process.said();
            let line = said.lines().find(|line| line.contains("panicked"))?;
            Some(format!("{}: {line}", process.name))
        };
        self.parts.values().filter_map(panicked).collect()
    }

    /// Stops everybody in order, then holds that nothing is broken and that nobody panicked.
    pub(crate) async fn finish(mut self) {
        for part in self.gateways() {
            self.stop(part).await;
        }
        let (breaches, panics) = (self.judged().await, self.panics());
        let lines: Vec<String> = breaches.iter().map(ToString::to_string).chain(panics).collect();
        assert!(lines.is_empty(), "on {}:\n{}", self.db.engine(), lines.join("\n"));
    }
}

impl Deref for Desk {
    type Target = Callers;

    fn deref(&self) -> &Callers {
        &self.callers
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for part in self.parts.keys() {
                eprintln!("--- {part:?}\n{}", self.said(*part));
            }
        }
        // Killed with their handles; the folder goes after them.
        self.parts.clear();
    }
}
