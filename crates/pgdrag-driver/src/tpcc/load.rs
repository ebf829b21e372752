//! How does the dataset get into the server in the shortest time?
//!
//! Tables first and empty, then their rows by COPY, then keys and indexes, then foreign keys, then VACUUM
//! ANALYZE. Each phase is a list of tasks that several connections work off, largest first. A table is
//! filled by one connection, in the transaction that emptied it: only so can its rows be frozen as they
//! come, and, with `wal_level` minimal, bypass the write-ahead log. On two processors this takes four
//! fifths of the time that a stream for each warehouse takes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::copy_rows::CopyRows;
use super::schema::{TABLES, Table};
use crate::connection::{Connection, Target};
use crate::error::Error;
use crate::workload::{LoadSummary, OnProgress, Progress};

/// How often progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// How often the end of a phase is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How much is gathered before it is sent.
const SEND_BYTES: usize = 256 * 1024;

/// What one connection does at a time.
#[derive(Clone, Debug)]
enum Task {
    Statement(String),
    Fill(&'static Table),
}

/// A phase's tasks, and how far they have come: shared by the threads that work on it.
struct Phase {
    seed: u64,
    warehouses: u32,
    tasks: Mutex<VecDeque<Task>>,
    /// Rows or statements.
    done: AtomicU64,
    copied_bytes: AtomicU64,
    is_stopped: AtomicBool,
}

/// Stops the phase's threads at their next step if the load is given up in mid-phase.
struct StopOnDrop(Arc<Phase>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// Makes and fills the tables, in place of any that have their names.
pub async fn load(
    target: &Target,
    parallelism: usize,
    (seed, warehouses): (u64, u32),
    progress: OnProgress<'_>,
) -> Result<LoadSummary, Error> {
    let rows = TABLES.iter().map(|table| table.source.rows(seed, warehouses)).sum();
    let mut summary = LoadSummary { rows, bytes: 0, phases: Vec::new() };
    for (name, tasks) in phases() {
        let started = Instant::now();
        let total = if name == "populate" { rows } else { tasks.len() as u64 };
        // The tables are made in one go: one statement drops them all, and others could wait for it.
        let connections = if name == "schema" { 1 } else { parallelism.min(tasks.len()) };
        let phase = Arc::new(Phase {
            seed,
            warehouses,
            tasks: Mutex::new(tasks.into()),
            done: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
        });
        let report = &mut |done| progress(Progress { phase: name, done, total });
        run_phase(target, connections, &phase, report).await?;
        summary.bytes += phase.copied_bytes.load(Ordering::Relaxed);
        summary.phases.push((name, started.elapsed().as_secs_f64()));
    }
    Ok(summary)
}

fn phases() -> [(&'static str, Vec<Task>); 5] {
    let statement = |sql: &str| Task::Statement(sql.to_owned());
    let names: Vec<_> = TABLES.iter().map(|table| table.name).collect();
    let drop = Task::Statement(format!("DROP TABLE IF EXISTS {} CASCADE", names.join(", ")));
    let create = TABLES.iter().map(|table| statement(table.create));
    // The first key of each table before the second of any: two of one table exclude each other.
    let keys = (0..2).flat_map(|n| TABLES.iter().filter_map(move |table| table.keys.get(n)));
    let foreign_keys = TABLES.iter().filter_map(|table| table.foreign_keys);
    let vacuum = |table: &Table| Task::Statement(format!("VACUUM (ANALYZE) {}", table.name));
    [
        ("schema", std::iter::once(drop).chain(create).collect()),
        ("populate", TABLES.iter().map(Task::Fill).collect()),
        ("index", keys.map(|sql| statement(sql)).collect()),
        ("foreign_keys", foreign_keys.map(statement).collect()),
        ("analyze", TABLES.iter().map(vacuum).collect()),
    ]
}

/// Works off a phase over `connections`, a thread each, since making rows is work for the processor.
async fn run_phase(
    target: &Target,
    connections: usize,
    phase: &Arc<Phase>,
    report: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let _stop = StopOnDrop(Arc::clone(phase));
    let start = |_| {
        let (target, phase) = (target.clone(), Arc::clone(phase));
        thread::spawn(move || phase.work(&target))
    };
    let mut workers: Vec<_> = (0..connections).map(start).collect();
    let mut reported = Instant::now();
    report(0);
    while !workers.is_empty() {
        tokio::time::sleep(LOOK_EVERY).await;
        for worker in workers.extract_if(.., |worker| worker.is_finished()) {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        if reported.elapsed() >= PROGRESS_EVERY {
            reported = Instant::now();
            report(phase.done.load(Ordering::Relaxed));
        }
    }
    report(phase.done.load(Ordering::Relaxed));
    Ok(())
}

impl Phase {
    /// What one thread does: takes tasks with a connection of its own until none is left.
    fn work(&self, target: &Target) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut conn = Connection::connect(target).await?;
            while let Some(task) = self.next_task() {
                match task {
                    Task::Statement(sql) => {
                        conn.simple(&sql).await?;
                        self.done.fetch_add(1, Ordering::Relaxed);
                    }
                    Task::Fill(table) => self.fill(table, &mut conn).await?,
                }
            }
            Ok(())
        })
    }

    fn next_task(&self) -> Option<Task> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    async fn fill(&self, table: &Table, conn: &mut Connection) -> Result<(), Error> {
        let name = table.name;
        conn.simple(&format!("BEGIN; TRUNCATE {name}")).await?;
        let sql = format!("COPY {name} FROM STDIN WITH (FORMAT binary, FREEZE)");
        let mut copy = conn.copy_in(&sql).await?;
        let mut rows = CopyRows::default();
        let mut written = 0;
        rows.header();
        for block in table.source.blocks(self.warehouses) {
            if self.is_stopped.load(Ordering::Relaxed) {
                // Dropping the COPY ends the session, and with it the transaction.
                return Ok(());
            }
            table.source.write(self.seed, block, &mut rows);
            let block_rows = table.source.block_rows(self.seed, block);
            written += block_rows;
            if rows.as_bytes().len() >= SEND_BYTES {
                self.send(&mut copy, &mut rows).await?;
            }
            self.done.fetch_add(block_rows, Ordering::Relaxed);
        }
        rows.trailer();
        self.send(&mut copy, &mut rows).await?;
        let taken = copy.finish().await?;
        if taken != written {
            let message = format!("{written} rows of table {name} were sent, and {taken} taken");
            return Err(Error::Protocol(message));
        }
        conn.simple("COMMIT").await
    }

    async fn send(
        &self,
        copy: &mut crate::connection::CopyIn<'_>,
        rows: &mut CopyRows,
    ) -> Result<(), Error> {
        copy.send(rows.as_bytes()).await?;
        self.copied_bytes.fetch_add(rows.as_bytes().len() as u64, Ordering::Relaxed);
        rows.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_left_out() {
        let keys: usize = TABLES.iter().map(|table| table.keys.len()).sum();
        let [_, _, (_, index), _, _] = phases();
        assert_eq!(index.len(), keys);
    }
}
