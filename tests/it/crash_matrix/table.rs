//! The table: `docs/crash-matrix.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use countersign::ambient::{Clock as _, SystemClock};

use super::Run;
use super::cell::Crew;

#[derive(Default, Clone, Copy)]
struct Sum {
    runs: usize,
    once: usize,
    parked: usize,
    violations: usize,
}

impl Sum {
    fn add(&mut self, run: &Run) {
        self.runs += 1;
        self.once += usize::from(run.executed == 1);
        self.parked += usize::from(run.parked);
        self.violations += run.violations.len();
    }

    fn cells(self) -> String {
        format!("{} | {} | {} | {}", self.runs, self.once, self.parked, self.violations)
    }
}

/// The page.
pub(super) fn page(runs: &[Run]) -> String {
    let date = SystemClock.now().rfc3339();
    let date = date.split('T').next().unwrap_or_default();
    let mut all = Sum::default();
    let mut sums = BTreeMap::<(&str, Crew), Sum>::new();
    let mut rows = BTreeMap::<(&str, String, &str, Crew), Sum>::new();
    for run in runs {
        let (whose, point) = run.cell.says();
        all.add(run);
        sums.entry((whose, run.cell.crew)).or_default().add(run);
        rows.entry((whose, point, run.cell.fault.says(), run.cell.crew)).or_default().add(run);
    }
    let mut page = format!(
        "# The crash matrix\n\n\
         Written by `just crash-matrix` on {date}: {} runs, {} violations.\n\n\
         In each run a real process dies (abort at the named point, or SIGKILL), or is stopped until its lease is over, while \
         one payment is on its way and the wire to signer service or rail does what *fault* says. It is started again, the \
         callers repeat what got no answer, and when everything is at rest the judge ([ARCHITECTURE.md](../ARCHITECTURE.md), \
         *How it is shown*) compares our store with the rail's ledger and the signer service's log by I1 to \
         I13. *Executed once* counts ledgers with exactly one transfer; *parked* payments whose outcome stays unknown \
         for two people to settle, which only a rail without idempotency keys leads to, when a request may have been lost; \
         a payment that was called off is executed never. A rail without keys that the network hands a request to twice \
         pays twice: that one case no gateway can mend, and it is not in the table. Commits that few payments pass \
         (a deadline, a new round, a denial, a comparison after a restore, the archive) are not in it either: a worker dies \
         at each on every CI run, on both engines.\n\n\
         CP1 to CP9 are the points of the write-ahead discipline, in its order: claim, intent, call, judgement, outcome, \
         events, release.\n\n",
        all.runs, all.violations
    );
    let head = "| runs | executed once | parked | violations |\n";
    let _ =
        write!(page, "## Sums\n\n| side effect | engine | workers {head}| --- | --- | --: | --: | --: | --: | --: |\n");
    for ((whose, crew), sum) in &sums {
        let (engine, workers) = crew.says();
        let _ = writeln!(page, "| {whose} | {engine} | {workers} | {} |", sum.cells());
    }
    let _ = write!(
        page,
        "\n## Every row\n\n| side effect | dies at | fault | engine | workers {head}| --- | --- | --- | --- | --: | --: | --: | --: | --: |\n"
    );
    for ((whose, point, fault, crew), sum) in &rows {
        let (engine, workers) = crew.says();
        let _ = writeln!(page, "| {whose} | {point} | {fault} | {engine} | {workers} | {} |", sum.cells());
    }
    page
}
