//! Every way to tamper with what is stored is found, and the place is named.

use countersign::journal::verify::{AuditReport, Break, BreakKind};
use countersign::proof::{NoteSigner, chained};

use super::story::each;
use super::story::{Story, signer, source, verified};
use crate::harness::app::App;
use crate::harness::folder::Folder;

const TABLES: [&str; 6] = ["audit_entries", "audit_heads", "payments", "decisions", "signer_keys", "attestations"];

/// Keeps a copy of what will be tampered with.
async fn keep(app: &App) {
    for table in TABLES {
        app.db.raw().await.execute(&format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await.unwrap();
    }
}

async fn restore(app: &App) {
    for table in TABLES {
        let sql = format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}");
        app.db.raw().await.execute(&sql).await.unwrap();
    }
}

async fn forget(app: &App) {
    for table in TABLES {
        app.db.raw().await.execute(&format!("DROP TABLE kept_{table}")).await.unwrap();
    }
}

/// What must be found: what, at which entry, of which payment.
type Expected<'a> = (BreakKind, Option<i64>, &'a str);

/// Whether it is among the breaks, and each of these says what it is about.
fn has(report: &AuditReport, expected: Expected<'_>) -> bool {
    let (kind, seq, payment) = expected;
    let worded = |found: &Break| !found.expected.is_empty() && !found.found.is_empty();
    report.breaks.iter().all(worded)
        && report.breaks.iter().any(|it| (it.kind, it.seq, it.payment_id.as_str()) == (kind, seq, payment))
}

fn finds(what: &str, report: &AuditReport, expected: Expected<'_>) {
    assert!(has(report, expected), "{what}: {expected:?} in {:#?}", report.breaks);
}

/// The chain from `from` on computed anew, as someone does who owns the database; `edit` changes a text.
async fn rewrite(app: &App, from: i64, edit: impl Fn(&str) -> String) {
    let mut raw = app.db.raw().await;
    let sql = format!("SELECT canonical, previous FROM audit_entries WHERE seq >= {from} ORDER BY seq");
    let texts = raw.texts(&sql).await;
    let mut before = raw.column(&sql, 1).await[0].clone();
    let mut statements = Vec::new();
    for (seq, text) in (from..).zip(texts) {
        let text = if seq == from { edit(&text) } else { text };
        let chain = chained(&before, &text);
        let quoted = text.replace('\'', "''");
        statements.push(format!(
            "UPDATE audit_entries SET canonical = '{quoted}', previous = '{before}', chain = '{chain}' WHERE seq = {seq}"
        ));
        before = chain;
    }
    statements.push(format!("UPDATE audit_heads SET chain = '{before}' WHERE tenant = 'default'"));
    // No two entries may follow the same one, not even for a moment.
    raw.execute("UPDATE audit_entries SET previous = 'x' || seq WHERE seq > 1").await.unwrap();
    let earlier = format!(
        "UPDATE audit_entries SET previous = (SELECT k.previous FROM kept_audit_entries k \
        WHERE k.tenant = audit_entries.tenant AND k.seq = audit_entries.seq) WHERE seq < {from} OR tenant <> 'default'"
    );
    raw.execute(&earlier).await.unwrap();
    for statement in statements {
        raw.execute(&statement).await.unwrap();
    }
}

#[tokio::test]
async fn an_untouched_history_is_whole_and_says_how_far_it_is_signed() {
    each(async |app: &mut App| {
        let folder = Folder::new();
        let story = Story::tell(app, &folder).await;
        let report = verified(app, Some(&source(&folder))).await;
        assert_eq!(report.breaks, []);
        assert_eq!((report.entries, report.payments, report.moved_out), (story.entries(), 5, 0));
        let covered = report.covered.unwrap();
        assert_eq!((covered.checkpoints, covered.up_to, covered.cut_off), (2, story.signed[1], 0));
        assert_eq!(covered.uncovered, story.entries() - story.signed[1]);
        assert!(covered.uncovered > 0 && !covered.signed_at.is_empty());
        let report = verified(app, None).await;
        assert_eq!((report.breaks, report.covered), (vec![], None));
    })
    .await;
}

#[tokio::test]
async fn every_change_to_what_is_stored_is_found_where_it_is() {
    each(async |app: &mut App| {
        let folder = Folder::new();
        let story = Story::tell(app, &folder).await;
        let Story { paid, open, rejected, by_hand, .. } = &story;
        let (paid, open, by_hand) = (paid.as_str(), open.as_str(), by_hand.as_str());
        let created = story.seq(paid, "payment.created");
        let approved = story.seq(paid, "decision.approve");
        let intended = story.seq(paid, "rail.execute.intended");
        let attested = story.seq(by_hand, "attest_executed.second");
        let enrolled = story.facts.iter().find(|facts| facts.reason.starts_with("finance-1 ")).unwrap().seq.parse().unwrap();
        let (last, after) = (story.entries(), approved + 1);
        let of = |seq: i64| story.facts[usize::try_from(seq - 1).unwrap()].payment_id.as_str();
        let far = 1_000_000;
        let shift = |from: i64, by: i64| format!(
            "UPDATE audit_entries SET seq = seq + {far} WHERE seq > {from}; UPDATE audit_entries SET seq = seq - {far} + ({by}) WHERE seq > {far}"
        );
        let swap = |table: &str| format!(
            "UPDATE {table} SET seq = {far} WHERE seq = {approved}; UPDATE {table} SET seq = {approved} WHERE seq = {after}; \
             UPDATE {table} SET seq = {after} WHERE seq = {far}"
        );
        let copy = |seq: i64, of: i64| format!(
            "INSERT INTO audit_entries SELECT tenant, {seq}, payment_id, event, canonical, 'x', chain, written_at \
             FROM audit_entries WHERE seq = {of}"
        );
        let set = |what: &str, payment: &str| format!("UPDATE payments SET {what} WHERE payment_id = '{payment}'");
        use BreakKind as K;
        let rows: Vec<(&str, String, Vec<Expected<'_>>)> = vec![
            ("an edited text", format!("UPDATE audit_entries SET canonical = REPLACE(canonical, 'agent:agent-1', 'agent:agent-9') WHERE seq = {created}"),
             vec![(K::EntryEdited, Some(created), paid)]),
            ("a text that is no entry", format!("UPDATE audit_entries SET canonical = '{{}}' WHERE seq = {created}"),
             vec![(K::EntryUnreadable, Some(created), paid), (K::EntryEdited, Some(created), paid)]),
            ("a deleted entry", format!("DELETE FROM audit_entries WHERE seq = {approved}"),
             vec![(K::EntryMissing, Some(approved), ""), (K::DecisionUnaudited, None, paid)]),
            ("a deleted entry, the gap closed", format!("DELETE FROM audit_entries WHERE seq = {approved}; {}", shift(approved, -1)),
             vec![(K::EntryUnlinked, Some(approved), of(after)), (K::EntryMisplaced, Some(approved), of(after))]),
            ("two at once", format!("DELETE FROM audit_entries WHERE seq = {approved}; UPDATE audit_entries SET canonical = '{{}}' WHERE seq = {attested}"),
             vec![(K::EntryMissing, Some(approved), ""), (K::EntryUnreadable, Some(attested), by_hand)]),
            ("an inserted entry", format!("{}; {}", shift(approved, 1), copy(after, created)),
             vec![(K::EntryMisplaced, Some(after), paid), (K::EntryUnlinked, Some(after), paid), (K::EntryUnlinked, Some(after + 1), of(after))]),
            ("an entry after the head", copy(last + 1, created), vec![(K::HeadDisagrees, Some(last + 1), "")]),
            ("two entries in each other's place", swap("audit_entries"),
             vec![(K::EntryMisplaced, Some(approved), of(after)), (K::EntryMisplaced, Some(after), paid)]),
            ("a cut tail", format!("DELETE FROM audit_entries WHERE seq > {}", last - 2), vec![(K::TailCut, Some(last - 1), "")]),
            ("another head", "UPDATE audit_heads SET chain = previous FROM audit_entries e WHERE e.seq = 2".to_owned(),
             vec![(K::HeadDisagrees, Some(last), of(last))]),
            ("no head", "DELETE FROM audit_heads".to_owned(), vec![(K::HeadDisagrees, Some(last), "")]),
            ("an entry filed elsewhere", format!("UPDATE audit_entries SET payment_id = '{open}' WHERE seq = {approved}"),
             vec![(K::EntryMisfiled, Some(approved), open), (K::DecisionUnaudited, None, paid)]),
            ("another time", format!("UPDATE audit_entries SET written_at = written_at - 60000000 WHERE seq = {approved}"),
             vec![(K::EntryMisfiled, Some(approved), paid)]),
            ("another status", set("status = 'NEED_MANUAL'", open), vec![(K::StatusDisagrees, Some(story.seq(open, "signer.notify.done")), open)]),
            ("another version", set("version = version + 1", open), vec![(K::VersionsIncomplete, Some(story.seq(open, "signer.notify.done")), open)]),
            ("another amount", set("amount_minor = amount_minor + 1", paid), vec![(K::TermsDisagree, Some(created), paid)]),
            ("another payee", set("payee_account = 'mallory'", paid), vec![(K::TermsDisagree, Some(created), paid)]),
            ("a laxer rule", set("policy = REPLACE(policy, '\"finance-2\"', '\"finance-9\"')", paid), vec![(K::TermsDisagree, Some(created), paid)]),
            ("a status that is none of ours to read", set("policy = 'x'", open), vec![(K::PaymentUnreadable, None, open)]),
            ("a deleted open payment", format!("DELETE FROM payments WHERE payment_id = '{open}'"),
             vec![(K::PaymentMissing, Some(story.seq(open, "signer.notify.done")), open)]),
            ("a deleted decision", format!("DELETE FROM decisions WHERE payment_id = '{paid}' AND signer_id = 'finance-1'"),
             vec![(K::DecisionMissing, Some(approved), paid), (K::ExecutionUnapproved, Some(intended), paid)]),
            ("a decision nobody gave", format!(
                "INSERT INTO decisions (decision_id, payment_id, round, signer_id, key_id, choice, reason, document, digest, jws, via, decided_at, payment_version) \
                 SELECT 'dec_x', payment_id, round, 'finance-3', key_id, choice, reason, document, digest, jws, via, decided_at, payment_version \
                 FROM decisions WHERE payment_id = '{paid}' AND signer_id = 'finance-1'"),
             vec![(K::DecisionUnaudited, None, paid), (K::DecisionInvalid, Some(approved), paid)]),
            ("a signature of someone else's", format!("UPDATE decisions SET jws = (SELECT d.jws FROM decisions d WHERE d.signer_id = 'finance-2') \
                WHERE payment_id = '{paid}' AND signer_id = 'finance-1'"),
             vec![(K::DecisionInvalid, Some(approved), paid), (K::ExecutionUnapproved, Some(intended), paid)]),
            ("another pinned key", "UPDATE signer_keys SET public_key = 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8' WHERE signer_id = 'finance-1'".to_owned(),
             vec![(K::KeyUnaudited, Some(enrolled), ""), (K::DecisionInvalid, Some(approved), paid)]),
            ("one of two words", format!("DELETE FROM attestations WHERE payment_id = '{by_hand}' AND person = 'operator-1'"),
             vec![(K::ExecutionUnapproved, Some(attested), by_hand)]),
        ];
        keep(app).await;
        let mut unseen = Vec::new();
        for (what, sql, expected) in rows {
            app.db.raw().await.execute(&sql).await.unwrap_or_else(|err| panic!("{what}: {err}"));
            let report = verified(app, Some(&source(&folder))).await;
            let missed = expected.into_iter().filter(|expected| !has(&report, *expected));
            unseen.extend(missed.map(|missed| format!("{what}: {missed:?}")));
            restore(app).await;
        }
        assert_eq!(unseen, Vec::<String>::new());
        // What retention takes away has ended; the chain still tells of it.
        app.db.raw().await.execute(&format!("DELETE FROM payments WHERE payment_id IN ('{rejected}', '{paid}', '{by_hand}')")).await.unwrap();
        let report = verified(app, Some(&source(&folder))).await;
        assert_eq!((report.breaks, report.payments, report.moved_out), (vec![], 2, 3));
        restore(app).await;
        assert_eq!(verified(app, Some(&source(&folder))).await.breaks, []);
        forget(app).await;
    })
    .await;
}

#[tokio::test]
async fn what_an_owner_of_the_database_can_hide_the_checkpoints_show() {
    each(async |app: &mut App| {
        let folder = Folder::new();
        let story = Story::tell(app, &folder).await;
        let [first, second] = story.signed;
        keep(app).await;

        // Rewritten as a whole from an entry between the two checkpoints on.
        let at = story.seq(&story.rejected, "decision.reject");
        assert!(first < at && at < second);
        rewrite(app, at, |text| text.replace("signer:finance-1", "signer:finance-2")).await;
        let blind = verified(app, None).await;
        assert!(
            blind
                .breaks
                .iter()
                .all(|found| found.kind == BreakKind::DecisionUnaudited || found.kind == BreakKind::DecisionMissing)
        );
        let report = verified(app, Some(&source(&folder))).await;
        let of = story.facts[usize::try_from(second - 1).unwrap()].payment_id.clone();
        finds("rewritten", &report, (BreakKind::CheckpointDisagrees, Some(second), &of));
        let told = report.breaks.iter().find(|found| found.kind == BreakKind::CheckpointDisagrees).unwrap();
        assert!(told.expected.contains(&format!("confirms is {first}")), "the change is between the two: {told}");
        restore(app).await;

        // Told that a key had been revoked minutes before, the approval by it is none.
        let (enrolled, key) = (
            story.facts.iter().position(|facts| facts.reason.starts_with("stranger-1 ")).unwrap(),
            app.key_id("finance-1"),
        );
        let from = i64::try_from(enrolled).unwrap() + 1;
        let then = story.now().plus_micros(-300_000_000).rfc3339();
        let (reason, ts) = (story.facts[enrolled].reason.clone(), story.facts[enrolled].ts.clone());
        rewrite(app, from, |text| {
            text.replace("enrolled", "revoked").replace(&reason, &format!("finance-1 {key}")).replace(&ts, &then)
        })
        .await;
        let approved = story.seq(&story.paid, "decision.approve");
        finds("revoked", &verified(app, None).await, (BreakKind::DecisionInvalid, Some(approved), &story.paid));
        restore(app).await;

        // Rewritten where no payment can contradict it: without checkpoints nothing is to be seen.
        rewrite(app, second, |text| text.replace("agent:agent-1", "agent:agent-2")).await;
        assert_eq!(verified(app, None).await.breaks, [], "this is what checkpoints are for");
        finds(
            "hidden",
            &verified(app, Some(&source(&folder))).await,
            (BreakKind::CheckpointDisagrees, Some(second), &of),
        );
        restore(app).await;

        // Cut together with its head, and with the payment that it ends with.
        let gone = app.payment("later").await.terms.payment_id;
        let cut = format!(
            "DELETE FROM audit_entries WHERE seq >= {second}; DELETE FROM payments WHERE payment_id = '{gone}'; \
             UPDATE audit_heads SET seq = {0}, chain = (SELECT chain FROM audit_entries WHERE seq = {0})",
            second - 1
        );
        app.db.raw().await.execute(&cut).await.unwrap();
        assert_eq!(verified(app, None).await.breaks, []);
        finds("cut", &verified(app, Some(&source(&folder))).await, (BreakKind::TailCut, Some(second), ""));
        restore(app).await;
        forget(app).await;
    })
    .await;
}

#[tokio::test]
async fn a_spoilt_file_of_checkpoints_is_found_and_what_is_whole_in_it_still_counts() {
    each(async |app: &mut App| {
        let folder = Folder::new();
        let story = Story::tell(app, &folder).await;
        let file = "sink/default.checkpoints";
        let good = folder.read(file);
        let [first, second] = story.signed;
        let at = good.match_indices("pay.example/").nth(1).unwrap().0;
        let (one, two) = good.split_at(at);
        let stranger = NoteSigner::from_seed("pay.example", &[8; 32]).unwrap();
        let head = story.facts.len();
        assert!(head > 2);
        let chain = app.db.raw().await.texts(&format!("SELECT chain FROM audit_entries WHERE seq = {first}")).await;
        let sign = |signer: &NoteSigner, tenant: &str| {
            format!("{}\n", signer.sign(tenant, first, &chain[0], story.now()).unwrap())
        };
        use BreakKind as K;
        let rows: Vec<(&str, String, K, i64)> = vec![
            (
                "another size",
                good.replacen(&format!("\n{first}\n"), &format!("\n{}\n", first - 1), 1),
                K::CheckpointForged,
                second,
            ),
            ("another time", good.replacen(":", ";", 1), K::CheckpointUnreadable, second),
            ("a missing line", good.replacen(&format!("{first}\n"), "", 1), K::CheckpointUnreadable, second),
            ("garbage before", format!("garbage\n{good}"), K::CheckpointUnreadable, second),
            ("cut in the last", good[..good.len() - 40].to_owned(), K::CheckpointUnreadable, first),
            ("cut before its last line end", good[..good.len() - 1].to_owned(), K::CheckpointUnreadable, first),
            ("of another key", good.clone() + &sign(&stranger, "default"), K::CheckpointForeign, second),
            ("of another tenant", good.clone() + &sign(&signer(), "other"), K::CheckpointMisfiled, second),
            ("a long line", format!("{}{}\n{two}", one, "x".repeat(20_000)), K::CheckpointUnreadable, second),
        ];
        for (what, text, kind, up_to) in rows {
            assert_ne!(text, good, "{what}");
            folder.write(file, &text);
            let report = verified(app, Some(&source(&folder))).await;
            let kinds: Vec<K> = report.breaks.iter().map(|found| found.kind).collect();
            assert!(!kinds.is_empty() && kinds.iter().all(|found| *found == kind), "{what}: {:#?}", report.breaks);
            assert_eq!(report.covered.unwrap().up_to, up_to, "{what}");
        }
        // A write that did not finish, closed by the next.
        folder.write(file, &format!("{one}{}\n#\n{two}", &two[..30]));
        let report = verified(app, Some(&source(&folder))).await;
        assert_eq!(
            (report.breaks.len(), report.covered.map(|covered| (covered.cut_off, covered.up_to))),
            (0, Some((1, second)))
        );
        // Cut between two notes it can't be told from one that was always so, but for its age.
        folder.write(file, one);
        let report = verified(app, Some(&source(&folder))).await;
        assert_eq!((report.breaks.len(), report.covered.unwrap().up_to), (0, first));
        let mut dated = source(&folder);
        dated.covered_before = Some(story.now().plus_micros(3_600_000_000));
        let next = &story.facts[usize::try_from(first).unwrap()].payment_id;
        finds("too old", &verified(app, Some(&dated)).await, (K::CheckpointsMissing, Some(first + 1), next));
        std::fs::remove_file(folder.join(file)).unwrap();
        finds("no file", &verified(app, Some(&source(&folder))).await, (K::CheckpointsMissing, None, ""));
    })
    .await;
}
