//! Why a person should look at a payment.

/// Why a person should look, beside the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attention {
    /// The rail holds something under our reference that is not what we asked.
    IntegrityMismatch,
    /// The rail says money moved for a payment that had ended otherwise.
    TerminalContradiction,
    /// The outcome is unknown and the key is too old to send again.
    ResendWindowClosed,
    /// A later attempt was refused while an earlier one is in doubt.
    RefusedWhileUnknown,
    /// Called off while the outcome is unknown; it is not sent again.
    CancelWhileUnknown,
    /// Its agent has asked about it so often that it was told to stop; gone when the payment ends.
    ContextBudgetSpent,
    /// A change would have broken what must hold, and was refused.
    InvariantBroken,
    /// The rail carried out an attempt that two people had attested not to have been.
    AttestationContradicted,
    /// The rail shows a transfer of a payment that was not signed here: made after the backup that this is.
    PaidAfterBackup,
    /// It was signed before a restore and never sent, and is asked anew: what people said of it since is forgotten.
    SignedBeforeRestore,
    /// It was approved or rejected with a passkey whose counter had been further: there may be a copy of it.
    PasskeyCounterBack,
}

impl Attention {
    /// Every reason.
    pub const ALL: [Self; 11] = [
        Self::IntegrityMismatch,
        Self::TerminalContradiction,
        Self::ResendWindowClosed,
        Self::RefusedWhileUnknown,
        Self::CancelWhileUnknown,
        Self::ContextBudgetSpent,
        Self::InvariantBroken,
        Self::AttestationContradicted,
        Self::PaidAfterBackup,
        Self::SignedBeforeRestore,
        Self::PasskeyCounterBack,
    ];

    /// The stable spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IntegrityMismatch => "INTEGRITY_MISMATCH",
            Self::TerminalContradiction => "TERMINAL_CONTRADICTION",
            Self::ResendWindowClosed => "RESEND_WINDOW_CLOSED",
            Self::RefusedWhileUnknown => "REFUSED_WHILE_UNKNOWN",
            Self::CancelWhileUnknown => "CANCEL_WHILE_UNKNOWN",
            Self::ContextBudgetSpent => "CONTEXT_BUDGET_SPENT",
            Self::InvariantBroken => "INVARIANT_BROKEN",
            Self::AttestationContradicted => "ATTESTATION_CONTRADICTED",
            Self::PaidAfterBackup => "PAID_AFTER_BACKUP",
            Self::SignedBeforeRestore => "SIGNED_BEFORE_RESTORE",
            Self::PasskeyCounterBack => "PASSKEY_COUNTER_BACK",
        }
    }

    /// The reason of that exact spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}
