//! What is the driver told to do?
//!
//! One JSON object on one line, described in `docs/reference/driver-contract.md`. Every key is
//! known or refused, and every value is checked here, so that nothing behind this module doubts it.

use serde::Deserialize;

use crate::connection::Target;
use crate::script::PgbenchJob;

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
    /// What the clients do.
    pub workload: WorkloadJob,
    /// How to run; present exactly when the action is `run`.
    pub run: Option<RunJob>,
    /// How to load; present exactly when the action is `load`.
    pub load: Option<LoadJob>,
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
}

impl Action {
    /// The action's name in the contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Run => "run",
            Self::Check => "check",
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

/// The parameters of TPC-C.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccJob {
    /// The scale: number of warehouses, at least 1.
    pub warehouses: u32,
    /// `read committed`, `repeatable read` or `serializable`.
    pub isolation: Isolation,
    /// How often each transaction is drawn.
    pub mix: Mix,
    /// Attempts in all at a transaction that fails with 40001 or 40P01, at least 1.
    pub max_tries: u32,
    /// How statements are sent.
    #[serde(default)]
    pub statements: StatementMode,
    /// Where terminals stand.
    #[serde(default)]
    pub terminals: Terminals,
    /// Keying and think times of the specification, times this; 0: none.
    #[serde(default)]
    pub wait_scale: f64,
}

/// How a workload's statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementMode {
    /// As text with the values in it, one round trip each.
    Simple,
    /// Parsed anew for each execution, one round trip each.
    Extended,
    /// Prepared, one round trip each.
    #[default]
    Prepared,
    /// Prepared; those that do not need each other's answers share a round trip.
    Pipelined,
}

/// Where TPC-C's terminals stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminals {
    /// Spread over the warehouses, each with a range of districts.
    #[default]
    Benchbase,
    /// Ten a warehouse.
    Specification,
}

/// A transaction isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    #[serde(rename = "read committed")]
    ReadCommitted,
    /// Each transaction sees what was committed before it.
    #[serde(rename = "repeatable read")]
    RepeatableRead,
    /// As if transactions ran one after the other.
    #[serde(rename = "serializable")]
    Serializable,
}

impl Isolation {
    /// The level as SQL writes it.
    #[must_use]
    pub fn sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

/// The weights of TPC-C's five transactions; only their proportions matter.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Weight of New-Order.
    pub new_order: f64,
    /// Weight of Payment.
    pub payment: f64,
    /// Weight of Order-Status.
    pub order_status: f64,
    /// Weight of Delivery.
    pub delivery: f64,
    /// Weight of Stock-Level.
    pub stock_level: f64,
}

impl Mix {
    /// The weights in the order of `Tpcc::TRANSACTIONS`.
    #[must_use]
    pub fn weights(&self) -> [f64; 5] {
        [self.new_order, self.payment, self.order_status, self.delivery, self.stock_level]
    }
}

/// How to put load on the server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunJob {
    /// Number of clients, one connection each.
    pub connections: u32,
    /// Worker threads.
    pub threads: u32,
    /// Load before the window, which is not counted.
    pub warm_up_s: f64,
    /// Whether the caller says when the window opens, after the warm-up.
    pub handshake: bool,
    /// Length of the window.
    pub duration_s: f64,
    /// With fewer commits than this at the end of `duration_s`, the window goes on.
    pub min_commits: u64,
    /// The window never goes on beyond this.
    pub budget_s: f64,
    /// Length of a sample.
    pub interval_s: f64,
    /// How long to wait for cancelled work before its sockets are closed.
    pub grace_s: f64,
    /// When transactions arrive.
    pub pacing: Pacing,
    /// How many clients work at a time, and the rate; empty: all of them, at the pacing's rate.
    pub steps: Vec<StepJob>,
    /// An arrival that is later than this is skipped, a commit that took longer is counted.
    pub latency_limit_us: Option<u64>,
}

/// When transactions arrive.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pacing {
    /// Each client begins the next one when the last has ended.
    Closed,
    /// From a schedule, whatever the server does; latency counts from there.
    Open {
        /// Arrivals per second.
        rate_per_s: f64,
        /// The distribution of their gaps.
        arrivals: Arrivals,
        /// Of more arrivals that wait the oldest is dropped.
        backlog_limit: u32,
    },
    /// As BenchBase does: equal gaps, one queue; latency counts from when a client took it.
    Benchbase {
        /// Arrivals per second.
        rate_per_s: f64,
        /// What finds this many waiting is dropped.
        queue_limit: u32,
    },
}

/// The distribution of the gaps between arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Uniform,
}

/// What holds from a moment of the window on.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepJob {
    /// Seconds after the opening; what holds at 0 holds in the warm-up as well.
    pub at_s: f64,
    /// Clients that work.
    pub sessions: u32,
    /// Arrivals per second; null: the pacing's.
    pub rate_per_s: Option<f64>,
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

/// Arrivals that may wait: 80 MB of them.
const WAITING_MAX: u32 = 10_000_000;

/// Ten times the waits of the specification: minutes for each transaction.
const WAIT_SCALE_MAX: f64 = 10.0;

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

    /// Where the job's server is.
    #[must_use]
    pub fn target(&self) -> Target {
        Target::new(
            &self.server.host,
            self.server.port,
            &self.server.user,
            &self.server.database,
            self.server.password.as_deref(),
            &self.server.application_name,
        )
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
        self.workload.check()?;
        self.run.as_ref().map_or(Ok(()), RunJob::check)?;
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
}

impl TpccJob {
    fn check(&self) -> Result<(), String> {
        check_at_least_one("workload.warehouses", self.warehouses)?;
        check_at_least_one("workload.max_tries", self.max_tries)?;
        if !(0.0..=WAIT_SCALE_MAX).contains(&self.wait_scale) {
            return Err(format!(
                r#"key "workload.wait_scale" must be between 0 and {WAIT_SCALE_MAX}, not {}"#,
                self.wait_scale
            ));
        }
        let weights = self.mix.weights();
        let is_sound = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if is_sound && weights.iter().sum::<f64>() > 0.0 {
            Ok(())
        } else {
            Err(format!(
                r#"key "workload.mix" must hold weights of 0 or more with a sum above 0, not {weights:?}"#
            ))
        }
    }
}

impl RunJob {
    fn check(&self) -> Result<(), String> {
        check_at_least_one("run.connections", self.connections)?;
        check_at_least_one("run.threads", self.threads)?;
        check_duration("run.duration_s", self.duration_s)?;
        check_duration("run.budget_s", self.budget_s)?;
        check_duration("run.interval_s", self.interval_s)?;
        check_not_negative("run.warm_up_s", self.warm_up_s)?;
        check_not_negative("run.grace_s", self.grace_s)?;
        if self.budget_s < self.duration_s {
            return Err(format!(
                r#"key "run.budget_s" must be at least run.duration_s ({}), not {}"#,
                self.duration_s, self.budget_s
            ));
        }
        if self.interval_s < 0.01 {
            return Err(format!(
                r#"key "run.interval_s" must be at least 0.01, not {}"#,
                self.interval_s
            ));
        }
        if self.latency_limit_us == Some(0) {
            return Err(r#"key "run.latency_limit_us" must be at least 1 or null, not 0"#.into());
        }
        self.pacing.check()?;
        self.check_steps()
    }

    fn check_steps(&self) -> Result<(), String> {
        let mut earliest_s = 0.0;
        for (index, step) in self.steps.iter().enumerate() {
            let key = |name: &str| format!("run.steps[{index}].{name}");
            check_not_negative(&key("at_s"), step.at_s)?;
            if (index == 0 && step.at_s != 0.0) || (index > 0 && step.at_s <= earliest_s) {
                let rule = if index == 0 { "be 0" } else { "be above the one before" };
                return Err(format!(r#"key "{}" must {rule}, not {}"#, key("at_s"), step.at_s));
            }
            earliest_s = step.at_s;
            if step.sessions > self.connections {
                return Err(format!(
                    r#"key "{}" must be at most run.connections ({}), not {}"#,
                    key("sessions"),
                    self.connections,
                    step.sessions
                ));
            }
            match step.rate_per_s {
                Some(rate) if self.pacing == Pacing::Closed => {
                    return Err(format!(
                        r#"key "{}" must be null in a closed loop, not {rate}"#,
                        key("rate_per_s")
                    ));
                }
                // Nothing arrives during a pause.
                Some(0.0) | None => {}
                Some(rate) => check_rate(&key("rate_per_s"), rate)?,
            }
        }
        Ok(())
    }
}

impl Pacing {
    fn check(self) -> Result<(), String> {
        let (rate, key, limit) = match self {
            Self::Closed => return Ok(()),
            Self::Open { rate_per_s, backlog_limit, .. } => {
                (rate_per_s, "backlog_limit", backlog_limit)
            }
            Self::Benchbase { rate_per_s, queue_limit } => (rate_per_s, "queue_limit", queue_limit),
        };
        check_rate("run.pacing.rate_per_s", rate)?;
        if (1..=WAITING_MAX).contains(&limit) {
            Ok(())
        } else {
            Err(format!(
                r#"key "run.pacing.{key}" must be between 1 and {WAITING_MAX}, not {limit}"#
            ))
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

fn check_rate(key: &str, rate: f64) -> Result<(), String> {
    if (1e-6..=1e6).contains(&rate) {
        Ok(())
    } else {
        Err(format!(r#"key "{key}" must be between 0.000001 and 1000000, not {rate}"#))
    }
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
