//! Who plays: an agent, a signer with a key, an operator, and the rail's ledger as the judge.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ledger::Ledger;
use crate::cli::client::{McpClient, ToolAnswer};
use crate::cli::{CommandFault, failed};
use crate::proof::{SigningKey, key_id_of, sign_detached};

/// Who acts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Actor {
    Agent,
    Signer,
    Operator,
}

/// What the players come in with.
pub(super) struct Entry<'a> {
    /// The MCP endpoint.
    pub(super) url: &'a str,
    /// The agent's token.
    pub(super) agent: &'a str,
    /// The signer's token.
    pub(super) signer: &'a str,
    /// The operator's token.
    pub(super) operator: &'a str,
    /// The signer's key.
    pub(super) key: SigningKey,
    /// The rail's ledger.
    pub(super) ledger: Ledger,
    /// How often a call is repeated that got no answer, or one that says it may be.
    pub(super) repeats: u32,
}

/// The players, connected.
pub(super) struct Cast {
    pub(super) ledger: Ledger,
    agent: McpClient,
    signer: McpClient,
    operator: McpClient,
    key: SigningKey,
    repeats: u32,
    repeated: AtomicU32,
}

/// How often coming in is tried again: a wrong address or token should show soon.
const ENTRIES: u32 = 5;

impl Cast {
    /// Connects each player.
    pub(super) async fn enter(entry: Entry<'_>) -> Result<Self, CommandFault> {
        let connect = async |token: &str| {
            for _ in 0..entry.repeats.min(ENTRIES) {
                match McpClient::connect(entry.url, token).await {
                    Ok(client) => return Ok(client),
                    Err(fault) => tracing::info!(error = %fault, "repeated"),
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            McpClient::connect(entry.url, token).await.map_err(failed)
        };
        Ok(Self {
            agent: connect(entry.agent).await?,
            signer: connect(entry.signer).await?,
            operator: connect(entry.operator).await?,
            ledger: entry.ledger,
            key: entry.key,
            repeats: entry.repeats,
            repeated: AtomicU32::new(0),
        })
    }

    /// How many calls were repeated so far.
    pub(super) fn repeated(&self) -> u32 {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Calls a tool as someone.
    ///
    /// Repeats the identical call where that is allowed, as any client may: it could have been carried out already.
    pub(super) async fn call(&self, actor: Actor, tool: &str, arguments: Value) -> Result<ToolAnswer, CommandFault> {
        let client = match actor {
            Actor::Agent => &self.agent,
            Actor::Signer => &self.signer,
            Actor::Operator => &self.operator,
        };
        for _ in 0..self.repeats {
            match client.call(tool, arguments.clone()).await {
                Ok(answer) if answer.body.get("retryable") != Some(&json!(true)) => return Ok(answer),
                Ok(answer) => tracing::info!(tool, code = answer.text("error_code"), "repeated"),
                Err(fault) => tracing::info!(tool, error = %fault, "repeated"),
            }
            self.repeated.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        client.call(tool, arguments).await.map_err(failed)
    }

    /// Signs what `get_approval` shows, with the signer's own key.
    pub(super) async fn signature(&self, order_id: &str) -> Result<String, CommandFault> {
        let approval = self.call(Actor::Signer, "get_approval", json!({"order_id": order_id})).await?;
        let document = approval
            .body
            .pointer("/to_sign/0/decision_document")
            .and_then(Value::as_str)
            .ok_or_else(|| failed("get_approval gave nothing to sign"))?;
        sign_detached(&self.key, &key_id_of(&self.key.public()), document).map_err(failed)
    }

    /// Follows an order until it reaches `status`, or for `patience`.
    pub(super) async fn until(
        &self,
        order_id: &str,
        status: &str,
        patience: Duration,
    ) -> Result<ToolAnswer, CommandFault> {
        let deadline = Instant::now() + patience;
        loop {
            let answer =
                self.call(Actor::Agent, "get_payment_status", json!({"order_id": order_id, "wait_ms": 2_000})).await?;
            if answer.text("status") == status || Instant::now() > deadline {
                return Ok(answer);
            }
        }
    }

    /// Waits until the rail's own ledger shows that `payment` was carried out.
    pub(super) async fn carried_out(&self, payment: &str, patience: Duration) -> Result<(), CommandFault> {
        let deadline = Instant::now() + patience;
        while self.ledger.account(payment).await.map_err(failed)?.executions == 0 {
            if Instant::now() > deadline {
                return Err(failed("the payment did not reach the rail"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}
