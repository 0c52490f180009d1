//! Everything that stands behind one payment, put together for whoever verifies it elsewhere (docs/evidence.md).
//!
//! Nothing is judged here: what is stored is given as it is, and the verifier finds what is wrong with it. Of other
//! payments' entries the hash alone is given.

use super::reading::challenge_of;
use super::registry::entry_of;
use super::{Journal, RACES, Selector};
use crate::domain::{Code, Payment, Principal, Refusal, Timestamp};
use crate::proof::{
    Asked, Bundle, Carried, Decided, Document, PaymentDocument, Proven, Registered, Sent, SignedPayment, Stretch, Word,
    b64url, jcs, leaf, tagged_digest,
};
use crate::store::{AuditRow, PinnedKey, Session, TimedDecision};

/// Everything that stands behind one payment.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The payment.
    pub payment: Payment,
    /// The bundle.
    pub bundle: Bundle,
}

/// Entries of others are given up to here to reach a signed checkpoint.
const FARTHEST: i64 = 20_000;
/// Entries read at once.
const PAGE: i64 = 1_000;

impl Journal {
    /// Everything that stands behind a payment.
    pub async fn evidence(&self, who: &Principal, selector: &Selector) -> Result<Evidence, Refusal> {
        let mut session = self.store.read().await?;
        let found = Self::select(&mut session, who, selector).await?;
        let selector = Selector::Payment(found.terms.payment_id.clone());
        let (tenant, id) = (found.terms.tenant.as_str(), found.terms.payment_id.as_str());
        for _ in 0..RACES {
            let before = session.audit_of(tenant, id).await?;
            let payment = Self::select(&mut session, who, &selector).await?;
            let bundle = self.bundle(&mut session, &payment, &before).await?;
            // Whatever changes a payment adds an entry in the same transaction: no more of them, and all of it is of
            // one moment.
            if session.audit_of(tenant, id).await?.len() == before.len() {
                return Ok(Evidence { payment, bundle });
            }
        }
        Err(Refusal::new(Code::VersionConflict, "the payment changes faster than it can be read; ask again"))
    }

    async fn bundle(&self, session: &mut Session, payment: &Payment, audit: &[AuditRow]) -> Result<Bundle, Refusal> {
        let (tenant, id) = (payment.terms.tenant.as_str(), payment.terms.payment_id.as_str());
        let policy = jcs(&payment.terms.policy).map_err(|_| unwritable())?;
        let taken = session.timed_decisions(id).await?;
        let mut challenges = Vec::new();
        for round in 1..=payment.round {
            if round == payment.round || taken.iter().any(|decision| decision.round == round) {
                challenges.extend(session.challenges(id, round).await?.iter().map(|stored| asked(round, stored)));
            }
        }
        let requests = session.sent_bodies(id).await?;
        let words = session.attested_payment(id).await?;
        Ok(Bundle {
            format: Bundle::FORMAT.to_owned(),
            generated_at: self.clock.now().rfc3339(),
            payment: SignedPayment {
                document: payment.document.clone(),
                digest: payment.digest.clone(),
                status: payment.status.as_str().to_owned(),
            },
            policy: Document { digest: b64url(tagged_digest(PaymentDocument::POLICY, &policy)), document: policy },
            challenges,
            registry: registered(session, tenant, &taken).await?,
            decisions: taken.into_iter().map(|decision| decided(payment, decision)).collect(),
            execution: Carried {
                requests: requests.into_iter().map(|sent| Sent { key: sent.outbound_key, body: sent.body }).collect(),
                receipt: session.receipt(id).await?.unwrap_or_default(),
                transfer_id: payment.execution.transfer_id.clone(),
                attestations: words
                    .into_iter()
                    .map(|word| Word { episode: word.episode, person: word.person, reference: word.reference })
                    .collect(),
            },
            audit: stretches(session, tenant, audit).await?,
        })
    }
}

fn unwritable() -> Refusal {
    Refusal::new(Code::Internal, "the evidence can't be put in canonical form")
}

fn asked(round: i64, stored: &crate::store::StoredChallenge) -> Asked {
    let challenge = challenge_of(stored);
    Asked {
        round: round.to_string(),
        signer_id: challenge.signer_id,
        nonce: challenge.nonce,
        issued_at: challenge.issued_at,
        challenge_expires_at: challenge.challenge_expires_at,
    }
}

fn decided(payment: &Payment, taken: TimedDecision) -> Decided {
    let TimedDecision { round, decided_at, decision } = taken;
    let standing = match (round == payment.round, decision.payment_version > 0) {
        (false, _) => "void",
        (true, true) => "counted",
        (true, false) => "surplus",
    };
    Decided {
        decision_id: decision.decision_id,
        round: round.to_string(),
        document: decision.document,
        digest: decision.digest,
        key_id: decision.key_id,
        proof: Proven { form: decision.proof_type, value: decision.proof },
        confirmation: decision.confirmation.to_string(),
        standing: standing.to_owned(),
        decided_at: Timestamp::from_micros(decided_at).rfc3339(),
    }
}

/// The entries of the keys that decided, each once.
async fn registered(session: &mut Session, tenant: &str, taken: &[TimedDecision]) -> Result<Vec<Registered>, Refusal> {
    let mut names: Vec<(&str, &str)> =
        taken.iter().map(|of| (of.decision.signer_id.as_str(), of.decision.key_id.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let mut entries = Vec::new();
    for (signer, key_id) in names {
        let known = session.pinned_keys(tenant, signer).await?;
        if let Some(key) = known.iter().find(|key| key.key_id == key_id) {
            entries.push(certificate(tenant, key)?);
        }
    }
    Ok(entries)
}

/// What the root signed, while it is what the row says; else what the row says, which no root signed.
fn certificate(tenant: &str, key: &PinnedKey) -> Result<Registered, Refusal> {
    let entry = entry_of(tenant, key).canonical().map_err(|_| unwritable())?;
    let signature = if entry == key.entry { key.entry_signature.clone() } else { String::new() };
    Ok(Registered { entry, signature })
}

/// The payment's entries, each with what leads from it to the first checkpoint that covers it.
///
/// A stretch may begin anywhere: its end is signed, and no other beginning leads to that.
async fn stretches(session: &mut Session, tenant: &str, own: &[AuditRow]) -> Result<Vec<Stretch>, Refusal> {
    let mut stretches = Vec::new();
    let mut rest = own;
    while let Some(first) = rest.first() {
        let farthest = first.seq.saturating_add(FARTHEST);
        let signed = session.checkpoint_of(tenant, first.seq).await?.filter(|signed| signed.size <= farthest);
        let reached = rest.iter().rfind(|row| row.seq <= farthest).map_or(first.seq, |row| row.seq);
        let (until, checkpoint) = signed.map_or((reached, String::new()), |signed| (signed.size, signed.note));
        let count = rest.iter().take_while(|row| row.seq <= until).count();
        let (here, later) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        stretches.push(Stretch {
            after: first.seq.saturating_sub(1).to_string(),
            chain: first.previous.clone(),
            items: items(session, tenant, here, until).await?,
            checkpoint,
        });
        rest = later;
    }
    Ok(stretches)
}

/// Every entry from the first of `own` to `until`: the payment's in full, others by their hash.
async fn items(session: &mut Session, tenant: &str, own: &[AuditRow], until: i64) -> Result<Vec<String>, Refusal> {
    let mut items = Vec::new();
    let mut after = own.first().map_or(until, |row| row.seq.saturating_sub(1));
    let mut own = own.iter().peekable();
    while after < until {
        let page = session.audit_texts(tenant, after, until, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (seq, text) in page {
            let ours = own.next_if(|row| row.seq == seq).is_some();
            items.push(if ours { text } else { leaf(&text) });
        }
    }
    Ok(items)
}
