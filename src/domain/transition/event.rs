//! Everything that can happen to a payment, and what follows beside the stored change.

use std::time::Duration;

use crate::domain::attention::Attention;
use crate::domain::id::SignerId;
use crate::domain::payment::Status;
use crate::domain::policy::ApprovalPolicy;
use crate::domain::quorum::Standing;
use crate::domain::time::Timestamp;

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
    /// Channels accepted the message for so many people that they can complete the open level.
    Reached,
    /// The service has it on its way, or puts it off, and can't say yet whether so many get it.
    UnderWay,
    /// The service works; so many people can't be reached.
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
        /// Since when the people asked now are asked: what reminders are counted from.
        since: Timestamp,
        /// How it ended.
        reach: Reach,
    },
    /// The notification with this number was taken, and has not reached enough people after all.
    Unreached {
        /// The number.
        number: i64,
    },
    /// The signer service does not know any more what was registered with it.
    Forgotten {
        /// Its id for the payment that it does not know.
        signer_ref: String,
        /// The notification that it answered so; 0 for none.
        number: i64,
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
        /// Whether this decision opened the next level.
        advanced: bool,
        /// The signer's words, for a rejection.
        reason: String,
        /// Whether the passkey's counter had been further.
        counter_back: bool,
    },
    /// The clock is looked at.
    Deadline,
    /// Someone calls it off.
    Cancel,
    /// Another payment of the same order takes its place, in the same transaction.
    Superseded,
    /// The policy in force at execution denies the payment.
    PolicyDenied {
        /// Why.
        reason: String,
    },
    /// The quorum no longer holds at execution: a new round.
    QuorumLost {
        /// Why.
        reason: String,
        /// The rule in force now; the new round is judged by it.
        policy: Box<ApprovalPolicy>,
        /// The new round's document.
        document: String,
        /// Its digest.
        digest: String,
    },
    /// The intent to execute is being written.
    ExecutionIntended,
    /// Another attempt under the same key is being written.
    SendStarted,
    /// The rail confirmed an attempt under the key of `group`.
    RailConfirmed {
        /// The attempt group of the key that was sent.
        group: i64,
        /// The rail's id.
        transfer_id: String,
    },
    /// The rail refused this attempt.
    RailRefused {
        /// The attempt group of the key that was sent.
        group: i64,
        /// Its code.
        code: String,
    },
    /// Provably no byte of this attempt left, or the rail says it was not processed.
    RailNotSent {
        /// The attempt group of the key that was to be sent.
        group: i64,
        /// How long the rail asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// Anything else.
    RailUnknown {
        /// The attempt group of the key that was sent.
        group: i64,
        /// Whether the answer spoke of another payment or amount.
        mismatch: bool,
    },
    /// A look-up's finding.
    LookedUp(Finding),
    /// After a restore: the rail knows of an attempt that this database does not.
    IntentRecovered,
    /// After a restore: the rail shows a transfer of a payment that nothing was to be sent for.
    PaidUnseen,
    /// After a restore: what people said of it since the backup is forgotten, so nobody has signed it.
    AskedAnew {
        /// The document of the new round.
        document: String,
        /// Its digest.
        digest: String,
    },
    /// After a restore: what people said since of a payment in doubt is forgotten, so its key is not sent again.
    NotAgain,
    /// A person takes the payment over to pay it by hand.
    Held,
    /// Two people let it go on.
    Released,
    /// Two people attest that the money moved.
    AttestedExecuted {
        /// What they refer to, such as a bank's reference.
        reference: String,
    },
    /// Two people attest that it did not.
    AttestedNotExecuted,
    /// An operator asks another signer first.
    Reassigned {
        /// Whom.
        signer: SignerId,
    },
    /// Its agent's context budget is used up.
    ContextSpent,
    /// A change would have broken what must hold.
    InvariantBroken,
    /// The signer service was told of the end, or that was tried.
    CloseTold {
        /// Whether it now knows.
        done: bool,
    },
}

impl Event {
    /// The transfer that it tells of; empty for none.
    pub fn transfer_id(&self) -> &str {
        if let Self::RailConfirmed { transfer_id, .. } | Self::LookedUp(Finding::Found { transfer_id }) = self {
            transfer_id
        } else {
            ""
        }
    }

    /// Whether it tells what happened outside, and so is stored even while a restored database is compared.
    pub const fn is_outcome(&self) -> bool {
        match self {
            Self::Registered { .. }
            | Self::Notified { .. }
            | Self::Unreached { .. }
            | Self::Forgotten { .. }
            | Self::RegisterTroubled(_)
            | Self::RailConfirmed { .. }
            | Self::RailRefused { .. }
            | Self::RailNotSent { .. }
            | Self::RailUnknown { .. }
            | Self::LookedUp(_)
            | Self::IntentRecovered
            | Self::PaidUnseen
            | Self::AskedAnew { .. }
            | Self::NotAgain
            | Self::ContextSpent
            | Self::InvariantBroken
            | Self::CloseTold { .. } => true,
            Self::NotifyRequested(_)
            | Self::NotifyStarted
            | Self::Hinted
            | Self::Checked
            | Self::Decided { .. }
            | Self::Deadline
            | Self::Cancel
            | Self::Superseded
            | Self::PolicyDenied { .. }
            | Self::QuorumLost { .. }
            | Self::ExecutionIntended
            | Self::SendStarted
            | Self::Held
            | Self::Released
            | Self::AttestedExecuted { .. }
            | Self::AttestedNotExecuted
            | Self::Reassigned { .. } => false,
        }
    }
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
