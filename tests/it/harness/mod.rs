//! What the tests stand on.

pub(crate) mod app;
pub(crate) mod bare;
pub(crate) mod database;
pub(crate) mod desk;
pub(crate) mod folder;
pub(crate) mod idle;
pub(crate) mod json_schema;
pub(crate) mod judge;
pub(crate) mod mail;
pub(crate) mod meddler;
pub(crate) mod passkey;
pub(crate) mod payments;
pub(crate) mod peer;
pub(crate) mod people;
mod ports;
pub(crate) mod postgres;
pub(crate) mod recorder;
pub(crate) mod rpc;
pub(crate) mod scripted;
pub(crate) mod sink;
pub(crate) mod whole;
pub(crate) mod wire;
pub(crate) mod wishes;
