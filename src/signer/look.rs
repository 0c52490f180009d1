//! What there is behind a sign link, read in one go and made ready to be shown.

use super::Desk;
use super::language::Language;
use super::page::{self, Ask, Decided, OfferedPasskey, SignerView, View};
use super::refused::Refused;
use super::store::{KeptDecision, KeptPasskey, KeptPayment, Verdict};
use crate::domain::{Choice, Timestamp};
use crate::proof::{Challenge, DecisionDocument, PASSKEY, PaymentDocument, decision_digest, key_id_of};

/// A payment with everything that its page shows.
#[derive(Debug)]
pub(super) struct Looked {
    payment: KeptPayment,
    document: PaymentDocument,
    asked: Vec<(Challenge, Vec<KeptPasskey>)>,
    words: Vec<KeptDecision>,
    now: Timestamp,
}

/// Follows a link. Changes nothing.
///
/// *Errors*: `unknown_link`, `link_expired`, `round_stale`.
pub(super) async fn look(desk: &Desk, token: &str) -> Result<Looked, Refused> {
    let now = desk.now();
    let mut session = desk.store.read().await?;
    let link = session.link(token).await?.ok_or_else(|| Refused::not_found("unknown_link", "no such sign link"))?;
    if link.expires_at <= now.micros() {
        return Err(Refused::new(410, "link_expired", "this sign link has lapsed; ask for a fresh one"));
    }
    let payment = session.payment(&link.payment_id).await?.ok_or_else(Refused::unknown_payment)?;
    if payment.round != link.round {
        return Err(Refused::new(410, "round_stale", "the payment was changed; ask for a fresh sign link"));
    }
    let mut asked = Vec::new();
    for challenge in session.challenges(&payment.id).await? {
        let mut passkeys = session.passkeys(&payment.tenant, &challenge.signer_id).await?;
        passkeys.retain(KeptPasskey::is_active);
        asked.push((challenge, passkeys));
    }
    let words = session.words(&payment).await?;
    let document = PaymentDocument::parse(&payment.payload).ok_or_else(Refused::internal)?;
    Ok(Looked { payment, document, asked, words, now })
}

impl Looked {
    /// The kept decision of that id.
    pub(super) fn decided(&self, decision_id: &str) -> Option<Decided> {
        self.words.iter().find(|kept| kept.decision_id == decision_id).map(decided)
    }

    /// The same, as a page shows it to whoever `ask`s.
    pub(super) fn view<'a>(
        &'a self,
        desk: &'a Desk,
        language: Language,
        token: &'a str,
        ask: &Ask,
    ) -> Result<View<'a>, Refused> {
        let challenges: Vec<Challenge> = self.asked.iter().map(|(challenge, _)| challenge.clone()).collect();
        Ok(View {
            language,
            address: &desk.address,
            rp_id: &desk.party.id,
            token,
            state: page::state_of(&self.payment, &challenges, &self.words, self.now),
            signers: self
                .asked
                .iter()
                .map(|(challenge, passkeys)| self.signer(desk, challenge, passkeys, ask))
                .collect::<Result<_, Refused>>()?,
            payment: &self.payment,
            document: &self.document,
        })
    }

    fn signer<'a>(
        &'a self,
        desk: &'a Desk,
        challenge: &'a Challenge,
        passkeys: &[KeptPasskey],
        ask: &Ask,
    ) -> Result<SignerView<'a>, Refused> {
        let signer_id = challenge.signer_id.as_str();
        let ask = if ask.signer_id == signer_id { ask.clone() } else { Ask::default() };
        let key_id = match (&ask.key_id, desk.directory.key(signer_id)) {
            (Some(key_id), _) => Some(key_id.clone()),
            (None, Some(key)) => Some(key_id_of(key)),
            (None, None) => None,
        };
        let digest = &self.payment.payment_digest;
        let to_sign = key_id.as_ref().and_then(|key_id| {
            let text = DecisionDocument::answering(challenge, digest, key_id, ask.choice, &ask.reason).canonical();
            text.ok().map(|text| {
                let digest = decision_digest(&text);
                (text, digest)
            })
        });
        let by_passkey = DecisionDocument::answering(challenge, digest, PASSKEY, Choice::Approve, "");
        let of_theirs = |kept: &&KeptDecision| kept.signer_id == signer_id;
        let used = |passkey: &&KeptPasskey| {
            let by_it = |kept: &KeptDecision| kept.stands() && kept.signed_by == passkey.credential_id;
            self.words.iter().filter(of_theirs).any(by_it)
        };
        // A no that came after a yes is what they say.
        let said = self.words.iter().filter(of_theirs).rfind(|kept| kept.stands());
        let since = said.map_or(i64::MIN, |said| said.decided_at);
        let is_refusal =
            |kept: &&KeptDecision| matches!(kept.verdict(), Verdict::Refused(_)) && kept.decided_at > since;
        let unverified = |kept: &KeptDecision| !kept.verified && kept.verdict() == Verdict::Untold;
        Ok(SignerView {
            id: signer_id,
            name: desk.directory.name(signer_id),
            until: &challenge.challenge_expires_at,
            decided: said.map(decided),
            refused: self.words.iter().filter(of_theirs).rfind(is_refusal).map(decided),
            word: self.payment.word_of(&self.words, signer_id),
            unverified: self.words.iter().filter(of_theirs).any(unverified),
            passkeys: passkeys.iter().filter(|passkey| !used(passkey)).map(offered).collect(),
            by_passkey: by_passkey.canonical().map_err(|_| Refused::internal())?,
            key_id: key_id.unwrap_or_default(),
            to_sign,
            ask,
        })
    }
}

fn decided(kept: &KeptDecision) -> Decided {
    let reason = DecisionDocument::parse(&kept.document).map(|document| document.reason).unwrap_or_default();
    Decided {
        choice: Choice::from_name(&kept.decision),
        reason,
        at: kept.decided_at().rfc3339(),
        verdict: kept.verdict(),
    }
}

fn offered(passkey: &KeptPasskey) -> OfferedPasskey {
    OfferedPasskey { credential_id: passkey.credential_id.clone(), label: passkey.label.clone() }
}
