//! How does the dataset get into the server in the shortest time?
//!
//! Tables first and empty, then their rows by COPY, then keys and indexes, then foreign keys, then
//! ANALYZE, each table at its own pace (see `steps`). A table is filled by one connection, in the
//! transaction that emptied it: only so can its rows be frozen as they come, and, with `wal_level` minimal,
//! bypass the write-ahead log. On two processors this takes four fifths of the time that a stream for
//! each warehouse takes.
//!
//! A load always starts from nothing. Until it has ended, a mark says so (see `mark`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::mark;
use super::schema::{TABLES, Table};
use super::steps::{Next, PHASES, Step, Steps, Work};
use crate::error::Error;
use crate::session::copy_rows::CopyRows;
use crate::session::looking::lift_time_limit;
use crate::session::{Connection, CopyIn, Target};
use crate::workload::{LoadSummary, OnProgress, Progress};

/// How often progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// How often the end of a phase is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How much is gathered before it is sent: it stays in a processor's own cache.
const SEND_BYTES: usize = 64 * 1024;
/// How long the other sessions of a load that has failed may take to give up.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(5);

/// A server that is busy with an index looks whether its client is still there, so that a driver that was
/// killed leaves no work behind that holds up the next load. Memory for sorting is raised, never lowered.
///
/// Foreign keys are checked by joins, before ANALYZE: without statistics the planner would loop, or sort what
/// can be hashed, or comes in order out of an index.
const PREPARE: &str = "\
    SET client_connection_check_interval = '1s';
    SET enable_nestloop = off; SET enable_sort = off; SET jit = off;
    SELECT set_config(name, '0', false) FROM pg_settings
        WHERE name IN ('lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');
    SELECT set_config(name, '256MB', false) FROM pg_settings
        WHERE name = 'maintenance_work_mem' AND setting::bigint < 256 * 1024";

/// A load's steps, and how far they have come: shared by the threads that work on it.
struct Load {
    seed: u64,
    warehouses: u32,
    steps: Mutex<Steps>,
    /// Told when a step has ended, or all shall stop.
    changed: Condvar,
    rows_done: AtomicU64,
    copied_bytes: AtomicU64,
    is_stopped: AtomicBool,
    /// The first error of any session; what follows it are its consequences.
    failure: Mutex<Option<Error>>,
}

/// Stops the threads at their next step if the load is given up.
struct StopOnDrop(Arc<Load>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Makes and fills the tables, in place of any that have their names.
///
/// An error of one session ends the work of the others, on the server as well.
pub async fn load(
    target: &Target,
    parallelism: usize,
    (seed, warehouses): (u64, u32),
    progress: OnProgress<'_>,
) -> Result<LoadSummary, Error> {
    let began = Instant::now();
    make_tables(target, progress).await?;
    let rows = TABLES.iter().map(|table| table.source.rows(seed, warehouses)).sum();
    let load = Arc::new(Load {
        seed,
        warehouses,
        steps: Mutex::new(Steps::new()),
        changed: Condvar::new(),
        rows_done: AtomicU64::new(0),
        copied_bytes: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
        failure: Mutex::new(None),
    });
    let mut phases = Phases::new(&load, rows, progress, began);
    work_off(target, parallelism, &load, &mut phases).await?;
    let phases = phases.seconds;
    let mut conn = Connection::connect(target).await?;
    conn.simple(mark::CLEAR).await?;
    Ok(LoadSummary { rows, bytes: load.copied_bytes.load(Ordering::Relaxed), phases })
}

async fn make_tables(target: &Target, progress: OnProgress<'_>) -> Result<(), Error> {
    let names: Vec<_> = TABLES.iter().map(|table| table.name).collect();
    let drop = format!("DROP TABLE IF EXISTS {} CASCADE", names.join(", "));
    let mut statements = vec![drop.as_str()];
    statements.extend(TABLES.iter().map(|table| table.create));
    statements.push(mark::SET);
    let total = statements.len() as u64;
    let mut conn = connect(target).await?;
    for (done, sql) in (0..).zip(&statements) {
        progress(Progress { phase: "schema", done, total });
        conn.simple(sql).await?;
    }
    progress(Progress { phase: "schema", done: total, total });
    Ok(())
}

async fn connect(target: &Target) -> Result<Connection, Error> {
    let mut conn = Connection::connect(target).await?;
    lift_time_limit(&mut conn).await?;
    conn.simple(PREPARE).await?;
    Ok(conn)
}

/// Works off the steps over `connections`, a thread each, since making rows is work for the processor.
async fn work_off(
    target: &Target,
    connections: usize,
    load: &Arc<Load>,
    phases: &mut Phases<'_>,
) -> Result<(), Error> {
    let _stop = StopOnDrop(Arc::clone(load));
    let start = |_| {
        let (target, load) = (target.clone(), Arc::clone(load));
        thread::spawn(move || load.work(&target).unwrap_or_else(|error| load.fail(error)))
    };
    let mut workers: Vec<_> = (0..connections.min(TABLES.len())).map(start).collect();
    let mut failed_at = None;
    while !workers.is_empty() {
        tokio::time::sleep(LOOK_EVERY).await;
        for worker in workers.extract_if(.., |worker| worker.is_finished()) {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        if load.is_stopped.load(Ordering::Relaxed) {
            // The others are in the middle of a COPY, an index, or a wait for a lock.
            let since: &mut Instant = failed_at.get_or_insert_with(Instant::now);
            if since.elapsed() > GIVE_UP_WITHIN {
                break;
            }
            let _ = tokio::time::timeout(GIVE_UP_WITHIN, target.cancel_all()).await;
        } else {
            phases.look();
        }
    }
    let failure = load.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(()), Err)
}

impl Load {
    /// What one thread does: takes steps with a connection of its own until none is left.
    fn work(&self, target: &Target) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut conn = runtime.block_on(connect(target))?;
        while let Some(step) = self.next_step() {
            runtime.block_on(self.take(&step, &mut conn))?;
            self.steps().end(&step);
            self.changed.notify_all();
        }
        Ok(())
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a step that can begin.
    fn next_step(&self) -> Option<Step> {
        let mut steps = self.steps();
        while !self.is_stopped.load(Ordering::Relaxed) {
            match steps.take() {
                Next::Step(step) => return Some(step),
                Next::Nothing => return None,
                Next::Wait => {
                    let woken = self.changed.wait(steps);
                    steps = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        None
    }

    fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop();
    }

    fn stop(&self) {
        // Under the lock, so that nobody is between looking and waiting.
        let _steps = self.steps();
        self.is_stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    async fn take(&self, step: &Step, conn: &mut Connection) -> Result<(), Error> {
        match &step.work {
            Work::Statement(sql) => conn.simple(sql).await,
            Work::Fill(index) => self.fill(&TABLES[*index], conn).await,
        }
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
                return Err(Error::Stopped);
            }
            table.source.write(self.seed, block, &mut rows);
            let block_rows = table.source.block_rows(self.seed, block);
            written += block_rows;
            if rows.as_bytes().len() >= SEND_BYTES {
                self.send(&mut copy, &mut rows).await?;
            }
            self.rows_done.fetch_add(block_rows, Ordering::Relaxed);
        }
        rows.trailer();
        self.send(&mut copy, &mut rows).await?;
        let taken = copy.finish().await?;
        if taken != written {
            let message = format!("{written} rows of table {name} were sent, and {taken} taken");
            return Err(Error::Protocol(message));
        }
        conn.simple("COMMIT").await?;
        // Finds nothing to do, and notes that all rows are visible: the check of a foreign key may then read
        // keys out of an index alone.
        conn.simple(&format!("VACUUM {name}")).await
    }

    async fn send(&self, copy: &mut CopyIn<'_>, rows: &mut CopyRows) -> Result<(), Error> {
        copy.send(rows.as_bytes()).await?;
        self.copied_bytes.fetch_add(rows.as_bytes().len() as u64, Ordering::Relaxed);
        rows.clear();
        Ok(())
    }
}

/// Reports the first phase that has not ended, and notes when each of them has.
struct Phases<'a> {
    load: Arc<Load>,
    rows: u64,
    /// How many steps each phase has.
    steps: [u64; PHASES.len()],
    progress: OnProgress<'a>,
    reached: usize,
    reported: Option<Instant>,
    /// Since when the phase that is reported has been the first.
    since: Instant,
    /// Phases overlap; these follow each other, and their sum is the whole time.
    seconds: Vec<(&'static str, f64)>,
}

impl<'a> Phases<'a> {
    fn new(load: &Arc<Load>, rows: u64, progress: OnProgress<'a>, began: Instant) -> Self {
        let steps = load.steps();
        let counts = std::array::from_fn(|phase| steps.left(phase) as u64);
        drop(steps);
        Self {
            load: Arc::clone(load),
            rows,
            steps: counts,
            progress,
            reached: 0,
            reported: None,
            since: Instant::now(),
            seconds: vec![("schema", began.elapsed().as_secs_f64())],
        }
    }

    fn look(&mut self) {
        let phase = self.load.steps().phase();
        while self.reached < phase {
            let total = self.total();
            self.report(total);
            let ended = Instant::now();
            self.seconds.push((PHASES[self.reached], (ended - self.since).as_secs_f64()));
            self.since = ended;
            self.reached += 1;
            self.reported = None;
        }
        let is_due = self.reported.is_none_or(|reported| reported.elapsed() >= PROGRESS_EVERY);
        if self.reached < PHASES.len() && is_due {
            let left = self.load.steps().left(self.reached) as u64;
            let done = match self.reached {
                0 => self.load.rows_done.load(Ordering::Relaxed),
                phase => self.steps[phase] - left,
            };
            self.report(done);
        }
    }

    /// Rows of the first phase, steps of the others.
    fn total(&self) -> u64 {
        if self.reached == 0 { self.rows } else { self.steps[self.reached] }
    }

    fn report(&mut self, done: u64) {
        let (phase, total) = (PHASES[self.reached], self.total());
        (self.progress)(Progress { phase, done, total });
        self.reported = Some(Instant::now());
    }
}
