//! The statements that calls and ticks run all the time, by name.
//!
//! *Invariant*: each reads an index, so that its cost follows what is open or asked for, not what
//! is stored. `tests/it/schema.rs` reads their plans.

use super::engine::{
    Engine, POSTGRES_DUE, POSTGRES_EVENT_DUE, SQLITE_DUE, SQLITE_EVENT_DUE, claim_events_statement, claim_statement,
};
use super::payments::{ATTENTION, BY_ID, BY_ORDER, LIST_OF_AGENT, LIST_OF_TENANT, OPEN};

/// Their names and texts.
pub const fn hot_statements(engine: Engine) -> [(&'static str, &'static str); 10] {
    let (due, event_due) = match engine {
        Engine::Sqlite => (SQLITE_DUE, SQLITE_EVENT_DUE),
        Engine::Postgres => (POSTGRES_DUE, POSTGRES_EVENT_DUE),
    };
    [
        ("due", due),
        ("claim", claim_statement(engine)),
        ("by id", BY_ID),
        ("by order", BY_ORDER),
        ("list of an agent", LIST_OF_AGENT),
        ("list of a tenant", LIST_OF_TENANT),
        ("open", OPEN),
        ("attention", ATTENTION),
        ("event due", event_due),
        ("claim of events", claim_events_statement(engine)),
    ]
}
