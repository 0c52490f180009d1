//! The statements that calls and ticks run all the time, and a verifier for each payment, by name.
//!
//! *Invariant*: each reads an index, so that its cost follows what is open or asked for, not what
//! is stored. `tests/it/growth.rs` reads their plans over many finished rows and few open ones.

use super::approvals::{CHALLENGES, DECISIONS};
use super::archive::{FINISHED, may_move_statement};
use super::audit::OF_PAYMENT;
use super::effects::{BY_KEY, TRAIL};
use super::engine::{
    Engine, POSTGRES_DUE, POSTGRES_EVENT_DUE, SQLITE_DUE, SQLITE_EVENT_DUE, claim_events_statement, claim_statement,
};
use super::payments::{ATTENTION, BY_ID, BY_ORDER, FOR_WORK, LIST_OF_AGENT, LIST_OF_TENANT, OPEN};
use super::proving::IDS;
use super::restores::{MAY_WORK, PENDING};
use super::usage::{IN_WINDOW, OPEN_NOW};

/// Their names and texts.
pub const fn hot_statements(engine: Engine) -> [(&'static str, &'static str); 23] {
    let (due, event_due) = match engine {
        Engine::Sqlite => (SQLITE_DUE, SQLITE_EVENT_DUE),
        Engine::Postgres => (POSTGRES_DUE, POSTGRES_EVENT_DUE),
    };
    [
        ("due", due),
        ("claim", claim_statement(engine)),
        ("by id", BY_ID),
        ("for work", FOR_WORK),
        ("by order", BY_ORDER),
        ("list of an agent", LIST_OF_AGENT),
        ("list of a tenant", LIST_OF_TENANT),
        ("open", OPEN),
        ("attention", ATTENTION),
        ("limit's window", IN_WINDOW),
        ("limit's open", OPEN_NOW),
        ("challenges", CHALLENGES),
        ("decisions", DECISIONS),
        ("effect by key", BY_KEY),
        ("effects of a payment", TRAIL),
        ("event due", event_due),
        ("claim of events", claim_events_statement(engine)),
        ("finished", FINISHED),
        ("may move", may_move_statement(engine)),
        ("to compare", PENDING),
        ("may work", MAY_WORK),
        ("audit of a payment", OF_PAYMENT),
        ("ids of a tenant", IDS),
    ]
}
