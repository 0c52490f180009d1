//! Who can be reached now, and the switch that a development set-up turns.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use serde::{Deserialize, Serialize};

use super::Desk;
use super::api::Segment;
use super::refused::{Refused, Reply, body_of, json_of};
use super::settings::SignerSettings;
use super::store::{Store, StoreFault};
use crate::domain::Timestamp;

/// Brings the kept presence in line with the directory at a start.
pub(super) async fn settle(store: &Store, settings: &SignerSettings, now: Timestamp) -> Result<(), StoreFault> {
    let mut session = store.write().await?;
    let mut kept = session.presence().await?;
    for entry in &settings.directory {
        let known = kept.remove(&entry.signer_id).is_some();
        if !known || !settings.presence_switch {
            session.set_presence(&entry.signer_id, entry.online, now).await?;
        }
    }
    for gone in kept.keys() {
        session.forget_signer(gone).await?;
    }
    session.commit().await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    online: bool,
}

#[derive(Debug, Serialize)]
struct Switched<'a> {
    signer_id: &'a str,
    online: bool,
}

/// `PUT /api/v1/signers/{signer_id}/presence`. Repeatable by nature, so it needs no key.
pub(super) async fn put(
    State(desk): State<Arc<Desk>>,
    Segment(signer_id): Segment,
    body: Result<Bytes, BytesRejection>,
) -> Result<Reply, Refused> {
    let Switch { online } = json_of(&body_of(body)?)?;
    if !desk.directory.knows(&signer_id) {
        return Err(Refused::not_found("unknown_signer", "the directory has no such signer"));
    }
    let mut session = desk.store.write().await?;
    session.set_presence(&signer_id, online, desk.now()).await?;
    session.commit().await?;
    tracing::info!(signer.id = %signer_id, online, "presence switched");
    Reply::json(200, &Switched { signer_id: &signer_id, online })
}
