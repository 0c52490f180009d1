//! The signer service's pages in a real browser: a person, a passkey, and everything that may come between.
//!
//! Every test has a desk of its own and a browser of its own, one after the other; what they see is kept in
//! `target/screenshots`. Where there is no Chromium they say so and do nothing; in CI they fail.

mod driver;
mod enrolling;
mod inbox;
mod looks;
mod odd;
mod signing;
mod twice;

use countersign::domain::Role;
use serde_json::{Value, json};

use self::driver::{Browser, Look};
use crate::harness::app::{App, POLICY, Wishes, only};
use crate::harness::database::TestEngine;
use crate::passkeys::{invite, pin};

const APPROVE: &str = "form[data-choice=approve] button";

/// A policy that knows the payee, whose rule is met by one of two people.
fn policy() -> String {
    format!("{POLICY}\n[payees.known]\n\"DE89370400440532013000\" = \"Widgets GmbH\"\n")
}

/// Runs a test with a desk and a browser.
async fn browsing(test: impl AsyncFn(&mut App, &mut Browser)) {
    browsing_on(Look::DESKTOP, wishes(), &test).await;
}

/// Runs a test on a desktop's screen and on a phone's, each time with a desk and a browser of its own.
async fn on_each_screen(test: impl AsyncFn(&mut App, &mut Browser)) {
    on_each_screen_with(wishes(), test).await;
}

/// The same with other wishes.
async fn on_each_screen_with(wishes: Wishes, test: impl AsyncFn(&mut App, &mut Browser)) {
    for look in [Look::DESKTOP, Look::PHONE] {
        browsing_on(look, wishes.clone(), &test).await;
    }
}

fn wishes() -> Wishes {
    Wishes::default().browsed().policy(policy())
}

async fn browsing_on(look: Look, wishes: Wishes, test: &impl AsyncFn(&mut App, &mut Browser)) {
    let Some(browser) = Browser::start().await else { return };
    let kept = std::cell::RefCell::new(Some(browser));
    only(TestEngine::Sqlite, wishes, async |app: &mut App| {
        let mut browser = kept.borrow_mut().take().unwrap();
        browser.authenticator().await;
        browser.look(look).await;
        test(app, &mut browser).await;
        browser.quit().await;
    })
    .await;
    if let Some(unused) = kept.take() {
        unused.quit().await;
    }
}

impl App {
    /// Proposes a payment as an agent does that acts for a person, and has its signers notified.
    async fn proposed(&self, order: &str) {
        let arguments = json!({"order_id": order, "amount": "12480.00", "currency": "EUR",
            "payee": "DE89370400440532013000", "memo": "Invoice 4711, spare parts for line 2", "signer_id": "finance-1"});
        let created = self.call(&self.purchasing(), "create_payment", arguments).await;
        assert_eq!(created.status(), "CREATED", "{}", created.body);
        let notified = self.call(&self.purchasing(), "notify_signer", json!({"order_id": order})).await;
        assert_eq!(notified.status(), "AWAITING_SIGNER", "{}", notified.body);
    }

    /// Calls off what was proposed, and has the signer service told.
    async fn cancel_as_purchasing(&self, order: &str) {
        let cancelled = self.call(&self.purchasing(), "cancel_payment", json!({"order_id": order})).await;
        assert_eq!(cancelled.status(), "CANCELLED", "{}", cancelled.body);
        self.settle().await;
    }

    /// The token of an agent.
    fn purchasing(&self) -> String {
        self.token("default", "purchasing", "purchasing", &[Role::Agent])
    }

    /// A fresh link to an order's payment.
    async fn sign_page(&self, order: &str) -> String {
        let link = self.call(&self.purchasing(), "get_sign_link", json!({"order_id": order})).await;
        link.text("sign_url").to_owned()
    }

    /// Where an order's payment stands.
    async fn stands(&self, order: &str) -> String {
        let told = self.call(&self.purchasing(), "get_payment_status", json!({"order_id": order})).await;
        told.status().clone()
    }

    /// How many decisions the signer service has kept.
    async fn kept(&self) -> usize {
        self.signer_db().await.texts("SELECT decision_id FROM decisions").await.len()
    }
}

impl Browser {
    /// Makes a passkey for a person, which their operator pins; the registry's name for it.
    async fn enrols(&self, app: &App, person: &str) -> String {
        let (document, url) = invite(app, person).await;
        self.open(&url).await;
        self.press("form[data-make] button").await;
        self.sees("Read this to your operator").await;
        let code = self.read_code().await;
        pin(app, person, &document.invitation_id, &code).await.unwrap()
    }

    /// The code that is to be read aloud.
    async fn read_code(&self) -> String {
        let code = self.script("return document.querySelector('.spoken').textContent", json!([])).await;
        code.as_str().unwrap().to_owned()
    }

    /// The page's own title.
    async fn heading(&self) -> String {
        let heading = self.script("return document.querySelector('h1').textContent", json!([])).await;
        heading.as_str().unwrap_or_default().to_owned()
    }

    /// Changes what the page's script will sign or offer, as a page in wrong hands could.
    async fn tampers(&self, name: &str, value: &Value) {
        let body = "document.querySelector('[data-passkey]').dataset[arguments[0]] = arguments[1]";
        self.script(body, json!([name, value])).await;
    }
}
