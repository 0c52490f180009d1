//! When a checkpoint is made, of what, and what becomes of it when its place is full or gone.

use std::time::{Duration, Instant};

use countersign::journal::CheckpointFault;
use countersign::proof::Checkpoint;
use countersign::store::AuditNote;
use serde_json::json;

use super::story::each;
use super::story::{checkpoints, configured, signer, source, verified};
use crate::harness::app::App;
use crate::harness::folder::Folder;
use crate::harness::sink::{Reply, Sink};

const FILE: &str = "sink/default.checkpoints";

/// The checkpoints in a file that holds nothing else.
fn kept(folder: &Folder) -> Vec<Checkpoint> {
    let Ok(text) = std::fs::read_to_string(folder.join(FILE)) else { return Vec::new() };
    let keys = [signer().verifier().clone()];
    let lines: Vec<&str> = text.lines().collect();
    let notes = lines.split(|line| *line == "#").flat_map(|part| part.chunks(7).map(<[&str]>::to_vec));
    notes
        .filter(|note| note.len() == 7)
        .map(|note| Checkpoint::open(&(note[..6].join("\n") + "\n"), &keys).unwrap())
        .collect()
}

fn sizes(folder: &Folder) -> Vec<i64> {
    kept(folder).iter().map(|checkpoint| checkpoint.size).collect()
}

async fn entries(app: &App) -> i64 {
    i64::try_from(app.audit().await.len()).unwrap()
}

#[tokio::test]
async fn a_checkpoint_is_due_by_time_or_by_number_and_only_when_the_chain_moved() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let mut config = configured(app, &folder);
        config.audit.checkpoint_entries = 5;
        let checkpoints = checkpoints(app, &config).await;
        let begun = Instant::now();
        let later = |seconds: u64| begun + Duration::from_secs(seconds);
        let first = entries(app).await;
        assert_eq!(checkpoints.tick(begun).await, 1, "the first at once");
        assert_eq!(checkpoints.tick(later(3_600)).await, 0, "nothing moved");
        app.create("one").await;
        assert_eq!(checkpoints.tick(later(59)).await, 0, "not yet");
        assert_eq!(checkpoints.tick(later(60)).await, 1);
        for n in 0..5 {
            assert_eq!(checkpoints.tick(later(61)).await, 0, "{n} entries");
            app.create(&format!("more-{n}")).await;
        }
        assert_eq!(checkpoints.tick(later(61)).await, 1, "five at once");
        assert_eq!(sizes(&folder), [first, first + 1, first + 6]);
        assert_eq!(kept(&folder)[2].head, verified(app, None).await.head);
        assert_eq!(verified(app, Some(&source(&folder))).await.covered.unwrap().uncovered, 0);
    })
    .await;
}

#[tokio::test]
async fn what_has_not_been_committed_is_not_signed() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let checkpoints = checkpoints(app, &configured(app, &folder)).await;
        let committed = entries(app).await;
        let mut tx = app.db.store().begin().await.unwrap();
        tx.audit(AuditNote { tenant: "default".to_owned(), event: "e".to_owned(), ..AuditNote::default() });
        assert_eq!(checkpoints.tick(Instant::now()).await, 1);
        assert_eq!(sizes(&folder), [committed]);
        // A head that moved while its entry did not is no end of a chain.
        drop(tx);
        let head = |by: &str| format!("UPDATE audit_heads SET seq = seq {by} 1");
        app.db.raw().await.execute(&head("+")).await.unwrap();
        let done = checkpoints.write_all().await.unwrap();
        assert!(matches!(done[0].outcome, Err(CheckpointFault::Forked(_))), "{done:?}");
        app.db.raw().await.execute(&head("-")).await.unwrap();
        assert_eq!(sizes(&folder), [committed]);
    })
    .await;
}

#[tokio::test]
async fn a_restart_goes_on_where_the_file_ends_and_two_processes_do_no_harm() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let config = configured(app, &folder);
        let one = checkpoints(app, &config).await;
        one.write_all().await.unwrap();
        let before = folder.read(FILE);
        let two = checkpoints(app, &config).await;
        assert_eq!(two.tick(Instant::now()).await, 0, "what is signed is not signed again");
        assert_eq!(folder.read(FILE), before);
        for n in 0..12 {
            app.create(&format!("order-{n}")).await;
            let (a, b) = tokio::join!(one.write_all(), two.write_all());
            for done in a.unwrap().iter().chain(&b.unwrap()) {
                assert!(done.outcome.is_ok(), "{done:?}");
            }
        }
        assert!(folder.read(FILE).starts_with(&before), "it only grows");
        let sizes = sizes(&folder);
        assert!((13..=25).contains(&sizes.len()), "{sizes:?}");
        let report = verified(app, Some(&source(&folder))).await;
        assert_eq!((report.breaks, report.covered.unwrap().uncovered), (vec![], 0));
    })
    .await;
}

#[tokio::test]
async fn another_chain_than_the_signed_one_is_not_signed() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let config = configured(app, &folder);
        let first = checkpoints(app, &config).await;
        app.create("order-1").await;
        first.write_all().await.unwrap();
        let before = folder.read(FILE);
        app.create("order-2").await;
        let other = "UPDATE audit_entries SET chain = 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8' WHERE seq = ";
        let signed = sizes(&folder)[0];
        let chain = app.db.raw().await.texts(&format!("SELECT chain FROM audit_entries WHERE seq = {signed}")).await;
        app.db.raw().await.execute(&format!("{other}{signed}")).await.unwrap();
        // Neither who signed it, nor who only finds the file.
        for checkpoints in [first, checkpoints(app, &config).await] {
            let done = checkpoints.write_all().await.unwrap();
            assert!(matches!(done[0].outcome, Err(CheckpointFault::Forked(_))), "{done:?}");
            assert_eq!(folder.read(FILE), before);
        }
        let back = format!("UPDATE audit_entries SET chain = '{}' WHERE seq = {signed}", chain[0]);
        app.db.raw().await.execute(&back).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_sink_that_is_full_or_gone_stops_no_payment_and_is_tried_again() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let checkpoints = checkpoints(app, &configured(app, &folder)).await;
        let begun = Instant::now();
        let later = |seconds: u64| begun + Duration::from_secs(seconds);
        let failed = |done: &[countersign::journal::Checkpointed]| {
            assert!(matches!(done[0].outcome, Err(CheckpointFault::Sink(_))), "{done:?}");
        };
        // Gone: its name is a file's.
        folder.write("sink", "");
        assert_eq!(checkpoints.tick(begun).await, 0);
        app.signed("order-1").await;
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        failed(&checkpoints.write_all().await.unwrap());
        std::fs::remove_file(folder.join("sink")).unwrap();
        assert_eq!(checkpoints.tick(later(1)).await, 0, "not at once");
        assert_eq!(checkpoints.tick(later(30)).await, 1);
        // Full.
        let whole = folder.read(FILE);
        std::fs::rename(folder.join(FILE), folder.join("aside")).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.join(FILE)).unwrap();
        app.create("order-2").await;
        failed(&checkpoints.write_all().await.unwrap());
        std::fs::remove_file(folder.join(FILE)).unwrap();
        // There was room for a part.
        folder.write(FILE, &format!("{whole}pay.example/countersign-audit-v1/def"));
        assert_eq!(checkpoints.tick(later(120)).await, 1);
        let report = verified(app, Some(&source(&folder))).await;
        let covered = report.covered.unwrap();
        assert_eq!((report.breaks, covered.uncovered, covered.cut_off), (vec![], 0, 1));
        assert!(folder.read(FILE).starts_with(&whole));
    })
    .await;
}

#[tokio::test]
async fn a_clock_set_back_changes_what_a_checkpoint_says_and_nothing_else() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let checkpoints = checkpoints(app, &configured(app, &folder)).await;
        checkpoints.write_all().await.unwrap();
        app.clock.advance(-3_600 * 1_000_000);
        app.create("order-1").await;
        assert_eq!(
            checkpoints.tick(Instant::now() + Duration::from_secs(61)).await,
            1,
            "time is measured by another clock"
        );
        let kept = kept(&folder);
        assert!(kept[1].at < kept[0].at && kept[1].size > kept[0].size, "{kept:?}");
        assert_eq!(verified(app, Some(&source(&folder))).await.breaks, []);
        app.clock.advance(3_600 * 1_000_000);
    })
    .await;
}

#[tokio::test]
async fn a_receiver_gets_each_checkpoint_and_one_that_fails_gets_it_again() {
    each(async |app: &mut App| {
        let (folder, sink) = (Folder::new("audit"), Sink::new().await);
        let mut config = configured(app, &folder);
        config.audit.checkpoint_folder = std::path::PathBuf::new();
        config.audit.checkpoint_url = sink.url();
        config.check().unwrap();
        let checkpoints = checkpoints(app, &config).await;
        let begun = Instant::now();
        sink.next([Reply::Status(500), Reply::To(302, "http://127.0.0.1:9/".to_owned())]);
        assert_eq!(checkpoints.tick(begun).await, 0);
        assert_eq!(checkpoints.tick(begun + Duration::from_secs(11)).await, 0, "a redirect is not followed");
        assert_eq!(checkpoints.tick(begun + Duration::from_secs(22)).await, 1);
        assert_eq!(checkpoints.tick(begun + Duration::from_hours(1)).await, 0, "nothing moved");
        let seen = sink.seen();
        assert_eq!(seen.len(), 3);
        let note = std::str::from_utf8(&seen[2].body).unwrap();
        let checkpoint = Checkpoint::open(note, &[signer().verifier().clone()]).unwrap();
        assert_eq!((checkpoint.size, checkpoint.tenant.as_str()), (entries(app).await, "default"));
    })
    .await;
}

#[tokio::test]
async fn every_tenant_has_a_chain_and_checkpoints_of_its_own() {
    each(async |app: &mut App| {
        let folder = Folder::new("audit");
        let checkpoints = checkpoints(app, &configured(app, &folder)).await;
        let elsewhere = app.token("other-tenant", "agent-1", "agent-1", &[countersign::domain::Role::Agent]);
        app.call(&elsewhere, "create_payment", json!({"order_id": "theirs", "amount": "1.00"})).await;
        assert_eq!(checkpoints.tick(Instant::now()).await, 2);
        // A name that the database was made to hold leads nowhere.
        let sql = "INSERT INTO audit_heads SELECT '../escape', seq, chain FROM audit_heads WHERE tenant = 'default'; \
             INSERT INTO audit_entries SELECT '../escape', seq, payment_id, event, canonical, previous, chain, written_at \
             FROM audit_entries WHERE tenant = 'default'";
        app.db.raw().await.execute(sql).await.unwrap();
        assert_eq!(checkpoints.tick(Instant::now()).await, 0);
        let mut names: Vec<String> = std::fs::read_dir(&*folder)
            .unwrap()
            .chain(std::fs::read_dir(folder.join("sink")).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["default.checkpoints", "key", "other-tenant.checkpoints", "sink"]);
        let sql = "DELETE FROM audit_heads WHERE tenant = '../escape'; DELETE FROM audit_entries WHERE tenant = '../escape'";
        app.db.raw().await.execute(sql).await.unwrap();
    })
    .await;
}
