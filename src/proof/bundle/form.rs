//! The form of a bundle: objects, lists and strings, nothing else, each member exactly once.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::proof::registry::instant;

/// A bundle. Every value is a string; an absent one is `""`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// [`Bundle::FORMAT`].
    pub format: String,
    /// When it was put together.
    pub generated_at: String,
    /// What was asked.
    pub payment: SignedPayment,
    /// The rule that the payment was proposed under.
    pub policy: Document,
    /// Who was asked, in each round.
    pub challenges: Vec<Asked>,
    /// What they said.
    pub decisions: Vec<Decided>,
    /// Whose keys these are.
    pub registry: Vec<Registered>,
    /// What was sent, and what came of it.
    pub execution: Carried,
    /// What the audit tells of it.
    pub audit: Vec<Stretch>,
}

/// A document in its exact text, and its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The canonical text.
    pub document: String,
    /// Its digest, base64url.
    pub digest: String,
}

/// The payment as its signers saw it, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedPayment {
    /// P.
    pub document: String,
    /// Its digest, base64url.
    pub digest: String,
    /// Its public state.
    pub status: String,
}

/// A challenge: what one person was asked in one round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are those of the decision document")]
pub struct Asked {
    pub round: String,
    pub signer_id: String,
    pub nonce: String,
    pub issued_at: String,
    pub challenge_expires_at: String,
}

/// A decision and its proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Our id for it.
    pub decision_id: String,
    /// The round it was given in.
    pub round: String,
    /// D.
    pub document: String,
    /// Its digest, base64url.
    pub digest: String,
    /// The registry's name for the key.
    pub key_id: String,
    /// What proves it.
    pub proof: Proven,
    /// Which of its signer's confirmations it is, from 1.
    pub confirmation: String,
    /// `counted`, `surplus` (after the quorum was complete) or `void` (of an earlier round).
    pub standing: String,
    /// When it was taken in.
    pub decided_at: String,
}

/// A proof by the name of its form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proven {
    /// `jws` or `webauthn`.
    #[serde(rename = "type")]
    pub form: String,
    /// The proof itself.
    pub value: String,
}

/// A registry entry and the root's signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// R.
    pub entry: String,
    /// The root's signature over it; empty where no root signed it.
    pub signature: String,
}

/// What was sent to the rail, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// The requests.
    pub requests: Vec<Sent>,
    /// What the rail said of the transfer: the canonical receipt.
    pub receipt: String,
    /// The transfer's id, or what two people referred to.
    pub transfer_id: String,
    /// The words of people that it was paid.
    pub attestations: Vec<Word>,
}

/// A request to the rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// Our key for it.
    pub key: String,
    /// The exact bytes.
    pub body: String,
}

/// One person's word that the money moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// Which hold or attempt group it speaks of.
    pub episode: String,
    /// Who.
    pub person: String,
    /// What they refer to.
    pub reference: String,
}

/// A stretch of the tenant's audit: the payment's entries, of all others the hash alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// The position before the first item.
    pub after: String,
    /// The chain value there; empty before the first entry of all.
    pub chain: String,
    /// An entry's text, which begins with `{`, or another's hash, base64url.
    pub items: Vec<String>,
    /// The signed checkpoint of the chain after the last item; empty where there is none yet.
    pub checkpoint: String,
}

impl Bundle {
    /// The format's name.
    pub const FORMAT: &'static str = "countersign/evidence/v1";
    /// The longest text that is read.
    pub const LONGEST: usize = 32 * 1024 * 1024;

    /// Reads a bundle's text.
    ///
    /// *Errors*: what is not as the format says.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > Self::LONGEST {
            return Err(format!("longer than {} bytes", Self::LONGEST));
        }
        let bundle: Self = serde_json::from_str(text).map_err(|fault| format!("not a bundle: {fault}"))?;
        // A derived reader takes a list of the values for an object as well.
        let plain: Option<Value> = serde_json::from_str(text).ok();
        if plain.is_none() || serde_json::to_value(&bundle).ok() != plain {
            return Err("not a bundle: a list where an object belongs".to_owned());
        }
        match bundle.fault() {
            None => Ok(bundle),
            Some(what) => Err(format!("not a bundle: {what}")),
        }
    }

    fn fault(&self) -> Option<String> {
        if self.format != Self::FORMAT {
            return Some(format!("format is not {}", Self::FORMAT));
        }
        let rounds = self.challenges.iter().map(|asked| &asked.round);
        let counts = self.decisions.iter().flat_map(|decided| [&decided.round, &decided.confirmation]);
        let times = self.challenges.iter().flat_map(|asked| [&asked.issued_at, &asked.challenge_expires_at]);
        let times = times.chain(self.decisions.iter().map(|decided| &decided.decided_at)).chain([&self.generated_at]);
        let places = self.audit.iter().map(|stretch| &stretch.after).filter(|after| *after != "0");
        let words = |decided: &Decided| {
            ["counted", "surplus", "void"].contains(&decided.standing.as_str())
                && ["jws", "webauthn"].contains(&decided.proof.form.as_str())
        };
        if rounds.chain(counts).chain(places).any(|text| number(text).is_none()) {
            return Some("a number is not in its one form".to_owned());
        }
        if times.into_iter().any(|text| instant(text).is_none()) {
            return Some("a time is not in its one form".to_owned());
        }
        (!self.decisions.iter().all(words)).then(|| "a decision's standing or proof is of no known kind".to_owned())
    }
}

/// A number from 1 in decimal, of at most 15 digits and without a leading zero.
pub(super) fn number(text: &str) -> Option<i64> {
    let plain = text.len() <= 15 && text.bytes().all(|digit| digit.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}
