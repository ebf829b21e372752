//! What must a workload offer so that the driver can load it, run it and check it?
//!
//! The engine knows transactions by their index only; a workload gives the indexes names and a
//! meaning. [`Workload`] is shared by all threads, a [`Terminal`] belongs to one client.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::io::timer::Timers;
use crate::session::{Connection, Target};

/// How far a phase of loading has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// `schema`, `populate`, `index`, `foreign_keys` or `analyze`.
    pub phase: &'static str,
    /// Rows in `populate`, statements in the other phases.
    pub done: u64,
    /// What `done` will be at the end of the phase.
    pub total: u64,
}

/// What loading did.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSummary {
    /// Rows in all tables.
    pub rows: u64,
    /// Bytes sent through COPY.
    pub bytes: u64,
    /// Seconds by phase, in the order in which they ran.
    pub phases: Vec<(&'static str, f64)>,
}

/// A consistency condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The condition's name.
    pub condition: String,
    /// What was found, in one line.
    pub message: String,
    /// How many rows or groups break it.
    pub count: u64,
}

/// How an attempt at a transaction ended when the server raised no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The server confirmed COMMIT.
    Committed,
    /// Rolled back because the workload says so.
    RolledBack,
}

/// A statement of a workload, as people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementName {
    /// The transaction's index.
    pub transaction: usize,
    /// Where it begins in its script.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// A statement of a workload with values that a client may send with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The transaction's index.
    pub transaction: usize,
    /// Its text, with `$1`, `$2` … in the places of values.
    pub text: String,
    /// The values as text; `None` is NULL.
    pub values: Vec<Option<String>>,
}

/// One execution of a statement.
#[derive(Debug, Clone, Copy)]
pub struct Lap {
    /// The statement's index.
    pub statement: usize,
    /// From when it was sent to its whole answer; `None`: it failed.
    pub latency: Option<Duration>,
}

/// What the values of one variable came to's values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// The sum of the values that were committed.
    pub sum: i64,
    /// The server's transactions that committed a value.
    pub committed: u64,
    /// Those of them in which the statement with the value touched no row.
    pub untouched: u64,
    /// Those of which nobody knows whether they committed.
    pub unknown: u64,
    /// What all of these add to the sum at least, if they committed: their negative values.
    pub unknown_low: i64,
    /// What they add at most: their positive values.
    pub unknown_high: i64,
}

/// What the clients do.
pub trait Workload: Send + Sync + 'static {
    /// One client's part of it.
    type Terminal: Terminal;

    /// The names of the transactions; their indexes are what [`Terminal::draw`] returns.
    fn transactions(&self) -> Arc<[Arc<str>]>;

    /// How often each transaction is drawn, in proportion.
    fn weights(&self) -> Vec<f64>;

    /// How often a transaction is tried, in all, that fails with a serialization failure or a
    /// deadlock; 0: without limit.
    fn max_tries(&self) -> u32;

    /// Whether a transaction that fails with a deadlock is tried again, too.
    fn retries_deadlocks(&self) -> bool {
        true
    }

    /// The statements whose executions terminals tell; none: they tell of none.
    fn statements(&self) -> Vec<StatementName> {
        Vec::new()
    }

    /// What variables sum to over the transactions that committed, by name; asked when no terminal does
    /// anything any more.
    fn sums(&self) -> Vec<(String, Sum)> {
        Vec::new()
    }

    /// All statements that clients send within a transaction; the same seed gives the same values.
    fn examples(&self) -> Vec<Example> {
        Vec::new()
    }

    /// Makes sure, once a run, that the server has the dataset that the job speaks of.
    fn expect_dataset(&self, conn: &mut Connection) -> impl Future<Output = Result<(), Error>> {
        let _ = conn;
        std::future::ready(Ok(()))
    }

    /// Makes client number `client` of `clients` ready to run on `conn`.
    fn terminal(
        &self,
        client: u32,
        clients: u32,
        conn: &mut Connection,
    ) -> impl Future<Output = Result<Self::Terminal, Error>>;
}

/// One client's stream of transactions.
pub trait Terminal: 'static {
    /// Draws the next transaction and its inputs, so that a retry repeats them.
    fn draw(&mut self) -> usize;

    /// Tries the transaction that was drawn, once, from BEGIN to COMMIT.
    ///
    /// Where it has to wait for a moment, `timers` does it to the microsecond.
    fn attempt(
        &mut self,
        conn: &mut Connection,
        timers: &Timers,
    ) -> impl Future<Output = Result<Ended, Error>>;

    /// An attempt has failed, and nothing is rolled back yet; `is_broken` where the connection is, too.
    fn attempt_failed(&mut self, is_broken: bool) {
        let _ = is_broken;
    }

    /// Makes the session fit for the next attempt, after one that failed and was rolled back.
    fn after_failure(&mut self, conn: &mut Connection) -> impl Future<Output = Result<(), Error>> {
        let _ = conn;
        std::future::ready(Ok(()))
    }

    /// Hands over the executions of statements since the last call.
    fn take_laps(&mut self, take: &mut dyn FnMut(Lap)) {
        let _ = take;
    }

    /// How long the user takes to enter the transaction that was drawn: before it, outside of latency.
    fn keying(&mut self) -> Duration {
        Duration::ZERO
    }

    /// How long the user thinks about its result: after it, outside of latency.
    fn thinking(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Makes the client ready to go on with a new connection.
    fn reconnect(&mut self, conn: &mut Connection) -> impl Future<Output = Result<(), Error>>;
}

/// Where a load reports how far it has come.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress);

/// Fills a server with a workload's tables, and looks whether they are consistent.
pub trait Dataset {
    /// Makes and fills the tables over `parallelism` connections.
    fn load(
        &self,
        target: &Target,
        parallelism: usize,
        progress: OnProgress<'_>,
    ) -> impl Future<Output = Result<LoadSummary, Error>>;

    /// Looks for violated consistency conditions, reading only.
    fn check(&self, conn: &mut Connection) -> impl Future<Output = Result<Vec<Violation>, Error>>;

    /// The names of the conditions that [`Dataset::check`] looks at.
    fn conditions(&self) -> Vec<String>;
}
