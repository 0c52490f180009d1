//! What became of messages to people, as the signer service tells it; proves nothing.

use std::fmt;

use crate::domain::{SignerId, Timestamp};

/// What became of a message to one signer, on one of their channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The person; `None` where a link that was passed on says nothing of who followed it.
    pub signer: Option<SignerId>,
    /// The notification that it belongs to; 0 where the service does not say.
    pub notification: i64,
    /// The way it took: a stable word, or empty where the service's is none.
    pub channel: String,
    /// What became of it.
    pub outcome: Arrival,
    /// Why, in a stable word, or empty.
    pub reason: String,
    /// When; of what is put off, until when.
    pub at: Option<Timestamp>,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is being tried.
    Pending,
    /// It is put off: the person's quiet hours, or many messages at once.
    Deferred,
    /// The channel took it.
    Delivered,
    /// It did not.
    Unreachable,
    /// Somebody had the sign page before them.
    Viewed,
}

impl Arrival {
    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Deferred => "deferred",
            Self::Delivered => "delivered",
            Self::Unreachable => "unreachable",
            Self::Viewed => "viewed",
        }
    }

    /// What the contract's word means.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Pending, Self::Deferred, Self::Delivered, Self::Unreachable, Self::Viewed]
            .into_iter()
            .find(|arrival| arrival.as_str() == name)
    }
}

impl Receipt {
    /// Whether something is on its way or put off, and nothing has arrived.
    pub fn none_arrived_yet(receipts: &[Self]) -> bool {
        let any = |wanted: &[Arrival]| receipts.iter().any(|receipt| wanted.contains(&receipt.outcome));
        any(&[Arrival::Pending, Arrival::Deferred]) && !any(&[Arrival::Delivered, Arrival::Viewed])
    }

    /// Whether notification `number` has reached nobody, and will not any more.
    pub fn all_missed(receipts: &[Self], number: i64) -> bool {
        let mut of_it = receipts.iter().filter(|receipt| receipt.notification == number).peekable();
        of_it.peek().is_some() && of_it.all(|receipt| receipt.outcome == Arrival::Unreachable)
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.signer.as_ref().map_or("somebody", SignerId::as_str))?;
        if !self.channel.is_empty() {
            write!(f, " by {}", self.channel)?;
        }
        write!(f, ": {}", self.outcome.as_str())?;
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        Ok(())
    }
}
