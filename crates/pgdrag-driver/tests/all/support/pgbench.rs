//! A job of pgbench's scripts for tests, and runs of it.

use std::sync::Arc;
use std::time::Duration;

use pgdrag_driver::error::Error;
use pgdrag_driver::job::PgbenchJob;
use pgdrag_driver::job::{Action, RunJob};
use pgdrag_driver::load::run::{self, Order};
use pgdrag_driver::output::Output;
use pgdrag_driver::script::Scripts;
use serde_json::{Value, json};

use super::Server;

pub const SEED: u64 = 7;
pub const MODES: [&str; 3] = ["simple", "extended", "prepared"];

/// A job of scripts, each with its weight.
pub fn scripts(statements: &str, texts: &[(&str, &str, u32)]) -> Value {
    let scripts: Vec<Value> = texts
        .iter()
        .map(|(name, text, weight)| json!({"name": name, "text": text, "weight": weight}))
        .collect();
    json!({
        "scripts": scripts, "statements": statements, "variables": {}, "scale": 1, "max_tries": 1,
        "allow_shell": false, "time_statements": false, "tables": null,
    })
}

pub fn with(mut job: Value, key: &str, value: Value) -> Value {
    job[key] = value;
    job
}

pub fn compiled(job: Value) -> Result<Scripts, String> {
    let job: PgbenchJob = serde_json::from_value(job).expect("a sound job");
    Scripts::new(&job, Action::Run, SEED)
}

/// Runs a job for 0.3 s, and returns its last line.
pub async fn done(server: &Server, connections: u32, job: Value) -> Result<Value, Error> {
    let workload = Arc::new(compiled(job).expect("scripts without mistakes"));
    let run_job: RunJob = serde_json::from_value(json!({
        "connections": connections, "threads": 2, "reconnect": false, "warm_up_s": 0.0, "handshake": false,
        "duration_s": 0.3, "min_commits": 1, "budget_s": 20.0, "interval_s": 0.2, "grace_s": 2.0,
        "pacing": {"kind": "closed"}, "steps": [], "latency_limit_us": null,
    }))
    .expect("a sound job");
    let mut written = Vec::new();
    let mut output = Output::new(&mut written);
    let connect_timeout = Duration::from_secs(5);
    let order =
        Order { job: &run_job, seed: SEED, target: server.target(), connect_timeout, workload };
    let (_silent, said) = tokio::sync::mpsc::unbounded_channel();
    run::run(order, &mut output, std::future::pending(), said).await?;
    let text = String::from_utf8(written).expect("JSON is UTF-8");
    Ok(serde_json::from_str(text.lines().last().expect("a line")).expect("JSON"))
}

pub fn count(done: &Value, transaction: &str, key: &str) -> u64 {
    done["transactions"][transaction][key].as_u64().expect("a count")
}
