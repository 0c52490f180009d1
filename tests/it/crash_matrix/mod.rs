//! The crash matrix: a real process dies at every point of every side effect, under every fault.
//!
//! A cell is one payment. The process that serves or works dies where the cell says, is started again, and the
//! callers go on as they would; when everything is at rest, the judge reads the books. In CI a representative
//! part runs; `just crash-matrix` (`COUNTERSIGN_MATRIX=whole`) runs all of it and writes `docs/crash-matrix.md`.

mod cell;
mod commits;
mod lane;
mod rare;
mod table;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use countersign::crash::Point;
use futures::future::join_all;

use crate::harness::database::engines;
use cell::{Cell, Crew, cells, representative};
use lane::Lane;
use rare::RARE;

/// Desks at once, by crew, in CI and for the whole: most of a cell is waiting for a lease to end.
const LANES: [(Crew, usize, usize); 5] = [
    (Crew::Sqlite, 3, 5),
    (Crew::SqliteTwo, 2, 5),
    (Crew::Postgres, 2, 5),
    (Crew::PostgresTwo, 2, 5),
    (Crew::ForgetfulRail, 2, 1),
];

/// What came of a cell.
#[derive(Debug, Clone)]
struct Run {
    cell: Cell,
    executed: usize,
    parked: bool,
    violations: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_dies_wherever_the_money_moves_once_and_the_books_agree() {
    let whole = std::env::var("COUNTERSIGN_MATRIX").is_ok_and(|wish| wish == "whole");
    let all = if whole { cells() } else { representative() };
    let begun = std::time::Instant::now();
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut lanes = Vec::new();
    let engines = engines();
    assert!(!whole || engines.len() == 2, "the whole matrix wants PostgreSQL, too");
    let all: Vec<Cell> = all.into_iter().filter(|cell| engines.contains(&cell.crew.engine())).collect();
    for (crew, few, many) in LANES {
        let desks = if whole { many } else { few };
        let queue: VecDeque<Cell> = all.iter().copied().filter(|cell| cell.crew == crew).collect();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..desks {
            let lane = Lane { crew, queue: Arc::clone(&queue), done: Arc::clone(&done) };
            lanes.push(lane.run());
        }
    }
    join_all(lanes).await;
    let mut runs = done.lock().unwrap().clone();
    runs.sort_by_key(|run| run.cell);
    assert!(runs.iter().map(|run| run.cell).eq(sorted(all)), "each cell was played once");
    let page = table::page(&runs);
    if whole {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/crash-matrix.md");
        std::fs::write(path, &page).unwrap();
        println!("{page}");
    }
    eprintln!("{} cells in {:.0} s", runs.len(), begun.elapsed().as_secs_f64());
    let broken: Vec<String> = runs.iter().flat_map(|run| &run.violations).cloned().collect();
    assert!(broken.is_empty(), "{} violations:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn the_tests_program_has_crash_points_and_ci_looks_for_them_in_the_one_that_ships() {
    const MARK: &str = "COUNTERSIGN_CRASH_PLAN";
    let program = std::fs::read(env!("CARGO_BIN_EXE_countersign")).unwrap();
    assert!(program.windows(MARK.len()).any(|bytes| bytes == MARK.as_bytes()));
    let steps = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/run")).unwrap();
    assert!(steps.contains(MARK) && steps.contains(r#"step "no crash points in what ships" no_crash_points"#));
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    assert!(!manifest.contains("default = ["), "no feature is on by itself");
}

fn sorted(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort();
    cells
}

#[test]
fn the_page_is_of_every_cell_that_there_is_or_says_that_it_is_not() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/crash-matrix.md")).unwrap();
    let [whole, older] = [format!(": {} runs, 0", cells().len()), format!("It has {} cells now", cells().len())];
    let told = page.contains(&whole) || page.contains(&older);
    assert!(
        told && page.contains(" runs, 0 violations."),
        "`just crash-matrix` is due: docs/crash-matrix.md: {whole:?}"
    );
}

#[test]
fn ci_plays_each_fault_on_each_side_effect_and_both_at_each_desk() {
    let pairs = |cells: Vec<Cell>| cells.into_iter().flat_map(Cell::pairs).collect::<BTreeSet<_>>();
    let (all, part) = (pairs(cells()), pairs(representative()));
    assert!(all.len() > 50 && part == all, "not in CI: {:?}", all.difference(&part));
}

#[test]
fn each_point_has_a_call_and_a_cell() {
    let source = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/journal")).unwrap();
    let files = source.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut text: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect::<Vec<_>>().concat();
    text += &std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/adapters/http.rs")).unwrap();
    let cells = cells();
    let part = representative();
    for point in Point::ALL {
        assert_eq!(text.matches(&format!("Point::{point:?})")).count(), 1, "{point:?} has one call");
        let of = |cells: &[Cell]| cells.iter().filter(|cell| cell.point() == Some(point)).count();
        let rare = RARE.iter().any(|(points, _)| points.contains(&point));
        assert!(rare || (of(&cells) > 0 && of(&part) > 0), "{point:?} has a cell, in CI too");
    }
    let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Point::ALL.len());
}
