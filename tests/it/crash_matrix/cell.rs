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
            Self::Sqlite => TestEngine::Sqlite,
            Self::Postgres | Self::PostgresTwo | Self::ForgetfulRail => TestEngine::Postgres,
        }
    }

    pub(super) const fn says(self) -> (&'static str, &'static str) {
        match self {
            Self::Sqlite => ("SQLite", "1"),
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
}

/// A point beside the side effects, and when it is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Beside(usize);

/// The points that are not a side effect's own, the script that passes each, and whether it is armed from the
/// start or only once the payment waits for its signer. A look-up needs an answer that was lost.
const BESIDE: [(Point, Script, bool, Fault); 24] = [
    (Point::CreateBeforeCommit, Script::Pay, true, Fault::Clean),
    (Point::CreateAfterCommit, Script::Pay, true, Fault::Clean),
    (Point::NotifyBeforeCommit, Script::Pay, true, Fault::Clean),
    (Point::NotifyAfterCommit, Script::Pay, true, Fault::Clean),
    (Point::DecideBeforeCommit, Script::Pay, false, Fault::Clean),
    (Point::DecideAfterCommit, Script::Pay, false, Fault::Clean),
    (Point::CancelBeforeCommit, Script::CallOff, false, Fault::Clean),
    (Point::CancelAfterCommit, Script::CallOff, false, Fault::Clean),
    (Point::HoldBeforeCommit, Script::Hold, false, Fault::Clean),
    (Point::HoldAfterCommit, Script::Hold, false, Fault::Clean),
    (Point::WordBeforeCommit, Script::Hold, false, Fault::Clean),
    (Point::WordAfterCommit, Script::Hold, false, Fault::Clean),
    (Point::ClaimBeforeCommit, Script::Pay, false, Fault::Clean),
    (Point::ClaimAfterCommit, Script::Pay, false, Fault::Clean),
    (Point::LookUpBeforeCommit, Script::Pay, false, Fault::LoseReply),
    (Point::LookUpAfterCommit, Script::Pay, false, Fault::LoseReply),
    (Point::ReleaseBeforeCommit, Script::Pay, false, Fault::Clean),
    (Point::ReleaseAfterCommit, Script::Pay, false, Fault::Clean),
    (Point::EventClaimBeforeCommit, Script::Pay, false, Fault::Clean),
    (Point::EventClaimAfterCommit, Script::Pay, false, Fault::Clean),
    (Point::EventAnswered, Script::Pay, false, Fault::Clean),
    (Point::EventSettleBeforeCommit, Script::Pay, false, Fault::Clean),
    (Point::EventSettleAfterCommit, Script::Pay, false, Fault::Clean),
    // What is told first is told while the payment is being proposed.
    (Point::EventAnswered, Script::CallOff, false, Fault::Clean),
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
            Death::Beside(Beside(number)) => ("other writes", plainly(BESIDE[number].0)),
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

const CREWS: [Crew; 4] = [Crew::Sqlite, Crew::Postgres, Crew::PostgresTwo, Crew::ForgetfulRail];

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
        let beside = BESIDE.iter().enumerate();
        all.extend(beside.map(|(at, row)| Cell { death: Death::Beside(Beside(at)), fault: row.3, crew }));
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
        of[turn * 8 % of.len()]
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
