//! How many transactions does a PostgreSQL server manage under a given load, and how did each end?
//!
//! The driver takes one JSON job and answers in JSON lines (`docs/reference/driver-contract.md`).
//! In the order in which a job goes through it:
//!
//! - [`job`], [`app`]: what is asked for, and who does it
//! - [`run`](mod@run), `crew`, `intervals`, [`output`]: the coordinator, its threads, and what they tell
//! - [`window`], [`steps`], [`schedule`], [`pacing`]: when it opens and ends, how many clients work, when
//!   transactions are due, and which client takes them
//! - `worker`, `connecting`, `crowd`, `clients`, `canceller`: a thread, and what each of its clients does
//! - `reactor`, `stream`, `exchange`: which socket has news, and the bytes that go through it
//! - `tally`, [`samples`], [`shares`]: what is counted
//! - [`clock`], [`timer`], [`process`]: time, waiting, and what the driver itself uses
//! - [`workload`], [`tpcc`], [`script`]: what the transactions are
//! - [`watch`](mod@watch): what the server's processes wait for
//! - [`pgbench_tables`], `copy_rows`, `copy_in`, `looking`: how tables are filled and looked at
//! - [`connection`], [`statement`], [`flight`], [`answers`], [`values`], [`target`], [`error`]: one
//!   session with the server

#![allow(async_fn_in_trait)]

pub mod answers;
pub mod app;
mod calls;
mod canceller;
mod clients;
pub mod clock;
mod connecting;
pub mod connection;
mod copy_in;
mod copy_rows;
mod crew;
mod crowd;
pub mod error;
mod exchange;
pub mod flight;
mod intervals;
pub mod job;
mod looking;
pub mod output;
pub mod pacing;
pub mod pgbench_tables;
pub mod process;
mod reactor;
pub mod run;
pub mod samples;
pub mod schedule;
pub mod script;
mod session;
pub mod shares;
pub mod statement;
pub mod steps;
mod stream;
mod tally;
pub mod target;
pub mod timer;
pub mod tpcc;
pub mod values;
mod waiting;
pub mod watch;
pub mod window;
mod worker;
pub mod workload;
