//! What must hold of a payment, checked where it is changed and where it is taken up for work.
//!
//! The state machine is built so that these hold; here they are asked again, in production, from the outcome
//! alone. The numbers are those of ARCHITECTURE.md.

use super::payment::{Payment, Phase, Stage, Status};
use super::wake::next_wake;

/// An invariant that a payment by itself can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// I1: one execution an order. The group of the outbound key never falls, and rises only unsent or attested.
    OneExecution,
    /// I2: what is signed has its quorum.
    Quorum,
    /// I3: what has ended does not change.
    Absorbing,
    /// I4: what ended unpaid was never confirmed, and nothing of it is in doubt.
    NegativeUnpaid,
    /// I5: executed means confirmed, with the rail's id.
    Confirmed,
    /// I8: what has not ended wakes up again, unless it is held.
    Woken,
    /// I12: the version rises by one.
    Version,
    /// The terms that people sign stay as they were; only a new round changes the rule.
    Terms,
}

impl Invariant {
    /// The stable word, as logged and counted.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OneExecution => "one_execution",
            Self::Quorum => "quorum",
            Self::Absorbing => "absorbing",
            Self::NegativeUnpaid => "negative_unpaid",
            Self::Confirmed => "confirmed",
            Self::Woken => "woken",
            Self::Version => "version",
            Self::Terms => "terms",
        }
    }
}

/// The first invariant that `payment` as it stands breaks.
pub fn broken(payment: &Payment) -> Option<Invariant> {
    let Payment { execution, status, .. } = payment;
    let sent = execution.phase != Phase::None;
    let quorum = payment.approvals >= payment.terms.policy.required();
    let rests = payment.held_at.is_some();
    let checks = [
        (Invariant::Woken, status.is_terminal() || rests || next_wake(payment).is_some()),
        // Telling the signer service wakes it too, but only until that is done.
        (Invariant::Woken, status.stage() != Stage::Signed || rests || !sent || execution.next_at.is_some()),
        (Invariant::Quorum, status.stage() != Stage::Signed || quorum),
        (Invariant::OneExecution, status.stage() != Stage::Open || !sent),
        (Invariant::OneExecution, execution.not_sent <= execution.sends && execution.group >= 1),
        (
            Invariant::Confirmed,
            *status != Status::Executed || (execution.phase == Phase::Confirmed && !execution.transfer_id.is_empty()),
        ),
        (Invariant::NegativeUnpaid, *status == Status::Executed || execution.phase != Phase::Confirmed),
        (Invariant::NegativeUnpaid, !ended_unpaid(payment) || settled(payment)),
    ];
    checks.into_iter().find(|(_, holds)| !holds).map(|(invariant, _)| invariant)
}

fn ended_unpaid(payment: &Payment) -> bool {
    payment.status.is_terminal() && payment.status != Status::Executed
}

/// Whether nothing of the payment can still be on its way.
fn settled(payment: &Payment) -> bool {
    match payment.execution.phase {
        Phase::None | Phase::Refused => true,
        Phase::Intended | Phase::Unknown => payment.nothing_sent(),
        Phase::Confirmed => false,
    }
}

/// The first invariant that the step from `before` to `after` breaks, the state it leads to included.
pub fn broken_by(before: &Payment, after: &Payment) -> Option<Invariant> {
    let ended = before.status.is_terminal();
    let (old, new) = (&before.terms, &after.terms);
    let same_terms = old.payment_id == new.payment_id
        && old.tenant == new.tenant
        && old.order_id == new.order_id
        && old.amount == new.amount
        && old.payee_account == new.payee_account
        && old.payer_account == new.payer_account
        && old.agent == new.agent
        && old.expires_at == new.expires_at
        && old.execute_by == new.execute_by;
    let same_round = before.round == after.round;
    let checks = [
        (Invariant::Version, after.version == before.version.saturating_add(1)),
        (Invariant::Absorbing, !ended || (before.status == after.status && before.execution == after.execution)),
        (Invariant::Terms, same_terms && after.round >= before.round),
        (Invariant::Terms, !same_round || (old.policy == new.policy && before.digest == after.digest)),
        (Invariant::OneExecution, after.execution.group >= before.execution.group),
        (
            Invariant::OneExecution,
            after.execution.sends >= before.execution.sends || after.execution.group > before.execution.group,
        ),
    ];
    let step = checks.into_iter().find(|(_, holds)| !holds).map(|(invariant, _)| invariant);
    step.or_else(|| broken(after))
}
