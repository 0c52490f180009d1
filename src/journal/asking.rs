//! Whom a notification asks, and whether it reached so many of them that the payment can be decided.

use super::ports::{Arrival, Receipt, SignerStatus};
use super::votes::votes;
use super::{Journal, reading::is_open};
use crate::domain::{
    Asking, Payment, Reach, Refusal, SignerId, Standing, Status, Timestamp, enough, evaluate, opened_at,
};
use crate::store::{EffectKind, EffectState, Tx};

/// Whom the next notification asks.
pub(super) struct Whom {
    pub(super) signers: Vec<String>,
    /// When the people of the open level were first asked.
    pub(super) since: Timestamp,
}

/// The outbound key of a notification.
pub(super) fn notify_key(payment: &Payment, number: i64) -> String {
    format!("{}{number}", notify_keys(payment))
}

/// What the outbound keys of all notifications of a round begin with.
fn notify_keys(payment: &Payment) -> String {
    format!("{}:{}:r{}:n", payment.terms.payment_id, EffectKind::SignerNotify.as_str(), payment.round)
}

impl Journal {
    /// Whom to ask now: deputies, too, once those of the open level were asked and that did not reach enough of them, or
    /// they have been left alone until the first reminder.
    pub(super) async fn whom(&self, tx: &mut Tx, payment: &Payment) -> Result<Whom, Refusal> {
        let Payment { terms, status, .. } = payment;
        let decided = votes(&tx.decisions(terms.payment_id.as_str(), payment.round).await?);
        let now = tx.now();
        let opened = opened_at(&terms.policy, terms, &decided).unwrap_or(terms.created_at);
        let keys = notify_keys(payment);
        let sent = tx.effects_of(terms.payment_id.as_str()).await?;
        let first = sent.iter().find(|effect| {
            effect.outbound_key.starts_with(&keys)
                && effect.state == EffectState::Done.as_str()
                && effect.created_at >= opened.micros()
        });
        let reminders = &self.rules.timing.reminders;
        let widened = reminders.widened(terms, now);
        let Some(since) = first.map(|effect| Timestamp::from_micros(effect.created_at)) else {
            let signers = payment.asked(&decided, now, Asking { widened, deputies: false });
            return Ok(Whom { signers, since: now });
        };
        let missed = matches!(status, Status::SignerUnreachable | Status::NeedManual);
        let deputies = missed || reminders.had_their_time(terms, since, now);
        Ok(Whom { signers: payment.asked(&decided, now, Asking { widened, deputies }), since })
    }

    /// What a notification that asked `asked` came to, by its receipts.
    ///
    /// It reached enough if those who were reached can complete the open level together with those who have decided. Of
    /// whom there is no receipt the service is believed.
    pub(super) async fn reach_of(
        &self,
        payment: &Payment,
        number: i64,
        asked: &[SignerId],
        receipts: &[Receipt],
    ) -> Result<Reach, Refusal> {
        let came = |signer: &SignerId| Receipt::best(receipts, number, signer).map(|receipt| receipt.outcome);
        let all = |kept: &dyn Fn(Option<Arrival>) -> bool| -> Vec<SignerId> {
            asked.iter().filter(|signer| kept(came(signer))).cloned().collect()
        };
        let arrived = all(&|came| came.is_none_or(Arrival::has_arrived));
        let coming = all(&|came| came != Some(Arrival::Unreachable));
        if arrived.len() == asked.len() {
            return Ok(Reach::Reached);
        }
        let terms = &payment.terms;
        let decided = votes(&self.store.read().await?.decisions(terms.payment_id.as_str(), payment.round).await?);
        let now = self.clock.now();
        let enough = |signers: &[SignerId]| enough(&terms.policy, terms, &decided, signers, now);
        Ok(match evaluate(&terms.policy, terms, &decided) {
            // Decided meanwhile.
            Standing::Complete { .. } | Standing::Rejected => Reach::Reached,
            Standing::Pending { .. } if enough(&arrived) => Reach::Reached,
            Standing::Pending { .. } if coming.len() == asked.len() || enough(&coming) => Reach::UnderWay,
            Standing::Pending { .. } => Reach::Unreachable,
        })
    }

    /// Who of those whom the last notification asked were not reached, and why; nobody while enough were.
    pub(super) async fn short_of(
        &self,
        payment: &Payment,
        status: &SignerStatus,
    ) -> Result<Vec<(SignerId, String)>, Refusal> {
        let number = payment.notice.settled;
        // Whoever is to be asked now has not been asked.
        let anew =
            payment.status == Status::AwaitingSigner && payment.notice.next_at.is_some_and(|at| at <= self.clock.now());
        let missed = |receipt: &Receipt| receipt.outcome == Arrival::Unreachable;
        if status.round != payment.round || !is_open(payment) || anew || !status.receipts.iter().any(missed) {
            return Ok(Vec::new());
        }
        let sent = self.store.read().await?.effect(&notify_key(payment, number)).await?;
        let asked = sent.map(|effect| self.signer.asked_in(&effect.body)).unwrap_or_default();
        if self.reach_of(payment, number, &asked, &status.receipts).await? != Reach::Unreachable {
            return Ok(Vec::new());
        }
        let why = |signer: &SignerId| Receipt::best(&status.receipts, number, signer).filter(|best| missed(best));
        Ok(asked.iter().filter_map(|signer| Some((signer.clone(), why(signer)?.reason.clone()))).collect())
    }
}
