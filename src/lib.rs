//! Countersign: the payment desk for AI agents.
//!
//! An agent proposes a payment over MCP, a person countersigns it, and it is carried out exactly
//! once. `ARCHITECTURE.md` is the map. The dependency rule, which `tests/it/tidy.rs` holds:
//!
//! 1. [`domain`] imports nothing of ours; [`proof`] imports `domain`. They are called, they never call.
//! 2. [`ambient`], [`config`], [`crash`], [`telemetry`], [`lifecycle`] are leaves: they import at most
//!    `domain` and each other; anyone but `domain` and `proof` may import them.
//! 3. [`store`] imports `domain`, `proof`; [`journal`] imports those and `store`, and owns the
//!    ports; [`adapters`] import `domain`, `proof` and `journal::ports`, never `store`.
//! 4. [`tools`], [`worker`] and [`http`] import `journal` and what lies below, `http` also `tools`;
//!    none of the three names sqlx, `store` or `adapters`.
//! 5. Only [`app`] and [`cli`] wire everything; [`signer`] and [`sandbox`] import `domain`,
//!    `proof` and the leaves, so they share signed bytes with the gateway and nothing else.

pub mod adapters;
pub mod ambient;
pub mod app;
pub mod cli;
pub mod config;
pub mod crash;
pub mod domain;
pub mod http;
pub mod journal;
pub mod lifecycle;
pub mod proof;
pub mod sandbox;
pub mod signer;
pub mod store;
pub mod telemetry;
pub mod tools;
pub mod worker;
