//! The agent's tools: propose, follow, call off. None of them can produce an approval.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::arguments::Arguments;
use super::reply::{Reply, summary};
use crate::domain::{Account, Asker, Memo, Payment, Principal, Refusal, SignerId, Status};
use crate::journal::{CreateRequest, Journal};

/// The longest wait that may be asked for; `Rules::longest_wait` bounds it.
const LONGEST_WAIT_MS: u64 = 25_000;
/// How many signers a proposal can wish for.
pub(super) const MOST_SIGNERS: usize = 64;
/// How often a waiting status call looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub(super) async fn create_payment(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let order_id = arguments.required_text("order_id")?.parse()?;
    let amount = arguments.amount()?;
    let currency = arguments.text("currency")?.map(|code| code.parse()).transpose()?;
    let payee = arguments.text("payee")?.map(|account| Account::parse("payee", &account)).transpose()?;
    let memo = Memo::parse("memo", &arguments.text("memo")?.unwrap_or_default())?;
    let signer_id = arguments.text("signer_id")?;
    let signers = arguments.texts("signers", MOST_SIGNERS)?.unwrap_or_default();
    let mut wish: Vec<SignerId> = Vec::new();
    for name in signer_id.into_iter().chain(signers) {
        let signer: SignerId = name.parse()?;
        if !wish.contains(&signer) {
            wish.push(signer);
        }
    }
    let key = arguments.text("idempotency_key")?.map(|key| key.parse()).transpose()?;
    let supersedes = arguments
        .text("supersedes")?
        .map(|id| id.parse().map_err(|_| Refusal::invalid("supersedes", "is not a payment_id")))
        .transpose()?;
    let notify = arguments.flag("notify")?.unwrap_or(false);
    arguments.done()?;
    let created =
        journal.create(who, CreateRequest { order_id, amount, currency, payee, memo, wish, key, supersedes }).await?;
    let mut payment = created.payment;
    let mut trouble = None;
    if notify && !payment.status.is_terminal() {
        // The payment is durable: trouble with reaching the signers is told beside it, not instead of it.
        let selector = crate::journal::Selector::Payment(payment.terms.payment_id.clone());
        match journal.notify(who, &selector, Asker::Agent).await {
            Ok(reaching) => {
                payment = reaching.payment;
                trouble = reaching.trouble;
            }
            Err(refusal) => trouble = Some(refusal),
        }
    }
    let mut reply = Reply::about(&payment);
    if created.replayed {
        reply = reply.with("idempotent_replayed", json!(true));
    }
    Ok(match trouble {
        Some(refusal) => reply.with("notice", json!({"code": refusal.code.as_str(), "message": refusal.message})),
        None => reply,
    })
}

pub(super) async fn notify_signer(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    arguments.done()?;
    let reaching = journal.notify(who, &selector, Asker::Agent).await?;
    match reaching.trouble {
        Some(refusal) => Err(refusal),
        None => Ok(Reply::about(&reaching.payment)),
    }
}

pub(super) async fn get_payment_status(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    let wait = arguments.number("wait_ms", LONGEST_WAIT_MS)?.unwrap_or(0);
    arguments.done()?;
    let until = Instant::now() + Duration::from_millis(wait).min(journal.rules().longest_wait);
    let first = journal.status(who, &selector).await?;
    let mut payment = first.clone();
    let stopping = journal.stopping();
    while same_news(&first, &payment)
        && !payment.status.is_terminal()
        && Instant::now() < until
        && !stopping.is_cancelled()
    {
        // A process that is to stop answers with what there is: the client asks the next one.
        stopping.run_until_cancelled(sleep(LOOK_EVERY.min(until.duration_since(Instant::now())))).await;
        payment = journal.status(who, &selector).await?;
    }
    Ok(match journal.progress(&payment).await? {
        Some(progress) => Reply::following(&payment, &progress),
        None => Reply::about(&payment),
    })
}

/// Whether a waiting caller would learn nothing new.
fn same_news(before: &Payment, now: &Payment) -> bool {
    let news = |payment: &Payment| {
        let held = payment.held_at.is_some();
        (payment.status, payment.execution.phase, payment.approvals, payment.attention.len(), held)
    };
    before.terms.payment_id == now.terms.payment_id && news(before) == news(now)
}

pub(super) async fn get_sign_link(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    arguments.done()?;
    let (payment, link) = journal.sign_link(who, &selector).await?;
    let mut reply = Reply::about(&payment).with("sign_url", json!(link.url));
    if !link.qr_url.is_empty() {
        reply = reply.with("qr_image_url", json!(link.qr_url));
    }
    Ok(reply
        .with("link_expires_at", json!(link.expires_at.rfc3339()))
        .with(
            "message",
            json!("Pass this address on to the signer. It only shows the payment; opening it approves nothing."),
        )
        .with("next_action", json!("pass_link_to_signer")))
}

pub(super) async fn check_sign_status(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    arguments.done()?;
    let news = journal.check_signer(who, &selector).await?;
    let signers: Vec<_> =
        news.online.iter().map(|(signer, online)| json!({"signer_id": signer, "online": online})).collect();
    Ok(Reply::about(&news.payment).with("signers", json!(signers)))
}

pub(super) async fn cancel_payment(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let selector = arguments.selector()?;
    arguments.done()?;
    let payment = journal.cancel(who, &selector).await?;
    let reply = Reply::about(&payment);
    if payment.execution.cancel_requested_at.is_some() && !payment.status.is_terminal() {
        return Ok(reply.with("message", json!(
            "CANCEL_PENDING: the payment may already be on its way, so calling it off can't be promised. Follow it with get_payment_status.")));
    }
    Ok(reply)
}

pub(super) async fn list_payments(
    journal: &Journal,
    who: &Principal,
    mut arguments: Arguments,
) -> Result<Reply, Refusal> {
    let status = arguments
        .text("status")?
        .map(|name| {
            Status::from_name(&name)
                .ok_or_else(|| Refusal::invalid("status", "is not a payment status, such as \"AWAITING_SIGNER\""))
        })
        .transpose()?;
    let cursor = arguments.cursor()?;
    arguments.done()?;
    let page = journal.list(who, status, cursor.as_ref()).await?;
    Ok(listed(&page, "payments"))
}

/// A page as a result.
pub(super) fn listed(page: &crate::journal::Page, key: &str) -> Reply {
    let payments: Vec<_> = page.payments.iter().map(summary).collect();
    let reply = Reply::list(format!("{} on this page", payments.len())).with(key, json!(payments));
    match &page.next {
        Some(cursor) => reply.with("next_cursor", json!(cursor)),
        None => reply,
    }
}
