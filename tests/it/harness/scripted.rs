//! Ports that do as a test says: they wait, panic, or hand on to the real adapter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign::domain::SignerId;
use countersign::journal::ports::{
    Answer, Cause, Lookup, Notified, Outcome, RailCaps, RailPort, RailReceipt, Recorded, Registered, Registration,
    SignLink, SignerPort, SignerStatus, Transfer, Trouble, Verdicts,
};
use futures::future::BoxFuture;
use tokio::sync::Semaphore;

/// What a scripted rail does with an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execution {
    /// The money moves, and the answer never comes.
    PaysAndNeverAnswers,
    /// Nothing is sent, and it never returns.
    NeverSends,
    /// The money moves at once; the answer comes when [`ScriptedRail::answer`] is called.
    AnswersWhenTold,
    /// Nothing is sent; that its time had passed is said when [`ScriptedRail::answer`] is called.
    SendsTooLate,
    /// As the real one; what a look-up found is said when [`ScriptedRail::answer`] is called.
    FindsWhenTold,
    /// The thread panics.
    Panics,
}

/// The real rail, with a script for executions, or for look-ups.
#[derive(Debug)]
pub(crate) struct ScriptedRail {
    real: Arc<dyn RailPort>,
    script: Execution,
    told: Semaphore,
    reached: Semaphore,
    executions: AtomicUsize,
}

impl ScriptedRail {
    pub(crate) fn new(real: Arc<dyn RailPort>, script: Execution) -> Self {
        let none = || Semaphore::new(0);
        Self { real, script, told: none(), reached: none(), executions: AtomicUsize::new(0) }
    }

    /// Lets one answer go.
    pub(crate) fn answer(&self) {
        self.told.add_permits(1);
    }

    /// Returns once an execution or a look-up is where the script makes it wait.
    pub(crate) async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// How often an execution was asked for.
    pub(crate) fn executions(&self) -> usize {
        self.executions.load(Ordering::SeqCst)
    }
}

impl RailPort for ScriptedRail {
    fn caps(&self) -> RailCaps {
        self.real.caps()
    }

    fn prepare(&self, transfer: &Transfer) -> String {
        self.real.prepare(transfer)
    }

    fn execute<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<RailReceipt>> {
        self.executions.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.script {
                Execution::PaysAndNeverAnswers => {
                    self.real.execute(recorded).await;
                    self.reached.add_permits(1);
                    std::future::pending().await
                }
                Execution::NeverSends => {
                    self.reached.add_permits(1);
                    std::future::pending().await
                }
                Execution::AnswersWhenTold => {
                    let outcome = self.real.execute(recorded).await;
                    self.reached.add_permits(1);
                    self.told.acquire().await.unwrap().forget();
                    outcome
                }
                Execution::SendsTooLate => {
                    self.reached.add_permits(1);
                    self.told.acquire().await.unwrap().forget();
                    Outcome::NotSent(Trouble::of(Cause::TooLate))
                }
                Execution::FindsWhenTold => self.real.execute(recorded).await,
                Execution::Panics => panic!("the scripted rail was told to panic"),
            }
        })
    }

    fn lookup<'a>(&'a self, reference: &'a str, body: &'a str) -> BoxFuture<'a, Lookup> {
        Box::pin(async move {
            let found = self.real.lookup(reference, body).await;
            if self.script == Execution::FindsWhenTold {
                self.reached.add_permits(1);
                self.told.acquire().await.unwrap().forget();
            }
            found
        })
    }

    fn health(&self) -> BoxFuture<'_, Answer<()>> {
        self.real.health()
    }
}

/// The real signer service, except that asking it for a status or a notification panics.
#[derive(Debug)]
pub(crate) struct PanickingSigner(pub(crate) Arc<dyn SignerPort>);

impl SignerPort for PanickingSigner {
    fn prepare_register(&self, registration: &Registration) -> String {
        self.0.prepare_register(registration)
    }
    fn prepare_notify(&self, round: i64, number: i64, signers: &[String]) -> String {
        self.0.prepare_notify(round, number, signers)
    }
    fn asked_in(&self, body: &str) -> Vec<SignerId> {
        self.0.asked_in(body)
    }
    fn prepare_close(&self, round: i64, reason: &str) -> String {
        self.0.prepare_close(round, reason)
    }
    fn register<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<Registered>> {
        self.0.register(recorded)
    }
    fn notify<'a>(&'a self, _: &'a Recorded) -> BoxFuture<'a, Outcome<Notified>> {
        panic!("the scripted signer service was told to panic: SECRET-IN-A-PANIC")
    }
    fn close<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<()>> {
        self.0.close(recorded)
    }
    fn find<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Answer<Option<Registered>>> {
        self.0.find(reference)
    }
    fn status<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Answer<SignerStatus>> {
        panic!("the scripted signer service was told to panic: SECRET-IN-A-PANIC")
    }
    fn prepare_verdicts(&self, verdicts: &Verdicts) -> String {
        self.0.prepare_verdicts(verdicts)
    }
    fn tell_verdicts<'a>(&'a self, id: &'a str, body: &'a str) -> BoxFuture<'a, Answer<()>> {
        self.0.tell_verdicts(id, body)
    }
    fn sign_link<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Answer<SignLink>> {
        self.0.sign_link(id)
    }
    fn health(&self) -> BoxFuture<'_, Answer<()>> {
        self.0.health()
    }
}

/// The real signer service, as a test says of what it is told of decisions.
#[derive(Debug)]
pub(crate) struct Telling {
    /// Whether its status asks for that.
    pub(crate) asks: bool,
    /// How many tellings are lost yet.
    pub(crate) losing: AtomicUsize,
    /// How often it was told, lost ones included.
    pub(crate) told: AtomicUsize,
}

/// It, behind its script.
#[derive(Debug)]
pub(crate) struct ToldSigner(pub(crate) Arc<dyn SignerPort>, pub(crate) Arc<Telling>);

impl SignerPort for ToldSigner {
    fn prepare_register(&self, registration: &Registration) -> String {
        self.0.prepare_register(registration)
    }
    fn prepare_notify(&self, round: i64, number: i64, signers: &[String]) -> String {
        self.0.prepare_notify(round, number, signers)
    }
    fn asked_in(&self, body: &str) -> Vec<SignerId> {
        self.0.asked_in(body)
    }
    fn prepare_close(&self, round: i64, reason: &str) -> String {
        self.0.prepare_close(round, reason)
    }
    fn register<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<Registered>> {
        self.0.register(recorded)
    }
    fn notify<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<Notified>> {
        self.0.notify(recorded)
    }
    fn close<'a>(&'a self, recorded: &'a Recorded) -> BoxFuture<'a, Outcome<()>> {
        self.0.close(recorded)
    }
    fn find<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Answer<Option<Registered>>> {
        self.0.find(reference)
    }
    fn status<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Answer<SignerStatus>> {
        Box::pin(async move {
            let status = self.0.status(id).await?;
            assert!(status.told.is_some(), "the reference service asks");
            Ok(if self.1.asks { status } else { SignerStatus { told: None, ..status } })
        })
    }
    fn prepare_verdicts(&self, verdicts: &Verdicts) -> String {
        self.0.prepare_verdicts(verdicts)
    }
    fn tell_verdicts<'a>(&'a self, id: &'a str, body: &'a str) -> BoxFuture<'a, Answer<()>> {
        self.1.told.fetch_add(1, Ordering::SeqCst);
        let less = |left: usize| left.checked_sub(1);
        if self.1.losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            return Box::pin(async { Err(Trouble::of(Cause::Timeout)) });
        }
        self.0.tell_verdicts(id, body)
    }
    fn sign_link<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Answer<SignLink>> {
        self.0.sign_link(id)
    }
    fn health(&self) -> BoxFuture<'_, Answer<()>> {
        self.0.health()
    }
}
