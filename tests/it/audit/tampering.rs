//! Every way to tamper with what is stored is found, and the place is named.

use countersign::journal::verify::{AuditReport, Break, BreakKind};
use countersign::proof::{NoteSigner, chained};

use super::story::{Story, each, signer, source, verified};
use super::ways::{self, Way};
use crate::harness::app::App;
use crate::harness::folder::Folder;

/// Everything that may be tampered with.
fn tables() -> impl Iterator<Item = &'static str> {
    ["audit_entries", "audit_heads", "signer_keys"].into_iter().chain(ways::OF_A_PAYMENT)
}

/// Keeps a copy of what will be tampered with.
async fn keep(app: &App) {
    for table in tables() {
        app.db.raw().await.execute(&format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await.unwrap();
    }
}

async fn restore(app: &App) {
    for table in tables() {
        let sql = format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}");
        app.db.raw().await.execute(&sql).await.unwrap();
    }
}

async fn forget(app: &App) {
    for table in tables() {
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
        let folder = Folder::new("audit");
        let story = Story::tell(app, &folder).await;
        let report = verified(app, Some(&source(&folder))).await;
        assert_eq!(report.breaks, []);
        assert_eq!((report.entries, report.payments), (story.entries(), 6));
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
        let folder = Folder::new("audit");
        let story = Story::tell(app, &folder).await;
        let Story { paid, rejected, by_hand, .. } = &story;
        let ways = [
            ways::with_the_chain(&story),
            ways::with_payments(&story),
            ways::with_what_was_sent(&story),
            ways::with_approvals(&story),
            ways::with_keys(&story),
        ];
        keep(app).await;
        let mut unseen = Vec::new();
        for Way { what, sql, finds } in ways.into_iter().flatten() {
            app.db.raw().await.execute(&sql).await.unwrap_or_else(|err| panic!("{what}: {err}"));
            let report = verified(app, Some(&source(&folder))).await;
            let missed = finds.iter().filter(|(kind, seq, payment)| !has(&report, (*kind, *seq, payment.as_str())));
            unseen.extend(missed.map(|missed| format!("{what}: {missed:?}")));
            restore(app).await;
        }
        assert_eq!(unseen, Vec::<String>::new());
        // Ended or not, nothing is ever deleted.
        let gone = format!("DELETE FROM payments WHERE payment_id IN ('{rejected}', '{paid}', '{by_hand}')");
        app.db.raw().await.execute(&gone).await.unwrap();
        let report = verified(app, Some(&source(&folder))).await;
        let missing = report.breaks.iter().filter(|found| found.kind == BreakKind::PaymentMissing);
        let missing: Vec<&str> = missing.map(|found| found.payment_id.as_str()).collect();
        assert_eq!((missing.len(), report.breaks.len(), report.payments), (3, 3, 6), "{missing:?}");
        restore(app).await;
        assert_eq!(verified(app, Some(&source(&folder))).await.breaks, []);
        forget(app).await;
    })
    .await;
}

#[tokio::test]
async fn what_an_owner_of_the_database_can_hide_the_checkpoints_show() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
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

        // A chain by an older version of the program, which did not audit the transfer, is no break.
        let done = story.seq(&story.paid, "rail.execute.done");
        let digest = &story.facts[usize::try_from(done - 1).unwrap()].digest_of_details;
        assert_eq!(digest.len(), 64);
        rewrite(app, done, |text| text.replace(digest.as_str(), "")).await;
        let other = format!("UPDATE payments SET transfer_id = 'other' WHERE payment_id = '{}'", story.paid);
        app.db.raw().await.execute(&other).await.unwrap();
        assert_eq!(verified(app, None).await.breaks, []);
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
        let folder = Folder::new("audit");
        let story = Story::tell(app, &folder).await;
        let file = "sink/default.checkpoints";
        let good = folder.read(file);
        let [first, second] = story.signed;
        let at = good.match_indices("pay.example/").nth(1).unwrap().0;
        let (one, two) = good.split_at(at);
        let stranger = NoteSigner::from_seed("pay.example", &[8; 32]).unwrap();
        let chain = app.db.raw().await.texts(&format!("SELECT chain FROM audit_entries WHERE seq = {first}")).await;
        let sign = |signer: &NoteSigner, tenant: &str| {
            format!("{}\n", signer.sign(tenant, first, &chain[0], story.now()).unwrap())
        };
        let rows: Vec<(&str, String, BreakKind, i64)> = vec![
            (
                "another size",
                good.replacen(&format!("\n{first}\n"), &format!("\n{}\n", first - 1), 1),
                BreakKind::CheckpointForged,
                second,
            ),
            ("another time", good.replacen(':', ";", 1), BreakKind::CheckpointUnreadable, second),
            ("a missing line", good.replacen(&format!("{first}\n"), "", 1), BreakKind::CheckpointUnreadable, second),
            ("garbage before", format!("garbage\n{good}"), BreakKind::CheckpointUnreadable, second),
            ("converted line ends", good.replace('\n', "\r\n"), BreakKind::CheckpointUnreadable, 0),
            ("cut in the last", good[..good.len() - 40].to_owned(), BreakKind::CheckpointUnreadable, first),
            ("cut before its last line end", good[..good.len() - 1].to_owned(), BreakKind::CheckpointUnreadable, first),
            ("of another key", good.clone() + &sign(&stranger, "default"), BreakKind::CheckpointForeign, second),
            ("of another tenant", good.clone() + &sign(&signer(), "other"), BreakKind::CheckpointMisfiled, second),
            ("a long line", format!("{}{}\n{two}", one, "x".repeat(20_000)), BreakKind::CheckpointUnreadable, second),
            ("emptied", String::new(), BreakKind::CheckpointsMissing, 0),
            ("empty lines alone", "\n\n".to_owned(), BreakKind::CheckpointsMissing, 0),
            ("closings alone", format!("#\n{}\n#\n", &one[..30]), BreakKind::CheckpointsMissing, 0),
        ];
        let mut unseen = Vec::new();
        for (what, text, kind, up_to) in rows {
            assert_ne!(text, good, "{what}");
            folder.write(file, &text);
            let report = verified(app, Some(&source(&folder))).await;
            let only = !report.breaks.is_empty() && report.breaks.iter().all(|found| found.kind == kind);
            if !only || report.covered.as_ref().unwrap().up_to != up_to {
                unseen.push(format!("{what}: {:?}, {:?}", report.breaks, report.covered));
            }
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
        let report = verified(app, Some(&dated)).await;
        unseen.extend(
            (!has(&report, (BreakKind::CheckpointsMissing, Some(first + 1), next))).then(|| "too old".to_owned()),
        );
        std::fs::remove_file(folder.join(file)).unwrap();
        let report = verified(app, Some(&source(&folder))).await;
        unseen.extend((!has(&report, (BreakKind::CheckpointsMissing, None, ""))).then(|| "no file".to_owned()));
        assert_eq!(unseen, Vec::<String>::new());
    })
    .await;
}
