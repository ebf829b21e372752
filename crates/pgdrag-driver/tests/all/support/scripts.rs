//! A workload of SQL text for tests of the engine, and runs of it.

use std::sync::Arc;
use std::time::Duration;

use pgdrag_driver::error::Error;
use pgdrag_driver::io::timer::Timers;
use pgdrag_driver::job::RunJob;
use pgdrag_driver::load::caller::Said;
use pgdrag_driver::load::run::{self, Order};
use pgdrag_driver::output::Output;
use pgdrag_driver::session::{Connection, Target};
use pgdrag_driver::workload::{Ended, Terminal, Workload};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Each transaction is a list of statements; the types take turns. A statement of [`PAUSE`] is a
/// pause of the client, which nothing on the server can cancel.
#[derive(Clone, Copy)]
pub struct Script {
    pub names: &'static [&'static str],
    pub transactions: &'static [&'static [&'static str]],
}

pub const PAUSE: &str = "(pause)";
/// Client 1 holds up its whole thread, longer than a run waits for it.
pub const STUCK: &str = "(stuck)";
/// What no client can do.
pub const MISTAKE: &str = "(mistake)";

pub struct Turns {
    script: Script,
    client: u32,
    drawn: usize,
}

impl Workload for Script {
    type Terminal = Turns;

    fn transactions(&self) -> Arc<[Arc<str>]> {
        self.names.iter().copied().map(Arc::from).collect()
    }

    fn max_tries(&self) -> u32 {
        100
    }

    fn weights(&self) -> Vec<f64> {
        vec![1.0; self.names.len()]
    }

    async fn terminal(&self, client: u32, _: u32, _: &mut Connection) -> Result<Turns, Error> {
        Ok(Turns { script: *self, client, drawn: client as usize })
    }
}

impl Terminal for Turns {
    fn draw(&mut self) -> usize {
        self.drawn += 1;
        self.drawn % self.script.names.len()
    }

    async fn attempt(&mut self, conn: &mut Connection, timers: &Timers) -> Result<Ended, Error> {
        conn.begin();
        for sql in self.script.transactions[self.drawn % self.script.names.len()] {
            match *sql {
                PAUSE => timers.sleep(Duration::from_millis(500)).await,
                STUCK if self.client == 1 => std::thread::sleep(Duration::from_secs(15)),
                STUCK => {}
                MISTAKE => return Err(Error::Fatal("script is wrong".into())),
                sql => conn.simple(sql).await?,
            }
        }
        conn.commit().await?;
        Ok(Ended::Committed)
    }

    async fn reconnect(&mut self, _: &mut Connection) -> Result<(), Error> {
        Ok(())
    }
}

pub const QUICK: Script = Script { names: &["quick"], transactions: &[&["select 1"]] };

pub fn job(changes: &Value) -> RunJob {
    let mut job = json!({
        "connections": 4, "threads": 2, "reconnect": false, "warm_up_s": 0.0, "handshake": false, "duration_s": 0.5,
        "min_commits": 0, "budget_s": 0.5, "interval_s": 0.2, "grace_s": 2.0,
        "pacing": {"kind": "closed"}, "steps": [], "latency_limit_us": null,
    });
    for (key, value) in changes.as_object().expect("an object") {
        job[key] = value.clone();
    }
    serde_json::from_value(job).expect("a sound job")
}

pub async fn run_until(
    target: Target,
    script: Script,
    job: &RunJob,
    stop: impl Future<Output = ()>,
) -> Result<Vec<Value>, Error> {
    run_with(target, script, job, stop, std::future::pending()).await
}

pub async fn run_with(
    target: Target,
    script: Script,
    job: &RunJob,
    stop: impl Future<Output = ()>,
    answer: impl Future<Output = Said>,
) -> Result<Vec<Value>, Error> {
    let (lines, ended) = lines_and_end(target, script, job, stop, answer).await;
    ended.map(|()| lines)
}

/// The lines of a run, whether it ended well or not.
pub async fn lines_and_end(
    target: Target,
    script: Script,
    job: &RunJob,
    stop: impl Future<Output = ()>,
    answer: impl Future<Output = Said>,
) -> (Vec<Value>, Result<(), Error>) {
    let (say, said) = unbounded_channel();
    let answering = async {
        say.send(answer.await).expect("the run listens");
        std::future::pending().await
    };
    tokio::select! {
        ended = run_hearing(target, script, job, stop, said) => ended,
        ended = answering => ended,
    }
}

/// Like [`lines_and_end`], of a run that hears all this.
pub async fn run_hearing(
    target: Target,
    script: Script,
    job: &RunJob,
    stop: impl Future<Output = ()>,
    said: UnboundedReceiver<Said>,
) -> (Vec<Value>, Result<(), Error>) {
    let mut written = Vec::new();
    let mut output = Output::new(&mut written);
    // A thousand processes take a while to start.
    let connect_timeout = Duration::from_secs(if job.connections < 500 { 2 } else { 120 });
    let workload = Arc::new(script);
    let order = Order { job, seed: 7, target, connect_timeout, workload };
    let ended = run::run(order, &mut output, stop, said).await;
    let text = String::from_utf8(written).expect("JSON is UTF-8");
    (text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(), ended)
}

pub async fn lines(target: Target, script: Script, job: &RunJob) -> Vec<Value> {
    run_until(target, script, job, std::future::pending()).await.expect("a run")
}

/// BenchBase's pacing, with room for ten.
pub fn benchbase(rate_per_s: f64) -> Value {
    json!({"pacing": {"kind": "benchbase", "rate_per_s": rate_per_s, "queue_limit": 10}})
}

pub fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

pub fn phases(lines: &[Value]) -> Vec<&str> {
    of_type(lines, "phase").iter().map(|line| line["name"].as_str().expect("a name")).collect()
}

pub fn total(done: &Value, transaction: &str, key: &str) -> u64 {
    done["transactions"][transaction][key].as_u64().expect("a count")
}

/// Makes sure that every count of the intervals sums up to its total, and the lengths to the window.
pub fn assert_sums(lines: &[Value]) {
    let done = lines.last().expect("lines");
    let intervals = of_type(lines, "interval");
    for (name, totals) in done["transactions"].as_object().expect("types") {
        let keys = ["scheduled", "committed", "rolled_back", "failed", "dropped", "skipped"];
        for key in keys.into_iter().chain(["retried", "tried", "over_limit"]) {
            let sum: u64 = intervals.iter().map(|line| total(line, name, key)).sum();
            // What was in flight at the end never ends in an interval, and has begun in one.
            assert_eq!(sum, totals[key].as_u64().expect("a count"), "{name}: {key}");
        }
    }
    let lengths = intervals.iter().map(|line| line["duration_s"].as_f64().expect("seconds"));
    let elapsed_s = done["elapsed_s"].as_f64().expect("seconds");
    assert!((lengths.sum::<f64>() - elapsed_s).abs() < 1e-6, "{done}");
}
