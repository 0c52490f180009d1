//! What a signer says.

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The payment may be carried out.
    Approve,
    /// It may not.
    Reject,
}

impl Choice {
    /// The word that is signed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }

    /// The choice of that exact word.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Approve, Self::Reject].into_iter().find(|choice| choice.as_str() == name)
    }
}
