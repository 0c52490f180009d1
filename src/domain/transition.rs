//! The state machine: one pure function from a payment and an event to the next payment.
//!
//! Each arm handles one event, and names every [`Stage`] it can meet; there is no wildcard. Ended
//! payments absorb: evidence that contradicts one raises attention, never a transition.

use std::time::Duration;

use super::backoff::Backoff;
use super::payment::{Attention, Closing, Payment, Phase, Stage, Status};
use super::quorum::Standing;
use super::refusal::{Code, Refusal};
use super::time::Timestamp;
use super::wake::may_resend;

/// The spans that transitions go by; configuration, never the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Waits between attempts to reach the signers.
    pub notify: Backoff,
    /// Between questions to the signer service for decisions.
    pub check_every: Duration,
    /// Waits between look-ups and between sends of what was provably not sent. Never used up.
    pub query: Backoff,
    /// How long an attempt may run before others may take over.
    pub lease: Duration,
    /// How long "not found" may still mean "not yet visible".
    pub read_lag: Duration,
    /// How long the same key may be sent again after the first send; `None` for never.
    pub resend_window: Option<Duration>,
}

/// When, and with which spans and chance, an event is applied.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The store's time.
    pub now: Timestamp,
    /// A random number for jitter.
    pub roll: u64,
    /// The spans.
    pub timing: &'a Timing,
}

impl Moment<'_> {
    fn query_at(&self, done: u32) -> Timestamp {
        let wait = self.timing.query.after(done.max(1), self.roll).unwrap_or(self.timing.query.cap);
        self.now.plus(wait)
    }
}

/// Who asks for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The agent that owns the payment.
    Agent,
    /// An operator: a new campaign of attempts.
    Operator,
}

/// Trouble with the signer service itself, told apart from people who can't be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignerTrouble {
    /// It can't be reached or fails.
    ServiceUnavailable,
    /// It refuses our key.
    Unauthorized,
    /// It did not answer in time.
    Timeout,
    /// It refuses this payment.
    Refused,
}

impl SignerTrouble {
    /// The stable word, also the reason of a `NEED_MANUAL` that follows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServiceUnavailable => "signer_service_unavailable",
            Self::Unauthorized => "signer_unauthorized",
            Self::Timeout => "signer_timeout",
            Self::Refused => "signer_service_refused",
        }
    }
}

/// How an attempt to reach the signers ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// A channel accepted the message.
    Reached,
    /// The service works; the people can't be reached.
    Unreachable,
    /// The service does not work for us.
    Troubled(SignerTrouble),
}

/// What a look-up at the rail yielded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The transfer, as asked.
    Found {
        /// The rail's id.
        transfer_id: String,
    },
    /// A definitive refusal under our reference.
    FoundRefused {
        /// The rail's code.
        code: String,
    },
    /// Something else under our reference.
    Differs,
    /// Nothing under our reference; not the same as "not paid".
    NotFound,
    /// No usable answer.
    Inconclusive,
}

/// Everything that can happen to a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Someone asks that the signers be reached.
    NotifyRequested(Asker),
    /// An attempt to register or notify starts.
    NotifyStarted,
    /// The signer service knows the payment's round.
    Registered {
        /// Its id for the payment.
        signer_ref: String,
        /// The round.
        round: i64,
    },
    /// A notification with this number was settled.
    Notified {
        /// The number.
        number: i64,
        /// How it ended.
        reach: Reach,
    },
    /// Registering did not come to an end.
    RegisterTroubled(SignerTrouble),
    /// A hint that the signer service has news.
    Hinted,
    /// The signer service was asked for decisions.
    Checked,
    /// A verified decision was recorded; `standing` counts it.
    Decided {
        /// The round it was given in.
        round: i64,
        /// What the votes amount to now.
        standing: Standing,
        /// The signer's words, for a rejection.
        reason: String,
    },
    /// The clock is looked at.
    Deadline,
    /// Someone calls it off.
    Cancel,
    /// The quorum no longer holds at execution: a new round.
    QuorumLost {
        /// Why.
        reason: String,
        /// The new round's document.
        document: String,
        /// Its digest.
        digest: String,
    },
    /// The intent to execute is being written.
    ExecutionIntended,
    /// Another attempt under the same key is being written.
    SendStarted,
    /// The rail confirmed.
    RailConfirmed {
        /// The rail's id.
        transfer_id: String,
    },
    /// The rail refused this attempt.
    RailRefused {
        /// Its code.
        code: String,
    },
    /// Provably no byte of this attempt left, or the rail says it was not processed.
    RailNotSent {
        /// How long the rail asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// Anything else.
    RailUnknown {
        /// Whether the answer spoke of another payment or amount.
        mismatch: bool,
    },
    /// A look-up's finding.
    LookedUp(Finding),
    /// The signer service was told of the end, or that was tried.
    CloseTold {
        /// Whether it now knows.
        done: bool,
    },
}

/// What follows from a transition beside the stored payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The public state changed.
    Announce {
        /// Before.
        from: Status,
        /// After.
        to: Status,
    },
    /// A person should look.
    Raise(Attention),
}

/// A transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The payment after the event; its version is one higher if anything changed.
    pub payment: Payment,
    /// What follows.
    pub effects: Vec<Effect>,
}

impl Applied {
    /// Whether anything is to be stored.
    pub fn changed(&self, before: &Payment) -> bool {
        self.payment.version != before.version
    }
}

/// Applies `event` to `payment`.
///
/// *Errors*: the refusal that the caller sees; the payment is then unchanged.
pub fn apply(payment: &Payment, event: Event, moment: &Moment<'_>) -> Result<Applied, Refusal> {
    let mut next = payment.clone();
    match event {
        Event::NotifyRequested(asker) => notify_requested(&mut next, asker, moment)?,
        Event::NotifyStarted => notify_started(&mut next, moment),
        Event::Registered { signer_ref, round } => registered(&mut next, signer_ref, round),
        Event::Notified { number, reach } => notified(&mut next, number, &reach, moment),
        Event::RegisterTroubled(trouble) => reached(&mut next, &Reach::Troubled(trouble), moment),
        Event::Hinted => match next.status.stage() {
            Stage::Open => next.notice.check_at = Some(moment.now),
            Stage::Signed | Stage::Ended => {}
        },
        Event::Checked => match next.status.stage() {
            Stage::Open => next.notice.check_at = Some(moment.now.plus(moment.timing.check_every)),
            Stage::Signed | Stage::Ended => next.notice.check_at = None,
        },
        Event::Decided { round, standing, reason } => decided(&mut next, round, standing, reason, moment)?,
        Event::Deadline => deadline(&mut next, moment),
        Event::Cancel => cancel(&mut next, moment)?,
        Event::QuorumLost { reason, document, digest } => quorum_lost(&mut next, reason, document, digest, moment)?,
        Event::ExecutionIntended => execution_intended(&mut next, moment)?,
        Event::SendStarted => send_started(&mut next, moment)?,
        Event::RailConfirmed { transfer_id } | Event::LookedUp(Finding::Found { transfer_id }) => {
            confirmed(&mut next, transfer_id);
        }
        Event::RailRefused { code } => refused(&mut next, code, moment),
        Event::RailNotSent { retry_after } => not_sent(&mut next, retry_after, moment),
        Event::RailUnknown { mismatch: true } => {
            differs(&mut next);
            in_doubt(&mut next, None, moment);
        }
        Event::RailUnknown { mismatch: false } => in_doubt(&mut next, None, moment),
        Event::LookedUp(Finding::FoundRefused { code }) => found_refused(&mut next, code),
        Event::LookedUp(Finding::Differs) => {
            differs(&mut next);
            looked_up(&mut next, None, moment);
        }
        Event::LookedUp(Finding::NotFound) => {
            let attention = if next.execution.cancel_requested_at.is_some() {
                Some(Attention::CancelWhileUnknown)
            } else if next.execution.resend_until.is_none_or(|until| moment.now >= until) {
                Some(Attention::ResendWindowClosed)
            } else {
                None
            };
            looked_up(&mut next, attention, moment);
        }
        Event::LookedUp(Finding::Inconclusive) => looked_up(&mut next, None, moment),
        Event::CloseTold { done } => close_told(&mut next, done, moment),
    }
    Ok(finish(payment, next, moment))
}

/// Counts the version and derives what follows; an event that changed nothing changes nothing.
fn finish(before: &Payment, mut next: Payment, moment: &Moment<'_>) -> Applied {
    let mut effects = Vec::new();
    if next == *before {
        return Applied { payment: next, effects };
    }
    let (from, to) = (before.status, next.status);
    if from.stage() == Stage::Open && to.stage() != Stage::Open {
        next.notice.next_at = None;
        next.notice.check_at = None;
        if !next.notice.signer_ref.is_empty() {
            next.closing = Closing { tell_at: Some(moment.now), attempts: 0 };
        }
    }
    if to.stage() == Stage::Ended {
        next.execution.next_at = None;
    }
    if from != to {
        effects.push(Effect::Announce { from, to });
    }
    effects.extend(next.attention.difference(&before.attention).copied().map(Effect::Raise));
    next.version = next.version.saturating_add(1);
    next.updated_at = moment.now;
    Applied { payment: next, effects }
}

fn terminal(payment: &Payment) -> Refusal {
    let message = format!("the payment has ended as {} and does not change again", payment.status.as_str());
    Refusal::new(Code::PaymentTerminal, message).about(payment.reference())
}

fn held(payment: &Payment) -> Refusal {
    Refusal::new(Code::PaymentOnManualHold, "an operator holds this payment to settle it by hand")
        .about(payment.reference())
}

fn notify_requested(next: &mut Payment, asker: Asker, moment: &Moment<'_>) -> Result<(), Refusal> {
    match (next.status.stage(), asker) {
        (Stage::Ended, _) => Err(terminal(next)),
        (Stage::Signed, _) => Ok(()),
        // The worker goes on by itself: an agent that asks again must not use attempts up.
        (Stage::Open, Asker::Agent) => {
            if next.notice.attempts == 0 && next.notice.settled == 0 && next.notice.next_at.is_some() {
                next.notice.next_at = Some(moment.now);
            }
            Ok(())
        }
        (Stage::Open, Asker::Operator) => {
            next.notice.attempts = 0;
            next.notice.next_at = Some(moment.now);
            Ok(())
        }
    }
}

/// Before the call: should this process die in it, the next attempt waits for the lease to end.
fn notify_started(next: &mut Payment, moment: &Moment<'_>) {
    match next.status.stage() {
        Stage::Open => next.notice.next_at = Some(moment.now.plus(moment.timing.lease)),
        Stage::Signed | Stage::Ended => {}
    }
}

fn registered(next: &mut Payment, signer_ref: String, round: i64) {
    next.notice.signer_ref = signer_ref;
    next.notice.registered_round = next.notice.registered_round.max(round);
}

fn notified(next: &mut Payment, number: i64, reach: &Reach, moment: &Moment<'_>) {
    match reach {
        Reach::Reached | Reach::Unreachable | Reach::Troubled(SignerTrouble::Refused) => {
            next.notice.settled = next.notice.settled.max(number);
        }
        // In doubt: the same number and key are tried again.
        Reach::Troubled(SignerTrouble::ServiceUnavailable | SignerTrouble::Unauthorized | SignerTrouble::Timeout) => {}
    }
    reached(next, reach, moment);
}

fn reached(next: &mut Payment, reach: &Reach, moment: &Moment<'_>) {
    match next.status.stage() {
        Stage::Open => {}
        Stage::Signed | Stage::Ended => return,
    }
    let (word, exhausted, waiting) = match reach {
        Reach::Reached => {
            next.status = Status::AwaitingSigner;
            next.reason.clear();
            next.notice.attempts = 0;
            "reached".clone_into(&mut next.notice.last);
            next.notice.next_at = None;
            next.notice.check_at = Some(moment.now.plus(moment.timing.check_every));
            return;
        }
        Reach::Unreachable => ("signer_unreachable", "retries_exhausted", Status::SignerUnreachable),
        Reach::Troubled(trouble) => (trouble.as_str(), trouble.as_str(), next.status),
    };
    word.clone_into(&mut next.notice.last);
    next.notice.attempts = next.notice.attempts.saturating_add(1);
    if next.notice.check_at.is_none() && !next.notice.signer_ref.is_empty() {
        next.notice.check_at = Some(moment.now.plus(moment.timing.check_every));
    }
    if let Some(wait) = moment.timing.notify.after(next.notice.attempts, moment.roll) {
        next.status = waiting;
        word.clone_into(&mut next.reason);
        next.notice.next_at = Some(moment.now.plus(wait));
    } else {
        next.status = Status::NeedManual;
        exhausted.clone_into(&mut next.reason);
        next.notice.next_at = None;
    }
}

fn decided(
    next: &mut Payment,
    round: i64,
    standing: Standing,
    reason: String,
    moment: &Moment<'_>,
) -> Result<(), Refusal> {
    let surplus = match next.status {
        Status::Created | Status::AwaitingSigner | Status::SignerUnreachable | Status::NeedManual => false,
        Status::Signed | Status::Executed => true,
        Status::Rejected | Status::Expired | Status::Cancelled | Status::Failed => return Err(terminal(next)),
    };
    if !surplus && next.held_at.is_some() {
        return Err(held(next));
    }
    if !surplus && moment.now >= next.terms.expires_at {
        return Err(
            Refusal::new(Code::PaymentExpired, "the payment's time to be decided has run out").about(next.reference())
        );
    }
    if round != next.round {
        return Err(Refusal::new(
            Code::SigningRoundStale,
            "the payment has a newer signing round; get_approval shows it",
        )
        .about(next.reference()));
    }
    if surplus {
        // Recorded by the caller, no effect here.
        return Ok(());
    }
    match standing {
        Standing::Pending { approvals } => next.approvals = approvals,
        Standing::Complete { approvals } => {
            next.approvals = approvals;
            next.status = Status::Signed;
            next.reason.clear();
            next.execution.next_at = Some(moment.now);
        }
        Standing::Rejected => {
            next.status = Status::Rejected;
            next.reason = reason;
        }
    }
    Ok(())
}

fn deadline(next: &mut Payment, moment: &Moment<'_>) {
    if next.held_at.is_some() {
        return;
    }
    match next.status.stage() {
        Stage::Open => {
            if moment.now >= next.terms.expires_at {
                next.status = Status::Expired;
                "not_decided_in_time".clone_into(&mut next.reason);
            }
        }
        Stage::Signed => match next.execution.phase {
            Phase::None => {
                if moment.now >= next.terms.execute_by {
                    next.status = Status::Expired;
                    "not_executed_in_time".clone_into(&mut next.reason);
                }
            }
            // Every attempt provably sent nothing, so nothing can arrive late.
            Phase::Intended | Phase::Unknown if next.nothing_sent() => {
                if next.execution.cancel_requested_at.is_some() {
                    call_off(next);
                } else if moment.now >= next.terms.execute_by {
                    fail(next, "rail_unavailable".to_owned());
                }
            }
            Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => {}
        },
        Stage::Ended => {}
    }
}

fn call_off(next: &mut Payment) {
    next.status = Status::Cancelled;
    "cancelled_by_request".clone_into(&mut next.reason);
    next.execution.phase = Phase::None;
}

fn cancel(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    if next.status == Status::Cancelled {
        return Ok(());
    }
    match next.status.stage() {
        Stage::Ended => return Err(terminal(next)),
        Stage::Open | Stage::Signed => {}
    }
    if next.held_at.is_some() {
        return Err(held(next));
    }
    match next.execution.phase {
        Phase::None => call_off(next),
        Phase::Intended | Phase::Unknown | Phase::Confirmed | Phase::Refused => {
            if next.execution.cancel_requested_at.is_none() {
                next.execution.cancel_requested_at = Some(moment.now);
            }
        }
    }
    Ok(())
}

/// The guard of everything that touches the rail: signed, and in one of `phases`.
fn executing(payment: &Payment, phases: &[Phase]) -> Result<(), Refusal> {
    let right = payment.status == Status::Signed && phases.contains(&payment.execution.phase);
    if right && payment.held_at.is_none() {
        return Ok(());
    }
    Err(Refusal::new(Code::VersionConflict, "the payment is not where this step expects it").about(payment.reference()))
}

fn quorum_lost(
    next: &mut Payment,
    reason: String,
    document: String,
    digest: String,
    moment: &Moment<'_>,
) -> Result<(), Refusal> {
    executing(next, &[Phase::None])?;
    next.status = Status::AwaitingSigner;
    next.reason = reason;
    next.round = next.round.saturating_add(1);
    next.document = document;
    next.digest = digest;
    next.approvals = 0;
    next.execution.next_at = None;
    next.closing = Closing::default();
    next.notice.attempts = 0;
    next.notice.next_at = Some(moment.now);
    Ok(())
}

fn execution_intended(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    executing(next, &[Phase::None])?;
    if moment.now >= next.terms.execute_by {
        return Err(
            Refusal::new(Code::PaymentExpired, "the payment's time to be executed has run out").about(next.reference())
        );
    }
    next.execution.phase = Phase::Intended;
    start_send(next, moment);
    Ok(())
}

fn send_started(next: &mut Payment, moment: &Moment<'_>) -> Result<(), Refusal> {
    executing(next, &[Phase::Intended, Phase::Unknown])?;
    if next.execution.cancel_requested_at.is_some() || (next.nothing_sent() && moment.now >= next.terms.execute_by) {
        return Err(Refusal::new(Code::VersionConflict, "the payment was called off or its time has run out")
            .about(next.reference()));
    }
    // An attempt in doubt is asked about first, and sent again only while the rail remembers its key.
    let asked = next.execution.phase == Phase::Unknown && next.execution.queries > 0;
    let safe = next.nothing_sent() || (asked && may_resend(next, moment.now, moment.timing));
    if !safe {
        return Err(Refusal::new(Code::VersionConflict, "an attempt is in doubt; the rail must be asked first")
            .about(next.reference()));
    }
    start_send(next, moment);
    Ok(())
}

fn start_send(next: &mut Payment, moment: &Moment<'_>) {
    if next.nothing_sent() {
        // The rail has never seen the key, so its life there starts with this attempt.
        next.execution.resend_until = moment.timing.resend_window.map(|window| moment.now.plus(window));
    }
    next.execution.sends = next.execution.sends.saturating_add(1);
    next.execution.queries = 0;
    next.execution.last_send_at = Some(moment.now);
    next.execution.next_at = Some(moment.now.plus(moment.timing.lease));
}

fn confirmed(next: &mut Payment, transfer_id: String) {
    match next.status {
        Status::Signed => match next.execution.phase {
            Phase::Intended | Phase::Unknown => {
                next.status = Status::Executed;
                next.reason.clear();
                next.execution.phase = Phase::Confirmed;
                next.execution.transfer_id = transfer_id;
            }
            Phase::None | Phase::Confirmed | Phase::Refused => contradict(next),
        },
        Status::Executed => {
            if next.execution.transfer_id != transfer_id {
                contradict(next);
            }
        }
        Status::Created
        | Status::AwaitingSigner
        | Status::SignerUnreachable
        | Status::NeedManual
        | Status::Rejected
        | Status::Expired
        | Status::Cancelled
        | Status::Failed => contradict(next),
    }
}

fn contradict(next: &mut Payment) {
    next.attention.insert(Attention::TerminalContradiction);
}

/// The rail holds something else under our reference: a mismatch, or against an end a contradiction.
fn differs(next: &mut Payment) {
    if in_flight(next) {
        next.attention.insert(Attention::IntegrityMismatch);
    } else if next.status.is_terminal() {
        contradict(next);
    }
}

/// Whether an outcome may still move the payment.
fn in_flight(payment: &Payment) -> bool {
    match payment.status.stage() {
        Stage::Signed => match payment.execution.phase {
            Phase::Intended | Phase::Unknown => true,
            Phase::None | Phase::Confirmed | Phase::Refused => false,
        },
        Stage::Open | Stage::Ended => false,
    }
}

fn refused(next: &mut Payment, code: String, moment: &Moment<'_>) {
    let only_attempt = next.execution.not_sent.saturating_add(1) == next.execution.sends;
    if !in_flight(next) {
        if next.status == Status::Executed && only_attempt {
            contradict(next);
        }
        return;
    }
    if only_attempt {
        fail(next, code);
    } else {
        // It says nothing about an earlier attempt that may still be on its way.
        in_doubt(next, Some(Attention::RefusedWhileUnknown), moment);
    }
}

fn found_refused(next: &mut Payment, code: String) {
    if in_flight(next) {
        fail(next, code);
    } else if next.status == Status::Executed {
        contradict(next);
    }
}

fn fail(next: &mut Payment, code: String) {
    next.status = Status::Failed;
    next.reason = code;
    next.execution.phase = Phase::Refused;
}

fn not_sent(next: &mut Payment, retry_after: Option<Duration>, moment: &Moment<'_>) {
    if !in_flight(next) {
        return;
    }
    next.execution.not_sent = next.execution.not_sent.saturating_add(1).min(next.execution.sends);
    if !next.nothing_sent() {
        in_doubt(next, None, moment);
    } else if next.execution.cancel_requested_at.is_some() {
        call_off(next);
    } else if moment.now >= next.terms.execute_by {
        fail(next, "rail_unavailable".to_owned());
    } else {
        let asked = moment.now.plus(retry_after.unwrap_or_default());
        next.execution.next_at = Some(moment.query_at(next.execution.sends).max(asked));
    }
}

fn in_doubt(next: &mut Payment, attention: Option<Attention>, moment: &Moment<'_>) {
    if !in_flight(next) {
        return;
    }
    next.execution.phase = Phase::Unknown;
    next.attention.extend(attention);
    next.execution.next_at = Some(moment.query_at(next.execution.queries).max(moment.now.plus(moment.timing.read_lag)));
}

fn looked_up(next: &mut Payment, attention: Option<Attention>, moment: &Moment<'_>) {
    if !in_flight(next) {
        return;
    }
    next.execution.queries = next.execution.queries.saturating_add(1);
    in_doubt(next, attention, moment);
}

/// How often the signer service is told of the end before it is left to find out by itself.
const TELL_ATTEMPTS: u32 = 8;

fn close_told(next: &mut Payment, done: bool, moment: &Moment<'_>) {
    if next.closing.tell_at.is_none() {
        return;
    }
    next.closing.attempts = next.closing.attempts.saturating_add(1);
    next.closing.tell_at =
        (!done && next.closing.attempts < TELL_ATTEMPTS).then(|| moment.query_at(next.closing.attempts));
}
