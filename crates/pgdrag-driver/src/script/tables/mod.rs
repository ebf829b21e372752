//! pgbench's own tables: how are they made and filled, as `pgbench -i` does it?
//!
//! The steps are pgbench's letters, in any order. What they leave behind is what pgbench 18 leaves behind, down to
//! the names of constraints and the bytes of each row; only the rows of step `g` come by binary COPY.

mod check;
mod statements;

use std::time::Instant;

use serde::Deserialize;

pub use self::check::{check, conditions};
use crate::error::Error;
use crate::session::copy_rows::CopyRows;
use crate::session::looking::lift_time_limit;
use crate::session::{Connection, CopyIn, Target};
use crate::workload::{LoadSummary, OnProgress, Progress};

/// Tellers at a scale of 1.
pub const TELLERS: u32 = 10;
/// Accounts at a scale of 1.
pub const ACCOUNTS: u32 = 100_000;
/// From this scale on the numbers of accounts need 64 bits.
const WIDE_SCALE: u32 = 20_000;
/// More would not fit into the tellers' 32 bits.
const SCALE_MAX: u32 = i32::MAX as u32 / TELLERS;
/// How much is gathered before it is sent: it stays in a processor's own cache.
const SEND_BYTES: usize = 64 * 1024;
/// Rows between two looks at how far the load has come.
const BATCH_ROWS: u64 = 10_000;

/// How to make the tables: the options of `pgbench -i`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Any of `dtgGvpf`, in the order wanted; spaces are skipped.
    pub steps: String,
    /// Of the three tables that are updated, 10 to 100.
    pub fillfactor: u32,
    /// Partitions of `pgbench_accounts`; 0: it has none.
    pub partitions: u32,
    /// How they are divided.
    pub partition_method: PartitionMethod,
    /// Where the tables lie; null: the database's default.
    pub tablespace: Option<String>,
    /// Where the primary keys lie.
    pub index_tablespace: Option<String>,
    /// Whether the tables write no WAL.
    pub unlogged: bool,
    /// Adds step `f` at the end if it is not among the steps.
    pub foreign_keys: bool,
}

/// How accounts are divided into partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionMethod {
    /// By ranges of `aid`.
    Range,
    /// By hashes of `aid`.
    Hash,
}

/// One step of the initialization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Drop,
    Create,
    Generate,
    GenerateOnServer,
    Vacuum,
    PrimaryKeys,
    ForeignKeys,
}

impl Step {
    fn of(letter: char) -> Result<Self, String> {
        Ok(match letter {
            'd' => Self::Drop,
            't' => Self::Create,
            'g' => Self::Generate,
            'G' => Self::GenerateOnServer,
            'v' => Self::Vacuum,
            'p' => Self::PrimaryKeys,
            'f' => Self::ForeignKeys,
            _ => {
                return Err(format!(
                    r#"key "workload.tables.steps" has an unrecognized initialization step "{letter}"; allowed are "dtgGvpf""#
                ));
            }
        })
    }

    /// The driver's word for the phase that it belongs to.
    fn phase(self) -> &'static str {
        match self {
            Self::Drop | Self::Create => "schema",
            Self::Generate | Self::GenerateOnServer => "populate",
            Self::PrimaryKeys => "index",
            Self::ForeignKeys => "foreign_keys",
            Self::Vacuum => "analyze",
        }
    }
}

impl Tables {
    /// Refuses what pgbench refuses, too; the error is one line that names the key.
    pub fn check(&self, scale: u32) -> Result<(), String> {
        if !(1..=SCALE_MAX).contains(&scale) {
            return Err(format!(
                r#"key "workload.scale" must be between 1 and {SCALE_MAX}, not {scale}"#
            ));
        }
        if !(10..=100).contains(&self.fillfactor) {
            return Err(format!(
                r#"key "workload.tables.fillfactor" must be between 10 and 100, not {}"#,
                self.fillfactor
            ));
        }
        if self.ordered()?.is_empty() {
            return Err(r#"key "workload.tables.steps" must have at least one step"#.into());
        }
        Ok(())
    }

    fn ordered(&self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        for letter in self.steps.chars().filter(|letter| *letter != ' ') {
            steps.push(Step::of(letter)?);
        }
        if self.foreign_keys && !steps.contains(&Step::ForeignKeys) {
            steps.push(Step::ForeignKeys);
        }
        Ok(steps)
    }
}

/// Makes and fills the tables: step by step over one connection, as pgbench does.
pub async fn load(
    tables: &Tables,
    scale: u32,
    target: &Target,
    progress: OnProgress<'_>,
) -> Result<LoadSummary, Error> {
    tables.check(scale).map_err(Error::Fatal)?;
    let steps = tables.ordered().map_err(Error::Fatal)?;
    let mut conn = Connection::connect(target).await?;
    lift_time_limit(&mut conn).await?;
    // A server that is busy with an index looks whether its client is still there.
    conn.simple("SET client_connection_check_interval = '1s'").await?;
    let mut summary = LoadSummary { rows: 0, bytes: 0, phases: Vec::new() };
    for step in steps {
        let began = Instant::now();
        let phase = step.phase();
        if step == Step::Generate {
            let filling =
                Filling { tables, scale, rows: &mut summary.rows, bytes: &mut summary.bytes };
            filling.run(&mut conn, progress).await?;
        } else {
            let statements = statements::of(tables, scale, step);
            let total = statements.len() as u64;
            for (done, sql) in (0..).zip(&statements) {
                progress(Progress { phase, done, total });
                conn.simple(sql).await?;
            }
            progress(Progress { phase, done: total, total });
            if step == Step::GenerateOnServer {
                summary.rows += rows_in_all(scale);
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        match summary.phases.iter_mut().find(|(name, _)| *name == phase) {
            Some((_, sum)) => *sum += seconds,
            None => summary.phases.push((phase, seconds)),
        }
    }
    Ok(summary)
}

fn rows_in_all(scale: u32) -> u64 {
    u64::from(scale) * u64::from(1 + TELLERS + ACCOUNTS)
}

/// Step `g`: rows are made here.
struct Filling<'a> {
    tables: &'a Tables,
    scale: u32,
    rows: &'a mut u64,
    bytes: &'a mut u64,
}

impl Filling<'_> {
    async fn run(self, conn: &mut Connection, progress: OnProgress<'_>) -> Result<(), Error> {
        let Self { tables, scale, rows: all_rows, bytes } = self;
        let total = rows_in_all(scale);
        let mut done = 0;
        conn.simple("BEGIN").await?;
        conn.simple(statements::TRUNCATE).await?;
        for (name, each, write) in [
            ("pgbench_branches", 1, write_branch as fn(&mut CopyRows, i64, bool)),
            ("pgbench_tellers", TELLERS, write_teller),
            ("pgbench_accounts", ACCOUNTS, write_account),
        ] {
            // Rows of a partitioned table cannot be frozen as they come.
            let is_frozen = name != "pgbench_accounts" || tables.partitions == 0;
            let freeze = if is_frozen { ", FREEZE" } else { "" };
            let sql = format!("COPY {name} FROM STDIN WITH (FORMAT binary{freeze})");
            let mut copy = conn.copy_in(&sql).await?;
            let mut buffer = CopyRows::default();
            buffer.header();
            let rows = u64::from(scale) * u64::from(each);
            for number in 1..=rows {
                let number_signed = i64::try_from(number).expect("the scale is bounded");
                write(&mut buffer, number_signed, scale >= WIDE_SCALE);
                if buffer.as_bytes().len() >= SEND_BYTES {
                    *bytes += send(&mut copy, &mut buffer).await?;
                }
                if number % BATCH_ROWS == 0 {
                    progress(Progress { phase: "populate", done: done + number, total });
                }
            }
            buffer.trailer();
            *bytes += send(&mut copy, &mut buffer).await?;
            let taken = copy.finish().await?;
            if taken != rows {
                let message = format!("{rows} rows of table {name} were sent, and {taken} taken");
                return Err(Error::Protocol(message));
            }
            done += rows;
        }
        progress(Progress { phase: "populate", done, total });
        *all_rows += done;
        conn.simple("COMMIT").await
    }
}

async fn send(copy: &mut CopyIn<'_>, rows: &mut CopyRows) -> Result<u64, Error> {
    let bytes = rows.as_bytes().len() as u64;
    copy.send(rows.as_bytes()).await?;
    rows.clear();
    Ok(bytes)
}

fn write_branch(rows: &mut CopyRows, number: i64, _: bool) {
    rows.begin(3);
    rows.int4(narrow(number));
    rows.int4(0);
    rows.null();
}

fn write_teller(rows: &mut CopyRows, number: i64, _: bool) {
    rows.begin(4);
    rows.int4(narrow(number));
    rows.int4(narrow((number - 1) / i64::from(TELLERS) + 1));
    rows.int4(0);
    rows.null();
}

fn write_account(rows: &mut CopyRows, number: i64, is_wide: bool) {
    rows.begin(4);
    if is_wide {
        rows.int8(number);
    } else {
        rows.int4(narrow(number));
    }
    rows.int4(narrow((number - 1) / i64::from(ACCOUNTS) + 1));
    rows.int4(0);
    // Eighty-four blanks, which the server adds.
    rows.text(b"");
}

fn narrow(number: i64) -> i32 {
    i32::try_from(number).expect("the scale is bounded")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(steps: &str) -> Tables {
        let value = serde_json::json!({
            "steps": steps, "fillfactor": 100, "partitions": 0, "partition_method": "range",
            "tablespace": null, "index_tablespace": null, "unlogged": false, "foreign_keys": true,
        });
        serde_json::from_value(value).expect("the keys of the contract")
    }

    #[test]
    fn foreign_keys_are_a_step_once() {
        assert_eq!(tables("d t").ordered().unwrap(), [Step::Drop, Step::Create, Step::ForeignKeys]);
        assert_eq!(tables("fd").ordered().unwrap(), [Step::ForeignKeys, Step::Drop]);
    }

    #[test]
    fn what_pgbench_refuses_is_refused_by_name() {
        for (steps, scale, fillfactor, words) in [
            ("dtx", 1, 100, r#"unrecognized initialization step "x""#),
            ("dt", 0, 100, r#""workload.scale" must be between 1 and 214748364, not 0"#),
            ("dt", 1, 9, r#""workload.tables.fillfactor" must be between 10 and 100, not 9"#),
        ] {
            let tables = Tables { fillfactor, ..tables(steps) };
            let refused = tables.check(scale).expect_err(words);
            assert!(refused.contains(words), "{refused}");
        }
    }
}
