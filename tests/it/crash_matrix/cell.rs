//! The cells: who dies where, under what fault, on which engine, among how many.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign::crash::Point;

use crate::harness::database::TestEngine;
use crate::harness::meddler::Fault;

/// The desk that a cell is played on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Crew {
    /// One process that serves and works.
    Sqlite,
    /// One that serves, two that work, on one file.
    SqliteTwo,
    /// One that serves, one that works.
    Postgres,
    /// One that serves, two that work.
    PostgresTwo,
    /// As `Postgres`, before a rail that knows no keys and is declared so.
    ForgetfulRail,
}

impl Crew {
    pub(super) const fn engine(self) -> TestEngine {
        match self {
            Self::Sqlite | Self::SqliteTwo => TestEngine::Sqlite,
            Self::Postgres | Self::PostgresTwo | Self::ForgetfulRail => TestEngine::Postgres,
        }
    }

    pub(super) const fn says(self) -> (&'static str, &'static str) {
        match self {
            Self::Sqlite => ("SQLite", "1"),
            Self::SqliteTwo => ("SQLite", "2"),
            Self::Postgres => ("PostgreSQL", "1"),
            Self::PostgresTwo => ("PostgreSQL", "2"),
            Self::ForgetfulRail => ("PostgreSQL, rail without keys", "1"),
        }
    }
}

/// A kind of side effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Register,
    Notify,
    Execute,
    Cancel,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Register, Self::Notify, Self::Execute, Self::Cancel];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Register => "signer.register",
            Self::Notify => "signer.notify",
            Self::Execute => "rail.execute",
            Self::Cancel => "signer.cancel",
        }
    }

    /// The end of its request's path.
    pub(super) const fn path_end(self) -> &'static str {
        match self {
            Self::Register => "/payments",
            Self::Notify => "/notify",
            Self::Execute => "/transfers",
            Self::Cancel => "/cancel",
        }
    }
}

/// Where the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Death {
    /// At a point of a side effect.
    At(Kind, Step),
    /// At a point beside them.
    Beside(Beside),
    /// Anywhere, by SIGKILL, while the fault strikes that kind.
    Anywhere(Kind, u8),
}

/// A step of a side effect; CP numbers are those of the unknown-outcome protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Step {
    /// CP1: the lease is taken, nothing is written.
    Claimed,
    /// CP2: before the intent's commit.
    BeforeIntent,
    /// CP3: after it, before the first byte.
    AfterIntent,
    /// CP4: the request is on its way.
    Sent,
    /// CP5: the other side has done it, its answer is on its way.
    Done,
    /// CP6: the answer is here and not judged.
    Answered,
    /// CP7: before the outcome's commit.
    BeforeOutcome,
    /// CP8: after it.
    AfterOutcome,
    /// Not dead but stopped past its lease, the intent being written.
    StoppedAtIntent,
    /// The same, with the answer at hand.
    StoppedAtAnswer,
}

impl Step {
    const ALL: [Self; 10] = [
        Self::Claimed,
        Self::BeforeIntent,
        Self::AfterIntent,
        Self::Sent,
        Self::Done,
        Self::Answered,
        Self::BeforeOutcome,
        Self::AfterOutcome,
        Self::StoppedAtIntent,
        Self::StoppedAtAnswer,
    ];

    const fn says(self) -> &'static str {
        match self {
            Self::Claimed => "CP1, the lease taken",
            Self::BeforeIntent => "CP2, before the intent's commit",
            Self::AfterIntent => "CP3, after the intent's commit",
            Self::Sent => "CP4, the request on its way",
            Self::Done => "CP5, done, the answer on its way",
            Self::Answered => "CP6, the answer here",
            Self::BeforeOutcome => "CP7, before the outcome's commit",
            Self::AfterOutcome => "CP8, after the outcome's commit",
            Self::StoppedAtIntent => "stopped past the lease after the intent",
            Self::StoppedAtAnswer => "stopped past the lease with the answer",
        }
    }
}

/// What a cell's callers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// Propose, countersign.
    Pay,
    /// Propose, call off.
    CallOff,
    /// Propose, hold, release by two, countersign.
    Hold,
    /// Propose, hold, attest by two that it was paid by hand.
    ByHand,
    /// Propose, ask another signer first, countersign.
    Reassign,
    /// Propose, propose what replaces it, countersign.
    Replace,
    /// Propose what the policy refuses, then what it does not, countersign.
    Refuse,
    /// Propose, countersign on the signer service's page.
    Page,
}

impl Script {
    /// What its rows are told apart by, where others pass the same points.
    const fn says(self) -> &'static str {
        match self {
            Self::ByHand => " (paid by hand)",
            Self::Reassign => " (reassigned)",
            Self::Replace => " (of a replacement)",
            Self::Pay | Self::CallOff | Self::Hold | Self::Refuse | Self::Page => "",
        }
    }

    /// Whether the rail is to pay.
    pub(super) const fn pays(self) -> bool {
        !matches!(self, Self::CallOff | Self::ByHand)
    }
}

/// A point beside the side effects, and when it is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Beside(usize);

/// A point that is not a side effect's own, the script that passes it, whether it is armed from the start or only
/// once the payment waits for its signer, and what the wire to the rail does meanwhile.
type Row = (Point, Script, bool, &'static [Fault]);

const CLEAN: &[Fault] = &[Fault::Clean];
/// A look-up needs an answer that was lost.
const LOST: &[Fault] = &[Fault::LoseReply, Fault::FailAfter, Fault::Truncate];
/// What is given back before, or after, an answer that is in doubt.
const DOUBT: &[Fault] = &[Fault::Clean, Fault::LoseReply, Fault::PastLease];

const BESIDE: [Row; 38] = [
    (Point::CreateBeforeCommit, Script::Pay, true, CLEAN),
    (Point::CreateAfterCommit, Script::Pay, true, CLEAN),
    (Point::NotifyBeforeCommit, Script::Pay, true, CLEAN),
    (Point::NotifyAfterCommit, Script::Pay, true, CLEAN),
    (Point::DecideBeforeCommit, Script::Pay, false, CLEAN),
    (Point::DecideAfterCommit, Script::Pay, false, CLEAN),
    (Point::CancelBeforeCommit, Script::CallOff, false, CLEAN),
    (Point::CancelAfterCommit, Script::CallOff, false, CLEAN),
    (Point::HoldBeforeCommit, Script::Hold, false, CLEAN),
    (Point::HoldAfterCommit, Script::Hold, false, CLEAN),
    (Point::FirstWordBeforeCommit, Script::Hold, false, CLEAN),
    (Point::FirstWordAfterCommit, Script::Hold, false, CLEAN),
    (Point::WordBeforeCommit, Script::Hold, false, CLEAN),
    (Point::WordAfterCommit, Script::Hold, false, CLEAN),
    (Point::FirstWordBeforeCommit, Script::ByHand, false, CLEAN),
    (Point::FirstWordAfterCommit, Script::ByHand, false, CLEAN),
    (Point::WordBeforeCommit, Script::ByHand, false, CLEAN),
    (Point::WordAfterCommit, Script::ByHand, false, CLEAN),
    (Point::HoldBeforeCommit, Script::Reassign, false, CLEAN),
    (Point::HoldAfterCommit, Script::Reassign, false, CLEAN),
    (Point::CreateBeforeCommit, Script::Replace, false, CLEAN),
    (Point::CreateAfterCommit, Script::Replace, false, CLEAN),
    (Point::RefusalBeforeCommit, Script::Refuse, true, CLEAN),
    (Point::RefusalAfterCommit, Script::Refuse, true, CLEAN),
    (Point::HintBeforeCommit, Script::Page, false, CLEAN),
    (Point::HintAfterCommit, Script::Page, false, CLEAN),
    (Point::ClaimBeforeCommit, Script::Pay, false, CLEAN),
    (Point::ClaimAfterCommit, Script::Pay, false, CLEAN),
    (Point::LookUpBeforeCommit, Script::Pay, false, LOST),
    (Point::LookUpAfterCommit, Script::Pay, false, LOST),
    (Point::ReleaseBeforeCommit, Script::Pay, false, DOUBT),
    (Point::ReleaseAfterCommit, Script::Pay, false, DOUBT),
    (Point::EventClaimBeforeCommit, Script::Pay, false, CLEAN),
    (Point::EventClaimAfterCommit, Script::Pay, false, CLEAN),
    (Point::EventAnswered, Script::Pay, false, CLEAN),
    (Point::EventSettleBeforeCommit, Script::Pay, false, CLEAN),
    (Point::EventSettleAfterCommit, Script::Pay, false, CLEAN),
    // What is told first is told while the payment is being proposed.
    (Point::EventAnswered, Script::CallOff, false, CLEAN),
];

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Cell {
    pub(super) death: Death,
    pub(super) fault: Fault,
    pub(super) crew: Crew,
}

/// Two things that a cell brings together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Pair {
    /// A side effect's request, struck by a fault.
    Struck(Kind, Fault),
    /// A side effect on a desk.
    On(Kind, Crew),
    /// A fault at a desk.
    Under(Fault, Crew),
}

/// How long what is on its way is kept, for a process to die meanwhile.
const KEPT: Duration = Duration::from_millis(350);

impl Cell {
    /// The point at which it dies, if at one.
    pub(super) fn point(self) -> Option<Point> {
        match self.death {
            Death::At(kind, step) => Some(match step {
                // The lease for what a call asks is taken in the call.
                Step::Claimed if matches!(kind, Kind::Register | Kind::Notify) => Point::NotifyAfterCommit,
                Step::Claimed => Point::ClaimAfterCommit,
                Step::BeforeIntent => Point::IntentBeforeCommit,
                Step::AfterIntent | Step::Sent | Step::Done | Step::StoppedAtIntent => Point::IntentAfterCommit,
                Step::Answered | Step::StoppedAtAnswer => Point::Answered,
                Step::BeforeOutcome => Point::OutcomeBeforeCommit,
                Step::AfterOutcome => Point::OutcomeAfterCommit,
            }),
            Death::Beside(Beside(number)) => Some(BESIDE[number].0),
            Death::Anywhere(..) => None,
        }
    }

    /// The line of the plan that the processes read; `""` for none.
    pub(super) fn plan(self) -> String {
        let Some(point) = self.point() else { return String::new() };
        let kind = match self.death {
            Death::At(kind, step) if step != Step::Claimed => format!("{}/", kind.as_str()),
            _ => String::new(),
        };
        let action = match self.death {
            Death::At(_, Step::Sent | Step::Done) => "abort+80",
            Death::At(_, Step::StoppedAtIntent | Step::StoppedAtAnswer) => "stop",
            _ => "abort",
        };
        format!("{kind}{} 1 {action}", point.as_str())
    }

    /// Whether it stops rather than dies.
    pub(super) const fn stops(self) -> bool {
        matches!(self.death, Death::At(_, Step::StoppedAtIntent | Step::StoppedAtAnswer))
    }

    /// How long a request and an answer are kept on their way.
    pub(super) const fn kept(self) -> (Duration, Duration) {
        match self.death {
            Death::At(_, Step::Sent) => (KEPT, Duration::ZERO),
            Death::At(_, Step::Done) => (Duration::ZERO, KEPT),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// The kind whose request the fault strikes.
    pub(super) const fn kind(self) -> Kind {
        match self.death {
            Death::At(kind, _) | Death::Anywhere(kind, _) => kind,
            Death::Beside(_) => Kind::Execute,
        }
    }

    pub(super) fn script(self) -> Script {
        match self.death {
            Death::Beside(Beside(number)) => BESIDE[number].1,
            Death::At(..) | Death::Anywhere(..) => Script::Pay,
        }
    }

    /// Whether it is armed before the payment is proposed.
    pub(super) fn early(self) -> bool {
        match self.death {
            Death::Beside(Beside(number)) => BESIDE[number].2,
            Death::At(kind, _) | Death::Anywhere(kind, _) => matches!(kind, Kind::Register | Kind::Notify),
        }
    }

    /// Whether the proposal itself is what it dies at: under a key, so that the key is bound with it or not at all.
    pub(super) fn proposes(self) -> bool {
        matches!(self.point(), Some(Point::CreateBeforeCommit | Point::CreateAfterCommit))
    }

    /// What it brings together, two by two: side effect, fault and desk.
    pub(super) fn pairs(self) -> [Pair; 3] {
        let Self { death: _, fault, crew } = self;
        let kind = self.kind();
        [Pair::Struck(kind, fault), Pair::On(kind, crew), Pair::Under(fault, crew)]
    }

    /// Its place in the table: whose point, and which.
    pub(super) fn says(self) -> (&'static str, String) {
        match self.death {
            Death::At(kind, step) => (kind.as_str(), step.says().to_owned()),
            Death::Beside(Beside(number)) => {
                let (point, script, ..) = BESIDE[number];
                ("other writes", plainly(point) + script.says())
            }
            Death::Anywhere(kind, _) => (kind.as_str(), "anywhere, by SIGKILL".to_owned()),
        }
    }

    /// Whether the network itself makes a rail without keys pay twice: no gateway can help that.
    fn is_hopeless(self) -> bool {
        self.crew == Crew::ForgetfulRail && self.fault == Fault::Duplicate
    }

    fn makes_sense(self) -> bool {
        let rail = self.kind() == Kind::Execute;
        let anyone = self.crew != Crew::ForgetfulRail || (rail && !matches!(self.death, Death::Beside(_)));
        anyone && !self.is_hopeless() && (rail || self.fault != Fault::WrongAmount)
    }
}

/// A point's name in words.
fn plainly(point: Point) -> String {
    let name =
        point.as_str().replace(".before_commit", ", before the commit").replace(".after_commit", ", after the commit");
    name.replace(['_', '.'], " ")
}

const CREWS: [Crew; 5] = [Crew::Sqlite, Crew::SqliteTwo, Crew::Postgres, Crew::PostgresTwo, Crew::ForgetfulRail];

/// All of them.
pub(super) fn cells() -> Vec<Cell> {
    let mut all = Vec::new();
    for crew in CREWS {
        for kind in Kind::ALL {
            for fault in Fault::ALL {
                all.extend(Step::ALL.map(|step| Cell { death: Death::At(kind, step), fault, crew }));
                all.extend((0..2).map(|turn| Cell { death: Death::Anywhere(kind, turn), fault, crew }));
            }
        }
        for (at, (.., faults)) in BESIDE.iter().enumerate() {
            all.extend(faults.iter().map(|fault| Cell { death: Death::Beside(Beside(at)), fault: *fault, crew }));
        }
    }
    all.retain(|cell| cell.makes_sense());
    all
}

/// Each place to die once, each fault of each kind, each kind and each fault on each desk, and every fault before a
/// rail without keys.
pub(super) fn representative() -> Vec<Cell> {
    let all = cells();
    let mut deaths: Vec<Death> = all.iter().map(|cell| cell.death).filter(|death| !again(*death)).collect();
    deaths.sort_unstable();
    deaths.dedup();
    let pick = |(turn, death): (usize, Death)| {
        let mut of: Vec<Cell> = all.iter().copied().filter(|cell| cell.death == death).collect();
        of.sort_by_key(|cell| (cell.fault, cell.crew));
        // A stride that meets every fault and every crew: no number of cells of one death is a multiple of 11.
        of[turn * 11 % of.len()]
    };
    let mut part: Vec<Cell> = deaths.into_iter().enumerate().map(pick).collect();
    let mut met: BTreeSet<Pair> = part.iter().flat_map(|cell| cell.pairs()).collect();
    for cell in &all {
        if cell.pairs().iter().any(|pair| !met.contains(pair)) {
            met.extend(cell.pairs());
            part.push(*cell);
        }
    }
    // A rail without keys forgives nothing that is sent twice.
    part.extend(all.iter().filter(|cell| {
        let late =
            cell.fault == Fault::PastLease && matches!(cell.death, Death::At(_, Step::Sent | Step::BeforeOutcome));
        cell.crew == Crew::ForgetfulRail && (late || cell.death == Death::At(Kind::Execute, Step::Answered))
    }));
    part.sort_unstable();
    part.dedup();
    part
}

const fn again(death: Death) -> bool {
    matches!(death, Death::Anywhere(_, 1..))
}
