//! What does the driver tell its caller?
//!
//! One JSON object a line, as `docs/reference/driver-contract.md` lists them.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::Serialize;
use serde_json::{Value, json};

use tokio::sync::Notify;

use crate::io::clock::{Clock, Moment};
use crate::io::process::{CpuTime, max_rss_bytes, processors};
use crate::job::{Action, CONTRACT};
use crate::load::samples::{Counts, Laps, Latencies};
use crate::load::tally::Insight;
use crate::workload::{Example, LoadSummary, Progress, StatementName, Sum, Violation};

/// The version in `hello` and of `--version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// At most this many distinct errors are told of.
const ERRORS_MAX: usize = 100;

/// How many processes were seen in each state, added up over looks: by type of backend, and by wait.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// How many looks were taken.
    pub looks: u64,
    /// Processes by type of backend and wait.
    pub processes: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What a watch came to.
#[derive(Debug, Clone, Copy)]
pub struct WatchSummary {
    /// How many looks were taken.
    pub looks: u64,
    /// How long it went on.
    pub elapsed_s: f64,
    /// What it used itself.
    pub cpu: CpuTime,
}

/// Writes lines, and knows the time since the first one.
pub struct Output<'a> {
    sink: &'a mut dyn Write,
    clock: Clock,
    phase: &'static str,
    is_broken: bool,
    broken: Arc<Notify>,
}

/// The driver's own part in the measurement: the proof that it was not the bottleneck.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct DriverCost {
    /// CPU time in user mode over the window.
    pub user_cpu_s: f64,
    /// CPU time in the kernel over the window.
    pub system_cpu_s: f64,
    /// CPU time of the worker thread that used most of it.
    pub busiest_thread_cpu_s: f64,
    /// How long the worker thread that did so most ran or waited for a processor; `None` where the kernel does not say.
    pub busiest_thread_busy_s: Option<f64>,
    /// Worker threads.
    pub threads: u32,
    /// Processors that the driver may use.
    pub processors: u32,
    /// The most memory that the driver ever had resident.
    pub max_rss_bytes: u64,
    /// How long an answer that had arrived waited for the driver, 99th percentile.
    pub send_lag_us_p99: u64,
    /// How long it waited at worst.
    pub send_lag_us_max: u64,
    /// How much later than due a free client began, 99th percentile; `None` in a closed loop.
    pub lateness_us_p99: Option<u64>,
    /// How much later at worst.
    pub lateness_us_max: Option<u64>,
    /// How late a 10 ms timer fired, 99th percentile.
    pub stall_us_p99: u64,
    /// How late a 10 ms timer fired at worst.
    pub stall_us_max: u64,
    /// Questions that were sent and answered.
    pub round_trips: u64,
    /// What a question takes that asks for nothing, before the load; `None` if it was not measured.
    pub round_trip_us: Option<f64>,
}

/// What became of a schedule's arrivals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Arrivals {
    /// Due in the window, or carried into it.
    pub scheduled: u64,
    /// Due before the window, and not ended when it opened.
    pub carried: u64,
    /// Gave way in a full queue.
    pub dropped: u64,
    /// Too old to begin when a client was free.
    pub skipped: u64,
    /// Begun after they were due because no client was free.
    pub late: u64,
    /// Most that waited at one time.
    pub max_queue: usize,
    /// Time that an arrival waited, median.
    pub queue_us_p50: u64,
    /// Time that an arrival waited, 99th percentile.
    pub queue_us_p99: u64,
    /// The longest wait.
    pub queue_us_max: u64,
}

/// The result of a run.
pub struct RunSummary {
    /// The window as it was, opening to deadline.
    pub elapsed_s: f64,
    /// The warm-up as it was.
    pub warm_up_s: f64,
    /// Why the window ended.
    pub stopped_by: &'static str,
    /// The transactions' names.
    pub names: Arc<[Arc<str>]>,
    /// Their counts.
    pub totals: Vec<Counts>,
    /// With a schedule.
    pub arrivals: Option<Arrivals>,
    /// How long its arrivals waited.
    pub queued: Option<Latencies>,
    /// The statements' executions, where they are told.
    pub statements: Vec<(StatementName, Laps)>,
    /// What variables sum to, where that is asked for.
    pub sums: Vec<(String, Sum)>,
    /// How long connecting took, where each transaction has a connection of its own.
    pub connecting: Option<Latencies>,
    /// What the driver itself used.
    pub driver: DriverCost,
}

impl DriverCost {
    /// Puts together what was measured about the driver.
    #[must_use]
    pub(crate) fn new(
        cpu: CpuTime,
        insight: &Insight,
        threads: u32,
        has_schedule: bool,
        round_trip: Duration,
    ) -> Self {
        let p99 = |lags: &Latencies| lags.value_at_quantile(0.99);
        Self {
            user_cpu_s: cpu.user_s,
            system_cpu_s: cpu.system_s,
            busiest_thread_cpu_s: insight.cpu.as_secs_f64(),
            busiest_thread_busy_s: insight.busy.map(|busy| busy.as_secs_f64()),
            threads,
            processors: processors(),
            max_rss_bytes: max_rss_bytes(),
            send_lag_us_p99: p99(&insight.send_lag),
            send_lag_us_max: insight.send_lag.max(),
            lateness_us_p99: has_schedule.then(|| p99(&insight.lateness)),
            lateness_us_max: has_schedule.then(|| insight.lateness.max()),
            stall_us_p99: p99(&insight.stalls),
            stall_us_max: insight.stalls.max(),
            round_trips: insight.round_trips,
            round_trip_us: (!round_trip.is_zero()).then_some(round_trip.as_secs_f64() * 1e6),
        }
    }
}

impl<'a> Output<'a> {
    /// Starts the clock; [`Output::hello`] comes first.
    pub fn new(sink: &'a mut dyn Write) -> Self {
        let (clock, broken) = (Clock::start(), Arc::default());
        Self { sink, clock, phase: "connect", is_broken: false, broken }
    }

    /// The clock of the job, which began with it.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether a line could not be written: nobody listens, and there is nobody to work for.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Told when a line cannot be written.
    #[must_use]
    pub fn broken(&self) -> Arc<Notify> {
        Arc::clone(&self.broken)
    }

    /// Seconds since the start.
    #[must_use]
    pub fn t_s(&self) -> f64 {
        self.clock.now().seconds()
    }

    /// The first line.
    pub fn hello(&mut self, action: Action) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.line(&json!({
            "type": "hello",
            "contract": CONTRACT,
            "driver_version": VERSION,
            "pid": std::process::id(),
            "action": action.name(),
            "started_unix_s": unix.as_secs_f64(),
        }));
    }

    /// A phase begins.
    pub fn phase(&mut self, name: &'static str) {
        self.phase = name;
        self.line(&json!({"type": "phase", "name": name, "t_s": self.t_s()}));
    }

    /// A load has come this far; a phase that was not announced is announced.
    pub fn progress(&mut self, progress: Progress) {
        if self.phase != progress.phase {
            self.phase(progress.phase);
        }
        let Progress { phase, done, total } = progress;
        self.line(&json!({
            "type": "progress", "phase": phase, "done": done, "total": total, "t_s": self.t_s(),
        }));
    }

    /// The warm-up has come this much further.
    pub fn warming(&mut self, length: Duration, committed: u64, failed: u64) {
        self.line(&json!({
            "type": "warming",
            "t_s": self.t_s(),
            "duration_s": length.as_secs_f64(),
            "committed": committed,
            "failed": failed,
        }));
    }

    /// The warm-up is over, and the caller decides when the window opens.
    pub fn warm(&mut self) {
        self.line(&json!({"type": "warm", "t_s": self.t_s()}));
    }

    /// What time it is, for a caller who asked at `received`.
    pub fn time(&mut self, id: u64, received: Moment) {
        let received_s = received.seconds();
        self.line(&json!({"type": "clock", "id": id, "received_s": received_s, "t_s": self.t_s()}));
    }

    /// An interval of a run is complete; `sessions` clients worked at its end.
    pub fn interval(
        &mut self,
        end: Moment,
        duration_s: f64,
        sessions: u32,
        names: &[Arc<str>],
        counts: &[Counts],
    ) {
        self.line(&json!({
            "type": "interval",
            "t_s": end.seconds(),
            "duration_s": duration_s,
            "sessions": sessions,
            "transactions": transactions(names, counts),
        }));
    }

    /// The last line of a run.
    ///
    /// # Panics
    /// When a scheduled transaction did not end in exactly one way.
    pub fn done_run(&mut self, summary: &RunSummary) {
        for (transaction, counts) in summary.names.iter().zip(&summary.totals) {
            counts.assert_balanced(transaction);
        }
        let mut line = json!({
            "type": "done",
            "t_s": self.t_s(),
            "elapsed_s": summary.elapsed_s,
            "warm_up_s": summary.warm_up_s,
            "stopped_by": summary.stopped_by,
            "transactions": transactions(&summary.names, &summary.totals),
            "errors": errors(&summary.names, &summary.totals),
            "driver": summary.driver,
        });
        if let Some(arrivals) = &summary.arrivals {
            // The schedule counted what was due, the clients and the queue what became of it.
            let scheduled: u64 = summary.totals.iter().map(|counts| counts.scheduled).sum();
            assert_eq!(arrivals.scheduled, scheduled, "every arrival ends in exactly one way");
            line["arrivals"] = json!(arrivals);
            if let Some(queued) = &summary.queued {
                line["arrivals"]["queue"] = histogram(queued);
            }
        }
        if !summary.statements.is_empty() {
            line["statements"] = statements(&summary.names, &summary.statements);
        }
        if !summary.sums.is_empty() {
            line["sums"] =
                summary.sums.iter().cloned().map(|(name, sum)| (name, json!(sum))).collect();
        }
        if let Some(connecting) = &summary.connecting {
            line["connecting"] = histogram(connecting);
        }
        self.line(&line);
    }

    /// The last line of a load.
    pub fn done_load(&mut self, summary: &LoadSummary, elapsed_s: f64) {
        let phases: serde_json::Map<_, _> =
            summary.phases.iter().map(|(name, s)| ((*name).to_owned(), json!(s))).collect();
        self.line(&json!({
            "type": "done",
            "t_s": self.t_s(),
            "rows": summary.rows,
            "bytes": summary.bytes,
            "elapsed_s": elapsed_s,
            "phases": phases,
        }));
    }

    /// The last line of a check.
    pub fn done_check(&mut self, violations: &[Violation], checked: &[String]) {
        let violations: Vec<_> = violations
            .iter()
            .map(|Violation { condition, message, count }| {
                json!({"condition": condition, "message": message, "count": count})
            })
            .collect();
        self.line(&json!({
            "type": "done", "t_s": self.t_s(), "violations": violations, "checked": checked,
        }));
    }

    /// The last line of a job that was only compiled.
    pub fn done_compile(&mut self, names: &[Arc<str>], examples: &[Example]) {
        let examples: Vec<_> = examples
            .iter()
            .map(|Example { transaction, text, values }| {
                json!({"transaction": *names[*transaction], "text": text, "values": values})
            })
            .collect();
        self.line(&json!({"type": "done", "t_s": self.t_s(), "examples": examples}));
    }

    /// What a watch saw in an interval.
    pub fn waits(&mut self, end: Moment, duration_s: f64, seen: &Seen) {
        self.line(&json!({
            "type": "waits",
            "t_s": end.seconds(),
            "duration_s": duration_s,
            "looks": seen.looks,
            "processes": seen.processes,
        }));
    }

    /// The last line of a watch.
    pub fn done_watch(&mut self, summary: WatchSummary) {
        self.line(&json!({
            "type": "done",
            "t_s": self.t_s(),
            "elapsed_s": summary.elapsed_s,
            "looks": summary.looks,
            "cpu_s": summary.cpu.user_s + summary.cpu.system_s,
        }));
    }

    /// The last line of whatever went wrong.
    pub fn error(&mut self, message: &str, sqlstate: Option<&str>) {
        self.line(&json!({
            "type": "error",
            "message": message,
            "sqlstate": sqlstate,
            "phase": self.phase,
            "t_s": self.t_s(),
        }));
    }

    fn line(&mut self, line: &Value) {
        if self.is_broken {
            return;
        }
        let text = format!("{line}\n");
        if let Err(error) = self.sink.write_all(text.as_bytes()).and_then(|()| self.sink.flush()) {
            eprintln!("pgdrag-driver: could not write a line: {error}");
            self.is_broken = true;
            self.broken.notify_one();
        }
    }
}

fn transactions(names: &[Arc<str>], counts: &[Counts]) -> Value {
    names.iter().zip(counts).map(|(name, counts)| (name.to_string(), one_type(counts))).collect()
}

fn one_type(counts: &Counts) -> Value {
    let by_sqlstate: BTreeMap<_, _> =
        counts.failed.iter().map(|(sqlstate, failures)| (sqlstate, failures.count)).collect();
    let mut object = json!({
        "scheduled": counts.scheduled,
        "committed": counts.committed,
        "rolled_back": counts.rolled_back,
        "failed": counts.failed_total(),
        "failed_by_sqlstate": by_sqlstate,
        "in_flight": counts.in_flight,
        "dropped": counts.dropped,
        "skipped": counts.skipped,
        "retried": counts.retried,
        "tried": counts.tried,
        "over_limit": counts.over_limit,
    });
    if let Some(latencies) = counts.latencies.as_ref().filter(|latencies| !latencies.is_empty()) {
        object["latency"] = histogram(latencies);
    }
    object
}

fn histogram(latencies: &Latencies) -> Value {
    let mut encoded = Vec::new();
    V2DeflateSerializer::new()
        .serialize(latencies, &mut encoded)
        .expect("a histogram can be written to memory");
    json!({
        "count": latencies.len(),
        "mean_us": latencies.mean(),
        "p50_us": latencies.value_at_quantile(0.5),
        "p95_us": latencies.value_at_quantile(0.95),
        "p99_us": latencies.value_at_quantile(0.99),
        "max_us": latencies.max(),
        "encoded": STANDARD.encode(encoded),
    })
}

#[allow(clippy::cast_precision_loss)] // a mean of fewer than 2^52
fn statements(names: &[Arc<str>], statements: &[(StatementName, Laps)]) -> Value {
    let one = |(name, laps): &(StatementName, Laps)| {
        let mean_us = laps.total.as_secs_f64() * 1e6 / laps.succeeded as f64;
        json!({
            "transaction": *names[name.transaction],
            "line": name.line,
            "text": name.text,
            "succeeded": laps.succeeded,
            "mean_us": (laps.succeeded > 0).then_some(mean_us),
            "failed": laps.failed,
            "retried": laps.retried,
        })
    };
    statements.iter().map(one).collect()
}

fn errors(names: &[Arc<str>], counts: &[Counts]) -> Vec<Value> {
    names
        .iter()
        .zip(counts)
        .flat_map(|(name, counts)| counts.failed.iter().map(move |failed| (name, failed)))
        .take(ERRORS_MAX)
        .map(|(name, (sqlstate, failures))| {
            json!({
                "transaction": **name,
                "sqlstate": sqlstate,
                "message": failures.message,
                "count": failures.count,
            })
        })
        .collect()
}
