//! Invitations to make a passkey: the gateway leaves one here, a person answers it, an operator reads the answer.
//!
//! Nothing of it makes a key count. That does the operator, at the gateway, who compares the passkey's code with its
//! owner; until the gateway has said so, no page offers the passkey.

use std::sync::Arc;

use aws_lc_rs::hmac;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::Desk;
use super::api::Segment;
use super::keyed::{self, Begun};
use super::refused::{Refused, Reply, body_of, json_of};
use super::store::{InvitationAnswer, KeptInvitation, KeptPasskey, Session};
use crate::domain::{KeyId, KeyLabel, SignerId, TenantId, Timestamp};
use crate::proof::{
    EnrolmentDocument, PasskeyKey, Registration, b64url, enrolment_digest, from_b64url, read_registration,
};

/// The path, which the idempotency key is bound to.
pub(super) const PATH: &str = "/api/v1/invitations";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Invitation {
    document: String,
}

#[derive(Debug, Serialize)]
struct Invited<'a> {
    invitation_id: &'a str,
    url: String,
}

/// `POST /api/v1/invitations`.
pub(super) async fn post(
    State(desk): State<Arc<Desk>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Reply, Refused> {
    let body = body_of(body)?;
    match keyed::begin(&desk, &headers, PATH, &body).await? {
        Begun::Answered(reply) => linked(&desk, &reply),
        Begun::New(mut session, request) => {
            let outcome = invite(&desk, &mut session, &body).await;
            linked(&desk, &keyed::settle(&desk, session, &request, outcome).await?)
        }
    }
}

/// What is kept of the answer, so that it can be given again: not the link's token, but what it is made from.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAnswer {
    invitation_id: String,
    seed: String,
}

/// The token that belongs to a seed. Whoever has the database alone, and not the API key, can't make it.
fn token_of(desk: &Desk, seed: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &desk.api_key_sha256);
    b64url(hmac::sign(&key, format!("countersign/invitation-link\0{seed}").as_bytes()))
}

/// The answer, from what is kept of it.
fn linked(desk: &Desk, kept: &Reply) -> Result<Reply, Refused> {
    let KeptAnswer { invitation_id, seed } = serde_json::from_str(&kept.body).map_err(|_| Refused::internal())?;
    let url = desk.address.enrolment(&token_of(desk, &seed));
    Reply::json(kept.status, &Invited { invitation_id: &invitation_id, url })
}

async fn invite(desk: &Desk, session: &mut Session, body: &[u8]) -> Result<Reply, Refused> {
    let Invitation { document: text } = json_of(body)?;
    let unusable = |why: &'static str| Refused::unacceptable("document_invalid", why);
    let document = EnrolmentDocument::parse(&text)
        .ok_or_else(|| unusable("document is not an enrolment document in canonical form"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !(1..=64).contains(&document.invitation_id.len()) || !document.invitation_id.chars().all(plain) {
        return Err(unusable("invitation_id must be 1 to 64 of A-Z a-z 0-9 _ and -"));
    }
    if document.tenant.parse::<TenantId>().is_err() {
        return Err(unusable("tenant must be 1 to 64 of A-Z a-z 0-9 and ._-"));
    }
    if from_b64url(&document.nonce).is_none_or(|nonce| nonce.len() != 32) {
        return Err(unusable("nonce must be 32 bytes in base64url"));
    }
    let expires_at = Timestamp::parse_rfc3339(&document.expires_at)
        .filter(|at| at.rfc3339() == document.expires_at)
        .ok_or_else(|| unusable("expires_at must be RFC 3339 UTC with three fraction digits"))?;
    if !desk.directory.knows(&document.signer_id) {
        return Err(Refused::unacceptable(
            "unknown_signer",
            format!("the directory has no signer {:?}", document.signer_id),
        ));
    }
    if session.invitation(&document.invitation_id).await?.is_some() {
        return Err(Refused::conflict("invitation_known", "this invitation is here already, under another key"));
    }
    let mut seed = [0; 32];
    desk.entropy.fill(&mut seed);
    let seed = b64url(seed);
    let token = token_of(desk, &seed);
    session.add_invitation(&document.invitation_id, &document.signer_id, &text, &token, expires_at).await?;
    Reply::json(201, &KeptAnswer { invitation_id: document.invitation_id, seed })
}

#[derive(Debug, Serialize)]
struct Standing<'a> {
    invitation_id: &'a str,
    state: &'static str,
    label: &'a str,
    registration: Option<Registration>,
}

/// `GET /api/v1/invitations/{id}`.
pub(super) async fn get(State(desk): State<Arc<Desk>>, Segment(id): Segment) -> Result<Reply, Refused> {
    let kept = desk.store.read().await?.invitation(&id).await?;
    let kept = kept.ok_or_else(|| Refused::not_found("unknown_invitation", "no invitation of that id"))?;
    let registration = kept.answered_at.map(|_| Registration {
        client_data_json: kept.client_data_json.clone(),
        attestation_object: kept.attestation_object.clone(),
    });
    let standing = Standing {
        invitation_id: &kept.invitation_id,
        state: state_of(&kept, desk.now()),
        label: &kept.label,
        registration,
    };
    Reply::json(200, &standing)
}

/// Where an invitation stands, in the contract's words.
pub(super) fn state_of(kept: &KeptInvitation, now: Timestamp) -> &'static str {
    match kept.answered_at {
        Some(_) => "answered",
        None if kept.expires_at <= now.micros() => "expired",
        None => "open",
    }
}

/// What the page sends when a passkey was made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Made {
    label: String,
    client_data_json: String,
    attestation_object: String,
}

#[derive(Debug, Serialize)]
struct Answered<'a> {
    invitation_id: &'a str,
    code: &'a str,
}

/// Takes the passkey that was made for the invitation behind a link.
///
/// *Errors*: each fault by its own code; nothing is kept then. The same answer again is answered the same.
pub(super) async fn answer(desk: &Desk, token: &str, made: &Made) -> Result<Reply, Refused> {
    let now = desk.now();
    let mut session = desk.store.write().await?;
    let kept = session.invitation_of(token).await?;
    let kept = kept.ok_or_else(|| Refused::not_found("unknown_link", "no such invitation"))?;
    let same = kept.client_data_json == made.client_data_json && kept.attestation_object == made.attestation_object;
    if kept.answered_at.is_some() {
        return if same {
            Reply::json(200, &Answered { invitation_id: &kept.invitation_id, code: &kept.code })
        } else {
            Err(Refused::conflict("invitation_answered", "a passkey was made by this invitation already"))
        };
    }
    if kept.expires_at <= now.micros() {
        return Err(Refused::new(
            410,
            "invitation_expired",
            "this invitation has expired; ask your operator for another",
        ));
    }
    let label = KeyLabel::parse("label", made.label.trim())
        .map_err(|refusal| Refused::unacceptable("label_invalid", refusal.message))?;
    let registration = Registration {
        client_data_json: made.client_data_json.clone(),
        attestation_object: made.attestation_object.clone(),
    };
    let passkey = read_registration(&desk.party, &enrolment_digest(&kept.document), &registration)
        .map_err(|fault| Refused::unacceptable("registration_invalid", fault.to_string()))?;
    if session.sign_in_key(&passkey.credential_id).await?.is_some() {
        return Err(Refused::unacceptable("registration_invalid", "a passkey to sign in with approves nothing"));
    }
    let code = passkey.key.code();
    let answer = InvitationAnswer {
        label: label.as_str(),
        client_data_json: &made.client_data_json,
        attestation_object: &made.attestation_object,
        code: &code,
    };
    session.answer_invitation(&kept.invitation_id, &answer, now).await?;
    let reply = Reply::json(200, &Answered { invitation_id: &kept.invitation_id, code: &code })?;
    session.commit().await?;
    tracing::info!(signer.id = %kept.signer_id, "a passkey was made; it counts once an operator has pinned it");
    Ok(reply)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    tenant: String,
    credential_id: String,
    alg: String,
    public_key: String,
    label: String,
    state: String,
}

#[derive(Debug, Serialize)]
struct Kept<'a> {
    signer_id: &'a str,
    key_id: &'a str,
    state: &'a str,
}

/// `PUT /api/v1/signers/{signer_id}/passkeys/{key_id}`: whether a passkey counts. Repeatable by nature.
pub(super) async fn put(
    State(desk): State<Arc<Desk>>,
    axum::extract::Path((signer_id, key_id)): axum::extract::Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Reply, Refused> {
    let told: Told = json_of(&body_of(body)?)?;
    if signer_id.parse::<SignerId>().is_err() || !desk.directory.knows(&signer_id) {
        return Err(Refused::not_found("unknown_signer", "the directory has no such signer"));
    }
    if key_id.parse::<KeyId>().is_err() || !matches!(told.state.as_str(), "active" | "revoked") {
        return Err(Refused::invalid("key_id must be a key's name, and state active or revoked"));
    }
    if told.tenant.parse::<TenantId>().is_err() || KeyLabel::parse("label", &told.label).is_err() {
        return Err(Refused::invalid("tenant must be a tenant's name, and label at most 64 plain characters"));
    }
    if PasskeyKey::parse(&told.alg, &told.public_key).is_err()
        || from_b64url(&told.credential_id).is_none_or(|id| id.is_empty())
    {
        return Err(Refused::unacceptable("passkey_invalid", "alg, public_key and credential_id are not a passkey's"));
    }
    let kept = KeptPasskey {
        tenant: told.tenant,
        signer_id,
        key_id,
        credential_id: told.credential_id,
        alg: told.alg,
        public_key: told.public_key,
        label: told.label,
        state: told.state,
    };
    let mut session = desk.store.write().await?;
    session.set_passkey(&kept, desk.now()).await?;
    let reply = Reply::json(200, &Kept { signer_id: &kept.signer_id, key_id: &kept.key_id, state: &kept.state })?;
    session.commit().await?;
    Ok(reply)
}
