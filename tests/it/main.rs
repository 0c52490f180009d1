//! The tests of the house in one binary: one harness, one file or folder a subject.
//!
//! Run them with `cargo test`; every store test runs on both engines (`harness::database`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::assigning_clones,
    clippy::needless_pass_by_value,
    missing_docs,
    reason = "tests say what they expect by failing"
)]

mod audit;
mod bad_input;
mod bench_journal;
mod browser;
mod chaos;
mod crash_matrix;
mod desk_attest;
mod desk_audit;
mod desk_hands;
mod desk_keys;
mod desk_limits;
mod desk_policy;
mod desk_processes;
mod desk_quorum;
mod desk_sums;
mod domain_groups;
mod domain_invariants;
mod domain_outcomes;
mod domain_people;
mod domain_places;
mod domain_policy;
mod domain_properties;
mod domain_quorum;
mod domain_reminders;
mod domain_steps;
mod domain_transitions;
mod domain_values;
mod domain_votes;
mod domain_words;
mod escalation;
mod evidence;
mod field_bugs;
mod field_bugs_money;
mod field_bugs_page;
mod flow_breaker;
mod flow_callbacks;
mod flow_context;
mod flow_create;
mod flow_decisions;
mod flow_drain;
mod flow_edges;
mod flow_execution;
mod flow_forgotten;
mod flow_main;
mod flow_read_only;
mod flow_seats;
mod flow_store;
mod flow_stuck;
mod flow_unreachable;
mod growth;
mod guards;
mod harness;
mod hold_races;
mod inbox;
mod ingress;
mod judge_teeth;
mod key_commands;
mod links;
mod model;
mod passkeys;
mod proof;
mod property;
mod reaching;
mod restore;
mod restore_found;
mod restore_people;
mod retention;
mod retention_passed;
mod schema;
mod ship;
mod signer_conformance;
mod signer_contract;
mod startup;
mod startup_check;
mod startup_people;
mod store;
mod teeth;
mod tidy;
mod tidy_pages;
mod trace;
mod unread;
mod verdicts;
mod webhooks;
mod wire_faults;
mod words;
