//! A PostgreSQL server for one test, and what tests say to it.
//!
//! `PGDRAG_TEST_BIN` names the directory of the server's programs.

#![allow(dead_code)] // each test file uses its own part

pub mod pgbench;
pub mod scripts;
pub mod tls;

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pgdrag_driver::io::clock::Clock;
use pgdrag_driver::io::timer::Timers;
use pgdrag_driver::session::{Connection, Target};

const ROOMY_BYTES: u64 = 2 << 30;
pub const PASSWORD: &str = "correct horse";

/// Runs a cluster until its standard input closes, and removes it.
const KEEPER: &str = r#"
bin=$1 dir=$2 port=$3 connections=$4
cat >"$dir/data/pg_hba.conf" <<END
local all all trust
host all scram 127.0.0.1/32 scram-sha-256
host all md5 127.0.0.1/32 md5
host all clear 127.0.0.1/32 password
END
"$bin/postgres" -D "$dir/data" -k "$dir" -p "$port" -c listen_addresses=127.0.0.1 -c fsync=off \
    -c max_connections="$connections" -c shared_buffers=32MB \
    >"$dir/log" 2>&1 </dev/null &
server=$!
read -r _
kill -CONT "$server" 2>/dev/null
kill -QUIT "$server" 2>/dev/null
wait "$server"
rm -rf "$dir"
"#;

/// A server that ends, and whose directory goes, when this value or the process does.
pub struct Server {
    directory: PathBuf,
    port: u16,
    keeper: Child,
}

impl Server {
    /// Starts a server, or says that `test` is skipped.
    pub async fn start(test: &str) -> Option<Self> {
        Self::start_for(test, 100).await
    }

    /// Starts a server that takes so many connections, or says that `test` is skipped.
    pub async fn start_for(test: &str, connections: u32) -> Option<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let Some(programs) = std::env::var_os("PGDRAG_TEST_BIN") else {
            eprintln!("skipped: {test} needs PGDRAG_TEST_BIN");
            return None;
        };
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgdrag-driver-test-{}-{number}", std::process::id());
        let directory = place().join(name);
        let server = Self::spawn(Path::new(&programs), directory, connections);
        let mut attempts_left = 600;
        while Connection::connect(&server.target()).await.is_err() {
            attempts_left -= 1;
            assert!(attempts_left > 0, "server did not start in {}", server.directory.display());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Some(server)
    }

    fn spawn(programs: &Path, directory: PathBuf, connections: u32) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port is free")
            .port();
        let empty = EMPTY_CLUSTER.get_or_init(|| empty_cluster(programs));
        make_directory(&directory);
        copy(empty, &directory.join("data"));
        let mut keeper = as_server_user("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(programs).arg(&directory);
        keeper.args([port.to_string(), connections.to_string()]);
        // Its own group: a keyboard's interrupt must not end it before it has cleaned up.
        keeper.stdin(Stdio::piped()).process_group(0).current_dir("/");
        let keeper = keeper.spawn().expect("sh runs");
        Self { directory, port, keeper }
    }

    /// The server by its Unix socket, as the superuser.
    pub fn target(&self) -> Target {
        let host = self.directory.to_str().expect("an ASCII path");
        Target::new(host, self.port, "postgres", "postgres", None, "pgdrag test")
    }

    /// The server by TCP, as a role that needs a password.
    pub fn tcp_target(&self, user: &str, password: Option<&str>) -> Target {
        Target::new("127.0.0.1", self.port, user, "postgres", password, "pgdrag test")
    }

    pub fn host(&self) -> &str {
        self.directory.to_str().expect("an ASCII path")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub async fn connect(&self) -> Connection {
        Connection::connect(&self.target()).await.expect("server accepts connections")
    }

    /// Sends a signal to the postmaster.
    pub fn signal(&self, signal: &str) {
        let pid_file = self.directory.join("data/postmaster.pid");
        let text = std::fs::read_to_string(pid_file).expect("server is running");
        kill(signal, text.lines().next().expect("a process id"));
    }
}

/// What initdb makes, which takes longer than most tests.
static EMPTY_CLUSTER: OnceLock<PathBuf> = OnceLock::new();

/// The same, kept for later runs of tests, for each version and user.
fn empty_cluster(programs: &Path) -> PathBuf {
    let version = Command::new(programs.join("postgres")).arg("--version").output();
    let version = String::from_utf8(version.expect("postgres runs").stdout).expect("a version");
    let user = server_user().map_or(String::new(), |(user, _)| user.to_string());
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{user}", version.trim()));
    if kept.exists() {
        return kept;
    }
    let name = format!("pgdrag-driver-test-{}-empty", std::process::id());
    let directory = place().join(&name);
    make_directory(&directory);
    let made = directory.join("data");
    let mut initdb = as_server_user(programs.join("initdb"));
    initdb.args(["-U", "postgres", "-A", "trust", "--no-sync", "-D"]).arg(&made);
    let output = initdb.current_dir("/").output().expect("initdb runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Complete wherever it has its name: the tests of another file may make the same.
    let copied = kept.with_file_name(name);
    copy(&made, &copied);
    if std::fs::rename(&copied, &kept).is_err() {
        std::fs::remove_dir_all(&copied).expect("it is ours");
    }
    std::fs::remove_dir_all(&directory).expect("it is ours");
    kept
}

/// Where servers are: in memory where there is plenty, as they would wait for one disk.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
    if free >= ROOMY_BYTES { memory.into() } else { std::env::temp_dir() }
}

/// Copies a directory with its owners.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
    assert!(copied.success(), "{} was copied", from.display());
}

/// Makes a directory that only the server's user may enter.
fn make_directory(directory: &Path) {
    std::fs::create_dir(directory).expect("the directory is new");
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(directory, private).expect("the directory is ours");
    if let Some((user, group)) = server_user() {
        chown(directory, Some(user), Some(group)).expect("root may give away");
    }
}

fn as_server_user(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = server_user() {
        command.uid(user).gid(group);
    }
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

pub fn kill(signal: &str, process_id: &str) {
    let sent = Command::new("kill").args(["-s", signal, process_id]).status().expect("kill runs");
    assert!(sent.success(), "kill -s {signal} {process_id}");
}

/// The user and group that run the server when the tests run as root, which PostgreSQL refuses.
fn server_user() -> Option<(u32, u32)> {
    static USER: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().expect("id runs");
        String::from_utf8(output.stdout).expect("digits").trim().parse::<u32>().ok()
    };
    // A machine that never had a PostgreSQL of its own does not know its user.
    let ids = |name| id(&["-u", name]).zip(id(&["-g", name]));
    let mut users = ["postgres", "nobody"].into_iter();
    *USER.get_or_init(|| {
        (id(&["-u"]) == Some(0)).then(|| users.find_map(ids).expect("a user who is not root"))
    })
}

/// Runs a test on a runtime like the driver's own.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(test);
    runtime.shutdown_background();
}

/// Timers for a terminal that never waits: nobody serves them.
pub fn timers() -> Timers {
    Timers::new(Clock::start()).expect("a timer")
}

pub async fn one_text(conn: &mut Connection, sql: &str) -> String {
    let rows = conn.simple_rows(sql).await.expect(sql);
    rows[0][0].clone().expect("not null")
}

pub async fn one_number(conn: &mut Connection, sql: &str) -> u64 {
    one_text(conn, sql).await.parse().expect("a number")
}
