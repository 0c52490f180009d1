//! Who said yes: I2, I9, I11.

use std::collections::{BTreeMap, BTreeSet};

use countersign::domain::{Choice, Payment, SignerId, Standing, Timestamp, Vote, evaluate, is_barred};
use countersign::proof::{
    AuditFacts, DecisionDocument, PASSKEY, PaymentDocument, Proof, RelyingParty, SignerKey, decision_digest,
    payment_digest, sha256_hex,
};

use super::books::Row;
use super::{Books, Findings};

/// I2. For each attempt group that was begun, the signatures that stood when its intent was written.
pub(super) fn quorum_at_intent(books: &Books, found: &mut Findings<'_>) {
    for payment in &books.payments {
        let id = payment.terms.payment_id.as_str();
        let asked = books.requests.iter().filter(|row| row.text("reference") == id).count();
        let intents: Vec<&Row> = books.effects_of(id, "rail.execute").collect();
        if intents.is_empty() && !books.rewound && (asked > 0 || books.transfers_of(id).count() > 0) {
            found.note(id, "the rail was asked for it, and no intent is written down");
        }
        for intent in intents {
            if let Err(why) = stood(books, payment, intent) {
                found.note(id, format!("{}: {why}", intent.text("outbound_key")));
            }
        }
    }
}

/// Whether the chain tells that a key was revoked, and of it after `written`.
fn is_revoked_after(books: &Books, payment: &Payment, key: &Row, written: &AuditFacts) -> bool {
    let place = |facts: &AuditFacts| facts.seq.parse::<i64>().unwrap();
    let name = format!("{} {}", key.text("signer_id"), key.text("key_id"));
    let entries = books.audit.get(payment.terms.tenant.as_str()).into_iter().flatten();
    let mut told = entries.filter_map(|entry| entry.facts.as_ref());
    let revoked = told.find(|facts| facts.event == "signer_key.revoked" && facts.reason == name);
    revoked.is_some_and(|revoked| place(revoked) > place(written))
}

/// Whether a valid quorum stood before `intent`.
fn stood(books: &Books, payment: &Payment, intent: &Row) -> Result<(), String> {
    let id = payment.terms.payment_id.as_str();
    let at = Timestamp::from_micros(intent.int("created_at"));
    let written = books.changes(id).find(|facts| facts.event == "rail.execute.intended" && facts.ts == at.rfc3339());
    let written = written.ok_or("its intent is not audited")?;
    let version: i64 = written.version.parse().map_err(|_| "its intent is no change")?;
    let before: Vec<&Row> = books
        .decisions
        .iter()
        .filter(|row| row.text("payment_id") == id && (1..version).contains(&row.int("payment_version")))
        .collect();
    let round = before.iter().map(|row| row.int("round")).max().ok_or("nobody had approved")?;
    let mut votes = Vec::new();
    for decision in before.into_iter().filter(|row| row.int("round") == round) {
        genuine(books, payment, decision)?;
        let key = pinned(books, payment, decision).ok_or("its key is not pinned")?;
        let revoked = key.text("revoked_at").parse::<i64>().is_ok_and(|revoked| revoked <= at.micros());
        // By a clock that has stepped back since: the chain tells what was first.
        if revoked && !is_revoked_after(books, payment, key, written) {
            return Err(format!("the key of {} was revoked before", decision.text("signer_id")));
        }
        votes.push(vote(decision)?);
    }
    let yes = votes.iter().filter(|vote| vote.choice == Choice::Approve).map(|vote| vote.signer.as_str());
    let yes: BTreeSet<&str> = yes.collect();
    let audited: BTreeSet<&str> = books
        .changes(id)
        .filter(|facts| facts.version.parse::<i64>().is_ok_and(|at| at < version))
        .filter(|facts| facts.event == "decision.approve")
        .filter_map(|facts| facts.actor.strip_prefix("signer:"))
        .collect();
    if !yes.is_subset(&audited) || yes.is_empty() {
        return Err(format!("approved by {yes:?}, audited before the intent are {audited:?}"));
    }
    // The rule of an earlier round is not kept; the signatures of the last are judged by its own.
    if round == payment.round
        && !matches!(evaluate(&payment.terms.policy, &payment.terms, &votes), Standing::Complete { .. })
    {
        return Err(format!("{yes:?} are no quorum of {}", payment.terms.policy.required_text()));
    }
    Ok(())
}

fn vote(decision: &Row) -> Result<Vote, String> {
    let signer: SignerId = decision.text("signer_id").parse().map_err(|_| "no signer's name".to_owned())?;
    Ok(Vote {
        signer,
        choice: Choice::from_name(decision.text("choice")).ok_or("no choice")?,
        key: decision.text("key_id").to_owned(),
        at: Timestamp::from_micros(decision.int("decided_at")),
    })
}

/// The key in our own table that a decision names.
fn pinned<'a>(books: &'a Books, payment: &Payment, decision: &Row) -> Option<&'a Row> {
    books.keys.iter().find(|key| {
        key.text("tenant") == payment.terms.tenant.as_str()
            && ["signer_id", "key_id"].iter().all(|column| key.text(column) == decision.text(column))
    })
}

/// Whether a decision is its signer's own answer to the challenge of its round, by a pinned key.
fn genuine(books: &Books, payment: &Payment, decision: &Row) -> Result<(), String> {
    let signer = decision.text("signer_id");
    let text = decision.text("document");
    let document = DecisionDocument::parse(text).ok_or(format!("{signer} signed no decision document"))?;
    let key = pinned(books, payment, decision).ok_or(format!("{signer} has no such pinned key"))?;
    let proof =
        Proof::of(decision.text("proof_type"), decision.text("proof").to_owned()).ok_or("no form of a proof")?;
    let origins = key.text("origins").split_whitespace().map(str::to_owned).collect();
    let party = (!key.text("rp_id").is_empty()).then(|| RelyingParty { id: key.text("rp_id").to_owned(), origins });
    let named = if party.is_some() { PASSKEY } else { decision.text("key_id") };
    SignerKey::parse(key.text("alg"), key.text("public_key"), key.text("credential_id"), party)
        .and_then(|public| public.verify(decision.text("key_id"), text, &proof))
        .map_err(|fault| format!("the signature of {signer}: {fault}"))?;
    let challenge = books.challenges.iter().find(|challenge| {
        ["payment_id", "round", "signer_id"].iter().all(|column| challenge.text(column) == decision.text(column))
    });
    let nonce = challenge.map(|challenge| challenge.text("nonce")).ok_or(format!("{signer} was not asked"))?;
    let says = [&document.signer_id, &document.decision, &document.key_id, &document.nonce];
    let kept = [signer, decision.text("choice"), named, nonce];
    if says != kept {
        return Err(format!("{signer} signed {says:?}, kept is {kept:?}"));
    }
    if decision_digest(text) != decision.text("digest") {
        return Err(format!("the digest of {signer}'s decision"));
    }
    if decision.int("round") == payment.round && document.payment_digest != signed_digest(payment)? {
        return Err(format!("{signer} signed another payment"));
    }
    Ok(())
}

/// The digest of the payment's document, once that says what the payment is.
fn signed_digest(payment: &Payment) -> Result<String, String> {
    let document = PaymentDocument::parse(&payment.document).ok_or("the payment's document can't be read")?;
    let terms = &payment.terms;
    let (minor, round) = (terms.amount.minor().to_string(), payment.round.to_string());
    let says = [
        &document.payment_id,
        &document.order_id,
        &document.amount_minor,
        &document.currency,
        &document.payee_account,
        &document.round,
        &document.tenant,
    ];
    let is = [
        terms.payment_id.as_str(),
        terms.order_id.as_str(),
        &minor,
        terms.amount.currency().code(),
        terms.payee_account.as_str(),
        &round,
        terms.tenant.as_str(),
    ];
    if says != is {
        return Err(format!("the signed document says {says:?}, the payment is {is:?}"));
    }
    let digest = payment_digest(&payment.document);
    if digest == payment.digest { Ok(digest) } else { Err("the payment's digest is not its document's".to_owned()) }
}

/// I9. Every decision is an asked signer's own, came by a signer's way, and is audited as theirs.
pub(super) fn only_signers_decide(books: &Books, found: &mut Findings<'_>) {
    for decision in &books.decisions {
        let (id, signer) = (decision.text("payment_id"), decision.text("signer_id"));
        let Some(payment) = books.payment(id) else {
            found.note(id, format!("{signer} decided a payment that is not here"));
            continue;
        };
        if let Err(why) = genuine(books, payment, decision) {
            found.note(id, why);
        }
        found.unless(signer != payment.terms.agent.as_str(), id, || "its own agent decided it".to_owned());
        found.unless(matches!(decision.text("via"), "mcp" | "signer_service"), id, || {
            format!("a decision came by {:?}", decision.text("via"))
        });
        let details = sha256_hex(decision.text("digest"));
        let actor = format!("signer:{signer}");
        let audited = books.history(id).any(|facts| {
            facts.actor == actor && facts.event.starts_with("decision.") && facts.digest_of_details == details
        });
        found.unless(audited, id, || format!("the decision of {signer} is not audited as theirs"));
    }
    for facts in books.audit.values().flatten().filter_map(|entry| entry.facts.as_ref()) {
        let decides = matches!(facts.event.as_str(), "decision.approve" | "decision.reject" | "decision.surplus");
        found.unless(!decides || facts.actor.starts_with("signer:"), &facts.payment_id, || {
            format!("{} by {}", facts.event, facts.actor)
        });
    }
}

/// I11. Persons, not keys; and never who asks.
pub(super) fn person_counts_once(books: &Books, found: &mut Findings<'_>) {
    let mut owners = BTreeMap::<(&str, &str), BTreeSet<&str>>::new();
    for key in &books.keys {
        owners.entry((key.text("tenant"), key.text("public_key"))).or_default().insert(key.text("signer_id"));
    }
    for ((tenant, _), people) in owners {
        found.unless(people.len() == 1, tenant, || format!("one key is that of {people:?}"));
    }
    for payment in &books.payments {
        let id = payment.terms.payment_id.as_str();
        let counted: Vec<&Row> = books
            .decisions
            .iter()
            .filter(|row| row.text("payment_id") == id && row.int("payment_version") > 0)
            .filter(|row| row.int("round") == payment.round)
            .collect();
        let policy = &payment.terms.policy;
        let most = usize::try_from(policy.confirmations()).unwrap_or(usize::MAX);
        for row in &counted {
            let own = || counted.iter().filter(|other| other.text("signer_id") == row.text("signer_id"));
            let yes = || own().filter(|other| other.text("choice") == "approve");
            let keys: BTreeSet<&str> = yes().map(|other| other.text("key_id")).collect();
            found.unless(own().count() <= most && keys.len() == yes().count(), id, || {
                "a person counted twice".to_owned()
            });
        }
        let people: BTreeSet<&str> = counted.iter().map(|row| policy.person(row.text("signer_id"))).collect();
        let most = people.len();
        found.unless(usize::try_from(payment.approvals).is_ok_and(|have| have <= most), id, || {
            format!("{} approvals of {most} people", payment.approvals)
        });
        for decision in &counted {
            let asks = vote(decision).is_ok_and(|vote| is_barred(policy, &payment.terms, &vote.signer));
            found.unless(!asks, id, || {
                format!("{} asked for it or is paid, and decided it", decision.text("signer_id"))
            });
        }
        let decided = usize::try_from(payment.decisions).unwrap_or(usize::MAX);
        found.unless(counted.len() == decided, id, || {
            format!("{decided} decisions were counted, {} are kept", counted.len())
        });
        let votes: Vec<Vote> = counted.iter().filter_map(|row| vote(row).ok()).collect();
        match evaluate(&payment.terms.policy, &payment.terms, &votes) {
            Standing::Pending { approvals, .. } | Standing::Complete { approvals } => {
                found.unless(approvals == payment.approvals, id, || {
                    format!("{} approvals were counted, {approvals} are kept", payment.approvals)
                });
            }
            Standing::Rejected => {}
        }
    }
}
