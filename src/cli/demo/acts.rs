//! The acts of the demo, in the order of the story.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cast::{Actor, Cast};
use super::stage::Stage;
use super::story::Story;
use crate::cli::client::ToolAnswer;
use crate::cli::{CommandFault, failed};

const ORDER: &str = "order-1001";
const CRASHED: &str = "order-1002";

/// Plays the whole story.
pub(super) async fn play(stage: &mut Stage, story: &mut Story) -> Result<(), CommandFault> {
    let payment = propose(&stage.cast, story).await?;
    offline(&stage.cast, story).await?;
    let signature = late_signature(&stage.cast, story, &payment).await?;
    story.act("4. The same confirmation again");
    nothing_twice(&stage.cast, story, &Paid { order: ORDER, payment: &payment, jws: &signature }).await?;
    story.act("5. The agent tries to sign");
    not_the_agent(&stage.cast, story, ORDER, &signature).await?;
    let audited = audited(stage).await?;
    story.check("and audited, in the chain", audited, "tool.forbidden by agent:agent-1");
    story.act("6. The agent proposes the same payment again");
    duplicates(&stage.cast, story, ORDER, &payment).await?;
    power_cut(stage, story).await?;
    story.end();
    Ok(())
}

async fn propose(cast: &Cast, story: &mut Story) -> Result<String, CommandFault> {
    story.act("1. The agent proposes a payment");
    cast.call(Actor::Operator, "simulate_signer_online", json!({"signer_id": "finance-1", "online": false})).await?;
    let answer = cast.call(Actor::Agent, "create_payment", order(ORDER)).await?;
    story.check(
        "create_payment answers at once with a durable payment",
        answer.text("status") == "CREATED",
        told(&answer),
    );
    Ok(answer.text("payment_id").to_owned())
}

/// What the agent proposes for an order.
pub(super) fn order(order_id: &str) -> Value {
    json!({"order_id": order_id, "amount": "199.00", "signer_id": "finance-1"})
}

async fn offline(cast: &Cast, story: &mut Story) -> Result<(), CommandFault> {
    story.act("2. The signer is offline");
    let answer = cast.call(Actor::Agent, "notify_signer", json!({"order_id": ORDER})).await?;
    story.check(
        "SIGNER_UNREACHABLE comes back as a structured success with what to do next",
        !answer.is_error && answer.text("status") == "SIGNER_UNREACHABLE" && answer.text("next_action") == "wait",
        told(&answer),
    );
    let began = Instant::now();
    let answer = cast.until(ORDER, "NEED_MANUAL", Duration::from_secs(20)).await?;
    story.check(
        "the gateway retries by itself, a bounded number of times, then asks a person: NEED_MANUAL",
        answer.text("status") == "NEED_MANUAL",
        format!("after {:.1} s: {}", began.elapsed().as_secs_f64(), told(&answer)),
    );
    let attention = cast.call(Actor::Operator, "list_attention", json!({})).await?;
    let listed = attention.body.to_string().contains(ORDER);
    story.check("the operator finds it in list_attention", listed, "");
    Ok(())
}

async fn late_signature(cast: &Cast, story: &mut Story, payment: &str) -> Result<String, CommandFault> {
    story.act("3. The signer comes back late and signs");
    let jws = cast.signature(ORDER).await?;
    let answer = cast.call(Actor::Signer, "confirm_signing", json!({"order_id": ORDER, "signature": jws})).await?;
    story.check(
        "a late signature still counts, in NEED_MANUAL too",
        !answer.is_error && answer.text("status") == "SIGNED",
        told(&answer),
    );
    let answer = cast.until(ORDER, "EXECUTED", Duration::from_secs(20)).await?;
    story.check("the payment is executed", answer.text("status") == "EXECUTED", told(&answer));
    let account = cast.ledger.account(payment).await.map_err(failed)?;
    story.check(
        "the rail's own ledger shows exactly one execution, and balances",
        account.executions == 1 && account.balanced,
        format!("{} execution, {} request", account.executions, account.requests),
    );
    Ok(jws)
}

/// A payment that was signed and executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paid<'a> {
    pub(super) order: &'a str,
    pub(super) payment: &'a str,
    pub(super) jws: &'a str,
}

/// The signer confirms again.
pub(super) async fn nothing_twice(cast: &Cast, story: &mut Story, paid: &Paid<'_>) -> Result<(), CommandFault> {
    let arguments = json!({"order_id": paid.order, "signature": paid.jws});
    let answer = cast.call(Actor::Signer, "confirm_signing", arguments).await?;
    let replayed = answer.body.get("idempotent_replayed") == Some(&json!(true));
    story.check(
        "it is answered alike and changes nothing",
        !answer.is_error && replayed && answer.text("status") == "EXECUTED",
        told(&answer),
    );
    let account = cast.ledger.account(paid.payment).await.map_err(failed)?;
    story.check("the ledger still shows one execution", account.executions == 1, "");
    Ok(())
}

/// The agent confirms, with the signer's own signature.
pub(super) async fn not_the_agent(
    cast: &Cast,
    story: &mut Story,
    order_id: &str,
    jws: &str,
) -> Result<(), CommandFault> {
    let arguments = json!({"order_id": order_id, "signature": jws});
    let answer = cast.call(Actor::Agent, "confirm_signing", arguments).await?;
    story.check("it is refused", answer.is_error && answer.text("error_code") == "FORBIDDEN_TOOL", told(&answer));
    Ok(())
}

/// Whether the instance's own audit names the agent's attempt; read from its database, chain checked.
async fn audited(stage: &Stage) -> Result<bool, CommandFault> {
    let entries = stage.audit().await?;
    Ok(entries.iter().any(|entry| {
        entry.event == "tool.forbidden" && entry.actor == "agent:agent-1" && entry.reason == "confirm_signing"
    }))
}

/// The agent proposes the same again, and something else under the same order.
pub(super) async fn duplicates(
    cast: &Cast,
    story: &mut Story,
    order_id: &str,
    payment: &str,
) -> Result<(), CommandFault> {
    let answer = cast.call(Actor::Agent, "create_payment", order(order_id)).await?;
    let same = answer.text("payment_id") == payment && answer.body.get("idempotent_replayed") == Some(&json!(true));
    story.check("an identical request is replayed: the same payment", !answer.is_error && same, told(&answer));
    let other = json!({"order_id": order_id, "amount": "1990.00", "signer_id": "finance-1"});
    let answer = cast.call(Actor::Agent, "create_payment", other).await?;
    story.check(
        "a different request under the same order is refused",
        answer.is_error && answer.text("error_code") == "ORDER_ALREADY_HAS_PAYMENT",
        told(&answer),
    );
    Ok(())
}

async fn power_cut(stage: &mut Stage, story: &mut Story) -> Result<(), CommandFault> {
    story.act("7. The power goes out between the intent and the commit of an execution");
    stage
        .cast
        .call(Actor::Operator, "simulate_signer_online", json!({"signer_id": "finance-1", "online": true}))
        .await?;
    let mut arguments = order(CRASHED);
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.insert("notify".to_owned(), json!(true));
    }
    let answer = stage.cast.call(Actor::Agent, "create_payment", arguments).await?;
    let payment = answer.text("payment_id").to_owned();
    stage.cast.ledger.delay_next_reply(Duration::from_secs(8)).await.map_err(failed)?;
    let jws = stage.cast.signature(CRASHED).await?;
    stage.cast.call(Actor::Signer, "confirm_signing", json!({"order_id": CRASHED, "signature": jws})).await?;
    // The rail carries it out and keeps the answer back: the intent is committed, the outcome is not.
    stage.cast.carried_out(&payment, Duration::from_secs(10)).await?;
    let before = stage.cast.call(Actor::Agent, "get_payment_status", json!({"payment_id": payment})).await?;
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
    let answer = stage.cast.until(CRASHED, "EXECUTED", Duration::from_secs(40)).await?;
    story.check(
        "the next process finds the intent, asks the rail, and records the payment",
        answer.text("status") == "EXECUTED",
        format!("after {:.1} s: {}", began.elapsed().as_secs_f64(), told(&answer)),
    );
    let account = stage.cast.ledger.account(&payment).await.map_err(failed)?;
    story.check(
        "the ledger still shows one execution",
        account.executions == 1 && account.balanced,
        format!("{} execution, {} request", account.executions, account.requests),
    );
    Ok(())
}

/// An answer in one line.
pub(super) fn told(answer: &ToolAnswer) -> String {
    if answer.is_error {
        format!("{}: {}", answer.text("error_code"), answer.text("error_message"))
    } else {
        format!("{}: {}", answer.text("status"), answer.text("message"))
    }
}
