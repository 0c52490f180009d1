//! The database answers and takes no writes: a standby after a fail-over, a file that may only be read. It is
//! unready for as long as that lasts, asked or not, and goes on by itself afterwards.

use std::fs::{OpenOptions, Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use countersign::ambient::SystemClock;
use countersign::store::{Store, StoreFault};
use serde_json::json;

use crate::harness::app::{App, Wishes, only};
use crate::harness::database::{Raw, TestEngine};
use crate::harness::folder::Folder;
use crate::harness::postgres::Cluster;

/// Longer than a failed write is remembered, in microseconds.
const FORGOTTEN: i64 = 11_000_000;

async fn ready(app: &App) -> (u16, String) {
    let page = app.http.get(format!("{}/readyz", app.config.server.public_url)).send().await.unwrap();
    let status = page.status().as_u16();
    let body: serde_json::Value = page.json().await.unwrap();
    (status, body["database"].as_str().unwrap().to_owned())
}

fn down() -> (u16, String) {
    (503, "down".to_owned())
}

fn up() -> (u16, String) {
    (200, "ok".to_owned())
}

/// Unready before anybody writes and after the last failure is forgotten; refused for now; reading goes on.
async fn takes_no_writes(app: &App, round: u8) {
    assert_eq!(ready(app).await, down(), "nobody has tried to write");
    for order in 0..2 {
        let told = app.create(&format!("order-{round}-{order}")).await;
        assert_eq!((told.code().as_str(), &told.body["retryable"]), ("STORE_UNAVAILABLE", &json!(true)), "{order}");
    }
    assert_eq!(app.status("order-1").await.status(), "CREATED", "reading goes on");
    app.clock.advance(FORGOTTEN);
    assert_eq!(ready(app).await, down(), "it lasts");
    assert_eq!(
        app.journal.ping_store().await.unwrap_err().code.as_str(),
        "STORE_UNAVAILABLE",
        "a worker's page asks it"
    );
}

/// Ready as soon as it may be, and the refused calls go well, without a restart.
async fn takes_writes(app: &App, round: u8) {
    assert_eq!(ready(app).await, up(), "nobody has tried to write again, {round}");
    for order in 0..3 {
        assert_eq!(app.create(&format!("order-{round}-{order}")).await.status(), "CREATED", "{order}");
    }
    assert_eq!(ready(app).await, up());
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_unready_and_its_sessions_are_not_kept() {
    only(TestEngine::Postgres, Wishes::default(), async |app: &mut App| {
        let Some(cluster) = Cluster::own() else {
            eprintln!("not run: this machine has no PostgreSQL of its own");
            return;
        };
        app.did.others_at_the_peers = true;
        app.config.database.url = cluster.url().to_string().into();
        app.restart().await;
        assert_eq!(app.create("order-1").await.status(), "CREATED");
        assert_eq!(ready(app).await, up());
        let mut server = Raw::server(cluster.url().as_str()).await;
        let database = server.texts("SELECT CAST(current_database() AS TEXT)").await.remove(0);
        let end = "SELECT CAST(pg_terminate_backend(pid, 5000) AS TEXT) FROM pg_stat_activity \
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        for round in 0..2 {
            let shut = format!("ALTER DATABASE \"{database}\" SET default_transaction_read_only = on");
            server.execute(&shut).await.unwrap();
            server.texts(end).await;
            takes_no_writes(app, round).await;
            // Sessions keep what they were opened with.
            let open = format!("ALTER DATABASE \"{database}\" RESET default_transaction_read_only");
            server.execute(&open).await.unwrap();
            takes_writes(app, round).await;
        }
        app.stop().await;
    })
    .await;
}

/// A folder whose files may only be read for a while, by whoever runs the tests.
struct Shut<'a> {
    folder: &'a Path,
    mounted: bool,
}

impl<'a> Shut<'a> {
    /// By their modes; where those don't bite, as for root, by a mount. `None` where neither can be had.
    fn to(folder: &'a Path, file: &Path) -> Option<Self> {
        modes(folder, file, 0o555, 0o444);
        if OpenOptions::new().write(true).open(file).is_err() {
            return Some(Self { folder, mounted: false });
        }
        modes(folder, file, 0o755, 0o644);
        let mount = |options: &[&str]| {
            let said = Command::new("mount").args(options).arg(folder).output();
            said.is_ok_and(|output| output.status.success())
        };
        let shut = mount(&["--bind", folder.to_str().unwrap()]).then_some(Self { folder, mounted: true })?;
        mount(&["-o", "remount,bind,ro"]).then_some(shut)
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        if self.mounted {
            drop(Command::new("umount").arg("-l").arg(self.folder).output());
        } else {
            modes(self.folder, &self.folder.join("desk.db"), 0o755, 0o644);
        }
    }
}

fn modes(folder: &Path, file: &Path, of_folder: u32, of_file: u32) {
    set_permissions(file, Permissions::from_mode(of_file)).unwrap();
    set_permissions(folder, Permissions::from_mode(of_folder)).unwrap();
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_unready_and_is_opened_anew() {
    only(TestEngine::Sqlite, Wishes::default(), async |app: &mut App| {
        let folder = Folder::new("shut");
        let file = folder.join("desk.db");
        app.did.others_at_the_peers = true;
        let url = format!("sqlite://{}", file.display());
        app.config.database.url = url.clone().into();
        app.restart().await;
        assert_eq!(app.create("order-1").await.status(), "CREATED");
        let names = ["desk.db-wal", "desk.db-shm"];
        for (round, kept) in [(0, true), (1, false)] {
            // The files beside it: another connection keeps them, or they are as a killed process left them.
            let left = names.map(|name| std::fs::read(folder.join(name)).unwrap());
            let mut beside = Raw::file(&url).await;
            beside.texts("SELECT order_id FROM payments").await;
            app.stop().await;
            if !kept {
                drop(beside.close().await);
                names.iter().zip(left).for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
            }
            let Some(shut) = Shut::to(&folder, &file) else {
                let told = "not run: this machine lets no test take away the right to write";
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{told}");
                eprintln!("{told}");
                return;
            };
            app.restart().await;
            takes_no_writes(app, round).await;
            drop(shut);
            takes_writes(app, round).await;
        }
        app.stop().await;
    })
    .await;
}

/// What an auditor keeps may be read-only: it opens, and it says that it takes no writes.
#[tokio::test]
async fn a_copy_that_may_only_be_read_is_read() {
    let folder = Folder::new("copy");
    let url = format!("sqlite://{}", folder.join("desk.db").display());
    let open = async |url: &str| Store::open(url, 1, Duration::from_secs(5), Arc::new(SystemClock)).await.unwrap();
    let store = open(&url).await;
    store.migrate().await.unwrap();
    store.ping().await.unwrap();
    let copy = open(&format!("{url}?mode=ro")).await;
    copy.read().await.unwrap().audit_lines("default", 0, 1).await.unwrap();
    for _ in 0..2 {
        let begun = copy.begin().await;
        assert!(matches!(begun, Err(StoreFault::Unavailable(_))), "{begun:?}");
    }
    let pinged = copy.ping().await;
    assert!(matches!(pinged, Err(StoreFault::Unavailable(_))), "{pinged:?}");
    store.begin().await.unwrap();
}
