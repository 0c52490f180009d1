//! Signing in to look, by a passkey that approves nothing.
//!
//! *Invariant*: a sign-in passkey and an approving one are never the same. They are made apart and kept apart; neither is
//! looked for among the other kind, and a credential that is known as one is not taken as the other.
//!
//! A challenge is random, vouched for by a key that lives as long as the process, and used once. So nobody fills a
//! table by asking for challenges, and a restart costs a person a second try.

use std::time::Duration;

use aws_lc_rs::hmac;
use serde::Deserialize;

use super::Desk;
use super::refused::Refused;
use super::store::{KeptInvitation, KeptPasskey, Session, SignInKey};
use crate::ambient::Entropy;
use crate::domain::Timestamp;
use crate::proof::{
    Assertion, PasskeyKey, Registration, b64url, enrolment_digest, from_b64url, read_registration, verify_assertion,
};

/// How long a challenge can be answered.
const CHALLENGE_TTL: Duration = Duration::from_mins(5);
/// How long a session lasts; it is not prolonged.
pub(super) const SESSION_TTL: Duration = Duration::from_mins(30);

const RANDOM: usize = 24;

/// What a challenge is for; vouched for with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose<'a> {
    /// To sign in.
    SignIn,
    /// To make a key, after this invitation was answered.
    Make(&'a str),
}

impl Purpose<'_> {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::SignIn => b"sign-in".to_vec(),
            Self::Make(invitation) => [b"make/", invitation.as_bytes()].concat(),
        }
    }
}

/// What vouches for challenges.
pub(super) struct Challenges(hmac::Key);

impl Challenges {
    /// A fresh one.
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &secret))
    }

    /// A challenge, base64url: when it lapses, random bytes, and the mark over both and its purpose.
    pub(super) fn make(&self, purpose: Purpose<'_>, now: Timestamp, entropy: &dyn Entropy) -> String {
        let mut random = [0; RANDOM];
        entropy.fill(&mut random);
        let head = [now.plus(CHALLENGE_TTL).micros().to_be_bytes().as_slice(), &random].concat();
        let mark = hmac::sign(&self.0, &[head.as_slice(), &purpose.bytes()].concat());
        b64url([head.as_slice(), mark.as_ref()].concat())
    }

    /// When a challenge of ours lapses; `None` for one that is not ours, for another purpose, or has lapsed.
    fn check(&self, challenge: &str, purpose: Purpose<'_>, now: Timestamp) -> Option<Timestamp> {
        let bytes = from_b64url(challenge)?;
        let (head, mark) = bytes.split_at_checked(8 + RANDOM)?;
        hmac::verify(&self.0, &[head, &purpose.bytes()].concat(), mark).ok()?;
        let until = Timestamp::from_micros(i64::from_be_bytes(*head.first_chunk()?));
        (now < until).then_some(until)
    }
}

/// What the page sends when a sign-in passkey was made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Made {
    challenge: String,
    client_data_json: String,
    attestation_object: String,
}

/// What the page sends to sign in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shown {
    challenge: String,
    assertion: String,
}

fn stale() -> Refused {
    Refused::conflict("sign_in_stale", "this took too long, or was done already; begin again")
}

/// Keeps the sign-in passkey that was made after an invitation was answered, on the same page.
pub(super) async fn make(desk: &Desk, token: &str, made: &Made) -> Result<(), Refused> {
    let now = desk.now();
    let mut session = desk.store.write().await?;
    let kept = session.invitation_of(token).await?;
    let kept = kept.ok_or_else(|| Refused::not_found("unknown_link", "no such invitation"))?;
    let challenge = &made.challenge;
    let purpose = Purpose::Make(&kept.invitation_id);
    if desk.challenges.check(challenge, purpose, now).is_none() || kept.answered_at.is_none() {
        return Err(stale());
    }
    if session.has_sign_in_key(&kept.invitation_id).await? {
        return Err(stale());
    }
    let registration = Registration {
        client_data_json: made.client_data_json.clone(),
        attestation_object: made.attestation_object.clone(),
    };
    let invalid = |why: String| Refused::unacceptable("registration_invalid", why);
    let passkey =
        read_registration(&desk.party, challenge, &registration).map_err(|fault| invalid(fault.to_string()))?;
    let approving = session.is_approving(&passkey.credential_id).await?
        || approving_of(desk, &kept).is_some_and(|credential| credential == passkey.credential_id)
        || session.sign_in_key(&passkey.credential_id).await?.is_some();
    if approving {
        return Err(invalid("this passkey is known already; a sign-in passkey is one of its own".to_owned()));
    }
    let key = SignInKey {
        credential_id: passkey.credential_id,
        invitation_id: kept.invitation_id,
        tenant: kept.tenant,
        signer_id: kept.signer_id,
        alg: passkey.key.alg().as_str().to_owned(),
        public_key: passkey.key.to_b64url(),
        counter: passkey.counter.into(),
    };
    session.add_sign_in_key(&key, now).await?;
    session.commit().await?;
    tracing::info!(signer.id = %key.signer_id, "a sign-in passkey was made");
    Ok(())
}

/// The credential that answered an invitation.
fn approving_of(desk: &Desk, kept: &KeptInvitation) -> Option<String> {
    let registration = Registration {
        client_data_json: kept.client_data_json.clone(),
        attestation_object: kept.attestation_object.clone(),
    };
    let answered = read_registration(&desk.party, &enrolment_digest(&kept.document), &registration);
    answered.ok().map(|passkey| passkey.credential_id)
}

/// Begins a session; the cookie's value.
///
/// *Errors*: `sign_in_stale`, `unknown_passkey`, `passkey_revoked`, `signature_invalid`.
pub(super) async fn begin(desk: &Desk, shown: &Shown) -> Result<String, Refused> {
    let now = desk.now();
    let until = desk.challenges.check(&shown.challenge, Purpose::SignIn, now).ok_or_else(stale)?;
    let invalid = |why: String| Refused::unacceptable("signature_invalid", why);
    let assertion = Assertion::parse(&shown.assertion).map_err(|fault| invalid(fault.to_string()))?;
    let mut session = desk.store.write().await?;
    let mut key = session
        .sign_in_key(&assertion.credential_id)
        .await?
        .ok_or_else(|| Refused::unacceptable("unknown_passkey", "this is no passkey to sign in with"))?;
    let passkey = PasskeyKey::parse(&key.alg, &key.public_key).map_err(|_| Refused::internal())?;
    let counter = verify_assertion(&passkey, &desk.party, &shown.challenge, &assertion)
        .map_err(|fault| invalid(fault.to_string()))?;
    let counter = i64::from(counter);
    if (counter, key.counter) != (0, 0) && counter <= key.counter {
        return Err(invalid("the passkey's counter ran backwards".to_owned()));
    }
    if !counts(&mut session, &key).await? {
        return Err(Refused::unacceptable(
            "passkey_revoked",
            "the passkey that was made with this one does not count yet, or no longer",
        ));
    }
    if !session.use_challenge(&shown.challenge, until, now).await? {
        return Err(stale());
    }
    key.counter = counter;
    let mut token = [0; 32];
    desk.entropy.fill(&mut token);
    let token = b64url(token);
    session.begin_session(&token, &key, now.plus(SESSION_TTL), now).await?;
    session.commit().await?;
    tracing::info!(signer.id = %key.signer_id, "a signer signed in");
    Ok(token)
}

/// Whether a sign-in passkey counts: while the approving one of its invitation does.
pub(super) async fn counts(session: &mut Session, key: &SignInKey) -> Result<bool, Refused> {
    let Some(kept) = session.invitation(&key.invitation_id).await? else { return Ok(false) };
    let passkeys = session.passkeys(&kept.tenant, &key.signer_id).await?;
    Ok(passkey_of(&kept, &passkeys).is_some_and(KeptPasskey::is_active))
}

/// The passkey by which an invitation was answered, once the gateway has told of it.
pub(super) fn passkey_of<'a>(kept: &KeptInvitation, passkeys: &'a [KeptPasskey]) -> Option<&'a KeptPasskey> {
    let code = |passkey: &KeptPasskey| PasskeyKey::parse(&passkey.alg, &passkey.public_key).map(|key| key.code());
    passkeys.iter().find(|passkey| code(passkey).is_ok_and(|code| code == kept.code))
}
