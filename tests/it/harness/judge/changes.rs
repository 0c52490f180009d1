//! How it came to be: I3, I7, I8, I10, I12, I13.

use std::collections::{BTreeMap, BTreeSet};

use countersign::domain::{Payment, Status, next_wake};
use countersign::proof::{GENESIS, link};

use super::money::has_ended;
use super::{Books, Findings};

/// I3. Each change begins where the last one ended, none leaves an end, and the row is where the last one led.
pub(super) fn ends_absorb(books: &Books, found: &mut Findings<'_>) {
    for payment in &books.payments {
        let id = payment.terms.payment_id.as_str();
        let mut stands = String::new();
        for change in books.changes(id) {
            found.unless(change.from == stands, id, || {
                format!("{} went from {:?} where {stands:?} was", change.event, change.from)
            });
            let left = Status::from_name(&stands).is_some_and(Status::is_terminal) && change.to != stands;
            found.unless(!left, id, || format!("{} left {stands} for {}", change.event, change.to));
            stands.clone_from(&change.to);
        }
        found.unless(stands == payment.status.as_str(), id, || {
            format!("it is {}, and its last audited change led to {stands:?}", payment.status.as_str())
        });
    }
}

/// I7. Each tenant's chain from its first entry to its head; and nothing left that was not written down first.
pub(super) fn audit_is_whole(books: &Books, found: &mut Findings<'_>) {
    for (id, why) in &books.unreadable {
        found.note(id, format!("the payment can't be read: {why}"));
    }
    for tenant in books.heads.keys().chain(books.audit.keys()).collect::<BTreeSet<_>>() {
        chain(books, tenant, found);
    }
    for payment in &books.payments {
        let id = payment.terms.payment_id.as_str();
        let created = books.changes(id).next().is_some_and(|facts| facts.event == "payment.created");
        found.unless(created, id, || "its creation is not audited".to_owned());
    }
    let recorded: BTreeMap<&str, &str> =
        books.effects.iter().map(|row| (row.text("outbound_key"), row.text("body_sha256"))).collect();
    for request in books.requests.iter().filter(|row| !row.text("reference").is_empty()) {
        let (key, body) = (request.text("idempotency_key"), request.text("body_sha256"));
        found.unless(recorded.get(key) == Some(&body), request.text("reference"), || {
            format!("the rail was asked under the key {key:?}, and no such intent is written down")
        });
    }
    let registered = books.registrations.iter().map(|row| {
        let (id, round) = (row.text("reference"), row.text("round"));
        (id, format!("{id}:signer.register:r{round}"))
    });
    let notified = books.notifications.iter().map(|row| {
        let (id, round, number) = (row.text("p.reference"), row.text("n.round"), row.text("n.number"));
        (id, format!("{id}:signer.notify:r{round}:n{number}"))
    });
    for (id, key) in registered.chain(notified) {
        found.unless(recorded.contains_key(key.as_str()), id, || {
            format!("the signer service did {key}, and no such intent is written down")
        });
    }
}

fn chain(books: &Books, tenant: &str, found: &mut Findings<'_>) {
    let (mut chain, mut seq) = (GENESIS.to_owned(), 0);
    for entry in books.audit.get(tenant).into_iter().flatten() {
        seq += 1;
        let at = entry.row.int("seq");
        let why = match &entry.facts {
            _ if at != seq => Some("is missing".to_owned()),
            None => Some("can't be read".to_owned()),
            Some(facts) => {
                let expected = link(&chain, facts).unwrap();
                let right = facts.seq == seq.to_string()
                    && facts.tenant == tenant
                    && facts.payment_id == entry.row.text("payment_id")
                    && facts.event == entry.row.text("event")
                    && entry.row.text("previous") == chain
                    && entry.row.text("canonical") == expected.canonical
                    && entry.row.text("chain") == expected.chain;
                (!right).then(|| "does not follow from what stands before it".to_owned())
            }
        };
        if let Some(why) = why {
            return found.note(tenant, format!("audit entry {seq} {why}"));
        }
        entry.row.text("chain").clone_into(&mut chain);
    }
    let head = books.heads.get(tenant);
    found.unless(head == Some(&(seq, chain)), tenant, || format!("{seq} audit entries; the head says {head:?}"));
}

/// I8. The stored wake time is the one that the payment's state asks for; there is one unless it rests.
pub(super) fn wakes_again(books: &Books, found: &mut Findings<'_>) {
    for payment in &books.payments {
        let id = payment.terms.payment_id.as_str();
        let wakes = next_wake(payment);
        let rests = has_ended(payment) || payment.held_at.is_some();
        found.unless(rests || wakes.is_some(), id, || format!("nothing wakes a {} payment", payment.status.as_str()));
        let stored = books.wakes.get(id).copied().flatten();
        found.unless(stored == wakes.map(countersign::domain::Timestamp::micros), id, || {
            format!("its wake time is {stored:?} where {wakes:?} is due")
        });
    }
}

/// I10. Each request, decision and callback took effect once, however often it came.
pub(super) fn repetitions_change_nothing(books: &Books, found: &mut Findings<'_>) {
    for payment in &books.payments {
        let id = payment.terms.payment_id.as_str();
        let created = books.history(id).filter(|facts| facts.event == "payment.created").count();
        found.unless(created == 1, id, || format!("it was created {created} times"));
        let hints: Vec<&str> = books
            .history(id)
            .filter(|facts| facts.event == "callback.received")
            .map(|facts| facts.reason.as_str())
            .collect();
        let distinct: BTreeSet<&str> = hints.iter().copied().collect();
        found.unless(hints.len() == distinct.len(), id, || format!("a callback took effect twice: {hints:?}"));
        let kept: BTreeMap<String, String> = books
            .decisions
            .iter()
            .filter(|row| row.text("payment_id") == id && row.int("payment_version") > 0)
            .map(|row| (row.text("payment_version").to_owned(), format!("decision.{}", row.text("choice"))))
            .collect();
        let counted: BTreeMap<String, String> = books
            .changes(id)
            .filter(|facts| matches!(facts.event.as_str(), "decision.approve" | "decision.reject"))
            .map(|facts| (facts.version.clone(), facts.event.clone()))
            .collect();
        found.unless(kept == counted, id, || format!("decisions kept {kept:?}, and counted {counted:?}"));
    }
    for key in books.idempotency.iter().filter(|row| row.text("refusal").is_empty()) {
        let bound = books.payment(key.text("payment_id")).is_some_and(|payment| {
            let terms = &payment.terms;
            [terms.tenant.as_str(), terms.agent.as_str(), &terms.fingerprint]
                == ["tenant", "agent", "fingerprint"].map(|column| key.text(column))
        });
        found.unless(bound, key.text("payment_id"), || {
            format!("the key {:?} is bound to what it did not create", key.text("idempotency_key"))
        });
    }
    let mut bodies = BTreeMap::<&str, BTreeSet<&str>>::new();
    for request in books.requests.iter().filter(|row| !row.text("reference").is_empty()) {
        bodies.entry(request.text("idempotency_key")).or_default().insert(request.text("body_sha256"));
    }
    for (key, bodies) in bodies {
        found.unless(bodies.len() == 1, key, || "the rail was sent different bodies under one key".to_owned());
    }
}

/// I12. Every version of a payment was made by one audited change, one after the other.
pub(super) fn versions_rise_by_one(books: &Books, found: &mut Findings<'_>) {
    for payment in &books.payments {
        let id = payment.terms.payment_id.as_str();
        let versions: Vec<i64> = books.changes(id).filter_map(|facts| facts.version.parse().ok()).collect();
        let expected: Vec<i64> = (1..=payment.version).collect();
        found.unless(versions == expected, id, || {
            format!("at version {}, and the audited ones are {versions:?}", payment.version)
        });
    }
}

/// I13. An event for each change of status and target, none beside them, and what was delivered arrived.
pub(super) fn changes_are_told(books: &Books, found: &mut Findings<'_>) {
    let Some(targets) = &books.targets else { return };
    let mut due = BTreeMap::<(String, String, String, &str), i64>::new();
    // Of what was archived the delivered events are gone, and there were no others.
    let here = |payment: &&Payment| !books.archived.contains(payment.terms.payment_id.as_str());
    for payment in books.payments.iter().filter(here) {
        let id = payment.terms.payment_id.as_str();
        for change in books.changes(id).filter(|change| change.from != change.to) {
            let kind = format!("payment.{}", change.to.to_ascii_lowercase());
            for target in targets {
                *due.entry((id.to_owned(), change.version.clone(), kind.clone(), target)).or_default() += 1;
            }
        }
    }
    for event in &books.outbox {
        let [id, version, kind] = ["payment_id", "version", "type"].map(|column| event.text(column).to_owned());
        *due.entry((id, version, kind, event.text("target"))).or_default() -= 1;
    }
    for ((id, version, kind, _), count) in due {
        let why = if count > 0 { "was not written" } else { "was written, and no change made it" };
        found.unless(count == 0, id, || format!("the event {kind} of version {version} {why}"));
    }
    let Some(told) = &books.told else { return };
    let told: BTreeSet<&str> = told.iter().map(String::as_str).collect();
    for event in books.outbox.iter().filter(|row| row.text("state") == "delivered") {
        found.unless(told.contains(event.text("event_id")), event.text("payment_id"), || {
            format!("{} is marked delivered, and nobody got it", event.text("type"))
        });
    }
    if !books.archived.is_empty() {
        return;
    }
    let known: BTreeSet<&str> = books.outbox.iter().map(|row| row.text("event_id")).collect();
    for stranger in told.difference(&known) {
        found.note(stranger, "was told, and no change that committed made it");
    }
}
