//! Ways to tamper with what is stored, and what must be found of each.

use countersign::journal::verify::BreakKind as K;

use super::story::Story;

/// A statement, and what must be found after it: what, at which entry, of which payment.
pub(super) struct Way {
    pub(super) what: &'static str,
    pub(super) sql: String,
    pub(super) finds: Vec<(K, Option<i64>, String)>,
}

fn way<const N: usize>(what: &'static str, sql: impl Into<String>, finds: [(K, i64, &str); N]) -> Way {
    let finds = finds.into_iter().map(|(kind, seq, payment)| (kind, (seq > 0).then_some(seq), payment.to_owned()));
    Way { what, sql: sql.into(), finds: finds.collect() }
}

/// An entry's text with one part in another's place.
fn edit(seq: i64, from: &str, to: &str) -> String {
    format!("UPDATE audit_entries SET canonical = REPLACE(canonical, '{from}', '{to}') WHERE seq = {seq}")
}

/// Above every position there is.
const FAR: i64 = 1_000_000;

/// All entries after `from` moved.
fn shift(from: i64, by: i64) -> String {
    format!(
        "UPDATE audit_entries SET seq = seq + {FAR} WHERE seq > {from}; \
         UPDATE audit_entries SET seq = seq - {FAR} + ({by}) WHERE seq > {FAR}"
    )
}

fn swap(one: i64, two: i64) -> String {
    let moved = |to: i64, from: i64| format!("UPDATE audit_entries SET seq = {to} WHERE seq = {from}");
    format!("{}; {}; {}", moved(FAR, one), moved(one, two), moved(two, FAR))
}

/// The entry `of` once more, at another position.
fn copy(seq: i64, of: i64) -> String {
    format!(
        "INSERT INTO audit_entries SELECT tenant, {seq}, payment_id, event, canonical, 'x', chain, written_at \
         FROM audit_entries WHERE seq = {of}"
    )
}

fn delete(seq: i64) -> String {
    format!("DELETE FROM audit_entries WHERE seq = {seq}")
}

/// With the chain and its head.
pub(super) fn with_the_chain(story: &Story) -> Vec<Way> {
    let (paid, open, by_hand) = (story.paid.as_str(), story.open.as_str(), story.by_hand.as_str());
    let created = story.seq(paid, "payment.created");
    let approved = story.seq(paid, "decision.approve");
    let attested = story.seq(by_hand, "attest_executed.second");
    let (last, after) = (story.entries(), approved + 1);
    let at = |seq: i64| story.of(seq);
    vec![
        way("an edited text", edit(created, "agent:agent-1", "agent:agent-9"), [(K::EntryEdited, created, paid)]),
        way(
            "a text that is no entry",
            format!("UPDATE audit_entries SET canonical = '{{}}' WHERE seq = {created}"),
            [(K::EntryUnreadable, created, paid), (K::EntryEdited, created, paid)],
        ),
        way(
            "a text spelled otherwise",
            edit(created, "\"from\":", "\"from\": "),
            [(K::EntryUnreadable, created, paid)],
        ),
        way("a deleted entry", delete(approved), [(K::EntryMissing, approved, ""), (K::DecisionUnaudited, 0, paid)]),
        way(
            "a deleted entry, the gap closed",
            format!("{}; {}", delete(approved), shift(approved, -1)),
            [(K::EntryUnlinked, approved, at(after)), (K::EntryMisplaced, approved, at(after))],
        ),
        way(
            "two at once",
            format!("{}; {}", delete(approved), edit(attested, "operator-2", "operator-3")),
            [(K::EntryMissing, approved, ""), (K::EntryEdited, attested, by_hand)],
        ),
        way(
            "an inserted entry",
            format!("{}; {}", shift(approved, 1), copy(after, created)),
            [
                (K::EntryMisplaced, after, paid),
                (K::EntryUnlinked, after, paid),
                (K::EntryUnlinked, after + 1, at(after)),
            ],
        ),
        way("an entry after the head", copy(last + 1, created), [(K::HeadDisagrees, last + 1, "")]),
        way(
            "two entries in each other's place",
            swap(approved, after),
            [(K::EntryMisplaced, approved, at(after)), (K::EntryMisplaced, after, paid)],
        ),
        way("a cut tail", format!("DELETE FROM audit_entries WHERE seq > {}", last - 2), [(K::TailCut, last - 1, "")]),
        way(
            "another head",
            "UPDATE audit_heads SET chain = previous FROM audit_entries e WHERE e.seq = 2",
            [(K::HeadDisagrees, last, at(last))],
        ),
        way("no head", "DELETE FROM audit_heads", [(K::HeadDisagrees, last, "")]),
        way(
            "an entry filed elsewhere",
            format!("UPDATE audit_entries SET payment_id = '{open}' WHERE seq = {approved}"),
            [(K::EntryMisfiled, approved, open), (K::DecisionUnaudited, 0, paid)],
        ),
        way(
            "another time",
            format!("UPDATE audit_entries SET written_at = written_at - 60000000 WHERE seq = {approved}"),
            [(K::EntryMisfiled, approved, paid)],
        ),
    ]
}

/// Every table that speaks of a payment, but the audit.
pub(super) const OF_A_PAYMENT: [&str; 12] = [
    "payments",
    "decisions",
    "challenges",
    "effects",
    "idempotency",
    "taken_orders",
    "attestations",
    "archived_payments",
    "archived_decisions",
    "archived_challenges",
    "archived_effects",
    "receipts",
];

/// A payment deleted with all that speaks of it.
fn erase(story: &Story, what: &'static str, payment: &str) -> Way {
    let deletes = OF_A_PAYMENT.map(|table| format!("DELETE FROM {table} WHERE payment_id = '{payment}'"));
    way(what, deletes.join("; "), [(K::PaymentMissing, story.last(payment), payment)])
}

/// With payments.
pub(super) fn with_payments(story: &Story) -> Vec<Way> {
    let (old, paid, open) = (story.old.as_str(), story.paid.as_str(), story.open.as_str());
    let by_hand = story.by_hand.as_str();
    let done = story.seq(paid, "rail.execute.done");
    let attested = story.seq(by_hand, "attest_executed.second");
    let archived = |what: &str| format!("UPDATE archived_payments SET {what} WHERE payment_id = '{old}'");
    let created = story.seq(paid, "payment.created");
    let notified = story.seq(open, "signer.notify.done");
    let set = |what: &str, payment: &str| format!("UPDATE payments SET {what} WHERE payment_id = '{payment}'");
    let laxer = "policy = REPLACE(policy, '\"finance-2\"', '\"finance-9\"')";
    vec![
        way("another status", set("status = 'NEED_MANUAL'", open), [(K::StatusDisagrees, notified, open)]),
        way("another version", set("version = version + 1", open), [(K::VersionsIncomplete, notified, open)]),
        way("another amount", set("amount_minor = amount_minor + 1", paid), [(K::TermsDisagree, created, paid)]),
        way("another payee", set("payee_account = 'mallory'", paid), [(K::TermsDisagree, created, paid)]),
        way("a laxer rule", set(laxer, paid), [(K::TermsDisagree, created, paid)]),
        way("a rule that can't be read", set("policy = 'x'", open), [(K::PaymentUnreadable, 0, open)]),
        way(
            "a deleted open payment",
            format!("DELETE FROM payments WHERE payment_id = '{open}'"),
            [(K::PaymentMissing, notified, open)],
        ),
        way("of another tenant", set("tenant = 'other'", open), [(K::PaymentMissing, notified, open)]),
        way(
            "of another tenant, in the archive",
            archived("tenant = 'other'"),
            [(K::PaymentMissing, story.last(old), old)],
        ),
        way(
            "another amount in the archive",
            archived("amount_minor = 1"),
            [(K::TermsDisagree, story.seq(old, "payment.created"), old)],
        ),
        erase(story, "a paid payment that never was", paid),
        erase(story, "one paid by hand that never was", by_hand),
        erase(story, "a rejected one that never was", &story.rejected),
        erase(story, "an archived one that never was", old),
        way(
            "here and in the archive",
            format!("INSERT INTO archived_payments SELECT * FROM payments_everywhere WHERE payment_id = '{paid}'"),
            [(K::PaymentTwice, 0, paid)],
        ),
        way("held by nobody", set("held_at = 1", open), [(K::RowDisagrees, notified, open)]),
        way("another transfer", set("transfer_id = 'other'", paid), [(K::RowDisagrees, done, paid)]),
        way(
            "another transfer in the archive",
            archived("transfer_id = 'other'"),
            [(K::RowDisagrees, story.seq(old, "rail.execute.done"), old)],
        ),
        way("another reference", set("transfer_id = 'bank-2'", by_hand), [(K::RowDisagrees, attested, by_hand)]),
        way("a transfer of what is open", set("transfer_id = 'x'", open), [(K::RowDisagrees, notified, open)]),
        way("another attempt group", set("attempt_group = 2", open), [(K::RowDisagrees, notified, open)]),
    ]
}

/// With what was sent to the rail.
pub(super) fn with_what_was_sent(story: &Story) -> Vec<Way> {
    let mut ways = Vec::new();
    for (payment, table) in [(story.paid.as_str(), "effects"), (story.old.as_str(), "archived_effects")] {
        let intended = story.seq(payment, "rail.execute.intended");
        let theirs = format!("payment_id = '{payment}' AND kind = 'rail.execute'");
        let set = |what: &str| format!("UPDATE {table} SET {what} WHERE {theirs}");
        ways.extend([
            way("another body", set("body = body || ' '"), [(K::SentDisagrees, intended, payment)]),
            way(
                "another body's digest",
                set("body_sha256 = REPLACE(body_sha256, SUBSTR(body_sha256, 1, 8), 'aaaaaaaa')"),
                [(K::SentDisagrees, intended, payment)],
            ),
            way("no body", format!("DELETE FROM {table} WHERE {theirs}"), [(K::SentMissing, intended, payment)]),
            way(
                "under another key",
                set("outbound_key = outbound_key || '0'"),
                [(K::SentMissing, intended, payment), (K::SentUnaudited, 0, payment)],
            ),
        ]);
    }
    ways
}

/// With decisions, keys and people's words.
pub(super) fn with_approvals(story: &Story) -> Vec<Way> {
    let (paid, rejected, by_hand) = (story.paid.as_str(), story.rejected.as_str(), story.by_hand.as_str());
    let approved = story.seq(paid, "decision.approve");
    let intended = story.seq(paid, "rail.execute.intended");
    let attested = story.seq(by_hand, "attest_executed.second");
    let enrolled = story.of_key("finance-1", "signer_key.enrolled");
    let old = story.old.as_str();
    let theirs = format!("payment_id = '{paid}' AND signer_id = 'finance-1'");
    let refused = story.seq(rejected, "decision.reject");
    let void = [(K::DecisionInvalid, approved, paid), (K::ExecutionUnapproved, intended, paid)];
    vec![
        way(
            "a deleted decision",
            format!("DELETE FROM decisions WHERE {theirs}"),
            [(K::DecisionMissing, approved, paid), (K::ExecutionUnapproved, intended, paid)],
        ),
        way(
            "a deleted decision in the archive",
            format!("DELETE FROM archived_decisions WHERE payment_id = '{old}'"),
            [
                (K::DecisionMissing, story.seq(old, "decision.approve"), old),
                (K::ExecutionUnapproved, story.seq(old, "rail.execute.intended"), old),
            ],
        ),
        way(
            "a decision nobody gave",
            format!(
                "INSERT INTO decisions (decision_id, payment_id, round, signer_id, confirmation, key_id, choice, reason, document, \
                 digest, proof_type, proof, via, decided_at, payment_version) SELECT 'dec_x', payment_id, round, 'finance-3', 1, \
                 key_id, choice, reason, document, digest, proof_type, proof, via, decided_at, payment_version FROM decisions WHERE {theirs}"
            ),
            [(K::DecisionUnaudited, 0, paid), (K::DecisionInvalid, approved, paid)],
        ),
        way(
            "someone else's signature",
            format!(
                "UPDATE decisions SET proof = (SELECT d.proof FROM decisions d WHERE d.signer_id = 'finance-2') WHERE {theirs}"
            ),
            void,
        ),
        way(
            "a signature over another payment",
            format!(
                "UPDATE decisions SET document = (SELECT d.document FROM decisions d WHERE d.payment_id = '{rejected}'), \
                 proof = (SELECT d.proof FROM decisions d WHERE d.payment_id = '{rejected}') WHERE {theirs}"
            ),
            void,
        ),
        way(
            "a decision of another time",
            format!("UPDATE decisions SET decided_at = decided_at - 60000000 WHERE {theirs}"),
            [(K::DecisionUnaudited, approved, paid), (K::DecisionMissing, approved, paid)],
        ),
        way(
            "other words of an approval",
            format!("UPDATE decisions SET reason = 'forged' WHERE {theirs}"),
            [(K::DecisionInvalid, approved, paid)],
        ),
        way(
            "other words of a rejection",
            format!("UPDATE decisions SET reason = 'forged' WHERE payment_id = '{rejected}'"),
            [(K::DecisionInvalid, refused, rejected)],
        ),
        way(
            "other words in the archive",
            format!("UPDATE archived_decisions SET reason = 'forged' WHERE payment_id = '{old}'"),
            [(K::DecisionInvalid, story.seq(old, "decision.approve"), old)],
        ),
        way(
            "another key of a rejection",
            format!("UPDATE decisions SET key_id = 'forged' WHERE payment_id = '{rejected}'"),
            [(K::DecisionInvalid, refused, rejected)],
        ),
        way(
            "another document of a rejection",
            format!(
                "UPDATE decisions SET document = REPLACE(document, '\"nonce\":\"', '\"nonce\":\"x') WHERE payment_id = '{rejected}'"
            ),
            [(K::DecisionInvalid, refused, rejected)],
        ),
        way(
            "another pinned key",
            "UPDATE signer_keys SET public_key = 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8' WHERE signer_id = 'finance-1'",
            [(K::KeyUnaudited, enrolled, ""), (K::DecisionInvalid, approved, paid)],
        ),
        way(
            "one of two words",
            format!("DELETE FROM attestations WHERE payment_id = '{by_hand}' AND person = 'operator-1'"),
            [(K::ExecutionUnapproved, attested, by_hand)],
        ),
    ]
}

/// With keys and their revocations.
pub(super) fn with_keys(story: &Story) -> Vec<Way> {
    let revoked = story.of_key("board-2", "signer_key.revoked");
    let enrolled = |person: &str| story.of_key(person, "signer_key.enrolled");
    let set = |what: &str, person: &str| format!("UPDATE signer_keys SET {what} WHERE signer_id = '{person}'");
    let gone = |person: &str| format!("DELETE FROM signer_keys WHERE signer_id = '{person}'");
    vec![
        way("a revocation undone", set("revoked_at = NULL", "board-2"), [(K::KeyRevocationDisagrees, revoked, "")]),
        way(
            "a revocation at another time",
            set("revoked_at = revoked_at + 3600000000", "board-2"),
            [(K::KeyRevocationDisagrees, revoked, "")],
        ),
        way(
            "a revocation nobody made",
            set("revoked_at = enrolled_at", "board-1"),
            [(K::KeyRevocationDisagrees, enrolled("board-1"), "")],
        ),
        way("a deleted key", gone("board-1"), [(K::KeyMissing, enrolled("board-1"), "")]),
        way("a deleted revoked key", gone("board-2"), [(K::KeyMissing, enrolled("board-2"), "")]),
        way("a key under another name", set("key_id = 'other'", "board-1"), [(K::KeyUnaudited, 0, "")]),
        way("a key of another tenant", set("tenant = 'other'", "board-1"), [(K::KeyMissing, enrolled("board-1"), "")]),
    ]
}
