//! The catalogue of errors: every code a caller can meet, in one place.
//!
//! Rendered twice from here: as the error object of an MCP tool result and as an RFC 9457
//! problem. `docs/errors.md` has a row for each code, held by a test. Codes are append-only.

use std::fmt;

/// A stable error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// An argument is missing, unknown, of the wrong type or malformed.
    InvalidArgument,
    /// The amount is not a positive decimal in range.
    AmountInvalid,
    /// The amount has more fraction digits than its currency.
    AmountPrecision,
    /// The currency is unknown or not allowed here.
    CurrencyUnsupported,
    /// A JSON object names the same key twice.
    DuplicateJsonKey,
    /// A text is not NFC or holds control or bidirectional characters.
    TextNotCanonical,
    /// No valid token.
    Unauthenticated,
    /// The token has expired.
    TokenExpired,
    /// The caller's roles do not grant this tool.
    ForbiddenTool,
    /// The policy denies this payment.
    PolicyDenied,
    /// The payee's account is not one the policy lets payments go to.
    PayeeNotAllowed,
    /// A limit for one payment, or for open payments, is exceeded.
    MandateExceeded,
    /// A limit over a rolling window is used up.
    VelocityExceeded,
    /// The signer's level opens only when the one before it is complete.
    LevelNotOpen,
    /// The named signer is not one the policy makes eligible.
    SignerNotEligible,
    /// The requester tried to approve their own payment.
    SelfApprovalForbidden,
    /// The idempotency key was used with another request.
    IdempotencyKeyReused,
    /// The same request is being worked on right now.
    IdempotencyInProgress,
    /// The order already has an open or executed payment.
    OrderAlreadyHasPayment,
    /// The payment changed at the same moment.
    VersionConflict,
    /// The signature does not verify.
    SignatureInvalid,
    /// The decision speaks of other bytes than this payment's.
    DigestMismatch,
    /// The challenge is past its time.
    ChallengeExpired,
    /// The challenge was used for another decision.
    NonceConsumed,
    /// The decision belongs to a replaced signing round.
    SigningRoundStale,
    /// An operator holds the payment to pay it by hand.
    PaymentOnManualHold,
    /// The payment has ended and does not change again.
    PaymentTerminal,
    /// The payment's time has run out.
    PaymentExpired,
    /// No such payment for this caller.
    PaymentNotFound,
    /// Too many calls.
    RateLimited,
    /// The signer service can't be reached or fails.
    SignerServiceUnavailable,
    /// The signer service refuses our key.
    SignerUnauthorized,
    /// The signer service did not answer in time; the outcome is in doubt.
    SignerTimeout,
    /// The request asks for what can't be done while an outcome is unknown.
    OutcomeUnknownBlocks,
    /// The database is a restored backup that is being compared with the rail.
    RestoreUnderWay,
    /// The database can't be used right now.
    StoreUnavailable,
    /// The answer was not ready before the call's deadline.
    DeadlineExceeded,
    /// A fault of ours.
    Internal,
}

/// What the catalogue says of a code.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The stable spelling.
    pub name: &'static str,
    /// The kind of error, for a program that groups them.
    pub category: &'static str,
    /// The HTTP status of the problem document.
    pub status: u16,
    /// Whether the identical call with the identical key could succeed later.
    pub retryable: bool,
    /// When to repeat, in milliseconds, where that helps.
    pub retry_after_ms: Option<u64>,
    /// What a caller does next.
    pub next_action: &'static str,
}

const fn entry(name: &'static str, category: &'static str, status: u16, next_action: &'static str) -> Entry {
    Entry { name, category, status, retryable: false, retry_after_ms: None, next_action }
}

const fn retry(name: &'static str, category: &'static str, status: u16, after_ms: u64) -> Entry {
    Entry { name, category, status, retryable: true, retry_after_ms: Some(after_ms), next_action: "retry_same_call" }
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 38] = [
        Self::InvalidArgument,
        Self::AmountInvalid,
        Self::AmountPrecision,
        Self::CurrencyUnsupported,
        Self::DuplicateJsonKey,
        Self::TextNotCanonical,
        Self::Unauthenticated,
        Self::TokenExpired,
        Self::ForbiddenTool,
        Self::PolicyDenied,
        Self::PayeeNotAllowed,
        Self::MandateExceeded,
        Self::VelocityExceeded,
        Self::LevelNotOpen,
        Self::SignerNotEligible,
        Self::SelfApprovalForbidden,
        Self::IdempotencyKeyReused,
        Self::IdempotencyInProgress,
        Self::OrderAlreadyHasPayment,
        Self::VersionConflict,
        Self::SignatureInvalid,
        Self::DigestMismatch,
        Self::ChallengeExpired,
        Self::NonceConsumed,
        Self::SigningRoundStale,
        Self::PaymentOnManualHold,
        Self::PaymentTerminal,
        Self::PaymentExpired,
        Self::PaymentNotFound,
        Self::RateLimited,
        Self::SignerServiceUnavailable,
        Self::SignerUnauthorized,
        Self::SignerTimeout,
        Self::OutcomeUnknownBlocks,
        Self::RestoreUnderWay,
        Self::StoreUnavailable,
        Self::DeadlineExceeded,
        Self::Internal,
    ];

    /// What the catalogue says of this code.
    pub const fn entry(self) -> Entry {
        match self {
            Self::InvalidArgument => entry("INVALID_ARGUMENT", "validation", 400, "correct_arguments"),
            Self::AmountInvalid => entry("AMOUNT_INVALID", "validation", 422, "correct_arguments"),
            Self::AmountPrecision => entry("AMOUNT_PRECISION", "validation", 422, "correct_arguments"),
            Self::CurrencyUnsupported => entry("CURRENCY_UNSUPPORTED", "validation", 422, "correct_arguments"),
            Self::DuplicateJsonKey => entry("DUPLICATE_JSON_KEY", "validation", 400, "correct_arguments"),
            Self::TextNotCanonical => entry("TEXT_NOT_CANONICAL", "validation", 422, "correct_arguments"),
            Self::Unauthenticated => entry("UNAUTHENTICATED", "auth", 401, "authenticate"),
            Self::TokenExpired => entry("TOKEN_EXPIRED", "auth", 401, "authenticate"),
            Self::ForbiddenTool => entry("FORBIDDEN_TOOL", "auth", 403, "use_another_tool"),
            Self::PolicyDenied => entry("POLICY_DENIED", "policy", 403, "ask_an_operator"),
            Self::PayeeNotAllowed => entry("PAYEE_NOT_ALLOWED", "policy", 403, "ask_an_operator"),
            Self::MandateExceeded => entry("MANDATE_EXCEEDED", "policy", 403, "ask_an_operator"),
            Self::VelocityExceeded => retry("VELOCITY_EXCEEDED", "policy", 429, 3_600_000),
            Self::LevelNotOpen => retry("LEVEL_NOT_OPEN", "signing", 409, 60_000),
            Self::SignerNotEligible => entry("SIGNER_NOT_ELIGIBLE", "policy", 403, "omit_signer_id"),
            Self::SelfApprovalForbidden => entry("SELF_APPROVAL_FORBIDDEN", "policy", 403, "ask_another_signer"),
            Self::IdempotencyKeyReused => {
                entry("IDEMPOTENCY_KEY_REUSED", "conflict", 422, "use_a_new_key_for_a_new_payment")
            }
            Self::IdempotencyInProgress => retry("IDEMPOTENCY_IN_PROGRESS", "conflict", 409, 1_000),
            Self::OrderAlreadyHasPayment => entry("ORDER_ALREADY_HAS_PAYMENT", "conflict", 409, "get_payment_status"),
            Self::VersionConflict => retry("VERSION_CONFLICT", "conflict", 409, 100),
            Self::SignatureInvalid => entry("SIGNATURE_INVALID", "signing", 422, "get_approval"),
            Self::DigestMismatch => entry("DIGEST_MISMATCH", "signing", 422, "get_approval"),
            Self::ChallengeExpired => entry("CHALLENGE_EXPIRED", "signing", 410, "get_approval"),
            Self::NonceConsumed => entry("NONCE_CONSUMED", "signing", 409, "get_payment_status"),
            Self::SigningRoundStale => entry("SIGNING_ROUND_STALE", "signing", 409, "get_approval"),
            Self::PaymentOnManualHold => entry("PAYMENT_ON_MANUAL_HOLD", "signing", 409, "ask_an_operator"),
            Self::PaymentTerminal => entry("PAYMENT_TERMINAL", "terminal", 409, "get_payment_status"),
            Self::PaymentExpired => entry("PAYMENT_EXPIRED", "terminal", 410, "get_payment_status"),
            Self::PaymentNotFound => entry("PAYMENT_NOT_FOUND", "not_found", 404, "list_payments"),
            Self::RateLimited => retry("RATE_LIMITED", "rate_limit", 429, 1_000),
            Self::SignerServiceUnavailable => retry("SIGNER_SERVICE_UNAVAILABLE", "dependency", 503, 2_000),
            Self::SignerUnauthorized => entry("SIGNER_UNAUTHORIZED", "dependency_auth", 502, "page_an_operator"),
            Self::SignerTimeout => retry("SIGNER_TIMEOUT", "unknown_outcome", 504, 2_000),
            Self::OutcomeUnknownBlocks => retry("OUTCOME_UNKNOWN_BLOCKS", "unknown_outcome", 409, 5_000),
            Self::RestoreUnderWay => retry("RESTORE_UNDER_WAY", "internal", 503, 30_000),
            Self::StoreUnavailable => retry("STORE_UNAVAILABLE", "internal", 503, 1_000),
            Self::DeadlineExceeded => retry("DEADLINE_EXCEEDED", "internal", 504, 1_000),
            Self::Internal => entry("INTERNAL", "internal", 500, "page_an_operator"),
        }
    }

    /// The stable spelling.
    pub const fn as_str(self) -> &'static str {
        self.entry().name
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The payment that a refusal speaks of, where the caller may know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRef {
    /// The payment.
    pub payment_id: String,
    /// Its order.
    pub order_id: String,
    /// Its public state.
    pub status: &'static str,
}

/// A request that was not carried out, and why.
///
/// The message is for the caller: it names the field or rule and what to do, and never holds a
/// secret, a path, a query or another system's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// One sentence for the caller.
    pub message: String,
    /// The argument at fault.
    pub field: Option<&'static str>,
    /// When to repeat, in milliseconds; else the code's own answer.
    pub retry_after_ms: Option<u64>,
    /// The payment it speaks of.
    pub payment: Option<Box<PaymentRef>>,
}

impl Refusal {
    /// A refusal with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), field: None, retry_after_ms: None, payment: None }
    }

    /// A refusal that names the argument at fault.
    pub fn of_field(code: Code, field: &'static str, why: impl fmt::Display) -> Self {
        Self { field: Some(field), ..Self::new(code, format!("{field}: {why}")) }
    }

    /// An argument that is malformed.
    pub fn invalid(field: &'static str, why: impl fmt::Display) -> Self {
        Self::of_field(Code::InvalidArgument, field, why)
    }

    /// The same refusal, naming the payment it speaks of.
    #[must_use]
    pub fn about(mut self, payment: PaymentRef) -> Self {
        self.payment = Some(Box::new(payment));
        self
    }

    /// The same refusal with another waiting time.
    #[must_use]
    pub fn after_ms(mut self, millis: u64) -> Self {
        self.retry_after_ms = Some(millis);
        self
    }

    /// When to repeat, in milliseconds, if repeating helps.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after_ms.or(self.code.entry().retry_after_ms)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refusal {}
