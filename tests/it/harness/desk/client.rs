//! Callers of a desk of processes: patient ones, since any process may be gone at any time.
//!
//! They are a value of their own, so that tasks can call while the test kills.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::ambient::{Clock as _, SystemClock};
use countersign::domain::Role;
use countersign::http::auth::{Grant, Mint};
use countersign::proof::{SigningKey, key_id_of, sign_detached};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::app::{ISSUER, RAIL_API_KEY, SIGNER_API_KEY};
use crate::harness::database::TestDatabase;
use crate::harness::rpc::{Answer, Miss, Rpc};

/// How long a caller repeats a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// The one amount that callers propose where one person is enough.
pub(crate) const SMALL: &str = "199.00";
/// The one where a desk's policy wants two.
pub(crate) const LARGE: &str = "1990.00";

/// Why a call was repeated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle {
    Missed(Miss),
    /// The code of a tool's error that says it can be repeated.
    Told(String),
}

/// An order: where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderRow {
    pub(crate) order: String,
    pub(crate) status: String,
    pub(crate) phase: String,
    pub(crate) attention: String,
}

/// Agents, signers and operators of a desk, and whoever tells its services to misbehave.
pub(crate) struct Callers {
    pub(crate) db: Arc<TestDatabase>,
    pub(crate) mint: Mint,
    pub(crate) http: reqwest::Client,
    pub(super) keys: BTreeMap<&'static str, SigningKey>,
    pub(super) serves: Vec<String>,
    pub(super) rail: String,
    pub(super) signer: String,
    /// The gateway that is called next.
    pub(super) turn: AtomicUsize,
    /// What calls met that had to be repeated, and how often.
    pub(super) obstacles: Mutex<BTreeMap<Obstacle, u64>>,
}

impl Callers {
    /// A token of the default tenant, good for an hour.
    pub(crate) fn token(&self, subject: &str, role: Role) -> String {
        self.mint.token(&Grant {
            issuer: ISSUER,
            audience: &format!("http://{}/mcp", self.serves[0]),
            subject,
            tenant: "default",
            client: subject,
            roles: &[role],
            scope: "",
            issued_at: SystemClock.now(),
            valid_for: Duration::from_hours(1),
        })
    }

    /// The MCP endpoint of one gateway.
    pub(crate) fn rpc(&self, serve: usize) -> Rpc {
        Rpc::new(self.http.clone(), format!("http://{}/mcp", self.serves[serve]))
    }

    /// Calls a tool of one gateway, once; `None` when no whole answer came.
    pub(crate) async fn call(&self, serve: usize, token: &str, tool: &str, arguments: Value) -> Option<Answer> {
        self.rpc(serve).try_call(token, tool, arguments).await.ok()
    }

    /// Calls a tool of one gateway after the other until one answers with what need not be repeated.
    ///
    /// Every call here may be repeated: it is the identical call with the identical key. What stood in its way is
    /// counted ([`Callers::obstacles`]); an answer that repeating does not change is the caller's to look at.
    pub(crate) async fn insist(&self, token: &str, tool: &str, arguments: Value) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let serve = self.turn.fetch_add(1, Ordering::Relaxed) % self.serves.len();
            let obstacle = match self.rpc(serve).try_call(token, tool, arguments.clone()).await {
                Ok(answer) if passes(&answer) => Obstacle::Told(answer.code()),
                Ok(answer) => return answer,
                Err(miss) => Obstacle::Missed(miss),
            };
            assert!(Instant::now() < deadline, "nobody answered {tool} {arguments}; the last was {obstacle:?}");
            *self.obstacles.lock().unwrap().entry(obstacle).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// An agent proposes an order of an amount, and has its signers notified; every other order under a key.
    pub(crate) async fn propose_of(&self, agent: &str, order: &str, amount: &str) -> Answer {
        self.propose_under(key_of(order).as_deref(), agent, order, amount).await
    }

    /// The same under this key, or none. However often it has to ask, it is the same request with the same key.
    pub(crate) async fn propose_under(&self, key: Option<&str>, agent: &str, order: &str, amount: &str) -> Answer {
        let mut arguments = json!({"order_id": order, "amount": amount, "signer_id": "finance-1", "notify": true});
        if let Some(key) = key {
            arguments["idempotency_key"] = json!(key);
        }
        self.insist(&self.token(agent, Role::Agent), "create_payment", arguments).await
    }

    /// `agent-1` proposes an order that one person approves; its payment's id.
    pub(crate) async fn propose(&self, order: &str) -> String {
        let answer = self.propose_of("agent-1", order, SMALL).await;
        assert!(!answer.is_error, "{order}: {}", answer.body);
        answer.text("payment_id").to_owned()
    }

    /// `finance-1` approves an order.
    pub(crate) async fn countersign(&self, order: &str) -> Answer {
        self.countersign_as("finance-1", order).await
    }

    /// A person approves an order.
    pub(crate) async fn countersign_as(&self, person: &str, order: &str) -> Answer {
        let token = self.token(person, Role::Signer);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let approval = self.insist(&token, "get_approval", json!({"order_id": order})).await;
            let to_sign = &approval.body["to_sign"][0]["decision_document"];
            let Some(document) = to_sign.as_str() else { return approval };
            let key = &self.keys[person];
            let jws = sign_detached(key, &key_id_of(&key.public()), document).unwrap();
            let arguments = json!({"order_id": order, "signature": jws});
            let answer = self.insist(&token, "confirm_signing", arguments).await;
            // A new round began between the two calls: the new document is signed.
            let stale = matches!(answer.code().as_str(), "SIGNATURE_INVALID" | "SIGNING_ROUND_STALE");
            if !stale || Instant::now() > deadline {
                return answer;
            }
        }
    }

    /// A person approves an order on the signer service's page, to which the agent has the address.
    pub(crate) async fn countersign_on_page(&self, person: &str, order: &str) -> Answer {
        let token = self.token(person, Role::Signer);
        let approval = self.insist(&token, "get_approval", json!({"order_id": order})).await;
        let to_sign = &approval.body["to_sign"][0]["decision_document"];
        let Some(document) = to_sign.as_str() else { return approval };
        let key = &self.keys[person];
        let jws = sign_detached(key, &key_id_of(&key.public()), document).unwrap();
        let link = json!({"order_id": order});
        let link = self.insist(&self.token("agent-1", Role::Agent), "get_sign_link", link).await;
        let page = format!("{}/decisions", link.text("sign_url"));
        let answer = self.http.post(page).json(&json!({"document": document, "jws": jws})).send().await.unwrap();
        assert!(answer.status().is_success(), "{order}: the page answers {}", answer.status());
        approval
    }

    /// `finance-1` rejects an order.
    pub(crate) async fn reject(&self, order: &str) -> Answer {
        let token = self.token("finance-1", Role::Signer);
        let words = json!({"order_id": order, "decision": "reject", "reason": "not ours"});
        let approval = self.insist(&token, "get_approval", words).await;
        let to_sign = &approval.body["to_sign"][0]["decision_document"];
        let Some(document) = to_sign.as_str() else { return approval };
        let key = &self.keys["finance-1"];
        let jws = sign_detached(key, &key_id_of(&key.public()), document).unwrap();
        let arguments = json!({"order_id": order, "signature": jws, "reason": "not ours"});
        self.insist(&token, "reject_signing", arguments).await
    }

    /// What calls met that had to be repeated, and how often.
    pub(crate) fn obstacles(&self) -> BTreeMap<Obstacle, u64> {
        self.obstacles.lock().unwrap().clone()
    }

    /// Tells the rail to misbehave.
    pub(crate) async fn faults(&self, faults: Value) {
        assert!(self.try_faults(faults.clone()).await, "the rail does not take {faults}");
    }

    /// The same, where the rail may be away.
    pub(crate) async fn try_faults(&self, faults: Value) -> bool {
        let url = format!("http://{}/sandbox/faults", self.rail);
        let answer = self.http.put(url).bearer_auth(RAIL_API_KEY).json(&faults).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Sets whether a person can be reached.
    pub(crate) async fn presence(&self, person: &str, online: bool) {
        assert!(self.try_presence(person, online).await, "the signer service does not take it");
    }

    /// The same, where the signer service may be away.
    pub(crate) async fn try_presence(&self, person: &str, online: bool) -> bool {
        let url = format!("http://{}/api/v1/signers/{person}/presence", self.signer);
        let request = self.http.put(url).bearer_auth(SIGNER_API_KEY).json(&json!({"online": online}));
        request.send().await.is_ok_and(|answer| answer.status() == 200)
    }

    /// The orders that are not at rest: something is still to be done about them, or about telling of them.
    pub(crate) async fn unfinished(&self) -> Vec<OrderRow> {
        let open = "status IN ('CREATED','AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED') \
            OR tell_at IS NOT NULL \
            OR EXISTS (SELECT 1 FROM outbox o WHERE o.payment_id = p.payment_id AND o.state = 'pending')";
        self.orders(open).await
    }

    /// The orders of which `such` holds, in SQL.
    pub(crate) async fn orders(&self, such: &str) -> Vec<OrderRow> {
        let sql = format!("SELECT order_id, status, phase, attention FROM payments p WHERE {such} ORDER BY order_id");
        let rows = self.db.raw().await.rows(&sql, 4).await;
        let named = |row: Vec<String>| {
            let [order, status, phase, attention] = row.try_into().unwrap();
            OrderRow { order, status, phase, attention }
        };
        rows.into_iter().map(named).collect()
    }

    /// Waits until every order is at rest, at most `patience`; those that are not then.
    pub(crate) async fn comes_to_rest(&self, patience: Duration) -> Vec<OrderRow> {
        let deadline = Instant::now() + patience;
        loop {
            let left = self.unfinished().await;
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The key that an order is proposed under: of every other two orders in a row, whatever their names begin with.
pub(crate) fn key_of(order: &str) -> Option<String> {
    let sum: u32 = order.bytes().map(u32::from).sum();
    (sum % 4 < 2).then(|| some_key_of(order))
}

/// A key for an order.
pub(crate) fn some_key_of(order: &str) -> String {
    format!("the-one-key-of-{order}")
}

/// Whether an error passes by itself: that of a limit's window does so in hours.
fn passes(answer: &Answer) -> bool {
    answer.is_error && answer.body["retryable"] == true && answer.body["category"] != "policy"
}
