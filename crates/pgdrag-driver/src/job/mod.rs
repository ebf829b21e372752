//! What is the driver told to do?
//!
//! One JSON object on one line, described in `docs/reference/driver-contract.md`. Every key is
//! known or refused, and every value is checked here, so that nothing behind this module doubts it.

mod pgbench;
mod run;
mod tpcc;
mod watch;

use serde::Deserialize;

pub use self::pgbench::{DrawJob, PgbenchJob, PoolJob, PoolOrder, ScriptJob, Statements};
use crate::error::Error;
use crate::io::stream::KeepAlive;
use crate::session::{AuthMethod, ChannelBinding, Target, Trust};
use crate::tls::TlsTerms;

pub use run::{Arrivals, Pacing, RunJob, Share, StepJob};
pub use tpcc::{Isolation, Mix, StatementMode, Terminals, TpccJob};
pub use watch::WatchJob;

/// The version of the contract that this driver speaks.
pub const CONTRACT: u32 = 2;

/// One job, as the caller wrote it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The version of the contract that the caller speaks.
    pub contract: u32,
    /// What to do.
    pub action: Action,
    /// Where to do it.
    pub server: Server,
    /// Whether the driver dies with the process that started it.
    pub die_with_parent: bool,
    /// Same seed, same dataset and same streams of transactions.
    pub seed: u64,
    /// What the clients do; absent exactly when the action is `watch`.
    pub workload: Option<WorkloadJob>,
    /// How to run; present exactly when the action is `run`.
    pub run: Option<RunJob>,
    /// How to load; present exactly when the action is `load`.
    pub load: Option<LoadJob>,
    /// How to watch; present exactly when the action is `watch`.
    pub watch: Option<WatchJob>,
}

/// What a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Make and fill the tables.
    Load,
    /// Put load on the server, and measure.
    Run,
    /// Check the tables' consistency, reading only.
    Check,
    /// Look for mistakes in the job and its scripts, without a server.
    Compile,
    /// See what the server's processes wait for.
    Watch,
}

impl Action {
    /// The action's name in the contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Run => "run",
            Self::Check => "check",
            Self::Compile => "compile",
            Self::Watch => "watch",
        }
    }
}

/// The server and the role that the driver connects as.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// A directory that holds the Unix socket (starts with `/`), or a host name or address.
    pub host: String,
    /// The port, which also names the Unix socket.
    pub port: u16,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// The role's password, where the server asks for one.
    pub password: Option<String>,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// For all connections together.
    pub connect_timeout_s: f64,
    /// What the server's command line could have said, for each session: `-c work_mem=1MB`.
    #[serde(default)]
    pub options: Option<String>,
    /// How TCP connections notice that the server is gone; `None`: as the system does.
    #[serde(default)]
    pub keep_alive: Option<KeepAlive>,
    /// Where the host is, if its name is not to be looked up.
    #[serde(default)]
    pub address: Option<String>,
    /// How sessions over TCP are encrypted; `None`: they are not.
    #[serde(default)]
    pub tls: Option<TlsTerms>,
    /// Whether authentication is bound to the TLS connection.
    #[serde(default)]
    pub channel_binding: ChannelBinding,
    /// How the server may authenticate the role, see [`Trust::methods`].
    #[serde(default)]
    pub auth_methods: Option<Vec<AuthMethod>>,
}

impl std::fmt::Debug for Server {
    // The password is never written anywhere, so it is not here either.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// A workload and its parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkloadJob {
    /// TPC-C in the form that BenchBase runs.
    Tpcc(TpccJob),
    /// pgbench's scripts, and its tables.
    Pgbench(PgbenchJob),
}

/// How to load the dataset.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadJob {
    /// Number of connections.
    pub parallelism: u32,
}

/// The longest duration that a job may name: a year, far below what overflows a clock.
const LONGEST_S: f64 = 365.0 * 86_400.0;

impl Job {
    /// Reads and checks a job.
    ///
    /// The error is one line that names the key and the value.
    pub fn parse(line: &str) -> Result<Self, String> {
        let job: Self = serde_json::from_str(line)
            .map_err(|error| format!("could not read the job: {error}"))?;
        job.check()?;
        Ok(job)
    }

    /// Where the job's server is, and what is asked of it.
    ///
    /// The error is one line that names a certificate or key that cannot be used.
    pub fn target(&self) -> Result<Target, Error> {
        let server = &self.server;
        let trust =
            Trust { channel_binding: server.channel_binding, methods: server.auth_methods.clone() };
        Target::new(
            &server.host,
            server.port,
            &server.user,
            &server.database,
            server.password.as_deref(),
            &server.application_name,
        )
        .with_options(server.options.as_deref())
        .kept_alive(server.keep_alive)
        .secured(trust, server.tls.as_ref(), server.address.as_deref())
        .map_err(Error::Fatal)
    }

    fn check(&self) -> Result<(), String> {
        if self.contract != CONTRACT {
            return Err(format!(
                "cannot speak version {} of the contract, only {CONTRACT}",
                self.contract
            ));
        }
        check_duration("server.connect_timeout_s", self.server.connect_timeout_s)?;
        self.server.check()?;
        if self.run.is_some() != (self.action == Action::Run) {
            return Err(r#"key "run" must be given exactly when "action" is "run""#.into());
        }
        if self.load.is_some() != (self.action == Action::Load) {
            return Err(r#"key "load" must be given exactly when "action" is "load""#.into());
        }
        if self.watch.is_some() != (self.action == Action::Watch) {
            return Err(r#"key "watch" must be given exactly when "action" is "watch""#.into());
        }
        if self.workload.is_none() != (self.action == Action::Watch) {
            return Err(r#"key "workload" must be given unless "action" is "watch""#.into());
        }
        if let Some(workload) = &self.workload {
            workload.check()?;
            if let Some(run) = &self.run {
                run.check()?;
                workload.check_run(run)?;
            }
        }
        self.watch.map_or(Ok(()), WatchJob::check)?;
        self.load.as_ref().map_or(Ok(()), LoadJob::check)
    }
}

impl Server {
    fn check(&self) -> Result<(), String> {
        let texts = [
            ("host", Some(&self.host)),
            ("user", Some(&self.user)),
            ("database", Some(&self.database)),
            ("password", self.password.as_ref()),
            ("application_name", Some(&self.application_name)),
            ("options", self.options.as_ref()),
        ];
        for (key, text) in texts {
            // The protocol ends a string with a zero byte.
            if text.is_some_and(|text| text.contains('\0')) {
                return Err(format!(r#"key "server.{key}" must not contain a zero byte"#));
            }
        }
        if self.host.is_empty() {
            Err(r#"key "server.host" must not be empty"#.into())
        } else {
            Ok(())
        }
    }
}

impl WorkloadJob {
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Tpcc(tpcc) => tpcc.check(),
            Self::Pgbench(pgbench) => pgbench.check(),
        }
    }

    fn check_run(&self, run: &RunJob) -> Result<(), String> {
        match self {
            Self::Tpcc(tpcc) => tpcc.check_pacing(run.pacing),
            Self::Pgbench(pgbench) => pgbench.check_connections(run.connections),
        }
    }
}

impl LoadJob {
    fn check(&self) -> Result<(), String> {
        check_at_least_one("load.parallelism", self.parallelism)
    }
}

fn check_at_least_one(key: &str, value: u32) -> Result<(), String> {
    if value >= 1 { Ok(()) } else { Err(format!(r#"key "{key}" must be at least 1, not {value}"#)) }
}

fn check_not_negative(key: &str, value: f64) -> Result<(), String> {
    if (0.0..=LONGEST_S).contains(&value) {
        Ok(())
    } else {
        Err(format!(r#"key "{key}" must be between 0 and {LONGEST_S}, not {value}"#))
    }
}

fn check_duration(key: &str, value: f64) -> Result<(), String> {
    // A comparison that a NaN fails, too.
    if value > 0.0 && value <= LONGEST_S {
        Ok(())
    } else {
        Err(format!(r#"key "{key}" must be above 0 and at most {LONGEST_S}, not {value}"#))
    }
}
