//! A decision comes in: checked, kept, and its callback enqueued, in one transaction.
//!
//! *Invariant*: what is kept answers a challenge of the payment's current round, byte for byte, and
//! verifies wherever the directory has the signer's key. The gateway verifies it again, against its
//! own keys, and believes nothing else.
//!
//! A link is no capability, so anyone who has one can send something in a signer's name. Where the
//! directory has no key to tell, what came first must not shut out what comes later: such decisions
//! are kept side by side, up to a bound, and the gateway picks the one that verifies.

use serde::{Deserialize, Serialize};

use super::Desk;
use super::refused::{Refused, Reply};
use super::store::{Callback, KeptDecision, KeptPasskey, KeptPayment, Session, Word};
use crate::domain::{Choice, DecisionId, KeyId, Reason, Timestamp};
use crate::proof::{Challenge, Claim, DecisionDocument, PASSKEY, Proof, ProofFault, SignerKey, claimed_key_id};

/// A decision as it was sent.
#[derive(Debug)]
pub(super) enum Submitted {
    /// By a program: the document it signed, and the signature.
    Document(SignedDocument),
    /// By the page's form: the document is built here from the same values.
    Form(FormFields),
}

/// The JSON body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignedDocument {
    document: String,
    #[serde(default)]
    jws: Option<String>,
    #[serde(default)]
    proof: Option<SentProof>,
}

/// A proof by the name of its form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SentProof {
    r#type: String,
    value: String,
}

/// The form's fields.
#[derive(Debug, Default)]
pub(super) struct FormFields {
    /// Who signs; may be empty when one signer is asked.
    pub(super) signer_id: String,
    /// The key; empty for the one that the signature names.
    pub(super) key_id: String,
    /// `approve` or `reject`.
    pub(super) decision: String,
    /// Why.
    pub(super) reason: String,
    /// The detached JWS.
    pub(super) jws: String,
}

/// A decision that is kept, as it is answered.
#[derive(Debug, Serialize)]
pub(super) struct Recorded {
    /// The service's id for it.
    pub(super) decision_id: String,
    /// Who decided.
    pub(super) signer_id: String,
    /// `approve` or `reject`.
    pub(super) decision: String,
    round: i64,
}

#[derive(Debug, Serialize)]
struct Hint<'a> {
    event_id: &'a str,
    r#type: &'static str,
    payment_id: &'a str,
    decision_id: &'a str,
}

/// How many decisions are kept in one signer's name: so many in all, and verified ones besides.
const MOST_KEPT: usize = 16;

/// A decision that passed every check that needs no clock.
struct Checked {
    signer_id: String,
    choice: Choice,
    document: String,
    proof: Proof,
    /// The key that a JWS names, or the passkey's credential.
    signed_by: String,
    verified: bool,
    challenge_expires_at: String,
}

/// Takes the decision that was sent to a sign link.
///
/// *Errors*: each fault by its own code; nothing is kept then.
/// *Crash*: decision and callback are both kept, or neither; sending the same again is answered the same.
pub(super) async fn take(desk: &Desk, token: &str, submitted: Submitted) -> Result<Recorded, Refused> {
    let now = desk.now();
    let mut session = desk.store.write().await?;
    let link = session.link(token).await?.ok_or_else(|| Refused::not_found("unknown_link", "no such sign link"))?;
    if link.expires_at <= now.micros() {
        return Err(Refused::new(410, "link_expired", "this sign link has lapsed; ask for a fresh one"));
    }
    let payment = session.payment(&link.payment_id).await?.ok_or_else(Refused::unknown_payment)?;
    if payment.round != link.round {
        return Err(Refused::conflict("round_stale", "the payment was changed; ask for a fresh sign link"));
    }
    let challenges = session.challenges(&payment.id).await?;
    let checked = check(desk, &mut session, &payment, &challenges, submitted).await?;

    let mut earlier = session.words(&payment).await?;
    earlier.retain(|kept| kept.signer_id == checked.signer_id);
    if let Some(kept) = same_of(&payment, &earlier, &checked)? {
        return Ok(recorded(&payment, kept));
    }
    check_time(&payment, &checked, now)?;
    let recorded = keep(desk, &mut session, &payment, checked, now).await?;
    session.commit().await?;
    desk.callback_enqueued.notify_one();
    Ok(recorded)
}

/// The decision among the signer's `earlier` ones that this one repeats.
///
/// Where an approval is confirmed with another key, a no may follow the first one; nothing else is taken back. What the
/// gateway refused holds nobody up.
///
/// *Errors*: `already_decided` when it contradicts a verified one, `key_used` when it confirms one with the same key,
/// `too_many_decisions` past the bound.
fn same_of<'a>(
    payment: &KeptPayment,
    earlier: &'a [KeptDecision],
    checked: &Checked,
) -> Result<Option<&'a KeptDecision>, Refused> {
    let same = |kept: &&KeptDecision| {
        kept.document == checked.document
            && (kept.proof == checked.proof.text()
                || (kept.stands() && kept.verified && checked.verified && kept.signed_by == checked.signed_by))
    };
    // One that was kept before the key was known is kept anew now that it can be verified.
    if let Some(kept) = earlier.iter().filter(|kept| kept.verified >= checked.verified).find(same) {
        return Ok(Some(kept));
    }
    let decided = || Refused::conflict("already_decided", "this signer has decided in this round");
    match payment.word_of(earlier, &checked.signer_id) {
        Word::None => {}
        Word::Half if !checked.verified => return Err(decided()),
        Word::Half => {
            let used = earlier.iter().any(|kept| kept.stands() && kept.signed_by == checked.signed_by);
            if used && checked.choice == Choice::Approve {
                return Err(Refused::conflict("key_used", "confirm with another key, on another device"));
            }
        }
        Word::Whole => {
            // By another key of theirs, and nobody asked for it: said once is enough.
            let alike = |kept: &&KeptDecision| kept.stands() && says_alike(&kept.document, &checked.document);
            return earlier.iter().filter(|_| checked.verified).find(alike).map(Some).ok_or_else(decided);
        }
    }
    if earlier.iter().filter(|kept| kept.verified || !checked.verified).count() >= MOST_KEPT {
        return Err(Refused::conflict("too_many_decisions", "too many decisions came in this signer's name"));
    }
    Ok(None)
}

/// Whether two documents say the same, each by its own key.
fn says_alike(one: &str, other: &str) -> bool {
    let said = |text: &str| Some(DecisionDocument { key_id: String::new(), ..DecisionDocument::parse(text)? });
    said(one).is_some_and(|one| Some(one) == said(other))
}

async fn keep(
    desk: &Desk,
    session: &mut Session,
    payment: &KeptPayment,
    checked: Checked,
    now: Timestamp,
) -> Result<Recorded, Refused> {
    let kept = KeptDecision {
        decision_id: DecisionId::mint(now, desk.entropy.u128()).to_string(),
        signer_id: checked.signer_id,
        decision: checked.choice.as_str().to_owned(),
        document: checked.document,
        proof_type: checked.proof.form().to_owned(),
        proof: checked.proof.text().to_owned(),
        signed_by: checked.signed_by,
        verified: checked.verified,
        decided_at: now.micros(),
        verdict: String::new(),
        code: String::new(),
    };
    session.add_decision(payment, &kept).await?;
    let event_id = desk.mint("evt_");
    let hint = Hint {
        event_id: &event_id,
        r#type: "decision.recorded",
        payment_id: &payment.reference,
        decision_id: &kept.decision_id,
    };
    let body = Reply::json(200, &hint)?.body;
    let url = payment.callback_url.clone();
    session.add_callback(&Callback { event_id, url, body, attempts: 0, created_at: now.micros() }).await?;
    tracing::info!(payment.id = %payment.reference, signer.id = %kept.signer_id, "a decision was recorded");
    Ok(recorded(payment, &kept))
}

fn recorded(payment: &KeptPayment, kept: &KeptDecision) -> Recorded {
    Recorded {
        decision_id: kept.decision_id.clone(),
        signer_id: kept.signer_id.clone(),
        decision: kept.decision.clone(),
        round: payment.round,
    }
}

fn check_time(payment: &KeptPayment, checked: &Checked, now: Timestamp) -> Result<(), Refused> {
    if !payment.is_open() {
        return Err(Refused::conflict("closed", "no more decisions are wanted for this payment"));
    }
    if payment.expires_at() <= now {
        return Err(Refused::conflict("payment_expired", "the time to decide on this payment has passed"));
    }
    if Timestamp::parse_rfc3339(&checked.challenge_expires_at).is_none_or(|until| until <= now) {
        return Err(Refused::conflict("challenge_expired", "the time to answer this challenge has passed"));
    }
    Ok(())
}

/// Checks who answers what, that it is exactly what was asked, and the signature where a key is known.
async fn check(
    desk: &Desk,
    session: &mut Session,
    payment: &KeptPayment,
    asked: &[Challenge],
    submitted: Submitted,
) -> Result<Checked, Refused> {
    let (given, proof) = match submitted {
        Submitted::Document(signed) => (parse(&signed.document)?, proof_of(signed)?),
        Submitted::Form(fields) => from_form(payment, asked, fields)?,
    };
    let challenge = find(asked, &given.signer_id)?;
    if given.payment_digest != payment.payment_digest {
        return Err(Refused::unacceptable(
            "digest_mismatch",
            "the document speaks of another payment, or another round",
        ));
    }
    if given.nonce != challenge.nonce {
        return Err(Refused::unacceptable("nonce_mismatch", "the document answers another challenge"));
    }
    let choice = given
        .choice()
        .ok_or_else(|| Refused::unacceptable("decision_invalid", "decision must be approve or reject"))?;
    if given.key_id.parse::<KeyId>().is_err() {
        return Err(Refused::unacceptable("key_id_invalid", "key_id must be 1 to 64 of A-Z a-z 0-9 and ._:-"));
    }
    Reason::parse("reason", &given.reason)
        .map_err(|refusal| Refused::unacceptable("reason_invalid", refusal.message))?;
    let expected =
        DecisionDocument::answering(challenge, &payment.payment_digest, &given.key_id, choice, &given.reason);
    if given != expected {
        return Err(Refused::unacceptable("document_mismatch", "the document is not the one that was asked for"));
    }
    let document = expected.canonical().map_err(|error| {
        tracing::error!(%error, "a decision document could not be written");
        Refused::internal()
    })?;
    let claim = proof.claim().map_err(unproved)?;
    let passkeys = session.passkeys(&payment.tenant, &given.signer_id).await?;
    let verified = check_proof(desk, &passkeys, &expected, &document, &proof, &claim)?;
    Ok(Checked {
        signer_id: expected.signer_id,
        choice,
        document,
        proof,
        signed_by: if claim.credential_id.is_empty() { claim.key_id } else { claim.credential_id },
        verified,
        challenge_expires_at: expected.challenge_expires_at,
    })
}

fn unproved(fault: ProofFault) -> Refused {
    Refused::unacceptable("signature_invalid", fault.to_string())
}

/// The one proof that a program sent.
fn proof_of(signed: SignedDocument) -> Result<Proof, Refused> {
    match (signed.jws, signed.proof) {
        (Some(jws), None) => Ok(Proof::Jws(jws)),
        (None, Some(SentProof { r#type, value })) => {
            Proof::of(&r#type, value).ok_or_else(|| Refused::invalid("proof.type must be jws or webauthn"))
        }
        (Some(_), Some(_)) | (None, None) => Err(Refused::invalid("send one of jws and proof")),
    }
}

/// Verifies a proof with the signer's own key, and says whether one was known; a JWS without one is only read.
///
/// *Errors*: `signature_invalid`; `passkey_revoked` and `unknown_passkey`, for a passkey that does not count.
fn check_proof(
    desk: &Desk,
    passkeys: &[KeptPasskey],
    given: &DecisionDocument,
    document: &str,
    proof: &Proof,
    claim: &Claim,
) -> Result<bool, Refused> {
    if claim.key_id != given.key_id {
        return Err(unproved(ProofFault::Header));
    }
    if given.key_id != PASSKEY {
        let Some(key) = desk.directory.key(&given.signer_id) else { return Ok(false) };
        let verified = SignerKey::Jws(key.clone()).verify(&given.key_id, document, proof);
        return verified.map(|_| true).map_err(unproved);
    }
    let passkey = passkeys.iter().find(|passkey| passkey.credential_id == claim.credential_id).ok_or_else(|| {
        Refused::unacceptable(
            "unknown_passkey",
            "this passkey is none of this signer's, or no operator has pinned it yet",
        )
    })?;
    if !passkey.is_active() {
        return Err(Refused::unacceptable("passkey_revoked", "this passkey was revoked and no longer counts"));
    }
    SignerKey::parse(&passkey.alg, &passkey.public_key, &passkey.credential_id, Some(desk.party.clone()))
        .and_then(|key| key.verify(&passkey.key_id, document, proof))
        .map(|_| true)
        .map_err(unproved)
}

fn parse(document: &str) -> Result<DecisionDocument, Refused> {
    DecisionDocument::parse(document).ok_or_else(|| {
        Refused::unacceptable("document_invalid", "document is not a decision document in canonical form")
    })
}

fn find<'a>(asked: &'a [Challenge], signer_id: &str) -> Result<&'a Challenge, Refused> {
    asked
        .iter()
        .find(|challenge| challenge.signer_id == signer_id)
        .ok_or_else(|| Refused::unacceptable("unknown_signer", "this round does not ask that signer"))
}

/// Builds the document that the form's values stand for, which the signer built likewise.
fn from_form(
    payment: &KeptPayment,
    asked: &[Challenge],
    fields: FormFields,
) -> Result<(DecisionDocument, Proof), Refused> {
    let challenge = match asked {
        [only] if fields.signer_id.is_empty() => only,
        _ => find(asked, &fields.signer_id)?,
    };
    let jws = fields.jws.split_whitespace().collect::<String>();
    let claimed = claimed_key_id(&jws).map_err(unproved)?;
    let key_id = if fields.key_id.is_empty() { claimed } else { fields.key_id };
    let choice = Choice::from_name(&fields.decision)
        .ok_or_else(|| Refused::unacceptable("decision_invalid", "decision must be approve or reject"))?;
    let document =
        DecisionDocument::answering(challenge, &payment.payment_digest, &key_id, choice, fields.reason.trim());
    Ok((document, Proof::Jws(jws)))
}
