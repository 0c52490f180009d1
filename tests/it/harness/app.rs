//! A whole payment desk for a test: gateway, reference signer service and sandbox rail over real HTTP.
//!
//! ```text
//! each(async |app: &mut App| {
//!     let created = app.create("order-1").await;
//!     …
//! })
//! .await;
//! ```
//!
//! [`each`] runs the test on every engine and, when it is done, checks what must hold after any
//! history ([`super::judge`]). The worker's loop is off: a test lets it work by [`App::settle`],
//! and time passes by [`App::pass`], never by sleeping.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use countersign::adapters::RailClient;
use countersign::ambient::{Clock as _, ShiftedClock, SystemEntropy};
use countersign::app::{self, open_store, parse_policy};
use countersign::config::Config;
use countersign::domain::{Payment, Role};
use countersign::http::auth::{Grant, Mint};
use countersign::journal::ports::RailPort;
use countersign::journal::{Journal, Rules, Setup};
use countersign::proof::{SigningKey, key_id_of, sign_detached};
use countersign::sandbox::Sandbox;
use countersign::signer::{SignerService, SignerSettings};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::database::{TestDatabase, TestEngine, engines};
use super::folder::Folder;
use super::judge::{Did, Sources, acquitted};
use super::peer::Peer;
use super::people::{enrol, enrolment, listed};
use super::rpc::{Answer, Rpc};
pub(crate) use super::wishes::Wishes;
use super::wishes::{ambient, build, signer_client};

pub(crate) const ISSUER: &str = "https://issuer.test.invalid";
pub(crate) const SIGNER_API_KEY: &str = "signer-api-key-for-tests";
pub(crate) const RAIL_API_KEY: &str = "rail-api-key-for-tests";
pub(crate) const CALLBACK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr";
pub(crate) const POLICY: &str = include_str!("../../../config/policy.toml");
/// People with keys, of whom the default policy asks the first two.
pub(crate) const PEOPLE: [&str; 6] = ["finance-1", "finance-2", "stranger-1", "finance-3", "board-1", "board-2"];

/// Two people of the group must approve.
pub(crate) fn two_must_approve() -> Wishes {
    Wishes::default().policy(POLICY.replace("required = 1", "required = 2"))
}

/// Runs a test on each engine.
pub(crate) async fn each(body: impl AsyncFn(&mut App)) {
    each_with(Wishes::default(), body).await;
}

/// Runs a test on each engine, with wishes. The engines take turns at every wait.
pub(crate) async fn each_with(wishes: Wishes, body: impl AsyncFn(&mut App)) {
    futures::future::join_all(engines().into_iter().map(|engine| on(engine, wishes.clone(), &body))).await;
}

/// Runs a test on one engine, for what the other does not have.
pub(crate) async fn only(engine: TestEngine, wishes: Wishes, body: impl AsyncFn(&mut App)) {
    if engines().contains(&engine) {
        on(engine, wishes, &body).await;
    }
}

/// Runs a test on one engine after the other, for what belongs to the whole thread.
pub(crate) async fn each_in_turn(wishes: Wishes, body: impl AsyncFn(&mut App)) {
    for engine in engines() {
        on(engine, wishes.clone(), &body).await;
    }
}

/// Runs a test on one engine, and says on which it failed.
async fn on(engine: TestEngine, wishes: Wishes, body: &impl AsyncFn(&mut App)) {
    let run = Box::pin(async {
        let mut app = Box::pin(App::start(engine, wishes)).await;
        Box::pin(body(&mut app)).await;
        Box::pin(app.finish()).await;
    });
    if let Err(panic) = AssertUnwindSafe(run).catch_unwind().await {
        eprintln!("this was on {engine}");
        resume_unwind(panic);
    }
}

/// The desk and its peers.
pub(crate) struct App {
    pub(crate) db: TestDatabase,
    pub(crate) clock: Arc<ShiftedClock>,
    pub(crate) rail: Peer,
    pub(crate) signer: Peer,
    pub(crate) pages: String,
    pub(crate) signer_service: SignerService,
    pub(crate) config: Config,
    pub(crate) journal: Arc<Journal>,
    pub(crate) mint: Mint,
    pub(crate) http: reqwest::Client,
    wishes: Wishes,
    keys: BTreeMap<&'static str, SigningKey>,
    sandbox: Sandbox,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    pub(crate) did: Did,
    finished: bool,
    /// Dropped last: the services' files are in it.
    folder: Folder,
}

impl App {
    /// A fresh desk on a fresh database of `engine`.
    pub(crate) async fn start(engine: TestEngine, wishes: Wishes) -> Self {
        let db = TestDatabase::new(engine).await;
        let clock = Arc::clone(db.clock());
        let folder = Folder::new("app");
        let mint = Mint::from_seed(&[7; 32]);
        std::fs::write(folder.join("jwks.json"), mint.jwks()).unwrap();
        let keys: BTreeMap<&'static str, SigningKey> =
            (1_u8..).zip(PEOPLE).map(|(n, person)| (person, SigningKey::from_seed(&[n; 32]))).collect();

        let (rail_socket, _) = Peer::bind().await;
        let sandbox = Sandbox::open(
            &folder.join("rail.db"),
            RAIL_API_KEY.into(),
            Arc::clone(&clock) as _,
            Arc::new(SystemEntropy),
        )
        .await
        .unwrap();
        let rail = Peer::serve(rail_socket, sandbox.router());

        let (signer_socket, signer_address) = Peer::bind().await;
        let pages = wishes.pages(signer_address);
        let settings = SignerSettings {
            database: folder.join("signer.db"),
            api_key: SIGNER_API_KEY.into(),
            callback_secret: CALLBACK_SECRET.into(),
            public_url: pages.clone(),
            directory: listed(&keys, &wishes),
            reaching: wishes.reaching.clone(),
            link_ttl: Duration::from_mins(15),
            presence_switch: true,
        };
        let signer_service =
            SignerService::open(settings, Arc::clone(&clock) as _, Arc::new(SystemEntropy)).await.unwrap();
        let signer = Peer::serve(signer_socket, signer_service.router());

        let (socket, address) = Peer::bind().await;
        let mut config = Config::load(None).unwrap();
        config.server.listen = address.to_string();
        config.server.public_url = format!("http://{address}");
        config.server.calls_per_minute = 1_000_000;
        config.server.calls_burst = 1_000_000;
        config.server.drain_ms = 200;
        config.database.url = db.url().into();
        config.database.pool_size = 6;
        ISSUER.clone_into(&mut config.auth.issuer);
        config.auth.jwks_file = folder.join("jwks.json").display().to_string();
        "demo-payee-001".clone_into(&mut config.payments.payee_account);
        config.worker.enabled = false;
        config.signer.url = signer.url();
        config.signer.api_key = SIGNER_API_KEY.into();
        config.signer.callback_secret = CALLBACK_SECRET.into();
        config.rail.url = rail.url();
        config.rail.api_key = RAIL_API_KEY.into();
        (config.signer.connect_timeout_ms, config.rail.connect_timeout_ms) = (300, 300);
        let (read, total) = wishes.spans.unwrap_or((1_500, 2_500));
        (config.signer.read_timeout_ms, config.rail.read_timeout_ms) = (read, read);
        (config.signer.total_timeout_ms, config.rail.total_timeout_ms) = (total, total);
        // What each kind of trouble leads to is seen only while every call goes out; flow_breaker opts in.
        (config.signer.breaker_failures, config.rail.breaker_failures) = (0, 0);
        if let Some(change) = &wishes.config {
            change(&mut config);
        }
        config.check().unwrap();

        enrol(&db, &keys).await;
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .timeout(Duration::from_secs(30))
            .build()
            .unwrap();
        let (journal, running) = build(&config, &wishes, &clock, socket).await;
        Self {
            db,
            clock,
            rail,
            signer,
            pages,
            signer_service,
            config,
            journal,
            mint,
            http,
            wishes,
            keys,
            sandbox,
            running: Some(running),
            did: Did::default(),
            finished: false,
            folder,
        }
    }

    /// Ends the gateway as a stop does, and starts another on the same database and address.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        let socket = TcpListener::bind(&self.config.server.listen).await.unwrap();
        let (journal, running) = build(&self.config, &self.wishes, &self.clock, socket).await;
        self.journal = journal;
        self.running = Some(running);
    }

    /// Starts anew with every port as it should be.
    pub(crate) async fn behave(&mut self) {
        self.wishes.signer = None;
        self.restart().await;
    }

    /// Stops the gateway.
    pub(crate) async fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            task.await.unwrap();
        }
    }

    /// A journal as another process on the same database would have; `rail` may be scripted.
    pub(crate) async fn another(&self, rail: Option<Arc<dyn RailPort>>) -> Arc<Journal> {
        self.another_under(self.policy(), rail).await
    }

    /// The same, with a policy of its own.
    pub(crate) async fn another_under(&self, policy: &str, rail: Option<Arc<dyn RailPort>>) -> Arc<Journal> {
        let ambient = ambient(&self.clock);
        let store = open_store(&self.config, Arc::clone(&ambient.clock)).await.unwrap();
        let rail = rail.unwrap_or_else(|| self.real_rail());
        let policy = parse_policy(policy).unwrap();
        let finished_after = self.config.finished_after(policy.looks_back()).unwrap();
        let rules = Rules { finished_after, ..app::rules(&self.config, rail.as_ref(), &ambient).unwrap() };
        let signer = signer_client(&self.config, &ambient);
        Arc::new(Journal::new(Setup {
            store,
            signer,
            rail,
            presence: None,
            webhooks: app::webhooks(&self.config, &ambient).await.unwrap(),
            clock: ambient.clock,
            entropy: ambient.entropy,
            policy,
            rules,
        }))
    }

    /// The real adapter of the sandbox rail.
    pub(crate) fn real_rail(&self) -> Arc<dyn RailPort> {
        Arc::new(RailClient::from_config(&self.config, Arc::clone(&self.clock) as _, Arc::new(SystemEntropy)).unwrap())
    }

    pub(crate) fn policy(&self) -> &str {
        self.wishes.policy.as_deref().unwrap_or(POLICY)
    }

    /// From the next restart on, another policy.
    pub(crate) fn change_policy(&mut self, text: String) {
        self.wishes.policy = Some(text);
        self.did.change_policy = true;
    }

    // Tokens.

    /// A token with exactly this in it, good for an hour of the test's time.
    pub(crate) fn token(&self, tenant: &str, subject: &str, client: &str, roles: &[Role]) -> String {
        self.mint.token(&Grant {
            issuer: ISSUER,
            audience: &self.config.audience(),
            subject,
            tenant,
            client,
            roles,
            scope: "",
            issued_at: self.clock.now(),
            valid_for: Duration::from_hours(1),
        })
    }

    pub(crate) fn agent(&self) -> String {
        self.token("default", "agent-1", "agent-1", &[Role::Agent])
    }

    pub(crate) fn other_agent(&self) -> String {
        self.token("default", "agent-2", "agent-2", &[Role::Agent])
    }

    pub(crate) fn signer_token(&self, person: &str) -> String {
        self.token("default", person, person, &[Role::Signer])
    }

    pub(crate) fn operator(&self) -> String {
        self.token("default", "operator-1", "operator-1", &[Role::Operator])
    }

    /// Another person of the staff.
    pub(crate) fn operator_named(&self, person: &str) -> String {
        self.token("default", person, person, &[Role::Operator])
    }

    pub(crate) fn auditor(&self) -> String {
        self.token("default", "auditor-1", "auditor-1", &[Role::Auditor])
    }

    // Calls.

    /// The MCP endpoint, for raw messages.
    pub(crate) fn rpc(&self) -> Rpc {
        Rpc::new(self.http.clone(), format!("{}/mcp", self.config.server.public_url))
    }

    /// Calls a tool and checks the answer's form.
    pub(crate) async fn call(&self, token: &str, tool: &str, arguments: Value) -> Answer {
        self.rpc().call(token, tool, arguments).await
    }

    /// The smallest create: order, amount, signer.
    pub(crate) async fn create(&self, order: &str) -> Answer {
        let arguments = json!({"order_id": order, "amount": "199.00", "signer_id": "finance-1"});
        self.call(&self.agent(), "create_payment", arguments).await
    }

    pub(crate) async fn notify(&self, order: &str) -> Answer {
        self.call(&self.agent(), "notify_signer", json!({"order_id": order})).await
    }

    /// Creates a payment and has its signers notified.
    pub(crate) async fn awaiting(&self, order: &str) -> String {
        let payment = self.create(order).await.text("payment_id").to_owned();
        assert_eq!(self.notify(order).await.status(), "AWAITING_SIGNER");
        payment
    }

    /// Creates a payment and has it signed; nothing is executed yet.
    pub(crate) async fn signed(&self, order: &str) -> String {
        let payment = self.awaiting(order).await;
        assert_eq!(self.sign(order).await.status(), "SIGNED");
        payment
    }

    /// What the agent is told of an order.
    pub(crate) async fn status(&self, order: &str) -> Answer {
        let answer = self.call(&self.agent(), "get_payment_status", json!({"order_id": order})).await;
        let bytes = answer.body.to_string().len();
        assert!(bytes <= 1024, "a status answer of {bytes} bytes: {}", answer.body);
        answer
    }

    pub(crate) async fn cancel(&self, order: &str) -> Answer {
        self.call(&self.agent(), "cancel_payment", json!({"order_id": order})).await
    }

    pub(crate) async fn resend(&self, order: &str) -> Answer {
        self.call(&self.operator(), "resend_notification", json!({"order_id": order})).await
    }

    // Signing.

    pub(crate) fn key(&self, person: &str) -> &SigningKey {
        &self.keys[person]
    }

    pub(crate) fn key_id(&self, person: &str) -> String {
        key_id_of(&self.key(person).public())
    }

    /// The document that `person` would sign.
    pub(crate) async fn document(&self, person: &str, order: &str, decision: &str, reason: &str) -> String {
        let arguments = json!({"order_id": order, "decision": decision, "reason": reason});
        let approval = self.call(&self.signer_token(person), "get_approval", arguments).await;
        assert!(!approval.is_error, "{}", approval.body);
        approval.body["to_sign"][0]["decision_document"].as_str().unwrap().to_owned()
    }

    /// A signature of `person`'s over `document`.
    pub(crate) fn jws(&self, person: &str, document: &str) -> String {
        sign_detached(self.key(person), &self.key_id(person), document).unwrap()
    }

    pub(crate) async fn confirm(&self, person: &str, order: &str, jws: &str) -> Answer {
        let arguments = json!({"order_id": order, "signature": jws});
        self.call(&self.signer_token(person), "confirm_signing", arguments).await
    }

    /// `finance-1` sees the order's payment and approves it.
    pub(crate) async fn sign(&self, order: &str) -> Answer {
        self.sign_as("finance-1", order).await
    }

    pub(crate) async fn sign_as(&self, person: &str, order: &str) -> Answer {
        let document = self.document(person, order, "approve", "").await;
        self.confirm(person, order, &self.jws(person, &document)).await
    }

    pub(crate) async fn reject(&self, person: &str, order: &str, reason: &str) -> Answer {
        let document = self.document(person, order, "reject", reason).await;
        let arguments = json!({"order_id": order, "signature": self.jws(person, &document), "reason": reason});
        self.call(&self.signer_token(person), "reject_signing", arguments).await
    }

    /// Sends a decision through the sign page, as a browser would; the status of the page's answer.
    pub(crate) async fn decide_on_page(&self, order: &str, document: &str, jws: &str) -> u16 {
        let link = self.call(&self.agent(), "get_sign_link", json!({"order_id": order})).await;
        let url = format!("{}/decisions", link.text("sign_url"));
        let decision = json!({"document": document, "jws": jws});
        self.http.post(url).json(&decision).send().await.unwrap().status().as_u16()
    }

    /// Sets whether `finance-1` can be reached.
    pub(crate) async fn signer_online(&self, online: bool) {
        for person in ["finance-1", "finance-2"] {
            self.presence(person, online).await;
        }
    }

    /// Sets whether a person can be reached.
    pub(crate) async fn presence(&self, person: &str, online: bool) {
        let url = format!("{}/api/v1/signers/{person}/presence", self.signer.url());
        let request = self.http.put(url).bearer_auth(SIGNER_API_KEY).json(&json!({"online": online}));
        assert_eq!(request.send().await.unwrap().status(), 200);
    }

    /// The signer service sends the callbacks that are due; how many.
    pub(crate) async fn deliver_callbacks(&self) -> usize {
        self.signer_service.tick().await.unwrap()
    }

    pub(crate) async fn revoke_key(&self, person: &'static str) {
        enrolment(person, &self.keys[person]).revoke(self.db.store()).await.unwrap();
    }

    // Time and the worker.

    /// The worker does what is due, until nothing is.
    pub(crate) async fn settle(&self) {
        settle(&self.journal).await;
    }

    /// Time passes, and the worker does what came due.
    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.advance(i64::try_from(time.as_micros()).unwrap());
        self.settle().await;
    }

    /// Moves the clock to whatever is due next, and lets the worker do it.
    pub(crate) async fn next_due(&self) {
        let (due, now) = self.db.store().next_due().await.unwrap();
        let due = due.expect("something is due some time");
        // A row whose time has come already waits for a lease to end.
        let wait = if due > now { due.since(now) } else { Duration::from_millis(self.config.worker.lease_ms) };
        self.pass(wait + Duration::from_millis(1)).await;
    }

    /// Lets time pass, from one due moment to the next, until the order is in `status`.
    pub(crate) async fn until(&self, order: &str, status: &str) {
        for _ in 0..60 {
            if self.payment(order).await.status.as_str() == status {
                return;
            }
            self.next_due().await;
        }
        panic!("{order} is {:?} and does not become {status}", self.payment(order).await.status);
    }

    // What there is.

    /// The order's latest payment as it is stored.
    pub(crate) async fn payment(&self, order: &str) -> Payment {
        let mut session = self.db.store().read().await.unwrap();
        session.payment_by_order("default", order).await.unwrap().expect("the order has a payment")
    }

    /// What the rail's ledger says of a payment.
    pub(crate) async fn ledger(&self, payment_id: &str) -> Value {
        let url = format!("{}/sandbox/ledger?reference={payment_id}", self.rail.url());
        self.http.get(url).bearer_auth(RAIL_API_KEY).send().await.unwrap().json().await.unwrap()
    }

    /// How often money moved for a payment.
    pub(crate) async fn executions(&self, payment_id: &str) -> u64 {
        self.ledger(payment_id).await["executions"].as_u64().unwrap()
    }

    /// How many transfers were asked of the rail for a payment.
    pub(crate) async fn requests(&self, payment_id: &str) -> u64 {
        self.ledger(payment_id).await["requests"].as_u64().unwrap()
    }

    /// The signer service's own database, as whoever has taken the service over has it.
    pub(crate) async fn signer_db(&self) -> super::database::Raw {
        super::database::Raw::file(&format!("sqlite://{}", self.folder.join("signer.db").display())).await
    }

    /// Whom the signer service was told to reach for a payment, notification by notification.
    pub(crate) async fn asked(&self, payment_id: &str) -> Vec<Vec<String>> {
        let sql = format!(
            "SELECT signers FROM notifications n JOIN payments p ON p.id = n.payment_id \
             WHERE p.reference = '{payment_id}' ORDER BY n.round, n.number"
        );
        self.signer_db().await.texts(&sql).await.iter().map(|signers| serde_json::from_str(signers).unwrap()).collect()
    }

    /// Tells the rail to misbehave.
    pub(crate) async fn faults(&self, faults: Value) {
        let url = format!("{}/sandbox/faults", self.rail.url());
        let answer = self.http.put(url).bearer_auth(RAIL_API_KEY).json(&faults).send().await.unwrap();
        assert!(answer.status().is_success(), "{faults}: {}", answer.status());
    }

    /// The rail's next transfer goes wrong like this.
    pub(crate) async fn next_fault(&self, kind: &str) {
        self.faults(json!({"next": [{"kind": kind}]})).await;
    }

    /// The audited events of the default tenant, in order: event, reason, actor.
    pub(crate) async fn audit(&self) -> Vec<countersign::proof::AuditFacts> {
        let mut session = self.db.store().read().await.unwrap();
        let rows = session.audit_entries("default", 0, 100_000).await.unwrap();
        rows.iter().map(|row| serde_json::from_str(&row.canonical).unwrap()).collect()
    }

    /// How often an event was audited with this reason.
    pub(crate) async fn audited(&self, event: &str, reason: &str) -> usize {
        self.audit().await.iter().filter(|facts| facts.event == event && facts.reason == reason).count()
    }

    /// How often an event was audited.
    pub(crate) async fn audited_events(&self, event: &str) -> usize {
        self.audit().await.iter().filter(|facts| facts.event == event).count()
    }

    /// How many rows a table has.
    pub(crate) async fn rows(&self, table: &str) -> usize {
        self.db.raw().await.texts(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}")).await[0].parse().unwrap()
    }
    // The end.

    /// What the judge goes by.
    pub(crate) fn books(&self) -> Sources<'_> {
        Sources {
            db: &self.db,
            rail: self.folder.join("rail.db"),
            signer: self.folder.join("signer.db"),
            policy: (!self.did.change_policy).then(|| parse_policy(self.policy()).unwrap()),
            targets: (!self.did.change_targets).then(|| self.config.webhooks.targets.clone()),
            told: None,
            strangers: self.did.others_at_the_peers,
            rewound: self.did.rewind,
        }
    }

    /// Ends the test: everything that must hold after any history is checked.
    pub(crate) async fn finish(mut self) {
        acquitted(&self.books()).await;
        self.stop().await;
        self.signer.down().await;
        self.rail.down().await;
        self.sandbox.close().await;
        self.finished = true;
    }
}

impl Drop for App {
    fn drop(&mut self) {
        assert!(self.finished || std::thread::panicking(), "a test must end with App::finish");
    }
}

/// Ticks until nothing is due.
pub(crate) async fn settle(journal: &Journal) {
    for _ in 0..200 {
        if journal.tick().await.unwrap().claimed == 0 {
            return;
        }
    }
    panic!("the worker does not come to rest");
}
