//! Callers of a desk of processes: patient ones, since any process may be gone at any time.
//!
//! They are a value of their own, so that tasks can call while the test kills.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign::ambient::{Clock as _, SystemClock};
use countersign::domain::Role;
use countersign::http::auth::{Grant, Mint};
use countersign::proof::{SigningKey, key_id_of, sign_detached};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::app::{ISSUER, RAIL_API_KEY, SIGNER_API_KEY};
use crate::harness::database::TestDatabase;
use crate::harness::rpc::{Answer, Rpc};

/// How long a caller repeats a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// An order that is not at rest: where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfinished {
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
    /// Calls that had to be repeated.
    pub(super) repeats: AtomicU64,
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
        self.rpc(serve).try_call(token, tool, arguments).await
    }

    /// Calls a tool of one gateway after the other until one answers with what need not be repeated.
    ///
    /// Every call here may be repeated: it is the identical call with the identical key.
    pub(crate) async fn insist(&self, token: &str, tool: &str, arguments: Value) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        let mut last = None;
        for turn in 0.. {
            let answer = self.call(turn % self.serves.len(), token, tool, arguments.clone()).await;
            match answer {
                Some(answer) if !(answer.is_error && answer.body["retryable"] == true) => return answer,
                other => last = other.or(last),
            }
            if Instant::now() > deadline {
                break;
            }
            self.repeats.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        panic!("nobody answered {tool} {arguments}; the last answer is {last:?}");
    }

    /// Proposes an order, and has its signers notified; its payment's id.
    pub(crate) async fn propose(&self, order: &str) -> String {
        let arguments = json!({"order_id": order, "amount": "199.00", "signer_id": "finance-1", "notify": true});
        let answer = self.insist(&self.token("agent-1", Role::Agent), "create_payment", arguments).await;
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

    /// How many calls had to be repeated.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeats.load(Ordering::Relaxed)
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
    pub(crate) async fn unfinished(&self) -> Vec<Unfinished> {
        let sql = "SELECT order_id, status, phase, attention FROM payments p WHERE status IN ('CREATED',\
            'AWAITING_SIGNER','SIGNER_UNREACHABLE','NEED_MANUAL','SIGNED') OR tell_at IS NOT NULL \
            OR EXISTS (SELECT 1 FROM outbox o WHERE o.payment_id = p.payment_id AND o.state = 'pending') ORDER BY order_id";
        let rows = self.db.raw().await.rows(sql, 4).await;
        let named = |row: Vec<String>| {
            let [order, status, phase, attention] = row.try_into().unwrap();
            Unfinished { order, status, phase, attention }
        };
        rows.into_iter().map(named).collect()
    }

    /// Waits until every order is at rest, at most `patience`; those that are not then.
    pub(crate) async fn comes_to_rest(&self, patience: Duration) -> Vec<Unfinished> {
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
