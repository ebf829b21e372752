//! What does the driver tell its caller?
//!
//! One JSON object a line, as `docs/reference/driver-contract.md` lists them.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::Serialize;
use serde_json::{Value, json};

use crate::job::{Action, CONTRACT};
use crate::pacing::Arrivals;
use crate::process::CpuTime;
use crate::samples::{Counts, Latencies};
use crate::workload::{LoadSummary, Progress, Violation};

/// The version in `hello` and of `--version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// At most this many distinct errors are told of.
const ERRORS_MAX: usize = 100;

/// Writes lines, and knows the time since the first one.
pub struct Output<'a> {
    sink: &'a mut dyn Write,
    hello: Instant,
    phase: &'static str,
}

/// The driver's own part in the measurement.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct DriverCost {
    /// CPU time in user mode over the window.
    pub user_cpu_s: f64,
    /// CPU time in the kernel over the window.
    pub system_cpu_s: f64,
    /// How late a 10 ms timer fired, 99th percentile.
    pub loop_lag_us_p99: u64,
    /// How late a 10 ms timer fired at worst.
    pub loop_lag_us_max: u64,
    /// Worker threads.
    pub threads: u32,
}

/// The result of a run.
pub struct RunSummary {
    /// The window as it was, first start to deadline.
    pub elapsed_s: f64,
    /// Why it ended.
    pub stopped_by: &'static str,
    /// By transaction type.
    pub totals: Vec<(&'static str, Counts)>,
    /// With a rate.
    pub arrivals: Option<Arrivals>,
    /// What the driver itself used.
    pub driver: DriverCost,
}

impl DriverCost {
    /// Puts together what was measured about the driver.
    #[must_use]
    pub fn new(cpu: CpuTime, lags: &Latencies, threads: u32) -> Self {
        Self {
            user_cpu_s: cpu.user_s,
            system_cpu_s: cpu.system_s,
            loop_lag_us_p99: lags.value_at_quantile(0.99),
            loop_lag_us_max: lags.max(),
            threads,
        }
    }
}

impl<'a> Output<'a> {
    /// Starts the clock; [`Output::hello`] comes first.
    pub fn new(sink: &'a mut dyn Write) -> Self {
        Self { sink, hello: Instant::now(), phase: "connect" }
    }

    /// Seconds since the start.
    #[must_use]
    pub fn t_s(&self) -> f64 {
        self.t_s_at(Instant::now())
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

    /// An interval of a run is complete.
    pub fn interval(&mut self, end: Instant, duration_s: f64, counts: &[(&'static str, Counts)]) {
        self.line(&json!({
            "type": "interval",
            "t_s": self.t_s_at(end),
            "duration_s": duration_s,
            "transactions": transactions(counts),
        }));
    }

    /// The last line of a run.
    ///
    /// # Panics
    /// When a scheduled transaction did not end in exactly one way.
    pub fn done_run(&mut self, summary: &RunSummary) {
        for (transaction, counts) in &summary.totals {
            counts.assert_balanced(transaction);
        }
        let mut line = json!({
            "type": "done",
            "t_s": self.t_s(),
            "elapsed_s": summary.elapsed_s,
            "stopped_by": summary.stopped_by,
            "transactions": transactions(&summary.totals),
            "errors": errors(&summary.totals),
            "driver": summary.driver,
        });
        if let Some(arrivals) = &summary.arrivals {
            let scheduled: u64 = summary.totals.iter().map(|(_, counts)| counts.scheduled).sum();
            assert_eq!(arrivals.scheduled, scheduled, "the ticker's arrivals are the scheduled");
            line["arrivals"] = json!({
                "scheduled": arrivals.scheduled,
                "dropped": arrivals.dropped,
                "max_queue": arrivals.max_queue,
                "queue_us_p99": arrivals.queue_us_p99,
                "queue_us_max": arrivals.queue_us_max,
            });
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

    fn t_s_at(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.hello).as_secs_f64()
    }

    fn line(&mut self, line: &Value) {
        let text = format!("{line}\n");
        if let Err(error) = self.sink.write_all(text.as_bytes()).and_then(|()| self.sink.flush()) {
            // Nobody listens: no result can be told, and nothing is left to do.
            eprintln!("pgdrag-driver: could not write a line: {error}");
            std::process::exit(1);
        }
    }
}

fn transactions(counts: &[(&'static str, Counts)]) -> Value {
    counts.iter().map(|(name, counts)| ((*name).to_owned(), one_type(counts))).collect()
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
        "retried": counts.retried,
    });
    if let Some(latencies) = &counts.latencies {
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

fn errors(counts: &[(&'static str, Counts)]) -> Vec<Value> {
    counts
        .iter()
        .flat_map(|(name, counts)| counts.failed.iter().map(move |failed| (name, failed)))
        .take(ERRORS_MAX)
        .map(|(name, (sqlstate, failures))| {
            json!({
                "transaction": name,
                "sqlstate": sqlstate,
                "message": failures.message,
                "count": failures.count,
            })
        })
        .collect()
}
