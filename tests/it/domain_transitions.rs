//! The whole transition table: what every event does to a payment in every state it can be in.
//!
//! Written from `reference/payments.md` §2.1, §2.2, §3c and DESIGN §4, not from the code.

use countersign::domain::{Asker, Attention, Code, Event, Finding, Payment, Phase, Reach, SignerTrouble, Standing};
use countersign::domain::{Status, Timestamp, apply};

use crate::harness::payments::{
    CREATED_AT, EXECUTE_BY, EXPIRES_AT, NOW, RESEND_UNTIL, SECOND, SENT_AT, TIMING, after, at, check_version, payment,
    quorum_of, raised, unknown,
};

/// The table. One row an event, one column a state that exists (SIGNED, INTENDED and UNKNOWN are SIGNED in
/// phase none, intended and unknown; the others have the one phase that their state can have).
///
/// `=` nothing changes · `~` state and phase stay, something is noted · `>X` becomes X · `!CODE` refused ·
/// `+A` attention: C contradiction, M mismatch, W resend window closed,
/// B context budget spent, I invariant broken, P paid after the backup.
/// The executing columns have one attempt out; in UNKNOWN the rail was asked since.
const TABLE: &str = "
                                  | CREATED   AWAITING  UNREACH   MANUAL    SIGNED    INTENDED   UNKNOWN   | EXECUTED REJECTED EXPIRED CANCELLED FAILED

agent asks to notify              | ~         =         =         =         =         =          =         | !TERM    !TERM    !TERM   !TERM     !TERM
agent asks to notify, held        | !HOLD     !HOLD     !HOLD     !HOLD     =         =          =         | !TERM    !TERM    !TERM   !TERM     !TERM
operator resends, held            | !HOLD     !HOLD     !HOLD     !HOLD     =         =          =         | !TERM    !TERM    !TERM   !TERM     !TERM
attempt to notify starts, held    | !HOLD     !HOLD     !HOLD     !HOLD     =         =          =         | =        =        =       =         =
operator resends                  | ~         ~         ~         ~         =         =          =         | !TERM    !TERM    !TERM   !TERM     !TERM
attempt to notify starts          | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
registered                        | ~         =         =         =         =         =          =         | =        =        =       =         =
reached                           | >AWAITING ~         >AWAITING >AWAITING ~         ~          ~         | ~        ~        ~       ~         ~
under way                         | >AWAITING ~         >AWAITING >AWAITING ~         ~          ~         | ~        ~        ~       ~         ~
reached nobody after all          | =         >UNREACH  =         =         =         =          =         | =        =        =       =         =
reached nobody after all, held    | =         =         =         =         =         =          =         | =        =        =       =         =
an older one reached nobody       | =         =         =         =         =         =          =         | =        =        =       =         =
lost by the service               | =         ~         ~         ~         =         =          =         | =        =        =       =         =
lost by the service, held         | =         ~         ~         ~         =         =          =         | =        =        =       =         =
lost by the service when notified | ~         ~         ~         ~         ~         ~          ~         | ~        ~        ~       ~         ~
lost under an older id            | =         =         =         =         =         =          =         | =        =        =       =         =
unreachable                       | >UNREACH  >UNREACH  ~         ~         ~         ~          ~         | ~        ~        ~       ~         ~
notify: service down              | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
notify: key refused               | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
notify: time-out                  | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
notify: payment refused           | ~         ~         ~         ~         ~         ~          ~         | ~        ~        ~       ~         ~
register: service down            | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
register: key refused             | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
register: time-out                | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
register: payment refused         | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
hint of news                      | ~         ~         ~         ~         =         =          =         | =        =        =       =         =
asked for decisions               | ~         ~         ~         ~         =         =          =         | =        =        =       =         =

first approval of two             | ~         ~         ~         ~         =         =          =         | =        !TERM    !TERM   !TERM     !TERM
last approval                     | >SIGNED   >SIGNED   >SIGNED   >SIGNED   =         =          =         | =        !TERM    !TERM   !TERM     !TERM
rejection                         | >REJECTED >REJECTED >REJECTED >REJECTED =         =          =         | =        !TERM    !TERM   !TERM     !TERM
approval, old round               | !STALE    !STALE    !STALE    !STALE    !STALE    !STALE     !STALE    | !STALE   !TERM    !TERM   !TERM     !TERM
approval, just before expires_at  | >SIGNED   >SIGNED   >SIGNED   >SIGNED   =         =          =         | =        !TERM    !TERM   !TERM     !TERM
approval, at expires_at           | !EXP      !EXP      !EXP      !EXP      =         =          =         | =        !TERM    !TERM   !TERM     !TERM
rejection, at expires_at          | !EXP      !EXP      !EXP      !EXP      =         =          =         | =        !TERM    !TERM   !TERM     !TERM
approval, held                    | !HOLD     !HOLD     !HOLD     !HOLD     =         =          =         | =        !TERM    !TERM   !TERM     !TERM
rejection, held                   | !HOLD     !HOLD     !HOLD     !HOLD     =         =          =         | =        !TERM    !TERM   !TERM     !TERM

deadline                          | =         =         =         =         =         =          =         | =        =        =       =         =
deadline, just before expires_at  | =         =         =         =         =         =          =         | =        =        =       =         =
deadline, at expires_at           | >EXPIRED  >EXPIRED  >EXPIRED  >EXPIRED  =         =          =         | =        =        =       =         =
deadline, just before execute_by  | >EXPIRED  >EXPIRED  >EXPIRED  >EXPIRED  =         =          =         | =        =        =       =         =
deadline, at execute_by           | >EXPIRED  >EXPIRED  >EXPIRED  >EXPIRED  >EXPIRED  =          =         | =        =        =       =         =
deadline, held, at execute_by     | =         =         =         =         =         =          =         | =        =        =       =         =
cancel                            | >CANCELLED >CANCELLED >CANCELLED >CANCELLED >CANCELLED ~     ~         | !TERM    !TERM    !TERM   =         !TERM
cancel, held                      | !HOLD     !HOLD     !HOLD     !HOLD     !HOLD     !HOLD      !HOLD     | !TERM    !TERM    !TERM   =         !TERM

quorum lost                       | !BUSY     !BUSY     !BUSY     !BUSY     >AWAITING !BUSY      !BUSY     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
quorum lost, held                 | !BUSY     !BUSY     !BUSY     !BUSY     !HOLD     !BUSY      !BUSY     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
policy denies                     | !BUSY     !BUSY     !BUSY     !BUSY     >CANCELLED !BUSY      !BUSY     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
superseded                        | >CANCELLED >CANCELLED >CANCELLED >CANCELLED >CANCELLED !WAIT  !WAIT     | !TERM    !TERM    !TERM   !TERM     !TERM
superseded, held                  | !HOLD     !HOLD     !HOLD     !HOLD     !HOLD     !HOLD      !HOLD     | !TERM    !TERM    !TERM   !TERM     !TERM
held by a person                  | ~         ~         ~         ~         ~         !WAIT      !WAIT     | !TERM    !TERM    !TERM   !TERM     !TERM
held by a person, held            | =         =         =         =         =         !WAIT      !WAIT     | !TERM    !TERM    !TERM   !TERM     !TERM
released                          | !ARG      !ARG      !ARG      !ARG      !ARG      !ARG       !ARG      | !TERM    !TERM    !TERM   !TERM     !TERM
released, held                    | ~         ~         ~         ~         ~         ~          ~         | !TERM    !TERM    !TERM   !TERM     !TERM
attested as executed              | !ARG      !ARG      !ARG      !ARG      !ARG      !ARG       >EXECUTED | !TERM    !TERM    !TERM   !TERM     !TERM
attested as executed, held        | >EXECUTED >EXECUTED >EXECUTED >EXECUTED >EXECUTED >EXECUTED  >EXECUTED | !TERM    !TERM    !TERM   !TERM     !TERM
attested as not executed          | !ARG      !ARG      !ARG      !ARG      !ARG      !ARG       !WAIT     | !TERM    !TERM    !TERM   !TERM     !TERM
attested as not executed, settled | !ARG      !ARG      !ARG      !ARG      !ARG      !ARG       ~         | !TERM    !TERM    !TERM   !TERM     !TERM
another signer is asked           | ~         ~         ~         ~         =         =          =         | !TERM    !TERM    !TERM   !TERM     !TERM
another signer is asked, held     | !HOLD     !HOLD     !HOLD     !HOLD     =         =          =         | !TERM    !TERM    !TERM   !TERM     !TERM
intent                            | !BUSY     !BUSY     !BUSY     !BUSY     >INTENDED !BUSY      !BUSY     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
intent, held                      | !BUSY     !BUSY     !BUSY     !BUSY     !HOLD     !BUSY      !BUSY     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
intent, just before execute_by    | !BUSY     !BUSY     !BUSY     !BUSY     >INTENDED !BUSY      !BUSY     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
intent, at execute_by             | !BUSY     !BUSY     !BUSY     !BUSY     !EXP      !BUSY      !BUSY     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
resend                            | !BUSY     !BUSY     !BUSY     !BUSY     !BUSY     !BUSY      ~         | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
resend, held                      | !BUSY     !BUSY     !BUSY     !BUSY     !BUSY     !HOLD      !HOLD     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
resend, just before resend_until  | !BUSY     !BUSY     !BUSY     !BUSY     !BUSY     !BUSY      ~         | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
resend, at resend_until           | !BUSY     !BUSY     !BUSY     !BUSY     !BUSY     !BUSY      !BUSY     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY

rail confirms                     | ~+C       ~+C       ~+C       ~+C       ~+C       >EXECUTED  >EXECUTED | =        ~+C      ~+C     ~+C       ~+C
rail confirms, held               | ~+C       ~+C       ~+C       ~+C       ~+C       >EXECUTED  >EXECUTED | =        ~+C      ~+C     ~+C       ~+C
rail confirms another transfer    | ~+C       ~+C       ~+C       ~+C       ~+C       >EXECUTED  >EXECUTED | ~+C      ~+C      ~+C     ~+C       ~+C
rail refuses                      | =         =         =         =         =         >FAILED    >FAILED   | ~+C      =        =       =         =
not sent                          | =         =         =         =         =         ~          ~         | =        =        =       =         =
not sent, at execute_by           | =         =         =         =         =         >FAILED    >FAILED   | =        =        =       =         =
rail in doubt                     | =         =         =         =         =         >UNKNOWN   ~         | =        =        =       =         =
rail answers of something else    | =         =         =         =         =         >UNKNOWN+M ~+M       | ~+C      ~+C      ~+C     ~+C       ~+C
look-up: found                    | ~+C       ~+C       ~+C       ~+C       ~+C       >EXECUTED  >EXECUTED | =        ~+C      ~+C     ~+C       ~+C
look-up: refused                  | =         =         =         =         =         >FAILED    >FAILED   | ~+C      =        =       =         =
look-up: something else           | =         =         =         =         =         >UNKNOWN+M ~+M       | ~+C      ~+C      ~+C     ~+C       ~+C
look-up: nothing                  | =         =         =         =         =         >UNKNOWN   ~         | =        =        =       =         =
look-up: nothing, at resend_until | =         =         =         =         =         >UNKNOWN+W ~+W       | =        =        =       =         =
look-up: no answer                | =         =         =         =         =         >UNKNOWN   ~         | =        =        =       =         =
restore: an attempt was made      | !BUSY     !BUSY     !BUSY     !BUSY     >UNKNOWN  >UNKNOWN   ~         | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
restore: an attempt was made, held | !BUSY    !BUSY     !BUSY     !BUSY     !HOLD     !HOLD      !HOLD     | !BUSY    !BUSY    !BUSY   !BUSY     !BUSY
restore: paid unseen              | ~+P       ~+P       ~+P       ~+P       ~+P       =          =         | =        =        =       =         =
restore: paid unseen, held        | ~+P       ~+P       ~+P       ~+P       ~+P       =          =         | =        =        =       =         =
restore: asked anew               | ~         ~         ~         ~         >AWAITING+S =        =         | =        =        =       =         =
restore: asked anew, held         | ~         ~         ~         ~         >AWAITING+S =        =         | =        =        =       =         =
restore: not again                | =         =         =         =         =         ~          ~         | =        =        =       =         =
context budget spent              | ~+B       ~+B       ~+B       ~+B       ~+B       ~+B        ~+B       | =        =        =       =         =
invariant broken                  | ~+I       ~+I       ~+I       ~+I       ~+I       ~+I        ~+I       | ~+I      ~+I      ~+I     ~+I       ~+I
signer service told               | =         =         =         =         ~         ~          ~         | ~        ~        ~       ~         ~
signer service not told           | =         =         =         =         ~         ~          ~         | ~        ~        ~       ~         ~
";

/// The columns: every combination of state and phase that can exist.
const COLUMNS: [(&str, Status, Phase); 12] = [
    ("CREATED", Status::Created, Phase::None),
    ("AWAITING", Status::AwaitingSigner, Phase::None),
    ("UNREACH", Status::SignerUnreachable, Phase::None),
    ("MANUAL", Status::NeedManual, Phase::None),
    ("SIGNED", Status::Signed, Phase::None),
    ("INTENDED", Status::Signed, Phase::Intended),
    ("UNKNOWN", Status::Signed, Phase::Unknown),
    ("EXECUTED", Status::Executed, Phase::Confirmed),
    ("REJECTED", Status::Rejected, Phase::None),
    ("EXPIRED", Status::Expired, Phase::None),
    ("CANCELLED", Status::Cancelled, Phase::None),
    ("FAILED", Status::Failed, Phase::Refused),
];

/// What a row's words stand for.
struct Row {
    event: Event,
    now: Timestamp,
    held: bool,
}

fn row(name: &str) -> Row {
    let mut words = name.split(", ");
    let what = words.next().unwrap();
    let (mut now, mut held, mut round) = (NOW, false, 1);
    let just_before = |at: Timestamp| at.plus_micros(-1);
    for word in words {
        match word {
            "held" => held = true,
            "old round" => round = 0,
            "at expires_at" => now = EXPIRES_AT,
            "just before expires_at" => now = just_before(EXPIRES_AT),
            "at execute_by" => now = EXECUTE_BY,
            "just before execute_by" => now = just_before(EXECUTE_BY),
            "settled" => now = SENT_AT.plus(TIMING.settle_after),
            "at resend_until" => now = RESEND_UNTIL,
            "just before resend_until" => now = just_before(RESEND_UNTIL),
            other => panic!("{name}: {other:?} is no condition"),
        }
    }
    let decided = |standing| Event::Decided {
        round,
        standing,
        advanced: false,
        reason: "wrong payee".to_owned(),
        counter_back: false,
    };
    let notified = |reach| Event::Notified { number: 2, since: CREATED_AT, reach };
    let transfer = |id: &str| id.to_owned();
    let event = match what {
        "agent asks to notify" => Event::NotifyRequested(Asker::Agent),
        "operator resends" => Event::NotifyRequested(Asker::Operator),
        "attempt to notify starts" => Event::NotifyStarted,
        "registered" => Event::Registered { signer_ref: "sgn-1".to_owned(), round: 1 },
        "reached" => notified(Reach::Reached),
        "under way" => notified(Reach::UnderWay),
        "reached nobody after all" => Event::Unreached { number: 1 },
        "an older one reached nobody" => Event::Unreached { number: 0 },
        "lost by the service" => Event::Forgotten { signer_ref: "sgn-1".to_owned(), number: 0 },
        "lost by the service when notified" => Event::Forgotten { signer_ref: "sgn-1".to_owned(), number: 2 },
        "lost under an older id" => Event::Forgotten { signer_ref: "sgn-0".to_owned(), number: 0 },
        "unreachable" => notified(Reach::Unreachable),
        "notify: service down" => notified(Reach::Troubled(SignerTrouble::ServiceUnavailable)),
        "notify: key refused" => notified(Reach::Troubled(SignerTrouble::Unauthorized)),
        "notify: time-out" => notified(Reach::Troubled(SignerTrouble::Timeout)),
        "notify: payment refused" => notified(Reach::Troubled(SignerTrouble::Refused)),
        "register: service down" => Event::RegisterTroubled(SignerTrouble::ServiceUnavailable),
        "register: key refused" => Event::RegisterTroubled(SignerTrouble::Unauthorized),
        "register: time-out" => Event::RegisterTroubled(SignerTrouble::Timeout),
        "register: payment refused" => Event::RegisterTroubled(SignerTrouble::Refused),
        "hint of news" => Event::Hinted,
        "asked for decisions" => Event::Checked,
        "first approval of two" => decided(Standing::Pending { approvals: 1, level: 0 }),
        "last approval" | "approval" => decided(Standing::Complete { approvals: 2 }),
        "rejection" => decided(Standing::Rejected),
        "deadline" => Event::Deadline,
        "cancel" => Event::Cancel,
        "quorum lost" => Event::QuorumLost {
            policy: Box::new(quorum_of(1, &["ana"])),
            reason: "quorum_no_longer_holds".to_owned(),
            document: "{\"document\":\"2\"}".to_owned(),
            digest: "digest-2".to_owned(),
        },
        "superseded" => Event::Superseded,
        "held by a person" => Event::Held,
        "released" => Event::Released,
        "attested as executed" => Event::AttestedExecuted { reference: "bank-7".to_owned() },
        "attested as not executed" => Event::AttestedNotExecuted,
        "another signer is asked" => Event::Reassigned { signer: "ben".parse().unwrap() },
        "policy denies" => Event::PolicyDenied { reason: "policy_denied".to_owned() },
        "intent" => Event::ExecutionIntended,
        "resend" => Event::SendStarted,
        "rail confirms" => Event::RailConfirmed { group: 1, transfer_id: transfer("tr-1") },
        "rail confirms another transfer" => Event::RailConfirmed { group: 1, transfer_id: transfer("tr-2") },
        "rail refuses" => Event::RailRefused { group: 1, code: "insufficient_funds".to_owned() },
        "not sent" => Event::RailNotSent { group: 1, retry_after: None },
        "rail in doubt" => Event::RailUnknown { group: 1, mismatch: false },
        "rail answers of something else" => Event::RailUnknown { group: 1, mismatch: true },
        "look-up: found" => Event::LookedUp(Finding::Found { transfer_id: transfer("tr-1") }),
        "look-up: refused" => Event::LookedUp(Finding::FoundRefused { code: "account_closed".to_owned() }),
        "look-up: something else" => Event::LookedUp(Finding::Differs),
        "look-up: nothing" => Event::LookedUp(Finding::NotFound),
        "look-up: no answer" => Event::LookedUp(Finding::Inconclusive),
        "restore: an attempt was made" => Event::IntentRecovered,
        "restore: paid unseen" => Event::PaidUnseen,
        "restore: asked anew" => Event::AskedAnew { document: "anew".to_owned(), digest: "anew".to_owned() },
        "restore: not again" => Event::NotAgain,
        "context budget spent" => Event::ContextSpent,
        "invariant broken" => Event::InvariantBroken,
        "signer service told" => Event::CloseTold { done: true },
        "signer service not told" => Event::CloseTold { done: false },
        other => panic!("{other:?} is no event"),
    };
    Row { event, now, held }
}

/// The variants of [`Event`], whatever they carry. A new one does not compile until it is named here.
fn variant(event: &Event) -> &'static str {
    match event {
        Event::NotifyRequested(Asker::Agent) => "notify requested by an agent",
        Event::NotifyRequested(Asker::Operator) => "notify requested by an operator",
        Event::NotifyStarted => "notify started",
        Event::Registered { .. } => "registered",
        Event::Notified { reach: Reach::Reached, .. } => "reached",
        Event::Notified { reach: Reach::UnderWay, .. } => "under way",
        Event::Unreached { .. } => "unreached",
        Event::Forgotten { .. } => "forgotten",
        Event::Notified { reach: Reach::Unreachable, .. } => "unreachable",
        Event::Notified { reach: Reach::Troubled(trouble), .. } | Event::RegisterTroubled(trouble) => match trouble {
            SignerTrouble::ServiceUnavailable => "trouble: unavailable",
            SignerTrouble::Unauthorized => "trouble: unauthorized",
            SignerTrouble::Timeout => "trouble: time-out",
            SignerTrouble::Refused => "trouble: refused",
        },
        Event::Hinted => "hinted",
        Event::Checked => "checked",
        Event::Decided { standing: Standing::Pending { .. }, .. } => "decided: pending",
        Event::Decided { standing: Standing::Complete { .. }, .. } => "decided: complete",
        Event::Decided { standing: Standing::Rejected, .. } => "decided: rejected",
        Event::Deadline => "deadline",
        Event::Cancel => "cancel",
        Event::QuorumLost { .. } => "quorum lost",
        Event::Superseded => "superseded",
        Event::Held => "held",
        Event::Released => "released",
        Event::AttestedExecuted { .. } => "attested executed",
        Event::AttestedNotExecuted => "attested not executed",
        Event::Reassigned { .. } => "reassigned",
        Event::PolicyDenied { .. } => "policy denied",
        Event::ExecutionIntended => "execution intended",
        Event::SendStarted => "send started",
        Event::RailConfirmed { .. } => "rail confirmed",
        Event::RailRefused { .. } => "rail refused",
        Event::RailNotSent { .. } => "rail not sent",
        Event::RailUnknown { mismatch: false, .. } => "rail unknown",
        Event::RailUnknown { mismatch: true, .. } => "rail mismatch",
        Event::LookedUp(Finding::Found { .. }) => "found",
        Event::LookedUp(Finding::FoundRefused { .. }) => "found refused",
        Event::LookedUp(Finding::Differs) => "differs",
        Event::LookedUp(Finding::NotFound) => "not found",
        Event::LookedUp(Finding::Inconclusive) => "inconclusive",
        Event::IntentRecovered => "intent recovered",
        Event::PaidUnseen => "paid unseen",
        Event::AskedAnew { .. } => "asked anew",
        Event::NotAgain => "not again",
        Event::ContextSpent => "context spent",
        Event::InvariantBroken => "invariant broken",
        Event::CloseTold { done: true } => "told",
        Event::CloseTold { done: false } => "not told",
    }
}

/// What [`variant`] can say.
const VARIANTS: usize = 48;

/// The rows of the table: the event's words and one cell a column.
fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = TABLE.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let (name, cells) = line.split_once('|').unwrap();
            (name.trim(), cells.split_whitespace().filter(|cell| *cell != "|").collect())
        })
        .collect()
}

/// What really happens, in the table's own notation.
fn outcome(before: &Payment, row: &Row, told: &str) -> String {
    let applied = match apply(before, row.event.clone(), &at(row.now)) {
        Ok(applied) => applied,
        Err(refusal) => {
            return match refusal.code {
                Code::PaymentTerminal => "!TERM".to_owned(),
                Code::PaymentExpired => "!EXP".to_owned(),
                Code::PaymentOnManualHold => "!HOLD".to_owned(),
                Code::SigningRoundStale => "!STALE".to_owned(),
                Code::VersionConflict => "!BUSY".to_owned(),
                Code::OutcomeUnknownBlocks => "!WAIT".to_owned(),
                Code::InvalidArgument => "!ARG".to_owned(),
                other => format!("!{other}"),
            };
        }
    };
    check_version(before, &applied, told);
    let after = &applied.payment;
    let moved = (before.status, before.execution.phase) != (after.status, after.execution.phase);
    let mut words = if moved {
        let to = COLUMNS.iter().find(|(_, status, phase)| (*status, *phase) == (after.status, after.execution.phase));
        format!(">{}", to.unwrap_or_else(|| panic!("{told}: a state that can't exist: {after:?}")).0)
    } else if after.version == before.version {
        "=".to_owned()
    } else {
        "~".to_owned()
    };
    for reason in raised(before, after) {
        words.push_str(match reason {
            Attention::TerminalContradiction => "+C",
            Attention::IntegrityMismatch => "+M",
            Attention::ResendWindowClosed => "+W",
            Attention::RefusedWhileUnknown => "+R",
            Attention::CancelWhileUnknown => "+X",
            Attention::ContextBudgetSpent => "+B",
            Attention::InvariantBroken => "+I",
            Attention::AttestationContradicted => "+A",
            Attention::PaidAfterBackup => "+P",
            Attention::SignedBeforeRestore => "+S",
            Attention::PasskeyCounterBack => "+K",
        });
    }
    words
}

#[test]
fn every_event_in_every_state_does_what_the_table_says() {
    let mut rows = rows();
    let header = rows.remove(0).1;
    assert_eq!(header, COLUMNS.map(|(name, ..)| name));
    let mut wrong = Vec::new();
    for (name, cells) in rows {
        assert_eq!(cells.len(), COLUMNS.len(), "{name}: one cell a column");
        let row = row(name);
        for ((column, status, phase), expected) in COLUMNS.into_iter().zip(cells) {
            let mut before = payment(status, phase);
            before.held_at = row.held.then_some(NOW.plus_micros(-SECOND));
            let told = format!("{name} in {column}");
            let seen = outcome(&before, &row, &told);
            if seen != expected {
                wrong.push(format!("{told}: the table says {expected}, it is {seen}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_event_and_no_state_is_missing_from_the_table() {
    let seen: std::collections::BTreeSet<&str> =
        rows().iter().skip(1).map(|(name, _)| variant(&row(name).event)).collect();
    assert_eq!(seen.len(), VARIANTS, "{seen:?}");
    for status in Status::ALL {
        assert!(COLUMNS.iter().any(|(_, column, _)| *column == status), "{status:?}");
    }
    for phase in Phase::ALL {
        assert!(COLUMNS.iter().any(|(.., column)| *column == phase), "{phase:?}");
    }
}

/// The events that tell what happened outside: stored even while a restored database is compared.
const OUTSIDE: [&str; 28] = [
    "registered",
    "reached",
    "unreachable",
    "under way",
    "unreached",
    "forgotten",
    "trouble: unavailable",
    "trouble: unauthorized",
    "trouble: time-out",
    "trouble: refused",
    "rail confirmed",
    "rail refused",
    "rail not sent",
    "rail unknown",
    "rail mismatch",
    "found",
    "found refused",
    "differs",
    "not found",
    "inconclusive",
    "intent recovered",
    "paid unseen",
    "asked anew",
    "not again",
    "context spent",
    "invariant broken",
    "told",
    "not told",
];

#[test]
fn what_happened_outside_is_told_apart_from_what_people_and_clocks_want() {
    for (name, _) in rows().into_iter().skip(1) {
        let event = row(name).event;
        assert_eq!(event.is_outcome(), OUTSIDE.contains(&variant(&event)), "{name}");
    }
}

#[test]
fn an_ended_payment_never_leaves_its_state_whatever_comes() {
    for (name, cells) in rows().into_iter().skip(1) {
        for (column, cell) in COLUMNS.iter().zip(cells) {
            let stays = !cell.starts_with('>');
            assert!(stays || !column.1.is_terminal(), "{name}: the table itself lets {} go", column.0);
        }
    }
}

#[test]
fn an_end_takes_a_spent_budget_along_and_no_other_reason_and_no_change_does_so_before() {
    let (mut ends, mut changes) = (0, 0);
    for (name, _) in rows().into_iter().skip(1) {
        let row = row(name);
        // Two people's word on the rail drops what spoke of the attempts before it.
        for (column, status, phase) in COLUMNS.into_iter().filter(|_| row.event != Event::AttestedNotExecuted) {
            let mut before = payment(status, phase);
            before.held_at = row.held.then_some(NOW.plus_micros(-SECOND));
            before.attention = Attention::ALL.into();
            let Ok(applied) = apply(&before, row.event.clone(), &at(row.now)) else { continue };
            let told = format!("{name} in {column}");
            check_version(&before, &applied, &told);
            if !applied.changed(&before) {
                continue;
            }
            let after = &applied.payment;
            let gone: Vec<Attention> = before.attention.difference(&after.attention).copied().collect();
            let ended = after.status.is_terminal();
            assert_eq!(gone, if ended { vec![Attention::ContextBudgetSpent] } else { vec![] }, "{told}");
            ends += u32::from(ended && !status.is_terminal());
            changes += u32::from(!ended);
        }
    }
    assert!(ends >= 50 && changes > 100, "{ends} ends, {changes} other changes");
}

#[test]
fn a_look_up_that_shows_a_refusal_of_some_group_ends_only_the_first() {
    let shown = || Event::LookedUp(Finding::FoundRefused { code: "closed".to_owned() });
    assert_eq!(after(&unknown(), shown()).status, Status::Failed);
    let mut second = unknown();
    second.execution.group = 2;
    let it = after(&second, shown());
    assert_eq!((it.status, it.execution.phase), (Status::Signed, Phase::Unknown));
    assert_eq!(raised(&second, &it), [Attention::RefusedWhileUnknown]);
}
