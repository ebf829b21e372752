//! What is TPC-C here?
//!
//! The schema, statements and inputs that BenchBase uses on PostgreSQL, so that the server does the
//! same work. A statement is one round trip, unless the job asks for pipelined ones: then the
//! statements of a transaction that do not need each other's answers share a flight, COMMIT with the
//! last ones. Where it differs from BenchBase:
//!
//! - Money is exact: scaled integers here, NUMERIC on the wire.
//! - One seed stands behind every row and every draw; rows carry one fixed date instead of the time of
//!   loading. They come by COPY, and keys and constraints follow.
//! - Payment adds to a customer's balance instead of writing one that it has read (see `payment`).
//! - With one warehouse every order counts as local; BenchBase marks the remote lines that it could
//!   not place elsewhere.
//! - A job may ask for the specification's terminals, keying and think times instead of BenchBase's.

mod check;
mod customer;
mod delivery;
mod examples;
mod inputs;
mod load;
mod mark;
mod new_order;
mod order_status;
mod payment;
mod population;
mod random;
mod rows;
mod schema;
mod sizes;
mod steps;
mod stock_level;
mod terminal;
mod waits;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use self::terminal::Terminal;
use crate::error::Error;
use crate::job::TpccJob;
use crate::session::{Answers, Connection, Params, Row, Rows, Target};
use crate::workload::{Dataset, Example, LoadSummary, OnProgress, Violation, Workload};

/// TPC-C with its parameters: the workload, and the dataset that it needs.
#[derive(Debug, Clone)]
pub struct Tpcc {
    job: TpccJob,
    seed: u64,
}

/// The identifiers of the schema are 32 bits wide; this many warehouses keep every product within.
const WAREHOUSES_MAX: u32 = 1_000_000;

impl Tpcc {
    /// The names of the transactions, in the order of the mix.
    pub const TRANSACTIONS: [&'static str; 5] =
        ["new_order", "payment", "order_status", "delivery", "stock_level"];

    /// Prepares to load, run or check what the job describes.
    ///
    /// The error is one line that names the key and the value.
    pub fn new(job: &TpccJob, seed: u64) -> Result<Self, String> {
        if job.warehouses == 0 || job.warehouses > WAREHOUSES_MAX {
            return Err(format!(
                r#"key "workload.warehouses" must be between 1 and {WAREHOUSES_MAX}, not {}"#,
                job.warehouses
            ));
        }
        Ok(Self { job: job.clone(), seed })
    }
}

impl Workload for Tpcc {
    type Terminal = Terminal;

    fn transactions(&self) -> Arc<[Arc<str>]> {
        Self::TRANSACTIONS.map(Arc::from).into()
    }

    fn weights(&self) -> Vec<f64> {
        self.job.mix.weights().to_vec()
    }

    fn max_tries(&self) -> u32 {
        self.job.max_tries
    }

    fn retries_deadlocks(&self) -> bool {
        self.job.retry_deadlocks
    }

    fn examples(&self) -> Vec<Example> {
        examples::examples(self.job.warehouses, self.seed)
    }

    async fn expect_dataset(&self, conn: &mut Connection) -> Result<(), Error> {
        terminal::expect_warehouses(self.job.warehouses, conn).await
    }

    async fn terminal(
        &self,
        client: u32,
        clients: u32,
        conn: &mut Connection,
    ) -> Result<Terminal, Error> {
        Terminal::open(&self.job, self.seed, (client, clients), conn).await
    }
}

impl Dataset for Tpcc {
    async fn load(
        &self,
        target: &Target,
        parallelism: usize,
        progress: OnProgress<'_>,
    ) -> Result<LoadSummary, Error> {
        load::load(target, parallelism, (self.seed, self.job.warehouses), progress).await
    }

    async fn check(&self, conn: &mut Connection) -> Result<Vec<Violation>, Error> {
        check::check(conn).await
    }

    fn conditions(&self) -> Vec<String> {
        check::CONDITIONS.iter().map(|condition| condition.name.to_owned()).collect()
    }
}

/// Buffers that a terminal's transactions share and reuse.
#[derive(Debug, Default)]
struct Scratch {
    params: Params,
    /// New-Order: values for all its order lines, and for all its stock.
    lines: Params,
    stock: Params,
    /// Delivery: values for all its bills.
    bills: Params,
    /// Payment: the text for the history, and for a customer with bad credit.
    names: String,
    notes: String,
}

/// The first row of an answer that must have one.
fn expect_row<'a>(what: &str, rows: Rows<'a>) -> Result<Row<'a>, Error> {
    rows.first()?.ok_or_else(|| Error::Workload(format!("{what} does not exist")))
}

/// Makes sure that a statement changed one row.
fn expect_one(what: &str, rows_affected: u64) -> Result<(), Error> {
    expect(what, 1, rows_affected)
}

/// Makes sure that statements changed so many rows.
fn expect(what: &str, wanted: u64, rows_affected: u64) -> Result<(), Error> {
    if rows_affected == wanted {
        Ok(())
    } else {
        Err(Error::Workload(format!("change of {wanted} {what} changed {rows_affected} rows")))
    }
}

/// Makes sure that the next statements of a flight changed one row each.
fn expect_each(what: &str, statements: usize, answers: &mut Answers<'_>) -> Result<(), Error> {
    for _ in 0..statements {
        expect_one(what, answers.take()?.rows_affected()?)?;
    }
    Ok(())
}

/// The current time as PostgreSQL counts, in µs since 2000, UTC.
fn now() -> i64 {
    const UNIX_TO_2000_US: i64 = 946_684_800 * 1_000_000;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since_1970.as_micros()).expect("microseconds fit into 64 bits") - UNIX_TO_2000_US
}
