//! The acts of the demo, in the order of the story.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stage::{Actor, Stage};
use super::story::Story;
use crate::cli::client::ToolAnswer;
use crate::cli::{CommandFault, failed};
use crate::proof::{SigningKey, key_id_of, sign_detached};

const ORDER: &str = "order-1001";
const CRASHED: &str = "order-1002";

/// Plays the whole story.
pub(super) async fn play(stage: &mut Stage, story: &mut Story) -> Result<(), CommandFault> {
    let payment = propose(stage, story).await?;
    offline(stage, story).await?;
    let signature = late_signature(stage, story, &payment).await?;
    nothing_twice(stage, story, &payment, &signature).await?;
    not_the_agent(stage, story, &signature).await?;
    duplicates(stage, story, &payment).await?;
    power_cut(stage, story).await?;
    story.end();
    Ok(())
}

async fn propose(stage: &Stage, story: &mut Story) -> Result<String, CommandFault> {
    story.act("1. The agent proposes a payment");
    stage.call(Actor::Operator, "simulate_signer_online", json!({"signer_id": "finance-1", "online": false})).await?;
    let answer = stage.call(Actor::Agent, "create_payment", order(ORDER)).await?;
    story.check(
        "create_payment answers at once with a durable payment",
        answer.text("status") == "CREATED",
        told(&answer),
    );
    Ok(answer.text("payment_id").to_owned())
}

fn order(order_id: &str) -> Value {
    json!({"order_id": order_id, "amount": "199.00", "signer_id": "finance-1"})
}

async fn offline(stage: &Stage, story: &mut Story) -> Result<(), CommandFault> {
    story.act("2. The signer is offline");
    let answer = stage.call(Actor::Agent, "notify_signer", json!({"order_id": ORDER})).await?;
    story.check(
        "SIGNER_UNREACHABLE comes back as a structured success with what to do next",
        !answer.is_error && answer.text("status") == "SIGNER_UNREACHABLE" && answer.text("next_action") == "wait",
        told(&answer),
    );
    let began = Instant::now();
    let answer = until(stage, ORDER, "NEED_MANUAL", Duration::from_secs(20)).await?;
    story.check(
        "the gateway retries by itself, a bounded number of times, then asks a person: NEED_MANUAL",
        answer.text("status") == "NEED_MANUAL",
        format!("after {:.1} s: {}", began.elapsed().as_secs_f64(), told(&answer)),
    );
    let attention = stage.call(Actor::Operator, "list_attention", json!({})).await?;
    let listed = attention.body.to_string().contains(ORDER);
    story.check("the operator finds it in list_attention", listed, "");
    Ok(())
}

async fn late_signature(stage: &Stage, story: &mut Story, payment: &str) -> Result<String, CommandFault> {
    story.act("3. The signer comes back late and signs");
    let jws = signature(stage, ORDER).await?;
    let answer = stage.call(Actor::Signer, "confirm_signing", json!({"order_id": ORDER, "signature": jws})).await?;
    story.check(
        "a late signature still counts, in NEED_MANUAL too",
        !answer.is_error && answer.text("status") == "SIGNED",
        told(&answer),
    );
    let answer = until(stage, ORDER, "EXECUTED", Duration::from_secs(20)).await?;
    story.check("the payment is executed", answer.text("status") == "EXECUTED", told(&answer));
    let account = stage.ledger.account(payment).await.map_err(failed)?;
    story.check(
        "the rail's own ledger shows exactly one execution, and balances",
        account.executions == 1 && account.balanced,
        format!("{} execution, {} request", account.executions, account.requests),
    );
    Ok(jws)
}

/// Signs what `get_approval` shows, as finance-1 with the key file.
async fn signature(stage: &Stage, order_id: &str) -> Result<String, CommandFault> {
    let approval = stage.call(Actor::Signer, "get_approval", json!({"order_id": order_id})).await?;
    let signer = stage.card.signers.first().ok_or_else(|| failed("the dev instance has no signer"))?;
    let pem = std::fs::read_to_string(&signer.key_file).map_err(failed)?;
    let key = SigningKey::from_pem(&pem).map_err(failed)?;
    let document = approval
        .body
        .pointer("/to_sign/0/decision_document")
        .and_then(Value::as_str)
        .ok_or_else(|| failed("get_approval gave nothing to sign"))?;
    sign_detached(&key, &key_id_of(&key.public()), document).map_err(failed)
}

async fn nothing_twice(stage: &Stage, story: &mut Story, payment: &str, jws: &str) -> Result<(), CommandFault> {
    story.act("4. The same confirmation again");
    let answer = stage.call(Actor::Signer, "confirm_signing", json!({"order_id": ORDER, "signature": jws})).await?;
    let replayed = answer.body.get("idempotent_replayed") == Some(&json!(true));
    story.check(
        "it is answered alike and changes nothing",
        !answer.is_error && replayed && answer.text("status") == "EXECUTED",
        told(&answer),
    );
    let account = stage.ledger.account(payment).await.map_err(failed)?;
    story.check("the ledger still shows one execution", account.executions == 1, "");
    Ok(())
}

async fn not_the_agent(stage: &Stage, story: &mut Story, jws: &str) -> Result<(), CommandFault> {
    story.act("5. The agent tries to sign");
    let answer = stage.call(Actor::Agent, "confirm_signing", json!({"order_id": ORDER, "signature": jws})).await?;
    story.check("it is refused", answer.is_error && answer.text("error_code") == "FORBIDDEN_TOOL", told(&answer));
    let audited = audited(stage).await?;
    story.check("and audited, in the chain", audited, "tool.forbidden by agent:agent-1");
    Ok(())
}

/// Whether the instance's own audit names the agent's attempt; read from its database, chain checked.
async fn audited(stage: &Stage) -> Result<bool, CommandFault> {
    let entries = stage.audit().await?;
    Ok(entries.iter().any(|entry| {
        entry.event == "tool.forbidden" && entry.actor == "agent:agent-1" && entry.reason == "confirm_signing"
    }))
}

async fn duplicates(stage: &Stage, story: &mut Story, payment: &str) -> Result<(), CommandFault> {
    story.act("6. The agent proposes the same payment again");
    let answer = stage.call(Actor::Agent, "create_payment", order(ORDER)).await?;
    let same = answer.text("payment_id") == payment && answer.body.get("idempotent_replayed") == Some(&json!(true));
    story.check("an identical request is replayed: the same payment", !answer.is_error && same, told(&answer));
    let other = json!({"order_id": ORDER, "amount": "1990.00", "signer_id": "finance-1"});
    let answer = stage.call(Actor::Agent, "create_payment", other).await?;
    story.check(
        "a different request under the same order is refused",
        answer.is_error && answer.text("error_code") == "ORDER_ALREADY_HAS_PAYMENT",
        told(&answer),
    );
    Ok(())
}

async fn power_cut(stage: &mut Stage, story: &mut Story) -> Result<(), CommandFault> {
    story.act("7. The power goes out between the intent and the commit of an execution");
    stage.call(Actor::Operator, "simulate_signer_online", json!({"signer_id": "finance-1", "online": true})).await?;
    let mut arguments = order(CRASHED);
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.insert("notify".to_owned(), json!(true));
    }
    let answer = stage.call(Actor::Agent, "create_payment", arguments).await?;
    let payment = answer.text("payment_id").to_owned();
    stage.ledger.delay_next_reply(Duration::from_secs(8)).await.map_err(failed)?;
    let jws = signature(stage, CRASHED).await?;
    stage.call(Actor::Signer, "confirm_signing", json!({"order_id": CRASHED, "signature": jws})).await?;
    // The rail carries it out and keeps the answer back: the intent is committed, the outcome is not.
    let deadline = Instant::now() + Duration::from_secs(10);
    while stage.ledger.account(&payment).await.map_err(failed)?.executions == 0 {
        if Instant::now() > deadline {
            return Err(failed("the payment did not reach the rail"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let before = stage.call(Actor::Agent, "get_payment_status", json!({"payment_id": payment})).await?;
    stage.kill().await?;
    let phase = before.body.pointer("/execution/phase").and_then(Value::as_str).unwrap_or_default();
    story.check(
        "killed (SIGKILL) after the rail paid and before the gateway learned of it",
        before.text("status") == "SIGNED" && phase == "intended",
        format!("last seen: {} with phase {phase}", before.text("status")),
    );
    stage.restart().await?;
    story.tell("started again on the same data; its first work is to ask the rail");
    let began = Instant::now();
    let answer = until(stage, CRASHED, "EXECUTED", Duration::from_secs(40)).await?;
    story.check(
        "the next process finds the intent, asks the rail, and records the payment",
        answer.text("status") == "EXECUTED",
        format!("after {:.1} s: {}", began.elapsed().as_secs_f64(), told(&answer)),
    );
    let account = stage.ledger.account(&payment).await.map_err(failed)?;
    story.check(
        "the ledger still shows one execution",
        account.executions == 1 && account.balanced,
        format!("{} execution, {} request", account.executions, account.requests),
    );
    Ok(())
}

/// Follows an order until it reaches `status`, or for `patience`.
async fn until(stage: &Stage, order_id: &str, status: &str, patience: Duration) -> Result<ToolAnswer, CommandFault> {
    let deadline = Instant::now() + patience;
    loop {
        let answer =
            stage.call(Actor::Agent, "get_payment_status", json!({"order_id": order_id, "wait_ms": 2_000})).await?;
        if answer.text("status") == status || Instant::now() > deadline {
            return Ok(answer);
        }
    }
}

/// An answer in one line.
fn told(answer: &ToolAnswer) -> String {
    if answer.is_error {
        format!("{}: {}", answer.text("error_code"), answer.text("error_message"))
    } else {
        format!("{}: {}", answer.text("status"), answer.text("message"))
    }
}
