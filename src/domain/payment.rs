//! The payment: what was asked, where it stands.

use std::collections::BTreeSet;

use super::attention::Attention;
use super::id::{AgentId, OrderId, PaymentId, SignerId, TenantId};
use super::money::Money;
use super::policy::{ApprovalPolicy, Facts};
use super::quorum::{Vote, enough, wants, wants_own};
use super::refusal::PaymentRef;
use super::reminders::Asking;
use super::text::{Account, Memo, PartyName};
use super::time::Timestamp;

/// The public state. Append-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Durable; the signers have not been reached yet.
    Created,
    /// A channel accepted the message; a decision is awaited.
    AwaitingSigner,
    /// The signers can't be reached now; the worker goes on trying.
    SignerUnreachable,
    /// The attempts are used up; a person must act. A late signature still counts.
    NeedManual,
    /// The quorum is complete; the payment is being carried out.
    Signed,
    /// The money moved, by the rail's own word.
    Executed,
    /// A signer said no.
    Rejected,
    /// Its time ran out before it was carried out.
    Expired,
    /// Called off before it was carried out.
    Cancelled,
    /// Definitively not carried out.
    Failed,
}

/// Where a state stands in a payment's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Decisions are accepted.
    Open,
    /// The quorum is complete.
    Signed,
    /// Nothing changes again.
    Ended,
}

impl Status {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::Created,
        Self::AwaitingSigner,
        Self::SignerUnreachable,
        Self::NeedManual,
        Self::Signed,
        Self::Executed,
        Self::Rejected,
        Self::Expired,
        Self::Cancelled,
        Self::Failed,
    ];

    /// The public spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::AwaitingSigner => "AWAITING_SIGNER",
            Self::SignerUnreachable => "SIGNER_UNREACHABLE",
            Self::NeedManual => "NEED_MANUAL",
            Self::Signed => "SIGNED",
            Self::Executed => "EXECUTED",
            Self::Rejected => "REJECTED",
            Self::Expired => "EXPIRED",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        }
    }

    /// The state of that exact spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Where the state stands.
    pub const fn stage(self) -> Stage {
        match self {
            Self::Created | Self::AwaitingSigner | Self::SignerUnreachable | Self::NeedManual => Stage::Open,
            Self::Signed => Stage::Signed,
            Self::Executed | Self::Rejected | Self::Expired | Self::Cancelled | Self::Failed => Stage::Ended,
        }
    }

    /// Whether nothing changes again.
    pub fn is_terminal(self) -> bool {
        self.stage() == Stage::Ended
    }
}

/// How far the rail has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No intent: nothing was ever sent.
    None,
    /// The intent is durable; a request may be on its way.
    Intended,
    /// A request may have been carried out; only look-ups and settled answers move it on.
    Unknown,
    /// The rail confirmed it.
    Confirmed,
    /// The rail refused it.
    Refused,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 5] = [Self::None, Self::Intended, Self::Unknown, Self::Confirmed, Self::Refused];

    /// The public spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Intended => "intended",
            Self::Unknown => "unknown",
            Self::Confirmed => "confirmed",
            Self::Refused => "refused",
        }
    }

    /// The phase of that exact spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }
}

/// What was asked. Never changes, but for the rule of a new signing round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Whose it is.
    pub tenant: TenantId,
    /// The payment.
    pub payment_id: PaymentId,
    /// The caller's business key.
    pub order_id: OrderId,
    /// How much.
    pub amount: Money,
    /// From.
    pub payer_account: Account,
    /// To.
    pub payee_account: Account,
    /// To whom; empty when the payee is not on a configured list.
    pub payee_name: PartyName,
    /// What for.
    pub memo: Memo,
    /// The agent that asked.
    pub agent: AgentId,
    /// The person or service it asked for (`sub`).
    pub principal: String,
    /// The signers the agent would like; a wish.
    pub wish: Vec<SignerId>,
    /// The approval rule in force when the signing round began.
    pub policy: ApprovalPolicy,
    /// SHA-256 of the defaulted request, for replays.
    pub fingerprint: String,
    /// The trace that created it (`traceparent`), or `""`.
    pub traceparent: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Decisions count before this.
    pub expires_at: Timestamp,
    /// A signed payment may be started before this.
    pub execute_by: Timestamp,
}

/// How reaching the signers goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Notice {
    /// The signer service's id, once registered.
    pub signer_ref: String,
    /// The round that is registered there; 0 before the first.
    pub registered_round: i64,
    /// Notifications settled so far; the next is one more.
    pub settled: i64,
    /// Attempts used up in this campaign.
    pub attempts: u32,
    /// How the last attempt ended, in a stable word.
    pub last: String,
    /// When the next attempt is due.
    pub next_at: Option<Timestamp>,
    /// When the signer service is next asked for decisions.
    pub check_at: Option<Timestamp>,
}

/// How carrying it out goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Execution {
    /// How far.
    pub phase: Phase,
    /// The generation in the outbound key; raised only by attestation.
    pub group: i64,
    /// Attempts started.
    pub sends: u32,
    /// Attempts of which provably no byte left.
    pub not_sent: u32,
    /// Look-ups since the last attempt.
    pub queries: u32,
    /// When the next step is due.
    pub next_at: Option<Timestamp>,
    /// When the last attempt was started.
    pub last_send_at: Option<Timestamp>,
    /// The same key may be sent again before this.
    pub resend_until: Option<Timestamp>,
    /// When someone asked to call it off while that could no longer be promised.
    pub cancel_requested_at: Option<Timestamp>,
    /// The rail's id for the transfer.
    pub transfer_id: String,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            phase: Phase::None,
            group: 1,
            sends: 0,
            not_sent: 0,
            queries: 0,
            next_at: None,
            last_send_at: None,
            resend_until: None,
            cancel_requested_at: None,
            transfer_id: String::new(),
        }
    }
}

/// Telling the signer service that no more decisions are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Closing {
    /// When to tell it; `None` when there is nothing to tell.
    pub tell_at: Option<Timestamp>,
    /// Attempts so far.
    pub attempts: u32,
}

/// A payment: its terms and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// What was asked.
    pub terms: Terms,
    /// Raised by one at every change.
    pub version: i64,
    /// The public state.
    pub status: Status,
    /// Why it is in that state, in a stable word or a signer's words; may be empty.
    pub reason: String,
    /// The signing round; a new one voids every signature given.
    pub round: i64,
    /// The canonical payment document of this round.
    pub document: String,
    /// Its digest.
    pub digest: String,
    /// Approvals counted in this round.
    pub approvals: u32,
    /// Decisions counted in this round.
    pub decisions: u32,
    /// Reaching the signers.
    pub notice: Notice,
    /// Carrying it out.
    pub execution: Execution,
    /// Telling the signer service about the end.
    pub closing: Closing,
    /// Set while an operator pays by hand.
    pub held_at: Option<Timestamp>,
    /// Why a person should look.
    pub attention: BTreeSet<Attention>,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Payment {
    /// A new payment.
    pub fn new(terms: Terms, document: String, digest: String, auto_notify_at: Timestamp) -> Self {
        let created_at = terms.created_at;
        Self {
            terms,
            version: 1,
            status: Status::Created,
            reason: String::new(),
            round: 1,
            document,
            digest,
            approvals: 0,
            decisions: 0,
            notice: Notice { next_at: Some(auto_notify_at), ..Notice::default() },
            execution: Execution::default(),
            closing: Closing::default(),
            held_at: None,
            attention: BTreeSet::new(),
            updated_at: created_at,
        }
    }

    /// How a refusal names it.
    pub fn reference(&self) -> PaymentRef {
        PaymentRef {
            payment_id: self.terms.payment_id.to_string(),
            order_id: self.terms.order_id.to_string(),
            status: self.status.as_str(),
        }
    }

    /// Whether every attempt so far provably sent nothing.
    pub fn nothing_sent(&self) -> bool {
        self.execution.sends == self.execution.not_sent && !self.unasked()
    }

    /// Whether a new attempt group waits for the rail to be asked about the one before.
    pub fn unasked(&self) -> bool {
        self.execution.phase == Phase::Unknown && self.execution.sends == 0
    }

    /// Whom to reach at `now`, after those who have `decided`: the agent's wish where the policy allows it and it names
    /// enough people, else, or when the wish has had its time, everyone whose approval is still wanted. Deputies beside those
    /// they stand in for when it is their turn; before that if they are named, or if without them it would not be enough.
    /// Never the requester, nor whom the payee's account belongs to.
    pub fn asked(&self, decided: &[Vote], now: Timestamp, asking: Asking) -> Vec<String> {
        let Terms { policy, .. } = &self.terms;
        let enough = |signers: &[SignerId]| enough(policy, &self.terms, decided, signers, now);
        let wanted = |signer: &SignerId| wants(policy, &self.terms, decided, signer, now);
        let left: Vec<SignerId> = policy.signers().iter().filter_map(|name| name.parse().ok()).filter(wanted).collect();
        let wished: Vec<SignerId> = self.terms.wish.iter().filter(|signer| left.contains(signer)).cloned().collect();
        let asked = if !asking.widened && enough(&wished) {
            let beside = left
                .iter()
                .filter(|signer| asking.deputies && !wished.contains(signer) && self.stands_in(signer, &wished, now));
            wished.iter().chain(beside).cloned().collect()
        } else {
            let own =
                |signer: &&SignerId| wished.contains(signer) || wants_own(policy, &self.terms, decided, signer, now);
            let own: Vec<SignerId> = left.iter().filter(own).cloned().collect();
            if !asking.deputies && enough(&own) { own } else { left }
        };
        asked.iter().map(ToString::to_string).collect()
    }

    /// Whether `signer` is deputy of one of `others` now.
    fn stands_in(&self, signer: &SignerId, others: &[SignerId], now: Timestamp) -> bool {
        let mut voices = self.terms.policy.voices(signer.as_str(), Some(now));
        voices.any(|voice| others.iter().any(|other| other.as_str() == voice))
    }

    /// What the policy's rules are judged by.
    pub fn facts(&self) -> Facts<'_> {
        Facts { amount: self.terms.amount, payee: &self.terms.payee_account, agent: &self.terms.agent }
    }

    /// The outbound key of its execution: subject, effect, attempt group; never an attempt number.
    pub fn execution_key(&self) -> String {
        self.key_of_group(self.execution.group)
    }

    /// The key of the attempts that a look-up is about: of the group before, while the new one has sent nothing.
    pub fn doubtful_key(&self) -> String {
        let group = self.execution.group;
        self.key_of_group(if self.unasked() { group.saturating_sub(1) } else { group })
    }

    /// The key of an attempt group.
    pub fn key_of_group(&self, group: i64) -> String {
        format!("{}:rail.execute:g{group}", self.terms.payment_id)
    }
}
