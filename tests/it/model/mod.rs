//! The model check: every order of crashes, losses, delays, repeats and people, within small bounds.
mod bounds;
mod glue;
mod promises;
mod steps;
mod world;

use std::time::Instant;

use bounds::{BY_HAND, Bounds, Desk, PEOPLE_DECIDE, POLICY, RAIL, Weak};
use stateright::{Checker, Model as _};

fn check(bounds: Bounds) {
    let begun = Instant::now();
    let name = bounds.name;
    let checker = Desk::new(bounds, None).checker().threads(2).spawn_bfs().join();
    println!(
        "model {name:?}: {} states, {} steps, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    checker.assert_properties();
}

#[test]
fn model_rail() { check(RAIL); }
#[test]
fn model_people() { check(PEOPLE_DECIDE); }
#[test]
fn model_by_hand() { check(BY_HAND); }
#[test]
fn model_policy() { check(POLICY); }

pub(crate) fn explore() {
    let want = std::env::args().nth(1).unwrap();
    let seconds: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    for bounds in [RAIL, PEOPLE_DECIDE, BY_HAND, POLICY] {
        if bounds.name != want { continue; }
        let begun = Instant::now();
        let checker = Desk::new(bounds, None).checker().threads(2).timeout(std::time::Duration::from_secs(seconds)).spawn_bfs().join();
        println!("{want}: {} states, {} steps, depth {}, done {} {:.1} s", checker.unique_state_count(), checker.state_count(), checker.max_depth(), checker.is_done(), begun.elapsed().as_secs_f64());
        for p in promises::all(&RAIL).into_iter().chain(promises::all(&PEOPLE_DECIDE)).chain(promises::all(&BY_HAND)) {
            let _ = p;
        }
        for (name, path) in checker.discoveries() {
            let acts = path.into_actions();
            let bad = name.starts_with('I') || name == promises::HOLD || name == promises::ALONE;
            println!("  {name}: {}", if bad { format!("{acts:#?}") } else { format!("{} steps", acts.len()) });
        }
    }
}
