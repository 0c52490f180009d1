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

    /// Whether the person has it.
    pub const fn has_arrived(self) -> bool {
        match self {
            Self::Delivered | Self::Viewed => true,
            Self::Pending | Self::Deferred | Self::Unreachable => false,
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
    /// What notification `number` came to for `signer`, on whichever of their channels it came furthest.
    pub fn best<'a>(receipts: &'a [Self], number: i64, signer: &SignerId) -> Option<&'a Self> {
        let theirs = receipts
            .iter()
            .filter(|receipt| receipt.signer.as_ref() == Some(signer) && [0, number].contains(&receipt.notification));
        theirs.max_by_key(|receipt| (receipt.outcome.has_arrived(), receipt.outcome != Arrival::Unreachable))
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
