//! A payment as a row, and back.

use std::collections::BTreeSet;
use std::str::FromStr;

use sqlx::FromRow;

use super::fault::StoreFault;
use crate::domain::{
    Account, Attention, Closing, Execution, Memo, Money, Notice, PartyName, Payment, Phase, Refusal, SignerId, Status,
    Terms, Timestamp,
};

/// The columns of `payments`, without the lease.
#[derive(Debug, FromRow)]
pub(super) struct PaymentRow {
    pub(super) payment_id: String,
    pub(super) tenant: String,
    pub(super) order_id: String,
    pub(super) version: i64,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) round: i64,
    pub(super) amount_minor: i64,
    pub(super) currency: String,
    pub(super) payer_account: String,
    pub(super) payee_account: String,
    pub(super) payee_name: String,
    pub(super) memo: String,
    pub(super) agent: String,
    pub(super) principal: String,
    pub(super) wish: String,
    pub(super) policy: String,
    pub(super) fingerprint: String,
    pub(super) document: String,
    pub(super) digest: String,
    pub(super) traceparent: String,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) expires_at: i64,
    pub(super) execute_by: i64,
    pub(super) approvals: i64,
    pub(super) decisions: i64,
    pub(super) signer_ref: String,
    pub(super) registered_round: i64,
    pub(super) notify_settled: i64,
    pub(super) notify_attempts: i64,
    pub(super) notify_last: String,
    pub(super) notify_at: Option<i64>,
    pub(super) check_at: Option<i64>,
    pub(super) phase: String,
    pub(super) attempt_group: i64,
    pub(super) sends: i64,
    pub(super) not_sent: i64,
    pub(super) queries: i64,
    pub(super) execute_at: Option<i64>,
    pub(super) last_send_at: Option<i64>,
    pub(super) resend_until: Option<i64>,
    pub(super) cancel_requested_at: Option<i64>,
    pub(super) transfer_id: String,
    pub(super) tell_at: Option<i64>,
    pub(super) tell_attempts: i64,
    pub(super) held_at: Option<i64>,
    pub(super) attention: String,
    pub(super) next_wake_at: Option<i64>,
}

fn at(micros: Option<i64>) -> Option<Timestamp> {
    micros.map(Timestamp::from_micros)
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::micros)
}

fn corrupt(column: &str) -> StoreFault {
    StoreFault::Corrupt(format!("payments.{column}"))
}

fn read<T: FromStr>(column: &str, text: &str) -> Result<T, StoreFault> {
    text.parse().map_err(|_| corrupt(column))
}

fn count(column: &str, value: i64) -> Result<u32, StoreFault> {
    u32::try_from(value).map_err(|_| corrupt(column))
}

impl TryFrom<PaymentRow> for Payment {
    type Error = StoreFault;

    fn try_from(row: PaymentRow) -> Result<Self, StoreFault> {
        let text = |column: &'static str| move |_: Refusal| corrupt(column);
        let words = |list: &str| list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let wish = words(&row.wish).iter().map(|word| read("wish", word)).collect::<Result<Vec<SignerId>, _>>()?;
        let attention = words(&row.attention)
            .iter()
            .map(|word| Attention::from_name(word).ok_or_else(|| corrupt("attention")))
            .collect::<Result<BTreeSet<_>, _>>()?;
        let terms = Terms {
            tenant: read("tenant", &row.tenant)?,
            payment_id: read("payment_id", &row.payment_id)?,
            order_id: read("order_id", &row.order_id)?,
            amount: Money::from_minor(row.amount_minor, read("currency", &row.currency)?)
                .map_err(text("amount_minor"))?,
            payer_account: Account::parse("payer_account", &row.payer_account).map_err(text("payer_account"))?,
            payee_account: Account::parse("payee_account", &row.payee_account).map_err(text("payee_account"))?,
            payee_name: PartyName::parse("payee_name", &row.payee_name).map_err(text("payee_name"))?,
            memo: Memo::parse("memo", &row.memo).map_err(text("memo"))?,
            agent: read("agent", &row.agent)?,
            principal: row.principal,
            wish,
            policy: serde_json::from_str(&row.policy).map_err(|_| corrupt("policy"))?,
            fingerprint: row.fingerprint,
            traceparent: row.traceparent,
            created_at: Timestamp::from_micros(row.created_at),
            expires_at: Timestamp::from_micros(row.expires_at),
            execute_by: Timestamp::from_micros(row.execute_by),
        };
        Ok(Self {
            terms,
            version: row.version,
            status: Status::from_name(&row.status).ok_or_else(|| corrupt("status"))?,
            reason: row.reason,
            round: row.round,
            document: row.document,
            digest: row.digest,
            approvals: count("approvals", row.approvals)?,
            decisions: count("decisions", row.decisions)?,
            notice: Notice {
                signer_ref: row.signer_ref,
                registered_round: row.registered_round,
                settled: row.notify_settled,
                attempts: count("notify_attempts", row.notify_attempts)?,
                last: row.notify_last,
                next_at: at(row.notify_at),
                check_at: at(row.check_at),
            },
            execution: Execution {
                phase: Phase::from_name(&row.phase).ok_or_else(|| corrupt("phase"))?,
                group: row.attempt_group,
                sends: count("sends", row.sends)?,
                not_sent: count("not_sent", row.not_sent)?,
                queries: count("queries", row.queries)?,
                next_at: at(row.execute_at),
                last_send_at: at(row.last_send_at),
                resend_until: at(row.resend_until),
                cancel_requested_at: at(row.cancel_requested_at),
                transfer_id: row.transfer_id,
            },
            closing: Closing { tell_at: at(row.tell_at), attempts: count("tell_attempts", row.tell_attempts)? },
            held_at: at(row.held_at),
            attention,
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

impl PaymentRow {
    /// The row of `payment`.
    pub(super) fn of(payment: &Payment) -> Result<Self, StoreFault> {
        let Payment { terms, notice, execution, closing, .. } = payment;
        let list = |words: Vec<String>| words.join(",");
        Ok(Self {
            payment_id: terms.payment_id.to_string(),
            tenant: terms.tenant.to_string(),
            order_id: terms.order_id.to_string(),
            version: payment.version,
            status: payment.status.as_str().to_owned(),
            reason: payment.reason.clone(),
            round: payment.round,
            amount_minor: terms.amount.minor(),
            currency: terms.amount.currency().code().to_owned(),
            payer_account: terms.payer_account.to_string(),
            payee_account: terms.payee_account.to_string(),
            payee_name: terms.payee_name.to_string(),
            memo: terms.memo.to_string(),
            agent: terms.agent.to_string(),
            principal: terms.principal.clone(),
            wish: list(terms.wish.iter().map(ToString::to_string).collect()),
            policy: crate::proof::jcs(&terms.policy).map_err(|_| corrupt("policy"))?,
            fingerprint: terms.fingerprint.clone(),
            document: payment.document.clone(),
            digest: payment.digest.clone(),
            traceparent: terms.traceparent.clone(),
            created_at: terms.created_at.micros(),
            updated_at: payment.updated_at.micros(),
            expires_at: terms.expires_at.micros(),
            execute_by: terms.execute_by.micros(),
            approvals: payment.approvals.into(),
            decisions: payment.decisions.into(),
            signer_ref: notice.signer_ref.clone(),
            registered_round: notice.registered_round,
            notify_settled: notice.settled,
            notify_attempts: notice.attempts.into(),
            notify_last: notice.last.clone(),
            notify_at: micros(notice.next_at),
            check_at: micros(notice.check_at),
            phase: execution.phase.as_str().to_owned(),
            attempt_group: execution.group,
            sends: execution.sends.into(),
            not_sent: execution.not_sent.into(),
            queries: execution.queries.into(),
            execute_at: micros(execution.next_at),
            last_send_at: micros(execution.last_send_at),
            resend_until: micros(execution.resend_until),
            cancel_requested_at: micros(execution.cancel_requested_at),
            transfer_id: execution.transfer_id.clone(),
            tell_at: micros(closing.tell_at),
            tell_attempts: closing.attempts.into(),
            held_at: micros(payment.held_at),
            attention: list(payment.attention.iter().map(|reason| reason.as_str().to_owned()).collect()),
            next_wake_at: micros(crate::domain::next_wake(payment)),
        })
    }
}
