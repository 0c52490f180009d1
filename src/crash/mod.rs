//! Places at which a test may have this process die. In a build that ships they are nothing.
//!
//! The feature `crash-points` is on only in the tests' own build of this crate: `Cargo.toml` names it in
//! `[dev-dependencies]`, and CI looks into the program it built for what must not be in it. There, `plan`
//! reads a file before each point and does as it says.
//!
//! To add a point: a variant, its name, the call; a test holds the three against each other.

#[cfg(feature = "crash-points")]
mod plan;

/// A place before or after a commit, or around a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each says which commit it stands before or after; `as_str` is its name in a plan")]
pub enum Point {
    CreateBeforeCommit,
    CreateAfterCommit,
    NotifyBeforeCommit,
    NotifyAfterCommit,
    DecideBeforeCommit,
    DecideAfterCommit,
    CancelBeforeCommit,
    CancelAfterCommit,
    HoldBeforeCommit,
    HoldAfterCommit,
    WordBeforeCommit,
    WordAfterCommit,
    ClaimBeforeCommit,
    ClaimAfterCommit,
    IntentBeforeCommit,
    IntentAfterCommit,
    Answered,
    OutcomeBeforeCommit,
    OutcomeAfterCommit,
    LookUpBeforeCommit,
    LookUpAfterCommit,
    ReleaseBeforeCommit,
    ReleaseAfterCommit,
    EventClaimBeforeCommit,
    EventClaimAfterCommit,
    EventAnswered,
    EventSettleBeforeCommit,
    EventSettleAfterCommit,
    RoundBeforeCommit,
    RoundAfterCommit,
    DenialBeforeCommit,
    DenialAfterCommit,
    DeadlineBeforeCommit,
    DeadlineAfterCommit,
    FirstWordBeforeCommit,
    FirstWordAfterCommit,
    HintBeforeCommit,
    HintAfterCommit,
    RefusalBeforeCommit,
    RefusalAfterCommit,
    ArchiveBeforeCommit,
    ArchiveAfterCommit,
    CompareBeforeCommit,
    CompareAfterCommit,
}

/// By how many microseconds this machine's clock is to be wrong.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub(crate) const fn clock_error() -> i64 {
    0
}

/// By how many microseconds this machine's clock is to be wrong.
#[cfg(feature = "crash-points")]
pub(crate) fn clock_error() -> i64 {
    plan::clock_error()
}

/// Passes a point.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub(crate) const fn at(_: Point) {}

/// Passes a point of one kind of side effect: its name, or an outbound key, which holds it.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub(crate) const fn on(_: &str, _: Point) {}

/// Passes a point.
#[cfg(feature = "crash-points")]
pub(crate) fn at(point: Point) {
    plan::pass("", point);
}

/// Passes a point of one kind of side effect: its name, or an outbound key, which holds it.
#[cfg(feature = "crash-points")]
pub(crate) fn on(kind: &str, point: Point) {
    plan::pass(kind, point);
}

#[cfg(feature = "crash-points")]
impl Point {
    /// Every point.
    pub const ALL: [Self; 44] = [
        Self::CreateBeforeCommit,
        Self::CreateAfterCommit,
        Self::NotifyBeforeCommit,
        Self::NotifyAfterCommit,
        Self::DecideBeforeCommit,
        Self::DecideAfterCommit,
        Self::CancelBeforeCommit,
        Self::CancelAfterCommit,
        Self::HoldBeforeCommit,
        Self::HoldAfterCommit,
        Self::WordBeforeCommit,
        Self::WordAfterCommit,
        Self::ClaimBeforeCommit,
        Self::ClaimAfterCommit,
        Self::IntentBeforeCommit,
        Self::IntentAfterCommit,
        Self::Answered,
        Self::OutcomeBeforeCommit,
        Self::OutcomeAfterCommit,
        Self::LookUpBeforeCommit,
        Self::LookUpAfterCommit,
        Self::ReleaseBeforeCommit,
        Self::ReleaseAfterCommit,
        Self::EventClaimBeforeCommit,
        Self::EventClaimAfterCommit,
        Self::EventAnswered,
        Self::EventSettleBeforeCommit,
        Self::EventSettleAfterCommit,
        Self::RoundBeforeCommit,
        Self::RoundAfterCommit,
        Self::DenialBeforeCommit,
        Self::DenialAfterCommit,
        Self::DeadlineBeforeCommit,
        Self::DeadlineAfterCommit,
        Self::FirstWordBeforeCommit,
        Self::FirstWordAfterCommit,
        Self::HintBeforeCommit,
        Self::HintAfterCommit,
        Self::RefusalBeforeCommit,
        Self::RefusalAfterCommit,
        Self::ArchiveBeforeCommit,
        Self::ArchiveAfterCommit,
        Self::CompareBeforeCommit,
        Self::CompareAfterCommit,
    ];

    /// Its name in a plan; behind a kind and a slash where each kind of side effect has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CreateBeforeCommit => "create.before_commit",
            Self::CreateAfterCommit => "create.after_commit",
            Self::NotifyBeforeCommit => "notify.before_commit",
            Self::NotifyAfterCommit => "notify.after_commit",
            Self::DecideBeforeCommit => "decide.before_commit",
            Self::DecideAfterCommit => "decide.after_commit",
            Self::CancelBeforeCommit => "cancel.before_commit",
            Self::CancelAfterCommit => "cancel.after_commit",
            Self::HoldBeforeCommit => "hold.before_commit",
            Self::HoldAfterCommit => "hold.after_commit",
            Self::WordBeforeCommit => "word.before_commit",
            Self::WordAfterCommit => "word.after_commit",
            Self::ClaimBeforeCommit => "claim.before_commit",
            Self::ClaimAfterCommit => "claim.after_commit",
            Self::IntentBeforeCommit => "intent.before_commit",
            Self::IntentAfterCommit => "intent.after_commit",
            Self::Answered => "answered",
            Self::OutcomeBeforeCommit => "outcome.before_commit",
            Self::OutcomeAfterCommit => "outcome.after_commit",
            Self::LookUpBeforeCommit => "look_up.before_commit",
            Self::LookUpAfterCommit => "look_up.after_commit",
            Self::ReleaseBeforeCommit => "release.before_commit",
            Self::ReleaseAfterCommit => "release.after_commit",
            Self::EventClaimBeforeCommit => "event.claim.before_commit",
            Self::EventClaimAfterCommit => "event.claim.after_commit",
            Self::EventAnswered => "event.answered",
            Self::EventSettleBeforeCommit => "event.settle.before_commit",
            Self::EventSettleAfterCommit => "event.settle.after_commit",
            Self::RoundBeforeCommit => "round.before_commit",
            Self::RoundAfterCommit => "round.after_commit",
            Self::DenialBeforeCommit => "denial.before_commit",
            Self::DenialAfterCommit => "denial.after_commit",
            Self::DeadlineBeforeCommit => "deadline.before_commit",
            Self::DeadlineAfterCommit => "deadline.after_commit",
            Self::FirstWordBeforeCommit => "first_word.before_commit",
            Self::FirstWordAfterCommit => "first_word.after_commit",
            Self::HintBeforeCommit => "hint.before_commit",
            Self::HintAfterCommit => "hint.after_commit",
            Self::RefusalBeforeCommit => "refusal.before_commit",
            Self::RefusalAfterCommit => "refusal.after_commit",
            Self::ArchiveBeforeCommit => "archive.before_commit",
            Self::ArchiveAfterCommit => "archive.after_commit",
            Self::CompareBeforeCommit => "compare.before_commit",
            Self::CompareAfterCommit => "compare.after_commit",
        }
    }
}
