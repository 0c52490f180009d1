//! One PostgreSQL cluster for all tests of this process, gone when the process is.
//!
//! `COUNTERSIGN_TEST_POSTGRES` names a server to use instead. Without it, and with the server's
//! binaries on this machine, a supervising shell makes a cluster in a folder of its own, serves it
//! on a loopback port, and waits on a pipe whose other end only this process holds. However this
//! process ends, the pipe closes; the shell then stops its cluster and removes the folder.
//! PostgreSQL refuses to run as root, so a root test process starts the shell as `postgres`.
//!
//! The cluster is started once per process: `cargo test` starts one, while `cargo nextest run`,
//! where every test is a process, starts one a test. It works there too, but `cargo test` is the way.
//! Its `fsync` is off, which no test may rely on; `synchronous_commit` is as shipped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use url::Url;

/// Names a server to use, as a `postgres://` URL of a role that may create schemas; or `none`, for SQLite alone.
pub(super) const SERVER: &str = "COUNTERSIGN_TEST_POSTGRES";

/// Said once, where the other half of the tests can't run.
const MISSING: &str = "PostgreSQL's server binaries were not found: the PostgreSQL half of the tests did not run";

/// Arguments: the folder of the binaries, a port. Says `ready`, then lives as long as its input.
///
/// The linguistic order of text is what a production database often has: nothing may rely on the
/// order of bytes.
const SUPERVISOR: &str = r#"
bin=$1 port=$2
home=$(mktemp -d "${TMPDIR:-/tmp}/countersign-pg.XXXXXX") || exit 1
finish() {
    [ -f "$home/data/postmaster.pid" ] && "$bin/pg_ctl" -D "$home/data" -m immediate -w stop >/dev/null 2>&1
    rm -rf "$home"
}
trap finish EXIT
trap '' HUP
prepare() {
    "$bin/initdb" -D "$home/data" -U postgres -A trust -E UTF8 --no-sync "$@" >>"$home/log" 2>&1
}
prepare --locale=C --locale-provider=icu --icu-locale=en-US || prepare --locale=C || { cat "$home/log" >&2; exit 1; }
cat >>"$home/data/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$home'
max_connections = 400
shared_buffers = 32MB
fsync = off
countersign.fsync_off = 'accepted'
END
"$bin/pg_ctl" -D "$home/data" -l "$home/log" -w start >/dev/null || { tail "$home/log" >&2; exit 1; }
echo ready
exec 2>/dev/null
while read -r mode; do
    "$bin/pg_ctl" -D "$home/data" -l "$home/log" -m "$mode" -w restart >/dev/null && echo ready || echo failed
done
"#;

#[derive(Debug)]
struct Server {
    url: Url,
    /// Holds the pipe that the supervisor waits on; never dropped, so only our end closes it.
    supervisor: Option<Supervisor>,
}

#[derive(Debug)]
struct Supervisor {
    child: Child,
    says: BufReader<ChildStdout>,
}

/// A cluster of one test's own, which that test may restart; gone when this is.
#[derive(Debug)]
pub(crate) struct Cluster(Server);

impl Cluster {
    /// A fresh cluster; `None` when this machine has no server binaries, or the tests use another's server.
    pub(crate) fn own() -> Option<Self> {
        let binaries = binaries()?;
        (0..3).find_map(|_| start(&binaries)).map(Self)
    }

    /// Where it is.
    pub(crate) const fn url(&self) -> &Url {
        &self.0.url
    }

    /// Restarts the server: `fast` ends all sessions in order, `immediate` is a crash. It is back when this returns.
    pub(crate) fn restart(&mut self, mode: &str) {
        let supervisor = self.0.supervisor.as_mut().expect("an own cluster has a supervisor");
        writeln!(supervisor.child.stdin.as_mut().unwrap(), "{mode}").unwrap();
        let mut word = String::new();
        supervisor.says.read_line(&mut word).unwrap();
        assert_eq!(word.trim(), "ready", "the server restarts");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Its input ends, and the shell clears up.
        if let Some(mut supervisor) = self.0.supervisor.take() {
            drop(supervisor.child.stdin.take());
            let _ = supervisor.child.wait();
        }
    }
}

/// The server to make test schemas on; `None`, said once, when this machine has none.
pub(crate) fn server() -> Option<&'static Url> {
    static SERVERS: OnceLock<Option<Server>> = OnceLock::new();
    SERVERS.get_or_init(find).as_ref().map(|server| &server.url)
}

fn find() -> Option<Server> {
    if let Some(url) = std::env::var(SERVER).ok().filter(|url| !url.is_empty()) {
        if url == "none" {
            return None;
        }
        let url = url.parse().unwrap_or_else(|err| panic!("{SERVER} is not a URL: {err}"));
        return Some(Server { url, supervisor: None });
    }
    let Some(binaries) = binaries() else {
        // Not eprintln, which the test runner keeps to itself.
        let _ = writeln!(std::io::stderr(), "{MISSING}");
        return None;
    };
    // A port that is free now may be taken a moment later.
    let server = (0..3).find_map(|_| start(&binaries));
    Some(server.expect("the test cluster starts; PostgreSQL's own words are above"))
}

/// The folder that holds `initdb`, `pg_ctl` and `postgres`: on the path, else Debian's newest.
fn binaries() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    debian.sort_by_key(|folder| folder.parent().and_then(Path::file_name)?.to_str()?.parse::<u32>().ok());
    std::env::split_paths(&path)
        .chain(debian.into_iter().rev())
        .find(|folder| ["initdb", "pg_ctl", "postgres"].iter().all(|name| folder.join(name).is_file()))
}

fn start(binaries: &Path) -> Option<Server> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).ok()?.port();
    let mut shell = Command::new("sh");
    shell.args(["-c", SUPERVISOR, "countersign-test-postgres"]).arg(binaries).arg(port.to_string());
    // Its own group: what interrupts the tests at a terminal must not interrupt the clearing up.
    shell.current_dir("/").process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    if number(&["-u"]) == Some(0) {
        shell.gid(number(&["-g", "postgres"])?).uid(number(&["-u", "postgres"])?);
    }
    let mut supervisor = shell.spawn().ok()?;
    let mut word = String::new();
    let mut says = BufReader::new(supervisor.stdout.take()?);
    says.read_line(&mut word).ok()?;
    if word.trim() == "ready" {
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable").parse().ok()?;
        return Some(Server { url, supervisor: Some(Supervisor { child: supervisor, says }) });
    }
    let _ = supervisor.wait();
    None
}

/// What `id` says.
fn number(arguments: &[&str]) -> Option<u32> {
    let said = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8(said.stdout).ok()?.trim().parse().ok()
}
